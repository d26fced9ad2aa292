"""Every kind of picture is drawn without a display, shows the body, and keeps its colour bar clear of it."""

import json
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
from PIL import Image
from small_models import ask_few_places, save_small

from aerosurrogate.conditions import FlowAxes, StreamOptions
from aerosurrogate.errors import InputError
from aerosurrogate.predict import Wanted, predict
from aerosurrogate.viz import render, viz
from aerosurrogate.viz.source import Scale


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("viz")
    with pytest.MonkeyPatch.context() as patch:
        ask_few_places(patch)
        fill(place)
    return place


def fill(place: Path) -> None:
    pv.Box((-2, 2, -0.8, 0.8, 0.2, 1.2), level=5).triangulate().save(place / "box.stl")
    model = save_small(place, 3)
    predict([str(place / "box.stl")], place / "car.vtu", StreamOptions(), model=model)
    predict([str(place / "box.stl")], place / "fast.vtu", StreamOptions(speed=40), Wanted(True), model=model)
    predict(["naca2412"], place / "wing.vtu", StreamOptions(alpha=2), model=save_small(place, 2))
    run = place / "run"
    run.mkdir()
    lines = [{"step": s, "loss": 1 / (s + 1), "learning_rate": 1e-3} for s in range(0, 100, 10)]
    lines += [{"step": s, "validation": 2 / (s + 1)} for s in range(0, 100, 50)] + [{"event": "done"}]
    (run / "log.jsonl").write_text("\n".join(json.dumps(line) for line in lines) + '\n{"step": 1')


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("car.vtu", {}),
        ("fast.vtu", {"field": "wallShearStress", "reference": "car.vtu"}),
        ("car.vtu", {"kind": "slices"}),
        ("wing.vtu", {}),
        ("wing.vtu", {"kind": "slices"}),
        ("run", {}),
    ],
)
def test_pictures_have_colours_on_a_white_ground(folder, file, options):
    out = folder / "picture.png"
    if "reference" in options:
        options = options | {"reference": folder / options["reference"]}
    viz([folder / file], out, **options)
    found = pixels(out)
    assert found.shape[0] > 400
    assert found.shape[1] > 600
    white = (found > 250).all(axis=2)
    assert 0.1 < white.mean() < 0.99
    assert np.ptp(found, axis=2).max() > 60  # coloured, not grey
    assert white[:4].all()  # nothing runs out of the frame
    assert white[-4:].all()


@pytest.mark.parametrize("file", ["car.vtu", "wing.vtu", "run"])
def test_pages_hold_everything_they_need(folder, file):
    out = folder / "page.html"
    viz([folder / file], out)
    text = out.read_text()
    assert "Plotly.newPlot" in text
    assert "<script src" not in text
    assert "cdn.plot.ly" not in text.partition("Plotly.newPlot")[2]


def test_several_files_share_one_scale_of_colours(folder):
    viz([folder / "car.vtu", folder / "fast.vtu"], folder / "two.png")
    assert pixels(folder / "two.png").shape[1] > 600
    with pytest.raises(InputError, match="one file"):
        viz([folder / "car.vtu", folder / "fast.vtu"], folder / "two.html")


def test_a_bare_surface_with_an_array_can_be_drawn(folder, shared_data):
    viz([shared_data / "shapenet_car" / "mini_car_0.vtp"], folder / "mini.png")
    viz([next((shared_data / "airfrans").glob("*aerofoil.vtp"))], folder / "surface.png")


def test_matplotlib_takes_over_where_vtk_dies_and_draws_the_same_body(monkeypatch):
    body = pv.Box((-2, 2, -0.8, 0.8, 0.2, 1.2), level=3).triangulate()
    corners = body.points[body.regular_faces]
    colours = np.tile(np.array([[200, 40, 40]], np.uint8), (len(corners), 1))
    shot = render.Shot.of(corners, colours, "front", FlowAxes.parse(), (240, 140))
    (by_vtk,) = render.render([shot])

    def die(shot: render.Shot) -> None:
        raise render.BrokenProcessPool("the process ended")

    class Dying:
        def map(self, work, shots, timeout):
            return map(die, shots)

    monkeypatch.setattr(render, "_pool", Dying)
    monkeypatch.setattr(render, "_vtk_works", True)
    (by_hand,) = render.render([shot])
    assert not render._vtk_works
    inside = [(image < 250).any(axis=2) for image in (by_vtk, by_hand)]
    overlap = (inside[0] & inside[1]).sum() / (inside[0] | inside[1]).sum()
    assert overlap > 0.95


def test_signed_fields_are_centred_at_zero_and_others_are_not():
    signed = Scale.over(np.linspace(-3, 1, 500))
    assert signed.low == -signed.high
    assert tuple(signed.colours(np.zeros(1))[0]) == pytest.approx((247, 247, 247), abs=3)
    plain = Scale.over(np.linspace(2, 5, 500))
    assert plain.low == pytest.approx(2, abs=0.1)


def test_what_cannot_be_drawn_is_refused_with_the_remedy(folder):
    for files, out, options, words in (
        (["car.vtu"], "car.jpg", {}, "png"),
        (["car.vtu"], "car.png", {"field": "T"}, "--field"),
        (["car.vtu"], "car.png", {"kind": "error"}, "--reference"),
        (["box.stl"], "box.png", {}, "predict"),
        (["run"], "run.png", {"kind": "field"}, "OpenFOAM"),
        (["car.vtu"], "car.png", {"kind": "history"}, "training run"),
        (["car.vtu"], "car.png", {"reference": folder / "wing.vtu"}, "dimension"),
    ):
        with pytest.raises(InputError, match=words):
            viz([folder / file for file in files], folder / out, **options)
