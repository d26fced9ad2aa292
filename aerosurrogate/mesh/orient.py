"""Cells that all face the fluid, whatever way the file had them."""

import math
from dataclasses import replace

import igl
import numpy as np

from aerosurrogate.mesh.surface import Bools, Floats, Ints, Surface

# An open piece is turned only if, its holes capped, it holds this part of the volume that a sphere of its area would:
# a single panel has no inside, and its file knows better.
HOLLOW = 0.05


def outward(surface: Surface) -> tuple[Surface, Bools]:
    """The surface with consistent cells that face outward, and which of them (m,) were turned for it.

    Closed pieces enclose a positive volume afterwards, cavities and parts inside others too: every piece counts as a
    body of its own, and bodies inside each other as their union.
    """
    turn = _against_neighbours(surface) if surface.dimension == 3 else _against_walk(surface)
    surface = _turned(surface, turn)
    inward = _inward_pieces(surface)[surface.pieces]
    return _turned(surface, inward), turn ^ inward


def open_edges(surface: Surface) -> Ints:
    """(k, d) sides that belong to one cell only, as that cell runs along them: edges in 3D, in 2D (k, 1) end points."""
    if surface.closed:  # as most are, and told sooner than where a side is missing
        return np.empty((0, surface.dimension - 1), dtype=np.int64)
    sides, keys = _sides(surface)
    values, counts = np.unique(keys, return_counts=True)
    return sides[np.isin(keys, values[counts == 1])]


def shared_too_often(surface: Surface) -> int:
    """How many edges (2D: points) join more than two cells."""
    return int(np.sum(np.unique(_sides(surface)[1], return_counts=True)[1] > 2))


def caps(surface: Surface) -> tuple[Ints, Floats, Ints]:
    """The holes: open edges (k, 2), centres (holes, 3) of the holes, and the hole (k,) that each edge belongs to.

    A hole is a loop that passes no point twice: holes that touch in a point are two.
    """
    edges = open_edges(surface)
    hole = _loops(edges)
    middles = surface.points[edges].mean(axis=1)
    count = np.maximum(np.bincount(hole), 1)[:, None]
    centres = np.stack([np.bincount(hole, column) for column in middles.T], axis=1) / count
    return edges, centres, hole


def _loops(edges: Ints) -> Ints:
    """The loop (k,) that each directed edge (k, 2) belongs to; a path that does not close is one too."""
    onward: dict[int, list[int]] = {}
    for number, start in enumerate(edges[:, 0].tolist()):
        onward.setdefault(start, []).append(number)
    loop = np.full(len(edges), -1)
    count = 0
    for first in range(len(edges)):
        if loop[first] >= 0:
            continue
        path: list[int] = []  # edges walked so far
        at: dict[int, int] = {}  # where on the path each point was left
        index: int | None = first
        while index is not None:
            start, end = edges[index].tolist()
            at[start] = len(path)
            path.append(index)
            loop[index] = count
            if end in at:  # a loop is closed: cut it off and go on from where it began
                closed = path[at[end] :]
                loop[closed] = count
                count += 1
                path = path[: at[end]]
                at = {int(edges[i, 0]): place for place, i in enumerate(path)}
                if not path:
                    break
            index = next((i for i in onward.get(end, []) if loop[i] < 0), None)
        if path:
            loop[path] = count
            count += 1
    return loop


def _sides(surface: Surface) -> tuple[Ints, Ints]:
    """Sides of all cells, (m * d, d - 1), as the cells run along them, and numbers (m * d,) that tell which are one."""
    cells = surface.cells
    if surface.dimension == 2:
        return cells.reshape(-1, 1), cells.ravel()
    sides = np.stack([cells, np.roll(cells, -1, axis=1)], axis=2).reshape(-1, 2)
    a, b = sides.T
    return sides, np.minimum(a, b) * len(surface.points) + np.maximum(a, b)


def _turned(surface: Surface, turn: Bools) -> Surface:
    if not turn.any():
        return surface
    cells = surface.cells.copy()
    cells[turn] = cells[turn][:, ::-1]
    return replace(surface, cells=cells)


def _against_neighbours(surface: Surface) -> Bools:
    """Triangles (m,) that face otherwise than most of the patch they belong to, by area."""
    if surface.closed:
        return np.zeros(len(surface.cells), dtype=bool)
    start, end = _sides(surface)[0].T
    if np.diff(np.sort(start * len(surface.points) + end)).all():  # no two cells run along a side in one direction
        return np.zeros(len(surface.cells), dtype=bool)
    agreeing, patch = igl.bfs_orient(np.ascontiguousarray(surface.cells))
    turn = np.any(agreeing != surface.cells, axis=1)
    balance = np.bincount(patch, np.where(turn, surface.areas, -surface.areas))
    return np.asarray(turn ^ (balance > 0)[patch])


def _against_walk(surface: Surface) -> Bools:
    """Segments (m,) that run against most of the curve they belong to, by length."""
    if all(len(np.unique(ends)) == len(surface.cells) for ends in surface.cells.T):  # each follows on another
        return np.zeros(len(surface.cells), dtype=bool)
    at: dict[int, list[int]] = {}
    for index, (a, b) in enumerate(surface.cells.tolist()):
        at.setdefault(a, []).append(index)
        at.setdefault(b, []).append(index)
    turn = np.zeros(len(surface.cells), dtype=bool)
    seen = np.zeros(len(surface.cells), dtype=bool)
    for start in sorted(at, key=lambda point: len(at[point])):  # open curves from their ends
        point, chain = start, []
        while ahead := [i for i in at[point] if not seen[i]]:
            index = ahead[0]
            seen[index] = True
            chain.append(index)
            a, b = surface.cells[index]
            turn[index] = b == point
            point = int(a if b == point else b)
        lengths = surface.areas[chain]
        if lengths[turn[chain]].sum() > lengths.sum() / 2:
            turn[chain] ^= True
    return turn


def _inward_pieces(surface: Surface) -> Bools:
    """(pieces,) whether each piece, its holes capped, encloses a negative volume."""
    count = int(surface.pieces.max()) + 1
    heights = np.einsum("md,md->m", surface.centres - surface.bounds.mean(axis=0), surface.area_vectors)
    volume = np.bincount(surface.pieces, heights, count) / surface.dimension
    is_open = np.zeros(count, dtype=bool)
    if surface.dimension == 3 and len(edges := open_edges(surface)):
        edges, centres, hole = caps(surface)
        piece = np.empty(len(surface.points), dtype=np.int64)
        piece[surface.cells] = surface.pieces[:, None]
        a, b, c = (
            corner - surface.bounds.mean(axis=0)
            for corner in (*np.moveaxis(surface.points[edges], 1, 0), centres[hole])
        )
        volume += np.bincount(piece[edges[:, 0]], np.einsum("kd,kd->k", np.cross(b, a), c) / 6.0, count)
        is_open[piece[edges[:, 0]]] = True
    elif surface.dimension == 2 and len(ends := open_edges(surface)):
        is_open[surface.pieces[np.isin(surface.cells, ends).any(axis=1)]] = True
    area = np.bincount(surface.pieces, surface.areas, count)
    ball = area**1.5 / (6.0 * math.sqrt(math.pi)) if surface.dimension == 3 else area**2 / (4.0 * math.pi)
    return volume < np.where(is_open, -HOLLOW * ball, 0.0)
