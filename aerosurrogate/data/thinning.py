"""A full-resolution simulation cut down to what training needs: same forces, same distribution, far fewer points.

The skin of a car is drawn by area, each face standing for an equal share of it, and the shares are then adjusted by a
per cent or so until area, closedness, force and pitching moment are those of all faces. The surroundings are drawn
once from the solver's cells with the density that prediction uses (`mesh.surroundings`): of a case that is in memory,
or from cells as they are read (`Draw`), of which none but the drawn ones are ever held.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from aerosurrogate.data.case import Case
from aerosurrogate.errors import InputError
from aerosurrogate.mesh import surroundings

SKIN_FACES = 1_600
AROUND = {2: 1_150, 3: 1_000}  # points around a body by dimension; a half body has half of a whole one's

Floats = NDArray[np.float64]


class Draw:
    """Cells drawn from a stream of them by weight, without repeats: each keeps the place in the order in which it would
    have been drawn from all of them at once, and the first `count` so far are held."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.rng = count, np.random.default_rng(seed)
        self.turn: Floats = np.empty(0)
        self.weights: Floats = np.empty(0)
        self.rows: dict[str, NDArray[Any]] = {}

    def add(self, most: Floats, weigh: Callable[[NDArray[np.intp]], tuple[Floats, Mapping[str, NDArray[Any]]]]) -> None:
        """Some more cells, of which only the greatest weight that each may have is known, (n,).

        Those that can still be among the first are weighed: `weigh` gives the weights (k,) of the cells asked for, and
        whatever belongs to them, (k, ...) each.
        """
        bound = self.turn.max() if len(self.turn) == self.count else np.inf
        luck = self.rng.exponential(size=len(most))
        maybe = np.flatnonzero((most > 0) & (luck < np.where(most > 0, most, 1.0) * bound))
        weights, rows = weigh(maybe)
        turn = luck[maybe] / np.maximum(weights, np.finfo(float).tiny)
        new = turn < bound
        turn = np.concatenate([self.turn, turn[new]])
        first = np.argpartition(turn, self.count)[: self.count] if len(turn) > self.count else slice(None)
        self.turn, self.weights = turn[first], np.concatenate([self.weights, weights[new]])[first]
        before = self.rows or {name: values[:0] for name, values in rows.items()}
        self.rows = {name: np.concatenate([before[name], values[new]])[first] for name, values in rows.items()}

    @property
    def chances(self) -> Floats:
        """(n,) how likely each of the drawn cells was to be among them: it stands for one over that."""
        if len(self.turn) < self.count:
            return np.ones(len(self.turn))
        return -np.expm1(-self.weights * self.turn.max())


def thin(case: Case, *, whole_skin: bool, seed: int) -> Case:
    """The case with few surrounding points and, unless `whole_skin` or in 2D, at most SKIN_FACES faces of its skin."""
    rng = np.random.default_rng(seed)
    skin = np.flatnonzero(case.surface)
    areas = case.areas
    if areas is not None and case.dimensions == 3 and len(skin) > SKIN_FACES and not whole_skin:
        assert case.normals is not None
        fields = {name: values[skin] for name, values in case.fields.items()}
        drawn, shares = draw_skin(case.points[skin], case.normals[skin], areas[skin], fields, SKIN_FACES, rng)
        skin = skin[drawn]
        areas = np.zeros_like(areas)
        areas[skin] = shares
    around = draw_around(case, AROUND[case.dimensions], seed)
    return dataclasses.replace(case, areas=areas, volumes=None).take(np.concatenate([skin, around]))


def draw_around(case: Case, count: int, seed: int) -> NDArray[np.intp]:
    """Indices of `count` points off the skin, drawn from the solver's cells with the density of prediction."""
    if case.volumes is None or case.distance is None or case.conditions is None:
        raise InputError(
            f"case {case.name} cannot be packed: its points have no volumes, distances or conditions",
            seen=", ".join(case.arrays()),
            remedy="train from the data set as it is",
        )
    rows = np.flatnonzero(~case.surface)
    region = surroundings.usual_region(case.dimensions, case.conditions.ground)
    length = case.conditions.length
    points, distance, volumes = (
        array[rows].astype(float) for array in (case.points / length, case.distance / length, case.volumes)
    )
    return rows[surroundings.from_cells(region, points, volumes, distance, count, seed)]


def draw_skin(
    points: NDArray[Any],
    normals: NDArray[Any],
    areas: NDArray[Any],
    fields: Mapping[str, NDArray[Any]],
    count: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.intp], Floats]:
    """Indices of at most `count` faces drawn by area, and the area (m2) that each stands for.

    Points and unit normals (n, 3), areas (n,), and fields (n, c) whose force is kept: p and wallShearStress.
    """
    order = KDTree(points).indices  # neighbours in a row, so that an even step covers the body evenly
    sizes = areas[order].astype(float)
    chance = _chances(sizes, count)
    steps = np.cumsum(chance) + rng.random()
    chosen = np.flatnonzero(np.floor(steps) > np.floor(steps - chance))
    shares = sizes[chosen] / chance[chosen]
    moments = _integrands(points[order], normals[order], {name: values[order] for name, values in fields.items()})
    return order[chosen], calibrated(shares, moments[chosen], sizes @ moments)


def _chances(areas: Floats, count: int) -> Floats:
    """Chance of each face to be drawn: in proportion to its area, 1 for those larger than their share."""
    sure = np.zeros(len(areas), bool)
    while True:
        chance = np.where(sure, 1.0, areas * ((count - sure.sum()) / areas[~sure].sum()))
        if not (beyond := chance > 1).any():
            return chance
        sure |= beyond


def _integrands(points: NDArray[Any], normals: NDArray[Any], fields: Mapping[str, NDArray[Any]]) -> Floats:
    """What must sum to the same over the chosen faces, (n, k): 1, normal, stress, pitching moment of the stress."""
    normals = normals.astype(float)
    columns = [np.ones((len(points), 1)), normals]
    if "p" in fields:
        stress = -fields["p"].reshape(-1, 1) * normals
        stress = stress + fields["wallShearStress"] if "wallShearStress" in fields else stress
        x, z = points[:, 0], points[:, 2]
        columns += [stress, (z * stress[:, 0] - x * stress[:, 2])[:, None]]
    return np.concatenate(columns, axis=1)


def calibrated(weights: Floats, values: Floats, totals: Floats) -> Floats:
    """Weights (n,), changed as little as possible, under which `values` (n, k) sum to `totals` (k,)."""
    scale = np.maximum(np.abs(values).max(axis=0), 1e-300)
    values, totals = values / scale, totals / scale
    gram = (values * weights[:, None]).T @ values
    change = values @ np.linalg.lstsq(gram, totals - weights @ values, rcond=None)[0]
    return weights * np.maximum(1 + change, 0.1)
