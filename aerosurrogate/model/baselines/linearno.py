"""LinearNO-like (2025): points are summed into slices and handed out again, with no attention among the slices.

Summing and handing out have softmax weights of their own.
"""

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from aerosurrogate.model.baselines.blocks import AttentionSizes, Blocks, Summing, joined, masked, split
from aerosurrogate.model.interface import Interface


class LinearNoOptions(AttentionSizes):
    kind: str = "linearno"
    slices: PositiveInt = 64


class SliceSums(Summing):
    def __init__(self, config: LinearNoOptions) -> None:
        super().__init__()
        C, self.heads = config.channels, config.heads
        D = C // config.heads
        self.project, self.out = nn.Linear(C, 3 * C), nn.Linear(C, C)
        self.give, self.take = nn.Linear(D, config.slices), nn.Linear(D, config.slices)

    def reduce(self, x: Tensor, mask: Tensor | None) -> Tensor:
        _, k, v = (split(part, self.heads) for part in self.project(x).chunk(3, dim=-1))  # [B, H, N, D]
        give = masked(self.give(k).softmax(-1), None if mask is None else mask[:, None])  # [B, H, N, M]
        return torch.cat([give.mT @ v, give.sum(2)[..., None]], dim=-1)  # [B, H, M, D + 1]

    def update(self, x: Tensor, sums: Tensor) -> Tensor:
        q = split(self.project(x).chunk(3, dim=-1)[0], self.heads)
        tokens = sums[..., :-1] / (sums[..., -1:] + 1e-5)
        return self.out(joined(self.take(q).softmax(-1) @ tokens))


class LinearNo(Blocks):
    Config = LinearNoOptions

    def __init__(self, interface: Interface, config: LinearNoOptions) -> None:
        super().__init__(interface, config, lambda: SliceSums(config))
