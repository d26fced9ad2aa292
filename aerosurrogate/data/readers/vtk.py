"""Folders of mesh files (VTK, VTP, VTU, STL, ...): a file for each body's skin and perhaps one of the air around it.

A `dataset.toml` in the folder says what is what; everything in it may be left out:

    surface = "*.vtp"         # the skins, one a case: a pattern within this folder ("*/skin.vtp" for a folder a case)
    volume = "{stem}.vtu"     # the air, beside its skin; {stem} is the name of the skin's file
    units = "m"               # of coordinates
    pressure = "static"       # gauge, Pa; or "kinematic": p and wallShearStress are per density
    table = "cases.csv"       # name, and any of speed, alpha, density, viscosity (beats [conditions]), cd, cl, cm, area

    [arrays]                  # our names = the files' names, where those do not tell; vectors are in the files' axes
    p = "pressure"
    U = "velocity"

    [conditions]
    speed = 20.0              # m/s
    ground = "auto"           # auto or true, none or false, or a height

    [axes]                    # 3D
    flow = "+x"
    up = "+z"

    [splits]
    test = ["car_07", "van_*"]  # the others are for training; without this every fifth case is held out

Cases are called as the files of their skins, or, where these have one name in all folders, as their folders. They come
in the model's frame (see `aerosurrogate.body`). Values in cells are taken at their centres, values at points
at the vertices. A pressure that the skin's file lacks comes from the nearest point of the air. Shapes without any array
whose drag stands in the table (from a wind tunnel, say) teach a model's head alone.
"""

import csv
import fnmatch
import tomllib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError
from scipy.spatial import KDTree

from aerosurrogate.body import Body, set_in_stream
from aerosurrogate.conditions import DENSITY, VISCOSITY, Conditions, StreamOptions
from aerosurrogate.console import few
from aerosurrogate.data.case import Case, field_spec
from aerosurrogate.data.readers import Batch, Options
from aerosurrogate.data.readers.meshes import (
    Points,
    at_faces,
    at_vertices,
    cell_volumes,
    drawn_while_read,
    flow_case,
    measured_points,
    thinned,
    vertex_volumes,
)
from aerosurrogate.data.splits import Splits, four_to_one
from aerosurrogate.data.store import Entries
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.arrays import NAMES, recognised
from aerosurrogate.mesh.distance import inside
from aerosurrogate.mesh.load import load
from aerosurrogate.mesh.read import UNITS, likely_units, read_as_it_is, read_surface, units_doubt
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.mesh.vtu import VtuFile, worth_streaming

VERSION = 4
SKINS = (".vtp", ".vtk", ".stl", ".obj", ".ply", ".off", ".vtu")
SETTINGS = "dataset.toml"
LOOKED_AT = 8  # skins of a folder whose sizes tell its units
TRUTHS = ("cd", "cl", "cm", "cd_pressure", "cd_friction", "area")


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Conditions(_Table):
    speed: float | None = None
    alpha: float = 0.0
    density: float = DENSITY
    viscosity: float = VISCOSITY
    ground: bool | str | float = "auto"

    @property
    def ground_words(self) -> str:
        """As the option --ground says it."""
        return {True: "auto", False: "none"}[self.ground] if isinstance(self.ground, bool) else str(self.ground)


class _Axes(_Table):
    flow: str = "+x"
    up: str = "+z"


class _Splits(_Table):
    test: list[str] | None = None


class FolderSettings(_Table):
    """What `dataset.toml` may say."""

    surface: str | None = None
    volume: str = "{stem}.vtu"
    units: Literal["m", "cm", "mm", "in", "ft"] | None = None
    pressure: Literal["static", "kinematic"] = "static"
    table: str | None = None
    arrays: dict[str, str] | None = None
    conditions: _Conditions = _Conditions()
    axes: _Axes = _Axes()
    splits: _Splits = _Splits()


def settings_of(source: Path) -> FolderSettings:
    path = _home(source) / SETTINGS
    try:
        return FolderSettings(**tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return FolderSettings()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML", seen=error) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: {where}: {first['msg'].lower()}", seen=first.get("input")) from None


def _home(source: Path) -> Path:
    return source if source.is_dir() else source.parent


def _skins(source: Path) -> list[Path]:
    if source.is_file() and source.suffix != ".toml":
        return [source]
    pattern = settings_of(source).surface
    if pattern is not None:
        try:
            return sorted(_home(source).glob(pattern))
        except (ValueError, NotImplementedError) as error:
            remedy = "give one within the folder, such as */skin.vtp"
            raise InputError(f"surface is not a pattern ({error})", seen=pattern, remedy=remedy) from None
    found = [path for path in sorted(_home(source).glob("*")) if path.suffix.lower() in SKINS and path.is_file()]
    stems = {path.stem for path in found if path.suffix.lower() != ".vtu"}
    return [path for path in found if path.suffix.lower() != ".vtu" or path.stem not in stems]


