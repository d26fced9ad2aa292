"""A real, very coarse run around an Ahmed body: what is stored gives OpenFOAM's own forces, and is physical."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from aerosurrogate import forces
from aerosurrogate.conditions import Conditions, FlowAxes
from aerosurrogate.simulate import cars
from aerosurrogate.simulate import openfoam as foam
from aerosurrogate.simulate.car_case import MESHES, MeshSettings, lattice, size_of
from aerosurrogate.simulate.spec import Design

pytestmark = pytest.mark.skipif(shutil.which("simpleFoam") is None, reason="needs OpenFOAM")
COARSE = MeshSettings(base_cell=0.4, average_from=50, iterations=60, longer=0)


@pytest.fixture(scope="module")
def solution(tmp_path_factory):
    design = Design("ahmed", "car", {"kind": "ahmed", "slant": 25.0}, Conditions(40.0, 1.044, ground=True))
    return cars.solve_body(design, cars.body_of(design), tmp_path_factory.mktemp("ahmed"), COARSE)


def test_integrated_forces_are_those_of_the_solver(solution):
    case = solution.case.whole()
    skin = case.surface
    values = (case.points, case.normals, case.areas, case.fields["p"], case.fields["wallShearStress"])
    total = forces.integrate(*(array[skin] for array in values))
    result = forces.coefficients(total, FlowAxes.parse(), case.conditions, case.reference["area"])
    solver = {
        name: solution.history[column][COARSE.average_from :].mean() for name, column in cars.COEFFICIENTS.items()
    }
    assert result.cd == pytest.approx(solver["cd"], rel=5e-3)
    assert result.cl == pytest.approx(solver["cl"], rel=2e-2, abs=1e-3)  # of a flow that still changes
    assert result.cm == pytest.approx(solver["cm"], rel=2e-2, abs=1e-3)
    assert result.cs == pytest.approx(0, abs=1e-6)
    assert case.reference["cd"] == pytest.approx(solver["cd"])
    assert result.cd_pressure == pytest.approx(case.reference["cd_pressure"], rel=1e-3)
    assert result.cd_friction == pytest.approx(case.reference["cd_friction"], rel=1e-3)
    assert 0 < case.reference["cd_friction"] < case.reference["cd_pressure"]


def test_the_skin_is_the_body_and_its_normals_leave_it(solution):
    case = solution.case
    skin = case.surface
    assert case.symmetry == "y"
    assert case.points[:, 1].min() > -1e-6
    vectors = case.whole().normals * case.whole().areas[:, None]
    assert np.allclose(vectors.sum(axis=0), 0, atol=1e-3)
    outward = (case.points - [0.0, 0.0, 0.194]) * case.normals
    assert (outward[skin].sum(axis=1) > 0).mean() > 0.99
    assert not case.fields["U"][skin].any()
    assert not case.fields["wallShearStress"][~skin].any()


def test_the_skin_is_meshed_alike_everywhere(solution):
    """Or the mesh would jump, and the place of separation with it, when a body changes a little."""
    cell = COARSE.skin_cell * solution.case.conditions.length
    assert np.percentile(solution.case.areas[solution.case.surface], 5) > 0.5 * cell**2


def test_most_of_the_skin_got_its_prism_layers_and_the_case_says_so(solution):
    tags = solution.case.tags
    assert float(tags["layered"]) > 0.8
    assert 2 < float(tags["layers"]) <= COARSE.layers
    assert 0 < float(tags["layer_thickness"]) < 2 * COARSE.skin_cell * solution.case.conditions.length
    assert int(tags["cells"]) > 1000


def test_pressure_and_velocity_are_those_of_a_stream_around_a_body(solution):
    case = solution.case
    q = case.conditions.dynamic_pressure
    cp = case.fields["p"][:, 0] / q
    assert 0.9 < cp[case.surface].max() < 1.15, "stagnation"
    far = case.distance > 0.5 * case.conditions.length
    assert np.median(case.fields["U"][far, 0]) == pytest.approx(40.0, rel=0.05)
    # The shear drags the roof along with the stream: it is the fluid's stress on the body.
    roof = case.surface & (case.normals[:, 2] > 0.99) & (np.abs(case.points[:, 0]) < 0.25)
    assert (case.fields["wallShearStress"][roof, 0] > 0).mean() > 0.95


def test_surroundings_know_their_wall(solution):
    case = solution.case
    off = ~case.surface
    assert (case.distance[off] > 0).all()
    assert np.allclose(np.linalg.norm(case.normals, axis=1), 1, atol=1e-5)
    foot = case.points[off] - case.distance[off, None] * case.normals[off]
    box = np.abs(foot - [0.0, 0.0, 0.194]) <= np.array([0.5221, 0.1946, 0.1441])
    assert box.all()
    assert case.volumes[off].min() > 0


def test_a_body_in_free_air_has_no_ground(tmp_path):
    parameters = {"kind": "teardrop", "length": 1.0, "width": 0.4, "height": 0.4}
    design = Design("drop", "car", parameters, Conditions(30.0, 1.0, ground=False))
    case = cars.solve_body(design, cars.body_of(design), tmp_path, COARSE).case
    assert not case.conditions.ground
    assert "bottom" in foam.read_mesh(tmp_path).patches
    assert "ground" not in foam.read_mesh(tmp_path).patches
    below = ~case.surface & (case.points[:, 2] < -0.1)
    above = ~case.surface & (case.points[:, 2] > 0.5)
    assert 0.5 < below.sum() / above.sum() < 2, "as many cells below as above"
    assert abs(case.reference["cl"]) < 0.05


def test_the_lattice_is_placed_by_the_name_of_the_case_and_keeps_the_planes():
    surface = cars.body_of(Design("a", "car", {"kind": "ahmed", "slant": 25.0}, Conditions(40.0, 1.044, ground=True)))
    settings = MESHES["standard"]
    size = size_of(surface, cars.frontal_area(surface))
    places = [cars.place_of(name, number) for name, number in (("a", 0), ("a", 0), ("a", 1), ("b", 0))]
    assert np.array_equal(places[0], places[1])
    assert len({tuple(place) for place in places}) == 3
    middle = lattice(surface, settings, size, ground=True, half=True, place=np.full(3, 0.5))
    for place in places:
        corners = lattice(surface, settings, size, ground=True, half=True, place=place)
        assert corners[0, 1:] == pytest.approx([0, 0]), "symmetry plane and ground stay"
        assert abs(corners - middle)[:, 0].max() <= 0.5 * settings.base_cell * size
        # At the roof the lattice is off by at most half a cell of the skin.
        off = (corners[1, 2] / middle[1, 2] - 1) * surface.bounds[1, 2]
        assert 0 < abs(off) <= 0.5 * settings.skin_cell * size


def test_held_out_bodies_are_averaged_over_placements(tmp_path, monkeypatch):
    monkeypatch.setitem(MESHES, "fast", replace(COARSE, base_cell=0.5, iterations=55))
    design = Design("box", "car", {"kind": "ahmed", "slant": 0.0}, Conditions(40.0, 1.044, ground=True), placements=2)
    monkeypatch.setattr(cars, "unsteadiness", lambda *_: "")
    solution = cars.solve(design, tmp_path, "fast")
    drags = [foam.history(folder)["Cd"][COARSE.average_from :].mean() for folder in (tmp_path, tmp_path / "placement1")]
    assert drags[0] != drags[1]
    assert solution.case.reference["cd"] == pytest.approx(np.mean(drags), rel=1e-6)
    assert solution.case.reference["cd_spread"] == pytest.approx(np.std(drags), rel=1e-4)


def test_a_drag_history_counts_as_converged_only_when_it_stands_still():
    steady = 0.3 + 1e-4 * np.sin(np.arange(200))
    assert cars.unsteadiness(steady, 0) == ""
    assert "drifts" in cars.unsteadiness(np.linspace(0.3, 0.33, 200), 0)
    grown = np.concatenate([np.linspace(0.25, 0.3, 150), steady[:120]])
    assert cars.unsteadiness(grown, 50) == "", "a wake that grew, but not of late"
    assert "varies" in cars.unsteadiness(0.3 + 0.03 * np.sin(np.arange(200)), 0)
    assert cars.unsteadiness(np.full(200, np.nan), 0)
    for since in (199, 200, 300):  # ended early: one iteration averaged, or none
        assert cars.unsteadiness(np.concatenate([np.linspace(1, 0.3, 100), steady[:100]]), since) == ""
    assert cars.is_flat({"Cd": steady, "Cl": 0 * steady})
    assert not cars.is_flat({"Cd": steady[: cars.FLAT_WINDOW], "Cl": 0 * steady[: cars.FLAT_WINDOW]}), "too early"
    assert not cars.is_flat({"Cd": steady, "Cl": np.linspace(0, 0.1, 200)})


def test_a_wake_that_wanders_is_averaged_for_longer_and_the_case_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(cars, "unsteadiness", lambda *_: "drag not steady")
    settings = replace(COARSE, base_cell=0.5, iterations=45, longer=30)
    design = Design("box", "car", {"kind": "ahmed", "slant": 0.0}, Conditions(40.0, 1.044, ground=True))
    solution = cars.solve_body(design, cars.body_of(design), tmp_path, settings)
    drag = solution.history["Cd"]
    assert len(drag) == 75
    assert solution.case.tags["averaged"] == "30 iterations"
    assert solution.case.reference["cd"] == pytest.approx(drag[45:].mean(), rel=1e-6)
    integrated = solution.case.coefficients()
    assert integrated.cd == pytest.approx(drag[45:].mean(), rel=5e-3), "the fields are means over the same iterations"
    assert abs(integrated.cd - drag[-1]) > abs(integrated.cd - drag[45:].mean())
    assert not [folder for folder in tmp_path.iterdir() if folder.name in ("50", "60")], "written at the end alone"


def test_a_mean_counts_where_its_halves_agree():
    steady = {"Cd": 0.3 + 0.05 * np.sin(np.arange(400)), "Cl": 0.1 * np.cos(np.arange(400))}
    assert cars.wandering(steady, 400) == ""
    assert "drag not steady" in cars.wandering(steady | {"Cd": np.linspace(0.3, 0.33, 400)}, 400)
    assert "that of lift by 0.05" in cars.wandering(steady | {"Cl": np.linspace(0.0, 0.1, 400)}, 400)
    assert cars.wandering(steady | {"Cd": np.full(400, np.nan)}, 400)
