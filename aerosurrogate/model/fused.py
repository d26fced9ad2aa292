"""Slicing, deslicing and MLP as one kernel each, forward and backward: a point's weights are never in memory.

For graphics processors, where Triton is installed. A program works through tiles of normalised points of one member of
the batch. Forward, `_slice` takes logits, softmax and the sums over points of one head; `_deslice` logits, softmax and
what the points receive from all heads. Backward, `_points` gives the gradient of the points and `_maps` those of logits
and tokens. Sums over programs are taken by torch, in one order: results repeat to the bit. Programs that work on the
same points for different heads are neighbours, so that the points come from memory once.

An MLP is deslicing with another activation: the hidden channels, some at a time, are the slices of a head, GELU stands
for softmax, and the rows of the second map are tokens that all members share.

To torch.compile each kernel is an operator of its own, of which it knows the shapes of the results.
"""

# mypy: disable-error-code="no-untyped-def"

from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

POINTS = 32  # of a tile: with 8 warps, what is held of it fits the registers at 256 channels
PROGRAMS = 320  # at least, where sums over points are taken: enough for any card
HIDDEN = 32  # channels of an MLP that are worked on at once


@triton.jit
def _tile(of, rows, n, C: tl.constexpr):
    """A tile of points; zero beyond the last point."""
    columns = tl.arange(0, C)
    return tl.load(of + rows[:, None] * C + columns[None, :], mask=(rows < n)[:, None], other=0.0)


@triton.jit
def _logits(z, map_of, bias_of, C: tl.constexpr, M: tl.constexpr, DOT: tl.constexpr):
    """The map [M, C] of one head and the tile's logits [POINTS, M]."""
    slices, columns = tl.arange(0, M), tl.arange(0, C)
    map_ = tl.load(map_of + slices[:, None] * C + columns[None, :]).to(DOT)
    logits = tl.dot(z.to(DOT), tl.trans(map_), input_precision="ieee")
    return map_, logits + tl.load(bias_of + slices)[None, :].to(tl.float32)


@triton.jit
def _weights(logits, rows, n, SOFTMAX: tl.constexpr):
    """Weights [POINTS, M]: softmax, zero beyond the last point; or GELU, where nothing comes from there anyway."""
    if SOFTMAX:
        e = tl.exp(logits - tl.max(logits, 1)[:, None])
        return tl.where((rows < n)[:, None], e / tl.sum(e, 1)[:, None], 0.0)
    return 0.5 * logits * (1 + tl.erf(logits * 0.7071067811865476))


@triton.jit
def _slopes(logits, w, dw, SOFTMAX: tl.constexpr):
    """The gradient of the logits, given that of the weights."""
    if SOFTMAX:
        return w * (dw - tl.sum(w * dw, 1)[:, None])
    density = tl.exp(-0.5 * logits * logits) * 0.3989422804014327
    return dw * (0.5 * (1 + tl.erf(logits * 0.7071067811865476)) + logits * density)


@triton.jit
def _slice(
    z, map_, bias, sums, counts, n, H, tiles, N: tl.constexpr, C: tl.constexpr, M: tl.constexpr, DOT: tl.constexpr
):
    head, part, member = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    z_of = z + member.to(tl.int64) * n * C
    slices, columns = tl.arange(0, M), tl.arange(0, C)
    total = tl.zeros((M, C), tl.float32)
    count = tl.zeros((M,), tl.float32)
    for tile in range(part * tiles, (part + 1) * tiles):
        rows = tile * N + tl.arange(0, N)
        z_ = _tile(z_of, rows, n, C)
        _linear, logits = _logits(z_, map_ + head * M * C, bias + head * M, C, M, DOT)
        w = _weights(logits, rows, n, True)
        total += tl.dot(tl.trans(w).to(DOT), z_.to(DOT), input_precision="ieee")
        count += tl.sum(w, 0)
    place = (part * tl.num_programs(2) + member) * H + head
    tl.store(sums + place * M * C + slices[:, None] * C + columns[None, :], total)
    tl.store(counts + place * M + slices, count)


