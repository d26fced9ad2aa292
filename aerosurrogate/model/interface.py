"""What training and prediction ask of a model, whatever its kind.

A kind is a class derived from `Model` with a table of options of its own, `Config`. It has to say how points become
features, `features`; heads, coefficients and the mean over the skin follow from those. A kind that can reduce a body to
something small enough to keep, and answer anywhere else from that, also offers `states` and `decode`.

Letters in shape comments: B batch, N points, n points of a tile, C channels.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from aerosurrogate.errors import InputError
from aerosurrogate.tables import Table

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
    "elu": F.elu,
    "leaky_relu": functools.partial(F.leaky_relu, negative_slope=0.1),
}

Grid = tuple[int, ...] | None  # sides of a structured mesh, whose points come in row-major order


@dataclass(frozen=True)
class Interface:
    """What the data of a task ask of a model.

    inputs        channels of the call's inputs: positions first, then input functions
    outputs       channels of the predicted fields
    dimensions    how many of the inputs are positions, 2 or 3
    time_input    whether the time is an input of its own
    coefficients  global outputs, from the mean features of the skin; 0 for no such head
    """

    inputs: int
    outputs: int
    dimensions: int
    time_input: bool = False
    coefficients: int = 0

    def __post_init__(self) -> None:
        if self.dimensions not in (2, 3) or self.inputs < self.dimensions or self.outputs < 1 or self.coefficients < 0:
            rule = "2 or 3 dimensions, inputs that begin with as many positions, and at least 1 output"
            raise InputError("no model has this interface", seen=self, remedy=rule)


class Options(Table):
    """The architecture's options: the recipe's `[model]`."""

    kind: str  # a name of registry.KINDS, or "package.module:Class"


class Answer(NamedTuple):
    """What a call with `skin` gives."""

    fields: Tensor  # [B, N, outputs]
    coefficients: Tensor | None  # [B, coefficients], of a model that has this head
    pooled: Tensor  # mean features of the skin, [B, C]


class States(NamedTuple):
    """What is to be known of a body to decode any point around it: for a Transolver the mixed tokens of each layer."""

    tokens: tuple[Tensor, ...]  # [B, H, M, D] each
    time: Tensor | None = None  # [B], of a model with time_input
    pooled: Tensor | None = None  # as in Answer, where skin points were marked
    coefficients: Tensor | None = None
    recomputed: int = 0  # points whose features were computed again in every layer, see `Transolver.states`

    def of(self, i: int) -> "States":
        """Those of one body of the batch."""
        time, pooled, coefficients = (
            None if part is None else part[i : i + 1] for part in (self.time, self.pooled, self.coefficients)
        )
        return States(tuple(part[i : i + 1] for part in self.tokens), time, pooled, coefficients, self.recomputed)


class MLP(nn.Module):
    fused = False  # see folding.py

    def __init__(self, inputs: int, hidden: int, outputs: int, activation: str = "gelu") -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, hidden)
        self.out = nn.Linear(hidden, outputs)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.activation(self.hidden(x)))


class Model(nn.Module):
    """Fields at points from their positions and input functions."""

    Config: ClassVar[type[Options]]
    at_once: int = 1  # calls, in threads or processes of their own, that share the device's memory
    norm: nn.LayerNorm
    head: nn.Linear
    coefficients: MLP | None

    def __init__(self, interface: Interface, config: Options) -> None:
        super().__init__()
        self.interface, self.config = interface, config

    def add_heads(self, channels: int, activation: str = "gelu") -> None:
        """The last norm, the map from features to fields and, where the task asks for it, to coefficients."""
        outputs, coefficients = self.interface.outputs, self.interface.coefficients
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, outputs)
        self.coefficients = MLP(channels, channels, coefficients, activation) if coefficients else None

    def features(self, inputs: Tensor, grid: Grid, mask: Tensor | None, time: Tensor | None) -> Tensor:
        """Features [B, N, C] of the points; the arguments are those of `forward`."""
        raise NotImplementedError

    def forward(
        self,
        inputs: Tensor,
        grid: Grid = None,
        mask: Tensor | None = None,
        time: Tensor | None = None,
        skin: Tensor | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> Tensor | Answer:
        """Fields [B, N, outputs] at the points; with `skin`, an Answer that holds them and what the skin gives.

        inputs  [B, N, inputs]: positions, then input functions
        grid    sides of a structured mesh, N = prod(grid)
        mask    [B, N] bool: the points that are there, in a batch of meshes of unequal size
        time    [B], for a model with time_input
        skin    [B, N]: True, or a weight such as an area, at the points whose features are pooled
        group   a process group over which the points are spread: each process passes its share and gets the fields of
                these points as if it had passed them all
        """
        self.check_call(inputs, grid, time)
        if group is not None:
            raise InputError(
                "this kind of model needs all points of a case in one process",
                seen=f"model.kind = {self.config.kind}",
                remedy="--set training.shard_points=false",
            )
        return self.answer(
            self.features(inputs, grid, mask, time), skin if skin is None or mask is None else skin * mask
        )

    def answer(self, features: Tensor, skin: Tensor | None) -> Tensor | Answer:
        """What the heads make of features [B, N, C] of all points."""
        z = self.norm(features)
        return self.head(z) if skin is None else Answer(self.head(z), *self.of_skin(skin_sums(z, skin)))

    def of_skin(self, sums: Tensor) -> tuple[Tensor | None, Tensor]:
        """Coefficients and mean features of the skin from its sums [B, C + 1]."""
        pooled = (sums[:, :-1] / sums[:, -1:].clamp_min(torch.finfo(sums.dtype).tiny)).to(self.head.weight.dtype)
        return None if self.coefficients is None else self.coefficients(pooled), pooled

    @property
    def channels(self) -> int:
        """Of the features."""
        return self.head.in_features

    @property
    def without_states(self) -> str:
        """Why this model has no states; empty where it has."""
        return f"models of kind {self.config.kind} answer at all points in one call"

    def states(self, chunks: Iterable[Tensor | tuple[Tensor, Tensor]], time: Tensor | None = None) -> States:
        """Reduce the points of a body, inputs [B, n, inputs] or pairs of inputs and skin [B, n], to its states."""
        self.require_states()
        raise NotImplementedError

    def decode(self, points: Tensor, states: States) -> Tensor:
        """Fields [B, n, outputs] at any points [B, n, inputs] around the body that the states describe."""
        self.require_states()
        raise NotImplementedError

    def require_states(self) -> None:
        if reason := self.without_states:
            raise InputError("this model has no states", seen=reason, remedy="pass all points in one call of the model")

    def check_call(self, inputs: Tensor, grid: Grid, time: Tensor | None) -> None:
        """Raise where a call does not fit the interface."""
        d, channels = self.interface.dimensions, self.interface.inputs
        if inputs.ndim != 3 or inputs.shape[-1] != channels:
            shape, wanted = tuple(inputs.shape), f"[batch, points, {channels}]"
            raise InputError("inputs do not fit the model", seen=shape, remedy=f"pass a tensor of shape {wanted}")
        if grid is not None and (len(grid) != d or math.prod(grid) != inputs.shape[1]):
            seen, wanted = f"{grid} for {inputs.shape[1]} points", f"{d} sides with that product"
            raise InputError("grid does not fit the points", seen=seen, remedy=f"give {wanted}")
        if (time is not None) != self.interface.time_input:
            raise InputError("time is for models with time_input, which need it", seen=time)

    def hidden_parameters(self) -> Iterator[nn.Parameter]:
        """Weights that map hidden states to hidden states, which Muon steps are for: here those of `blocks`."""
        blocks = getattr(self, "blocks", None)
        return iter(()) if blocks is None else blocks.parameters()

    def document(self) -> dict[str, Any]:
        """The architecture as plain JSON values, from which `registry.build` makes it again."""
        return asdict(self.interface) | self.config.model_dump(mode="json")


def skin_sums(features: Tensor, skin: Tensor) -> Tensor:
    """Weighted sums [B, C + 1] over the skin of features [B, n, C], and of the weights [B, n] themselves."""
    weights = skin.to(features.dtype)[:, None]  # [B, 1, n]
    return torch.cat([weights @ features, weights.sum(-1, keepdim=True)], dim=-1)[:, 0]
