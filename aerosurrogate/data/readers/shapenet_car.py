"""ShapeNet-Car (mlcfd) as published: folders param0..param8 with a folder a car; the paper tests on param0.

`quadpress_smpl.vtk` holds the skin (quads, scalar pressure at points), `hexvelo_smpl.vtk` the air (hexahedra, vector
velocity at points). Published frame: flow +z at 20 m/s, up +y. Cases are in the model's frame, (x, y, z) = published
(z, x, y), which rotates positions, velocities and normals alike; back: (y, z, x). Origin and scale stay as published.

As published: the points are those of the air that are not on the skin, then the skin's; the velocity on the skin is the
hexahedra's where a vertex is shared and zero elsewhere; `p` is known on the skin alone and zero off it. Distances and
directions are exact where the published ones are to the nearest vertex; off the skin `normals` point away from it, the
published direction towards it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.conditions import Conditions, FlowAxes
from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options
from aerosurrogate.data.readers.meshes import Points, at_vertices, flow_case, vertex_volumes
from aerosurrogate.data.splits import Splits, four_to_one
from aerosurrogate.data.store import Entries
from aerosurrogate.errors import InputError
from aerosurrogate.forces import silhouette_area
from aerosurrogate.mesh.load import load
from aerosurrogate.mesh.read import read_surface

VERSION = 2
FILES = ("quadpress_smpl.vtk", "hexvelo_smpl.vtk")
SPEED = 20.0  # m/s
AXES = FlowAxes.parse("+z", "+y")
TEST = "param0"


def recognises(source: Path) -> bool:
    return next(source.glob(f"param*/*/{FILES[0]}"), None) is not None or (source / FILES[0]).is_file()


def batches(source: Path, options: Options) -> list[Batch]:
    folders = sorted(path for path in source.glob("param*/*") if path.is_dir() and not path.name.startswith("."))
    if (source / FILES[0]).is_file():
        folders = [source]
    return [Batch((f"{f.parent.name}-{f.name}",), tuple(f / file for file in FILES)) for f in folders]


def read(batch: Batch, name: str, options: Options) -> Case:
    skin_file, air_file = batch.files
    surface = read_surface(skin_file).transformed(AXES.to_model, np.zeros(3))
    pressure = _only(surface.point_data, 1, skin_file)
    grid = load(air_file)
    places = np.asarray(grid.points, dtype=float) @ AXES.to_model.T
    velocity = _only(grid.point_data, 3, air_file) @ AXES.to_model.T
    on_skin, row = _shared(places, surface.points)
    skin_velocity = np.zeros((len(surface.points), 3))
    skin_velocity[row] = velocity[on_skin]
    rest = np.setdiff1d(np.arange(len(places)), on_skin)
    conditions = Conditions(SPEED, float(surface.size[0]), ground=bool(surface.bounds[0][2] >= 0))
    return flow_case(
        name,
        surface,
        at_vertices(surface, {"p": pressure, "U": skin_velocity}),
        Points(places, vertex_volumes(grid), {"U": velocity}).take(rest),
        conditions,
        reference={"area": silhouette_area(surface.corners, FlowAxes.parse())},
        tags={"kind": name.split("-")[0]},
    )


def _only(data: Mapping[str, NDArray[Any]], components: int, path: Path) -> NDArray[Any]:
    """The array of so many components, whatever its name."""
    for values in (np.asarray(data[key], dtype=float) for key in data):
        if values.reshape(len(values), -1).shape[1] == components:
            return values
    raise InputError(f"{path} has no point array of {components} components", seen=", ".join(data) or "none")


def _shared(air: NDArray[Any], skin: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of the air's points that are also the skin's, and which of those they are; the files agree exactly."""
    places = {point.tobytes(): row for row, point in enumerate(skin.astype(np.float32))}
    pairs = [(i, places[key]) for i, p in enumerate(air.astype(np.float32)) if (key := p.tobytes()) in places]
    found = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def splits(source: Path, cases: Entries) -> Splits:
    test = [name for name in cases if name.startswith(f"{TEST}-")]
    train = [name for name in cases if not name.startswith(f"{TEST}-")]
    return {"train": train, "test": test} if test and train else four_to_one(cases)
