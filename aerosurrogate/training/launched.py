"""Steps that are under way on a device: their numbers are read a step later, so that the host never waits."""

from dataclasses import dataclass

import torch
from torch import Tensor


class Arriving:
    """Values on a device, on their way to the host; reading them does not wait for work launched after them."""

    def __init__(self, values: Tensor) -> None:
        self._host = values.detach().to("cpu", non_blocking=True)  # into pinned memory
        self._arrived = None
        if not values.is_cpu:
            self._arrived = torch.Event(values.device)
            self._arrived.record()

    def read(self) -> list[float]:
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._host.tolist()


@dataclass(frozen=True)
class Launched:
    """A step that is under way."""

    step: int  # counted from 1
    rate: float  # learning rate
    cases: list[str]
    points: int  # of all processes
    seconds: float  # of the run when it was launched
    figures: Arriving  # loss, norm of the gradient
