"""Time and memory of the recipes of published sets on one A100, counted without one: what their headers say.

    python benchmarks/gpu_recipes.py            a minute or two on one core; no GPU

A step of each recipe (its model, batch and number of points; forward and backward pass) is counted as gpu_counts.py
does it, as written: the compiled step that CUDA gets by default moves less and has fewer launches. Estimated hours are
its time there, times the steps of the run: reading, validation and the optimiser, small beside it, are left out.
Rollouts compute each frame again in the backward pass and keep one. Goes to results/gpu_recipes.json.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from gpu_counts import RESULTS, Counts, fake_step
from speed import Size
from torch import Tensor, nn

from aerosurrogate.model import folding, gradients, precision
from aerosurrogate.model.interface import Interface
from aerosurrogate.model.transolver import Transolver
from aerosurrogate.recipe import Recipe, read_recipe

RECIPES = Path(__file__).parents[1] / "recipes"
AGAIN = 4 / 3  # of a step's work, where the forward pass is computed twice


@dataclass(frozen=True)
class Set:
    """A published set: training cases, points of a case, channels of a call's inputs and answers."""

    cases: int
    points: int
    inputs: int
    outputs: int
    grid: tuple[int, ...] | None = None
    dimensions: int = 2


SETS = {
    "airfoil": Set(1000, 221 * 51, 2, 1, (221, 51)),
    "airfrans": Set(720, 32_000, 7, 4),  # a tenth of the training cases is held out
    "airfrans_scarce": Set(180, 32_000, 7, 4),
    "airfrans_ood_reynolds": Set(454, 32_000, 7, 4),
    "airfrans_ood_angles": Set(724, 32_000, 7, 4),
    "darcy": Set(1000, 85 * 85, 3, 1, (85, 85)),
    "elasticity": Set(1000, 972, 2, 1),
    "navier_stokes": Set(1000, 64 * 64, 12, 1, (64, 64)),
    "pipe": Set(1000, 129 * 129, 2, 1, (129, 129)),
    "plasticity": Set(900, 101 * 31, 3, 4, (101, 31)),
    "shapenet_car": Set(789, 32_186, 7, 4, dimensions=3),
    # Steps are said by these recipes, whatever the number of cases; points are drawn, two thirds of them on the skin.
    "ahmedml": Set(400, 24_576, 36, 7, dimensions=3),
    "drivaerml": Set(400, 24_576, 36, 7, dimensions=3),
    "windsorml": Set(280, 24_576, 36, 7, dimensions=3),
    "drivaernet": Set(2800, 16_384, 31, 4, dimensions=3),
}


class Step(nn.Module):
    """A model called as a step of its recipe calls it."""

    def __init__(self, recipe: Recipe, of: Set, layers: int) -> None:
        super().__init__()
        interface = Interface(of.inputs, of.outputs, of.dimensions, time_input=recipe.training.task == "time")
        self.model = Transolver(interface, recipe.model.model_copy(update={"layers": layers}))
        self.model.tile, self.model.recompute = of.points, "none"
        self.of, self.batch = of, recipe.training.batch

    def forward(self, _: Tensor) -> Tensor:
        x = torch.empty(self.batch, self.of.points, self.of.inputs)
        time = torch.empty(self.batch) if self.model.interface.time_input else None
        answer = self.model(x, self.of.grid, None, time)
        assert isinstance(answer, Tensor)
        return answer


def count(recipe: Recipe, of: Set) -> Counts:
    one, two = (
        fake_step(lambda size: Step(recipe, of, size.layers), Size(of.points, 0, 0, 0, layers=layers))
        for layers in (1, 2)
    )
    return one.scaled(two, recipe.model.layers)


def main() -> None:
    precision.sums_in_float32 = lambda device: True  # as CUDA gives them
    folding.unit = gradients.unit = lambda x: None  # and as it takes norms
    found = {}
    for name, of in SETS.items():
        recipe = read_recipe(RECIPES / f"{name}.toml")
        t, counts = recipe.training, count(recipe, of)
        frames = t.time_steps if t.task != "steady" else 1
        assert of.points == (t.points or 0) + (t.skin_points or 0) or t.sampling == "rows", name
        # Each frame of a rollout counts as one.
        steps = t.steps or -(-(t.epochs or 0) * of.cases // t.batch) * frames
        milliseconds = counts.milliseconds * (AGAIN if t.task == "rollout" else 1)
        found[name] = {
            "steps": steps,
            "launches": round(counts.launches),
            "gigabytes_moved": round(counts.gigabytes, 2),
            "gigabytes_kept": round(counts.kept / 1e9, 2),
            "a100_ms_estimated": round(milliseconds, 1),
            "a100_hours_estimated": round(steps * milliseconds / 3.6e6, 1),
        }
        print(name, found[name], flush=True)
    (RESULTS / "gpu_recipes.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
