"""What the transformers among the baselines share: embedding, blocks of mixing and MLP, heads; the mixing differs."""

from collections.abc import Callable
from typing import Self

import torch
from pydantic import PositiveInt
from pydantic import model_validator as validator
from torch import Tensor, nn

from aerosurrogate.model.interface import MLP, Grid, Interface, Model, Options


class Sizes(Options):
    """How large a baseline is."""

    layers: PositiveInt = 8
    channels: PositiveInt = 128
    mlp_ratio: PositiveInt = 1


class AttentionSizes(Sizes):
    heads: PositiveInt = 8

    @validator(mode="after")
    def _consistent(self) -> Self:
        if self.channels % self.heads:
            raise ValueError(f"channels ({self.channels}) must be a multiple of heads ({self.heads})")
        return self


def with_time(inputs: Tensor, time: Tensor | None) -> Tensor:
    """Inputs [B, N, c], the time [B] as one more channel where there is one."""
    if time is None:
        return inputs
    return torch.cat([inputs, time[:, None, None].expand(-1, inputs.shape[1], 1)], dim=-1)


def channels_in(interface: Interface) -> int:
    """Channels of `with_time`."""
    return interface.inputs + interface.time_input


def masked(x: Tensor, mask: Tensor | None, value: float = 0.0) -> Tensor:
    """x [B, N, c] with `value` where there is no point."""
    return x if mask is None else x.masked_fill(~mask[..., None], value)


def split(x: Tensor, heads: int) -> Tensor:
    """[B, N, C] -> [B, H, N, D]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """[B, H, N, D] -> [B, N, C]."""
    return x.transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, config: Sizes, mixing: nn.Module) -> None:
        super().__init__()
        C = config.channels
        self.norm1, self.mixing = nn.LayerNorm(C), mixing
        self.norm2, self.mlp = nn.LayerNorm(C), MLP(C, C * config.mlp_ratio, C)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.mixing(masked(self.norm1(x), mask), mask)
        return x + self.mlp(self.norm2(x))


class Blocks(Model):
    """A model that mixes its points in each block; a mixing takes x [B, N, C] and the mask, and gives [B, N, C]."""

    config: Sizes

    def __init__(self, interface: Interface, config: Sizes, mixing: Callable[[], nn.Module]) -> None:
        super().__init__(interface, config)
        C = config.channels
        self.embed = MLP(channels_in(interface), 2 * C, C)
        self.blocks = nn.ModuleList(Block(config, mixing()) for _ in range(config.layers))
        self.add_heads(C)

    def features(self, inputs: Tensor, grid: Grid, mask: Tensor | None, time: Tensor | None) -> Tensor:
        x = self.embed(with_time(inputs, time))
        for block in self.blocks:
            x = block(x, mask)
        return x
