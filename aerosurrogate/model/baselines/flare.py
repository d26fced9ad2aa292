"""FLARE-like (2025): learned tokens attend to the points, then the points to the tokens, in two fused calls."""

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from aerosurrogate.model.baselines.blocks import AttentionSizes, Blocks, joined, split
from aerosurrogate.model.interface import Interface


class FlareOptions(AttentionSizes):
    kind: str = "flare"
    tokens: PositiveInt = 64


class Routing(nn.Module):
    def __init__(self, config: FlareOptions) -> None:
        super().__init__()
        C, self.heads = config.channels, config.heads
        self.tokens = nn.Parameter(torch.randn(config.heads, config.tokens, C // config.heads))
        self.project, self.out = nn.Linear(C, 2 * C), nn.Linear(C, C)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        k, v = (split(part, self.heads) for part in self.project(x).chunk(2, dim=-1))  # [B, H, N, D]
        tokens = self.tokens.expand(len(x), -1, -1, -1)
        there = None if mask is None else mask[:, None, None]
        gathered = F.scaled_dot_product_attention(tokens, k, v, attn_mask=there, scale=1.0)
        return self.out(joined(F.scaled_dot_product_attention(k, tokens, gathered, scale=1.0)))


class Flare(Blocks):
    Config = FlareOptions

    def __init__(self, interface: Interface, config: FlareOptions) -> None:
        super().__init__(interface, config, lambda: Routing(config))
