"""Data made on the spot: sets that stand in for those of the paper, each by the equations of the one it stands for.

They are not the published sets: other random numbers, other solvers, sometimes other physics, as the head of each
module says. Case i of a seed is always the same case, whatever the count and the number of processes, and an
interrupted run goes on where it stopped. A generator is a module with

    ABOUT     one line for the data set's manifest: what was solved, and instead of what
    VERSION   raised when the same seed gives other cases than before
    case(name, rng, every) -> Case
"""

import hashlib
import importlib
import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from aerosurrogate import console
from aerosurrogate.data.case import Case
from aerosurrogate.data.prepare import Summary, field_table
from aerosurrogate.data.splits import Splits
from aerosurrogate.data.store import Dataset, Entries, Manifest, gathered, shuffled, write_manifest, write_shard
from aerosurrogate.errors import InputError
from aerosurrogate.parallel import over_processes
from aerosurrogate.writing import alone_in

KINDS = ("darcy", "navier-stokes", "elasticity", "pipe", "airfoil", "plasticity", "waterdrop")
TOGETHER = 10  # cases in a shard, which is what an interrupted run loses at most
HELD_OUT = 6  # every sixth case is for testing: 1,000 and 200 of 1,200, as in the paper


class Generator(Protocol):
    ABOUT: str
    VERSION: int

    def case(self, name: str, rng: np.random.Generator, every: int | None) -> Case: ...


def generator_of(kind: str) -> Generator:
    return cast(Generator, importlib.import_module(f"{__name__}.{kind.replace('-', '_')}"))


@dataclass(frozen=True)
class Task:
    """One shard to be solved and written: what a worker process is given."""

    kind: str
    numbers: tuple[int, ...]
    seed: int
    every: int | None
    shard: Path
    digest: str
    finer: Path | None = None


def generate(
    kind: str,
    out: Path,
    *,
    count: int,
    seed: int = 0,
    every: int | None = None,
    finer: Path | None = None,
    jobs: int | None = None,
) -> Summary:
    """Solve `count` cases of a kind into the data set folder `out`; what an earlier run solved there is kept.

    `every` keeps every n-th point of Darcy's grid along each axis, 5 of 421 unless said; `finer` is a set of the same
    kind and seed that keeps more points, whose cases need not be solved again.
    """
    if every is not None and kind != "darcy":
        raise InputError("--every thins the grid of darcy alone", seen=f"{kind} --every {every}", remedy="leave it out")
    source, origin = generator_of(kind), f"generated: {kind}, seed {seed}"
    digest = hashlib.sha256(json.dumps([kind, source.VERSION, seed, every]).encode()).hexdigest()[:16]
    with alone_in(out):
        _require_same(out, origin, digest)
        tasks, kept = _to_solve(kind, count, seed, every, out, digest)
        tasks = [replace(task, finer=finer) for task in tasks]
        with console.resumable("the same command goes on from here"):
            entries, failures = _run(tasks, jobs)
        made = len(entries)
        entries = dict(sorted((kept | entries).items()))
        if not entries:
            raise InputError("no case could be solved", seen="; ".join(failures.values()))
        manifest = Manifest(
            source=f"{origin}. {source.ABOUT}",
            format=kind,
            options={"seed": seed, "every": every},
            cases=entries,
            splits=splits(entries),
            fields=field_table(out, entries),
            left_out=failures,
        )
        write_manifest(out, manifest)
    if not manifest.splits["test"]:
        console.warn(f"no case is for testing, which every sixth is: --count {HELD_OUT} or more has some")
    return Summary(manifest, made, len(kept), failures)


def splits(cases: Collection[str]) -> Splits:
    """Decided by a case's own number, so that cases added later move no other."""
    tests = {name for name in cases if int(name.rsplit("-", 1)[1]) % HELD_OUT == HELD_OUT - 1}
    return {"train": [n for n in cases if n not in tests], "test": [n for n in cases if n in tests]}


def _require_same(out: Path, origin: str, digest: str) -> None:
    if (out / "manifest.json").exists():
        manifest = Dataset(out).manifest
        cases, seen = manifest.cases, manifest.source.rstrip(".")
    else:  # of a run that was killed, perhaps
        cases = gathered(out.glob("*.safetensors"))
        seen = console.few(cases)
    if any(entry.get("digest") != digest for entry in cases.values()):
        raise InputError(f"{out} already holds other data", seen=seen, remedy=f"choose another --out for {origin}")


def _to_solve(
    kind: str, count: int, seed: int, every: int | None, out: Path, digest: str
) -> tuple[list[Task], Entries]:
    """Shards to be solved, and the entries of those that are there, be they more than asked for."""
    there = {}
    for shard in sorted(out.glob(f"{kind}-*.safetensors")):
        entries = gathered([shard])
        if all(entry["digest"] == digest for entry in entries.values()):
            there[shard] = entries
    tasks = []
    for start in range(0, count, TOGETHER):
        numbers = range(start, min(start + TOGETHER, count))
        shard = out / f"{kind}-{start:05d}.safetensors"
        solved = {name for entry in there.get(shard, {}).values() for name in (*entry["tried"],)}
        if not {_name(kind, number) for number in numbers} <= solved:
            there.pop(shard, None)
            tasks.append(Task(kind, tuple(numbers), seed, every, shard, digest))
    kept = {name: entry for entries in there.values() for name, entry in entries.items()}
    if kept:
        console.note(f"{len(kept)} cases are there from an earlier run")
    return tasks, kept


def _name(kind: str, number: int) -> str:
    return f"{kind}-{number:05d}"


def _run(tasks: list[Task], jobs: int | None) -> tuple[Entries, dict[str, str]]:
    entries: Entries = {}
    failures: dict[str, str] = {}
    with console.progress("solving", sum(len(task.numbers) for task in tasks), unit="cases") as advance:
        for task, solved in over_processes(solve, tasks, jobs):
            if solved is None:
                raise RuntimeError(f"solving {task.shard.stem} and those after it ended the process")
            entries |= solved[0]
            failures |= solved[1]
            for name, why in solved[1].items():
                console.warn(f"{name} is left out: {why}")
            advance(len(task.numbers))
    return entries, failures


def solve(task: Task) -> tuple[Entries, dict[str, str]]:
    """Solve the cases of one shard and write it; runs in a worker process. Manifest entries, and why some have none."""
    source = generator_of(task.kind)
    cases, failures = [], {}
    names = [_name(task.kind, number) for number in task.numbers]
    for number, name in zip(task.numbers, names, strict=True):
        rng = np.random.default_rng([task.seed, number])
        try:
            if task.finer is not None:
                from aerosurrogate.generate.darcy import thinned

                case = thinned(Dataset(task.finer).case(name), task.every)
            else:
                case = source.case(name, rng, task.every)
            cases.append(shuffled(case, number))
        except InputError as error:
            failures[name] = str(error)
    extra = {case.name: {"digest": task.digest, "tried": names} for case in cases}
    return write_shard(task.shard, cases, extra=extra) if cases else {}, failures
