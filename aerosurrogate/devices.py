"""Devices: the one place that names any, and knows what each is good at."""

import os
import platform
import re

import psutil
import torch

from aerosurrogate.errors import InputError
from aerosurrogate.parallel import cores


def choose_device(name: str) -> torch.device:
    """The device of `--device`; auto takes an accelerator where there is one."""
    if name == "auto":
        return _fast(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", name):
        raise InputError("no such device", seen=f"--device {name}", remedy="give auto, cuda, cuda:N, mps or cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device cannot be used ({reason})", seen=name, remedy="give --device auto") from None
    return _fast(device)


def _fast(device: torch.device) -> torch.device:
    """The device, whose products of float32 numbers may round these to TF32: drag moves by 1e-5 of itself at most."""
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True
    return device


def device_of_process(device: torch.device) -> torch.device:
    """Of the GPUs of a machine, the one that belongs to this process of a torchrun launch; without one, as it is."""
    if device.type != "cuda" or device.index is not None or "LOCAL_RANK" not in os.environ:
        return device
    own = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(own)
    return own


def communication(device: torch.device) -> str:
    """The backend of torch.distributed between devices of this kind."""
    return "nccl" if device.type == "cuda" else "gloo"


def compiles_well(device: torch.device) -> bool:
    """Whether fused kernels are worth the minute that making them takes."""
    return device.type == "cuda"


def fast_bfloat16(device: torch.device) -> bool:
    """Whether products in bfloat16 are faster than in float32: not where they are emulated."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def sums_in_float32(device: torch.device) -> bool:
    """Whether products of bfloat16 can be asked for in float32."""
    return device.type == "cuda"


def takes_cores(device: torch.device) -> bool:
    """Whether a device computes with the machine's own cores."""
    return device.type == "cpu"


def feeders(device: torch.device) -> int:
    """Processes that make batches for a device: none where those would take the cores it computes with."""
    own = max(1, cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    return 0 if takes_cores(device) else min(4, own)


def pinned_memory_helps() -> bool:
    """Whether copies from pinned memory need not be waited for."""
    return torch.cuda.is_available()


def processor(device: torch.device) -> str:
    """What computes on a device, by the name its maker gave it."""
    module = torch.get_device_module(device)
    return str(module.get_device_name(device)) if hasattr(module, "get_device_name") else platform.processor()


def free_memory(device: torch.device) -> float:
    """Bytes that are free on a device; endless where nobody can tell."""
    if device.type == "cpu":
        return float(psutil.virtual_memory().available)
    if device.type != "cuda":
        return float("inf")
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # by torch, which uses it again
    return float(torch.cuda.mem_get_info(device)[0] + held)
