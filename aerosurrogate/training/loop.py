"""Training by recipe: data, model, optimiser, steps, checkpoints; at the end accuracy, routes and trust."""

import contextlib
import copy
import inspect
import math
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, cast

import torch
from torch import Tensor, nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import get_ema_multi_avg_fn

from aerosurrogate import console
from aerosurrogate.data.scaling import Scaling
from aerosurrogate.data.training_frame import measure_frame
from aerosurrogate.devices import fast_bfloat16, feeders
from aerosurrogate.errors import InputError
from aerosurrogate.model.interface import Interface, Model
from aerosurrogate.model.precision import wide
from aerosurrogate.model.registry import find_kind
from aerosurrogate.recipe import Recipe, Training
from aerosurrogate.surrogate import Card, Surrogate, Trained, TrainedOn, moment
from aerosurrogate.training.batches import Batch, Batches
from aerosurrogate.training.cases import TrainingCases, open_cases, require_data
from aerosurrogate.training.compiled import compile_where_it_pays, is_compiled, set_aside, will_compile
from aerosurrogate.training.conclusion import conclude, say_what_is_missing
from aerosurrogate.training.distribution import Processes, processes
from aerosurrogate.training.launched import Arriving, Launched
from aerosurrogate.training.log import Log
from aerosurrogate.training.muon import Muon
from aerosurrogate.training.objective import Objective
from aerosurrogate.training.resident import resident_where_it_fits
from aerosurrogate.training.run import Run
from aerosurrogate.training.start import take_weights
from aerosurrogate.writing import alone_in

LOGGED = 500  # lines of training loss a run
VALIDATIONS = 20
PROGRESS = ("last_epoch", "_step_count", "_last_lr")  # of a schedule; the rest follows from the recipe
LIMITS = ("max_lr", "initial_lr", "min_lr", "weight_decay")  # of an optimiser's group
# Whether DDP sends buffers at every step; earlier versions of torch have the other name, later ones warn of it.
_NAMES = inspect.signature(DistributedDataParallel.__init__).parameters
BUFFERS = "forward_sync_buffers" if "forward_sync_buffers" in _NAMES else "broadcast_buffers"


class Reached(TypedDict):
    """What a run came to."""

    run: str  # its folder
    steps: int
    seconds: float
    validation: dict[str, float]  # figures by the names of `evaluate`
    routes: dict[str, str]  # to cd and cl: head, integrated or both


def train(recipe: Recipe, out: Path | None = None, *, resume: bool = False, device: str = "auto") -> Reached:
    """Run a recipe in the folder `out` (runs/NAME unless said); returns what was reached.

    Launched by torchrun, the processes share the batch (or the points of each case) and the first one writes.
    """
    require_data(recipe.data)
    folder = out or Path("runs") / recipe.name
    with processes(device) as own, alone_in(folder) if own.first else contextlib.nullcontext():
        _team_size(recipe.training, own)
        run = Run(folder, recipe, own, resume=resume)
        cases = open_cases(recipe, run)
        say_what_is_missing(len(cases.validation), cases.of_bodies)
        trainer = Trainer(recipe, cases, run, own)
        with console.resumable("the same command with --resume goes on from the last checkpoint"):
            trainer.run_steps()
            return trainer.conclude()


def _team_size(training: Training, own: Processes) -> int:
    """How many processes share the points of each case."""
    size = own.count if training.shard_points is True else training.shard_points or 1
    if own.count % size:
        raise InputError(
            f"the {own.count} processes cannot be divided into teams that share points",
            seen=f"training.shard_points = {size}",
            remedy="give a divisor of their number (torchrun --nproc-per-node), or true for all of them",
        )
    if size > 1 and training.gradient_weight:
        raise InputError(
            "derivatives along a mesh need all of its points in one process",
            seen=f"training.gradient_weight = {training.gradient_weight}",
            remedy="--set training.shard_points=false, or --set training.gradient_weight=0",
        )
    teams = own.count // size
    if training.batch % teams:
        raise InputError(
            f"the batch must be a multiple of the {teams} {'processes' if size == 1 else 'teams of processes'}",
            seen=f"training.batch = {training.batch}",
            remedy=f"--set training.batch={teams}, or --set training.shard_points=true",
        )
    return size


