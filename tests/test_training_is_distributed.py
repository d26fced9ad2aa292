"""Two processes train to the single process' weights: sharing the batch, or the points of each case."""

import os
import subprocess
import sys
from pathlib import Path

import torch
from joukowski import joukowski_set
from safetensors.torch import load_file

from aerosurrogate.recipe import read_recipe
from aerosurrogate.training.loop import train

RECIPE = Path(__file__).parents[1] / "recipes" / "naca_rans.toml"
LAUNCHED = """
import sys
import torch.distributed
from aerosurrogate.cli import app
torch.distributed.init_process_group("gloo")
for share in ("false", "true"):
    app([*sys.argv[1:], "--set", f"training.shard_points={share}", "--out", share], standalone_mode=False)
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
        "training.steps=12",
        "training.force_weight=0.1",
        "training.ema=0.9",
    ]
    train(read_recipe(RECIPE, settings), tmp_path / "one", device="cpu")
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
    for name in ("false", "true"):
        shared = load_file(tmp_path / name / "resume.safetensors")
        assert shared.keys() == alone.keys()
        for key, value in alone.items():
            if not key.startswith("optimiser"):
                torch.testing.assert_close(shared[key], value, atol=1e-4, rtol=1e-4)
