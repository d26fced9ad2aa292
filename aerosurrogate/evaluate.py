"""Held-out accuracy with the paper's metrics: fields, forces by both routes, ranks, time.

Per case: relative L2 of every field around the body and on its skin, at every stored point, and the coefficients by
the head and by integration over the skin. In all: means over the cases, Spearman's rho with bootstrap intervals, R2.
Relative errors of lift leave out cases with |C_L| below 0.1, where a ratio means nothing.

Models that were trained on whole meshes are measured on these. Prediction, which knows a shape alone, draws its points
as those of the meshes lie: what that costs stands beside (`..._drawn`).
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate import console
from aerosurrogate.data.case import Case
from aerosurrogate.data.sampling import Sampling, drawn
from aerosurrogate.data.scaling import Places
from aerosurrogate.data.store import Dataset, Entry
from aerosurrogate.data.training_frame import body_origin
from aerosurrogate.errors import InputError
from aerosurrogate.held_out import HeldOut
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.model.interface import States
from aerosurrogate.model_frame import sample
from aerosurrogate.surrogate import CHUNK, Surrogate
from aerosurrogate.trust import familiarity, intervals
from aerosurrogate.trust.agreement import bootstrap, spearman
from aerosurrogate.trust.intervals import Sample
from aerosurrogate.writing import replacing, write_json

SMALLEST_LIFT = 0.1
MORE = 4  # times the points of a training step
ROUTES = ("head", "integrated")
DRAWN = "drawn"
EVIDENCE = 5  # cases that can speak for a head against integration


@dataclass
class Evaluation:
    """Rows by case and figures in all; `figures` are plain numbers named as in the columns of the tables."""

    rows: list[dict[str, Any]]
    figures: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, list[float]] = field(default_factory=dict)
    paper: dict[str, float] = field(default_factory=dict)
    evidence: dict[str, familiarity.Evidence] = field(default_factory=dict)  # by case

    def document(self) -> dict[str, Any]:
        return {
            "cases": len(self.rows),
            "figures": self.figures,
            "intervals": self.intervals,
            "paper": self.paper,
            "rows": self.rows,
        }

    def errors(self, routes: dict[str, str]) -> Sample:
        """The cases with known coefficients, and the errors of the routes taken."""
        needed = {"area_over_silhouette", *routes, *(f"{key}_{route}" for key, route in routes.items())}
        rows = [row for row in self.rows if row["name"] in self.evidence and needed <= row.keys()]
        found = {key: [_error(row, key, route) for row in rows] for key, route in routes.items()}
        return Sample([self.evidence[row["name"]] for row in rows], found)

    def with_cases(self, other: "Evaluation") -> "Evaluation":
        """The cases of both."""
        return Evaluation(self.rows + other.rows, evidence=self.evidence | other.evidence)

    def only(self, names: Collection[str]) -> "Evaluation":
        """The cases of these names."""
        evidence = {name: found for name, found in self.evidence.items() if name in names}
        return Evaluation([row for row in self.rows if row["name"] in names], evidence=evidence)

    def write(self, folder: Path, name: str = "evaluation") -> None:
        """NAME.json with everything and NAME.csv with one row a case."""
        import pandas as pd

        write_json(folder / f"{name}.json", self.document())
        with replacing(folder / f"{name}.csv") as temporary:
            pd.DataFrame(self.rows).to_csv(temporary, index=False, float_format="%.7g")

    def show(self, *, results: bool = False) -> None:
        """The figures as a table, the paper's beside them where there are any."""
        columns = ["metric", "value", "95 % interval"] + (["paper"] if self.paper else [])
        rows = []
        for name, value in self.figures.items():
            interval = self.intervals.get(name)
            between = f"{interval[0]:.4f} - {interval[1]:.4f}" if interval else ""
            row = [name, f"{value:.4g}", between]
            rows.append(row + ([f"{self.paper[name]:g}" if name in self.paper else ""] if self.paper else []))
        console.table(f"{len(self.rows)} cases", columns, rows, results=results)


def evaluate(
    surrogate: Surrogate,
    dataset: Dataset,
    names: Sequence[str],
    title: str = "evaluate",
    keep: Callable[[HeldOut], Path] | None = None,
) -> Evaluation:
    """Measure a model on cases of a data set, at full resolution, chunk by chunk.

    `keep` is given each case with its answers, and says in which file it put them.
    """
    result = Evaluation([], paper=dict(surrogate.card.get("paper", {})))
    with console.progress(title, len(names), unit="cases") as advance:
        for number, name in enumerate(names):
            row, evidence, answered = evaluate_case(surrogate, dataset, name, number)
            if keep is not None:
                row["file"] = str(keep(answered))
            result.rows.append(row)
            if evidence is not None:
                result.evidence[name] = evidence
            advance()
    summarise(result)
    return result


