"""Airfoil (Geo-FNO): transonic Euler flow on a 221 x 51 C-mesh, 1,000 + 200 of 2,490 samples.

`NACA_Cylinder_X.npy`, `NACA_Cylinder_Y.npy` (2490, 221, 51), `NACA_Cylinder_Q.npy` (2490, 5, 221, 51); the test samples
are 1000..1199. Cases: grid (221, 51), field `mach` (n, 1), the last channel of Q.
"""

from pathlib import Path

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options, arrays

VERSION = 1
FILES = ("NACA_Cylinder_X.npy", "NACA_Cylinder_Y.npy", "NACA_Cylinder_Q.npy")
CHANNELS, MACH = 5, 4  # of Q


def recognises(source: Path) -> bool:
    return arrays.there(source, *FILES)


def batches(source: Path, options: Options) -> list[Batch]:
    return arrays.curved_grids("airfoil", arrays.find(source, *FILES), CHANNELS)


def read(batch: Batch, name: str, options: Options) -> Case:
    return arrays.on_curved_grid(batch, name, "mach", MACH)


splits = arrays.splits_by_name
