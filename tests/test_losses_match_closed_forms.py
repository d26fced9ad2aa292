"""Losses: checked against numbers worked out by hand and against exact flows."""

import numpy as np
import pytest
import torch
from joukowski import joukowski_case

from aerosurrogate.training import losses


def relative(*arguments: torch.Tensor, least: float = 0.0) -> float:
    return losses.relative(losses.relative_sums(*arguments, least=least)).item()


def test_mean_square_weighs_skin_and_surroundings_apart() -> None:
    error = torch.tensor([[[1.0], [2.0], [3.0], [float("nan")]]])
    counted = torch.tensor([[[True], [True], [True], [False]]])
    surface = torch.tensor([[True, False, False, False]])
    alike, uneven = torch.ones(1, 4), torch.tensor([[1.0, 3.0, 1.0, 1.0]])

    def mean_square(weights: torch.Tensor) -> torch.Tensor:
        return losses.mean_square(losses.square_sums(error, counted, surface, weights), 0.5)

    assert mean_square(alike).item() == pytest.approx(6.5 + 0.5)
    assert mean_square(uneven).item() == pytest.approx(21 / 4 + 0.5)


def test_relative_error_is_the_mean_over_cases_of_the_ratio_of_norms() -> None:
    truth = torch.tensor([[[3.0], [4.0]], [[0.0], [2.0]]])
    error = torch.tensor([[[0.0], [1.0]], [[1.0], [0.0]]])
    everywhere = torch.ones_like(truth, dtype=torch.bool)
    alike = torch.ones(2, 2)
    assert relative(error, truth, everywhere, alike) == pytest.approx((1 / 5 + 1 / 2) / 2)
    assert relative(7 * error, 7 * truth, everywhere, alike) == pytest.approx(0.35)
    small = torch.tensor([[[3.0], [4.0]], [[0.0], [0.02]]])
    assert relative(error, small, everywhere, alike, least=0.1) == pytest.approx(0.1)


def test_differences_are_exact_for_quadratics_up_to_the_boundary() -> None:
    x, y = np.meshgrid(np.linspace(0, 1, 9), np.linspace(0, 1, 6), indexing="ij")
    field = torch.tensor((x**2 + 3 * x * y - y**2).reshape(1, -1, 1))
    slopes = losses.differences(field, (9, 6))[0].numpy()
    np.testing.assert_allclose(slopes[:, 0], (2 * x + 3 * y).ravel(), atol=1e-9)
    np.testing.assert_allclose(slopes[:, 1], (3 * x - 2 * y).ravel(), atol=1e-9)


def test_force_of_an_exact_flow_is_its_lift() -> None:
    case = joukowski_case("a", 0.12, 0.03, 6.0, 50.0)
    assert case.conditions is not None
    assert case.normals is not None
    assert case.areas is not None
    q, alpha = case.conditions.dynamic_pressure, np.radians(6.0)
    elements = torch.tensor(case.normals * case.areas[:, None])[None]
    force = losses.force(
        torch.tensor(case.fields["p"] / q)[None],
        torch.tensor(case.fields["wallShearStress"] / q)[None],
        elements,
    )[0].numpy()
    assert force @ [np.cos(alpha), np.sin(alpha)] == pytest.approx(case.reference["cd"], abs=1e-5)
    assert force @ [-np.sin(alpha), np.cos(alpha)] == pytest.approx(case.reference["cl"], rel=1e-4)
    # Kutta and Joukowski, for the thin section that this is: 2 pi (1 + 0.77 t) sin(alpha + 2 camber).
    assert case.reference["cl"] == pytest.approx(2 * np.pi * (1 + 0.77 * 0.12) * np.sin(alpha + 0.06), rel=0.04)


def test_a_constant_pressure_on_a_closed_body_pushes_nowhere() -> None:
    case = joukowski_case("a", 0.15, 0.02, 2.0, 50.0)
    assert case.normals is not None
    assert case.areas is not None
    elements = torch.tensor(case.normals * case.areas[:, None])[None]
    force = losses.force(torch.full((1, len(case.points), 1), 3.0), None, elements)
    assert force.abs().max().item() < 1e-5
