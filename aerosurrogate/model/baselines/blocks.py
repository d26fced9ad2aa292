"""What the transformers among the baselines share: embedding, blocks of mixing and MLP, heads; the mixing differs."""

from collections.abc import Callable, Iterable
from typing import Self, cast

import torch
from pydantic import PositiveInt
from pydantic import model_validator as validator
from torch import Tensor, nn

from aerosurrogate.model.interface import MLP, Grid, Interface, Model, Options, States, skin_sums


class Sizes(Options):
    """How large a baseline is."""

    layers: PositiveInt = 8
    channels: PositiveInt = 128
    mlp_ratio: PositiveInt = 1


class AttentionSizes(Sizes):
    heads: PositiveInt = 8

    @validator(mode="after")
    def _consistent(self) -> Self:
        if self.channels % self.heads:
            raise ValueError(f"channels ({self.channels}) must be a multiple of heads ({self.heads})")
        return self


def with_time(inputs: Tensor, time: Tensor | None) -> Tensor:
    """Inputs [B, N, c], the time [B] as one more channel where there is one."""
    if time is None:
        return inputs
    return torch.cat([inputs, time[:, None, None].expand(-1, inputs.shape[1], 1)], dim=-1)


def channels_in(interface: Interface) -> int:
    """Channels of `with_time`."""
    return interface.inputs + interface.time_input


def masked(x: Tensor, mask: Tensor | None, value: float = 0.0) -> Tensor:
    """x [B, N, c] with `value` where there is no point."""
    return x if mask is None else x.masked_fill(~mask[..., None], value)


def split(x: Tensor, heads: int) -> Tensor:
    """[B, N, C] -> [B, H, N, D]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """[B, H, N, D] -> [B, N, C]."""
    return x.transpose(1, 2).flatten(2)


class Summing(nn.Module):
    """A mixing that reduces the points to sums over them and gives each point its update from these alone."""

    def reduce(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """What the points x [B, N, C] add to the sums."""
        raise NotImplementedError

    def update(self, x: Tensor, sums: Tensor) -> Tensor:
        """Updates [B, n, C] of any points x [B, n, C]."""
        raise NotImplementedError

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.update(x, self.reduce(x, mask))


class Block(nn.Module):
    def __init__(self, config: Sizes, mixing: nn.Module, mlp: nn.Module | None = None) -> None:
        super().__init__()
        C = config.channels
        self.norm1, self.mixing = nn.LayerNorm(C), mixing
        self.norm2, self.mlp = nn.LayerNorm(C), mlp or MLP(C, C * config.mlp_ratio, C)

    def forward(self, x: Tensor, inputs: Tensor, mask: Tensor | None) -> Tensor:
        return self.finish(x, inputs, self.mixing(masked(self.norm1(x), mask), mask))

    def finish(self, x: Tensor, inputs: Tensor, update: Tensor) -> Tensor:
        """Points x [B, n, C] with their inputs, given what the mixing makes of them."""
        x = x + update
        z = self.norm2(x)
        return x + (self.mlp(z) if isinstance(self.mlp, MLP) else self.mlp(z, inputs))

    def reduce(self, x: Tensor) -> Tensor:
        return cast(Summing, self.mixing).reduce(self.norm1(x), None)

    def decode(self, x: Tensor, inputs: Tensor, sums: Tensor) -> Tensor:
        return self.finish(x, inputs, cast(Summing, self.mixing).update(self.norm1(x), sums))


class Blocks(Model):
    """A model that mixes its points in each block; a mixing takes x [B, N, C] and the mask, and gives [B, N, C].

    Where the mixing is a sum over points, the sums of all layers are the model's states.
    """

    config: Sizes

    def __init__(
        self,
        interface: Interface,
        config: Sizes,
        mixing: Callable[[], nn.Module],
        mlp: Callable[[], nn.Module | None] = lambda: None,
    ) -> None:
        super().__init__(interface, config)
        C = config.channels
        self.embed = MLP(channels_in(interface), 2 * C, C)
        self.blocks = nn.ModuleList(Block(config, mixing(), mlp()) for _ in range(config.layers))
        self.add_heads(C)

    def features(self, inputs: Tensor, grid: Grid, mask: Tensor | None, time: Tensor | None) -> Tensor:
        x = self.embed(with_time(inputs, time))
        for block in self.blocks:
            x = block(x, inputs, mask)
        return x

    @property
    def without_states(self) -> str:
        return "" if isinstance(cast(Block, self.blocks[0]).mixing, Summing) else super().without_states

    @torch.no_grad()
    def states(self, chunks: Iterable[Tensor | tuple[Tensor, Tensor]], time: Tensor | None = None) -> States:
        self.require_states()
        parts = [chunk if isinstance(chunk, tuple) else (chunk, None) for chunk in chunks]
        inputs, skins = [part for part, _ in parts], [skin for _, skin in parts]
        found = [self.embed(with_time(part, time)) for part in inputs]
        tokens = []
        for block in map(as_block, self.blocks):
            sums = torch.stack([block.reduce(x) for x in found]).sum(0)
            found = [block.decode(x, part, sums) for x, part in zip(found, inputs, strict=True)]
            tokens.append(sums)
        marked = [skin_sums(self.norm(x), skin) for x, skin in zip(found, skins, strict=True) if skin is not None]
        coefficients, pooled = self.of_skin(torch.stack(marked).sum(0)) if marked else (None, None)
        return States(tuple(tokens), time, pooled, coefficients)

    @torch.no_grad()
    def decode(self, points: Tensor, states: States) -> Tensor:
        self.require_states()
        x = self.embed(with_time(points, states.time))
        for block, sums in zip(map(as_block, self.blocks), states.tokens, strict=True):
            x = block.decode(x, points, sums)
        return self.head(self.norm(x))


def as_block(module: nn.Module) -> Block:
    return cast(Block, module)
