"""Rank, solve what helps the decision most, learn, rank again: until the budget is spent or the best is sure.

The folder keeps all that was found: `study.json` (the path of decisions, written after every run), `solved/` (what the
solver left), and at the end `ranking.csv` and `report.html`. A study that was interrupted goes on where it stopped;
designs that failed are tried again.
"""

import csv
import html
import json
import math
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from aerosurrogate import console
from aerosurrogate.coeffs import CoeffsOptions, Ranking, coeffs, percent
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.decision.chances import SURE
from aerosurrogate.decision.known import Known
from aerosurrogate.errors import InputError
from aerosurrogate.writing import alone_in, write_json, write_text

Solver = Callable[[str, Path, StreamOptions], dict[str, float]]  # a shape, where to leave files, the stream -> cd, cl


@dataclass(frozen=True)
class Step:
    """One run of the solver and what it changed."""

    name: str
    file: str
    predicted: float  # drag coefficient before
    low: float
    high: float
    cd: float  # solved
    cl: float | None
    best: str  # the design that looks best afterwards
    chance_best: float  # that it is


@dataclass
class Study:
    """The ranking at the end, and how it came about."""

    ranking: Ranking
    first: tuple[str, float]  # the best before any run, and the chance that it is
    steps: list[Step] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # by file
    ended: str = ""  # why there are no more runs

    @property
    def best(self) -> tuple[str, float]:
        """The design that looks best, and the chance that it is."""
        told = [row for row in self.ranking.rows if row["chance_best"] is not None]
        return (told[0]["name"], told[0]["chance_best"] or 0.0) if told else (self.ranking.rows[0]["name"], 0.0)

    def document(self) -> dict[str, Any]:
        found = {"best": self.best[0], "chance_best": self.best[1], "steps": [asdict(step) for step in self.steps]}
        return found | {"ended": self.ended, "unsolved": self.failed, **self.ranking.document()}

    def show(self, *, table: bool = True) -> None:
        for line in self.path():
            console.note(line)
        self.ranking.show(table=table)

    def path(self) -> list[str]:
        """The decisions in words, one a run."""
        lines = [f"before any run: {self.first[0]} looks best ({percent(self.first[1])})"]
        for number, step in enumerate(self.steps, 1):
            lines.append(
                f"run {number}: {step.name} solved, Cd {step.cd:.4f} (predicted {step.predicted:.4f}, "
                f"{step.low:.4f} to {step.high:.4f}); now {step.best} looks best ({percent(step.chance_best)})"
            )
        lines += [f"{Path(file).stem} could not be solved: {why}" for file, why in self.failed.items()]
        return [*lines, f"ended: {self.ended}"] if self.ended else lines


def study(
    files: Sequence[str],
    out: Path,
    settings: CoeffsOptions,
    *,
    budget: int,
    solver: str | None = None,
    jobs: int | None = None,
) -> Study:
    """Solve at most `budget` designs, one after the other, with OpenFOAM or the command `solver`."""
    solve = openfoam_solver() if solver is None else command_solver(solver)
    with alone_in(out):
        kept = _kept(out, files, settings, solver)
        ranking = coeffs(files, settings, suggest=1, jobs=jobs)
        if len({design.body.dimension for design in ranking.designs.values()}) > 1:
            raise InputError("bodies and sections have no best among them", seen=console.few(files))
        if ranking.rows[0]["chance_best"] is None and not ranking.suggested:
            remedy = "a model that says how far it may be off is needed: see `aerosurrogate models`"
            raise InputError("no design has an interval: nothing can be decided", seen=settings.model, remedy=remedy)
        result = Study(ranking, Study(ranking, ("", 0.0)).best)
        known: dict[str, Known] = {}
        for done in kept:
            known[done.name] = _known(done)
            result.steps.append(done)
        if known:
            ranking.decide(settings, "cd", known, suggest=1)
            console.note(f"{len(known)} designs were solved before")
        going_on = console.resumable("the same command goes on with the runs that are left")
        with going_on, console.progress("solving", budget, len(result.steps), unit="runs") as advance:
            while len(result.steps) < budget and result.best[1] < SURE:
                if (step := _next(result, known, settings, solve, out)) is None:
                    result.ended = "no other run could change the choice"
                    break
                result.steps.append(step)
                write_json(out / "study.json", _document(result.steps, files, settings, solver))
                advance(1, best=step.best, sure=percent(step.chance_best))
        name, chance = result.best
        if chance >= SURE:
            result.ended = f"{name} is the best with a chance of {percent(chance)}"
        elif len(result.steps) >= budget:
            result.ended = f"the budget of {budget} runs is spent"
        _write(result, out)
    if result.failed and not result.steps:
        raise InputError("no run of the solver could be used", seen=console.few(result.failed.values()))
    return result


def _next(result: Study, known: dict[str, Known], settings: CoeffsOptions, solve: Solver, out: Path) -> Step | None:
    """Solve what helps most among those that have not failed; None when there is nothing left."""
    ranking = result.ranking
    while True:
        ranking.decide(settings, "cd", known, suggest=1 + len(result.failed))
        chosen = next((s for s in ranking.suggested if s.file not in result.failed), None)
        if chosen is None:
            return None
        row = next(row for row in ranking.rows if row["file"] == chosen.file)
        seen = ranking.designs[chosen.file].conditions
        stream = replace(settings.stream, speed=seen.speed, alpha=seen.alpha or None, reynolds=None)
        try:
            found = solve(chosen.file, out / "solved", stream)
        except InputError as error:
            result.failed[chosen.file] = str(error)
            console.warn(f"{chosen.name} left out: {error}")
            continue
        break
    known[row["name"]] = Known({k: v for k, v in found.items() if k != "area"}, found.get("area"))
    ranking.decide(settings, "cd", known, suggest=1)
    solved = next(r for r in ranking.rows if r["file"] == chosen.file)
    return Step(
        name=row["name"],
        file=chosen.file,
        predicted=row["cd"],
        low=row["cd_low"] or row["cd"],
        high=row["cd_high"] or row["cd"],
        cd=solved["cd"],
        cl=solved["cl"] if "cl" in found else None,
        best=result.best[0],
        chance_best=result.best[1],
    )


