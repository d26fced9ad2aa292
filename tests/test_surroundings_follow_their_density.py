"""Points on and around a body follow the density that training and prediction share, reproducibly."""

import numpy as np
import pytest
import pyvista as pv

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.airfoil import naca
from aerosurrogate.mesh.distance import distance, inside, nearest
from aerosurrogate.mesh.read import curve_surface
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.mesh.surroundings import (
    _LEAST,
    AIRFOIL,
    CAR,
    Region,
    _outside,
    _rings,
    around,
    from_cells,
    on_skin,
    regular_grid,
)


def block() -> Surface:
    """A body the size of a car, half a length wide at the back, in body lengths."""
    mesh = pv.Box((-0.5, 0.5, -0.2, 0.2, 0.05, 0.3), level=3).triangulate().clean()
    return Surface(np.asarray(mesh.points, dtype=float), mesh.regular_faces.astype(np.int64))


def wanted(region: Region, body: Surface, edges: np.ndarray, count: int) -> np.ndarray:
    """The share of points in each interval of distance, by uniform points weighted with the density."""
    points = np.random.default_rng(9).uniform(region.low, region.high, (count, len(region.low)))
    away = distance(body, points).distance
    weights = np.where(away > 0, region.density(away), 0.0)
    return np.histogram(away, edges, weights=weights)[0] / weights.sum()


@pytest.mark.parametrize(
    ("region", "body", "edges"),
    [
        (CAR, block(), np.array([0, 0.01, 0.03, 0.1, 0.3, 3])),
        (AIRFOIL, curve_surface(naca("2412"), ""), np.array([0, 0.003, 0.01, 0.03, 0.1, 0.3, 5])),
    ],
    ids=["car", "airfoil"],
)
def test_points_from_geometry_and_from_cells_share_one_density(
    region: Region, body: Surface, edges: np.ndarray
) -> None:
    count = 2500
    drawn = around(region, body, count, seed=3)
    assert drawn.points.shape == (count, len(region.low))
    assert region.contains(drawn.points).all()
    signed = distance(body, drawn.points)
    np.testing.assert_allclose(drawn.distance, signed.distance, rtol=1e-9)
    np.testing.assert_allclose(drawn.direction, signed.direction, atol=1e-6)
    share = wanted(region, body, edges, 60_000)
    noise = 4 * np.sqrt(share / count) + 0.01
    assert np.all(np.abs(np.histogram(drawn.distance, edges)[0] / count - share) < noise)
    # A mesh graded towards the wall, as solvers use: its cells get small where points are to be dense.
    rng = np.random.default_rng(4)
    fine = around(Region(region.low, region.high, 2 * region.offset, region.power + 0.5, 12), body, 12_000, seed=5)
    volumes = 1.0 / (fine.distance + 2 * region.offset) ** -(region.power + 0.5)
    index = from_cells(region, fine.points, volumes, fine.distance, 800, seed=int(rng.integers(100)))
    assert len(np.unique(index)) == 800
    noise = 4 * np.sqrt(share / 800) + 0.02
    assert np.all(np.abs(np.histogram(fine.distance[index], edges)[0] / 800 - share) < noise)


@pytest.mark.parametrize("code", ["0006", "2412", "0025"])
def test_what_is_told_by_squares_is_never_said_to_be_farther_than_it_is(code: str) -> None:
    curve = curve_surface(naca(code), "")
    points = np.random.default_rng(2).uniform((-0.3, -0.3), (1.3, 0.3), (40_000, 2))
    least, true = _LEAST.take(_rings(curve, points)), nearest(curve, points).distance
    assert np.all(least <= true)
    assert np.all(least[true > 0.1] > 0.02)  # and something is told


def test_seeds_reproduce() -> None:
    body = block()
    for one, other in (
        (around(CAR, body, 50, 1), around(CAR, body, 50, 1)),
        (on_skin(body, 50, 1), on_skin(body, 50, 1)),
    ):
        for first, second in zip(one, other, strict=True):
            np.testing.assert_array_equal(first, second)
    assert not np.array_equal(around(CAR, body, 50, 1).points, around(CAR, body, 50, 2).points)


def test_skin_points_are_uniform_in_area() -> None:
    mesh = pv.Icosphere(radius=1.0, nsub=4)
    coarse_top = mesh.clip("z", invert=True).extract_surface(algorithm="dataset_surface").triangulate()
    body = Surface(np.asarray(coarse_top.points, dtype=float), coarse_top.regular_faces.astype(np.int64))
    skin = on_skin(body, 5000, seed=0)
    # By Archimedes heights on a sphere are uniform.
    shares = np.histogram(skin.points[:, 2], np.linspace(-1, 0, 6))[0] / 5000
    np.testing.assert_allclose(shares, 0.2, atol=0.02)
    np.testing.assert_allclose(distance(body, skin.points).distance, 0, atol=1e-9)
    assert np.all(skin.points @ np.array([0, 0, 1]) <= 1e-9)
    np.testing.assert_allclose(np.abs(np.einsum("nd,nd->n", skin.points, body.normals[skin.cells])), 1.0, atol=0.01)


def test_skin_points_keep_to_the_faces_asked_for() -> None:
    body = block()
    top = body.normals[:, 2] > 0.9
    skin = on_skin(body, 300, seed=0, faces=top)
    assert np.allclose(skin.points[:, 2], 0.3)
    section = curve_surface(naca("0012"), "")
    assert np.abs(distance(section, on_skin(section, 300, 0).points).distance).max() < 1e-12


def test_grid() -> None:
    points = regular_grid(np.array([0.0, 0, 0]), np.array([1.0, 2, 3]), (2, 3, 4))
    assert points.shape == (24, 3)
    assert points[1] == pytest.approx([0, 0, 1])
    assert points[-1] == pytest.approx([1, 2, 3])


def test_no_room_is_said() -> None:
    mesh = pv.Box((-5, 5, -5, 5, -5, 5)).triangulate().clean()
    with pytest.raises(InputError, match="no room"):
        around(CAR, Surface(np.asarray(mesh.points, dtype=float), mesh.regular_faces.astype(np.int64)), 10, 0)


def test_sides_of_a_section_are_told_at_its_corners_too() -> None:
    star = np.array([[1.0, 0.0], [0.3, 0.1], [0.1, 0.6], [-0.2, 0.15], [-0.9, 0.0], [-0.1, -0.05]])  # sharp and hollow
    for curve in (curve_surface(star, ""), curve_surface(naca("2412"), ""), curve_surface(naca("6409"), "")):
        points = np.random.default_rng(3).uniform(curve.bounds[0] - 0.2, curve.bounds[1] + 0.2, (4000, 2))
        near = nearest(curve, points)
        assert np.array_equal(_outside(curve, points, near.closest, near.cells), ~inside(curve, points))


def test_who_knows_what_is_inside_is_believed() -> None:
    body, plain = block(), around(CAR, block(), 400, 1)
    same = around(CAR, body, 400, 1, covers=lambda points: inside(body, points))
    np.testing.assert_array_equal(same.points, plain.points)
    left = around(CAR, body, 400, 1, covers=lambda points: points[:, 1] > 0)
    assert (left.points[:, 1] <= 0).all()
