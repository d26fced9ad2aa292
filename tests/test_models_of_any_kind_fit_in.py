"""Another kind of model, named in a recipe, trains, is saved and loaded, and answers like any other."""

import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from joukowski import joukowski_set
from torch import Tensor

from aerosurrogate.data.store import Dataset
from aerosurrogate.errors import InputError
from aerosurrogate.evaluate import evaluate
from aerosurrogate.model.interface import MLP, Grid, Interface, Model, Options
from aerosurrogate.recipe import Recipe, read_recipe
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.loop import train

RECIPE = Path(__file__).parents[1] / "recipes" / "naca_rans.toml"


class Width(Options):
    kind: str = f"{__name__}:Mean"
    width: int = 16


class Mean(Model):
    """Each point beside the mean of all."""

    Config = Width
    config: Width

    def __init__(self, interface: Interface, config: Width) -> None:
        super().__init__(interface, config)
        self.local = MLP(interface.inputs, config.width, config.width)
        self.add_heads(2 * config.width)

    def features(self, inputs: Tensor, grid: Grid, mask: Tensor | None, time: Tensor | None) -> Tensor:
        x = self.local(inputs)
        there = torch.ones_like(x[..., :1]) if mask is None else mask[..., None].to(x.dtype)
        mean = (x * there).sum(1, keepdim=True) / there.sum(1, keepdim=True)
        return torch.cat([x, mean.expand_as(x)], dim=-1)


def recipe_of(data: Path, *more: str, kind: str = f"{__name__}:Mean") -> Recipe:
    text = RECIPE.read_text()
    start, end = text.index("[model]"), text.index("[training]")
    path = data.parent / "own.toml"
    path.write_text(text[:start] + f'[model]\nkind = "{kind}"\nwidth = 8\n\n' + text[end:])
    settings = [f"data.path={data}", "data.train=train", 'data.fields=["p","U","wallShearStress"]', *more]
    return read_recipe(path, [*settings, "training.points=64", "training.skin_points=32"])


def test_a_kind_of_ones_own_is_trained_and_answers(tmp_path: Path) -> None:
    data = joukowski_set(tmp_path / "sections", 8)
    recipe = recipe_of(data, "training.steps=4", "training.batch=2")
    assert recipe.model == Width(width=8)
    reached = train(recipe, tmp_path / "run", device="cpu")
    assert np.isfinite(list(reached["validation"].values())).all()
    surrogate = Surrogate.load(tmp_path / "run", "cpu")
    assert isinstance(surrogate.model, Mean)
    row = evaluate(surrogate, Dataset(data), ["section-001"]).rows[0]
    assert {"p_surface", "cd_head", "cl_integrated"} <= row.keys()


def test_the_kind_that_contributing_shows_works_as_it_stands_there(tmp_path: Path, monkeypatch) -> None:
    text = (RECIPE.parents[1] / "CONTRIBUTING.md").read_text()
    shown = text[text.index("from pydantic import") : text.index("`interface` says what")]
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "my_module.py").write_text(textwrap.dedent("      " + shown))
    monkeypatch.syspath_prepend(tmp_path)
    data, kind = joukowski_set(tmp_path / "sections", 8), "my_package.my_module:MyModel"
    train(recipe_of(data, "training.steps=2", kind=kind), tmp_path / "run", device="cpu")
    surrogate = Surrogate.load(tmp_path / "run", "cpu")
    assert type(surrogate.model).__name__ == "MyModel"
    assert np.isfinite(evaluate(surrogate, Dataset(data), ["section-001"]).figures["p_surface"])


def test_its_options_are_checked_by_name(tmp_path: Path) -> None:
    data = joukowski_set(tmp_path / "sections", 2)
    with pytest.raises(InputError, match=r"unknown key model\.widht.*did you mean width"):
        recipe_of(data, "model.widht=8")


def test_a_kind_without_states_says_so() -> None:
    model = Mean(Interface(5, 3, 2), Width())
    with pytest.raises(InputError, match="Mean answer at all points in one call"):
        model.states([torch.zeros(1, 4, 5)])
    with pytest.raises(InputError, match="shard_points=false"):
        model(torch.zeros(1, 4, 5), group=object())  # type: ignore[arg-type]


def test_the_ablations_of_the_paper_are_reached_by_recipes() -> None:
    darcy = RECIPE.parent / "darcy.toml"
    for setting in ("model.attention=squares", "model.attention=full", "model.activation=silu"):
        key, value = setting.removeprefix("model.").split("=")
        assert getattr(read_recipe(darcy, [setting]).model, key) == value
    assert read_recipe(darcy, ["model.temperature_bounds=none"]).model.temperature_bounds == "none"
