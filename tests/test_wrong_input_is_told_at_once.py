"""What is wrong for all designs of a call is said before the first is read, in one message with one remedy."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from published_sets import write_darcy
from small_models import made_up_case, small_surrogate
from typer.testing import CliRunner

from aerosurrogate.cli import app
from aerosurrogate.conditions import Conditions, StreamOptions
from aerosurrogate.data.prepare import prepare
from aerosurrogate.data.store import Dataset
from aerosurrogate.decision.known import read_known
from aerosurrogate.devices import choose_device
from aerosurrogate.errors import InputError
from aerosurrogate.evaluate import evaluate, field_errors
from aerosurrogate.mesh.coordinates import write_section
from aerosurrogate.mesh.load import load
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.predict import Wanted, predict
from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.viz import viz
from aerosurrogate.viz.skin import sides

ROOT = Path(__file__).parents[1]
CAR = str(ROOT / "sample_meshes/car.stl")


def refusal(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert isinstance(result.exception, InputError), result.output
    assert str(result.exception).count("To fix it") <= 1
    assert "designs/s" not in result.output  # none was read
    return str(result.exception)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--speed -3", "speed must be a positive number: --speed -3"),
        ("--reynolds 0", "reynolds must be a positive number"),
        ("--density nan", "density must be a positive number: --density nan"),
        ("--viscosity inf", "viscosity must be a positive number"),
        ("--flow +q", "--flow takes an axis: +q"),
        ("--flow +x --up -x", "flow and up must be perpendicular"),
        ("--ground abc", "the ground is not a height: --ground abc"),
        ("--ground nan", "the ground is not a height"),
        ("--symmetry w", "a body is doubled across a plane: --symmetry w"),
        ("--area x", "no such reference area: --area x"),
        ("--area -1", "no such reference area"),
        ("--area nan", "no such reference area"),
        ("--model nosuch", "no such model: nosuch"),
        ("--report x.pdf", "a report is written as .html: --report x.pdf"),
        ("--report x.png", "a report is written as .html"),
        ("--alpha 1,2 --report x.txt", "a report is written as .html or .png"),
        ("--known nosuch.csv", "no such file or folder of solved values: nosuch.csv"),
        ("--reference nosuch.csv", "no such table of true values: nosuch.csv"),
    ],
)
def test_options_of_coeffs(option: str, words: str) -> None:
    assert words in refusal("coeffs", CAR, *option.split())


@pytest.mark.parametrize("command", ["predict", "study", "sensitivity", "improve"])
def test_a_sweep_where_one_state_is_asked_for_is_told_what_takes_it(command: str, tmp_path: Path) -> None:
    told = refusal(command, CAR, "--alpha", "0:4:2", "--out", tmp_path / "out")
    assert "not a number: --alpha 0:4:2" in told
    assert "aerosurrogate coeffs" in told


def test_a_folder_without_known_values_is_told_what_may_be_in_it(tmp_path: Path) -> None:
    told = refusal("coeffs", CAR, "--known", tmp_path)
    assert f"no known values in this folder: {tmp_path}" in told
    assert "simulate" in told


def test_one_design_that_fails_is_one_message_and_several_are_a_list(tmp_path: Path) -> None:
    for command in (["coeffs"], ["predict", "--out", tmp_path / "x.vtu"]):
        result = CliRunner().invoke(app, [str(word) for word in (*command, tmp_path / "nosuch.stl")])
        assert str(result.exception).startswith("no such file: ")
        assert str(result.exception).count("To fix it") == 1
        assert "warning" not in result.output
    names = [tmp_path / f"{i}.stl" for i in range(12)]
    result = CliRunner().invoke(app, ["coeffs", *map(str, names)])
    assert "none of 12 designs could be used" in str(result.exception)
    assert result.output.count("left out") == 10  # and a count of the rest


@pytest.mark.parametrize(
    ("wanted", "points", "out", "seen"),
    [
        (Wanted(surface_only=True, grid=(4, 4, 4)), None, "x.vtu", "--grid --surface-only"),
        (Wanted(grid=(4, 4, 4)), Path(CAR), "x.vtu", "--points --grid"),
        (Wanted(surface_only=True), Path(CAR), "x.vtu", "--points --surface-only"),
        (Wanted(grid=(4, 4, 4)), None, "x.vtp", "--grid with --out x.vtp"),
    ],
)
def test_contradictions_in_where_to_answer(wanted: Wanted, points: Path | None, out: str, seen: str) -> None:
    with pytest.raises(InputError, match=re.escape(seen)):
        predict([CAR], Path(out), StreamOptions(), wanted, points=points)


def test_files_that_are_no_meshes_are_called_so(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    for read in (load, lambda path: read_known([path])):
        with pytest.raises(InputError, match=r"no mesh format that is known: .*a\.txt"):
            read(tmp_path / "a.txt")


def test_options_that_a_picture_has_no_use_for_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.vtu").write_text("x")
    with pytest.raises(InputError, match=r"nothing to draw in this folder.*the folder of a run"):
        viz([tmp_path], tmp_path / "x.png")
    with pytest.raises(InputError, match=r"nothing to draw in this folder.*predict its cases first"):
        viz([ROOT / "datasets/naca_rans"], tmp_path / "x.png")
    with pytest.raises(InputError, match="layers are those of learned slices: --layer 3"):
        viz([tmp_path / "a.vtu"], tmp_path / "x.png", layer=3)
    with pytest.raises(InputError, match="a case is one of a run's data: --case b"):
        viz([tmp_path / "a.vtu"], tmp_path / "x.png", case="b")


def test_a_data_set_on_the_command_line_is_seen_from_where_one_stands(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/manifest.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    recipe = read_recipe(ROOT / "recipes/darcy.toml", ["data.path=mine", 'data.beside=["mine"]'])
    assert recipe.data.path == tmp_path / "mine"
    assert recipe.data.beside == (tmp_path / "mine",)


def test_both_sides_of_a_section_begin_at_its_nose() -> None:
    section = read_surface("naca2412")
    (up, x, high), (down, _, low) = sides(section, section.centres[:, 1])
    assert (up, down) == (True, False)
    assert high[0] == low[0]
    assert x[0] == 0
    assert np.all(np.diff(x) >= 0)
    assert high[1:].min() > low[1:].max() - 0.05


def test_a_device_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such device: --device foo"):
        choose_device("foo")


def test_a_folder_without_cases_says_what_it_was_read_as(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    words = refusal("prepare", tmp_path / "empty", "--out", tmp_path / "data", "--format", "airfrans")
    assert words.startswith(f"there are no cases in it: {tmp_path / 'empty'} as airfrans")


def test_check_takes_a_folder_of_shapes(tmp_path: Path) -> None:
    shutil.copy(CAR, tmp_path)
    shutil.copy(ROOT / "sample_meshes/naca_2412.dat", tmp_path)
    result = CliRunner().invoke(app, ["check", str(tmp_path), "--json"], catch_exceptions=False)
    assert [mesh["name"] for mesh in json.loads(result.stdout)["meshes"]] == ["car", "naca_2412"]


def test_a_model_that_does_not_fit_the_data_is_refused(tmp_path: Path) -> None:
    sections = Dataset(ROOT / "datasets/naca_rans")
    with pytest.raises(InputError, match=r"the model is for 3 dimensions: .*naca_rans has 2"):
        evaluate(Surrogate.load("car"), sections, sections.names("test")[:1])
    write_darcy(tmp_path / "raw", count=8, side=9)
    prepare([tmp_path / "raw"], tmp_path / "darcy", jobs=1)
    porous = Dataset(tmp_path / "darcy")
    with pytest.raises(InputError, match=r"answers other fields than the data hold: .*darcy has solution"):
        evaluate(Surrogate.load("airfoil"), porous, porous.names("test")[:1])


def test_data_that_hold_less_than_a_model_answers_measure_what_they_hold() -> None:
    case = made_up_case(read_surface("naca2412"), Conditions(speed=60.0, length=1.0, alpha=3.0))
    less = replace(case, fields={"p": case.fields["p"]})
    both = (field_errors(small_surrogate(2), one, case.fields) for one in (less, case))
    assert set(next(both)) == {"p_surface", "p_volume"}
    assert {"p_surface", "U_volume"} < set(next(both))


def test_units_are_guessed_by_what_a_shape_is_and_files_named_once(tmp_path: Path) -> None:
    write_section(100 * read_surface("naca2412").points, tmp_path / "percent.dat", "in per cent of the chord")
    (tmp_path / "bad.stl").write_text("no")
    result = CliRunner().invoke(app, ["coeffs", "naca2412", str(tmp_path / "percent.dat"), str(tmp_path / "bad.stl")])
    assert "pass --units cm" in result.output.replace("\n", " ")
    assert result.output.count(str(tmp_path / "bad.stl")) == 1
