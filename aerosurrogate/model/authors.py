"""Checkpoints of the authors' code: the same model under other names."""

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from aerosurrogate.errors import InputError
from aerosurrogate.model.architecture import DIMENSIONS, TransolverConfig
from aerosurrogate.model.interface import Interface
from aerosurrogate.model.transolver import Transolver

NAMES = {
    "preprocess.linear_pre.0": "embed.hidden",
    "preprocess.linear_post": "embed.out",
    "time_fc": "time",
    "ln_1": "attention.norm",
    "ln_2": "norm",
    "Attn": "attention",
    "in_project_x": "to_slices",
    "in_project_fx": "to_values",
    "in_project_slice": "logits",
    "to_q": "query",
    "to_k": "key",
    "to_v": "value",
    "to_out.0": "out",
    "mlp.linear_pre.0": "mlp.hidden",
    "mlp.linear_post": "mlp.out",
}


def _own_name(name: str) -> str:
    """Our name of a parameter of the authors' code."""
    for theirs, ours in NAMES.items():
        name = re.sub(rf"(^|\.){re.escape(theirs)}(?=\.)", rf"\1{ours}", name)
    return re.sub(r"^blocks\.\d+\.(ln_3|mlp2)\.", lambda m: {"ln_3": "norm.", "mlp2": "head."}[m[1]], name)


def from_authors(state_dict: Mapping[str, Tensor], **options: Any) -> Transolver:
    """The model of a checkpoint of the authors' code: pointwise, 2D or 3D.

    Sizes are read off the weights. What cannot be seen there are options, with the authors' defaults: `dimensions` (2
    for a pointwise model), `unified_pos` ("none") and its box, `activation`, `dropout`; temperatures are clamped in
    convolutional models only; the placeholder is added in all pointwise models, in convolutional ones where there are
    no input functions.
    """
    # The authors' AirfRANS model has an MLP in each block that it never uses.
    weights = {_own_name(name): value for name, value in state_dict.items() if ".mlp_new." not in name}
    if "blocks.0.attention.to_slices.weight" not in weights:
        raise InputError("not a checkpoint of the authors' Transolver", seen=", ".join(list(state_dict)[:5]))
    slicing = weights["blocks.0.attention.to_slices.weight"]  # [C, C], [C, C, 3, 3] or [C, C, 3, 3, 3]
    projection = {2: "pointwise", 4: "conv2d", 5: "conv3d"}[slicing.ndim]
    layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("blocks."))
    dimensions = options.pop("dimensions", DIMENSIONS[projection][0])
    settings: dict[str, Any] = {
        "layers": layers,
        "channels": len(slicing),
        "heads": weights["blocks.0.attention.temperature"].numel(),
        "slices": tuple(len(weights[f"blocks.{k}.attention.logits.weight"]) for k in range(layers)),
        "mlp_ratio": len(weights["blocks.0.mlp.hidden.weight"]) // len(slicing),
        "projection": projection,
        "temperature_bounds": "none" if projection == "pointwise" else (0.1, 5.0),
        **options,
    }
    inputs = weights["embed.hidden.weight"].shape[1] - TransolverConfig(**settings).distances(dimensions)
    settings.setdefault("placeholder", projection == "pointwise" or inputs == dimensions)
    interface = Interface(inputs, len(weights["head.weight"]), dimensions, time_input="time.0.weight" in weights)
    model = Transolver(interface, TransolverConfig(**settings))
    if model.placeholder is None:
        weights.pop("placeholder", None)
    model.load_state_dict({k: v.flatten() if k.endswith("temperature") else v for k, v in weights.items()})
    return model
