"""A structured C-grid around an airfoil, as an OpenFOAM mesh one cell thick.

The root zeta = sqrt(z - z0) of mesh/outline.py unwraps airfoil and wake into a nearly flat line, the lower side to the
left and the upper side to the right, with the stream above it. Grid lines leave that line along its smoothed normal and
relax to the vertical. Back in the plane of the airfoil the far field is a parabola; the cells grow
with the distance from the nose by themselves. A blunt trailing edge opens the cut into a strip of cells that starts at
the base and widens with the wake.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.ndimage import gaussian_filter1d
from scipy.optimize import brentq

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.outline import is_open, unrolled
from aerosurrogate.simulate import openfoam

Array = np.ndarray
SHARP = 0.001  # chords: a trailing edge up to this is closed, thinner than the cells around it
BLUNT = 0.03  # chords: the thickest trailing edge that is meshed
WAKE_GROWTH = 1e-4  # height that the innermost cells of the wake win with the distance
STRIP_GROWTH = 0.1  # the most that the width of the strip behind a blunt edge wins with it
EVEN_BEYOND = 1.0  # distance in zeta at which lines turn to even steps; nearer they are the mapping's: orthogonal


@dataclass(frozen=True)
class Resolution:
    """Cells along one side of the airfoil, along the wake, and across; all even, for the half-resolution grid."""

    side: int
    wake: int
    across: int
    far: float = (
        4000.0  # chords to the far field; drag still depends on it, see benchmarks/results/validation_airfoils.md
    )

    @property
    def base(self) -> int:
        """Cells over the base of a blunt trailing edge; even too."""
        return self.across // 6 * 2


@dataclass(frozen=True)
class CGrid:
    """Corner points (ni + 1, nj + 1, 2): i along the C from below to above, j from the airfoil and wake cut outwards.

    The first and last `wake` columns of cells meet along the cut, or have a `strip` between them: corner points
    (wake + 1, nk + 1, 2), i from the base downstream, k from the lower to the upper cut.
    """

    points: Array
    wake: int
    strip: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Cells along and across, the strip left out."""
        return self.points.shape[0] - 1, self.points.shape[1] - 1

    @property
    def blocks(self) -> tuple[Array, ...]:
        """The corner points of the C and, of a blunt section, of the strip behind it."""
        return (self.points,) if self.strip is None else (self.points, self.strip)

    def halved(self) -> CGrid:
        """Every second line: the grid on which the solution starts."""
        points, *strip = (block[::2, ::2] for block in self.blocks)
        return CGrid(points, self.wake // 2, *strip)

    def scaled(self, length: float) -> CGrid:
        """The grid of a chord of `length` metres."""
        points, *strip = (block * length for block in self.blocks)
        return CGrid(points, self.wake, *strip)

    def areas(self) -> Array:
        """Smallest signed area of the four corner triangles of each cell, (cells,); all positive in a sound grid."""
        return np.concatenate([_corner_areas(block).ravel() for block in self.blocks])


def _corner_areas(p: Array) -> Array:
    """Smallest signed area of the four corner triangles of each cell between the points (n + 1, m + 1, 2), (n, m)."""
    corners = [p[:-1, :-1], p[1:, :-1], p[1:, 1:], p[:-1, 1:]]
    smallest = np.full(corners[0].shape[:2], np.inf)
    for k in range(4):
        a, b, c = (corners[(k + m) % 4] for m in (0, 1, 3))
        cross = (b - a)[..., 0] * (c - a)[..., 1] - (b - a)[..., 1] * (c - a)[..., 0]
        smallest = np.minimum(smallest, 0.5 * cross)
    return smallest


def grid(curve: Array, resolution: Resolution, first_cell: float, wake_angle: float = 0.0) -> CGrid:
    """The C-grid around the closed `curve` (n, 2) from the trailing edge over the upper side (mesh.airfoil), chord 1.

    `first_cell`: height of the cells at the wall in chords. `wake_angle`: direction in radians to which the cut turns.
    """
    z = _outline(curve[:, 0] + 1j * curve[:, 1])
    nose = int(np.argmin(z.real))
    zeta, z0 = unrolled(z)
    base, heights = _base_line(zeta, len(z) - 1 - nose, resolution, first_cell, wake_angle)
    lines = _lines(base, heights, resolution)
    plane = z0 + lines**2
    wake = resolution.wake
    if z[0] == z[-1]:
        plane[: wake + 1, 0] = plane[-1 : -wake - 2 : -1, 0]  # one and the same cut, to the last bit
        return CGrid(_pairs(plane), wake)
    below, above = plane[wake::-1, 0], plane[-wake - 1 :, 0]
    return CGrid(_pairs(plane), wake, _pairs(_strip(below, above, first_cell, resolution.base)))


def _pairs(z: Array) -> Array:
    return np.stack([z.real, z.imag], axis=-1)


def _outline(z: Array) -> Array:
    """The outline from trailing edge to trailing edge, the same point twice where it is sharp.

    One that is hardly blunt is closed by taking its thickness off linearly.
    """
    gap = z[0] - z[-1]
    if not is_open(z):
        return np.append(z, z[0])
    if abs(gap) > BLUNT:
        raise InputError(
            "the trailing edge is too thick for this kind of grid",
            seen=f"{abs(gap):.1%} of the chord",
            remedy=f"give a section with at most {BLUNT:.0%}",
        )
    if abs(gap) > SHARP:
        return z
    nose = int(np.argmin(z.real))
    side = np.where(np.arange(len(z)) < nose, 0.5, -0.5)
    side[nose] = 0.0
    closed = z - side * gap * z.real
    closed[-1] = closed[0]
    return closed


def _strip(below: Array, above: Array, height: float, cells: int) -> Array:
    """Points (wake + 1, cells + 1) between the lower and the upper cut (wake + 1,), at the base `height` from both."""
    first = height / abs(above[0] - below[0])
    half = first * np.cumsum(_growth(first, 0.5, cells // 2) ** np.arange(cells // 2))
    share = np.concatenate([[0.0], half, 1 - half[-2::-1], [1.0]])
    return below[:, None] + share * (above - below)[:, None]


def _base_line(
    zeta: Array, nose: int, resolution: Resolution, first_cell: float, wake_angle: float
) -> tuple[Array, Array]:
    """Points on cut, airfoil and cut again (ni + 1,), and the height of the first cell over each, all in zeta."""
    arc = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(zeta)))])
    along = CubicSpline(arc, np.stack([zeta.real, zeta.imag], axis=1))
    gap = zeta[-1] ** 2 - zeta[0] ** 2
    share = _surface_spacing(resolution.side, blunt=abs(gap) > SHARP / 2)
    lower = arc[nose] * (1 - share[::-1])
    upper = arc[nose] + (arc[-1] - arc[nose]) * share[1:]
    skin = along(np.concatenate([lower, upper])) @ np.array([1, 1j])
    cut = _cut(zeta, abs(skin[-1] - skin[-2]), resolution, wake_angle)
    behind = np.abs(cut - cut[0])
    # Behind the airfoil the shear layer widens: cells of the wall's height would only slow the solution down.
    rate = min(WAKE_GROWTH / first_cell, STRIP_GROWTH / max(abs(gap), SHARP))
    growth = np.concatenate([1 + rate * behind[:0:-1], np.ones(len(skin)), 1 + rate * behind[1:]])
    growth = np.exp(gaussian_filter1d(np.log(growth), 2.0, mode="nearest"))
    # A blunt edge's strip widens as its neighbours grow, so that the centres of cells lie above each other.
    beside = 0.5 * gap * growth[-resolution.wake :] / growth[-resolution.wake - 1]
    above, below = np.sqrt(cut[1:] + beside), -np.sqrt(cut[1:] - beside)
    base = np.concatenate([below[::-1], skin, above])
    return base, first_cell * growth / (2 * np.abs(base))


