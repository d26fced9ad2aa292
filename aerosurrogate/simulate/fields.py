"""A solved case as the file that `predict` writes: the mesh's own faces on the skin, the kept cells around it.

What has a file of its own comes back in that file's axes, so that prediction and solution lie on each other.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.body import Body, mirrored, set_in_stream
from aerosurrogate.conditions import FlowAxes, StreamOptions
from aerosurrogate.data.case import Case, field_spec
from aerosurrogate.flow_fields import SURROUNDINGS, FlowFields, Region
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.simulate import cars, openfoam
from aerosurrogate.simulate.spec import Design

SKIN_FIELDS = ("p", "wallShearStress")


def solved_fields(design: Design, case: Case, folder: Path) -> FlowFields:
    """The fields of a case that was read from the OpenFOAM case in `folder`."""
    surface = _segments(case) if case.dimensions == 2 else _faces(case, folder)
    if case.symmetry is not None:
        surface = mirrored(surface, case.symmetry, design.name)
    body = _placed(design, case, surface)

    def turned(name: str, values: NDArray) -> NDArray:
        vector = field_spec(name).vector
        return body.turn_to_file(values).astype(np.float32) if vector else values.reshape(len(values), -1)[:, 0]

    whole = case.whole()
    air = ~whole.surface
    points = body.to_file(whole.points[air])
    arrays = {name: turned(name, values[air]) for name, values in whole.fields.items() if name != "wallShearStress"}
    around = Region(SURROUNDINGS, points, np.arange(len(points))[:, None], arrays)
    skin = {name: turned(name, surface.cell_data[name]) for name in SKIN_FIELDS if name in surface.cell_data}
    bare = replace(surface, points=body.to_file(surface.points), cell_data={}, point_data={}, notes=[])
    assert case.conditions is not None
    return FlowFields(replace(body, surface=bare), case.conditions, skin, (around,) if len(points) else ())


def _segments(case: Case) -> Surface:
    """The faces of a section's wall, each a segment about its centre across its normal."""
    assert case.normals is not None
    assert case.areas is not None
    on = case.surface
    along = 0.5 * case.areas[on][:, None] * np.stack([-case.normals[on][:, 1], case.normals[on][:, 0]], axis=1)
    ends = np.stack([case.points[on] - along, case.points[on] + along], axis=1).astype(float)
    return _surface(ends.reshape(-1, 2), np.arange(2 * len(ends)).reshape(-1, 2), case, np.arange(len(ends)))


def _faces(case: Case, folder: Path) -> Surface:
    """The polygons of a body's wall as triangles that face the air."""
    mesh = openfoam.read_mesh(folder)
    faces = np.arange(len(mesh.owner))[mesh.patches["body"].faces]
    kept = faces[cars.sound_faces(mesh.face_areas[faces], case.conditions)]
    triangles, owner = [], []
    for number, face in enumerate(kept.tolist()):
        corners = mesh.labels[mesh.offsets[face] : mesh.offsets[face + 1]]
        for i in range(1, len(corners) - 1):
            triangles.append((corners[0], corners[i + 1], corners[i]))  # the mesh's own faces leave the air
            owner.append(number)
    used, cells = np.unique(np.array(triangles), return_inverse=True)
    return _surface(mesh.points[used], cells.reshape(-1, 3), case, np.array(owner))


def _surface(points: NDArray, cells: NDArray, case: Case, owner: NDArray) -> Surface:
    values = {name: case.fields[name][case.surface][owner] for name in SKIN_FIELDS if name in case.fields}
    values = {name: v if field_spec(name).vector else v[:, 0] for name, v in values.items()}
    return Surface(np.asarray(points, dtype=float), cells.astype(np.int64), case.name, cell_data=values)


def _placed(design: Design, case: Case, surface: Surface) -> Body:
    """The body where its file has it; shapes without one, and sections, stay in the model's frame."""
    assert case.conditions is not None
    name, file, length = design.name, design.file or design.name, case.conditions.length
    notes = ("solved by OpenFOAM (RANS, k-omega SST)",)
    if case.dimensions == 2:
        return Body(name, file, surface, length, length, np.zeros(2), np.eye(2), None, None, notes)
    area = case.reference["area"]
    ground = 0.0 if case.conditions.ground else None
    if design.file is None:
        return Body(name, file, surface, length, area, np.zeros(3), np.eye(3), ground, FlowAxes.parse(), notes)
    said = {key: str(value) for key, value in design.parameters.items()}
    stream = StreamOptions(
        flow=said["flow"], up=said["up"], ground=said["ground"], units=said["units"], symmetry=said.get("symmetry")
    )
    own = set_in_stream(read_surface(design.file, stream.units), stream, design.file)
    return replace(own, name=name, surface=surface, silhouette=area, notes=notes)
