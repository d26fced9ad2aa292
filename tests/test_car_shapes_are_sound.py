"""Bodies to simulate: closed, facing outward, mirror-symmetric, of the size asked for, the same for the same seed."""

from pathlib import Path

import numpy as np
import pytest

from aerosurrogate.conditions import StreamOptions
from aerosurrogate.data.store import Dataset
from aerosurrogate.mesh.distance import inside
from aerosurrogate.mesh.orient import open_edges, shared_too_often
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.mesh.write import write_mesh
from aerosurrogate.simulate import cars, shapes
from aerosurrogate.simulate.driver import designs_of, own_design
from aerosurrogate.simulate.shapes.air import RANGES as IN_AIR
from aerosurrogate.simulate.shapes.blends import RANGES as BLENDED
from aerosurrogate.simulate.shapes.cars import RANGES as CARS_WITH_OPTIONS
from aerosurrogate.simulate.shapes.facets import RANGES as FACETED
from aerosurrogate.simulate.shapes.loft import WHEEL_SINK
from aerosurrogate.simulate.spec import Spec, read_spec

KINDS = list(shapes.RANGES)
EACH = 4  # bodies of a kind
OPTIONS = {"mirrors", "spoiler", "rough_floor"}
PLAIN = {"mirrors": ("no",), "spoiler": ("no",), "rough_floor": ("no",), "deform": (0.0, 0.0)}
ON_GROUND = set(KINDS) - set(IN_AIR)
NAMES = ("road", "road_fast", "prototypes_fast", "facets_fast", "blends", "blends_fast", "bluff_fast")
SPECS = [read_spec(Path(__file__).parents[1] / "specs" / f"{name}_rans.toml") for name in NAMES]
PLAIN_CARS = ("notchback", "fastback", "estate", "suv", "van", "ahmed")


def bodies(kind: str, narrowed: dict | None = None) -> list[tuple[dict, Surface]]:
    ranges = cars.RANGES | {"kind": (kind,)} | (narrowed or {})
    drawn = [cars.draw(ranges, np.random.default_rng([3, i]))[0] for i in range(EACH)]
    return [(p, shapes.surface(p)) for p in drawn]


def looked_at(spec: Spec) -> int:
    """How many of its bodies: the fewer, the longer they take to make."""
    return 12 if {"faceted", "blended"}.issuperset(spec.ranges["kind"]) else 60


def assert_sound(surface: Surface) -> None:
    """Every piece is closed and faces outward."""
    for piece in range(surface.pieces.max() + 1):
        part = surface.select(surface.pieces == piece)
        assert len(open_edges(part)) == 0
        assert shared_too_often(part) == 0
        assert part.volume > 0
        assert np.allclose(part.area_vectors.sum(axis=0), 0, atol=1e-11)
    assert surface.areas.min() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_piece_is_closed_and_faces_outward(kind):
    for parameters, surface in bodies(kind):
        assert_sound(surface)
        assert surface.bounds[0, 2] > -0.03
        if "deform" not in parameters:
            wheels = 4 if parameters.get("wheels") == "yes" else 0
            added = {"mirrors": 2, "spoiler": 1, "rough_floor": 6}
            extra = sum(pieces for option, pieces in added.items() if option in parameters)
            assert surface.pieces.max() + 1 == (3 if kind == "lorry" else 1) + wheels + extra


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_the_bodies_of_the_road_are_sound_and_of_every_kind(spec):
    designs = list(designs_of(spec, 200))
    assert {design.parameters["kind"] for design in designs} == set(spec.ranges["kind"])
    assert {*OPTIONS.intersection(spec.ranges), "deform"} <= {name for d in designs for name in d.parameters}
    assert all(design.conditions.ground == (design.parameters["kind"] in ON_GROUND) for design in designs)
    for design in designs[: looked_at(spec)]:
        surface = cars.body_of(design)
        assert_sound(surface)
        assert surface.size[0] == pytest.approx(design.conditions.length, rel=0.02)
        assert cars.frontal_area(surface) < design.conditions.length**2 * 2


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_pieces_hang_together(spec):
    """Mirrors, spoilers, bars and wheels reach into the body: nothing floats beside it."""
    for design in designs_of(spec, looked_at(spec)):
        surface = cars.body_of(design)
        body = surface.select(surface.pieces == 0)
        if design.parameters["kind"] in CARS_WITH_OPTIONS | FACETED | BLENDED:
            for piece in range(1, surface.pieces.max() + 1):
                part = surface.points[np.unique(surface.cells[surface.pieces == piece])]
                assert inside(body, part).any(), (design.name, piece, design.parameters)


