"""Darcy (FNO): flow through a porous square with two permeabilities.

`piececonst_r421_N1024_smooth1.mat` (1,000 to train on) and `..._smooth2.mat` (200 to test on), each with `coeff` and
`sol` (1024, 421, 421), of which the published figures use every 5th point along each axis (85 x 85). Also the .npz of
the neuraloperator package, with `train_x`, `train_y`, `test_x`, `test_y` (samples, n, n).
Cases: a grid on the unit square, feature `coefficient` (n, 1), field `solution` (n, 1).
"""

from pathlib import Path

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options, arrays
from aerosurrogate.errors import InputError

VERSION = 1
FILES = ("piececonst_r421_N1024_smooth1.mat", "piececonst_r421_N1024_smooth2.mat")
SPLITS = {"train": 1000, "test": 200}
PUBLISHED = 421
EVERY = 5


def recognises(source: Path) -> bool:
    return arrays.there(source, *FILES) or _package_file(source) is not None


def _package_file(source: Path) -> Path | None:
    files = [source] if source.suffix == ".npz" else sorted(source.glob("*darcy*.npz")) if source.is_dir() else []
    return files[0] if files and files[0].is_file() else None


def batches(source: Path, options: Options) -> list[Batch]:
    package = _package_file(source)
    files = (package, package) if package else arrays.find(source, *FILES)
    found = []
    for (split, most), path in zip(SPLITS.items(), files, strict=True):
        x, y = _variables(path, split)
        count, rows, columns = arrays.expect(path, x, 3)
        arrays.expect(path, y, 3, axis_0=count, axis_1=rows, axis_2=columns)
        found += arrays.batches_of("darcy", (path,), {split: range(min(count, most))})
    return found


def _variables(path: Path, split: str) -> tuple[str, str]:
    return (f"{split}_x", f"{split}_y") if path.suffix == ".npz" else ("coeff", "sol")


def read(batch: Batch, name: str, options: Options) -> Case:
    (path,) = batch.files
    x, y = (arrays.sample(batch, name, path, v) for v in _variables(path, name.split("-")[-2]))
    every = options.every or (EVERY if len(x) == PUBLISHED else 1)
    if every >= len(x):
        raise InputError(f"every {every}th point of {len(x)} leaves none", seen=every, remedy="give a smaller --every")
    x, y = x[::every, ::every], y[::every, ::every]
    return arrays.structured(name, x.shape, arrays.unit_grid(*x.shape), {"solution": y}, coefficient=x)


splits = arrays.splits_by_name
