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
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.predict import Wanted, predict
from aerosurrogate.viz import planes, render, skin, viz
from aerosurrogate.viz.source import Scale, open_source


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
    pv.Box((-2, 2, -0.8, 0.8, 0.2, 1.4), level=5).triangulate().save(place / "taller.stl")
    predict([str(place / "taller.stl")], place / "taller.vtu", StreamOptions(), Wanted(True), model=model)
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
        ("car.vtu", {"field": "U"}),
        ("wing.vtu", {"field": "nut"}),
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


@pytest.mark.parametrize(
    ("file", "options", "title"),
    [
        ("car.vtu", {}, "box · Re 8 million, 30 m/s · Cd"),
        ("car.vtu", {"field": "U"}, "box · Re 8 million"),
        ("fast.vtu", {"reference": "car.vtu"}, "box · Re 10.7 million, 40 m/s"),
        ("wing.vtu", {}, "naca2412 · Re 4 million, 60 m/s, 2° · Cd"),
        ("run", {}, "training history"),
    ],
)
def test_pages_hold_everything_they_need_and_say_what_they_show(folder, file, options, title):
    out = folder / "page.html"
    viz([folder / file], out, **{k: folder / v if k == "reference" else v for k, v in options.items()})
    text = out.read_text()
    assert f"<h1>{title}" in text
    assert out.stat().st_size < 8e6
    assert "$C" not in text.rpartition("Plotly.newPlot")[2]  # formulas are for matplotlib
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


def test_colours_mean_values_whatever_the_light():
    body = pv.Cone(resolution=40).triangulate()
    corners = body.points[body.regular_faces]
    shade = (37, 111, 203)
    colours = np.tile(np.array([[shade]], np.uint8), (len(corners), 3, 1))
    (image,) = render.render([render.Shot.of(corners, colours, "rear", FlowAxes.parse(), (240, 140))])
    seen, counts = np.unique(image.reshape(-1, 3), axis=0, return_counts=True)
    common = {tuple(int(c) for c in colour) for colour in seen[counts > 500]}
    assert common == {shade, (255, 255, 255)}


def test_values_run_smoothly_over_round_bodies_and_stop_at_edges():
    ball = pv.Icosphere(radius=1.0, nsub=3)
    surface = Surface(np.asarray(ball.points, float), np.asarray(ball.regular_faces, np.int64))
    values = skin.corner_values(surface, surface.centres[:, 0])
    assert np.abs(values - surface.corners[:, :, 0]).max() < 0.04
    at_point = np.full(len(surface.points), np.nan)
    at_point[surface.cells] = values
    assert np.allclose(at_point[surface.cells], values)  # one value a point, whichever triangle is asked
    assert len(skin.edges(surface.corners)) == 0
    cube = pv.Cube().triangulate().clean()
    surface = Surface(np.asarray(cube.points, float), np.asarray(cube.regular_faces, np.int64))
    values = skin.corner_values(surface, surface.normals[:, 2])
    assert np.allclose(values, surface.normals[:, 2:])  # each face keeps its own
    assert len(skin.edges(surface.corners)) == 12


def test_heavy_skins_are_thinned_for_pages_and_keep_form_and_values():
    ball = pv.Sphere(theta_resolution=100, phi_resolution=100)
    surface = Surface(np.asarray(ball.points, float), np.asarray(ball.regular_faces, np.int64))
    light, values = skin.thinned(surface, surface.centres[:, 2], 3000)
    assert 2000 < len(light.cells) <= 3100
    assert light.volume == pytest.approx(surface.volume, rel=0.01)
    assert np.abs(values - light.corners[:, :, 2]).max() < 0.02
    shared = np.unique(np.column_stack([light.corners.reshape(-1, 3), values.ravel()]).astype(np.float32), axis=0)
    assert len(shared) < 1.1 * len(light.points)  # a page holds each point once


def test_the_middle_plane_is_a_section_and_not_a_silhouette():
    body, wheels = pv.Box((-2, 2, -0.8, 0.8, 0.2, 1.2)), pv.Box((-1, 1, 0.5, 0.7, 0.0, 0.5))
    whole = body.triangulate().append_polydata(wheels.triangulate())
    segments = planes.cut(whole.points[whole.regular_faces])
    assert segments[..., 1].min() == pytest.approx(0.2, abs=1e-6)  # the wheels stand beside it
    assert np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1).sum() == pytest.approx(10.0, rel=1e-5)


def test_the_air_is_shown_where_it_is_and_the_wake_without_beads(folder):
    source = open_source(str(folder / "car.vtu"), "U")
    plane = planes.flow_plane(source)
    assert plane.label == "speed (m/s)"
    assert np.nanmax(plane.values) > 1.0
    assert np.isnan(plane.values[plane.covered]).all()
    middle = (np.abs(plane.x[None, :]) < 1.9) & (plane.y[:, None] > 0.3) & (plane.y[:, None] < 1.1)
    assert plane.covered[middle].all()
    stream, grid = StreamOptions(), Wanted.parse(False, "24x12x10", None)
    predict([str(folder / "box.stl")], folder / "grid.vtu", stream, grid, model=str(folder / "small3.safetensors"))
    coarse = planes.flow_plane(open_source(str(folder / "grid.vtu"), "U"))  # cut out of the grid
    assert np.nanmedian(np.abs(coarse.values / np.nanmean(plane.values) - 1)) < 0.5
    section = planes.flow_plane(open_source(str(folder / "wing.vtu")))
    assert len(section.streamlines()) > 20
    (around,) = section.source.solution.around
    centres = around.points[around.cells].mean(axis=1)
    for x in (1.1, 1.4, 1.7):  # chords; the wake of two degrees lies within some hundredths of the chord line
        assert np.linalg.norm(centres - [x, 0.01], axis=1).min() < 0.02


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
        (["run"], "run.png", {"kind": "field"}, "recipe"),
        (["car.vtu"], "car.png", {"kind": "history"}, "training run"),
        (["car.vtu"], "car.png", {"reference": folder / "wing.vtu"}, "dimension"),
        (["car.vtu"], "car.png", {"reference": folder / "taller.vtu"}, "another body.*--kind difference"),
        (["fast.vtu"], "car.png", {"field": "U"}, "around the body.*--surface-only"),
    ):
        with pytest.raises(InputError, match=words):
            viz([folder / file for file in files], folder / out, **options)
