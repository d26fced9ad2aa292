"""MeshGraphNet (Pfaff et al. 2021): messages along the edges to the nearest points, whose states are kept and updated.

Neighbours stand in for the mesh's own edges, which not all tasks have.
"""

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from aerosurrogate.model.baselines.blocks import Sizes, channels_in, with_time
from aerosurrogate.model.baselines.neighbours import gathered, nearest
from aerosurrogate.model.interface import MLP, Grid, Interface, Model


class MeshGraphNetOptions(Sizes):
    kind: str = "meshgraphnet"
    neighbours: PositiveInt = 6


class Messages(nn.Module):
    """One round: each edge sees its two ends, each point the mean of its edges."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.edge_norm, self.point_norm = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.edge = MLP(3 * channels, hidden, channels)
        self.point = MLP(2 * channels, hidden, channels)

    def forward(self, x: Tensor, edges: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, N, C], edges [B, N, K, C], near [B, N, K]: both, updated."""
        z = self.point_norm(x)
        own = z[:, :, None].expand(-1, -1, near.shape[-1], -1)
        edges = edges + self.edge(torch.cat([self.edge_norm(edges), own, gathered(z, near)], dim=-1))
        return x + self.point(torch.cat([z, edges.mean(2)], dim=-1)), edges


class MeshGraphNet(Model):
    Config = MeshGraphNetOptions

    def __init__(self, interface: Interface, config: MeshGraphNetOptions) -> None:
        super().__init__(interface, config)
        C, hidden = config.channels, config.channels * config.mlp_ratio
        self.neighbours = config.neighbours
        self.embed = MLP(channels_in(interface), 2 * C, C)
        self.embed_edges = MLP(interface.dimensions + 1, C, C)
        self.blocks = nn.ModuleList(Messages(C, hidden) for _ in range(config.layers))
        self.add_heads(C)

    def features(self, inputs: Tensor, grid: Grid, mask: Tensor | None, time: Tensor | None) -> Tensor:
        places = inputs[..., : self.interface.dimensions]
        near = nearest(places, mask, self.neighbours)
        apart = gathered(places, near) - places[:, :, None]  # [B, N, K, d]
        edges = self.embed_edges(torch.cat([apart, apart.norm(dim=-1, keepdim=True)], dim=-1))
        x = self.embed(with_time(inputs, time))
        for block in self.blocks:
            x, edges = block(x, edges, near)
        return x
