"""Transolver++-like (Luo et al. 2025): each point has a temperature of its own, and slices are drawn by Gumbel noise.

The noise is for training alone; the published program keeps it when it predicts.
"""

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from aerosurrogate.model.baselines.blocks import AttentionSizes, Blocks, Summing, joined, masked, split
from aerosurrogate.model.interface import Interface

LOWEST = 0.01  # temperature


class TransolverPlusOptions(AttentionSizes):
    kind: str = "transolver++"
    slices: PositiveInt = 64


class AdaptiveSlices(Summing):
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

    def weights(self, v: Tensor) -> Tensor:
        """Of points with values v [B, H, N, D] in the slices: [B, H, N, M]."""
        logits = self.logits(v)
        if self.training:
            logits = logits - torch.empty_like(logits).exponential_().clamp_min(1e-9).log()  # Gumbel's distribution
        temperature = (self.base + F.gelu(self.warmth(v))).clamp_min(LOWEST)
        return (logits / temperature).softmax(-1)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        v = split(self.values(x), self.heads)
        w = self.weights(v)  # drawn once, for summing and for handing out
        return self.out(joined(w @ self.mixed(self.summed(v, w, mask))))

    def summed(self, v: Tensor, w: Tensor, mask: Tensor | None) -> Tensor:
        w = masked(w, None if mask is None else mask[:, None])
        return torch.cat([w.mT @ v, w.sum(2)[..., None]], dim=-1)  # [B, H, M, D + 1]

    def mixed(self, sums: Tensor) -> Tensor:
        """Attention among the tokens that the sums make: [B, H, M, D]."""
        tokens = sums[..., :-1] / (sums[..., -1:] + 1e-5)
        return F.scaled_dot_product_attention(*self.attend(tokens).chunk(3, dim=-1))

    def reduce(self, x: Tensor, mask: Tensor | None) -> Tensor:
        v = split(self.values(x), self.heads)
        return self.summed(v, self.weights(v), mask)

    def update(self, x: Tensor, sums: Tensor) -> Tensor:
        return self.out(joined(self.weights(split(self.values(x), self.heads)) @ self.mixed(sums)))


class TransolverPlus(Blocks):
    Config = TransolverPlusOptions

    def __init__(self, interface: Interface, config: TransolverPlusOptions) -> None:
        super().__init__(interface, config, lambda: AdaptiveSlices(config))
