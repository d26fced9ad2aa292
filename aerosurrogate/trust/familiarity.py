"""Whether an answer can be trusted: how far a shape and its stream lie from what the model was trained on.

Three kinds of signs, each turned into a score that is about 1 at the edge of the familiar:

    ranges          conditions and plain shape measures, against the training set's smallest and largest values
    features        distance of the pooled skin features of the last layer to the training set's, along its main axes
                    and off them
    disagreement    of the two routes to a coefficient, against its size on validation cases

Each sign is measured in its own conformal 95 % quantile over validation cases. The worst score counts, and its limit
is again that quantile, so that 95 % of shapes like the training set's are `inside`; up to twice the limit is `near`,
beyond is `outside`. The statistics are a plain JSON document, kept in the checkpoint.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.conditions import Conditions

Mark = Literal["inside", "near", "outside"]
COVERAGE = 0.95
NEAR = 2.0  # times the limit
_RANGE_UNIT = 0.1  # leaving a range by this part of its width scores at most 1
_LEAST_WIDTH = 0.02  # of a range: what never varied in training may still differ by a trifle
_LEAST_WIDTHS = {"yaw": 10.0}  # degrees: real cars are not quite the same left and right
_ROUTES = {"routes to cd": 0.05, "routes to cl": 0.05}  # log of a ratio, and a difference
ENOUGH = 20  # held-out cases for a 95 % quantile
_AXES = 12  # main axes kept of the features
_OFF_AXES = "features off axes"

_WORDS = {
    "log10_reynolds": "log10 of the Reynolds number",
    "alpha": "angle of attack (degrees)",
    "ground": "ground under the body (1 = yes)",
    "height": "height over length",
    "width": "width over length",
    "clearance": "ground clearance over length",
    "thickness": "thickness over chord",
    "camber": "height of the section's middle over chord",
    "skin": "skin area over length squared",
    "front": "area facing the stream over length squared",
    "profile": "area facing sideways over length squared",
    "plan": "area facing up over length squared",
    "rise": "height of the skin's centre over length",
    "lean": "sideways offset of the skin's centre over length",
    "yaw": "angle between body and stream (degrees)",
    "volume": "volume over length cubed",
    "fullness": "volume over that of the enclosing box",
    "cd": "drag",
    "cl": "lift",
}


@dataclass(frozen=True)
class Evidence:
    """What one case shows of itself, in the model's non-dimensional frame."""

    features: NDArray[np.float64]  # (c,) pooled skin features
    conditions: dict[str, float]  # log10_reynolds, alpha, ground, as far as the model knows them
    shape: dict[str, float]  # from `shape_measures`
    disagreement: dict[str, float] = field(default_factory=dict)  # from `disagreement`


class Basis(TypedDict):
    """The training set's main axes in the space of the pooled features."""

    centre: list[float]  # (c,)
    axes: list[list[float]]  # (k, c) unit vectors
    spread: list[float]  # (k,) standard deviations along them


class Statistics(TypedDict):
    """What a checkpoint remembers of its training set, and what held-out cases showed."""

    ranges: dict[str, list[float]]  # smallest and largest value of each condition and shape measure
    features: Basis
    middles: dict[str, float]  # of the disagreement of the routes, by coefficient
    cases: list[int]  # how many of training and of validation
    units: dict[str, float]  # each sign's value at which it scores 1
    limit: float  # the score at the edge of `inside`


@dataclass(frozen=True)
class Verdict:
    """The mark, and in words what took it away from `inside`."""

    mark: Mark
    score: float  # over the limit: 1 is the edge of inside
    reasons: tuple[str, ...] = ()


