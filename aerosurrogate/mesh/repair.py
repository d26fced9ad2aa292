"""A body made whole: cells that face the fluid, small holes closed."""

from dataclasses import replace

import numpy as np

from aerosurrogate.mesh.orient import caps, open_edges, outward
from aerosurrogate.mesh.surface import Floats, Ints, Surface

SMALL = 0.1  # of the body's length: holes up to this size are closed, larger ones are how the body was meant


def repaired(surface: Surface) -> Surface:
    """The body with consistent outward cells and its small holes closed; arrays are left behind, cells are added."""
    surface, turned = outward(surface)
    bare = replace(surface, point_data={}, cell_data={}, notes=[])
    closed = _close(bare)
    if turned.any():
        closed.notes.append(f"{turned.sum():,} faces turned outward")
    return closed


def hole_sizes(surface: Surface) -> Floats:
    """(holes,) the largest extent of each hole, m; in 2D the one gap of each open curve."""
    if surface.dimension == 2:
        gaps = _gaps(surface)
        return np.linalg.norm(surface.points[gaps[:, 0]] - surface.points[gaps[:, 1]], axis=1)
    edges, centres, hole = caps(surface)
    low = np.full(centres.shape, np.inf)
    high = -low
    for end in edges.T:
        np.minimum.at(low, hole, surface.points[end])
        np.maximum.at(high, hole, surface.points[end])
    return (high - low).max(axis=1, initial=0.0)


def _gaps(surface: Surface) -> Ints:
    """(k, 2) end points of open curves: the segment that would close each, in the direction of its others."""
    ends = open_edges(surface)[:, 0]
    starts = np.intersect1d(ends, surface.cells[:, 0])
    stops = np.intersect1d(ends, surface.cells[:, 1])
    piece = {int(point): int(label) for point, label in zip(surface.cells[:, 0], surface.pieces, strict=True)}
    piece |= {int(point): int(label) for point, label in zip(surface.cells[:, 1], surface.pieces, strict=True)}
    begin = {piece[int(point)]: int(point) for point in starts}
    pairs = [(int(point), begin[piece[int(point)]]) for point in stops if piece[int(point)] in begin]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _close(surface: Surface) -> Surface:
    small = hole_sizes(surface) <= SMALL * surface.length
    if not small.any():
        return replace(surface, notes=[])
    notes = [f"{small.sum():,} small holes closed"]
    if surface.dimension == 2:
        return replace(surface, cells=np.concatenate([surface.cells, _gaps(surface)[small]]), notes=notes)
    edges, centres, hole = caps(surface)
    place = len(surface.points) + np.cumsum(small) - 1
    fans = np.column_stack([edges[:, 1], edges[:, 0], place[hole]])[small[hole]]
    return replace(
        surface,
        points=np.concatenate([surface.points, centres[small]]),
        cells=np.concatenate([surface.cells, fans]),
        notes=notes,
    )
