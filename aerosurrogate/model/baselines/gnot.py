"""GNOT-like (Hao et al. 2023): normalised linear attention, and MLPs among which a point's position chooses softly."""

import functools

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from aerosurrogate.model.baselines.blocks import AttentionSizes, Blocks, Summing, joined, masked, split
from aerosurrogate.model.interface import MLP, Interface


class GnotOptions(AttentionSizes):
    kind: str = "gnot"
    experts: PositiveInt = 3


class LinearAttention(Summing):
    def __init__(self, config: AttentionSizes) -> None:
        super().__init__()
        C, self.heads = config.channels, config.heads
        self.project, self.out = nn.Linear(C, 3 * C), nn.Linear(C, C)

    def reduce(self, x: Tensor, mask: Tensor | None) -> Tensor:
        _, k, v = (split(part, self.heads) for part in self.project(x).chunk(3, dim=-1))  # [B, H, N, D]
        k = masked(k.softmax(-1), None if mask is None else mask[:, None])
        return torch.cat([k.mT @ v, k.sum(2)[..., None]], dim=-1)  # [B, H, D, D + 1]

    def update(self, x: Tensor, sums: Tensor) -> Tensor:
        q = split(self.project(x).chunk(3, dim=-1)[0], self.heads).softmax(-1)
        given = q @ sums  # [B, H, n, D + 1]
        return self.out(joined(given[..., :-1] / given[..., -1:].clamp_min(1e-6)))


class Experts(nn.Module):
    def __init__(self, config: GnotOptions, dimensions: int) -> None:
        super().__init__()
        C, self.dimensions = config.channels, dimensions
        self.gate = MLP(dimensions, C, config.experts)
        self.each = nn.ModuleList(MLP(C, C * config.mlp_ratio, C) for _ in range(config.experts))

    def forward(self, z: Tensor, inputs: Tensor) -> Tensor:
        gates = self.gate(inputs[..., : self.dimensions]).softmax(-1)  # [B, N, experts]
        weighed = [gate * expert(z) for gate, expert in zip(gates.split(1, dim=-1), self.each, strict=True)]
        return torch.stack(weighed).sum(0)


class Gnot(Blocks):
    Config = GnotOptions

    def __init__(self, interface: Interface, config: GnotOptions) -> None:
        experts = functools.partial(Experts, config, interface.dimensions)
        super().__init__(interface, config, lambda: LinearAttention(config), experts)