class Trainer:
    """The state of a run and the loop over it."""

    def __init__(self, recipe: Recipe, cases: TrainingCases, run: Run, own: Processes) -> None:
        self.recipe, self.cases, self.run, self.own = recipe, cases, run, own
        t = recipe.training
        torch.manual_seed(t.seed)
        self.model = build_model(recipe, cases.scaling).to(own.device)
        if t.start and not run.resumed:
            take_weights(self.model, cases.scaling, Surrogate.load(t.start, "cpu"), Path(t.start).name)
        self.team = own.team(_team_size(t, own))
        self.objective = Objective(self.model, cases.scaling, t, self.team.group).to(own.device)
        if self.model.coefficients is not None and not self.objective.uses_head:
            self.model.coefficients.requires_grad_(False)  # or the processes would wait for its gradient
        self.parallel: nn.Module = self.objective
        if own.count > 1:
            # Other kinds may have weights that a step does not use, and buffers that it changes.
            other = recipe.model.kind != "transolver"
            buffers: dict[str, Any] = {BUFFERS: other}
            self.parallel = DistributedDataParallel(self.objective, find_unused_parameters=other, **buffers)
        self.weights = {"last": self.model}  # what validation chooses from
        if t.ema:
            self.weights["averaged"] = copy.deepcopy(self.model).requires_grad_(False)
        self.chosen = list(self.weights)[-1]
        self.optimiser = build_optimiser(self.model, t)
        self.share = self.team.rank, self.team.size
        batches = Batches(cases.dataset, cases.train, cases.scaling, t, self.share)
        if will_compile(self.objective, own.device):
            batches = batches.of_few_sizes()
        self.batches = resident_where_it_fits(batches, own.device)
        self.steps = self.batches.steps
        self.schedule = build_schedule(self.optimiser, t, self.steps)
        self.frame = measure_frame(cases.dataset, cases.train, self.batches.sampling) if own.first else None
        self.step, self.seconds, self.best = 0, 0.0, math.inf
        self.stopped = self.compiled = False
        self.owed = False  # a validation that was interrupted
        if run.resumed:
            self._restore()

    @property
    def trained(self) -> Model:
        """The weights to keep."""
        return self.weights[self.chosen]

    def run_steps(self) -> None:
        """All steps that are left, with checkpoints, validations, log and progress."""
        t, under_way = self.recipe.training, None
        start, saved = time.monotonic() - self.seconds, time.monotonic()
        every, log = self._validation_steps(), Log(self.run, self.batches, max(self.steps // LOGGED, 1), self.seconds)
        if self.owed:
            self._validate()
        with self._stoppable(), console.progress(f"train {self.recipe.name}", self.steps, self.step) as advance:
            team = self.team.number, self.team.teams
            for batch in self.batches.ahead(self.step, self.steps, *team, feeders(self.own.device)):
                launched = self._update(batch, start)
                self.step += 1
                if under_way is not None:
                    log.take(under_way)
                under_way = launched
                last = self.step == self.steps
                due, late = self.step % every == 0, time.monotonic() - saved > t.checkpoint_seconds
                if due or late or last or self.stopped:
                    log.take(under_way)
                    under_way = None
                self.seconds = time.monotonic() - start
                if due or last:
                    self._validate()
                if late or last or self.stopped:
                    self._checkpoint()
                    saved = time.monotonic()
                advance(**log.figures)
                if self.stopped:
                    raise KeyboardInterrupt

    def _validation_steps(self) -> int:
        """Steps between validations: so many that these look at no more cases than training does."""
        t, looks = self.recipe.training, len(self.cases.validation) * len(self.weights)
        return t.validate_every or max(self.steps // VALIDATIONS, -(-looks // t.batch), 1)

    @contextlib.contextmanager
    def _stoppable(self) -> Iterator[None]:
        """An interrupt ends the run with the step that is under way, and a checkpoint; a second one ends it at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def stop(*_: object) -> None:
            self.stopped = True
            signal.signal(signal.SIGINT, before)
            console.note("stopping after this step; interrupt again to leave at once")

        signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @property
    def rate(self) -> float:
        return self.optimiser.param_groups[0]["lr"]

    def _update(self, batch: Batch, start: float = 0.0) -> Launched:
        """Launch one step of the optimiser, without waiting for it; the run began at `start`, s."""
        t = self.recipe.training
        self.model.train()
        seen, when = self._seen(batch)
        if not self.compiled:
            most = len(seen.there) * max(seen.there.shape[1], *self.batches.sizes, 0)
            for line in compile_where_it_pays(self.objective, seen, when, self._precision, most):
                self.run.log({"event": line})
            self.compiled = True
        rate, loss = self.rate, self._descend(seen, when)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), t.clip or math.inf)
        self.optimiser.step()
        self.schedule.step()
        if (average := self.weights.get("averaged")) is not None:
            mix = get_ema_multi_avg_fn(warm_decay(t.ema, self.step))
            mix(list(average.parameters()), list(self.model.parameters()), None)
        figures = Arriving(torch.stack([loss.detach(), norm]))
        points = batch.there.numel() * self.team.size
        return Launched(self.step + 1, rate, batch.names, points, time.monotonic() - start, figures)

    def _descend(self, seen: Batch, when: Tensor | None) -> Tensor:
        """The loss of a batch, whose gradient is left in the weights; by the plain step if a compiled one fails.

        It may with a batch of another size, which is compiled when it first comes, or needs more memory than the first.
        """
        seed = self.recipe.training.seed * 1_000_003 + self.step
        torch.manual_seed(seed)  # what is random in a step (dropout) depends on nothing else
        self.optimiser.zero_grad(set_to_none=True)
        exchanged = False
        try:
            with self._precision():
                loss = self.parallel(seen, when)["loss"]
            exchanged = self.own.count > 1  # from here on: the others would not do it again
            loss.backward()
        except Exception as error:
            if exchanged or not is_compiled(self.objective):
                raise
            self.run.log({"event": set_aside(self.objective, error)})
        else:
            return loss
        return self._descend(seen, when)  # not above, where the error would hold the memory of what failed

    def _seen(self, batch: Batch) -> tuple[Batch, Tensor | None]:
        """What the objective is given of a batch: on its device, at one time."""
        t, index = self.recipe.training, self._time()
        if index is not None:
            batch = batch.at(index, t.time_steps)
        seen = self._placed(batch)
        return seen, None if index is None else moment(index, t.time_steps, seen.inputs)

    def _time(self) -> int | None:
        """Which time a step of a time-conditioned task trains: each of a case's times once, in random order."""
        t = self.recipe.training
        if t.task != "time":
            return None
        turn, place = divmod(self.step, t.time_steps)
        order = torch.randperm(t.time_steps, generator=torch.Generator().manual_seed(t.seed + turn))
        return int(order[place])

    def _placed(self, batch: Batch) -> Batch:
        return replace(batch.to(self.own.device), names=[])

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        """bfloat16 where the device is made for it."""
        return torch.autocast(self.own.device.type, torch.bfloat16, enabled=fast_bfloat16(self.own.device))

    def _validate(self) -> None:
        """Mean loss over the validation cases, each at fixed points, with each kind of weights; the best is kept."""
        if not self.cases.validation:
            return
        self.owed = True
        found = {kind: self._validation_loss(model) for kind, model in self.weights.items()}
        if self.stopped and any(map(math.isnan, found.values())):
            return
        self.owed = False
        self.chosen = min(found, key=lambda kind: found[kind])
        value = found[self.chosen]
        self.run.log(self._place() | {"validation": value, "weights": self.chosen})
        if value < self.best:
            self.best = value
            if self.own.first:
                self.surrogate().save(self.run.folder / "best.safetensors")

    @torch.no_grad()
    def _validation_loss(self, model: Model) -> float:
        batches = Batches(
            self.cases.dataset,
            self.cases.validation,
            self.cases.scaling,
            self.recipe.training.model_copy(update={"batch": 1, "mirror": False, "seed": 1}),
            self.share,
        )
        objective = Objective(model, self.cases.scaling, self.recipe.training, self.objective.group)
        objective = objective.to(self.own.device).eval()
        mine = range(self.team.number, len(batches.names), self.team.teams)
        total = torch.zeros(1, device=self.own.device)
        total = total.to(wide(total))
        for number in mine:
            if self.stopped and self.own.count == 1:
                return math.nan
            total += objective(self._placed(batches.make(number * batches.repeats)), None)["loss"].to(total.dtype)
        return self.own.sum(total / self.team.size).item() / len(batches.names)  # a team's processes have one loss

    def _checkpoint(self) -> None:
        if not self.own.first:
            return
        self.surrogate().save(self.run.folder / "last.safetensors")
        best = self.best if math.isfinite(self.best) else None
        state = {"step": self.step, "seconds": self.seconds, "best": best, "chosen": self.chosen, "owed": self.owed}
        progress = {key: self.schedule.state_dict()[key] for key in PROGRESS}
        self.run.save_state(self.weights, self.optimiser, state | {"schedule": progress})

    def _restore(self) -> None:
        # Limits of the learning rate follow the recipe, which may have changed; where it stands follows the checkpoint.
        fixed = [{k: g[k] for k in LIMITS if k in g} for g in self.optimiser.param_groups]
        state = self.run.load_state(self.weights, self.optimiser)
        for group, limits in zip(self.optimiser.param_groups, fixed, strict=True):
            group.update(limits)
        self.step, self.seconds, self.chosen = state["step"], state["seconds"], state["chosen"]
        self.best, self.owed = math.inf if state["best"] is None else state["best"], state["owed"]
        self.schedule.load_state_dict(state["schedule"])
        if self.own.first:
            self.run.rewind(self.step)
        self.own.wait()
        console.note(f"resuming {self.run.folder} at step {self.step} of {self.steps}")

    def _place(self) -> dict[str, Any]:
        return self.batches.place(self.step) | {"seconds": round(self.seconds, 2), "learning_rate": self.rate}

    def surrogate(self) -> Surrogate:
        """The model as it is now, with all that is needed to use it."""
        t = self.recipe.training
        trained: Trained = {
            "steps": self.step,
            "of": self.steps,
            "seconds": round(self.seconds),
            "seed": t.seed,
            "start": Path(t.start).name,
        }
        data: TrainedOn = {
            "set": self.recipe.data.path.name,
            "train": len(self.cases.of_first),
            "beside": self.cases.beside,
            "validation": len(self.cases.validation),
            "source": self.recipe.data.source,
        }
        card: dict[str, Any] = {"name": self.recipe.name, **self.recipe.card}
        card |= {"trained": trained, "data": data, "paper": dict(self.recipe.paper)}
        return Surrogate(
            self.trained,
            self.cases.scaling,
            self.batches.sampling,
            t.task,
            t.time_steps,
            self.cases.ranges(),
            card=cast(Card, card),
            training_frame=self.frame,
            learned=self.cases.learned,
        )

    def conclude(self) -> Reached:
        """Curves, and what the best model is worth; without validation cases the last one stands for it."""
        path = self.run.folder / "best.safetensors"
        if self.own.first:
            self.run.draw_losses()
            if not self.cases.validation:
                self.surrogate().save(path)
        held, routes = conclude(path, self.cases, self.own, self.seconds)
        console.note(f"model, log and tables are in {self.run.folder}")
        return {
            "run": str(self.run.folder),
            "steps": self.step,
            "seconds": self.seconds,
            "validation": held.figures,
            "routes": routes,
        }


def warm_decay(ema: float, step: int) -> float:
    """The averaged weights' decay at a step: over about the last tenth of the run so far, until `ema` is longer."""
    return min(ema, (1 + step) / (10 + step))


def build_model(recipe: Recipe, scaling: Scaling) -> Model:
    """The recipe's architecture, for the inputs and outputs that the data have."""
    t = recipe.training
    interface = Interface(
        inputs=scaling.input_channels,
        outputs=scaling.output_channels // (t.time_steps if t.task != "steady" else 1),
        dimensions=scaling.dimensions,
        time_input=t.task == "time",
        coefficients=len(scaling.coefficient_names),
    )
    return find_kind(recipe.model.kind)(interface, recipe.model)


def build_optimiser(model: Model, training: Training) -> optim.Optimizer:
    options: dict[str, Any] = {"lr": training.learning_rate, "weight_decay": training.weight_decay, "fused": True}
    if training.optimiser == "muon":  # for what maps hidden states to hidden states
        matrices = [weight for weight in model.hidden_parameters() if weight.ndim > 1]
        taken = set(map(id, matrices))
        return Muon(matrices, [weight for weight in model.parameters() if id(weight) not in taken], **options)
    kind = {"adam": optim.Adam, "adamw": optim.AdamW}[training.optimiser]
    return kind(model.parameters(), **options)


def build_schedule(optimiser: optim.Optimizer, training: Training, steps: int) -> optim.lr_scheduler.LRScheduler:
    """The learning rate over all steps; torch's OneCycle with its defaults but for the end."""
    schedulers = optim.lr_scheduler
    if training.schedule == "onecycle":
        return schedulers.OneCycleLR(
            optimiser, training.learning_rate, total_steps=steps + 1, final_div_factor=training.final_divisor
        )
    if training.schedule == "cosine":
        return schedulers.CosineAnnealingLR(optimiser, T_max=steps)
    return schedulers.ConstantLR(optimiser, factor=1.0)
