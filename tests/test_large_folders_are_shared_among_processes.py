"""A large folder is ranked by processes of their own, with the numbers and the refusals of one process."""

import os
import shutil
from pathlib import Path

import pytest

import aerosurrogate.coeffs as module
from aerosurrogate.body import Body
from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.parallel import each_by_processes
from aerosurrogate.predict import Predictor

SAMPLES = Path(__file__).parents[1] / "sample_meshes"
OPTIONS = CoeffsOptions(StreamOptions(speed=30.0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("ahmed_25.stl", "car_no_wheels.stl"):
        shutil.copy(SAMPLES / name, tmp_path)
    (tmp_path / "torn.stl").write_bytes((SAMPLES / "ahmed_25.stl").read_bytes()[:5000])
    return tmp_path


def test_processes_answer_as_threads_do(folder: Path, monkeypatch: pytest.MonkeyPatch):
    by_threads = coeffs([str(folder)], OPTIONS, jobs=2, processes=True)  # few: not worth their start
    monkeypatch.setattr(module, "FOLDER", 3)
    monkeypatch.setattr(module, "in_batches", None)  # threads are of no use now
    by_processes = coeffs([str(folder)], OPTIONS, jobs=2, processes=True)
    assert by_processes.failed == by_threads.failed
    assert list(by_processes.failed) == [str(folder / "torn.stl")]
    assert list(by_processes.designs) == list(by_threads.designs)
    for one, other in zip(by_processes.rows, by_threads.rows, strict=True):
        assert one["cd"] == pytest.approx(other["cd"], rel=1e-6)
        assert one["cd_integrated"] == pytest.approx(other["cd_integrated"], rel=1e-5)
        assert (one["rank"], one["notes"], one["trust"]) == (other["rank"], other["notes"], other["trust"])


def test_programs_that_did_not_ask_get_no_processes(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "FOLDER", 1)
    monkeypatch.setattr(module, "each_by_processes", None)
    assert len(coeffs([str(folder)], OPTIONS, jobs=2).rows) == 2
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert len(coeffs([str(folder / "ahmed_25.stl")], OPTIONS, processes=True).rows) == 1  # alone


def length_or_die(file: str) -> int:
    if file == "bomb":
        os.abort()
    return len(file)


def test_a_file_that_ends_its_process_is_named_and_the_others_are_read():
    done, failed = each_by_processes(["one", "bomb", "three"], length_or_die, "designs", 2)
    assert done == {"one": 3, "three": 5}
    assert list(failed) == ["bomb"]
    assert "bomb" in failed["bomb"]


def test_what_lies_inside_is_told_by_the_pieces_and_these_are_not_kept():
    predictor = Predictor("car")
    body = predictor.read(str(SAMPLES / "suv.stl"), OPTIONS.stream)
    assert isinstance(body, Body)
    assert body.pieces is not None
    assert len(body.pieces.cells) == len(read_surface(str(SAMPLES / "suv.stl")).cells)
    noted, _ = predictor.in_stream(body, OPTIONS.stream)
    assert noted.pieces is None
    points = body.in_model_frame().centres[::50]
    points = [[0.0, 0.0, 0.5 * points[:, 2].max()], [0.0, 0.0, 2 * points[:, 2].max()]]
    assert body.covers(points).tolist() == noted.covers(points).tolist() == [True, False]
