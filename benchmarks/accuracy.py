"""Accuracy at equal cost: the textbook Transolver as the paper trains it, our recipe, an MLP and a PointNet.

    python benchmarks/accuracy.py --darcy ../shared/data/darcy16 --airfoils datasets/naca_rans

Every row sees the same data, the same number of steps and the same number of points a step; errors are means over the
held-out cases, with the spread over seeds. `textbook` keeps what the paper says (fields and inputs standardised,
positions with distances to a reference grid, its losses and schedule) in the order of operations of its equations
(textbook.py). `ours` is the recipe that comes with the package. Writes accuracy.json, accuracy.md and the loss curves;
what was measured before of a task that is left out (--no-airfoils, or no --darcy) stays.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from textbook import Textbook
from torch import Tensor, nn

from aerosurrogate import console
from aerosurrogate.data.prepare import prepare
from aerosurrogate.data.store import Dataset
from aerosurrogate.evaluate import evaluate
from aerosurrogate.model.architecture import TransolverConfig
from aerosurrogate.model.interface import Answer, Interface, Model
from aerosurrogate.model.registry import alike
from aerosurrogate.recipe import Recipe, read_recipe
from aerosurrogate.training.cases import open_cases
from aerosurrogate.training.distribution import processes
from aerosurrogate.training.loop import Trainer
from aerosurrogate.training.run import Run

INTRODUCTION = """# Accuracy at equal cost