def _surface_spacing(cells: int, *, blunt: bool) -> Array:
    """Places (cells + 1,) from the nose (0) to the trailing edge (1) of one side, in arc length of zeta."""
    s = np.linspace(0, 1, 2001)
    density = 1 + 1.0 * np.exp(-s / 0.15) + 10.0 * np.exp(-(1 - s) / 0.05)
    if blunt:  # the vortices behind the base are as short as it is high
        density += 50.0 * np.exp(-(1 - s) / 0.01)
    count = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    return np.interp(np.linspace(0, count[-1], cells + 1), count, s)


def _cut(zeta: Array, step: float, resolution: Resolution, wake_angle: float) -> Array:
    """Middle of the wake behind the trailing edge (wake + 1,), about z0: the bisector's way, then turned."""
    middle = 0.5 * (zeta[-1] ** 2 + zeta[0] ** 2)
    start = np.sqrt(middle)
    reach = np.sqrt(resolution.far) - start.real
    ratio = _growth(step, reach, resolution.wake)
    places = step * np.cumsum(ratio ** np.arange(resolution.wake))
    out = np.angle((zeta[-1] - zeta[-2]) + (zeta[1] - zeta[0]))  # both sides, seen leaving the trailing edge
    final = 0.5 * wake_angle
    turned = 1 - np.exp(-places / 0.5)
    angle = out + (final - out) * turned
    pieces = np.diff(np.concatenate([[0.0], places])) * np.exp(1j * angle)
    return np.concatenate([[middle], (start + np.cumsum(pieces)) ** 2])


