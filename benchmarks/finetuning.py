"""What twenty simulations of one's own are worth: `car` on foreign cars as it is, after fine-tuning, and from nothing.

    python benchmarks/finetuning.py RUN_DIR [--steps 1000]

On the cars of datasets/foreign_cars (foreign_cars.py makes and solves them), twice with the halves changed over:
measures the shipped `car` on one half, goes on from it with the other half (`train --start car`), and trains the same
architecture on that half from nothing in as many steps. Writes benchmarks/results/finetuning.md. Some ten minutes of
one core.
"""

import argparse
import json
from pathlib import Path

from aerosurrogate.data.store import Dataset
from aerosurrogate.evaluate import CaseResult, Evaluation, evaluate, summarise
from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.loop import train
from aerosurrogate.writing import write_text

ROOT = Path(__file__).parents[1]
SHOWN = {
    "p_surface": "surface pressure, relative L2",
    "U_volume": "velocity, relative L2",
    "wallShearStress_surface": "wall shear, relative L2",
    "cd_head_error": "drag by the head, mean relative error",
    "rho_D_head": "its Spearman",
    "cd_integrated_error": "drag integrated, mean relative error",
    "rho_D_integrated": "its Spearman",
}


def compared(folder: Path, dataset: Dataset, steps: int) -> dict[str, dict[str, float]]:
    """Figures of the three models, over both halves."""
    cases: dict[str, list[CaseResult]] = {"car as it is": [], "fine-tuned from car": [], "from nothing": []}
    minutes = dict.fromkeys(cases, 0.0)
    for own, other in (("even", "odd"), ("odd", "even")):
        recipe = folder / f"{own}.toml"
        recipe.write_text(f'[data]\npath = "{dataset.folder}"\ntrain = "{own}"\nvalidation = 0.2\n')
        tuned = read_recipe(recipe, [f"training.steps={steps}"], "car")
        shipped = ROOT / "recipes" / "road_rans.toml"
        inputs = [name for name in read_recipe(shipped).data.inputs if name != "source"]  # there is but one
        settings = {"data.path": dataset.folder, "data.train": own, "data.beside": "[]", "data.validation": 0.2}
        settings |= {"data.inputs": json.dumps(inputs), "training.steps": steps}
        scratch = read_recipe(shipped, [f"{key}={value}" for key, value in settings.items()])
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


def page(figures: dict[str, dict[str, float]], cars: int, steps: int) -> str:
    head = "| on the half not trained on | " + " | ".join(figures) + " |"
    lines = [
        "# Fine-tuning: what simulations of one's own are worth",
        "",
        f"{cars} cars of a generator that `car` has not learned from (datasets/foreign_cars,",
        "[foreign_cars.py](../foreign_cars.py)). Twice, with the halves changed over: one half to train on (a fifth of",
        f"it for validation), the other to measure on, {steps} steps for either training. The figures are over all",
        f"{cars}.",
        "",
        head,
        "|---" * (len(figures) + 1) + "|",
    ]
    for key, words in SHOWN.items():
        lines.append(f"| {words} | " + " | ".join(f"{values[key]:.3f}" for values in figures.values()) + " |")
    minutes = " | ".join(f"{values['minutes']:.1f}" for values in figures.values())
    lines.append(f"| minutes of training (a busy core) | {minutes} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="RUN_DIR")
    parser.add_argument("--steps", type=int, default=1000)
    given = parser.parse_args()
    dataset = Dataset(ROOT / "datasets" / "foreign_cars")
    given.folder.mkdir(parents=True, exist_ok=True)
    figures = compared(given.folder.resolve(), dataset, given.steps)
    write_text(ROOT / "benchmarks" / "results" / "finetuning.md", page(figures, len(dataset.names()), given.steps))
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
