"""Read simulations once into a data set that trains fast.

Each batch of cases becomes one data file (shard), which carries a digest of its sources (names, sizes, dates) and of
the options: a run that was interrupted goes on where it stopped, and a source that has changed is read again. Cases
that cannot be used are named and left out, the others go on.
"""

import hashlib
import json
import re
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aerosurrogate import console
from aerosurrogate.data import splits as rules
from aerosurrogate.data.readers import Batch, Options, dataset, reader_of, recognise
from aerosurrogate.data.splits import Splits
from aerosurrogate.data.statistics import add_up, table
from aerosurrogate.data.store import (
    Dataset,
    Entries,
    Entry,
    Manifest,
    gathered,
    read_moments,
    read_shard,
    shuffled,
    write_manifest,
    write_shard,
)
from aerosurrogate.errors import InputError
from aerosurrogate.parallel import over_processes
from aerosurrogate.writing import alone_in

PACKED = {2: 50, 3: 20}  # cases in a compact shard by dimension: about 2 MB


@dataclass(frozen=True)
class Summary:
    """What a run of `prepare` did."""

    manifest: Manifest
    read: int  # cases read in this run
    kept: int  # cases found ready from an earlier one
    failures: dict[str, str]  # case -> why it was left out, in this run

    @property
    def found(self) -> int:
        return len(self.manifest.cases) + len(self.failures)

    def document(self, out: Path) -> dict[str, Any]:
        """For --json: counts, splits, fields with their statistics, what was repaired or left out."""
        cases = self.manifest.cases
        return {
            "dataset": str(out),
            "format": self.manifest.format,
            "cases": len(cases),
            "read": self.read,
            "kept": self.kept,
            "points": sum(case["points"] for case in cases.values()),
            "splits": {split: len(names) for split, names in self.manifest.splits.items()},
            "fields": self.manifest.fields,
            "repaired": {name: case["tags"]["repaired"] for name, case in cases.items() if "repaired" in case["tags"]},
            "left_out": self.failures,
        }


@dataclass(frozen=True)
class Place:
    """A source to be looked into."""

    source: Path
    format: str
    options: Options


@dataclass(frozen=True)
class Task:
    """One shard to be written: what a worker process is given."""

    format: str
    batch: Batch
    options: Options
    shard: Path
    digests: dict[str, str]
    whole_skin: frozenset[str] | None = None  # compact: the cases that keep every face


@dataclass(frozen=True)
class Written:
    """What a worker gives back: manifest entries of the cases written, and why the others were not."""

    entries: Entries
    failures: dict[str, str]


def prepare(
    sources: list[Path],
    out: Path,
    options: Options | None = None,
    *,
    format: str = "auto",
    jobs: int | None = None,
    compact: bool = False,
) -> Summary:
    """Read `sources` into the data set folder `out`.

    `compact` packs a data set of simulations into small shards, thinned for training, which are never rewritten:
    a later run adds shards for the cases that are new. Raises InputError where nothing at all could be read; single
    cases that could not are listed in the summary's failures.
    """
    options = options or Options()
    if any(source.resolve() == out.resolve() for source in sources):
        raise InputError("the data set would overwrite its source", seen=out, remedy="choose another --out")
    formats, found, unread = _find(sources, format, options, jobs)
    sources = list(formats)
    with alone_in(out):
        before = None if compact else _before(out, sources, formats)
        if compact:
            tasks, kept = _to_pack(formats, options, out)
        else:
            tasks, kept = _to_read(found, formats, options, out)
        with console.resumable("the same command goes on from here"):
            entries, failures = _run(tasks, jobs)
        entries, failures = dict(sorted((kept | entries).items())), unread | failures
        if not entries:
            what = "; ".join(f"{name}: {why}" for name, why in list(failures.items())[:5])
            raise InputError("no case could be read", seen=what)
        manifest = Manifest(
            source=_origin(sources, formats),
            format=", ".join(dict.fromkeys(formats.values())),
            options=_said(options) | ({"compact": True} if compact else {}),
            cases=entries,
            splits=rules.simulated(entries) if compact else _splits(found, formats, entries),
            fields=field_table(out, entries),
            left_out=_left_out(sources, formats) | failures,
        )
        write_manifest(out, manifest)
        _sweep(out, before, manifest)
    return Summary(manifest, len(entries) - len(kept), len(kept), failures)


def _find(
    sources: list[Path], format: str, options: Options, jobs: int | None
) -> tuple[dict[Path, str], list[tuple[Path, Batch]], dict[str, str]]:
    """The sources' formats, the cases found in them, and why a source could not be used; a single one must be."""
    places = {source: Place(source, format, options) for source in sources}
    answers = {place.source: answer for place, answer in over_processes(look, list(places.values()), jobs)}
    formats: dict[Path, str] = {}
    found: list[tuple[Path, Batch]] = []
    unread: dict[str, str] = {}
    for source in places:
        answer = answers[source] or InputError("looking into it ended the process (damaged file?)", seen=source)
        if isinstance(answer, tuple):
            formats[source] = answer[0]
            found += [(source, batch) for batch in answer[1]]
        elif len(places) == 1:
            raise answer
        else:
            console.warn(f"{source} is left out: {answer}")
            unread[str(source)] = str(answer)
    _check_names(found, formats)
    return formats, found, unread


