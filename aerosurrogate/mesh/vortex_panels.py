"""Potential flow around a section: what air without friction does that leaves the trailing edge smoothly.

Vortex panels, each of one strength, on whose middles the stream function is the same (Kennedy and Marsden, 1976). It
takes milliseconds and knows lift, suction peaks and the way round the nose; what friction makes of them is a model's to
learn.

Complex numbers stand for points and vectors of the plane. The functions take numpy's arrays or torch's tensors, whose
namespace is `xp`: the gradient of a model goes through them.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.surface import Floats, Surface

BLUNT, BEHIND = 0.9, 0.02  # a panel that faces so much downstream, so few chords from the end: the base of a blunt edge
NEAR = 4.0  # panel lengths within which a panel is more than a vortex in its middle
SHORT = 1e-9  # of the section's length: a panel without any
STRONG = 100.0  # times the stream: no air goes so fast round a section that has a thickness
OFF = 0.0025  # chords: nearer to the skin the flow is taken so far from it, where panels do not tell their ends


@dataclass(frozen=True)
class Edge:
    """Where the flow leaves a section: its last panels above and below, and those of the base between them."""

    upper: int
    lower: int
    base: NDArray[np.int64]

    @classmethod
    def of(cls, corners: Floats) -> "Edge":
        """Of panels (n, 2, 2), in any order, with the air on their right-hand side."""
        along = corners[:, 1] - corners[:, 0]
        normals = np.stack([along[:, 1], -along[:, 0]], axis=1) / np.linalg.norm(along, axis=1)[:, None]
        rear = corners[:, :, 0].max(axis=1)
        chord = rear.max() - corners[:, :, 0].min()
        base = (normals[:, 0] > BLUNT) & (corners[:, :, 0].mean(axis=1) > rear.max() - BEHIND * chord)
        above = normals[:, 1] > 0
        upper, lower = (np.argmax(np.where(side & ~base, rear, -np.inf)) for side in (above, ~above))
        return cls(int(upper), int(lower), np.flatnonzero(base))


@dataclass(frozen=True, eq=False)
class SectionFlow:
    """The flow around the panels (n, 2, 2) of a section, in metres, in any stream; solved when first asked for."""

    panels: Floats

    @classmethod
    def around(cls, surface: Surface) -> "SectionFlow":
        return cls(surface.corners[surface.areas > SHORT * surface.length])

    @classmethod
    def of_skin(cls, centres: NDArray, normals: NDArray, lengths: NDArray) -> "SectionFlow":
        """Of a skin known by its faces: centres, normals (n, 2) and lengths (n,) m."""
        along = 0.5 * lengths[:, None] * np.stack([-normals[:, 1], normals[:, 0]], axis=1)
        return cls(np.stack([centres - along, centres + along], axis=1).astype(float))

    @cached_property
    def strengths(self) -> Floats:
        """(n, 2): of streams along x and along y."""
        try:
            found = np.asarray(strengths(self.panels, Edge.of(self.panels), np))
        except np.linalg.LinAlgError:
            found = np.full((1, 2), np.inf)
        if not np.abs(found).max() < STRONG:
            extents = np.ptp(self.panels.reshape(-1, 2), axis=0)
            raise InputError(
                "no potential flow goes around this section, which the model sees",
                seen=f"{len(self.panels)} sides, {extents[0]:.3g} m long and {extents[1]:.3g} m high",
                remedy="give an outline with an upper and a lower side that do not touch or cross",
            )
        return found

    def seen(self, points: NDArray, away: NDArray, distance: NDArray, alpha: float) -> NDArray[np.float32]:
        """Velocity over the stream's, and the lift coefficient: (m, 3).

        At points (m, 2), a distance (m,) from the skin in the direction `away` (m, 2); alpha in degrees.
        """
        panels, flow = self.panels.astype(np.float32), self.strengths.astype(np.float32)
        return np.asarray(seen(panels, flow, points, away, distance, np.float32(np.radians(alpha)), np))

    def moved(self, by: NDArray) -> "SectionFlow":
        return replace(self, panels=self.panels + by)

    def mirrored(self) -> "SectionFlow":
        """Around the section upside down."""
        return replace(self, panels=self.panels[:, ::-1] * [1.0, -1.0])


def strengths(panels: Any, edge: Edge, xp: Any) -> Any:
    """Vortex strengths (n, 2), counter-clockwise, of panels (n, 2, 2) in streams of 1 along x and along y.

    The base of a blunt trailing edge has none: the flow leaves at its corners.
    """
    starts, ends = _ends(panels)
    n, middles = len(starts), 0.5 * (starts + ends)
    matrix, right = xp.zeros((n + 1, n + 1), dtype=xp.float64), xp.zeros((n + 1, 2), dtype=xp.float64)
    matrix[:n, :n] = _stream_functions(middles, starts, ends, xp)
    matrix[:n, n] = 1.0  # the stream function on the skin, which is not known
    matrix[n, edge.upper] = matrix[n, edge.lower] = 1.0  # the same speed on both sides of the edge
    right[:n, 0], right[:n, 1] = -middles.imag, middles.real
    matrix[edge.base], right[edge.base] = 0.0, 0.0
    matrix[edge.base, edge.base] = 1.0
    return xp.linalg.solve(matrix, right)[:n]


def seen(panels: Any, strengths: Any, points: Any, away: Any, distance: Any, angle: Any, xp: Any) -> Any:
    """What `SectionFlow.seen` says, of arrays or tensors; the angle in radians."""
    starts, ends = _ends(panels)
    chord = panels[:, :, 0].max() - panels[:, :, 0].min()
    lift_off = OFF * chord - distance
    z = _plane(points + xp.where(lift_off > 0, lift_off, 0.0 * lift_off)[:, None] * away)
    of_panels = strengths[:, 0] * xp.cos(angle) + strengths[:, 1] * xp.sin(angle)
    conjugate = _velocities(z, starts, ends, of_panels, xp)
    lift = -2.0 * (of_panels * abs(ends - starts)).sum() / chord
    return xp.stack([xp.cos(angle) + conjugate.real, xp.sin(angle) - conjugate.imag, 0.0 * z.real + lift], 1)


def _ends(panels: Any) -> tuple[Any, Any]:
    return _plane(panels[:, 0]), _plane(panels[:, 1])


def _plane(points: Any) -> Any:
    return points[:, 0] + 1j * points[:, 1]


def _stream_functions(z: Any, starts: Any, ends: Any, xp: Any) -> Any:
    """(m, n) at points (m,), of panels of strength 1: -1/(2 pi) times the integral of ln |z - s| along each."""
    lengths = abs(ends - starts)
    there = (z[:, None] - starts) * ((ends - starts) / lengths).conj()
    x, y = there.real, there.imag
    angle = xp.arctan2(y * lengths, x * (x - lengths) + y**2)
    before, after = x**2 + y**2 + 1e-30, (x - lengths) ** 2 + y**2 + 1e-30
    return -(0.5 * (x * xp.log(before) - (x - lengths) * xp.log(after)) - lengths + y * angle) / (2 * np.pi)


def _velocities(z: Any, starts: Any, ends: Any, strengths: Any, xp: Any) -> Any:
    """Conjugate velocities (m,) at points (m,) of panels of these strengths (n,)."""
    along = ends - starts
    away = z[:, None] - 0.5 * (starts + ends)
    at, panel = xp.where(abs(away) < NEAR * abs(along))
    kernel = 1.0 / away  # as if all of a panel were in its middle
    kernel[at, panel] = xp.log((z[at] - starts[panel]) / (z[at] - ends[panel])) / along[panel]
    return -0.5j / np.pi * (kernel @ (abs(along) * strengths + 0j))
