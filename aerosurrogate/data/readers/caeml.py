"""What DrivAerML, AhmedML and WindsorML share: a folder a geometry, `run_N`, with its skin, its air and its forces.

    run_N/boundary_N.vtp      skin with time-averaged fields (WindsorML: .vtu)
    run_N/volume_N.vtu        air, whole or cut into volume_N.vtu.00.part, .01.part, ...; may be left out
    run_N/force_mom_N.csv     coefficients, on one reference area for all geometries or on each one's own
    run_N/geo_ref_N.csv       DrivAerML: reference area and ground of the geometry
    run_N/geo_parameters_N.csv

Cases come in the model's frame. The volume is streamed and both parts are thinned (`Options.keep`); forces stay. The
faces of a file look all one way, and the sign of the volume they enclose tells which.
"""

import csv
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aerosurrogate.conditions import Conditions, FlowAxes
from aerosurrogate.data.case import Case, field_spec
from aerosurrogate.data.readers import Batch, Options
from aerosurrogate.data.readers.meshes import Points, at_faces, drawn_while_read, flow_case, thinned
from aerosurrogate.data.splits import Splits, four_to_one
from aerosurrogate.data.store import Entries
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.load import load
from aerosurrogate.mesh.read import skin
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.mesh.vtu import VtuFile, parts_of

Names = Mapping[str, str | tuple[str, ...]]
MEASURES = re.compile(r"\(([^)]*)\)")


@dataclass(frozen=True)
class PublishedRuns:
    """How one of the sets writes its runs."""

    geometry: str  # begins the name of the STL file
    boundary: str  # ends that of the skin
    speed: float  # m/s
    viscosity: float  # m2/s
    skin: Names  # arrays of the skin by our names
    air: Names  # and of the air
    area: float | None = None  # m2, reference area of force_mom; unless said that of geo_ref
    coefficients: bool = False  # skin values are coefficients of pressure and friction, of the fluid on the body
    up: str = "+z"
    density: float = 1.0  # kg/m3: published values are per density, and one makes them Pa as they are

    def recognises(self, source: Path) -> bool:
        return bool(self._runs(source)) and any(
            next(run.glob(f"{self.geometry}_*.stl"), None) or self._skin(run) for run in self._runs(source)[:3]
        )

    def _runs(self, source: Path) -> list[Path]:
        folders = [source] if re.fullmatch(r"run_\d+", source.name) else list(source.glob("run_*"))
        return sorted((f for f in folders if re.fullmatch(r"run_\d+", f.name) and f.is_dir()), key=_number)

    def _skin(self, run: Path) -> bool:
        """Whether a run's skin has this set's arrays, where no STL tells."""
        path = run / f"boundary_{_number(run)}{self.boundary}"
        first = self.skin["p"]
        return path.is_file() and str(first).encode() in path.open("rb").read(1 << 16)

    def batches(self, source: Path, options: Options) -> list[Batch]:
        found = []
        for run in self._runs(source):
            number = _number(run)
            tables = [run / f"{kind}_{number}.csv" for kind in ("force_mom", "force_mom_varref", "geo_ref")]
            tables += [run / f"geo_parameters_{number}.csv"]
            files = [run / f"boundary_{number}{self.boundary}", *parts_of(run / f"volume_{number}.vtu"), *tables]
            found.append(Batch((run.name,), tuple(files)))
        return found

    def read(self, batch: Batch, name: str, options: Options) -> Case:
        path, seed = batch.files[0], zlib.crc32(name.encode())
        tables = {file.name.rsplit("_", 1)[0]: _row(file) for file in batch.files if file.suffix == ".csv"}
        axes = FlowAxes.parse("+x", self.up)
        surface = skin(load(path), str(path))
        if surface.volume < 0:
            surface = replace(surface, cells=surface.cells[:, ::-1])
        origin = _origin(surface, axes, tables["geo_ref"])
        moved = surface.transformed(axes.to_model, -axes.to_model @ origin)
        conditions = Conditions(self.speed, float(moved.size[0]), 0.0, self.density, self.viscosity, ground=True)
        on_skin = thinned(self._skin_points(moved, axes, conditions, path), options.keep, seed)
        volume = [file for file in batch.files if ".vtu" in file.name and file != path]
        around = None
        if volume:
            file = VtuFile(*volume)
            around = drawn_while_read(
                file,
                _present(self.air, file),
                moved,
                lambda places: (places - origin) @ axes.to_model.T,
                1.0,
                options.keep,
                seed,
            )
            turned = {k: v @ axes.to_model.T if field_spec(k).vector else v for k, v in around.fields.items()}
            turned |= {k: self.density * v for k, v in turned.items() if k == "p"}
            around = replace(around, fields=turned)
        tags = {k: v for k, v in tables["geo_parameters"].items() if k.lower() != "run"}
        return flow_case(name, moved, on_skin, around, conditions, reference=self._truth(tables), tags=tags)

    def _skin_points(self, moved: Surface, axes: FlowAxes, conditions: Conditions, path: Path) -> Points:
        """The skin with pressure and shear in Pa, of the fluid on the body, in the model's axes."""
        first = self.skin["p"]
        by_face = first in moved.cell_data
        data = moved.cell_data if by_face else moved.point_data
        values = {}
        for ours, theirs in self.skin.items():
            group = (theirs,) if isinstance(theirs, str) else theirs
            missing = [each for each in group if each not in data]
            if missing:
                raise InputError(f"{path} has no array {missing[0]}", seen=", ".join(data) or "no arrays")
            columns = np.hstack([np.asarray(data[each], dtype=float).reshape(len(data[each]), -1) for each in group])
            values[ours] = columns if by_face else columns[moved.cells].mean(axis=1)
        unit = conditions.dynamic_pressure if self.coefficients else self.density
        # OpenFOAM's shear is that of the wall on the fluid.
        sign = 1.0 if self.coefficients else -1.0
        fields = {"p": unit * values["p"], "wallShearStress": sign * unit * values["wallShearStress"] @ axes.to_model.T}
        return at_faces(moved, fields)

    def _truth(self, tables: Mapping[str, Mapping[str, str]]) -> dict[str, float]:
        """Published coefficients, the area they refer to, and the geometry's own frontal area."""
        force, own = ({k.lower(): v for k, v in tables[t].items()} for t in ("force_mom", "force_mom_varref"))
        area = self.area or (float(tables["geo_ref"]["aRef"]) if "aRef" in tables["geo_ref"] else None)
        truth: dict[str, float] = {key: float(force[key]) for key in ("cd", "cl") if key in force}
        if area is None:
            return truth
        frontal = area * truth["cd"] / float(own["cd"]) if "cd" in own and "cd" in truth else area
        return truth | {"area": area, "silhouette": frontal}

    def splits(self, source: Path, cases: Entries) -> Splits:
        """Those that come with the set (splits/manifest.json), or every fifth run for testing."""
        return published_splits(source, cases) or four_to_one(cases)


