"""What a picture is made of: a skin with one value a cell, its surroundings, and the words that go with them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate import flow_fields
from aerosurrogate.conditions import FlowAxes, StreamOptions
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import UNITS, FlowFields, interval
from aerosurrogate.mesh.arrays import NAMES, find_array
from aerosurrogate.mesh.distance import nearest
from aerosurrogate.mesh.load import load
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.predict import STILL_ON_WALLS
from aerosurrogate.pressure_files import holds_pressure, read_solved, source_of

LABELS = {
    "Cp": "pressure coefficient Cp",
    "p": "pressure",
    "U": "speed",
    "wallShearStress": "wall shear",
    "nut": "turbulent viscosity",
}
SAME_BODY = 0.008  # of its length: how far apart two meshes of one body may lie
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """Colours for a range of values: centred at zero where they have signs."""

    low: float
    high: float
    signed: bool

    @classmethod
    def over(cls, *values: NDArray, signed: bool = False) -> "Scale":
        """For most of the values: 1 % at either end may saturate, so that a few do not wash out the rest.

        Differences are `signed` even where all of them are of one sign.
        """
        known = np.concatenate([v[np.isfinite(v)].ravel() for v in values])
        low, high = (float(edge) for edge in np.quantile(known, [0.01, 0.99])) if len(known) else (0.0, 1.0)
        if signed or low < 0 < high:
            reach = max(-low, high, 1e-9)
            return cls(-reach, reach, signed=True)
        return cls(low, high if high > low else low + 1e-9, signed=False)

    @property
    def map(self) -> str:
        return "RdBu_r" if self.signed else "viridis"

    def colours(self, values: NDArray) -> NDArray[np.uint8]:
        """RGB (..., 3) of values of any shape."""
        import matplotlib

        place = (np.nan_to_num(values) - self.low) / (self.high - self.low)
        return (matplotlib.colormaps[self.map](np.clip(place, 0, 1))[..., :3] * 255).astype(np.uint8)


@dataclass(frozen=True, eq=False)
class Source:
    """A design and the field that is shown of it."""

    name: str
    surface: Surface
    axes: FlowAxes
    field: str
    unit: str
    values: Floats  # (m,) on the skin's cells
    solution: FlowFields | None = None  # where the stream is known too

    @property
    def in_air(self) -> bool:
        """Whether the field lives in the air and is nothing on the skin."""
        return self.field in STILL_ON_WALLS

    @property
    def label(self) -> str:
        if is_map(self.field):
            colours = "   (blue: pushing out lowers it, red: raises it)" if self.surface.dimension == 3 else ""
            return f"{self.field}, a metre outward and m² of skin, 1/m³{colours}"
        return labelled(LABELS.get(self.field, self.field), self.unit)

    @property
    def title(self) -> str:
        """The design, the stream and what came of it."""
        if self.solution is None:
            return self.name
        row = self.solution.row()
        alpha = f", {row['alpha']:g}°" if self.surface.dimension == 2 else ""
        trust = f"   trust: {row['trust']}" if row["trust"] else ""
        return (
            f"{self.name}   Re {row['reynolds'] / 1e6:.3g} million, {row['speed']:.4g} m/s{alpha}   "
            f"Cd {interval(row, 'cd')}   Cl {interval(row, 'cl')}{trust}"
        )


def is_map(field: str) -> bool:
    """Whether a field is a map that `sensitivity` wrote."""
    return field.startswith("d(") and field.endswith(")/dn")


def labelled(words: str, unit: str) -> str:
    return words if unit in ("", "-") else f"{words} ({unit})"


def open_source(file: str, field: str | None = None, stream: StreamOptions | None = None) -> Source:
    """Read a file of fields; what is shown is `field`, else the map of `sensitivity` if there is one, else Cp where the
    stream is known, else the pressure."""
    mesh = None if Path(file).is_dir() or file.endswith(".foam") else load(Path(file))
    solution = None
    if mesh is not None and flow_fields.is_fields_file(mesh):
        solution = flow_fields.from_mesh(mesh, file)
    elif (mesh is None or holds_pressure(mesh)) and (stream is not None or mesh is None or source_of(Path(file)).speed):
        solution = read_solved(file, mesh, stream or StreamOptions())
    if solution is None:
        return _plain(file, field)
    arrays = solution.with_pressure_coefficient(solution.skin)
    name = field or next(filter(is_map, arrays), "Cp")
    known = dict.fromkeys([*arrays, *(key for region in solution.around for key in region.arrays)])
    if name in STILL_ON_WALLS:
        if not any(name in region.arrays for region in solution.around):
            others = "|".join(other for other in known if other != name)
            remedy = f"give --field {others}" if solution.around else "predict it without --surface-only"
            raise InputError(f"{file}: holds no {name} around the body", seen=f"--field {name}", remedy=remedy)
        arrays = arrays | {name: np.zeros(len(solution.body.surface.cells))}
    if name not in arrays:
        raise InputError(f"{file}: no such field", seen=name, remedy=f"give --field {'|'.join(known)}")
    body = solution.body
    # The design's name is what it was predicted from; the file of its fields may be called anything.
    design, axes = body.surface.name or body.name, body.wind_axes(solution.conditions)
    return Source(design, body.surface, axes, name, UNITS.get(name, ""), _scalar(arrays[name]), solution)


def _plain(file: str, field: str | None) -> Source:
    """A surface with arrays of which nothing else is known."""
    surface = read_surface(file)
    arrays: dict[str, Any] = {k: v[surface.cells].mean(axis=1) for k, v in surface.point_data.items()}
    arrays |= surface.cell_data
    name = field or find_array(arrays, NAMES["p"]) or next(iter(arrays), None)
    if name is None or name not in arrays:
        remedy = f"give --field {'|'.join(arrays)}" if arrays else "predict its fields first: aerosurrogate predict"
        raise InputError(f"{file}: no such field" if field else f"{file}: holds no fields", seen=field, remedy=remedy)
    return Source(surface.name, surface, _likely_axes(surface), name, UNITS.get(name, ""), _scalar(arrays[name]))


def _likely_axes(surface: Surface) -> FlowAxes:
    """For the eye only: a body's longest side lies along the stream, and its shortest one is its height."""
    if surface.dimension == 2:
        return FlowAxes.two_dimensional(0.0)
    longest = int(np.argmax(surface.size))
    if longest == 0:
        return FlowAxes.parse()
    shortest = int(np.argmin(surface.size))
    return FlowAxes.parse(f"+{'xyz'[longest]}", f"+{'xyz'[shortest]}")


