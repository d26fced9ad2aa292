"""Potential flow around sections and bodies by their closed forms, and what a model sees of it."""

import numpy as np
import pytest
import pyvista as pv
import torch
from joukowski import joukowski_case, joukowski_set
from scipy.integrate import quad

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Case
from aerosurrogate.data.sampling import mirrored
from aerosurrogate.data.scaling import INPUTS, Places
from aerosurrogate.data.store import Dataset
from aerosurrogate.errors import InputError
from aerosurrogate.mesh import potential, source_panels, vortex_panels
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.mesh.vortex_panels import Edge, SectionFlow


def circle(sides: int) -> np.ndarray:
    angles = np.linspace(0, 2 * np.pi, sides + 1)
    points = 0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.stack([points[:-1], points[1:]], axis=1)


def test_around_a_circle_the_flow_is_that_of_a_doublet():
    points = np.array([[0.0, 1.0], [2.0, 0.5], [-1.0, 0.3], [0.4, -0.6]])
    flow = SectionFlow(circle(200)).seen(points, 0 * points, np.ones(4), 0.0)
    z = points[:, 0] + 1j * points[:, 1]
    exact = 1 - 0.25 / z**2
    np.testing.assert_allclose(flow[:, 0] - 1j * flow[:, 1], exact, atol=1e-3)
    np.testing.assert_allclose(flow[:, 2], 0.0, atol=1e-5)


@pytest.mark.parametrize(("thickness", "camber", "alpha"), [(0.12, 0.0, 6.0), (0.15, 0.03, 2.0), (0.1, 0.02, -5.0)])
def test_lift_and_velocities_are_joukowskis(thickness, camber, alpha):
    case = joukowski_case("section", thickness, camber, alpha, 50.0)
    seen = INPUTS["potential_flow"](Places.of(case))
    assert seen[0, 2] == pytest.approx(case.reference["cl"], abs=0.02)
    off = ~case.surface & (case.distance > 0.02)
    error = seen[off, :2] - case.fields["U"][off] / 50.0
    assert np.sqrt(np.mean(error**2)) < 0.006
    wrong_way = case.conditions.direction(2) - case.fields["U"][off] / 50.0
    assert np.sqrt(np.mean(wrong_way**2)) > 0.05  # the undisturbed stream would be far off


def test_panels_in_any_order_and_a_blunt_edge_leave_at_the_corners():
    surface = read_surface("naca0012")
    whole = SectionFlow.around(surface)
    order = np.random.default_rng(0).permutation(len(whole.panels))
    away, none = np.array([[0.5, 0.4]]), np.zeros((1, 2))
    np.testing.assert_allclose(
        SectionFlow(whole.panels[order]).seen(away, none, np.ones(1), 5.0),
        whole.seen(away, none, np.ones(1), 5.0),
        atol=1e-5,
    )
    ahead = whole.panels[(whole.panels[..., 0] < 0.98).all(axis=1)]  # cut off, and closed by a base
    rear = [ahead[0, 0], ahead[-1, 1]]
    cuts = np.linspace(rear[1], rear[0], 9)
    blunt = SectionFlow(np.concatenate([ahead, np.stack([cuts[:-1], cuts[1:]], axis=1)]))
    assert len(Edge.of(blunt.panels).base) == 8
    lifts = [flow.seen(away, none, np.ones(1), 5.0)[0, 2] for flow in (whole, blunt)]
    assert lifts[1] == pytest.approx(lifts[0], rel=0.03)


def test_some_points_of_a_stored_section_see_its_whole_skin(tmp_path):
    dataset = Dataset(joukowski_set(tmp_path / "sections", 2))
    name = dataset.names()[0]
    whole = INPUTS["potential_flow"](Places.of(dataset.case(name)))
    rows = np.array([130, 3, 200])
    np.testing.assert_allclose(INPUTS["potential_flow"](Places.of(dataset.case(name, rows))), whole[rows], atol=1e-5)
    taken = dataset.case(name).take(rows)
    np.testing.assert_allclose(INPUTS["potential_flow"](Places.of(taken)), whole[rows], atol=1e-5)


def test_upside_down_it_is_the_same_flow_upside_down():
    case = joukowski_case("section", 0.12, 0.03, 4.0, 50.0)
    upright, turned = (INPUTS["potential_flow"](Places.of(one)) for one in (case, mirrored(case)))
    np.testing.assert_allclose(turned, upright * [1, -1, -1], atol=2e-4)


def test_tensors_give_the_same_and_can_be_differentiated():
    case = joukowski_case("section", 0.12, 0.02, 4.0, 50.0)
    flow = case.potential_flow

    def lift(panels: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
        strengths = vortex_panels.strengths(panels, Edge.of(flow.panels), torch)
        arrays = (torch.from_numpy(np.asarray(a, float)) for a in (case.points, case.normals, case.distance))
        return vortex_panels.seen(panels, strengths, *arrays, angle, torch)

    panels = torch.from_numpy(flow.panels).requires_grad_()
    angle = torch.deg2rad(torch.tensor(4.0, dtype=torch.float64)).requires_grad_()
    seen = lift(panels, angle)
    np.testing.assert_allclose(seen.detach(), INPUTS["potential_flow"](Places.of(case)), atol=1e-4)
    slope, by_angle = torch.autograd.grad(seen[0, 2], (panels, angle))
    way = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 1, 2))) * (panels.detach() ** 2)  # smooth
    ends = [lift(panels.detach() + sign * 1e-5 * way, angle.detach())[0, 2].item() for sign in (1, -1)]
    assert float((slope * way).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3)
    assert by_angle.item() == pytest.approx(2 * np.pi * 1.1, rel=0.1)  # thin sections: 2 pi


