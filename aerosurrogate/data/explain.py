"""What `prepare` sees in a folder and makes of it, as a text that is a valid `dataset.toml`.

Findings are comments, guesses are keys: saved into the folder, the text prepares it as it says, and a wrong guess is
corrected there.
"""

import csv
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import field_spec
from aerosurrogate.data.readers import Options, reader_of, recognise
from aerosurrogate.data.readers import vtk as meshes
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.arrays import recognised
from aerosurrogate.mesh.load import load
from aerosurrogate.mesh.read import UNITS, likely_units, read_as_it_is
from aerosurrogate.mesh.vtu import VtuFile, worth_streaming

LARGE = 2_000_000  # cells: larger volumes are not looked through
UPSTREAM = 0.02  # part of the air, furthest upstream or highest, that tells the free stream


def explain(source: Path, options: Options | None = None, format: str = "auto") -> str:
    """The text for one folder or file of simulations."""
    options = options or Options()
    try:
        kind = recognise(source) if format == "auto" else format
    except InputError:
        if not source.is_dir() or not nested(source):
            raise
        kind = "vtk"
    lines = _of_meshes(source, options) if kind == "vtk" else _of_format(source, kind, options)
    return "\n".join(lines) + "\n"


def _of_format(source: Path, kind: str, options: Options) -> list[str]:
    """A published format, or OpenFOAM: the first case as it is read."""
    reader = reader_of(kind)
    batches = reader.batches(source, options)
    lines = [f"# {source}: {kind}, {sum(len(batch.names) for batch in batches)} cases", "#"]
    lines += [f"#   {name}" for name in _some([name for batch in batches for name in batch.names])]
    case = reader.read(batches[0], batches[0].names[0], options)
    lines += ["#", f"# {case.name}: {len(case.points):,} points, {int(case.surface.sum()):,} of them on the skin"]
    lines += [f"#   {name:<18}{_range(values)} {field_spec(name).unit}" for name, values in case.fields.items()]
    if case.conditions is not None:
        c = case.conditions
        lines.append(f"#   stream            {c.speed:g} m/s, {c.alpha:g} degrees, body length {c.length:.4g} m")
        lines.append(f"#   air               {c.density:g} kg/m3, {c.viscosity:g} m2/s, ground: {c.ground}")
    if case.reference:
        lines.append("#   truth             " + ", ".join(f"{k} {v:.4g}" for k, v in case.reference.items()))
    return [*lines, "#", f"# The format {kind} says what is what: no dataset.toml is needed."]


def _of_meshes(source: Path, options: Options) -> list[str]:
    """A folder of mesh files: the first skin and the air beside it, and the sizes of some more."""
    settings = meshes.settings_of(source)
    said = settings.model_fields_set
    home = source if source.is_dir() else source.parent
    pattern, air = (settings.surface, settings.volume) if "surface" in said else patterns(home)
    skins = sorted(home.glob(pattern)) if pattern else [source]
    if not skins:
        raise InputError("no mesh files in this folder", seen=home / (pattern or "*"), remedy="give another folder")
    first = skins[0]
    air = settings.volume if "volume" in said else air
    volume = first.parent / air.replace("{stem}", first.stem) if air else None
    lines = [f"# {home}: mesh files, {len(skins)} cases", "#"]
    lines += [f"#   {path.relative_to(home)}" for path in _some(skins)]
    on_skin = _arrays(first)
    lines += ["#", *_listed(first, on_skin)]
    around: dict[str, tuple[str, NDArray[Any] | None]] = {}
    places = None
    if volume is not None and volume.is_file() and volume != first:
        around, places = _air_arrays(volume)
        lines += ["#", *_listed(volume, around)]
    lengths = [read_as_it_is(path).length for path in skins[: meshes.LOOKED_AT]]
    units = options.units or settings.units or likely_units(lengths) or "m"
    lines += ["#", f"# lengths from {min(lengths):.4g} to {max(lengths):.4g} in the files' units"]
    roles = settings.arrays or (recognised(around) | recognised(on_skin))
    speed, flow = _free_stream(around.get(roles.get("U", ""), ("", None))[1], places)
    speed, flow = settings.conditions.speed or speed, settings.axes.flow if "axes" in said else flow
    up = settings.axes.up if "axes" in said else "+y" if flow and flow[1] == "z" else "+z"
    lines += ["", *([f"surface = {json.dumps(pattern)}"] if pattern else [])]
    lines += [f"volume = {json.dumps(air)}"] if volume is not None and volume.is_file() else []
    sure = "" if UNITS[units] == 1.0 or options.units or settings.units else "  # a guess, by their lengths"
    lines.append(f"units = {json.dumps(units)}{sure}")
    lines.append(f"pressure = {json.dumps(settings.pressure)}{_about_pressure(on_skin, around, roles, speed)}")
    lines += _table(home, settings.table)
    lines += ["", "[arrays]  # ours = the files'"]
    lines += [f"{ours} = {json.dumps(theirs)}" for ours, theirs in roles.items()]
    if not roles:
        lines += ['# p = "..."  # none of the arrays has a name that tells what it is: name them here']
    lines += ["", "[conditions]"]
    unknown = "# speed = 30.0  # m/s: not in the files; without it there are no coefficients"
    lines.append(unknown if speed is None else f"speed = {speed:.6g}  # m/s" + _guess(settings.conditions.speed))
    others = settings.conditions.model_dump(include=settings.conditions.model_fields_set - {"speed"})
    lines += [f"{key} = {json.dumps(value)}" for key, value in others.items()]
    if flow:
        lines += ["", "[axes]", f"flow = {json.dumps(flow)}", f"up = {json.dumps(up)}"]
    if settings.splits.test is not None:
        lines += ["", "[splits]", f"test = {json.dumps(settings.splits.test)}"]
    return lines


