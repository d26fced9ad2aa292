"""AirfRANS and ShapeNet-Car, from files in the published formats: frames, signs, units, splits."""

import json

import numpy as np
import pytest
import pyvista as pv

from aerosurrogate.data.case import Case
from aerosurrogate.data.prepare import prepare
from aerosurrogate.data.readers import Options, reader_of, recognise
from aerosurrogate.data.store import Dataset
from aerosurrogate.errors import InputError
from aerosurrogate.forces import integrate
from aerosurrogate.mesh.airfoil import naca

RHO, NU = 1.184, 1.56e-5
SHEAR_RATE = 4.0e4  # 1/s: velocity parallel to the wall grows so fast with the distance from it
LAYERS = np.array([0, 1e-5, 3e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5, 2.0, 8.0])  # m


def contour_of(path):
    """Contour (n, 2) counter-clockwise and pressure (n,) of a published aerofoil file."""
    mesh = pv.read(path)
    following = dict(mesh.lines.reshape(-1, 3)[:, 1:])
    order = [0]
    while (after := following[order[-1]]) != 0:
        order.append(after)
    points, p = np.asarray(mesh.points)[order, :2], np.asarray(mesh.point_data["p"])[order]
    x, y = points.T
    clockwise = np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)) < 0
    return (points[::-1], p[::-1]) if clockwise else (points, p)


def write_airfrans(root, name, contour, pressure):
    """A case in the published form around a contour (n, 2): its rings of points leave it along the normals."""
    along = np.roll(contour, -1, axis=0) - np.roll(contour, 1, axis=0)
    tangent = along / np.linalg.norm(along, axis=1, keepdims=True)
    outward = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1)
    n, m = len(contour), len(LAYERS)
    points = contour[None] + LAYERS[:, None, None] * outward[None]
    quads = [
        [4, k * n + i, k * n + (i + 1) % n, (k + 1) * n + (i + 1) % n, (k + 1) * n + i]
        for k in range(m - 1)
        for i in range(n)
    ]
    flat = points.reshape(-1, 2)
    velocity = np.minimum(SHEAR_RATE * LAYERS, 30)[:, None, None] * tangent[None]
    grid = pv.UnstructuredGrid(np.array(quads), np.full(len(quads), 9), np.c_[flat, np.full(len(flat), 0.5)])
    grid.point_data["U"] = np.c_[velocity.reshape(-1, 2), np.zeros(n * m)].astype(np.float32)
    grid.point_data["p"] = np.tile(pressure, m).astype(np.float32)
    grid.point_data["nut"] = np.repeat(LAYERS, n).astype(np.float32)
    grid.point_data["implicit_distance"] = -np.repeat(LAYERS, n).astype(np.float32)
    lines = np.c_[np.full(n, 2), np.arange(n), (np.arange(n) + 1) % n]
    skin = pv.PolyData(np.c_[contour, np.full(n, 0.5)], lines=lines.ravel())
    skin.point_data["p"] = np.asarray(pressure, np.float32)
    skin.point_data["U"] = np.zeros((n, 3), np.float32)
    skin.point_data["Normals"] = np.c_[-outward, np.zeros(n)].astype(np.float32)  # published: into the body
    folder = root / name
    folder.mkdir(parents=True)
    grid.save(folder / f"{name}_internal.vtu")
    skin.save(folder / f"{name}_aerofoil.vtp")
    return outward, tangent


def read_one(source, name, **options) -> Case:
    reader = reader_of(recognise(source))
    batch = next(b for b in reader.batches(source, Options()) if name in b.names)
    return reader.read(batch, name, Options(**options))


NAME = "airFoil2D_SST_43.597_5.932_3.551_3.1_1.0_18.252"


@pytest.fixture(scope="module")
def section():
    return naca("0012")[::2]


