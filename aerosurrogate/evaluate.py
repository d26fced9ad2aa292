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

from aerosurrogate import console, forces
from aerosurrogate.data.case import Case
from aerosurrogate.data.sampling import Sampling, drawn
from aerosurrogate.data.scaling import Places
from aerosurrogate.data.store import Dataset, Entry
from aerosurrogate.data.training_frame import body_origin
from aerosurrogate.errors import InputError
from aerosurrogate.held_out import HeldOut
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.model.interface import States
from aerosurrogate.model_frame import MORE, sample
from aerosurrogate.surrogate import CHUNK, Surrogate
from aerosurrogate.trust import familiarity, intervals
from aerosurrogate.trust.agreement import bootstrap, spearman
from aerosurrogate.trust.intervals import Sample
from aerosurrogate.writing import replacing, write_json

SMALLEST_LIFT = 0.1
ROUTES = ("head", "integrated", "both")
DRAWN = "drawn"
EVIDENCE = 5  # cases that can speak for a head against integration


@dataclass
class CaseResult:
    """One case beside what a model says of it; coefficients are over the case's own reference area."""

    name: str
    fields: dict[str, float] = field(default_factory=dict)  # from `field_errors`
    truth: dict[str, float] = field(default_factory=dict)  # cd and cl; {} where these or the areas are not known
    answers: dict[str, dict[str, float]] = field(default_factory=dict)  # the same by route
    area_over_silhouette: float = 1.0
    seconds: float = 0.0
    fields_drawn: dict[str, float] = field(default_factory=dict)  # as `fields`, from points drawn for the shape
    bounds: dict[str, float | None] = field(default_factory=dict)  # cd_low, cd_high, cl_low, cl_high: 90 % intervals
    evidence: familiarity.Evidence | None = None
    file: str | None = None  # that holds the answers

    def row(self) -> dict[str, float | str | None]:
        """As the tables have it."""
        return {
            "name": self.name,
            **self.fields,
            **self.truth,
            **({"area_over_silhouette": self.area_over_silhouette} if self.truth else {}),
            **{f"{key}_{route}": value for route in ROUTES for key, value in self.answers.get(route, {}).items()},
            "seconds": self.seconds,
            **{f"{key}_{DRAWN}": error for key, error in self.fields_drawn.items()},
            **{f"{key}_{DRAWN}": value for key, value in self.answers.get(DRAWN, {}).items()},
            **self.bounds,
            **({} if self.file is None else {"file": self.file}),
        }

    def pair(self, coefficient: str, route: str) -> tuple[float, float] | None:
        """The true value and that by a route; None where one is not known."""
        answer = self.answers.get(route, {}).get(coefficient)
        return None if answer is None or coefficient not in self.truth else (self.truth[coefficient], answer)

    def error(self, coefficient: str, route: str) -> float | None:
        """As intervals count it, of what prediction would answer: from drawn points, where the model was trained on
        others; None where it is not known."""
        pair = self.pair(coefficient, route)
        if pair is not None and route == "integrated":
            pair = self.pair(coefficient, DRAWN) or pair
        return None if pair is None else intervals.error(coefficient, pair[1], pair[0], self.area_over_silhouette)


@dataclass
class Evaluation:
    """Results by case and figures in all; `figures` are plain numbers named as in the columns of the tables."""

    cases: list[CaseResult]
    figures: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, list[float]] = field(default_factory=dict)
    paper: dict[str, float] = field(default_factory=dict)

    @property
    def rows(self) -> list[dict[str, float | str | None]]:
        return [case.row() for case in self.cases]

    @property
    def evidence(self) -> dict[str, familiarity.Evidence]:
        """What cases show of themselves for trust, by name."""
        return {case.name: case.evidence for case in self.cases if case.evidence is not None}

    def document(self) -> dict[str, Any]:
        return {
            "cases": len(self.cases),
            "figures": self.figures,
            "intervals": self.intervals,
            "paper": self.paper,
            "rows": self.rows,
        }

    def errors(self, routes: dict[str, str]) -> Sample:
        """The cases with known coefficients, and the errors of the routes taken."""
        evidence, found = [], []
        for case in self.cases:
            errors = {key: case.error(key, route) for key, route in routes.items()}
            known = {key: error for key, error in errors.items() if error is not None}
            if case.truth and case.evidence is not None and len(known) == len(routes):
                evidence.append(case.evidence)
                found.append(known)
        return Sample(evidence, {key: [errors[key] for errors in found] for key in routes})

    def with_cases(self, other: "Evaluation") -> "Evaluation":
        """The cases of both."""
        return Evaluation(self.cases + other.cases)

    def only(self, names: Collection[str]) -> "Evaluation":
        """The cases of these names."""
        return Evaluation([case for case in self.cases if case.name in names])

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
        console.table(f"{len(self.cases)} cases", columns, rows, results=results)


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
            case, answered = evaluate_case(surrogate, dataset, name, number)
            if keep is not None:
                case.file = str(keep(answered))
            result.cases.append(case)
            advance()
    summarise(result)
    return result


