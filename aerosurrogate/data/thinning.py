"""A full-resolution simulation cut down to what training needs: tens of kilobytes, same forces, same distribution.

The skin of a car is drawn by area, each face standing for an equal share of it, and the shares are then adjusted by a
per cent or so until area, closedness, force and pitching moment are those of all faces. The surroundings are drawn
once from the solver's cells with the density that prediction uses (`mesh.surroundings`).
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from aerosurrogate.data.case import Case
from aerosurrogate.errors import InputError
from aerosurrogate.mesh import surroundings

SKIN_FACES = 1_600
AROUND = {2: 1_150, 3: 1_000}  # points around a body by dimension; a half body has half of a whole one's

Floats = NDArray[np.float64]


def thin(case: Case, *, whole_skin: bool, seed: int) -> Case:
    """The case with few surrounding points and, unless `whole_skin` or in 2D, at most SKIN_FACES faces of its skin."""
    rng = np.random.default_rng(seed)
    skin = np.flatnonzero(case.surface)
    areas = case.areas
    if areas is not None and case.dimensions == 3 and len(skin) > SKIN_FACES and not whole_skin:
        skin, shares = draw_skin(case, SKIN_FACES, rng)
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


def draw_skin(case: Case, count: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], Floats]:
    """Indices of at most `count` faces drawn by area, and the area (m2) that each stands for."""
    assert case.areas is not None
    skin = np.flatnonzero(case.surface)
    skin = skin[KDTree(case.points[skin]).indices]  # neighbours in a row, so that an even step covers the body evenly
    areas = case.areas[skin].astype(float)
    chance = _chances(areas, count)
    steps = np.cumsum(chance) + rng.random()
    chosen = np.flatnonzero(np.floor(steps) > np.floor(steps - chance))
    shares = areas[chosen] / chance[chosen]
    moments = _integrands(case, skin)
    return skin[chosen], calibrated(shares, moments[chosen], areas @ moments)


def _chances(areas: Floats, count: int) -> Floats:
    """Chance of each face to be drawn: in proportion to its area, 1 for those larger than their share."""
    sure = np.zeros(len(areas), bool)
    while True:
        chance = np.where(sure, 1.0, areas * ((count - sure.sum()) / areas[~sure].sum()))
        if not (beyond := chance > 1).any():
            return chance
        sure |= beyond


def _integrands(case: Case, rows: NDArray[np.intp]) -> Floats:
    """What must sum to the same over the chosen faces, (n, k): 1, normal, stress, pitching moment of the stress."""
    assert case.normals is not None
    normals = case.normals[rows].astype(float)
    columns = [np.ones((len(rows), 1)), normals]
    if "p" in case.fields:
        stress = -case.fields["p"][rows] * normals
        stress = stress + case.fields["wallShearStress"][rows] if "wallShearStress" in case.fields else stress
        x, z = case.points[rows, 0], case.points[rows, 2]
        columns += [stress, (z * stress[:, 0] - x * stress[:, 2])[:, None]]
    return np.concatenate(columns, axis=1)


def calibrated(weights: Floats, values: Floats, totals: Floats) -> Floats:
    """Weights (n,), changed as little as possible, under which `values` (n, k) sum to `totals` (k,)."""
    scale = np.maximum(np.abs(values).max(axis=0), 1e-300)
    values, totals = values / scale, totals / scale
    gram = (values * weights[:, None]).T @ values
    change = values @ np.linalg.lstsq(gram, totals - weights @ values, rcond=None)[0]
    return weights * np.maximum(1 + change, 0.1)
