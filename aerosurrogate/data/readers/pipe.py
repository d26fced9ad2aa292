"""Pipe (Geo-FNO): incompressible flow in bent pipes on a 129 x 129 mesh, 1,000 + 200 of the first 1,200 samples.

`Pipe_X.npy`, `Pipe_Y.npy` (2310, 129, 129), `Pipe_Q.npy` (2310, 3, 129, 129). Cases: grid (129, 129), field `velocity`
(n, 1): the horizontal one, the first channel of Q.
"""

from pathlib import Path

import numpy as np

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options, arrays
from aerosurrogate.data.splits import Splits
from aerosurrogate.data.store import Entries

VERSION = 1
FILES = ("Pipe_X.npy", "Pipe_Y.npy", "Pipe_Q.npy")


def recognises(source: Path) -> bool:
    return arrays.there(source, *FILES)


def batches(source: Path, options: Options) -> list[Batch]:
    x, y, q = files = arrays.find(source, *FILES)
    count, rows, columns = arrays.expect(x, "", 3)
    arrays.expect(y, "", 3, axis_0=count, axis_1=rows, axis_2=columns)
    arrays.expect(q, "", 4, axis_0=count, axis_1=3, axis_2=rows, axis_3=columns)
    return arrays.batches_of("pipe", files, arrays.published(count, 1000, 200, test_start=1000))


def read(batch: Batch, name: str, options: Options) -> Case:
    x, y, q = (arrays.sample(batch, name, path) for path in batch.files)
    return arrays.structured(name, x.shape, np.stack([x.ravel(), y.ravel()], axis=1), {"velocity": q[0]})


def splits(source: Path, cases: Entries) -> Splits:
    return arrays.splits_by_name(cases)
