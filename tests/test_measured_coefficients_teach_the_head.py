"""Shapes of which no more than drag and lift is known, as from a wind tunnel, train the head beside solved cases."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
from small_models import made_up_case

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.prepare import prepare
from aerosurrogate.data.store import Dataset, Manifest, write_manifest, write_shard
from aerosurrogate.evaluate import evaluate
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.model_frame import sample
from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.loop import train

STREAM = Conditions(speed=30.0, length=1.0, ground=True)
HEIGHTS = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
RECIPE = """
[data]
path = "solved"
beside = ["measured"]
inputs = ["position_per_length", "normal", "surface"]
fields = ["p"]
coefficients = ["lift", "log_drag"]
scaling = "nondimensional"
validation = 0.0
[model]
channels = 16
layers = 2
heads = 2
slices = 4
[training]
steps = 300
batch = 2
optimiser = "muon"
learning_rate = 4e-3
clip = 1.0
sampling = "density"
points = 32
skin_points = 96
coefficient_weight = 1.0
"""


def drag(height: float) -> float:
    return 0.2 + 2.0 * height


def write_box(path: Path, height: float) -> None:
    pv.Cube(bounds=(-0.5, 0.5, -0.2, 0.2, 0.05, 0.05 + height)).triangulate().save(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two boxes with fields, and six of other heights in a table with their drag; the lift of one is not known."""
    folder = tmp_path_factory.mktemp("tunnel")
    (folder / "list").mkdir()
    rows = ["name,cd,cl,area"]
    for i, height in enumerate(HEIGHTS):
        write_box(folder / "list" / f"box{i}.stl", height)
        rows.append(f"box{i},{drag(height) / 2},{'' if i == 3 else 0.05},{0.4 * height * 2}")  # over twice the area
    (folder / "list" / "tunnel.csv").write_text("\n".join(rows))
    (folder / "list" / "dataset.toml").write_text(
        'table = "tunnel.csv"\n[conditions]\nspeed = 30.0\n[splits]\ntest = []'
    )
    prepare([folder / "list"], folder / "measured")
    cases = []
    for i in range(2):
        write_box(folder / f"solved{i}.stl", 0.15)
        case = made_up_case(read_surface(folder / f"solved{i}.stl"), STREAM, i)
        known = {"cd": drag(0.15), "cl": 0.05, "area": 0.06}
        cases.append(replace(case, name=f"solved{i}", fields={"p": case.fields["p"]}, reference=known))
    entries = write_shard(folder / "solved" / "cases.safetensors", cases)
    write_manifest(folder / "solved", Manifest(cases=entries, splits={"train": list(entries), "test": []}))
    (folder / "boxes.toml").write_text(RECIPE)
    return folder


def test_a_list_of_shapes_with_their_drag_becomes_a_data_set(folder):
    case = Dataset(folder / "measured").case("box2")
    assert not case.fields
    assert case.reference["cd"] == pytest.approx(drag(HEIGHTS[2]) / 2)
    skin = 2 * (0.4 * HEIGHTS[2] + HEIGHTS[2] + 0.4)
    assert case.areas is not None
    assert case.areas.sum() == pytest.approx(skin, rel=1e-3)
    assert np.abs((case.normals * case.areas[:, None])[case.surface].sum(axis=0)).max() < 0.02 * skin


def test_the_head_learns_from_them(folder):
    train(read_recipe(folder / "boxes.toml"), folder / "run")
    surrogate = Surrogate.load(folder / "run")
    for height in (0.2, 0.3, 0.4):  # no solved case is as high
        write_box(folder / "asked.stl", height)
        places = sample(read_surface(folder / "asked.stl"), STREAM, surrogate)
        answer = surrogate.force_areas(surrogate.states(places), silhouette=0.4 * height)
        assert answer["drag"] / (0.4 * height) == pytest.approx(drag(height), rel=0.2), height


def test_any_model_is_measured_against_them(folder):
    dataset = Dataset(folder / "measured")
    measured = evaluate(Surrogate.load(folder / "run"), dataset, dataset.names("train")).rows
    assert [row["name"] for row in measured if "cl" in row] == [f"box{i}" for i in (0, 1, 2, 4, 5)]
    assert all("cd_head" in row and "p_surface" not in row for row in measured)