@triton.jit
def _deslice(
    z,
    map_,
    bias,
    ready,
    y,
    n,
    H: tl.constexpr,
    N: tl.constexpr,
    C: tl.constexpr,
    M: tl.constexpr,
    DOT: tl.constexpr,
    SOFTMAX: tl.constexpr,
):
    tile, member = tl.program_id(0), tl.program_id(1)
    rows = tile * N + tl.arange(0, N)
    slices, columns = tl.arange(0, M), tl.arange(0, C)
    at = member.to(tl.int64) * n * C
    z_ = _tile(z + at, rows, n, C)
    received = tl.zeros((N, C), tl.float32)
    for head in range(H):
        _linear, logits = _logits(z_, map_ + head * M * C, bias + head * M, C, M, DOT)
        w = _weights(logits, rows, n, SOFTMAX)
        tokens = tl.load(ready + ((member * H + head) * M + slices[:, None]) * C + columns[None, :]).to(DOT)
        received += tl.dot(w.to(DOT), tokens, input_precision="ieee")
    tl.store(y + at + rows[:, None] * C + columns[None, :], received, mask=(rows < n)[:, None])


@triton.jit
def _points(
    z,
    map_,
    bias,
    tokens,
    extra,
    dy,
    dz,
    n,
    H: tl.constexpr,
    N: tl.constexpr,
    C: tl.constexpr,
    M: tl.constexpr,
    DOT: tl.constexpr,
    SLICING: tl.constexpr,
    SOFTMAX: tl.constexpr,
):
    """Slicing: `tokens` and `extra` are the gradients of sums and counts. Deslicing: the tokens, and nothing."""
    tile, member = tl.program_id(0), tl.program_id(1)
    rows = tile * N + tl.arange(0, N)
    slices, columns = tl.arange(0, M), tl.arange(0, C)
    at = member.to(tl.int64) * n * C
    z_ = _tile(z + at, rows, n, C)
    seen = z_ if SLICING else _tile(dy + at, rows, n, C)
    gradient = tl.zeros((N, C), tl.float32)
    for head in range(H):
        linear, logits = _logits(z_, map_ + head * M * C, bias + head * M, C, M, DOT)
        w = _weights(logits, rows, n, SOFTMAX)
        token = tl.load(tokens + ((member * H + head) * M + slices[:, None]) * C + columns[None, :]).to(DOT)
        dw = tl.dot(seen.to(DOT), tl.trans(token), input_precision="ieee")
        if SLICING:
            dw += tl.load(extra + (member * H + head) * M + slices)[None, :]
            gradient += tl.dot(w.to(DOT), token, input_precision="ieee")
        dlogits = _slopes(logits, w, dw, SOFTMAX)
        gradient += tl.dot(dlogits.to(DOT), linear, input_precision="ieee")
    tl.store(dz + at + rows[:, None] * C + columns[None, :], gradient, mask=(rows < n)[:, None])


