"""A case of a data set beside what a model answers for it, and the files that hold both.

A field `p` is written as `p` (the answer), `p_true` and `p_error` at the case's points: structured meshes as .vts,
others as .vtu with the triangles of a plane case, or the skin of a body and the points around it. Times go into one
file each, and a .pvd names them in order, which ParaView plays.
"""

import json
import xml.etree.ElementTree as ET
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.data.case import Case, field_spec
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.surface import in_space
from aerosurrogate.writing import replacing, write_text

PARTICLES = "positions"  # a field that is the places of particles
MOVED = {"displacement": slice(0, 2), PARTICLES: slice(0, 3)}  # fields whose first channels are where points have moved
WIDE = 4.0  # times the usual circumcircle: triangles with wider ones bridge a hole
_KEY = "aerosurrogate_case"
Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A case with a model's answers (n, channels); each field's channels are those of all `steps` in a row."""

    case: Case
    predicted: dict[str, Array]
    steps: int = 1
    model: str = ""
    dataset: str = ""

    def by(self, model: str) -> "HeldOut":
        """The same, naming the model that answered."""
        return replace(self, model=model)

    def true(self, name: str, step: int = 0) -> Array:
        """A field's true values (n, c) at one time."""
        return self._at(self.case.fields[name], step)

    def answer(self, name: str, step: int = 0) -> Array:
        """The model's values (n, c) of a field at one time."""
        return self._at(self.predicted[name], step)

    def places(self, values: Array, name: str) -> Array:
        """Where the points (n, d) are: as the case has them, or where a field's values at a time say."""
        moved = MOVED.get(name)
        whole = moved is not None and (name == PARTICLES or values.shape[1] >= 4)
        return values[:, moved] if whole else self.case.points

    def _at(self, values: Array, step: int) -> Array:
        width = values.shape[1] // self.steps
        return values[:, step * width : (step + 1) * width]

    def save(self, folder: Path) -> Path:
        """Write the case and return the file to open."""
        name, kind = self.case.name, ".vtu" if self.case.grid is None else ".vts"
        if self.steps == 1:
            return _write(self.mesh(), folder / f"{name}{kind}")
        files = []
        for step in range(self.steps):
            path = folder / name / f"{name}_{step:03d}{kind}"
            files.append(_write(self.mesh(step), path).relative_to(folder))
        rows = [f'<DataSet timestep="{step}" part="0" file="{file}"/>' for step, file in enumerate(files)]
        head = '<?xml version="1.0"?>\n<VTKFile type="Collection" version="0.1"><Collection>\n'
        write_text(folder / f"{name}.pvd", head + "\n".join(rows) + "\n</Collection></VTKFile>\n")
        return folder / f"{name}.pvd"

    def mesh(self, step: int = 0) -> Any:
        """One time as a pyvista mesh with its arrays at points."""
        import pyvista as pv

        case = self.case
        points = case.points
        for name in self.predicted:
            points = self.places(self.true(name, step), name)
        points = in_space(points)
        if case.grid is not None:
            mesh: Any = pv.StructuredGrid()
            mesh.points = points
            mesh.dimensions = [*reversed(case.grid), 1, 1][:3]  # VTK's first axis runs fastest, ours last
        else:
            cells = triangles(case) if case.dimensions == 2 else case.cells
            mesh = _unstructured(points, cells)
        for name in self.predicted:
            answer, true = self.answer(name, step), self.true(name, step)
            for label, values in ((name, answer), (f"{name}_true", true), (f"{name}_error", answer - true)):
                mesh.point_data[label] = _column(values, vector=field_spec(name).vector)
        for name, values in case.features.items():
            mesh.point_data[f"input_{name}"] = _column(values, vector=False)
        if case.surface.any():
            mesh.point_data["skin"] = case.surface.astype(np.uint8)
            if case.normals is not None:
                mesh.point_data["normal"] = in_space(case.normals)
        plain = {"name": case.name, "step": step, "steps": self.steps, "dimension": case.dimensions}
        plain |= {"grid": case.grid, "fields": {name: self.true(name).shape[1] for name in self.predicted}}
        plain |= {"model": self.model, "dataset": self.dataset}
        plain |= {"cells": None if case.cells is None else case.cells.tolist()} if case.dimensions == 2 else {}
        mesh.field_data[_KEY] = [json.dumps(plain)]
        mesh.field_data["units"] = [f"{name}: {field_spec(name).unit}" for name in self.predicted]
        return mesh


