"""Cases that live on the device, with points drawn there: for devices that take less time for a step than a core takes
for its batch.

All that a batch holds belongs to one point of one case: each case is made into a batch once, with all its points, and
a step takes rows of it. What a step sees is again a function of the seed and its number alone.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from aerosurrogate import console
from aerosurrogate.data.case import Case
from aerosurrogate.data.sampling import mirrored, sees_all, weights_around
from aerosurrogate.devices import feeders, free_memory
from aerosurrogate.training.batches import Batch, Batches

ROOM = 0.3  # of a device's free memory is for cases: the larger part is for the steps


@dataclass(frozen=True)
class Draw:
    """How some points of a case are drawn on its device: by area on the skin, without repeats elsewhere."""

    skin: int  # points to draw by
    reach: Tensor  # (s,) the area up to the end of each face
    others: int  # points to draw by
    weights: Tensor  # (m,) of the rows after those of the skin
    own: int  # points of a case as it is stored; the mirror image of a half body follows them
    sides: Literal["own", "either", "both"]

    def rows(self, seed: int) -> Tensor:
        """Which points a step sees, (k,), without waiting for the device."""
        device = self.weights.device
        random = torch.Generator(device).manual_seed(seed)
        turns = torch.empty_like(self.weights).exponential_(generator=random) / self.weights
        rows = turns.topk(self.others, largest=False).indices
        if self.skin:  # as by_area of data/sampling.py
            first = torch.rand(1, generator=random, device=device, dtype=self.reach.dtype)
            ticks = (torch.arange(self.skin, device=device) + first) / self.skin * self.reach[-1]
            faces = torch.searchsorted(self.reach, ticks).clamp(max=len(self.reach) - 1)
            rows = torch.cat([faces, rows + len(self.reach)])
        if self.sides == "either":
            return rows + self.own * torch.randint(2, rows.shape, generator=random, device=device)
        return rows if self.sides == "own" else torch.cat([rows, rows + self.own])


class Resident(Batches):
    """The batches of a run whose cases live on a device."""

    def __init__(self, batches: Batches, device: torch.device) -> None:
        super().__init__(batches.dataset, batches.names, batches.scaling, batches.training)
        self.device, self.sizes = device, batches.sizes
        self.cases: dict[str, list[Batch]] = {}  # with all their points: as they are and, where asked for, upside down
        self.draws: dict[str, Draw | None] = {}  # None: a step sees all points
        with console.progress("cases to the device", len(self.names), unit="cases") as advance:
            for name in self.names:
                self._hold(name)
                advance()

    def ahead(self, start: int, stop: int, rank: int = 0, processes: int = 1, feeders: int = 0) -> Iterator[Batch]:
        """The batches from `start` up to `stop`. Drawing them is a matter of launching it: nobody has to be ahead."""
        return (self.make(step, rank, processes) for step in range(start, stop))

    def _of(self, numbers: range) -> Batch:
        return _stacked([self._drawn(number) for number in numbers])

    def _drawn(self, number: int) -> Batch:
        name, rng = self.turn(number)
        kinds, draw = self.cases[name], self.draws[name]
        case = kinds[int(rng.integers(len(kinds)))]
        return case if draw is None else case.at_rows(draw.rows(int(rng.integers(2**62))))

    def _hold(self, name: str) -> None:
        case = self.dataset.case(name)
        self.draws[name] = self._draw(case)
        case = case.whole()
        kinds = [case, mirrored(case)] if self.training.mirror and case.dimensions == 2 else [case]
        self.cases[name] = [self.collate([kind]).to(self.device) for kind in kinds]

    def _draw(self, case: Case) -> Draw | None:
        entry, count = self.dataset.manifest.cases[case.name], self.sampling.around or len(case.points)
        if sees_all(entry, self.sampling):
            return None
        n, half = len(case.points), case.symmetry is not None
        if self.sampling.kind == "rows" or case.areas is None or not entry["surface"]:
            nothing, alike = torch.zeros(0, device=self.device), torch.ones(n, device=self.device)
            return Draw(0, nothing, min(count, n), alike, n, "both" if half else "own")
        areas = case.areas[: entry["surface"]]
        reach = torch.from_numpy(np.cumsum(areas, dtype=np.float64)).to(self.device)
        found = weights_around(self.dataset, case.name)
        weights = np.ones(n - len(areas)) if found is None else found
        others = min(count, int(np.count_nonzero(weights)))
        likely = torch.from_numpy(weights.astype(np.float32)).to(self.device)
        return Draw(self.sampling.skin or len(areas), reach, others, likely, n, "either" if half else "own")


def _stacked(batches: list[Batch]) -> Batch:
    """Batches of one case each as one, padded to one number of points."""
    first, counts = batches[0], [batch.there.shape[1] for batch in batches]
    if len(batches) == 1:
        return first
    n = max(counts)

    def joined(name: str) -> Tensor:
        parts = [getattr(batch, name) for batch in batches]
        if name != "coefficients":
            missing = [[0, 0] * (x.ndim - 2) + [0, n - x.shape[1]] for x in parts]
            parts = [F.pad(x, pad) if any(pad) else x for x, pad in zip(parts, missing, strict=True)]
        return torch.cat(parts)

    return Batch(
        names=[name for batch in batches for name in batch.names],
        grid=first.grid,
        padded=min(counts) < n,
        skin=any(batch.skin for batch in batches),
        **{name: joined(name) for name in first.tensors()},
    )


def needed(batches: Batches) -> int:
    """Bytes that the cases of a run would take on a device."""
    scaling, total = batches.scaling, 0
    numbers = scaling.input_channels + scaling.output_channels + 2
    point = 4 * numbers + scaling.output_channels + 2  # and a byte for what is true or false of it
    for name in batches.names:
        entry = batches.dataset.manifest.cases[name]
        copies = 2 if entry["symmetry"] or (batches.training.mirror and entry["dimensions"] == 2) else 1
        total += copies * entry["points"] * point + 8 * entry["surface"]
    return total


def resident_where_it_fits(batches: Batches, device: torch.device) -> Batches:
    """These batches, from cases on the device if that has memory of its own and enough of it is free."""
    makers, size, free = feeders(device), needed(batches), free_memory(device)
    if not makers:
        return batches
    why = ""
    if batches.share[1] > 1 or batches.training.unrolled:
        why = "rollouts begin anywhere" if batches.training.unrolled else "points are shared"
    elif not size <= ROOM * free < math.inf:
        why = f"the cases would take {size / 1e6:,.0f} MB of the device"
    if why:
        console.note(f"batches are made ahead by {makers} processes: {why}")
        return batches
    console.note(f"the training cases live on the device ({size / 1e6:,.0f} MB), and points are drawn there")
    return Resident(batches, device)
