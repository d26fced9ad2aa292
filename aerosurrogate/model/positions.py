"""Where and when a point is, as features: distances to a reference grid, places on a structured mesh and what lies
beside them there, waves of time."""

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aerosurrogate.model.interface import Grid
from aerosurrogate.model.precision import exact

SQUARE = 4  # points along a side of the fixed squares of the paper's ablation
WAVE_UNIT = 2.0  # of the factors of waves, which an optimiser's steps move in as many units as any other weight


def distances(points: Tensor, box: tuple[tuple[float, float], ...], size: int) -> Tensor:
    """Distances [B, n, size**d] of points [B, n, d] to the points of a grid that spans the box, size along a side."""
    sides = [torch.linspace(*side, size, dtype=points.dtype, device=points.device) for side in box]
    reference = torch.cartesian_prod(*sides).expand(len(points), -1, -1)  # [B, size**d, d], row-major
    return torch.cdist(points, reference, compute_mode="donot_use_mm_for_euclid_dist")


def at_index_places(inputs: Tensor, grid: Grid) -> Tensor:
    """Inputs [B, N, c] of a structured mesh with each point's place on its index grid, in the unit box, as position."""
    assert grid is not None
    sides = [torch.linspace(0.0, 1.0, side, dtype=inputs.dtype, device=inputs.device) for side in grid]
    places = torch.cartesian_prod(*sides).expand(len(inputs), -1, -1)
    return torch.cat([places, inputs[..., len(grid) :]], dim=-1)


def squares(grid: Grid, like: Tensor) -> Tensor:
    """To which square of a structured mesh each of its points belongs, one-hot: [N, squares]."""
    assert grid is not None
    number = torch.zeros((), dtype=torch.long, device=like.device)
    counts = [-(-side // SQUARE) for side in grid]
    for side, count in zip(grid, counts, strict=True):
        number = number[..., None] * count + torch.arange(side, device=like.device) // SQUARE
    return F.one_hot(number.flatten(), math.prod(counts)).to(like.dtype)


def projection(kind: str, channels: int, periodic: bool, side: int = 3, groups: int = 1) -> Any:
    """A linear layer, or a convolution for `on_grid`; one that is periodic goes on at the opposite side of the grid."""
    if kind == "pointwise":
        return nn.Linear(channels, channels)
    convolution = {"conv2d": nn.Conv2d, "conv3d": nn.Conv3d}[kind]
    rim: Literal["circular", "zeros"] = "circular" if periodic else "zeros"
    return convolution(channels, channels, side, padding=side // 2, groups=groups, padding_mode=rim)


def on_grid(convolution: nn.Module, z: Tensor, grid: Grid) -> Tensor:
    """A convolution over the points [B, N, C] of a structured mesh."""
    assert grid is not None
    image = z.unflatten(1, grid).movedim(-1, 1)  # [B, C, *grid], channels last in memory
    return convolution(image).movedim(1, -1).flatten(1, -2)


class Waves(nn.Module):
    """The lowest waves of each channel on a plane grid, scaled and turned by complex factors of the channel's own.

    A convolution over the whole grid, going on at its opposite side, of as smooth a kernel as these waves can make: the
    stream function and the velocity of a vorticity are such. The factors start at 0 and are counted in WAVE_UNIT.
    """

    def __init__(self, channels: int, count: int) -> None:
        super().__init__()
        self.count = count
        self.factors = nn.Parameter(torch.zeros(channels, 2, count, count, 2))  # signs of k, k, l, parts

    def forward(self, z: Tensor, grid: Grid) -> Tensor:
        """z [B, N, C] -> [B, N, C]."""
        assert grid is not None
        image = z.to(exact(z)).mT.unflatten(-1, grid)  # [B, C, a, b]
        spectrum = torch.fft.rfft2(image)
        k, m = min(self.count, grid[0] // 2), min(self.count, grid[1] // 2 + 1)
        rising, falling = torch.view_as_complex(WAVE_UNIT * self.factors)[..., :k, :m].unbind(1)  # [C, k, m]
        kept = torch.zeros_like(spectrum)
        kept[..., :k, :m] = spectrum[..., :k, :m] * rising
        kept[..., -k:, :m] = spectrum[..., -k:, :m] * falling
        return torch.fft.irfft2(kept, s=grid).flatten(2).mT.to(z.dtype)


def time_waves(time: Tensor, channels: int, dtype: torch.dtype) -> Tensor:
    """Cosines and sines of the time [B], the longest of period 10000 * 2 pi: [B, 1, channels]."""
    half = channels // 2
    steps = torch.arange(half, device=time.device, dtype=dtype)
    angles = time.reshape(-1, 1, 1) * torch.exp(-math.log(10000.0) / half * steps)
    return F.pad(torch.cat([angles.cos(), angles.sin()], dim=-1), (0, channels % 2))