def test_a_section_without_thickness_is_refused():
    x = np.linspace(0, 1, 41)
    line = np.stack([x, 0 * x], axis=1)
    panels = np.concatenate([np.stack([line[1:], line[:-1]], axis=1)[::-1], np.stack([line[:-1], line[1:]], axis=1)])
    with pytest.raises(InputError, match="no potential flow goes around this section"):
        _ = SectionFlow(panels).strengths


def ellipsoid(axes: np.ndarray) -> Surface:
    ball = pv.Icosphere(radius=1.0, nsub=4)
    return Surface(np.asarray(ball.points, float) * axes, ball.regular_faces.astype(np.int64))


@pytest.mark.parametrize("axes", [(1.0, 1.0, 1.0), (2.5, 1.0, 1.0), (1.0, 1.4, 0.7)])
def test_around_an_ellipsoid_air_slides_as_in_closed_form(axes):
    """u = (1 + k)(e_x - n n_x), where k follows from an elliptic integral (Lamb, article 114)."""
    sizes = np.array(axes)
    whole = quad(lambda s: sizes.prod() / ((sizes[0] ** 2 + s) * np.sqrt(np.prod(sizes**2 + s))), 0, np.inf)[0]
    surface = ellipsoid(sizes)
    flow = potential.around(surface, ground=False)
    seen = flow.seen(surface.centres, surface.normals, np.zeros(len(surface.centres)), 0.0)
    n = surface.normals
    undisturbed = np.eye(3)[0] - n * n[:, :1]
    exact = 2 / (2 - whole) * undisturbed
    away, without = (np.sqrt(np.mean(np.sum((u - exact) ** 2, axis=1))) for u in (seen[:, :3], undisturbed))
    assert away < 0.1
    assert away < 0.4 * without
    np.testing.assert_allclose(seen[:, 3], 1 - np.sum(seen[:, :3] ** 2, axis=1), atol=1e-5)


def test_a_ground_is_the_mirror_image_of_the_body():
    surface = ellipsoid(np.array([1.0, 0.7, 0.5])).transformed(np.eye(3), [0.0, 0.0, 0.6])
    centres, none = surface.centres, np.zeros(len(surface.centres))
    above = potential.around(surface, ground=True).seen(centres, surface.normals, none, 0.0)
    flip = np.array([1.0, 1.0, -1.0])
    points, normals = (np.concatenate([a, a * flip]) for a in (centres, surface.normals))
    both = source_panels.BodyFlow(points, normals, np.tile(surface.areas, 2), None).seen(centres, surface.normals, none)
    free = potential.around(surface, ground=False).seen(centres, surface.normals, none, 0.0)
    below = surface.normals[:, 2] < -0.8  # where the ground squeezes the stream
    assert above[below, 0].mean() == pytest.approx(both[below, 0].mean(), rel=0.05)
    assert above[below, 0].mean() > 1.05 * free[below, 0].mean()


def half_ball() -> Case:
    surface = ellipsoid(np.ones(3))
    half = surface.centres[:, 1] > 0
    n = int(half.sum())
    return Case(
        name="half",
        points=surface.centres[half].astype(np.float32),
        surface=np.ones(n, bool),
        fields={"p": np.zeros((n, 1), np.float32)},
        normals=surface.normals[half].astype(np.float32),
        areas=surface.areas[half].astype(np.float32),
        distance=np.zeros(n, np.float32),
        conditions=Conditions(speed=10.0, length=2.0, ground=False),
        symmetry="y",
    )


def test_half_a_body_and_some_of_its_points_see_the_flow_around_all_of_it():
    half, see = half_ball(), INPUTS["potential_flow"]
    whole = see(Places.of(half.whole()))
    rows = np.array([3, 200, 41])
    np.testing.assert_allclose(see(Places.of(half.take(rows))), whole[rows], atol=1e-5)
    assert whole[:, 3].min() == pytest.approx(-1.25, abs=0.25)  # a ball's sides
    assert whole[:, 3].max() == pytest.approx(1.0, abs=0.05)


def test_bodies_as_tensors_give_the_same_and_can_be_differentiated():
    surface = ellipsoid(np.array([1.5, 0.7, 0.5])).transformed(np.eye(3), [0.0, 0.0, 0.6])
    flow = potential.around(surface, ground=True)
    assert isinstance(flow, source_panels.BodyFlow)
    points, normals = torch.from_numpy(flow.points).requires_grad_(), torch.from_numpy(flow.normals)

    def slip(points: torch.Tensor) -> torch.Tensor:
        centres, facing = source_panels.centres_and_normals(points, normals, flow.panels, torch)
        return source_panels.slip(centres, facing, flow.panels.area, flow.ground, torch)

    velocity = slip(points)
    np.testing.assert_allclose(velocity.detach(), flow.solved[1], atol=1e-5)  # which is solved in single precision
    weights = torch.from_numpy(np.random.default_rng(0).normal(size=velocity.shape))
    (slope,) = torch.autograd.grad((weights * velocity).sum(), points)
    way = torch.from_numpy(np.sin(3 * flow.points))
    ahead, back = ((weights * slip(points.detach() + sign * 1e-6 * way)).sum().item() for sign in (1, -1))
    assert float((slope * way).sum()) == pytest.approx((ahead - back) / 2e-6, rel=1e-4)
