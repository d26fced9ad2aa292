"""What the readers of mesh files share: from a body's skin and the points around it to a Case."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyvista as pv
from numpy.typing import NDArray
from scipy.spatial import KDTree

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Case, field_spec
from aerosurrogate.data.thinning import Draw, draw_skin
from aerosurrogate.errors import InputError
from aerosurrogate.mesh import surroundings
from aerosurrogate.mesh.distance import nearest
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.mesh.vtu import Cells, VtuFile

Floats = NDArray[np.float64]
TOUCHING = 1e-12  # body lengths
SCOUTS = 300_000  # points of a skin to which the distance of cells is measured: 9 mm apart on a car
MEASURED = 4096, 2048  # points on and around a body of which no more than coefficients is known


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
    return Points(surface.centres, surface.area_vectors, fields, between_centres(surface))


def between_centres(surface: Surface) -> NDArray[np.int64]:
    """Lines or triangles (k, d) between the centres of neighbouring faces: a skin through those, facing as it does."""
    corner, d = surface.cells, surface.dimension
    if d == 2:  # where one segment ends the next begins
        begins = np.full(len(surface.points), -1)
        begins[corner[:, 0]] = np.arange(len(corner))
        pairs = np.stack([np.arange(len(corner)), begins[corner[:, 1]]], axis=1)
        return pairs[pairs[:, 1] >= 0]
    # The faces around each point, in the order of their angle about its normal, as a fan of triangles.
    points, faces = corner.ravel(), np.repeat(np.arange(len(corner)), 3)
    normal = surface.point_normals[points]
    arm = surface.centres[faces] - surface.points[points]
    axis = np.eye(3)[np.abs(surface.point_normals).argmin(axis=1)][points]
    first = np.cross(normal, axis)
    angle = np.arctan2(np.einsum("kd,kd->k", arm, np.cross(normal, first)), np.einsum("kd,kd->k", arm, first))
    order = np.lexsort([angle, points])
    points, faces = points[order], faces[order]
    start = np.searchsorted(points, points)  # where the fan of each begins
    inner = np.flatnonzero((np.arange(len(points)) > start) & (np.append(points[1:], -1) == points))
    return np.stack([faces[start[inner]], faces[inner], faces[inner + 1]], axis=1)


def thinned(skin: Points, keep: int, seed: int) -> Points:
    """The skin with at most `keep` of its faces, under which area, force and pitching moment stay the same."""
    if len(skin.points) <= keep or skin.points.shape[1] != 3:
        return skin
    areas = np.linalg.norm(skin.sizes, axis=1)
    normals = skin.sizes / np.maximum(areas, np.finfo(float).tiny)[:, None]
    rows, shares = draw_skin(skin.points, normals, areas, skin.fields, keep, np.random.default_rng(seed))
    fields = {name: values[rows] for name, values in skin.fields.items()}
    return Points(skin.points[rows], normals[rows] * shares[:, None], fields)


def drawn_while_read(
    file: VtuFile,
    names: Mapping[str, str | tuple[str, ...]],
    surface: Surface,
    place: Callable[[Floats], Floats],
    metres: float,
    keep: int,
    seed: int,
) -> Points:
    """At most `keep` cells around a 3D body, drawn by the density that models use while the file is read.

    `names` are the file's arrays by ours (three for a vector that is stored by component), `place` leads from its
    positions to those of `surface`, and `metres` is a unit of its lengths. A drawn cell's size is the volume that it
    stands for. The density takes the distance to points of the skin, a few millimetres more than that to its faces.
    """
    length, region = surface.size[0], surroundings.CAR
    skin = KDTree(surroundings.on_skin(surface, min(SCOUTS, 20 * len(surface.cells)), seed).points)
    wanted = {ours: (theirs,) if isinstance(theirs, str) else theirs for ours, theirs in names.items()}
    draw = Draw(keep, seed)
    low, high = surface.bounds
    for cells in file.chunks([name for group in wanted.values() for name in group]):
        points, volumes = place(cells.centres), cells.volumes * metres**3
        beside = np.linalg.norm(np.maximum(np.maximum(low - points, points - high), 0), axis=1)
        most = region.density(beside / length) * volumes * region.contains(points / length)

        def weigh(index: NDArray[np.intp], cells: Cells = cells, points: Floats = points, v: Floats = volumes) -> Any:
            density = region.density(skin.query(points[index])[0] / length)
            fields = {ours: np.hstack([cells.fields[name][index] for name in group]) for ours, group in wanted.items()}
            return density * v[index], {"points": points[index], "volumes": v[index], **fields}

        draw.add(most, weigh)
    if not len(draw.turn):
        raise InputError(f"{file.label}: no cells around the body", remedy="check units and axes")
    rows = dict(draw.rows)
    points, volumes = rows.pop("points"), rows.pop("volumes") / draw.chances
    return Points(points, volumes, rows)


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


def measured_points(surface: Surface, stream: Conditions, seed: int) -> tuple[Points, Points]:
    """Points on and around a body (m, model's frame) of which no more than coefficients is known, drawn as models
    draw them."""
    on, off = MEASURED
    scaled = surface.transformed(np.eye(surface.dimension), np.zeros(surface.dimension), 1 / stream.length)
    skin = surroundings.on_skin(scaled, on, seed)
    air = surroundings.around(surroundings.usual_region(surface.dimension, stream.ground), scaled, off, seed + 1)
    shares = surface.normals[skin.cells] * (surface.areas.sum() / on)
    return Points(skin.points * stream.length, shares), Points(air.points * stream.length, np.zeros(off))


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


def as_half(case: Case) -> Case:
    """Half a body on the side y >= 0; one on the other side is turned over."""
    case = replace(case, symmetry="y", reference=case.reference | {"area": 2 * case.reference["area"]})
    n = len(case.points)
    if case.points[:, 1].mean() >= 0:
        return case
    return replace(case.whole().take(np.arange(n, 2 * n)), symmetry="y")
