"""What the readers of mesh files share: from a body's skin and the points around it to a Case."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyvista as pv
from numpy.typing import NDArray

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Case, field_spec
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.distance import nearest
from aerosurrogate.mesh.surface import Surface

Floats = NDArray[np.float64]
TOUCHING = 1e-12  # body lengths


@dataclass(frozen=True, eq=False)
class Points:
    """Places with values. `sizes`: vectors of area (n, d) on the skin, volumes (n,) around it."""

    points: Floats  # (n, d)
    sizes: Floats
    fields: dict[str, NDArray[Any]] = field(default_factory=dict)  # (n,) or (n, c) each
    cells: NDArray[np.integer] | None = None  # (m, d) lines or triangles of a skin between these points

    def take(self, rows: NDArray[Any]) -> "Points":
        return Points(self.points[rows], self.sizes[rows], {k: v[rows] for k, v in self.fields.items()})


def at_vertices(surface: Surface, fields: dict[str, NDArray[Any]]) -> Points:
    """The skin at its vertices, each with its share of the faces around it."""
    return Points(surface.points, surface.point_area_vectors, fields, surface.cells)


def at_faces(surface: Surface, fields: dict[str, NDArray[Any]]) -> Points:
    """The skin at the centres of its faces."""
    return Points(surface.centres, surface.area_vectors, fields)


def vertex_volumes(grid: pv.UnstructuredGrid) -> Floats:
    """(n,) each cell's volume (area, where cells are flat) shared equally among its corners."""
    counts = np.diff(offsets(grid))
    share = np.repeat(cell_volumes(grid) / np.maximum(counts, 1), counts)
    return np.bincount(grid.cell_connectivity, share, grid.n_points).astype(float)


def offsets(grid: pv.UnstructuredGrid) -> NDArray[np.int64]:
    """(m + 1,) where each cell's corners begin in the connectivity."""
    return np.asarray(pv.convert_array(grid.GetCells().GetOffsetsArray()))


def cell_volumes(grid: pv.UnstructuredGrid) -> Floats:
    """(m,) volumes of the cells, or areas of flat ones."""
    sizes = grid.compute_cell_sizes(length=False, area=True, volume=True)
    volumes, areas = (np.abs(np.asarray(sizes.cell_data[name], dtype=float)) for name in ("Volume", "Area"))
    return volumes if volumes.any() else areas


def array(data: Any, name: str, where: str) -> NDArray[Any]:
    """An array of a file. InputError, naming those there are, where it is missing."""
    if name not in data:
        raise InputError(f"{where} has no array {name}", seen=", ".join(data.keys()) or "none")
    return np.asarray(data[name])


def flow_case(
    name: str,
    surface: Surface,
    skin: Points,
    around: Points | None,
    conditions: Conditions | None,
    *,
    reference: dict[str, float] | None = None,
    tags: dict[str, str] | None = None,
    notes: list[str] | None = None,
) -> Case:
    """A body and the flow around it, everything in the model's frame and SI units.

    Fields that only one of the two parts has are zero on the other. No point of `around` lies inside the body.
    Distances and directions follow from `surface`; true coefficients from pressure and shear, where the area is known
    (2D, or `reference["area"]`).
    """
    d = surface.dimension
    notes = [*surface.notes, *(notes or [])]
    around = around or Points(np.empty((0, d)), np.empty(0))
    gap, closest, cells = nearest(surface, around.points)
    touching = gap <= TOUCHING * surface.length  # where rounding leaves no direction
    away = (around.points - closest) / np.where(touching, 1.0, gap)[:, None]
    away = np.where(touching[:, None], surface.normals[cells], away)
    n, m = len(skin.points), len(around.points)
    areas = np.linalg.norm(skin.sizes, axis=1)
    normals = skin.sizes / np.maximum(areas, np.finfo(float).tiny)[:, None]

    def both(on: NDArray[Any], off: NDArray[Any]) -> NDArray[np.float32]:
        return np.concatenate([on, off]).astype(np.float32)

    def values(part: Points, key: str) -> NDArray[Any]:
        if key not in part.fields:
            return np.zeros((len(part.points), d if field_spec(key).vector else 1))
        given = part.fields[key].reshape(len(part.points), -1)
        return given[:, :d] if field_spec(key).vector else given

    case = Case(
        name=name,
        points=both(skin.points, around.points),
        surface=np.arange(n + m) < n,
        normals=both(normals, away),
        areas=both(areas, np.zeros(m)),
        distance=both(np.zeros(n), gap),
        volumes=both(np.zeros(n), around.sizes) if around.sizes.any() else None,
        cells=None if skin.cells is None else skin.cells.astype(np.int32),
        fields={key: both(values(skin, key), values(around, key)) for key in {**skin.fields, **around.fields}},
        conditions=conditions,
        reference=reference or {},
        tags=(tags or {}) | ({"repaired": "; ".join(notes)} if notes else {}),
    )
    return case.with_coefficients() if "p" in skin.fields else case
