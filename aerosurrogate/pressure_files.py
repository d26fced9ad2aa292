"""Files that hold a surface pressure already: what in them is the body, what the pressure and the wall shear mean.

Conventions, settled by where a file comes from and never by its values:

    static      gauge pressure in Pa, wall shear of the fluid on the body in Pa: any file, unless
    kinematic   both per density: AirfRANS' files (known by their names) and OpenFOAM cases, unless the field's own
                dimensions say Pa (mesh/openfoam.py); there the shear is that of the wall on the fluid and is turned

In a volume file the body is where the air stands still on the boundary, the planes of the domain's box left out.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.body import set_in_stream
from aerosurrogate.conditions import Conditions, FlowAxes, StreamOptions
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import FlowFields
from aerosurrogate.mesh.arrays import NAMES, PRESSURE_COEFFICIENTS, find_array
from aerosurrogate.mesh.openfoam import SolvedCase, read_case
from aerosurrogate.mesh.orient import outward
from aerosurrogate.mesh.read import UNITS, read_surface
from aerosurrogate.mesh.surface import Surface

AIRFRANS = re.compile(r"airFoil2D_SST_(?P<speed>[\d.]+)_(?P<alpha>-?[\d.]+)_")
AIRFRANS_DENSITY, AIRFRANS_VISCOSITY = 1.184, 1.56e-5
ALONG = 0.9  # cosine of the angle from --flow within which a case's stream counts as running along it
FLAT = 1e-6  # of the domain's size: how near to a plane of its box a face must lie to belong to it
_PIXEL = 8  # VTK's quad whose last two corners come in the other order
_OWNER_VELOCITY, _OWNER_DISTANCE = "near-wall velocity", "near-wall distance"


@dataclass(frozen=True)
class Source:
    """Where a file comes from, and what that says about it."""

    kinematic: bool = False
    shear_on_fluid: bool = False
    speed: float | None = None
    alpha: float = 0.0
    density: float | None = None
    viscosity: float | None = None
    words: str = "static gauge pressure in Pa"


def source_of(path: Path) -> Source:
    """What a file's name says; an OpenFOAM case says more (`mesh.openfoam`)."""
    if match := AIRFRANS.search(path.name):
        return Source(
            kinematic=True,
            speed=float(match["speed"]),
            alpha=float(match["alpha"]),
            density=AIRFRANS_DENSITY,
            viscosity=AIRFRANS_VISCOSITY,
            words="kinematic pressure (p/rho), as AirfRANS publishes it",
        )
    return Source()


def _source_of_case(case: SolvedCase) -> Source:
    words = "kinematic pressure (p/rho), as OpenFOAM writes it"
    if not case.kinematic:
        words = "static pressure in Pa, as the dimensions in the OpenFOAM case say"
    return Source(case.kinematic, True, case.speed, case.alpha, case.density, case.viscosity, words)


def holds_pressure(mesh: Any) -> bool:
    """Whether a mesh that was read has a pressure, on points or on cells."""
    names = [*mesh.point_data.keys(), *mesh.cell_data.keys()]
    return find_array(dict.fromkeys(names), (*NAMES["p"], *PRESSURE_COEFFICIENTS)) is not None


def read_solved(
    file: str,
    mesh: Any,
    stream: StreamOptions,
    *,
    patch: str | None = None,
    pressure: str | None = None,
) -> FlowFields:
    """The fields on the body in a file that holds a pressure; `mesh` is what was read, None for an OpenFOAM case."""
    path = Path(file)
    case = read_case(path, patch) if mesh is None else None
    source = source_of(path) if case is None else _source_of_case(case)
    if pressure is not None:
        source = replace(source, kinematic=pressure == "kinematic", words=f"{pressure} pressure, as you say")
    if case is not None:
        _refuse_other_flow(case, stream)
        stream = replace(stream, ground=case.ground(stream.up) if stream.ground == "auto" else stream.ground)
    surface = outward(_scaled(case.skin, stream))[0] if case is not None else _surface(path, mesh, stream, patch)
    body = set_in_stream(surface, stream, file)
    conditions = _conditions(file, body.length, stream, source)
    surface = body.surface
    per_density = conditions.density if source.kinematic else 1.0
    notes = [*body.notes, source.words]
    p = _cell_values(surface, NAMES["p"])
    if p is not None:
        skin = {"p": p * per_density}
    else:
        coefficient = _cell_values(surface, PRESSURE_COEFFICIENTS)
        if coefficient is None:
            raise InputError(f"{file}: no pressure on the body", remedy="name the body's patch with --patch")
        skin = {"p": coefficient * conditions.dynamic_pressure}
        notes.append("pressure from its coefficient and the stream's dynamic pressure")
    if not np.isfinite(skin["p"]).all():
        bad = int((~np.isfinite(skin["p"])).sum())
        raise InputError(f"{file}: pressures that are not numbers", seen=f"{bad} faces", remedy="mend the file")
    shear, said = _shear(surface, source, conditions, per_density)
    if shear is not None:
        skin["wallShearStress"] = shear
        friction = float(
            (shear * surface.areas[:, None]).sum(axis=0) @ body.wind_axes(conditions).flow[: surface.dimension]
        )
        if friction < 0:
            said += "; IT PUSHES AGAINST THE STREAM: check its sign and --flow"
    return FlowFields(replace(body, notes=(*notes, said), pieces=None), conditions, skin)


