"""Batches: which cases and which of their points a step sees, as tensors.

What a step sees is a function of the seed and the step's number alone, never of what came before: a resumed run, or
one spread over more processes, sees the same.
"""

import contextlib
import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from aerosurrogate.data.case import Case
from aerosurrogate.data.sampling import Sampling, drawn, mirrored, points_seen
from aerosurrogate.data.scaling import Places, Scaling
from aerosurrogate.data.store import Dataset
from aerosurrogate.devices import pinned_memory_helps
from aerosurrogate.recipe import Training

_AHEAD = 4  # batches made while the model is busy
_SIZES = 6  # numbers of points that the batches of a run have, where each costs a compilation: torch gives up after 8


@dataclass(frozen=True)
class Batch:
    """Some cases, padded to one number of points N."""

    names: list[str]
    grid: tuple[int, ...] | None
    inputs: Tensor  # [B, N, c_in]
    targets: Tensor  # [B, N, c_out], scaled
    padded: bool
    skin: bool  # whether there is any
    there: Tensor  # [B, N] bool; False is padding
    surface: Tensor  # [B, N] bool
    defined: Tensor  # [B, N, c_out] bool: which fields count where
    coefficients: Tensor  # [B, K], scaled; NaN is unknown
    weights: Tensor  # [B, N] of the points in the loss; 1 on average on the skin, 1 off it

    def _with(self, tensors: dict[str, Tensor]) -> "Batch":
        return replace(self, **tensors)  # type: ignore[arg-type]

    def tensors(self) -> dict[str, Tensor]:
        return {f.name: v for f in fields(self) if isinstance(v := getattr(self, f.name), Tensor)}

    def to(self, device: torch.device) -> "Batch":
        return self._with({name: value.to(device, non_blocking=True) for name, value in self.tensors().items()})

    def pin_memory(self) -> "Batch":
        return self._with({name: value.pin_memory() for name, value in self.tensors().items()})

    def at_rows(self, rows: Tensor) -> "Batch":
        """Some of the points (k,) of each case; no grid is left of them."""
        parts = {name: v.index_select(1, rows) for name, v in self.tensors().items() if name != "coefficients"}
        return replace(self._with(parts), grid=None)

    def padded_to(self, n: int) -> "Batch":
        """With so many points in each case, of which the last ones are not there."""
        more = n - self.there.shape[1]
        parts = {k: F.pad(v, [0, 0] * (v.ndim - 2) + [0, more]) for k, v in self.tensors().items()}
        return replace(self._with(parts | {"coefficients": self.coefficients}), padded=True)

    def at(self, time: int, times: int) -> "Batch":
        """One of the times of a batch's fields."""
        width = self.targets.shape[-1] // times
        chosen = slice(time * width, (time + 1) * width)
        return replace(self, targets=self.targets[..., chosen], defined=self.defined[..., chosen])


@dataclass(frozen=True)
class _Steps(torch.utils.data.Dataset[Batch]):
    """The batches of some steps by their number, for processes that make them."""

    batches: "Batches"
    start: int
    stop: int
    rank: int
    processes: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, place: int) -> Batch:
        return self.batches.make(self.start + place, self.rank, self.processes)


def window(case: Case, field: str, time_steps: int, unrolled: int, rng: np.random.Generator) -> Case:
    """A rollout from a later frame on: the given frames and `unrolled` more; the rest of the field is 0."""
    given, later = case.features[field], case.fields[field]
    frames, c = np.concatenate([given, later], axis=1), later.shape[1] // time_steps
    start = c * int(rng.integers(time_steps - unrolled + 1))
    middle = start + given.shape[1]
    ahead = np.zeros_like(later)
    ahead[:, : unrolled * c] = frames[:, middle : middle + unrolled * c]
    features = {**case.features, field: frames[:, start:middle]}
    return replace(case, features=features, fields={**case.fields, field: ahead})


def few_sizes(seen: set[int]) -> list[int]:
    """Some of these numbers of points, the largest among them, of which the next larger one is never far: they lie at
    most a constant factor apart."""
    least, most = min(seen), max(seen)
    edges = [least * (most / least) ** (k / _SIZES) for k in range(1, _SIZES)]
    return sorted({max(n for n in seen if n <= edge) for edge in edges} | {most})


