"""OpenFOAM cases: a case folder, or a folder of them, each at its latest time.

The body is every wall where the air stands still that is not a side of the domain's box (the ground is one). Time
means (pMean, UMean, ...) are taken where there are any. Pressure and wall shear are kinematic if p has the dimensions
of m2/s2, and then multiplied by the density: rhoInf of a function object in controlDict, else rho of
transportProperties, else that of air; OpenFOAM's wall shear is that of the wall on the fluid, so its sign is turned.
The stream is what enters through the boundary. Cases come in the model's frame; a domain cut by a symmetry plane gives
half a body.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.body import Body, set_in_stream
from aerosurrogate.conditions import DENSITY, VISCOSITY, Conditions, FlowAxes, StreamOptions
from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options
from aerosurrogate.data.readers.meshes import Points, array, as_half, at_faces, cell_volumes, flow_case
from aerosurrogate.data.splits import Splits, four_to_one
from aerosurrogate.errors import InputError
from aerosurrogate.forces import silhouette_area
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.mesh.volume import Volume, read_volume

VERSION = 1
FIELDS = ("p", "U", "wallShearStress", "nut")
STILL = 1e-9  # of the stream's speed
FLAT = 1e-6  # of the domain's size
NUMBER = r"([-+]?[\d.]+(?:[eE][-+]?\d+)?)"


def _is_case(path: Path) -> bool:
    return (path / "system" / "controlDict").is_file()


def recognises(source: Path) -> bool:
    return source.is_dir() and (_is_case(source) or any(_is_case(path) for path in source.iterdir()))


def batches(source: Path, options: Options) -> list[Batch]:
    cases = [source] if _is_case(source) else sorted(path for path in source.iterdir() if _is_case(path))
    return [Batch((case.resolve().name,), (case / "system" / "controlDict", *_solution(case))) for case in cases]


def _solution(case: Path) -> list[Path]:
    """The files that a case's solution depends on: mesh and latest fields."""
    times = [path for path in case.iterdir() if re.fullmatch(r"\d+(\.\d+)?(e-?\d+)?", path.name)]
    latest = max(times, key=lambda path: float(path.name), default=case / "0")
    mesh = [case / "constant" / "polyMesh" / name for name in ("points", "boundary")]
    return mesh + [
        latest / name for name in (*FIELDS, *(f"{name}Mean" for name in FIELDS)) if (latest / name).is_file()
    ]


def read(batch: Batch, name: str, options: Options) -> Case:
    case = batch.files[0].parents[1]
    volume = read_volume(case)
    names = {field: _name(volume, field) for field in FIELDS}
    skin = _body_patches(volume, names["U"], case)
    stream = _stream(volume, names["U"], case)
    flat = skin.dimension == 2
    density, viscosity = _properties(case)
    half = not flat and _halved(volume, skin)
    flow, up = ("+x", "+z") if flat else _axes(stream, case)
    ground = "none" if flat else _ground(volume, skin, up)
    body = set_in_stream(
        skin, StreamOptions(flow=flow, up=up, ground=ground, symmetry="y" if half else None), str(case)
    )
    alpha = float(np.degrees(np.arctan2(stream[1], stream[0]))) if flat else 0.0
    speed = float(np.linalg.norm(stream))
    conditions = Conditions(speed, body.length, alpha, density, viscosity, ground=body.ground is not None)
    factor = density if _kinematic(case, names["p"]) else 1.0
    moved = skin.transformed(body.rotation, -body.rotation @ body.origin)
    on_skin = {k: v for k, v in _values(skin.cell_data, names, body, factor, case).items() if k != "U"}
    reference = {} if flat else {"area": silhouette_area(moved.corners, FlowAxes.parse())}
    result = flow_case(
        name, moved, at_faces(moved, on_skin), _air(volume, body, names, factor, case), conditions, reference=reference
    )
    return as_half(result) if half else result


def _name(volume: Volume, field: str) -> str:
    return f"{field}Mean" if f"{field}Mean" in volume.grid.cell_data else field


def _body_patches(volume: Volume, velocity: str, case: Path) -> Surface:
    """All walls at rest that are not sides of the domain's box, as one surface."""
    low, high = _box(volume)
    walls = {}
    for name, patch in volume.patches.items():
        if volume.kinds.get(name) != "wall" or _side(patch, low, high) is not None:
            continue
        speed = np.linalg.norm(array(patch.cell_data, velocity, f"{case}: patch {name}"), axis=1)
        if speed.max(initial=0) <= STILL * max(float(np.abs(volume.grid.cell_data[velocity]).max()), 1e-300):
            walls[name] = patch
    if not walls:
        raise InputError(
            f"{case}: no wall at rest inside the domain",
            seen=", ".join(f"{name} ({kind})" for name, kind in volume.kinds.items()),
        )
    return _united(list(walls.values()))


def _united(patches: list[Surface]) -> Surface:
    shared = set.intersection(*(set(patch.cell_data) for patch in patches))
    starts = np.cumsum([0, *(len(patch.points) for patch in patches[:-1])])
    return Surface(
        np.concatenate([patch.points for patch in patches]),
        np.concatenate([patch.cells + start for patch, start in zip(patches, starts, strict=True)]),
        cell_data={name: np.concatenate([patch.cell_data[name] for patch in patches]) for name in shared},
    )


def _box(volume: Volume) -> tuple[NDArray[Any], NDArray[Any]]:
    points = np.asarray(volume.grid.points, dtype=float)
    return points.min(axis=0), points.max(axis=0)


