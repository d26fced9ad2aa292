"""GNOT-like (Hao et al. 2023): normalised linear attention, and MLPs among which a point's position chooses softly."""

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from aerosurrogate.model.baselines.blocks import AttentionSizes, channels_in, joined, masked, split, with_time
from aerosurrogate.model.interface import MLP, Grid, Interface, Model


class GnotOptions(AttentionSizes):
    kind: str = "gnot"
    experts: PositiveInt = 3


class LinearAttention(nn.Module):
    def __init__(self, config: AttentionSizes) -> None:
        super().__init__()
        C, self.heads = config.channels, config.heads
        self.project, self.out = nn.Linear(C, 3 * C), nn.Linear(C, C)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (split(part, self.heads) for part in self.project(x).chunk(3, dim=-1))  # [B, H, N, D]
        q, k = q.softmax(-1), masked(k.softmax(-1), None if mask is None else mask[:, None])
        total = q @ k.sum(2, keepdim=True).mT  # [B, H, N, 1]
        return self.out(joined(q @ (k.mT @ v) / total.clamp_min(1e-6)))


class GatedBlock(nn.Module):
    def __init__(self, config: GnotOptions) -> None:
        super().__init__()
        C = config.channels
        self.norm1, self.norm2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.attention = LinearAttention(config)
        self.experts = nn.ModuleList(MLP(C, C * config.mlp_ratio, C) for _ in range(config.experts))

    def forward(self, x: Tensor, mask: Tensor | None, gates: Tensor) -> Tensor:
        """x [B, N, C], gates [B, N, experts]."""
        x = x + self.attention(masked(self.norm1(x), mask), mask)
        z = self.norm2(x)
        answers = torch.stack([expert(z) for expert in self.experts], dim=-1)  # [B, N, C, experts]
        return x + (answers @ gates[..., None])[..., 0]


class Gnot(Model):
    Config = GnotOptions

    def __init__(self, interface: Interface, config: GnotOptions) -> None:
        super().__init__(interface, config)
        C = config.channels
        self.embed = MLP(channels_in(interface), 2 * C, C)
        self.gate = MLP(interface.dimensions, C, config.experts)
        self.blocks = nn.ModuleList(GatedBlock(config) for _ in range(config.layers))
        self.add_heads(C)

    def features(self, inputs: Tensor, grid: Grid, mask: Tensor | None, time: Tensor | None) -> Tensor:
        gates = self.gate(inputs[..., : self.interface.dimensions]).softmax(-1)
        x = self.embed(with_time(inputs, time))
        for block in self.blocks:
            x = block(x, mask, gates)
        return x
