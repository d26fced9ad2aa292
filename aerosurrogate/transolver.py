"""Transolver: a neural operator that attends over learned physical states instead of mesh points.

Wu et al., "Transolver: A Fast Transformer Solver for PDEs on General Geometries", ICML 2024. Read from the top:

    TransolverConfig    the architecture, validated
    PhysicsAttention    points -> slice tokens -> attention among tokens -> points
    Block               norm, attention, norm, MLP, each with its residual
    Transolver          embedding, blocks, heads; states and decoding

Letters in shape comments: B batch, n points (of one tile), C channels, H heads, D = C / H, M slices.

A layer reduces all points to H*M tokens (a sum over points), mixes the tokens, and gives each point its update.
Everything else follows from that sum. It is taken tile by tile, so that a tile of points stays in the cache; chunk
by chunk, so that any number of points fits in memory; or across processes, by an all-reduce of a few kB. The tokens
of all layers ("states") suffice to evaluate the model at any other point.
"""

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from aerosurrogate.errors import InputError

EPSILON = 1e-5  # added to the sum of a slice's weights, as in the authors' code
KEPT_FEATURES = 2**22  # points whose features `states` keeps by default: 4 GB at 256 channels
KEPT_WEIGHTS = 2**19  # points whose slice weights are kept between reducing and spreading; others' are computed again
aten = torch.ops.aten
NORM_EPSILON = 1e-5
ONLY_INPUT = [True, False, False]  # of a layer norm's gradients
RECOMPUTE_ABOVE = 2**16  # points in a training step beyond which tiles are computed again in the backward pass
TILE_IN_CACHE = 512
SQUARE = 4  # points along a side of the fixed squares of the paper's ablation

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
    "elu": F.elu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
}
DIMENSIONS_OF = {"pointwise": None, "conv2d": 2, "conv3d": 3}
Grid = tuple[int, ...] | None  # sides of a structured mesh, whose points come in row-major order


@dataclass(frozen=True)
class TransolverConfig:
    """The architecture. `dataclasses.asdict` gives plain JSON values; `TransolverConfig(**json)` takes them back.

    inputs              channels of the call's inputs: positions first, then input functions
    outputs             channels of the predicted fields
    dimensions          how many of the inputs are positions, 2 or 3
    slices              slice tokens per head, one number or one per layer
    projection          "pointwise" for any points; "conv2d", "conv3d" for structured grids
    attention           "slices" (learned), or the paper's ablations: "squares" (fixed squares of the grid), "full"
    unified_pos         distances to a reference grid of unified_size points a side, spanning unified_box:
                        "none"; "replace" the positions; "accompany" them (appended to the inputs); "index": replace
                        them by the distances of the point's place on the index grid, which spans the unit box
    unified_box         ((low, high), ...) per dimension; None is the unit box
    placeholder         add a learned vector to every embedded point
    temperature_bounds  the learned temperatures of the slice softmax are clamped to these; None leaves them free
    coefficients        global outputs, from the mean of the skin's features in the last layer; 0 for no such head
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
        # JSON has lists where we have tuples.
        for name in ("slices", "unified_box", "temperature_bounds"):
            object.__setattr__(self, name, _as_tuple(getattr(self, name)))
        for name in ("outputs", "layers", "channels", "heads", "mlp_ratio", "unified_size"):
            self._require(getattr(self, name) >= 1, name, "a whole number of at least 1")
        for name, choices in _CHOICES.items():
            self._require(getattr(self, name) in choices, name, f"one of {', '.join(choices)}")
        self._require(self.dimensions in (2, 3), "dimensions", "2 or 3")
        self._require(self.inputs >= self.dimensions, "inputs", f"at least the {self.dimensions} positions")
        self._require(self.channels % self.heads == 0, "channels", f"a multiple of heads = {self.heads}")
        self._require(
            min(self.slices_per_layer) >= 1 and len(self.slices_per_layer) == self.layers,
            "slices",
            f"at least 1: one number, or one for each of the {self.layers} layers",
        )
        self._require(0.0 <= self.dropout < 1.0, "dropout", "at least 0 and below 1")
        self._require(self.coefficients >= 0, "coefficients", "0 (none) or more")
        self._require(
            DIMENSIONS_OF[self.projection] in (None, self.dimensions),
            "projection",
            f"pointwise or conv{self.dimensions}d where dimensions = {self.dimensions}",
        )
        if self.temperature_bounds is not None:
            low, high = self.temperature_bounds
            self._require(0.0 < low <= high, "temperature_bounds", "0 < low <= high, or none")
        if self.unified_box is not None:
            self._require(
                len(self.unified_box) == self.dimensions and all(low < high for low, high in self.unified_box),
                "unified_box",
                f"{self.dimensions} pairs (low, high) with low < high",
            )
            self._require(
                self.unified_pos in ("replace", "accompany"), "unified_box", "none unless positions are measured"
            )

    def _require(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise InputError(f"{name} cannot be", seen=getattr(self, name), remedy=f"{name} must be {rule}")

    @property
    def slices_per_layer(self) -> tuple[int, ...]:
        return (self.slices,) * self.layers if isinstance(self.slices, int) else self.slices

    @property
    def embedded_inputs(self) -> int:
        """Channels that enter the first linear layer, reference-grid distances included."""
        distances = self.unified_size**self.dimensions
        extra = {"none": 0, "accompany": distances}.get(self.unified_pos, distances - self.dimensions)
        return self.inputs + extra


_CHOICES: dict[str, tuple[str, ...]] = {
    "activation": tuple(ACTIVATIONS),
    "projection": tuple(DIMENSIONS_OF),
    "attention": ("slices", "squares", "full"),
    "unified_pos": ("none", "replace", "accompany", "index"),
}


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list | tuple) else value


class Answer(NamedTuple):
    """What a call with `skin` gives: fields [B, N, outputs], coefficients [B, K] or None, pooled skin features [B, C]."""

    fields: Tensor
    coefficients: Tensor | None
    pooled: Tensor


class States(NamedTuple):
    """All that decoding needs of a body: the mixed slice tokens of each layer, [B, H, M, D] each.

    `time` [B] and, when skin points were marked, `pooled` [B, C] and `coefficients` [B, K] come with it.
    """

    tokens: tuple[Tensor, ...]
    time: Tensor | None = None
    pooled: Tensor | None = None
    coefficients: Tensor | None = None


class Tile(NamedTuple):
    """Some points of each member of the batch: inputs [B, n, C_in]; mask and skin [B, n] where given."""

    inputs: Tensor
    mask: Tensor | None = None
    skin: Tensor | None = None

    def split(self, size: int) -> list["Tile"]:
        count = max(1, -(-self.inputs.shape[1] // size))
        parts = [[None] * count if part is None else part.split(size, dim=1) for part in self]
        return [Tile(*together) for together in zip(*parts, strict=True)]


Linear = tuple[Tensor, Tensor]  # weight [out, in], bias [out]


class Folded(NamedTuple):
    """A block's weights as the products over points use them: folded once a call, in the precision of the products."""

    slicing: Linear | None  # normalised point -> slice logits [H*M] (folded) or slice features [C]
    values: Linear | None = None  # normalised point -> values [C]
    hidden: Linear | None = None  # normalised point -> hidden layer of the MLP
    out: Linear | None = None  # hidden layer -> update