def shape_measures(points: NDArray, normals: NDArray, areas: NDArray) -> dict[str, float]:
    """Plain measures of a skin, from points (n, d) in body lengths with outward normals (n, d) and areas (n,)."""
    points, normals, areas = (np.asarray(a, dtype=float) for a in (points, normals, areas))
    dimensions = points.shape[1]
    low, high = points.min(axis=0), points.max(axis=0)
    volume = float(np.sum(areas * np.sum(points * normals, axis=1))) / dimensions
    measures = {"skin": float(areas.sum()), "volume": volume}
    if dimensions == 2:
        return measures | {"thickness": float(high[1] - low[1]), "camber": float(high[1] + low[1]) / 2}
    centre = areas @ points / max(float(areas.sum()), 1e-12)
    offset = points - centre
    along, across, both = (float(np.sum(areas * offset[:, i] * offset[:, j])) for i, j in ((0, 0), (1, 1), (0, 1)))
    return measures | {
        # Of the skin's main axis as seen from above; none where left and right are the same.
        "yaw": abs(math.degrees(math.atan2(2 * both, along - across))) / 2 if abs(both) > 1e-12 else 0.0,
        "front": float(np.sum(areas * np.maximum(-normals[:, 0], 0.0))),
        "profile": float(np.sum(areas * np.maximum(normals[:, 1], 0.0))),
        "plan": float(np.sum(areas * np.maximum(normals[:, 2], 0.0))),
        "rise": float(centre[2]),
        "lean": abs(float(centre[1])),
        "height": float(high[2] - low[2]),
        "width": float(high[1] - low[1]),
        "clearance": float(low[2]),
        "fullness": volume / max(float(np.prod(high - low)), 1e-12),
    }


def evidence(
    features: NDArray,
    reynolds: float,
    stream: Conditions,
    points: NDArray,
    normals: NDArray,
    areas: NDArray,
    head: Mapping[str, float],
    integrated: Mapping[str, float],
) -> Evidence:
    """What a body shows of itself: pooled features (c,), the stream and its skin in the model's frame (points (n, d)
    m, outward normals (n, d), areas (n,) m2), `cd` and `cl` by both routes over the silhouette, whatever the area.
    """
    dimensions = np.shape(points)[1]
    conditions = {"log10_reynolds": math.log10(reynolds), "ground": float(stream.ground)}
    if dimensions == 2:
        conditions["alpha"] = stream.alpha
    shape = shape_measures(points / stream.length, normals, areas / stream.length ** (dimensions - 1))
    return Evidence(features, conditions, shape, disagreement(head, integrated))


def place(known: Statistics, features: NDArray) -> list[float]:
    """Where features lie along the training set's main axes, in its standard deviations: (k,)."""
    basis = known["features"]
    along = np.array(basis["axes"]) @ (np.asarray(features, dtype=float) - np.array(basis["centre"]))
    return [float(f"{value:.7g}") for value in along / np.array(basis["spread"])]


def disagreement(best: Mapping[str, float], integrated: Mapping[str, float]) -> dict[str, float]:
    """How far the two routes lie apart: the log of the ratio for drag (a positive number), the difference for lift."""
    apart = {}
    if "cd" in best and "cd" in integrated:
        apart["cd"] = math.log(max(best["cd"], 1e-5) / max(integrated["cd"], 1e-5))
    if "cl" in best and "cl" in integrated:
        apart["cl"] = best["cl"] - integrated["cl"]
    return apart


def fit(training: Sequence[Evidence], validation: Sequence[Evidence]) -> Statistics:
    """Statistics for `judge`, as a JSON document; `validation` are held-out cases like the training set's.

    Without any, the training cases stand in for them, and the limit is then too strict rather than too loose; of so
    few that the main axes hold all of them, none says how far off these another may lie, and that sign is left out.
    """
    alone, validation = not validation, validation or training
    features = np.stack([e.features for e in training]).astype(float)
    centre = features.mean(axis=0)
    _, sizes, axes = np.linalg.svd(features - centre, full_matrices=False)
    deviations = sizes / math.sqrt(max(len(features) - 1, 1))
    there = int(np.sum(deviations > 1e-6 * deviations[0]))
    kept = min(_AXES, there)
    known: Statistics = {
        "ranges": {
            name: [min(values), max(values)] for name, values in _columns([e.conditions | e.shape for e in training])
        },
        "features": {"centre": _plain(centre), "axes": _plain(axes[:kept]), "spread": _plain(deviations[:kept])},
        "middles": {name: float(np.median(values)) for name, values in _columns([e.disagreement for e in validation])},
        "cases": [len(training), len(validation)],
        "units": {},
        "limit": 1.0,
    }
    held_out, seen = (_values(known, cases) for cases in (validation, training))
    # Few held-out cases say little about the next one: the fewer, the more room.
    room = max(1.0, math.sqrt(ENOUGH / len(validation)))
    known["units"] = {
        sign: max(room * max(_quantile(values), _quantile(seen[sign])), _least(sign, known))
        for sign, values in held_out.items()
        if not (alone and kept == there and sign == _OFF_AXES)
    }
    known["limit"] = max(1.0, _quantile([max(score for score, _ in _scores(known, e)) for e in validation]))
    return known


