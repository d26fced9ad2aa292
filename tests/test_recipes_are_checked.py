"""Recipes: the paper's settings, overrides with types, and errors that name the path and the nearest right name."""

import json
from pathlib import Path

import pytest

from aerosurrogate.errors import InputError
from aerosurrogate.recipe import read_recipe

RECIPES = sorted((Path(__file__).parents[1] / "recipes").glob("*.toml"))
PAPER = {  # channels, slices, mlp_ratio, batch, optimiser, schedule, clip, epochs, loss
    "elasticity": (128, 64, 1, 1, "adamw", "cosine", 0.1, 500, "relative"),
    "plasticity": (128, 64, 1, 8, "adamw", "onecycle", 0.1, 500, "relative"),
    "airfoil": (128, 64, 1, 4, "adamw", "onecycle", 0.1, 500, "relative"),
    "pipe": (128, 64, 2, 4, "adamw", "onecycle", 0.1, 500, "relative"),
    "navier_stokes": (256, 32, 1, 2, "adamw", "onecycle", 0.0, 500, "relative"),
    "darcy": (128, 64, 1, 4, "adamw", "onecycle", 0.1, 500, "relative"),
    "shapenet_car": (256, 32, 2, 1, "adam", "onecycle", 0.0, 200, "mean_square"),
    "airfrans": (256, 32, 2, 1, "adam", "onecycle", 0.0, 400, "mean_square"),
    "airfrans_scarce": (256, 32, 2, 1, "adam", "onecycle", 0.0, 400, "mean_square"),
    "airfrans_ood_reynolds": (256, 32, 2, 1, "adam", "onecycle", 0.0, 400, "mean_square"),
    "airfrans_ood_angles": (256, 32, 2, 1, "adam", "onecycle", 0.0, 400, "mean_square"),
}


WAYS = {  # projection, unified_pos, placeholder, temperature_bounds, task, times, weights of skin and of slopes
    "elasticity": ("pointwise", "none", True, "none", "steady", 1, 1.0, 0.0),
    "plasticity": ("conv2d", "none", False, (0.1, 5.0), "time", 20, 1.0, 0.0),
    "airfoil": ("conv2d", "none", True, (0.1, 5.0), "steady", 1, 1.0, 0.0),
    "pipe": ("conv2d", "none", True, (0.1, 5.0), "steady", 1, 1.0, 0.0),
    "navier_stokes": ("conv2d", "index", False, (0.1, 5.0), "rollout", 10, 1.0, 0.0),
    "darcy": ("conv2d", "index", False, (0.1, 5.0), "steady", 1, 1.0, 0.1),
    "shapenet_car": ("pointwise", "none", True, "none", "steady", 1, 0.5, 0.0),
    "airfrans": ("pointwise", "accompany", True, "none", "steady", 1, 1.0, 0.0),
    "airfrans_scarce": ("pointwise", "accompany", True, "none", "steady", 1, 1.0, 0.0),
    "airfrans_ood_reynolds": ("pointwise", "accompany", True, "none", "steady", 1, 1.0, 0.0),
    "airfrans_ood_angles": ("pointwise", "accompany", True, "none", "steady", 1, 1.0, 0.0),
}


def recipe(name: str) -> Path:
    return RECIPES[0].parent / f"{name}.toml"


@pytest.mark.parametrize("name", PAPER)
def test_settings_are_the_papers(name: str) -> None:
    r = read_recipe(recipe(name))
    m, t = r.model, r.training
    assert (m.layers, m.heads, t.learning_rate) == (8, 8, 1e-3)
    expected = (m.channels, m.slices, m.mlp_ratio, t.batch, t.optimiser, t.schedule, t.clip, t.epochs, t.loss)
    assert expected == PAPER[name]
    ways = (m.projection, m.unified_pos, m.placeholder, m.temperature_bounds, t.task, t.time_steps)
    assert (*ways, t.surface_weight, t.gradient_weight) == WAYS[name]
    header = recipe(name).read_text().partition("[data]")[0]
    assert "Otherwise than the authors' program:" in header


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: p.stem)
def test_each_recipe_says_what_it_needs(path: Path, tmp_path: Path) -> None:
    text, r = path.read_text(), read_recipe(path)
    header = text[: text.index("[data]")]
    assert f"aerosurrogate train recipes/{path.name}" in header
    assert "Data:" in header
    assert "Expect" in header
    assert r.data.source
    assert r.data.prepare
    assert r.data.path == (path.parent / "../datasets" / r.data.path.name).resolve()
    (tmp_path / "again.toml").write_text(r.toml())
    assert read_recipe(tmp_path / "again.toml") == r


