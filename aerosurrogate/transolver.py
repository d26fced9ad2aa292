"""Transolver: a neural operator that attends among learned physical states instead of among mesh points.

H. Wu et al., "Transolver: A Fast Transformer Solver for PDEs on General Geometries", ICML 2024. From the top:

    TransolverConfig    the architecture, validated
    PhysicsAttention    points -> slice tokens -> attention among the tokens -> points
    Block               norm, attention, norm, MLP, with their residuals
    Transolver          embedding, blocks, heads; states and decoding; checkpoints of the authors' code
    at the end          gradients written out, sums over processes, precision

Letters in shape comments: B batch, N points, n points of a tile, C channels, H heads, D = C / H, M slices of a head.

A layer reduces all points to H * M tokens, mixes the tokens, and gives each point its update. The first is a sum over
points, and everything else here follows from that. The sum is taken tile by tile, so that a tile stays in the cache;
chunk by chunk, so that any number of points fits in memory; across processes, by an all-reduce of a few kB. And the
tokens of all layers, the states, are all it takes to evaluate the model at any other point.
"""

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from aerosurrogate.errors import InputError

TILE = 1024  # points that a processor works on at once: at 256 channels a tile is 1 MB
KEEP_ALL_TO = 2**13  # points of a training step up to which nothing is computed again in the backward pass
TILES_AGAIN_ABOVE = 2**16  # and beyond which whole tiles are
KEPT_FEATURES = 2**22  # points whose features `states` keeps from layer to layer: 4 GB at 256 channels
KEPT_WEIGHTS = 2**19  # points whose slice weights are kept from reducing to spreading; others' are computed again
TOKEN_EPSILON = 1e-5  # added to the sum of a slice's weights, as in the authors' code
NORM_EPSILON = 1e-5
SQUARE = 4  # points along a side of the fixed squares of the paper's ablation

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
    "elu": F.elu,
    "leaky_relu": functools.partial(F.leaky_relu, negative_slope=0.1),
}
DIMENSIONS = {"pointwise": (2, 3), "conv2d": (2,), "conv3d": (3,)}

Grid = tuple[int, ...] | None  # sides of a structured mesh, whose points come in row-major order
Linear = tuple[Tensor, Tensor]  # weight [out, in], bias [out]


