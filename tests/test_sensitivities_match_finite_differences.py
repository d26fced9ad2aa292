"""Where to push: the map agrees with finite differences of the model itself, on smooth bumps, and in every input."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import INPUTS, made_up_case, save_small
from typer.testing import CliRunner

from aerosurrogate.cli import app
from aerosurrogate.conditions import Conditions, StreamOptions
from aerosurrogate.data import scaling
from aerosurrogate.errors import InputError
from aerosurrogate.mesh import potential
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.write import write_mesh
from aerosurrogate.predict import Predictor
from aerosurrogate.sensitivity import Response, evened, inputs_of, section_flow, sensitivity, smoothed
from aerosurrogate.viz.source import open_source

SAMPLES = Path(__file__).parents[1] / "sample_meshes"


def test_inputs_are_those_that_models_are_trained_on():
    surface = read_surface("naca2412")
    stream = Conditions(speed=40.0, length=1.0, alpha=3.0)
    places = replace(
        scaling.Places.of(made_up_case(surface, stream, 0)), outline=potential.around(surface, ground=stream.ground)
    )
    names = [name for name in scaling.INPUTS if name != "source"]
    ours = inputs_of(
        names,
        *(torch.from_numpy(np.asarray(a, float)) for a in (places.points, places.normals, places.distance)),
        torch.from_numpy(places.surface),
        torch.tensor(40.0, dtype=torch.float64),
        torch.tensor(3.0, dtype=torch.float64),
        stream,
        section_flow(torch.from_numpy(surface.corners)),
    )
    theirs = np.concatenate([scaling.INPUTS[name](places) for name in names], axis=1)
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=2e-4, atol=2e-4)
    assert set(INPUTS) <= set(names)


def bumps(surface, count: int) -> list[np.ndarray]:
    """Movements outward (n,) of the corners: bells of a twelfth of the length around random places."""
    length, outward = np.ptp(surface.points[:, 0]), surface.point_normals
    share = surface.areas / surface.areas.sum()
    made = []
    for face in np.random.default_rng(5).choice(len(surface.cells), count, p=share):
        away = np.linalg.norm(surface.points - surface.centres[face], axis=1)
        made.append(np.exp(-0.5 * (away / (0.083 * length)) ** 2) * np.maximum(outward @ surface.normals[face], 0))
    return made


@pytest.mark.parametrize(
    ("shape", "stream", "of"),
    [
        ("naca2412", StreamOptions(alpha=4.0, reynolds=3e6), "cd"),
        ("naca4415", StreamOptions(alpha=2.0, reynolds=4e6), "cl"),
        (str(SAMPLES / "car_no_wheels.stl"), StreamOptions(speed=30.0), "cd"),
    ],
)
def test_the_map_agrees_with_finite_differences_on_bumps(shape, stream, of):
    predictor = Predictor()
    prepared = predictor.prepare(shape, stream)
    surface = prepared.surface
    response = Response(predictor.surrogate(surface.dimension), prepared, range(6 if surface.dimension == 2 else 2))
    density = smoothed(surface, response.derivatives(of)[of].corners)
    step = 1e-4 * np.ptp(surface.points[:, 0])  # a sharp trailing edge soon turns over
    found, mapped = [], []
    for bump in bumps(surface, 20):
        ahead, back = (
            response.means(surface.points + s * step * bump[:, None] * surface.point_normals)[of] for s in (1, -1)
        )
        found.append((ahead - back) / (2 * step))
        mapped.append(float(density @ (surface.point_areas * bump)))
    one, other = np.array(found), np.array(mapped)
    assert np.corrcoef(one, other)[0, 1] > 0.98  # of two draws; the command takes twelve
    # Smoothing shares what a sharp edge gains with the skin beside it, which a bump moves less.
    assert 0.75 < other @ one / (one @ one) < 1.12


def test_the_map_of_a_symmetric_body_is_symmetric():
    surface = read_surface(SAMPLES / "car_no_wheels.stl")
    middle = surface.bounds.mean(axis=0)
    surface = surface.transformed(np.eye(3), [-middle[0], -middle[1], 0.0])
    one_sided = np.exp(-np.sum((surface.points - [1.0, 0.5, 1.0]) ** 2, axis=1))
    even = evened(surface, one_sided)
    other = evened(surface.transformed(np.diag([1.0, -1.0, 1.0]), np.zeros(3)), one_sided)
    np.testing.assert_allclose(even, other, atol=1e-9)
    assert float(surface.point_areas @ even) == pytest.approx(float(surface.point_areas @ one_sided), rel=0.01)


def test_the_angle_and_the_modes_of_a_section_mean_what_they_say():
    found = sensitivity("naca2412", StreamOptions(alpha=3.0, reynolds=3e6), "cl")
    ahead, back = (sensitivity("naca2412", StreamOptions(alpha=a, reynolds=3e6), "cl").value for a in (3.2, 2.8))
    assert found.per_alpha == pytest.approx((ahead - back) / 0.4, rel=0.05)
    assert found.per_alpha == pytest.approx(2 * np.pi * np.pi / 180, rel=0.15)  # thin-airfoil theory
    assert found.modes["camber"] > 0.05  # thin-airfoil theory: a per cent of parabolic camber adds 4 pi / 100
    assert abs(found.modes["thickness"]) < 0.5 * found.modes["camber"]


def test_the_command_writes_a_map_that_viz_draws(tmp_path):
    out = tmp_path / "map.vtu"
    line = ["sensitivity", str(SAMPLES / "naca_2412.dat"), "--alpha", "2", "--of", "cl/cd", "--out", str(out), "--json"]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["of"] == "cl/cd"
    assert document["least"] < 0 < document["most"]
    picture = tmp_path / "map.png"
    drawn = CliRunner().invoke(app, ["viz", str(out), "--out", str(picture)])
    assert drawn.exit_code == 0, drawn.output
    assert picture.stat().st_size > 5_000
    assert open_source(str(out)).field == "d(cl/cd)/dn"


def test_what_cannot_be_answered_is_refused(tmp_path):
    surface = read_surface(SAMPLES / "car_no_wheels.stl")
    write_mesh(surface.select(np.arange(len(surface.cells)) > 20), tmp_path / "open.stl")
    with pytest.raises(InputError, match="open along"):
        sensitivity(str(tmp_path / "open.stl"), StreamOptions(speed=30.0))
    with pytest.raises(InputError, match="no such coefficient"):
        sensitivity("naca2412", StreamOptions(), "weight")
    with pytest.raises(InputError, match=r"written as \.vtu"):
        sensitivity("naca2412", StreamOptions(), model=save_small(tmp_path, 2)).save(tmp_path / "map.txt")
