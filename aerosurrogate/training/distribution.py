"""Several processes, started by torchrun, as one training run: gloo between CPUs, nccl between GPUs.

They need not share a file system: what the first process has read, it tells the others.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from aerosurrogate import console
from aerosurrogate.devices import choose_device, communication, device_of_process
from aerosurrogate.parallel import PATIENCE


@dataclass(frozen=True)
class Team:
    """The processes that share the points of each case with this one. The teams of a run share its batches."""

    number: int  # of this team
    teams: int
    rank: int  # of this process in its team
    size: int
    group: dist.ProcessGroup | None  # None where each process is a team; else not the one that gradients go through


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

    def team(self, size: int) -> Team:
        """This process' team of so many, of which their number is a multiple."""
        number, rank = divmod(self.rank, size)
        teams = self.count // size
        groups = [None] * teams
        if size > 1:
            groups = [dist.new_group(range(i * size, (i + 1) * size), timeout=PATIENCE) for i in range(teams)]
        return Team(number, teams, rank, size, groups[number])

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over all processes, in place."""
        if self.group is not None:
            dist.all_reduce(values, group=self.group)
        return values

    def wait(self) -> None:
        if self.group is not None:
            dist.barrier(self.group)

    def told(self, find: Callable[[], Any]) -> Any:
        """What the first process finds, as plain JSON values, in all of them."""
        if self.group is None:
            return find()
        return json.loads(self._broadcast(json.dumps(find()).encode() if self.first else b""))

    @contextlib.contextmanager
    def fetched(self, path: Path) -> Iterator[Path]:
        """A file of the first process, as a file in each of them."""
        if self.group is None:
            yield path
            return
        content = self._broadcast(path.read_bytes() if self.first else b"")
        if self.first:
            yield path
            return
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / path.name
            copy.write_bytes(content)
            yield copy

    def gathered(self, document: Any) -> list[Any]:
        """The documents, plain JSON values, of all processes, in all of them."""
        if self.group is None:
            return [document]
        own = json.dumps(document).encode()
        sizes = [int(n) for n in self.sum(self._place(self.rank, len(own)))]
        whole = torch.zeros(sum(sizes), dtype=torch.uint8, device=self.device)
        start = sum(sizes[: self.rank])
        whole[start : start + len(own)] = torch.from_numpy(np.frombuffer(own, np.uint8).copy()).to(self.device)
        joined, ends = bytes(self.sum(whole).cpu().numpy()), np.cumsum(sizes)
        return [json.loads(joined[end - size : end]) for end, size in zip(ends, sizes, strict=True)]

    def _place(self, rank: int, value: int) -> torch.Tensor:
        places = torch.zeros(self.count, dtype=torch.int64, device=self.device)
        places[rank] = value
        return places

    def _broadcast(self, content: bytes) -> bytes:
        size = int(self.sum(self._place(0, len(content)))[0])
        held = torch.zeros(size, dtype=torch.uint8, device=self.device)
        if self.first:
            held.copy_(torch.from_numpy(np.frombuffer(content, np.uint8).copy()))
        dist.broadcast(held, 0, group=self.group)
        return bytes(held.cpu().numpy())


@contextlib.contextmanager
def processes(device: str) -> Iterator[Processes]:
    """Join the other processes of a torchrun launch, if there was one; only the first of them speaks."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes(0, 1, choose_device(device), None)
        return
    own = device_of_process(choose_device(device))
    joined = dist.is_initialized()  # by the caller, whose group it then stays
    if not joined:
        dist.init_process_group(communication(own), timeout=PATIENCE)
    rank = dist.get_rank()
    if rank:
        console.be_quiet(True)
    try:
        yield Processes(rank, count, own, dist.group.WORLD)
    finally:
        if not joined:
            dist.destroy_process_group()
