"""FNO (Li et al. 2021) in two dimensions: a regular grid's lowest waves are mixed by matrices of their own."""

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from aerosurrogate.errors import InputError
from aerosurrogate.model.baselines.blocks import channels_in, with_time
from aerosurrogate.model.interface import MLP, Grid, Interface, Model, Options


class FnoOptions(Options):
    kind: str = "fno2d"
    layers: PositiveInt = 4
    width: PositiveInt = 32  # channels; each wave has a matrix of its own, so that few make a large model
    modes: PositiveInt = 12  # waves kept along each axis, of either sign along the first


class Waves(nn.Module):
    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(2, modes, modes, channels, channels, 2) / channels)  # signs, k, l, C, C
        self.pointwise = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, a, b, C]."""
        a, b = x.shape[1:3]
        spectrum = torch.fft.rfft2(x.float(), dim=(1, 2), norm="ortho")
        k, m = min(self.modes, a // 2), min(self.modes, b // 2 + 1)
        kept = torch.zeros_like(spectrum)
        weight = torch.view_as_complex(self.weight)
        for sign, rows in enumerate((slice(0, k), slice(a - k, a))):
            kept[:, rows, :m] = torch.einsum("bklc,klcd->bkld", spectrum[:, rows, :m], weight[sign, :k, :m])
        return torch.fft.irfft2(kept, s=(a, b), dim=(1, 2), norm="ortho") + self.pointwise(x)


class Fno2d(Model):
    Config = FnoOptions

    def __init__(self, interface: Interface, config: FnoOptions) -> None:
        super().__init__(interface, config)
        if interface.dimensions != 2:
            raise InputError("fno2d has two dimensions", seen=interface.dimensions, remedy="choose another model.kind")
        C = config.width
        self.embed = MLP(channels_in(interface), 2 * C, C)
        self.layers = nn.ModuleList(Waves(C, config.modes) for _ in range(config.layers))
        self.out = nn.Sequential(nn.Linear(C, 4 * C), nn.GELU())
        self.add_heads(4 * C)

    def features(self, inputs: Tensor, grid: Grid, mask: Tensor | None, time: Tensor | None) -> Tensor:
        if grid is None or mask is not None:
            raise InputError("fno2d works on structured meshes of one size", remedy="choose another model.kind")
        x = self.embed(with_time(inputs, time)).unflatten(1, grid)
        for layer in self.layers:
            x = x + F.gelu(layer(x))
        return self.out(x.flatten(1, 2))
