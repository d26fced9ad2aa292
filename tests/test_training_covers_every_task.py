"""Structured meshes, times as an input, step-by-step rollout: trained from recipes, answered with all their times."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from aerosurrogate.data.case import Case
from aerosurrogate.data.scaling import Places, Scaling
from aerosurrogate.data.store import Dataset, Manifest, write_manifest, write_shard
from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate, answer_all_times
from aerosurrogate.training.batches import Batches
from aerosurrogate.training.loop import build_model, train
from aerosurrogate.training.objective import Objective

RECIPES = Path(__file__).parents[1] / "recipes"
SMALL = [
    "training.clip=1.0",
    "model.channels=16",
    "model.layers=2",
    "model.heads=2",
    "model.slices=4",
    "training.batch=2",
]


def waves(folder: Path, channels: int, feature: str, field: str, given: int = 1) -> Path:
    """Waves that travel over a 12 x 9 grid; `channels` times or frames, after `given` frames as input."""
    x, y = np.meshgrid(np.linspace(0, 1, 12), np.linspace(0, 1, 9), indexing="ij")
    cases = []
    for i in range(6):
        frames = np.stack(
            [np.sin(3 * x + 0.2 * i + 0.3 * t) + np.cos(2 * y) for t in range(given + channels)], axis=-1
        ).reshape(-1, given + channels)
        cases.append(
            Case(
                name=f"wave-{i}",
                points=np.stack([x.ravel(), y.ravel()], axis=1).astype(np.float32),
                surface=np.zeros(x.size, bool),
                fields={field: frames[:, given:].astype(np.float32)},
                features={feature: frames[:, :given].astype(np.float32)},
                grid=(12, 9),
            )
        )
    names = [c.name for c in cases]
    entries = write_shard(folder / "cases.safetensors", cases)
    write_manifest(folder, Manifest(cases=entries, splits={"train": names[:4], "test": names[4:]}))
    return folder


@pytest.mark.parametrize(
    ("recipe", "data", "more"),
    [
        ("darcy", (1, "coefficient", "solution"), []),
        ("plasticity", (8, "die", "displacement"), ["training.time_steps=4"]),
        ("navier_stokes", (3, "frames", "frames", 10), ["training.time_steps=3"]),
    ],
)
def test_a_task_is_trained_and_answers_all_its_times(
    recipe: str, data: tuple, more: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = waves(tmp_path / "waves", *data)
    overrides = [f"data.path={folder}", "training.steps=40", "training.learning_rate=1e-2", *SMALL, *more]
    train(read_recipe(RECIPES / f"{recipe}.toml", overrides), tmp_path / "run", device="cpu")
    assert "skin" not in caplog.text, "of a task without a body"
    surrogate, case = Surrogate.load(tmp_path / "run"), Dataset(folder).case("wave-5")
    fields = surrogate.fields(Places.of(case), case.grid)
    assert fields[data[2]].shape == case.fields[data[2]].shape
    losses = [
        float(v) for line in (tmp_path / "run/history.csv").read_text().splitlines()[1:] if (v := line.split(",")[4])
    ]
    assert np.mean(losses[-5:]) < 0.85 * np.mean(losses[:3])


def test_the_loss_of_darcy_is_the_papers(tmp_path: Path) -> None:
    """Relative L2 plus a tenth of that of the differences; a field without a skin is not counted by half."""
    recipe = read_recipe(
        RECIPES / "darcy.toml", [f"data.path={waves(tmp_path / 'w', 1, 'coefficient', 'solution')}", *SMALL]
    )
    dataset = Dataset(recipe.data.path)
    names = dataset.names("train")[:2]
    scaling = Scaling.fit(map(dataset.case, names), inputs=recipe.data.inputs, fields=recipe.data.fields)
    model, batch = build_model(recipe, scaling).eval(), Batches(dataset, names, scaling, recipe.training).make(0)
    found = Objective(model, scaling, recipe.training)(batch)
    surrogate = Surrogate(model, scaling)
    errors, slopes = [], []
    for case in map(dataset.case, names):
        truth = case.fields["solution"].reshape(12, 9)
        error = surrogate.fields(Places.of(case), case.grid)["solution"].reshape(12, 9) - truth
        errors.append(np.linalg.norm(error) / np.linalg.norm(truth))
        apart = [np.gradient(part, 1 / 11, 1 / 8, edge_order=2) for part in (error, truth)]
        slopes.append(np.linalg.norm(apart[0]) / np.linalg.norm(apart[1]))
    assert found["loss"].item() == pytest.approx(np.mean(errors) + 0.1 * np.mean(slopes), rel=1e-4)


class NextNumber(nn.Module):
    """Answers the youngest frame plus one; the time, if given."""

    class interface:  # noqa: N801
        dimensions = 2

    def forward(self, inputs: Tensor, grid: None, mask: None = None, time: Tensor | None = None) -> Tensor:
        return inputs[..., -1:] + 1 if time is None else inputs[..., -1:] * 0 + time[:, None, None]


def test_a_rollout_feeds_each_answer_back() -> None:
    inputs = torch.cat([torch.rand(1, 5, 2), torch.arange(4.0).expand(1, 5, 4)], dim=-1)
    answers = answer_all_times(NextNumber(), inputs, None, "rollout", 3)  # type: ignore[arg-type]
    assert answers[0, 0].tolist() == [4.0, 5.0, 6.0]


def test_times_run_from_zero_to_one() -> None:
    answers = answer_all_times(NextNumber(), torch.rand(1, 5, 3), None, "time", 5)  # type: ignore[arg-type]
    assert answers[0, 0].tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_an_epoch_sees_each_case_once_and_each_of_its_times(tmp_path: Path) -> None:
    data = Dataset(waves(tmp_path, 8, "die", "displacement"))
    t = read_recipe(
        RECIPES / "plasticity.toml", ["training.time_steps=4", "training.epochs=3", "training.batch=2"]
    ).training
    names = data.names("train")
    scaling = Scaling.fit((data.case(n) for n in names), inputs=["position", "die"], fields=["displacement"])
    batches = Batches(data, names, scaling, t)
    assert batches.steps == 3 * 4 * 2
    seen = [batches.make(step).names for step in range(8)]
    assert seen[0] == seen[3]
    assert sorted(seen[0] + seen[4]) == sorted(names)
    halves = [batches.make(0, rank, 2) for rank in range(2)]
    assert halves[0].names + halves[1].names == seen[0]
