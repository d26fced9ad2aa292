"""Commands for designs: rank, predict, decide, look, check."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from aerosurrogate import console
from aerosurrogate.cli.app import (
    Alpha,
    AlphaSweep,
    Debug,
    Density,
    Device,
    Flow,
    Ground,
    Jobs,
    Json,
    Model,
    Quiet,
    Reynolds,
    ReynoldsSweep,
    Speed,
    SpeedSweep,
    Symmetry,
    UnitsOption,
    Up,
    Viscosity,
    app,
    print_json,
    refuse_failed,
)
from aerosurrogate.errors import InputError


class Pressure(StrEnum):
    static = "static"
    kinematic = "kinematic"


class Kind(StrEnum):
    field = "field"
    error = "error"
    difference = "difference"
    slices = "slices"
    history = "history"


@app.command(rich_help_panel="Designs")
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
    from aerosurrogate.report.polars import Polars, polars
    from aerosurrogate.sweeps import states
    from aerosurrogate.writing import write_text

    still = StreamOptions(None, None, None, density, viscosity, flow, up, ground, units, symmetry)
    streams = states(still, speed, alpha, reynolds)
    pages = (".html",) if len(streams) == 1 else (".html", ".png")
    if report is not None and report.suffix.lower() not in pages:
        remedy = f"--report {report.with_suffix(pages[0])}"
        raise InputError(f"a report is written as {' or '.join(pages)}", seen=f"--report {report}", remedy=remedy)
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
            processes=True,
        )
    elif reference or baseline or known or suggest or xlsx or at_lift is not None:
        remedy = "leave --reference, --baseline, --known, --suggest, --at-lift and --xlsx out"
        raise InputError("a ranking is of one state", seen=f"{len(streams)} states", remedy=remedy)
    else:
        result = polars(files, streams, settings, jobs, sort)
    result.show(table=not as_json, notes=notes)
    if csv is not None:
        write_text(csv, result.csv_text())
    if xlsx is not None and isinstance(result, Ranking):
        from aerosurrogate.report.workbook import write_workbook

        write_workbook(result, xlsx)
    if report is not None:
        if isinstance(result, Polars):
            result.write(report)
        else:
            from aerosurrogate.report.page import write_report

            write_report(result, report)
    if as_json:
        print_json(result.document())
    refuse_failed(result.failed)


@app.command(rich_help_panel="Designs")
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
        console.note(f"{len(cases.cases)} cases with truth, prediction and error in {out}")
        if as_json:
            print_json(cases.document())
        return
    stream = StreamOptions(speed, alpha, reynolds, density, viscosity, flow, up, ground, units, symmetry)
    wanted = Wanted.parse(surface_only, grid, chunk)
    result = predict(geometries, out, stream, wanted, points=points, model=model, device=device)
    result.show()
    if as_json:
        print_json(result.document())
    refuse_failed(result.failed)


@app.command(rich_help_panel="Designs")
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
    refuse_failed({**result.ranking.failed, **result.failed})


@app.command(rich_help_panel="Designs")
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


@app.command(rich_help_panel="Designs")
def improve(
    geometry: Annotated[str, typer.Argument(metavar="GEOMETRY", help="A closed surface file, or an airfoil.")],
    out: Annotated[Path, typer.Option(help="File for the better shape: .stl, .vtp, .vtu; airfoils .dat.")],
    of: Annotated[str, typer.Option(help="Coefficient: cd or cl to lower; airfoils: cd, or cl/cd to raise.")] = "cd",
    keep: Annotated[
        str | None, typer.Option(help="What stays: of volume,length,wheels,area (airfoils: volume,thickness); none.")
    ] = None,
    box: Annotated[
        str | None, typer.Option(help="The part that may move, x0:x1,y0:y1,z0:z1 in the file's units.")
    ] = None,
    most: Annotated[float, typer.Option(help="How far the skin moves at most, in lengths.")] = 0.03,
    at_lift: Annotated[
        float | None, typer.Option(help="Airfoils: at this lift coefficient; at that of --alpha unless said.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Solve both with OpenFOAM, on one mesh.")] = False,
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
    """Move a shape's skin so that its drag falls, within limits, and say how sure the gain is.

    Example: `aerosurrogate improve sample_meshes/car.stl --speed 30 --out better.stl`
    """
    from aerosurrogate.conditions import StreamOptions
    from aerosurrogate.improve.improve import improve

    stream = StreamOptions(speed, alpha, reynolds, density, viscosity, flow, up, ground, units, symmetry)
    result = improve(
        geometry,
        out,
        stream,
        of=of,
        keep=keep,
        box=box,
        most=most,
        at_lift=at_lift,
        verify=verify,
        model=model,
        device=device,
    )
    result.show()
    if as_json:
        print_json(result.document())


@app.command(rich_help_panel="Designs")
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


@app.command(rich_help_panel="Designs")
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


@app.command(rich_help_panel="Designs")
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
    from aerosurrogate.mesh.files import shape_files

    reports = check(shape_files([str(mesh) for mesh in meshes]), repair, units, patch)
    if as_json:
        print_json({"meshes": [report.document() for report in reports]})
    else:
        for report in reports:
            console.table(report.file, ("", "seen"), report.rows(), results=True)
    if failed := [report.file for report in reports if report.error]:
        raise InputError(f"{len(failed)} of {len(reports)} meshes cannot be read", seen=console.few(failed))
