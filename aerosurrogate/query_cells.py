"""Cells around a body at which a model is asked: surroundings, the plane in the middle, a regular grid.

All in the model's frame, in metres, inside the box that models are trained on. Cells that the body covers are left out.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.scaling import Places
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import PLANE, SURROUNDINGS
from aerosurrogate.mesh import potential, surroundings
from aerosurrogate.mesh.distance import distance, inside
from aerosurrogate.mesh.pattern import Pattern
from aerosurrogate.mesh.surface import Surface

POINTS = 5000  # around a section
CELLS = (40, 20, 18)  # around a body: along, across and up
NEAR = 0.1  # body lengths: cells that far from a body's box are half as dense as those beside it
WAKE = (70, 25)  # points along and across the wake of a section
PLANE_CELLS = (200, 56)  # along and up
ON_WALL = 1e-6  # body lengths: points nearer than this are on the skin
_SEED = 2
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class QueryCells:
    """Cells of one region, and the places (their centres) at which the model is asked."""

    code: int
    points: Floats  # (n, d)
    cells: Ints  # (m, k)
    places: Places


def region(dimension: int, pattern: Pattern | None = None, *, ground: bool = True) -> surroundings.Region:
    """Where the air is asked for: the usual box, or that of the meshes that a model was trained on."""
    usual = surroundings.usual_region(dimension, ground)
    return usual if pattern is None else replace(usual, low=pattern.low, high=pattern.high)


def cells(
    surface: Surface, stream: Conditions, grid: tuple[int, ...] | None = None, pattern: Pattern | None = None
) -> list[QueryCells]:
    """The regions around a body: a grid if one is wanted, else the surroundings, in 3D with the plane in the middle."""
    box = region(surface.dimension, pattern, ground=stream.ground)
    low, high = np.array(box.low) * stream.length, np.array(box.high) * stream.length
    if grid is not None:
        if len(grid) != surface.dimension:
            shape = "NXxNY" if surface.dimension == 2 else "NXxNYxNZ"
            raise InputError(
                "the grid does not fit the shape", seen="x".join(map(str, grid)), remedy=f"give --grid {shape}"
            )
        return [_outside(surface, stream, SURROUNDINGS, *lattice(low, high, grid))]
    if surface.dimension == 2:
        scaled = surface.transformed(np.eye(2), np.zeros(2), 1 / stream.length)
        points = surroundings.around(box, scaled, POINTS, _SEED).points * stream.length
        points = np.concatenate([points, _wake(stream)])
        points = points[np.all((points > low) & (points < high), axis=1)]
        return [_outside(surface, stream, SURROUNDINGS, *_triangulated(points, surface, low, high))]
    corners, hexahedra = lattice(low, high, CELLS)
    for axis, (count, near, far) in enumerate(zip(CELLS, *surface.bounds, strict=True)):
        even = np.linspace(low[axis], high[axis], count + 1)
        corners[:, axis] = np.interp(corners[:, axis], even, graded(low[axis], high[axis], near, far, count, stream))
    around = _outside(surface, stream, SURROUNDINGS, corners, hexahedra)
    flat, quads = lattice(low[[0, 2]], high[[0, 2]], PLANE_CELLS)
    upright = np.stack([flat[:, 0], np.zeros(len(flat)), flat[:, 1]], axis=1)
    return [around, _outside(surface, stream, PLANE, upright, quads)]


def graded(low: float, high: float, near: float, far: float, count: int, stream: Conditions) -> Floats:
    """(count + 1,) places from low to high, close to each other beside a body from near to far, wider away from it."""
    x = np.linspace(low, high, 2001)
    away = np.maximum(np.maximum(near - x, x - far), 0.0) / (NEAR * stream.length)
    share = np.cumsum(1.0 / (1.0 + away))
    return np.asarray(np.interp(np.linspace(0.0, 1.0, count + 1), (share - share[0]) / (share[-1] - share[0]), x))


def lattice(low: Floats, high: Floats, shape: tuple[int, ...]) -> tuple[Floats, Ints]:
    """Points and cells (quads or hexahedra) of a regular grid with `shape` cells between two corners."""
    sides = tuple(n + 1 for n in shape)
    points = surroundings.regular_grid(low, high, sides)
    index = np.arange(np.prod(sides)).reshape(sides)
    if len(shape) == 2:
        corners = [index[:-1, :-1], index[1:, :-1], index[1:, 1:], index[:-1, 1:]]
    else:  # once around below, once around above
        around = ((0, 0), (1, 0), (1, 1), (0, 1))
        corners = [index[x : x + shape[0], y : y + shape[1], z : z + shape[2]] for z in (0, 1) for x, y in around]
    return points, np.stack([c.ravel() for c in corners], axis=1)


def places_at(surface: Surface, stream: Conditions, points: Floats) -> tuple[Places, NDArray[np.bool_]]:
    """Places at any points of the model's frame (n, d), and which of them lie inside the body."""
    found = distance(surface, points)
    near = np.abs(found.distance) <= ON_WALL * stream.length
    covered = (found.distance < 0) & ~near
    return Places(
        points=points.astype(np.float32),
        surface=near,
        normals=found.direction.astype(np.float32),
        distance=np.where(near, 0.0, np.abs(found.distance)).astype(np.float32),
        conditions=stream,
        outline=potential.around(surface, ground=stream.ground),
    ), covered


def _outside(surface: Surface, stream: Conditions, code: int, points: Floats, corners: Ints) -> QueryCells:
    """The cells whose centre lies in the air."""
    corners = corners[~inside(surface, points[corners].mean(axis=1))]
    used, index = np.unique(corners, return_inverse=True)
    corners, points = index.reshape(corners.shape).astype(np.int64), points[used]
    return QueryCells(code, points, corners, places_at(surface, stream, points[corners].mean(axis=1))[0])


def _wake(stream: Conditions) -> Floats:
    """Rows of points (n, 2) across the wake of a section, which scattered ones would show as a string of beads."""
    along = np.geomspace(0.03, 3.03, WAKE[0]) - 0.026  # chords behind the trailing edge
    across = np.linspace(-1.0, 1.0, WAKE[1])
    middle = np.tan(np.radians(stream.alpha)) * along**2 / (along + 1.0)  # from the chord to the stream's direction
    width = 0.03 + 0.14 * along
    y = middle[:, None] + width[:, None] * across * np.sqrt(np.abs(across))
    return np.stack([np.broadcast_to(1.0 + along[:, None], y.shape), y], axis=-1).reshape(-1, 2) * stream.length


def _triangulated(points: Floats, surface: Surface, low: Floats, high: Floats) -> tuple[Floats, Ints]:
    """Triangles between scattered points, the body's outline and the corners of the box."""
    from scipy.spatial import Delaunay

    frame = np.array([[low[0], low[1]], [high[0], low[1]], [high[0], high[1]], [low[0], high[1]]])
    points = np.concatenate([surface.points, points, frame])
    return points, Delaunay(points).simplices.astype(np.int64)