def _surface(path: Path, mesh: Any, stream: StreamOptions, patch: str | None) -> Surface:
    if patch is not None:
        remedy = "leave --patch out, or give the OpenFOAM case"
        raise InputError(f"{path}: only OpenFOAM cases name their patches", seen=f"--patch {patch}", remedy=remedy)
    dimensions = {_dimension(kind) for kind in np.unique(mesh.celltypes).tolist()}
    flat = float(np.ptp(mesh.points[:, 2])) <= 1e-9 * float(np.ptp(mesh.points, axis=0).max())
    if dimensions == {3} or (flat and 2 in dimensions and 1 not in dimensions):
        surface = _wall(mesh, flat, str(path))
        surface, _ = outward(_scaled(replace(surface, name=path.stem, path=path), stream))
        return surface
    return read_surface(path, stream.units)


def _refuse_other_flow(case: SolvedCase, stream: StreamOptions) -> None:
    """The axes that the user names must be those of the case's own stream."""
    if case.flat or case.stream is None or not case.speed:
        return
    along = float(FlowAxes.parse(stream.flow, stream.up).flow @ case.stream) / case.speed
    if along < ALONG:
        flow, up = case.axes
        raise InputError(
            f"{case.path}: the stream of this case runs along {flow}",
            seen=f"--flow {stream.flow}",
            remedy=f"give --flow {flow} --up {up}",
        )


def _on_box(corners: NDArray, low: NDArray, high: NDArray) -> NDArray[np.bool_]:
    """(m,) whether faces with corners (m, k, d) lie in a side of the box from `low` to `high`."""
    d = corners.shape[-1]
    reach = FLAT * float((high - low).max())
    sides = [(np.abs(corners - edge[:d]) <= reach).all(axis=1).any(axis=1) for edge in (low, high)]
    return np.logical_or(*sides)


def _scaled(surface: Surface, stream: StreamOptions) -> Surface:
    metres = UNITS[stream.units or "m"]
    data = {name: a * metres if name == _OWNER_DISTANCE else a for name, a in surface.cell_data.items()}
    return replace(surface, points=surface.points * metres, cell_data=data)


def _dimension(kind: int) -> int:
    """Of a VTK cell type."""
    return 0 if kind in (1, 2) else 1 if kind in (3, 4, 21, 35) else 2 if kind in (5, 6, 7, 8, 9, 22, 23, 28, 34) else 3


def _wall(mesh: Any, flat: bool, label: str) -> Surface:
    """The body in a mesh of its surroundings, with what the cells next to it know of the velocity there."""
    surface, owners = _boundary_lines(mesh) if flat else _boundary_faces(mesh)
    keep = ~_on_box(surface.corners, surface.points.min(axis=0), surface.points.max(axis=0))
    velocity = find_array(surface.point_data, NAMES["U"])
    if velocity is not None:
        still = np.linalg.norm(surface.point_data[velocity], axis=1) == 0
        keep &= still[surface.cells].all(axis=1)
    if not keep.any():
        raise InputError(
            f"{label}: no wall in this volume, no face on its boundary where the air stands still",
            seen=f"{len(keep)} faces on the boundary",
            remedy="give the body's surface as a file of its own, or --patch for an OpenFOAM case",
        )
    surface = replace(surface, cell_data=surface.cell_data | _near_wall(mesh, owners, surface))
    return surface.select(keep)


