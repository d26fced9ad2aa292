"""Simple MLP: each point for itself."""

from itertools import pairwise

from torch import Tensor, nn

from aerosurrogate.model.baselines.blocks import Sizes, channels_in, with_time
from aerosurrogate.model.interface import Grid, Interface, Model


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
