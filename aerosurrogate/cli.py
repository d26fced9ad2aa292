"""The command line: parse, call the same-named function, print. Nothing heavy is imported before a command runs."""

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from aerosurrogate import __version__, console
from aerosurrogate.errors import InputError

app = typer.Typer(
    name="aerosurrogate",
    help="Which of these shapes is worth a CFD run? Fields, forces and a ranking in seconds.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_debug = False


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


class Units(StrEnum):
    m = "m"
    cm = "cm"
    mm = "mm"
    inch = "in"
    ft = "ft"


class Pressure(StrEnum):
    static = "static"
    kinematic = "kinematic"


class Kind(StrEnum):
    field = "field"
    error = "error"
    difference = "difference"
    slices = "slices"
    history = "history"


class Fidelity(StrEnum):
    fast = "fast"
    standard = "standard"
    fine = "fine"


def _set_debug(value: bool) -> bool:
    global _debug
    _debug = value or _debug
    return value


def _set_quiet(value: bool) -> bool:
    console.be_quiet(value)
    return value


# Options that several commands share.
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but results and errors.", callback=_set_quiet)]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_set_debug)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
Device = Annotated[str, typer.Option(help="auto, cuda, cuda:N, mps or cpu; auto takes CUDA where there is a GPU.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes to use; all cores unless said.")]
UnitsOption = Annotated[Units | None, typer.Option(help="Units of the files' coordinates; metres unless said.")]
Model = Annotated[
    str | None, typer.Option(help="Shipped model, run folder or checkpoint; chosen by shape unless said.")
]
Speed = Annotated[float | None, typer.Option(help="Free-stream speed, m/s.")]
Alpha = Annotated[float | None, typer.Option(help="Angle of attack, degrees (2D).")]
Reynolds = Annotated[float | None, typer.Option(help="Reynolds number on the body's length or chord.")]
SpeedSweep = Annotated[str | None, typer.Option("--speed", help="Free-stream speed, m/s; several: 20:40:5 or 20,30.")]
AlphaSweep = Annotated[str | None, typer.Option("--alpha", help="Angle of attack, degrees (2D); several: -4:14:1.")]
ReynoldsSweep = Annotated[
    str | None, typer.Option("--reynolds", help="Reynolds number on the body's length or chord; several: 2e6,4e6.")
]
Density = Annotated[float | None, typer.Option(help="Density, kg/m3. [1.225]")]
Viscosity = Annotated[float | None, typer.Option(help="Kinematic viscosity, m2/s. [1.5e-5]")]
Flow = Annotated[str, typer.Option(help="Axis along which the air flows in the file.")]
Up = Annotated[str, typer.Option(help="Axis that points up in the file.")]
Symmetry = Annotated[str | None, typer.Option(help="y: the file holds half a body on the plane y = 0; double it.")]
Ground = Annotated[str, typer.Option(help="auto, none, or the height of the ground in the file's units.")]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and end.")] = False,
) -> None:
    console.on_command_line()
    if version:
        typer.echo(f"aerosurrogate {__version__}")
        raise typer.Exit


@app.command()
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


@app.command()
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


@app.command()
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


