"""The cases of a run: which train, which validate, and the scaling fitted to them; fixed when the run starts."""

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from aerosurrogate import console
from aerosurrogate.data.scaling import Scaling
from aerosurrogate.data.store import Dataset, joined
from aerosurrogate.errors import InputError
from aerosurrogate.recipe import Data, Recipe, read_recipe
from aerosurrogate.surrogate import Learned, Surrogate
from aerosurrogate.training.run import Run
from aerosurrogate.training.start import inherited
from aerosurrogate.writing import write_json


@dataclass(frozen=True)
class TrainingCases:
    """An open data set, the names of the cases, and how they look to the model."""

    dataset: Dataset
    train: list[str]
    validation: list[str]
    test: list[str]  # what the recipe keeps back for the finished model; [] where the data have no such split
    scaling: Scaling
    before: list[int]  # check sums of what a model to start from has learned from

    @cached_property
    def of_first(self) -> set[str]:
        """The training cases that were solved as the model answers; the others are from sets beside them."""
        tags = {name: self.dataset.manifest.cases[name]["tags"] for name in self.train}
        return {name for name in self.train if tags[name].get("source", "0") == "0"}

    @property
    def beside(self) -> dict[str, int]:
        """How many train beside them, by the name of their data set."""
        others = (name for name in self.train if name not in self.of_first)
        return dict(Counter(Path(self.dataset.manifest.cases[name]["shard"]).parent.name for name in others))

    @property
    def learned(self) -> Learned:
        """What a model is to remember of them."""
        train = sorted({*self.dataset.checks(self.train), *self.before})
        return {"train": train, "validation": self.dataset.checks(self.validation)}

    @property
    def of_bodies(self) -> bool:
        """Whether these are flows around bodies, which have coefficients and strangers among them."""
        return any(self.dataset.manifest.cases[name]["conditions"] for name in self.train)

    def ranges(self) -> dict[str, list[float]]:
        """Smallest and largest of each condition over the training cases."""
        streams = [c for name in self.train if (c := self.dataset.manifest.cases[name]["conditions"])]
        if not streams:
            return {}
        values = {
            "reynolds": [s["speed"] * s["length"] / s["viscosity"] for s in streams],
            "alpha": [s["alpha"] for s in streams],
            "length": [s["length"] for s in streams],
            "speed": [s["speed"] for s in streams],
        }
        return {name: [min(v), max(v)] for name, v in values.items()}


def open_cases(recipe: Recipe, run: Run) -> TrainingCases:
    """The cases that a run was started with, or those of a new run, written down for a later resumption."""
    data, path = recipe.data, run.folder / "cases.json"
    others = [Dataset(path) for path in data.beside]
    dataset = joined(Dataset(data.path), others) if others else Dataset(data.path)

    def find() -> dict[str, Any]:
        if run.resumed:
            return json.loads(path.read_text(encoding="utf-8"))
        start = Surrogate.load(recipe.training.start, "cpu") if recipe.training.start else None
        before: Learned = start.learned if start and start.learned else {"train": [], "validation": []}
        train, validation = _divide(dataset, data, recipe.training.seed, before)
        console.note(f"{data.path.name}: {len(train)} training and {len(validation)} validation cases")
        for other in others:
            train = train + other.names(data.train)
            console.note(f"{other.folder.name}: {len(other.names(data.train))} training cases beside them")
        scaling = _fit(dataset, train, data)
        if start:
            scaling = inherited(scaling, start, Path(recipe.training.start).name)
        found = {"train": train, "validation": validation, "before": before["train"], "scaling": scaling.document()}
        write_json(path, found)
        return found

    kept = run.own.told(find)
    scaling = Scaling.from_document(json.loads(json.dumps(kept["scaling"])))
    test = [name for name in dataset.manifest.splits.get(data.test, []) if name not in set(kept["train"])]
    return TrainingCases(dataset, kept["train"], kept["validation"], test, scaling, kept.get("before", []))


def _fit(dataset: Dataset, names: list[str], data: Data) -> Scaling:
    return Scaling.fit(
        (dataset.case(name).whole() for name in names),
        inputs=data.inputs,
        fields=data.fields,
        coefficients=data.coefficients,
        kind=data.scaling,
        scale_inputs=data.scale_inputs,
        where=data.where,
    )


def _divide(dataset: Dataset, data: Data, seed: int, before: Learned) -> tuple[list[str], list[str]]:
    """Names of training and validation cases; those that were learned from `before` do not validate, and those that
    validated go on to."""
    names = dataset.names(data.train)
    if data.part < 1:
        used = np.random.default_rng(len(names)).permutation(len(names))[: max(round(data.part * len(names)), 1)]
        names = [names[i] for i in sorted(used)]
    if isinstance(data.validation, str):
        return list(names), list(dataset.names(data.validation))
    count = round(data.validation * len(names))
    if count >= len(names):
        raise InputError("no cases are left to train on", seen=f"{len(names)} cases in {data.train}")
    order = np.random.default_rng([seed, 0]).permutation(len(names))
    checks = dict(enumerate(dataset.checks(names)))
    learned = set(before["train"])
    fresh = [i for i in order if checks[i] not in learned]
    kept_back = set(sorted(fresh, key=lambda i: checks[i] not in before["validation"])[:count])
    if len(kept_back) < count:
        console.warn(f"{len(kept_back)} of {count} validation cases: the model to start from has learned from the rest")
    return [name for i, name in enumerate(names) if i not in kept_back], [names[i] for i in sorted(kept_back)]


def require_data(data: Data) -> None:
    """Where there are no data, say where they come from, how large they are, what prepares them, and what runs now."""
    missing = [path for path in (data.path, *data.beside) if not (path / "manifest.json").exists()]
    if not missing:
        return
    steps = []
    if data.source:
        steps.append(f"get it from {data.source}" + (f" ({data.size})" if data.size else ""))
    if data.prepare:
        steps.append(f"then run `{data.prepare}`")
    if ready := ready_recipes(data.path.parent.parent / "recipes"):
        steps.append("what runs right now: " + ", ".join(f"`aerosurrogate train {path}`" for path in ready))
    raise InputError("the recipe's data set is not there", seen=missing[0], remedy="; ".join(steps))


def ready_recipes(folder: Path) -> list[Path]:
    """Recipes of a folder whose data are at hand."""
    ready = []
    for path in sorted(folder.glob("*.toml"), key=lambda p: (not p.stem.endswith("_rans"), p.name)):
        if (read_recipe(path).data.path / "manifest.json").exists():
            ready.append(path)
    return ready
