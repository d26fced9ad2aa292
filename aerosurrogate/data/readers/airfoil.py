"""Airfoil (Geo-FNO): transonic Euler flow on a 221 x 51 C-mesh, 1,000 + 200 of 2,490 samples.

`NACA_Cylinder_X.npy`, `NACA_Cylinder_Y.npy` (2490, 221, 51), `NACA_Cylinder_Q.npy` (2490, 5, 221, 51); the test samples
are 1000..1199. Cases: grid (221, 51), field `mach` (n, 1), the last channel of Q.
"""

from pathlib import Path

import numpy as np

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options, arrays
from aerosurrogate.data.splits import Splits
from aerosurrogate.data.store import Entries

VERSION = 1
FILES = ("NACA_Cylinder_X.npy", "NACA_Cylinder_Y.npy", "NACA_Cylinder_Q.npy")
MACH = 4


def recognises(source: Path) -> bool:
    return arrays.there(source, *FILES)


def batches(source: Path, options: Options) -> list[Batch]:
    x, y, q = files = arrays.find(source, *FILES)
    count, rows, columns = arrays.expect(x, "", 3)
    arrays.expect(y, "", 3, axis_0=count, axis_1=rows, axis_2=columns)
    arrays.expect(q, "", 4, axis_0=count, axis_1=5, axis_2=rows, axis_3=columns)
    return arrays.batches_of("airfoil", files, arrays.published(count, 1000, 200, test_start=1000))


def read(batch: Batch, name: str, options: Options) -> Case:
    x, y, q = (arrays.sample(batch, name, path) for path in batch.files)
    return arrays.structured(name, x.shape, np.stack([x.ravel(), y.ravel()], axis=1), {"mach": q[MACH]})


def splits(source: Path, cases: Entries) -> Splits:
    return arrays.splits_by_name(cases)
