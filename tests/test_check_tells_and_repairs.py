"""`check` sees what is wrong with a mesh, says what would be done, and does it when asked."""

import json
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
from typer.testing import CliRunner

from aerosurrogate.cli import app
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.check import Report, check
from aerosurrogate.mesh.orient import outward
from aerosurrogate.mesh.read import curve_surface, read_as_it_is
from aerosurrogate.mesh.write import write_mesh

SAMPLE = Path(__file__).parents[1] / "sample_meshes" / "car.stl"


def ball(radius: float = 1.0, centre: tuple[float, float, float] = (0, 0, 0)) -> pv.PolyData:
    return pv.Icosphere(radius=radius, center=centre, nsub=3)


def report_on(mesh: pv.PolyData, folder: Path) -> Report:
    mesh.save(folder / "body.vtp")
    return check([folder / "body.vtp"])[0]


def without(mesh: pv.PolyData, faces: list[int]) -> pv.PolyData:
    return pv.PolyData.from_regular_faces(mesh.points, np.delete(mesh.regular_faces, faces, axis=0))


def test_a_sound_body(tmp_path: Path) -> None:
    report = report_on(ball(), tmp_path)
    assert report.watertight
    assert report.orientation == "outward"
    assert (report.pieces, report.open_edges, report.non_manifold_edges, report.enclosed_pieces) == (1, 0, 0, 0)
    assert report.length == pytest.approx(2, rel=1e-2)
    assert report.volume == pytest.approx(4 / 3 * np.pi, rel=2e-2)
    assert report.area == pytest.approx(4 * np.pi, rel=2e-2)
    assert 0.8 < report.worst_quality <= 1
    assert report.findings == report.repairs == []


def test_holes_are_counted_and_small_ones_closed(tmp_path: Path) -> None:
    report = report_on(without(ball(), [7, 500]), tmp_path)
    assert not report.watertight
    assert (report.open_edges, report.holes) == (6, 2)
    assert report.repairs == ["2 small holes closed"]
    check([tmp_path / "body.vtp"], repair=tmp_path / "mended.stl")
    mended = check([tmp_path / "mended.stl"])[0]
    assert mended.watertight
    assert mended.volume == pytest.approx(ball().volume, rel=1e-3)


def test_a_large_opening_is_left_as_it_is(tmp_path: Path) -> None:
    half = ball().clip("y", invert=False).extract_surface(algorithm="dataset_surface").triangulate()
    report = report_on(half, tmp_path)
    assert report.repairs == []
    assert "too large" in report.findings[0]
    assert "--symmetry y" in report.findings[0]


@pytest.mark.parametrize(("every", "word"), [(1, "inward"), (3, "mixed")])
def test_orientation(tmp_path: Path, every: int, word: str) -> None:
    mesh = ball()
    faces = mesh.regular_faces.copy()
    faces[::every] = faces[::every, ::-1]
    report = report_on(pv.PolyData.from_regular_faces(mesh.points, faces), tmp_path)
    assert report.orientation == word
    assert report.turned_faces == len(faces[::every])
    check([tmp_path / "body.vtp"], repair=tmp_path / "mended.vtp")
    assert read_as_it_is(tmp_path / "mended.vtp").volume == pytest.approx(mesh.volume, rel=1e-5)


def test_pieces_cavities_and_intersections(tmp_path: Path) -> None:
    cavity = ball(0.3)
    cavity.flip_faces(inplace=True)
    report = report_on(ball().append_polydata(cavity), tmp_path)
    assert (report.pieces, report.enclosed_pieces, report.inner_faces) == (2, 1, cavity.n_cells)
    assert report.orientation == "outward"
    report = report_on(ball().append_polydata(ball(centre=(1, 0, 0))), tmp_path)
    assert (report.pieces, report.enclosed_pieces) == (2, 0)
    assert 0.2 < report.inner_faces / report.faces < 0.3
    assert any("union" in finding for finding in report.findings)


def test_edges_that_join_three_faces(tmp_path: Path) -> None:
    box = pv.Box(level=1).triangulate().clean()
    wall = [[0.0, -1, -1], [0, 1, -1], [0, 1, 1], [0, -1, 1]]
    index = [int(np.flatnonzero((box.points == corner).all(axis=1))[0]) for corner in wall]
    faces = np.concatenate([box.regular_faces, [[index[0], index[1], index[2]]]])
    report = report_on(pv.PolyData.from_regular_faces(box.points, faces), tmp_path)
    assert not report.watertight
    assert report.open_edges > 0
    fin = np.concatenate([box.regular_faces, [[*box.regular_faces[0][:2], index[2]]]])
    assert report_on(pv.PolyData.from_regular_faces(box.points, fin), tmp_path).non_manifold_edges >= 1


@pytest.mark.parametrize("seed", range(3))
def test_a_real_car_survives_damage(tmp_path: Path, shared_data: Path, seed: int) -> None:
    car = pv.read(shared_data / "shapenet_car" / "mini_car_0.vtp")
    rng = np.random.default_rng(seed)
    faces = np.delete(car.regular_faces, rng.choice(car.n_cells, 8, replace=False), axis=0)
    flipped = rng.random(len(faces)) < 0.3
    faces[flipped] = faces[flipped][:, ::-1]
    report = report_on(pv.PolyData.from_regular_faces(car.points, faces), tmp_path)
    assert report.orientation == "mixed"
    assert not report.watertight
    check([tmp_path / "body.vtp"], repair=tmp_path / "mended.stl")
    mended = check([tmp_path / "mended.stl"])[0]
    assert mended.watertight
    assert mended.orientation == "outward"
    assert mended.volume == pytest.approx(car.volume, rel=1e-3)


