"""Experiments: the paper's tables run again by one command each, on data made on the spot.

An experiment is a plan (plans.py): a grid of trainings, of which each is a trial (trial.py), and a page and a picture
laid out as the paper's table (table.py). What was trained before is not trained again; one that is interrupted goes on.
Rows that are not asked for keep what an earlier table says of them, also where their runs are not at hand.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from aerosurrogate import console
from aerosurrogate.errors import InputError
from aerosurrogate.experiment import efficiency
from aerosurrogate.experiment.plans import PLANS, Plan, Scale, lasting
from aerosurrogate.experiment.table import Cell, write
from aerosurrogate.experiment.trial import Found, Trial, Workshop, folder_of, measured, run
from aerosurrogate.viz.cases import draw
from aerosurrogate.writing import alone_in, write_json

NAMES = (*PLANS, "efficiency")


@dataclass(frozen=True)
class Outcome:
    """What an experiment gave."""

    name: str
    scale: str
    page: Path
    results: dict[str, Any]

    def document(self) -> dict[str, Any]:
        return {"experiment": self.name, "scale": self.scale, "page": str(self.page), "results": self.results}


def experiment(
    name: str,
    out: Path,
    *,
    scale: Scale = "small",
    seeds: int = 1,
    steps: int | None = None,
    rows: str | None = None,
    device: str = "auto",
) -> Outcome:
    """Run an experiment into `out`: data, runs, NAME.json, NAME.md and NAME.png.

    `steps` of each training, those of the scale unless said; `rows` of the table by commas, all unless said.
    """
    with alone_in(out), console.resumable("the same command goes on from here"):
        if name == "efficiency":
            return _efficiency(out, scale, device)
        plan, asked = _planned(PLANS[name](scale), rows, steps)
        where = Workshop(out / "data", out / "runs", device)
        cells = _earlier(out / f"{name}.json", plan, scale, steps)
        for trial in plan.trials:  # what is known from before stands on the page from the start
            _enter(cells, trial, [measured(trial, seed, where) for seed in range(seeds)])
        with console.progress(name, len(asked) * seeds, unit="trials") as advance:
            for trial in asked:
                found: list[Found | None] = []
                for seed in range(seeds):
                    found.append(run(trial, seed, where))
                    advance()
                _enter(cells, trial, found)
                results = _results(cells)
                write_json(out / f"{name}.json", {"scale": scale, "seeds": seeds, "steps": steps, "cells": results})
                page = write(out, name, plan, f"{scale}`, `{steps} steps" if steps else scale, cells)
        if name == "lagrangian":
            for trial in asked:
                draw(folder_of(trial, 0, where), out / f"lagrangian {trial.row}.gif", kind="error")
    return Outcome(name, scale, page, {"cells": results})


def _planned(plan: Plan, rows: str | None, steps: int | None) -> tuple[Plan, tuple[Trial, ...]]:
    """The plan with runs of that length, and the trials of the rows that are asked for."""
    if steps is not None:
        plan = replace(plan, trials=tuple(lasting(trial, steps) for trial in plan.trials))
    if rows is None:
        return plan, plan.trials
    asked = [row.strip() for row in rows.split(",")]
    known = list(dict.fromkeys(trial.row for trial in plan.trials))
    if missing := [row for row in asked if row not in known]:
        raise InputError("no such rows", seen=", ".join(missing), remedy=f"choose from {', '.join(known)}")
    return plan, tuple(trial for trial in plan.trials if trial.row in asked)


def _earlier(path: Path, plan: Plan, scale: Scale, steps: int | None) -> dict[tuple[str, str], Cell]:
    """What an earlier table of the same scale and steps says, whose runs may be elsewhere."""
    if not path.is_file():
        return {}
    known = json.loads(path.read_text(encoding="utf-8"))
    if (known["scale"], known["steps"]) != (scale, steps):
        return {}
    planned = {(trial.row, trial.column) for trial in plan.trials}
    found = {(cell["row"], cell["column"]): cell for cell in known["cells"]}

    def costs(cell: dict[str, Any]) -> dict[str, float]:
        one = f"{cell['row']}, {cell['cpu_seconds']}"  # of a table without runs: to the same digit is the same training
        return cell.get("runs", {one: cell["cpu_seconds"]})

    return {place: Cell(tuple(c["values"]), costs(c)) for place, c in found.items() if place in planned}


def _enter(cells: dict[tuple[str, str], Cell], trial: Trial, found: list[Found | None]) -> None:
    there = [f for f in found if f is not None]
    if there:
        costs = {f.run: f.cpu_seconds for f in there}
        cells[trial.row, trial.column] = Cell(tuple(f.value for f in there), costs)


def _results(cells: dict[tuple[str, str], Cell]) -> list[dict[str, Any]]:
    return [
        {
            "row": row,
            "column": column,
            "values": cell.values,
            "cpu_seconds": sum(cell.costs.values()),
            "runs": dict(cell.costs),
        }
        for (row, column), cell in cells.items()
    ]


def _efficiency(out: Path, scale: Scale, device: str) -> Outcome:
    found = efficiency.costs(scale, device)
    results = {row: {str(n): asdict(cost) for n, cost in by.items()} for row, by in found.items()}
    write_json(out / "efficiency.json", {"scale": scale, "costs": results})
    page = efficiency.write(out, scale, found)
    return Outcome("efficiency", scale, page, results)
