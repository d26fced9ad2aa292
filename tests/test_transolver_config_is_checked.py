"""Impossible architectures and calls are refused with the value and the rule; possible ones survive JSON."""

import json

import pytest
import torch
from transolver_models import points, small_model

from aerosurrogate.errors import InputError
from aerosurrogate.model.architecture import TransolverConfig
from aerosurrogate.model.interface import Interface
from aerosurrogate.model.registry import build
from aerosurrogate.model.transolver import Transolver

GOOD = {"inputs": 5, "outputs": 3, "dimensions": 2}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"channels": 100, "heads": 8}, "channels .100. must be a multiple of heads .8."),
        ({"inputs": 1}, "inputs=1.*positions"),
        ({"dimensions": 4}, "dimensions=4.*2 or 3"),
        ({"slices": (8, 8)}, "2 numbers for 8 layers"),
        ({"slices": 0}, "slices.*0.*greater than 0"),
        ({"layers": 0}, "layers.*0.*greater than 0"),
        ({"activation": "gelo"}, "gelo.*gelu"),
        ({"projection": "conv3d"}, "2D.*conv3d"),
        ({"waves": 5}, "waves is for projection = conv2d"),
        ({"dropout": 1.0}, "dropout.*1.0.*less than 1"),
        ({"temperature_bounds": (0.0, 5.0)}, "temperature_bounds.*greater than 0"),
        ({"temperature_bounds": (5.0, 0.1)}, "low, high"),
        ({"unified_pos": "replace", "unified_box": ((0, 1),)}, "2D.*pair"),
        ({"unified_box": ((0, 1), (0, 1))}, "replace or accompany"),
        ({"slice": 8}, "unknown key slice.*slices"),
        ({"kind": "transolve"}, "transolve.*did you mean transolver"),
        ({"kind": "no_such_package:Model"}, "no_such_package"),
        ({"kind": "json:JSONDecoder"}, "derive it from"),
    ],
)
def test_impossible_values(settings, said):
    with pytest.raises(InputError, match=said):
        build(GOOD | settings)


def test_json_and_back():
    config = TransolverConfig(
        layers=2, slices=(16, 8), unified_pos="accompany", unified_box=((-2.0, 4.0), (-1.5, 1.5)), activation="silu"
    )
    model = Transolver(Interface(**GOOD, coefficients=2), config)
    again = build(json.loads(json.dumps(model.document())))
    assert (again.interface, again.config) == (model.interface, config)
    assert again.state_dict().keys() == model.state_dict().keys()


@pytest.mark.parametrize(
    ("settings", "call", "said"),
    [
        ({}, {"inputs": torch.zeros(1, 60, 4)}, r"\(1, 60, 4\).*points, 5"),
        ({}, {"grid": (6, 9)}, "6, 9.*60 points"),
        ({"projection": "conv2d"}, {}, "structured"),
        ({"unified_pos": "index"}, {"grid": (6, 10), "mask": torch.ones(1, 60, dtype=torch.bool)}, "no mask"),
        ({"time_input": True}, {}, "time"),
        ({}, {"time": torch.zeros(1)}, "time"),
    ],
)
def test_impossible_calls(settings, call, said):
    with pytest.raises(InputError, match=said):
        small_model(**settings)(**({"inputs": points(60)} | call))


def test_slice_projection_starts_orthogonal():
    config = TransolverConfig(channels=64, heads=4, slices=8)
    weight = Transolver(Interface(**GOOD), config).blocks[0].attention.logits.weight
    torch.testing.assert_close(weight @ weight.T, torch.eye(8), atol=1e-5, rtol=0)
