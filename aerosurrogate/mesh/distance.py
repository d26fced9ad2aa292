"""Signed distances from a body, exact for its facets.

Magnitudes come from libigl's tree of triangles (segments in 2D). Signs come from the winding number, so a
body with small holes or a few turned faces still has an inside, and pieces that intersect count as their
union. (libigl's own `signed_distance` with the fast winding number gives wrong magnitudes.) libigl spreads
queries over all cores; the environment variable IGL_NUM_THREADS limits them.
"""

from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import igl
import numpy as np

from aerosurrogate.mesh.surface import Bools, Floats, Ints, Surface

CHUNK = 262_144  # queries at a time: bounds the memory beside the answer to some 20 MB
INSIDE = 0.5  # winding number from which a point counts as inside
ROUGH = 1.1  # accuracy of libigl's that is right to 0.15, at a third of the cost of its usual one, right to 0.004
DOUBT = 0.3  # rough winding numbers nearer to INSIDE than this are asked for again
MANY = 100  # pieces, up to which bounding boxes spare winding numbers
SKIN = 1e-6  # of the body's length: how far off a face `outer_faces` looks
_trees: WeakKeyDictionary[Surface, igl.FastWindingNumberBVH] = WeakKeyDictionary()  # bodies are asked several times


class Nearest(NamedTuple):
    """The nearest points of a surface to n points, in their order."""

    distance: Floats  # (n,) m, without sign
    closest: Floats  # (n, d)
    cells: Ints  # (n,) the cells they lie on


class Distances(NamedTuple):
    """Signed distances of n points, in their order."""

    distance: Floats  # (n,) m, positive outside, negative inside
    closest: Floats  # (n, d) nearest points of the surface
    cells: Ints  # (n,) the cells they lie on
    direction: Floats  # (n, d) unit vectors along which the distance grows; on the skin the cell's normal


def nearest(surface: Surface, points: Floats) -> Nearest:
    """The nearest point of a surface to each of points (n, d)."""
    return nearest_on(surface)(points)


def nearest_on(surface: Surface) -> Callable[[Floats], Nearest]:
    """`nearest` for those who ask several times: the tree, half the cost of some thousand points, is built once."""
    vertices, cells = np.ascontiguousarray(surface.points), np.ascontiguousarray(surface.cells)
    tree = igl.AABB()
    if surface.dimension == 3:  # it knows no other
        tree.init(vertices, cells)

    def find(points: Floats) -> Nearest:
        points = np.ascontiguousarray(points, dtype=float)
        if points.ndim != 2 or points.shape[1] != surface.dimension:
            raise ValueError(f"points of shape {points.shape} for a surface in {surface.dimension} dimensions")
        squared, index, closest = np.empty(len(points)), np.empty(len(points), np.int64), np.empty_like(points)
        # Neighbouring queries walk the same branches of the tree: in order they find them in the cache (2.5 times
        # faster). The tree of a section fits there whole.
        order = _along_curve(points) if surface.dimension == 3 else np.arange(len(points))
        for part in np.split(order, range(CHUNK, len(order), CHUNK)):
            if surface.dimension == 3:
                found = tree.squared_distance(vertices, cells, points[part])
            else:
                found = igl.point_mesh_squared_distance(points[part], vertices, cells)
            squared[part], index[part], closest[part] = found
        return Nearest(np.sqrt(squared), closest, index)

    return find


def distance(surface: Surface, points: Floats) -> Distances:
    """Signed distance of points (n, d) from a surface, with the nearest points on it.

    Inside intersecting pieces the magnitude is that to the nearest face of any of them.
    """
    points = np.asarray(points, dtype=float)
    magnitude, closest, cells = nearest(surface, points)
    sign = np.where(inside(surface, points), -1.0, 1.0)
    # Next to the skin rounding leaves no direction.
    touching = (magnitude <= 1e-12 * surface.length)[:, None]
    away = sign[:, None] * (points - closest) / np.where(touching, 1.0, magnitude[:, None])
    return Distances(sign * magnitude, closest, cells, np.where(touching, surface.normals[cells], away))


def inside(surface: Surface, points: Floats) -> Bools:
    """(n,) whether points (n, d) lie inside the body, by the winding number."""
    low, high = surface.bounds
    within = np.flatnonzero(_in_box(points, low, high))
    result = np.zeros(len(points), dtype=bool)
    for start in range(0, len(within), CHUNK):
        part = within[start : start + CHUNK]
        result[part] = _winding_number(surface, np.ascontiguousarray(points[part], dtype=float)) > INSIDE
    return result


