"""Fields around one design: what `predict` answers, and the file that holds it.

The file is a VTU with everything on cells, and on points as means of the cells about them. `region` tells cells apart:
0 the skin's own triangles (lines in 2D), 1 the surroundings, 2 the plane in the middle. Units, conditions and the
coefficients stand in the field data, once for people (`units`, `cd`, `cl`, ...) and once as JSON (`aerosurrogate`),
from which the same numbers come back.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from aerosurrogate import __version__, forces
from aerosurrogate.body import Body
from aerosurrogate.conditions import Conditions
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.surface import Surface, in_space
from aerosurrogate.trust import intervals
from aerosurrogate.trust.familiarity import Mark, Verdict
from aerosurrogate.trust.intervals import Uncertainty
from aerosurrogate.writing import replacing

SKIN, SURROUNDINGS, PLANE = 0, 1, 2
REGIONS = ("skin", "surroundings", "middle plane")
UNITS = {"p": "Pa", "Cp": "-", "U": "m/s", "wallShearStress": "Pa", "nut": "m2/s"}
FIGURES = (
    "cd", "cl", "cd_low", "cd_high", "cl_low", "cl_high", "cm", "ld", "cda_m2", "drag_n", "lift_n", "cd_integrated",
    "cl_integrated", "cd_pressure", "cd_friction", "area_m2", "length_m", "speed", "alpha", "density", "viscosity",
    "reynolds", "model", "trust",
)  # fmt: skip
_KEY = "aerosurrogate"
_CELL_TYPES = {(3, 1): 1, (3, 3): 5, (3, 4): 9, (3, 8): 12, (2, 1): 1, (2, 2): 3, (2, 3): 5, (2, 4): 9}  # VTK's

LOPSIDED = 1.5  # times as far one way as the other: no longer ± one number
WHEELBASE = 0.6  # body lengths, about mid-length: where axle lifts are taken, as files do not say where axles are

Arrays = dict[str, NDArray[Any]]


class Row(TypedDict):
    """One design of a ranking, as in the JSON document; None where a value is not known or has no meaning."""

    name: str
    file: str
    rank: int  # 0 until it is ranked
    cd: float  # best estimate, by `route`
    cl: float
    cd_low: float | None  # 90 % interval; None where none can be given
    cd_high: float | None
    cl_low: float | None
    cl_high: float | None
    rank_low: int | None  # designs that cannot be told apart share ranks: this one's is from rank_low to rank_high
    rank_high: int | None
    chance_best: float | None
    chance_among_best: dict[str, float] | None  # of the best 3, 5 and 10
    chance_better: float | None  # than the baseline
    cd_counts: float | None  # drag less the baseline's, in 0.001, and its 90 % interval; in per cent of it
    cd_counts_low: float | None
    cd_counts_high: float | None
    cd_percent: float | None
    cd_percent_low: float | None
    cd_percent_high: float | None
    known: bool  # cd, and cl where it was given, are given values
    state: str | None  # which of several states of one shape
    cm: float
    cs: float  # side force
    ld: float | None  # cl / cd
    cda_m2: float  # cd x area
    cl_front: float | None  # lift on the front axle and on the rear one, which add up to cl; 3D over a ground
    cl_rear: float | None
    drag_n: float
    lift_n: float
    side_n: float
    cd_integrated: float
    cl_integrated: float
    cd_pressure: float
    cd_friction: float | None
    area_m2: float
    area: str  # what the area is, in words
    length_m: float
    speed: float  # m/s
    alpha: float  # degrees
    density: float  # kg/m3
    viscosity: float  # m2/s
    reynolds: float
    route: dict[str, str]  # cd, cl -> head | integrated | both
    model: str | None
    trust: Mark | None
    reasons: list[str]  # why not inside
    notes: list[str]  # what was done to the shape and assumed of the stream


def column(row: Row, key: str) -> Any:
    """A value of a row by a name that is known only when the program runs."""
    return cast(Mapping[str, Any], row)[key]


def interval(row: Row, key: str) -> str:
    """A coefficient with its 90 % interval: a range where the design is outside or it may be twice or half as large, a
    dash where nothing can be said.

    A lopsided interval, as where the two routes disagree, says how far it reaches either way.
    """
    value, low, high = (column(row, name) for name in (key, f"{key}_low", f"{key}_high"))
    if row["known"] and low == high:
        return f"{value:#.4g} known"
    if low is None:
        return "-" if row["trust"] == "outside" else f"{value:.4f}" + (" ± ?" if row["model"] else "")
    digits = min(max(1 - math.floor(math.log10(max(high - low, 1e-9) / 2)), 3), 5)  # two of the error count
    vague = key == "cd" and math.log(max(high, 1e-6) / max(low, 1e-6)) > 2 * intervals.LARGEST
    if (row["trust"] == "outside" and not row["known"]) or vague:
        return f"{low:.{digits}f} to {high:.{digits}f}"
    if max(high - value, value - low) > LOPSIDED * min(high - value, value - low):
        return f"{value:.{digits}f} -{value - low:.{digits}f} +{high - value:.{digits}f}"
    return f"{value:.{digits}f} ± {(high - low) / 2:.{digits}f}"


@dataclass(frozen=True, eq=False)
class Region:
    """Cells around the body, in the file's axes; `arrays` hold one row a cell."""

    code: int
    points: NDArray[np.float64]  # (n, d) m
    cells: NDArray[np.int64]  # (m, k): vertices, triangles, quads or hexahedra
    arrays: Arrays