def look(place: Place) -> tuple[str, list[Batch]] | InputError:
    """The format of a source and its cases; in a worker process, for a damaged file may end it."""
    try:
        kind = recognise(place.source) if place.format == "auto" else place.format
        return kind, reader_of(kind).batches(place.source, place.options)
    except InputError as error:
        return error


def _before(out: Path, sources: list[Path], formats: dict[Path, str]) -> Manifest | None:
    """The data set that is there already, which must come from the same sources."""
    if not (out / "manifest.json").exists():
        return None
    manifest = Dataset(out).manifest
    if manifest.source != (origin := _origin(sources, formats)):
        raise InputError(
            f"{out} already holds a data set from another source",
            seen=manifest.source,
            remedy=f"choose another --out for {origin}, or name all sources in one command and a new --out",
        )
    return manifest


def _origin(sources: list[Path], formats: dict[Path, str]) -> str:
    """Where the data came from, in words: a data set knows its own origin."""
    known = [dataset.opened(s).manifest.source if formats[s] == "dataset" else "" for s in sources]
    return ", ".join(origin or str(source) for origin, source in zip(known, sources, strict=True))


def _left_out(sources: list[Path], formats: dict[Path, str]) -> dict[str, str]:
    """What the sources that are data sets left out themselves."""
    prepared = [dataset.opened(source).manifest for source in sources if formats[source] == "dataset"]
    return {name: why for manifest in prepared for name, why in manifest.left_out.items()}


def _said(options: Options) -> dict[str, Any]:
    return {name: value for name, value in asdict(options).items() if value is not None}


def _check_names(found: list[tuple[Path, Batch]], formats: dict[Path, str]) -> None:
    seen: dict[str, Path] = {}
    for source, batch in found:
        for name in batch.names:
            if name in seen:
                raise InputError(
                    f"two cases have the name {name}",
                    seen=f"{seen[name]} and {source}",
                    remedy="rename one of them or prepare the sources into two data sets",
                )
            seen[name] = source
    if not seen:
        seen_as = ", ".join(f"{source} as {kind}" for source, kind in formats.items())
        raise InputError(
            "there are no cases in it", seen=seen_as, remedy="look with --explain, or give another --format"
        )


def _digest(format: str, batch: Batch, options: Options) -> str:
    """Changes when a source file (name, size, date), an option or the reader changes."""
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in batch.files if file.exists()]
    facts = [format, reader_of(format).VERSION, asdict(options), stats, batch.names, batch.start]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _to_read(
    found: list[tuple[Path, Batch]], formats: dict[Path, str], options: Options, out: Path
) -> tuple[list[Task], Entries]:
    """Shards to be written, and the entries of those that are ready and whose sources have not changed."""
    tasks: list[Task] = []
    kept: Entries = {}
    changed = 0
    for source, batch in found:
        shard = out / _file_name(batch.names[0])
        digest = _digest(formats[source], batch, options)
        entries = _ready(shard)
        if set(entries) == set(batch.names) and all(e.get("digest") == digest for e in entries.values()):
            kept |= entries
        else:
            changed += len(entries)
            tasks.append(Task(formats[source], batch, options, shard, dict.fromkeys(batch.names, digest)))
    if kept:
        console.note(f"{len(kept)} cases are ready from an earlier run")
    if changed:
        console.note(f"{changed} cases have changed at their source, or by options, and are read again")
    return tasks, kept


def _file_name(case: str) -> str:
    """A file name for the shard that begins with a case; odd letters are replaced, and then it stays one of a kind."""
    plain = re.sub(r"[^\w.+-]", "_", case)
    return f"{plain if plain == case else f'{plain}-{zlib.crc32(case.encode()):08x}'}.safetensors"


def _ready(shard: Path) -> Entries:
    if not shard.exists():
        return {}
    try:
        return read_shard(shard)[1]
    except InputError as error:
        console.warn(f"{error}; it is made anew")
        return {}


