"""Losses: checked against numbers worked out by hand."""

import numpy as np
import pytest
import torch

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