def normalised(x: Tensor) -> Tensor:
    """Layer norm without scale and shift, which `fold_norm` has put into the product that follows."""
    return F.layer_norm(x, x.shape[-1:])


def fold_norm(norm: nn.LayerNorm, weight: Tensor, bias: Tensor) -> Linear:
    """The linear map that does to normalised(x) what `weight, bias` do to norm(x)."""
    return weight * norm.weight, bias + weight @ norm.bias


class PhysicsAttention(nn.Module):
    """Attention among M learned slices of the points, per head: reduce, mix, spread.

    The same products can be taken in two orders. As the paper writes them, every point is projected to slice features
    and to values, and what it receives is projected once more: 3 C C + 3 C M multiplications a point. But the value
    projection is linear, so it can wait until the points are summed; the two maps before the softmax are one; and the
    output projection can be applied to the tokens before they are handed out: 3 C H M. The cheaper order is taken.
    """

    def __init__(self, config: TransolverConfig, slices: int) -> None:
        super().__init__()
        C, H = config.channels, config.heads
        D = C // H
        self.heads, self.kind, self.dropout = H, config.attention, config.dropout
        self.bounds = config.temperature_bounds
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

    def clamped_temperature(self) -> Tensor:
        return self.temperature if self.bounds is None else self.temperature.clamp(*self.bounds)  # [H]

    def fold(self) -> tuple[Linear | None, Linear | None]:
        """The maps of normalised points to slices and to values; convolutions, whose padding is zero, stay as they are."""
        if not self.pointwise:
            return None, None
        values = fold_norm(self.norm, self.to_values.weight, self.to_values.bias)
        if self.kind != "slices":
            return None, values
        weight, bias = self.to_slices.weight, self.to_slices.bias  # [C, C], [C]
        if self.folded:
            per_head = weight.unflatten(0, (self.heads, -1))  # [H, D, C]
            scale = self.clamped_temperature().reciprocal()[:, None]  # [H, 1]
            weight = (scale[..., None] * (self.logits.weight @ per_head)).flatten(0, 1)  # [H, M, C] -> [H*M, C]
            bias = (scale * self.logits(bias.unflatten(0, (self.heads, -1)))).flatten()  # [H, M] -> [H*M]
        return fold_norm(self.norm, weight, bias), values

    def prepare(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """What the projections see of the points x [B, n, C]."""
        if self.pointwise:
            return normalised(x)
        z = self.norm(x)
        return z if mask is None else z * mask[..., None]  # a convolution must find nothing beside the mesh

    def project(self, z: Tensor, conv: nn.Module, linear: Linear | None, grid: Grid) -> Tensor:
        """Points z [B, n, C] -> features per head [B, n, H, D]."""
        if linear is not None:
            return F.linear(z, *linear).unflatten(-1, (self.heads, -1))
        assert grid is not None
        image = z.unflatten(1, grid).movedim(-1, 1)  # [B, C, *grid], channels last in memory
        return conv(image).movedim(1, -1).flatten(1, -2).unflatten(-1, (self.heads, -1))

    def weigh(self, z: Tensor, folded: Folded, mask: Tensor | None, grid: Grid) -> Tensor | None:
        """Slice weights of the points z [B, n, C]: [B, n, H, M], which sum to one over M. None: each point a slice."""
        if self.kind == "full":
            return None
        if self.kind == "squares":
            assert grid is not None
            square = _squares(grid, z.device)  # [n]
            w = F.one_hot(square, _count_squares(grid)).to(z.dtype)[None, :, None].expand(len(z), -1, self.heads, -1)
        else:
            if self.folded:
                assert folded.slicing is not None
                logits = F.linear(z, *folded.slicing).unflatten(-1, (self.heads, -1))  # [B, n, H, M]
            else:
                features = self.project(z, self.to_slices, folded.slicing, grid)
                logits = self.logits(features) / self.clamped_temperature()[:, None]
            w = F.softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32)).to(logits.dtype)
        return w if mask is None else w * mask[..., None, None]

    def reduce(self, z: Tensor, w: Tensor | None, folded: Folded, mask: Tensor | None, grid: Grid) -> Tensor:
        """Sums over the points of w times their values, and of w: [B, H, M, F + 1].

        The values are z itself in the folded order (F = C), the projected values otherwise (F = D).
        """
        if self.folded:
            assert w is not None
            sums = (w.flatten(2).mT @ z.to(w.dtype)).unflatten(1, (self.heads, -1))  # [B, H*M, n] @ [B, n, C]
            counts = w.sum(1, dtype=sums.dtype)
        else:
            v = self.project(z, self.to_values, folded.values, grid)
            if w is None:
                sums = v.transpose(1, 2)  # [B, H, n, D]
                counts = sums.new_ones(()) if mask is None else mask[:, None].to(sums.dtype)
                counts = counts.expand(sums.shape[:-1])
            else:
                sums = torch.einsum("bnhm,bnhd->bhmd", w.to(v.dtype), v)
                counts = w.sum(1, dtype=sums.dtype)
        return torch.cat([sums, counts[..., None]], dim=-1)

    def mix(self, total: Tensor) -> Tensor:
        """Attention among the tokens that the sums over all points give: [B, H, M, F + 1] -> [B, H, M, D]."""
        total = total.to(self.out.weight.dtype)
        sums, counts = total[..., :-1], total[..., -1:]
        if self.folded:
            weight, bias = fold_norm(self.norm, self.to_values.weight, self.to_values.bias)
            weight, bias = weight.unflatten(0, (self.heads, -1)), bias.unflatten(0, (self.heads, 1, -1))
            sums = torch.einsum("bhmc,hdc->bhmd", sums, weight) + counts * bias
        tokens = sums if self.kind == "full" else sums / (counts + EPSILON)
        # Learned slices always hold some of every point; squares and single points may lie in the padding.
        empty_apart = None if self.kind == "slices" else (counts > 0).mT  # [B, H, 1, M]
        return F.scaled_dot_product_attention(
            self.query(tokens),
            self.key(tokens),
            self.value(tokens),
            attn_mask=empty_apart,
            dropout_p=self.dropout if self.training else 0.0,
        )

    def ready(self, tokens: Tensor) -> Tensor:
        """The tokens [B, H, M, D] as `spread` takes them: in the folded order with the output projection, [B, H*M, C]."""
        if not self.folded:
            return tokens
        weight = self.out.weight.unflatten(1, (self.heads, -1))  # [C, H, D]
        # The weights of a point sum to one in each head, so a share of the bias in every token adds up to the bias.
        return (torch.einsum("bhmd,chd->bhmc", tokens, weight) + self.out.bias / self.heads).flatten(1, 2)

    def spread(self, x: Tensor, w: Tensor | None, ready: Tensor) -> Tensor:
        """x [B, n, C] plus what its points receive from the tokens."""
        dropped = self.training and self.dropout > 0.0
        if self.folded:
            assert w is not None
            w = w.flatten(2)  # [B, n, H*M]
            if x.dtype == ready.dtype and not dropped:
                return torch.baddbmm(x, w, ready)
            update = w @ ready
        else:
            update = ready.transpose(1, 2) if w is None else torch.einsum("bnhm,bhmd->bnhd", w.to(ready.dtype), ready)
            update = self.out(update.flatten(2))
        return x + F.dropout(update, self.dropout, self.training)