def test_free_form_deformation_is_smooth_and_keeps_length_and_ground():
    plain = {"kind": "box", "length": 1.0, "width": 0.4, "height": 0.4, "clearance": 0.2, "nose_radius": 0.5}
    before = shapes.surface(plain)
    after = shapes.surface(plain | {"deform": 0.04, "deform_seed": 7.0})
    assert np.array_equal(before.cells, after.cells)
    moved = np.linalg.norm(after.points - before.points, axis=1)
    assert 0.01 < moved.max() < 0.12
    assert after.bounds[:, 0] == pytest.approx(before.bounds[:, 0], abs=1e-9)
    assert after.bounds[0, 2] > 0.9 * before.bounds[0, 2]
    turned = np.einsum("mi,mi->m", before.normals, after.normals)
    assert np.percentile(turned, 1) > 0.8, "no folds"
    other = shapes.surface(plain | {"deform": 0.04, "deform_seed": 8.0})
    assert not np.allclose(other.points, after.points)


def test_a_sphere_is_one():
    surface = shapes.surface({"kind": "sphere", "length": 2.0})
    radius = np.linalg.norm(surface.points - [0.0, 0.0, 1.0], axis=1)
    assert radius == pytest.approx(1.0, abs=1e-9)
    assert surface.volume == pytest.approx(4 / 3 * np.pi, rel=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_bodies_mirror_themselves_exactly(kind):
    for _, surface in bodies(kind):
        image = surface.points * [1.0, -1.0, 1.0]
        assert {tuple(p) for p in surface.points + 0.0} == {tuple(p) for p in image + 0.0}
        assert cars.is_mirror_symmetric(surface)
        moved = Surface(surface.points + np.array([0.0, 0.002 * surface.length, 0.0]), surface.cells)
        assert not cars.is_mirror_symmetric(moved)


@pytest.mark.parametrize("kind", CARS_WITH_OPTIONS | FACETED)
def test_cars_have_the_size_their_parameters_say(kind):
    for parameters, surface in bodies(kind, PLAIN):
        shape = shapes.shape_of(parameters)
        (x0, y0, z0), (x1, y1, z1) = surface.bounds
        # The foremost point of a nose that bends back lies between rings where the chin is high.
        assert (x0, x1) == pytest.approx((-shape.length / 2, shape.length / 2), abs=1e-3 * shape.length)
        assert (y0, y1) == pytest.approx((-shape.width / 2, shape.width / 2), rel=0.03)
        assert z1 == pytest.approx(shape.height, rel=0.04)
        if parameters.get("wheels") == "yes":
            assert z0 == pytest.approx(-WHEEL_SINK, abs=1e-9)
        else:
            assert z0 == pytest.approx(shape.clearance, abs=0.02)


@pytest.mark.parametrize("kind", ["ahmed_like", "windsor", "box", "bus"])
def test_bluff_bodies_have_the_size_their_parameters_say(kind):
    for parameters, surface in bodies(kind, PLAIN | {"wheels": ("no",)}):
        shape = shapes.shape_of(parameters)
        assert surface.size == pytest.approx(
            [shape.length, shape.width, shape.height * (1 - shape.clearance)], rel=0.01
        )
        assert surface.bounds[0, 2] == pytest.approx(shape.clearance * shape.height, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_stay_within_their_ranges(kind):
    for parameters, _ in bodies(kind):
        for name, (low, high) in shapes.RANGES[kind].items():
            assert low <= parameters[name] <= high


def test_a_seed_always_gives_the_same_body_and_others_differ():
    draws = [cars.draw(cars.RANGES, np.random.default_rng([1, i])) for i in (5, 5, 6)]
    assert draws[0] == draws[1] != draws[2]


def test_the_published_bodies_never_move():
    """The data set road_rans rests on this: a body is the one that was solved under its name."""
    published = Dataset(Path(__file__).parents[1] / "datasets" / "road_rans").manifest.cases
    designs = [design for design in designs_of(SPECS[0], 40) if design.name in published]
    assert len(designs) > 30
    for design in designs:
        drawn = {k: v if isinstance(v, str) else f"{v:.10g}" for k, v in design.parameters.items()}
        assert drawn.items() <= published[design.name]["tags"].items()
        if design.parameters["kind"] == "estate":
            area = published[design.name]["reference"]["area"]
            assert cars.frontal_area(cars.body_of(design)) == pytest.approx(area, rel=1e-3)


def test_a_spec_narrows_and_widens_what_is_drawn():
    ranges = cars.RANGES | PLAIN | {"kind": ("van",), "taper": (7.5, 9.0), "height": (2.5, 2.5), "wheels": ("no",)}
    for i in range(20):
        parameters, conditions = cars.draw(ranges, np.random.default_rng(i))
        assert parameters["kind"] == "van"
        assert parameters["wheels"] == "no"
        assert 7.5 <= parameters["taper"] <= 8.0, "the part of the range that vans know"
        assert parameters["height"] == 2.5, "a value beyond a kind's usual range is taken as given"
        assert 15 <= conditions.speed <= 45
        assert conditions.ground


def test_kinds_are_balanced_with_a_small_share_of_ahmed_bodies():
    rng = np.random.default_rng(1)
    kinds = [cars.draw(cars.RANGES | {"kind": PLAIN_CARS}, rng)[0]["kind"] for _ in range(600)]
    share = {kind: kinds.count(kind) / 600 for kind in PLAIN_CARS}
    assert share.pop("ahmed") == pytest.approx(0.083, abs=0.03)
    assert all(s == pytest.approx(0.183, abs=0.05) for s in share.values())


@pytest.mark.parametrize("slant", [0.0, 12.5, 25.0, 35.0])
def test_the_ahmed_body_has_its_published_dimensions(slant):
    surface = shapes.surface({"kind": "ahmed", "slant": slant})
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
    parameters, _ = cars.draw(cars.RANGES | PLAIN | {"kind": ("suv",), "wheels": ("yes",)}, np.random.default_rng(0))
    with_wheels = shapes.surface(parameters)
    without = shapes.surface(parameters | {"wheels": "no"})
    shape = shapes.shape_of(parameters)
    seen = cars.frontal_area(with_wheels) - cars.frontal_area(without)
    tread = 2 * 0.62 * shape.wheel_radius
    assert 0.7 * tread * shape.clearance < seen < 1.3 * tread * (shape.clearance + 0.1)


def test_the_users_own_body_is_set_into_the_cars_frame(tmp_path):
    car = shapes.surface({"kind": "ahmed", "slant": 25.0})
    # In mm, driving towards +y with its floor 2 m above the file's zero.
    turned = car.points[:, [1, 0, 2]] * [1.0, -1.0, 1.0]
    turned = turned @ np.diag([-1.0, 1.0, 1.0]) + np.array([3.0, 1.0, 2.0])
    write_mesh(Surface(1000 * turned, car.cells[:, ::-1]), tmp_path / "own.stl")
    stream = StreamOptions(speed=40.0, flow="-y", up="+z", ground="1950", units="mm")
    design = own_design(str(tmp_path / "own.stl"), stream)
    assert design.conditions.length == pytest.approx(1.044, abs=1e-6)
    found = cars.body_of(design)
    assert found.volume == pytest.approx(car.volume, rel=1e-5)
    assert found.bounds == pytest.approx(car.bounds + np.array([0.0, 0.0, 0.05]), abs=1e-5)
    assert found.points[found.points[:, 0] > 0.5219, 2].max() < 0.338, "the slanted end lies downstream"