def _to_pack(formats: dict[Path, str], options: Options, out: Path) -> tuple[list[Task], Entries]:
    """New compact shards for the cases that are in none yet, and the entries of those that are."""
    packed = list(out.glob("part-[0-9][0-9][0-9][0-9].safetensors"))
    kept = gathered(packed)
    number = max((int(path.stem.removeprefix("part-")) for path in packed), default=-1) + 1
    tasks = []
    for source, format in formats.items():
        if format != "dataset":
            raise InputError("only a prepared data set can be packed", seen=source, remedy="prepare it first")
        cases = dataset.opened(source).manifest.cases
        stale = [name for name in cases if name in kept and kept[name]["digest"] != _content(cases[name])]
        if stale:
            console.warn(
                f"{len(stale)} packed cases differ from {source} by now; they stay as they are ({stale[0]}, ...)"
            )
        tests = frozenset(rules.four_to_one(cases)["test"])
        new = [name for name in sorted(cases) if name not in kept]
        size = PACKED[max((case["dimensions"] for case in cases.values()), default=3)]
        for start in range(0, len(new), size):
            names = tuple(new[start : start + size])
            files = tuple(source / cases[name]["shard"] for name in names)
            digests = {name: _content(cases[name]) for name in names}
            shard = out / f"part-{number:04d}.safetensors"
            tasks.append(Task(format, Batch(names, files), options, shard, digests, whole_skin=tests))
            number += 1
    return tasks, kept


def _content(entry: Entry) -> str:
    return f"{entry['check']:08x}"


def _run(tasks: list[Task], jobs: int | None) -> tuple[Entries, dict[str, str]]:
    """Write all shards in parallel processes."""
    entries: Entries = {}
    failures: dict[str, str] = {}
    total = sum(len(task.batch.names) for task in tasks)
    with console.progress("reading", total, unit="cases") as advance:
        for task, written in over_processes(convert, tasks, jobs):
            if written is None:
                why = f"reading it ended the process (damaged file?): {task.batch.files[0]}"
                written = Written({}, dict.fromkeys(task.batch.names, why))
            entries |= written.entries
            failures |= written.failures
            for name, why in written.failures.items():
                console.warn(f"{name} is left out: {why}")
            advance(len(task.batch.names))
    return entries, failures


def convert(task: Task) -> Written:
    """Read the cases of one batch and write their shard; runs in a worker process."""
    reader = reader_of(task.format)
    cases, failures = [], {}
    for name in task.batch.names:
        seed = zlib.crc32(name.encode())
        try:
            case = reader.read(task.batch, name, task.options)
            if task.whole_skin is not None:
                from aerosurrogate.data.thinning import thin

                case = thin(case, whole_skin=name in task.whole_skin, seed=seed)
            cases.append(shuffled(case, seed))
        except InputError as error:
            failures[name] = str(error)
        except Exception as error:  # whatever a hostile file brings about must not end the others
            failures[name] = f"{type(error).__name__} ({error}) in {task.batch.files[0]}"
    extra = {name: {"digest": digest} for name, digest in task.digests.items()}
    entries = write_shard(task.shard, cases, half=task.whole_skin is not None, extra=extra) if cases else {}
    return Written(entries, failures)


def _splits(found: list[tuple[Path, Batch]], formats: dict[Path, str], entries: Entries) -> Splits:
    """The splits of each source's cases, joined."""
    result: Splits = {}
    for source, format in formats.items():
        own = [name for place, batch in found if place == source for name in batch.names if name in entries]
        for split, names in reader_of(format).splits(source, {name: entries[name] for name in own}).items():
            result.setdefault(split, []).extend(names)
    return result


def field_table(out: Path, entries: Entries) -> dict[str, dict[str, Any]]:
    """Units and statistics of the fields of all cases, from the sums kept in their shards."""
    return table(add_up(read_moments(out / shard) for shard in sorted({entry["shard"] for entry in entries.values()})))


def _sweep(out: Path, before: Manifest | None, manifest: Manifest) -> None:
    """Remove the data files of cases that their source no longer has."""
    used = {entry["shard"] for entry in manifest.cases.values()}
    gone = {entry["shard"] for entry in (before.cases if before else {}).values()} - used
    for shard in gone:
        (out / shard).unlink(missing_ok=True)
    if gone:
        console.note(f"{len(gone)} data files of cases that are gone from the source were removed")


def show(summary: Summary, out: Path, *, results: bool = True) -> None:
    """The table at the end: cases, points, ranges, what was repaired or left out and why."""
    manifest, document = summary.manifest, summary.document(out)
    skin = sum(case["surface"] for case in manifest.cases.values())
    rows: list[tuple[str, str]] = [
        ("cases", f"{len(manifest.cases)} ({summary.read} new, {summary.kept} from an earlier run)"),
        ("points", f"{document['points']:,}, {skin:,} of them on the skin"),
        *((f"split {split}", str(len(names))) for split, names in manifest.splits.items()),
        *_ranges(manifest),
        *((f"repaired: {name}", what) for name, what in document["repaired"].items()),
        *((f"left out: {name}", why) for name, why in summary.failures.items()),
    ]
    console.table("", (str(out), manifest.format), rows, results=results)


def _ranges(manifest: Manifest) -> Iterable[tuple[str, str]]:
    for name, field in manifest.fields.items():
        for channel in range(min(field["components"], 4)):
            label = name if field["components"] == 1 else f"{name}[{channel}]"
            low, high, mean = (field[key][channel] for key in ("min", "max", "mean"))
            yield f"{label}, {field['unit']}", f"{low:.4g} to {high:.4g}, mean {mean:.4g}"
