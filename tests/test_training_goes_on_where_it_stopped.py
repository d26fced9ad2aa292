"""A run killed at any moment and resumed ends with the same weights, bit for bit; runs of one seed are one run."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import safetensors
import torch
from joukowski import joukowski_set
from safetensors.torch import load_file

from aerosurrogate.errors import InputError
from aerosurrogate.recipe import Recipe, read_recipe
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.cases import open_cases
from aerosurrogate.training.conclusion import conclude
from aerosurrogate.training.distribution import processes
from aerosurrogate.training.loop import Trainer, train, warm_decay
from aerosurrogate.training.run import Run

RECIPE = Path(__file__).parents[1] / "recipes" / "naca_rans.toml"
SMALL = [
    "data.train=train",
    'data.fields=["p","U","wallShearStress"]',
    "model.channels=16",
    "model.layers=2",
    "model.heads=2",
    "model.slices=4",
    "training.points=64",
    "training.skin_points=32",
    "training.batch=2",
    "training.checkpoint_seconds=0.0",
    "training.ema=0.9",
]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Sums depend on the number of threads in their last bits; other tests of this process may have raised it."""
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return joukowski_set(tmp_path_factory.mktemp("sections"), 8)


def settings(dataset: Path, *more: str) -> list[str]:
    return [f"data.path={dataset}", *SMALL, *more]


def small(dataset: Path, *more: str) -> Recipe:
    return read_recipe(RECIPE, settings(dataset, *more))


def command(dataset: Path, out: Path, *more: str) -> list[str]:
    options = [word for text in settings(dataset, "training.steps=40") for word in ("--set", text)]
    return [sys.executable, "-m", "aerosurrogate", "train", str(RECIPE), "--out", str(out), "--quiet", *options, *more]


def same(one: Path, other: Path) -> bool:
    a, b = load_file(one), load_file(other)
    return a.keys() == b.keys() and all(a[k].equal(b[k]) for k in a)


def test_a_killed_run_resumes_to_the_same_weights(dataset: Path, tmp_path: Path) -> None:
    train(small(dataset, "training.steps=40"), tmp_path / "whole", device="cpu")
    out = tmp_path / "killed"
    process = subprocess.Popen(command(dataset, out), env=os.environ | {"OMP_NUM_THREADS": "1"})
    while not (out / "resume.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(random.uniform(0, 0.2))  # the moment does not matter, that is the point
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "validation.json").exists(), "the run ended before it was killed"
    train(small(dataset, "training.steps=40"), out, resume=True, device="cpu")
    for name in ("resume.safetensors", "last.safetensors", "best.safetensors"):
        assert same(tmp_path / "whole" / name, out / name), name
    with processes("cpu") as own:
        entries = Run(out, small(dataset, "training.steps=40"), own, resume=True).entries()
    steps = [e["step"] for e in entries if "loss" in e]
    assert steps == list(range(1, 41))


LEFT_RUNNING = """
import sys, threading, time
from aerosurrogate.cli import main
threading.Thread(target=time.sleep, args=(3600,)).start()  # Python itself would wait for it
sys.argv = ["aerosurrogate", *sys.argv[1:]]
main()
"""


