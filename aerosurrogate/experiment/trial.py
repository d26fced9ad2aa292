"""One training of an experiment and what is measured of it.

A trial is a shipped recipe with some settings, a kind of model and a data set, which is solved on the spot where it is
not at hand. Its run folder is named after all of these: a trial that was run before, by this or another experiment, is
not run again, and one that was interrupted goes on.
"""

import hashlib
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aerosurrogate import console
from aerosurrogate.data.scaling import Places
from aerosurrogate.data.store import Dataset
from aerosurrogate.evaluate import evaluate, field_errors
from aerosurrogate.generate import darcy, generate
from aerosurrogate.model.registry import alike, find_kind
from aerosurrogate.recipe import Recipe, read_recipe
from aerosurrogate.shipped import shipped_files
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.loop import train
from aerosurrogate.writing import write_json


@dataclass(frozen=True)
class Source:
    """A set to generate: a name of generate.KINDS, how many cases, and every how-manieth point of Darcy's grid."""

    kind: str
    count: int
    every: int | None = None

    @property
    def name(self) -> str:
        return f"generated-{self.kind}-{self.count}" + (f"-every-{self.every}" if self.every else "")


@dataclass(frozen=True)
class Trial:
    """A cell of an experiment's table."""

    row: str
    column: str
    recipe: str
    figure: str  # of those that `evaluate` gives
    settings: tuple[str, ...] = ()  # as in --set
    kind: str = "transolver"
    sizes: tuple[tuple[str, int], ...] = ()  # options of the kind that others do not have
    source: Source | None = None  # the recipe's own data set unless said
    split: str = "test"
    most: int | None = None  # cases of the split that are measured
    kept: float = 1.0  # part of a case's points that the model is asked at; the others are not there


@dataclass(frozen=True)
class Found:
    """The figure of a trial, and what its training cost."""

    value: float
    cpu_seconds: float
    run: str  # name of its folder, which other trials may share


@dataclass(frozen=True)
class Workshop:
    """Where an experiment keeps its data and its runs."""

    data: Path
    runs: Path
    device: str


def run(trial: Trial, seed: int, where: Workshop) -> Found:
    """Train where that is still to be done, and measure: the figure, and CPU seconds of training."""
    if (before := measured(trial, seed, where)) is not None:
        return before
    recipe, folder = _place(trial, seed, where)
    if trial.source is not None:
        _make(trial.source, where.data)
    known = _record(folder)
    if "cpu_seconds" not in known:
        start, cost = time.process_time() - known.get("spent", 0.0), "spent"
        try:
            train(recipe, folder, resume=folder.exists(), device=where.device)
            cost = "cpu_seconds"
        finally:  # an interrupted training goes on another time, and costs what all its parts do
            if folder.exists():
                write_json(folder / "measured.json", {cost: time.process_time() - start})
        known = _record(folder)
    known[_key(trial)] = _measured(trial, Surrogate.load(folder, where.device), Dataset(recipe.data.path))
    write_json(folder / "measured.json", known)
    return Found(known[_key(trial)][trial.figure], known["cpu_seconds"], folder.name)


def measured(trial: Trial, seed: int, where: Workshop) -> Found | None:
    """What `run` gives where that is known from before."""
    folder = folder_of(trial, seed, where)
    known = _record(folder)
    if (figures := known.get(_key(trial))) is None:
        return None
    return Found(figures[trial.figure], known["cpu_seconds"], folder.name)


def _record(folder: Path) -> dict[str, Any]:
    record = folder / "measured.json"
    return json.loads(record.read_text()) if record.exists() else {}


def _key(trial: Trial) -> str:
    return f"{trial.split}-{trial.most}-{trial.kept}"


def _place(trial: Trial, seed: int, where: Workshop) -> tuple[Recipe, Path]:
    """The recipe of a trial and its run folder."""
    data = None if trial.source is None else (where.data / trial.source.name).resolve()
    recipe = recipe_of(trial, seed, data)
    return recipe, where.runs / _name(trial, recipe, seed)


def folder_of(trial: Trial, seed: int, where: Workshop) -> Path:
    """The run folder of a trial."""
    return _place(trial, seed, where)[1]


def recipe_of(trial: Trial, seed: int, data: Path | None) -> Recipe:
    """The recipe as it is run. Nothing is validated on: what is measured in the end must not choose the weights."""
    settings = ["data.validation=0.0", *trial.settings, f"training.seed={seed}"]
    if data is not None:
        settings.append(f"data.path={data}")
    recipe = read_recipe(shipped_files("recipes")[trial.recipe], settings)
    model = alike(recipe.model, trial.kind).model_copy(update=dict(trial.sizes))
    table = Recipe[find_kind(trial.kind).Config]  # type: ignore[misc, valid-type]
    return table.model_validate(dict(recipe) | {"model": model})


def _make(source: Source, folder: Path) -> Path:
    """The data set's folder, its cases solved; those of a coarser grid of Darcy are taken from the usual one."""
    usual = source.every is not None and source.every % darcy.EVERY == 0
    finer = _make(replace(source, every=None), folder) if usual else None
    path = folder / source.name
    console.note(f"data: {path}")
    generate(source.kind, path, count=source.count, every=source.every, finer=finer)
    return path


def _name(trial: Trial, recipe: Recipe, seed: int) -> str:
    facts = recipe.model_dump(mode="json", include={"data", "model", "training"})
    facts["data"] |= {"path": recipe.data.path.name, "source": "", "size": "", "prepare": ""}
    del facts["data"]["foreign"]  # has no part in training
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:10]
    return f"{trial.recipe}-{trial.kind.replace('+', 'p').replace(':', '.')}-{digest}-{seed}"


def _measured(trial: Trial, surrogate: Surrogate, dataset: Dataset) -> dict[str, float]:
    names = dataset.names(trial.split)[: trial.most]
    if trial.kept == 1.0 and surrogate.task == "steady":
        return evaluate(surrogate, dataset, names).figures
    return bare(surrogate, dataset, names, trial.kept)


def bare(surrogate: Surrogate, dataset: Dataset, names: list[str], kept: float = 1.0) -> dict[str, float]:
    """Errors of the fields, relative and squared (`p`, `p_square`), at a random part of each case's points.

    The other points are not there: the model sees a broken mesh.
    """
    rows: list[dict[str, float]] = []
    for number, name in enumerate(names):
        case = dataset.case(name).whole()
        count = len(case.points)
        if kept < 1:
            case = replace(case, grid=None)
            case = case.take(np.random.default_rng(number).permutation(count)[: round(kept * count)])
        predicted, _ = surrogate.answer(Places.of(case), case.grid)
        squares = {f"{k}_square": float(np.mean((v - case.fields[k]) ** 2)) for k, v in predicted.items()}
        rows.append(field_errors(surrogate, case, predicted) | squares)
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
