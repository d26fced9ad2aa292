"""Points on and around a body: where a model looks at the flow.

A model's answer depends on how its points are distributed, so training and prediction draw them from one density. On
the skin it is uniform in area. Around the body, inside a box, the number of points per volume depends on the distance d
from the wall alone, g(d) = 1 / (d + offset)^power; from the cells of a solved case in training, from the geometry in
prediction. Lengths here are in body lengths, and bodies in the model's frame: airfoils in x-y with the leading edge at
the origin; cars along +x, up +z, with the origin at mid-length on the ground (in free air: below the lowest point).
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.distance import inside, nearest_on
from aerosurrogate.mesh.surface import Bools, Floats, Ints, Surface

SQUARE = 0.003  # body lengths: by squares of this side points far from a wall are told
REACHES = (0, 1, 2, 4, 8, 16, 32)  # squares around a wall, between which points are told apart
BLOCK = 2048  # candidates asked for their distance at a time
ROUNDS = 40  # of candidates before a body that leaves no room around itself is given up


@dataclass(frozen=True)
class Region:
    """A box around a body, in body lengths, and how points thin out in it with the distance from the wall."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    offset: float
    power: float
    candidates: int  # per point drawn from the geometry: about one in so many is taken

    def density(self, distance: Floats) -> Floats:
        """Points per volume, up to a factor, at distances (n,) from the wall."""
        return np.asarray((np.maximum(distance, 0.0) + self.offset) ** -self.power)

    def contains(self, points: Floats) -> Bools:
        """(n,) whether points (n, d) lie in the box."""
        inside = [(x >= a) & (x <= b) for x, a, b in zip(points.T, self.low, self.high, strict=True)]
        return np.logical_and.reduce(inside)


AIRFOIL = Region((-2.0, -1.5), (4.0, 1.5), offset=0.002, power=1.5, candidates=20)
CAR = Region((-1.2, -0.7, 0.0), (2.0, 0.7, 0.8), offset=0.02, power=2.0, candidates=6)

AIR = Region((-1.2, -0.7, -0.7), (2.0, 0.7, 1.5), CAR.offset, CAR.power, CAR.candidates)


def usual_region(dimension: int, ground: bool = True) -> Region:
    """Where the points around a body lie: an airfoil, a body over a ground, or one in free air."""
    return AIRFOIL if dimension == 2 else CAR if ground else AIR


class Skin(NamedTuple):
    """Points on a surface."""

    points: Floats  # (n, d)
    cells: Ints  # (n,) the cells they lie on


class Around(NamedTuple):
    """Points in the fluid."""

    points: Floats  # (n, d)
    distance: Floats  # (n,) from the wall, positive
    direction: Floats  # (n, d) unit vectors away from the wall


def on_skin(surface: Surface, count: int, seed: int, faces: Bools | None = None) -> Skin:
    """`count` points spread evenly over the area of a surface, or of those of its cells (m,) that `faces` marks."""
    rng = np.random.default_rng(seed)
    areas = surface.areas if faces is None else np.where(faces, surface.areas, 0.0)
    total = np.cumsum(areas)
    # One point in each of `count` equal shares of the area: as uniform as independent points, with fewer gaps.
    place = (np.arange(count) + rng.random(count)) / count * total[-1]
    cells = np.searchsorted(total, place, side="right").clip(max=len(areas) - 1)
    if surface.dimension == 2:
        u = rng.random(count)
        weights = np.stack([1.0 - u, u], axis=1)
    else:
        root, u = np.sqrt(rng.random(count)), rng.random(count)
        weights = np.stack([1.0 - root, root * (1.0 - u), root * u], axis=1)
    return Skin(np.einsum("nk,nkd->nd", weights, surface.corners[cells]), cells)


def from_cells(region: Region, centres: Floats, volumes: Floats, distance: Floats, count: int, seed: int) -> Ints:
    """Indices of at most `count` cells of a solved case, drawn without repeats by the region's density x volume."""
    return by_weight(cell_weights(region, centres, volumes, distance), count, seed)


def cell_weights(region: Region, centres: Floats, volumes: Floats, distance: Floats) -> Floats:
    """The region's density x volume (n,) of the cells of a solved case; 0 outside the box.

    Centres (n, d), volumes (n,) and distances from the wall (n,) are those of its cells.
    """
    usable = np.flatnonzero(region.contains(centres) & (volumes > 0))
    weights = np.zeros(len(volumes))
    weights[usable] = region.density(distance[usable]) * volumes[usable]
    return weights


def by_weight(weights: Floats, count: int, seed: int) -> Ints:
    """At most `count` indices, in the order of successive draws by weight without replacement; none of weight 0."""
    usable = np.flatnonzero(weights)
    turns = np.random.default_rng(seed).exponential(size=len(usable)) / weights[usable]
    if count >= len(turns):
        return usable[np.argsort(turns)]
    first = np.argpartition(turns, count)[:count]
    return usable[first[np.argsort(turns[first])]]


