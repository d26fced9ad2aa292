"""A run that goes on from a model: scaling and weights of what both have by name; the rest is new, and said."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from aerosurrogate import console
from aerosurrogate.data.scaling import MeanAndSize, Scaling, input_widths
from aerosurrogate.errors import InputError
from aerosurrogate.model.interface import Model
from aerosurrogate.surrogate import Surrogate


class Named(NamedTuple):
    """Channels that belong to names, in order."""

    names: Sequence[str]
    widths: Sequence[int]

    def columns(self, name: str) -> slice:
        place = list(self.names).index(name)
        start = sum(self.widths[:place])
        return slice(start, start + self.widths[place])


def inherited(fitted: Scaling, source: Surrogate, name: str) -> Scaling:
    """The scaling of a run: for what the model it starts from has, that model's, since its weights mean nothing under
    another; for the rest the one fitted to the run's own cases."""
    theirs = source.scaling
    if (theirs.kind, theirs.dimensions) != (fitted.kind, fitted.dimensions):
        raise InputError(
            "the model to start from scales its fields in another way, or lives in another number of dimensions",
            seen=f"{name}: {theirs.kind} in {theirs.dimensions}D, the recipe: {fitted.kind} in {fitted.dimensions}D",
            remedy="leave data.scaling out of the recipe, or start from another model",
        )
    pairs = {
        "inputs": (_inputs(fitted), _inputs(theirs)),
        "fields": (_fields(fitted), _fields(theirs)),
        "coefficients": (_coefficients(fitted), _coefficients(theirs)),
    }
    for what, (ours, other) in pairs.items():
        _say(what, ours, other, name)
    return replace(
        fitted,
        input_scale=_joined(fitted.input_scale, theirs.input_scale, *pairs["inputs"]),
        field_scale=_joined(fitted.field_scale, theirs.field_scale, *pairs["fields"]),
        coefficient_scale=_joined(fitted.coefficient_scale, theirs.coefficient_scale, *pairs["coefficients"]),
    )


def _say(what: str, ours: Named, theirs: Named, name: str) -> None:
    if new := [each for each in ours.names if each not in theirs.names]:
        console.note(f"{what} that {name} does not have, and which are learned anew: {', '.join(new)}")
    if left := [each for each in theirs.names if each not in ours.names]:
        console.note(f"{what} of {name} that the recipe does not have: {', '.join(left)}")


def _inputs(scaling: Scaling) -> Named:
    return Named(scaling.input_names, input_widths(scaling))


def _fields(scaling: Scaling) -> Named:
    return Named(scaling.field_names, scaling.channels)


def _coefficients(scaling: Scaling) -> Named:
    return Named(scaling.coefficient_names, [1] * len(scaling.coefficient_names))


def _joined(own: MeanAndSize, other: MeanAndSize, ours: Named, theirs: Named) -> MeanAndSize:
    found = [list(values) for values in own]
    for name in ours.names:
        if name in theirs.names and _width(ours, name) == _width(theirs, name):
            for mine, values in zip(found, other, strict=True):
                mine[ours.columns(name)] = values[theirs.columns(name)]
    return tuple(found[0]), tuple(found[1])


def _width(named: Named, name: str) -> int:
    return named.widths[list(named.names).index(name)]


def take_weights(model: Model, scaling: Scaling, source: Surrogate, name: str) -> None:
    """Put the weights of a model of the same architecture into a new one, inputs and outputs matched by name."""
    ours, theirs = model.config.model_dump(), source.model.config.model_dump()
    if differing := [key for key in ours if ours[key] != theirs.get(key)]:
        raise InputError(
            "the model to start from has another architecture than the recipe",
            seen=", ".join(f"model.{key} = {ours[key]}, {name} has {theirs.get(key)}" for key in differing),
            remedy="leave [model] out of the recipe: it is taken over",
        )
    state, other = model.state_dict(), source.model.state_dict()
    if (scaling.input_names, scaling.field_names, scaling.coefficient_names) == (
        source.scaling.input_names,
        source.scaling.field_names,
        source.scaling.coefficient_names,
    ):
        model.load_state_dict(other)
        return
    matched = {
        "embed.hidden.weight": (1, _inputs(scaling), _inputs(source.scaling)),
        "head.weight": (0, _fields(scaling), _fields(source.scaling)),
        "head.bias": (0, _fields(scaling), _fields(source.scaling)),
        "coefficients.out.weight": (0, _coefficients(scaling), _coefficients(source.scaling)),
        "coefficients.out.bias": (0, _coefficients(scaling), _coefficients(source.scaling)),
    }
    for key, weight in state.items():
        if key in matched and key in other and weight.shape[matched[key][0]] == sum(matched[key][1].widths):
            _match(weight, other[key], *matched[key])
        elif key in other and other[key].shape == weight.shape:
            weight.copy_(other[key])
        elif key in other:
            remedy = "give the recipe the inputs and fields of the model to start from"
            raise InputError(f"inputs that differ cannot be matched in this kind of model ({key})", remedy=remedy)
    model.load_state_dict(state)


@torch.no_grad()
def _match(weight: Tensor, other: Tensor, axis: int, ours: Named, theirs: Named) -> None:
    """Copy what belongs to names that both have, along an axis; what is new keeps its start values."""
    for name in ours.names:
        if name in theirs.names and _width(ours, name) == _width(theirs, name):
            mine, from_them = ours.columns(name), theirs.columns(name)
            if axis == 0:
                weight[mine] = other[from_them]
            else:
                weight[:, mine] = other[:, from_them]
