"""Groups of neighbouring triangles that lie nearly in one plane, such as the two halves of a quadrilateral.

A smooth field at the middle of a pair is its mean over both, as at the centre of one triangle: fields are asked for at
half as many places, and forces stay the same within a few thousandths. Splinters, as the seams of pieces that reach
into each other are made of, go together until they are as large as other triangles.
"""

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.mesh.surface import Surface

PLANE = 0.98  # cosine between the normals of neighbours in a group, at least: 11 degrees
ROUNDS = 4  # in each, those join that are each other's neighbour over the longest edge left


def paired(surface: Surface) -> NDArray[np.int64]:
    """For every triangle the number of its group, (faces,) from 0 on; one without a mate has a number of its own.

    Two triangles of any size make a pair; more of them only where together they are no larger than the mean one.
    """
    group = np.arange(len(surface.cells))
    area, single = surface.areas.copy(), np.ones(len(group), dtype=bool)
    one, other, length = _neighbours(surface)
    for _ in range(ROUNDS):
        small = area[one] + area[other] <= surface.areas.mean()
        fits = (one != other) & (single[one] & single[other] | small)
        one, other, length = one[fits], other[fits], length[fits]
        order = np.argsort(length)
        longest = np.full(len(group), -1)  # the edge of each group; written from short to long, the last one stays
        longest[np.stack([one[order], other[order]], axis=1).ravel()] = np.repeat(order, 2)
        chosen = (longest[one] == np.arange(len(one))) & (longest[other] == np.arange(len(one)))
        first, second = np.minimum(one, other)[chosen], np.maximum(one, other)[chosen]
        area[first] += area[second]
        single[first] = False
        joins = np.arange(len(group))
        joins[second] = first
        group, one, other = joins[group], joins[one], joins[other]
    return np.unique(group, return_inverse=True)[1]


def _neighbours(surface: Surface) -> tuple[NDArray, NDArray, NDArray]:
    """Both triangles at every edge (edges,) between two that lie nearly in one plane, and its length."""
    cells, points = surface.cells, surface.points
    ends = np.sort(np.stack([cells, np.roll(cells, -1, axis=1)], axis=-1), axis=-1).reshape(-1, 2)
    key = ends[:, 0] * len(points) + ends[:, 1]
    order = np.argsort(key)
    twice = np.flatnonzero(np.diff(key[order]) == 0)
    one, other, edge = order[twice] // 3, order[twice + 1] // 3, ends[order[twice]]
    flat = np.einsum("ij,ij->i", surface.normals[one], surface.normals[other]) > PLANE
    return one[flat], other[flat], np.linalg.norm(points[edge[flat, 0]] - points[edge[flat, 1]], axis=1)
