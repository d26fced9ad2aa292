"""OpenFOAM cases written by hand: which wall is the body, what the pressure means, where the stream comes from."""

import sys

import numpy as np
import pytest

from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.data.prepare import prepare
from aerosurrogate.data.readers import Options, reader_of, recognise
from aerosurrogate.data.store import Dataset
from aerosurrogate.errors import InputError
from aerosurrogate.simulate import openfoam as foam

CELL = 0.5  # m
SHAPE = (16, 6, 6)  # cells: a half domain 8 x 3 x 3 m, cut at y = 0
SOLID = ((6, 10), (0, 2), (1, 3))  # the body: 2 m long, half of 2 m wide, 1 m high, 0.5 m above the ground
RHO, SPEED = 1.2, 25.0
SIDES = {0: ("inlet", "outlet"), 1: ("middle", "left"), 2: ("ground", "top")}
KINDS = {"inlet": "patch", "outlet": "patch", "middle": "symmetryPlane", "left": "patch", "ground": "wall"}
KINDS |= {"top": "patch", "body": "wall"}


def block_faces(solid, points):
    """Faces of a block of cells without the solid ones: {patch: [(corners, owner, neighbour), ...]}."""
    number = np.where(solid, -1, np.cumsum(~solid).reshape(SHAPE) - 1)
    corner = np.arange(len(points)).reshape([n + 1 for n in SHAPE])
    faces = {name: [] for name in ("inner", *KINDS)}
    for axis in range(3):
        others = [a for a in range(3) if a != axis]
        for place in np.ndindex(*(n + (a == axis) for a, n in enumerate(SHAPE))):
            upper = np.array(place)
            lower = upper - np.eye(3, dtype=int)[axis]
            before = number[tuple(lower)] if lower[axis] >= 0 else -2
            after = number[tuple(upper)] if upper[axis] < SHAPE[axis] else -2
            loop = []
            for offsets in ((0, 0), (1, 0), (1, 1), (0, 1)):
                at = upper.copy()
                at[others] += offsets
                loop.append(corner[tuple(at)])
            quad = points[loop]
            if np.cross(quad[1] - quad[0], quad[2] - quad[0])[axis] < 0:
                loop = loop[::-1]  # from the cell before to the cell after
            if before >= 0 and after >= 0:
                faces["inner"].append((loop, before, after))
            elif before >= 0:
                faces["body" if after == -1 else SIDES[axis][1]].append((loop, before, None))
            elif after >= 0:
                faces["body" if before == -1 else SIDES[axis][0]].append((loop[::-1], after, None))
    return faces


def write_field(path, dimensions, internal, patches):
    """A field in ascii, values face by face."""

    def listed(values):
        rows = "\n".join(foam.entry(v if values.ndim == 1 else tuple(v)) for v in values)
        return f"nonuniform List<{'scalar' if values.ndim == 1 else 'vector'}>\n{len(values)}\n(\n{rows}\n)"

    boundary = {name: {"type": "calculated", "value": listed(values)} for name, values in patches.items()}
    boundary["middle"] = {"type": "symmetryPlane"}
    kind = "volScalarField" if internal.ndim == 1 else "volVectorField"
    text = f"dimensions {dimensions};\ninternalField {listed(internal)};\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(foam.header(kind, path.name) + text + foam.dictionary({"boundaryField": boundary}))


def write_case(case, *, static=False, wall_speed=0.0):
    """Hexahedra around half a box, with p = -x, U = (25, 0, 0) and a wall shear along the stream."""
    solid = np.zeros(SHAPE, bool)
    solid[tuple(slice(*span) for span in SOLID)] = True
    steps = np.stack(np.meshgrid(*(np.arange(n + 1) for n in SHAPE), indexing="ij"), -1).reshape(-1, 3)
    points = (steps - [8, 0, 0]) * CELL
    faces = block_faces(solid, points)
    every = [face for group in faces.values() for face in group]
    foam.write_mesh(
        case,
        points,
        np.array([face[0] for face in every]),
        np.array([face[1] for face in every]),
        np.array([face[2] for face in faces["inner"]]),
        {name: (kind, len(faces[name])) for name, kind in KINDS.items()},
    )
    centres = (np.argwhere(~solid) - [8, 0, 0] + 0.5) * CELL
    skin = np.array([points[face[0]].mean(0) for face in faces["body"]])
    stream, end = (SPEED, 0.0, 0.0), case / "100"
    scale = RHO if static else 1.0
    outside = [name for name in KINDS if name not in ("body", "middle")]
    write_field(
        end / "p",
        "[1 -1 -2 0 0 0 0]" if static else "[0 2 -2 0 0 0 0]",
        -scale * centres[:, 0],
        {name: np.zeros(len(faces[name])) for name in outside} | {"body": -scale * skin[:, 0]},
    )
    rows = {name: np.tile(stream, (len(faces[name]), 1)) for name in outside}
    rest = np.tile((wall_speed, 0.0, 0.0), (len(skin), 1))
    write_field(end / "U", "[0 1 -1 0 0 0 0]", np.tile(stream, (len(centres), 1)), rows | {"body": rest})
    none = {name: 0 * values for name, values in rows.items()}
    shear = np.tile((-0.5, 0.0, 0.0), (len(skin), 1))
    write_field(end / "wallShearStress", "[0 2 -2 0 0 0 0]", np.zeros((len(centres), 3)), none | {"body": shear})
    control = {"application": "simpleFoam", "startFrom": "latestTime", "startTime": 0, "endTime": 100, "deltaT": 1}
    control |= {"writeInterval": 100, "functions": {"forces": {"type": "forceCoeffs", "rhoInf": RHO}}}
    foam.write_dictionary(case / "system" / "controlDict", control)
    foam.write_dictionary(case / "constant" / "transportProperties", {"nu": "[0 2 -1 0 0 0 0] 1.6e-05"})
    return len(centres), len(skin)