@dataclass(frozen=True, eq=False)
class FlowFields:
    """A design in its stream with the fields on its skin, and around it where they are known.

    `skin` holds p (m,) Pa static gauge and, where known, wallShearStress (m, d) Pa of the fluid on the body: one row
    for each cell of `body.surface`. `direct` holds what a model's head gives, as force areas F / q in m2.
    """

    body: Body
    conditions: Conditions
    skin: Arrays
    around: tuple[Region, ...] = ()
    direct: dict[str, float] = field(default_factory=dict)  # drag, lift
    route: dict[str, str] = field(default_factory=dict)  # cd, cl -> head | integrated | both
    verdict: Verdict | None = None
    uncertainty: Uncertainty | None = None  # where a model answered that knows its errors
    model: str | None = None

    def with_pressure_coefficient(self, arrays: Arrays) -> Arrays:
        return arrays if "p" not in arrays else arrays | {"Cp": arrays["p"] / self.conditions.dynamic_pressure}

    def save(self, path: str | Path) -> None:
        """Write the file; as .vtp the skin alone."""
        path = Path(path)
        mesh = (self if path.suffix.lower() != ".vtp" else replace(self, around=())).mesh()
        by_cell = mesh.copy(deep=False)
        del by_cell.cell_data["region"]
        mesh.point_data.update(by_cell.cell_data_to_point_data().point_data)  # regions share no points
        if path.suffix.lower() == ".vtp":
            mesh = _as_polygons(mesh, "faces" if self.body.dimension == 3 else "lines")
        self.sign(mesh)
        mesh.field_data["regions"] = [f"{code}: {words}" for code, words in enumerate(REGIONS)]
        mesh.field_data[_KEY] = [json.dumps(self._plain())]
        with replacing(path) as temporary:
            mesh.save(temporary)

    def sign(self, mesh: Any) -> None:
        """Put units, coefficients and conditions into a mesh's field data, for people to see."""
        fields = sorted({*mesh.cell_data.keys(), *mesh.point_data.keys()} & set(UNITS))
        mesh.field_data["units"] = [f"{name}: {UNITS[name]}" for name in fields]
        row = self.row()
        for name in FIGURES:
            if (known := column(row, name)) is not None:
                mesh.field_data[name] = [known]

    def mesh(self) -> Any:
        """All cells as one pyvista.UnstructuredGrid with the array `region`."""
        import pyvista as pv

        surface = self.body.surface
        regions = [Region(SKIN, surface.points, surface.cells, self.skin), *self.around]
        count, points, cells, kinds = 0, [], [], []
        for region in regions:
            sides = region.cells.shape[1]
            rows = np.column_stack([np.full(len(region.cells), sides), region.cells + count])
            cells.append(rows.ravel())
            kinds.append(np.full(len(region.cells), _CELL_TYPES[self.body.dimension, sides], np.uint8))
            points.append(in_space(region.points))
            count += len(region.points)
        mesh = pv.UnstructuredGrid(np.concatenate(cells), np.concatenate(kinds), np.concatenate(points))
        mesh.cell_data["region"] = np.concatenate([np.full(len(r.cells), r.code, np.int32) for r in regions])
        filled = [self.with_pressure_coefficient(r.arrays) for r in regions]
        for name in dict.fromkeys(name for arrays in filled for name in arrays):
            like = next(arrays[name] for arrays in filled if name in arrays)
            # Shear is not defined off the skin, and the air on it stands still; a pressure there may be unknown.
            empty = np.nan if name in ("p", "Cp") else 0.0
            columns = [
                arrays.get(name, np.full((len(r.cells), *like.shape[1:]), empty, like.dtype))
                for arrays, r in zip(filled, regions, strict=True)
            ]
            mesh.cell_data[name] = in_space(np.concatenate(columns)) if like.ndim == 2 else np.concatenate(columns)
        return mesh

    @cached_property
    def forces(self) -> forces.Forces:
        """On the whole skin, in the file's axes."""
        surface = self.body.surface
        return forces.integrate(
            surface.centres, surface.normals, surface.areas, self.skin["p"], self.skin.get("wallShearStress"),
            about=self.body.moment_point(),
        )  # fmt: skip

    def judged(self, verdict: Verdict, uncertainty: Uncertainty | None = None) -> "FlowFields":
        """The same fields with a verdict on them, and how far the coefficients may be off."""
        same = replace(self, verdict=verdict, uncertainty=uncertainty)
        same.__dict__["forces"] = self.forces  # of the same skin: not to be added up again
        return same

    def row(self, area: str = "silhouette") -> Row:
        """Coefficients, forces, what they refer to, how far they can be trusted; a ranking fills in `rank`."""
        body, stream = self.body, self.conditions
        square, words = body.reference_area(area)
        whole = forces.coefficients(self.forces, body.wind_axes(stream), stream, square)
        direct = {"cd": self.direct.get("drag"), "cl": self.direct.get("lift")}
        by_route = {"integrated": {"cd": whole.cd, "cl": whole.cl}}
        by_route["head"] = {key: force / square for key, force in direct.items() if force is not None}
        by_route["both"] = forces.between(by_route["head"], by_route["integrated"])
        route = {key: self.route.get(key, "integrated") for key in direct}
        route = {key: name if key in by_route[name] else "integrated" for key, name in route.items()}
        best = {key: by_route[name][key] for key, name in route.items()}
        cd, cl = best["cd"], best["cl"]
        tip = whole.cm / WHEELBASE  # what a nose-up moment takes from the rear axle and adds to the front one
        on_ground = body.dimension == 3 and stream.ground
        pressure = stream.dynamic_pressure * square
        mark = None if self.verdict is None else self.verdict.mark
        within = intervals.bounds(self.uncertainty, best, list(by_route.values()), mark, body.silhouette / square)
        return {
            "name": body.name,
            "file": body.file,
            "rank": 0,
            "cd": cd,
            "cl": cl,
            "cd_low": within["cd_low"],
            "cd_high": within["cd_high"],
            "cl_low": within["cl_low"],
            "cl_high": within["cl_high"],
            "rank_low": None,
            "rank_high": None,
            "chance_best": None,
            "chance_among_best": None,
            "chance_better": None,
            "cd_counts": None,
            "cd_counts_low": None,
            "cd_counts_high": None,
            "cd_percent": None,
            "cd_percent_low": None,
            "cd_percent_high": None,
            "known": False,
            "state": None,
            "cm": whole.cm,
            "cs": whole.cs,
            "ld": cl / cd if cd else None,
            "cda_m2": cd * square,
            "cl_front": cl / 2 + tip if on_ground else None,
            "cl_rear": cl / 2 - tip if on_ground else None,
            "drag_n": cd * pressure,
            "lift_n": cl * pressure,
            "side_n": whole.cs * pressure,
            "cd_integrated": whole.cd,
            "cl_integrated": whole.cl,
            "cd_pressure": whole.cd_pressure,
            "cd_friction": whole.cd_friction,
            "area_m2": square,
            "area": words,
            "length_m": body.length,
            "speed": stream.speed,
            "alpha": stream.alpha,
            "density": stream.density,
            "viscosity": stream.viscosity,
            "reynolds": stream.reynolds,
            "route": route,
            "model": self.model,
            "trust": mark,
            "reasons": [] if self.verdict is None else list(self.verdict.reasons),
            "notes": list(body.notes),
        }

    def _plain(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "dimension": self.body.dimension,
            "body": self.body.plain(),
            "conditions": asdict(self.conditions),
            "skin": list(self.skin),
            "direct": self.direct,
            "route": self.route,
            "verdict": None if self.verdict is None else asdict(self.verdict),
            "uncertainty": None if self.uncertainty is None else asdict(self.uncertainty),
            "model": self.model,
        }