def _growth(first: float, total: float, cells: int) -> float:
    """Ratio of a geometric series of `cells` terms from `first` that sums to `total`."""

    def excess(log_ratio: float) -> float:
        return float(np.log(np.sum(np.exp(log_ratio * np.arange(cells))) * first / total))

    return float(np.exp(brentq(excess, -0.5, 2.0)))


def _lines(base: Array, height: Array, resolution: Resolution) -> Array:
    """Grid points (ni + 1, nj + 1) in zeta: from the base line along its smoothed normal, relaxing to the vertical."""
    total = np.sqrt(resolution.far) - base.imag
    powers = np.arange(resolution.across)
    steps = np.stack([_growth(h, t, resolution.across) ** powers * h for h, t in zip(height, total, strict=True)])
    distance = np.concatenate([np.zeros((len(base), 1)), np.cumsum(steps, axis=1)], axis=1)
    # The lean of a line fades with the distance; its integral is the line's shift to the side.
    reach = (0.1 * np.abs(base))[:, None]
    shift = -np.tan(_lean(base))[:, None] * reach * (1 - np.exp(-distance / reach))
    # Far out, the clusters of lines at nose and trailing edge spread into even steps.
    evened = distance**2 / (distance**2 + EVEN_BEYOND**2)
    spacing = np.log(np.diff(base.real))
    even = np.exp(gaussian_filter1d(spacing, resolution.side / 5, mode="nearest"))
    even = np.concatenate([[0.0], np.cumsum(even)]) * np.ptp(base.real) / even.sum() + base.real[0]
    across = (1 - evened) * (base.real[:, None] + shift) + evened * even[:, None]
    return across + 1j * (base.imag[:, None] + distance)


def _lean(base: Array) -> Array:
    """Angle of the base line at its points (ni + 1,), smoothed over about a tenth of the distance from the nose."""
    arc = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(base)))])
    even = np.linspace(0, arc[-1], 4000)
    angle = np.interp(even, 0.5 * (arc[1:] + arc[:-1]), np.angle(np.diff(base)))
    width = 0.06 * 4000 / arc[-1]
    return np.interp(arc, even, gaussian_filter1d(angle, width, mode="nearest"))


