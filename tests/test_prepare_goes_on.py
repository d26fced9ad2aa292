"""Preparing a folder: others go on where one fails, finished work is kept, changes are noticed, everything is said."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import pyvista as pv

from aerosurrogate.data.prepare import Summary, prepare
from aerosurrogate.data.readers import Options, recognise
from aerosurrogate.data.store import Dataset
from aerosurrogate.errors import InputError
from aerosurrogate.parallel import over_processes

SETTINGS = """
surface = "*.vtp"
volume = "{stem}_air.vtu"
pressure = "kinematic"
[arrays]
p = "pressure"
U = "velocity"
[conditions]
speed = 30.0
density = 1.2
[axes]
flow = "+z"
up = "+y"
[splits]
test = ["ball_1*"]
"""


def write_ball(folder, name, radius=0.5, values=None):
    """A sphere 1 m above the ground in a stream along +z, with p = -z at its points, and some air around it."""
    ball = pv.Icosphere(radius=radius, nsub=3, center=(0.0, 1.0, 0.0))
    ball.point_data["pressure"] = -ball.points[:, 2] if values is None else values
    ball.save(folder / f"{name}.vtp")
    air = pv.ImageData(dimensions=(9, 9, 9), spacing=(0.5,) * 3, origin=(-2, -1, -2)).cast_to_unstructured_grid()
    out = np.linalg.norm(air.cell_centers().points - [0, 1, 0], axis=1) > radius
    air = air.extract_cells(np.flatnonzero(out))
    air.cell_data["velocity"] = np.tile([0.0, 1.0, 30.0], (air.n_cells, 1))
    air.cell_data["pressure"] = np.full(air.n_cells, 5.0)
    air.save(folder / f"{name}_air.vtu")


@pytest.fixture
def balls(tmp_path):
    folder = tmp_path / "balls"
    folder.mkdir()
    (folder / "dataset.toml").write_text(SETTINGS)
    for i in range(3):
        write_ball(folder, f"ball_{i}")
    return folder


def run(folder, out, **options) -> Summary:
    return prepare([folder], out, Options(**options), jobs=1)


def test_a_folder_of_vtk_files_comes_as_its_toml_says(balls, tmp_path):
    assert recognise(balls) == "vtk"
    summary = run(balls, tmp_path / "out")
    assert summary.manifest.splits == {"train": ["ball_0", "ball_2"], "test": ["ball_1"]}
    case = Dataset(tmp_path / "out").case("ball_0")
    s = case.surface
    assert (case.conditions.speed, case.conditions.density) == (30.0, 1.2)
    assert case.conditions.length == pytest.approx(1.0, rel=1e-3)
    assert np.allclose(case.fields["p"][s][:, 0], -1.2 * case.points[s][:, 0], atol=1e-4)  # z there is x here
    assert np.allclose(case.fields["U"][~s], [30.0, 0.0, 1.0])  # flow, side, up
    assert np.allclose(case.fields["p"][~s], 6.0)
    assert np.allclose(case.points[s][:, 2].mean(), 0.5, atol=1e-2)  # the ground is at the lowest point, 0.5 below
    away = case.points[~s] - [0, 0, 0.5]
    assert np.allclose(case.distance[~s], np.linalg.norm(away, axis=1) - 0.5, atol=0.01)
    # p = -1.2 x on a sphere: a force of 1.2 V along the flow, where V is the volume of the faceted one.
    volume = pv.read(balls / "ball_0.vtp").volume
    drag = case.reference["cd"] * case.conditions.dynamic_pressure * case.reference["area"]
    assert drag == pytest.approx(1.2 * volume, rel=2e-3)


def test_units_are_those_the_user_names(balls, tmp_path):
    length = run(balls, tmp_path / "mm", units="mm").manifest.cases["ball_0"]["conditions"]["length"]
    assert length == pytest.approx(1e-3, rel=1e-3)


def test_a_table_gives_each_case_its_own_conditions_and_truth(balls, tmp_path):
    text = (balls / "dataset.toml").read_text()
    (balls / "dataset.toml").write_text('table = "cases.csv"\n' + text)
    (balls / "cases.csv").write_text("name,speed,cd,area\nball_0,12.5,0.47,2.0\nball_1,50,,\n")
    cases = run(balls, tmp_path / "out").manifest.cases
    assert [cases[f"ball_{i}"]["conditions"]["speed"] for i in range(3)] == [12.5, 50.0, 30.0]
    assert (cases["ball_0"]["reference"]["cd"], cases["ball_0"]["reference"]["area"]) == (0.47, 2.0)
    shadow = cases["ball_1"]["reference"]["area"]
    assert shadow == pytest.approx(np.pi / 4, rel=5e-3)
    assert cases["ball_0"]["reference"]["silhouette"] == pytest.approx(shadow)


def test_pressure_that_the_skin_lacks_comes_from_the_air_and_is_said(balls, tmp_path):
    skin = pv.read(balls / "ball_0.vtp")
    skin.clear_data()
    skin.save(balls / "ball_0.vtp")
    summary = run(balls, tmp_path / "out")
    assert "nearest point of the air" in summary.document(tmp_path)["repaired"]["ball_0"]
    case = Dataset(tmp_path / "out").case("ball_0")
    assert np.allclose(case.fields["p"], 6.0)


HOSTILE = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("solid this is not what it says it is"),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:700]),
    "nan": lambda path: rewrite(path, lambda m: m.points.__setitem__((0, 0), np.nan)),
    "no faces": lambda path: pv.PolyData(np.random.default_rng(0).random((9, 3))).save(path),
    "missing array": lambda path: rewrite(path, lambda m: m.clear_data()),
    "nan in a field": lambda path: rewrite(path, lambda m: m.point_data["pressure"].__setitem__(3, np.nan)),
}


def rewrite(path, change):
    mesh = pv.read(path)
    change(mesh)
    mesh.save(path)


@pytest.mark.parametrize("damage", HOSTILE)
def test_a_hostile_file_is_named_and_the_others_go_on(balls, tmp_path, damage):
    HOSTILE[damage](balls / "ball_1.vtp")
    (balls / "ball_1_air.vtu").unlink()
    summary = run(balls, tmp_path / "out")
    assert set(summary.manifest.cases) == {"ball_0", "ball_2"}
    assert "ball_1" in summary.failures["ball_1"]
    assert summary.manifest.left_out == summary.failures


def test_a_field_of_the_wrong_length_is_refused(balls, tmp_path):
    path = balls / "ball_1.vtp"
    mesh = pv.read(path)
    mesh.save(path, binary=False)
    text = path.read_text()
    head, tail = text.split('Name="pressure"')
    start = tail.index(">") + 1
    stop = tail.index("</DataArray>")
    fewer = " ".join(tail[start:stop].split()[:-30])
    path.write_text(f'{head}Name="pressure"{tail[:start]}{fewer}{tail[stop:]}')
    (balls / "ball_1_air.vtu").unlink()
    summary = run(balls, tmp_path / "out")
    assert "ball_1" in summary.failures


def test_a_promise_of_two_gigabytes_in_a_header_is_seen_through(balls, tmp_path):
    stl = balls / "lie.stl"
    stl.write_bytes(b"x" * 80 + np.uint32(2**31 // 50).tobytes() + b"\0" * 500)
    (balls / "dataset.toml").write_text(SETTINGS.replace('"*.vtp"', '"*.*t[lp]"'))
    start = time.monotonic()
    summary = run(balls, tmp_path / "out")
    assert "lie" in summary.failures
    assert len(summary.manifest.cases) == 3
    assert time.monotonic() - start < 20


def test_the_command_ends_with_2_and_the_count_after_writing_the_rest(balls, tmp_path):
    (balls / "ball_1.vtp").write_bytes(b"")
    command = [sys.executable, "-m", "aerosurrogate", "prepare", str(balls), "--out", str(tmp_path / "out"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "1 of 3 cases were left out" in done.stderr
    assert "Traceback" not in done.stderr
    document = json.loads(done.stdout)
    assert (document["cases"], list(document["left_out"])) == (2, ["ball_1"])
    assert Dataset(tmp_path / "out").names() == ["ball_0", "ball_2"]


def test_finished_cases_are_kept_and_only_what_changed_is_read_again(balls, tmp_path):
    out = tmp_path / "out"
    assert (run(balls, out).read, run(balls, out).kept) == (3, 3)
    before = (out / "ball_0.safetensors").stat().st_mtime_ns
    write_ball(balls, "ball_1", radius=0.4)
    summary = run(balls, out)
    assert (summary.read, summary.kept) == (1, 2)
    assert (out / "ball_0.safetensors").stat().st_mtime_ns == before
    assert Dataset(out).case("ball_1").conditions.length == pytest.approx(0.8, rel=1e-3)
    assert run(balls, out, units="cm").read == 3  # other options, other cases
    (balls / "ball_2.vtp").unlink()
    assert set(run(balls, out).manifest.cases) == {"ball_0", "ball_1"}
    assert not (out / "ball_2.safetensors").exists()


def test_a_mended_file_is_all_that_is_read_the_second_time(balls, tmp_path):
    sound = (balls / "ball_1.vtp").read_bytes()
    (balls / "ball_1.vtp").write_bytes(b"")
    assert run(balls, tmp_path / "out").failures
    (balls / "ball_1.vtp").write_bytes(sound)
    summary = run(balls, tmp_path / "out")
    assert (summary.read, summary.kept, summary.failures) == (1, 2, {})
    assert summary.manifest.left_out == {}


def test_a_killed_run_leaves_no_half_file_and_goes_on_where_it_stopped(balls, tmp_path):
    for i in range(3, 40):
        for end in (".vtp", "_air.vtu"):
            os.link(balls / f"ball_0{end}", balls / f"ball_{i}{end}")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "aerosurrogate", "prepare", str(balls), "--out", str(out), "--jobs", "1"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    while len(list(out.glob("*.safetensors"))) < 3:
        time.sleep(0.02)
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (out / "manifest.json").exists()
    summary = run(balls, out)
    assert summary.kept >= 2
    assert summary.kept + summary.read == 40
    assert Dataset(out).case("ball_39").surface.any()


def test_a_damaged_data_file_is_made_anew(balls, tmp_path):
    out = tmp_path / "out"
    run(balls, out)
    (out / "ball_1.safetensors").write_bytes(b"\xff" * 100)
    assert (run(balls, out).read, run(balls, out).kept) == (1, 3)


def test_another_source_does_not_replace_a_data_set(balls, tmp_path):
    run(balls, tmp_path / "out")
    other = tmp_path / "other"
    other.mkdir()
    write_ball(other, "ball_9")
    (other / "dataset.toml").write_text(SETTINGS)
    with pytest.raises(InputError, match="already holds a data set"):
        run(other, tmp_path / "out")
    both = prepare([balls, other, tmp_path / "nowhere"], tmp_path / "both", jobs=2)
    assert both.manifest.splits == {"train": ["ball_0", "ball_2", "ball_9"], "test": ["ball_1"]}
    assert list(both.failures) == [str(tmp_path / "nowhere")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed = 3", "speed"),
        ("[conditions]\nspeed = 'fast'", r"conditions\.speed"),
        ("[axes]\nflow = 3", r"axes\.flow"),
        ("surface = ", "not valid TOML"),
        ('surface = "*.obj"', "no skins"),
        ('surface = "/etc/*"', "not a pattern"),
    ],
)
def test_a_wrong_setting_is_named_with_its_place(balls, tmp_path, text, message):
    (balls / "dataset.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        run(balls, tmp_path / "out")


def test_nothing_recognisable_says_what_can_be_read(tmp_path):
    (tmp_path / "notes.md").write_text("hello")
    with pytest.raises(InputError, match="--format"):
        prepare([tmp_path], tmp_path / "out")
    with pytest.raises(InputError, match="no such file"):
        prepare([tmp_path / "nowhere"], tmp_path / "out")


def half_or_die(number: int) -> float:
    if number == 3:
        os.abort()
    return number / 2


def test_a_task_that_kills_its_process_takes_no_other_with_it():
    answers = dict(over_processes(half_or_die, list(range(12)), jobs=2))
    assert answers == {n: None if n == 3 else n / 2 for n in range(12)}


def test_the_real_cars_have_the_forces_of_their_publisher(shared_data, tmp_path):
    folder = tmp_path / "cars"
    folder.mkdir()
    for path in (shared_data / "shapenet_car").glob("*.vtp"):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "dataset.toml").write_text('[conditions]\nspeed = 20.0\n[axes]\nflow = "+z"\nup = "+y"')
    summary = run(folder, tmp_path / "out")
    for name, newtons in (("mini_car_0", 111.60), ("mini_car_1", 109.17)):
        truth = summary.manifest.cases[name]["reference"]
        assert truth["cd"] * 0.5 * 1.225 * 20**2 * truth["area"] == pytest.approx(newtons, abs=0.01)
    assert dataclasses.asdict(Dataset(tmp_path / "out").case("mini_car_0").conditions)["ground"]
