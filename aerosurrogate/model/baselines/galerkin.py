"""Galerkin transformer (Cao 2021): attention without a softmax, keys and values normalised, so that it is linear."""

from torch import Tensor, nn

from aerosurrogate.model.baselines.blocks import AttentionSizes, Blocks, joined, masked, split
from aerosurrogate.model.interface import Interface


class GalerkinOptions(AttentionSizes):
    kind: str = "galerkin"


class GalerkinAttention(nn.Module):
    def __init__(self, config: GalerkinOptions) -> None:
        super().__init__()
        C, self.heads = config.channels, config.heads
        self.project = nn.Linear(C, 3 * C)
        self.key_norm, self.value_norm = (nn.LayerNorm(C // config.heads) for _ in range(2))
        self.out = nn.Linear(C, C)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (split(part, self.heads) for part in self.project(x).chunk(3, dim=-1))  # [B, H, N, D]
        there = None if mask is None else mask[:, None]
        count = x.shape[1] if mask is None else mask.sum(1)[:, None, None, None]
        k, v = masked(self.key_norm(k), there), masked(self.value_norm(v), there)
        return self.out(joined(q @ (k.mT @ v) / count))


class Galerkin(Blocks):
    Config = GalerkinOptions

    def __init__(self, interface: Interface, config: GalerkinOptions) -> None:
        super().__init__(interface, config, lambda: GalerkinAttention(config))
