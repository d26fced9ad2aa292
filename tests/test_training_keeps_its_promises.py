"""What a recipe says of a step is done: clipping, the schedule's end, the head, seeds of dropout, the best so far."""

import json
from pathlib import Path

import pytest
import torch
from joukowski import joukowski_set

from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.cases import open_cases
from aerosurrogate.training.distribution import processes
from aerosurrogate.training.loop import Trainer
from aerosurrogate.training.run import Run

RECIPE = Path(__file__).parents[1] / "recipes" / "naca_rans.toml"
SMALL = ["model.layers=1", "model.channels=16", "model.heads=2", "model.slices=4", "training.points=64"]
SMALL += ["training.skin_points=32", "training.batch=2", "training.steps=9", "training.ema=0.9"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return joukowski_set(tmp_path_factory.mktemp("sections"), 4)


def trainer(data: Path, folder: Path, *more: str, resume: bool = False) -> Trainer:
    settings = [f"data.path={data}", "data.train=train", 'data.fields=["p","U","wallShearStress"]']
    recipe = read_recipe(RECIPE, [*settings, *SMALL, *more])
    with processes("cpu") as own:
        run = Run(folder, recipe, own, resume=resume)
        return Trainer(recipe, open_cases(recipe, run), run, own)


def moved(one: Trainer, steps: int = 1) -> dict[str, float]:
    """How far each weight moves in some steps."""
    before = {name: weight.detach().clone() for name, weight in one.model.named_parameters()}
    for _ in range(steps):
        one._update(one.batches.make(one.step))
        one.step += 1
    return {name: (weight - before[name]).abs().max().item() for name, weight in one.model.named_parameters()}


def test_a_gradient_is_clipped_to_what_the_recipe_says(data, tmp_path):
    adam = ("training.optimiser=adam", "training.weight_decay=0.0")  # whose steps vanish with a gradient below 1e-8
    free = moved(trainer(data, tmp_path / "free", *adam, "training.clip=0.0"))
    held = moved(trainer(data, tmp_path / "held", *adam, "training.clip=1e-12"))
    assert max(free.values()) > 1e-5
    assert max(held.values()) < 1e-2 * max(free.values())


def test_the_learning_rate_ends_where_the_recipe_says(data, tmp_path):
    one = trainer(data, tmp_path / "run", "training.learning_rate=2e-3", "training.final_divisor=100.0")
    rates = [one.rate]
    for _ in range(one.steps):
        one.optimiser.step()
        one.schedule.step()
        rates.append(one.rate)
    assert rates[0] == pytest.approx(2e-3 / 25)
    assert max(rates) == pytest.approx(2e-3, rel=0.05)
    assert rates[-1] == pytest.approx(2e-3 / 25 / 100)


def test_the_head_learns(data, tmp_path):
    weights = moved(trainer(data, tmp_path / "run"), steps=3)
    heads = [change for name, change in weights.items() if name.startswith("coefficients.")]
    assert heads
    assert min(heads) > 0


def test_dropout_depends_on_the_step_alone(data, tmp_path):
    calm, disturbed = (trainer(data, tmp_path / name, "model.dropout=0.3") for name in ("calm", "disturbed"))
    for step in range(3):
        calm._update(calm.batches.make(step))
        torch.manual_seed(1000 + step)  # what happened before must not matter
        disturbed._update(disturbed.batches.make(step))
        calm.step += 1
        disturbed.step += 1
    pairs = zip(calm.model.parameters(), disturbed.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_a_resumed_run_remembers_the_best_validation(data, tmp_path):
    one = trainer(data, tmp_path / "run")
    moved(one)
    one.best = 0.125
    one._checkpoint()
    assert trainer(data, tmp_path / "run", resume=True).best == 0.125


@pytest.mark.parametrize("spoilt", ["last", "averaged"])
def test_validation_chooses_between_the_last_and_the_averaged_weights(data, tmp_path, spoilt):
    one = trainer(data, tmp_path / "run", "data.validation=0.34")
    moved(one, steps=2)
    with torch.no_grad():
        for weight in one.weights[spoilt].parameters():
            weight += 3 * torch.randn_like(weight)
    one._validate()
    other = {"last": "averaged", "averaged": "last"}[spoilt]
    kept = Surrogate.load(tmp_path / "run" / "best.safetensors", "cpu").model
    pairs = zip(kept.parameters(), one.weights[other].parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_points_a_second_are_those_of_the_steps_that_a_line_stands_for(data, tmp_path):
    """Lines of a short run are one step each; at a validation the step before it and its own are told at once."""
    one = trainer(data, tmp_path / "run", "training.validate_every=3")
    one.run_steps()
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    rates = [line["points_per_second"] for line in lines if "points_per_second" in line]
    assert len(rates) == one.steps
    assert max(rates) < 100 * sorted(rates)[len(rates) // 2]
