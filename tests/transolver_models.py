"""Models and points that the tests of the core share."""

import sys
from pathlib import Path
from typing import Any

import torch

from aerosurrogate.model.architecture import TransolverConfig
from aerosurrogate.model.interface import Interface
from aerosurrogate.model.transolver import Transolver

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from textbook import Textbook, roughened

__all__ = ["Textbook", "points", "roughened", "small_model"]


def small_model(**settings: Any) -> Transolver:
    """A model of two layers with weights as uneven as after training, in eval mode."""
    size = {"layers": 2, "channels": 32, "heads": 4, "slices": 8} | settings
    data = {key: size.pop(key) for key in ("time_input", "coefficients") if key in size}
    torch.manual_seed(0)
    model = roughened(Transolver(Interface(inputs=5, outputs=3, dimensions=2, **data), TransolverConfig(**size)))
    return model.eval()


def points(count: int, batch: int = 1, seed: int = 0) -> torch.Tensor:
    return torch.randn(batch, count, 5, generator=torch.Generator().manual_seed(seed))
