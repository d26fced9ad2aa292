"""Signed distances equal closed forms and brute force, for closed, holed, turned and intersecting bodies."""

from dataclasses import replace

import igl
import numpy as np
import pytest
import pyvista as pv

from aerosurrogate.mesh.airfoil import naca
from aerosurrogate.mesh.distance import SKIN, distance, in_pieces, inside, nearest, nearest_on, outer_faces
from aerosurrogate.mesh.read import curve_surface
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.mesh.surroundings import CAR, around


def surface_of(mesh: pv.PolyData) -> Surface:
    mesh = mesh.triangulate().clean()
    return Surface(np.asarray(mesh.points, dtype=float), mesh.regular_faces.astype(np.int64))


def ball(level: int) -> Surface:
    return surface_of(pv.Icosphere(radius=1.0, nsub=level))


def torus(resolution: int) -> Surface:
    u, v = np.meshgrid(*2 * [np.arange(resolution) * 2 * np.pi / resolution], indexing="ij")
    points = np.stack([(1 + 0.4 * np.cos(v)) * np.cos(u), (1 + 0.4 * np.cos(v)) * np.sin(u), 0.4 * np.sin(v)], -1)
    index = np.arange(resolution**2).reshape(resolution, resolution)
    a, b, c, d = index, np.roll(index, -1, 0), np.roll(index, (-1, -1), (0, 1)), np.roll(index, -1, 1)
    triangles = np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1).reshape(-1, 3)])
    return Surface(points.reshape(-1, 3), triangles)


def to_torus(points: np.ndarray) -> np.ndarray:
    return np.hypot(np.hypot(points[:, 0], points[:, 1]) - 1.0, points[:, 2]) - 0.4


@pytest.fixture
def queries() -> np.ndarray:
    return np.random.default_rng(0).uniform(-2, 2, (3000, 3))


def test_box(queries: np.ndarray) -> None:
    box = surface_of(pv.Box((-1, 1, -1, 1, -1, 1)))
    excess = np.abs(queries) - 1.0
    exact = np.linalg.norm(np.maximum(excess, 0), axis=1) + np.minimum(excess.max(axis=1), 0)
    found = distance(box, queries)
    np.testing.assert_allclose(found.distance, exact, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(found.direction, axis=1), 1.0, atol=1e-12)
    outside = exact > 0
    np.testing.assert_allclose(
        (found.closest + found.distance[:, None] * found.direction)[outside], queries[outside], atol=1e-12
    )


def test_brute_force_on_facets(queries: np.ndarray) -> None:
    shape = torus(12)
    points = queries[:200]
    # The nearest of a dense net of barycentric coordinates on every triangle, refined around it, is an upper bound
    # that closes in on the distance.
    best = np.full(len(points), np.inf)
    for a, b, c in shape.corners:
        best = np.minimum(best, _to_triangle(points, a, b, c))
    np.testing.assert_allclose(np.abs(distance(shape, points).distance), best, atol=1e-6)


