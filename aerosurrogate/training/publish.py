"""Make a run into a model that comes with the package: measured on its test split, with a card.

    python -m aerosurrogate.training.publish runs/naca_rans airfoil

writes airfoil.safetensors, airfoil.json (the card for programs) and airfoil.md (the card for people) into the models'
folder, from where `--model airfoil` finds it.
"""

import sys
from pathlib import Path
from typing import Any

from aerosurrogate.data.store import Dataset
from aerosurrogate.errors import InputError
from aerosurrogate.evaluate import evaluate
from aerosurrogate.models import models
from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate, models_folder
from aerosurrogate.writing import write_json, write_text


def publish(run: Path, name: str) -> Path:
    """Write the files of a model and return the path of its weights."""
    recipe, surrogate = read_recipe(run / "recipe.toml"), Surrogate.load(run)
    if "routes" not in surrogate.card:
        raise InputError("the run has not ended yet", seen=run, remedy="let it end, or go on with --resume")
    dataset = Dataset(recipe.data.path)
    cases = dataset.names(recipe.data.test)
    result = evaluate(surrogate, dataset, cases, "test")
    result.show()
    surrogate.card |= {"name": name, "recipe": f"recipes/{recipe.name}.toml"}
    surrogate.card["data"] |= {"test": len(cases)}
    if surrogate.card["trained"]["start"]:
        surrogate.card["trained"]["start"] = "an earlier run of the same recipe on fewer cases"
    surrogate.card |= {"test": result.figures, "test_intervals": result.intervals}
    path = models_folder() / f"{name}.safetensors"
    surrogate.save(path)
    document = models(name).document()["models"][0]
    write_json(path.with_suffix(".json"), document)
    write_text(path.with_suffix(".md"), page(document))
    return path


def page(document: dict[str, Any]) -> str:
    """The card as a page for people."""
    card, data, trained = document["card"], document["card"]["data"], document["card"]["trained"]
    ranges = [f"| {key} | {low:.4g} | {high:.4g} |" for key, (low, high) in document["ranges"].items()]
    figures = []
    for key, value in card["test"].items():
        between = card["test_intervals"].get(key)
        figures.append(f"| {key} | {value:.4g} | {f'{between[0]:.4f} to {between[1]:.4f}' if between else ''} |")
    steps = f"{trained['steps']} steps"
    if trained["steps"] < trained["of"]:
        steps += f" of {trained['of']}, the best by validation"
    outputs = ", ".join(f"{o['name']} ({o['unit']})" for o in document["outputs"])
    return "\n".join(
        [
            f"# {document['name']}",
            "",
            card.get("about", ""),
            "",
            f"Answers {outputs}, and {' and '.join(document['coefficients'])} by a head of their own. The route taken, "
            f"by validation cases, is {card['routes'].get('cd')} for C_D and {card['routes'].get('cl')} for C_L.",
            "",
            f"Trained with `aerosurrogate train {card['recipe']}` (seed {trained['seed']}, {steps}, "
            f"{trained['seconds'] / 60:.0f} minutes) on {data['train']} cases of {data['set']}"
            + (f", going on from {trained['start']}" if trained["start"] else "")
            + f"; {data['validation']} more chose the routes and calibrated trust, {data['test']} were held out for "
            "the table below.",
            "",
            "## Trained on",
            "",
            "| | from | to |",
            "|---|---|---|",
            *ranges,
            "",
            "## Held-out accuracy",
            "",
            "| metric | value | 95 % interval |",
            "|---|---|---|",
            *figures,
            "",
            "## Limits",
            "",
            card.get("limits", ""),
            "",
        ]
    )


if __name__ == "__main__":
    publish(Path(sys.argv[1]), sys.argv[2])
