"""The end of a run: accuracy on held-out cases, the route to each coefficient, trust; all written into the best model.

All processes take part. A short run does not spend more time here than it took itself: then fewer cases are measured,
and it says so.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from aerosurrogate import console
from aerosurrogate.data.store import Dataset
from aerosurrogate.evaluate import (
    EVIDENCE,
    CaseResult,
    Evaluation,
    best_routes,
    calibrate,
    cost_of_drawing,
    evaluate_case,
    summarise,
)
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.cases import TrainingCases
from aerosurrogate.training.distribution import Processes
from aerosurrogate.trust import familiarity

BRIEF = 20.0  # seconds that are no matter, however short the training was


def conclude(best: Path, cases: TrainingCases, own: Processes, seconds: float) -> tuple[Evaluation, dict[str, str]]:
    """Measure the best model of a run that took so many seconds, and complete its file; the figures and the routes."""
    with own.fetched(best) as path:
        surrogate = Surrogate.load(path, str(own.device))
    seconds = max(seconds, BRIEF)
    held = _measure(surrogate, cases.dataset, cases.validation, "validate", own, seconds)
    split, apart = "validation", held
    if not cases.validation and surrogate.sees_meshes:
        # None are kept back: the test cases tell what drawn points cost, and nothing else.
        split, apart = "test", _measure(surrogate, cases.dataset, cases.test, "shapes alone", own, seconds)
    known = Evaluation([])
    if cases.of_bodies and (held.evidence or not cases.validation):
        solved = [name for name in cases.train if cases.dataset.has_fields(name)]
        known = _measure(surrogate, cases.dataset, solved, "statistics for trust", own, seconds)
    # What was seen in training speaks for no route.
    routes = best_routes(held if held.cases else Evaluation(known.cases[:1]))
    if own.first:
        surrogate.card |= {"validation": held.figures, "routes": routes}
        if cost := cost_of_drawing(apart):
            surrogate.card["shape alone"] = cost | {"measured on": f"{len(apart.cases)} {split} cases"}
        if len(known.evidence) > 1:
            surrogate.trust = familiarity.fit(list(known.evidence.values()), list(held.evidence.values()))
            calibrate(surrogate, held, known.only(cases.of_first))
        surrogate.save(best)
        if held.cases:
            held.write(best.parent, "validation")
            held.show()
        say_what_is_missing(len(held.cases), cases.of_bodies, routes)
    return held, routes


def say_what_is_missing(validation: int, of_bodies: bool, routes: dict[str, str] | None = None) -> None:
    """What too few validation cases mean, before a run and, with the routes that were taken, after it."""
    if validation >= (familiarity.ENOUGH if of_bodies else 1):
        return
    lacks = []
    if of_bodies and validation < EVIDENCE:
        taken = "" if routes is None else f" ({', '.join(f'{k} {route}' for k, route in routes.items()) or 'none'})"
        lacks.append(f"coefficients are integrated over the skin{taken}, as {EVIDENCE} could speak for the head")
    if not validation:
        lacks.append("the last weights are kept, as nothing tells which are best")
    if of_bodies:
        lacks.append(f"the limits of trust are rough, as {familiarity.ENOUGH} would make them 95 % limits")
    console.warn(f"{validation} validation cases: " + "; ".join(lacks) + " (data.validation, or more cases)")


def _measure(
    surrogate: Surrogate, dataset: Dataset, names: Sequence[str], title: str, own: Processes, seconds: float
) -> Evaluation:
    """As `evaluate`, shared among the processes, and ended after so many seconds once some cases are measured."""
    mine = np.random.default_rng(0).permutation(len(names))[own.rank :: own.count].tolist()
    start = time.monotonic()
    found: list[dict[str, Any]] = []
    with console.progress(title, len(mine), unit="cases") as advance:
        for number in mine:
            if len(found) >= EVIDENCE and time.monotonic() - start > seconds:
                break
            case, _ = evaluate_case(surrogate, dataset, names[number], number)
            found.append({"number": number, "case": _plain(case)})
            advance()
    everything = sorted((entry for part in own.gathered(found) for entry in part), key=lambda entry: entry["number"])
    if len(everything) < len(names):
        console.note(f"{title}: {len(everything)} of {len(names)} cases, in as long as the training took")
    result = Evaluation([_result(entry["case"]) for entry in everything], paper=dict(surrogate.card.get("paper", {})))
    summarise(result)
    return result


def _plain(case: CaseResult) -> dict[str, Any]:
    """As values that JSON can hold, for the other processes."""
    document = asdict(case)
    if case.evidence is not None:
        document["evidence"]["features"] = case.evidence.features.tolist()
    return document


def _result(document: dict[str, Any]) -> CaseResult:
    evidence = document["evidence"]
    if evidence is not None:
        evidence = familiarity.Evidence(**(evidence | {"features": np.array(evidence["features"])}))
    return CaseResult(**(document | {"evidence": evidence}))
