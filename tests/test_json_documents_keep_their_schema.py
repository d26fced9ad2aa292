"""The JSON of every command that prints results holds the promised keys with values of the promised types."""

import json
import math
import types
from typing import Any, Literal, NotRequired, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest
import pyvista as pv
from small_models import ask_few_places, small_surrogate
from typer.testing import CliRunner

from aerosurrogate.cli import app
from aerosurrogate.flow_fields import Row

Interval = list[float] | None


class Reference(TypedDict):
    speed: float | None
    alpha: float | None
    density: float | None
    viscosity: float | None
    flow: str | None
    up: str | None
    ground: str | None
    area: str | None
    model: str | None
    pressure: str
    moment_about: str | None
    moment_sign: str
    symmetry: str | None


class Statistic(TypedDict):
    cd: float | None
    cd_interval: Interval
    cl: NotRequired[float | None]
    cl_interval: NotRequired[Interval]


class Coeffs(TypedDict):
    designs: list[Row]
    reference: Reference
    failed: dict[str, str]
    compared: NotRequired[int]
    spearman: NotRequired[Statistic]
    kendall: NotRequired[Statistic]
    relative_error: NotRequired[Statistic]
    best: NotRequired[dict[str, dict[str, int]]]


class Predict(TypedDict):
    designs: list[dict[str, Any]]
    failed: dict[str, str]


class Mesh(TypedDict):
    name: str
    file: str
    watertight: bool
    open_edges: int
    faces: int
    length: float
    orientation: Literal["outward", "inward", "mixed"]
    findings: list[str]
    repairs: list[str]
    repaired: str | None


class Check(TypedDict):
    meshes: list[Mesh]


def fits(value: Any, kind: Any, path: str = "document") -> None:
    """Assert that a JSON value is of a type: plain ones, unions, lists, dicts, literals, typed dictionaries."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return
    if is_typeddict(kind):
        assert isinstance(value, dict), path
        for key, what in get_type_hints(kind).items():
            assert key in value or key not in kind.__required_keys__, f"{path}.{key} is missing"
            if key in value:
                fits(value[key], what, f"{path}.{key}")
    elif origin is NotRequired:
        fits(value, inner[0], path)
    elif origin in (Union, types.UnionType):
        assert any(_is(value, one, path) for one in inner), f"{path}: {value!r} is none of {kind}"
    elif origin is Literal:
        assert value in inner, f"{path}: {value!r}"
    elif origin is list:
        assert isinstance(value, list), path
        for i, item in enumerate(value):
            fits(item, inner[0], f"{path}[{i}]")
    elif origin is dict:
        assert isinstance(value, dict), path
        for key, item in value.items():
            fits(item, inner[1], f"{path}.{key}")
    elif kind is float:
        assert type(value) in (int, float), f"{path}: {value!r}"
        assert math.isfinite(value), f"{path}: {value!r}"
    else:
        assert type(value) is kind, f"{path}: {value!r} is no {kind}"


def _is(value: Any, kind: Any, path: str) -> bool:
    try:
        fits(value, kind, path)
    except AssertionError:
        return False
    return True


def document(*words: object) -> Any:
    result = CliRunner().invoke(app, [*map(str, words), "--json", "--quiet"])
    assert result.exception is None, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def cars(tmp_path_factory):
    """Two bodies, a model that knows neither, and made-up true values."""
    folder = tmp_path_factory.mktemp("cars")
    for name, height in (("low", 1.2), ("high", 1.6)):
        pv.Cube(bounds=(0, 4, -0.8, 0.8, 0.2, height)).triangulate().subdivide(3).save(folder / f"{name}.stl")
    small_surrogate(3).save(folder / "small.safetensors")
    small_surrogate(2).save(folder / "flat.safetensors")
    (folder / "truth.csv").write_text("name,cd,cl\nlow,0.3,0.1\nhigh,0.4,0.2\n")
    return folder


def test_coeffs_keeps_its_rows_beside_a_comparison(cars):
    shapes = (cars / "low.stl", cars / "high.stl", "--model", cars / "small.safetensors", "--speed", 30)
    plain, compared = document("coeffs", *shapes), document("coeffs", *shapes, "--reference", cars / "truth.csv")
    fits(plain, Coeffs)
    fits(compared, Coeffs)
    assert compared["designs"] == plain["designs"]
    assert compared["compared"] == len(compared["designs"]) == 2


def test_coeffs_of_a_section(cars):
    found = document("coeffs", "naca2412", "--model", cars / "flat.safetensors", "--alpha", 4)
    fits(found, Coeffs)
    row = found["designs"][0]
    assert row["cl_front"] is None
    assert row["ld"] == pytest.approx(row["cl"] / row["cd"])


def test_axle_lifts_add_up_and_balance_the_moment(cars):
    row = document("coeffs", cars / "low.stl", "--model", cars / "small.safetensors", "--speed", 30)["designs"][0]
    assert row["cl_front"] + row["cl_rear"] == pytest.approx(row["cl"])
    # Forces at axles 0.3 lengths ahead of and behind mid-length make the moment about it.
    assert 0.3 * row["cl_front"] - 0.3 * row["cl_rear"] == pytest.approx(row["cm"])
    assert row["cda_m2"] == pytest.approx(row["drag_n"] / (0.5 * row["density"] * row["speed"] ** 2))


def test_predict(cars, monkeypatch):
    ask_few_places(monkeypatch)
    out = cars / "fields.vtu"
    found = document("predict", cars / "low.stl", "--model", cars / "small.safetensors", "--out", out)
    fits(found, Predict)
    assert found["designs"][0].pop("rank") is None
    assert found["designs"][0]["out"] == str(out)
    fits(found["designs"][0] | {"rank": 0}, Row)


def test_check(cars):
    fits(document("check", cars / "low.stl", cars / "high.stl"), Check)
