"""Plain transformer (Vaswani et al. 2017): full attention among the points, quadratic in their number."""

import torch.nn.functional as F
from torch import Tensor, nn

from aerosurrogate.model.baselines.blocks import AttentionSizes, Blocks, joined, split
from aerosurrogate.model.interface import Interface


class TransformerOptions(AttentionSizes):
    kind: str = "transformer"


class FullAttention(nn.Module):
    def __init__(self, config: TransformerOptions) -> None:
        super().__init__()
        C, self.heads = config.channels, config.heads
        self.project, self.out = nn.Linear(C, 3 * C), nn.Linear(C, C)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (split(part, self.heads) for part in self.project(x).chunk(3, dim=-1))  # [B, H, N, D]
        there = None if mask is None else mask[:, None, None]
        return self.out(joined(F.scaled_dot_product_attention(q, k, v, attn_mask=there)))


class Transformer(Blocks):
    Config = TransformerOptions

    def __init__(self, interface: Interface, config: TransformerOptions) -> None:
        super().__init__(interface, config, lambda: FullAttention(config))