@triton.jit
def _maps(
    z,
    map_,
    bias,
    tokens,
    extra,
    dy,
    dmap,
    dbias,
    dtokens,
    n,
    H,
    tiles,
    N: tl.constexpr,
    C: tl.constexpr,
    M: tl.constexpr,
    DOT: tl.constexpr,
    SLICING: tl.constexpr,
    SOFTMAX: tl.constexpr,
):
    head, part, member = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    slices, columns = tl.arange(0, M), tl.arange(0, C)
    at = member.to(tl.int64) * n * C
    token = tl.load(tokens + ((member * H + head) * M + slices[:, None]) * C + columns[None, :]).to(DOT)
    total, received, shift = tl.zeros((M, C), tl.float32), tl.zeros((M, C), tl.float32), tl.zeros((M,), tl.float32)
    for tile in range(part * tiles, (part + 1) * tiles):
        rows = tile * N + tl.arange(0, N)
        z_ = _tile(z + at, rows, n, C)
        _linear, logits = _logits(z_, map_ + head * M * C, bias + head * M, C, M, DOT)
        w = _weights(logits, rows, n, SOFTMAX)
        if SLICING:
            dw = tl.dot(z_.to(DOT), tl.trans(token), input_precision="ieee")
            dw += tl.load(extra + (member * H + head) * M + slices)[None, :]
        else:
            seen = _tile(dy + at, rows, n, C).to(DOT)
            dw = tl.dot(seen, tl.trans(token), input_precision="ieee")
            received += tl.dot(tl.trans(w).to(DOT), seen, input_precision="ieee")
        dlogits = _slopes(logits, w, dw, SOFTMAX)
        total += tl.dot(tl.trans(dlogits).to(DOT), z_.to(DOT), input_precision="ieee")
        shift += tl.sum(dlogits, 0)
    place = (part * tl.num_programs(2) + member) * H + head
    tl.store(dmap + place * M * C + slices[:, None] * C + columns[None, :], total)
    tl.store(dbias + place * M + slices, shift)
    if not SLICING:
        tl.store(dtokens + place * M * C + slices[:, None] * C + columns[None, :], received)


