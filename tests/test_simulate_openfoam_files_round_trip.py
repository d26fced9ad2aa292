"""What is written for OpenFOAM is what it expects, and what it writes, in either format, is read back exactly."""

import numpy as np
import pytest

from aerosurrogate.simulate import openfoam

ASCII_MESH = {
    "points": "8\n(\n(0 0 0)\n(1 0 0)\n(1 1 0)\n(0 1 0)\n(0 0 2)\n(1 0 2)\n(1 1 2)\n(0 1 2)\n)\n",
    "faces": "6\n(\n4(0 3 2 1)\n4(4 5 6 7)\n4(0 1 5 4)\n4(2 3 7 6)\n4(1 2 6 5)\n4(0 4 7 3)\n)\n",
    "owner": "6(0 0 0 0 0 0)\n",
    "neighbour": "0()\n",
    "boundary": "2\n(\nfloor\n{\n type wall;\n inGroups 1(wall);\n nFaces 1;\n startFace 0;\n}\n"
    "rest\n{\n type patch;\n nFaces 5;\n startFace 1;\n}\n)\n",
}


@pytest.fixture
def box(tmp_path):
    """One cell of 1 x 1 x 2, in ascii."""
    folder = tmp_path / "constant" / "polyMesh"
    folder.mkdir(parents=True)
    kinds = {"points": "vectorField", "faces": "faceList", "boundary": "polyBoundaryMesh"}
    for name, text in ASCII_MESH.items():
        (folder / name).write_text(openfoam.header(kinds.get(name, "labelList"), name) + text + "\n// *** //\n")
    return tmp_path


def test_dictionaries_have_the_spelling_openfoam_wants():
    text = openfoam.dictionary({"liftDir": [0, 0, 1.5], "consistent": True, "solvers": {'"(k|omega)"': {"tol": 1e-9}}})
    assert (
        text
        == 'liftDir (0 0 1.5);\nconsistent yes;\nsolvers\n{\n    "(k|omega)"\n    {\n        tol 1e-09;\n    }\n}\n'
    )


def test_an_ascii_mesh_has_its_volumes_areas_and_centres(box):
    mesh = openfoam.read_mesh(box)
    assert mesh.cells == 1
    assert mesh.patches == {"floor": openfoam.Patch("wall", 0, 1), "rest": openfoam.Patch("patch", 1, 5)}
    assert mesh.cell_volumes == pytest.approx([2.0])
    assert mesh.cell_centres[0] == pytest.approx([0.5, 0.5, 1.0])
    assert mesh.face_areas[0] == pytest.approx([0, 0, -1])
    assert mesh.face_centres[1] == pytest.approx([0.5, 0.5, 2.0])


@pytest.mark.parametrize("values", [3.5, np.array([1.0, -2.0, 0.5]), np.array([0.25]), np.array([[1.0, 2.0, 3.0]])])
def test_fields_come_back_exactly(box, values):
    mesh = openfoam.read_mesh(box)
    vector = np.shape(values)[-1:] == (3,)
    boundary = {
        "floor": {"type": "zeroGradient"},
        "rest": {"type": "fixedValue", "value": f"uniform {'(1 2 3)' if vector else '7.5'}"},
    }
    openfoam.write_field(box / "0" / "f", "[0 1 -1 0 0 0 0]", values, boundary)
    field = openfoam.read_field(box / "0" / "f", mesh)
    width = 3 if vector else 1
    assert field.internal == pytest.approx(np.reshape(values, (1, width)))
    assert field.patches["floor"] == pytest.approx(field.internal)
    assert field.patches["rest"] == pytest.approx(np.tile([1, 2, 3] if vector else [7.5], (5, 1)))


def test_lists_in_ascii_and_repeated_values_are_read(box):
    text = """dimensions [0 2 -2 0 0 0 0];
internalField nonuniform List<scalar> 1(4.25);
boundaryField
{
    floor
    {
        type calculated;
        value nonuniform List<scalar> 1{2.5};
    }
    rest
    {
        type calculated;
        value nonuniform List<scalar>
5
(
1
2
3
4
5
)
;
    }
}
"""
    (box / "1").mkdir()
    (box / "1" / "p").write_text(openfoam.header("volScalarField", "p") + text)
    field = openfoam.read_field(box / "1" / "p", openfoam.read_mesh(box))
    assert field.internal.tolist() == [[4.25]]
    assert field.patches["floor"].tolist() == [[2.5]]
    assert field.patches["rest"].ravel().tolist() == [1, 2, 3, 4, 5]


def test_shear_is_that_of_the_fluid_on_the_body():
    field = openfoam.Field(np.zeros((1, 3)), {"wall": np.array([[-2.0, 0.5, 0.0]])})
    assert openfoam.skin_stress(field, "wall", 1.2).tolist() == [[2.4, -0.6, 0.0]]


def test_histories_of_restarts_are_joined_and_a_line_under_way_left_out(tmp_path):
    folder = tmp_path / "postProcessing" / "forceCoeffs"
    for start, rows in (("0", "1 0.1 0.2\n2 0.3 0.4\n3 9 9\n"), ("2", "3 0.5 0.6\n4 0.7")):
        (folder / start).mkdir(parents=True)
        (folder / start / "coefficient.dat").write_text(f"# Force coefficients\n# Time Cd Cl\n{rows}")
    history = openfoam.history(tmp_path)
    assert history["Time"].tolist() == [1, 2, 3]
    assert history["Cd"].tolist() == [0.1, 0.3, 0.5]
    assert openfoam.swing(history["Cl"], 2) == pytest.approx(0.2)
    assert openfoam.swing(history["Cl"], 4) == np.inf
    assert openfoam.drift(history["Cl"], 2) == pytest.approx(0.2)


def test_the_latest_time_is_the_largest_number(tmp_path):
    for name in ("0", "100", "90", "constant", "2.5"):
        (tmp_path / name).mkdir()
    assert openfoam.latest_time(tmp_path).name == "100"
