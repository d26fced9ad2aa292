"""Simulate many designs, whatever their family: seeded, in parallel, resumable.

The output folder is a data set: one shard a converged case, and a manifest. Beside them `runs/<case>/` keeps what
happened: `record.json` (state, reason, tries, seconds), `history.csv` (coefficients by iteration), and the solver's
logs of a case that failed. A case with a record is not solved again; remove its folder to try it anew.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from aerosurrogate import console
from aerosurrogate.conditions import Conditions, StreamOptions
from aerosurrogate.data import splits
from aerosurrogate.data.statistics import add_up, table
from aerosurrogate.data.store import Manifest, gathered, read_moments, shuffled, write_manifest, write_shard
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.airfoil import is_naca
from aerosurrogate.mesh.coordinates import SUFFIXES, named_in_folder
from aerosurrogate.parallel import one_thread, over_processes
from aerosurrogate.simulate import airfoils, cars, openfoam
from aerosurrogate.simulate.fields import solved_fields
from aerosurrogate.simulate.spec import Design, Fidelity, Range, Solution, Spec, draw_uniform, known_fidelity, read_spec
from aerosurrogate.writing import alone_in, replacing, write_json

FAMILIES: dict[str, ModuleType] = {"airfoil": airfoils, "car": cars, "ahmed": cars}
MANIFEST_SECONDS = 60.0  # how often the manifest is brought up to date during a run


@dataclass(frozen=True)
class Outcome:
    """What became of one design."""

    name: str
    digest: str  # of the design, fidelity and method: a folder never mixes two specs, nor two meshes of one
    state: str  # "converged" | "failed"
    reason: str  # why it failed
    tries: int
    seconds: float  # by the clock
    iterations: int
    reference: dict[str, float]
    design: dict[str, Any]
    cpu_seconds: float = 0.0  # of one core, solver and all


@dataclass(frozen=True)
class Task:
    design: Design
    fidelity: Fidelity
    out: Path
    digest: str
    keep: bool = False  # the OpenFOAM case, and the fields of a specification's cases too


def simulate(
    sources: list[str],
    out: Path,
    *,
    count: int | None = None,
    first: int = 0,
    jobs: int | None = None,
    fidelity: str | None = None,
    stream: StreamOptions | None = None,
    keep: bool = False,
) -> list[Outcome]:
    """Solve the cases of one spec, or shapes as they are, into the data set folder `out`.

    Of a spec, its cases from `first` to `count` - 1. Returns one outcome a design, in their order. Raises InputError
    without OpenFOAM, and where `out` holds cases of another spec.
    """
    openfoam.environment()
    designs, level, origin = _designs(sources, count, first, fidelity, stream or StreamOptions())
    tasks = [Task(d, level, out, digest(d, level), keep) for d in designs]
    flat = {d.family == "airfoil" for d in designs}
    flat |= {json.loads(p.read_text())["design"]["family"] == "airfoil" for p in out.glob("runs/*/record.json")}
    if len(flat) > 1:
        remedy = "solve sections and bodies into two folders: one data set holds one kind"
        raise InputError("sections and bodies in one folder", seen=f"--out {out}", remedy=remedy)
    with alone_in(out):
        return _go_on(tasks, out, jobs, origin, level)


def _go_on(tasks: list[Task], out: Path, jobs: int | None, origin: str, level: Fidelity) -> list[Outcome]:
    """Solve what has no record yet; the outcomes of all tasks, in their order."""
    done = {t.design.name: o for t in tasks if (o := recorded(out, t))}
    waiting = [t for t in tasks if t.design.name not in done]
    if done:
        console.note(f"{len(done)} of {len(tasks)} cases are there already")
    last = time.monotonic()
    going_on = console.resumable("the same command goes on with the cases that are left")
    with going_on, console.progress("simulating", len(tasks), len(done), unit="cases") as advance:
        for outcome in _solved(waiting, jobs):
            done[outcome.name] = outcome
            failed = sum(o.state == "failed" for o in done.values())
            advance(1, failed=failed, last=f"{outcome.name} {outcome.seconds:.0f} s")
            if time.monotonic() - last > MANIFEST_SECONDS:
                _write_manifest(out, origin, level)
                last = time.monotonic()
    _write_manifest(out, origin, level)
    return [done[task.design.name] for task in tasks]


def show(outcomes: list[Outcome]) -> None:
    """The table at the end: what converged, what failed and why."""

    def cells(o: Outcome) -> list[object]:
        values = [f"{o.reference[k]:.5g}" if k in o.reference else "-" for k in ("cd", "cl", "cm")]
        return [o.name, o.state, *values, o.iterations, f"{o.seconds:.0f} s", o.reason]

    rows = [cells(o) for o in outcomes if len(outcomes) <= 40 or o.state == "failed"]
    converged = sum(o.state == "converged" for o in outcomes)
    seconds = sum(o.seconds for o in outcomes)
    title = f"{converged} of {len(outcomes)} cases converged, {seconds / max(len(outcomes), 1):.0f} s each"
    console.table(title, ["case", "state", "cd", "cl", "cm", "iterations", "time", "reason"], rows, results=True)


# --- designs ---------------------------------------------------------------------------------------------------


def _designs(
    sources: list[str], count: int | None, first: int, fidelity: str | None, stream: StreamOptions
) -> tuple[list[Design], Fidelity, str]:
    """The designs, their fidelity, and in words where they come from."""
    if any(source.endswith(".toml") for source in sources):
        if len(sources) > 1:
            raise InputError("a spec stands alone", seen=" ".join(sources), remedy="give one spec, or shapes")
        spec = read_spec(Path(sources[0]))
        level = known_fidelity(fidelity or spec.fidelity)
        designs = list(designs_of(spec, count or spec.count))[first:]
        if not designs:
            remedy = f"--first below the {count or spec.count} that --count or the spec asks for"
            raise InputError("no case is left", seen=f"--first {first}", remedy=remedy)
        return designs, level, f"{sources[0]}, seed {spec.seed}"
    if count is not None or first:
        seen = f"--count {count}" if count is not None else f"--first {first}"
        raise InputError("that belongs to a spec", seen=seen, remedy="leave it out: every shape is solved once")
    designs = [own_design(source, stream) for source in sources]
    names = [design.name for design in designs]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InputError("shapes of the same name", seen=", ".join(sorted(twice)), remedy="rename the files")
    return designs, known_fidelity(fidelity or "standard"), ", ".join(sources)


def designs_of(spec: Spec, count: int) -> Iterator[Design]:
    """The first `count` designs of a spec; each depends on the seed and its own number alone."""
    if spec.file is not None:
        yield from _file_designs(spec, count)
        return
    family = FAMILIES[spec.family]
    usual: dict[str, Range] = dict(family.RANGES)
    if spec.family == "ahmed":
        usual["kind"] = ("ahmed",)
    ranges = usual | _known(spec, usual)
    for index in range(count):
        parameters, conditions = family.draw(ranges, spec.generator(index))
        name = spec.case_name(index)
        placements = spec.placements if splits.held_out(name) else 1
        yield Design(name, spec.family, parameters, conditions, placements=placements)


def _file_designs(spec: Spec, count: int) -> Iterator[Design]:
    """One shape of the user's in many streams."""
    assert spec.file is not None
    section = _is_section(spec.file)
    usual: dict[str, Range] = (
        {"reynolds": airfoils.RANGES["reynolds"], "alpha": airfoils.RANGES["alpha"]}
        if section
        else {"speed": cars.RANGES["speed"]}
    )
    ranges = usual | _known(spec, usual)
    for index in range(count):
        design = own_design(spec.file, StreamOptions(**draw_uniform(ranges, spec.generator(index))))
        yield Design(spec.case_name(index), design.family, design.parameters, design.conditions, design.file)


