"""The app, the options that several commands share, and how results are printed."""

import json
from enum import StrEnum
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


class Units(StrEnum):
    m = "m"
    cm = "cm"
    mm = "mm"
    inch = "in"
    ft = "ft"


def _set_debug(value: bool) -> bool:
    global _debug
    _debug = value or _debug
    return value


def _set_quiet(value: bool) -> bool:
    console.be_quiet(value)
    return value


def debugging() -> bool:
    """Whether --debug was given: errors then show their traceback."""
    return _debug


def _number(name: str, help_text: str) -> Any:
    """An option of one number, where `coeffs` takes sweeps."""

    def parse(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            remedy = "give one number; sweeps and lists are for `aerosurrogate coeffs`"
            raise InputError("not a number", seen=f"{name} {text}", remedy=remedy) from None

    return typer.Option(help=help_text, parser=parse, metavar="<float>")


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
Speed = Annotated[float | None, _number("--speed", "Free-stream speed, m/s.")]
Alpha = Annotated[float | None, _number("--alpha", "Angle of attack, degrees (2D).")]
Reynolds = Annotated[float | None, _number("--reynolds", "Reynolds number on the body's length or chord.")]
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


def refuse_failed(failed: dict[str, str]) -> None:
    """Exit 2 once the designs that could be used are done."""
    if failed:
        raise InputError(f"{len(failed)} design(s) left out", seen=console.few(failed), remedy="see the warnings above")


def print_json(document: Any) -> None:
    """The one JSON document of a command, on stdout."""
    typer.echo(json.dumps(document, indent=1, allow_nan=False))