def _winding_number(surface: Surface, points: Floats) -> Floats:
    """(n,) how often the surface winds around points (n, d): 1 inside one closed piece, 2 inside two, 0 outside.

    Rough where that decides between inside and outside already: all but next to holes.
    """
    if surface.dimension == 2:
        closed = np.array_equal(np.sort(surface.cells[:, 0]), np.sort(surface.cells[:, 1]))
        return (
            _turns(surface, points) if closed else np.asarray(igl.winding_number(surface.points, surface.cells, points))
        )
    tree = _winding_tree(surface)
    number = np.array(tree.winding_number(points, ROUGH))
    doubtful = np.abs(number - INSIDE) < DOUBT
    number[doubtful] = tree.winding_number(points[doubtful])
    return number


def _turns(surface: Surface, points: Floats) -> Floats:
    """(n,) how often closed curves wind around points (n, 2): segments that cross a ray to the right, up less down.

    Four times as fast as the angles that libigl adds up, which open curves need.
    """
    (x0, y0), (x1, y1) = surface.corners.transpose(1, 2, 0)  # (m,) each
    number = np.empty(len(points))
    for start in range(0, len(points), 1024):
        x, y = points[start : start + 1024, :, None].transpose(1, 0, 2)  # (n, 1) each
        up, down = (y0 <= y) & (y < y1), (y1 <= y) & (y < y0)
        side = (x1 - x0) * (y - y0) - (x - x0) * (y1 - y0)  # positive to the left of a segment
        number[start : start + 1024] = (up & (side > 0)).sum(axis=1) - (down & (side < 0)).sum(axis=1)
    return number


def _winding_tree(surface: Surface) -> igl.FastWindingNumberBVH:
    tree = _trees.get(surface)
    if tree is None:
        tree = igl.FastWindingNumberBVH()
        tree.init(np.ascontiguousarray(surface.points), np.ascontiguousarray(surface.cells))
        _trees[surface] = tree
    return tree


def outer_faces(surface: Surface) -> Bools:
    """(m,) the cells that the fluid touches: all but those inside another piece of the body.

    A cell cut by another piece counts as where its centroid lies.
    """
    outer = np.ones(len(surface.cells), dtype=bool)
    suspects = _in_another_box(surface)
    if len(suspects):
        outside = surface.centres[suspects] + SKIN * surface.length * surface.normals[suspects]
        outer[suspects] = ~in_pieces(surface, outside, surface.pieces[suspects])
    return outer


def in_pieces(surface: Surface, points: Floats, own: Ints | None = None) -> Bools:
    """(n,) whether points (n, d) lie inside one of the pieces; those just off a piece (n,) that is their `own`, inside
    another.

    A closed piece does not wind around what lies just off it, so that only the others have to be asked: a third of the
    cost, most of which is that of near faces.
    """
    if not surface.closed or int(surface.pieces.max()) >= MANY:
        return inside(surface, points)
    found = np.zeros(len(points), dtype=bool)
    for piece, part in enumerate(surface.parts):
        asked = np.flatnonzero(~found if own is None else ~found & (own != piece))
        found[asked] = inside(part, points[asked])
    return found


def _in_another_box(surface: Surface) -> Ints:
    """Indices of the cells whose centroid lies in the bounding box of a piece other than their own."""
    count = int(surface.pieces.max()) + 1 if len(surface.pieces) else 0
    if count < 2:
        return np.empty(0, dtype=np.int64)
    if count > MANY:  # a soup of panels: asking for every cell is cheaper than sorting them out
        return np.arange(len(surface.cells))
    reach = SKIN * surface.length
    suspect = np.zeros(len(surface.cells), dtype=bool)
    for piece, part in enumerate(surface.parts):
        low, high = part.bounds
        suspect |= _in_box(surface.centres, low - reach, high + reach) & (surface.pieces != piece)
    return np.flatnonzero(suspect)


def _in_box(points: Floats, low: Floats, high: Floats) -> Bools:
    """(n,) whether points (n, d) lie between two corners."""
    return np.logical_and.reduce([(x >= a) & (x <= b) for x, a, b in zip(points.T, low, high, strict=True)])


def _along_curve(points: Floats) -> Ints:
    """(n,) an order of points (n, d) in which neighbours in space are near each other (Morton's curve)."""
    low = points.min(axis=0, initial=np.inf)
    span = float((points.max(axis=0, initial=-np.inf) - low).max()) or 1.0
    place = ((points - low) / span * 1023).astype(np.uint64)
    code = np.zeros(len(points), dtype=np.uint64)
    for bit in range(10):
        for axis in range(points.shape[1]):
            code |= ((place[:, axis] >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * points.shape[1] + axis)
    return np.argsort(code)