@pytest.mark.parametrize(
    "sample", sorted((Path(__file__).parents[1] / "sample_meshes").glob("*.stl")), ids=lambda p: p.stem
)
def test_samples_are_sound(sample: Path) -> None:
    report = check([sample])[0]
    assert report.watertight
    assert report.orientation == "outward"
    assert report.repairs == []
    assert not any("--units" in finding for finding in report.findings)


def test_units_are_guessed_aloud(tmp_path: Path) -> None:
    report = report_on(ball(2200), tmp_path)
    assert report.length == pytest.approx(4400, rel=1e-2)
    assert "--units mm" in report.findings[0]
    assert check([tmp_path / "body.vtp"], units="mm")[0].findings == []


def test_an_open_curve_is_closed(tmp_path: Path) -> None:
    angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    circle = curve_surface(np.stack([np.cos(angle), np.sin(angle)], axis=1), "")
    gap = np.ones(100, dtype=bool)
    gap[30] = False
    write_mesh(circle.select(gap), tmp_path / "curve.vtp")
    report = check([tmp_path / "curve.vtp"], repair=tmp_path / "closed.vtp")[0]
    assert (report.open_edges, report.holes) == (2, 1)
    closed = check([tmp_path / "closed.vtp"])[0]
    assert closed.watertight
    assert closed.volume == pytest.approx(circle.volume, rel=1e-6)


def test_one_damaged_file_does_not_hide_the_others(tmp_path: Path) -> None:
    ball().save(tmp_path / "good.stl")
    (tmp_path / "bad.stl").write_text("hello")
    answer = CliRunner().invoke(app, ["check", str(tmp_path / "good.stl"), str(tmp_path / "bad.stl"), "--json"])
    good, bad = json.loads(answer.stdout)["meshes"]
    assert good["watertight"]
    assert "bad.stl" in bad["error"]
    assert isinstance(answer.exception, InputError)


def test_table_of_a_sample(tmp_path: Path) -> None:
    ball(2.2).save(tmp_path / "ball.stl")
    answer = CliRunner().invoke(app, ["check", str(tmp_path / "ball.stl"), "--repair", str(tmp_path / "out.stl")])
    assert answer.exit_code == 0
    assert "watertight" in answer.stdout
    assert (tmp_path / "out.stl").is_file()


@pytest.mark.parametrize("seed", range(3))
def test_a_car_with_hundreds_of_missing_triangles_is_closed(tmp_path: Path, seed: int) -> None:
    whole = read_as_it_is(SAMPLE)
    missing = np.random.default_rng(seed).choice(len(whole.cells), 400, replace=False)
    damaged = pv.PolyData.from_regular_faces(whole.points, np.delete(whole.cells, missing, axis=0))
    damaged.save(tmp_path / "damaged.stl")
    found = check([tmp_path / "damaged.stl"], repair=tmp_path / "mended.stl")[0]
    assert not found.watertight
    assert found.repaired_watertight
    mended = check([tmp_path / "mended.stl"])[0]
    assert mended.watertight
    assert (mended.open_edges, mended.non_manifold_edges, mended.pieces) == (0, 0, 5)
    assert outward(read_as_it_is(tmp_path / "mended.stl"))[0].volume == pytest.approx(whole.volume, rel=1e-4)


def test_holes_that_touch_in_a_point_are_closed_apart(tmp_path: Path) -> None:
    mesh = ball()
    corner = int(mesh.regular_faces[0][0])
    around = np.flatnonzero((mesh.regular_faces == corner).any(axis=1))
    apart = [int(around[0])]  # two faces at one corner that share no edge
    apart += [int(f) for f in around if len(set(mesh.regular_faces[f]) & set(mesh.regular_faces[apart[0]])) == 1][:1]
    report = report_on(without(mesh, apart), tmp_path)
    assert (report.holes, report.open_edges) == (2, 6)
    assert check([tmp_path / "body.vtp"], repair=tmp_path / "mended.stl")[0].repaired_watertight


def test_loose_faces_are_left_out(tmp_path: Path) -> None:
    scrap = pv.PolyData.from_regular_faces([[3.0, 0, 0], [3.1, 0, 0], [3, 0.1, 0]], [[0, 1, 2]])
    report = report_on(ball().append_polydata(scrap), tmp_path)
    assert "1 loose faces left out" in report.repairs
    check([tmp_path / "body.vtp"], repair=tmp_path / "mended.stl")
    assert check([tmp_path / "mended.stl"])[0].pieces == 1


def test_what_cannot_be_made_sound_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(ball(), [7]).save(tmp_path / "body.vtp")
    monkeypatch.setattr("aerosurrogate.mesh.check.repaired", lambda surface: surface)
    with pytest.raises(InputError, match="not written"):
        check([tmp_path / "body.vtp"], repair=tmp_path / "mended.stl")
    assert not (tmp_path / "mended.stl").exists()
