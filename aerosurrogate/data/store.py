"""The data set store: a folder with `manifest.json` and safetensors shards, each holding one or more cases.

Arrays are plain and memory-mapped: reading some rows of a case touches only those rows' pages. Each array is
guarded by a CRC-32 for every block of rows, checked when the block is read, so that a damaged or truncated file is
reported by name and never used. Rows of unstructured cases are shuffled once when written (`shuffled`), skin first: any
run of rows of either part is then a random subset. Rows of zeros at either end of an array (areas and shear off the
skin, distance on it) are not stored but put back when read. Compact shards take two bytes a number: `_steps`, `_half`.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NoReturn, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Case
from aerosurrogate.data.statistics import Moments, add_up, moments
from aerosurrogate.errors import InputError
from aerosurrogate.mesh import potential
from aerosurrogate.mesh.potential import PotentialFlow
from aerosurrogate.writing import replacing, write_json

SCHEMA = 1
BLOCK = 8192  # rows guarded by one check sum
_DTYPES = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "BOOL": np.bool_, "I32": np.int32, "U16": np.uint16}
Scale = tuple[Any, Any]  # the least value of each column and the size of a step: what `_steps` took apart


class Entry(TypedDict):
    """What a manifest, and the header of a shard, say of a case."""

    shard: str  # its file in the data set's folder
    points: int
    surface: int  # of the points, those on the skin
    dimensions: int
    conditions: dict[str, Any] | None  # of `Conditions`
    reference: dict[str, float]  # cd, cl, area, ... as far as they are known
    grid: Sequence[int] | None  # sides of a structured mesh
    symmetry: Literal["y"] | None
    tags: dict[str, str]
    check: int  # sum over all arrays
    digest: NotRequired[str]  # of what it was made from
    tried: NotRequired[Sequence[str]]  # of a generated set: the cases that were attempted with it


Entries = dict[str, Entry]  # by the case's name


def stream_of(entry: Entry) -> Conditions:
    """The stream of a case that stands in one."""
    assert entry["conditions"] is not None
    return Conditions(**entry["conditions"])


@dataclass
class Manifest:
    """What a data set holds, readable by people and programs."""

    source: str = ""  # where it came from: a path, a specification, a published set
    format: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    cases: Entries = field(default_factory=dict)
    splits: dict[str, list[str]] = field(default_factory=dict)
    fields: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> unit, where, components, statistics
    left_out: dict[str, str] = field(default_factory=dict)  # name -> why
    schema: int = SCHEMA


def shuffled(case: Case, seed: int) -> Case:
    """The case with its skin first and each part in random order; structured cases keep their order."""
    if case.grid is not None:
        return case
    order = np.random.default_rng(seed).permutation(len(case.points))
    order = np.concatenate([order[case.surface[order]], order[~case.surface[order]]])
    result = case.take(order)
    if case.cells is None:
        return result
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return Case(**{**result.__dict__, "cells": place[case.cells]})


def write_shard(
    path: Path, cases: Iterable[Case], *, half: bool = False, extra: dict[str, dict[str, Any]] | None = None
) -> Entries:
    """Write cases into one shard and return their manifest entries; `half` stores numbers in two bytes instead of four.

    `extra` adds to the entries of cases by name: where a case came from, what was repaired in it.
    """
    tensors: dict[str, NDArray] = {}
    rows: dict[str, tuple[int, int]] = {}
    checks: dict[str, list[int]] = {}
    scales: dict[str, Scale] = {}
    entries: Entries = {}
    sums: Moments = {}
    for case in cases:
        own = []
        for key, array in case.arrays().items():
            name = f"{case.name}/{key}"
            array = array.astype(np.float32) if array.dtype.kind == "f" else array
            first, stop = _nonzero(array)
            rows[name], array = (first, len(array)), array[first:stop]
            if half and key in ("points", "areas") and len(array):
                array, scales[name] = _steps(array)
            elif half and array.dtype.kind == "f":
                array = _half(array)
            tensors[name] = np.ascontiguousarray(array)
            checks[name] = [zlib.crc32(block) for block in _blocks(tensors[name])]
            own.append(checks[name])
        sums = add_up([sums, moments(case)])
        entries[case.name] = {**_entry(case, path.name, _joint_check(own)), **(extra or {}).get(case.name, {})}  # type: ignore[typeddict-item]
    metadata = {"schema": str(SCHEMA), "cases": json.dumps(entries)}
    metadata |= {"rows": json.dumps(rows), "checks": json.dumps(checks), "moments": json.dumps(sums)}
    metadata |= {"scales": json.dumps(scales)} if scales else {}
    metadata["guard"] = _guard(metadata, {name: (array.dtype.name, array.shape) for name, array in tensors.items()})
    with replacing(path) as temporary:
        temporary.write_bytes(save(tensors, metadata))  # save_file would hide the file from other users
    return entries


def _half(array: NDArray) -> NDArray:
    """To float16 where its range allows; values beyond it stay in float32."""
    return array.astype(np.float16) if np.abs(array).max(initial=0) < 6e4 else array


def _steps(array: NDArray) -> tuple[NDArray[np.uint16], Scale]:
    """Each column in 65,535 even steps from its least to its greatest value, and that value and the step's size.

    For positions and areas, where float16 would be fine near zero and coarse far from it: a step is a quarter of a
    millimetre in the surroundings of a car and a ten-thousandth of a chord in those of an airfoil.
    """
    values = array.astype(float)
    low = values.min(axis=0)
    step = np.maximum((values.max(axis=0) - low) / 65_535, 1e-30)
    return np.round((values - low) / step).astype(np.uint16), (low.tolist(), step.tolist())


def _nonzero(array: NDArray) -> tuple[int, int]:
    """The run of rows outside which all are zero."""
    rows = np.flatnonzero(array.reshape(len(array), -1).any(axis=1))
    return (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)


def _blocks(array: NDArray) -> Iterable[bytes]:
    for start in range(0, len(array), BLOCK):
        yield array[start : start + BLOCK].tobytes()


def _joint_check(checks: list[list[int]]) -> int:
    """One check sum for all arrays of a case, so that a manifest knows its data."""
    return zlib.crc32(json.dumps(checks).encode())


def _guard(metadata: dict[str, str], layout: dict[str, tuple[str, tuple[int, ...]]]) -> str:
    """A check sum of what a shard's header says about its arrays, themselves guarded block by block."""
    told = [metadata[key] for key in ("cases", "rows", "checks", "moments", "scales") if key in metadata]
    return str(zlib.crc32(json.dumps([*told, sorted(layout.items())]).encode()))


