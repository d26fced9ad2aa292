"""How much of training is the model: the share of a run's time that its steps take, the rest being spent on waiting
for data and on logs.

    python benchmarks/feeding.py [--points 32768] [--steps 6]

Trains recipes/airfrans.toml on cases of that set's size (180 thousand points), whose values are made up: what is timed
does not depend on them. Points are drawn as the paper does (any rows) and as our own recipes do (by density). Prints
one JSON document.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from aerosurrogate import console
from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Case
from aerosurrogate.data.store import Manifest, write_manifest, write_shard
from aerosurrogate.mesh import surroundings
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.recipe import read_recipe
from aerosurrogate.training.batches import Batch
from aerosurrogate.training.cases import open_cases
from aerosurrogate.training.distribution import processes
from aerosurrogate.training.loop import Trainer
from aerosurrogate.training.run import Run

ROOT = Path(__file__).parents[1]
CASES, SKIN, AROUND = 5, 1_000, 179_000


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


def measure(data: Path, out: Path, changes: list[str]) -> dict[str, float]:
    recipe = read_recipe(ROOT / "recipes" / "airfrans.toml", [f"data.path={data}", "data.validation=0.0", *changes])
    with processes("auto") as own:
        run = Run(out, recipe, own, resume=False)
        trainer = TimedTrainer(recipe, open_cases(recipe, run), run, own)
        start = time.perf_counter()
        trainer.run_steps()
        seconds = time.perf_counter() - start
    return {
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
