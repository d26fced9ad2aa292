"""Transolver++-like (Luo et al. 2025): each point has a temperature of its own, and slices are drawn by Gumbel noise.

The noise is for training alone; the published program keeps it when it predicts.
"""

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from aerosurrogate.model.baselines.blocks import AttentionSizes, Blocks, joined, masked, split
from aerosurrogate.model.interface import Interface

LOWEST = 0.01  # temperature


class TransolverPlusOptions(AttentionSizes):
    kind: str = "transolver++"
    slices: PositiveInt = 64


class AdaptiveSlices(nn.Module):
    def __init__(self, config: TransolverPlusOptions) -> None:
        super().__init__()
        C, self.heads = config.channels, config.heads
        D = C // config.heads
        self.values, self.out = nn.Linear(C, C), nn.Linear(C, C)
        self.logits = nn.Linear(D, config.slices)
        nn.init.orthogonal_(self.logits.weight)
        self.warmth = nn.Linear(D, 1)
        self.base = nn.Parameter(torch.full((config.heads, 1, 1), 0.5))
        self.attend = nn.Linear(D, 3 * D, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        v = split(self.values(x), self.heads)  # [B, H, N, D]
        logits = self.logits(v)
        if self.training:
            logits = logits - torch.empty_like(logits).exponential_().clamp_min(1e-9).log()  # Gumbel's distribution
        temperature = (self.base + F.gelu(self.warmth(v))).clamp_min(LOWEST)
        w = masked((logits / temperature).softmax(-1), None if mask is None else mask[:, None])  # [B, H, N, M]
        tokens = w.mT @ v / (w.sum(2)[..., None] + 1e-5)
        mixed = F.scaled_dot_product_attention(*self.attend(tokens).chunk(3, dim=-1))
        return self.out(joined(w @ mixed))


class TransolverPlus(Blocks):
    Config = TransolverPlusOptions

    def __init__(self, interface: Interface, config: TransolverPlusOptions) -> None:
        super().__init__(interface, config, lambda: AdaptiveSlices(config))
