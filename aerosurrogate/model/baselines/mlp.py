"""Simple MLP: each point for itself."""

from collections.abc import Iterable
from itertools import pairwise

import torch
from torch import Tensor, nn

from aerosurrogate.model.baselines.blocks import Sizes, channels_in, with_time
from aerosurrogate.model.interface import Grid, Interface, Model, States, skin_sums


class MlpOptions(Sizes):
    kind: str = "mlp"


class PointwiseMlp(Model):
    """Layers of twice the channels, so that it has about the weights of the others."""

    Config = MlpOptions

    def __init__(self, interface: Interface, config: MlpOptions) -> None:
        super().__init__(interface, config)
        widths = [channels_in(interface), *[2 * config.channels] * config.layers]
        self.net = nn.Sequential(*(part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.GELU())))
        self.add_heads(widths[-1])

    def features(self, inputs: Tensor, grid: Grid, mask: Tensor | None, time: Tensor | None) -> Tensor:
        return self.net(with_time(inputs, time))

    @property
    def without_states(self) -> str:
        return ""

    @torch.no_grad()
    def states(self, chunks: Iterable[Tensor | tuple[Tensor, Tensor]], time: Tensor | None = None) -> States:
        """Nothing is to be known of a body, but what its skin gives."""
        pairs = [chunk for chunk in chunks if isinstance(chunk, tuple)]
        marked = [skin_sums(self.norm(self.net(with_time(part, time))), skin) for part, skin in pairs]
        coefficients, pooled = self.of_skin(torch.stack(marked).sum(0)) if marked else (None, None)
        return States((), time, pooled, coefficients)

    @torch.no_grad()
    def decode(self, points: Tensor, states: States) -> Tensor:
        return self.head(self.norm(self.net(with_time(points, states.time))))