class _Plan:
    """Sizes that all kernels of a call are given."""

    def __init__(self, z: Tensor, weight: Tensor, heads: int) -> None:
        self.B, self.n, self.C = z.shape
        self.H, self.M = heads, len(weight) // heads
        self.all_tiles = -(-self.n // POINTS)
        self.parts = min(max(1, PROGRAMS // (self.H * self.B)), self.all_tiles)
        self.tiles = -(-self.all_tiles // self.parts)

    def sizes(self, weight: Tensor) -> dict[str, Any]:
        dot = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}.get(weight.dtype, tl.float32)
        return {"N": POINTS, "C": self.C, "M": self.M, "DOT": dot, "num_warps": 8, "num_stages": 1}

    def sums(self, z: Tensor) -> Tensor:
        return z.new_empty(self.parts, self.B, self.H, self.M, self.C, dtype=torch.float32)

    def counts(self, z: Tensor) -> Tensor:
        return z.new_empty(self.parts, self.B, self.H, self.M, dtype=torch.float32)


@torch.library.custom_op("aerosurrogate::slice", mutates_args=())
def slice_parts(z: Tensor, weight: Tensor, bias: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """Sums of weight times point, and of the weights, by parts of the points."""
    p = _Plan(z, weight, heads)
    sums, counts = p.sums(z), p.counts(z)
    _slice[p.H, p.parts, p.B](z, weight, bias, sums, counts, p.n, p.H, p.tiles, **p.sizes(weight))
    return sums, counts


@torch.library.custom_op("aerosurrogate::deslice", mutates_args=())
def deslice(z: Tensor, weight: Tensor, bias: Tensor, ready: Tensor, heads: int, softmax: bool) -> Tensor:
    """What the points receive; weights are by softmax or GELU."""
    p, y = _Plan(z, weight, heads), torch.empty_like(z)
    _deslice[p.all_tiles, p.B](z, weight, bias, ready, y, p.n, p.H, SOFTMAX=softmax, **p.sizes(weight))
    return y


@torch.library.custom_op("aerosurrogate::gradient_of_points", mutates_args=())
def gradient_of_points(
    z: Tensor,
    weight: Tensor,
    bias: Tensor,
    tokens: Tensor,
    extra: Tensor | None,
    dy: Tensor | None,
    heads: int,
    softmax: bool,
) -> Tensor:
    """Of slicing, given the gradients of sums and counts; or of deslicing, given `dy`."""
    p, dz = _Plan(z, weight, heads), torch.empty_like(z)
    given = z, weight, bias, tokens, tokens if extra is None else extra, z if dy is None else dy
    _points[p.all_tiles, p.B](*given, dz, p.n, p.H, SLICING=dy is None, SOFTMAX=softmax, **p.sizes(weight))
    return dz


@torch.library.custom_op("aerosurrogate::gradient_of_maps", mutates_args=())
def gradient_of_maps(
    z: Tensor,
    weight: Tensor,
    bias: Tensor,
    tokens: Tensor,
    extra: Tensor | None,
    dy: Tensor | None,
    heads: int,
    softmax: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Of weight and bias and, for deslicing, of the tokens, by parts of the points."""
    p = _Plan(z, weight, heads)
    dmap, dbias, dtokens = p.sums(z), p.counts(z), p.counts(z) if dy is None else p.sums(z)
    given = z, weight, bias, tokens, tokens if extra is None else extra, z if dy is None else dy
    kind = {"SLICING": dy is None, "SOFTMAX": softmax}
    _maps[p.H, p.parts, p.B](*given, dmap, dbias, dtokens, p.n, p.H, p.tiles, **kind, **p.sizes(weight))
    return dmap, dbias, dtokens


@slice_parts.register_fake
def _(z, weight, bias, heads):
    p = _Plan(z, weight, heads)
    return p.sums(z), p.counts(z)


@deslice.register_fake
def _(z, weight, bias, ready, heads, softmax):
    return torch.empty_like(z)


@gradient_of_points.register_fake
def _(z, weight, bias, tokens, extra, dy, heads, softmax):
    return torch.empty_like(z)


@gradient_of_maps.register_fake
def _(z, weight, bias, tokens, extra, dy, heads, softmax):
    p = _Plan(z, weight, heads)
    return p.sums(z), p.counts(z), p.counts(z) if dy is None else p.sums(z)


class Slice(torch.autograd.Function):
    """Normalised points z [B, n, C] -> sums [B, H, M, C + 1] of weight times point, and of the weights."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, weight: Tensor, bias: Tensor, heads: int) -> Tensor:
        z = z.contiguous()
        ctx.save_for_backward(z, weight, bias)
        ctx.heads = heads
        sums, counts = slice_parts(z, weight, bias, heads)
        return torch.cat([sums.sum(0), counts.sum(0)[..., None]], dim=-1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        z, weight, bias = ctx.saved_tensors
        given = z, weight, bias, gradient[..., :-1].contiguous(), gradient[..., -1].contiguous(), None, ctx.heads, True
        dz, (dmap, dbias, _none) = gradient_of_points(*given), gradient_of_maps(*given)
        return dz, dmap.sum((0, 1)).flatten(0, 1).to(weight.dtype), dbias.sum((0, 1)).flatten().to(bias.dtype), None


class Deslice(torch.autograd.Function):
    """Normalised points z [B, n, C] and ready tokens [B, H * M, C] -> what each point receives, [B, n, C].

    With `softmax` False, weights are by GELU: an MLP.
    """

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, weight: Tensor, bias: Tensor, ready: Tensor, heads: int, softmax: bool = True
    ) -> Tensor:
        z, ready = z.contiguous(), ready.contiguous()
        ctx.save_for_backward(z, weight, bias, ready)
        ctx.how = heads, softmax
        return deslice(z, weight, bias, ready, heads, softmax)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        z, weight, bias, ready = ctx.saved_tensors
        given = z, weight, bias, ready, None, dy.contiguous(), *ctx.how
        dz, (dmap, dbias, dtokens) = gradient_of_points(*given), gradient_of_maps(*given)
        gradients = dmap.sum((0, 1)).flatten(0, 1), dbias.sum((0, 1)).flatten(), dtokens.sum(0).flatten(1, 2)
        return dz, *(g.to(t.dtype) for g, t in zip(gradients, (weight, bias, ready), strict=True)), None, None


def mlp(z: Tensor, hidden: tuple[Tensor, Tensor], weight: Tensor) -> Tensor:
    """Normalised points z [B, n, C] -> [B, n, C], by a hidden layer of weight [K, C] and bias [K], and by the weight
    [C, K] of what follows, whose bias is left to add."""
    tokens = weight.T.to(z.dtype).expand(len(z), -1, -1)
    return cast(Tensor, Deslice.apply(z, *hidden, tokens, len(hidden[1]) // HIDDEN, False))