@app.command()
def experiment(
    name: Annotated[Experiment, typer.Argument(help="Which of the paper's experiments to run.")],
    out: Annotated[Path, typer.Option(help="Folder for data, runs, table and picture.")] = Path("experiments"),
    scale: Annotated[
        Scale, typer.Option(help="The paper's sizes, or small ones that end within the hour.")
    ] = Scale.small,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each cell.")] = 1,
    steps: Annotated[int | None, typer.Option(min=20, help="Of each training; those of the scale unless said.")] = None,
    rows: Annotated[str | None, typer.Option(help="Only these rows of the table, by commas.")] = None,
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


@app.command()
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

    Example: `aerosurrogate evaluate airfoil datasets/naca_rans --split full_test`
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


@app.command()
def predict(
    geometries: Annotated[
        list[str], typer.Argument(metavar="GEOMETRY...|DATASET", help="Surface files, airfoil names, or a data set.")
    ],
    out: Annotated[Path, typer.Option(help="File to write, or folder when there are several shapes.")],
    split: Annotated[str | None, typer.Option(help="Split of a data set; test unless said.")] = None,
    points: Annotated[Path | None, typer.Option(help="Predict on this mesh's cells instead.")] = None,
    grid: Annotated[str | None, typer.Option(help="Predict on a regular grid, NXxNYxNZ.")] = None,
    surface_only: Annotated[bool, typer.Option("--surface-only", help="Leave the surroundings out.")] = False,
    chunk: Annotated[int | None, typer.Option(min=1, help="Points at a time; from free memory unless said.")] = None,
    model: Model = None,
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
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the flow around shapes: pressure, velocity, wall shear.

    Example: `aerosurrogate predict sample_meshes/car.stl --out fields.vtu`
    """
    from aerosurrogate.conditions import StreamOptions
    from aerosurrogate.predict import Wanted, is_dataset, predict, predict_cases

    if split is not None or is_dataset(geometries[0]):
        cases = predict_cases(geometries, out, model, split, device)
        cases.show()
        console.note(f"{len(cases.rows)} cases with truth, prediction and error in {out}")
        if as_json:
            print_json(cases.document())
        return
    stream = StreamOptions(speed, alpha, reynolds, density, viscosity, flow, up, ground, units, symmetry)
    wanted = Wanted.parse(surface_only, grid, chunk)
    result = predict(geometries, out, stream, wanted, points=points, model=model, device=device)
    result.show()
    if as_json:
        print_json(result.document())
    _refuse_failed(result.failed)


@app.command()
def coeffs(
    files: Annotated[list[str], typer.Argument(metavar="FIELDS_OR_GEOMETRY...", help="Fields, shapes, airfoil names.")],
    reference: Annotated[
        Path | None, typer.Option(help="True values: name,cd[,cl], or a folder of `simulate`.")
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="Compare every design with this one.")] = None,
    known: Annotated[
        list[Path] | None, typer.Option(help="Solved values: name,cd[,cl]; a folder of `simulate`; a solved file.")
    ] = None,
    suggest: Annotated[int, typer.Option(min=0, help="Name so many designs to solve next.")] = 0,
    area: Annotated[str, typer.Option(help="Reference area: silhouette, rectangle, or m2.")] = "silhouette",
    patch: Annotated[str | None, typer.Option(help="The body's patch in a volume file.")] = None,
    pressure: Annotated[
        Pressure | None, typer.Option(help="What p in the files is; by provenance unless said.")
    ] = None,
    sort: Annotated[str, typer.Option(help="Column to rank by; a minus puts the largest first.")] = "cd",
    report: Annotated[Path | None, typer.Option(help="Write a page (.html); of a sweep also a picture (.png).")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the table as CSV.")] = None,
    xlsx: Annotated[Path | None, typer.Option(help="Write the table as a workbook.")] = None,
    notes: Annotated[bool, typer.Option("--notes", help="Show all notes.")] = False,
    at_lift: Annotated[
        float | None, typer.Option(help="Airfoils: at the angle of attack that gives this lift coefficient.")
    ] = None,
    model: Model = None,
    speed: SpeedSweep = None,
    alpha: AlphaSweep = None,
    reynolds: ReynoldsSweep = None,
    density: Density = None,
    viscosity: Viscosity = None,
    flow: Flow = "+x",
    up: Up = "+z",
    ground: Ground = "auto",
    units: UnitsOption = None,
    symmetry: Symmetry = None,
    jobs: Jobs = None,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Forces and coefficients, one row a design, best first.

    Example: `aerosurrogate coeffs sample_meshes/*.stl --reference sample_meshes/truth.csv --report ranking.html`
    """
    from aerosurrogate.coeffs import CoeffsOptions, Ranking, coeffs
    from aerosurrogate.conditions import StreamOptions
    from aerosurrogate.polars import Polars, polars
    from aerosurrogate.sweeps import states
    from aerosurrogate.writing import write_text

    still = StreamOptions(None, None, None, density, viscosity, flow, up, ground, units, symmetry)
    streams = states(still, speed, alpha, reynolds)
    settings = CoeffsOptions(streams[0], area, patch, pressure, model, device, at_lift)
    result: Ranking | Polars
    if len(streams) == 1:
        result = coeffs(
            files,
            settings,
            truth=reference,
            sort=sort,
            baseline=baseline,
            known=known or (),
            suggest=suggest,
            jobs=jobs,
        )
    elif reference or baseline or known or suggest or xlsx or at_lift is not None:
        remedy = "leave --reference, --baseline, --known, --suggest, --at-lift and --xlsx out"
        raise InputError("a ranking is of one state", seen=f"{len(streams)} states", remedy=remedy)
    else:
        result = polars(files, streams, settings, jobs)
    result.show(table=not as_json, notes=notes)
    if csv is not None:
        write_text(csv, result.csv_text())
    if xlsx is not None and isinstance(result, Ranking):
        from aerosurrogate.workbook import write_workbook

        write_workbook(result, xlsx)
    if report is not None:
        if isinstance(result, Polars):
            result.write(report)
        else:
            from aerosurrogate.report import write_report

            write_report(result, report)
    if as_json:
        print_json(result.document())
    _refuse_failed(result.failed)


@app.command()
def study(
    files: Annotated[list[str], typer.Argument(metavar="GEOMETRY...", help="Shapes, or folders of them.")],
    out: Annotated[Path, typer.Option(help="Folder for the runs, the ranking and the report.")],
    budget: Annotated[int, typer.Option(min=1, help="Most designs to solve.")] = 6,
    solver: Annotated[
        str | None, typer.Option(help='"command {geometry} {out}" that leaves {out}/coeffs.csv; OpenFOAM unless said.')
    ] = None,
    model: Model = None,
    speed: Speed = None,
    alpha: Alpha = None,
    reynolds: Reynolds = None,
    density: Density = None,
    viscosity: Viscosity = None,
    flow: Flow = "+x",
    up: Up = "+z",
    ground: Ground = "auto",
    units: UnitsOption = None,
    jobs: Jobs = None,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Find the best design: rank, solve what helps the decision most, learn, rank again.

    Example: `aerosurrogate study sample_meshes/*.stl --out study --budget 6 --speed 30`
    """
    from aerosurrogate.coeffs import CoeffsOptions
    from aerosurrogate.conditions import StreamOptions
    from aerosurrogate.study import study

    stream = StreamOptions(speed, alpha, reynolds, density, viscosity, flow, up, ground, units)
    settings = CoeffsOptions(stream, model=model, device=device)
    result = study(files, out, settings, budget=budget, solver=solver, jobs=jobs)
    result.show(table=not as_json)
    if as_json:
        print_json(result.document())
    _refuse_failed({**result.ranking.failed, **result.failed})


@app.command()
def viz(
    files: Annotated[list[Path], typer.Argument(metavar="FILE_OR_RUN...", help="Fields, or run folders.")],
    out: Annotated[Path, typer.Option(help="Picture (.png), page (.html), or film of several times (.gif, .mp4).")],
    field: Annotated[str | None, typer.Option(help="Field to show; the pressure coefficient unless said.")] = None,
    kind: Annotated[Kind | None, typer.Option(help="What to draw; chosen from the file unless said.")] = None,
    reference: Annotated[Path | None, typer.Option(help="Truth to compare with, for --kind error.")] = None,
    layer: Annotated[int | None, typer.Option(min=1, help="Layer of the slices; the last unless said.")] = None,
    case: Annotated[
        str | None, typer.Option(help="Case of a run's data; the first of its test split unless said.")
    ] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw fields, errors, learned slices or a training history.

    Example: `aerosurrogate viz fields.vtu --out car.png --field Cp`
    """
    from aerosurrogate.viz import viz

    viz(files, out, field=field, kind=kind, reference=reference, layer=layer, case=case)


@app.command()
def serve(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the loopback address; any free one unless said.")
    ] = 0,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
    model: Model = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Open a local page where shapes are dropped, ranked, viewed in 3D and compared; nothing leaves the machine.

    Example: `aerosurrogate serve`
    """
    from aerosurrogate.coeffs import CoeffsOptions
    from aerosurrogate.serve import serve

    serve(CoeffsOptions(model=model, device=device), port, open_page=open_page)


@app.command()
def sensitivity(
    geometry: Annotated[str, typer.Argument(metavar="GEOMETRY", help="A closed surface file, or an airfoil.")],
    out: Annotated[Path, typer.Option(help="File for the map, .vtu.")],
    of: Annotated[str, typer.Option(help="Coefficient: cd, cl or cl/cd.")] = "cd",
    model: Model = None,
    speed: Speed = None,
    alpha: Alpha = None,
    reynolds: Reynolds = None,
    density: Density = None,
    viscosity: Viscosity = None,
    flow: Flow = "+x",
    up: Up = "+z",
    ground: Ground = "auto",
    symmetry: Symmetry = None,
    units: UnitsOption = None,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Where to push: what a coefficient gains for each metre that the skin moves outward.

    Example: `aerosurrogate sensitivity sample_meshes/car.stl --of cd --out map.vtu`
    """
    from aerosurrogate.conditions import StreamOptions
    from aerosurrogate.sensitivity import sensitivity

    stream = StreamOptions(speed, alpha, reynolds, density, viscosity, flow, up, ground, units, symmetry)
    result = sensitivity(geometry, stream, of, model=model, device=device)
    result.save(out)
    result.show(out)
    if as_json:
        print_json(result.document())


@app.command()
def check(
    meshes: Annotated[list[Path], typer.Argument(metavar="MESH...", help="Meshes to look at.")],
    repair: Annotated[
        Path | None, typer.Option(help="Write the repaired mesh to this file (folder, for several).")
    ] = None,
    units: UnitsOption = None,
    patch: Annotated[str | None, typer.Option(help="The body's patch in an OpenFOAM case.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Say what a mesh is like and what would be done about it.

    Example: `aerosurrogate check sample_meshes/car.stl`
    """
    from aerosurrogate.mesh.check import check

    reports = check(meshes, repair, units, patch)
    if as_json:
        print_json({"meshes": [report.document() for report in reports]})
    else:
        for report in reports:
            console.table(report.file, ("", "seen"), report.rows(), results=True)
    if failed := [report.file for report in reports if report.error]:
        raise InputError(f"{len(failed)} of {len(reports)} meshes cannot be read", seen=console.few(failed))


@app.command()
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


@app.command()
def recipes(
    name: Annotated[str | None, typer.Argument(help="Show this recipe or spec only.")] = None,
    copy: Annotated[bool, typer.Option("--copy", help="Copy it into the present folder, to be changed.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """List the recipes and specs that come with the project, or copy one.

    Example: `aerosurrogate recipes car_rans --copy`
    """
    from aerosurrogate.shipped import recipes

    result = recipes(name, copy=copy)
    if as_json:
        print_json(result.document())
    else:
        result.show()


@app.command()
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


def _refuse_failed(failed: dict[str, str]) -> None:
    """Exit 2 once the designs that could be used are done."""
    if failed:
        raise InputError(f"{len(failed)} design(s) left out", seen=console.few(failed), remedy="see the warnings above")


def print_json(document: Any) -> None:
    """The one JSON document of a command, on stdout."""
    typer.echo(json.dumps(document, indent=1, allow_nan=False))


def main() -> None:
    """Entry point: exit 0 done, 1 a bug, 2 the user's input, 130 interrupted."""
    try:
        app()
    except InputError as error:
        if _debug:
            raise
        console.error(str(error))
        sys.exit(2)
    except SystemExit as end:  # Typer's for an interrupt has this code
        if end.code != 130:
            raise
        # At once: a thread that is making a batch would abort the interpreter's own way out.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(130)
