"""A sphere, an aeroplane and a car on its side are outside a family of cars; other cars of the family are not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
from pyvista import examples
from small_models import small_surrogate

from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.mesh.write import write_mesh
from aerosurrogate.predict import Predictor, evidence
from aerosurrogate.simulate import cars, shapes
from aerosurrogate.trust import familiarity

AIR = StreamOptions(speed=30.0)
PLAIN = dict.fromkeys(("mirrors", "spoiler", "rough_floor"), ("no",)) | {"deform": (0.0, 0.0)}
CARS = cars.RANGES | PLAIN | {"kind": ("notchback", "fastback", "estate", "suv", "van", "ahmed")}


def family(count: int, seed: int) -> list[Surface]:
    """Cars as the training set draws them."""
    rng = np.random.default_rng(seed)
    return [shapes.surface(cars.draw(CARS, rng)[0]) for _ in range(count)]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    """Arbitrary weights, but statistics of real bodies: features, measures, routes."""
    folder = tmp_path_factory.mktemp("trust")
    surrogate = small_surrogate(3)
    surrogate.save(folder / "blank.safetensors")
    predictor = Predictor(str(folder / "blank.safetensors"))
    shown = []
    for number, surface in enumerate(family(18, seed=1)):
        write_mesh(surface, folder / "body.stl")
        prepared = predictor.prepare(str(folder / "body.stl"), replace(AIR, speed=18.0 + 1.5 * number))
        shown.append(evidence(surrogate, prepared, predictor.answer(prepared)))
    surrogate.trust = familiarity.fit(shown[:12], shown[12:])
    surrogate.save(folder / "model.safetensors")
    return str(folder / "model.safetensors")


def judged(path: Path, model: str, **stream: object) -> dict:
    return coeffs([str(path)], CoeffsOptions(replace(AIR, **stream), model=model)).rows[0]


def test_other_cars_of_the_family_are_not_outside(model, tmp_path):
    marks = []
    for surface in family(3, seed=99):
        write_mesh(surface, tmp_path / "car.stl")
        marks.append(judged(tmp_path / "car.stl", model)["trust"])
    assert marks.count("outside") <= 1
    assert marks.count("inside") >= 1


def test_strangers_are_outside_and_it_is_said_why(model, tmp_path):
    sphere = pv.Icosphere(radius=1.0, nsub=4, center=(0, 0, 1.1))
    plane = examples.load_airplane()
    plane = plane.scale(4.5 / np.ptp(plane.points[:, 0]))
    write_mesh(family(1, seed=5)[0], tmp_path / "upright.stl")
    on_its_side = pv.read(tmp_path / "upright.stl").rotate_x(90)
    for name, mesh, stream in (
        ("sphere", sphere, {}),
        ("aeroplane", plane, {}),
        ("on_its_side", on_its_side, {}),
        ("upright", pv.read(tmp_path / "upright.stl"), {"speed": 300.0}),
        ("in_free_air", pv.read(tmp_path / "upright.stl"), {"ground": "none"}),
    ):
        mesh.save(tmp_path / f"{name}.stl")
        row = judged(tmp_path / f"{name}.stl", model, **stream)
        assert row["trust"] == "outside", name
        assert row["reasons"], name