def _values(known: Statistics, cases: Sequence[Evidence]) -> dict[str, list[float]]:
    """Every sign's values before scaling, by its name."""
    rows = [{sign: value for sign, value, _ in _signs(known, e)} for e in cases]
    return {sign: [row[sign] for row in rows] for sign in rows[0]}


def _least(sign: str, known: Statistics) -> float:
    """The smallest unit of a sign: closer agreement than this is luck."""
    return _RANGE_UNIT if sign in known["ranges"] else _ROUTES.get(sign, 1e-6)


def judge(known: Statistics, evidence: Evidence) -> Verdict:
    """Mark a case against the statistics of `fit`; reasons are the signs beyond the limit, worst first."""
    scored = sorted(_scores(known, evidence), key=lambda pair: -pair[0])
    worst = scored[0][0] / known["limit"]
    mark: Mark = "inside" if worst <= 1 else "near" if worst <= NEAR else "outside"
    return Verdict(mark, worst, tuple(words for score, words in scored if score > known["limit"]))


def _scores(known: Statistics, evidence: Evidence) -> list[tuple[float, str]]:
    """Every sign's value in its unit, with the sentence that says what it means."""
    return [
        (value / known["units"][sign], words.format(value / known["units"][sign]))
        for sign, value, words in _signs(known, evidence)
        if sign in known["units"]
    ]


def _signs(known: Statistics, evidence: Evidence) -> list[tuple[str, float, str]]:
    """Every sign's name, its value before scaling, and a sentence with room for its score."""
    signs: list[tuple[str, float, str]] = []
    values = evidence.conditions | evidence.shape
    for name, (low, high) in known["ranges"].items():
        if name in values:
            width = max(high - low, _LEAST_WIDTHS.get(name, _LEAST_WIDTH))
            excess = max(low - values[name], values[name] - high, 0.0) / width
            seen, least, most = (round(value, 6) for value in (values[name], low, high))
            words = f"{_WORDS.get(name, name)} {seen:.3g}, trained on {least:.3g} to {most:.3g}"
            signs.append((name, excess, words))
    far = "the learned features of the skin are {{:.1f}} times as far from {} as held-out shapes are"
    along, off = _distances(known, evidence.features)
    signs.append(("features", along, far.format("the training set's")))
    signs.append((_OFF_AXES, off, far.format("all that the training set spans")))
    for name, middle in known["middles"].items():
        if name in evidence.disagreement:
            words = f"the two routes to {_WORDS.get(name, name)} disagree {{:.1f}} times as much as for held-out shapes"
            signs.append((f"routes to {name}", abs(evidence.disagreement[name] - middle), words))
    return signs


def _distances(known: Statistics, features: NDArray) -> tuple[float, float]:
    """Root mean square distance along the main axes in standard deviations, and what lies off them."""
    basis = known["features"]
    offset = np.asarray(features, dtype=float) - np.array(basis["centre"])
    axes, deviations = np.array(basis["axes"]), np.array(basis["spread"])
    along = axes @ offset
    off = float(np.linalg.norm(offset - axes.T @ along))
    return float(np.sqrt(np.mean((along / deviations) ** 2))), off


def _columns(rows: Sequence[Mapping[str, float]]) -> list[tuple[str, list[float]]]:
    return [(name, [float(row[name]) for row in rows]) for name in (rows[0] if rows else {})]


def _quantile(values: Sequence[float]) -> float:
    """The conformal quantile: the smallest value that covers the next case with probability COVERAGE."""
    rank = math.ceil((len(values) + 1) * COVERAGE)
    return float(np.sort(values)[min(rank, len(values)) - 1])


def _plain(array: NDArray) -> list[Any]:
    """Numbers with seven digits, which is what float32 features hold."""
    return [[float(f"{v:.7g}") for v in row] for row in array] if array.ndim == 2 else _plain(array[None])[0]
