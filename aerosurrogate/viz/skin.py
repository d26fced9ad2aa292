"""A skin made ready for the eye: smooth where the body is smooth, with its edges, thinned where it is heavy."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.mesh.distance import nearest
from aerosurrogate.mesh.surface import Surface

SHARP = 35.0  # degrees between two faces from which on the edge between them is one of the body's
_STEPS = 2**20  # into which the body's extent is divided to find corners that coincide
Floats = NDArray[np.float64]


def corner_values(surface: Surface, values: NDArray) -> Floats:
    """Values of cells (m,) at their corners (m, 3): the mean of the cells around that face nearly the same way."""
    return _evened(surface, np.repeat(np.asarray(values, float)[:, None], 3, axis=1))


def _evened(surface: Surface, values: Floats) -> Floats:
    """Values at corners (m, 3), one for all corners at a point whose cells face nearly the same way: their mean."""
    corner, flat = _corner_numbers(surface.corners).ravel(), values.ravel()
    order = np.argsort(corner, kind="stable")
    counts = np.bincount(corner)
    starts = np.cumsum(counts) - counts
    place = np.empty(len(order), np.int64)  # of a corner among those at its point
    place[order] = np.arange(len(order)) - np.repeat(starts, counts)
    total, weight = np.zeros(len(corner)), np.zeros(len(corner))
    limit = np.cos(np.radians(SHARP))
    for step in range(int(counts.max(initial=0))):
        here = np.flatnonzero(counts[corner] > step)
        point = corner[here]
        other = order[starts[point] + (place[here] + step) % counts[point]]
        alike = np.einsum("nd,nd->n", surface.normals[here // 3], surface.normals[other // 3]) > limit
        share = surface.areas[other // 3] * (alike | (other == here))
        total[here] += share * flat[other]
        weight[here] += share
    return np.where(weight > 0, total / np.where(weight > 0, weight, 1.0), flat).reshape(-1, 3)


def sides(surface: Surface, values: NDArray) -> Iterator[tuple[bool, Floats, Floats]]:
    """Of a section the upper and then the lower side: which it is, x/c and values (m,) along it, both from the nose."""
    upper = surface.normals[:, 1] >= 0
    low, high = surface.points[:, 0].min(), surface.points[:, 0].max()
    x = (surface.centres[:, 0] - low) / (high - low)
    orders = [np.flatnonzero(upper == side)[np.argsort(x[upper == side])] for side in (True, False)]
    nose = np.mean([values[order[0]] for order in orders if len(order)])
    for side, order in zip((True, False), orders, strict=True):
        yield side, np.append(0.0, x[order]), np.append(nose, values[order])


def edges(corners: NDArray, eye: NDArray | None = None) -> Floats:
    """Lines (e, 2, 3) along sharp edges of triangles (m, 3, 3); seen from the direction `eye`, along outlines too."""
    number = _corner_numbers(corners)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]).astype(float)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
    sides = np.sort(np.stack([number, np.roll(number, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
    key = sides[:, 0] * (number.max(initial=0) + 1) + sides[:, 1]
    order = np.argsort(key, kind="stable")
    _, start, count = np.unique(key[order], return_index=True, return_counts=True)
    first = order[start]
    second = order[np.minimum(start + 1, len(order) - 1)]
    a, b = normals[first // 3], normals[second // 3]
    shown = np.einsum("ed,ed->e", a, b) < np.cos(np.radians(SHARP))
    if eye is not None:
        shown |= (a @ eye > 0) != (b @ eye > 0)
    chosen = first[(count == 2) & shown]
    cell, side = chosen // 3, chosen % 3
    return np.stack([corners[cell, side], corners[cell, (side + 1) % 3]], axis=1).astype(float)


def thinned(surface: Surface, values: NDArray, most: int) -> tuple[Surface, Floats]:
    """The skin with about `most` triangles at most, and its values at their corners (m, 3), from cells' values (m,)."""
    smooth = corner_values(surface, values)
    if len(surface.cells) <= most:
        return surface, smooth
    import pyvista as pv

    number = _corner_numbers(surface.corners)
    points = np.empty((int(number.max()) + 1, 3))
    points[number.ravel()] = surface.corners.reshape(-1, 3)  # pieces that were cut apart hold together again
    mesh = pv.PolyData.from_regular_faces(points, number).decimate(1 - most / len(surface.cells))
    light = Surface(np.asarray(mesh.points, float), np.asarray(mesh.regular_faces, np.int64), surface.name)
    # Each corner asks the old skin a little inside its triangle, where no edge is in doubt.
    asked = 0.95 * light.corners + 0.05 * light.centres[:, None]
    found = nearest(surface, asked.reshape(-1, 3))
    share = _barycentric(surface.corners[found.cells], found.closest)
    return light, _evened(light, np.einsum("nk,nk->n", share, smooth[found.cells]).reshape(-1, 3))


def _barycentric(corners: Floats, points: Floats) -> Floats:
    """Shares (n, 3) of the corners of triangles (n, 3, 3) in points (n, 3) on them."""
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    offset = points - corners[:, 0]
    aa, ab, bb = (np.einsum("nd,nd->n", u, v) for u, v in ((a, a), (a, b), (b, b)))
    pa, pb = (np.einsum("nd,nd->n", offset, u) for u in (a, b))
    size = np.maximum(aa * bb - ab * ab, 1e-300)
    second, third = (bb * pa - ab * pb) / size, (aa * pb - ab * pa) / size
    shares = np.clip(np.stack([1 - second - third, second, third], axis=1), 0.0, 1.0)
    return shares / shares.sum(axis=1, keepdims=True)


def _corner_numbers(corners: NDArray) -> NDArray[np.int64]:
    """(m, 3): one number for all corners at one point, to a millionth of the body's extent."""
    flat = np.asarray(corners, dtype=float).reshape(-1, 3)
    low = flat.min(axis=0)
    span = float(np.ptp(flat, axis=0).max()) or 1.0
    x, y, z = np.rint((flat - low) / span * (_STEPS - 1)).astype(np.int64).T
    return np.unique((x * _STEPS + y) * _STEPS + z, return_inverse=True)[1].reshape(-1, 3)
