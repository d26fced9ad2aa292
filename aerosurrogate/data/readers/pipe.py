"""Pipe (Geo-FNO): incompressible flow in bent pipes on a 129 x 129 mesh, 1,000 + 200 of the first 1,200 samples.

`Pipe_X.npy`, `Pipe_Y.npy` (2310, 129, 129), `Pipe_Q.npy` (2310, 3, 129, 129). Cases: grid (129, 129), field `velocity`
(n, 1): the horizontal one, the first channel of Q.
"""

from pathlib import Path

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options, arrays

VERSION = 1
FILES = ("Pipe_X.npy", "Pipe_Y.npy", "Pipe_Q.npy")
CHANNELS, ALONG = 3, 0  # of Q


def recognises(source: Path) -> bool:
    return arrays.there(source, *FILES)


def batches(source: Path, options: Options) -> list[Batch]:
    return arrays.curved_grids("pipe", arrays.find(source, *FILES), CHANNELS)


def read(batch: Batch, name: str, options: Options) -> Case:
    return arrays.on_curved_grid(batch, name, "velocity", ALONG)


splits = arrays.splits_by_name
