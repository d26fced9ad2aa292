"""Four processes train to the single process' weights: sharing the batch, the points of each case, or both.

They are started as docs/gpu.md has it for two machines with two each. Each process has a folder of its own, as on
machines that share no file system; the runs stop half way and go on.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from joukowski import joukowski_set
from safetensors.torch import load_file
from torch.nn.parallel import DistributedDataParallel

from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.cases import open_cases
from aerosurrogate.training.distribution import Processes, processes
from aerosurrogate.training.loop import Trainer, train
from aerosurrogate.training.objective import Objective
from aerosurrogate.training.run import Run

RECIPE = Path(__file__).parents[1] / "recipes" / "naca_rans.toml"
LAUNCHED = """
import os, sys
import torch.distributed
from aerosurrogate.cli import app
torch.distributed.init_process_group("gloo")
os.makedirs(f"machine{torch.distributed.get_rank()}")
os.chdir(f"machine{torch.distributed.get_rank()}")
def run(out, *settings):
    options = [word for text in settings for word in ("--set", text)]
    app([*sys.argv[1:], *options, "--out", out, "--resume"], standalone_mode=False)
for share in ("false", "true", "2"):
    run(share, f"training.shard_points={share}", "training.steps=6")
    run(share, f"training.shard_points={share}", "training.steps=12")
run("headless", "training.coefficient_weight=0.0", "training.steps=3")
"""


def test_four_processes_are_as_good_as_one(tmp_path: Path) -> None:
    data = joukowski_set(tmp_path / "sections", 6)
    settings = [
        f"data.path={data}",
        "data.train=train",
        'data.fields=["p","U","wallShearStress"]',
        "data.validation=test",
        "model.channels=16",
        "model.layers=2",
        "model.heads=2",
        "model.slices=4",
        "training.points=64",
        "training.skin_points=32",
        "training.batch=4",
        "training.ema=0.9",
    ]
    for steps in (6, 12):
        train(read_recipe(RECIPE, [*settings, f"training.steps={steps}"]), tmp_path / "one", resume=True, device="cpu")
    (tmp_path / "launched.py").write_text(LAUNCHED)
    options = [word for text in settings for word in ("--set", text)]
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"]
    torchrun += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}"]
    machines = [
        subprocess.Popen(
            [*torchrun, "launched.py", "train", str(RECIPE), "--quiet", "--device", "cpu", *options],
            cwd=tmp_path,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(RECIPE.parents[1])},
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [machine.communicate()[1] for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], said
    alone = load_file(tmp_path / "one" / "resume.safetensors")
    first = tmp_path / "machine0"
    for name in ("false", "true", "2"):
        shared = load_file(first / name / "resume.safetensors")
        assert shared.keys() == alone.keys()
        for key, value in alone.items():
            if not key.startswith("optimiser"):
                torch.testing.assert_close(shared[key], value, atol=1e-3, rtol=1e-3)  # Muon magnifies rounding
    # What all processes measured at the end is what one would have.
    ours, theirs = (Surrogate.load(run, "cpu") for run in (tmp_path / "one", first / "false"))
    assert ours.card["validation"].keys() == theirs.card["validation"].keys()
    assert abs(ours.card["validation"]["U_volume"] - theirs.card["validation"]["U_volume"]) < 1e-3
    assert len(theirs.trust["ranges"]) == len(ours.trust["ranges"])
    assert not any(file for number in (1, 2, 3) for file in (tmp_path / f"machine{number}").iterdir())
    before, after = (load_file(first / name / "resume.safetensors") for name in ("false", "headless"))
    assert before.keys() >= {key for key in after if not key.startswith("optimiser")}


def test_points_are_shared_by_few_and_small_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each layer the tokens, projected before they are summed; the skin; all losses together."""
    data = joukowski_set(tmp_path / "sections", 3)
    sizes = ["channels=32", "layers=2", "heads=4", "slices=4"]
    settings = [f"data.path={data}", "data.train=train", 'data.fields=["p","U","wallShearStress"]']
    settings += [f"model.{size}" for size in sizes]
    settings += ["training.points=64", "training.skin_points=32", "training.batch=2"]
    recipe = read_recipe(RECIPE, settings)
    sent: list[int] = []
    plain = dist.all_reduce

    def counted(tensor: torch.Tensor, *options: object, **named: object) -> object:
        sent.append(tensor.numel())
        return plain(tensor, *options, **named)  # type: ignore[arg-type]

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        with processes("cpu") as own:
            trainer = Trainer(
                recipe, open_cases(recipe, run := Run(tmp_path / "run", recipe, own, resume=False)), run, own
            )
        objective = Objective(trainer.model, trainer.cases.scaling, recipe.training, dist.group.WORLD)
        batch = trainer.batches.make(0)
        monkeypatch.setattr(dist, "all_reduce", counted)
        loss = objective(batch)["loss"]
        forward = list(sent)
        loss.backward()
        torch.testing.assert_close(loss, trainer.objective(batch)["loss"])
    finally:
        dist.destroy_process_group()
    tokens = 2 * 4 * 4 * (32 // 4 + 1)  # batch, heads, slices, values and their weight
    assert forward[:3] == [tokens, tokens, 2 * (32 + 1)]
    assert len(forward) == 4, "losses"
    assert sorted(sent[4:]) == sorted(forward)


def test_gradients_are_all_that_is_exchanged_where_the_batch_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process whose compiled step fails before the exchange takes the plain one, and the others notice nothing."""
    data = joukowski_set(tmp_path / "sections", 3)
    settings = [f"data.path={data}", "data.train=train", 'data.fields=["p","U","wallShearStress"]', "training.batch=2"]
    settings += [f"model.{size}" for size in ("channels=32", "layers=1", "heads=4", "slices=4")]
    recipe = read_recipe(RECIPE, [*settings, "training.points=64", "training.skin_points=32"])
    sent: list[str] = []

    def counted(name: str) -> Callable[..., object]:
        plain = getattr(dist, name)

        def send(*given: object, **named: object) -> object:
            sent.append(name)
            return plain(*given, **named)

        return send

    def fails(*_: object) -> None:
        raise RuntimeError("no such processor")

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        with processes("cpu") as own:
            run = Run(tmp_path / "run", recipe, own, resume=False)
            two = Processes(0, 2, own.device, dist.group.WORLD)  # of which the other is not there, nor missed
            trainer = Trainer(recipe, open_cases(recipe, run), run, two)
        assert isinstance(trainer.parallel, DistributedDataParallel)
        for name in ("all_reduce", "broadcast", "_broadcast_coalesced"):
            monkeypatch.setattr(dist, name, counted(name))
        plain = trainer.objective(trainer.batches.make(0))["loss"].item()
        trainer.objective.compile(backend=fails)
        loss, norm = trainer._update(trainer.batches.make(0)).figures.read()
    finally:
        dist.destroy_process_group()
    assert sent == []
    assert loss == pytest.approx(plain, rel=1e-5)
    assert norm > 0
    assert trainer.objective._compiled_call_impl is None
