"""A surrogate is one file: what is saved answers the same when loaded, says what it is, and nothing is unpickled."""

from pathlib import Path

import numpy as np
import pytest
import torch
from joukowski import joukowski_set
from safetensors.torch import save_file

from aerosurrogate.data.sampling import drawn
from aerosurrogate.data.scaling import Places
from aerosurrogate.data.store import Dataset
from aerosurrogate.errors import InputError
from aerosurrogate.evaluate import (
    EVIDENCE,
    CaseResult,
    Evaluation,
    best_routes,
    coefficients_by_route,
    evaluate,
    relative_l2,
)
from aerosurrogate.forces import between
from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate, read_header
from aerosurrogate.training.loop import train
from aerosurrogate.training.publish import publish

RECIPE = Path(__file__).parents[1] / "recipes" / "naca_rans.toml"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a small model on exact flows, long enough to have learned what matters."""
    folder = tmp_path_factory.mktemp("surrogate")
    data = joukowski_set(folder / "sections", 24)
    settings = [
        f"data.path={data}",
        "data.train=train",
        'data.fields=["p","U","wallShearStress"]',
        "model.channels=32",
        "model.layers=2",
        "model.heads=4",
        "model.slices=8",
        "training.points=128",
        "training.skin_points=64",
        "training.batch=2",
        "training.steps=150",
        "training.learning_rate=5e-3",
        "training.ema=0.95",
        "training.loss=mean_square",
        "training.mirror=false",
    ]
    train(read_recipe(RECIPE, settings), folder / "run", device="cpu")
    return folder


@pytest.fixture(scope="module")
def dataset(run: Path) -> Dataset:
    return Dataset(run / "sections")


@pytest.fixture(scope="module")
def surrogate(run: Path) -> Surrogate:
    return Surrogate.load(run / "run")


def test_training_has_learned_the_flow(surrogate: Surrogate, dataset: Dataset) -> None:
    figures = evaluate(surrogate, dataset, dataset.names("test")).figures
    assert figures["rho_L_head"] > 0.9
    assert figures["U_volume"] < 0.25
    assert figures["p_surface"] < 0.6


def test_a_saved_model_answers_the_same(surrogate: Surrogate, dataset: Dataset, tmp_path: Path) -> None:
    case = dataset.case("section-003")
    surrogate.save(tmp_path / "model.safetensors")
    again = Surrogate.load(tmp_path / "model.safetensors")
    assert again.document() == surrogate.document()
    for one, other in ((surrogate.fields(Places.of(case)), again.fields(Places.of(case))),):
        assert all(np.array_equal(one[k], other[k]) for k in one)
    surrogate.save(tmp_path / "half.safetensors", half=True)
    half = Surrogate.load(tmp_path / "half.safetensors").fields(Places.of(case))
    assert relative_l2(half["U"], again.fields(Places.of(case))["U"]) < 1e-2
    assert (tmp_path / "half.safetensors").stat().st_size < 0.7 * (tmp_path / "model.safetensors").stat().st_size


def test_decoding_in_chunks_changes_nothing(surrogate: Surrogate, dataset: Dataset) -> None:
    places = Places.of(dataset.case("section-003"))
    states = surrogate.states(
        Places.of(drawn(dataset, "section-003", surrogate.sampling, np.random.default_rng(0))), chunk=50
    )
    whole, parts = surrogate.decode(states, places), surrogate.decode(states, places, chunk=77)
    for name in whole:
        np.testing.assert_allclose(parts[name], whole[name], atol=1e-4 * np.abs(whole[name]).max())


def test_a_run_can_go_on_from_a_model(run: Path, surrogate: Surrogate, tmp_path: Path) -> None:
    start = ["training.steps=1", "training.learning_rate=1e-12", "training.ema=0.0", f"training.start={run / 'run'}"]
    train(read_recipe(run / "run" / "recipe.toml", start), tmp_path / "more", device="cpu")
    again = Surrogate.load(tmp_path / "more")
    assert again.scaling == surrogate.scaling
    torch.testing.assert_close(again.model.state_dict(), surrogate.model.state_dict(), atol=1e-8, rtol=0)
    with pytest.raises(InputError, match="architecture"):
        train(read_recipe(run / "run" / "recipe.toml", [*start, "model.slices=9"]), tmp_path / "other", device="cpu")


def test_the_header_says_what_the_model_is(run: Path) -> None:
    header = read_header(run / "run" / "best.safetensors")
    assert header["outputs"][0] == {"name": "p", "unit": "Pa", "where": "all", "channels": 1}
    assert header["outputs"][2]["where"] == "surface"
    assert header["sampling"] == {"kind": "density", "skin": 64, "around": 128}
    assert header["card"]["data"]["train"] == 16
    assert header["card"]["routes"].keys() == {"cd", "cl"}
    assert header["trust"]["ranges"].keys() >= {"alpha", "log10_reynolds", "thickness"}
    assert header["ranges"]["alpha"][0] >= -3


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.safetensors").write_text("not a model, only a text")
    save_file({"weight": torch.zeros(3)}, tmp_path / "other.safetensors")
    for name in ("text.safetensors", "other.safetensors", "missing"):
        with pytest.raises(InputError):
            Surrogate.load(tmp_path / name)


def test_a_device_that_is_not_there_is_refused(run: Path) -> None:
    with pytest.raises(InputError, match="give auto, cuda"):
        Surrogate.load(run / "run", device="abacus")


def test_true_fields_integrate_to_the_true_coefficients(surrogate: Surrogate, dataset: Dataset) -> None:
    case = dataset.case("section-007")
    found = coefficients_by_route(surrogate, case, case.fields, None)["integrated"]
    assert found["cl"] == pytest.approx(case.reference["cl"], rel=1e-4)
    assert found["cd"] == pytest.approx(case.reference["cd"], abs=1e-5)


def test_tables_are_written(surrogate: Surrogate, dataset: Dataset, tmp_path: Path) -> None:
    names = dataset.names()[:EVIDENCE]
    result = evaluate(surrogate, dataset, names)
    result.write(tmp_path)
    lines = (tmp_path / "evaluation.csv").read_text().splitlines()
    assert len(lines) == 1 + len(names)
    assert best_routes(result).keys() == {"cd", "cl"}
    assert result.intervals["rho_L_head"][0] <= result.figures["rho_L_head"] <= 1


def test_one_route_alone_is_preferred_where_it_is_better_beyond_chance() -> None:
    def routes(head: list[float], integrated: list[float]) -> dict[str, str]:
        answers = [
            {"head": {"cd": 0.3 + h}, "integrated": {"cd": 0.3 + i}} for h, i in zip(head, integrated, strict=True)
        ]
        answers = [each | {"both": between(each["head"], each["integrated"])} for each in answers]
        return best_routes(Evaluation([CaseResult("", truth={"cd": 0.3}, answers=each) for each in answers]))

    large, small = [0.04, 0.03, 0.04, 0.03, 0.04], [0.01, 0.01, 0.02, 0.01, 0.01]
    assert routes(large, small) == {"cd": "integrated"}
    assert routes(small, large) == {"cd": "head"}
    assert routes(large, [-error for error in large]) == {"cd": "both"}  # they err to either side
    assert routes([0.15, 0.01, 0.01, 0.01, 0.01], [0.02, 0.02, 0.01, 0.01, 0.01]) == {"cd": "both"}  # by one case alone
    assert routes(small[:-1], large[:-1]) == {"cd": "integrated"}  # too few to speak for the head


def test_halfway_between_two_routes() -> None:
    assert between({"cd": 0.2, "cl": 0.1}, {"cd": 0.8, "cl": 0.3}) == pytest.approx({"cd": 0.4, "cl": 0.2})
    assert between({"cd": 0.2}, {"cd": -0.1, "cl": 0.3}) == {"cd": 0.2}  # no drag by integration, no lift by the head


def test_a_run_becomes_a_shipped_model_with_a_card(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("aerosurrogate.surrogate", "aerosurrogate.training.publish"):
        monkeypatch.setattr(f"{place}.models_folder", lambda: tmp_path)
    recipe = (run / "run" / "recipe.toml").read_text().replace('test = "full_test"', 'test = "test"')
    (run / "run" / "recipe.toml").write_text(recipe)
    publish(run / "run", "section")
    card = Surrogate.load("section").card
    assert card["name"] == "section"
    assert card["data"]["test"] == 6
    page = (tmp_path / "section.md").read_text()
    assert "not for compressible flow" in page.lower()
    assert f"{card['test']['rho_L_head']:.4g}" in page
    assert (tmp_path / "section.json").exists()
