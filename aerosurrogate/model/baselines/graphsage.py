"""GraphSAGE (Hamilton et al. 2017): each layer sees a point and the mean of its neighbours, here the nearest points."""

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from aerosurrogate.model.baselines.blocks import Sizes, channels_in, with_time
from aerosurrogate.model.baselines.neighbours import gathered, nearest
from aerosurrogate.model.interface import MLP, Grid, Interface, Model


class GraphSageOptions(Sizes):
    kind: str = "graphsage"
    neighbours: PositiveInt = 8


class GraphSage(Model):
    Config = GraphSageOptions

    def __init__(self, interface: Interface, config: GraphSageOptions) -> None:
        super().__init__(interface, config)
        C = config.channels
        self.neighbours = config.neighbours
        self.embed = MLP(channels_in(interface), 2 * C, C)
        self.blocks = nn.ModuleList(nn.Linear(2 * C, C) for _ in range(config.layers))
        self.norms = nn.ModuleList(nn.LayerNorm(C) for _ in range(config.layers))
        self.add_heads(C)

    def features(self, inputs: Tensor, grid: Grid, mask: Tensor | None, time: Tensor | None) -> Tensor:
        near = nearest(inputs[..., : self.interface.dimensions], mask, self.neighbours)
        x = self.embed(with_time(inputs, time))
        for norm, layer in zip(self.norms, self.blocks, strict=True):
            z = norm(x)
            x = x + F.gelu(layer(torch.cat([z, gathered(z, near).mean(2)], dim=-1)))
        return x