def _known(step: Step) -> Known:
    return Known({"cd": step.cd} | ({} if step.cl is None else {"cl": step.cl}))


# --- solvers ---------------------------------------------------------------------------------------------------


def openfoam_solver() -> Solver:
    """Real RANS by `simulate`."""
    from aerosurrogate.simulate import driver, openfoam

    openfoam.environment()

    def solve(file: str, out: Path, stream: StreamOptions) -> dict[str, float]:
        outcome = driver.simulate([file], out, jobs=1, stream=stream)[0]
        if outcome.state != "converged":
            raise InputError(f"the run failed ({outcome.reason})", seen=file)
        return {key: outcome.reference[key] for key in ("cd", "cl", "area") if key in outcome.reference}

    return solve


def command_solver(command: str) -> Solver:
    """Any command that takes a shape, `{geometry}`, and leaves `coeffs.csv` (cd, maybe cl) in the folder `{out}`.

    `{speed}` (m/s) and `{alpha}` (degrees) stand for the stream. A section given by name is written as a file first.
    """
    words = shlex.split(command)
    if not words or "{geometry}" not in command or "{out}" not in command:
        remedy = 'give --solver "command {geometry} {out}"'
        raise InputError("the solver's command must say where the shape and the folder go", seen=command, remedy=remedy)
    if shutil.which(words[0]) is None:
        raise InputError("the solver's command is not there", seen=words[0], remedy="give its whole path")

    def solve(file: str, out: Path, stream: StreamOptions) -> dict[str, float]:
        folder = out / Path(file).stem
        table = folder / "coeffs.csv"
        if not table.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            places = {"{geometry}": str(_as_file(file, folder).absolute()), "{out}": str(folder.absolute())}
            places |= {"{speed}": f"{stream.speed:.7g}", "{alpha}": f"{stream.alpha or 0:.7g}"}
            line = [_filled(word, places) for word in words]
            with (folder / "log").open("wb") as log:
                code = subprocess.run(line, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
            if code:
                raise InputError(f"the solver ended with code {code}", seen=file, remedy=f"see {folder / 'log'}")
        try:
            return _read_coefficients(table)
        except InputError:
            table.unlink(missing_ok=True)  # nothing to go on from
            raise

    return solve


def _as_file(shape: str, folder: Path) -> Path:
    """The file of a shape; that of a section known by its name alone goes into the folder."""
    from aerosurrogate.mesh.coordinates import write_section
    from aerosurrogate.mesh.read import read_surface

    if Path(shape).exists():
        return Path(shape)
    curve = read_surface(shape, None)
    if curve.path is not None and curve.path.exists():
        return curve.path
    path = folder / "section.dat"
    write_section(curve.points, path, shape)
    return path


def _filled(word: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        word = word.replace(name, place)
    return word


def _read_coefficients(table: Path) -> dict[str, float]:
    """The last line of a table with the columns cd and maybe cl."""
    remedy = "the solver must leave coeffs.csv: a line cd,cl and a line of numbers"
    try:
        rows = list(csv.DictReader(table.read_text(encoding="utf-8-sig").splitlines(), skipinitialspace=True))
        found = {key: float(rows[-1][key]) for key in ("cd", "cl") if rows[-1].get(key)}
    except (OSError, UnicodeDecodeError, ValueError, IndexError, TypeError) as error:
        raise InputError(f"the solver left no coefficients ({error})", seen=table, remedy=remedy) from None
    if not 0 < found.get("cd", math.nan) < 100 or not math.isfinite(found.get("cl", 0.0)):
        raise InputError("the solver left no drag coefficient that could be one", seen=found, remedy=remedy)
    return found


# --- the folder ------------------------------------------------------------------------------------------------


def _document(
    steps: Sequence[Step], files: Sequence[str], settings: CoeffsOptions, solver: str | None
) -> dict[str, Any]:
    """What a later call must find unchanged, and the steps so far."""
    said = {"files": list(files), "settings": asdict(settings), "solver": solver or "OpenFOAM"}
    return {"asked": json.loads(json.dumps(said)), "steps": [asdict(step) for step in steps]}


def _kept(out: Path, files: Sequence[str], settings: CoeffsOptions, solver: str | None) -> list[Step]:
    """The steps of an earlier call with the same words."""
    path = out / "study.json"
    if not path.exists():
        return []
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        steps = [Step(**step) for step in document["steps"]]
    except (ValueError, KeyError, TypeError):
        raise InputError("the folder's study.json is damaged", seen=path, remedy="choose another --out") from None
    if document["asked"] != _document([], files, settings, solver)["asked"]:
        raise InputError(
            "the folder holds another study",
            seen=" ".join(document["asked"]["files"]),
            remedy="choose another --out, or give the same shapes, conditions and solver",
        )
    return steps


def _write(result: Study, out: Path) -> None:
    from aerosurrogate.report.page import write_report

    write_text(out / "ranking.csv", result.ranking.csv_text())
    path = "".join(f"<li>{html.escape(line)}</li>" for line in result.path())
    write_report(result.ranking, out / "report.html", opening=f"<h2>Path of decisions</h2><ul>{path}</ul>")
