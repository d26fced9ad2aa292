"""NACA names give the published sections, and coordinate files of both customs give the same closed curve."""

from pathlib import Path

import numpy as np
import pytest

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.airfoil import _fourier, _plain_joint, _ratio, _reflexed_joint, naca, naca_digits
from aerosurrogate.mesh.coordinates import read_section
from aerosurrogate.mesh.distance import distance
from aerosurrogate.mesh.read import curve_surface, read_surface

# Abbott & von Doenhoff: station and ordinates, % of chord. Their trailing edges are open; see `opened`.
NACA_0012 = [(1.25, 1.894), (5.0, 3.555), (10.0, 4.683), (30.0, 6.002), (50.0, 5.294), (70.0, 3.664)]
NACA_2412 = [(30.0, 7.88, -4.12), (50.0, 7.24, -3.34), (70.0, 5.18, -2.14)]


NACA_23012 = [(20.0, 7.50, -3.97), (30.0, 7.55, -4.46), (50.0, 6.41, -4.17), (80.0, 3.08, -2.16)]


def opened(x: float) -> float:
    """By how much the open trailing edge thickens each side of a 12 % section at x: coefficient 0.1015, not 0.1036."""
    return 5 * 0.12 * (0.1036 - 0.1015) * x**4


def side(curve: np.ndarray, upper: bool, at: float) -> float:
    half = curve[: len(curve) // 2 + 1][::-1] if upper else np.concatenate([curve[len(curve) // 2 :], curve[:1]])
    return float(np.interp(at, half[:, 0], half[:, 1]))


@pytest.mark.parametrize(("digits", "table"), [("2412", NACA_2412), ("23012", NACA_23012)])
def test_cambered_sections_are_as_tabulated(digits: str, table: list[tuple[float, float, float]]) -> None:
    curve = naca(digits, 400)
    for percent, above, below in table:
        x = percent / 100
        assert side(curve, True, x) + opened(x) == pytest.approx(above / 100, abs=2e-4)
        assert side(curve, False, x) - opened(x) == pytest.approx(below / 100, abs=2e-4)


def test_symmetric_section_is_as_tabulated() -> None:
    curve = naca("0012", 400)
    for percent, half in NACA_0012:
        x = percent / 100
        assert side(curve, True, x) + opened(x) == pytest.approx(half / 100, abs=2e-5)
        assert side(curve, False, x) == -side(curve, True, x)


@pytest.mark.parametrize(
    ("place", "joint", "slope"), [(2, 0.126, 51.64), (3, 0.2025, 15.957), (4, 0.29, 6.643), (5, 0.391, 3.23)]
)
def test_five_digits_meet_the_printed_tables(place: int, joint: float, slope: float) -> None:
    r = _plain_joint(place / 20)
    assert r == pytest.approx(joint, abs=5e-4)
    assert 0.3 / (np.pi * _fourier(r, 0.0)[0]) == pytest.approx(slope, rel=4e-3)


@pytest.mark.parametrize(
    ("place", "joint", "slope", "ratio"),
    [(3, 0.217, 15.793, 0.00677), (4, 0.318, 6.52, 0.0303), (5, 0.441, 3.191, 0.1355)],
)
def test_reflexed_five_digits_meet_the_printed_tables(place: int, joint: float, slope: float, ratio: float) -> None:
    r = _reflexed_joint(place / 20)
    assert r == pytest.approx(joint, abs=1.1e-3)
    assert 0.3 / (np.pi * _fourier(r, _ratio(r, place / 20))[0]) == pytest.approx(slope, rel=8e-3)
    assert _ratio(r, place / 20) == pytest.approx(ratio, abs=7e-4)


@pytest.mark.parametrize("digits", ["0012", "4415", "23012", "23112", (0.919, 6.98, 14.32), (3.551, 3.1, 1, 18.252)])
def test_curves_are_closed_and_counter_clockwise(digits: str | tuple[float, ...]) -> None:
    curve = naca(digits, 100)
    assert curve.shape == (100, 2)
    assert curve[0] == pytest.approx([1, 0], abs=1e-12)
    assert curve[50] == pytest.approx([0, 0], abs=1e-12)
    assert curve_surface(curve, "").volume > 0
    assert len(np.unique(curve.round(12), axis=0)) == 100


def test_names() -> None:
    assert naca_digits("naca2412") == (2, 4, 12)
    assert naca_digits("NACA 23012") == (2, 3, 0, 12)
    assert naca_digits("naca:0.919_6.98_14.32") == (0.919, 6.98, 14.32)
    assert naca_digits("naca:3.551_3.1_1.0_18.252") == (3.551, 3.1, 1, 18.252)
    assert naca_digits("car.stl") is None
    assert naca_digits("naca241") is None
    assert len(read_surface("naca0012").cells) == 200


@pytest.mark.parametrize(
    "digits", ["2012", "0000", (1, 2), (1, 2, 3, 4, 5), (-1, 4, 12), (2, 3, 0.5, 12), (2, 9, 1, 12), "24x2"]
)
def test_impossible_sections_are_refused(digits: str | tuple[float, ...]) -> None:
    with pytest.raises(InputError):
        naca(digits)


def test_coordinate_files_of_both_customs(tmp_path: Path) -> None:
    curve = naca("4412", 60)
    upper, lower = curve[:31], np.concatenate([curve[30:], curve[:1]])
    selig, lednicer, backwards = tmp_path / "selig.dat", tmp_path / "lednicer.dat", tmp_path / "backwards.dat"
    once_around = np.concatenate([upper, lower[1:]])
    np.savetxt(selig, once_around, header="NACA 4412", comments="", fmt="%.9f")
    np.savetxt(backwards, once_around[::-1], fmt="%.9f", delimiter=", ")
    with lednicer.open("w") as file:
        file.write(f"NACA 4412\n{len(upper)}. {len(lower)}.\n\n")
        np.savetxt(file, upper[::-1], fmt="%.9f")
        file.write("\n")
        np.savetxt(file, lower, fmt="%.9f")
    for path in (selig, lednicer, backwards):
        np.testing.assert_allclose(read_section(path), curve, atol=1e-8, err_msg=path.name)
        assert read_surface(path).volume == pytest.approx(curve_surface(naca("4412", 400), "").volume, rel=2e-3)


def test_blunt_trailing_edge_is_closed_by_its_edge(tmp_path: Path) -> None:
    path = tmp_path / "blunt.dat"
    points = np.array([[1, 0.01], [0.5, 0.1], [0, 0], [0.5, -0.1], [1, -0.01]])
    np.savetxt(path, points, header="blunt", comments="")
    surface = read_surface(path)
    assert len(surface.cells) == 5
    assert surface.area_vectors.sum(axis=0) == pytest.approx([0, 0], abs=1e-15)


def test_airfrans_section_follows_from_its_name(shared_data: Path) -> None:
    file = next((shared_data / "airfrans").glob("*_aerofoil.vtp"))
    digits = [float(word) for word in file.name.split("_")[4:7]]
    published = read_surface(file)
    drawn = curve_surface(naca(digits, 1000), "")
    assert np.abs(distance(drawn, published.points).distance).max() < 5e-4
    assert published.volume == pytest.approx(drawn.volume, rel=2e-3)
    # The published normals point into the body; ours point out of it.
    along = np.einsum("nd,nd->n", published.normals, published.cell_data["Normals"][:, :2])
    assert np.median(along) < -0.99


# Published ordinates of symmetric 6-series sections at 5, 20, 40, 60 and 80 % of the chord, in %; none was fitted.
SIX = {
    "naca63-009": (2.196, 3.997, 4.450, 3.359, 1.467),
    "naca63(4)-021": (5.062, 9.406, 10.291, 7.433, 3.053),
    "naca64015": (3.502, 6.478, 7.463, 5.615, 2.469),
    "naca65-015": (3.245, 6.225, 7.500, 6.120, 2.859),
    "naca66-015": (3.098, 5.996, 7.429, 6.961, 3.591),
    "naca63A010": (2.418, 4.403, 4.968, 3.937, 2.039),
    "naca64A010": (2.331, 4.273, 4.995, 4.020, 2.101),
    "naca65a010": (2.187, 4.129, 4.994, 4.301, 2.352),
}


@pytest.mark.parametrize("name", SIX)
def test_six_series_sections_are_as_tabulated(name: str) -> None:
    curve = naca(name, 800)
    for percent, half in zip((5, 20, 40, 60, 80), SIX[name], strict=True):
        assert side(curve, True, percent / 100) == pytest.approx(half / 100, abs=1e-4)
        assert side(curve, False, percent / 100) == pytest.approx(-half / 100, abs=1e-4)


def test_cambered_six_series_sections_are_as_tabulated() -> None:
    # NACA 63-206: the upper and the lower side at the middle and near the tail, in chords.
    curve = naca("naca63-206", 800)
    for x, above, below in ((0.5, 0.03826, -0.01619), (0.80022, 0.01804, None), (0.09930, 0.02527, None)):
        assert side(curve, True, x) == pytest.approx(above, abs=1e-4)
        if below is not None:
            assert side(curve, False, x) == pytest.approx(below, abs=1e-4)


def test_six_series_names() -> None:
    same = ("naca63-415", "NACA 63-415", "naca632-415", "naca63(2)-415", "naca63_2-415", "naca632415", "naca63415")
    for name in same:
        np.testing.assert_array_equal(naca(name), naca("naca63-415"))
    assert not np.array_equal(naca("naca65-410 a=0.5"), naca("naca65-410"))
    assert read_surface("naca64A010").volume > 0
    for impossible in ("naca66A010", "naca63-400", "naca63-455", "naca64A410 a=0.5"):
        with pytest.raises(InputError):
            naca(impossible)