def published_splits(source: Path, cases: Mapping[str, Any]) -> Splits:
    """Families of splits as `FAMILY_train`, `FAMILY_test`, the first of them also as `train` and `test`."""
    path = source / "splits" / "manifest.json"
    if not path.is_file():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    families = document.get("splits", document.get("families", document))
    found: Splits = {}
    for family, parts in families.items() if isinstance(families, dict) else ():
        if not isinstance(parts, dict):
            continue
        for part in ("train", "validation", "val", "test"):
            names = parts.get(part, parts.get(f"{part}_case_ids"))
            if isinstance(names, list):
                runs = [f"run_{name}" if isinstance(name, int) else str(name) for name in names]
                own = [name for name in runs if name in cases]
                found[f"{family}_{'validation' if part == 'val' else part}"] = own
                found.setdefault("validation" if part == "val" else part, own)
    return found if found.get("train") and found.get("test") else {}


def _present(names: Names, file: VtuFile) -> Names:
    """The arrays that a volume has; there must be a velocity."""
    have = {*file.names("CellData"), *file.names("PointData")}
    groups = {ours: (theirs,) if isinstance(theirs, str) else theirs for ours, theirs in names.items()}
    found = {ours: group for ours, group in groups.items() if have.issuperset(group)}
    if "U" not in found:
        raise InputError(f"{file.label} has no array {groups['U'][0]}", seen=", ".join(sorted(have)) or "no arrays")
    return found


def _number(run: Path) -> int:
    return int(run.name.split("_")[1])


def _row(path: Path) -> dict[str, str]:
    """The one row of a small table, {} where there is none."""
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {k.strip(): v.strip() for k, v in rows[0].items() if k and v} if rows else {}


def _origin(surface: Surface, axes: FlowAxes, reference: Mapping[str, str]) -> Any:
    """(3,) mid-length, mid-width, on the ground, in the file's axes.

    The ground is where the publisher takes moments about, the file's zero, or the lowest point below or well above it.
    """
    along, across, height = (surface.points @ axis for axis in (axes.flow, axes.side, axes.up))
    lowest, length = float(height.min()), float(np.ptp(along))
    ground = 0.0 if -0.02 * length <= lowest <= 0.15 * length else lowest
    if found := MEASURES.search(reference.get("forcesCoR", "")):
        ground = float(np.array(found[1].split(), dtype=float) @ axes.up)
    middle = np.array([0.5 * (along.min() + along.max()), 0.5 * (across.min() + across.max()), ground])
    return axes.to_model.T @ middle
