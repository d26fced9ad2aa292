"""DrivAerNet and DrivAerNet++: 4,000 and 8,000 cars at 30 m/s, RANS (k-omega SST); pressure and shear on their skins.

Published by Elrefaie et al. (github.com/Mohamedelrefaie/DrivAerNet: names of files and columns from its READMEs and
scripts; data on Harvard Dataverse; arXiv 2403.08055 and 2406.09624), unpacked into one folder:

    PressureVTK/*/F_D_WM_WW_0001.vtk                p at points (SurfacePressureVTK in the first version)
    WallShearStressVTK_Updated/*/F_D_WM_WW_0001.vtk wallShearStress at the same points, in another order
    DrivAerNetPlusPlus_Cd_8k_Updated.csv            Design, Average Cd (the first version: also Average Cl)
    DrivAerNetPlusPlus_CarDesign_Areas.csv          Car Design, Frontal Area (m2): the reference area
    train_val_test_splits/train_design_ids.txt      and val_, test_: one design a line

Metres; flow +x, up +z, ground at z = 0. simpleFoam's kinematic values: p and wallShearStress are per density, which is
1.2 kg/m3 (the authors in issue 2 of their repository), and the shear is that of the wall on the fluid. The published
drag is a mean over iterations, the fields are those of the last one, so that integrals differ from it by some per
cent. A car of which only one side is stored gives half a body. The volumes (CFD/) are not read. The viscosity is that
of air at 15 degrees.
"""

import csv
import re
import zlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from aerosurrogate.conditions import VISCOSITY, Conditions, FlowAxes
from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options
from aerosurrogate.data.readers.meshes import array, as_half, at_vertices, flow_case, thinned
from aerosurrogate.data.splits import Splits, four_to_one
from aerosurrogate.data.store import Entries
from aerosurrogate.errors import InputError
from aerosurrogate.forces import silhouette_area
from aerosurrogate.mesh.load import load
from aerosurrogate.mesh.read import skin
from aerosurrogate.mesh.surface import Surface

VERSION = 1
SPEED, DENSITY = 30.0, 1.2
PRESSURE, SHEAR = "*PressureVTK*", "WallShearStressVTK*"
LISTS = {"train": "train", "validation": "val", "test": "test"}
HALF = 1e-3  # body lengths: a skin that reaches no further across the middle is one side of a car


def recognises(source: Path) -> bool:
    return source.is_dir() and any(folder.is_dir() for folder in source.glob(PRESSURE))


def batches(source: Path, options: Options) -> list[Batch]:
    shears = {path.stem: path for path in sorted(source.glob(f"{SHEAR}/**/*.vtk"))}
    tables = sorted(source.glob("*.csv"))
    found = []
    for path in sorted(source.glob(f"{PRESSURE}/**/*.vtk")):
        files = [path, *([shears[path.stem]] if path.stem in shears else []), *tables]
        found.append(Batch((_design(path.stem),), tuple(files)))
    return found


def _design(name: str) -> str:
    """A design's id, which some files carry behind the name of the set."""
    return re.sub(r"^(DrivAer_|combined_)", "", name.strip())


def read(batch: Batch, name: str, options: Options) -> Case:
    path, *rest = batch.files
    surface = _surface(path)
    fields = {"p": DENSITY * array(surface.point_data, "p", str(path)).reshape(-1, 1)}
    for shear in (file for file in rest if file.suffix == ".vtk"):
        fields["wallShearStress"] = -DENSITY * _matched(surface, shear)
    length, low, high = surface.size[0], *surface.bounds
    half = min(abs(low[1]), abs(high[1])) <= HALF * length
    middle = np.array([0.5 * (low[0] + high[0]), 0.0 if half else 0.5 * (low[1] + high[1]), 0.0])
    moved = surface.transformed(np.eye(3), -middle)
    conditions = Conditions(SPEED, float(length), 0.0, DENSITY, VISCOSITY, ground=True)
    row = {key: value for file in rest if file.suffix == ".csv" for key, value in _table(file).get(name, {}).items()}
    shadow = silhouette_area(moved.corners, FlowAxes.parse()) if "area" not in row else row["area"] / (1 + half)
    reference = {key: row[key] for key in ("cd", "cl") if key in row} | {"area": shadow}
    on_skin = thinned(at_vertices(moved, fields), options.keep, zlib.crc32(name.encode()))
    case = flow_case(name, moved, on_skin, None, conditions, reference=reference, tags={"kind": name.split("_")[0]})
    return as_half(case) if half else case


def _surface(path: Path) -> Surface:
    surface = skin(load(path), str(path))
    return surface if surface.volume > 0 else replace(surface, cells=surface.cells[:, ::-1])


def _matched(surface: Surface, path: Path) -> Any:
    """(n, 3) shear at the surface's points, from a file that holds the same points in any order."""
    grid = load(path)
    shear = array(grid.point_data, "wallShearStress", str(path))
    gap, row = KDTree(np.asarray(grid.points, dtype=float)).query(surface.points)
    if gap.max() > 1e-6 * surface.length:
        seen = f"{int((gap > 1e-6 * surface.length).sum())} of {len(gap)} points have no shear"
        raise InputError(f"{path}: shear on another mesh than the pressure's", seen=seen)
    return shear[row]


@lru_cache(maxsize=8)
def _table(path: Path) -> dict[str, dict[str, float]]:
    """cd, cl and area by design, of a table that has any of them."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        said = {(key or "").strip().lower(): value for key, value in row.items()}
        name = said.get("design") or said.get("car design") or said.get("experiment")
        keys = {"average cd": "cd", "average cl": "cl"}
        keys |= {key: "area" for key in said if key.startswith("frontal area")}
        values = {ours: float(said[theirs]) for theirs, ours in keys.items() if said.get(theirs)}
        if name and values:
            found[_design(name)] = values
    return found


def splits(source: Path, cases: Entries) -> Splits:
    """The published lists of designs, those that were read; without them every fifth design is for testing."""
    found: Splits = {}
    for split, word in LISTS.items():
        for path in sorted(source.rglob(f"{word}_design_ids.txt"))[:1]:
            listed = {_design(line) for line in path.read_text(encoding="utf-8").split()}
            found[split] = [name for name in cases if name in listed]
    return found if found.get("train") and found.get("test") else four_to_one(cases)
