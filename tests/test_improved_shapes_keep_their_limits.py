"""A better shape: what is to be kept is kept, the skin moves smoothly and no further than said, and drag falls."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import cKDTree
from typer.testing import CliRunner

from aerosurrogate.body import is_mirror_symmetric, set_in_stream
from aerosurrogate.cli import app
from aerosurrogate.conditions import Conditions, StreamOptions
from aerosurrogate.errors import InputError
from aerosurrogate.improve import deform, descent
from aerosurrogate.improve.descent import Descent, Limits
from aerosurrogate.improve.verify import _at_one_lift
from aerosurrogate.mesh.orient import open_edges
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.surface import Surface, components
from aerosurrogate.mesh.write import write_mesh
from aerosurrogate.predict import Predictor
from aerosurrogate.simulate import cars
from aerosurrogate.simulate.car_case import MESHES, size_of, write_case

SAMPLES = Path(__file__).parents[1] / "sample_meshes"
EVERYWHERE = np.array([[-np.inf] * 3, [np.inf] * 3])
MOST = 0.03


def framed(name: str) -> tuple[Surface, float]:
    """A sample in the model's frame, and its length."""
    surface = read_surface(SAMPLES / f"{name}.stl")
    body = set_in_stream(surface, StreamOptions(), name)
    return surface.transformed(body.rotation, -body.rotation @ body.origin), body.length


@pytest.fixture(scope="module")
def car() -> tuple[Surface, float]:
    return framed("car")


