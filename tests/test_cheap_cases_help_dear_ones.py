"""Several data sets train one model, which knows how each case was solved and answers as the first one would."""

from pathlib import Path

import numpy as np
import pytest

from aerosurrogate.data.case import Case
from aerosurrogate.data.scaling import Places
from aerosurrogate.data.store import Dataset, Manifest, joined, write_manifest, write_shard
from aerosurrogate.errors import InputError
from aerosurrogate.evaluate import evaluate_case
from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.loop import train

CHEAP_IS_HIGH_BY = 0.5
RECIPE = """
[data]
path = "dear"
beside = ["cheap"]
inputs = ["position", "lift", "source"]
fields = ["height"]
validation = 0.34
[model]
channels = 16
layers = 2
heads = 2
slices = 4
[training]
steps = 400
batch = 2
learning_rate = 4e-3
clip = 1.0
loss = "mean_square"
"""


def ramps(folder: Path, name: str, lifts: list[float], offset: float, test: int = 0) -> Dataset:
    """Ramps of several heights over a strip of points, solved with a constant offset."""
    x = np.stack([np.linspace(-1, 1, 40), np.zeros(40)], axis=1).astype(np.float32)
    cases = [
        Case(
            name=f"{name}-{i}",
            points=x,
            surface=np.zeros(40, bool),
            fields={"height": (lift + 0.2 * x[:, :1] + offset).astype(np.float32)},
            features={"lift": np.full((40, 1), lift, np.float32)},
        )
        for i, lift in enumerate(lifts)
    ]
    names = [case.name for case in cases]
    entries = write_shard(folder / "cases.safetensors", cases)
    write_manifest(folder, Manifest(cases=entries, splits={"train": names[test:], "test": names[:test]}))
    return Dataset(folder)


@pytest.fixture
def folder(tmp_path) -> Path:
    ramps(tmp_path / "dear", "dear", [0.9, -0.7, 0.1, 0.2, 0.3], 0.0, test=2)
    ramps(tmp_path / "cheap", "cheap", np.linspace(-1, 1, 21).tolist(), CHEAP_IS_HIGH_BY)
    (tmp_path / "ramps.toml").write_text(RECIPE)
    return tmp_path


def test_cases_of_all_sets_train_and_only_the_first_validates(folder):
    train(read_recipe(folder / "ramps.toml", ["training.steps=2"]), folder / "run")
    kept = (folder / "run" / "cases.json").read_text()
    assert kept.count('"cheap-') == 21
    assert kept.count('"dear-') == 3
    surrogate = Surrogate.load(folder / "run")
    assert surrogate.scaling.input_names[-1] == "source"


def test_the_model_answers_as_the_dear_cases_would_where_only_cheap_ones_were_seen(folder):
    train(read_recipe(folder / "ramps.toml"), folder / "run")
    surrogate = Surrogate.load(folder / "run")
    dear = Dataset(folder / "dear")
    for name in dear.names("test"):  # high and low ramps: only cheap ones were as high and low
        case = dear.case(name)
        answer = surrogate.fields(Places.of(case))["height"] - case.fields["height"]
        assert np.abs(answer).mean() < 0.5 * CHEAP_IS_HIGH_BY, name  # one that is not told is off by nine tenths


def test_it_is_measured_as_it_answers_and_its_card_counts_the_dear_cases_apart(folder):
    train(read_recipe(folder / "ramps.toml", ["training.steps=2"]), folder / "run")
    surrogate, cheap = Surrogate.load(folder / "run"), Dataset(folder / "cheap")
    assert surrogate.card["data"]["train"] == 2
    assert surrogate.card["data"]["beside"] == {"cheap": 21}
    both = joined(Dataset(folder / "dear"), [cheap])
    alone, among = (evaluate_case(surrogate, dataset, "cheap-3")[0].fields["height"] for dataset in (cheap, both))
    assert among == alone  # asked for what a dear one would be, wherever the case is kept


def test_sources_are_told_apart_and_names_must_be(folder):
    both = joined(Dataset(folder / "dear"), [Dataset(folder / "cheap")])
    assert Places.of(both.case("dear-0")).source == 0
    assert Places.of(both.case("cheap-0")).source == 1
    assert both.case("cheap-3").fields["height"].mean() == pytest.approx(-0.7 + CHEAP_IS_HIGH_BY, abs=1e-5)
    with pytest.raises(InputError, match="same name"):
        joined(both, [Dataset(folder / "cheap")])


def test_a_recipe_that_tells_nothing_apart_or_lacks_a_set_is_refused(folder):
    text = (folder / "ramps.toml").read_text()
    (folder / "alone.toml").write_text(text.replace('beside = ["cheap"]\n', ""))
    with pytest.raises(InputError, match=r"data\.beside"):
        read_recipe(folder / "alone.toml")
    (folder / "lost.toml").write_text(text.replace('"cheap"', '"no_such_set"'))
    with pytest.raises(InputError, match="no_such_set"):
        train(read_recipe(folder / "lost.toml"), folder / "run")
