"""Training by recipe: data, model, optimiser, steps, checkpoints; at the end accuracy, routes and trust."""

import contextlib
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from aerosurrogate import console, trust
from aerosurrogate.data.native import native
from aerosurrogate.data.scaling import Scaling
from aerosurrogate.errors import InputError
from aerosurrogate.evaluate import best_routes, calibrate, cost_of_drawing, evaluate
from aerosurrogate.model.interface import Interface, Model
from aerosurrogate.model.registry import find_kind
from aerosurrogate.recipe import Recipe, Training
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.batches import Batch, Batches
from aerosurrogate.training.cases import TrainingCases, open_cases, require_data
from aerosurrogate.training.distribution import Processes, processes
from aerosurrogate.training.muon import Muon
from aerosurrogate.training.objective import Objective
from aerosurrogate.training.run import Run
from aerosurrogate.training.start import take_weights
from aerosurrogate.writing import alone_in

LOGGED = 500  # lines of training loss a run
VALIDATIONS = 20
PROGRESS = ("last_epoch", "_step_count", "_last_lr")  # of a schedule; the rest follows from the recipe
LIMITS = ("max_lr", "initial_lr", "min_lr", "weight_decay")  # of an optimiser's group


def train(recipe: Recipe, out: Path | None = None, *, resume: bool = False, device: str = "auto") -> dict[str, Any]:
    """Run a recipe in the folder `out` (runs/NAME unless said); returns what was reached.

    Launched by torchrun, the processes share the batch (or the points of each case) and the first one writes.
    """
    require_data(recipe.data)
    folder = out or Path("runs") / recipe.name
    with processes(device) as own, alone_in(folder) if own.first else contextlib.nullcontext():
        _check_share(recipe.training, own)
        run = Run(folder, recipe, resume=resume, first=own.first)
        cases = open_cases(recipe, run)
        trainer = Trainer(recipe, cases, run, own)
        with console.resumable("the same command with --resume goes on from the last checkpoint"):
            trainer.run_steps()
        own.wait()
        return trainer.conclude() if own.first else {}


def _check_share(training: Training, own: Processes) -> None:
    if not training.shard_points and training.batch % own.count:
        raise InputError(
            f"the batch must be a multiple of the {own.count} processes",
            seen=f"training.batch = {training.batch}",
            remedy=f"--set training.batch={own.count}, or --set training.shard_points=true",
        )


