"""Potential flow around a body: how air without friction slides along its skin, over its mirror image in the ground.

The skin is cut into panels that are points with an area and a normal; each is a source, as strong as it takes to let no
air through any of them. That takes hundredths of a second, needs no connected mesh, and knows where the stream is held
up, how it speeds up around corners and how the ground squeezes it; where it leaves the body is a model's to learn.

The functions take numpy's arrays or torch's tensors, whose namespace is `xp`: a model's gradient goes through them.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from aerosurrogate.mesh.surface import Floats, Surface
from aerosurrogate.mesh.surroundings import on_skin

# A power of 2, and points of the skin that make a panel: with a quarter of these points, what is seen of the same body
# differs by half as much again from draw to draw.
PANELS, POINTS = 512, 16
SOFT = 0.5  # of a panel's area: a source is spread so far that its neighbours do not feel a needle
FASTEST = 2.5  # times the stream; only a sharp edge has more
NEIGHBOURS = 3  # panels that the flow at a place is a mean of


class Panels(NamedTuple):
    """Equal shares of a skin: which of its points each is the mean of, and how much area all have together, m2."""

    points: NDArray[np.int64]  # (PANELS, POINTS)
    area: float

    @classmethod
    def of(cls, points: NDArray, normals: NDArray, areas: NDArray) -> "Panels":
        """By halving the skin again and again across its longest extent in place, in panel widths, and direction."""
        area, count = float(areas.sum(dtype=float)), PANELS * POINTS
        order = KDTree(points).indices  # neighbours in a row, so that an even step covers the body evenly
        reach = np.cumsum(areas[order], dtype=float)
        rows = order[np.searchsorted(reach, (np.arange(count) + 0.5) / count * reach[-1])][None]
        where = np.concatenate([points / np.sqrt(area / PANELS), normals], axis=1)
        while len(rows) < PANELS:
            seen = where[rows]
            longest = np.ptp(seen, axis=1).argmax(axis=1)[:, None, None]
            turn = np.take_along_axis(seen, longest, axis=2)[..., 0].argsort(axis=1, kind="stable")
            rows = np.take_along_axis(rows, turn, axis=1).reshape(2 * len(rows), -1)
        return cls(rows, area)


@dataclass(frozen=True, eq=False)
class BodyFlow:
    """The flow along +x past a skin of points (n, 3) with outward normals (n, 3) and areas (n,), in one unit of length.

    `ground` is the height of a wall that moves with the stream. Solved when first asked for.
    """

    points: NDArray
    normals: NDArray
    areas: NDArray
    ground: float | None

    @classmethod
    def around(cls, surface: Surface, ground: float | None) -> "BodyFlow":
        """Of the surface of a body, at points that are the same whenever they are drawn."""
        skin = on_skin(surface, PANELS * POINTS, 0)
        return cls(
            skin.points,
            surface.normals[skin.cells],
            np.full(len(skin.points), surface.areas.sum() / len(skin.points)),
            ground,
        )

    @cached_property
    def panels(self) -> Panels:
        return Panels.of(self.points, self.normals, self.areas)

    @cached_property
    def solved(self) -> tuple[KDTree, Floats]:
        """The panels by place and direction, and the velocity along each over the stream's (PANELS, 3)."""
        panels = self.panels
        skin = self.points.astype(np.float32), self.normals.astype(np.float32)
        centres, normals = centres_and_normals(*skin, panels, np)
        velocity = np.asarray(slip(centres, normals, panels.area, self.ground, np))
        return KDTree(self._key(centres, normals)), velocity

    def seen(self, points: NDArray, away: NDArray, distance: NDArray, alpha: float = 0.0) -> NDArray[np.float32]:
        """Velocity over the stream's and pressure coefficient at the places of the skin nearest to points: (m, 4).

        Points (m, 3) lie a distance (m,) from the skin in the direction `away` (m, 3). The stream is along +x.
        """
        rows, weights = self.between(points, away, distance)
        velocity = np.einsum("mk,mkd->md", weights, self.solved[1][rows])
        return np.asarray(with_pressure(velocity, np), np.float32)

    def between(self, points: NDArray, away: NDArray, distance: NDArray) -> tuple[NDArray[np.int64], Floats]:
        """The panels next to the places of the skin nearest to points, that face alike, and their weights:
        (m, NEIGHBOURS) each."""
        gaps, rows = self.solved[0].query(self._key(points - distance[:, None] * away, away), NEIGHBOURS)
        weights = 1.0 / (gaps**2 + 0.05)
        return rows, weights / weights.sum(axis=1, keepdims=True)

    def _key(self, points: NDArray, normals: NDArray) -> Floats:
        return np.concatenate([points / np.sqrt(self.panels.area / PANELS), normals], axis=1)

    def moved(self, by: NDArray) -> "BodyFlow":
        return replace(self, points=self.points + by, ground=None if self.ground is None else self.ground + by[2])


def centres_and_normals(points: Any, normals: Any, panels: Panels, xp: Any) -> tuple[Any, Any]:
    """Of panels, (PANELS, 3) each, from the skin's points and normals (n, 3)."""
    directions = normals[panels.points].mean(1)
    sizes = xp.sqrt((directions**2).sum(1))[:, None] + 1e-9
    return points[panels.points].mean(1), directions / sizes


def slip(centres: Any, normals: Any, area: Any, ground: float | None, xp: Any) -> Any:
    """Velocity over the stream's (n, 3) along n panels that share an area; the stream goes along +x.

    All that a source gives leaves through the outer side of the skin, half of it through the panel itself: what the
    other panels, which are but points, do not account for goes through it too. No air is lost that way.
    """
    n = len(centres)
    each = area / n
    stream = xp.zeros((n, 3), dtype=centres.dtype)
    stream[:, 0] = 1.0
    towards = normals @ centres.T
    kernel = _kernel(centres, centres, each, xp)
    through = (xp.diagonal(towards)[:, None] - towards) * kernel
    through = through + xp.diag(1.0 - through.sum(0))
    images = None
    if ground is not None:
        flip, shift = xp.ones(3, dtype=centres.dtype), xp.zeros(3, dtype=centres.dtype)
        flip[2], shift[2] = -1.0, 2 * ground
        images = centres * flip + shift
        beyond = _kernel(centres, images, each, xp)
        through = through + ((normals * centres).sum(1)[:, None] - normals @ images.T) * beyond
    strengths = xp.linalg.solve(through, -normals[:, :1])
    velocity = stream + kernel @ strengths * centres - kernel @ (strengths * centres)
    if images is not None:
        velocity = velocity + beyond @ strengths * centres - beyond @ (strengths * images)
    velocity = velocity - (velocity * normals).sum(1)[:, None] * normals
    speed = xp.sqrt((velocity**2).sum(1) + 1e-12)[:, None]
    return velocity * xp.where(speed > FASTEST, FASTEST / speed, 1.0 + 0.0 * speed)


def with_pressure(velocity: Any, xp: Any) -> Any:
    """Velocities over the stream's (m, 3), and the pressure coefficient that belongs to each: (m, 4)."""
    return xp.concatenate([velocity, 1.0 - (velocity**2).sum(1)[:, None]], 1)


def _kernel(points: Any, sources: Any, each: Any, xp: Any) -> Any:
    """(m, n): what a source of strength 1 on an area gives at points (m, 3), but for the way from it to them."""
    squares = (points**2).sum(1)[:, None] + (sources**2).sum(1) - 2 * points @ sources.T
    reach = squares * (squares > 0) + SOFT * each
    return each / (4 * np.pi * reach * xp.sqrt(reach))
