"""Pairs of neighbouring triangles that lie nearly in one plane, such as the two halves of a quadrilateral.

A smooth field at the middle of a pair is its mean over both, as at the centre of one triangle: fields are asked for at
half as many places, and forces stay the same within a few thousandths.
"""

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.mesh.surface import Surface

PLANE = 0.98  # cosine between the normals of a pair, at least: 11 degrees
ROUNDS = 3  # in each, those pair up that are each other's neighbour over the longest edge left


def paired(surface: Surface) -> NDArray[np.int64]:
    """For every triangle the number of its pair, (faces,) from 0 on; one without a mate has a number of its own."""
    mate = np.full(len(surface.cells), -1)
    one, other, length = _neighbours(surface)
    for _ in range(ROUNDS):
        free = (mate[one] < 0) & (mate[other] < 0)
        one, other, length = one[free], other[free], length[free]
        order = np.argsort(length)
        longest = np.full(len(mate), -1)  # the edge of each face; written from short to long, the last one stays
        longest[np.stack([one[order], other[order]], axis=1).ravel()] = np.repeat(order, 2)
        chosen = (longest[one] == np.arange(len(one))) & (longest[other] == np.arange(len(one)))
        mate[one[chosen]], mate[other[chosen]] = other[chosen], one[chosen]
    first = (mate < 0) | (np.arange(len(mate)) < mate)
    number = np.cumsum(first) - 1
    return np.where(first, number, number[mate])


def _neighbours(surface: Surface) -> tuple[NDArray, NDArray, NDArray]:
    """Both triangles at every edge (edges,) between two that lie nearly in one plane, and its length."""
    cells, points = surface.cells, surface.points
    ends = np.sort(np.stack([cells, np.roll(cells, -1, axis=1)], axis=-1), axis=-1).reshape(-1, 2)
    key = ends[:, 0] * len(points) + ends[:, 1]
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(np.diff(key[order]) == 0)
    one, other, edge = order[twice] // 3, order[twice + 1] // 3, ends[order[twice]]
    flat = np.einsum("ij,ij->i", surface.normals[one], surface.normals[other]) > PLANE
    return one[flat], other[flat], np.linalg.norm(points[edge[flat, 0]] - points[edge[flat, 1]], axis=1)
