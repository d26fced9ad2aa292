"""Slicing and deslicing as one kernel each, forward and backward: a point's weights are never in memory.

For graphics processors, where Triton is installed. A program works through tiles of points of one member of the batch.
Forward, `_slice` takes norm, logits, softmax and the sums over points of one head; `_deslice` norm, logits, softmax and
what the points receive from all heads. Backward, `_points` gives the gradient of the points and `_maps` those of logits
and tokens. Sums over programs are taken by torch, in one order: results repeat to the bit.
"""

# mypy: disable-error-code="no-untyped-def"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

POINTS = 32  # of a tile: with 8 warps, what is held of it fits the registers at 256 channels
PARTS = 64  # programs among which the points of a member are divided where sums are taken
EPSILON = tl.constexpr(1e-5)


@triton.jit
def _tile(x_of, rows, n, C: tl.constexpr):
    """A tile of points as they are, normalised, and one over their spread; zero beyond the last point."""
    columns = tl.arange(0, C)
    there = (rows < n)[:, None]
    x = tl.load(x_of + rows[:, None] * C + columns[None, :], mask=there, other=0.0).to(tl.float32)
    centred = x - tl.sum(x, 1)[:, None] / C
    rate = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / C + EPSILON)
    return x, centred * rate[:, None], rate


@triton.jit
def _weights(z, map_of, bias_of, rows, n, C: tl.constexpr, M: tl.constexpr, DOT: tl.constexpr):
    """The map [M, C] of one head and the tile's weights [POINTS, M]; zero beyond the last point."""
    slices, columns = tl.arange(0, M), tl.arange(0, C)
    map_ = tl.load(map_of + slices[:, None] * C + columns[None, :]).to(DOT)
    logits = tl.dot(z.to(DOT), tl.trans(map_), input_precision="ieee") + tl.load(bias_of + slices)[None, :].to(
        tl.float32
    )
    e = tl.exp(logits - tl.max(logits, 1)[:, None])
    w = e / tl.sum(e, 1)[:, None]
    return map_, tl.where((rows < n)[:, None], w, 0.0)


@triton.jit
def _slice(
    x, map_, bias, sums, counts, n, H, tiles, N: tl.constexpr, C: tl.constexpr, M: tl.constexpr, DOT: tl.constexpr
):
    part, head, member = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    x_of = x + member.to(tl.int64) * n * C
    slices, columns = tl.arange(0, M), tl.arange(0, C)
    total = tl.zeros((M, C), tl.float32)
    count = tl.zeros((M,), tl.float32)
    for tile in range(part * tiles, (part + 1) * tiles):
        rows = tile * N + tl.arange(0, N)
        _own, z, _rate = _tile(x_of, rows, n, C)
        _linear, w = _weights(z, map_ + head * M * C, bias + head * M, rows, n, C, M, DOT)
        total += tl.dot(tl.trans(w).to(DOT), z.to(DOT), input_precision="ieee")
        count += tl.sum(w, 0)
    place = (part * tl.num_programs(2) + member) * H + head
    tl.store(sums + place * M * C + slices[:, None] * C + columns[None, :], total)
    tl.store(counts + place * M + slices, count)


@triton.jit
def _deslice(
    x, map_, bias, ready, y, n, H: tl.constexpr, N: tl.constexpr, C: tl.constexpr, M: tl.constexpr, DOT: tl.constexpr
):
    tile, member = tl.program_id(0), tl.program_id(1)
    rows = tile * N + tl.arange(0, N)
    slices, columns = tl.arange(0, M), tl.arange(0, C)
    at = member.to(tl.int64) * n * C
    x_, z, _rate = _tile(x + at, rows, n, C)
    for head in range(H):
        _linear, w = _weights(z, map_ + head * M * C, bias + head * M, rows, n, C, M, DOT)
        tokens = tl.load(ready + ((member * H + head) * M + slices[:, None]) * C + columns[None, :]).to(DOT)
        x_ += tl.dot(w.to(DOT), tokens, input_precision="ieee")
    tl.store(y + at + rows[:, None] * C + columns[None, :], x_, mask=(rows < n)[:, None])


@triton.jit
def _points(
    x,
    map_,
    bias,
    tokens,
    extra,
    dy,
    dx,
    n,
    H: tl.constexpr,
    N: tl.constexpr,
    C: tl.constexpr,
    M: tl.constexpr,
    DOT: tl.constexpr,
    SLICING: tl.constexpr,
):
    """Slicing: `tokens` and `extra` are the gradients of sums and counts. Deslicing: the tokens, and nothing."""
    tile, member = tl.program_id(0), tl.program_id(1)
    rows = tile * N + tl.arange(0, N)
    slices, columns = tl.arange(0, M), tl.arange(0, C)
    at = member.to(tl.int64) * n * C
    _own, z, rate = _tile(x + at, rows, n, C)
    there = (rows < n)[:, None]
    if SLICING:
        seen = z
    else:
        seen = tl.load(dy + at + rows[:, None] * C + columns[None, :], mask=there, other=0.0).to(tl.float32)
    dz = tl.zeros((N, C), tl.float32)
    for head in range(H):
        linear, w = _weights(z, map_ + head * M * C, bias + head * M, rows, n, C, M, DOT)
        token = tl.load(tokens + ((member * H + head) * M + slices[:, None]) * C + columns[None, :]).to(DOT)
        dw = tl.dot(seen.to(DOT), tl.trans(token), input_precision="ieee")
        if SLICING:
            dw += tl.load(extra + (member * H + head) * M + slices)[None, :]
            dz += tl.dot(w.to(DOT), token, input_precision="ieee")
        dlogits = w * (dw - tl.sum(w * dw, 1)[:, None])
        dz += tl.dot(dlogits.to(DOT), linear, input_precision="ieee")
    dz -= tl.sum(dz, 1)[:, None] / C + z * (tl.sum(dz * z, 1)[:, None] / C)
    gradient = dz * rate[:, None]
    if not SLICING:
        gradient += seen
    tl.store(dx + at + rows[:, None] * C + columns[None, :], gradient, mask=there)