def write(grid: CGrid, case: Path) -> None:
    """Write the grid as constant/polyMesh: patches `airfoil` (wall), `farfield`, and `sides` (empty), 1 m deep.

    Cell (i, j) has the number i * nj + j; those of the strip follow, cell (i, k) as the (i * nk + k)-th.
    """
    (ni, nj), wake = grid.shape, grid.wake
    node = np.arange((ni + 1) * (nj + 1)).reshape(ni + 1, nj + 1)
    below, above = node[wake::-1, 0], node[-wake - 1 :, 0]  # from the trailing edge downstream
    if grid.strip is None:
        strip = above[:, None]
        below[:] = above  # a view: the C's own nodes
        flat = grid.points.reshape(-1, 2)
    else:
        strip = node.size + np.arange(grid.strip[..., 0].size).reshape(grid.strip.shape[:2])
        below[:], above[:] = strip[:, 0], strip[:, -1]
        flat = np.concatenate([grid.points.reshape(-1, 2), grid.strip.reshape(-1, 2)])
    used, number = np.unique(np.concatenate([node.ravel(), strip.ravel()]), return_inverse=True)
    node, strip = number[: node.size].reshape(node.shape), number[node.size :].reshape(strip.shape)
    flat = flat[used]
    layer = len(flat)
    points = np.concatenate([np.c_[flat, np.zeros(layer)], np.c_[flat, np.ones(layer)]])
    cell = np.arange(ni * nj).reshape(ni, nj)
    nk = 0 if grid.strip is None else grid.strip.shape[1] - 1
    behind = ni * nj + np.arange(wake * nk).reshape(wake, nk)
    # What lies between the two sides of the wake, from below to above: their own cells and those of the strip.
    stack = np.concatenate([cell[wake - 1 :: -1, :1], behind, cell[ni - wake :, :1]], axis=1)

    def over(a: Array, b: Array) -> Array:
        """Faces (n, 4) over the edges from nodes a to nodes b; their normals point to the right of the way."""
        a, b = a.ravel(), b.ravel()
        return np.stack([a, b, b + layer, a + layer], axis=1)

    inner = [  # faces, owner, neighbour: to the next column, to the next row, downstream in the strip, across the wake
        (over(node[1:-1, :-1], node[1:-1, 1:]), cell[:-1].ravel(), cell[1:].ravel()),
        (over(node[1:, 1:-1], node[:-1, 1:-1]), cell[:, :-1].ravel(), cell[:, 1:].ravel()),
        (over(strip[1:-1, 1:], strip[1:-1, :-1])[:, ::-1], behind[:-1].ravel(), behind[1:].ravel()),
        (over(strip[1:], strip[:-1]), stack[:, :-1].ravel(), stack[:, 1:].ravel()),
    ]
    faces, owner, neighbour = (np.concatenate(part) for part in zip(*inner, strict=True))
    turned = owner > neighbour  # OpenFOAM's faces look from the lower number to the higher one
    faces[turned] = faces[turned, ::-1]
    owner, neighbour = np.minimum(owner, neighbour), np.maximum(owner, neighbour)
    order = np.lexsort((neighbour, owner))  # OpenFOAM's own order
    body = slice(wake, ni - wake)
    wall = [
        (over(node[:-1, 0][body], node[1:, 0][body]), cell[body, 0]),
        (over(strip[0, :0:-1], strip[0, -2::-1]), behind[0, ::-1]),
    ]
    far = [
        (over(node[1:, -1], node[:-1, -1]), cell[:, -1]),
        (over(node[0, :0:-1], node[0, -2::-1]), cell[0, ::-1]),
        (over(strip[-1, :-1], strip[-1, 1:]), behind[-1]),
        (over(node[-1, :-1], node[-1, 1:]), cell[-1]),
    ]
    quads = [np.stack([n[:-1, :-1], n[1:, :-1], n[1:, 1:], n[:-1, 1:]], axis=-1).reshape(-1, 4) for n in (node, strip)]
    front = np.concatenate(quads)
    cells = np.arange(len(front))
    sides = [(front[:, ::-1], cells), (front + layer, cells)]
    boundary = [*wall, *far, *sides]
    openfoam.write_mesh(
        case,
        points,
        np.concatenate([faces[order], *(part[0] for part in boundary)]),
        np.concatenate([owner[order], *(part[1] for part in boundary)]),
        neighbour[order],
        {
            "airfoil": ("wall", sum(len(part[0]) for part in wall)),
            "farfield": ("patch", sum(len(part[0]) for part in far)),
            "sides": ("empty", 2 * len(cells)),
        },
    )