def recognises(source: Path) -> bool:
    return (_home(source) / SETTINGS).is_file() or bool(_skins(source))


def batches(source: Path, options: Options) -> list[Batch]:
    settings, home, skins = settings_of(source), _home(source), _skins(source)
    names = _names(skins, home)
    found = []
    for path, name in zip(skins, names, strict=True):
        air = path.parent / settings.volume.replace("{stem}", path.stem)
        said = [home / file for file in (SETTINGS, settings.table) if file and (home / file).is_file()]
        found.append(Batch((name,), (path, *([air] if air.is_file() and air != path else []), *said)))
    if not found:
        raise InputError(
            "no skins in this folder", seen=home / (settings.surface or "*"), remedy="name them in surface"
        )
    if (rows := _table(home, settings)) and rows.keys().isdisjoint(names):
        raise InputError(
            "the table of cases names none of them",
            seen=f"{few(rows, 5)} in {settings.table}",
            remedy=f"call them as the cases are called: {few(names, 5)}",
        )
    return found


def _names(skins: Sequence[Path], home: Path) -> list[str]:
    """What the cases are called: as their files, or as their folders where the files' names do not tell them apart."""
    places = [path.relative_to(home) for path in skins]
    for named in ([path.stem for path in skins], ["-".join(path.parent.parts) for path in places]):
        if len(set(named)) == len(named) and all(named):
            return named
    return ["-".join(path.with_suffix("").parts) for path in places]


def read(batch: Batch, name: str, options: Options) -> Case:
    path, *beside = batch.files
    home = next((file.parent for file in beside if file.name == SETTINGS), path.parent)
    settings = settings_of(home)
    row = _table(home, settings).get(name, {})
    said = settings.conditions.model_copy(update={k: v for k, v in row.items() if k in _Conditions.model_fields})
    units = options.units or settings.units
    surface = read_surface(path, units)
    if units is None:
        _refuse_size(surface, path, home)
    stream = StreamOptions(flow=settings.axes.flow, up=settings.axes.up, ground=said.ground_words, units=units)
    body = set_in_stream(surface, stream, str(path))
    # Where the ground is supposed to be is said by the conditions, and repairs nothing.
    notes = [note for note in body.notes if note not in surface.notes and not note.startswith("ground at")]
    around = None
    for air in (file for file in beside if file.suffix not in (".toml", ".csv")):
        around = _outside(body, _air(air, body, settings, UNITS[units or "m"], options.keep), notes)
    conditions = None
    if said.speed is not None:
        grounded = body.ground is not None
        conditions = Conditions(said.speed, body.length, said.alpha, said.density, said.viscosity, grounded)
    names, seed = arrays_of(settings, {**surface.point_data, **surface.cell_data}), zlib.crc32(name.encode())
    if conditions is not None and "cd" in row and not names and around is None:
        skin, around = measured_points(body.in_model_frame(), conditions, seed)
    else:
        skin = thinned(_completed(_skin(body, names), around, notes), options.keep, seed)
        _refuse_missing(path, settings, surface, {**skin.fields, **(around.fields if around else {})})
    if settings.pressure == "kinematic":
        skin, around = _per_density(skin, said.density), around and _per_density(around, said.density)
    reference = {key: float(row[key]) for key in TRUTHS if key in row}
    reference = {"area": body.silhouette} | reference | {"silhouette": body.silhouette}
    return flow_case(name, body.in_model_frame(), skin, around, conditions, reference=reference, notes=notes)


def arrays_of(settings: FolderSettings, there: Iterable[str]) -> dict[str, str]:
    """The arrays of a file by our names: as the settings say, else those whose own names tell what they are."""
    return settings.arrays if settings.arrays is not None else recognised(there)


def _refuse_size(surface: Surface, path: Path, home: Path) -> None:
    """Lengths that no vehicle has are in other units than metres; which, all files of the folder tell together."""
    if units_doubt(surface.length) is None:
        return
    lengths = lengths_in(home) or (surface.length,)
    units = likely_units(lengths)
    remedy = f'pass --units {units}, or write units = "{units}" into {SETTINGS} (--units m keeps it)'
    raise InputError(
        f"{path}: a length of {surface.length:.4g} m is absurd for a vehicle or a wing",
        seen=f"lengths from {min(lengths):.4g} to {max(lengths):.4g} in this folder",
        remedy=remedy if units and units != "m" else "check the file; --units m keeps it",
    )


@lru_cache(maxsize=4)
def lengths_in(home: Path) -> tuple[float, ...]:
    """Largest extents of some skins of a folder, in the files' own units."""
    lengths = []
    for path in _skins(home)[:LOOKED_AT]:
        try:
            lengths.append(read_as_it_is(path).length)
        except InputError:
            continue
    return tuple(lengths)