def _scalar(values: NDArray) -> Floats:
    values = np.asarray(values, dtype=float)
    return values if values.ndim == 1 else np.linalg.norm(values, axis=1)


@dataclass(frozen=True, eq=False)
class Difference:
    """A prediction and its reference on the prediction's skin."""

    predicted: Source
    true: Floats  # (m,) the reference's values at the prediction's cells
    reference: Source
    called: str = "reference"  # what it is compared with

    @property
    def error(self) -> Floats:
        return self.predicted.values - self.true

    @property
    def relative(self) -> float:
        """Relative L2 over the skin, weighted by area."""
        areas = self.predicted.surface.areas
        return float(np.sqrt(np.sum(areas * self.error**2) / max(float(np.sum(areas * self.true**2)), 1e-300)))


def difference(predicted: Source, reference: str) -> Difference:
    """The prediction against a reference of the same body, at the nearest faces."""
    if predicted.in_air:
        remedy = "give --field Cp, p or wallShearStress"
        raise InputError("errors are drawn on the skin", seen=f"--field {predicted.field}", remedy=remedy)
    stream = None
    if predicted.solution is not None:
        given = predicted.solution.conditions
        stream = StreamOptions(given.speed, given.alpha, None, given.density, given.viscosity)
        if predicted.surface.dimension == 3:
            stream = replace(stream, flow=_name(predicted.axes.flow), up=_name(predicted.axes.up))
    true = open_source(reference, predicted.field, stream)
    if true.surface.dimension != predicted.surface.dimension:
        raise InputError("the reference has another dimension than the file", seen=reference)
    to_true = nearest(true.surface, predicted.surface.centres)
    back = nearest(predicted.surface, true.surface.centres).distance
    apart = max(float(np.quantile(d, 0.99)) for d in (to_true.distance, back))
    if apart > SAME_BODY * predicted.surface.length:
        remedy = (
            "an error needs the same body in the same axes and units; two designs are compared by --kind difference"
        )
        raise InputError("the reference is another body", seen=f"skins {apart:.3g} m apart", remedy=remedy)
    return Difference(predicted, true.values[to_true.cells], true)


def _name(axis: NDArray) -> str:
    index = int(np.argmax(np.abs(axis)))
    return f"{'+' if axis[index] > 0 else '-'}{'xyz'[index]}"