def evaluate_case(surrogate: Surrogate, dataset: Dataset, name: str, seed: int = 0) -> tuple[CaseResult, HeldOut]:
    """One case: what is measured on it, and the answers.

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
    result = CaseResult(name, field_errors(surrogate, case, predicted), known_coefficients(case))
    result.answers = coefficients_by_route(surrogate, case, predicted, states)
    if result.truth and case.silhouette is not None:
        result.area_over_silhouette = case.reference["area"] / case.silhouette
    result.seconds = time.perf_counter() - start
    known = {field: values for field, values in predicted.items() if field in case.fields}
    answered = HeldOut(case, known, surrogate.times, dataset=str(dataset.folder))
    if surrogate.sees_meshes:
        states = None  # trust compares what prediction has: drawn points
        if case.cells is not None and case.conditions is not None and case.grid is None:
            states = surrogate.states(_as_predicted(surrogate, case))
            predicted = surrogate.decode(states, places, CHUNK)
            result.fields_drawn = field_errors(surrogate, case, predicted)
            again = coefficients_by_route(surrogate, case, predicted, states)
            result.answers |= {DRAWN: again["integrated"]} if "integrated" in again else {}
    result.evidence = _evidence(surrogate, case, states, result)
    if result.evidence is not None and surrogate.trust is not None and surrogate.calibration is not None:
        result.bounds = _bounds(surrogate, result.evidence, result)
    return result, answered


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
            if where in ("all", part) and case.lives_at(name, rows):
                label = f"{name}_{part}" if case.surface.any() else name
                errors[label] = relative_l2(predicted[name][rows], truth[rows])
    return errors


def relative_l2(predicted: NDArray, truth: NDArray) -> float:
    return float(np.linalg.norm(predicted - truth) / max(float(np.linalg.norm(truth)), 1e-30))


def known_coefficients(case: Case) -> dict[str, float]:
    """The true cd and cl; {} where the areas that they belong to are not known."""
    if case.conditions is None or "area" not in case.reference or case.silhouette is None:
        return {}
    return {key: case.reference[key] for key in ("cd", "cl") if key in case.reference}


def coefficients_by_route(
    surrogate: Surrogate, case: Case, predicted: dict[str, NDArray], states: States | None
) -> dict[str, dict[str, float]]:
    """Predicted cd and cl, by the head, integrated over the skin and between the two, of those whose truth is known."""
    known, answers = known_coefficients(case), dict[str, dict[str, float]]()
    if not known or case.silhouette is None:
        return answers
    if states is not None and (areas := surrogate.force_areas(states, case.silhouette)):
        answers["head"] = {f"c{key[0]}": value / case.reference["area"] for key, value in areas.items()}
    if (found := case.coefficients(predicted)) is not None:
        answers["integrated"] = {"cd": found.cd, "cl": found.cl}
    if len(answers) == 2:
        answers["both"] = forces.between(answers["head"], answers["integrated"])
    return {route: {key: values[key] for key in values if key in known} for route, values in answers.items()}


def _evidence(
    surrogate: Surrogate, case: Case, states: States | None, result: CaseResult
) -> familiarity.Evidence | None:
    features = None if states is None else surrogate.features(states)
    if features is None or case.conditions is None or case.normals is None or case.areas is None:
        return None
    stream, skin, ratio = case.conditions, case.surface, result.area_over_silhouette
    head, whole = (
        {key: value * ratio for key, value in result.answers.get(route, {}).items()} for route in ("head", "integrated")
    )
    return familiarity.evidence(
        features, stream.reynolds, stream, case.points[skin], case.normals[skin], case.areas[skin], head, whole
    )


def _bounds(surrogate: Surrogate, evidence: familiarity.Evidence, result: CaseResult) -> dict[str, float | None]:
    """The 90 % intervals of cd and cl."""
    assert surrogate.trust is not None
    assert surrogate.calibration is not None
    by_route = {route: result.answers.get(route, {}) for route in ROUTES}
    best = {key: by_route[route].get(key, np.nan) for key, route in surrogate.card["routes"].items()}
    verdict = familiarity.judge(surrogate.trust, evidence)
    found = intervals.uncertainty(surrogate.calibration, surrogate.trust, evidence, verdict.score)
    return intervals.bounds(found, best, list(by_route.values()), verdict.mark, 1 / result.area_over_silhouette)


def calibrate(
    surrogate: Surrogate, held_out: Evaluation, training: Evaluation, foreign: Evaluation | None = None
) -> None:
    """Fit the intervals of a model whose routes and trust are known, on cases that it has not seen, and on those of
    other makers if there are any; its card says how often they hold for cases that had no part in the fit."""
    assert surrogate.trust is not None
    routes = surrogate.card["routes"]
    mine, known, others = (each.errors(routes) for each in (held_out, training, foreign or Evaluation([])))
    surrogate.calibration = intervals.fit(surrogate.trust, mine, known, others)
    own, pooled = len(mine.evidence), mine.with_cases(others)
    if surrogate.calibration is None or own < intervals.FOLDS:
        return
    figures: dict[str, float] = {"cases": own}
    if others.evidence:
        figures["foreign_cases"] = len(others.evidence)
    stalled = np.array([abs(e.conditions.get("alpha", 0.0)) > intervals.STALL for e in pooled.evidence])
    for key, ratios in intervals.cross_checked(surrogate.trust, mine, known, others).items():
        covered = np.abs(ratios) <= 1
        figures |= _coverage(key, covered[:own], stalled[:own])
        if others.evidence:
            figures[f"{key}_coverage_foreign"] = float(np.mean(covered[own:]))
    surrogate.card["intervals"] = figures


def _coverage(key: str, covered: NDArray[np.bool_], stalled: NDArray[np.bool_]) -> dict[str, float]:
    """How often the truth lies within the 90 % interval; sections below and beyond the stall apart too."""
    figures = {f"{key}_coverage": float(np.mean(covered))}
    if stalled.any() and not stalled.all():
        for words, part in (("below", ~stalled), ("beyond", stalled)):
            figures[f"{key}_coverage_{words}_{intervals.STALL:g}_degrees"] = float(np.mean(covered[part]))
    return figures


def summarise(result: Evaluation) -> None:
    """Fill in the figures over all cases."""
    if not result.cases:
        return
    for end, errors in (("", [c.fields for c in result.cases]), (f"_{DRAWN}", [c.fields_drawn for c in result.cases])):
        for key in dict.fromkeys(key for case in errors for key in case):
            result.figures[f"{key}{end}"] = float(np.mean([case[key] for case in errors if key in case]))
    for coefficient in ("cd", "cl"):
        for route in (*ROUTES, DRAWN):
            _summarise_coefficient(result, coefficient, route)
        _summarise_intervals(result, coefficient)
    result.figures["seconds_per_case"] = float(np.median([case.seconds for case in result.cases]))


def _summarise_coefficient(result: Evaluation, coefficient: str, route: str) -> None:
    column = f"{coefficient}_{route}"
    pairs = [pair for case in result.cases if (pair := case.pair(coefficient, route)) is not None]
    if not pairs:
        return
    true, predicted = np.array(pairs).T
    counted = np.abs(true) > SMALLEST_LIFT if coefficient == "cl" else np.ones(len(true), bool)
    if counted.any():
        result.figures[f"{column}_error"] = float(np.mean(np.abs(predicted / true - 1)[counted]))
    if len(pairs) < 2 or np.ptp(true) == 0:
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
        whole = key.replace(f"_{DRAWN}", "_integrated" if key.startswith(("cd", "cl", "rho")) else "")
        if whole != key and whole in result.figures and not key.startswith("R2"):
            words[whole] = f"{result.figures[whole]:.4g} from its own mesh, {value:.4g} from points drawn for its shape"
    return words


def _summarise_intervals(result: Evaluation, coefficient: str) -> None:
    cases = [c for c in result.cases if coefficient in c.truth and c.bounds.get(f"{coefficient}_low") is not None]
    if not cases:
        return
    true = np.array([case.truth[coefficient] for case in cases])
    low, high = (np.array([case.bounds[f"{coefficient}_{end}"] for case in cases]) for end in ("low", "high"))
    angles = np.array([abs(case.evidence.conditions.get("alpha", 0.0)) for case in cases if case.evidence is not None])
    result.figures |= _coverage(coefficient, (low <= true) & (true <= high), angles > intervals.STALL)
    result.figures[f"{coefficient}_half_width"] = float(np.mean(high - low)) / 2


def best_routes(result: Evaluation) -> dict[str, str]:
    """For cd and cl the route to take: between head and integration, unless one of them is better alone on these cases
    beyond chance.

    Head and integration err in ways of their own, so that their middle errs less than either where they are about as
    good; and it holds further from the cases that are at hand here. Beyond chance is more than the standard error of
    the mean difference. A head that has seen few shapes may know them by heart, and fewer than `EVIDENCE` cases cannot
    show that it does not: then it is integration, which has physics to hold on to.
    """
    routes: dict[str, str] = {}
    for coefficient in ("cd", "cl"):
        by_route = {route: [case.pair(coefficient, route) for case in result.cases] for route in ROUTES}
        offered = [route for route in ("integrated", "head") if any(by_route[route])]
        known = [pairs for pairs in zip(*by_route.values(), strict=True) if None not in pairs]
        if len(offered) < 2 or len(known) < EVIDENCE:
            routes |= {coefficient: offered[0]} if offered else {}
            continue
        errors = [[abs(intervals.error(coefficient, pair[1], pair[0])) for pair in pairs if pair] for pairs in known]
        of = dict(zip(ROUTES, np.array(errors).T, strict=True))
        gains = {route: of["both"] - of[route] for route in offered}
        better = [route for route, gain in gains.items() if gain.mean() > gain.std(ddof=1) / len(gain) ** 0.5]
        routes[coefficient] = min(better, key=lambda route: float(of[route].mean()), default="both")
    return routes
