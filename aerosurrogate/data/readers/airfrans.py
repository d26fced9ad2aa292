"""AirfRANS as published: `manifest.json` and a folder a case, airFoil2D_SST_<speed>_<alpha>_<NACA digits>.

A case's `_internal.vtu` holds U, p (kinematic), nut at points; those where U is zero are the skin. `_aerofoil.vtp`
holds the contour, whose published normals point into the body: ours, from its lines, point out of it, and areas are
half the lines on either side. Cases: fields `p` (static, with the published density), `U`, `nut`, and
`wallShearStress` of the velocity's gradient at the wall, from which the true coefficients follow. Where the published
inputs have no normals (off the skin), ours have the direction away from the nearest skin point.

Splits: full, scarce, reynolds and aoa, `_train` and `_test` (the scarce task is tested on `full_test`); `train` and
`test` are those of the full task. Unless told otherwise only the published training box is kept.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyvista as pv
from numpy.typing import NDArray
from scipy.spatial import KDTree

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options
from aerosurrogate.data.readers.meshes import Points, array, flow_case, offsets, vertex_volumes
from aerosurrogate.data.splits import Splits, four_to_one
from aerosurrogate.data.store import Entries
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.load import load
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.surface import Surface

VERSION = 2
DENSITY, VISCOSITY, CHORD = 1.184, 1.56e-5, 1.0
BOX = ((-2.0, -1.5), (4.0, 1.5))  # chords
NAME = re.compile(r"airFoil2D_SST_(?P<speed>[\d.]+)_(?P<alpha>-?[\d.]+)_(?P<digits>[\d._]+)")
TOUCHING = 1e-5  # m: how far a skin point of the internal mesh may lie from its own in the contour's file


def _folder(source: Path) -> Path:
    return source / "Dataset" if (source / "Dataset").is_dir() else source


def _published(source: Path) -> Splits:
    path = _folder(source) / "manifest.json"
    try:
        splits = json.loads(path.read_text())
        return {name: list(map(str, cases)) for name, cases in splits.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError(f"{path} is not AirfRANS' list of splits", seen=error) from None


def recognises(source: Path) -> bool:
    return any(NAME.fullmatch(path.name) and path.is_dir() for path in [source, *_folder(source).glob("airFoil2D_*")])


def batches(source: Path, options: Options) -> list[Batch]:
    listed = [name for names in _published(source).values() for name in names]
    here = sorted(path.name for path in _folder(source).glob("airFoil2D_*") if path.is_dir())
    single = NAME.fullmatch(source.name) is not None
    root = source.parent if single else _folder(source)
    names = [source.name] if single else list(dict.fromkeys(listed + here))
    return [
        Batch((name,), tuple(root / name / f"{name}{end}" for end in ("_internal.vtu", "_aerofoil.vtp")))
        for name in names
    ]


def read(batch: Batch, name: str, options: Options) -> Case:
    internal, contour = batch.files
    match = NAME.fullmatch(name)
    if match is None:
        raise InputError(f"{name} does not have the form airFoil2D_SST_<speed>_<alpha>_<digits>", seen=internal.parent)
    conditions = Conditions(float(match["speed"]), CHORD, float(match["alpha"]), DENSITY, VISCOSITY)
    surface = read_surface(contour)
    if surface.dimension != 2:
        raise InputError(f"{contour} does not hold a contour in a plane", seen=surface.size)
    grid = load(internal)
    points = np.asarray(grid.points, dtype=float)[:, :2]
    U = array(grid.point_data, "U", internal.name)[:, :2]
    still = np.flatnonzero(~U.any(axis=1))
    mine, index = _skin(surface, points[still], internal)
    vectors = surface.point_area_vectors[index]
    still = still[mine]
    fields = {
        "p": DENSITY * array(grid.point_data, "p", internal.name),
        "U": U,
        "nut": array(grid.point_data, "nut", internal.name),
    }
    on_skin = {key: values[still] for key, values in fields.items()}
    on_skin["wallShearStress"] = _wall_shear(grid, still, vectors)
    rest = np.ones(len(points), bool)
    rest[still] = False
    if options.crop:
        rest &= ((points >= BOX[0]) & (points <= BOX[1])).all(axis=1)
    around = Points(points, vertex_volumes(grid), fields).take(rest)
    tags = {"naca": match["digits"].replace("_", " ")}
    skin = Points(points[still], vectors, on_skin, np.argsort(index)[surface.cells])
    return flow_case(name, surface, skin, around, conditions, tags=tags)


def _skin(surface: Surface, points: NDArray[Any], internal: Path) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Which of the points where the air stands still lie on the contour, and which of its points (k,) they are."""
    if not len(points):
        raise InputError(f"{internal.name} has no point where the air stands still", seen="no U = 0")
    gap, index = KDTree(surface.points).query(points)
    mine = np.flatnonzero(gap < TOUCHING)
    covered = len(np.unique(index[mine]))
    if covered < len(surface.points) or len(mine) > covered:
        raise InputError(
            f"the skin of {internal.name} is not that of its contour",
            seen=f"{len(mine)} points on {covered} of the contour's {len(surface.points)}",
        )
    return mine, index[mine]


def _wall_shear(grid: pv.UnstructuredGrid, skin: NDArray[np.intp], vectors: NDArray[np.float64]) -> NDArray[Any]:
    """Stress of the fluid on the body (k, 2), Pa: mu (grad u + grad u^T) n with the normal n into the fluid."""
    normals = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(float).tiny)
    touching = np.zeros(grid.n_points, bool)
    touching[skin] = True
    cells = np.add.reduceat(touching[grid.cell_connectivity], offsets(grid)[:-1]) > 0
    near = grid.extract_cells(np.flatnonzero(cells))
    gradient = np.asarray(near.compute_derivative(scalars="U", gradient="grad").point_data["grad"])
    place = np.full(grid.n_points, -1)
    place[near.point_data["vtkOriginalPointIds"]] = np.arange(near.n_points)
    jacobian = gradient.reshape(-1, 3, 3)[place[skin], :2, :2]
    strain = jacobian + jacobian.transpose(0, 2, 1)
    return DENSITY * VISCOSITY * np.einsum("kij,kj->ki", strain, normals)


def splits(source: Path, cases: Entries) -> Splits:
    published = {split: [n for n in names if n in cases] for split, names in _published(source).items()}
    if not published:
        return four_to_one(cases)
    return published | {"train": published.get("full_train", []), "test": published.get("full_test", [])}
