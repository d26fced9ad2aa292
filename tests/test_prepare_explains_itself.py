"""`prepare --explain` says what it sees, and what it prints, saved as dataset.toml, prepares the folder."""

import tomllib

import numpy as np
import pytest
import pyvista as pv
from test_openfoam_cases_become_training_data import write_case
from test_prepare_goes_on import run, write_ball
from typer.testing import CliRunner

from aerosurrogate.cli import app
from aerosurrogate.data.explain import explain
from aerosurrogate.data.readers import recognise
from aerosurrogate.data.store import Dataset
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.arrays import recognised
from aerosurrogate.mesh.read import likely_units


@pytest.fixture
def balls(tmp_path):
    folder = tmp_path / "balls"
    folder.mkdir()
    for i in range(3):
        write_ball(folder, f"ball_{i}")
    return folder


def test_what_it_prints_prepares_a_folder_of_mesh_files(balls, tmp_path):
    (balls / "cases.csv").write_text("name,cd\nball_0,0.47\n")
    text = CliRunner().invoke(app, ["prepare", str(balls), "--explain"]).stdout
    said = tomllib.loads(text)
    assert (said["surface"], said["volume"], said["units"], said["table"]) == (
        "*.vtp",
        "{stem}_air.vtu",
        "m",
        "cases.csv",
    )
    assert said["arrays"] == {"p": "pressure", "U": "velocity"}
    assert said["axes"] == {"flow": "+z", "up": "+y"}
    assert said["conditions"]["speed"] == pytest.approx(np.hypot(1, 30), rel=1e-4)
    assert "velocity" in text
    assert "magnitude 30.02 to 30.02 -> U" in text
    (balls / "dataset.toml").write_text(text)
    summary = run(balls, tmp_path / "out")
    assert not summary.failures
    case = Dataset(tmp_path / "out").case("ball_0")
    assert np.allclose(case.fields["U"][~case.surface], [30.0, 0.0, 1.0])
    assert case.reference["cd"] == 0.47
    again = tomllib.loads(explain(balls))  # what the file says is kept
    assert again == said


def test_a_wrong_guess_is_corrected_in_the_file(balls):
    text = (
        explain(balls)
        .replace('pressure = "static"', 'pressure = "kinematic"')
        .replace("speed = 30", "ground = false\nspeed = 55")
    )
    (balls / "dataset.toml").write_text(text)
    again = tomllib.loads(explain(balls))
    assert again["pressure"] == "kinematic"
    assert 55 < again["conditions"]["speed"] < 56
    assert again["conditions"]["ground"] is False


def test_a_folder_a_case_is_understood(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "sims" / name).mkdir(parents=True)
        write_ball(tmp_path / "sims" / name, "skin")
        (tmp_path / "sims" / name / "skin_air.vtu").rename(tmp_path / "sims" / name / "air.vtu")
    text = explain(tmp_path / "sims")
    assert tomllib.loads(text)["surface"] == "*/skin.vtp"
    (tmp_path / "sims" / "dataset.toml").write_text(text)
    assert set(run(tmp_path / "sims", tmp_path / "out").manifest.cases) == {"a", "b"}
    assert (~Dataset(tmp_path / "out").case("a").surface).any()


def test_the_table_of_a_folder_a_case_calls_them_as_their_folders(tmp_path):
    sims = tmp_path / "sims"
    for name in ("a", "b"):
        (sims / name).mkdir(parents=True)
        write_ball(sims / name, "skin")
    (sims / "drag.csv").write_text("name,cd\na,0.47\nb,0.48\n")
    (sims / "dataset.toml").write_text(explain(sims))
    run(sims, tmp_path / "out")
    assert Dataset(tmp_path / "out").case("b").reference["cd"] == 0.48
    (sims / "drag.csv").write_text("name,cd\nball_a,0.47\n")
    with pytest.raises(InputError, match=r"names none of them.*ball_a in drag\.csv.*a, b"):
        run(sims, tmp_path / "other")


@pytest.mark.parametrize(("place", "pattern"), [("{0}/{0}.vtp", "*/*.vtp"), ("set/{0}/deep/{0}.vtp", "**/*.vtp")])
def test_files_in_folders_are_found_whatever_they_are_called(tmp_path, place, pattern):
    sims = tmp_path / "sims"
    for name in ("a", "b"):
        folder = (sims / place.format(name)).parent
        folder.mkdir(parents=True)
        write_ball(folder, name)
    said = tomllib.loads(text := explain(sims))
    assert (said["surface"], said["volume"]) == (pattern, "{stem}_air.vtu")
    (sims / "dataset.toml").write_text(text)
    assert set(run(sims, tmp_path / "out").manifest.cases) == {"a", "b"}


@pytest.mark.parametrize("endings", [("STL", "STL"), ("stl", "STL")])
def test_endings_in_capitals_are_endings_too(tmp_path, endings):
    for name, ending in zip("ab", endings, strict=True):
        pv.Icosphere().save(tmp_path / f"{name}.stl")
        (tmp_path / f"{name}.stl").rename(tmp_path / f"{name}.{ending}")
    text = explain(tmp_path)
    assert "2 cases" in text
    assert len(list(tmp_path.glob(tomllib.loads(text)["surface"]))) == 2


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Static Pressure [Pa]", "p"),
        ("static-pressure", "p"),
        ("Wall Shear Stress (Pa)", "wallShearStress"),
        ("tau_wall", "wallShearStress"),
        ("Velocity [m/s]", "U"),
        ("total_pressure", None),
        ("Pressure Coefficient", None),
    ],
)
def test_names_with_units_and_spaces_are_known(theirs, ours):
    assert recognised([theirs]) == ({ours: theirs} if ours else {})


def test_an_empty_folder_is_called_so(tmp_path):
    with pytest.raises(InputError, match="empty"):
        explain(tmp_path)


def test_files_in_millimetres_are_refused_and_all_of_a_folder_get_one_guess(tmp_path):
    sizes = {"small": 604.0, "middle": 1250.0, "large": 1909.0}
    folder = tmp_path / "mm"
    folder.mkdir()
    for name, length in sizes.items():
        ball = pv.Icosphere(radius=length / 2, nsub=2)
        ball.point_data["p"] = ball.points[:, 0]
        ball.save(folder / f"{name}.vtp")
    assert likely_units([604.0]) == "cm"  # alone it would be another guess
    with pytest.raises(InputError, match="absurd") as caught:
        run(folder, tmp_path / "out")
    assert str(caught.value).count("--units mm") == 3
    assert not (tmp_path / "out" / "manifest.json").exists()
    text = explain(folder)
    assert tomllib.loads(text)["units"] == "mm"
    (folder / "dataset.toml").write_text(text)
    cases = run(folder, tmp_path / "out").manifest.cases
    assert all("repaired" not in case["tags"] for case in cases.values())
    points = Dataset(tmp_path / "out").case("large").points
    assert np.ptp(points[:, 0]) == pytest.approx(1.909, rel=1e-3)


def test_formats_that_need_no_settings_say_so(tmp_path):
    write_case(tmp_path / "cases" / "box")
    text = explain(tmp_path / "cases")
    assert tomllib.loads(text) == {}
    assert "openfoam, 1 cases" in text
    assert "25 m/s" in text
    assert "wallShearStress" in text
    (tmp_path / "cases" / "dataset.toml").write_text(text)
    assert recognise(tmp_path / "cases") == "openfoam"


def test_without_out_nothing_is_prepared(balls):
    answer = CliRunner().invoke(app, ["prepare", str(balls)])
    assert isinstance(answer.exception, InputError)
    assert "--out" in str(answer.exception)
