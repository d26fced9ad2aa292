"""What the six standard sets share: many samples in few array files, as .npy, .npz or .mat (v5, or v7.3 which is HDF5).

Cases are called <set>-<split>-<index in the file>.
"""

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.data.case import Array, Case
from aerosurrogate.data.readers import Batch
from aerosurrogate.data.splits import Splits
from aerosurrogate.data.store import Entries
from aerosurrogate.errors import InputError

TOGETHER = 50  # samples in a shard


def find(source: Path, *names: str) -> tuple[Path, ...]:
    """The files of these names in a folder, as .npy or .mat. InputError where one is missing."""
    folder = source if source.is_dir() else source.parent
    found = []
    for name in names:
        spellings = [folder / name, *(folder / (Path(name).stem + end) for end in (".npy", ".mat"))]
        path = next((path for path in spellings if path.is_file()), None)
        if path is None:
            raise InputError(f"the folder has no {name}", seen=folder, remedy="keep the published file names")
        found.append(path)
    return tuple(found)


def there(source: Path, *names: str) -> bool:
    try:
        return bool(find(source, *names))
    except InputError:
        return False


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Whatever goes wrong inside is the file's fault, and said so."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # the libraries raise whatever they stumble over
        reason = str(error).strip().splitlines()
        raise InputError(
            f"cannot read {path.name}",
            seen=f"{type(error).__name__}: {reason[0][:200] if reason else ''}",
            remedy=f"fetch {path} again",
        ) from error


def shape(path: Path, variable: str = "") -> tuple[int, ...]:
    """The shape of an array in a file as MATLAB or numpy would show it, without reading it."""
    with naming(path):
        if path.suffix == ".npy":
            return np.load(path, mmap_mode="r").shape
        if path.suffix == ".npz":
            return _whole(path, variable).shape
        if _is_hdf5(path):
            import h5py

            with h5py.File(path) as file:
                return tuple(reversed(file[variable].shape))
        from scipy.io import whosmat

        shapes = {name: size for name, size, _ in whosmat(path)}
        if variable not in shapes:
            raise InputError(f"{path.name} has no array {variable}", seen=", ".join(shapes), remedy="fetch it again")
        return shapes[variable]


def expect(path: Path, variable: str, dimensions: int, **sizes: int) -> tuple[int, ...]:
    """The shape, which must have so many axes; `axis_1=2` asks for a size of one."""
    seen = shape(path, variable)
    wrong = [axis for axis, size in sizes.items() if len(seen) == dimensions and seen[int(axis[5:])] != size]
    if len(seen) != dimensions or wrong or 0 in seen:
        raise InputError(
            f"{path.name}{f' ({variable})' if variable else ''} does not have the published shape or its companions'",
            seen=f"{seen} where {dimensions} axes, {sizes or 'none empty'}, were expected",
            remedy=f"fetch {path} again",
        )
    return seen


@lru_cache(maxsize=4)  # the samples of a batch are asked for one by one
def block(path: Path, variable: str, start: int, stop: int, axis: int = 0) -> NDArray[Any]:
    """Samples start..stop of an array, which lie along `axis`, moved to the front: (stop - start, ...)."""
    with naming(path):
        part = (slice(None),) * axis + (slice(start, stop),)
        if path.suffix == ".npy":
            values = np.load(path, mmap_mode="r")[part]
        elif path.suffix == ".mat" and _is_hdf5(path):
            import h5py

            with h5py.File(path) as file:  # MATLAB writes the axes in reverse
                stored = file[variable]
                values = stored[(slice(None),) * (stored.ndim - 1 - axis) + (slice(start, stop),)].T
        else:
            values = _whole(path, variable)[part]
        return np.moveaxis(np.array(values), axis, 0)


@lru_cache(maxsize=2)
def _whole(path: Path, variable: str) -> NDArray[Any]:
    if path.suffix == ".npz":
        with np.load(path) as file:
            return file[variable]
    from scipy.io import loadmat

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return loadmat(path, variable_names=[variable])[variable]


def _is_hdf5(path: Path) -> bool:
    import h5py

    return bool(h5py.is_hdf5(path))


def published(count: int, train: int, test: int, *, test_start: int | None = None) -> dict[str, range]:
    """The samples of each split: the first `train`, and the last `test` or those from `test_start`.

    Files with fewer samples than published keep the last fifth for testing.
    """
    if count < train + test:
        train = count - max(count // 5, 1)
        return {"train": range(train), "test": range(train, count)}
    start = count - test if test_start is None else test_start
    return {"train": range(train), "test": range(start, start + test)}


def batches_of(prefix: str, files: tuple[Path, ...], samples: Mapping[str, range]) -> list[Batch]:
    """Batches of consecutive samples, by split."""
    found = []
    for split, indices in samples.items():
        for start in range(indices.start, indices.stop, TOGETHER):
            part = range(start, min(start + TOGETHER, indices.stop))
            found.append(Batch(tuple(f"{prefix}-{split}-{i:04d}" for i in part), files, start))
    return found


def sample(batch: Batch, name: str, path: Path, variable: str = "", axis: int = 0) -> NDArray[Any]:
    """One sample of an array."""
    values = block(path, variable, batch.start, batch.start + len(batch.names), axis)
    index = batch.names.index(name)
    if index >= len(values):
        raise InputError(f"{path.name} has too few samples for its companions", seen=batch.start + len(values))
    return values[index]


def splits_by_name(source: Path, cases: Entries) -> Splits:
    return {split: [n for n in cases if n.split("-")[-2] == split] for split in ("train", "test")}


def curved_grids(prefix: str, files: tuple[Path, ...], channels: int) -> list[Batch]:
    """Batches of a Geo-FNO set on curved grids: X and Y (samples, rows, columns), Q (samples, channels, rows, columns).

    The test samples are 1000..1199.
    """
    x, y, q = files
    count, rows, columns = expect(x, "", 3)
    expect(y, "", 3, axis_0=count, axis_1=rows, axis_2=columns)
    expect(q, "", 4, axis_0=count, axis_1=channels, axis_2=rows, axis_3=columns)
    return batches_of(prefix, files, published(count, 1000, 200, test_start=1000))


def on_curved_grid(batch: Batch, name: str, field: str, channel: int) -> Case:
    """One case of such a set, with one channel of Q as its field."""
    x, y, q = (sample(batch, name, path) for path in batch.files)
    return structured(name, x.shape, np.stack([x.ravel(), y.ravel()], axis=1), {field: q[channel]})


def unit_grid(*sizes: int) -> Array:
    """Points (n, d) of a regular grid on the unit square or cube, row-major: the first axis is x."""
    axes = np.meshgrid(*(np.linspace(0, 1, size) for size in sizes), indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=1).astype(np.float32)


def structured(
    name: str,
    grid: tuple[int, ...] | None,
    points: NDArray[Any],
    fields: dict[str, NDArray[Any]],
    **features: NDArray[Any],
) -> Case:
    """A case without a body. Arrays may be (n,), (n, c) or have the grid's shape."""

    def column(values: NDArray[Any]) -> Array:
        with np.errstate(over="ignore"):  # what is beyond float32 becomes infinite, and a Case refuses that
            return np.ascontiguousarray(values, dtype=np.float32).reshape(len(points), -1)

    return Case(
        name=name,
        points=np.ascontiguousarray(points, dtype=np.float32),
        surface=np.zeros(len(points), bool),
        fields={key: column(values) for key, values in fields.items()},
        features={key: column(values) for key, values in features.items()},
        grid=grid,
    )