def read_one(source):
    reader = reader_of("openfoam")
    batch = reader.batches(source, Options())[0]
    return reader.read(batch, batch.names[0], Options())


@pytest.mark.parametrize("static", [False, True])
def test_a_case_comes_in_our_frame_units_and_signs(tmp_path, static):
    count, faces = write_case(tmp_path / "box", static=static)
    assert recognise(tmp_path) == recognise(tmp_path / "box") == "openfoam"
    case = read_one(tmp_path)
    s = case.surface
    assert case.symmetry == "y"
    assert (s.sum(), (~s).sum()) == (2 * faces, count)  # quads come as triangles
    assert (case.conditions.density, case.conditions.viscosity) == (RHO, 1.6e-5)
    assert case.conditions.speed == pytest.approx(SPEED)
    assert case.conditions.length == pytest.approx(2.0)
    assert case.conditions.ground
    # p = -1.2 x on half a box of 2 x 1 x 1 m: a drag of 1.2 V; the shear pushes downstream on all faces.
    force = (-case.fields["p"] * case.normals * case.areas[:, None])[s].sum(0)
    assert force[0] == pytest.approx(RHO * 2.0, rel=1e-5)
    friction = 0.5 if static else 0.5 * RHO
    assert np.allclose(case.fields["wallShearStress"][s], [friction, 0, 0], rtol=1e-5)
    assert case.areas.sum() == pytest.approx(2 * 2 + 2 + 2)  # top and bottom, one side, front and back
    assert np.allclose([case.points[s].min(0), case.points[s].max(0)], [[-1, 0.17, 0.5], [1, 1, 1.5]], atol=0.2)
    assert np.allclose(case.fields["U"][~s], [SPEED, 0, 0])
    assert case.volumes.sum() == pytest.approx(count * CELL**3, rel=1e-5)
    ahead = (case.points[:, 0] < -3.5) & (case.points[:, 1] < 1) & (np.abs(case.points[:, 2] - 1) < 0.5)
    assert np.allclose(case.distance[ahead], 2.75)
    assert case.reference["area"] == pytest.approx(2.0, rel=1e-3)  # of the whole body
    drag = RHO * 2.0 + friction * case.areas.sum()
    assert case.reference["cd"] == pytest.approx(drag / (case.conditions.dynamic_pressure * 1.0), rel=1e-3)


def test_the_whole_body_has_twice_the_drag_and_no_side_force(tmp_path):
    write_case(tmp_path / "box")
    prepare([tmp_path], tmp_path / "out", jobs=1)
    whole = Dataset(tmp_path / "out").case("box").whole()
    force = (-whole.fields["p"] * whole.normals * whole.areas[:, None]).sum(0)
    assert np.allclose(force, [RHO * 4.0, 0, 0], atol=1e-4)


def test_a_case_without_a_wall_at_rest_or_without_a_mesh_is_refused(tmp_path):
    write_case(tmp_path / "moving", wall_speed=3.0)
    with pytest.raises(InputError, match="no wall at rest"):
        read_one(tmp_path / "moving")
    write_case(tmp_path / "sound")
    (tmp_path / "sound" / "constant" / "polyMesh" / "boundary").unlink()
    with pytest.raises(InputError, match="sound"):
        read_one(tmp_path / "sound")


def test_a_case_that_was_not_solved_is_refused_by_every_command(tmp_path):
    write_case(tmp_path / "box")
    (tmp_path / "box" / "100").rename(tmp_path / "box" / "0")
    with pytest.raises(InputError, match="nothing has been solved"):
        read_one(tmp_path / "box")
    with pytest.raises(InputError, match="nothing has been solved"):
        coeffs([str(tmp_path / "box")], CoeffsOptions(StreamOptions(speed=25.0)))
    with pytest.raises(InputError, match=r"no case could be read.*nothing has been solved"):
        prepare([tmp_path / "box"], tmp_path / "out", jobs=1)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_coeffs_takes_the_stream_from_a_solved_case_as_prepare_does(tmp_path):
    write_case(tmp_path / "box")
    case = read_one(tmp_path / "box")
    row = coeffs([str(tmp_path / "box")], CoeffsOptions(StreamOptions(symmetry="y"))).rows[0]
    assert (row["speed"], row["density"], row["viscosity"]) == pytest.approx((SPEED, RHO, 1.6e-5))
    assert row["cd"] == pytest.approx(case.reference["cd"], rel=1e-4)
    assert row["cm"] == pytest.approx(case.reference["cm"], rel=1e-4)  # about the same ground, the domain's floor
    assert row["name"] == "box"
    said = coeffs([str(tmp_path / "box")], CoeffsOptions(StreamOptions(speed=50.0, symmetry="y"))).rows[0]
    assert said["cd"] == pytest.approx(row["cd"] / 4, rel=1e-4)  # what the user says comes first
    with pytest.raises(InputError, match=r"runs along \+x.*--flow \+x --up \+z"):
        coeffs([str(tmp_path / "box")], CoeffsOptions(StreamOptions(flow="+z", up="+y")))


def test_a_case_solved_in_millimetres_is_refused_unless_it_is_to_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "CELL", 500.0)
    write_case(tmp_path / "box")
    with pytest.raises(InputError, match="2000 m is absurd"):
        read_one(tmp_path / "box")
    reader = reader_of("openfoam")
    batch = reader.batches(tmp_path / "box", Options())[0]
    assert reader.read(batch, "box", Options(units="m")).conditions.length == pytest.approx(2000.0)