def _refuse_missing(path: Path, settings: FolderSettings, surface: Surface, found: Mapping[str, Any]) -> None:
    """All arrays that the settings name must be there; without settings, at least one that we know."""
    missing = [theirs for ours, theirs in (settings.arrays or {}).items() if ours not in found]
    if missing or not found:
        raise InputError(
            f"{path} has no array {' or '.join(missing or NAMES)}",
            seen=", ".join({**surface.point_data, **surface.cell_data}) or "no arrays at all",
            remedy=f"name what it has in [arrays] of {SETTINGS}",
        )


def _table(home: Path, settings: FolderSettings) -> dict[str, dict[str, Any]]:
    """Rows of the table of cases by name, numbers as numbers."""
    if settings.table is None:
        return {}
    path = home / settings.table
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [{k.strip(): v.strip() for k, v in row.items() if k and v} for row in csv.DictReader(file)]
        return {row.pop("name"): {key: float(value) for key, value in row.items()} for row in rows}
    except FileNotFoundError:
        raise InputError("the table of cases is missing", seen=path) from None
    except KeyError:
        raise InputError(f"{path} has no column called name") from None
    except (ValueError, AttributeError) as error:
        raise InputError(f"{path} is not a table of numbers", seen=error) from None


def _skin(body: Body, names: Mapping[str, str]) -> Points:
    """The skin with the arrays it has: at faces if any of them is by face, else at vertices; in the model's frame."""
    surface = body.surface
    moved = body.in_model_frame()
    by_face = any(name in surface.cell_data for name in names.values())
    fields = {}
    for ours, theirs in names.items():
        if by_face and theirs in surface.cell_data:
            fields[ours] = surface.cell_data[theirs]
        elif theirs in surface.point_data:
            values = surface.point_data[theirs]
            fields[ours] = values[surface.cells].mean(axis=1) if by_face else values
    turned = _turned(fields, body.rotation)
    return at_faces(moved, turned) if by_face else at_vertices(moved, turned)


def _air(path: Path, body: Body, settings: FolderSettings, metres: float, keep: int) -> Points:
    """The air of a volume file in the model's frame: at the centres of cells if arrays are by cell, else at points.

    A VTU of more than `keep` cells around a 3D body is streamed, and thinned to so many.
    """
    if body.dimension == 3 and worth_streaming(path, keep):
        file, seed = VtuFile(path), zlib.crc32(path.stem.encode())
        have = {*file.names("CellData"), *file.names("PointData")}
        wanted = {ours: theirs for ours, theirs in arrays_of(settings, have).items() if theirs in have}
        if wanted:
            drawn = drawn_while_read(
                file, wanted, body.in_model_frame(), lambda x: body.to_model(x * metres), metres, keep, seed
            )
            return Points(drawn.points, drawn.sizes, _turned(drawn.fields, body.rotation))
    grid = load(path)
    d = body.dimension
    names = arrays_of(settings, [*grid.point_data.keys(), *grid.cell_data.keys()])
    by_cell = any(name in grid.cell_data for name in names.values())
    data = grid.cell_data if by_cell else grid.point_data
    places = np.asarray(grid.cell_centers().points if by_cell else grid.points, dtype=float)[:, :d] * metres
    volumes = (cell_volumes(grid) if by_cell else vertex_volumes(grid)) * metres**d
    fields = {ours: np.asarray(data[theirs]) for ours, theirs in names.items() if theirs in data}
    if not fields:
        looked_for = ", ".join(names.values() or NAMES)
        raise InputError(f"{path} holds none of the arrays {looked_for}", seen=", ".join(data.keys()) or "none")
    return Points(body.to_model(places), volumes, _turned(fields, body.rotation))


def _outside(body: Body, air: Points, notes: list[str]) -> Points:
    """The air without what lies inside the body, as in a box that was not cut out around it."""
    within = inside(body.in_model_frame(), air.points)
    if within.any():
        notes.append(f"{within.sum():,} points inside the body left out")
    return air.take(~within)


def _turned(fields: dict[str, NDArray[Any]], rotation: NDArray[Any]) -> dict[str, NDArray[Any]]:
    d = len(rotation)
    return {k: v[:, :d] @ rotation.T if field_spec(k).vector else v for k, v in fields.items()}


def _completed(skin: Points, around: Points | None, notes: list[str]) -> Points:
    """The skin with the pressure of the nearest air where its own file has none; the air stands still there."""
    if around is None or "p" in skin.fields or "p" not in around.fields:
        return skin
    notes.append("p on the skin is that of the nearest point of the air")
    _, row = KDTree(around.points).query(skin.points)
    return Points(skin.points, skin.sizes, {**skin.fields, "p": around.fields["p"][row]})


def _per_density(part: Points, density: float) -> Points:
    fields = {k: v * density if k in ("p", "wallShearStress") else v for k, v in part.fields.items()}
    return Points(part.points, part.sizes, fields)


def splits(source: Path, cases: Entries) -> Splits:
    held = settings_of(source).splits.test
    if held is None:
        return four_to_one(cases)
    test = [name for name in cases if any(fnmatch.fnmatchcase(name, pattern) for pattern in held)]
    return {"train": [name for name in cases if name not in test], "test": test}
