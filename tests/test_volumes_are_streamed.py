"""VTU files of every form are read piece by piece to the same cells, in memory that does not grow with them."""

import base64
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import published_cars as cars
import pytest
import pyvista as pv
import vtk
from test_published_flows_are_read import read_one

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.vtu import VtuFile, parts_of

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from streaming import write_volume


@pytest.fixture(scope="module")
def mesh():
    """Sheared hexahedra, tetrahedra, a prism and a pyramid, with arrays on cells and on points."""
    shear = np.array([[1, 0.2, 0], [0, 1, 0.3], [0.1, 0, 1]])
    hexahedra = pv.ImageData(dimensions=(7, 6, 5)).cast_to_structured_grid().cast_to_unstructured_grid()
    hexahedra.points = np.asarray(hexahedra.points, float) @ shear
    tetrahedra = pv.ImageData(dimensions=(4, 4, 4)).to_tetrahedra().cast_to_unstructured_grid()
    tetrahedra.points = np.asarray(tetrahedra.points, float) + 20
    prism = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 2], [1, 0, 2], [0, 1, 2]]
    pyramid = [[0, 0, 5], [1, 0, 5], [1, 1, 5], [0, 1, 5], [0.5, 0.5, 7]]
    cells = {13: np.arange(6)[None], 14: np.arange(6, 11)[None]}
    mixed = pv.UnstructuredGrid(cells, np.array(prism + pyramid, float))
    merged = pv.merge([hexahedra, tetrahedra, mixed], merge_points=False)
    merged.clear_data()
    rng = np.random.default_rng(0)
    merged.cell_data["p"] = np.arange(merged.n_cells, dtype=np.float32)
    merged.cell_data["U"] = rng.normal(size=(merged.n_cells, 3))
    merged.point_data["T"] = rng.normal(size=merged.n_points)
    return merged


@pytest.mark.parametrize("mode", ["Appended", "Binary"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("word", ["UInt32", "UInt64"])
@pytest.mark.parametrize("encoded", [False, True])
def test_every_form_gives_the_cells_that_vtk_sees(tmp_path, mesh, mode, packed, word, encoded):
    path = tmp_path / "mesh.vtu"
    writer = vtk.vtkXMLUnstructuredGridWriter()
    writer.SetFileName(str(path))
    writer.SetInputData(mesh)
    getattr(writer, f"SetDataModeTo{mode}")()
    getattr(writer, f"SetHeaderTypeTo{word}")()
    writer.SetEncodeAppendedData(encoded)
    writer.SetCompressorTypeToZLib() if packed else writer.SetCompressorTypeToNone()
    writer.SetBlockSize(1024)
    writer.Write()
    file = VtuFile(path)
    found = list(file.chunks(["p", "U", "T"], size=50))
    assert file.cells == mesh.n_cells
    volumes = np.concatenate([cells.volumes for cells in found])
    assert np.allclose(volumes, np.abs(mesh.compute_cell_sizes().cell_data["Volume"]), rtol=1e-6)
    corners = np.array([mesh.get_cell(i).points.mean(axis=0) for i in range(mesh.n_cells)])
    assert np.allclose(np.concatenate([cells.centres for cells in found]), corners, atol=1e-5)
    for name in ("p", "U"):
        values = np.concatenate([cells.fields[name] for cells in found])
        assert np.array_equal(values.squeeze(), mesh.cell_data[name])
    averaged = mesh.point_data_to_cell_data().cell_data["T"]
    assert np.allclose(np.concatenate([cells.fields["T"] for cells in found])[:, 0], averaged)


@pytest.mark.parametrize("form", ["raw", "zlib", "inline"])
def test_memory_does_not_grow_with_the_file(tmp_path, form):
    path = tmp_path / "volume.vtu"
    count = write_volume(path, 300_000, form)
    assert pv.read(path).n_cells == count  # VTK agrees that this is a VTU
    tracemalloc.start()
    try:
        cells = sum(len(part.volumes) for part in VtuFile(path).chunks(["pMeanTrim", "UMeanTrim"]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert cells == count
    assert peak < 20e6  # whole, the corners of the cells alone are 58 MB


def test_polyhedra_weigh_about_as_much_as_the_hexahedra_they_are(tmp_path):
    grid = pv.ImageData(dimensions=(3, 3, 3), spacing=(0.1, 0.2, 0.4))
    grid = grid.cast_to_structured_grid().cast_to_unstructured_grid()
    cars.write_inline(tmp_path / "a.vtu", grid, {"p": np.zeros(grid.n_cells)})
    data = (tmp_path / "a.vtu").read_text()

    def types(kind):
        return base64.b64encode(np.uint64(8).tobytes() + np.full(8, kind, np.uint8).tobytes()).decode()

    assert types(12) in data
    (tmp_path / "b.vtu").write_text(data.replace(types(12), types(42)))
    one, other = (next(VtuFile(tmp_path / f"{name}.vtu").chunks(["p"])).volumes for name in "ab")
    assert one == pytest.approx(0.008)
    assert other == pytest.approx(one, rel=1e-6)


def test_damaged_and_foreign_files_are_refused_by_name(tmp_path, mesh):
    path = tmp_path / "mesh.vtu"
    mesh.save(path)
    path.write_bytes(path.read_bytes()[:-4000])
    with pytest.raises(InputError, match=r"mesh\.vtu"):
        list(VtuFile(path).chunks(["p", "U"]))
    (tmp_path / "no.vtu").write_text("<VTKFile type='PolyData'></VTKFile>")
    with pytest.raises(InputError, match="describes no mesh"):
        VtuFile(tmp_path / "no.vtu")
    mesh.save(tmp_path / "ascii.vtu", binary=False)
    with pytest.raises(InputError, match="binary or appended"):
        list(VtuFile(tmp_path / "ascii.vtu").chunks(["p"]))
    mesh.save(path)
    with pytest.raises(InputError, match="no array nothing"):
        list(VtuFile(path).chunks(["nothing"]))


def test_parts_come_in_the_order_of_their_numbers(tmp_path):
    for number in (10, 2, 0):
        (tmp_path / f"volume_1.vtu.{number:02d}.part").touch()
    assert [path.name.split(".")[-2] for path in parts_of(tmp_path / "volume_1.vtu")] == ["00", "02", "10"]


def test_a_folder_of_ones_own_large_volumes_is_streamed_too(tmp_path):
    body = cars.body(ground=0.0)
    grid = cars.air_around(body)
    body.cell_data["p"] = cars.pressure(body.cell_centers().points)
    body.save(tmp_path / "car.vtp")
    middle = grid.cell_centers().points
    grid.clear_data()
    grid.cell_data["p"], grid.cell_data["U"] = cars.pressure(middle), cars.velocity(middle, 20.0)
    grid.save(tmp_path / "car.vtu")
    (tmp_path / "dataset.toml").write_text("[conditions]\nspeed = 20.0\n")
    case = read_one(tmp_path, "car", keep=500)
    around = ~case.surface
    assert around.sum() == 500
    low, high, *_ = body.bounds
    places = case.points[around] + [(low + high) / 2, 0, 0]
    assert np.allclose(case.fields["U"][around], cars.velocity(places, 20.0), atol=1e-3)
    whole = read_one(tmp_path, "car", keep=200_000)
    assert case.reference["cd"] == pytest.approx(whole.reference["cd"], rel=1e-6)