@triton.jit
def _maps(
    x,
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
):
    part, head, member = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    slices, columns = tl.arange(0, M), tl.arange(0, C)
    at = member.to(tl.int64) * n * C
    token = tl.load(tokens + ((member * H + head) * M + slices[:, None]) * C + columns[None, :]).to(DOT)
    total, received, shift = tl.zeros((M, C), tl.float32), tl.zeros((M, C), tl.float32), tl.zeros((M,), tl.float32)
    for tile in range(part * tiles, (part + 1) * tiles):
        rows = tile * N + tl.arange(0, N)
        _own, z, _rate = _tile(x + at, rows, n, C)
        _linear, w = _weights(z, map_ + head * M * C, bias + head * M, rows, n, C, M, DOT)
        if SLICING:
            dw = tl.dot(z.to(DOT), tl.trans(token), input_precision="ieee")
            dw += tl.load(extra + (member * H + head) * M + slices)[None, :]
        else:
            place = rows[:, None] * C + columns[None, :]
            seen = tl.load(dy + at + place, mask=(rows < n)[:, None], other=0.0).to(DOT)
            dw = tl.dot(seen, tl.trans(token), input_precision="ieee")
            received += tl.dot(tl.trans(w).to(DOT), seen, input_precision="ieee")
        dlogits = w * (dw - tl.sum(w * dw, 1)[:, None])
        total += tl.dot(tl.trans(dlogits).to(DOT), z.to(DOT), input_precision="ieee")
        shift += tl.sum(dlogits, 0)
    place = (part * tl.num_programs(2) + member) * H + head
    tl.store(dmap + place * M * C + slices[:, None] * C + columns[None, :], total)
    tl.store(dbias + place * M + slices, shift)
    if not SLICING:
        tl.store(dtokens + place * M * C + slices[:, None] * C + columns[None, :], received)


class _Plan:
    """Sizes that all kernels of a call are given."""

    def __init__(self, x: Tensor, weight: Tensor, heads: int) -> None:
        self.B, self.n, self.C = x.shape
        self.H, self.M = heads, len(weight) // heads
        self.all_tiles = triton.cdiv(self.n, POINTS)
        self.parts = min(PARTS, self.all_tiles)
        self.tiles = triton.cdiv(self.all_tiles, self.parts)
        dot = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}.get(weight.dtype, tl.float32)
        self.sizes = {"N": POINTS, "C": self.C, "M": self.M, "DOT": dot, "num_warps": 8, "num_stages": 1}

    def partial(self, x: Tensor, *shape: int) -> Tensor:
        return x.new_empty(self.parts, self.B, self.H, *shape, dtype=torch.float32)


class Slice(torch.autograd.Function):
    """Points x [B, n, C] -> sums [B, H, M, C + 1] of weight times normalised point, and of the weights."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, heads: int) -> Tensor:
        x, p = x.contiguous(), _Plan(x, weight, heads)
        sums, counts = p.partial(x, p.M, p.C), p.partial(x, p.M)
        _slice[p.parts, p.H, p.B](x, weight, bias, sums, counts, p.n, p.H, p.tiles, **p.sizes)
        ctx.save_for_backward(x, weight, bias)
        ctx.plan = p
        return torch.cat([sums.sum(0), counts.sum(0)[..., None]], dim=-1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight, bias), p = ctx.saved_tensors, ctx.plan
        tokens, extra = gradient[..., :-1].contiguous(), gradient[..., -1].contiguous()
        dx, dmap, dbias = torch.empty_like(x), p.partial(x, p.M, p.C), p.partial(x, p.M)
        common = x, weight, bias, tokens, extra, x
        _points[p.all_tiles, p.B](*common, dx, p.n, p.H, SLICING=True, **p.sizes)
        _maps[p.parts, p.H, p.B](*common, dmap, dbias, dmap, p.n, p.H, p.tiles, SLICING=True, **p.sizes)
        return dx, dmap.sum((0, 1)).flatten(0, 1).to(weight.dtype), dbias.sum((0, 1)).flatten().to(bias.dtype), None


class Deslice(torch.autograd.Function):
    """Points x [B, n, C] and ready tokens [B, H * M, C] -> the points with what each receives added."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, ready: Tensor, heads: int) -> Tensor:
        x, ready, p = x.contiguous(), ready.contiguous(), _Plan(x, weight, heads)
        y = torch.empty_like(x)
        _deslice[p.all_tiles, p.B](x, weight, bias, ready, y, p.n, p.H, **p.sizes)
        ctx.save_for_backward(x, weight, bias, ready)
        ctx.plan = p
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight, bias, ready), p = ctx.saved_tensors, ctx.plan
        dy, dx = dy.contiguous(), torch.empty_like(x)
        dmap, dtokens, dbias = p.partial(x, p.M, p.C), p.partial(x, p.M, p.C), p.partial(x, p.M)
        common = x, weight, bias, ready, dbias, dy
        _points[p.all_tiles, p.B](*common, dx, p.n, p.H, SLICING=False, **p.sizes)
        _maps[p.parts, p.H, p.B](*common, dmap, dbias, dtokens, p.n, p.H, p.tiles, SLICING=False, **p.sizes)
        gradients = dmap.sum((0, 1)).flatten(0, 1), dbias.sum((0, 1)).flatten(), dtokens.sum(0).flatten(1, 2)
        return dx, *(g.to(t.dtype) for g, t in zip(gradients, (weight, bias, ready), strict=True)), None
