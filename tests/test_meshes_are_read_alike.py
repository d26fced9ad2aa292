"""Whatever format a body comes in, the same clean surface comes out, facing the fluid, its arrays with it."""

from pathlib import Path

import meshio
import numpy as np
import pytest
import pyvista as pv

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.read import curve_surface, read_as_it_is, read_surface, units_doubt
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.mesh.volume import read_volume
from aerosurrogate.mesh.write import write_mesh

BOX = pv.Box((0, 4, -1, 1, 0, 1.5), level=2)  # 54 quads
VOLUME, AREA = 12.0, 34.0


def triangles() -> pv.PolyData:
    return BOX.triangulate().clean()


def write(path: Path, kind: str) -> None:
    mesh = triangles()
    cells = [("triangle", mesh.regular_faces)]
    if kind in ("vtp", "vtu", "vtk", "stl", "ply"):
        shape = mesh.cast_to_unstructured_grid() if kind == "vtu" else mesh
        shape.save(path, binary="ascii" not in path.stem)
    elif kind == "msh22":
        meshio.write_points_cells(path, mesh.points, cells, file_format="gmsh22", binary="ascii" not in path.stem)
    elif kind == "msh":
        meshio.write_points_cells(path, mesh.points, cells, file_format="gmsh")
    else:
        meshio.write_points_cells(path, mesh.points, cells)


@pytest.mark.parametrize("kind", ["stl", "ply", "vtp", "vtu", "vtk", "msh", "msh22", "obj", "off", "inp", "nas"])
@pytest.mark.parametrize("custom", ["ascii", "binary"])
def test_every_format_gives_the_same_body(tmp_path: Path, kind: str, custom: str) -> None:
    path = tmp_path / f"{custom}.{'msh' if kind == 'msh22' else kind}"
    write(path, kind)
    body = read_surface(path)
    assert body.name == custom
    assert len(body.points) == 56
    assert len(body.cells) == 108
    assert body.volume == pytest.approx(VOLUME, rel=1e-6)
    assert body.areas.sum() == pytest.approx(AREA, rel=1e-6)
    assert body.bounds == pytest.approx(np.array([[0, -1, 0], [4, 1, 1.5]]))
    assert body.length == pytest.approx(4)


def test_binary_stl_that_calls_itself_solid(tmp_path: Path) -> None:
    path = tmp_path / "car.stl"
    triangles().save(path)
    data = bytearray(path.read_bytes())
    data[:80] = b"solid exported by somebody".ljust(80)
    path.write_bytes(data)
    assert read_surface(path).volume == pytest.approx(VOLUME, rel=1e-6)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("word", ["vertex_index", "vertex_indices"])
def test_ply_with_mixed_polygons_and_either_name(tmp_path: Path, binary: bool, word: str) -> None:
    corners = np.array([[0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0], [1, 1, 3]], dtype="<f4")
    faces = [[3, 2, 1, 0], [0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]]
    head = f"ply\nformat {'binary_little_endian' if binary else 'ascii'} 1.0\ncomment a pyramid\nelement vertex 5\n"
    head += "property float x\nproperty float y\nproperty float z\nproperty uchar red\n"
    head += f"element face 5\nproperty list uchar int {word}\nend_header\n"
    if binary:
        body = b"".join(corner.tobytes() + bytes([200]) for corner in corners)
        body += b"".join(bytes([len(face)]) + np.array(face, dtype="<i4").tobytes() for face in faces)
    else:
        lines = [f"{x} {y} {z} 200" for x, y, z in corners]
        lines += [" ".join(map(str, [len(face), *face])) for face in faces]
        body = "\n".join(lines).encode()
    path = tmp_path / "pyramid.ply"
    path.write_bytes(head.encode() + body)
    body_read = read_surface(path)
    assert len(body_read.cells) == 6
    assert body_read.volume == pytest.approx(4)
    assert body_read.notes == []
    assert np.all(body_read.point_data["red"] == 200)


def test_polygons_are_triangulated_with_their_arrays(tmp_path: Path) -> None:
    mesh = BOX.copy()
    mesh.cell_data["p"] = mesh.cell_centers().points[:, 0]
    mesh.point_data["height"] = mesh.points[:, 2]
    for name in ("quads.vtp", "quads.vtk", "quads.vtu"):
        (mesh.cast_to_unstructured_grid() if name.endswith("vtu") else mesh).save(tmp_path / name)
        body = read_surface(tmp_path / name)
        assert body.volume == pytest.approx(VOLUME, rel=1e-6)
        np.testing.assert_allclose(body.point_data["height"], body.points[:, 2], atol=1e-6)
        # Both halves of a quad carry its value, and it is the quad's centre that both triangles lie around.
        assert np.abs(body.cell_data["p"] - body.centres[:, 0]).max() < 4 / 9 + 1e-6
        assert np.sum(body.cell_data["p"] * body.areas) == pytest.approx(2 * AREA, rel=1e-6)


def test_faces_are_turned_outward(tmp_path: Path) -> None:
    mesh = triangles()
    mesh.flip_faces(inplace=True)
    mesh.save(tmp_path / "inward.vtp")
    assert read_as_it_is(tmp_path / "inward.vtp").volume == pytest.approx(-VOLUME, rel=1e-6)
    body = read_surface(tmp_path / "inward.vtp")
    assert body.volume == pytest.approx(VOLUME, rel=1e-6)
    assert body.notes == ["108 of 108 faces turned outward"]
    outward = np.einsum("md,md->m", body.normals, body.centres - body.bounds.mean(axis=0))
    assert np.all(outward > 0)
    faces = triangles().regular_faces.copy()
    faces[::5] = faces[::5, ::-1]
    mixed = tmp_path / "mixed.vtp"
    pv.PolyData.from_regular_faces(triangles().points, faces).save(mixed)
    assert read_surface(mixed).volume == pytest.approx(VOLUME, rel=1e-6)


