"""Car bodies: closed, facing outward, mirror-symmetric, of the size asked for, and the same for the same seed."""

import numpy as np
import pytest

from aerosurrogate.conditions import StreamOptions
from aerosurrogate.mesh.orient import open_edges, shared_too_often
from aerosurrogate.mesh.write import write_mesh
from aerosurrogate.simulate import car_shapes, cars
from aerosurrogate.simulate.driver import own_design

KINDS = list(car_shapes.RANGES)
EACH = 4  # bodies of a kind


def bodies(kind: str) -> list[tuple[dict, object]]:
    drawn = [cars.draw(cars.RANGES | {"kind": (kind,)}, np.random.default_rng([3, i]))[0] for i in range(EACH)]
    return [(p, car_shapes.surface(car_shapes.shape_of(p))) for p in drawn]


@pytest.mark.parametrize("kind", KINDS)
def test_every_piece_is_closed_and_faces_outward(kind):
    for parameters, surface in bodies(kind):
        assert surface.pieces.max() + 1 == (5 if parameters.get("wheels") == "yes" else 1)
        for piece in range(surface.pieces.max() + 1):
            part = surface.select(surface.pieces == piece)
            assert len(open_edges(part)) == 0
            assert shared_too_often(part) == 0
            assert part.volume > 0
            assert np.allclose(part.area_vectors.sum(axis=0), 0, atol=1e-12)
        assert surface.areas.min() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_bodies_mirror_themselves_exactly(kind):
    for _, surface in bodies(kind):
        image = surface.points * [1.0, -1.0, 1.0]
        assert {tuple(p) for p in surface.points + 0.0} == {tuple(p) for p in image + 0.0}
        assert cars.is_mirror_symmetric(surface)
        moved = car_shapes.Surface(surface.points + np.array([0.0, 0.002 * surface.length, 0.0]), surface.cells)
        assert not cars.is_mirror_symmetric(moved)


@pytest.mark.parametrize("kind", KINDS)
def test_bodies_have_the_size_their_parameters_say(kind):
    for parameters, surface in bodies(kind):
        shape = car_shapes.shape_of(parameters)
        (x0, y0, z0), (x1, y1, z1) = surface.bounds
        assert (x0, x1) == pytest.approx((-shape.length / 2, shape.length / 2), abs=1e-3)
        assert (y0, y1) == pytest.approx((-shape.width / 2, shape.width / 2), rel=0.03)
        assert z1 == pytest.approx(shape.height, rel=0.04)
        if parameters.get("wheels") == "yes":
            assert z0 == pytest.approx(-car_shapes.WHEEL_SINK, abs=1e-9)
        else:
            assert z0 == pytest.approx(shape.clearance, abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_stay_within_their_ranges(kind):
    for parameters, _ in bodies(kind):
        for name, (low, high) in car_shapes.RANGES[kind].items():
            assert low <= parameters[name] <= high


def test_a_seed_always_gives_the_same_car_and_others_differ():
    draws = [cars.draw(cars.RANGES, np.random.default_rng([1, i])) for i in (5, 5, 6)]
    assert draws[0] == draws[1] != draws[2]
    # The training set rests on this: case 0 of seed 1 is an estate of these proportions.
    parameters, conditions = cars.draw(cars.RANGES, np.random.default_rng([1, 0]))
    assert parameters["kind"] == "estate"
    assert conditions.speed == pytest.approx(19.324788381589013)
    assert conditions.length == pytest.approx(4.8486494471372446)
    surface = car_shapes.surface(car_shapes.shape_of(parameters))
    assert cars.frontal_area(surface) == pytest.approx(2.0741, rel=1e-3)


def test_a_spec_narrows_and_widens_what_is_drawn():
    ranges = cars.RANGES | {"kind": ("van",), "taper": (7.5, 9.0), "height": (2.5, 2.5), "wheels": ("no",)}
    for i in range(20):
        parameters, conditions = cars.draw(ranges, np.random.default_rng(i))
        assert parameters["kind"] == "van"
        assert parameters["wheels"] == "no"
        assert 7.5 <= parameters["taper"] <= 8.0, "the part of the range that vans know"
        assert parameters["height"] == 2.5, "a value beyond a kind's usual range is taken as given"
        assert 15 <= conditions.speed <= 45
        assert conditions.ground


def test_kinds_are_balanced_with_a_small_share_of_ahmed_bodies():
    kinds = [cars.draw(cars.RANGES, np.random.default_rng([1, i]))[0]["kind"] for i in range(600)]
    share = {kind: kinds.count(kind) / 600 for kind in KINDS}
    assert share.pop("ahmed") == pytest.approx(0.083, abs=0.03)
    assert all(s == pytest.approx(0.183, abs=0.05) for s in share.values())


@pytest.mark.parametrize("slant", [0.0, 12.5, 25.0, 35.0])
def test_the_ahmed_body_has_its_published_dimensions(slant):
    surface = car_shapes.surface(car_shapes.AhmedShape(slant=slant))
    assert surface.size == pytest.approx([1.044, 0.389, 0.288], abs=1e-9)
    assert surface.bounds[0, 2] == pytest.approx(0.05)
    assert cars.frontal_area(surface) == pytest.approx(0.389 * 0.288, rel=1e-3)
    # The base lies below the roof by the slant's 0.222 m times its sine.
    base = surface.points[surface.points[:, 0] > 0.522 - 1e-9]
    assert base[:, 2].max() == pytest.approx(0.338 - 0.222 * np.sin(np.radians(slant)), abs=1e-9)
    if slant:
        steep = np.abs(surface.normals @ [np.sin(np.radians(slant)), 0, np.cos(np.radians(slant))] - 1) < 1e-9
        assert surface.areas[steep].sum() == pytest.approx(0.222 * 0.389, rel=1e-6)


def test_silhouettes_leave_out_what_lies_below_the_ground():
    parameters, _ = cars.draw(cars.RANGES | {"kind": ("suv",), "wheels": ("yes",)}, np.random.default_rng(0))
    with_wheels = car_shapes.surface(car_shapes.shape_of(parameters))
    without = car_shapes.surface(car_shapes.shape_of(parameters | {"wheels": "no"}))
    shape = car_shapes.shape_of(parameters)
    seen = cars.frontal_area(with_wheels) - cars.frontal_area(without)
    tread = 2 * 0.62 * shape.wheel_radius
    assert 0.7 * tread * shape.clearance < seen < 1.3 * tread * (shape.clearance + 0.1)


def test_the_users_own_body_is_set_into_the_cars_frame(tmp_path):
    car = car_shapes.surface(car_shapes.AhmedShape(slant=25.0))
    # In mm, driving towards +y with its floor 2 m above the file's zero.
    turned = car.points[:, [1, 0, 2]] * [1.0, -1.0, 1.0]
    turned = turned @ np.diag([-1.0, 1.0, 1.0]) + np.array([3.0, 1.0, 2.0])
    write_mesh(car_shapes.Surface(1000 * turned, car.cells[:, ::-1]), tmp_path / "own.stl")
    stream = StreamOptions(speed=40.0, flow="-y", up="+z", ground="1950", units="mm")
    design = own_design(str(tmp_path / "own.stl"), stream)
    assert design.conditions.length == pytest.approx(1.044, abs=1e-6)
    found = cars.body_of(design)
    assert found.volume == pytest.approx(car.volume, rel=1e-5)
    assert found.bounds == pytest.approx(car.bounds + np.array([0.0, 0.0, 0.05]), abs=1e-5)
    assert found.points[found.points[:, 0] > 0.5219, 2].max() < 0.338, "the slanted end lies downstream"
