"""Galerkin transformer (Cao 2021): attention without a softmax, keys and values normalised, so that it is linear."""

import torch
from torch import Tensor, nn

from aerosurrogate.model.baselines.blocks import AttentionSizes, Blocks, Summing, joined, split
from aerosurrogate.model.interface import Interface


class GalerkinOptions(AttentionSizes):
    kind: str = "galerkin"


class GalerkinAttention(Summing):
    def __init__(self, config: GalerkinOptions) -> None:
        super().__init__()
        C, self.heads = config.channels, config.heads
        self.project = nn.Linear(C, 3 * C)
        self.key_norm, self.value_norm = (nn.LayerNorm(C // config.heads) for _ in range(2))
        self.out = nn.Linear(C, C)

    def reduce(self, x: Tensor, mask: Tensor | None) -> Tensor:
        _, k, v = (split(part, self.heads) for part in self.project(x).chunk(3, dim=-1))  # [B, H, N, D]
        there = x.new_ones(x.shape[:2]) if mask is None else mask.to(x.dtype)  # [B, N]
        k, v = self.key_norm(k) * there[:, None, :, None], self.value_norm(v)
        counts = there.sum(1)[:, None, None, None].expand(-1, self.heads, k.shape[-1], 1)
        return torch.cat([k.mT @ v, counts], dim=-1)  # [B, H, D, D + 1]

    def update(self, x: Tensor, sums: Tensor) -> Tensor:
        q = split(self.project(x).chunk(3, dim=-1)[0], self.heads)
        return self.out(joined(q @ (sums[..., :-1] / sums[..., -1:])))


class Galerkin(Blocks):
    Config = GalerkinOptions

    def __init__(self, interface: Interface, config: GalerkinOptions) -> None:
        super().__init__(interface, config, lambda: GalerkinAttention(config))
