"""What a few simulations of one's own are worth: `car` on foreign bodies as it is, after fine-tuning, and from nothing.

    python benchmarks/finetuning.py RUN_DIR [--count 20] [--steps 1000] [--fidelity standard]

Makes 2 x count pods (eggs on the road, closed lofts of superellipses such as no family of ours has), solves them at 30
m/s with `simulate` (needs OpenFOAM; some twenty seconds of a core each; goes on where it stopped), and then, twice
with the halves changed over: measures the shipped `car` on one half, goes on from it with the other half (`train
--start car`), and trains the same architecture on that half from nothing in as many steps. Writes
benchmarks/results/finetuning.md.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pyvista as pv

from aerosurrogate.conditions import StreamOptions
from aerosurrogate.data.prepare import prepare
from aerosurrogate.data.store import Dataset, write_manifest
from aerosurrogate.evaluate import CaseResult, Evaluation, evaluate, summarise
from aerosurrogate.recipe import read_recipe
from aerosurrogate.simulate import driver
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.loop import train

ROOT = Path(__file__).parents[1]
STATIONS, AROUND = 61, 64
SPEED = 30.0  # m/s
SHOWN = {
    "p_surface": "surface pressure, relative L2",
    "U_volume": "velocity, relative L2",
    "wallShearStress_surface": "wall shear, relative L2",
    "cd_head_error": "drag by the head, mean relative error",
    "rho_D_head": "its Spearman",
    "cd_integrated_error": "drag integrated, mean relative error",
    "rho_D_integrated": "its Spearman",
}


def pod(number: int) -> pv.PolyData:
    """A closed body over the ground at z = 0, flow along x: cross-sections are superellipses that swell and shrink."""
    rng = np.random.default_rng([2026, number])
    length, width = rng.uniform(2.4, 3.8), rng.uniform(1.15, 1.6)
    height, clearance = rng.uniform(1.1, 1.6), rng.uniform(0.12, 0.25)
    nose, tail = rng.uniform(0.35, 0.7), rng.uniform(0.5, 1.1)  # how blunt
    fullest, cut = rng.uniform(0.3, 0.5), rng.uniform(0.7, 1.0)  # where the body is, and where its tail is cut off
    square, droop = rng.uniform(2.0, 4.0), rng.uniform(-0.1, 0.35)  # of the sections; of nose and tail
    s = (0.5 - 0.5 * np.cos(np.linspace(0, np.pi, STATIONS))) * cut
    front, rear = np.clip(1 - s / fullest, 0, 1), np.clip((s - fullest) / (1 - fullest), 0, 1)
    size = np.where(s < fullest, (1 - front**2) ** nose, (1 - rear**2) ** tail)
    angle = np.linspace(0, 2 * np.pi, AROUND, endpoint=False) + np.pi / AROUND
    y, z = (np.sign(w) * np.abs(w) ** (2 / square) for w in (np.cos(angle), np.sin(angle)))
    x, middle = (s / cut - 0.5) * length, clearance + 0.5 * height
    tips = [[x[0], 0, middle - 0.5 * droop * height], [x[-1], 0, 0]]
    rings = []
    for k in range(1, STATIONS - (size[-1] < 1e-6)):
        level = middle - 0.5 * droop * height * (1 - size[k])
        rings.append(
            np.stack([np.full(AROUND, x[k]), 0.5 * width * size[k] * y, level + 0.5 * height * size[k] * z], 1)
        )
    tips[1][2] = float(rings[-1][:, 2].mean())
    points = np.concatenate([np.array(tips[:1]), *rings, np.array(tips[1:])])
    first = 1 + AROUND * np.arange(len(rings))[:, None] + np.arange(AROUND)
    after = np.roll(first, -1, axis=1)
    sides = [[a, b, c] for a, b, c in ((first[:-1], after[:-1], first[1:]), (after[:-1], after[1:], first[1:]))]
    faces = [np.stack(side, -1).reshape(-1, 3) for side in sides]
    faces += [np.stack([np.zeros(AROUND, int), after[0], first[0]], -1)]
    faces += [np.stack([np.full(AROUND, len(points) - 1), first[-1], after[-1]], -1)]
    mesh = pv.PolyData.from_regular_faces(points, np.concatenate(faces))
    return mesh.compute_normals(auto_orient_normals=True, consistent_normals=True)


def solved(folder: Path, count: int, fidelity: str) -> Dataset:
    """The pods solved, as a data set with the halves `even` and `odd`."""
    files = []
    for number in range(2 * count):
        path = folder / "shapes" / f"pod-{number:02d}.stl"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            pod(number).save(path)
        files.append(str(path))
    done = sorted(path.stem for path in (folder / "solved").glob("pod-*.safetensors"))
    if len(done) < 2 * count:
        driver.simulate(files, folder / "solved", fidelity=fidelity, stream=StreamOptions(speed=SPEED))
    manifest = prepare([folder / "solved"], folder / "set", compact=True, jobs=1).manifest
    names = sorted(manifest.cases)
    manifest.splits = {"even": names[::2], "odd": names[1::2]}
    write_manifest(folder / "set", manifest)
    return Dataset(folder / "set")


def compared(folder: Path, dataset: Dataset, steps: int) -> dict[str, dict[str, float]]:
    """Figures of the three models, over both halves."""
    cases: dict[str, list[CaseResult]] = {"car as it is": [], "fine-tuned from car": [], "from nothing": []}
    minutes = dict.fromkeys(cases, 0.0)
    for own, other in (("even", "odd"), ("odd", "even")):
        recipe = folder / f"{own}.toml"
        recipe.write_text(f'[data]\npath = "{dataset.folder}"\ntrain = "{own}"\nvalidation = 0.2\n')
        tuned = read_recipe(recipe, [f"training.steps={steps}"], "car")
        settings = [
            f"data.path={dataset.folder}",
            f"data.train={own}",
            "data.validation=0.2",
            f"training.steps={steps}",
        ]
        scratch = read_recipe(ROOT / "recipes" / "car_rans.toml", settings)
        models = {"car as it is": "car"}
        for name, what in (("fine-tuned from car", tuned), ("from nothing", scratch)):
            run = folder / f"{own}-{name.split()[0]}"
            if not (run / "validation.json").exists():
                train(what, run, device="cpu")
            models[name] = str(run)
            minutes[name] += Surrogate.load(run, "cpu").card["trained"]["seconds"] / 120
        for name, model in models.items():
            cases[name] += evaluate(Surrogate.load(model, "cpu"), dataset, dataset.names(other), name).cases
    figures = {}
    for name, found in cases.items():
        result = Evaluation(found)
        summarise(result)
        figures[name] = result.figures | {"minutes": minutes[name]}
    return figures


def page(figures: dict[str, dict[str, float]], count: int, steps: int, fidelity: str) -> str:
    head = "| on the half not trained on | " + " | ".join(figures) + " |"
    lines = [
        "# Fine-tuning: what simulations of one's own are worth",
        "",
        f"{2 * count} pods (benchmarks/finetuning.py: eggs on the road, which `car` calls `outside`), solved by",
        f"`simulate` at fidelity `{fidelity}`. Twice, with the halves changed over: {count} to train on, {count} to",
        f"measure on, {steps} steps for either training. The figures are over all {2 * count}.",
        "",
        head,
        "|---" * (len(figures) + 1) + "|",
    ]
    for key, words in SHOWN.items():
        if all(key in values for values in figures.values()):
            lines.append(f"| {words} | " + " | ".join(f"{values[key]:.3f}" for values in figures.values()) + " |")
    lines.append(
        "| minutes of training (a busy core) | " + " | ".join(f"{v['minutes']:.1f}" for v in figures.values()) + " |"
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--fidelity", default="standard")
    given = parser.parse_args()
    folder = given.folder.resolve()
    figures = compared(folder, solved(folder, given.count, given.fidelity), given.steps)
    text = page(figures, given.count, given.steps, given.fidelity)
    (ROOT / "benchmarks" / "results" / "finetuning.md").write_text(text)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
