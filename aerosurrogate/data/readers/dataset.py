"""A prepared data set, or the folder that `simulate` writes, as a source; also while it is being written."""

from functools import lru_cache
from pathlib import Path

from aerosurrogate.data import splits as rules
from aerosurrogate.data.case import Case
from aerosurrogate.data.readers import Batch, Options
from aerosurrogate.data.splits import Splits
from aerosurrogate.data.store import SCHEMA, Dataset, Entries, Manifest, gathered

VERSION = 1


def recognises(source: Path) -> bool:
    manifest = source / "manifest.json"
    if manifest.is_file():
        return f'"schema": {SCHEMA}' in manifest.read_text(errors="replace")
    return any(source.glob("*.safetensors"))


def opened(source: Path) -> Dataset:
    """The data set; where its manifest is not written yet, with what its shards say."""
    if (source / "manifest.json").is_file():
        return Dataset(source)
    return Dataset(source, Manifest(source=source.name, cases=gathered(source.glob("*.safetensors"))))


def batches(source: Path, options: Options) -> list[Batch]:
    cases = opened(source).manifest.cases
    return [Batch((name,), (source / case["shard"],)) for name, case in sorted(cases.items())]


@lru_cache(maxsize=4)
def _open(folder: Path) -> Dataset:
    return opened(folder)


def read(batch: Batch, name: str, options: Options) -> Case:
    return _open(batch.files[0].parent).case(name)


def splits(source: Path, cases: Entries) -> Splits:
    """Those of the data set; our own simulations are split by rule."""
    known = opened(source).manifest.splits
    kept = {split: [name for name in names if name in cases] for split, names in known.items()}
    return kept or rules.simulated(cases)