def patterns(home: Path) -> tuple[str | None, str]:
    """Patterns of the skins and of the air beside them: files of the folder, or of a folder a case."""
    skins = _likeliest(home.iterdir())
    return (f"*{_ending(skins)}", _beside(skins)) if skins else nested(home) or (None, "")


def _likeliest(files: Iterable[Path]) -> list[Path]:
    """Those of the files that would be skins: all of the first kind that there is."""
    there = sorted(path for path in files if path.suffix.lower() in meshes.SKINS and path.is_file())
    kind = min((meshes.SKINS.index(path.suffix.lower()) for path in there), default=0)
    return [path for path in there if path.suffix.lower() == meshes.SKINS[kind]]


def _ending(files: list[Path]) -> str:
    """The end of a pattern that finds files of one kind, however it is spelled."""
    if len(spelled := {path.suffix for path in files}) == 1:
        return spelled.pop()
    return "." + "".join(f"[{letter}{letter.upper()}]" for letter in files[0].suffix.lower()[1:])


def _beside(skins: list[Path]) -> str:
    """The pattern of the air beside the first of the skins: a volume whose name has the skin's as a word in it."""
    first, stems = skins[0], {path.stem for path in skins}
    word = re.compile(rf"(?<![^\W_]){re.escape(first.stem)}(?![^\W_])")
    others = [p.name for p in sorted(first.parent.iterdir()) if p.suffix.lower() == ".vtu" and p.stem not in stems]
    return next((word.sub("{stem}", name, count=1) for name in others if word.search(name)), "{stem}.vtu")


