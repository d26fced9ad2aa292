"""How the airfoil recipe fares beyond what it was trained on: Reynolds numbers and angles outside the training range.

    python benchmarks/extrapolation.py [--steps 8000] [--splits reynolds aoa]

Trains recipes/naca_rans.toml on each split's training part and measures it on the rest; what was measured before of a
split that is left out stays. Writes benchmarks/results/extrapolation.json and .md.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from aerosurrogate import console
from aerosurrogate.data.store import Dataset
from aerosurrogate.evaluate import evaluate
from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.loop import train

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
SPLITS = {
    "reynolds": "Reynolds numbers of 3 to 5 million known, 2 to 3 and 5 to 6 million asked",
    "aoa": "Angles of -2.5 to 12.5 degrees known, -5 to -2.5 and 12.5 to 15 asked",
}
ROWS = ("rho_L_head", "rho_L_integrated", "rho_D_head", "rho_D_integrated", "cl_head_error", "cl_integrated_error",
        "cd_head_error", "cd_integrated_error", "p_surface", "U_volume")  # fmt: skip


def measure(split: str, steps: int, folder: Path) -> dict[str, Any]:
    changes = [f"data.train={split}_train", f"data.test={split}_test", f"training.steps={steps}"]
    recipe = read_recipe(ROOT / "recipes" / "naca_rans.toml", changes)
    reached = train(recipe, folder / split, device="cpu")
    dataset = Dataset(recipe.data.path)
    test = dataset.names(recipe.data.test)
    result = evaluate(Surrogate.load(folder / split, "cpu"), dataset, test)
    cases = {"train": len(dataset.names(recipe.data.train)), "test": len(test)}
    return {
        "steps": steps,
        "minutes": reached["seconds"] / 60,
        "cases": cases,
        "routes": reached["routes"],
        "figures": result.figures,
        "intervals": result.intervals,
    }


def page(results: dict[str, Any]) -> str:
    text = "# Airfoils beyond the training range\n"
    for split, result in results.items():
        cases, routes = result["cases"], result["routes"]
        text += f"""
## {split}

{SPLITS[split]}: {cases["train"]} training cases (a tenth of them for validation), {cases["test"]} test cases,
{result["steps"]} steps, one seed, {result["minutes"]:.0f} minutes by the clock on one thread. Validation chose
{routes["cd"]} for C_D and {routes["cl"]} for C_L.

| | value | 95 % interval |
|---|---|---|
"""
        for key in ROWS:
            between = result["intervals"].get(key)
            text += f"| {key} | {result['figures'][key]:.4f} | "
            text += (f"{between[0]:.4f} to {between[1]:.4f}" if between else "") + " |\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=list(SPLITS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = RESULTS / "extrapolation.json"
    with tempfile.TemporaryDirectory() as folder:
        for split in options.splits:
            result = measure(split, options.steps, Path(folder))
            results = json.loads(record.read_text()) if record.exists() else {}
            results[split] = result
            record.write_text(json.dumps(results, indent=1))
            (RESULTS / "extrapolation.md").write_text(page(results))
            console.note(f"{split}: {json.dumps({key: round(result['figures'][key], 4) for key in ROWS})}")
    print((RESULTS / "extrapolation.md").read_text())


if __name__ == "__main__":
    main()
