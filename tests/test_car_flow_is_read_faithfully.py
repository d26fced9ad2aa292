"""A real, very coarse run around an Ahmed body: what is stored gives OpenFOAM's own forces, and is physical."""

import shutil

import numpy as np
import pytest

from aerosurrogate import forces
from aerosurrogate.conditions import Conditions, FlowAxes
from aerosurrogate.simulate import cars
from aerosurrogate.simulate.car_case import SKIN_LEVEL, Settings
from aerosurrogate.simulate.spec import Design

pytestmark = pytest.mark.skipif(shutil.which("simpleFoam") is None, reason="needs OpenFOAM")
COARSE = Settings(base_cell=0.4, average_from=40, iterations=50)


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
    assert result.cl == pytest.approx(solver["cl"], rel=5e-3, abs=1e-3)
    assert result.cm == pytest.approx(solver["cm"], rel=5e-3, abs=1e-3)
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
    cell = COARSE.base_cell / 2**SKIN_LEVEL * solution.case.conditions.length
    assert np.percentile(solution.case.areas[solution.case.surface], 5) > 0.5 * cell**2


def test_pressure_and_velocity_are_those_of_a_stream_around_a_body(solution):
    case = solution.case
    q = case.conditions.dynamic_pressure
    cp = case.fields["p"][:, 0] / q
    assert 0.9 < cp[case.surface].max() < 1.15, "stagnation"
    far = case.distance > 0.5 * case.conditions.length
    assert np.median(case.fields["U"][far, 0]) == pytest.approx(40.0, rel=0.05)
    # The shear drags the roof along with the stream: it is the fluid's stress on the body.
    roof = case.surface & (case.normals[:, 2] > 0.99) & (np.abs(case.points[:, 0]) < 0.25)
    assert (case.fields["wallShearStress"][roof, 0] > 0).all()


def test_surroundings_know_their_wall(solution):
    case = solution.case
    off = ~case.surface
    assert (case.distance[off] > 0).all()
    assert np.allclose(np.linalg.norm(case.normals, axis=1), 1, atol=1e-5)
    foot = case.points[off] - case.distance[off, None] * case.normals[off]
    box = np.abs(foot - [0.0, 0.0, 0.194]) <= np.array([0.5221, 0.1946, 0.1441])
    assert box.all()
    assert case.volumes[off].min() > 0


def test_a_drag_history_counts_as_converged_only_when_it_stands_still():
    steady = 0.3 + 1e-4 * np.sin(np.arange(200))
    assert cars.unsteadiness(steady, 0) == ""
    assert "drifts" in cars.unsteadiness(np.linspace(0.3, 0.33, 200), 0)
    assert "varies" in cars.unsteadiness(0.3 + 0.03 * np.sin(np.arange(200)), 0)
    assert cars.unsteadiness(np.full(200, np.nan), 0)
    for since in (199, 200, 300):  # ended early: one iteration averaged, or none
        assert cars.unsteadiness(np.concatenate([np.linspace(1, 0.3, 100), steady[:100]]), since) == ""
    assert cars.is_flat({"Cd": steady, "Cl": 0 * steady})
    assert not cars.is_flat({"Cd": steady[: cars.FLAT_WINDOW], "Cl": 0 * steady[: cars.FLAT_WINDOW]})
    assert not cars.is_flat({"Cd": steady, "Cl": np.linspace(0, 0.1, 200)})