@dataclass(frozen=True)
class TransolverConfig:
    """The architecture. `dataclasses.asdict` gives plain JSON values; `TransolverConfig(**json)` takes them back.

    inputs              channels of the call's inputs: positions first, then input functions
    outputs             channels of the predicted fields
    dimensions          how many of the inputs are positions, 2 or 3
    slices              slice tokens per head: one number, or one per layer
    projection          "pointwise" for any points; "conv2d", "conv3d" for structured meshes
    attention           among "slices" (learned), or, as in the paper's ablations, fixed "squares" of a structured mesh
                        or "full" attention among the points
    unified_pos         distances to a reference grid of unified_size points a side that spans unified_box:
                        "none"; "replace" the positions by them; "accompany" the inputs with them, at the end; "index":
                        replace the positions by those of a point's place on the index grid, which spans the unit box
    unified_box         (low, high) for each dimension; None is the unit box
    placeholder         add a learned vector to every embedded point
    temperature_bounds  the learned temperatures of the slice softmax are clamped to these; None leaves them free
    coefficients        global outputs, from the mean features of the skin after the last layer; 0 for no such head
    """

    inputs: int
    outputs: int
    dimensions: int
    layers: int = 8
    channels: int = 128
    heads: int = 8
    slices: int | tuple[int, ...] = 64
    mlp_ratio: int = 1
    dropout: float = 0.0
    activation: str = "gelu"
    projection: Literal["pointwise", "conv2d", "conv3d"] = "pointwise"
    attention: Literal["slices", "squares", "full"] = "slices"
    unified_pos: Literal["none", "replace", "accompany", "index"] = "none"
    unified_box: tuple[tuple[float, float], ...] | None = None
    unified_size: int = 8
    time_input: bool = False
    placeholder: bool = True
    temperature_bounds: tuple[float, float] | None = (0.1, 5.0)
    coefficients: int = 0

    def __post_init__(self) -> None:
        for name in ("slices", "unified_box", "temperature_bounds"):  # JSON has lists where we have tuples
            object.__setattr__(self, name, _as_tuple(getattr(self, name)))
        for name in ("outputs", "layers", "channels", "heads", "mlp_ratio", "unified_size"):
            self._require(name, getattr(self, name) >= 1, "at least 1")
        for name, choices in {
            "activation": tuple(ACTIVATIONS),
            "projection": tuple(DIMENSIONS),
            "attention": ("slices", "squares", "full"),
            "unified_pos": ("none", "replace", "accompany", "index"),
        }.items():
            self._require(name, getattr(self, name) in choices, "one of " + ", ".join(choices))
        d, box, bounds, slices = self.dimensions, self.unified_box, self.temperature_bounds, self.slices_per_layer
        self._require("dimensions", d in (2, 3), "2 or 3")
        self._require("dimensions", d in DIMENSIONS[self.projection], f"those of projection = {self.projection}")
        self._require("inputs", self.inputs >= d, f"at least the {d} positions")
        self._require("channels", self.channels % self.heads == 0, f"a multiple of heads = {self.heads}")
        self._require("slices", len(slices) == self.layers, f"one number, or one for each of {self.layers} layers")
        self._require("slices", min(slices) >= 1, "at least 1")
        self._require("dropout", 0.0 <= self.dropout < 1.0, "at least 0 and below 1")
        self._require("coefficients", self.coefficients >= 0, "0 or more")
        self._require("temperature_bounds", bounds is None or 0.0 < bounds[0] <= bounds[1], "0 < low <= high, or none")
        if box is not None:
            measured = self.unified_pos in ("replace", "accompany")
            self._require("unified_box", measured, "none unless unified_pos is replace or accompany")
            self._require("unified_box", len(box) == d and all(a < b for a, b in box), f"{d} pairs low < high")

    def _require(self, name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise InputError(f"{name} is out of range", seen=getattr(self, name), remedy=f"{name} must be {rule}")

    @property
    def slices_per_layer(self) -> tuple[int, ...]:
        return (self.slices,) * self.layers if isinstance(self.slices, int) else self.slices

    @property
    def distances(self) -> int:
        """Channels that the distances to the reference grid add to the inputs, less the positions they replace."""
        count = self.unified_size**self.dimensions
        return {"none": 0, "accompany": count}.get(self.unified_pos, count - self.dimensions)


class Answer(NamedTuple):
    """What a call with `skin` gives."""

    fields: Tensor  # [B, N, outputs]
    coefficients: Tensor | None  # [B, coefficients], of a model that has this head
    pooled: Tensor  # mean features of the skin, [B, C]


class States(NamedTuple):
    """What is to be known of a body to decode any point around it: the mixed slice tokens of each layer."""

    tokens: tuple[Tensor, ...]  # [B, H, M, D] each
    time: Tensor | None = None  # [B], of a model with time_input
    pooled: Tensor | None = None  # as in Answer, where skin points were marked
    coefficients: Tensor | None = None
    recomputed: int = 0  # points whose features were computed again in every layer, see `Transolver.states`


class Tile(NamedTuple):
    """Some points of each member of the batch."""

    inputs: Tensor  # [B, n, inputs]
    mask: Tensor | None = None  # [B, n] bool
    skin: Tensor | None = None  # [B, n]

    def split(self, size: int) -> list["Tile"]:
        count = max(1, -(-self.inputs.shape[1] // size))
        parts = [[None] * count if part is None else part.split(size, dim=1) for part in self]
        return [Tile(*together) for together in zip(*parts, strict=True)]


class Folded(NamedTuple):
    """The maps that a block in the folded order applies to normalised points; each has its norm folded in."""

    logits: Linear  # to slice logits, [H * M]
    hidden: Linear  # to the MLP's hidden layer, [C * mlp_ratio]


class Call(NamedTuple):
    """What all tiles of a call share."""

    folded: list[Folded | None]  # per block, None in the plain order
    time: Tensor | None = None  # embedded, [B, 1, C]
    grid: Grid = None
    recompute: str = "none"


def normalised(x: Tensor) -> Tensor:
    """Layer norm without scale and shift, which `fold_norm` puts into the product that follows."""
    return F.layer_norm(x, x.shape[-1:], eps=NORM_EPSILON)


def fold_norm(norm: nn.LayerNorm, weight: Tensor, bias: Tensor) -> Linear:
    """The linear map that does to normalised(x) what `weight, bias` do to norm(x)."""
    return weight * norm.weight, bias + weight @ norm.bias


class PhysicsAttention(nn.Module):
    """Attention among M learned slices of the points, in each of H heads.

    The products can be taken in two orders. As the paper writes them, each point is projected to slice features and to
    values, and what it receives is projected again: 3 C C + 3 C M multiplications a point. But the value projection is
    linear, so it can wait until the points are summed; the two maps before the softmax are one map; and the output
    projection can be applied to the tokens before they are handed out: 3 C H M. The cheaper order is taken.
    """

    def __init__(self, config: TransolverConfig, slices: int) -> None:
        super().__init__()
        C, H = config.channels, config.heads
        D = C // H
        self.heads, self.kind, self.dropout, self.bounds = (
            H,
            config.attention,
            config.dropout,
            config.temperature_bounds,
        )
        self.pointwise = config.projection == "pointwise"
        self.folded = self.pointwise and self.kind == "slices" and H * slices <= C + slices
        self.norm = nn.LayerNorm(C)
        if self.kind == "slices":
            self.to_slices = _projection(config)
            self.logits = nn.Linear(D, slices)
            self.temperature = nn.Parameter(torch.full((H,), 0.5))
        self.to_values = _projection(config)
        self.query = nn.Linear(D, D, bias=False)
        self.key = nn.Linear(D, D, bias=False)
        self.value = nn.Linear(D, D, bias=False)
        self.out = nn.Linear(C, C)

    def fold(self) -> Linear:
        """The map of normalised points to slice logits."""
        weight, bias = (p.unflatten(0, (self.heads, -1)) for p in (self.to_slices.weight, self.to_slices.bias))
        weight = self.logits.weight @ weight / self._temperature()[..., None]  # [M, D] @ [H, D, C] -> [H, M, C]
        bias = self.logits(bias) / self._temperature()  # [H, M]
        return fold_norm(self.norm, weight.flatten(0, 1), bias.flatten())

    def prepare(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """What the projections see of the points x [B, n, C]."""
        if self.folded:
            return normalised(x)
        z = self.norm(x)
        # A convolution must find zeros beside the mesh.
        return z if mask is None or self.pointwise else z * mask[..., None]

    def weigh(self, z: Tensor, folded: Folded | None, mask: Tensor | None, grid: Grid) -> Tensor | None:
        """Slice weights [B, n, H, M] of prepared points, which sum to 1 over M; None if each point is its own slice."""
        if self.kind == "full":
            return None
        if self.kind == "squares":
            w = _squares(grid, z)[:, None].expand(len(z), -1, self.heads, -1)
        else:
            if folded is not None:
                w = _softmax(F.linear(z, *folded.logits).unflatten(-1, (self.heads, -1)))
            else:
                # A head's points lie together in memory, as its products read them.
                w = _softmax(self._logits(self._project(z, self.to_slices, grid).transpose(1, 2))).transpose(1, 2)
        return w if mask is None else w * mask[..., None, None]

    def reduce(self, z: Tensor, w: Tensor | None, mask: Tensor | None, grid: Grid) -> Tensor:
        """Sums over prepared points of weight times value, and of the weights: [B, H, M, F + 1].

        The values are the points z themselves in the folded order (F = C), their projections otherwise (F = D).
        """
        if self.folded:
            assert w is not None
            sums = (w.flatten(2).mT @ z.to(w.dtype)).unflatten(1, (self.heads, -1))  # [B, H*M, n] @ [B, n, C]
        else:
            v = self._project(z, self.to_values, grid)  # [B, n, H, D]
            # The narrow side first: [B, H, D, n] @ [B, H, n, M] is twice as fast as its transpose.
            sums = v.transpose(1, 2) if w is None else (v.permute(0, 2, 3, 1) @ w.to(v.dtype).transpose(1, 2)).mT
        if w is not None:
            counts = w.sum(1, dtype=_exact(w))  # [B, H, M]; a bfloat16 cannot count beyond 256
        else:
            there = z.new_ones(z.shape[:2], dtype=_exact(z)) if mask is None else mask.to(_exact(z))
            counts = there[:, None].expand(-1, self.heads, -1)  # [B, H, n]
        return torch.cat([sums.to(counts.dtype), counts[..., None]], dim=-1)

    def mix(self, total: Tensor) -> Tensor:
        """Attention among the tokens that the sums over all points make: [B, H, M, F + 1] -> [B, H, M, D]."""
        total = total.to(self.out.weight.dtype)
        sums, counts = total[..., :-1], total[..., -1:]
        if self.folded:
            weight, bias = fold_norm(self.norm, self.to_values.weight, self.to_values.bias)
            weight, bias = weight.unflatten(0, (self.heads, -1)), bias.unflatten(0, (self.heads, 1, -1))
            sums = torch.einsum("bhmc,hdc->bhmd", sums, weight) + counts * bias
        tokens = sums if self.kind == "full" else sums / (counts + TOKEN_EPSILON)
        query, key, value = self.query(tokens), self.key(tokens), self.value(tokens)
        dropout = self.dropout if self.training else 0.0
        # Each learned slice holds something of every point, but a square or a point may lie in the padding.
        filled = None if self.kind == "slices" else (counts > 0).mT  # [B, H, 1, M]
        if self.kind == "full":
            return F.scaled_dot_product_attention(query, key, value, attn_mask=filled, dropout_p=dropout)
        # Tokens are few, and a fused kernel has no second derivatives.
        scores = query @ key.mT * query.shape[-1] ** -0.5  # [B, H, M, M]
        if filled is not None:
            scores = scores.masked_fill(~filled, -torch.inf)
        return F.dropout(F.softmax(scores, dim=-1), dropout) @ value

    def ready(self, tokens: Tensor) -> Tensor:
        """Mixed tokens [B, H, M, D] as `spread` takes them: in the folded order already projected, [B, H * M, C]."""
        if not self.folded:
            return tokens
        weight = self.out.weight.unflatten(1, (self.heads, -1))  # [C, H, D]
        # A point's weights sum to one in each head, so a share of the bias in every token adds up to the bias.
        return (torch.einsum("bhmd,chd->bhmc", tokens, weight) + self.out.bias / self.heads).flatten(1, 2)

    def spread(self, x: Tensor, w: Tensor | None, ready: Tensor) -> Tensor:
        """The points x [B, n, C] with what each receives from the tokens added."""
        dropout = self.dropout if self.training else 0.0
        if self.folded:
            assert w is not None
            if x.dtype == ready.dtype and not dropout:
                return torch.baddbmm(x, w.flatten(2), ready)  # [B, n, H*M] @ [B, H*M, C]
            return x + F.dropout(w.flatten(2) @ ready, dropout)
        gathered = ready.transpose(1, 2) if w is None else torch.einsum("bnhm,bhmd->bnhd", w.to(ready.dtype), ready)
        return x + F.dropout(self.out(gathered.flatten(2)), dropout)

    def _logits(self, features: Tensor) -> Tensor:
        """Features [B, H, n, D] -> slice logits [B, H, n, M]; the temperature divides the map, not every logit."""
        B, temperature = len(features), self._temperature()
        weight, bias = self.logits.weight / temperature[..., None], self.logits.bias / temperature  # [H, M, D], [H, M]
        maps = (part.expand(B, -1, -1, -1).flatten(0, 1) for part in (bias[:, None], features, weight.mT))
        return torch.baddbmm(*maps).unflatten(0, (B, -1))

    def _temperature(self) -> Tensor:
        return (self.temperature if self.bounds is None else self.temperature.clamp(*self.bounds))[:, None]  # [H, 1]

    def _project(self, z: Tensor, layer: nn.Module, grid: Grid) -> Tensor:
        """Prepared points [B, n, C] -> features per head [B, n, H, D]."""
        if not self.pointwise:
            assert grid is not None
            image = z.unflatten(1, grid).movedim(-1, 1)  # [B, C, *grid], channels last in memory
            return layer(image).movedim(1, -1).flatten(1, -2).unflatten(-1, (self.heads, -1))
        return layer(z).unflatten(-1, (self.heads, -1))


def _projection(config: TransolverConfig) -> Any:  # a linear layer or a convolution
    C = config.channels
    if config.projection == "pointwise":
        return nn.Linear(C, C)
    return (nn.Conv2d if config.projection == "conv2d" else nn.Conv3d)(C, C, kernel_size=3, padding=1)


class MLP(nn.Module):
    def __init__(self, inputs: int, hidden: int, outputs: int, activation: str) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, hidden)
        self.out = nn.Linear(hidden, outputs)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.activation(self.hidden(x)))


class Block(nn.Module):
    """Physics-Attention, then an MLP on each point. Between `begin` and `finish` the sums over all points are taken.

    `lean` keeps less for the backward pass, see the end of this file.
    """

    def __init__(self, config: TransolverConfig, slices: int) -> None:
        super().__init__()
        C = config.channels
        self.attention = PhysicsAttention(config, slices)
        self.norm = nn.LayerNorm(C)
        self.mlp = MLP(C, C * config.mlp_ratio, C, config.activation)

    def fold(self, dtype: torch.dtype) -> Folded | None:
        """None in the plain order, where it would gain nothing."""
        if not self.attention.folded:
            return None
        maps = self.attention.fold(), fold_norm(self.norm, self.mlp.hidden.weight, self.mlp.hidden.bias)
        return Folded(*((weight.to(dtype), bias.to(dtype)) for weight, bias in maps))

    def begin(
        self, x: Tensor, folded: Folded | None, mask: Tensor | None, grid: Grid, lean: bool = False
    ) -> tuple[Tensor | None, Tensor]:
        """Slice weights of the points x [B, n, C], and what the points add to the sums."""
        if folded is not None and lean and not self._drops:
            return cast(tuple[Tensor, Tensor], _LeanBegin.apply(x, *folded.logits, folded, mask, self))
        z = self.attention.prepare(x, mask)
        w = self.attention.weigh(z, folded, mask, grid)
        return w, self.attention.reduce(z, w, mask, grid)

    def finish(self, x: Tensor, w: Tensor | None, ready: Tensor, folded: Folded | None, lean: bool = False) -> Tensor:
        """The points x [B, n, C] after the block, given their slice weights and the tokens."""
        if folded is not None and lean and not self._drops:
            out = (parameter.to(folded.hidden[0].dtype) for parameter in (self.mlp.out.weight, self.mlp.out.bias))
            return cast(Tensor, _LeanFinish.apply(x, w, ready, *folded.hidden, *out, self))
        x = self.attention.spread(x, w, ready)
        if folded is None:
            return x + self.mlp(self.norm(x))
        return x + self.mlp.out(self.mlp.activation(F.linear(normalised(x), *folded.hidden)))

    @property
    def _drops(self) -> bool:
        return self.training and self.attention.dropout > 0.0


class Transolver(nn.Module):
    """Fields at points from their positions and input functions; see `forward`, `states` and `decode`.

    tile        points worked on at once; None: TILE on a processor with caches, all on others
    recompute   what a training step computes again in its backward pass instead of keeping it: "none" (derivatives of
                derivatives need that), "cheap" (norms, softmax, activations) or "tiles" (all but each layer's features
                and slice weights); "auto" chooses by the number of points, see KEEP_ALL_TO and TILES_AGAIN_ABOVE
    """

    def __init__(self, config: TransolverConfig, *, tile: int | None = None, recompute: str = "auto") -> None:
        super().__init__()
        C = config.channels
        self.config, self.tile, self.recompute = config, tile, recompute
        self.embed = MLP(config.inputs + config.distances, 2 * C, C, config.activation)
        self.placeholder = nn.Parameter(torch.rand(C) / C) if config.placeholder else None
        self.time = nn.Sequential(nn.Linear(C, C), nn.SiLU(), nn.Linear(C, C)) if config.time_input else None
        self.blocks = nn.ModuleList(Block(config, slices) for slices in config.slices_per_layer)
        self.norm = nn.LayerNorm(C)
        self.head = nn.Linear(C, config.outputs)
        self.coefficients = MLP(C, C, config.coefficients, config.activation) if config.coefficients else None
        self.apply(_initialise)

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
        grid    sides of a structured mesh, N = prod(grid); convolutions, squares and the index grid need them
        mask    [B, N] bool: the points that are there, in a batch of meshes of unequal size
        time    [B], for a model with time_input
        skin    [B, N]: True, or a weight such as an area, at the points whose features are pooled
        group   a process group over which the points are spread: each process passes its share and gets the fields of
                these points as if it had passed them all. The loss of the whole is the sum of the processes' losses,
                its gradient the sum of their gradients; so a loss on the coefficients, which every process computes,
                is to be divided by the number of processes.
        """
        self._check(inputs, grid, mask, time)
        if group is not None:
            self._require_states()
        if mask is not None:
            inputs = inputs.masked_fill(~mask[..., None], 0.0)
            skin = None if skin is None else skin * mask
        if self.config.unified_pos == "index":
            inputs = torch.cat([_index_grid(grid, inputs), inputs[..., self.config.dimensions :]], dim=-1)
        tiles = self._tiles(Tile(inputs, mask, skin))
        recompute = self.recompute if torch.is_grad_enabled() and not torch.compiler.is_compiling() else "none"
        if recompute == "auto":
            count = inputs.shape[:2].numel()
            recompute = "none" if count <= KEEP_ALL_TO else "cheap" if count <= TILES_AGAIN_ABOVE else "tiles"
        call = self._call(time, grid, recompute)
        outputs, _, pool, _ = self._march(lambda: tiles, call, group, keep=inputs.shape[1])
        fields = torch.cat(outputs, dim=1)
        return fields if pool is None else Answer(fields, *self._of_skin(pool))

    @torch.no_grad()
    def states(
        self,
        chunks: Iterable[Tensor | tuple[Tensor, Tensor]],
        time: Tensor | None = None,
        group: dist.ProcessGroup | None = None,
        keep: int = KEPT_FEATURES,
    ) -> States:
        """Reduce any number of points to the tokens of every layer.

        chunks  inputs [B, n, inputs], or pairs of inputs and skin [B, n]; iterated once for every layer
        time    [B], for a model with time_input
        group   as for `forward`: each process passes its own chunks
        keep    the features of the first so many points are kept from layer to layer, 4 C bytes each; those of the
                others are computed from their inputs again in every layer; `States.recomputed` tells how many
        """
        self._require_states()
        if self.training and self.config.dropout:
            raise InputError("states need a model that drops nothing", remedy="call model.eval() first")

        def tiles() -> Iterator[Tile]:
            for chunk in chunks:
                inputs, skin = chunk if isinstance(chunk, tuple) else (chunk, None)
                self._check(inputs, None, None, time)
                yield from self._tiles(Tile(inputs, None, skin))

        _, tokens, pool, recomputed = self._march(tiles, self._call(time), group, keep, fields=False)
        coefficients, pooled = (None, None) if pool is None else self._of_skin(pool)
        return States(tuple(tokens), time, pooled, coefficients, recomputed)

    @torch.no_grad()
    def decode(self, points: Tensor, states: States) -> Tensor:
        """Fields [B, n, outputs] at any points [B, n, inputs] around the body that the states describe."""
        self._require_states()
        self._check(points, None, None, states.time)
        call = self._call(states.time)
        ready = [self._ready(k, tokens) for k, tokens in enumerate(states.tokens)]
        tiles = self._tiles(Tile(points))
        return torch.cat([self.head(self.norm(self._features(tile, ready, call))) for tile in tiles], dim=1)

    @torch.no_grad()
    def slice_weights(
        self,
        points: Tensor,
        layer: int = -1,
        states: States | None = None,
        grid: Grid = None,
        time: Tensor | None = None,
    ) -> Tensor:
        """The weights [B, n, H, M] by which points [B, n, inputs] belong to the slices of a layer.

        The points themselves are the body, unless its states are given.
        """
        if self.config.attention == "full":
            raise InputError("full attention has no slices", remedy='use a model with attention = "slices"')
        time = time if states is None else states.time
        self._check(points, grid, None, time)
        if self.config.unified_pos == "index":
            points = torch.cat([_index_grid(grid, points), points[..., self.config.dimensions :]], dim=-1)
        call = self._call(time, grid)
        x = self._features(Tile(points), [], call)
        for k in range(layer % self.config.layers):
            w, part = self._block(k).begin(x, call.folded[k], None, grid)
            tokens = self._block(k).attention.mix(part) if states is None else states.tokens[k]
            x = self._block(k).finish(x, w, self._ready(k, tokens), call.folded[k])
        return cast(Tensor, self._block(layer).begin(x, call.folded[layer], None, grid)[0])

    def _march(
        self,
        tiles: Callable[[], Iterable[Tile]],
        call: Call,
        group: dist.ProcessGroup | None,
        keep: int,
        fields: bool = True,
    ) -> tuple[list[Tensor], list[Tensor], Tensor | None, int]:
        """Go over the tiles once per block and once more: the fields of each tile, the tokens, the skin's sums.

        Of the first `keep` points the features are kept from one time to the next; of how many others not, comes last.
        """
        again = call.recompute == "tiles"
        step: Callable[..., Any] = functools.partial(self._again, self._step) if again else self._step
        in_place = not torch.is_grad_enabled() and not torch.compiler.is_compiling()
        kept: dict[int, tuple[Tensor, Tensor | None]] = {}
        places: list[tuple[Tensor, Tensor]] = []
        outputs: list[Tensor] = []
        tokens: list[Tensor] = []
        ready: list[Tensor] = []
        pool, recomputed = None, 0
        for k in range(self.config.layers + 1):
            last = k == self.config.layers
            total, seen, skinned = None, 0, False
            if (again and not last) or (in_place and k == 0):
                places = [self._places(k, tile) for tile in tiles()]
                places = places if len(places) > 1 else []
            if last:
                places = []  # each tile's room is free for what comes after it
            for i, tile in enumerate(tiles()):
                skinned |= tile.skin is not None
                x, w, part = step(tile, *kept.pop(i, (None, None)), tuple(ready), call)
                if part is not None:
                    total = part if total is None else total.to(_wide(part)) + part
                if last:
                    outputs += [x] if fields else []
                    continue
                seen += tile.inputs.shape[1]
                if i > 0 and seen > KEPT_WEIGHTS:
                    w = None
                if i == 0 or seen <= keep:
                    kept[i] = self._put((x, w), places[i]) if places else (x, w)
            if total is not None and group is not None:
                # Whatever its number of tiles, each process must bring the same precision.
                total = _SumOverGroup.apply(total.to(_wide(total)), group)
            if last:
                pool = total
            else:
                assert total is not None
                recomputed = seen - sum(x.shape[1] for x, _ in kept.values())
                with _full_precision(total):
                    tokens.append(self._block(k).attention.mix(total))
                ready.append(self._ready(k, tokens[k]))
                if k == self.config.layers - 1 and not (fields or skinned):
                    break
        return outputs, tokens, pool, recomputed

    def _step(
        self, tile: Tile, x: Tensor | None, w: Tensor | None, ready: Sequence[Tensor], call: Call
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Finish one block and begin the next on a tile, while it is in the cache.

        Gives the tile's features, slice weights and part of the sums; after the last block its fields, None, and its
        part of the skin's sums [B, C + 1].
        """
        k = len(ready)
        x = self._features(tile, ready, call) if x is None else self._finish(tile, x, w, k - 1, ready, call)
        if k < self.config.layers:
            return x, *self._block(k).begin(x, call.folded[k], tile.mask, call.grid, call.recompute != "none")
        z = self.norm(x)
        part = None
        if tile.skin is not None:
            skin = tile.skin.to(z.dtype)[:, None]  # [B, 1, n]
            part = torch.cat([skin @ z, skin.sum(-1, keepdim=True)], dim=-1)[:, 0]
        return self.head(z), None, part

    def _features(self, tile: Tile, ready: Sequence[Tensor], call: Call) -> Tensor:
        """The features [B, n, C] of a tile after the blocks whose tokens are ready, computed from its inputs."""
        inputs = self._measured(tile.inputs)
        x = self._again(self.embed, inputs) if call.recompute == "cheap" else self.embed(inputs)
        if self.placeholder is not None:
            x = x + self.placeholder
        if call.time is not None:
            x = x + call.time
        for k in range(len(ready)):
            x = self._finish(tile, x, None, k, ready, call)
        return x

    def _finish(self, tile: Tile, x: Tensor, w: Tensor | None, k: int, ready: Sequence[Tensor], call: Call) -> Tensor:
        block, folded = self._block(k), call.folded[k]
        if w is None:
            w = block.attention.weigh(block.attention.prepare(x, tile.mask), folded, tile.mask, call.grid)
        return block.finish(x, w, ready[k], folded, call.recompute != "none")

    def _again(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of which the backward pass keeps the arguments only, and calls it again."""
        return checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=self.config.dropout > 0.0)

    def _places(self, k: int, tile: Tile) -> tuple[Tensor, Tensor]:
        """Room for what is kept of a tile, its features and weights, in one stretch with that of the other tiles.

        Allocated among the temporaries of each step, they would leave holes in the heap as large as they are.
        """
        (B, n, _), weight = tile.inputs.shape, self.head.weight
        H, M, dtype = self.config.heads, self.config.slices_per_layer[k], _product_dtype(weight)
        order = (0, 1, 2, 3) if self._block(k).attention.folded else (0, 2, 1, 3)  # as `weigh` lays them out
        w = torch.empty_permuted((B, n, H, M), order, dtype=dtype, device=weight.device)
        return weight.new_empty(B, n, self.config.channels), w

    def _put(self, kept: tuple[Tensor, Tensor | None], places: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor | None]:
        (x, w), (x_place, w_place) = kept, places
        if w is not None and w.shape == w_place.shape and w.dtype == w_place.dtype:
            w = _Moved.apply(w, w_place)
        return _Moved.apply(x, x_place), w

    def _measured(self, inputs: Tensor) -> Tensor:
        """The inputs with distances to the reference grid, where the configuration asks for them."""
        if self.config.unified_pos == "none":
            return inputs
        d, size = self.config.dimensions, self.config.unified_size
        box = self.config.unified_box or ((0.0, 1.0),) * d
        sides = [torch.linspace(*side, size, dtype=inputs.dtype, device=inputs.device) for side in box]
        reference = torch.cartesian_prod(*sides).expand(len(inputs), -1, -1)  # [B, size**d, d], row-major
        distances = torch.cdist(inputs[..., :d], reference, compute_mode="donot_use_mm_for_euclid_dist")
        if self.config.unified_pos == "accompany":
            return torch.cat([inputs, distances], dim=-1)
        return torch.cat([distances, inputs[..., d:]], dim=-1)

    def _call(self, time: Tensor | None, grid: Grid = None, recompute: str = "none") -> Call:
        dtype = _product_dtype(self.head.weight)
        with _full_precision(self.head.weight):
            folded = [self._block(k).fold(dtype) for k in range(self.config.layers)]
            return Call(folded, None if time is None else self._embed_time(time), grid, recompute)

    def _embed_time(self, time: Tensor) -> Tensor:
        """Sinusoids of the time [B], the longest of period 10000 * 2 pi, through an MLP: [B, 1, C]."""
        assert self.time is not None
        half = self.config.channels // 2
        steps = torch.arange(half, device=time.device, dtype=self.head.weight.dtype)
        angles = time.reshape(-1, 1, 1) * torch.exp(-math.log(10000.0) / half * steps)
        return self.time(F.pad(torch.cat([angles.cos(), angles.sin()], dim=-1), (0, self.config.channels % 2)))

    def _ready(self, k: int, tokens: Tensor) -> Tensor:
        with _full_precision(tokens):
            ready = self._block(k).attention.ready(tokens)
        return ready.to(_product_dtype(tokens))

    def _of_skin(self, pool: Tensor) -> tuple[Tensor | None, Tensor]:
        """Coefficients and mean features of the skin from its sums [B, C + 1]."""
        pooled = (pool[:, :-1] / pool[:, -1:].clamp_min(torch.finfo(pool.dtype).tiny)).to(self.head.weight.dtype)
        return None if self.coefficients is None else self.coefficients(pooled), pooled

    def _block(self, k: int) -> Block:
        return cast(Block, self.blocks[k])

    def _tiles(self, whole: Tile) -> list[Tile]:
        if torch.compiler.is_compiling() or self._reason_for_no_states():
            return [whole]
        size = self.tile or (TILE // len(whole.inputs) if whole.inputs.is_cpu else whole.inputs.shape[1])
        return whole.split(max(1, size))

    def _reason_for_no_states(self) -> str:
        """Why a point's update needs more than its own features and the tokens; empty where it does not."""
        config = self.config
        if config.projection != "pointwise":
            return f"{config.projection}: a convolution needs the neighbours of a point in every layer"
        if config.attention == "full":
            return "full attention: every point needs all others"
        if config.attention == "squares":
            return "squares: they are parts of one grid, not of space"
        return "index grid: a position is a place among all points" if config.unified_pos == "index" else ""

    def _require_states(self) -> None:
        if reason := self._reason_for_no_states():
            raise InputError("this model has no states", seen=reason, remedy="pass all points in one call of the model")

    def _check(self, inputs: Tensor, grid: Grid, mask: Tensor | None, time: Tensor | None) -> None:
        config = self.config
        if inputs.ndim != 3 or inputs.shape[-1] != config.inputs:
            shape, wanted = tuple(inputs.shape), f"[batch, points, {config.inputs}]"
            raise InputError("inputs do not fit the model", seen=shape, remedy=f"pass a tensor of shape {wanted}")
        if grid is not None and (len(grid) != config.dimensions or math.prod(grid) != inputs.shape[1]):
            seen, wanted = f"{grid} for {inputs.shape[1]} points", f"{config.dimensions} sides with that product"
            raise InputError("grid does not fit the points", seen=seen, remedy=f"give {wanted}")
        if grid is None and (config.projection != "pointwise" or config.attention == "squares"):
            raise InputError("this model works on structured meshes", remedy="pass the sides of the grid")
        if config.unified_pos == "index" and (grid is None or mask is not None):
            raise InputError("places on the index grid need the sides of one grid", remedy="pass grid, and no mask")
        if (time is not None) != config.time_input:
            raise InputError("time is for models with time_input, which need it", seen=time)

    @classmethod
    def from_reference(cls, state_dict: Mapping[str, Tensor], **options: Any) -> "Transolver":
        """The model of a checkpoint of the authors' code: pointwise, 2D or 3D.

        Sizes are read off the weights. What cannot be seen there are options of TransolverConfig, with the authors'
        defaults: `dimensions` (2 for a pointwise model), `unified_pos` ("none") and its box, `activation`, `dropout`;
        temperatures are clamped in convolutional models only; the placeholder is added in all pointwise models, in
        convolutional ones where there are no input functions.
        """
        # The authors' AirfRANS model has an MLP in each block that it never uses.
        weights = {_own_name(name): value for name, value in state_dict.items() if ".mlp_new." not in name}
        if "blocks.0.attention.to_slices.weight" not in weights:
            raise InputError("not a checkpoint of the authors' Transolver", seen=", ".join(list(state_dict)[:5]))
        slicing = weights["blocks.0.attention.to_slices.weight"]  # [C, C], [C, C, 3, 3] or [C, C, 3, 3, 3]
        projection = {2: "pointwise", 4: "conv2d", 5: "conv3d"}[slicing.ndim]
        layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("blocks."))
        settings: dict[str, Any] = {
            "inputs": weights["embed.hidden.weight"].shape[1],
            "outputs": len(weights["head.weight"]),
            "dimensions": DIMENSIONS[projection][0],
            "layers": layers,
            "channels": len(slicing),
            "heads": weights["blocks.0.attention.temperature"].numel(),
            "slices": tuple(len(weights[f"blocks.{k}.attention.logits.weight"]) for k in range(layers)),
            "mlp_ratio": len(weights["blocks.0.mlp.hidden.weight"]) // len(slicing),
            "projection": projection,
            "time_input": "time.0.weight" in weights,
            "temperature_bounds": None if projection == "pointwise" else (0.1, 5.0),
            **options,
        }
        settings["inputs"] -= TransolverConfig(**settings).distances
        no_functions = settings["inputs"] == settings["dimensions"]
        settings.setdefault("placeholder", projection == "pointwise" or no_functions)
        model = cls(TransolverConfig(**settings))
        if model.placeholder is None:
            weights.pop("placeholder", None)
        model.load_state_dict({k: v.flatten() if k.endswith("temperature") else v for k, v in weights.items()})
        return model


REFERENCE_NAMES = {
    "preprocess.linear_pre.0": "embed.hidden",
    "preprocess.linear_post": "embed.out",
    "time_fc": "time",
    "ln_1": "attention.norm",
    "ln_2": "norm",
    "Attn": "attention",
    "in_project_x": "to_slices",
    "in_project_fx": "to_values",
    "in_project_slice": "logits",
    "to_q": "query",
    "to_k": "key",
    "to_v": "value",
    "to_out.0": "out",
    "mlp.linear_pre.0": "mlp.hidden",
    "mlp.linear_post": "mlp.out",
}


def _own_name(name: str) -> str:
    """Our name of a parameter of the authors' code."""
    for theirs, ours in REFERENCE_NAMES.items():
        name = re.sub(rf"(^|\.){re.escape(theirs)}(?=\.)", rf"\1{ours}", name)
    return re.sub(r"^blocks\.\d+\.(ln_3|mlp2)\.", lambda m: {"ln_3": "norm.", "mlp2": "head."}[m[1]], name)


def _initialise(module: nn.Module) -> None:
    """As the authors mean it: their code overwrites its own orthogonal slice projection."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, PhysicsAttention) and module.kind == "slices":
        nn.init.orthogonal_(module.logits.weight)


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list | tuple) else value


def _index_grid(grid: Grid, inputs: Tensor) -> Tensor:
    """Places of the points of a structured mesh in the unit box: [B, N, d]."""
    assert grid is not None
    sides = [torch.linspace(0.0, 1.0, side, dtype=inputs.dtype, device=inputs.device) for side in grid]
    return torch.cartesian_prod(*sides).expand(len(inputs), -1, -1)


def _squares(grid: Grid, z: Tensor) -> Tensor:
    """One-hot slice weights of the points of a structured mesh: [N, squares]."""
    assert grid is not None
    number = torch.zeros((), dtype=torch.long, device=z.device)
    counts = [-(-side // SQUARE) for side in grid]
    for side, count in zip(grid, counts, strict=True):
        number = number[..., None] * count + torch.arange(side, device=z.device) // SQUARE
    return F.one_hot(number.flatten(), math.prod(counts)).to(z.dtype)


# The two halves of a block in the folded order with their gradients written out. Kept are the points, their weights and
# the hidden layer before its activation; norm, softmax and activation are computed again. Results are allocated before
# temporaries, which otherwise leave holes between them.

ONLY_INPUT = [True, False, False]  # of the gradients of a layer norm


class _LeanBegin(torch.autograd.Function):
    """`Block.begin`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, folded: Folded, mask: Tensor | None, block: Block
    ) -> tuple[Tensor, Tensor]:
        (B, n, C), H = x.shape, block.attention.heads
        M = len(weight) // H
        w, part = weight.new_empty(B, n, H, M), x.new_empty(B, H, M, C + 1)
        values = cast(tuple[Tensor, Tensor], block.begin(x, folded, mask, None))
        ctx.save_for_backward(x, w.copy_(values[0]), weight)
        return w, part.copy_(values[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dw: Tensor, dpart: Tensor) -> tuple[Tensor | None, ...]:
        x, w, weight = ctx.saved_tensors
        z, mean, rstd = torch.native_layer_norm(x, x.shape[-1:], None, None, NORM_EPSILON)
        z = z.to(w.dtype)
        dsums, dcounts = dpart[..., :-1].flatten(1, 2).to(w.dtype), dpart[:, None, ..., -1]  # [B, H*M, C], [B, 1, H, M]
        dw = torch.baddbmm((dw + dcounts).to(w.dtype).flatten(2), z, dsums.mT)  # [B, n, H*M]
        dlogits = torch.ops.aten._softmax_backward_data(dw.view_as(w), w, -1, w.dtype).flatten(2)
        dz = torch.baddbmm(dlogits @ weight, w.flatten(2), dsums)  # [B, n, C]
        dlogits = dlogits.flatten(0, 1)  # [B*n, H*M]
        return _norm_gradient(dz, x, mean, rstd), dlogits.T @ z.flatten(0, 1), dlogits.sum(0), None, None, None


class _LeanFinish(torch.autograd.Function):
    """`Block.finish`."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w: Tensor,
        ready: Tensor,
        weight1: Tensor,
        bias1: Tensor,
        weight2: Tensor,
        bias2: Tensor,
        block: Block,
    ) -> Tensor:
        y, hidden = torch.empty_like(x), weight1.new_empty(*x.shape[:-1], len(weight1))
        u = block.attention.spread(x, w, ready)
        torch.addmm(bias1, normalised(u).to(weight1.dtype).flatten(0, 1), weight1.T, out=hidden.flatten(0, 1))
        ctx.save_for_backward(x, w, ready, hidden, weight1, weight2)
        ctx.block = block
        return torch.add(u, F.linear(block.mlp.activation(hidden), weight2, bias2), out=y)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, w, ready, hidden, weight1, weight2 = ctx.saved_tensors
        dout = dy.to(weight2.dtype).flatten(0, 1)  # [B*n, C]
        with torch.enable_grad():
            hidden = hidden.flatten(0, 1).detach().requires_grad_()
            active = ctx.block.mlp.activation(hidden)
        dhidden = torch.autograd.grad(active, hidden, dout @ weight2)[0]  # [B*n, C*mlp_ratio]
        dweight2, dbias2 = dout.T @ active.detach(), dout.sum(0)
        u = ctx.block.attention.spread(x, w, ready)
        z, mean, rstd = torch.native_layer_norm(u, u.shape[-1:], None, None, NORM_EPSILON)
        dweight1, dbias1 = dhidden.T @ z.to(weight1.dtype).flatten(0, 1), dhidden.sum(0)
        du = _norm_gradient((dhidden @ weight1).view_as(u), u, mean, rstd).add_(dy)
        dupdate = du.to(ready.dtype)
        dw, dready = (dupdate @ ready.mT).view_as(w), w.flatten(2).mT @ dupdate
        return du, dw, dready, dweight1, dbias1, dweight2, dbias2, None


def _norm_gradient(dz: Tensor, x: Tensor, mean: Tensor, rstd: Tensor) -> Tensor:
    backward = torch.ops.aten.native_layer_norm_backward
    return cast(Tensor, backward(dz.to(x.dtype), x, x.shape[-1:], mean, rstd, None, None, ONLY_INPUT)[0])


class _Moved(torch.autograd.Function):
    """The tensor, in another place."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, place: Tensor) -> Tensor:
        ctx.mark_dirty(place)
        return place.copy_(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class _SumOverGroup(torch.autograd.Function):
    """The sum over the processes of a group. Every process' loss depends on it, so the gradients are summed too."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        total = part.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _SumOverGroup.apply(gradient.contiguous(), ctx.group), None


def _softmax(logits: Tensor) -> Tensor:
    return F.softmax(logits, dim=-1, dtype=_exact(logits)).to(logits.dtype)


def _exact(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)


def _wide(tensor: Tensor) -> torch.dtype:
    """For sums over tiles, which may be many; Apple's graphics processors have no float64."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _autocasts(tensor: Tensor) -> bool:
    device = tensor.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def _product_dtype(tensor: Tensor) -> torch.dtype:
    """The precision of products over points: that of autocast where it is on."""
    return torch.get_autocast_dtype(tensor.device.type) if _autocasts(tensor) else tensor.dtype


def _full_precision(tensor: Tensor) -> AbstractContextManager[Any]:
    """No autocast where weights are folded and tokens mixed: it costs nothing, and every point depends on it."""
    return torch.autocast(tensor.device.type, enabled=False) if _autocasts(tensor) else nullcontext()