class Trainer:
    """The state of a run and the loop over it."""

    def __init__(self, recipe: Recipe, cases: TrainingCases, run: Run, own: Processes) -> None:
        self.recipe, self.cases, self.run, self.own = recipe, cases, run, own
        t = recipe.training
        torch.manual_seed(t.seed)
        self.model = build_model(recipe, cases.scaling).to(own.device)
        if t.start and not run.resumed:
            take_weights(self.model, cases.scaling, Surrogate.load(t.start, "cpu"), Path(t.start).name)
        group = own.group if t.shard_points else None
        self.objective = Objective(self.model, cases.scaling, t, group).to(own.device)
        self.parallel: nn.Module = self.objective
        if own.count > 1:
            self.parallel = DistributedDataParallel(self.objective, find_unused_parameters=False)
        self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(t.ema)) if t.ema else None
        self.optimiser = build_optimiser(self.model, t)
        self.batches = Batches(cases.dataset, cases.train, cases.scaling, t)
        self.steps = self.batches.steps
        self.schedule = build_schedule(self.optimiser, t, self.steps)
        self.native = native(cases.dataset, cases.train, self.batches.sampling) if own.first else None
        self.step, self.seconds, self.best = 0, 0.0, math.inf
        if run.resumed:
            self._restore()

    @property
    def trained(self) -> Model:
        """The weights to keep: the averaged ones where there are any."""
        return self.average.module if self.average is not None else self.model  # type: ignore[return-value]

    def run_steps(self) -> None:
        """All steps that are left, with checkpoints, validations, log and progress."""
        t, every = self.recipe.training, self.recipe.training.validate_every or max(self.steps // VALIDATIONS, 1)
        log_every = max(self.steps // LOGGED, 1)
        start, saved = time.monotonic() - self.seconds, time.monotonic()
        logged, losses, points = time.monotonic(), [], 0
        share = (0, 1) if t.shard_points else (self.own.rank, self.own.count)
        with console.progress(f"train {self.recipe.name}", self.steps, self.step) as advance:
            for batch in self.batches.ahead(self.step, self.steps, *share):
                losses.append(self._update(batch))
                self.step += 1
                self.seconds = time.monotonic() - start
                points += batch.there.numel()
                if self.step % log_every == 0:
                    rate = points / max(time.monotonic() - logged, 1e-9)
                    self._log(loss=sum(losses) / len(losses), points_per_second=round(rate))
                    figures = {"loss": f"{losses[-1]:.4g}", "lr": f"{self.rate:.2g}", "points/s": f"{rate:.3g}"}
                    losses, points, logged = [], 0, time.monotonic()
                else:
                    figures = {"loss": f"{losses[-1]:.4g}", "lr": f"{self.rate:.2g}"}
                advance(**figures)
                last = self.step == self.steps
                if self.step % every == 0 or last:
                    self._validate()
                if last or time.monotonic() - saved > t.checkpoint_seconds:
                    self._checkpoint()
                    saved = time.monotonic()

    @property
    def rate(self) -> float:
        return self.optimiser.param_groups[0]["lr"]

    def _update(self, batch: Batch) -> float:
        """One step of the optimiser; returns the loss. A loss or gradient that is not finite ends the run."""
        t = self.recipe.training
        torch.manual_seed(t.seed * 1_000_003 + self.step)  # what is random in a step (dropout) depends on nothing else
        self.model.train()
        self.optimiser.zero_grad(set_to_none=True)
        with self._precision():
            loss = self.parallel(self._share(batch), self._time())["loss"]
        value = loss.item()
        if math.isfinite(value):
            loss.backward()
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), t.clip or math.inf).item()
        if not math.isfinite(value) or not math.isfinite(norm):
            self._stop(batch, "loss" if not math.isfinite(value) else "gradient")
        self.optimiser.step()
        self.schedule.step()
        if self.average is not None:
            self.average.update_parameters(self.model)
        return value

    def _time(self) -> int | None:
        """Which time a step of a time-conditioned task trains: each of a case's times once, in random order."""
        t = self.recipe.training
        if t.task != "time":
            return None
        turn, place = divmod(self.step, t.time_steps)
        order = torch.randperm(t.time_steps, generator=torch.Generator().manual_seed(t.seed + turn))
        return int(order[place])

    def _share(self, batch: Batch) -> Batch:
        part = batch.share(self.own.rank, self.own.count) if self.recipe.training.shard_points else batch
        return part.to(self.own.device)

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        """bfloat16 where the device is made for it."""
        if self.own.device.type != "cuda":
            return contextlib.nullcontext()
        return torch.autocast("cuda", torch.bfloat16)

    def _stop(self, batch: Batch, what: str) -> None:
        self._log(event=f"{what} not finite", cases=batch.names)
        raise InputError(
            f"the {what} is not finite at step {self.step + 1}",
            seen=f"case {', '.join(batch.names)}",
            remedy="look at that case's fields; try a smaller training.learning_rate or training.clip=0.1; "
            "--resume goes on from the last checkpoint",
        )

    @torch.no_grad()
    def _validate(self) -> None:
        """Mean loss over the validation cases, each at fixed points; keeps the best model."""
        if not self.cases.validation:
            return
        batches = Batches(
            self.cases.dataset,
            self.cases.validation,
            self.cases.scaling,
            self.recipe.training.model_copy(update={"batch": 1, "mirror": False, "seed": 1}),
        )
        objective = Objective(self.trained, self.cases.scaling, self.recipe.training, self.objective.group)
        objective = objective.to(self.own.device).eval()
        spread = self.recipe.training.shard_points
        mine = range(len(batches.names)) if spread else range(self.own.rank, len(batches.names), self.own.count)
        total = torch.zeros(1, dtype=torch.float64, device="cpu" if self.own.device.type == "mps" else self.own.device)
        for number in mine:
            total += objective(self._share(batches.make(number * batches.repeats)), None)["loss"].double()
        value = (total if spread else self.own.sum(total)).item() / len(batches.names)
        self._log(validation=value)
        if value < self.best:
            self.best = value
            if self.own.first:
                self.surrogate().save(self.run.folder / "best.safetensors")

    def _checkpoint(self) -> None:
        if not self.own.first:
            return
        self.surrogate().save(self.run.folder / "last.safetensors")
        state = {"step": self.step, "seconds": self.seconds, "best": self.best if math.isfinite(self.best) else None}
        progress = {key: self.schedule.state_dict()[key] for key in PROGRESS}
        self.run.save_state(self._modules(), self.optimiser, state | {"schedule": progress})

    def _restore(self) -> None:
        # Limits of the learning rate follow the recipe, which may have changed; where it stands follows the checkpoint.
        fixed = [{k: g[k] for k in LIMITS if k in g} for g in self.optimiser.param_groups]
        state = self.run.load_state(self._modules(), self.optimiser)
        for group, limits in zip(self.optimiser.param_groups, fixed, strict=True):
            group.update(limits)
        self.step, self.seconds = state["step"], state["seconds"]
        self.best = math.inf if state["best"] is None else state["best"]
        self.schedule.load_state_dict(state["schedule"])
        if self.own.first:
            self.run.rewind(self.step)
        self.own.wait()
        console.note(f"resuming {self.run.folder} at step {self.step} of {self.steps}")

    def _modules(self) -> dict[str, nn.Module]:
        modules: dict[str, nn.Module] = {"model": self.model}
        return modules if self.average is None else modules | {"average": self.average}

    def _log(self, **values: Any) -> None:
        fixed = {"step": self.step, "epoch": round(self.batches.epoch(self.step), 4), "seconds": round(self.seconds, 2)}
        self.run.log(fixed | {"learning_rate": self.rate} | values)

    def surrogate(self) -> Surrogate:
        """The model as it is now, with all that is needed to use it."""
        t = self.recipe.training
        card = {
            "name": self.recipe.name,
            **self.recipe.card,
            "trained": {
                "steps": self.step,
                "of": self.steps,
                "seconds": round(self.seconds),
                "seed": t.seed,
                "start": Path(t.start).name,
            },
            "data": {
                "set": self.recipe.data.path.name,
                "train": len(self.cases.train),
                "validation": len(self.cases.validation),
                "source": self.recipe.data.source,
            },
            "paper": dict(self.recipe.paper),
        }
        return Surrogate(
            self.trained,
            self.cases.scaling,
            self.batches.sampling,
            t.task,
            t.time_steps,
            self.cases.ranges(),
            card=card,
            native=self.native,
        )

    def conclude(self) -> dict[str, Any]:
        """Accuracy on the validation cases, routes to the coefficients and trust, written into the best checkpoint."""
        self.run.draw_losses()
        reached: dict[str, Any] = {"run": str(self.run.folder), "steps": self.step, "seconds": self.seconds}
        path = self.run.folder / "best.safetensors"
        if not self.cases.validation:
            return reached
        surrogate = Surrogate.load(path, str(self.own.device))
        result = evaluate(surrogate, self.cases.dataset, self.cases.validation, "validate")
        surrogate.card |= {"validation": result.figures, "routes": best_routes(result)}
        if cost := cost_of_drawing(result):
            surrogate.card["shape alone"] = cost
        if result.evidence:
            known = evaluate(surrogate, self.cases.dataset, self.cases.train, "statistics for trust")
            surrogate.trust = trust.fit(list(known.evidence.values()), list(result.evidence.values()))
            calibrate(surrogate, result, known)
        surrogate.save(path)
        result.write(self.run.folder, "validation")
        result.show()
        console.note(f"model, log and tables are in {self.run.folder}")
        return reached | {"validation": result.figures, "routes": surrogate.card["routes"]}


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
