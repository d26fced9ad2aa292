"""Two processes train to the single process' weights: sharing the batch, or the points of each case.

Each process has a folder of its own, as on machines that share no file system; the runs stop half way and go on.
"""

import os
import subprocess
import sys
from pathlib import Path

import torch
from joukowski import joukowski_set
from safetensors.torch import load_file

from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.loop import train

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
for share in ("false", "true"):
    run(share, f"training.shard_points={share}", "training.steps=6")
    run(share, f"training.shard_points={share}", "training.steps=12")
run("headless", "training.coefficient_weight=0.0", "training.steps=3")
"""


def test_two_processes_are_as_good_as_one(tmp_path: Path) -> None:
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
        "training.batch=2",
        "training.force_weight=0.1",
        "training.ema=0.9",
    ]
    for steps in (6, 12):
        train(read_recipe(RECIPE, [*settings, f"training.steps={steps}"]), tmp_path / "one", resume=True, device="cpu")
    (tmp_path / "launched.py").write_text(LAUNCHED)
    options = [word for text in settings for word in ("--set", text)]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, "launched.py", "train", str(RECIPE), "--quiet", "--device", "cpu", *options],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(RECIPE.parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    alone = load_file(tmp_path / "one" / "resume.safetensors")
    first = tmp_path / "machine0"
    for name in ("false", "true"):
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
    assert not any((tmp_path / "machine1").iterdir())
    before, after = (load_file(first / name / "resume.safetensors") for name in ("false", "headless"))
    assert before.keys() >= {key for key in after if not key.startswith("optimiser")}
