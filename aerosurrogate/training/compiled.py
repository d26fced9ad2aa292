"""Model and objective as one compiled graph, where a device gains by it.

The first batch goes through both, the compiled and the plain step; where the former fails, or differs, the plain one is
taken, and a note says so. How much of a step is kept for the backward pass follows from the device's free memory.
"""

import contextlib
from collections.abc import Iterator
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
SMALL = 2**14  # points of a step up to which launching kernels one by one takes longer than they do


def will_compile(objective: Objective, device: torch.device) -> bool:
    """Whether the steps of a run are to be compiled: not where processes talk within them, nor for rollouts, which
    compute their frames again."""
    return compiles_well(device) and objective.group is None and objective.training_recipe.task != "rollout"


def compile_where_it_pays(objective: Objective, batch: Batch, time: Tensor | None, precision: Any) -> list[str]:
    """Compile the objective in place, if its device is made for it and the compiled step agrees with the plain one.

    Says what was chosen, also to the caller; nothing where there is nothing to choose.
    """
    device, said = batch.inputs.device, list[str]()
    if not compiles_well(device):
        return said
    if not will_compile(objective, device):
        said.append("steps are not compiled: " + ("points are shared" if objective.group is not None else "rollout"))
    else:
        points = batch.there.numel()
        budget = activation_budget(points, objective, free_memory(device))
        mode = "reduce-overhead" if points <= SMALL else "default"
        with compiling_with(budget):
            agreed = agrees(objective, batch, time, precision, mode=mode)
            if taken := fuses(objective, batch, time, precision):
                said.append(f"{', '.join(taken)} by kernels of their own: the same numbers, and faster here")
        how = "as CUDA graphs" if mode != "default" else "to fused kernels"
        said.append(
            f"steps are compiled {how}, activation budget {budget:.2f}"
            if agreed
            else "steps run as they are written: the compiled step failed or differed"
        )
    for line in said:
        console.note(line)
    return said


def activation_budget(points: int, objective: Objective, free: float) -> float:
    """The part of what a step on so many points could keep that fits in the free bytes, beside what it works with."""
    rows = points * objective.model.channels
    wanted = KEPT * rows * getattr(objective.model.config, "layers", 8)
    return min(1.0, max(LEAST, (ROOM * free - AT_WORK * rows) / max(wanted, 1)))


def agrees(objective: Objective, batch: Batch, time: Tensor | None, precision: Any, **options: Any) -> bool:
    """Compile the objective in place; undone, and False, where its losses or gradients differ from the plain ones."""
    plain = _losses_and_slopes(objective, batch, time, precision)
    try:
        objective.compile(fullgraph=True, dynamic=False, **options)
        fused = _losses_and_slopes(objective, batch, time, precision)
        same = _close(fused, plain)
    except Exception as error:  # whatever a compiler raises, there is a way without it
        console.note(f"torch.compile: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
        same = False
    if not same:
        objective._compiled_call_impl = None
    return same


def fuses(objective: Objective, batch: Batch, time: Tensor | None, precision: Any) -> list[str]:
    """Take the kernels of model/fused.py where they agree with torch's and a step with them is faster: those of slicing
    and deslicing, and with these those of MLPs. Which were taken."""
    model, taken = objective.model, list[str]()
    if not isinstance(model, Transolver) or find_spec("triton") is None or not fuse(model, False):
        return taken
    try:
        plain, best = _timed(objective, batch, time, precision)
        for name, mlps in (("slicing and deslicing", False), ("MLPs", True)):
            if not fuse(model, True, mlps):
                break
            found, seconds = _timed(objective, batch, time, precision)
            if not _close(found, plain) or seconds >= best:
                break
            best = seconds
            taken.append(name)
    except Exception as error:  # as above
        console.note(f"fused kernels: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    fuse(model, len(taken) > 0, len(taken) > 1)
    return taken


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


@contextlib.contextmanager
def compiling_with(budget: float) -> Iterator[None]:
    """Compile with this activation budget. It is read when a graph is cut in two, at the first call."""
    import torch._functorch.config as functorch
    from torch.utils.flop_counter import flop_registry

    product = flop_registry[torch.ops.aten.bmm]

    def operations(a: Tensor, b: Tensor, *_: Any, out_val: Any = None, **__: Any) -> Any:
        return product(a, b, out_val=out_val)  # torch's own trips over a product whose precision is given

    flop_registry[torch.ops.aten.bmm] = operations
    try:
        with functorch.patch(activation_memory_budget=budget):
            yield
    finally:
        flop_registry[torch.ops.aten.bmm] = product