def evaluate_case(
    surrogate: Surrogate, dataset: Dataset, name: str, seed: int = 0
) -> tuple[dict[str, Any], familiarity.Evidence | None, HeldOut]:
    """One case: its metrics, what it shows of itself for trust, and the answers.

    A model of several data sets is asked as prediction asks it: for an answer as those of the first are.
    """
    case = dataset.case(name).whole()
    _require_fit(surrogate, case, dataset)
    places = replace(Places.of(case), source=0)
    start, states = time.perf_counter(), None
    if not surrogate.has_states(case.grid):
        predicted, states = surrogate.answer(places, case.grid)
    else:
        seen = places
        if surrogate.sampling.kind != "rows" or surrogate.sampling.around is not None:
            sampling = _fuller(surrogate.sampling, dataset.manifest.cases[name])
            seen = replace(Places.of(drawn(dataset, name, sampling, np.random.default_rng(seed))), source=0)
        states = surrogate.states(seen)
        predicted = surrogate.decode(states, places, CHUNK)
    row: dict[str, Any] = {"name": name} | field_errors(surrogate, case, predicted)
    row |= coefficient_errors(surrogate, case, predicted, states)
    row["seconds"] = time.perf_counter() - start
    known = {field: values for field, values in predicted.items() if field in case.fields}
    answered = HeldOut(case, known, surrogate.times, dataset=str(dataset.folder))
    if surrogate.sampling.kind == "rows" and surrogate.pattern is not None:
        states = None  # trust compares what prediction has: drawn points
        if case.cells is not None and case.conditions is not None and case.grid is None:
            states = surrogate.states(_as_predicted(surrogate, case))
            predicted = surrogate.decode(states, places, CHUNK)
            row |= {f"{key}_{DRAWN}": value for key, value in field_errors(surrogate, case, predicted).items()}
            again = coefficient_errors(surrogate, case, predicted, states)
            row |= {f"{c}_{DRAWN}": again[f"{c}_integrated"] for c in ("cd", "cl") if f"{c}_integrated" in again}
    evidence = _evidence(surrogate, case, states, row)
    if evidence is not None and surrogate.trust is not None and surrogate.calibration is not None:
        row |= _bounds(surrogate, evidence, row)
    return row, evidence, answered


def _require_fit(surrogate: Surrogate, case: Case, dataset: Dataset) -> None:
    """Refuse data of another dimension, and such as hold nothing that the model answers."""
    remedy = "give a model that was trained on such data"
    if case.dimensions != surrogate.dimensions:
        seen = f"{dataset.folder} has {case.dimensions}"
        raise InputError(f"the model is for {surrogate.dimensions} dimensions", seen=seen, remedy=remedy)
    answers = surrogate.scaling.field_names
    if case.fields and not set(answers) & set(case.fields):
        seen = f"{', '.join(answers)}; {dataset.folder} has {', '.join(case.fields)}"
        raise InputError("the model answers other fields than the data hold", seen=seen, remedy=remedy)


def _as_predicted(surrogate: Surrogate, case: Case) -> Places:
    """The points at which prediction, knowing the body's shape alone, would look at a case."""
    assert case.cells is not None
    assert case.conditions is not None
    origin = body_origin(case.points[case.surface], case.conditions.ground)
    body = Surface(case.points - origin, case.cells.astype(np.int64), name=case.name)
    places = sample(body.select(np.ones(len(body.cells), bool)), case.conditions, surrogate)
    return replace(places, points=places.points + origin.astype(np.float32))


def _fuller(sampling: Sampling, meta: Entry) -> Sampling:
    """More points of the same mix than a training step saw, as far as the case has them: their means scatter less."""
    if sampling.around is None:
        return sampling
    around = min(MORE * sampling.around, meta["points"] - meta["surface"])
    skin = None if sampling.skin is None else round(sampling.skin * around / sampling.around)
    return Sampling(sampling.kind, skin, around)