def is_held_out(path: Path) -> bool:
    """Whether a file is one that `HeldOut.save` wrote."""
    if path.suffix == ".pvd" and path.is_file():
        return is_held_out(_listed(path)[0])
    if path.suffix not in (".vts", ".vtu") or not path.is_file():
        return False
    with path.open("rb") as file:
        return _KEY.encode() in file.read(65536)


def read_held_out(path: Path) -> HeldOut:
    """The case and its answers in a file that `HeldOut.save` wrote; a .pvd gives all times."""
    from aerosurrogate.mesh.load import load

    files = _listed(path) if path.suffix == ".pvd" else [path]
    meshes = [load(file) for file in files]
    try:
        plain = json.loads(str(np.asarray(meshes[0].field_data[_KEY])[0]))
        d, names = plain["dimension"], plain["fields"]

        def joined(label: str, name: str) -> Array:
            parts = [np.asarray(mesh.point_data[label]) for mesh in meshes]
            parts = [part.reshape(len(part), -1)[:, : names[name]] for part in parts]
            return np.concatenate(parts, axis=1).astype(np.float32)

        first = meshes[0]
        cells = plain.get("cells")
        if d == 3:
            faces = first.cells_dict.get(5)
            cells = None if faces is None or not len(faces) else faces
        surface = np.asarray(first.point_data["skin"], bool) if "skin" in first.point_data else None
        case = Case(
            name=plain["name"],
            points=np.asarray(first.points, np.float32)[:, :d],
            surface=np.zeros(first.n_points, bool) if surface is None else surface,
            fields={name: joined(f"{name}_true", name) for name in names},
            normals=np.asarray(first.point_data["normal"])[:, :d] if "normal" in first.point_data else None,
            cells=None if cells is None else np.asarray(cells, np.int32),
            grid=None if plain["grid"] is None else tuple(plain["grid"]),
        )
        answers = {name: joined(name, name) for name in names}
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise InputError(f"{path}: not a case that predict DATASET wrote ({error})") from error
    return HeldOut(case, answers, len(meshes), plain["model"], plain["dataset"])


def _listed(path: Path) -> list[Path]:
    """The files of a .pvd by their times."""
    try:
        rows = [(float(e.attrib["timestep"]), e.attrib["file"]) for e in ET.parse(path).iter("DataSet")]
    except (ET.ParseError, KeyError, ValueError, OSError) as error:
        raise InputError(f"{path}: not a list of times ({error})", remedy="give a .pvd that predict wrote") from None
    if not rows:
        raise InputError(f"{path}: names no files", remedy="predict it again")
    return [path.parent / file for _, file in sorted(rows)]


def triangles(case: Case, points: Array | None = None) -> NDArray[np.int64]:
    """Triangles (m, 3) between the points of a plane case: none across its body or a hole in it."""
    from scipy.spatial import Delaunay

    points = case.points if points is None else points
    found = Delaunay(points.astype(float)).simplices.astype(np.int64)
    if case.surface.any():
        found = found[~case.surface[found].all(axis=1)]
        return found if case.normals is None else found[~_behind_skin(case, points[found].mean(axis=1))]
    corners = points[found].astype(float)
    sides = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)
    one, other = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    doubled = np.abs(one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0])
    radius = sides.prod(axis=1) / (2 * np.maximum(doubled, np.finfo(float).tiny))
    return found[radius < WIDE * np.median(radius)]


def _behind_skin(case: Case, places: Array) -> NDArray[np.bool_]:
    """(n,) whether places (n, 2) lie behind the nearest point of the skin, that is in the body."""
    from scipy.spatial import KDTree

    assert case.normals is not None
    skin, normals = case.points[case.surface], case.normals[case.surface]
    nearest = KDTree(skin).query(places)[1]
    return np.asarray(np.einsum("nd,nd->n", places - skin[nearest], normals[nearest]) < 0)


def _unstructured(points: NDArray, cells: NDArray | None) -> Any:
    """Triangles, and a vertex for each point that belongs to none."""
    import pyvista as pv

    cells = np.empty((0, 3), np.int64) if cells is None else cells
    lone = np.setdiff1d(np.arange(len(points)), cells)
    table = np.concatenate([np.insert(cells, 0, 3, axis=1).ravel(), np.insert(lone[:, None], 0, 1, axis=1).ravel()])
    kinds = np.concatenate([np.full(len(cells), 5, np.uint8), np.full(len(lone), 1, np.uint8)])
    return pv.UnstructuredGrid(table.astype(np.int64), kinds, points)


def _column(values: Array, *, vector: bool) -> Array:
    if values.shape[1] == 1:
        return values[:, 0]
    return in_space(values) if vector else values


def _write(mesh: Any, path: Path) -> Path:
    with replacing(path) as temporary:
        mesh.save(temporary)
    return path
