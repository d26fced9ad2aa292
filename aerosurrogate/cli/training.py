"""Commands for models: train, experiment, measure, list."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from aerosurrogate import console
from aerosurrogate.cli.app import Debug, Device, Json, Quiet, app, print_json
from aerosurrogate.errors import InputError


class Experiment(StrEnum):
    main = "main"
    slices = "slices"
    layers = "layers"
    data = "data"
    resolution = "resolution"
    ood = "ood"
    broken = "broken"
    lagrangian = "lagrangian"
    efficiency = "efficiency"


class Scale(StrEnum):
    small = "small"
    paper = "paper"


@app.command(rich_help_panel="Models")
def train(
    recipe: Annotated[str, typer.Argument(help="Recipe, a TOML file, or the name of one that comes with the project.")],
    overrides: Annotated[list[str] | None, typer.Option("--set", help="Override a key: training.epochs=3.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; runs/NAME unless said.")] = None,
    start: Annotated[
        str | None, typer.Option(help="Go on from this model: a shipped one, a run folder or a checkpoint.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a run stopped.")] = False,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train a surrogate by recipe.

    Example: `aerosurrogate train recipes/naca_rans.toml --set training.epochs=3`
    """
    from aerosurrogate.recipe import read_recipe
    from aerosurrogate.shipped import find_recipe

    settings = read_recipe(find_recipe(recipe), overrides or (), start)
    from aerosurrogate.training.loop import train

    reached = train(settings, out, resume=resume, device=device)
    if as_json and reached:
        print_json(reached)


@app.command(rich_help_panel="Models")
def experiment(
    name: Annotated[Experiment, typer.Argument(help="Which of the paper's experiments to run.")],
    out: Annotated[Path, typer.Option(help="Folder for data, runs, table and picture.")] = Path("experiments"),
    scale: Annotated[
        Scale, typer.Option(help="The paper's sizes, or small ones that end within the hour.")
    ] = Scale.small,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each cell.")] = 1,
    steps: Annotated[int | None, typer.Option(min=20, help="Of each training; those of the scale unless said.")] = None,
    rows: Annotated[
        str | None,
        typer.Option(help="Run only these rows of the table, by commas; others that were run before stay in it."),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run one of the paper's experiments again: a grid of trainings, one table, one picture.

    Example: `aerosurrogate experiment slices --scale small`
    """
    from aerosurrogate.experiment import experiment

    outcome = experiment(name, out, scale=scale.value, seeds=seeds, steps=steps, rows=rows, device=device)
    if as_json:
        print_json(outcome.document())
    else:
        typer.echo(outcome.page.read_text(encoding="utf-8"))


@app.command(rich_help_panel="Models")
def evaluate(
    model: Annotated[str, typer.Argument(help="Run folder, checkpoint file or shipped model.")],
    dataset: Annotated[Path, typer.Argument(help="Prepared data set.")],
    split: Annotated[str, typer.Option(help="Split of the data set.")] = "test",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the tables (CSV, JSON); the run's own unless said.")
    ] = None,
    fields: Annotated[
        bool, typer.Option("--fields", help="Write each case too, with truth, prediction and error.")
    ] = False,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure a model on held-out cases with the paper's metrics.

    Example: `aerosurrogate evaluate airfoil datasets/sections_rans --split full_test`
    """
    from aerosurrogate.data.store import Dataset

    cases = Dataset(dataset)
    from aerosurrogate.evaluate import evaluate
    from aerosurrogate.surrogate import Surrogate

    folder = out or (Path(model) if Path(model).is_dir() else None)
    if fields and folder is None:
        raise InputError("where should the fields go?", seen=model, remedy="give --out DIR")
    keep = (lambda answered: answered.by(model).save(folder / f"cases_{split}")) if fields and folder else None
    result = evaluate(Surrogate.load(model, device), cases, cases.names(split), keep=keep)
    if folder is not None:
        result.write(folder, f"evaluation_{split}")
        console.note(f"tables written to {folder}")
    result.show(results=not as_json)
    if as_json:
        print_json(result.document())


@app.command(rich_help_panel="Models")
def models(
    name: Annotated[str | None, typer.Argument(help="Show this model's card.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """List the models that come with the package, with data, range and accuracy.

    Example: `aerosurrogate models car`
    """
    from aerosurrogate.models import models

    result = models(name)
    if as_json:
        print_json(result.document())
    else:
        result.show()
