"""In which precision what is computed: sums and tokens wider than the products over points."""

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from aerosurrogate.devices import sums_in_float32


def softmax(logits: Tensor) -> Tensor:
    """In the precision of the logits, in one pass: kernels sum in float32 anyway, autocast would write that out."""
    with full_precision(logits):
        return F.softmax(logits, dim=-1)


def sums_of_products(a: Tensor, b: Tensor) -> Tensor:
    """a [..., p, n] @ b [..., n, q] in at least float32: kernels sum in float32, and rounding that to bfloat16 would
    cost 70 times what the rounding of the factors does."""
    if a.dtype == exact(a):
        return a @ b
    batch = a.shape[:-2]
    return cast(Tensor, _SumsOfProducts.apply(a.flatten(0, -3), b.flatten(0, -3))).unflatten(0, batch)


class _SumsOfProducts(torch.autograd.Function):
    """Of [B, p, n] and [B, n, q]; torch has no gradient for products in another precision."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        if sums_in_float32(a.device):
            return torch.bmm(a, b, out_dtype=torch.float32)
        with full_precision(a):
            return torch.bmm(a.float(), b.float())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ctx.saved_tensors
        gradient = gradient.to(a.dtype)
        return torch.bmm(gradient, b.mT), torch.bmm(a.mT, gradient)


def exact(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)


def wide(tensor: Tensor) -> torch.dtype:
    """For sums over tiles, which may be many: float64 where the device has it."""
    return torch.float64 if _has_float64(tensor.device) else torch.float32


@functools.cache
def _has_float64(device: torch.device) -> bool:
    try:
        torch.zeros((), dtype=torch.float64, device=device)
    except (TypeError, RuntimeError):
        return False
    return True


def autocasts(tensor: Tensor) -> bool:
    device = tensor.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def product_dtype(tensor: Tensor) -> torch.dtype:
    """The precision of products over points: that of autocast where it is on."""
    return torch.get_autocast_dtype(tensor.device.type) if autocasts(tensor) else tensor.dtype


def full_precision(tensor: Tensor) -> AbstractContextManager[Any]:
    """No autocast where weights are folded and tokens mixed: it costs nothing, and every point depends on it."""
    return torch.autocast(tensor.device.type, enabled=False) if autocasts(tensor) else nullcontext()