def _boundary_faces(mesh: Any) -> tuple[Surface, NDArray[np.int64]]:
    mesh = mesh.copy(deep=False)
    mesh.cell_data["_owner"] = np.arange(mesh.n_cells)
    hull = mesh.extract_surface(algorithm="dataset_surface").triangulate()
    data = {name: np.asarray(hull.cell_data[name]) for name in hull.cell_data.keys()}  # noqa: SIM118
    owners = data.pop("_owner")
    points = {name: np.asarray(hull.point_data[name]) for name in hull.point_data.keys()}  # noqa: SIM118
    cells = np.asarray(hull.regular_faces, dtype=np.int64)
    return Surface(np.asarray(hull.points, dtype=float), cells, point_data=points, cell_data=data), owners


def _boundary_lines(mesh: Any) -> tuple[Surface, NDArray[np.int64]]:
    """Sides of flat cells that belong to one cell only."""
    from vtkmodules.util.numpy_support import vtk_to_numpy

    offset, corner = vtk_to_numpy(mesh.GetCells().GetOffsetsArray()), np.array(mesh.cell_connectivity)
    third = offset[:-1][mesh.celltypes == _PIXEL] + 2
    corner[third], corner[third + 1] = corner[third + 1], corner[third].copy()
    owner = np.repeat(np.arange(mesh.n_cells), np.diff(offset))
    following = np.arange(1, len(corner) + 1)
    following[offset[1:] - 1] = offset[:-1]
    sides = np.stack([corner, corner[following]], axis=1).astype(np.int64)
    _, index, count = np.unique(np.sort(sides, axis=1), axis=0, return_inverse=True, return_counts=True)
    once = count[index] == 1
    points = {name: np.asarray(mesh.point_data[name]) for name in mesh.point_data.keys()}  # noqa: SIM118
    owners = owner[once]
    cells = {name: np.asarray(mesh.cell_data[name])[owners] for name in mesh.cell_data.keys()}  # noqa: SIM118
    return Surface(np.asarray(mesh.points, dtype=float)[:, :2], sides[once], point_data=points, cell_data=cells), owners


def _near_wall(mesh: Any, owners: NDArray[np.int64], surface: Surface) -> dict[str, NDArray]:
    """Velocity in the cells next to the faces (m, d), and how far their centres are from them (m,)."""
    where = mesh.cell_data if find_array(dict(mesh.cell_data.items()), NAMES["U"]) else mesh.point_data
    name = find_array(dict(where.items()), NAMES["U"])
    if name is None:
        return {}
    by_cell = mesh if where is mesh.cell_data else mesh.point_data_to_cell_data()
    d = surface.dimension
    velocity = np.asarray(by_cell.cell_data[name])[owners][:, :d]
    offset = np.asarray(mesh.cell_centers().points, dtype=float)[owners][:, :d] - surface.centres
    return {_OWNER_VELOCITY: velocity, _OWNER_DISTANCE: np.abs(np.sum(offset * surface.normals, axis=1))}


def _conditions(file: str, length: float, stream: StreamOptions, source: Source) -> Conditions:
    if stream.speed is None and stream.reynolds is None and source.speed is None:
        remedy = "give --speed in m/s (or --reynolds)"
        raise InputError(f"{file}: the speed of the stream is not known", remedy=remedy)
    usual = Conditions(speed=source.speed or 1.0, length=length, alpha=source.alpha, ground=True)
    usual = replace(usual, density=source.density or usual.density, viscosity=source.viscosity or usual.viscosity)
    return stream.conditions(length, usual)


def _cell_values(surface: Surface, names: tuple[str, ...]) -> NDArray | None:
    """An array by cell: as the file has it, or the mean of the corners' values."""
    if (name := find_array(surface.cell_data, names)) is not None:
        return np.asarray(surface.cell_data[name], dtype=float)
    if (name := find_array(surface.point_data, names)) is not None:
        return np.asarray(surface.point_data[name], dtype=float)[surface.cells].mean(axis=1)
    return None


def _shear(surface: Surface, source: Source, conditions: Conditions, per_density: float) -> tuple[NDArray | None, str]:
    """Wall shear (m, d) Pa of the fluid on the body, and where it is from."""
    d = surface.dimension
    if (given := _cell_values(surface, NAMES["wallShearStress"])) is not None:
        sign = -1.0 if source.shear_on_fluid else 1.0
        return sign * per_density * given[:, :d], "wall shear from the file"
    if _OWNER_VELOCITY in surface.cell_data:
        velocity, distance = surface.cell_data[_OWNER_VELOCITY], surface.cell_data[_OWNER_DISTANCE]
        along = velocity - np.sum(velocity * surface.normals, axis=1, keepdims=True) * surface.normals
        viscosity = conditions.density * conditions.viscosity
        return viscosity * along / distance[:, None], "wall shear from the velocity next to the wall (needs y+ near 1)"
    return None, "no wall shear in the file: friction is left out"
