"""How much of training is the model: the share of a run's time that its steps take, the rest being spent on waiting
for data and on logs.

    python benchmarks/feeding.py [--points 32768] [--steps 6]

Trains recipes/airfrans.toml on cases of that set's size (180 thousand points), whose values are made up: what is timed
does not depend on them. Points are drawn as the paper does (any rows) and as our own recipes do (by density). Prints
one JSON document.

`batch` is what a GPU would wait for: milliseconds of a core for a batch that a process makes; and for one that is drawn
where the cases live, the launches, the megabytes that they read and write (topk and the like as one launch that goes
through its arguments once), and the milliseconds that this takes an A100 by the estimate of gpu_counts.py, beside those
of the compiled step.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from gpu_counts import RESULTS, Counts, Moved

from aerosurrogate import console
from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Case
from aerosurrogate.data.store import Manifest, write_manifest, write_shard
from aerosurrogate.mesh import surroundings
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.recipe import read_recipe
from aerosurrogate.training.batches import Batch, Batches
from aerosurrogate.training.cases import open_cases
from aerosurrogate.training.distribution import processes
from aerosurrogate.training.loop import Trainer
from aerosurrogate.training.resident import Resident
from aerosurrogate.training.run import Run

ROOT = Path(__file__).parents[1]
CASES, SKIN, AROUND = 5, 1_000, 179_000
STEP = "ours, compiled, budget 1"  # of gpu_counts.py, at 32,768 points
REPEATS = 10


def made_up_case(number: int) -> Case:
    """A NACA section with noise for a flow."""
    rng = np.random.default_rng(number)
    section, stream = read_surface("naca2412"), Conditions(speed=60.0, length=1.0, alpha=3.0)
    skin = surroundings.on_skin(section, SKIN, number)
    around = surroundings.around(surroundings.AIRFOIL, section, AROUND, number)
    n = SKIN + AROUND
    on = np.arange(n) < SKIN
    return Case(
        name=f"case-{number}",
        points=np.concatenate([skin.points, around.points]).astype(np.float32),
        surface=on,
        fields={
            name: rng.normal(size=(n, width)).astype(np.float32) for name, width in {"U": 2, "p": 1, "nut": 1}.items()
        },
        normals=np.concatenate([section.normals[skin.cells], around.direction]).astype(np.float32),
        areas=np.where(on, section.areas.sum() / SKIN, 0).astype(np.float32),
        distance=np.concatenate([np.zeros(SKIN), around.distance]).astype(np.float32),
        volumes=np.where(on, 0, 18.0 / AROUND).astype(np.float32),
        conditions=stream,
    )


def made_up_set(folder: Path) -> None:
    shard = folder / "shard.safetensors"
    folder.mkdir()
    entries = write_shard(shard, map(made_up_case, range(CASES)))
    splits = {"full_train": list(entries), "full_test": list(entries)[:1]}
    write_manifest(folder, Manifest(source="made up", format="cases", cases=entries, splits=splits))


class TimedTrainer(Trainer):
    """Notes how long each step took, its data being there."""

    own_seconds = 0.0

    def _update(self, batch: Batch) -> float:
        start = time.perf_counter()
        loss = super()._update(batch)
        self.own_seconds += time.perf_counter() - start
        return loss


def batch_costs(made: Batches) -> dict[str, float]:
    """Of one batch, made by a core and drawn on a device."""

    def milliseconds(batches: Batches) -> float:
        for step in range(CASES):  # all files have been read
            batches.make(step)
        start = time.process_time()
        for step in range(REPEATS):
            batches.make(step)
        return 1e3 * (time.process_time() - start) / REPEATS

    here = Resident(made, torch.device("cpu"))
    with Moved() as moved:
        here.make(0)
    counts = Counts(moved.launches, moved.bytes / 1e9)
    step = json.loads((RESULTS / "gpu_counts_32768_256_32.json").read_text(encoding="utf-8"))["rows"][STEP]
    return {
        "made_by_a_core_ms": round(milliseconds(made), 1),
        "drawn_by_a_core_ms": round(milliseconds(here), 1),
        "drawn_launches": moved.launches,
        "drawn_megabytes": round(moved.bytes / 1e6, 1),
        "drawn_a100_ms_estimated": round(counts.milliseconds, 2),
        "step_a100_ms_estimated": round(step["milliseconds"], 1),
    }


def measure(data: Path, out: Path, changes: list[str]) -> dict[str, object]:
    recipe = read_recipe(ROOT / "recipes" / "airfrans.toml", [f"data.path={data}", "data.validation=0.0", *changes])
    with processes("auto") as own:
        run = Run(out, recipe, own, resume=False)
        trainer = TimedTrainer(recipe, open_cases(recipe, run), run, own)
        start = time.perf_counter()
        trainer.run_steps()
        seconds = time.perf_counter() - start
    return {
        "batch": batch_costs(trainer.batches),
        "seconds_per_step": round(seconds / trainer.steps, 3),
        "share_of_the_model": round(trainer.own_seconds / seconds, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=32_768)
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    console.be_quiet(True)
    density = ["sampling=density", f"skin_points={SKIN}", f"points={options.points - SKIN}"]
    ways = {"rows": [f"points={options.points}"], "density": density}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        made_up_set(folder / "data")
        result = {}
        for way, changes in ways.items():
            changes = [f"training.{change}" for change in (f"steps={options.steps}", *changes)]
            result[way] = measure(folder / "data", folder / way, changes)
    print(json.dumps({"points": options.points, "steps": options.steps} | result, indent=1))


if __name__ == "__main__":
    main()