def field_errors(surrogate: Surrogate, case: Case, predicted: dict[str, NDArray]) -> dict[str, float]:
    """Relative L2 of each field where it counts: `p_surface`, `U_volume`, ...; without a skin just the field's name."""
    errors: dict[str, float] = {}
    if not case.fields:  # no more than its coefficients is known
        return errors
    for name, where in zip(surrogate.scaling.field_names, surrogate.scaling.where, strict=True):
        if name not in case.fields:  # data of others may hold less than the model answers
            continue
        truth = case.fields[name]
        for part, rows in (("volume", ~case.surface), ("surface", case.surface)):
            # Velocity and turbulent viscosity vanish on the skin: an error relative to them means nothing.
            if where in ("all", part) and rows.any() and np.abs(truth[rows]).max() > 1e-3 * np.abs(truth).max():
                label = f"{name}_{part}" if case.surface.any() else name
                errors[label] = relative_l2(predicted[name][rows], truth[rows])
    return errors


def relative_l2(predicted: NDArray, truth: NDArray) -> float:
    return float(np.linalg.norm(predicted - truth) / max(float(np.linalg.norm(truth)), 1e-30))


def coefficient_errors(
    surrogate: Surrogate, case: Case, predicted: dict[str, NDArray], states: States | None
) -> dict[str, float]:
    """True and predicted cd and cl, by the head and integrated over the skin."""
    stream, area, silhouette = case.conditions, case.reference.get("area"), case.silhouette
    true = {key: case.reference[key] for key in ("cd", "cl") if key in case.reference}
    if stream is None or area is None or silhouette is None or not true:
        return {}
    answers: dict[str, float] = {}
    if states is not None and (areas := surrogate.force_areas(states, silhouette)):
        answers |= {f"c{key[0]}_head": value / area for key, value in areas.items()}
    if (found := case.coefficients(predicted)) is not None:
        answers |= {"cd_integrated": found.cd, "cl_integrated": found.cl}
    known = {name: value for name, value in answers.items() if name[:2] in true}
    return true | {"area_over_silhouette": area / silhouette} | known


def _evidence(
    surrogate: Surrogate, case: Case, states: States | None, row: dict[str, Any]
) -> familiarity.Evidence | None:
    features = None if states is None else surrogate.features(states)
    if features is None or case.conditions is None or case.normals is None or case.areas is None:
        return None
    stream, skin, ratio = case.conditions, case.surface, row.get("area_over_silhouette", 1.0)
    head, whole = ({k: row[f"{k}_{route}"] * ratio for k in ("cd", "cl") if f"{k}_{route}" in row} for route in ROUTES)
    return familiarity.evidence(
        features, stream.reynolds, stream, case.points[skin], case.normals[skin], case.areas[skin], head, whole
    )


def _bounds(surrogate: Surrogate, evidence: familiarity.Evidence, row: dict[str, Any]) -> dict[str, float | None]:
    """The 90 % intervals of cd and cl."""
    assert surrogate.trust is not None
    assert surrogate.calibration is not None
    best = {key: row.get(f"{key}_{route}", np.nan) for key, route in surrogate.card["routes"].items()}
    others = {"head": "integrated", "integrated": "head"}
    other = {key: row.get(f"{key}_{others[route]}", best[key]) for key, route in surrogate.card["routes"].items()}
    verdict = familiarity.judge(surrogate.trust, evidence)
    found = intervals.uncertainty(surrogate.calibration, surrogate.trust, evidence, verdict.score)
    return intervals.bounds(found, best, other, verdict.mark, 1 / row["area_over_silhouette"])


def calibrate(surrogate: Surrogate, held_out: Evaluation, training: Evaluation) -> None:
    """Fit the intervals of a model whose routes and trust are known, on cases that it has not seen; its card says how
    often they hold for cases that had no part in the fit."""
    assert surrogate.trust is not None
    routes = surrogate.card["routes"]
    samples = held_out.errors(routes), training.errors(routes)
    surrogate.calibration = intervals.fit(surrogate.trust, *samples)
    if surrogate.calibration is None or len(samples[0].evidence) < intervals.FOLDS:
        return
    figures: dict[str, Any] = {"cases": len(samples[0].evidence)}
    stalled = np.array([abs(e.conditions.get("alpha", 0.0)) > intervals.STALL for e in samples[0].evidence])
    for key, ratios in intervals.cross_checked(surrogate.trust, *samples).items():
        figures |= _coverage(key, np.abs(ratios) <= 1, stalled)
    surrogate.card["intervals"] = figures


def _error(row: dict[str, Any], key: str, route: str) -> float:
    """Of what prediction would answer: from drawn points, where the model was trained on others."""
    predicted = row.get(f"{key}_{DRAWN}", row[f"{key}_{route}"]) if route == "integrated" else row[f"{key}_{route}"]
    return intervals.error(key, predicted, row[key], row["area_over_silhouette"])