def nested(home: Path) -> tuple[str, str] | None:
    """The same for a folder a case, whose files have the same names in each, or for files anywhere in folders."""
    folders = [path for path in sorted(home.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    if not folders:
        return None
    names = [path.name for path in sorted(folders[0].iterdir()) if path.suffix.lower() in meshes.SKINS]
    common = [name for name in names if all((folder / name).is_file() for folder in folders[:5])]
    skins = sorted(common, key=lambda name: meshes.SKINS.index(Path(name).suffix.lower()))
    if not skins:
        below = [path for path in home.rglob("*") if not any(part[0] == "." for part in path.relative_to(home).parts)]
        if not (found := _likeliest(below)):
            return None
        levels = {len(path.relative_to(home).parts) for path in found}
        return f"{'*' if levels == {2} else '**'}/*{_ending(found)}", _beside(found)
    air = next((name for name in common if name.lower().endswith(".vtu") and name != skins[0]), "{stem}.vtu")
    return f"*/{skins[0]}", air


def _some(items: list[Any]) -> list[Any]:
    return items if len(items) <= 6 else [*items[:4], "...", items[-1]] if isinstance(items[0], str) else items[:6]


def _arrays(path: Path) -> dict[str, tuple[str, NDArray[Any] | None]]:
    """The arrays of a file: where they lie, and their values."""
    if path.suffix.lower() == ".stl":
        return {}
    mesh = load(path)
    found: dict[str, tuple[str, NDArray[Any] | None]] = {}
    for where, data in (("points", mesh.point_data), ("cells", mesh.cell_data)):
        found |= {name: (where, np.asarray(data[name])) for name in data.keys()}  # noqa: SIM118 (VTK's container)
    return found


def _air_arrays(path: Path) -> tuple[dict[str, tuple[str, NDArray[Any] | None]], NDArray[Any] | None]:
    """The arrays of a volume and where its values lie; of a very large one the names alone."""
    if worth_streaming(path, LARGE):
        file = VtuFile(path)
        sections = (("points", "PointData"), ("cells", "CellData"))
        return {name: (where, None) for where, section in sections for name in file.names(section)}, None
    arrays = _arrays(path)
    mesh = load(path)
    by_cell = any(where == "cells" for where, _ in arrays.values())
    return arrays, np.asarray(mesh.cell_centers().points if by_cell else mesh.points)


def _listed(path: Path, arrays: dict[str, tuple[str, NDArray[Any] | None]]) -> list[str]:
    roles = {theirs: ours for ours, theirs in recognised(arrays).items()}
    lines = [f"# {path.name}" + ("" if arrays else ": no arrays")]
    for name, (where, values) in arrays.items():
        role = f" -> {roles[name]}" if name in roles else ""
        lines.append(f"#   {name:<24}{where:<8}{'not looked through' if values is None else _range(values)}{role}")
    return lines


def _range(values: NDArray[Any]) -> str:
    flat = values.reshape(len(values), -1)
    if flat.shape[1] > 1:
        flat = np.linalg.norm(flat, axis=1, keepdims=True)
        return f"magnitude {flat.min():.4g} to {flat.max():.4g}"
    return f"{flat.min():.4g} to {flat.max():.4g}"


def _free_stream(velocity: NDArray[Any] | None, places: NDArray[Any] | None) -> tuple[float | None, str | None]:
    """Speed and axis of the air that comes in first."""
    if velocity is None or places is None or velocity.ndim != 2 or len(velocity) != len(places):
        return None, None
    mean = velocity.mean(axis=0)
    axis = int(np.argmax(np.abs(mean)))
    sign = 1.0 if mean[axis] > 0 else -1.0
    order = np.argsort(sign * places[:, axis])
    early = velocity[order[: max(int(UPSTREAM * len(order)), 1)]]
    return float(np.median(np.linalg.norm(early, axis=1))), f"{'+' if sign > 0 else '-'}{'xyz'[axis]}"


def _about_pressure(on_skin: Any, around: Any, roles: dict[str, str], speed: float | None) -> str:
    """A comment that helps to tell static from kinematic pressure, which files do not say."""
    values = (on_skin.get(roles.get("p", "")) or around.get(roles.get("p", "")) or ("", None))[1]
    if values is None or speed is None:
        return '  # gauge, in Pa; or "kinematic": per density, as OpenFOAM writes it'
    q = Conditions(speed, 1.0).dynamic_pressure
    highest = float(np.max(values))
    return f'  # or "kinematic": the highest Cp, about 1 at the nose, is {highest / q:.2f} or {highest * 1.225 / q:.2f}'


def _guess(said: float | None) -> str:
    return "" if said is not None else ", a guess: that of the air furthest upstream"


def _table(home: Path, said: str | None) -> list[str]:
    """The table of cases: the one that was named, or the CSV file that has a column `name`."""
    if said is not None:
        return [f"table = {json.dumps(said)}"]
    lines: list[str] = []
    for path in sorted(home.glob("*.csv")):
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            columns: Iterable[str] = [column.strip() for column in next(csv.reader(file), [])]
        if "name" in columns and not any(line.startswith("table") for line in lines):
            lines.append(f"table = {json.dumps(path.name)}  # {', '.join(columns)}")
        else:
            lines.append(f"# {path.name} could be the table of cases if it had a column `name`: {', '.join(columns)}")
    return lines
