"""Bodies from files: any mesh format, airfoil coordinates and NACA names, as clean, outward surfaces."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import igl
import numpy as np

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.airfoil import is_naca, naca
from aerosurrogate.mesh.coordinates import is_section, named_in_folder, read_section
from aerosurrogate.mesh.load import cell_sizes, load
from aerosurrogate.mesh.orient import outward
from aerosurrogate.mesh.outline import filled
from aerosurrogate.mesh.stl import read_stl
from aerosurrogate.mesh.surface import Arrays, Floats, Ints, Surface

if TYPE_CHECKING:
    import pyvista as pv

UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048}
PLAUSIBLE = (0.05, 50.0)  # m: lengths of vehicles and wings, models of them included
USUAL = {2: 1.0, 3: 3.0}  # m, a chord, a body: of units that make a length plausible the likeliest comes nearest to it
MERGE = 1e-9  # of the length: points closer than this are one
DEGENERATE = 1e-14  # of the length squared: faces smaller than this are none
SURFACE_CELLS = (5, 6, 7, 8, 9, 22, 23, 28, 34)  # VTK's triangles, strips, polygons, quads, and quadratic ones
LINES = (3, 4, 21)
TRIANGLE = 5


def read_surface(path: str | Path, units: str | None = None, patch: str | None = None) -> Surface:
    """The skin of the body in a file, or of an airfoil by its name, with outward cells; metres.

    Polygons come triangulated, duplicate points merged, degenerate and repeated faces left out; arrays go along.
    Files whose points lie in one x-y plane give a curve in 2D. In a file with volume cells and no faces the skin is the
    boundary of the volume; in an OpenFOAM case it is `patch`, or the only wall. Notes say what was done.
    """
    surface = read_as_it_is(path, units, patch)
    surface, turned = outward(surface)
    if turned.any():
        surface.notes.append(f"{turned.sum():,} of {len(turned):,} faces turned outward")
    if units is None and (doubt := units_doubt(surface.length, surface.dimension)):
        surface.notes.append(doubt)
    return surface


def read_as_it_is(path: str | Path, units: str | None = None, patch: str | None = None) -> Surface:
    """Like `read_surface`, but with the cells facing the way the file has them."""
    if units is not None and units not in UNITS:
        raise InputError("unknown units", seen=units, remedy=f"give --units {'|'.join(UNITS)}")
    surface = _clean(_raw(Path(path), patch))
    if units is not None:
        surface = replace(surface, points=surface.points * UNITS[units])
    return surface


def units_doubt(length: float, dimension: int = 3) -> str | None:
    """A message for lengths (m) that are absurd for a vehicle or a wing, naming the option that would mend them."""
    if PLAUSIBLE[0] <= length <= PLAUSIBLE[1]:
        return None
    best = likely_units([length], dimension)
    if best is None:
        return f"a length of {length:.3g} m is absurd for a vehicle or a wing, and no units would mend it"
    return (
        f"a length of {length:.4g} m is absurd for a vehicle or a wing; "
        f"if the file is in {best} it is {length * UNITS[best]:.3g} m: pass --units {best} (or --units m to keep it)"
    )


def likely_units(lengths: Sequence[float], dimension: int = 3) -> str | None:
    """The units under which all lengths, in a file's own, are plausible, and the middle one comes nearest to usual."""
    low, high = PLAUSIBLE
    fitting = {name: scale for name, scale in UNITS.items() if all(low <= x * scale <= high for x in lengths)}
    usual = float(np.median(lengths))
    if "m" in fitting or not fitting:
        return "m" if fitting else None
    return min(fitting, key=lambda name: abs(math.log(usual * fitting[name] / USUAL[dimension])))


def curve_surface(curve: Floats, name: str, path: Path | None = None) -> Surface:
    """A closed curve (n, 2) as a surface."""
    index = np.arange(len(curve))
    return Surface(curve, np.stack([index, np.roll(index, -1)], axis=1), name, path)


def _raw(path: Path, patch: str | None) -> Surface:
    if path.is_dir() or path.suffix.lower() == ".foam":
        from aerosurrogate.mesh.volume import read_volume

        return read_volume(path).wall(patch)
    if not path.exists() and is_naca(str(path)):
        return curve_surface(naca(str(path)), str(path))
    path = named_in_folder(path) or path
    if not path.is_file():
        raise InputError("no such file", seen=path, remedy="give a mesh file, or an airfoil's name such as naca2412")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty")
    if path.suffix.lower() == ".stl":
        corners = read_stl(path)
        return Surface(corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3), path.stem, path)
    if is_section(path):
        points = read_section(path)
        curve = filled(points)
        said = "" if len(curve) == len(points) else "its points lie far apart: a smooth curve goes through them"
        return replace(curve_surface(curve, path.stem, path), notes=[said] if said else [])
    return replace(skin(load(path), str(path)), name=path.stem, path=path)


def skin(grid: "pv.UnstructuredGrid", label: str) -> Surface:
    """The faces of a grid, or the lines of a flat one, or else the boundary of its volume cells, triangulated."""
    points = np.asarray(grid.points, dtype=float)
    _refuse_non_finite(points[np.unique(grid.cell_connectivity)], label)
    flat = np.ptp(points[:, 2]) <= 1e-9 * np.ptp(points, axis=0).max()
    return _lines(grid, label) if flat else faces_of(grid, label)