def _projection(config: TransolverConfig) -> nn.Module:
    C = config.channels
    if config.projection == "pointwise":
        return nn.Linear(C, C)
    conv = nn.Conv2d if config.projection == "conv2d" else nn.Conv3d
    return conv(C, C, kernel_size=3, padding=1)


def _count_squares(grid: tuple[int, ...]) -> int:
    return math.prod(-(-side // SQUARE) for side in grid)


def _squares(grid: tuple[int, ...], device: torch.device) -> Tensor:
    """For each point of the grid, in row-major order, the number of the square it lies in: [N]."""
    number = torch.zeros((), dtype=torch.long, device=device)
    for side in grid:
        number = number[..., None] * -(-side // SQUARE) + torch.arange(side, device=device) // SQUARE
    return number.flatten()


class FeedForward(nn.Module):
    """Linear, activation, linear."""

    def __init__(self, inputs: int, hidden: int, outputs: int, activation: str) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, hidden)
        self.out = nn.Linear(hidden, outputs)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.activation(self.hidden(x)))


class Block(nn.Module):
    """Physics-Attention, then an MLP on every point; each behind a layer norm and beside a residual."""

    def __init__(self, config: TransolverConfig, slices: int) -> None:
        super().__init__()
        C = config.channels
        self.attention = PhysicsAttention(config, slices)
        self.norm = nn.LayerNorm(C)
        self.mlp = FeedForward(C, C * config.mlp_ratio, C, config.activation)

    def fold(self, dtype: torch.dtype) -> Folded:
        maps = *self.attention.fold(), fold_norm(self.norm, self.mlp.hidden.weight, self.mlp.hidden.bias)
        out = self.mlp.out.weight, self.mlp.out.bias
        return Folded(*(None if m is None else (m[0].to(dtype), m[1].to(dtype)) for m in (*maps, out)))

    def begin(
        self, x: Tensor, folded: Folded, mask: Tensor | None, grid: Grid, lean: bool = False
    ) -> tuple[Tensor | None, Tensor]:
        """Slice weights of the points x [B, n, C], and their share of the sums over all points."""
        if lean and self.is_simple:
            assert folded.slicing is not None
            return _LeanBegin.apply(x, *folded.slicing, mask, self)
        z = self.attention.prepare(x, mask)
        w = self.attention.weigh(z, folded, mask, grid)
        return w, self.attention.reduce(z, w, folded, mask, grid)

    def finish(self, x: Tensor, w: Tensor | None, ready: Tensor, folded: Folded, lean: bool = False) -> Tensor:
        """The points x [B, n, C] after the block, from their slice weights and the mixed tokens."""
        if lean and self.is_simple:
            return _LeanFinish.apply(x, w, ready, *folded.hidden, *folded.out, self)
        x = self.attention.spread(x, w, ready)
        return x + F.linear(self.mlp.activation(F.linear(normalised(x), *folded.hidden)), *folded.out)

    @property
    def is_simple(self) -> bool:
        return self.attention.folded and not (self.training and self.attention.dropout)


# The two halves of a block in the folded order, with gradients written out. They keep the points, their weights and the
# hidden layer before its activation; norms, softmax and activations are computed again. What is kept is allocated before
# any temporary: mixed, the two would leave holes in the heap as large as what is kept.


class _LeanBegin(torch.autograd.Function):
    """`Block.begin`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, mask: Tensor | None, block: Block
    ) -> tuple[Tensor, Tensor]:
        (B, n, C), H = x.shape, block.attention.heads
        results = weight.new_empty(B, n, H, len(weight) // H), weight.new_empty(B, H, len(weight) // H, C + 1)
        for result, value in zip(results, block.begin(x, Folded((weight, bias)), mask, None), strict=True):
            result.copy_(value)
        ctx.save_for_backward(x, results[0], weight)
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dw: Tensor, dpart: Tensor) -> tuple[Tensor | None, ...]:
        x, w, weight = ctx.saved_tensors
        z, mean, rstd = torch.native_layer_norm(x, x.shape[-1:], None, None, NORM_EPSILON)
        z = z.to(w.dtype)
        dsums, dcounts = dpart[..., :-1].flatten(1, 2), dpart[..., -1]  # [B, H*M, C], [B, H, M]
        dw = torch.baddbmm((dw + dcounts[:, None]).flatten(2), z, dsums.mT)  # [B, n, H*M]
        dlogits = aten._softmax_backward_data(dw.view_as(w), w, -1, w.dtype).flatten(2)
        dz = torch.baddbmm(dlogits @ weight, w.flatten(2), dsums)  # [B, n, C]
        dx = aten.native_layer_norm_backward(dz.to(x.dtype), x, x.shape[-1:], mean, rstd, None, None, ONLY_INPUT)[0]
        dlogits = dlogits.flatten(0, 1)  # [B*n, H*M]
        return dx, dlogits.T @ z.flatten(0, 1), dlogits.sum(0), None, None


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
        y = torch.empty_like(x)
        hidden = weight1.new_empty(*x.shape[:-1], len(weight1))
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
        dz = (dhidden @ weight1).to(u.dtype).view_as(u)
        du = aten.native_layer_norm_backward(dz, u, u.shape[-1:], mean, rstd, None, None, ONLY_INPUT)[0].add_(dy)
        dupdate = du.to(ready.dtype)
        dw, dready = (dupdate @ ready.mT).view_as(w), w.flatten(2).mT @ dupdate
        return du, dw, dready, dweight1, dbias1, dweight2, dbias2, None


class Call(NamedTuple):
    """What all tiles of a call share."""

    folded: list[Folded]  # per block
    time: Tensor | None  # embedded, [B, 1, C]
    grid: Grid = None
    recompute: str = "none"  # in the backward pass


class Transolver(nn.Module):
    """Fields at points from the points' positions and input functions; see `forward`, `states` and `decode`.

    tile        points worked on at once; None chooses (see `_tile_size`)
    recompute   what a training step computes again in its backward pass instead of keeping it: "none" (for derivatives
                of derivatives), "cheap" (norms, softmax, activations), "tiles" (all but the features between layers
                and the slice weights); "auto" is "cheap", and "tiles" above RECOMPUTE_ABOVE points
    """

    def __init__(self, config: TransolverConfig, *, tile: int | None = None, recompute: str = "auto") -> None:
        super().__init__()
        C, K = config.channels, config.coefficients
        self.config, self.tile, self.recompute = config, tile, recompute
        self.embed = FeedForward(config.embedded_inputs, 2 * C, C, config.activation)
        self.placeholder = nn.Parameter(torch.rand(C) / C) if config.placeholder else None
        self.time = nn.Sequential(nn.Linear(C, C), nn.SiLU(), nn.Linear(C, C)) if config.time_input else None
        self.blocks = nn.ModuleList(Block(config, slices) for slices in config.slices_per_layer)
        self.norm = nn.LayerNorm(C)
        self.head = nn.Linear(C, config.outputs)
        self.coefficients = FeedForward(C, C, K, config.activation) if K else None
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
        grid    sides of a structured mesh, N = prod(grid) in row-major order; convolutions and squares need it
        mask    [B, N] bool: the points that are there, in a batch of meshes of unequal size
        time    [B], for a model with time_input
        skin    [B, N]: True (or a weight, such as an area) at the points whose features are pooled
        group   a process group over which the points of the batch are spread: each process passes its share and gets
                the fields of these points as if it had passed them all. The loss of the whole is the sum of the
                processes' losses, its gradient the sum of their gradients; a loss on the coefficients, which every
                process computes, must be divided by the number of processes.
        """
        self._check(inputs, grid, mask, time)
        if group is not None:
            self._require_states()
        if mask is not None:
            inputs = inputs.masked_fill(~mask[..., None], 0.0)
            skin = None if skin is None else skin * mask
        if self.config.unified_pos == "index":
            assert grid is not None
            places = _index_grid(grid, inputs).expand(len(inputs), -1, -1)
            inputs = torch.cat([places, inputs[..., self.config.dimensions :]], dim=-1)
        tiles = Tile(inputs, mask, skin).split(self._tile_size(inputs))
        recompute = self.recompute if torch.is_grad_enabled() and not torch.compiler.is_compiling() else "none"
        if recompute == "auto":
            recompute = "tiles" if len(inputs) * inputs.shape[1] > RECOMPUTE_ABOVE else "cheap"
        call = self._call(time, grid, recompute)
        fields, _, pool = self._march(lambda: tiles, call, group, inputs.shape[1])
        if pool is None:
            return torch.cat(fields, dim=1)
        return Answer(torch.cat(fields, dim=1), *self._of_skin(pool))

    @torch.no_grad()
    def states(
        self,
        chunks: Iterable[Tensor | tuple[Tensor, Tensor]],
        time: Tensor | None = None,
        group: dist.ProcessGroup | None = None,
        keep: int = KEPT_FEATURES,
    ) -> States:
        """Reduce any number of points to the tokens of every layer.

        chunks  inputs [B, n, inputs], or pairs (inputs, skin [B, n]); iterated once for every layer
        time    [B], for a model with time_input
        group   as for `forward`: each process passes its own chunks
        keep    the features of the first so many points are kept from layer to layer (4 C bytes each); those of
                the others are computed anew from their inputs in every layer
        """
        self._require_states()
        tiles = functools.partial(self._tiles, chunks, time)
        _, tokens, pool = self._march(tiles, self._call(time), group, keep, fields=False)
        if pool is None:
            return States(tuple(tokens), time)
        coefficients, pooled = self._of_skin(pool)
        return States(tuple(tokens), time, pooled, coefficients)

    @torch.no_grad()
    def decode(self, points: Tensor, states: States) -> Tensor:
        """Fields [B, n, outputs] at points [B, n, inputs] beside the body that the states hold."""
        self._require_states()
        call = self._call(states.time)
        ready = [self._ready(k, tokens) for k, tokens in enumerate(states.tokens)]
        tiles = self._tiles([points], states.time)
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
        call = self._call(time, grid)
        tile = Tile(points)
        x = self._features(tile, [], call)
        for k in range(layer % len(self.blocks)):
            w, part = self.blocks[k].begin(x, call.folded[k], None, grid)
            tokens = self.blocks[k].attention.mix(part) if states is None else states.tokens[k]
            x = self.blocks[k].finish(x, w, self._ready(k, tokens), call.folded[k])
        return self.blocks[layer].begin(x, call.folded[layer], None, grid)[0]

    def _march(
        self,
        tiles: Callable[[], Iterable[Tile]],
        call: Call,
        group: dist.ProcessGroup | None,
        keep: int,
        fields: bool = True,
    ) -> tuple[list[Tensor], list[Tensor], Tensor | None]:
        """Pass over the tiles once for the embedding and once for every block: (fields per tile, tokens, skin's sums)."""
        step = functools.partial(self._again, self._step) if call.recompute == "tiles" else self._step
        kept: dict[int, tuple[Tensor, Tensor | None]] = {}
        outputs: list[Tensor] = []
        tokens: list[Tensor] = []
        ready: list[Tensor] = []
        skinned = False
        for k in range(len(self.blocks) + 1):
            last = k == len(self.blocks)
            if last and not (fields or skinned):
                return outputs, tokens, None
            total, seen = None, 0
            places = [self._places(k, tile) for tile in tiles()] if call.recompute == "tiles" and not last else []
            for i, tile in enumerate(tiles()):
                skinned |= tile.skin is not None
                x, w, part = step(tile, *kept.pop(i, (None, None)), tuple(ready), call)
                if places and w is not None:
                    x, w = (_Moved.apply(value, place) for value, place in zip((x, w), places[i], strict=True))
                if part is not None:
                    total = part.to(_wide(part)) if total is None else total + part
                seen += tile.inputs.shape[1]
                if last and fields:
                    outputs.append(x)
                elif seen <= keep:
                    kept[i] = x, w if seen <= KEPT_WEIGHTS else None
            if total is not None and group is not None:
                total = _SumOverGroup.apply(total, group)
            if not last:
                assert total is not None
                with _full_precision(total):
                    tokens.append(self.blocks[k].attention.mix(total))
                ready.append(self._ready(k, tokens[k]))
        return outputs, tokens, total

    def _places(self, k: int, tile: Tile) -> tuple[Tensor, Tensor]:
        """Room for what a step keeps of a tile, its features and weights, in one stretch with that of the other tiles.

        Allocated one by one between the temporaries of each step, they would leave holes in the heap as large again.
        """
        (B, n, _), C, H = tile.inputs.shape, self.config.channels, self.config.heads
        weight = self.head.weight
        w = weight.new_empty(B, n, H, self.config.slices_per_layer[k], dtype=_product_dtype(weight))
        return weight.new_empty(B, n, C), w

    def _step(
        self, tile: Tile, x: Tensor | None, w: Tensor | None, ready: Sequence[Tensor], call: Call
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Finish one block and begin the next on a tile, while it is in the cache.

        Returns the tile's features, slice weights and share of the sums; after the last block its fields, None, and
        its share of the skin's sums [B, C + 1].
        """
        k = len(ready)
        x = self._features(tile, ready, call) if x is None else self._finish(tile, x, w, ready[-1], k - 1, call)
        if k < len(self.blocks):
            return x, *self.blocks[k].begin(x, call.folded[k], tile.mask, call.grid, call.recompute != "none")
        z = self.norm(x)
        if tile.skin is None:
            return self.head(z), None, None
        skin = tile.skin.to(z.dtype)[:, None]  # [B, 1, n]
        return self.head(z), None, torch.cat([skin @ z, skin.sum(-1, keepdim=True)], dim=-1)[:, 0]

    def _again(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of which the backward pass keeps the arguments only."""
        return checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=self.config.dropout > 0.0)

    def _finish(self, tile: Tile, x: Tensor, w: Tensor | None, ready: Tensor, k: int, call: Call) -> Tensor:
        block, folded = self.blocks[k], call.folded[k]
        if w is None:
            w = block.attention.weigh(block.attention.prepare(x, tile.mask), folded, tile.mask, call.grid)
        return block.finish(x, w, ready, folded, call.recompute != "none")

    def _features(self, tile: Tile, ready: Sequence[Tensor], call: Call) -> Tensor:
        """The features [B, n, C] with which a tile enters the block after those whose tokens are ready."""
        inputs = self._unified(tile.inputs)
        x = self._again(self.embed, inputs) if call.recompute == "cheap" else self.embed(inputs)
        if self.placeholder is not None:
            x = x + self.placeholder
        if call.time is not None:
            x = x + call.time
        for k, tokens in enumerate(ready):
            x = self._finish(tile, x, None, tokens, k, call)
        return x

    def _unified(self, inputs: Tensor) -> Tensor:
        """The inputs with distances to the reference grid, where the configuration has them."""
        if self.config.unified_pos == "none":
            return inputs
        d = self.config.dimensions
        box = self.config.unified_box or ((0.0, 1.0),) * d
        sides = [
            torch.linspace(low, high, self.config.unified_size, dtype=inputs.dtype, device=inputs.device)
            for low, high in box
        ]
        reference = torch.cartesian_prod(*sides).expand(len(inputs), -1, -1)  # [B, size**d, d], row-major
        distances = torch.cdist(inputs[..., :d], reference, compute_mode="donot_use_mm_for_euclid_dist")
        if self.config.unified_pos == "accompany":
            return torch.cat([inputs, distances], dim=-1)
        return torch.cat([distances, inputs[..., d:]], dim=-1)

    def _call(self, time: Tensor | None, grid: Grid = None, recompute: str = "none") -> Call:
        weight = self.head.weight
        with _full_precision(weight):
            folded = [block.fold(_product_dtype(weight)) for block in self.blocks]
            return Call(folded, None if time is None else self._embed_time(time), grid, recompute)

    def _embed_time(self, time: Tensor) -> Tensor:
        """Sinusoids of the time [B], through a small MLP: [B, 1, C]."""
        assert self.time is not None
        half = self.config.channels // 2
        steps = torch.arange(half, device=time.device, dtype=self.head.weight.dtype)
        angles = time.reshape(-1, 1, 1) * torch.exp(-math.log(10000.0) / half * steps)
        return self.time(F.pad(torch.cat([angles.cos(), angles.sin()], dim=-1), (0, self.config.channels % 2)))

    def _ready(self, k: int, tokens: Tensor) -> Tensor:
        with _full_precision(tokens):
            return self.blocks[k].attention.ready(tokens).to(_product_dtype(tokens))

    def _of_skin(self, pool: Tensor) -> tuple[Tensor | None, Tensor]:
        """Coefficients and mean features of the skin from its sums [B, C + 1]."""
        pooled = (pool[:, :-1] / pool[:, -1:].clamp_min(torch.finfo(pool.dtype).tiny)).to(self.head.weight.dtype)
        return None if self.coefficients is None else self.coefficients(pooled), pooled

    def _tiles(self, chunks: Iterable[Tensor | tuple[Tensor, Tensor]], time: Tensor | None) -> Iterator[Tile]:
        for chunk in chunks:
            inputs, skin = chunk if isinstance(chunk, tuple) else (chunk, None)
            self._check(inputs, None, None, time)
            yield from Tile(inputs, None, skin).split(self._tile_size(inputs))

    def _tile_size(self, inputs: Tensor) -> int:
        """Points of a tile: what fits the cache of a processor; all of them where nothing is gained by tiles."""
        whole = max(1, inputs.shape[1])
        if self.config.projection != "pointwise" or self.config.attention != "slices" or torch.compiler.is_compiling():
            return whole
        return self.tile or (max(1, TILE_IN_CACHE // len(inputs)) if inputs.is_cpu else whole)

    def _require_states(self) -> None:
        """Raise where a point's update needs more than its own features and the tokens."""
        config = self.config
        reason = None
        if config.projection != "pointwise":
            reason = f'projection "{config.projection}": a convolution needs the neighbours of a point at every layer'
        elif config.attention != "slices":
            reason = (
                f'attention "{config.attention}": only learned slices reduce points to tokens independent of the mesh'
            )
        elif config.unified_pos == "index":
            reason = 'unified_pos "index": positions are places on the whole grid'
        if reason:
            raise InputError("this model has no states", seen=reason, remedy="pass all points in one call of the model")

    def _check(self, inputs: Tensor, grid: Grid, mask: Tensor | None, time: Tensor | None) -> None:
        config = self.config
        if inputs.ndim != 3 or inputs.shape[-1] != config.inputs:
            raise InputError(
                "inputs have the wrong shape", seen=tuple(inputs.shape), remedy=f"pass [batch, points, {config.inputs}]"
            )
        needs_grid = config.projection != "pointwise" or config.attention == "squares" or config.unified_pos == "index"
        if needs_grid and grid is None:
            raise InputError("this model needs the sides of the grid", remedy="pass grid=(rows, columns, ...)")
        if grid is not None and (len(grid) != config.dimensions or math.prod(grid) != inputs.shape[1]):
            raise InputError(
                "grid does not fit the points",
                seen=f"{grid} for {inputs.shape[1]} points",
                remedy=f"give {config.dimensions} sides whose product is the number of points",
            )
        if mask is not None and config.unified_pos == "index":
            raise InputError(
                "places on the index grid of a padded batch differ from each member's own", remedy="pass members alone"
            )
        if (time is not None) != config.time_input:
            raise InputError("time must be given exactly when the model has time_input", seen=time)

    @classmethod
    def from_reference(cls, state_dict: Mapping[str, Tensor], **options: Any) -> "Transolver":
        """The model of a checkpoint of the authors' code: pointwise, 2D or 3D.

        Read off the shapes: channels, heads, slices, layers, mlp_ratio, projection, time_input, inputs, outputs.
        Not to be seen there, so by keyword: `dimensions` (2; 3 for conv3d), `unified_pos` ("none") and its box,
        `activation` ("gelu"), `dropout` (0). Defaults that follow the authors: temperatures are clamped in
        convolutional models only, and the placeholder is added in pointwise models always, in convolutional ones
        where no input functions stand beside the positions.
        """
        # The AirfRANS model holds one MLP per block that it never uses.
        weights = {_own_name(name): value for name, value in state_dict.items() if ".mlp_new." not in name}
        slicing = weights["blocks.0.attention.to_slices.weight"]  # [C, C] or [C, C, 3, 3(, 3)]
        layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("blocks."))
        projection = {2: "pointwise", 4: "conv2d", 5: "conv3d"}[slicing.ndim]
        channels = slicing.shape[0]
        width = weights["embed.hidden.weight"].shape[1]
        settings: dict[str, Any] = {
            "dimensions": DIMENSIONS_OF[projection] or 2,
            "unified_pos": "none",
            "unified_size": 8,
            "temperature_bounds": None if projection == "pointwise" else (0.1, 5.0),
        } | options
        d = settings["dimensions"]
        distances = settings["unified_size"] ** d
        inputs = width - {"none": 0, "accompany": distances}.get(settings["unified_pos"], distances - d)
        settings = {
            "inputs": inputs,
            "outputs": weights["head.weight"].shape[0],
            "layers": layers,
            "channels": channels,
            "heads": weights["blocks.0.attention.temperature"].numel(),
            "slices": tuple(weights[f"blocks.{k}.attention.logits.weight"].shape[0] for k in range(layers)),
            "mlp_ratio": weights["blocks.0.mlp.hidden.weight"].shape[0] // channels,
            "projection": projection,
            "time_input": "time.0.weight" in weights,
            "placeholder": projection == "pointwise" or inputs == d,
        } | settings
        model = cls(TransolverConfig(**settings))
        if model.placeholder is None:
            weights.pop("placeholder", None)
        own = model.state_dict()
        model.load_state_dict(
            {k: v.reshape(own[k].shape) if k.endswith("temperature") else v for k, v in weights.items()}
        )
        return model


REFERENCE_NAMES = {
    "preprocess.linear_pre.0": "embed.hidden",
    "preprocess.linear_post": "embed.out",
    "time_fc": "time",
    "ln_1": "attention.norm",
    "Attn": "attention",
    "in_project_x": "to_slices",
    "in_project_fx": "to_values",
    "in_project_slice": "logits",
    "to_q": "query",
    "to_k": "key",
    "to_v": "value",
    "to_out.0": "out",
    "ln_2": "norm",
    "mlp.linear_pre.0": "mlp.hidden",
    "mlp.linear_post": "mlp.out",
}


def _own_name(name: str) -> str:
    """Our name of a parameter of the authors' code."""
    for theirs, ours in REFERENCE_NAMES.items():
        name = re.sub(rf"(^|\.){re.escape(theirs)}(?=\.)", rf"\1{ours}", name)
    return re.sub(r"^blocks\.\d+\.(ln_3|mlp2)\.", lambda m: "norm." if m[1] == "ln_3" else "head.", name)


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
    """Sum over the processes of a group. Each process' loss depends on the sum, so their gradients are summed too."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        total = part.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


def _autocasts(tensor: Tensor) -> bool:
    device = tensor.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def _product_dtype(tensor: Tensor) -> torch.dtype:
    """The precision of products over points: autocast's, where it is on."""
    return torch.get_autocast_dtype(tensor.device.type) if _autocasts(tensor) else tensor.dtype


def _full_precision(tensor: Tensor) -> AbstractContextManager[Any]:
    """Folding and mixing touch few numbers that all points see: autocast is off there."""
    return torch.autocast(tensor.device.type, enabled=False) if _autocasts(tensor) else nullcontext()


def _wide(tensor: Tensor) -> torch.dtype:
    """The precision of sums over tiles and chunks, which may be many. Apple's GPUs have no float64."""
    return torch.float32 if tensor.device.type == "mps" else torch.float64


def _index_grid(grid: tuple[int, ...], like: Tensor) -> Tensor:
    """Places of the points of a structured mesh in the unit box: [N, d], row-major."""
    return torch.cartesian_prod(*(torch.linspace(0, 1, side, dtype=like.dtype, device=like.device) for side in grid))


def _initialise(module: nn.Module) -> None:
    """As the authors mean it; their orthogonal slice projection is overwritten in their own code."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, PhysicsAttention) and module.kind == "slices":
        nn.init.orthogonal_(module.logits.weight)
