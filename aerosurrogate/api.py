"""The front door for Python: what the commands do, as functions.

Conditions are keyword arguments with the names of the command line's options: speed (m/s), alpha (degrees), reynolds,
density (kg/m3), viscosity (m2/s), flow ("+x"), up ("+z"), ground ("auto", "none" or a height), units ("m", "mm", ...).
What a user can get wrong raises `InputError`, which says what, the value seen and the remedy. Messages go to the logger
`aerosurrogate`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from aerosurrogate.coeffs import CoeffsOptions, Ranking, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.flow_fields import FlowFields, Row
from aerosurrogate.predict import Predictor, Wanted

if TYPE_CHECKING:
    from aerosurrogate.improve.improve import Improvement
    from aerosurrogate.sensitivity import Sensitivity
    from aerosurrogate.surrogate import Surrogate
    from aerosurrogate.training.loop import Reached


class Said(TypedDict, total=False):
    """What can be said about the stream and the axes of a file."""

    speed: float
    alpha: float
    reynolds: float
    density: float
    viscosity: float
    flow: str
    up: str
    ground: str
    units: str


def load_model(name_or_path: str | Path, device: str = "auto") -> "Surrogate":
    """A trained model: one that comes with the package by name, a run folder or a checkpoint."""
    from aerosurrogate.surrogate import Surrogate

    return Surrogate.load(name_or_path, device)


def predict_shape(
    shape: str | Path, *, model: str | None = None, skin_only: bool = False, device: str = "auto", **said: Unpack[Said]
) -> FlowFields:
    """The flow around one shape: a surface file, an airfoil's coordinates or its name.

    The answer's `skin` holds p (m,) in Pa and wallShearStress (m, d) in Pa for each face of `body.surface`, `around`
    the regions around it, `row()` the coefficients; `save("fields.vtu")` writes it.
    """
    return Predictor(model, device).predict(str(shape), StreamOptions(**said), Wanted(surface_only=skin_only))


def rank_shapes(
    files: Sequence[str | Path],
    *,
    model: str | None = None,
    sort: str = "cd",
    truth: str | Path | None = None,
    baseline: str | Path | None = None,
    known: Sequence[str | Path] = (),
    suggest: int = 0,
    area: str = "silhouette",
    device: str = "auto",
    **said: Unpack[Said],
) -> Ranking:
    """Shapes (and files that hold a pressure already) best first; `rows` has one entry a design.

    `baseline` is a shape to compare with, `known` where solved values are (tables, folders of `simulate`, solved
    files), `suggest` how many designs to solve next are named in `suggested`.
    """
    return coeffs(
        [str(file) for file in files],
        CoeffsOptions(StreamOptions(**said), area=area, model=model, device=device),
        truth=None if truth is None else Path(truth),
        sort=sort,
        baseline=None if baseline is None else str(baseline),
        known=[Path(source) for source in known],
        suggest=suggest,
    )


def integrate_file(
    file: str | Path,
    *,
    area: str = "silhouette",
    patch: str | None = None,
    pressure: str | None = None,
    **said: Unpack[Said],
) -> Row:
    """Forces and coefficients of a file that holds a surface pressure: fields of `predict`, VTK, an OpenFOAM case."""
    options = CoeffsOptions(StreamOptions(**said), area=area, patch=patch, pressure=pressure)
    return coeffs([str(file)], options).rows[0]


def map_sensitivity(
    shape: str | Path, of: str = "cd", *, model: str | None = None, device: str = "auto", **said: Unpack[Said]
) -> "Sensitivity":
    """Where to push: what cd, cl or cl/cd gains where the skin of a shape moves outward.

    The answer's `density` (n,) belongs to the corners of `flow.body.surface`; `save("map.vtu")` writes it.
    """
    from aerosurrogate.sensitivity import sensitivity

    return sensitivity(str(shape), StreamOptions(**said), of, model=model, device=device)


def improve_shape(
    shape: str | Path,
    out: str | Path,
    *,
    of: str = "cd",
    keep: str | None = None,
    box: str | None = None,
    most: float = 0.03,
    at_lift: float | None = None,
    verify: bool = False,
    model: str | None = None,
    device: str = "auto",
    **said: Unpack[Said],
) -> "Improvement":
    """Move a shape's skin so that a coefficient falls, within limits; writes the better shape to `out`.

    The answer's `values` are the coefficient before and after, `chance` is that of a real gain; `solved` holds both by
    OpenFOAM where `verify` asks for it. The other options are those of the command.
    """
    from aerosurrogate.improve.improve import improve

    return improve(
        str(shape),
        Path(out),
        StreamOptions(**said),
        of=of,
        keep=keep,
        box=box,
        most=most,
        at_lift=at_lift,
        verify=verify,
        model=model,
        device=device,
    )


def train_recipe(
    recipe: str | Path, out: str | Path | None = None, *, resume: bool = False, device: str = "auto", **keys: Any
) -> "Reached":
    """Train by recipe, by its path or the name of one that comes with the package; returns what was reached.

    `keys` override the recipe's: training={"steps": 500}, data={"path": "datasets/mine"}.
    """
    import json

    from aerosurrogate.recipe import read_recipe
    from aerosurrogate.shipped import find_recipe
    from aerosurrogate.training.loop import train

    said = [f"{table}.{key}={json.dumps(value)}" for table, entries in keys.items() for key, value in entries.items()]
    return train(
        read_recipe(find_recipe(str(recipe)), said), None if out is None else Path(out), resume=resume, device=device
    )