def _known(spec: Spec, usual: dict[str, Range]) -> dict[str, Range]:
    """The spec's own ranges, checked against those the family has."""
    for name, limits in spec.ranges.items():
        if name not in usual:
            raise InputError(f"the family {spec.family} has no such range", seen=name, remedy=", ".join(usual))
        if isinstance(limits[0], str) != isinstance(usual[name][0], str) or (
            isinstance(limits[0], str) and not set(limits) <= set(usual[name])
        ):
            raise InputError(f"ranges.{name} does not fit", seen=limits, remedy=f"within {usual[name]}")
    return spec.ranges


def _is_section(source: str) -> bool:
    return is_naca(source) or Path(source).suffix.lower() in SUFFIXES


def own_design(source: str, stream: StreamOptions) -> Design:
    """A shape of the user's, as it is, in the stream that was asked for."""
    source = str(named_in_folder(Path(source)) or source)
    name = source.replace(":", "_") if is_naca(source) else Path(source).stem
    if _is_section(source):
        conditions = stream.conditions(1.0, airfoils.air(4e6, 0.0))
        name = f"{name}_{conditions.speed:.4g}ms_{conditions.alpha:g}deg"
        return Design(name, "airfoil", {"kind": "section"}, conditions, source)
    from aerosurrogate.body import set_in_stream
    from aerosurrogate.mesh.read import read_surface

    surface = read_surface(source, stream.units)
    if surface.dimension == 2:
        raise InputError("a section is solved from its coordinates", seen=source, remedy="write it as a .dat file")
    body = set_in_stream(surface, stream, source)
    usual = Conditions(speed=30.0, length=body.length, ground=body.ground is not None)
    ground = "none" if body.ground is None else str(body.ground)
    frame = {"flow": stream.flow, "up": stream.up, "ground": ground, "units": stream.units or "m"}
    frame |= {} if stream.symmetry is None else {"symmetry": stream.symmetry}
    conditions = stream.conditions(body.length, usual)
    name = f"{name}_{conditions.speed:.4g}ms" + ("" if conditions.ground else "_free")
    return Design(name, "car", {"kind": "own", **frame}, conditions, source)


