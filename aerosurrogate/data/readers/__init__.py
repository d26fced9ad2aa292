"""Sources of cases, one module each. A reader is a module with five things, and `prepare` knows no more of it:

VERSION: int
    raised when what it reads from the same files changes, so that they are read again
recognises(source) -> bool
    whether this file or folder is of its kind, from names alone
batches(source, options) -> list of Batch
    the cases found there, without reading them; those of one batch share a data file
read(batch, name, options) -> Case
    one case, in another process perhaps. Raises InputError, naming the file, where it cannot be used. What was
    mended on the way is said in the case's tag `repaired`.
splits(source, cases) -> {split: names}
    given the manifest entries of the cases that were read
"""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from aerosurrogate.data.case import Case
from aerosurrogate.data.splits import Splits
from aerosurrogate.data.store import Entries
from aerosurrogate.errors import InputError

FORMATS = (  # the first that recognises a source reads it
    "dataset",
    "airfrans",
    "shapenet-car",
    "drivaerml",
    "ahmedml",
    "windsorml",
    "drivaernet",
    "openfoam",
    "elasticity",
    "plasticity",
    "airfoil",
    "pipe",
    "navier-stokes",
    "darcy",
    "vtk",
)

KEEP = 200_000


@dataclass(frozen=True)
class Options:
    """What the user can ask of readers; each takes what concerns it."""

    units: str | None = None  # of coordinates in surface files; metres unless said
    crop: bool = True  # AirfRANS: only the box that the published training uses
    keep: int = KEEP  # most points on a skin, and around it, of 3D meshes; larger ones are thinned, forces kept
    every: int | None = None  # Darcy: every n-th point along each axis; 5 on the published 421 x 421 grid, else 1


@dataclass(frozen=True)
class Batch:
    """Cases that are read together; `files` are all that they depend on."""

    names: tuple[str, ...]
    files: tuple[Path, ...]
    start: int = 0  # where the first of them lies in files that hold many


class Reader(Protocol):
    VERSION: int

    def recognises(self, source: Path) -> bool: ...
    def batches(self, source: Path, options: Options) -> list[Batch]: ...
    def read(self, batch: Batch, name: str, options: Options) -> Case: ...
    def splits(self, source: Path, cases: Entries) -> Splits: ...


def reader_of(format: str) -> Reader:
    """The reader of a format, imported when asked for."""
    return cast(Reader, importlib.import_module(f"{__name__}.{format.replace('-', '_')}"))


def recognise(source: Path) -> str:
    """The format of a source by its names."""
    if not source.exists():
        raise InputError("no such file or folder", seen=source, remedy="give the path of a folder of simulations")
    for format in FORMATS:
        if reader_of(format).recognises(source):
            return format
    if source.is_dir() and not any(source.iterdir()):
        raise InputError("this folder is empty", seen=source, remedy="give one that holds simulations")
    raise InputError(
        "cannot tell what kind of data this is",
        seen=source,
        remedy=f"name it with --format ({', '.join(FORMATS[1:])}); of a folder with mesh files in folders, --explain "
        "prints the dataset.toml that says where they are",
    )