def _as_polygons(mesh: Any, kind: str) -> Any:
    """A grid of triangles ("faces") or of lines as a pyvista.PolyData, its arrays with it."""
    import pyvista as pv

    skin = pv.PolyData(mesh.points, **{kind: mesh.cells})
    skin.point_data.update(mesh.point_data)
    skin.cell_data.update(mesh.cell_data)
    return skin


def is_fields_file(mesh: Any) -> bool:
    """Whether a mesh that was read is one that `FlowFields.save` wrote."""
    return _KEY in mesh.field_data


def from_mesh(mesh: Any, file: str) -> FlowFields:
    """The fields in a mesh read from a file that `FlowFields.save` wrote."""
    try:
        plain = json.loads(str(np.asarray(mesh.field_data[_KEY])[0]))
        dimension = plain["dimension"]
        regions = {code: _region(mesh, code, dimension) for code in np.unique(mesh.cell_data["region"]).tolist()}
        skin = regions.pop(SKIN)
        surface = Surface(skin.points, skin.cells, name=plain["body"]["name"])
        return FlowFields(
            body=replace(Body.of(plain["body"], surface, file), name=Path(file).stem),
            conditions=Conditions(**plain["conditions"]),
            skin={name: skin.arrays[name] for name in plain["skin"]},
            around=tuple(regions.values()),
            direct=plain["direct"],
            route=plain["route"],
            verdict=None if plain["verdict"] is None else _verdict(plain["verdict"]),
            uncertainty=Uncertainty.of(plain["uncertainty"]) if plain.get("uncertainty") else None,
            model=plain["model"],
        )
    except (KeyError, ValueError, TypeError, IndexError) as error:
        remedy = "write it again with aerosurrogate predict"
        raise InputError(f"{file}: damaged ({type(error).__name__}: {error})", remedy=remedy) from error


def _verdict(plain: dict[str, Any]) -> Verdict:
    return Verdict(plain["mark"], plain["score"], tuple(plain["reasons"]))


def _region(mesh: Any, code: int, dimension: int) -> Region:
    from vtkmodules.util.numpy_support import vtk_to_numpy

    rows = np.flatnonzero(mesh.cell_data["region"] == code)
    offsets = vtk_to_numpy(mesh.GetCells().GetOffsetsArray())
    starts, sides = offsets[rows], int(offsets[rows[0] + 1] - offsets[rows[0]])
    corners = mesh.cell_connectivity[starts[:, None] + np.arange(sides)]
    used, cells = np.unique(corners, return_inverse=True)
    arrays = {name: np.asarray(mesh.cell_data[name])[rows] for name in mesh.cell_data.keys() if name != "region"}  # noqa: SIM118
    flat = {name: a[:, :dimension] if a.ndim == 2 and dimension == 2 else a for name, a in arrays.items()}
    points = np.asarray(mesh.points, dtype=float)[used][:, :dimension]
    return Region(code, points, cells.reshape(corners.shape).astype(np.int64), flat)