Each row sees the same data, as many steps and as many points a step; means over the seeds ± half their range, and CPU
seconds of training on one thread. `textbook` is the paper's model in its own settings (textbook.py), `ours` the recipe
that comes with the package (for Darcy: the paper's recipe with our optimiser, learning rate and averaged weights).
Errors of fields are relative L2, those of coefficients relative; rho is Spearman's. `head` is the coefficient answered
directly, which only ours does; `integrated` that of the predicted pressure and shear.

"""
COLUMNS = {
    "darcy16": ["solution", "cpu_seconds"],
    "airfoils": ["p_surface", "U_volume", "wallShearStress_surface", "cl_integrated_error", "rho_L_integrated",
                 "cd_integrated_error", "rho_D_integrated", "cl_head_error", "rho_L_head", "cd_head_error",
                 "rho_D_head", "cpu_seconds"],
}  # fmt: skip
ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"


class PaperTransolver(Model):
    """The textbook model, with the authors' initialisation and distances to an 8 x 8 reference grid; no heads."""

    Config = TransolverConfig

    def __init__(self, interface: Interface, config: TransolverConfig) -> None:
        super().__init__(interface, config)
        d = interface.dimensions
        self.inner = Textbook(
            interface.inputs + {"none": 0, "accompany": 8**d, "index": 8**d - d}[config.unified_pos],
            interface.outputs,
            config.layers,
            config.channels,
            config.heads,
            config.slices_per_layer[0],
            config.mlp_ratio,
            config.projection,
            config.placeholder,
        )
        for module in self.inner.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        box = config.unified_box or ((0.0, 1.0),) * d
        self.reference = torch.cartesian_prod(*(torch.linspace(low, high, 8) for low, high in box))

    def forward(
        self, inputs: Tensor, grid: Any = None, mask: Any = None, time: Any = None, skin: Any = None, group: Any = None
    ) -> Any:
        d = self.interface.dimensions
        places, functions = inputs[..., :d], inputs[..., d:]
        if self.config.unified_pos == "index":
            places = torch.cartesian_prod(*(torch.linspace(0, 1, side) for side in grid)).expand(len(inputs), -1, -1)
        distances = torch.cdist(places, self.reference.expand(len(inputs), -1, -1))
        kept = functions if self.config.unified_pos == "index" else inputs
        fields = self.inner(torch.cat([kept, distances], dim=-1), grid)
        return fields if skin is None else Answer(fields, None, fields.mean(1))


KINDS = {
    "textbook": "accuracy:PaperTransolver",
    "ours": "transolver",
    "PointNet": "pointnet",
    "MLP": "mlp",
}


def run_one(recipe: Recipe, split: str, out: Path) -> tuple[dict[str, float], float]:
    """Train one model and measure it on a split: figures by name, and seconds of training."""
    with processes("cpu") as own:
        run = Run(out, recipe, own, resume=False)
        cases = open_cases(recipe, run)
        trainer = Trainer(recipe, cases, run, own)
        start = time.process_time()
        trainer.run_steps()
        seconds = time.process_time() - start
        trainer.trained.eval()
        surrogate = trainer.surrogate()
        names = cases.dataset.names(split)
        return evaluate(surrogate, cases.dataset, names).figures, seconds


def darcy_recipe(kind: str, data: Path, steps: int, size: list[str]) -> Recipe:
    small = ["model.layers=4", "model.channels=64", "model.slices=32"]  # the paper's 8 x 128 x 64 would take a day
    common = [f"data.path={data}", f"training.steps={steps}", "training.validate_every=1000000", *small, *size]
    changed = (f"ema={_ema(steps)}", "optimiser=muon", "learning_rate=2e-3", "clip=1.0")  # as our own recipes have it
    ours = [f"training.{change}" for change in changed] if kind == "ours" else []
    pointwise = ["training.gradient_weight=0.0"] if kind in ("MLP", "PointNet") else []
    return read_recipe(ROOT / "recipes" / "darcy.toml", [*common, *ours, *pointwise])


def _ema(steps: int) -> float:
    """An average over the last tenth of a run, however short it is."""
    return round(1 - 10 / max(steps, 20), 5)


def airfoil_recipe(kind: str, data: Path, steps: int, size: list[str]) -> Recipe:
    common = [f"data.path={data}", f"training.steps={steps}", "training.validate_every=1000000", *size]
    if kind == "ours":
        return read_recipe(ROOT / "recipes" / "naca_rans.toml", [*common, f"training.ema={_ema(steps)}"])
    mine = read_recipe(ROOT / "recipes" / "naca_rans.toml", common)
    points = (mine.training.points or 0) + (mine.training.skin_points or 0)
    architecture = [
        f"model.{key}={getattr(mine.model, key)}" for key in ("layers", "channels", "heads", "slices", "mlp_ratio")
    ]
    fields = 'data.fields=["U","p","nut","wallShearStress"]'  # the shear as well, or there would be no drag to compare
    batch = f"training.batch={mine.training.batch}"
    return read_recipe(
        ROOT / "recipes" / "airfrans.toml", [*architecture, fields, batch, *common, f"training.points={points}"]
    )


def compare(task: str, recipe_of: Callable[[str], Recipe], split: str, seeds: int, folder: Path) -> dict[str, Any]:
    """All models of a task, each with some seeds."""
    rows: dict[str, Any] = {}
    for kind in KINDS:
        figures, seconds = [], []
        for seed in range(seeds):
            recipe = recipe_of(kind)
            training = recipe.training.model_copy(update={"seed": seed})
            changes = {"training": training, "model": alike(recipe.model, KINDS[kind]), "name": f"{task}-{kind}-{seed}"}
            recipe = recipe.model_copy(update=changes)
            result, took = run_one(recipe, split, folder / recipe.name)
            figures.append(result)
            seconds.append(took)
            console.note(f"{recipe.name}: {json.dumps({k: round(v, 4) for k, v in result.items()})}")
        rows[kind] = {
            key: {"mean": statistics.fmean(values), "spread": float(np.ptp(values)) / 2}
            for key in figures[0]
            if (values := [f[key] for f in figures]) and key != "seconds_per_case"
        } | {"cpu_seconds": {"mean": statistics.fmean(seconds), "spread": float(np.ptp(seconds)) / 2}}
    return rows


def page(results: dict[str, Any]) -> str:
    """The tables of all tasks that were measured."""
    text = INTRODUCTION
    for task, result in results.items():
        keys = COLUMNS[task]
        text += f"## {task}: {result['steps']} steps, {result['seeds']} seeds, {result['cases']} cases held out\n\n"
        text += f"![training loss](accuracy_{task}.png)\n\n"
        text += "| model | " + " | ".join(keys) + " |\n" + "|---" * (len(keys) + 1) + "|\n"
        for kind, figures in result["rows"].items():
            cells = [f"{figures[k]['mean']:.4g} ± {figures[k]['spread']:.2g}" if k in figures else "-" for k in keys]
            text += f"| {kind} | " + " | ".join(cells) + " |\n"
        text += "\n"
    return text.rstrip() + "\n"


def draw_curves(folder: Path, task: str) -> None:
    """Training losses over their own start, since the losses differ in kind."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for kind in KINDS:
        lines = (folder / f"{task}-{kind}-0" / "log.jsonl").read_text().splitlines()
        points = [(e["step"], e["loss"]) for e in map(json.loads, lines) if "loss" in e]
        steps, losses = (np.array(v) for v in zip(*points, strict=True))
        smooth = np.convolve(losses, np.ones(9) / 9, "valid")
        axes.plot(steps[4:-4], smooth / smooth[0], label=kind)
    axes.set(title=task, xlabel="step", ylabel="training loss over its start", yscale="log")
    axes.legend()
    figure.savefig(RESULTS / f"accuracy_{task}.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--darcy", type=Path, help="folder with the 16 x 16 Darcy set")
    parser.add_argument("--airfoils", type=Path, default=ROOT / "datasets" / "naca_rans")
    parser.add_argument("--no-airfoils", action="store_true")
    parser.add_argument("--darcy-steps", type=int, default=2000)
    parser.add_argument("--airfoil-steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument(
        "--set", action="append", default=[], help="overrides for all models, such as model.channels=64"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    RESULTS.mkdir(exist_ok=True)
    record = RESULTS / "accuracy.json"

    def measure(task: str, steps: int, split: str, data: Path, recipe_of: Callable[[str], Recipe]) -> None:
        rows = compare(task, recipe_of, split, options.seeds, folder)
        cases = len(Dataset(data).names(split))
        results: dict[str, Any] = json.loads(record.read_text()) if record.exists() else {}
        results[task] = {"steps": steps, "seeds": options.seeds, "set": options.set, "cases": cases, "rows": rows}
        draw_curves(folder, task)
        record.write_text(json.dumps(results, indent=1))
        (RESULTS / "accuracy.md").write_text(page(results))

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.darcy is not None:
            data, steps = folder / "darcy", options.darcy_steps
            prepare([options.darcy], data, format="darcy")
            measure("darcy16", steps, "test", data, lambda kind: darcy_recipe(kind, data, steps, options.set))
        if not options.no_airfoils:
            data, steps = options.airfoils, options.airfoil_steps
            measure("airfoils", steps, "full_test", data, lambda kind: airfoil_recipe(kind, data, steps, options.set))
    print(page(json.loads(record.read_text())))


if __name__ == "__main__":
    main()
