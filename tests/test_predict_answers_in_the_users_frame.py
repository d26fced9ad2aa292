"""A prediction does not depend on how a file is written, and comes back in the file's own axes and units."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
import torch
from small_models import ask_few_places, save_small
from typer.testing import CliRunner

from aerosurrogate import devices, parallel
from aerosurrogate.cli import app
from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.errors import InputError
from aerosurrogate.model import tiles
from aerosurrogate.parallel import threads_each
from aerosurrogate.predict import Predictor, Wanted, chunk_of, predict
from aerosurrogate.surrogate import Surrogate

SAMPLE = Path(__file__).parents[1] / "sample_meshes" / "car.stl"
KEYS = ("cd", "cl", "cm", "cd_integrated", "cl_integrated", "cd_friction", "area_m2", "length_m", "drag_n")


@pytest.fixture(autouse=True)
def few_places(monkeypatch):
    ask_few_places(monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("predict")


@pytest.fixture(scope="module")
def model(folder) -> str:
    return save_small(folder, 3)


@pytest.fixture(scope="module")
def airfoil_model(folder) -> str:
    return save_small(folder, 2)


@pytest.fixture(scope="module")
def car(folder) -> Path:
    """A box with a cabin, 4 m long, as a plain STL file: quick to predict."""
    body = pv.Box((-2, 2, -0.8, 0.8, 0.2, 0.9), level=11).triangulate()
    body.points[:, 2] += np.where(body.points[:, 2] > 0.85, 0.5 * np.exp(-(body.points[:, 0] ** 2)), 0)
    path = folder / "car.stl"
    body.save(path)
    return path


@pytest.fixture(scope="module")
def plain(car, model) -> dict:
    return row_of(car, model)


def row_of(path: Path, model: str, **stream: object) -> dict:
    return coeffs([str(path)], CoeffsOptions(StreamOptions(**stream), model=model)).rows[0]


def same(found: dict, expected: dict, rel: float = 1e-4) -> None:
    for key in KEYS:
        assert found[key] == pytest.approx(expected[key], rel=rel, abs=1e-6), key


def test_fields_file_gives_the_coefficients_of_the_shape(car, model, plain, folder):
    out = folder / "fields.vtu"
    written = predict([str(car)], out, StreamOptions(), model=model)
    again = row_of(out, model)
    same(again, plain, rel=1e-6)
    assert written.rows[str(car)]["cd"] == plain["cd"]
    mesh = pv.read(out)
    assert {"region", "p", "Cp", "U", "wallShearStress"} <= set(mesh.cell_data)
    assert "p: Pa" in mesh.field_data["units"]
    assert mesh.field_data["cd"][0] == pytest.approx(plain["cd"])
    assert set(np.unique(mesh["region"])) == {0, 1, 2}
    skin = mesh.extract_cells(mesh["region"] == 0)
    assert skin.n_cells == pv.read(car).n_cells
    assert np.all(skin["U"] == 0)
    assert np.mean(mesh["U"][mesh["region"] > 0].any(axis=1)) > 0.99
    q = 0.5 * plain["density"] * plain["speed"] ** 2
    assert np.allclose(mesh["Cp"] * q, mesh["p"], rtol=1e-5)


def test_the_air_around_a_body_can_be_cut_and_traced(car, model, folder):
    out = folder / "air.vtu"
    predict([str(car)], out, StreamOptions(), model=model)
    mesh = pv.read(out)
    assert {"p", "Cp", "U", "wallShearStress"} <= set(mesh.point_data)
    air = mesh.extract_cells(np.flatnonzero(mesh.cell_data["region"] == 1))
    assert set(air.celltypes) == {pv.CellType.HEXAHEDRON}
    sizes = air.compute_cell_sizes()["Volume"]
    assert sizes.min() > 0
    assert sizes.max() > 20 * sizes.min()  # fine beside the body, coarse away from it
    box = np.ptp(np.asarray(air.points), axis=0).prod()
    assert sizes.sum() == pytest.approx(box, rel=0.05)  # all of the box but the body
    cut = air.slice("x", origin=air.center)
    assert cut.n_cells > 50
    assert np.isfinite(cut["U"]).all()
    traced = air.streamlines("U", n_points=5, source_center=air.center, source_radius=0.5, max_length=2.0)
    assert traced.n_points > 5


def test_the_skin_alone_is_a_file_of_polygons(car, model, plain, folder):
    out = folder / "skin.vtp"
    predict([str(car)], out, StreamOptions(), model=model)
    skin = pv.read(out)
    assert isinstance(skin, pv.PolyData)
    assert skin.n_cells == pv.read(car).n_cells
    assert "Cp" in skin.point_data
    same(row_of(out, model), plain, rel=1e-6)


def test_the_order_of_points_and_faces_does_not_matter(car, model, plain, folder):
    mesh = pv.read(car).clean()
    random = np.random.default_rng(0)
    shuffle = random.permutation(mesh.n_points)
    faces = np.argsort(shuffle)[mesh.regular_faces][random.permutation(mesh.n_cells)]
    faces = np.stack([np.roll(face, random.integers(3)) for face in faces])
    path = folder / "shuffled.vtp"
    pv.PolyData.from_regular_faces(mesh.points[shuffle], faces).save(path)
    same(row_of(path, model), plain)


def test_axes_units_and_place_do_not_matter(car, model, plain, folder):
    mesh = pv.read(car)
    turned = mesh.copy()
    turned.points = 1000 * (mesh.points[:, [1, 2, 0]] + [3.0, 0.0, -7.0])
    path = folder / "turned.stl"
    turned.save(path)
    same(row_of(path, model, flow="+z", up="+y", units="mm"), plain, rel=2e-3)


def test_chunks_do_not_matter(car, model):
    whole, parts = (
        Predictor(model).predict(str(car), StreamOptions(), Wanted(surface_only=True, chunk=size))
        for size in (None, 97)
    )
    q = whole.conditions.dynamic_pressure
    assert np.abs(whole.skin["p"] - parts.skin["p"]).max() < 1e-4 * q
    assert whole.direct["drag"] == pytest.approx(parts.direct["drag"], rel=1e-5)


def test_a_finer_mesh_of_the_same_shape_has_the_same_drag(car, model, plain, folder):
    fine = pv.read(car).subdivide(1)
    path = folder / "fine.stl"
    fine.save(path)
    finer = row_of(path, model)
    assert finer["cd"] == pytest.approx(plain["cd"], rel=0.03)
    assert finer["area_m2"] == pytest.approx(plain["area_m2"], rel=1e-3)


def test_a_grid_and_the_users_own_mesh_hold_the_same_fields(car, model, folder):
    out = folder / "grid.vtu"
    predict([str(car)], out, StreamOptions(), Wanted(grid=(12, 6, 5)), model=model)
    grid = pv.read(out)
    cells = grid.extract_cells(grid["region"] == 1)
    assert 200 < cells.n_cells < 12 * 6 * 5  # those inside the body are left out
    mine = folder / "mine.vtu"
    cells.extract_cells(range(0, cells.n_cells, 7)).save(mine)
    answer = folder / "answer.vtu"
    predict([str(car)], answer, StreamOptions(), points=mine, model=model)
    mesh = pv.read(answer)
    assert np.allclose(mesh["U"], cells["U"][::7], atol=1e-3)
    assert np.allclose(mesh["p"], cells["p"][::7], atol=1e-2)
    assert "cd" in mesh.field_data


def test_points_inside_the_body_have_no_answer_and_the_wall_stands_still(car, model, folder):
    points = pv.PolyData([[0.0, 0.0, 0.5], [0.0, 0.0, 0.2], [-3.0, 0.0, 0.5]])
    points["id"] = [0, 1, 2]
    path = folder / "points.vtp"
    points.save(path)
    out = folder / "at_points.vtu"
    predict([str(car)], out, StreamOptions(), points=path, model=model)
    found = pv.read(out)
    assert np.isnan(found["U"][0]).all()
    assert np.all(found["U"][1] == 0)
    assert np.linalg.norm(found["U"][2]) > 0


def test_airfoils_are_predicted_by_name_and_by_coordinates(airfoil_model, folder):
    from aerosurrogate.mesh.airfoil import naca

    settings = CoeffsOptions(StreamOptions(alpha=4.0, reynolds=3e6), model=airfoil_model)
    curve = naca("2412")
    path = folder / "section.dat"
    path.write_text("a section\n" + "\n".join(f"{x:.9f} {y:.9f}" for x, y in 2.0 * curve))
    named, given = (coeffs([name], settings).rows[0] for name in ("naca2412", str(path)))
    assert given["length_m"] == pytest.approx(2.0, rel=1e-3)
    assert given["reynolds"] == pytest.approx(3e6)
    for key in ("cd", "cl", "cd_integrated"):
        assert given[key] == pytest.approx(named[key], rel=2e-3, abs=1e-4), key
    out = folder / "section.vtu"
    predict(["naca2412"], out, settings.stream, model=airfoil_model)
    same(coeffs([str(out)], CoeffsOptions(model=airfoil_model)).rows[0], named, rel=1e-6)
    mesh = pv.read(out)
    assert np.isclose(mesh.extract_cells(mesh["region"] == 1).area, 6 * 3, rtol=0.01)  # all of the box but the section


def test_a_section_turned_in_its_file_has_the_lift_of_the_turned_stream(airfoil_model, folder):
    from aerosurrogate.mesh.airfoil import naca

    angle = np.radians(5)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])  # nose up by 5 degrees
    path = folder / "nose_up.dat"
    path.write_text("\n".join(f"{x:.9f} {y:.9f}" for x, y in naca("0012") @ turn.T + 3.0))
    nose_up, level = (
        coeffs([name], CoeffsOptions(StreamOptions(alpha=alpha), model=airfoil_model)).rows[0]
        for name, alpha in ((str(path), 1.0), ("naca0012", 6.0))
    )
    for key in ("cd", "cl", "cm", "cl_integrated"):
        assert nose_up[key] == pytest.approx(level[key], rel=5e-3, abs=1e-4), key
    assert any("degrees off the x axis" in note for note in nose_up["notes"])


@pytest.mark.parametrize(
    ("make", "stream", "words"),
    [
        (lambda m: m.scale(1000.0), {}, "--units mm"),
        (lambda m: m, {"alpha": 5.0}, "airfoils"),
        (lambda m: m, {"speed": -3.0}, "--speed"),
        (lambda m: m, {"flow": "+x", "up": "-x"}, "--flow"),
        (lambda m: m, {"ground": "deep"}, "--ground"),
    ],
)
def test_refusals_name_the_option_that_settles_them(make, stream, words, car, model, folder):
    path = folder / "refused.stl"
    make(pv.read(car)).save(path)
    with pytest.raises(InputError, match=words):
        row_of(path, model, **stream)


def test_a_shape_of_the_wrong_dimension_is_refused(car, airfoil_model):
    with pytest.raises(InputError, match="--model"):
        row_of(car, airfoil_model)


def test_fields_predicted_at_another_speed_are_not_passed_off(car, model, folder):
    out = folder / "slow.vtu"
    predict([str(car)], out, StreamOptions(speed=25), Wanted(surface_only=True), model=model)
    assert row_of(out, model)["speed"] == 25
    with pytest.raises(InputError, match="predict again"):
        row_of(out, model, speed=30)


def test_free_memory_is_known_on_every_system(car, model, monkeypatch):
    monkeypatch.delattr(os, "sysconf", raising=False)  # as on Windows; macOS lacks the name that was asked for
    assert row_of(car, model)["cd"] > 0


def test_what_torch_holds_of_a_card_without_using_it_is_free(monkeypatch):
    for name, value in {"mem_get_info": (5, 80), "memory_reserved": 7, "memory_allocated": 3}.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    assert devices.free_memory(torch.device("cuda")) == 9


def test_shapes_at_once_share_memory_and_cores(model, monkeypatch):
    surrogate = Surrogate.load(model, "cpu")
    few = 4 * 8192 * 64 * surrogate.model.channels  # bytes, a quarter of which 8192 points take
    monkeypatch.setattr(devices, "free_memory", lambda device: few)
    assert [chunk_of(surrogate, at_once) for at_once in (1, 2, 4)] == [8192, 4096, 2048]
    monkeypatch.setattr(tiles, "free_memory", lambda device: few)
    kept = [tiles.affordable(Predictor(model, "cpu", at_once).surrogate(3).model) for at_once in (1, 2, 4)]
    assert kept == [8192 * 16, 8192 * 8, 8192 * 4]  # 64 bytes at work, 4 that are kept
    monkeypatch.setattr(parallel, "cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert [threads_each(at_once) for at_once in (1, 2, 8, 30)] == [8, 4, 1, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert [threads_each(at_once) for at_once in (1, 2, 8, 30)] == [2, 2, 1, 1]


def test_one_bad_file_does_not_stop_the_others(car, model, folder):
    bad = folder / "bad.stl"
    bad.write_bytes(b"")
    out = folder / "many"
    args = [str(car), str(bad), str(folder / "absent.stl"), "--model", model]
    result = CliRunner().invoke(app, ["predict", *args, "--out", str(out), "--surface-only", "--json"])
    assert isinstance(result.exception, InputError)  # exit code 2
    document = json.loads(result.stdout)
    assert [d["name"] for d in document["designs"]] == ["car"]
    assert set(document["failed"]) == {str(bad), str(folder / "absent.stl")}
    assert (out / "car.vtu").is_file()
    assert [p.name for p in out.iterdir()] == ["car.vtu"]


def test_ranking_is_best_first_and_json_holds_what_is_promised(car, model, folder):
    taller = pv.read(car).scale([1.0, 1.0, 1.3])
    path = folder / "taller.stl"
    taller.save(path)
    result = CliRunner().invoke(app, ["coeffs", str(car), str(path), "--model", model, "--json"])
    document = json.loads(result.stdout)
    rows = document["designs"]
    assert [r["rank"] for r in rows] == [1, 2]
    assert rows[0]["cd"] <= rows[1]["cd"]
    promised = {
        "name", "file", "rank", "cd", "cl", "cm", "drag_n", "lift_n", "cd_integrated", "cl_integrated", "cd_pressure",
        "cd_friction", "area_m2", "trust",
    }  # fmt: skip
    assert promised <= set(rows[0])
    assert {"speed", "density", "flow", "up"} <= set(document["reference"])
    worst_first = coeffs([str(car), str(path)], CoeffsOptions(model=model), sort="-cd").rows
    assert [r["name"] for r in worst_first] == [r["name"] for r in reversed(rows)]


def test_a_car_of_several_pieces_is_predicted_as_their_union(model):
    row = row_of(SAMPLE, model)
    assert any("inside another piece" in note for note in row["notes"])
    assert any("ground at the file's zero height" in note for note in row["notes"])


def test_a_folder_stands_for_the_shapes_in_it(car, model, tmp_path):
    for name in ("one", "two"):
        pv.read(car).save(tmp_path / f"{name}.stl")
    (tmp_path / "notes.md").write_text("not a shape")
    assert sorted(r["name"] for r in coeffs([str(tmp_path)], CoeffsOptions(model=model)).rows) == ["one", "two"]


@pytest.mark.slow
def test_processes_of_torchrun_share_the_designs_and_the_first_answers(car, model, tmp_path):
    for height in (1.0, 1.1, 1.2):
        pv.read(car).scale([1, 1, height]).save(tmp_path / f"h{10 * height:.0f}.stl")
    alone = coeffs([str(tmp_path)], CoeffsOptions(model=model)).rows
    command = ["torchrun", "--nproc-per-node", "2", "-m", "aerosurrogate", "coeffs", str(tmp_path), "--model", model]
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True, timeout=300, env=env)
    together = json.loads(result.stdout)["designs"]
    assert [r["name"] for r in together] == [r["name"] for r in alone]
    for found, expected in zip(together, alone, strict=True):
        same(found, expected, rel=1e-5)
