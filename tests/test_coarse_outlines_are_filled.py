"""A table of thirty points is a smooth section: the curve between them is what air sees."""

import numpy as np
import pytest

from aerosurrogate.mesh.airfoil import naca
from aerosurrogate.mesh.coordinates import closed_curve, write_section
from aerosurrogate.mesh.outline import SIDES, filled
from aerosurrogate.mesh.read import curve_surface, read_surface
from aerosurrogate.mesh.vortex_panels import SectionFlow

STATIONS = [0, 1.25, 2.5, 5, 7.5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 95, 100]  # per cent, as in tables of old


def table(code: str) -> np.ndarray:
    """A section as such tables have it: the points of the exact one next to their stations."""
    fine = closed_curve(naca(code, 4000), code)
    nose = int(np.argmin(fine[:, 0]))
    # From the trailing edge over the upper side to the nose, and back; the sharp edge stands once.
    sides = [(fine[: nose + 1], STATIONS[::-1]), (fine[nose:], STATIONS[1:-1])]
    picked = [side[np.abs(side[:, 0] - 0.01 * station).argmin()] for side, stations in sides for station in stations]
    return closed_curve(np.array(picked), code)


def off(curve: np.ndarray, code: str) -> float:
    """The largest distance of the middles of its sides from the exact section."""
    fine = naca(code, 4000)
    middles = 0.5 * (curve + np.roll(curve, -1, axis=0))
    return float(np.linalg.norm(middles[:, None] - fine[None], axis=2).min(axis=1).max())


def lift(curve: np.ndarray) -> float:
    flow = SectionFlow.around(curve_surface(curve, "section"))
    return float(flow.seen(np.array([[0.5, 1.0]]), np.array([[0.0, 1.0]]), np.array([0.9]), 4.0)[0, 2])


@pytest.mark.parametrize("code", ["naca0012", "naca4412", "naca23018"])
def test_between_thirty_points_lies_the_section_they_were_taken_from(code):
    coarse = table(code)
    assert len(coarse) < 35
    smooth = filled(coarse)
    assert off(smooth, code) < 0.35 * off(coarse, code)
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


def test_corners_and_polygons_keep_their_straight_sides():
    square = np.array([[1.0, 0.5], [0.0, 0.5], [0.0, -0.5], [1.0, -0.5], [1.0, 0.0]])
    assert filled(square) is square
    # A flap turned down by 60 degrees: the corner of the upper side stays one.
    coarse = table("naca0012")
    behind = coarse[:, 0] > 0.75
    turn = np.exp(-1j * np.radians(60))
    moved = (coarse[behind, 0] - 0.75 + 1j * coarse[behind, 1]) * turn + 0.75
    coarse[behind] = np.stack([moved.real, moved.imag], axis=1)
    smooth = filled(closed_curve(coarse, "flapped"))
    assert smooth[:, 1].max() < 1.02 * coarse[:, 1].max(), "no swing of the spline beside the corner"


def test_a_file_is_read_so(tmp_path):
    write_section(table("naca4412"), tmp_path / "table.dat", "a table of thirty points")
    assert len(read_surface(str(tmp_path / "table.dat"), None).points) > 0.7 * SIDES
