"""A table of thirty points is a smooth section: the curve between them is what air sees."""

import numpy as np
import pytest

from aerosurrogate.conditions import Conditions
from aerosurrogate.mesh.airfoil import naca
from aerosurrogate.mesh.coordinates import closed_curve, write_section
from aerosurrogate.mesh.outline import SIDES, filled
from aerosurrogate.mesh.read import curve_surface, read_surface
from aerosurrogate.mesh.vortex_panels import SectionFlow
from aerosurrogate.simulate.airfoils import curve_of
from aerosurrogate.simulate.spec import Design

STATIONS = [0, 1.25, 2.5, 5, 7.5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 95, 100]  # per cent, as in tables of old


def table(code: str) -> np.ndarray:
    """A section as such tables have it: the points of the exact one next to their stations."""
    fine = closed_curve(naca(code, 4000), code)
    nose = int(np.argmin(fine[:, 0]))
    # From the trailing edge over the upper side to the nose, and back; the sharp edge stands once.
    sides = [(fine[: nose + 1], STATIONS[::-1]), (fine[nose:], STATIONS[1:-1])]
    picked = [side[np.abs(side[:, 0] - 0.01 * station).argmin()] for side, stations in sides for station in stations]
    return closed_curve(np.array(picked), code)


def off(curve: np.ndarray, exact: np.ndarray) -> float:
    """The largest distance of the middles of its sides from the exact section."""
    middles = 0.5 * (curve + np.roll(curve, -1, axis=0))
    return float(np.linalg.norm(middles[:, None] - exact[None], axis=2).min(axis=1).max())


def lift(curve: np.ndarray) -> float:
    flow = SectionFlow.around(curve_surface(curve, "section"))
    return float(flow.seen(np.array([[0.5, 1.0]]), np.array([[0.0, 1.0]]), np.array([0.9]), 4.0)[0, 2])


@pytest.mark.parametrize("code", ["naca0012", "naca4412", "naca23018"])
def test_between_thirty_points_lies_the_section_they_were_taken_from(code):
    coarse = table(code)
    assert len(coarse) < 35
    smooth = filled(coarse)
    fine = naca(code, 4000)
    assert off(smooth, fine) < 0.35 * off(coarse, fine)
    exact = lift(naca(code, 400))
    assert abs(lift(smooth) / exact - 1) < 0.006
    assert abs(lift(coarse) / exact - 1) > 4 * abs(lift(smooth) / exact - 1)


@pytest.mark.parametrize("code", ["naca0012", "naca4412"])
def test_the_points_of_the_file_stay_where_they_are(code):
    coarse = table(code)
    smooth = filled(coarse)
    assert 0.7 * SIDES < len(smooth) < 1.5 * SIDES
    assert np.linalg.norm(smooth[:, None] - coarse[None], axis=2).min(axis=0).max() == 0
    assert np.array_equal(closed_curve(smooth, code), smooth), (
        "it begins at the trailing edge and goes over the upper side"
    )


def test_a_fine_outline_is_left_alone():
    fine = naca("naca2412", 400)
    assert filled(fine) is fine


def test_a_blunt_base_stays_straight():
    coarse = table("naca0012")
    coarse[:, 1] += np.where(np.arange(len(coarse)) <= len(coarse) // 2, 0.005, -0.005) * coarse[:, 0]
    blunt = np.concatenate([coarse, [[1.0, -0.005]]])
    smooth = filled(closed_curve(blunt, "blunt"))
    base = smooth[smooth[:, 0] > 1 - 1e-9]
    assert np.ptp(base[:, 1]) == pytest.approx(0.01)
    assert smooth[:, 0].max() == pytest.approx(1.0)


def test_few_points_are_a_polygon():
    square = np.array([[1.0, 0.5], [0.0, 0.5], [0.0, -0.5], [1.0, -0.5], [1.0, 0.0]])
    assert filled(square) is square


def test_a_corner_stays_one():
    coarse = table("naca0012")
    for x, y in ((0.6, 0.2), (0.7, 0.199)):  # a step amid the upper side
        coarse[np.argmin(np.where(coarse[:, 1] > 0, np.abs(coarse[:, 0] - x), 1.0)), 1] = y
    assert filled(coarse)[:, 1].max() == pytest.approx(0.2, abs=0.002), "a spline through it swings above"


def test_a_file_is_read_so(tmp_path):
    write_section(table("naca4412"), tmp_path / "table.dat", "a table of thirty points")
    assert len(read_surface(str(tmp_path / "table.dat"), None).points) > 0.7 * SIDES


def test_the_solver_sees_the_same_section(tmp_path):
    write_section(table("naca4412"), tmp_path / "table.dat", "a table of thirty points")
    design = Design("table", "airfoil", {}, Conditions(45.0, 1.0), file=str(tmp_path / "table.dat"))
    assert len(curve_of(design)) == len(read_surface(str(tmp_path / "table.dat"), None).points)
