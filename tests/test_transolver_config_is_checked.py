"""Impossible architectures and calls are refused with the value and the rule; possible ones survive JSON."""

import dataclasses
import json

import pytest
import torch
from transolver_models import points, small_model

from aerosurrogate.errors import InputError
from aerosurrogate.transolver import Transolver, TransolverConfig

GOOD = {"inputs": 5, "outputs": 3, "dimensions": 2}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"channels": 100, "heads": 8}, "100.*multiple of heads = 8"),
        ({"inputs": 1}, "1.*2 positions"),
        ({"dimensions": 4}, "4.*2 or 3"),
        ({"slices": (8, 8)}, r"\(8, 8\).*each of 8 layers"),
        ({"slices": 0}, "0.*at least 1"),
        ({"layers": 0}, "0.*at least 1"),
        ({"activation": "gelo"}, "gelo.*gelu"),
        ({"projection": "conv3d"}, "2.*conv3d"),
        ({"dropout": 1.0}, "1.0.*below 1"),
        ({"temperature_bounds": (0.0, 5.0)}, r"\(0.0, 5.0\).*0 < low"),
        ({"unified_pos": "replace", "unified_box": ((0, 1),)}, "2 pairs"),
        ({"unified_box": ((0, 1), (0, 1))}, "none unless"),
    ],
)
def test_impossible_values(settings, said):
    with pytest.raises(InputError, match=said):
        TransolverConfig(**(GOOD | settings))


def test_json_and_back():
    config = TransolverConfig(
        **GOOD, layers=2, slices=(16, 8), unified_pos="accompany", unified_box=((-2.0, 4.0), (-1.5, 1.5))
    )
    assert TransolverConfig(**json.loads(json.dumps(dataclasses.asdict(config)))) == config


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
    weight = Transolver(TransolverConfig(**GOOD, channels=64, heads=4, slices=8)).blocks[0].attention.logits.weight
    torch.testing.assert_close(weight @ weight.T, torch.eye(8), atol=1e-5, rtol=0)