def test_an_interrupted_run_keeps_its_steps_and_leaves_at_once(dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "interrupted"
    options = ["--set", "training.steps=100000", "--set", "training.checkpoint_seconds=1000.0"]
    arguments = [*command(dataset, out)[3:], *options]
    process = subprocess.Popen(
        [sys.executable, "-c", LEFT_RUNNING, *arguments], env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    while not (out / "log.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 130
    with safetensors.safe_open(out / "resume.safetensors", "pt") as file:
        state = json.loads(file.metadata()["state"])
    logged = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert state["step"] >= max(entry["step"] for entry in logged) > 0


def test_averaged_weights_follow_short_runs_and_are_those_of_the_definition(dataset: Path, tmp_path: Path) -> None:
    with processes("cpu") as own:
        recipe = small(dataset, "training.steps=30", "training.ema=0.9")
        run = Run(tmp_path / "run", recipe, own, resume=False)
        trainer = Trainer(recipe, open_cases(recipe, run), run, own)
    expected = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
    for step in range(30):
        trainer._update(trainer.batches.make(step))
        trainer.step += 1
        decay = min(0.9, (1 + step) / (10 + step))
        for name, weight in trainer.model.state_dict().items():
            expected[name] = decay * expected[name] + (1 - decay) * weight
    torch.testing.assert_close(trainer.weights["averaged"].state_dict(), expected, atol=1e-6, rtol=1e-5)
    assert warm_decay(0.999, 200) < 0.96
    assert warm_decay(0.999, 100_000) == 0.999


def test_averaging_never_makes_a_short_run_worse(dataset: Path, tmp_path: Path) -> None:
    """Validation chooses between the averaged weights and the last ones."""
    found = {}
    for ema in ("0.0", "0.999"):
        out = tmp_path / ema
        recipe = small(dataset, "training.steps=20", "training.validate_every=20", f"training.ema={ema}")
        train(recipe, out, device="cpu")
        with processes("cpu") as own:
            entries = Run(out, recipe, own, resume=True).entries()
        found[ema] = next(entry for entry in entries if "validation" in entry)
    assert found["0.999"]["validation"] <= found["0.0"]["validation"]
    assert found["0.0"]["weights"] == "last"


def test_a_short_run_spends_its_time_on_training(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small(dataset, "training.steps=12", "data.validation=test")  # 2 validation cases, each with two weights
    train(recipe, tmp_path / "run", device="cpu")
    with processes("cpu") as own:
        run = Run(tmp_path / "run", recipe, own, resume=True)
        looks = [entry for entry in run.entries() if "validation" in entry]
        assert len(looks) * 2 * 2 <= 12 * 2
        monkeypatch.setattr("aerosurrogate.training.conclusion.BRIEF", 0.0)
        monkeypatch.setattr("aerosurrogate.training.conclusion.EVIDENCE", 1)
        cases = open_cases(recipe, run)
        held, _ = conclude(tmp_path / "run/best.safetensors", cases, own, seconds=0.0)
        assert len(cases.validation) == 2
        assert len(held.rows) == 1


def test_a_run_without_validation_cases_says_so_and_leaves_a_model(
    dataset: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reached = train(small(dataset, "training.steps=3", "data.validation=0.0"), tmp_path / "run", device="cpu")
    said = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert [text.startswith("0 validation cases") for text in said] == [True, True]
    assert "the last weights are kept" in said[1]
    assert reached["routes"] == {"cd": "integrated", "cl": "integrated"}
    assert Surrogate.load(tmp_path / "run", "cpu").trust is not None
    assert same(tmp_path / "run/best.safetensors", tmp_path / "run/last.safetensors")


def test_seeds_fix_everything(dataset: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        train(small(dataset, "training.steps=6", f"training.seed={seed}"), tmp_path / name, device="cpu")
    assert same(tmp_path / "a/resume.safetensors", tmp_path / "b/resume.safetensors")
    assert not same(tmp_path / "a/resume.safetensors", tmp_path / "c/resume.safetensors")


def test_a_run_is_not_overwritten_and_not_resumed_as_another(dataset: Path, tmp_path: Path) -> None:
    train(small(dataset, "training.steps=3"), tmp_path / "run", device="cpu")
    with pytest.raises(InputError, match="--resume"):
        train(small(dataset, "training.steps=3"), tmp_path / "run", device="cpu")
    with pytest.raises(InputError, match=r"model\.layers"):
        train(small(dataset, "training.steps=3", "model.layers=3"), tmp_path / "run", resume=True, device="cpu")


def test_the_run_folder_holds_what_was_run(dataset: Path, tmp_path: Path) -> None:
    train(small(dataset, "training.steps=4"), tmp_path / "run", device="cpu")
    names = {p.name for p in (tmp_path / "run").iterdir()}
    assert names == {
        "recipe.toml",
        "cases.json",
        "environment.json",
        "log.jsonl",
        "history.csv",
        "resume.safetensors",
        "last.safetensors",
        "best.safetensors",
        "losses.png",
        "validation.csv",
        "validation.json",
    }
    assert read_recipe(tmp_path / "run/recipe.toml").training == small(dataset, "training.steps=4").training


def test_a_loss_that_is_not_finite_ends_the_run_with_step_case_and_remedy(dataset: Path, tmp_path: Path) -> None:
    recipe = small(dataset, "training.steps=20", "training.learning_rate=1e18", "training.clip=0", "training.ema=0.0")
    with pytest.raises(InputError) as caught:
        train(recipe, tmp_path / "run", device="cpu")
    message = str(caught.value)
    assert "not finite at step" in message
    assert "section-" in message
    assert "learning_rate" in message
    kept = load_file(tmp_path / "run/resume.safetensors")
    assert all(v.isfinite().all() for v in kept.values())


def test_a_full_disk_is_an_error_and_no_corrupt_checkpoint(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(small(dataset, "training.steps=3"), tmp_path / "run", device="cpu")
    before = (tmp_path / "run/resume.safetensors").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("aerosurrogate.training.run.save_file", full)
    with pytest.raises(InputError, match="space"):
        train(small(dataset, "training.steps=5"), tmp_path / "run", resume=True, device="cpu")
    assert (tmp_path / "run/resume.safetensors").read_bytes() == before
