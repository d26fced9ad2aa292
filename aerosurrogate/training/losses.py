"""What training makes small: the paper's losses, the head's error, and the error of the integrated force.

All are made of sums over points, so that points spread over processes add up to the same number: `..._sums` are those
of the points at hand, and what they make is asked of the totals.
"""

import torch
from torch import Tensor


def square_sums(error: Tensor, counted: Tensor, surface: Tensor, weights: Tensor) -> Tensor:
    """Squared errors and their weights, around the body and on its skin, [2, 2].

    error, counted [B, N, C]; surface, weights [B, N].
    """

    def sums(points: Tensor) -> Tensor:
        here = counted & points[..., None]
        # Masked by `where`, not by a product: an output that is not finite off the mask must not spoil the sum.
        square = torch.where(here, error, 0).square() * weights[..., None]
        return torch.stack([square.sum(), (here * weights[..., None]).sum()])

    return torch.stack([sums(~surface), sums(surface)])


def mean_square(sums: Tensor, surface_weight: float) -> Tensor:
    """Weighted mean squared error around the body plus `surface_weight` times that on its skin, from `square_sums`."""
    around, skin = sums[:, 0] / sums[:, 1].clamp(min=1e-6)
    return around + surface_weight * skin


def relative_sums(
    error: Tensor, truth: Tensor, counted: Tensor, weights: Tensor, least: Tensor | float = 0.0
) -> Tensor:
    """Sums of the squares of error, truth and `least`, the smallest truth that counts, for each case: [3, B].

    error, truth, counted [B, N, C]; weights [B, N] of the points' squares.
    """

    def square(x: Tensor) -> Tensor:
        return (torch.where(counted, x, 0).square() * weights[..., None]).flatten(1).sum(1)  # [B]

    return torch.stack([square(error), square(truth), square(torch.zeros_like(truth) + least)])


def relative(sums: Tensor) -> Tensor:
    """|error| / |truth| in the L2 norm over points and channels, the mean over the batch: [..., 3, B] -> [...].

    Where the truth is not larger than the least that counts (no skin; velocity or turbulent viscosity on it) a ratio
    means nothing, and the case counts as 0.
    """
    error, size, least = sums.unbind(-2)
    there = size > least
    ratio = torch.where(there, error / torch.where(there, size, 1), 0)
    return ratio.clamp(min=1e-20).sqrt().mean(-1)  # the square root has no slope at 0


def differences(field: Tensor, grid: tuple[int, ...]) -> Tensor:
    """Derivatives of a field [B, N, C] along a structured mesh on the unit box, [B, N, C * len(grid)].

    Central differences inside, one-sided ones of second order at the boundary.
    """
    image = field.unflatten(1, grid)
    spacing = [1 / (side - 1) for side in grid]
    axes = tuple(range(1, len(grid) + 1))
    slopes = torch.gradient(image, spacing=spacing, dim=axes, edge_order=2)
    return torch.cat([slope.flatten(1, len(grid)) for slope in slopes], dim=-1)