def test_half_a_body_is_not_turned_inside_out(tmp_path: Path) -> None:
    half = (
        triangles().clip("y", origin=(0, 0, 0), invert=False).extract_surface(algorithm="dataset_surface").triangulate()
    )
    half.save(tmp_path / "half.stl")
    body = read_surface(tmp_path / "half.stl")
    assert body.notes == []
    outward = np.einsum("md,md->m", body.normals, body.centres - np.array([2, 0, 0.75]))
    assert np.all(outward > 0)


@pytest.mark.parametrize("clockwise", [False, True])
def test_normals_of_a_curve_point_out_for_both_windings(tmp_path: Path, clockwise: bool) -> None:
    angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    write_mesh(curve_surface(points[::-1] if clockwise else points, ""), tmp_path / "circle.vtp")
    circle = read_surface(tmp_path / "circle.vtp")
    assert circle.dimension == 2
    np.testing.assert_allclose(np.einsum("md,md->m", circle.normals, circle.centres), np.cos(np.pi / 100), atol=1e-6)
    np.testing.assert_allclose(circle.point_normals, circle.points, atol=1e-6)
    assert circle.volume == pytest.approx(np.pi, rel=1e-3)


def test_normals_of_points_are_weighted_by_area() -> None:
    body = Surface(np.asarray(triangles().points, dtype=float), triangles().regular_faces.astype(np.int64))
    assert body.point_area_vectors.sum(axis=0) == pytest.approx([0, 0, 0], abs=1e-12)
    corner = np.flatnonzero((body.points == [4, 1, 1.5]).all(axis=1))[0]
    around = np.flatnonzero((body.cells == corner).any(axis=1))
    expected = body.area_vectors[around].sum(axis=0)
    assert body.point_normals[corner] == pytest.approx(expected / np.linalg.norm(expected))


def test_duplicates_and_slivers_are_left_out_and_counted(tmp_path: Path) -> None:
    mesh = triangles()
    points = np.concatenate([mesh.points, mesh.points[:1], [[9, 9, 9]]])
    faces = np.concatenate([mesh.regular_faces, mesh.regular_faces[:2], [[0, 0, 1], [0, len(mesh.points), 1]]])
    pv.PolyData.from_regular_faces(points, faces).save(tmp_path / "dirty.vtp")
    body = read_surface(tmp_path / "dirty.vtp")
    assert len(body.cells) == 108
    assert len(body.points) == 56
    assert any("2 degenerate" in note for note in body.notes)
    assert any("2 repeated" in note for note in body.notes)


def test_boundary_of_a_volume_file(tmp_path: Path) -> None:
    grid = pv.ImageData(dimensions=(5, 4, 3)).cast_to_unstructured_grid()
    grid.cell_data["p"] = np.arange(grid.n_cells, dtype=float)
    grid.save(tmp_path / "block.vtu")
    body = read_surface(tmp_path / "block.vtu")
    assert body.volume == pytest.approx(24)
    assert "p" in body.cell_data
    assert read_volume(tmp_path / "block.vtu").grid.n_cells == 24


@pytest.mark.parametrize(("units", "length"), [("m", 4.0), ("cm", 0.04), ("mm", 0.004), ("in", 0.1016), ("ft", 1.2192)])
def test_units_are_applied_when_given(tmp_path: Path, units: str, length: float) -> None:
    triangles().save(tmp_path / "box.stl")
    assert read_surface(tmp_path / "box.stl", units).length == pytest.approx(length, rel=1e-6)


def test_units_are_guessed_and_not_applied(tmp_path: Path) -> None:
    triangles().scale(1000).save(tmp_path / "box.stl")
    body = read_surface(tmp_path / "box.stl")
    assert body.length == pytest.approx(4000)
    assert "--units mm" in body.notes[0]
    assert "--units cm" in str(units_doubt(450))
    assert units_doubt(4.5) is None
    assert units_doubt(1e-4) is not None
    with pytest.raises(InputError, match="unknown units"):
        read_surface(tmp_path / "box.stl", "furlong")


@pytest.mark.parametrize("kind", ["vtu", "vtp", "stl"])
def test_what_is_written_is_read_back(tmp_path: Path, kind: str) -> None:
    body = Surface(
        np.asarray(triangles().points, dtype=float),
        triangles().regular_faces.astype(np.int64),
        cell_data={"p": np.arange(108.0)},
    )
    write_mesh(body, tmp_path / f"out.{kind}")
    again = read_surface(tmp_path / f"out.{kind}")
    assert again.volume == pytest.approx(VOLUME, rel=1e-6)
    if kind != "stl":
        np.testing.assert_array_equal(again.cells, body.cells)
        np.testing.assert_array_equal(again.cell_data["p"], body.cell_data["p"])
    assert [path.name for path in tmp_path.iterdir()] == [f"out.{kind}"]


def test_real_car_encloses_its_volume(shared_data: Path) -> None:
    car = read_surface(shared_data / "shapenet_car" / "mini_car_0.vtp")
    assert (len(car.points), len(car.cells)) == (3586, 7168)
    assert car.area_vectors.sum(axis=0) == pytest.approx([0, 0, 0], abs=1e-5)
    # Its pressure force along +z is known: point values averaged to triangles.
    p = car.point_data["p"][car.cells].mean(axis=1)
    assert -(p @ car.area_vectors)[2] == pytest.approx(111.60, abs=0.01)
