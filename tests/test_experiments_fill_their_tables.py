"""Every experiment's trainings are recipes that hold, at both scales; a table is filled once and not again."""

import json
import shutil

import pytest

from aerosurrogate.data.store import Dataset
from aerosurrogate.experiment import efficiency, experiment
from aerosurrogate.experiment.plans import OURS, PAPER, PLANS, Plan
from aerosurrogate.experiment.table import Cell, page
from aerosurrogate.experiment.trial import Source, Trial, Workshop, bare, measured, recipe_of, run
from aerosurrogate.generate import KINDS
from aerosurrogate.model.interface import Interface
from aerosurrogate.model.registry import find_kind
from aerosurrogate.surrogate import Surrogate


@pytest.mark.parametrize("scale", ["small", "paper"])
@pytest.mark.parametrize("name", PLANS)
def test_plans_are_sound(name: str, scale: str, tmp_path) -> None:
    plan = PLANS[name](scale)
    cells = {(trial.row, trial.column) for trial in plan.trials}
    assert len(cells) == len(plan.trials)
    for trial in plan.trials:
        recipe = recipe_of(trial, 1, tmp_path if trial.source else None)
        assert recipe.training.seed == 1
        assert recipe.data.validation == 0
        assert recipe.model.kind == trial.kind
        assert all(f"{option} = {number}" in recipe.toml() for option, number in trial.sizes)
        assert trial.source is None or trial.source.kind in KINDS
        dimensions = 2
        inputs = 14 if trial.kind == "particles" else 4
        outputs = 2 if trial.kind == "particles" else 1
        if scale == "small":  # and its model can be built
            find_kind(trial.kind)(Interface(inputs, outputs, dimensions), recipe.model)
    if scale == "paper":
        known = {column for _, column in cells}
        for row, column in plan.paper:
            assert column in known, f"the paper's {row} has no column {column} here"


def test_ours_and_the_papers_see_the_same(tmp_path) -> None:
    plan = PLANS["main"]("small")
    torus = {"periodic": True, "waves": 5, "unified_pos": "none", "increment": True}
    for column, here in (("darcy", {}), ("navier-stokes", torus)):
        mine, theirs = (
            next(recipe_of(t, 0, tmp_path) for t in plan.trials if (t.row, t.column) == (row, column))
            for row in (OURS, PAPER)
        )
        own = {"token_residual": True, "neighbourhood": 9, **here}
        assert theirs.model.model_copy(update=own) == mine.model
        same = {"optimiser", "learning_rate", "clip", "ema"}
        assert mine.training.model_dump(exclude=same) == theirs.training.model_dump(exclude=same)


def test_a_table_is_filled_once(tmp_path, monkeypatch) -> None:
    tiny = ("model.layers=1", "model.channels=8", "model.heads=2", "training.steps=3", "training.batch=2")
    source = Source("elasticity", 7)
    trials = [
        Trial(row, "whole", "elasticity", "stress", (*tiny, "model.slices=4"), kind, source=source)
        for row, kind in (("MLP", "mlp"), (PAPER, "transolver"))
    ]
    trials.append(
        Trial(PAPER, "half", "elasticity", "stress", trials[1].settings, "transolver", source=source, kept=0.5)
    )
    plan = Plan("Tiny", "Two kinds.", tuple(trials), {(PAPER, "whole"): 0.0064})
    monkeypatch.setitem(PLANS, "data", lambda scale: plan)
    first = experiment("data", tmp_path, device="cpu")
    text = first.page.read_text()
    assert "| 0.0064 |" in text
    assert "3 of 3 cells" in text
    assert (tmp_path / "data.png").stat().st_size > 1000
    runs = sorted((tmp_path / "runs").iterdir())
    assert len(runs) == 2  # the third cell measures a run that is there
    monkeypatch.setattr("aerosurrogate.experiment.trial.train", None)  # nothing is left to train
    again = experiment("data", tmp_path, device="cpu", rows="MLP")
    assert again.results == first.results  # rows that are not asked for stay where they are known
    values = {
        (c["row"], c["column"]): c["values"][0] for c in json.loads((tmp_path / "data.json").read_text())["cells"]
    }
    assert values[PAPER, "whole"] != values[PAPER, "half"]
    dataset = Dataset(tmp_path / "data" / source.name)
    model = next(run for run in runs if "transolver" in run.name)
    shutil.copytree(tmp_path, tmp_path / "elsewhere", ignore=shutil.ignore_patterns("runs", "elsewhere"))
    mlp = next(run for run in runs if "mlp" in run.name)
    shutil.copytree(mlp, tmp_path / "elsewhere" / "runs" / mlp.name)
    there = experiment("data", tmp_path / "elsewhere", device="cpu", rows="MLP")
    assert there.results == first.results  # a table without its runs keeps the rows that nobody asked for
    assert there.page.read_text() == text
    figures = bare(Surrogate.load(model, "cpu"), dataset, dataset.names("test"))
    assert figures["stress"] == pytest.approx(values[PAPER, "whole"], rel=1e-4)


