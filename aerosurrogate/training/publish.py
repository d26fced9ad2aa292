"""Make a run into a model that comes with the package: measured on its test split, with a card.

    python -m aerosurrogate.training.publish runs/sections_rans airfoil

writes airfoil.safetensors, airfoil.json (the card for programs) and airfoil.md (the card for people) into the models'
folder, from where `--model airfoil` finds it.

    python -m aerosurrogate.training.publish airfoil

fits trust and intervals of the published model anew and measures it again; its weights stay. The cases that it learned
from and those that chose it are remembered in its file; what was added to the data since is neither. Do the intervals
hold and the chances come true?

    python benchmarks/calibration.py airfoil
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from aerosurrogate.data.store import Dataset
from aerosurrogate.errors import InputError
from aerosurrogate.evaluate import Evaluation, best_routes, calibrate, evaluate
from aerosurrogate.models import models
from aerosurrogate.recipe import Recipe, read_recipe
from aerosurrogate.surrogate import Header, Surrogate, models_folder
from aerosurrogate.trust import familiarity
from aerosurrogate.writing import write_json, write_text


def publish(run: Path, name: str) -> Path:
    """Write the files of a model and return the path of its weights."""
    recipe, surrogate = read_recipe(run / "recipe.toml"), Surrogate.load(run)
    surrogate.card |= {"name": name, "recipe": f"recipes/{recipe.name}.toml"}
    if "routes" not in surrogate.card:
        raise InputError("the run has not ended yet", seen=run, remedy="let it end, or go on with --resume")
    if surrogate.card["trained"]["start"]:
        surrogate.card["trained"]["start"] = "an earlier run of the same recipe on other cases"
    _calibrate(surrogate, recipe)
    return _write(surrogate)


def recalibrate(name: str) -> Path:
    """Fit trust and intervals of a published model anew; returns the path of its weights, which stay as they are."""
    surrogate = Surrogate.load(name)
    _calibrate(surrogate, read_recipe(Path(surrogate.card["recipe"])))
    return _write(surrogate)


@dataclass(frozen=True)
class Measured:
    """A model on all cases that it has to do with; on those of sets beside the first, asked as on the first."""

    training: Evaluation
    beside: Evaluation
    validation: Evaluation
    test: Evaluation
    foreign: Evaluation  # shapes of other makers

    @property
    def held_out(self) -> Evaluation:
        return self.validation.with_cases(self.test)


def measure(surrogate: Surrogate, recipe: Recipe, *, with_beside: bool = True) -> Measured:
    """Evaluate a model on the cases of its recipe; those of sets beside the first are many and can be left out."""
    data, first = recipe.data, Dataset(recipe.data.path)
    names, learned = first.names(), surrogate.learned
    if learned is None:
        remedy = "train it again: models of earlier versions do not remember their cases"
        raise InputError("which cases it learned from is not known", seen=surrogate.card.get("name"), remedy=remedy)
    train, validation = (
        [name for name, check in zip(names, first.checks(names), strict=True) if check in part]
        for part in (learned["train"], learned["validation"])
    )
    beside, foreign = Evaluation([]), Evaluation([])
    for path in data.beside if with_beside else ():
        other = Dataset(path)
        beside = beside.with_cases(evaluate(surrogate, other, other.names(data.train), f"training, {path.name}"))
    for path in data.foreign:
        other = Dataset(path)
        foreign = foreign.with_cases(evaluate(surrogate, other, other.names(), f"foreign, {path.name}"))
    return Measured(
        evaluate(surrogate, first, train, "training"),
        beside,
        evaluate(surrogate, first, validation, "validation"),
        evaluate(surrogate, first, first.names(data.test), "test"),
        foreign,
    )


def _calibrate(surrogate: Surrogate, recipe: Recipe) -> None:
    """Trust from training and validation cases, intervals from all that were held out: few are too few to know how
    large errors are. Where validation cases are a handful, the test cases speak for trust and routes too. Shapes of
    other makers have a say in the routes, and the intervals hold for them as well. The card tells what the test cases
    say."""
    surrogate.calibration = None
    measured = measure(surrogate, recipe)
    familiar = measured.training.with_cases(measured.beside)
    usual = measured.validation
    if len(usual.cases) < familiarity.ENOUGH:
        usual = measured.held_out
    surrogate.card["routes"] = best_routes(usual.with_cases(measured.foreign))
    surrogate.trust = familiarity.fit(list(familiar.evidence.values()), list(usual.evidence.values()))
    calibrate(surrogate, measured.held_out, measured.training, measured.foreign)
    measured.test.show()
    surrogate.card["data"]["test"] = len(measured.test.cases)
    surrogate.card |= {"test": measured.test.figures, "test_intervals": measured.test.intervals}


def _write(surrogate: Surrogate) -> Path:
    name = surrogate.card["name"]
    path = models_folder() / f"{name}.safetensors"
    surrogate.save(path)
    write_json(path.with_suffix(".json"), models(name).document()["models"][0])
    write_text(path.with_suffix(".md"), page(name, surrogate.document()))
    return path


def page(name: str, header: Header) -> str:
    """The card as a page for people."""
    card, data, trained = header["card"], header["card"]["data"], header["card"]["trained"]
    ranges = [f"| {key} | {low:.4g} | {high:.4g} |" for key, (low, high) in header["ranges"].items()]
    figures = []
    for key, value in card["test"].items():
        between = card["test_intervals"].get(key)
        figures.append(f"| {key} | {value:.4g} | {f'{between[0]:.4f} to {between[1]:.4f}' if between else ''} |")
    steps = f"{trained['steps']} steps"
    if trained["steps"] < trained["of"]:
        steps += f" of {trained['of']}, the best by validation"
    outputs = ", ".join(f"{o['name']} ({o['unit']})" for o in header["outputs"])
    return "\n".join(
        [
            f"# {name}",
            "",
            card.get("about", ""),
            "",
            f"Answers {outputs}, and {' and '.join(header['coefficients'])} by a head of their own. The route taken, "
            f"by cases not trained on, is {card['routes'].get('cd')} for C_D and {card['routes'].get('cl')} for C_L.",
            "",
            f"Trained with `aerosurrogate train {card['recipe']}` (seed {trained['seed']}, {steps}, "
            f"{trained['seconds'] / 60:.0f} minutes) on {data['train']} cases of {data['set']}"
            + "".join(f", {count} of {other} beside them" for other, count in data.get("beside", {}).items())
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
            *_intervals(card.get("intervals", {})),
            "## Limits",
            "",
            card.get("limits", ""),
            "",
        ]
    )


def _intervals(figures: dict[str, float]) -> list[str]:
    """How often the intervals hold; nothing where too few cases were held out to tell."""
    if not figures:
        return []
    return [
        "## 90 % intervals",
        "",
        f"Fitted on the {figures['cases']} held-out cases (validation and test)"
        + (f" and {foreign} of other makers" if (foreign := figures.get("foreign_cases")) else "")
        + ". How many of them lie within intervals that the others give (ten folds):",
        "",
        "| | covered |",
        "|---|---|",
        *(
            f"| {k.replace('_coverage', '').replace('_', ' ')} | {v:.1%} |"
            for k, v in figures.items()
            if "coverage" in k
        ),
        "",
    ]


if __name__ == "__main__":
    publish(Path(sys.argv[1]), sys.argv[2]) if len(sys.argv) > 2 else recalibrate(sys.argv[1])
