"""The objective of a step: batch in, losses out, as one module, so that DDP sees one forward and one backward pass."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from aerosurrogate.data.scaling import Scaling
from aerosurrogate.model.interface import Model
from aerosurrogate.model.tiles import SumOverGroup
from aerosurrogate.recipe import Training
from aerosurrogate.surrogate import answer_all_times
from aerosurrogate.training import losses
from aerosurrogate.training.batches import Batch

SMALLEST = 0.01  # of a field's size in all cases: cases with less than this of it have no relative error


class Objective(nn.Module):
    """Losses of a model on a batch by name, `loss` being what is made small.

    `group` is given where its processes share the points of each case. Every process then has the same loss, and the
    gradient of the whole is the mean of the processes' gradients, as with data-parallel training.
    """

    mean: Tensor
    size: Tensor

    def __init__(
        self, model: Model, scaling: Scaling, training: Training, group: dist.ProcessGroup | None = None
    ) -> None:
        super().__init__()
        self.model, self.scaling, self.training_recipe, self.group = model, scaling, training, group
        self.columns = scaling.columns()
        self.uses_head = bool(scaling.coefficient_names and training.coefficient_weight and training.task == "steady")
        for name, values in zip(("mean", "size"), scaling.field_scale, strict=True):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float32), persistent=False)

    def forward(self, batch: Batch, time: Tensor | None = None) -> dict[str, Tensor]:
        """Losses on a batch, or on one time of it: `time` [B] is that of a time-conditioned task."""
        t = self.training_recipe
        targets, counted = batch.targets, batch.defined & batch.there[..., None]
        mask = batch.there if batch.padded else None
        coefficients = None
        if t.task == "steady" or time is not None:
            skin = batch.surface if self.uses_head else None
            answer = self.model(batch.inputs, batch.grid, mask, time, skin, self.group)
            outputs, coefficients = (answer, None) if skin is None else answer[:2]
        else:
            steps = t.unrolled or t.time_steps
            outputs = answer_all_times(self.model, batch.inputs, batch.grid, t.task, steps, mask)
            chosen = slice(0, steps * (targets.shape[-1] // t.time_steps))
            targets, counted = targets[..., chosen], counted[..., chosen]
        return self._losses(batch, outputs.float(), targets, counted, coefficients)

    def _losses(
        self, batch: Batch, outputs: Tensor, targets: Tensor, counted: Tensor, coefficients: Tensor | None
    ) -> dict[str, Tensor]:
        t = self.training_recipe
        parts: dict[str, tuple[float, Tensor, Callable[[Tensor], Tensor]]] = {}  # weight, sums, what these make
        if t.loss == "mean_square":
            sums = losses.square_sums(outputs - targets, counted, batch.surface, batch.weights)
            parts["fields"] = 1.0, sums, lambda total: losses.mean_square(total, t.surface_weight)
        else:
            sums, weights = self._relative(batch, outputs, targets, counted)
            parts["fields"] = 1.0, sums, lambda total: _weighted_mean(losses.relative(total), weights)
        if t.gradient_weight and batch.grid is not None:
            slopes, truth = (
                losses.differences(x, batch.grid) for x in (self._decoded(outputs), self._decoded(targets))
            )
            everywhere = torch.ones_like(slopes, dtype=torch.bool)
            sums = losses.relative_sums(slopes - truth, truth, everywhere, batch.weights)
            parts["gradient"] = t.gradient_weight, sums, losses.relative
        totals = self._totals([sums for _, sums, _ in parts.values()])
        values = {name: (part[0], part[2](total)) for (name, part), total in zip(parts.items(), totals, strict=True)}
        if coefficients is not None:
            known = batch.coefficients.isfinite()
            error = torch.where(known, coefficients.float() - batch.coefficients, 0)
            # Not squared: beside the relative error of the fields, a square would fade out as both become small.
            values["coefficients"] = t.coefficient_weight, error.abs().sum() / known.sum().clamp(min=1)
        loss = torch.stack([weight * value for weight, value in values.values()]).sum()
        return {"loss": loss, **{name: value.detach() for name, (_, value) in values.items()}}

    def _relative(self, batch: Batch, outputs: Tensor, targets: Tensor, counted: Tensor) -> tuple[Tensor, list[float]]:
        """Sums [k, 3, B] for the relative L2 of the decoded values, of each field, around the body and on its skin, or
        of each time apart; and the weights (k,) of these parts."""
        truth = self._decoded(targets)
        error, t = self._decoded(outputs) - truth, self.training_recipe

        def of(columns: slice, points: Tensor) -> Tensor:
            here = counted[..., columns] & points[..., None]
            fields = error[..., columns], truth[..., columns], here, batch.weights
            return losses.relative_sums(*fields, least=SMALLEST * self.size[columns])

        if t.time_steps > 1:
            width = self.scaling.output_channels // t.time_steps
            times = [of(slice(i, i + width), batch.there) for i in range(0, error.shape[-1], width)]
            return torch.stack(times), [1.0] * len(times)
        each, weights = [], []
        for columns, where in zip(self.columns.values(), self.scaling.where, strict=True):
            if where != "surface":
                each.append(of(columns, ~batch.surface))
                weights.append(1.0)
            if where != "volume" and batch.skin:  # or a task without one would count its fields by half
                each.append(of(columns, batch.surface))
                weights.append(t.surface_weight)
        return torch.stack(each), weights

    def _decoded(self, scaled: Tensor) -> Tensor:
        c = scaled.shape[-1]  # all times share mean and size with the first where the scaling is raw
        return scaled * self.size[:c] + self.mean[:c]

    def _totals(self, sums: list[Tensor]) -> list[Tensor]:
        """The sums over all processes that share the points, in one go."""
        if self.group is None:
            return sums
        joined = SumOverGroup.apply(torch.cat([part.flatten() for part in sums]), self.group)
        parts = joined.split([part.numel() for part in sums])
        return [total.view_as(part) for total, part in zip(parts, sums, strict=True)]


def _weighted_mean(values: Tensor, weights: list[float]) -> Tensor:
    return torch.stack([weight * value for weight, value in zip(weights, values, strict=True)]).mean()