def test_airfrans_conventions_are_turned_into_ours(tmp_path, section):
    outward, tangent = write_airfrans(tmp_path, NAME, section, np.linspace(-300, 500, len(section)))
    case = read_one(tmp_path, NAME)
    skin = case.surface
    assert (case.conditions.speed, case.conditions.alpha) == (43.597, 5.932)
    assert (case.conditions.density, case.conditions.viscosity, case.conditions.length) == (RHO, NU, 1.0)
    assert skin.sum() == len(section)
    order = np.argmin(np.linalg.norm(case.points[skin][None] - section[:, None], axis=2), axis=1)
    assert np.allclose(case.fields["p"][skin][order, 0], RHO * np.linspace(-300, 500, len(section)), rtol=1e-5)
    smooth = np.abs(section[:, 0] - 0.5) < 0.4  # off the trailing edge, where lumped normals are not the tangent's
    assert np.allclose(case.normals[skin][order][smooth], outward[smooth], atol=2e-3)
    stress = RHO * NU * SHEAR_RATE * tangent
    assert np.allclose(
        case.fields["wallShearStress"][skin][order][smooth], stress[smooth], atol=0.02 * RHO * NU * SHEAR_RATE
    )
    length = np.linalg.norm(np.roll(section, -1, axis=0) - section, axis=1).sum()
    assert case.areas.sum() == pytest.approx(length, rel=2e-3)
    assert not case.fields["wallShearStress"][~skin].any()
    near = ~skin & (case.fields["nut"][:, 0] < 0.02) & (np.abs(case.points[:, 0] - 0.5) < 0.4)
    assert np.allclose(case.distance[near], case.fields["nut"][near, 0], rtol=0.02)
    assert np.allclose(np.linalg.norm(case.normals[~skin], axis=1), 1, atol=1e-5)
    assert case.tags["naca"] == "3.551 3.1 1.0 18.252"


def test_airfrans_is_cropped_to_the_published_box_unless_told_otherwise(tmp_path, section):
    write_airfrans(tmp_path, NAME, section, np.zeros(len(section)))
    case, everything = read_one(tmp_path, NAME), read_one(tmp_path, NAME, crop=False)
    assert (np.abs(case.points - [1, 0]) <= [3, 1.5]).all()
    assert len(everything.points) == len(section) * len(LAYERS)
    assert len(case.points) < len(everything.points)


def test_the_forces_of_a_real_airfrans_case_are_the_published_ones(shared_data, tmp_path):
    name = "airFoil2D_SST_31.283_-4.156_0.919_6.98_14.32"
    contour, p = contour_of(shared_data / "airfrans" / f"{name}_aerofoil.vtp")
    write_airfrans(tmp_path, name, contour, p)
    case = read_one(tmp_path, name)
    s = case.surface
    force = integrate(case.points[s], case.normals[s], case.areas[s], case.fields["p"][s]).pressure
    a, scale = np.radians(-4.156), case.conditions.dynamic_pressure
    cd, cl = (force[:2] @ [np.cos(a), np.sin(a)]) / scale, (force[:2] @ [-np.sin(a), np.cos(a)]) / scale
    assert cl == pytest.approx(-0.3211, abs=1e-4)
    assert cd == pytest.approx(0.0028, abs=1e-4)
    assert case.reference["cd_pressure"] == pytest.approx(cd, abs=1e-6)


def test_all_tasks_of_airfrans_come_from_its_manifest(tmp_path, section):
    names = [f"airFoil2D_SST_{40 + i}.5_{i}.25_2_4_12" for i in range(4)]
    root = tmp_path / "AirfRANS" / "Dataset"
    for name in names[:3]:
        write_airfrans(root, name, section, np.zeros(len(section)))
    tasks = {"full_train": names[:2], "full_test": names[2:], "scarce_train": names[:1], "reynolds_train": names[1:3]}
    tasks |= {"reynolds_test": names[:1], "aoa_train": names[:1], "aoa_test": names[1:]}
    (root / "manifest.json").write_text(json.dumps(tasks))
    (root / names[1] / f"{names[1]}_internal.vtu").write_text("<VTKFile>cut off")
    summary = prepare([tmp_path / "AirfRANS"], tmp_path / "out", jobs=2)
    assert summary.manifest.format == "airfrans"
    assert set(summary.failures) == {names[1], names[3]}  # damaged, and missing
    assert f"{names[3]}_" in summary.failures[names[3]]
    splits = summary.manifest.splits
    assert (splits["full_train"], splits["full_test"], splits["scarce_train"]) == (names[:1], names[2:3], names[:1])
    assert (splits["reynolds_train"], splits["aoa_test"], splits["train"]) == (names[2:3], names[2:3], names[:1])
    stored = Dataset(tmp_path / "out").case(names[0])
    assert stored.surface[: stored.surface.sum()].all()


def test_an_airfrans_case_whose_skin_is_not_its_contour_is_refused(tmp_path, section):
    write_airfrans(tmp_path, NAME, section, np.zeros(len(section)))
    path = tmp_path / NAME / f"{NAME}_internal.vtu"
    grid = pv.read(path)
    grid.point_data["U"] = np.asarray(grid.point_data["U"]) + np.eye(3)[0]
    grid.save(path)
    with pytest.raises(InputError, match="stands still"):
        read_one(tmp_path, NAME)


