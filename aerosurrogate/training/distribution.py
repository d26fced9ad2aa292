"""Several processes, started by torchrun, as one training run: gloo between CPUs, nccl between CUDA devices."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist

from aerosurrogate import console
from aerosurrogate.surrogate import choose_device


@dataclass(frozen=True)
class Processes:
    """Which of how many processes this is, and its device."""

    rank: int
    count: int
    device: torch.device
    group: dist.ProcessGroup | None

    @property
    def first(self) -> bool:
        return self.rank == 0

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over all processes, in place."""
        if self.group is not None:
            dist.all_reduce(values, group=self.group)
        return values

    def wait(self) -> None:
        if self.group is not None:
            dist.barrier(self.group)


@contextlib.contextmanager
def processes(device: str) -> Iterator[Processes]:
    """Join the other processes of a torchrun launch, if there was one; only the first of them speaks."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes(0, 1, choose_device(device), None)
        return
    own = choose_device(device)
    if own.type == "cuda" and own.index is None:
        own = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(own)
    joined = dist.is_initialized()  # by the caller, whose group it then stays
    if not joined:
        dist.init_process_group("nccl" if own.type == "cuda" else "gloo")
    rank = dist.get_rank()
    if rank:
        console.be_quiet(True)
    try:
        yield Processes(rank, count, own, dist.group.WORLD)
    finally:
        if not joined:
            dist.destroy_process_group()
