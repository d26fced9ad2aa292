"""Commands for data: read simulations, solve new ones, and what comes with the project."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from aerosurrogate import console
from aerosurrogate.cli.app import (
    Alpha,
    Debug,
    Density,
    Flow,
    Ground,
    Jobs,
    Json,
    Quiet,
    Reynolds,
    Speed,
    Symmetry,
    UnitsOption,
    Up,
    Viscosity,
    app,
    print_json,
)
from aerosurrogate.errors import InputError


class Format(StrEnum):
    auto = "auto"
    airfrans = "airfrans"
    shapenet_car = "shapenet-car"
    drivaerml = "drivaerml"
    ahmedml = "ahmedml"
    windsorml = "windsorml"
    drivaernet = "drivaernet"
    vtk = "vtk"
    openfoam = "openfoam"
    elasticity = "elasticity"
    plasticity = "plasticity"
    airfoil = "airfoil"
    pipe = "pipe"
    navier_stokes = "navier-stokes"
    darcy = "darcy"


class Generated(StrEnum):
    darcy = "darcy"
    navier_stokes = "navier-stokes"
    elasticity = "elasticity"
    pipe = "pipe"
    airfoil = "airfoil"
    plasticity = "plasticity"
    waterdrop = "waterdrop"


class Fidelity(StrEnum):
    fast = "fast"
    standard = "standard"
    fine = "fine"


@app.command(rich_help_panel="Simulations and data")
def prepare(
    sources: Annotated[list[Path], typer.Argument(help="Folders or files to read.")],
    out: Annotated[Path | None, typer.Option(help="Data set folder to write.")] = None,
    format: Annotated[Format, typer.Option(help="What the sources are.")] = Format.auto,
    units: UnitsOption = None,
    jobs: Jobs = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="Pack a data set into small shards, thinned for training.")
    ] = False,
    crop: Annotated[bool, typer.Option(help="AirfRANS: only the box of the published training.")] = True,
    keep: Annotated[
        int, typer.Option(min=100, help="Most points on a skin, and around it; larger meshes are thinned, forces kept.")
    ] = 200_000,
    every: Annotated[
        int | None, typer.Option(min=1, help="Darcy: every N-th point along each axis; 5 of 421 unless said.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what is seen and guessed, as a dataset.toml, and write nothing.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Read simulations once into a data set that trains fast.

    Example: `aerosurrogate prepare AirfRANS/Dataset --format airfrans --out datasets/airfrans`
    """
    from aerosurrogate.data.prepare import prepare, show
    from aerosurrogate.data.readers import Options

    options = Options(units=units, crop=crop, keep=keep, every=every)
    if explain:
        from aerosurrogate.data.explain import explain as explained

        texts = {str(source): explained(source, options, format) for source in sources}
        if as_json:
            print_json({"sources": [{"source": source, "dataset_toml": text} for source, text in texts.items()]})
        else:
            typer.echo("".join(texts.values()), nl=False)
        return
    if out is None:
        raise InputError("where is the data set to go?", remedy="give --out DATASET, or --explain to look only")
    summary = prepare(sources, out, options, format=format, jobs=jobs, compact=compact)
    show(summary, out, results=not as_json)
    if as_json:
        print_json(summary.document(out))
    if summary.failures:
        raise InputError(
            f"{len(summary.failures)} of {summary.found} cases were left out; the others are in {out}",
            seen=console.few(summary.failures),
            remedy="mend or remove their files and run the same command again: only they are read anew",
        )


@app.command(rich_help_panel="Simulations and data")
def generate(
    kind: Annotated[Generated, typer.Argument(help="Which of the paper's sets to stand in for.")],
    out: Annotated[Path, typer.Option(help="Data set folder to write.")],
    count: Annotated[int, typer.Option(min=1, help="Cases, of which every sixth is for testing.")] = 1200,
    seed: Annotated[int, typer.Option(min=0, help="Case i of a seed is always the same case.")] = 0,
    every: Annotated[
        int | None, typer.Option(min=1, help="Darcy: every N-th point along each axis; 5 of 421 unless said.")
    ] = None,
    jobs: Jobs = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Solve the paper's problems anew: data sets that stand in for the published ones.

    Example: `aerosurrogate generate darcy --count 240 --out datasets/darcy`
    """
    from aerosurrogate.data.prepare import show
    from aerosurrogate.generate import generate

    summary = generate(kind, out, count=count, seed=seed, every=every, jobs=jobs)
    show(summary, out, results=not as_json)
    if as_json:
        print_json(summary.document(out))


@app.command(rich_help_panel="Simulations and data")
def simulate(
    sources: Annotated[list[str], typer.Argument(metavar="SPEC.toml|GEOMETRY...", help="A specification, or shapes.")],
    out: Annotated[Path, typer.Option(help="Folder for the solved cases; a data set that `train` reads.")],
    count: Annotated[int | None, typer.Option(min=1, help="Cases of the specification to solve.")] = None,
    first: Annotated[int, typer.Option(min=0, help="Leave out as many cases of the specification.")] = 0,
    jobs: Jobs = None,
    fidelity: Annotated[Fidelity | None, typer.Option(help="Mesh and cost; standard unless said.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the OpenFOAM cases, and the fields of a specification's too.")
    ] = False,
    speed: Speed = None,
    alpha: Alpha = None,
    reynolds: Reynolds = None,
    density: Density = None,
    viscosity: Viscosity = None,
    flow: Flow = "+x",
    up: Up = "+z",
    ground: Ground = "auto",
    units: UnitsOption = None,
    symmetry: Symmetry = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Solve real RANS with OpenFOAM: training data, or a check of a ranking's winners.

    Example: `aerosurrogate simulate sample_meshes/car.stl --out solved`
    """
    from dataclasses import asdict

    from aerosurrogate.conditions import StreamOptions
    from aerosurrogate.simulate import driver

    stream = StreamOptions(speed, alpha, reynolds, density, viscosity, flow, up, ground, units, symmetry)
    outcomes = driver.simulate(
        sources, out, count=count, first=first, jobs=jobs, fidelity=fidelity, stream=stream, keep=keep
    )
    if as_json:
        print_json({"dataset": str(out), "cases": [asdict(outcome) for outcome in outcomes]})
    else:
        driver.show(outcomes)
    failed = [outcome.name for outcome in outcomes if outcome.state == "failed"]
    if failed and not sources[0].endswith(".toml"):  # of a specification's many cases some always do
        raise InputError(f"{len(failed)} of {len(outcomes)} cases failed", seen=console.few(failed))


@app.command(rich_help_panel="Simulations and data")
def recipes(
    name: Annotated[str | None, typer.Argument(help="Show this recipe or spec only.")] = None,
    copy: Annotated[bool, typer.Option("--copy", help="Copy it into the present folder, to be changed.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """List the recipes and specs that come with the project, or copy one.

    Example: `aerosurrogate recipes road_rans --copy`
    """
    from aerosurrogate.shipped import recipes

    result = recipes(name, copy=copy)
    if as_json:
        print_json(result.document())
    else:
        result.show()