def _to_triangle(points: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Distance to one triangle: to its plane where the foot lies inside, else to the nearest of its sides."""
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal)
    height = (points - a) @ normal
    foot = points - height[:, None] * normal
    within = np.ones(len(points), dtype=bool)
    sides = np.full(len(points), np.inf)
    for start, end in ((a, b), (b, c), (c, a)):
        along = end - start
        within &= np.cross(along, foot - start) @ normal >= 0
        t = np.clip((points - start) @ along / (along @ along), 0, 1)
        sides = np.minimum(sides, np.linalg.norm(points - start - t[:, None] * along, axis=1))
    return np.where(within, np.abs(height), sides)


def test_sphere_and_torus_converge_at_second_order(queries: np.ndarray) -> None:
    sphere = np.linalg.norm(queries, axis=1) - 1.0
    errors = [np.abs(distance(ball(level), queries).distance - sphere).max() for level in (3, 4, 5)]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.25)
    assert errors[1] / errors[2] == pytest.approx(4, rel=0.25)
    errors = [np.abs(distance(torus(n), queries).distance - to_torus(queries)).max() for n in (32, 64)]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.25)


def test_holes_and_turned_faces_leave_an_inside(queries: np.ndarray) -> None:
    shape, truth = torus(48), to_torus(queries)
    clear = np.abs(truth) > 0.02
    rng = np.random.default_rng(1)
    holed = replace(shape, cells=shape.cells[rng.random(len(shape.cells)) > 0.02])
    cells = shape.cells.copy()
    turned = rng.random(len(cells)) < 0.02
    cells[turned] = cells[turned][:, ::-1]
    for body in (holed, replace(shape, cells=cells)):
        wrong = inside(body, queries) != (truth < 0)
        assert wrong[clear].mean() < 2e-3


def test_the_winding_number_decides_next_to_holes(queries: np.ndarray) -> None:
    box = surface_of(pv.Box((-1, 1, -0.3, 0.3, -0.2, 0.2), level=20))
    # Half of the faces are gone, so that winding numbers lie around 1/2 in all of the body.
    sieve = box.select(np.random.default_rng(1).random(len(box.cells)) < 0.5)
    offset = 1e-6 * sieve.normals
    points = np.concatenate([queries * box.size / 2.5, sieve.centres + offset, sieve.centres - offset])
    exact = igl.winding_number(sieve.points, sieve.cells, points)
    decided = np.abs(exact - 0.5) > 0.004
    assert 0.95 < decided.mean() < 1.0
    np.testing.assert_array_equal(inside(sieve, points)[decided], exact[decided] > 0.5)


def test_intersecting_pieces_are_their_union(queries: np.ndarray) -> None:
    left = ball(4)
    two = Surface(
        np.concatenate([left.points, left.points + np.array([1.0, 0, 0])]),
        np.concatenate([left.cells, left.cells + len(left.points)]),
    )
    exact = np.minimum(np.linalg.norm(queries, axis=1), np.linalg.norm(queries - [1.0, 0, 0], axis=1)) - 1.0
    found = distance(two, queries).distance
    fluid = exact > 0.01
    np.testing.assert_allclose(found[fluid], exact[fluid], atol=4e-3)
    assert np.all(found[exact < -0.01] < 0)
    outer = outer_faces(two)
    # Each sphere loses the cap that reaches half a radius into the other: a quarter of its area.
    assert two.areas[outer].sum() == pytest.approx(2 * 4 * np.pi * 0.75, rel=5e-3)
    assert outer_faces(left).all()


def test_enclosed_piece_is_not_touched_by_the_fluid() -> None:
    shell = ball(3)
    core = Surface(
        np.concatenate([shell.points, 0.5 * shell.points]),
        np.concatenate([shell.cells, shell.cells + len(shell.points)]),
    )
    assert np.array_equal(outer_faces(core), core.pieces == 0)


def test_closed_pieces_hide_each_other_by_the_winding_number_of_all() -> None:
    parts = [
        replace(torus(32), points=torus(32).points * size + np.array([0.5 * size, 0, 0])) for size in (1, 0.8, 0.6)
    ]
    starts = np.cumsum([0, *(len(part.points) for part in parts)])
    cells = np.concatenate([part.cells + start for part, start in zip(parts, starts, strict=False)])
    body = Surface(np.concatenate([part.points for part in parts]), cells)
    assert body.closed
    assert len(body.parts) == 3
    off = body.centres + SKIN * body.length * body.normals
    exact = np.asarray(igl.winding_number(body.points, body.cells, off)) > 0.5
    assert 0.1 < exact.mean() < 0.9
    np.testing.assert_array_equal(in_pieces(body, off, body.pieces), exact)
    np.testing.assert_array_equal(outer_faces(body), ~exact)
    between = np.random.default_rng(2).uniform(*body.bounds, (2000, 3))
    np.testing.assert_array_equal(in_pieces(body, between), inside(body, between))


def test_a_body_of_open_panels_hides_none_of_them() -> None:
    whole = ball(4)
    upper = whole.centres[:, 2] > 0
    halves = [whole.select(upper), whole.select(~upper)]
    body = Surface(
        np.concatenate([half.points for half in halves]),
        np.concatenate([halves[0].cells, halves[1].cells + len(halves[0].points)]),
    )
    assert not body.closed
    assert outer_faces(body).all()


def test_closed_is_what_every_side_bounds_twice_in_opposite_ways() -> None:
    box = surface_of(pv.Box((-1, 1, -1, 1, -1, 1)))
    turned = box.cells.copy()
    turned[3] = turned[3][::-1]
    assert box.closed
    assert not replace(box, cells=box.cells[1:]).closed
    assert not replace(box, cells=turned).closed
    assert not replace(box, cells=np.concatenate([box.cells, box.cells[:1]])).closed
    assert not replace(box, cells=np.concatenate([box.cells, box.cells[:1], box.cells[:1][:, ::-1]])).closed
    section = curve_surface(naca("2412"), "section")
    assert section.closed
    assert not replace(section, cells=section.cells[1:]).closed
    assert not replace(section, cells=np.concatenate([section.cells[:1][:, ::-1], section.cells[1:]])).closed


def test_curve_in_two_dimensions() -> None:
    angle = np.linspace(0, 2 * np.pi, 720, endpoint=False)
    circle = curve_surface(np.stack([np.cos(angle), np.sin(angle)], axis=1), "circle")
    points = np.random.default_rng(2).uniform(-2, 2, (2000, 2))
    exact = np.linalg.norm(points, axis=1) - 1
    found = distance(circle, points)
    np.testing.assert_allclose(found.distance, exact, atol=1e-5)
    square = curve_surface(np.array([[1.0, 1], [-1, 1], [-1, -1], [1, -1]]), "square")
    excess = np.abs(points) - 1.0
    exact = np.linalg.norm(np.maximum(excess, 0), axis=1) + np.minimum(excess.max(axis=1), 0)
    np.testing.assert_allclose(distance(square, points).distance, exact, atol=1e-14)


def test_points_on_the_skin_have_its_normal() -> None:
    section = curve_surface(naca("2412"), "")
    found = distance(section, section.centres)
    assert np.abs(found.distance).max() < 1e-12
    assert np.einsum("nd,nd->n", found.direction, section.normals) == pytest.approx(1.0)


def test_chunks_and_order_do_not_matter(queries: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = torus(24)
    whole = distance(shape, queries)
    monkeypatch.setattr("aerosurrogate.mesh.distance.CHUNK", 17)
    for one, other in zip(whole, distance(shape, queries[::-1]), strict=True):
        np.testing.assert_array_equal(one, other[::-1])
    assert len(distance(shape, np.empty((0, 3))).distance) == 0


def test_one_tree_answers_all_who_ask_a_body(queries: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    for body, points in ((torus(24), queries), (curve_surface(naca("2412"), ""), queries[:, :2])):
        find = nearest_on(body)
        for part in (points[:1000], points[1000:]):
            for one, other in zip(find(part), nearest(body, part), strict=True):
                np.testing.assert_array_equal(one, other)
    built = []

    class Counted(igl.AABB):
        def init(self, *given: np.ndarray) -> None:
            built.append(given)
            super().init(*given)

    monkeypatch.setattr(igl, "AABB", Counted)
    monkeypatch.setattr("aerosurrogate.mesh.surroundings.BLOCK", 256)  # several blocks, each of which asks
    shape = torus(24)
    body = replace(shape, points=shape.points * 0.3 + np.array([0.0, 0.0, 0.2]))
    drawn = around(CAR, body, 500, 0)
    assert len(built) == 1
    np.testing.assert_array_equal(drawn.distance, nearest(body, drawn.points).distance)
