"""Steps whose products over points are in bfloat16, as on a GPU, learn what those in float32 do, but for chance."""

from pathlib import Path

import pytest
import torch

from aerosurrogate.data.prepare import prepare
from aerosurrogate.evaluate import evaluate
from aerosurrogate.recipe import Recipe, read_recipe
from aerosurrogate.training import loop
from aerosurrogate.training.cases import open_cases
from aerosurrogate.training.distribution import processes
from aerosurrogate.training.loop import Trainer
from aerosurrogate.training.run import Run

ROOT = Path(__file__).parents[1]
OURS = [f"training.{change}" for change in ("ema=0.97", "optimiser=muon", "learning_rate=2e-3", "clip=1.0")]
TASKS = {  # recipe, its changes, the split that is measured, the error
    "darcy16": ("darcy", ["model.layers=4", "model.channels=64", "model.slices=32", *OURS], "test", "solution"),
    "airfoils": ("naca_rans", ["training.ema=0.97"], "full_test", "U_volume"),
}
STEPS, SEEDS = 400, 2
# What chance does to the error in float32: standard deviation over the mean, of seeds 0 to 9 and 0 to 3. The difference
# between two means of two seeds each has the same deviation as a single run.
CHANCE = {"darcy16": 0.053, "airfoils": 0.025}


def error_after(recipe: Recipe, split: str, figure: str, out: Path) -> float:
    with processes("cpu") as own:
        run = Run(out, recipe, own, resume=False)
        trainer = Trainer(recipe, open_cases(recipe, run), run, own)
        trainer.run_steps()
        trainer.trained.eval()
        dataset = trainer.cases.dataset
        return evaluate(trainer.surrogate(), dataset, dataset.names(split)[:100]).figures[figure]


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_bfloat16_learns_as_much(
    task: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, changes, split, figure = TASKS[task]
    data = ROOT / "datasets" / name
    if task == "darcy16":
        data = tmp_path / "data"
        prepare([request.getfixturevalue("shared_data") / "darcy16"], data, format="darcy", jobs=1)
    torch.set_num_threads(1)
    errors: dict[str, list[float]] = {"float32": [], "bfloat16": []}
    for seed in range(SEEDS):
        settings = [f"data.path={data}", f"training.steps={STEPS}", "training.validate_every=1000000", *changes]
        recipe = read_recipe(ROOT / "recipes" / f"{name}.toml", [*settings, f"training.seed={seed}"])
        for kind, found in errors.items():
            monkeypatch.setattr(loop, "fast_bfloat16", lambda device, kind=kind: kind == "bfloat16")
            found.append(error_after(recipe, split, figure, tmp_path / f"{kind}{seed}"))
    print(task, figure, errors)
    means = {kind: sum(found) / SEEDS for kind, found in errors.items()}
    assert means["bfloat16"] == pytest.approx(means["float32"], rel=3 * CHANCE[task])
    assert errors["bfloat16"] != errors["float32"], "both ran in float32"