def digest(design: Design, fidelity: Fidelity) -> str:
    """Names the design, its fidelity and the way it is solved: two that differ in anything differ in this."""
    what = {key: value for key, value in asdict(design).items() if (key, value) != ("placements", 1)}
    text = json.dumps([what, fidelity, FAMILIES[design.family].METHOD], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# --- solving ---------------------------------------------------------------------------------------------------


def recorded(out: Path, task: Task) -> Outcome | None:
    """What an earlier run found out about this very design."""
    path = out / "runs" / task.design.name / "record.json"
    if not path.exists():
        return None
    outcome = Outcome(**json.loads(path.read_text()))
    if outcome.digest != task.digest:
        raise InputError(
            f"{out} holds another case called {outcome.name}",
            seen=f"{outcome.design['parameters']}",
            remedy="choose another --out for another spec, fidelity or version of the mesh",
        )
    lost = outcome.state == "converged" and not (out / f"{outcome.name}.safetensors").exists()
    return None if lost else outcome


def _solved(tasks: list[Task], jobs: int | None) -> Iterator[Outcome]:
    """Solve on `jobs` processes, outcomes as they come. Whatever ends this early ends the solvers too."""
    for task, outcome in over_processes(solve_task, tasks, jobs, _begin):
        if outcome is None:  # no record is left: the same command tries it again
            reason = "the process that solved it ended, as it does where the memory runs out"
            outcome = Outcome(task.design.name, task.digest, "failed", reason, 1, 0.0, 0, {}, asdict(task.design))
        yield outcome


def _begin() -> None:
    """One thread a process; and a process group of its own, which ends, solver and all, with the parent."""
    one_thread()
    os.setpgrp()
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=end_with_parent, daemon=True).start()


def solve_task(task: Task) -> Outcome:
    """Solve one design, twice if need be, write its shard and its record; runs in a worker process."""
    design, began, cpu_began = task.design, time.monotonic(), _cpu()
    run = task.out / "runs" / design.name
    solution, reason, tries = None, "", 0
    for cautious in (False, True):
        tries += 1
        folder = run / ("cautious" if cautious else "first")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            solution = FAMILIES[design.family].solve(design, folder, task.fidelity, cautious)
            reason = solution.reason
        except (openfoam.SolverError, InputError, ValueError) as error:
            solution, reason = None, str(error)
        if solution is not None:  # safer settings help where the solver fails, not where a wake will not settle
            break
    outcome = Outcome(
        name=design.name,
        digest=task.digest,
        state="converged" if solution is not None and solution.converged else "failed",
        reason=reason,
        tries=tries,
        seconds=round(time.monotonic() - began, 1),
        iterations=0 if solution is None else len(next(iter(solution.history.values()))),
        reference={} if solution is None else solution.case.reference,
        design=asdict(design),
        cpu_seconds=round(_cpu() - cpu_began, 1),
    )
    _keep(task, run, outcome, solution)
    return outcome


def _cpu() -> float:
    """Seconds that this process and the solvers it has waited for have computed."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _keep(task: Task, run: Path, outcome: Outcome, solution: Solution | None) -> None:
    """Shard, fields, history and record onto the disk, the record last; the OpenFOAM folders go unless kept."""
    if solution is not None:
        names = [n for n in ("Time", "Cd", "Cl", "CmPitch") if n in solution.history]
        columns = np.stack([solution.history[n] for n in names], axis=1)
        with replacing(run / "history.csv") as path:
            np.savetxt(path, columns, fmt="%.7g", delimiter=",", header=",".join(names), comments="")
    if solution is not None and outcome.state == "converged":
        solved_by = {"fidelity": task.fidelity, "method": str(FAMILIES[task.design.family].METHOD)}
        case = replace(solution.case, tags=solution.case.tags | solved_by)
        case = shuffled(case, zlib.crc32(outcome.name.encode()))
        if task.design.file is not None or task.keep:
            fields = solved_fields(task.design, solution.case, run / ("cautious" if outcome.tries > 1 else "first"))
            fields.save(task.out / f"{outcome.name}.vtu")
        write_shard(task.out / f"{outcome.name}.safetensors", [case])
    if task.keep:
        last = run / ("cautious" if outcome.tries > 1 else "first")
        shutil.rmtree(run / "case", ignore_errors=True)
        last.rename(run / "case")
    for folder in (run / "first", run / "cautious"):
        if outcome.state == "failed":
            for log in folder.rglob("log.*"):
                log.replace(run / f"{folder.name}.{log.parent.name}.{log.name}")
        shutil.rmtree(folder, ignore_errors=True)
    write_json(run / "record.json", asdict(outcome))


def _write_manifest(out: Path, origin: str, fidelity: Fidelity) -> None:
    """Bring manifest.json up to date with the shards and records in the folder."""
    shards = sorted(out.glob("*.safetensors"))
    entries = gathered(shards)
    records = (json.loads(path.read_text()) for path in sorted(out.glob("runs/*/record.json")))
    left_out = {record["name"]: record["reason"] for record in records if record["state"] == "failed"}
    manifest = Manifest(
        source=origin,
        format="simulated",
        options={"fidelity": fidelity},
        cases=entries,
        splits=splits.simulated(entries) if entries else {},
        fields=table(add_up(read_moments(shard) for shard in shards)),
        left_out=left_out,
    )
    write_manifest(out, manifest)
