"""A prepared data set, or the folder that `simulate` writes, as a source."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from aerosurrogate.data import splits as rules
from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options
from aerosurrogate.data.splits import Splits
from aerosurrogate.data.store import SCHEMA, Dataset

VERSION = 1


def recognises(source: Path) -> bool:
    manifest = source / "manifest.json"
    return manifest.is_file() and f'"schema": {SCHEMA}' in manifest.read_text(errors="replace")


def batches(source: Path, options: Options) -> list[Batch]:
    cases = Dataset(source).manifest.cases
    return [Batch((name,), (source / case["shard"],)) for name, case in sorted(cases.items())]


@lru_cache(maxsize=4)
def _open(folder: Path) -> Dataset:
    return Dataset(folder)


def read(batch: Batch, name: str, options: Options) -> Case:
    return _open(batch.files[0].parent).case(name)


def splits(source: Path, cases: Mapping[str, Mapping[str, Any]]) -> Splits:
    """Those of the data set; our own simulations are split by rule."""
    known = Dataset(source).manifest.splits
    kept = {split: [name for name in names if name in cases] for split, names in known.items()}
    return kept or rules.simulated(cases)