def _entry(case: Case, shard: str, check: int) -> Entry:
    return {
        "shard": shard,
        "points": len(case.points),
        "surface": int(case.surface.sum()),
        "dimensions": case.dimensions,
        "conditions": asdict(case.conditions) if case.conditions else None,
        "reference": case.reference,
        "grid": case.grid,
        "symmetry": case.symmetry,
        "tags": case.tags,
        "check": check,
    }


def write_manifest(folder: Path, manifest: Manifest) -> None:
    write_json(folder / "manifest.json", asdict(manifest))


class StoredArray:
    """One array of a shard: rows on demand, each block checked when it is first read."""

    def __init__(
        self, name: str, path: Path, array: NDArray, checks: list[int], first: int, length: int, scale: Scale | None
    ) -> None:
        self.name, self.path, self.array, self._checks, self._scale = name, path, array, checks, scale
        self.first = first  # the row that the stored rows begin with; those before and after them are zero
        self.length = length
        self._verified = np.zeros(len(checks), bool)

    def __len__(self) -> int:
        return self.length

    def rows(self, start: int, stop: int) -> NDArray:
        """Rows start..stop as float32 (or the integer or bool type stored)."""
        low, high = np.clip([start - self.first, stop - self.first], 0, len(self.array))
        for block in range(low // BLOCK, -(-high // BLOCK)):
            self._verify(block)
        result = self._zeros(min(stop, self.length) - start)
        result[low + self.first - start :][: high - low] = self._values(self.array[low:high])
        return result

    def pick(self, rows: NDArray[np.integer]) -> NDArray:
        """Any rows, in the order given."""
        stored = np.asarray(rows) - self.first
        held = (stored >= 0) & (stored < len(self.array))
        if not self._verified.all():
            for block in np.unique(stored[held] // BLOCK):
                self._verify(int(block))
        if held.all():
            return np.asarray(self._values(self.array[stored]), self._zeros(0).dtype)
        result = self._zeros(len(stored))
        result[held] = self._values(self.array[stored[held]])
        return result

    def _verify(self, block: int) -> None:
        if self._verified[block]:
            return
        data = self.array[block * BLOCK : (block + 1) * BLOCK].tobytes()
        if zlib.crc32(data) != self._checks[block]:
            _damaged(self.path, f"array {self.name}, rows from {self.first + block * BLOCK}")
        self._verified[block] = True

    def _values(self, stored: NDArray) -> NDArray:
        if self._scale is None:
            return stored
        low, step = self._scale
        return np.asarray(low) + stored * np.asarray(step)

    def _zeros(self, count: int) -> NDArray:
        dtype = np.float32 if self._scale or self.array.dtype.kind == "f" else self.array.dtype
        return np.zeros((count, *self.array.shape[1:]), dtype)


def _damaged(path: Path, what: str) -> NoReturn:
    raise InputError(f"damaged data file {path.name} ({what})", seen=path, remedy="run prepare again for this data set")


def read_shard(path: Path) -> tuple[dict[str, StoredArray], Entries]:
    """Open a shard: its arrays by `case/array`, unread, and the manifest entries of its cases."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            if 8 + length > size:
                _damaged(path, "cut off in its header")
            header = json.loads(file.read(length))
        data = np.memmap(path, np.uint8, "r")[8 + length :]
        metadata = header.pop("__metadata__")
        layout = {name: (np.dtype(_DTYPES[e["dtype"]]).name, tuple(e["shape"])) for name, e in header.items()}
        if metadata.get("guard", guard := _guard(metadata, layout)) != guard:
            _damaged(path, "its header was changed")
        checks, rows = json.loads(metadata["checks"]), json.loads(metadata["rows"])
        scales = json.loads(metadata.get("scales", "{}"))
        arrays = {}
        for name, entry in header.items():
            start, stop = entry["data_offsets"]
            if stop > len(data):
                _damaged(path, f"cut off in array {name}")
            view = data[start:stop].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
            first, length = rows[name]
            arrays[name] = StoredArray(name, path, view, checks[name], first, length, scales.get(name))
        return arrays, json.loads(metadata["cases"])
    except FileNotFoundError:
        raise InputError("data file is missing", seen=path, remedy="run prepare again for this data set") from None
    except (struct.error, ValueError, KeyError, TypeError, AttributeError):
        _damaged(path, "its header cannot be read")


class Dataset:
    """A prepared data set, opened for reading."""

    def __init__(self, folder: str | Path, manifest: Manifest | None = None) -> None:
        self.folder = Path(folder)
        self.manifest = manifest or self._read_manifest()
        self._shards: dict[str, dict[str, StoredArray]] = {}
        self._outlines: dict[str, PotentialFlow] = {}

    def _read_manifest(self) -> Manifest:
        path = self.folder / "manifest.json"
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            schema = document.get("schema")
            if schema == SCHEMA:
                return Manifest(**document)
        except FileNotFoundError:
            raise InputError(
                "no data set here (it has no manifest.json)",
                seen=self.folder,
                remedy="make one with `aerosurrogate prepare SOURCE --out DATASET`",
            ) from None
        except (ValueError, AttributeError, TypeError) as error:
            raise InputError(f"manifest cannot be read ({error})", seen=path, remedy="run prepare again") from None
        raise InputError(
            f"data set has schema {schema}, this version reads {SCHEMA}", seen=path, remedy="run prepare again"
        )

    def names(self, split: str | None = None) -> list[str]:
        """Cases of a split, or all."""
        if split is None:
            return list(self.manifest.cases)
        if split not in self.manifest.splits:
            raise InputError(
                f"data set {self.folder} has no split of that name",
                seen=split,
                remedy=f"choose one of {', '.join(self.manifest.splits) or 'none: run prepare again'}",
            )
        if not self.manifest.splits[split]:
            filled = [name for name, cases in self.manifest.splits.items() if cases]
            raise InputError(
                f"no case of data set {self.folder} is in that split",
                seen=split,
                remedy=f"choose one of {', '.join(filled) or 'none: it holds no case'}",
            )
        return self.manifest.splits[split]

    def checks(self, names: Iterable[str]) -> list[int]:
        """What tells these cases from all others, whatever they are called."""
        return [self.manifest.cases[name]["check"] for name in names]

    def array(self, case: str, key: str) -> StoredArray:
        """One array of a case, unread: `dataset.array("naca-00012", "fields/p").rows(0, 1024)`."""
        return self._arrays(case)[f"{case}/{key}"]

    def __getstate__(self) -> dict[str, Any]:
        """For other processes: they map the files themselves, instead of being sent their contents."""
        return {**self.__dict__, "_shards": {}}

    def _arrays(self, case: str) -> dict[str, StoredArray]:
        shard = self._meta(case)["shard"]
        if shard not in self._shards:
            arrays, entries = read_shard(self.folder / shard)
            known = {name: meta["check"] for name, meta in self.manifest.cases.items() if meta["shard"] == shard}
            if any(name not in entries or entries[name]["check"] != check for name, check in known.items()):
                _damaged(self.folder / shard, "not the one its manifest describes")
            self._shards[shard] = arrays
        return self._shards[shard]

    def _meta(self, case: str) -> Entry:
        if case not in self.manifest.cases:
            raise InputError(f"data set {self.folder} has no such case", seen=case, remedy="see its manifest.json")
        return self.manifest.cases[case]

    def case(self, name: str, rows: NDArray[np.integer] | None = None) -> Case:
        """A case as stored, or only some rows of it (read without reading the others)."""
        meta, prefix = self._meta(name), f"{name}/"
        stored = {k[len(prefix) :]: a for k, a in self._arrays(name).items() if k.startswith(prefix)}
        if rows is None:
            arrays = {k: a.rows(0, len(a)) for k, a in stored.items()}
        else:
            arrays = {k: a.pick(rows) for k, a in stored.items() if k != "cells"}
        groups: dict[str, dict[str, NDArray]] = {"fields": {}, "features": {}}
        for key in [k for k in arrays if "/" in k]:
            group, _, field_name = key.partition("/")
            groups[group][field_name] = arrays.pop(key)
        parts: dict[str, Any] = {**arrays, **groups}
        return Case(
            name=name,
            **parts,
            outline=None if rows is None else self._outline(name, stored),
            conditions=stream_of(meta) if meta["conditions"] else None,
            reference=meta["reference"],
            grid=tuple(meta["grid"]) if meta["grid"] and rows is None else None,
            symmetry=meta["symmetry"],
            tags=meta["tags"],
        )

    def _outline(self, name: str, stored: Mapping[str, StoredArray]) -> PotentialFlow | None:
        """The potential flow around a whole skin: solved once, however often some of its points are read."""
        meta, needed = self._meta(name), ("points", "normals", "areas")
        stream, half = meta["conditions"], meta["symmetry"] is not None
        if meta["dimensions"] == 1 or not meta["surface"] or not stream or not stored.keys() >= set(needed):
            return None
        if name not in self._outlines:
            skin = [stored[key].rows(0, meta["surface"]) for key in needed]
            self._outlines[name] = potential.of_skin(*skin, ground=stream["ground"], half=half)
        return self._outlines[name]

    def has_fields(self, name: str) -> bool:
        """Whether more is known of a case than its coefficients."""
        return any(key.startswith(f"{name}/fields/") for key in self._arrays(name))


def joined(first: Dataset, others: Sequence[Dataset]) -> Dataset:
    """Several data sets as one: the splits and fields of the first, and the cases of all.

    The tag `source` of a case says which it is from: 0 the first, 1 the next, and so on.
    """
    cases: Entries = {}
    for source, dataset in enumerate((first, *others)):
        for name, meta in dataset.manifest.cases.items():
            if name in cases:
                raise InputError(
                    "two data sets hold a case of the same name", seen=name, remedy="give their specs different names"
                )
            shard = str((dataset.folder / meta["shard"]).resolve())
            cases[name] = {**meta, "shard": shard, "tags": {**meta["tags"], "source": str(source)}}
    return Dataset(first.folder, replace(first.manifest, cases=cases))


def gathered(shards: Iterable[Path]) -> Entries:
    """The manifest entries of the cases in some shards, as the shards themselves tell them."""
    return {name: entry for shard in sorted(shards) for name, entry in read_shard(shard)[1].items()}


def read_moments(path: Path) -> Moments:
    """The sums over a shard's fields that were kept when it was written."""
    with path.open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return json.loads(header["__metadata__"]["moments"])
