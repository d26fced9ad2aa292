"""A body made whole: cells that face the fluid, small holes closed, loose faces left out.

A hole is closed by triangles to its centre, or by one triangle where it has three sides. On a car of 15,040 triangles
of which 400 are missing this leaves nothing open and changes the volume by 1e-6, where VTK's vtkFillHolesFilter leaves
about 30 open edges (benchmarks/repair.py); MeshFix is licensed under the AGPL, which this package cannot pass on.
"""

from dataclasses import replace

import numpy as np

from aerosurrogate.mesh.orient import caps, open_edges, outward
from aerosurrogate.mesh.surface import Bools, Floats, Ints, Surface

LOOSE = 3  # triangles: a piece of so few encloses nothing, and is what a damaged file left of a wall
SMALL = 0.1  # of the body's length: holes up to this size are closed, larger ones are how the body was meant


def repaired(surface: Surface) -> Surface:
    """The body with consistent outward cells and its small holes closed; arrays are left behind, cells are added."""
    surface, turned = outward(surface)
    bare = replace(surface, point_data={}, cell_data={}, notes=[])
    loose = loose_faces(bare)
    closed = _close(bare.select(~loose) if loose.any() else bare)
    if loose.any():
        closed.notes.append(f"{loose.sum():,} loose faces left out")
    if turned.any():
        closed.notes.append(f"{turned.sum():,} faces turned outward")
    return closed


def loose_faces(surface: Surface) -> Bools:
    """(m,) faces of open pieces too small to be a part of the body."""
    if surface.dimension == 2:
        return np.zeros(len(surface.cells), dtype=bool)
    return np.asarray(np.bincount(surface.pieces)[surface.pieces] <= LOOSE)


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
    triangular = np.bincount(hole, minlength=len(small)) == 3
    fanned = small & ~triangular
    place = len(surface.points) + np.cumsum(fanned) - 1
    fans = np.column_stack([edges[:, 1], edges[:, 0], place[hole]])[fanned[hole]]
    single = edges[(small & triangular)[hole]]
    single = single[np.argsort(hole[(small & triangular)[hole]], kind="stable")].reshape(-1, 3, 2)
    # The sides of each in the order in which they follow each other, run along the other way.
    a, b = single[:, 0].T
    c = np.where(single[:, 1, 0] == b, single[:, 1, 1], single[:, 2, 1])
    fans = np.concatenate([fans, np.column_stack([b, a, c])])
    return replace(
        surface,
        points=np.concatenate([surface.points, centres[fanned]]),
        cells=np.concatenate([surface.cells, fans]),
        notes=notes,
    )