def numbers(deformation: deform.Deformation, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(deformation.low, deformation.high)


def test_a_lattice_keeps_length_wheels_floor_and_symmetry(car):
    surface, length = car
    free = deform.free_of_wheels(surface, length, 0.0)
    wheels = np.isin(components(surface.cells, len(surface.points)), _pieces_on_the_ground(surface))
    assert np.array_equal(free == 0, wheels)
    assert 0.05 < wheels.mean() < 0.3
    deformation = deform.lattice(
        surface.points[free > 0], EVERYWHERE, MOST * length, length=True, floor=0.0, mirror=True
    )
    for seed in range(3):
        shift = deformation.shift(surface.points, free, numbers(deformation, seed))
        moved = replace(surface, points=surface.points + shift)
        assert np.abs(shift[wheels]).max() == 0
        assert moved.size[0] == pytest.approx(surface.size[0], abs=1e-9)
        assert is_mirror_symmetric(moved)
        assert moved.points[~wheels, 2].min() >= surface.points[~wheels, 2].min() - 1e-9
        assert np.abs(shift).max() <= MOST * length
        assert np.abs(shift).max() > 0.3 * MOST * length
        assert np.all(np.einsum("md,md->m", moved.normals, surface.normals) > 0)  # nothing folds over


def _pieces_on_the_ground(surface: Surface) -> np.ndarray:
    piece = components(surface.cells, len(surface.points))
    return np.array([p for p in np.unique(piece) if surface.points[piece == p, 2].min() < 0.01])


def test_a_body_of_one_piece_keeps_what_is_near_the_ground(car):
    surface, length = car
    lowest = surface.points[:, 2].min()
    free = deform.free_of_wheels(replace(surface, cells=_as_one_piece(surface)), length, 0.0)
    assert free[surface.points[:, 2] < lowest + 0.02 * length].max() == 0
    assert free[surface.points[:, 2] > 0.28 * length].min() == 1


def _as_one_piece(surface: Surface) -> np.ndarray:
    """The cells with a few more that join the pieces."""
    first = [int(np.flatnonzero(surface.pieces == p)[0]) for p in np.unique(surface.pieces)]
    corners = surface.cells[first, 0]
    links = np.stack([np.full(len(corners) - 1, corners[0]), corners[1:], corners[1:]], axis=1)
    return np.concatenate([surface.cells, links])


def test_outside_the_box_nothing_moves_and_the_skin_stays_smooth(car):
    surface, length = car
    free = np.ones(len(surface.points))
    box = np.array([[0.5, -np.inf, 0.3], [np.inf, np.inf, np.inf]])
    deformation = deform.lattice(surface.points, box, MOST * length, length=True, floor=0.0, mirror=True)
    q = numbers(deformation)
    shift = deformation.shift(surface.points, free, q)
    outside = (surface.points[:, 0] < 0.5) | (surface.points[:, 2] < 0.3)
    assert np.abs(shift[outside]).max() == 0
    assert np.abs(shift[~outside]).max() > 0.01
    thin = np.array([[0.5, -np.inf, -np.inf], [0.6, np.inf, np.inf]])  # where little room is, little moves
    narrow = deform.lattice(surface.points, thin, MOST * length, length=True, floor=0.0, mirror=True)
    assert narrow.high.max() < 0.1 / 7
    line = np.stack([np.linspace(0.45, 0.55, 101), np.zeros(101), np.full(101, 1.2)], axis=1)
    across = deformation.shift(line, np.ones(101), q)
    assert np.abs(np.diff(across, n=2, axis=0)).max() < 1e-4  # no kink where the box begins


@pytest.mark.parametrize("what", ["volume", "thickness", "wider", "taller", "arched"])
def test_gradients_of_what_is_kept_match_finite_differences(what, car):
    if what in ("wider", "taller", "arched"):
        surface, measure = car[0], deform.frontal_area
        y, z = surface.points[:, 1], surface.points[:, 2].clip(0)
        across, up = {"wider": (y, 0 * y), "taller": (0 * y, z), "arched": (0.2 * y * z, z * np.cos(y))}[what]
        shift = np.stack([0 * y, across, up], axis=1)
    else:
        surface = read_surface("naca2412")
        modes = deform.section_modes(surface, 1.0, 0.01)
        shift = modes.shift(surface.points, np.ones(len(surface.points)), numbers(modes))
        side = deform.upper_side(surface)
        measure = deform.volume if what == "volume" else lambda skin: deform.thickness(skin, side)
    step = 1e-3
    ahead, back = (measure(replace(surface, points=surface.points + s * step * shift))[0] for s in (1, -1))
    assert float(np.sum(measure(surface)[1] * shift)) == pytest.approx((ahead - back) / (2 * step), rel=0.01)


def test_axes_units_and_half_bodies_move_alike(tmp_path):
    whole = read_surface(SAMPLES / "car_no_wheels.stl")
    half = whole.select(np.all(whole.points[whole.cells][:, :, 1] >= -1e-6, axis=1))
    turned = half.points[:, [1, 2, 0]]  # across, up, along: the stream along +z, +y up
    write_mesh(whole, tmp_path / "plain.stl")
    write_mesh(replace(half, points=1000 * turned), tmp_path / "turned.stl")
    streams = {
        "plain": StreamOptions(speed=30.0),
        "turned": StreamOptions(speed=30.0, flow="+z", up="+y", units="mm", symmetry="x"),
    }
    moved = {}
    for name, stream in streams.items():
        file, predictor = str(tmp_path / f"{name}.stl"), Predictor()
        body, surface = predictor.read(file, stream), read_surface(file, stream.units)
        limits = Limits(("volume", "length", "wheels", "area"), MOST * body.length, EVERYWHERE)
        search = Descent(surface, body, stream, "cd", limits, predictor)
        moved[name] = search.moved(numbers(search.deformation)).points
    there = moved["turned"][:, [2, 0, 1]]
    assert cKDTree(moved["plain"]).query(there)[0].max() < 2e-3
    assert cKDTree(whole.points).query(there)[0].max() > 0.02


def section_descent(keep=("volume", "thickness"), most=MOST) -> Descent:
    stream, predictor = StreamOptions(alpha=4.0, reynolds=3e6), Predictor()
    body = predictor.read("naca2412", stream)
    surface = read_surface("naca2412")
    return Descent(surface, body, stream, "cd", Limits(keep, most, np.zeros((2, 2))), predictor)


def test_the_slope_is_that_of_the_drag_at_one_lift(monkeypatch):
    monkeypatch.setattr(descent, "DRAWS", 3)
    search = section_descent()
    state = search.state(np.zeros(12), 4.0, 0.6, 0)
    prepared = search.place(np.zeros(12), 4.0)
    from aerosurrogate.sensitivity import Response

    response = Response(search.predictor.surrogate(2), prepared, range(3))
    found = response.derivatives("cd", "cl")
    price = found["cd"].alpha / found["cl"].alpha
    step = 2e-4
    for number in (1, 4, 8):
        q = step * np.eye(12)[number]
        ahead, back = (response.means(prepared.surface.points + s * search._shift(q)) for s in (1, -1))
        slope = {name: (ahead[name] - back[name]) / (2 * step) for name in ("cd", "cl")}
        assert state.slope[number] == pytest.approx(slope["cd"] - price * slope["cl"], rel=0.03, abs=1e-4)


def test_steps_go_down_along_what_is_kept(monkeypatch):
    monkeypatch.setattr(descent, "DRAWS", 2)
    search = section_descent()
    state = search.state(np.zeros(12), 4.0, 0.6, 0)
    step = search._towards(state, 1e-4)
    assert state.slope @ step < 0
    assert np.abs(step).max() == pytest.approx(1e-4)
    q = search._corrected(search._towards(state, 0.005))
    assert q is not None
    for before, after in search.held(q).values():
        assert after == pytest.approx(before, rel=descent.HELD)
    assert search.furthest(q) <= search.limits.most * (1 + 1e-9)
    # At its limits a number stays, and the others go on.
    stuck = state._replace(q=np.where(np.arange(12) == np.argmax(np.abs(step)), np.sign(step) * MOST, 0.0))
    again = search._towards(stuck, 1e-4)
    assert again[np.argmax(np.abs(step))] == pytest.approx(stuck.q[np.argmax(np.abs(step))])
    assert state.slope @ (again - stuck.q) < 0


def test_a_section_gets_less_drag_at_its_lift(tmp_path, monkeypatch):
    monkeypatch.setattr(descent, "DRAWS", 8)
    monkeypatch.setattr(descent, "STEPS", 4)
    out = tmp_path / "better.dat"
    line = ["improve", "naca2412", "--alpha", "4", "--reynolds", "3e6", "--out", str(out), "--json"]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    first, last = sorted(document["designs"], key=lambda row: row["name"] != "naca2412")
    assert document["after"] == last["cd"] < first["cd"] == document["before"]
    assert last["cl"] == pytest.approx(first["cl"], abs=2e-3)
    assert last["alpha"] != first["alpha"]
    assert last["trust"] == "inside"
    assert 0.5 < document["chance_better"] <= 1
    for before, after in document["kept"].values():
        assert after == pytest.approx(before, rel=2e-3)
    better, start = read_surface(out), read_surface("naca2412")
    assert better.size[0] == pytest.approx(start.size[0], abs=1e-6)
    assert 0 < np.abs(better.points - start.points).max() <= MOST + 1e-6
    steps = sorted((tmp_path / "better_steps").glob("step_*.dat"))
    assert len(steps) == len(document["steps"])
    assert "Before and after" in (tmp_path / "better.html").read_text()


def test_a_body_gets_less_drag_within_its_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(descent, "DRAWS", 3)
    monkeypatch.setattr(descent, "STEPS", 2)
    half = read_surface(SAMPLES / "car.stl")
    mm = tmp_path / "car_mm.stl"
    write_mesh(replace(half, points=1000 * half.points), mm)
    out = tmp_path / "better.stl"
    line = ["improve", str(mm), "--units", "mm", "--speed", "30", "--out", str(out), "--json"]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["after"] < document["before"]
    better, start = read_surface(out, "mm"), read_surface(mm, "mm")
    assert len(open_edges(better)) == 0
    assert better.size[0] == pytest.approx(start.size[0], rel=1e-6)
    assert better.volume == pytest.approx(start.volume, rel=2e-3)
    assert cars.frontal_area(better) == pytest.approx(cars.frontal_area(start), rel=3e-3)
    assert is_mirror_symmetric(better)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["naca2412", "--of", "cl"], "sections are improved, at their lift, in cd or cl/cd"),
        (["naca2412", "--keep", "wheels"], "of a section that cannot be kept"),
        (["naca2412", "--box", "0:1,0:1,0:1"], "a box is for bodies"),
        (["naca2412", "--most", "0"], "the skin moves by a part of the length"),
        (["naca2412", "--at-lift", "0.5", "--of", "cl/cd"], "at one lift"),
        (["CAR", "--box", "1:2"], "a box has three sides"),
        (["CAR", "--box", "2:1,:,:"], "a box ends behind its beginning"),
        (["CAR", "--box", "50:60,:,:"], "nothing to move"),
        (["CAR", "--keep", "beauty"], "of a body that cannot be kept"),
        (["CAR", "--at-lift", "0.5"], "--at-lift is for sections"),
        (["OPEN"], "the surface is open along"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_message(arguments, said, tmp_path):
    car = SAMPLES / "car_no_wheels.stl"
    if arguments[0] == "OPEN":
        surface = read_surface(car)
        write_mesh(surface.select(np.arange(len(surface.cells)) > 20), tmp_path / "open.stl")
    shape = {"CAR": str(car), "OPEN": str(tmp_path / "open.stl")}.get(arguments[0], arguments[0])
    ending = "dat" if shape == "naca2412" else "stl"
    result = CliRunner().invoke(app, ["improve", shape, *arguments[1:], "--out", str(tmp_path / f"better.{ending}")])
    assert isinstance(result.exception, InputError), result.output
    assert said in str(result.exception)
    assert not (tmp_path / f"better.{ending}").exists()


def test_the_better_shape_is_not_written_over_the_first(tmp_path):
    mine = tmp_path / "mine.stl"
    mine.write_bytes((SAMPLES / "car_no_wheels.stl").read_bytes())
    result = CliRunner().invoke(app, ["improve", str(mine), "--out", str(mine)])
    assert isinstance(result.exception, InputError)
    assert mine.read_bytes() == (SAMPLES / "car_no_wheels.stl").read_bytes()


def test_both_bodies_are_solved_on_one_lattice(car, tmp_path):
    surface, length = car
    taller = replace(surface, points=surface.points * [1.0, 1.0, 1.01])
    stream = Conditions(speed=30.0, length=length, ground=True)
    texts = []
    for number, body in enumerate((surface, taller)):
        folder = tmp_path / str(number)
        folder.mkdir()
        area, size = cars.frontal_area(body), size_of(surface, cars.frontal_area(surface))
        place = cars.place_of("car", 0)
        write_case(folder, body, stream, MESHES["fast"], half=True, area=area, place=place, frame=surface, size=size)
        texts.append([(folder / "system" / name).read_text() for name in ("blockMeshDict", "snappyHexMeshDict")])
    assert texts[0] == texts[1]


def test_sections_are_compared_at_one_lift():
    def polar(alpha: float, camber: float) -> dict[str, float]:
        cl = 0.105 * alpha + camber - 1e-4 * alpha**3
        return {"alpha": alpha, "cl": cl, "cd": 0.008 + 0.004 * cl**2}

    solved = _at_one_lift(lambda: polar(4.0, 0.20), lambda alpha: polar(alpha, 0.30), 4.0)
    assert solved.after["cl"] == pytest.approx(solved.before["cl"], rel=3e-3)
    assert solved.after["alpha"] < 4.0
    assert solved.gain == pytest.approx(0.0, abs=2e-3)
