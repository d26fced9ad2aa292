"""--symmetry, --ground and their words in dataset.toml mean one thing in every command."""

import json

import numpy as np
import pytest
import pyvista as pv
from small_models import ask_few_places, small_surrogate
from typer.testing import CliRunner

from aerosurrogate.body import set_in_stream
from aerosurrogate.cli import app
from aerosurrogate.conditions import Conditions, StreamOptions
from aerosurrogate.data.prepare import prepare
from aerosurrogate.data.scaling import INPUTS
from aerosurrogate.data.store import Dataset
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.model_frame import sample
from aerosurrogate.query_cells import cells
from aerosurrogate.simulate.cars import body_of
from aerosurrogate.simulate.driver import own_design


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A body, and the half of it with y >= 0, open at the plane of symmetry."""
    folder = tmp_path_factory.mktemp("bodies")
    box = pv.Cube(bounds=(0, 4, -0.8, 0.8, 0.2, 1.4)).triangulate().subdivide(4)
    box.save(folder / "whole.stl")
    half = box.clip("y", origin=(0, 0, 0), invert=False).extract_surface(algorithm="dataset_surface").triangulate()
    half.save(folder / "half.stl")
    small_surrogate(3).save(folder / "small.safetensors")
    return folder


def rows(folder, command: str, file: str, *words: str) -> dict:
    arguments = [command, str(folder / file), "--model", str(folder / "small.safetensors"), "--speed", "30", *words]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exception is None, result.output
    return json.loads(result.stdout)["designs"][0]


def test_half_a_body_doubled_is_the_body_for_coeffs_and_predict(folder, monkeypatch):
    ask_few_places(monkeypatch)
    whole = rows(folder, "coeffs", "whole.stl")
    for command, out in (("coeffs", ()), ("predict", ("--out", str(folder / "half.vtu")))):
        doubled = rows(folder, command, "half.stl", "--symmetry", "y", *out)
        assert doubled["area_m2"] == pytest.approx(whole["area_m2"], rel=1e-3)
        assert doubled["length_m"] == pytest.approx(whole["length_m"])
        assert any("doubled" in note for note in doubled["notes"])


def test_half_a_body_doubled_is_the_body_that_is_simulated(folder):
    whole = own_design(str(folder / "whole.stl"), StreamOptions(speed=30))
    half = own_design(str(folder / "half.stl"), StreamOptions(speed=30, symmetry="y"))
    assert half.conditions == whole.conditions
    np.testing.assert_allclose(body_of(half).bounds, body_of(whole).bounds, atol=1e-6)
    assert body_of(half).areas.sum() == pytest.approx(body_of(whole).areas.sum(), rel=1e-6)


@pytest.mark.parametrize(("said", "ground"), [("true", True), ("false", False), ('"none"', False), ("0.1", True)])
def test_the_ground_in_a_data_set_is_that_of_the_option(folder, tmp_path, said, ground):
    mesh = pv.read(folder / "whole.stl")
    mesh["p"] = np.asarray(mesh.points[:, 0])
    (tmp_path / "cases").mkdir()
    for name in ("a", "b"):
        mesh.save(tmp_path / "cases" / f"{name}.vtp")
    settings = f'surface = "*.vtp"\n[conditions]\nspeed = 30.0\nground = {said}\n'
    (tmp_path / "cases" / "dataset.toml").write_text(settings)
    prepare([tmp_path / "cases"], tmp_path / "set")
    assert Dataset(tmp_path / "set").case("a").conditions.ground is ground


def test_what_lies_below_the_ground_is_said_once_and_without_contradiction(folder):
    notes = rows(folder, "coeffs", "whole.stl", "--ground", "0.4")["notes"]
    said = [note for note in notes if "ground" in note]
    assert len(said) == 1
    assert "of the skin lies below it" in said[0]
    assert "0 m below" not in said[0]
    clear = [note for note in rows(folder, "coeffs", "whole.stl")["notes"] if "ground" in note]
    assert clear == ["ground at the file's zero height, 0.2 m below the lowest point"]


def test_remedies_name_options_that_exist():
    with pytest.raises(InputError) as caught:
        Conditions(speed=30.0, length=0.0)
    assert "--length" not in str(caught.value)
    assert read_surface("naca0012").length == pytest.approx(1.0)


@pytest.mark.parametrize("ground", [True, False])
def test_a_model_is_told_of_the_ground_and_looks_below_a_body_in_free_air(folder, ground):
    stream = Conditions(speed=30.0, length=4.0, ground=ground)
    body = set_in_stream(read_surface(folder / "whole.stl"), StreamOptions(ground="auto" if ground else "none"), "")
    asked = sample(body.in_model_frame(), stream, small_surrogate(3))
    assert (asked.points[:, 2].min() < -0.1) == (not ground)
    assert (INPUTS["ground"](asked) == ground).all()
    (air, _) = cells(body.in_model_frame(), stream)
    assert (air.points[:, 2].min() < -0.1) == (not ground)