class Batches:
    """The batches of a run by step number.

    `share` is given where processes share the points of each case: (1, 2) is the second of two. Its batches hold, and
    read, its own points alone.
    """

    def __init__(
        self,
        dataset: Dataset,
        names: Sequence[str],
        scaling: Scaling,
        training: Training,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        self.dataset, self.names, self.scaling, self.training = dataset, list(names), scaling, training
        self.sampling, self.share = Sampling(training.sampling, training.skin_points, training.points), share
        self.sizes: list[int] = []  # numbers of points that batches are padded to; none: to what they need
        self._usual_weights: dict[str, float] = {}

    def of_few_sizes(self) -> "Batches":
        """These batches, padded to a few numbers of points: each costs a compilation."""
        entries = [self.dataset.manifest.cases[name] for name in self.names]
        seen = {points_seen(entry, self.sampling) for entry in entries}
        if not any(entry["grid"] for entry in entries):
            self.sizes = few_sizes(seen)
        return self

    @property
    def repeats(self) -> int:
        """Steps on the same cases: one for each time of a time-conditioned task."""
        return self.training.time_steps if self.training.task == "time" else 1

    @property
    def steps(self) -> int:
        """Length of the run."""
        t = self.training
        return t.steps or -(-(t.epochs or 1) * len(self.names) // t.batch) * self.repeats

    def place(self, step: int) -> dict[str, float]:
        """A number of steps as the log has it: with how often each case has been seen."""
        return {"step": step, "epoch": round(step / self.repeats * self.training.batch / len(self.names), 4)}

    def make(self, step: int, rank: int = 0, processes: int = 1) -> Batch:
        """The batch of a step, or the part of it that falls to one of several processes."""
        size = self.training.batch // processes
        first = step // self.repeats * self.training.batch + rank * size
        batch = self._of(range(first, first + size))
        if not self.sizes or self.sizes == [batch.there.shape[1]]:  # as most are, which need no mask then
            return batch
        return batch.padded_to(min(n for n in self.sizes if n >= batch.there.shape[1]))

    def _of(self, numbers: range) -> Batch:
        return self.collate([self._sample(number) for number in numbers])

    def ahead(self, start: int, stop: int, rank: int = 0, processes: int = 1, feeders: int = 0) -> Iterator[Batch]:
        """The batches from `start` up to `stop`, made in a thread of their own, or by so many processes.

        A graphics processor takes less time for a step than one core for its batch; and nobody waits for its copies
        from pinned memory.
        """
        if feeders:
            steps = _Steps(self, start, stop, rank, processes)
            yield from DataLoader(
                steps,
                batch_size=None,
                num_workers=feeders,
                pin_memory=pinned_memory_helps(),
                multiprocessing_context="forkserver",
            )
            return
        ready: queue.Queue[Batch | BaseException] = queue.Queue(_AHEAD)
        ended = threading.Event()

        def put(item: Batch | BaseException) -> None:
            while not ended.is_set():
                with contextlib.suppress(queue.Full):
                    ready.put(item, timeout=0.1)
                    break

        def work() -> None:
            try:
                for step in range(start, stop):
                    if ended.is_set():
                        return
                    put(self.make(step, rank, processes))
            except BaseException as error:  # raised again where the batch is asked for
                put(error)

        threading.Thread(target=work, daemon=True).start()
        try:
            for _ in range(start, stop):
                item = ready.get()
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            ended.set()

    def turn(self, number: int) -> tuple[str, np.random.Generator]:
        """The number-th case of the run, and what is random about it; each epoch has an order of its own."""
        seed = self.training.seed
        epoch, place = divmod(number, len(self.names))
        order = np.random.default_rng([seed, 1, epoch]).permutation(len(self.names))
        return self.names[order[place]], np.random.default_rng([seed, 2, number])

    def _sample(self, number: int) -> Case:
        """The number-th case of the run with the points it is seen at."""
        name, rng = self.turn(number)
        case = drawn(self.dataset, name, self.sampling, rng, self.share)
        if self.training.unrolled:
            case = window(case, self.scaling.field_names[0], self.training.time_steps, self.training.unrolled, rng)
        return mirrored(case) if self.training.mirror and case.dimensions == 2 and rng.random() < 0.5 else case

    def collate(self, cases: Sequence[Case]) -> Batch:
        n = max(len(case.points) for case in cases)

        def stack(arrays: Sequence[NDArray]) -> Tensor:
            padded = [np.pad(a, [(0, n - len(a))] + [(0, 0)] * (a.ndim - 1)) for a in arrays]
            return torch.from_numpy(np.stack(padded))

        return Batch(
            names=[case.name for case in cases],
            grid=cases[0].grid,
            inputs=stack([self.scaling.inputs(Places.of(case)) for case in cases]),
            targets=stack([self.scaling.targets(case) for case in cases]),
            padded=any(len(case.points) < n for case in cases),
            skin=any(self.dataset.manifest.cases[case.name]["surface"] for case in cases),
            there=stack([np.ones(len(case.points), bool) for case in cases]),
            surface=stack([case.surface for case in cases]),
            defined=stack([self.scaling.known(case) for case in cases]),
            coefficients=torch.from_numpy(np.stack([self.scaling.coefficient_targets(case) for case in cases])),
            weights=stack([self._weights(case) for case in cases]),
        )

    def _weights(self, case: Case) -> NDArray:
        """Skin that is drawn by area shows small faces, where the flow changes fast, rarely: they may count more."""
        weights = np.ones(len(case.points), np.float32)
        if self.training.small_faces and case.areas is not None and case.surface.any():
            skin = case.areas[case.surface] ** -self.training.small_faces
            weights[case.surface] = skin / self._usual_weight(case.name)
        return weights

    def _usual_weight(self, name: str) -> float:
        """What `small_faces` makes of a point on the skin of a case as it is stored, on average."""
        if name not in self._usual_weights:
            areas = self.dataset.array(name, "areas")
            skin = areas.rows(0, len(areas)).astype(float)
            skin = skin[skin > 0]
            drawn_as = skin if self.sampling.kind == "density" else np.ones_like(skin)
            mean = (drawn_as * skin**-self.training.small_faces).sum() / max(drawn_as.sum(), 1e-30)
            self._usual_weights[name] = float(mean)
        return self._usual_weights[name]