def faces_of(grid: "pv.UnstructuredGrid", label: str) -> Surface:
    """The faces of a grid, or else the boundary of its volume cells, triangulated; also of one in a single plane."""
    kinds = grid.celltypes
    points = np.asarray(grid.points, dtype=float)
    faces = np.isin(kinds, SURFACE_CELLS) & (cell_sizes(grid) >= 3)
    if np.all(kinds == TRIANGLE):
        cells = grid.cell_connectivity.reshape(-1, 3).astype(np.int64)
        return Surface(points, cells, point_data=_arrays(grid.point_data), cell_data=_arrays(grid.cell_data))
    if not faces.any() and not np.isin(kinds, (*LINES, 1, 2)).all():
        faces = np.ones(len(kinds), dtype=bool)
    if not faces.any():
        raise InputError(f"{label}: holds no faces", seen=f"{grid.n_points:,} points, {grid.n_cells:,} other cells")
    mesh = grid.extract_cells(np.flatnonzero(faces)).extract_surface(algorithm="dataset_surface").triangulate()
    return Surface(
        np.asarray(mesh.points, dtype=float),
        mesh.regular_faces.astype(np.int64),
        point_data=_arrays(mesh.point_data),
        cell_data=_arrays(mesh.cell_data),
    )


def _lines(grid: "pv.UnstructuredGrid", label: str) -> Surface:
    lines = np.isin(grid.celltypes, LINES)
    if not lines.any():
        raise InputError(
            f"{label}: flat, and without lines that would outline a body",
            seen=f"{grid.n_cells:,} cells at z = {grid.points[0, 2]:g}",
            remedy="give a closed surface in 3D or a curve in the x-y plane",
        )
    indices = grid.cell_connectivity
    cell_of = np.repeat(np.arange(grid.n_cells), cell_sizes(grid))
    joins = np.flatnonzero((cell_of[:-1] == cell_of[1:]) & lines[cell_of[:-1]])
    cells = np.stack([indices[joins], indices[joins + 1]], axis=1).astype(np.int64)
    data = {name: values[cell_of[joins]] for name, values in _arrays(grid.cell_data).items()}
    points = np.asarray(grid.points, dtype=float)[:, :2]
    return Surface(points, cells, point_data=_arrays(grid.point_data), cell_data=data)


def _arrays(data: "pv.DataSetAttributes") -> Arrays:
    return {name: np.asarray(data[name]) for name in data.keys() if not name.startswith("vtkOriginal")}  # noqa: SIM118


def _refuse_non_finite(points: Floats, label: str) -> None:
    bad = int(np.sum(~np.isfinite(points).all(axis=1)))
    if bad:
        raise InputError(f"{label}: coordinates that are not finite numbers", seen=f"{bad:,} of {len(points):,} points")
    if len(points) and np.abs(points).max() > 1e12:
        raise InputError(f"{label}: coordinates beyond all measure", seen=f"{np.abs(points).max():.3g}")


def _clean(raw: Surface) -> Surface:
    """Duplicate points merged, degenerate and repeated cells and unused points left out; each counted in a note."""
    label = str(raw.path or raw.name)
    notes = list(raw.notes)
    used = np.zeros(len(raw.points), dtype=bool)
    used[raw.cells] = True
    _refuse_non_finite(raw.points[used], label)
    surface = _merged(raw if used.all() else raw.select(np.ones(len(raw.cells), dtype=bool)), bool(used.any()))
    lost = len(raw.points) - len(surface.points)
    if lost and raw.point_data:
        notes.append(f"{lost:,} duplicate or unused points left out")
    sound = surface.areas > _negligible(surface) if used.any() else np.zeros(0, dtype=bool)
    if not sound.any():
        raise InputError(f"{label}: holds no faces with an area", seen=f"{len(raw.cells):,} faces")
    if not sound.all():
        notes.append(f"{np.sum(~sound):,} degenerate faces left out")
        surface = surface.select(sound)
    first = np.sort(igl.unique_simplices(surface.cells)[1])
    if len(first) < len(surface.cells):
        notes.append(f"{len(surface.cells) - len(first):,} repeated faces left out")
        keep = np.zeros(len(surface.cells), dtype=bool)
        keep[first] = True
        surface = surface.select(keep)
    return replace(surface, notes=notes)


def _negligible(surface: Surface) -> float:
    """The area (2D: length) up to which a cell is degenerate."""
    return DEGENERATE * surface.length**2 if surface.dimension == 3 else MERGE * surface.length


def _merged(surface: Surface, any_used: bool) -> Surface:
    if not any_used or surface.length == 0:
        return surface
    _, kept, new = igl.remove_duplicate_vertices(np.ascontiguousarray(surface.points), MERGE * surface.length)
    if len(kept) == len(surface.points):
        return surface
    first = np.full(len(kept), len(surface.points))
    np.minimum.at(first, new, np.arange(len(new)))
    order = np.argsort(first)  # the file's own order of points is kept
    rank: Ints = np.empty(len(kept), dtype=np.int64)
    rank[order] = np.arange(len(kept))
    first = first[order]
    data = {name: values[first] for name, values in surface.point_data.items()}
    return replace(surface, points=surface.points[first], cells=rank[new][surface.cells], point_data=data)
