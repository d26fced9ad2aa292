"""Plasticity (Geo-FNO): a block forged by a die, 900 + 80 of 987 samples on a 101 x 31 grid over 20 time steps.

`plas_N987_T20.mat`: `input` (987, 101), the die's height along the first grid axis; `output` (987, 101, 31, 20, 4).
Cases: grid (101, 31), points on the unit square in the data's own axis order; feature `die` (n, 1); field
`displacement` (n, 80) = 20 steps x 4 channels, the step changing slowest: step t is columns 4 t .. 4 t + 3.
"""

from pathlib import Path

import numpy as np

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options, arrays

VERSION = 1
FILES = ("plas_N987_T20.mat",)
STEPS, CHANNELS = 20, 4


def recognises(source: Path) -> bool:
    return arrays.there(source, *FILES)


def batches(source: Path, options: Options) -> list[Batch]:
    (path,) = files = arrays.find(source, *FILES)
    count, along = arrays.expect(path, "input", 2)
    arrays.expect(path, "output", 5, axis_0=count, axis_1=along, axis_3=STEPS, axis_4=CHANNELS)
    return arrays.batches_of("plasticity", files, arrays.published(count, 900, 80))


def read(batch: Batch, name: str, options: Options) -> Case:
    (path,) = batch.files
    die = arrays.sample(batch, name, path, "input")
    output = arrays.sample(batch, name, path, "output")
    grid = output.shape[:2]
    fields = {"displacement": output.reshape(grid[0] * grid[1], -1)}
    return arrays.structured(name, grid, arrays.unit_grid(*grid), fields, die=np.repeat(die, grid[1]))


splits = arrays.splits_by_name
