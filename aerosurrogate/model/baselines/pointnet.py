"""PointNet (Qi et al. 2017): each point beside the largest features of all points."""

import torch
from torch import Tensor, nn

from aerosurrogate.model.baselines.blocks import Sizes, channels_in, masked, with_time
from aerosurrogate.model.interface import MLP, Grid, Interface, Model


class PointNetOptions(Sizes):
    kind: str = "pointnet"


class PointNet(Model):
    Config = PointNetOptions

    def __init__(self, interface: Interface, config: PointNetOptions) -> None:
        super().__init__(interface, config)
        C = config.channels
        self.local = nn.Sequential(MLP(channels_in(interface), C, C), nn.GELU())
        self.shared = MLP(C, 2 * C, 4 * C)
        self.out = nn.Sequential(MLP(5 * C, 2 * C, C), nn.GELU())
        self.add_heads(C)

    def features(self, inputs: Tensor, grid: Grid, mask: Tensor | None, time: Tensor | None) -> Tensor:
        local = self.local(with_time(inputs, time))
        whole = masked(self.shared(local), mask, -torch.inf).amax(dim=1, keepdim=True)  # [B, 1, 4 C]
        return self.out(torch.cat([local, whole.expand(-1, inputs.shape[1], -1)], dim=-1))
