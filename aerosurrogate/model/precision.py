"""In which precision what is computed: sums and tokens wider than the products over points."""

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def softmax(logits: Tensor) -> Tensor:
    return F.softmax(logits, dim=-1, dtype=exact(logits)).to(logits.dtype)


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