def test_any_key_can_be_overridden() -> None:
    r = read_recipe(
        recipe("darcy"),
        ["training.steps=7", "model.slices=[64,64,64,64,32,32,32,32]", "training.schedule=cosine", "data.train=few"],
    )
    assert (r.training.steps, r.training.epochs, r.training.schedule) == (7, None, "cosine")
    assert r.model.slices == (64,) * 4 + (32,) * 4
    assert r.data.train == "few"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("training.epoch=3", ["training.epoch", "epochs"]),
        ("trainig.epochs=3", ["trainig", "training"]),
        ("training.epochs=three", ["training.epochs", "three", "integer"]),
        ("training.epochs=1.5", ["training.epochs", "integer"]),
        ("training.batch=0", ["training.batch", "greater than 0"]),
        ("training.loss=mse", ["training.loss", "mse", "mean_square"]),
        ("training.mirror=yes", ["training.mirror", "bool"]),
        ("model.slices=[64,32]", ["model", "2 numbers for 8 layers"]),
        ("model.channels=100", ["channels (100)", "heads (8)"]),
        ("data.validation=1.5", ["data.validation", "less than 1"]),
        ("training", ["section.key=value"]),
    ],
)
def test_mistakes_are_named_with_their_remedy(override: str, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        read_recipe(recipe("darcy"), [override])
    for word in words:
        assert word in str(caught.value)


def test_recipes_of_earlier_run_folders_are_read(tmp_path: Path) -> None:
    recipe = read_recipe(RECIPES[0])
    (tmp_path / "recipe.toml").write_text(recipe.toml().replace("[training]", "[training]\nforce_weight = 0.0"))
    assert read_recipe(tmp_path / "recipe.toml").training == recipe.training
    (tmp_path / "recipe.toml").write_text(recipe.toml().replace("[training]", "[training]\nforce_weight = 0.1"))
    with pytest.raises(InputError, match="force_weight"):
        read_recipe(tmp_path / "recipe.toml")


def test_a_recipe_that_is_not_there_has_a_neighbour() -> None:
    with pytest.raises(InputError, match=r"darcy\.toml"):
        read_recipe(recipe("darci"))


def test_missing_data_says_where_they_come_from(tmp_path: Path) -> None:
    from aerosurrogate.training.cases import require_data

    (tmp_path / "recipes").mkdir()
    path = tmp_path / "recipes" / "airfrans.toml"
    path.write_text(recipe("airfrans").read_text())
    (tmp_path / "recipes" / "naca_rans.toml").write_text(recipe("naca_rans").read_text())
    (tmp_path / "datasets/naca_rans").mkdir(parents=True)
    (tmp_path / "datasets/naca_rans/manifest.json").write_text("{}")
    with pytest.raises(InputError) as caught:
        require_data(read_recipe(path).data)
    message = str(caught.value)
    assert "https://" in message
    assert "10 GB" in message
    assert "aerosurrogate prepare Dataset --format airfrans" in message
    assert "recipes/naca_rans.toml" in message


def test_headers_say_what_was_counted() -> None:
    """Time and memory on a GPU come from benchmarks/gpu_recipes.py."""
    folder = Path(__file__).parents[1]
    counted = json.loads((folder / "benchmarks" / "results" / "gpu_recipes.json").read_text(encoding="utf-8"))
    assert counted.keys() >= PAPER.keys()
    for path in RECIPES:
        header = path.read_text(encoding="utf-8").split("[data]")[0]
        if (row := counted.get(path.stem)) is None:
            assert "A100" not in header, path.stem
        else:
            hours = row["a100_hours_estimated"]
            assert f" {hours:g} hour{'' if hours == 1 else 's'} on one A100" in header, path.stem
            assert f"a step keeps {row['gigabytes_kept']:g} GB" in header, path.stem
