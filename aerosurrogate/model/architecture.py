"""What a Transolver is made of: the recipe's [model], checked."""

from typing import Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from aerosurrogate.model.interface import Options

DIMENSIONS = {"pointwise": (2, 3), "conv2d": (2,), "conv3d": (3,)}


class TransolverConfig(Options):
    """The architecture: the recipe's `[model]`."""

    kind: str = "transolver"  # others, with keys of their own: see CONTRIBUTING.md
    layers: PositiveInt = 8  # blocks of attention and MLP
    channels: PositiveInt = 128  # of a point's features
    heads: PositiveInt = 8  # of attention; divides the channels
    slices: PositiveInt | tuple[PositiveInt, ...] = 64  # slice tokens per head: one number, or one a layer
    mlp_ratio: PositiveInt = 1  # hidden channels of an MLP over the channels
    dropout: float = Field(0.0, ge=0, lt=1)  # part of the attention left out in training
    activation: Literal["gelu", "relu", "silu", "tanh", "elu", "leaky_relu"] = "gelu"  # of the MLPs
    projection: Literal["pointwise", "conv2d", "conv3d"] = "pointwise"  # for any points, or for structured meshes
    # Among learned slices or, as in the paper's ablations, fixed squares of a structured mesh or all points.
    attention: Literal["slices", "squares", "full"] = "slices"
    # Add each slice's token to what attention gives it, which at the start is a mean over all tokens.
    token_residual: bool = False
    # Side of the square of a structured mesh that a point sees ahead of attention (depthwise convolution); 0 is none.
    neighbourhood: NonNegativeInt = 0
    # Lowest waves of a structured mesh, along each axis, that each channel passes on by factors of its own ahead of
    # attention, so that a point sees the far field at once; 0 is none.
    waves: NonNegativeInt = 0
    periodic: bool = False  # convolutions go on at the opposite side of a structured mesh, as on a torus
    # The fields are what is added to the inputs' last channels: in a rollout, to the youngest of the frames before.
    increment: bool = False
    # Distances to a reference grid that spans unified_box: instead of the positions; beside the inputs, at the end; or
    # instead of the positions, those of a point's place on the index grid, which spans the unit box.
    unified_pos: Literal["none", "replace", "accompany", "index"] = "none"
    unified_box: tuple[tuple[float, float], ...] | None = None  # (low, high) for each dimension; none is the unit box
    unified_size: PositiveInt = 8  # points of the reference grid along a side
    placeholder: bool = True  # add a learned vector to every embedded point
    # The learned temperatures of the slice softmax are clamped to these; "none" leaves them free.
    temperature_bounds: tuple[PositiveFloat, PositiveFloat] | Literal["none"] | None = (0.1, 5.0)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        bounds, box = self.temperature_bounds, self.unified_box
        if self.channels % self.heads:
            raise ValueError(f"channels ({self.channels}) must be a multiple of heads ({self.heads})")
        if isinstance(self.slices, tuple) and len(self.slices) != self.layers:
            raise ValueError(f"slices has {len(self.slices)} numbers for {self.layers} layers")
        if isinstance(bounds, tuple) and bounds[0] > bounds[1]:
            raise ValueError(f"temperature_bounds {bounds} must be low, high")
        if self.token_residual and self.attention == "full":
            raise ValueError("token_residual is for slices and squares; full attention has a point's own features")
        if self.neighbourhood and (self.projection == "pointwise" or self.neighbourhood % 2 == 0):
            raise ValueError("neighbourhood is an odd number, for projection = conv2d or conv3d")
        if self.waves and self.projection != "conv2d":
            raise ValueError("waves is for projection = conv2d")
        if self.periodic and self.projection == "pointwise":
            raise ValueError("periodic is for projection = conv2d or conv3d")
        if box is not None and self.unified_pos not in ("replace", "accompany"):
            raise ValueError("unified_box is for unified_pos = replace or accompany")
        if box is not None and not all(low < high for low, high in box):
            raise ValueError(f"unified_box {box} must be pairs low < high")
        return self

    @property
    def slices_per_layer(self) -> tuple[int, ...]:
        return (self.slices,) * self.layers if isinstance(self.slices, int) else self.slices

    def distances(self, dimensions: int) -> int:
        """Channels that the distances to the reference grid add to the inputs, less the positions they replace."""
        count = self.unified_size**dimensions
        return {"none": 0, "accompany": count}.get(self.unified_pos, count - dimensions)
