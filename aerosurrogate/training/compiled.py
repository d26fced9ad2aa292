"""Model and objective as one compiled graph, where a device gains by it.

The first batch goes through the plain step and through compiled ones: with torch's own kernels, and with those of
model/fused.py. The fastest of those that fit and agree with the plain step is taken; where there is none, the plain
one, and a note says so. How much of a step is kept for the backward pass follows from the device's free memory.
"""

import math
from collections.abc import Sequence
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from aerosurrogate import console
from aerosurrogate.devices import compiles_well, free_memory
from aerosurrogate.model.folding import fuse
from aerosurrogate.model.transolver import Transolver
from aerosurrogate.training.batches import Batch
from aerosurrogate.training.objective import Objective

KEPT = 30  # bytes a point, layer and channel that a compiled step in bfloat16 keeps, at most (benchmarks/gpu_counts.py)
LEAST = 0.05  # of those: less than this costs more time than it saves memory
AT_WORK = 42  # bytes a point and channel that are alive beside those in a layer's backward pass, at most, as counted
ROOM = 0.8  # of the free memory is for both
CLOSE = 0.02  # relative difference of losses and gradients that bfloat16 explains
RUNS = 3  # steps that are timed
# Kernels of model/fused.py by what they do: with those of slicing alone, or with those of MLPs too.
OWN_KERNELS = {"slicing and deslicing": False, "slicing, deslicing and MLPs": True}
SMALL = 2**14  # points of a step up to which launching kernels one by one takes longer than they do


def will_compile(objective: Objective, device: torch.device) -> bool:
    """Whether the steps of a run are to be compiled: not where processes talk within them, nor for rollouts, which
    compute their frames again."""
    return compiles_well(device) and objective.group is None and objective.training_recipe.task != "rollout"


def compile_where_it_pays(
    objective: Objective, batch: Batch, time: Tensor | None, precision: Any, most: int
) -> list[str]:
    """Compile the objective in place, if its device is made for it and a compiled step agrees with the plain one.

    `most` is how many points the largest step of the run has. Says what was chosen, also to the caller; nothing where
    there is nothing to choose.
    """
    device, said = batch.inputs.device, list[str]()
    if not compiles_well(device):
        return said
    if not will_compile(objective, device):
        said.append("steps are not compiled: " + ("points are shared" if objective.group is not None else "rollout"))
    else:
        budget = activation_budget(most, objective, free_memory(device))
        small = most <= SMALL
        cut_by(budget)
        kernels = () if batch.padded else own_kernels(objective.model)
        mode = "reduce-overhead" if small else "default"
        taken = fastest(objective, batch, time, precision, kernels, mode=mode)
        if taken is None:
            said.append("steps run as they are written: no compiled step fits and agrees with them")
        else:
            how = "as CUDA graphs" if small else "to fused kernels"
            said.append(f"steps are compiled {how}, activation budget {budget:.2f}")
            if taken:
                said.append(f"{taken} by kernels of their own: the same numbers, and faster here")
    for line in said:
        console.note(line)
    return said


def activation_budget(points: int, objective: Objective, free: float) -> float:
    """The part of what a step on so many points could keep that fits in the free bytes, beside what it works with."""
    rows = points * objective.model.channels
    wanted = KEPT * rows * getattr(objective.model.config, "layers", 8)
    return min(1.0, max(LEAST, (ROOM * free - AT_WORK * rows) / max(wanted, 1)))


def own_kernels(model: nn.Module) -> tuple[str, ...]:
    """What the kernels of model/fused.py can do of a model, each with those before it."""
    if not isinstance(model, Transolver) or find_spec("triton") is None:
        return ()
    able = tuple(name for name, mlps in OWN_KERNELS.items() if fuse(model, True, mlps))
    fuse(model, False)
    return able


def fastest(
    objective: Objective, batch: Batch, time: Tensor | None, precision: Any, kernels: Sequence[str], **options: Any
) -> str | None:
    """Compile the objective in place in the fastest way whose loss and gradient are those of the plain step.

    The ways are torch's kernels and, in turn, those of `own_kernels`. Gives the name of what is taken, "" being torch's
    alone; None, and nothing is compiled, where every way fails or differs: one may need more memory than there is, or
    a compiler that is not there.
    """
    _take(objective.model, "")
    plain = _losses_and_slopes(objective, batch, time, precision)
    best, taken = math.inf, None
    objective.compile(fullgraph=True, dynamic=False, **options)
    for name in ("", *kernels):
        _take(objective.model, name)
        try:
            found, seconds = _timed(objective, batch, time, precision)
        except Exception as error:  # whatever a compiler raises, there is a way without it
            console.note(f"{name or 'torch.compile'}: {_reason(error)}")
            continue
        if _close(found, plain) and seconds < best:
            best, taken = seconds, name
    _take(objective.model, taken or "")
    if taken is None:
        objective._compiled_call_impl = None
    return taken


def is_compiled(objective: Objective) -> bool:
    return objective._compiled_call_impl is not None


def set_aside(objective: Objective, error: Exception) -> str:
    """From now on the plain step is taken, as a compiled one failed; says so, also to the caller."""
    objective._compiled_call_impl = None
    _take(objective.model, "")
    said = f"steps run as they are written from here on: {_reason(error)}"
    console.note(said)
    return said


def _reason(error: Exception) -> str:
    error = getattr(error, "inner_exception", error)  # torch.compile tells which backend failed, and wraps why
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _take(model: nn.Module, name: str) -> None:
    if isinstance(model, Transolver):
        fuse(model, bool(name), OWN_KERNELS.get(name, False))


def _timed(objective: Objective, batch: Batch, time: Tensor | None, precision: Any) -> tuple[Tensor, float]:
    """Loss and norm of the gradient, and seconds for a few more such steps after a first one."""
    _losses_and_slopes(objective, batch, time, precision).tolist()
    start = perf_counter()
    for _ in range(RUNS):
        found = _losses_and_slopes(objective, batch, time, precision)
    found.tolist()  # waits for the device
    return found, perf_counter() - start


def _close(found: Tensor, plain: Tensor) -> bool:
    return bool(((found - plain).abs() <= CLOSE * plain.abs() + 1e-6).all())


def _losses_and_slopes(objective: Objective, batch: Batch, time: Tensor | None, precision: Any) -> Tensor:
    """The loss and the norm of its gradient; leaves no gradient behind."""
    objective.zero_grad(set_to_none=True)
    torch.manual_seed(0)
    with precision():
        loss = objective(batch, time)["loss"]
    loss.backward()
    norm = nn.utils.get_total_norm([p.grad for p in objective.parameters() if p.grad is not None])
    objective.zero_grad(set_to_none=True)
    return torch.stack([loss.detach().float(), norm.float()])


def cut_by(budget: float) -> None:
    """Have torch.compile cut graphs in two by this activation budget from now on.

    It is read when a batch of some size first comes, which for most sizes is long after the first step.
    """
    import torch._functorch.config as functorch
    from torch.utils.flop_counter import bmm_flop, flop_registry

    def operations(a: Tensor, b: Tensor, *_: Any, out_val: Any = None, **__: Any) -> Any:
        return bmm_flop(a, b, out_val=out_val)  # torch's own trips over a product whose precision is given

    flop_registry[torch.ops.aten.bmm] = operations
    functorch.activation_memory_budget = budget
