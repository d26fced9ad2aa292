"""Particles: a graph network whose neighbourhoods move with the particles, with Transolver layers beside it or without.

After Sanchez-Gonzalez et al. (2020) and the paper's Lagrangian experiment. The inputs end with the positions of the
last frames, x and y (and z) of each, the youngest last; the answer is the next frame's positions. What is learned is
the acceleration, from the velocities, the distances to the walls of the unit box and the particles within the radius.
"""

import torch
import torch.distributed as dist
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from aerosurrogate.errors import InputError
from aerosurrogate.model.architecture import TransolverConfig
from aerosurrogate.model.baselines.blocks import AttentionSizes
from aerosurrogate.model.baselines.meshgraphnet import Messages
from aerosurrogate.model.baselines.neighbours import gathered, nearest
from aerosurrogate.model.folding import fold
from aerosurrogate.model.interface import MLP, Grid, Interface, Model
from aerosurrogate.model.transolver import Block

VELOCITY, ACCELERATION = 0.1, 0.02  # radii a frame, and a frame squared, that the network sees as 1


class ParticlesOptions(AttentionSizes):
    kind: str = "particles"
    layers: PositiveInt = 4
    channels: PositiveInt = 64
    heads: PositiveInt = 4
    slices: PositiveInt = 16
    transolver: bool = True  # a Transolver layer beside each round of messages
    radius: PositiveFloat = 0.05  # within which particles act on each other
    neighbours: PositiveInt = 16  # the nearest so many of them


class Round(nn.Module):
    """Messages among neighbours and, beside them, attention among learned states of all particles."""

    def __init__(self, config: ParticlesOptions) -> None:
        super().__init__()
        self.messages = Messages(config.channels, config.channels * config.mlp_ratio)
        sizes = config.model_dump(include={"channels", "heads", "slices", "mlp_ratio"})
        shape = TransolverConfig(layers=1, dropout=0.0, **sizes)
        self.block = Block(shape, config.slices) if config.transolver else None

    def forward(
        self, x: Tensor, edges: Tensor, near: Tensor, close: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        beside = 0.0 if self.block is None else self.block(x, fold(self.block, x.dtype), mask, None) - x
        x, edges = self.messages(x, edges, near)
        return x + beside, edges * close


class Particles(Model):
    Config = ParticlesOptions
    config: ParticlesOptions

    def __init__(self, interface: Interface, config: ParticlesOptions) -> None:
        super().__init__(interface, config)
        d = interface.dimensions
        self.frames, rest = divmod(interface.inputs - d, d)
        if rest or self.frames < 2 or interface.outputs != d:
            seen = f"{interface.inputs} inputs, {interface.outputs} outputs in {d} dimensions"
            raise InputError("particles answer positions from some frames of them", seen=seen)
        C = config.channels
        self.embed = MLP((self.frames - 1) * d + 2 * d, 2 * C, C)
        self.embed_edges = MLP(d + 1, C, C)
        self.blocks = nn.ModuleList(Round(config) for _ in range(config.layers))
        self.add_heads(C)

    def features(self, inputs: Tensor, grid: Grid, mask: Tensor | None, time: Tensor | None) -> Tensor:
        d, radius = self.interface.dimensions, self.config.radius
        frames = inputs[..., d:].unflatten(-1, (self.frames, d))  # [B, N, frames, d]
        now = frames[..., -1, :]
        velocities = frames.diff(dim=-2).flatten(-2) / (VELOCITY * radius)
        walls = (torch.cat([now, 1 - now], dim=-1) / radius).clamp(-1, 1)
        x = self.embed(torch.cat([velocities, walls], dim=-1))
        near = nearest(now, mask, self.config.neighbours)
        apart = (gathered(now, near) - now[:, :, None]) / radius
        distance = apart.norm(dim=-1, keepdim=True)
        close = (distance < 1).to(x.dtype)  # [B, N, K, 1]
        edges = self.embed_edges(torch.cat([apart, distance], dim=-1)) * close
        for block in self.blocks:
            x, edges = block(x, edges, near, close, mask)
        return x

    def forward(
        self,
        inputs: Tensor,
        grid: Grid = None,
        mask: Tensor | None = None,
        time: Tensor | None = None,
        skin: Tensor | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> Tensor:
        """The next positions [B, N, d]; see Model.forward."""
        d = self.interface.dimensions
        learned = super().forward(inputs, grid, mask, time, None, group)
        assert isinstance(learned, Tensor)
        now, before = inputs[..., -d:], inputs[..., -2 * d : -d]
        return 2 * now - before + ACCELERATION * self.config.radius * learned