def around(
    region: Region, surface: Surface, count: int, seed: int, covers: Callable[[Floats], Bools] | None = None
) -> Around:
    """`count` points outside a body, drawn from its geometry by the region's density.

    `covers` tells which of points (n, 3) lie inside a body in 3D, if somebody knows it without another tree.
    """
    rng, nearest = np.random.default_rng(seed), nearest_on(surface)
    found: list[Around] = []
    missing = count
    for _ in range(ROUNDS):
        points, level = _candidates(region, surface.bounds, region.candidates * missing + 200, rng)
        chance = rng.random(len(points)) * level
        if surface.dimension == 3:  # libigl is quicker to tell what lies inside than how deep, in 2D it is slower
            outside = ~(inside(surface, points) if covers is None else covers(points))
            points, chance = points[outside], chance[outside]
        else:  # most lie too far from the wall to be taken, which a coarse look tells sooner
            close = np.flatnonzero(chance < region.density(_LEAST).take(_rings(surface, points)))
            points, chance = points.take(close, axis=0), chance.take(close)
        for part in np.split(np.arange(len(points)), range(BLOCK, len(points), BLOCK)):  # until there are enough
            near = nearest(points[part])
            taken = np.flatnonzero((chance[part] < region.density(near.distance)) & (near.distance > 0))
            if surface.dimension == 2:
                taken = taken[_outside(surface, points[part[taken]], near.closest[taken], near.cells[taken])]
            chosen = taken[:missing]
            away = (points[part[chosen]] - near.closest[chosen]) / near.distance[chosen, None]
            found.append(Around(points[part[chosen]], near.distance[chosen], away))
            missing -= len(chosen)
            if missing <= 0:
                return Around(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
    raise InputError(
        "the body leaves no room around itself in the box that the model was trained on",
        seen=f"{surface.name or 'body'} from {surface.bounds[0].round(3)} to {surface.bounds[1].round(3)} body lengths",
        remedy="check the axes with --flow and --up",
    )


def _outside(curve: Surface, points: Floats, closest: Floats, cells: Ints) -> Bools:
    """(n,) whether points (n, 2) lie outside a curve, whose nearest points (n, 2) lie on segments `cells` (n,).

    One closed curve has them on the outer side of the nearest segment or, where the nearest point is an end of it, on
    that of both segments that meet there: in the direction of the sum of their normals.
    """
    if not (curve.closed and curve.pieces.max() == 0):
        return ~inside(curve, points)
    normals = curve.normals[cells]
    gaps = np.abs(curve.corners[cells] - closest[:, None]).max(axis=2)  # (n, 2) to the ends of the segments
    ends = np.flatnonzero(gaps.min(axis=1) < 1e-9)
    meet = np.empty_like(curve.points)
    meet[curve.cells[:, 0]] = curve.normals  # of the segment that starts there
    meet[curve.cells[:, 1]] += curve.normals
    normals[ends] = meet[curve.cells[cells[ends], gaps[ends].argmin(axis=1)]]
    return np.asarray(np.einsum("nd,nd->n", points - closest, normals) > 0)


# What lies beyond so many of REACHES is away from the curve at least, which may cut corners between its beads.
_LEAST = SQUARE * np.maximum(np.array([0, *REACHES]) - 0.125, 0.0)


def _rings(curve: Surface, points: Floats) -> Ints:
    """(n,) beyond how many of REACHES around a curve points (n, 2) lie: 0 in squares that it passes through."""
    step = SQUARE / 4  # from bead to bead along a segment
    share = np.arange(max(2, int(np.ceil(float(curve.areas.max()) / step)))) * step
    along = np.minimum(share / np.maximum(curve.areas, 1e-12)[:, None], 1.0)  # (m, k)
    beads = curve.corners[:, :1] + along[..., None] * (curve.corners[:, 1:] - curve.corners[:, :1])
    low = curve.bounds[0] - REACHES[-1] * SQUARE
    shape = np.ceil((curve.bounds[1] - low) / SQUARE).astype(int) + REACHES[-1] + 1
    near, ring = np.zeros(shape, dtype=bool), np.ones(shape, np.uint8)
    near[tuple(((beads.reshape(-1, 2) - low) / SQUARE).astype(int).T)] = True
    ring -= near
    for further in np.diff(REACHES):
        near[further:] |= near[:-further]
        near[:-further] |= near[further:]
        near[:, further:] |= near[:, :-further]
        near[:, :-further] |= near[:, further:]
        ring += ~near
    column, row = (
        np.clip((x - start) / SQUARE, 0, count - 1).astype(int)
        for x, start, count in zip(points.T, low, shape, strict=True)
    )
    return ring.ravel().take(column * shape[1] + row)


def regular_grid(low: Floats, high: Floats, shape: tuple[int, ...]) -> Floats:
    """The points (prod(shape), d) of a regular grid from corner to corner, row-major: the last axis runs fastest."""
    axes = [np.linspace(a, b, n) for a, b, n in zip(low, high, shape, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(shape))


def _candidates(region: Region, bounds: Floats, count: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Points (count, d) drawn with a density that nowhere falls below the region's, and that density (count,).

    It is constant in the rings between nested boxes around the body: a point is at least as far from the body as from
    its bounding box, so the region's density at a ring's inner box bounds that in the ring.
    """
    reach = np.append(region.offset * np.geomspace(0.1, 3.0 / region.offset, 40), np.inf)
    low = np.clip(bounds[0] - reach[:, None], region.low, region.high)
    high = np.clip(bounds[1] + reach[:, None], region.low, region.high)
    volume = np.prod(high - low, axis=1)
    level = region.density(np.append(0.0, reach[:-1]))
    share = (level - np.append(level[1:], 0.0)) * volume
    box = rng.choice(len(share), count, p=share / share.sum())
    points = low.take(box, axis=0) + (high - low).take(box, axis=0) * rng.random((count, len(region.low)))
    beyond = [np.maximum(a - x, x - b) for x, a, b in zip(points.T, *bounds, strict=True)]
    return points, level[np.searchsorted(reach, functools.reduce(np.maximum, beyond))]