def test_an_interrupted_training_costs_what_its_parts_do(tmp_path, monkeypatch) -> None:
    def interrupted(recipe, folder, **options) -> None:
        folder.mkdir(parents=True)
        raise KeyboardInterrupt

    trial, where = Trial("a", "x", "naca_rans", "p_surface"), Workshop(tmp_path / "data", tmp_path / "runs", "cpu")
    ticks = iter([10.0, 17.0, 20.0, 25.0])
    monkeypatch.setattr("aerosurrogate.experiment.trial.time.process_time", lambda: next(ticks))
    monkeypatch.setattr("aerosurrogate.experiment.trial.train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(trial, 0, where)
    monkeypatch.setattr("aerosurrogate.experiment.trial.train", lambda *arguments, resume, device: resume or 1 / 0)
    monkeypatch.setattr("aerosurrogate.experiment.trial.Surrogate.load", lambda *arguments: None)
    monkeypatch.setattr("aerosurrogate.experiment.trial._measured", lambda *arguments: {"p_surface": 0.5})
    found = run(trial, 0, where)
    assert (found.value, found.cpu_seconds) == (0.5, 12.0)
    assert measured(trial, 0, where) == found


def test_seeds_and_gaps_show() -> None:
    plan = Plan("T", "", (Trial("a", "x", "darcy", "s"), Trial("b", "x", "darcy", "s")), {("b", "x"): 0.5})
    text = page(plan, "small", {("a", "x"): Cell((0.1, 0.3), {"one": 40.0, "two": 20.0})}, "t.png")
    assert "| a | 0.2 ± 0.1 |  |" in text
    assert "| b | - | 0.5 |" in text
    assert "1 of 2 cells" in text
    assert "1.0 CPU minutes" in text
    assert "its own sizes and data" in text
    both = Plan("T", "", (*plan.trials, Trial("a", "y", "darcy", "s")), {})
    shared = {("a", column): Cell((0.1,), {"one": 60.0}) for column in "xy"}
    text = page(both, "small", shared, "t.png")
    assert "1.0 CPU minutes" in text  # two figures of one training
    assert "its own sizes and data" not in text  # of a paper that gives none


def test_ours_stands_last() -> None:
    """Whatever column a row is first seen in."""
    trials = tuple(Trial(*cell, "darcy", "s") for cell in ((OURS, "x"), ("MLP", "x"), ("plain transformer", "y")))
    lines = page(Plan("T", "", trials, {}), "small", {}, "t.png").splitlines()[-3:]
    assert [line.split(" | ")[0] for line in lines] == ["| MLP", "| plain transformer", f"| {OURS}"]


def test_costs_grow_with_points() -> None:
    torch_model = find_kind("transolver")
    config = torch_model.Config(layers=1, channels=16, heads=2, slices=4, dropout=0.0)
    model = torch_model(Interface(2, 1, 2), config)
    few, many = efficiency.cost(model, 512), efficiency.cost(model, 4096)
    assert 4 < many.memory / few.memory < 12