def _coverage(key: str, covered: NDArray[np.bool_], stalled: NDArray[np.bool_]) -> dict[str, float]:
    """How often the truth lies within the 90 % interval; sections below and beyond the stall apart too."""
    figures = {f"{key}_coverage": float(np.mean(covered))}
    if stalled.any() and not stalled.all():
        for words, part in (("below", ~stalled), ("beyond", stalled)):
            figures[f"{key}_coverage_{words}_{intervals.STALL:g}_degrees"] = float(np.mean(covered[part]))
    return figures


def summarise(result: Evaluation) -> None:
    """Fill in the figures over all rows."""
    if not result.rows:
        return
    routes = (*ROUTES, DRAWN)
    ends = (*routes, "low", "high")
    found = {f"{c}_{end}" for c in ("cd", "cl") for end in ends}
    apart = {"name", "file", "cd", "cl", "seconds", "area_over_silhouette"} | found
    keys = [key for key in result.rows[0] if key not in apart]
    for key in keys:
        result.figures[key] = float(np.mean([row[key] for row in result.rows if key in row]))
    for coefficient in ("cd", "cl"):
        for route in routes:
            _summarise_coefficient(result, coefficient, route)
        _summarise_intervals(result, coefficient)
    result.figures["seconds_per_case"] = float(np.median([row["seconds"] for row in result.rows]))


def _summarise_coefficient(result: Evaluation, coefficient: str, route: str) -> None:
    column = f"{coefficient}_{route}"
    rows = [row for row in result.rows if column in row]
    if not rows:
        return
    true, predicted = np.array([[row[coefficient], row[column]] for row in rows]).T
    counted = np.abs(true) > SMALLEST_LIFT if coefficient == "cl" else np.ones(len(true), bool)
    if counted.any():
        result.figures[f"{column}_error"] = float(np.mean(np.abs(predicted / true - 1)[counted]))
    if len(rows) < 2 or np.ptp(true) == 0:
        return
    letter = {"cd": "D", "cl": "L"}[coefficient]
    rho, interval = bootstrap(spearman, predicted, true)
    if rho is not None and interval is not None:
        result.figures[f"rho_{letter}_{route}"] = rho
        result.intervals[f"rho_{letter}_{route}"] = interval
    scatter = float(np.sum((true - true.mean()) ** 2))
    result.figures[f"R2_{column}"] = 1 - float(np.sum((predicted - true) ** 2)) / scatter


def cost_of_drawing(result: Evaluation) -> dict[str, str]:
    """What it costs to know a shape alone, in words for a card; {} where training points are drawn anyway."""
    words = {}
    for key, value in result.figures.items():
        native = key.replace(f"_{DRAWN}", "_integrated" if key.startswith(("cd", "cl", "rho")) else "")
        if native != key and native in result.figures and not key.startswith("R2"):
            words[native] = (
                f"{result.figures[native]:.4g} from its own mesh, {value:.4g} from points drawn for its shape"
            )
    return words


def _summarise_intervals(result: Evaluation, coefficient: str) -> None:
    rows = [row for row in result.rows if coefficient in row and row.get(f"{coefficient}_low") is not None]
    if not rows:
        return
    low, high, true = (np.array([row[f"{coefficient}{end}"] for row in rows]) for end in ("_low", "_high", ""))
    angles = np.array([abs(result.evidence[row["name"]].conditions.get("alpha", 0.0)) for row in rows])
    result.figures |= _coverage(coefficient, (low <= true) & (true <= high), angles > intervals.STALL)
    result.figures[f"{coefficient}_half_width"] = float(np.mean(high - low)) / 2


def best_routes(result: Evaluation) -> dict[str, str]:
    """For cd and cl the route to take: the head, unless integration is better on these cases beyond chance.

    The head stands before integration because it hardly depends on how a skin is cut into faces. Beyond chance is more
    than the standard error of the mean difference. A head that has seen few shapes may know them by heart, and fewer
    than `EVIDENCE` cases cannot show that it does not: then it is integration, which has physics to hold on to.
    """
    routes: dict[str, str] = {}
    for coefficient in ("cd", "cl"):
        offered = [route for route in ROUTES if result.rows and f"{coefficient}_{route}" in result.rows[0]]
        if len(offered) < 2 or len(result.rows) < EVIDENCE:
            routes |= {coefficient: offered[-1]} if offered else {}
            continue
        head, integrated = (
            np.abs(
                [intervals.error(coefficient, row[f"{coefficient}_{route}"], row[coefficient]) for row in result.rows]
            )
            for route in ROUTES
        )
        gain = head - integrated
        better = gain.mean() > gain.std(ddof=1) / len(gain) ** 0.5
        routes[coefficient] = "integrated" if better else "head"
    return routes