# --- ShapeNet-Car -----------------------------------------------------------------------------------------------


def write_car(folder, seed=0):
    """A car in the published form and frame: a closed box of quads, 4 m along +z, in hexahedra; up is +y."""
    folder.mkdir(parents=True)
    size, low = np.array([1.6, 1.2, 4.0]), np.array([-0.8, 0.2, -2.0])
    blocks = pv.ImageData(dimensions=(13, 9, 21), spacing=(0.4, 0.3, 0.5), origin=(-2.4, -0.1, -5.0))
    centres = blocks.cell_centers().points
    body = ((centres > low) & (centres < low + size)).all(axis=1)
    skin = blocks.extract_cells(np.flatnonzero(body)).extract_surface(algorithm="dataset_surface")
    air = blocks.extract_cells(np.flatnonzero(~body))
    skin.clear_data()
    air.clear_data()
    skin.point_data["point_scalars"] = (100.0 * -skin.points[:, 2] + seed).astype(np.float32)  # high in front
    wall = {tuple(p) for p in np.asarray(skin.points, np.float32)}
    still = np.array([tuple(p) in wall for p in np.asarray(air.points, np.float32)])
    air.point_data["point_vectors"] = np.where(still[:, None], 0, [0.5, 0.25, 20.0]).astype(np.float32)
    # The published files are legacy VTK: 2.0 unstructured grids.
    skin.cast_to_unstructured_grid().save(folder / "quadpress_smpl.vtk", binary=False)
    air.save(folder / "hexvelo_smpl.vtk", binary=False)
    return skin, air, int(still.sum())


def test_shapenet_cars_come_in_the_models_frame(tmp_path):
    skin, air, touching = write_car(tmp_path / "param3" / "abc")
    case = read_one(tmp_path, "param3-abc")
    s = case.surface
    assert len(case.points) == skin.n_points + air.n_points - touching
    assert np.allclose(np.sort(case.points[s][:, 0]), np.sort(skin.points[:, 2]))  # flow +z -> +x
    assert case.points[s][:, 2].min() == pytest.approx(skin.points[:, 1].min())  # up +y -> +z
    assert np.allclose(case.fields["U"][~s], [20.0, 0.5, 0.25])
    assert not case.fields["p"][~s].any()
    assert not case.fields["U"][s].any()
    assert np.allclose(case.fields["p"][s][:, 0], -100 * case.points[s][:, 0], atol=1e-3)
    outward = np.einsum("ij,ij->i", case.normals[s], case.points[s] - [0, 0, 0.8])
    assert (outward > 0).all()
    # p = -100 x on a closed box of volume 1.6 x 1.2 x 4: the drag is 100 V, and nothing else acts.
    force = integrate(case.points[s], case.normals[s], case.areas[s], case.fields["p"][s]).pressure
    assert np.allclose(force, [100 * 1.6 * 1.2 * 4.0, 0, 0], atol=1e-2)
    assert (case.conditions.speed, case.conditions.ground) == (20.0, True)
    assert case.conditions.length == pytest.approx(4.0)
    assert case.reference["area"] == pytest.approx(1.6 * 1.2, rel=1e-3)
    assert case.reference["cd"] == pytest.approx(force[0] / (case.conditions.dynamic_pressure * 1.92), rel=1e-3)
    far = np.argmax(case.distance)
    gap = np.maximum(np.abs(case.points[far] - [0, 0, 0.8]) - [2.0, 0.8, 0.6], 0)
    assert case.distance[far] == pytest.approx(np.linalg.norm(gap), rel=1e-5)


def test_the_paper_tests_on_param0_and_a_broken_car_is_left_out(tmp_path):
    for folder, car in (("param0", "a"), ("param0", "b"), ("param1", "c"), ("param8", "d")):
        write_car(tmp_path / "data" / folder / car)
    (tmp_path / "data" / "param1" / "c" / "hexvelo_smpl.vtk").unlink()
    summary = prepare([tmp_path / "data"], tmp_path / "out", jobs=1)
    assert summary.manifest.format == "shapenet-car"
    assert summary.manifest.splits == {"train": ["param8-d"], "test": ["param0-a", "param0-b"]}
    assert "hexvelo_smpl.vtk" in summary.failures["param1-c"]
