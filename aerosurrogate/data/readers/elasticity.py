"""Elasticity (Geo-FNO): the stress in a unit cell with a hole, at 972 scattered points, 1,000 + 200 of 2,000 samples.

`Random_UnitCell_sigma_10.npy` (972, 2000) and `Random_UnitCell_XY_10.npy` (972, 2, 2000); samples lie along the last
axis. Cases: field `stress` (n, 1).
"""

from pathlib import Path

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options, arrays

VERSION = 1
FILES = ("Random_UnitCell_sigma_10.npy", "Random_UnitCell_XY_10.npy")


def recognises(source: Path) -> bool:
    return arrays.there(source, *FILES)


def batches(source: Path, options: Options) -> list[Batch]:
    stress, places = files = arrays.find(source, *FILES)
    count = arrays.expect(stress, "", 2)[1]
    arrays.expect(places, "", 3, axis_1=2, axis_2=count)
    return arrays.batches_of("elasticity", files, arrays.published(count, 1000, 200))


def read(batch: Batch, name: str, options: Options) -> Case:
    stress, places = batch.files
    points = arrays.sample(batch, name, places, axis=2)
    return arrays.structured(name, None, points, {"stress": arrays.sample(batch, name, stress, axis=1)})


splits = arrays.splits_by_name