def _side(patch: Surface, low: NDArray[Any], high: NDArray[Any]) -> tuple[int, bool] | None:
    """The axis of the side of the box that a patch lies in, and whether it is the upper one."""
    reach = FLAT * float((high - low).max())
    for axis in range(patch.dimension):
        for upper, plane in ((False, low[axis]), (True, high[axis])):
            if np.abs(patch.points[:, axis] - plane).max() <= reach:
                return axis, upper
    return None


def _stream(volume: Volume, velocity: str, case: Path) -> NDArray[Any]:
    """The velocity (3,) at which air enters: the stated free stream, or the mean over the faces it enters through."""
    text = (case / "0" / "U").read_text(errors="replace") if (case / "0" / "U").is_file() else ""
    if found := re.search(r"freestreamValue\s+uniform\s*\(\s*([^)]+)\)", text):
        return np.array(found.group(1).split(), dtype=float)
    flux, total = np.zeros(3), 0.0
    for name, patch in volume.patches.items():
        if volume.kinds.get(name) != "patch" or velocity not in patch.cell_data:
            continue
        values = np.asarray(patch.cell_data[velocity], dtype=float)
        entering = np.maximum(np.einsum("ij,ij->i", values[:, : patch.dimension], patch.area_vectors), 0)
        flux, total = flux + entering @ values, total + entering.sum()
    if total <= 0:
        raise InputError(f"{case}: no air enters through the boundary", seen=", ".join(volume.patches))
    return flux / total


def _axes(stream: NDArray[Any], case: Path) -> tuple[str, str]:
    """Flow and up, as options name them."""
    axis = int(np.argmax(np.abs(stream)))
    if abs(stream[axis]) < 0.999 * np.linalg.norm(stream):
        raise InputError(f"{case}: the stream is not along an axis", seen=stream.round(4).tolist())
    sign = "+" if stream[axis] > 0 else "-"
    return f"{sign}{'xyz'[axis]}", "+y" if axis == 2 else "+z"


def _ground(volume: Volume, skin: Surface, up: str) -> str:
    """Height of the domain's floor, if that is a wall within a body length of the body, or any floor close to it."""
    axis = "xyz".index(up[1])
    low, high = _box(volume)
    walls = [patch for name, patch in volume.patches.items() if volume.kinds.get(name) == "wall"]
    reach = 1.0 if any(_side(patch, low, high) == (axis, False) for patch in walls) else 0.15
    return f"{low[axis]:.9g}" if skin.bounds[0][axis] - low[axis] <= reach * skin.length else "none"


def _halved(volume: Volume, skin: Surface) -> bool:
    """Whether the body is cut by a symmetry plane at y = 0."""
    low, high = _box(volume)
    planes = [patch for name, patch in volume.patches.items() if "symmetry" in volume.kinds.get(name, "")]
    reach = 1e-3 * skin.length
    at_zero = any(
        (side := _side(patch, low, high)) and side[0] == 1 and abs(patch.points[0, 1]) <= reach for patch in planes
    )
    return at_zero and float(np.abs(skin.points[:, 1]).min()) <= reach


def _properties(case: Path) -> tuple[float, float]:
    """Density (kg/m3) and kinematic viscosity (m2/s)."""
    control = (case / "system" / "controlDict").read_text(errors="replace")
    path = case / "constant" / "transportProperties"
    transport = path.read_text(errors="replace") if path.is_file() else ""
    density = re.search(rf"\brhoInf\s+{NUMBER}\s*;", control) or _property("rho", transport)
    viscosity = _property("nu", transport)
    return (
        float(density.group(1)) if density else DENSITY,
        float(viscosity.group(1)) if viscosity else VISCOSITY,
    )


def _property(name: str, text: str) -> re.Match[str] | None:
    return re.search(rf"^\s*{name}\s+(?:{name}\s+)?(?:\[[^\]]*\]\s*)?{NUMBER}\s*;", text, re.MULTILINE)


def _kinematic(case: Path, name: str) -> bool:
    for path in (path for path in _solution(case) if path.name == name):
        head = path.read_bytes()[:4096].decode(errors="replace")
        if found := re.search(r"dimensions\s*\[\s*([^\]]+)\]", head):
            return float(found.group(1).split()[0]) == 0
    return True


def _values(data: Any, names: dict[str, str], body: Body, factor: float, case: Path) -> dict[str, NDArray[Any]]:
    """Fields in SI units and in the model's axes."""
    d = body.dimension
    values = {field: np.asarray(data[name], dtype=float) for field, name in names.items() if name in data}
    for needed in ("p", "U"):
        if needed not in values:
            raise InputError(f"{case} has no field {needed}", seen=", ".join(data))
    for field in ("U", "wallShearStress"):
        if field in values:
            values[field] = values[field][:, :d] @ body.rotation.T
    values["p"] = factor * values["p"]
    if "wallShearStress" in values:
        values["wallShearStress"] = -factor * values["wallShearStress"]
    return values


def _air(volume: Volume, body: Body, names: dict[str, str], factor: float, case: Path) -> Points:
    d = body.dimension
    grid = volume.grid
    centres = np.asarray(grid.cell_centers().points, dtype=float)
    thickness = 1.0 if d == 3 else float(np.ptp(np.asarray(grid.points)[:, 2]))
    values = _values(grid.cell_data, names, body, factor, case)
    values.pop("wallShearStress", None)
    return Points(body.to_model(centres[:, :d]), cell_volumes(grid) / thickness, values)


def splits(source: Path, cases: Mapping[str, Mapping[str, Any]]) -> Splits:
    return four_to_one(cases)
