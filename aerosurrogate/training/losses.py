"""What training makes small: the paper's losses, the head's error, and the error of the integrated force.

All are written as sums over points divided by sums over points, so that points spread over processes add up to the
same number: `total` adds a sum over the processes that share a case.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Sum = Callable[[Tensor], Tensor]


def mean_square(
    error: Tensor, counted: Tensor, surface: Tensor, weights: Tensor, surface_weight: float, total: Sum
) -> Tensor:
    """Weighted mean squared error around the body plus `surface_weight` times that on its skin.

    error, counted [B, N, C]; surface, weights [B, N]. Where there is no skin, the mean over all points.
    """

    def mean(points: Tensor) -> Tensor:
        here = counted & points[..., None]
        # Masked by `where`, not by a product: an output that is not finite off the mask must not spoil the sum.
        square = torch.where(here, error, 0).square() * weights[..., None]
        return total(square.sum()) / total((here * weights[..., None]).sum()).clamp(min=1e-6)

    return mean(~surface) + surface_weight * mean(surface)


def relative(
    error: Tensor, truth: Tensor, counted: Tensor, weights: Tensor, total: Sum, least: Tensor | float = 0.0
) -> Tensor:
    """|error| / |truth| in the L2 norm over points and channels, the mean over the batch.

    error, truth, counted [B, N, C]; weights [B, N] of the points' squares. Where the truth is not larger than `least`
    (no skin; velocity or turbulent viscosity on it) a ratio means nothing, and the case counts as 0.
    """

    def square(x: Tensor) -> Tensor:
        return total((torch.where(counted, x, 0).square() * weights[..., None]).flatten(1).sum(1))  # [B]

    size = square(truth)
    there = size > square(torch.zeros_like(truth) + least)
    ratio = torch.where(there, square(error) / torch.where(there, size, 1), 0)
    return ratio.clamp(min=1e-20).sqrt().mean()  # the square root has no slope at 0


def differences(field: Tensor, grid: tuple[int, ...]) -> Tensor:
    """Derivatives of a field [B, N, C] along a structured mesh on the unit box, [B, N, C * len(grid)].

    Central differences inside, one-sided ones of second order at the boundary.
    """
    image = field.unflatten(1, grid)
    spacing = [1 / (side - 1) for side in grid]
    axes = tuple(range(1, len(grid) + 1))
    slopes = torch.gradient(image, spacing=spacing, dim=axes, edge_order=2)
    return torch.cat([slope.flatten(1, len(grid)) for slope in slopes], dim=-1)


def force(pressure: Tensor, shear: Tensor | None, elements: Tensor, total: Sum) -> Tensor:
    """Force over q L^(d-1), [B, d], from Cp [B, N, 1], Cf [B, N, d] or None, and outward elements [B, N, d]."""
    each = -pressure * elements
    if shear is not None:
        each = each + shear * elements.norm(dim=-1, keepdim=True)
    return total(each.sum(1))
