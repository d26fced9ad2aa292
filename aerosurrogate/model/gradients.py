"""The two halves of a block in the folded order with their gradients written out.

Kept are the points, their weights and the hidden layer before its activation; norm, softmax and activation are computed
again. Results are allocated before temporaries, which otherwise leave holes between them.
"""

from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from aerosurrogate.model.folding import NORM_EPSILON, Folded, normalised, unit

if TYPE_CHECKING:
    from aerosurrogate.model.transolver import Block

ONLY_INPUT = [True, False, False]  # of the gradients of a layer norm


class LeanBegin(torch.autograd.Function):
    """`Block.begin`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, folded: Folded, mask: Tensor | None, block: "Block"
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
        z, mean, rstd = torch.native_layer_norm(x, x.shape[-1:], unit(x), None, NORM_EPSILON)
        z = z.to(w.dtype)
        dsums, dcounts = dpart[..., :-1].flatten(1, 2).to(w.dtype), dpart[:, None, ..., -1]  # [B, H*M, C], [B, 1, H, M]
        dw = torch.baddbmm((dw + dcounts).to(w.dtype).flatten(2), z, dsums.mT)  # [B, n, H*M]
        dlogits = torch.ops.aten._softmax_backward_data(dw.view_as(w), w, -1, w.dtype).flatten(2)
        dz = torch.baddbmm(dlogits @ weight, w.flatten(2), dsums)  # [B, n, C]
        dlogits = dlogits.flatten(0, 1)  # [B*n, H*M]
        return _norm_gradient(dz, x, mean, rstd), dlogits.T @ z.flatten(0, 1), dlogits.sum(0), None, None, None


class LeanFinish(torch.autograd.Function):
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
        block: "Block",
    ) -> Tensor:
        y, hidden = torch.empty_like(x), weight1.new_empty(*x.shape[:-1], len(weight1))
        u = block.attention.deslice(x, w, ready)
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
        u = ctx.block.attention.deslice(x, w, ready)
        z, mean, rstd = torch.native_layer_norm(u, u.shape[-1:], unit(u), None, NORM_EPSILON)
        dweight1, dbias1 = dhidden.T @ z.to(weight1.dtype).flatten(0, 1), dhidden.sum(0)
        du = _norm_gradient((dhidden @ weight1).view_as(u), u, mean, rstd).add_(dy)
        dupdate = du.to(ready.dtype)
        dw, dready = (dupdate @ ready.mT).view_as(w), w.flatten(2).mT @ dupdate
        return du, dw, dready, dweight1, dbias1, dweight2, dbias2, None


def _norm_gradient(dz: Tensor, x: Tensor, mean: Tensor, rstd: Tensor) -> Tensor:
    backward = torch.ops.aten.native_layer_norm_backward
    return cast(Tensor, backward(dz.to(x.dtype), x, x.shape[-1:], mean, rstd, None, None, ONLY_INPUT)[0])
