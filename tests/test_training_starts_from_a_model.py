"""`train --start MODEL`: what a recipe does not say is taken over, weights are matched by name, the rest is said."""

from pathlib import Path

import numpy as np
import pytest
import torch
from joukowski import joukowski_set
from typer.testing import CliRunner

from aerosurrogate.cli import app
from aerosurrogate.data.scaling import Places
from aerosurrogate.data.store import Dataset
from aerosurrogate.errors import InputError
from aerosurrogate.recipe import FINE_TUNING, read_recipe
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.loop import train
from aerosurrogate.training.start import inherited

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipes" / "naca_rans.toml"
SMALL = ["model.channels=16", "model.layers=2", "model.heads=2", "model.slices=4", "training.points=64"]
SMALL += ["training.skin_points=32", "training.steps=3", "training.mirror=false", "data.train=train"]
STILL = ["training.steps=1", "training.learning_rate=1e-12", "training.weight_decay=0.0"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of exact flows, a run on it, and a recipe that says where other data are and nothing else."""
    folder = tmp_path_factory.mktemp("start")
    data = joukowski_set(folder / "sections", 10)
    fields = 'data.fields=["p","U","wallShearStress"]'
    train(read_recipe(RECIPE, [*SMALL, f"data.path={data}", fields]), folder / "run", device="cpu")
    joukowski_set(folder / "mine", 8)
    (folder / "mine.toml").write_text('[data]\npath = "mine"\n')
    return folder


def go_on(home: Path, out: Path, *settings: str) -> Surrogate:
    train(read_recipe(home / "mine.toml", [*STILL, *settings], str(home / "run")), out, device="cpu")
    return Surrogate.load(out / "last.safetensors")


def test_a_recipe_of_one_line_takes_over_the_rest(home: Path, tmp_path: Path) -> None:
    before = Surrogate.load(home / "run")
    recipe = read_recipe(home / "mine.toml", (), str(home / "run"))
    assert recipe.model == before.model.config
    assert recipe.data.inputs == before.scaling.input_names
    assert (recipe.training.points, recipe.training.skin_points, recipe.training.sampling) == (64, 32, "density")
    assert {key: getattr(recipe.training, key) for key in FINE_TUNING} == FINE_TUNING
    own = read_recipe(home / "mine.toml", ["training.epochs=3", "training.learning_rate=1e-5"], str(home / "run"))
    assert (own.training.epochs, own.training.steps, own.training.learning_rate) == (3, None, 1e-5)
    after = go_on(home, tmp_path / "more")
    assert after.scaling == before.scaling
    torch.testing.assert_close(after.model.state_dict(), before.model.state_dict(), atol=1e-8, rtol=0)
    assert after.card["trained"]["start"] == "run"


def test_fields_are_matched_by_name(home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    before = Surrogate.load(home / "run")
    after = go_on(home, tmp_path / "fewer", 'data.fields=["wallShearStress","p"]', 'data.coefficients=["log_drag"]')
    assert "fields of run that the recipe does not have: U" in caplog.text
    case = Dataset(home / "mine").case("section-001")
    ours, theirs = after.fields(Places.of(case)), before.fields(Places.of(case))
    for name in ("p", "wallShearStress"):
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-4 * np.abs(theirs[name]).max())
    states = [model.states(Places.of(case)) for model in (after, before)]
    drags = [model.force_areas(state, 1.0)["drag"] for model, state in zip((after, before), states, strict=True)]
    assert drags[0] == pytest.approx(drags[1], rel=1e-5)


def test_new_inputs_and_fields_are_learned_anew_and_said(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    before = Surrogate.load(home / "run")
    names = ["normal", *(name for name in before.scaling.input_names if name != "normal"), "distance"]
    inputs = "data.inputs=[" + ",".join(f'"{name}"' for name in names) + "]"
    after = go_on(home, tmp_path / "more", inputs)
    assert "learned anew: distance" in caplog.text
    weights = [model.model.state_dict()["embed.hidden.weight"] for model in (after, before)]
    assert names[:2] == ["normal", "position_per_length"]  # two columns each
    torch.testing.assert_close(weights[0][:, 2:4], weights[1][:, :2], atol=1e-7, rtol=0)
    assert after.scaling.input_scale[0][2:4] == before.scaling.input_scale[0][:2]
    assert 0 < after.scaling.input_scale[0][-1] < 2  # mean wall distance of the new data, chords


def test_other_architectures_and_scalings_are_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model\.slices = 9, run has 4"):
        go_on(home, tmp_path / "a", "model.slices=9")
    with pytest.raises(InputError, match="scales its fields in another way"):
        go_on(home, tmp_path / "b", "data.scaling=standardised")
    with pytest.raises(InputError, match="no such model"):
        read_recipe(home / "mine.toml", (), "aerofoil_model")


def test_the_scaling_of_another_dimension_is_refused(home: Path) -> None:
    car = Surrogate.load("car", "cpu")
    with pytest.raises(InputError, match="3D"):
        inherited(Surrogate.load(home / "run").scaling, car, "car")


def test_a_run_that_started_from_a_model_resumes_without_it(home: Path, tmp_path: Path) -> None:
    go_on(home, tmp_path / "run")
    longer = read_recipe(tmp_path / "run" / "recipe.toml", ["training.steps=2"])
    assert train(longer, tmp_path / "run", resume=True, device="cpu")["steps"] == 2


def test_the_command_takes_a_model_to_start_from(home: Path, tmp_path: Path) -> None:
    command = ["train", str(home / "mine.toml"), "--start", str(home / "run"), "--out", str(tmp_path / "more")]
    answer = CliRunner().invoke(app, [*command, "--set", "training.steps=1", "--json", "--device", "cpu"])
    assert answer.exit_code == 0, answer.output
    assert Surrogate.load(tmp_path / "more").card["trained"]["start"] == "run"


def test_one_data_set_goes_on_from_a_model_of_several(tmp_path: Path) -> None:
    """`car` learned from several sets and is told which is which; one's own cases count as of the first."""
    recipe = tmp_path / "mine.toml"
    recipe.write_text(f'[data]\npath = "{ROOT / "datasets" / "foreign_cars"}"\ntrain = "even"\ntest = "odd"\n')
    settings = read_recipe(recipe, ["training.steps=2", "data.validation=0.2"], "car")
    assert "source" in settings.data.inputs
    train(settings, tmp_path / "run", device="cpu")
    assert Surrogate.load(tmp_path / "run").scaling.input_names == Surrogate.load("car").scaling.input_names


def test_cases_that_a_model_has_learned_from_do_not_validate_it(home: Path, tmp_path: Path) -> None:
    before = Surrogate.load(home / "run").learned
    assert before is not None
    same = [f"data.path={home / 'sections'}", "data.validation=0.3"]
    after = go_on(home, tmp_path / "same", *same).learned
    assert after is not None
    assert set(after["validation"]) <= set(before["validation"])
    assert set(after["train"]) >= set(before["train"])  # remembered over several runs
    grown = joukowski_set(tmp_path / "grown", 24)  # the ten from before are among them
    more = go_on(home, tmp_path / "more", f"data.path={grown}", "data.validation=0.2").learned
    assert more is not None
    assert set(more["validation"]) > set(before["validation"])
    assert not set(more["validation"]) & set(before["train"])
    # Other shapes may have the same names: cases are known by what they hold, and all of these may validate.
    mine = joukowski_set(tmp_path / "mine", 8, seed=1)
    other = go_on(home, tmp_path / "other", f"data.path={mine}", "data.validation=0.3").learned
    assert other is not None
    assert len(other["validation"]) == round(0.3 * len(Dataset(mine).names("train")))
