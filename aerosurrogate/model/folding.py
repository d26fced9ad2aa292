"""The cheaper order of a block's products: norm, slice projection, logits and temperature as one map of the points."""

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from aerosurrogate.model.precision import exact, full_precision, product_dtype

if TYPE_CHECKING:
    from aerosurrogate.model.transolver import Block, Transolver

NORM_EPSILON = 1e-5

Linear = tuple[Tensor, Tensor]  # weight [out, in], bias [out]


class Folded(NamedTuple):
    """The maps that a block in the folded order applies to normalised points; each has its norm folded in."""

    logits: Linear  # to slice logits, [H * M]
    hidden: Linear  # to the MLP's hidden layer, [C * mlp_ratio]


def fold(block: "Block", dtype: torch.dtype) -> Folded | None:
    """None in the plain order, where it would gain nothing."""
    attention = block.attention
    if not attention.folded:
        return None
    temperature = attention.clamped_temperature()
    weight, bias = (p.unflatten(0, (attention.heads, -1)) for p in attention.to_slices.parameters())
    weight = attention.logits.weight @ weight / temperature[..., None]  # [M, D] @ [H, D, C] -> [H, M, C]
    bias = attention.logits(bias) / temperature  # [H, M]
    logits = fold_norm(attention.norm, weight.flatten(0, 1), bias.flatten())
    maps = logits, fold_norm(block.norm, block.mlp.hidden.weight, block.mlp.hidden.bias)
    return Folded(*((laid_out(weight.to(dtype)), bias.to(dtype)) for weight, bias in maps))


def laid_out(weight: Tensor) -> Tensor:
    """A map [out, in] column by column, where a processor only answers: `linear` then takes 0.8 of its time."""
    return weight if torch.is_grad_enabled() or not weight.is_cpu else weight.t().contiguous().t()


def fold_norm(norm: nn.LayerNorm, weight: Tensor, bias: Tensor) -> Linear:
    """The linear map that does to normalised(x) what `weight, bias` do to norm(x)."""
    return weight * norm.weight, bias + weight @ norm.bias


def normalised(x: Tensor) -> Tensor:
    """Layer norm without scale and shift, which `fold_norm` puts into the product that follows, in its precision."""
    dtype = product_dtype(x)
    if dtype != exact(x):
        return cast(Tensor, _Rounded.apply(x, dtype))
    return F.layer_norm(x, x.shape[-1:], unit(x), eps=NORM_EPSILON)


class _Rounded(torch.autograd.Function):
    """The norm in half precision: its gradient is made from what the products see, so that nothing else is kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: torch.dtype) -> Tensor:
        with full_precision(x):
            wide = x.to(exact(x))
            z, _mean, rate = torch.native_layer_norm(wide, x.shape[-1:], None, None, NORM_EPSILON)
        z = z.to(dtype)
        ctx.save_for_backward(z, rate)
        ctx.dtype = x.dtype
        return z

    @staticmethod
    def backward(ctx: Any, dz: Tensor) -> tuple[Tensor, None]:
        z, rate = ctx.saved_tensors  # z has mean 0 and spread 1: what is left of its own norm's gradient is the rate
        wide = dz.to(rate.dtype), z.to(rate.dtype)
        given = *wide, z.shape[-1:], torch.zeros_like(rate), torch.ones_like(rate), None, None, [True, False, False]
        return (rate * torch.ops.aten.native_layer_norm_backward(*given)[0]).to(ctx.dtype), None


def unit(x: Tensor) -> Tensor | None:
    """A scale of ones, with which a processor's layer norm takes 0.6 of the time that it takes with none."""
    return x.new_ones(x.shape[-1]) if x.is_cpu and not torch.compiler.is_compiling() else None


def finish_in_place(block: "Block", x: Tensor, w: Tensor, ready: Tensor, folded: Folded) -> bool:
    """`Block.finish`, written over the points x [B, n, C]; False where something else than an answer is wanted."""
    plain = not (torch.is_grad_enabled() or torch.compiler.is_compiling() or block.attention.dropped or block.mlp.fused)
    if not (plain and x.is_contiguous() and x.dtype == w.dtype == ready.dtype == product_dtype(x)):
        return False
    x.baddbmm_(w.flatten(2), ready)
    hidden = block.mlp.activation(F.linear(normalised(x), *folded.hidden))
    x.view(-1, x.shape[-1]).addmm_(hidden.flatten(0, 1), block.mlp.out.weight.t()).add_(block.mlp.out.bias)
    return True


def move(block: "Block", x: Tensor, folded: Folded) -> Tensor:
    """The MLP on points x [B, n, C]."""
    z, mlp = normalised(x), block.mlp
    if not mlp.fused:
        return x + mlp.out(mlp.activation(F.linear(z, *folded.hidden)))
    from aerosurrogate.model import fused

    return x + fused.mlp(z, folded.hidden, mlp.out.weight) + mlp.out.bias


def fuse(model: "Transolver", slices: bool, mlps: bool = False) -> bool:
    """Take the kernels of fused.py for slicing and deslicing and, with these, for MLPs; or no longer. False where they
    are not for this model."""
    config = model.config
    sizes = config.channels, *config.slices_per_layer
    fits = all(size & (size - 1) == 0 and 16 <= size <= 256 for size in sizes)  # as products on a GPU want them
    able = fits and config.projection == "pointwise" and config.attention == "slices" and not config.dropout
    known = config.activation == "gelu" and config.channels * config.mlp_ratio % 32 == 0
    for k, count in enumerate(config.slices_per_layer):
        attention = model.block(k).attention
        attention.fused, model.block(k).mlp.fused = slices and able, mlps and slices and able and known
        if able:  # in the folded order, also where it multiplies more: only there the weights need not be written
            attention.folded = slices or config.heads * count <= config.channels + count
    return able and (known or not mlps)


def fused_block(block: "Block", x: Tensor, folded: Folded) -> Tensor:
    """`Block.forward` by kernels that never write the weights of the points."""
    from aerosurrogate.model.fused import Deslice, Slice

    attention = block.attention
    z = normalised(x)
    sums = Slice.apply(z, *folded.logits, attention.heads)
    with full_precision(sums):
        tokens = attention.mix(attention.project(sums))
    return move(block, x + Deslice.apply(z, *folded.logits, block.ready(tokens), attention.heads), folded)
