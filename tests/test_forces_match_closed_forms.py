"""Forces and reference areas agree with results that can be worked out by hand."""

import numpy as np
import pytest
import pyvista as pv
from hypothesis import given, settings
from hypothesis import strategies as st
from joukowski import joukowski_case

from aerosurrogate.conditions import Conditions, FlowAxes
from aerosurrogate.forces import coefficients, integrate, rectangle_area, silhouette_area

AXES = FlowAxes.parse()


def corners(mesh: pv.PolyData) -> np.ndarray:
    mesh = mesh.triangulate()
    return mesh.points[mesh.regular_faces].astype(float)


def faces(mesh: pv.PolyData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centres, outward normals and areas of a closed convex surface around the origin."""
    a, b, c = np.moveaxis(corners(mesh), 1, 0)
    cross = np.cross(b - a, c - a) / 2
    areas = np.linalg.norm(cross, axis=1)
    centres = (a + b + c) / 3
    normals = cross / areas[:, None]
    return centres, normals * np.sign(np.sum(normals * centres, axis=1))[:, None], areas


def test_sphere_in_potential_flow_has_no_drag():
    centres, normals, areas = faces(pv.Icosphere(radius=0.5, nsub=5))
    sine_squared = 1 - normals[:, 0] ** 2
    forces = integrate(centres, normals, areas, 245.0 * (1 - 2.25 * sine_squared))
    assert np.abs(forces.total).max() < 1e-3 * 245 * np.pi / 4


def test_uniform_pressure_pushes_a_closed_body_nowhere_and_turns_it_not():
    centres, normals, areas = faces(pv.Cube(x_length=4, y_length=2, z_length=1).triangulate().subdivide(2))
    forces = integrate(centres, normals, areas, np.full(len(areas), 1e5))
    assert np.abs(forces.total).max() < 1e-6
    assert np.abs(forces.moment).max() < 1e-6


def test_hydrostatic_pressure_lifts_by_the_displaced_weight():
    centres, normals, areas = faces(pv.Cube(x_length=2, y_length=1, z_length=1).triangulate())
    forces = integrate(centres, normals, areas, -9.81 * 1000 * centres[:, 2])
    assert forces.total == pytest.approx([0, 0, 9.81 * 1000 * 2], abs=1e-6)


def test_cylinder_with_circulation_obeys_kutta_joukowski():
    speed, density, radius, circulation = 30.0, 1.2, 0.5, 40.0
    angle = (np.arange(720) + 0.5) * 2 * np.pi / 720
    normals = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    swirl = 2 * speed * np.sin(angle) + circulation / (2 * np.pi * radius)
    pressure = 0.5 * density * (speed**2 - swirl**2)
    areas = np.full(720, 2 * np.pi * radius / 720)
    forces = integrate(radius * normals, normals, areas, pressure)
    wind = FlowAxes.two_dimensional(0.0)
    found = coefficients(forces, wind, Conditions(speed=speed, length=1.0, density=density), area=1.0)
    assert found.lift == pytest.approx(density * speed * circulation, rel=1e-3)
    assert abs(found.drag) < 1e-3 * found.lift


def test_a_case_of_an_exact_flow_has_its_lift():
    case = joukowski_case("a", 0.12, 0.03, 6.0, 50.0)
    found = case.coefficients()
    assert found is not None
    assert found.cd == pytest.approx(case.reference["cd"], abs=1e-5)
    assert found.cl == pytest.approx(case.reference["cl"], rel=1e-4)
    # Kutta and Joukowski, for the thin section that this is: 2 pi (1 + 0.77 t) sin(alpha + 2 camber).
    assert found.cl == pytest.approx(2 * np.pi * (1 + 0.77 * 0.12) * np.sin(np.radians(6.0) + 0.06), rel=0.04)


def test_friction_adds_to_drag_and_is_reported_apart():
    centres, normals, areas = faces(pv.Cube(x_length=2, y_length=1, z_length=1).triangulate())
    shear = np.where(np.abs(normals[:, :1]) < 0.5, [3.0, 0.0, 0.0], 0.0)
    pressure = np.where(normals[:, 0] < -0.5, 10.0, 0.0)
    conditions = Conditions(speed=2.0, length=2.0, density=1.0)
    found = coefficients(integrate(centres, normals, areas, pressure, shear), AXES, conditions, area=1.0)
    assert found.cd_pressure == pytest.approx(10 / 2)
    assert found.cd_friction == pytest.approx(3 * 8 / 2)
    assert found.cd == pytest.approx(found.cd_pressure + found.cd_friction)


@pytest.mark.parametrize(
    ("flow", "up", "nose"), [("+x", "+z", [-1.0, 0, 0]), ("+z", "+y", [0, 0, -1.0]), ("-y", "+z", [0, 1.0, 0])]
)
def test_a_push_up_at_the_nose_pitches_nose_up(flow, up, nose):
    axes = FlowAxes.parse(flow, up)
    forces = integrate(np.array([nose]), -axes.up[None], np.ones(1), np.array([5.0]))
    found = coefficients(forces, axes, Conditions(speed=1.0, length=1.0, density=2.0), area=1.0)
    assert found.cl == pytest.approx(5.0)
    assert found.cm == pytest.approx(5.0)


def test_an_airfoil_pushed_up_at_its_nose_pitches_nose_up():
    forces = integrate(np.array([[-1.0, 0.0]]), np.array([[0.0, -1.0]]), np.ones(1), np.array([5.0]))
    found = coefficients(forces, FlowAxes.two_dimensional(0.0), Conditions(speed=1.0, length=1.0, density=2.0), 1.0)
    assert found.cl == pytest.approx(5.0)
    assert found.cm == pytest.approx(5.0)


def test_silhouette_of_a_ring_leaves_its_hole_out():
    ring = pv.ParametricTorus(ringradius=1, crosssectionradius=0.2, u_res=300, v_res=60, w_res=10).rotate_y(90)
    assert silhouette_area(corners(ring), AXES) == pytest.approx(np.pi * (1.2**2 - 0.8**2), rel=1e-3)


def test_silhouette_does_not_depend_on_which_way_triangles_face():
    ball = corners(pv.Icosphere(radius=0.5, nsub=5))
    mixed = np.where(np.arange(len(ball))[:, None, None] % 2 == 0, ball, ball[:, ::-1])
    assert silhouette_area(mixed, AXES) == pytest.approx(np.pi / 4, rel=1e-3)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 60)] * 2, *[st.integers(1, 40)] * 2), min_size=1, max_size=6))
def test_silhouette_of_overlapping_boxes_is_the_area_of_their_union(boxes):
    grid = np.zeros((100, 100), dtype=bool)
    for y, z, width, height in boxes:
        grid[y : y + width, z : z + height] = True
    pieces = [
        corners(pv.Cube(bounds=(i, i + 0.5, y, y + width, z, z + height)))
        for i, (y, z, width, height) in enumerate(boxes)
    ]
    found = silhouette_area(np.concatenate(pieces), AXES)
    apart = np.concatenate(pieces).reshape(-1, 3)
    assert silhouette_area(apart, AXES, triangles=np.arange(len(apart)).reshape(-1, 3)) == pytest.approx(found)
    # Every corner's height that falls between two scan lines may displace one width by half a spacing.
    assert found == pytest.approx(grid.sum(), abs=100 * 100 / 1000 * len(boxes))


def test_rectangle_encloses_the_front_view():
    points = pv.Cube(bounds=(0, 4, -1, 1, 0.2, 1.7)).points
    assert rectangle_area(points, AXES) == pytest.approx(2 * 1.5)
    assert rectangle_area(points, FlowAxes.parse("+z", "+x")) == pytest.approx(2 * 4)
