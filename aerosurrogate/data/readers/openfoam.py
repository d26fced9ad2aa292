"""OpenFOAM cases: a case folder, or a folder of them, each at its latest time.

What a case says of its body, its stream and its pressure is read by `mesh.openfoam`. Cases come in the model's frame,
in SI units; a domain cut by a symmetry plane gives half a body.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.body import Body, set_in_stream
from aerosurrogate.conditions import Conditions, FlowAxes, StreamOptions
from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options
from aerosurrogate.data.readers.meshes import Points, as_half, at_faces, cell_volumes, flow_case
from aerosurrogate.data.splits import Splits, four_to_one
from aerosurrogate.data.store import Entries
from aerosurrogate.errors import InputError
from aerosurrogate.forces import silhouette_area
from aerosurrogate.mesh.openfoam import SolvedCase, is_case, read_case, solution_files
from aerosurrogate.mesh.read import units_doubt

VERSION = 2


def recognises(source: Path) -> bool:
    return source.is_dir() and (is_case(source) or any(is_case(path) for path in source.iterdir()))


def batches(source: Path, options: Options) -> list[Batch]:
    cases = [source] if is_case(source) else sorted(path for path in source.iterdir() if is_case(path))
    return [Batch((case.resolve().name,), (case / "system" / "controlDict", *solution_files(case))) for case in cases]


def read(batch: Batch, name: str, options: Options) -> Case:
    case = read_case(batch.files[0].parents[1])
    if case.speed is None:
        raise InputError(f"{case.path}: no air enters through the boundary", seen=", ".join(case.volume.patches))
    if options.units != "m" and units_doubt(case.skin.length):
        raise InputError(
            f"{case.path}: a length of {case.skin.length:.4g} m is absurd for a vehicle or a wing",
            seen="OpenFOAM solves in metres",
            remedy="scale the mesh (transformPoints) and solve again, or keep it with --units m",
        )
    flow, up = case.axes
    stream = StreamOptions(flow=flow, up=up, ground=case.ground(up), symmetry="y" if case.halved else None)
    body = set_in_stream(case.skin, stream, str(case.path))
    grounded = body.ground is not None
    conditions = Conditions(case.speed, body.length, case.alpha, case.density, case.viscosity, ground=grounded)
    moved = case.skin.transformed(body.rotation, -body.rotation @ body.origin)
    on_skin = {k: v for k, v in _values(case, case.skin.cell_data, body).items() if k != "U"}
    reference = {} if case.flat else {"area": silhouette_area(moved.corners, FlowAxes.parse())}
    result = flow_case(name, moved, at_faces(moved, on_skin), _air(case, body), conditions, reference=reference)
    return as_half(result) if case.halved else result


def _values(case: SolvedCase, data: Any, body: Body) -> dict[str, NDArray[Any]]:
    """Fields in SI units and in the model's axes."""
    d, factor = body.dimension, case.density if case.kinematic else 1.0
    values = {field: np.asarray(data[name], dtype=float) for field, name in case.names.items() if name in data}
    for needed in ("p", "U"):
        if needed not in values:
            raise InputError(f"{case.path} has no field {needed}", seen=", ".join(data))
    for field in ("U", "wallShearStress"):
        if field in values:
            values[field] = values[field][:, :d] @ body.rotation.T
    values["p"] = factor * values["p"]
    if "wallShearStress" in values:
        values["wallShearStress"] = -factor * values["wallShearStress"]
    return values


def _air(case: SolvedCase, body: Body) -> Points:
    d = body.dimension
    grid = case.volume.grid
    centres = np.asarray(grid.cell_centers().points, dtype=float)
    thickness = 1.0 if d == 3 else float(np.ptp(np.asarray(grid.points)[:, 2]))
    values = _values(case, grid.cell_data, body)
    values.pop("wallShearStress", None)
    return Points(body.to_model(centres[:, :d]), cell_volumes(grid) / thickness, values)


def splits(source: Path, cases: Entries) -> Splits:
    return four_to_one(cases)
