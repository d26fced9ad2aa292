"""Forces, coefficients and a ranking, one row a design.

Formulas and signs are in forces.py, what a file's pressure means in pressure_files.py. `cd` and `cl` are the best
estimate: a model's head, the integral over the skin, or halfway between, as its card says; `cd_integrated` and
`cl_integrated` always stand beside them. Files without a model behind them are integrated.
"""

import csv
import io
import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from aerosurrogate import console, flow_fields
from aerosurrogate.body import given_area
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.decision.decide import Suggestion, decide, stranger
from aerosurrogate.decision.known import Known, matched, read_known
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import FlowFields, Row, column, interval
from aerosurrogate.mesh import coordinates
from aerosurrogate.mesh.files import shape_files
from aerosurrogate.mesh.load import load
from aerosurrogate.parallel import each_by_processes, get_ready, in_batches, refuse_all, threads_each, workers
from aerosurrogate.predict import Predictor
from aerosurrogate.predict_many import predict_many
from aerosurrogate.pressure_files import holds_pressure, read_solved
from aerosurrogate.trust.agreement import Comparison, compare, in_words, read_truth

GEOMETRY = (".stl", *coordinates.SUFFIXES)  # formats that hold no fields
COLUMNS = (
    "rank", "name", "cd", "cd_low", "cd_high", "cl", "cl_low", "cl_high", "rank_low", "rank_high", "chance_best",
    "chance_better", "cd_counts", "cd_counts_low", "cd_counts_high", "cd_percent", "cd_percent_low", "cd_percent_high",
    "known", "state", "cm", "cs", "ld", "cda_m2", "cl_front", "cl_rear", "drag_n", "lift_n", "side_n",
    "cd_integrated", "cl_integrated", "cd_pressure", "cd_friction", "area_m2", "length_m", "speed", "alpha", "reynolds",
    "trust", "file",
)  # fmt: skip

SHOWN = ("rank", "name", "cd", "cl", "trust")  # what a table on a terminal always shows
FOLDED = 3  # notes
FOLDER = 24  # bodies from which on processes of their own gain more than it takes to start them
LOADED = ("aerosurrogate.cli", "aerosurrogate.coeffs", "aerosurrogate.surrogate", "pyvista")  # before they start
Reference = dict[str, float | str | None]  # what the numbers of a ranking refer to, as its JSON document has it
STRANGERS = "outside what the model has seen: to be solved, not compared"


@dataclass(frozen=True)
class CoeffsOptions:
    """What holds for all designs of a call."""

    stream: StreamOptions = field(default_factory=StreamOptions)
    area: str = "silhouette"
    patch: str | None = None
    pressure: str | None = None
    model: str | None = None
    device: str = "auto"
    at_lift: float | None = None  # sections: the angle of attack is the one that gives this lift coefficient


@dataclass
class Ranking:
    """Designs best first, those that failed with the reason, and how the order compares with the truth."""

    rows: list[Row]
    designs: dict[str, FlowFields]  # by file
    failed: dict[str, str]  # by file
    reference: Reference
    truth: dict[str, dict[str, float]] = field(default_factory=dict)  # by name
    comparison: Comparison | None = None
    baseline: str | None = None  # its file
    suggested: list[Suggestion] = field(default_factory=list)
    sort: str = "cd"  # the column they are ranked by
    stream: StreamOptions = field(default_factory=StreamOptions)  # as the user said it

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {"designs": self.rows, "reference": self.reference, "failed": self.failed}
        if self.comparison is not None:
            found |= self.comparison
        if self.baseline is not None:
            found["baseline"] = self.designs[self.baseline].body.name
        if self.suggested:
            found["suggested"] = [{**asdict(s), "command": self.simulation(s)} for s in self.suggested]
        return found

    def advice(self) -> str:
        """What to solve next, and by which rule, in one line."""
        if all(s.gain < 5e-5 for s in self.suggested):  # less than a twentieth of a count
            return f"solve next: {', '.join(s.name for s in self.suggested)}; no run is expected to change the choice"
        unit, scale = ("counts", 1000) if self.suggested[0].of == "cd" else ("of Cl", 1)
        names = ", ".join(f"{s.name} ({scale * s.gain:.2g} {unit})" for s in self.suggested)
        return f"solve next: {names}: by so much the choice after that run is expected to be better than the one now"

    def simulation(self, *suggested: Suggestion) -> str:
        """The command that solves designs in this ranking's stream; several, where theirs differ."""
        usual, axes = StreamOptions(), ("density", "viscosity", "flow", "up", "ground", "units", "symmetry")
        said = [(name, getattr(self.stream, name)) for name in axes]
        options = "".join(f" --{name} {value}" for name, value in said if value != getattr(usual, name))
        states: dict[str, list[str]] = {}
        for s in suggested:
            seen = self.designs[s.file].conditions
            state = f" --speed {seen.speed:.7g}" + (f" --alpha {seen.alpha:.7g}" if seen.alpha else "")
            states.setdefault(state, []).append(shlex.quote(s.file))
        commands = (f"aerosurrogate simulate {' '.join(files)}{state}{options}" for state, files in states.items())
        return " && ".join(f"{command} --out solved" for command in commands)

    def decide(self, settings: CoeffsOptions, sort: str, known: dict[str, Known], suggest: int = 0) -> None:
        """Fill in the rows, in their order, with all that can be said of them."""
        rows = [design.row(settings.area) for design in self.designs.values()]
        values = matched(known, rows) if known else {}
        self.sort, self.rows, self.suggested, self.stream = sort.lstrip("-"), [], [], settings.stream
        for kind in self.kinds(rows).values():  # bodies and sections have nothing to be ranked by together
            base = self.baseline if self.baseline in {row["file"] for row in kind} else None
            ranked, asked = decide(kind, self.designs, sort=sort, known=values, baseline=base, suggest=suggest)
            self.rows += ranked
            self.suggested += asked
        self.suggested = sorted(self.suggested, key=lambda s: -s.gain)[:suggest]
        self.reference = reference_of(list(self.designs.values()), self.rows, settings)
        self.comparison = compare(self.rows, self.truth) if self.truth else None

    def kinds(self, rows: Sequence[Row]) -> dict[str, list[Row]]:
        """Rows of bodies and rows of sections, each in their order."""
        flat = {file: design.body.dimension == 2 for file, design in self.designs.items()}
        kinds = {"bodies": [r for r in rows if not flat[r["file"]]], "sections": [r for r in rows if flat[r["file"]]]}
        return {name: kind for name, kind in kinds.items() if kind}

    def csv_text(self) -> str:
        """The table as CSV."""
        lines = io.StringIO()
        writer = csv.DictWriter(lines, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return lines.getvalue()

    def show(self, *, table: bool = True, notes: bool = False) -> None:
        """The tables on stdout; assumptions, notes (all if asked for) and statistics around them on stderr."""
        console.note(assumptions(self.reference))
        show_notes(self.rows, None if notes else FOLDED)
        kinds = self.kinds(self.rows)
        for kind, rows in kinds.items() if table else ():
            title = kind if len(kinds) > 1 else ""
            near, far = ([r for r in rows if stranger(r) == apart] for apart in (False, True))
            if near:
                console.table(title, *self._table(near), results=True)
            if far:
                console.table(f"{title} {STRANGERS}".strip(), *self._table(far), results=True)
        if self.comparison:
            console.note(in_words(self.comparison))
        if self.suggested:
            console.note(self.advice())
            console.note(self.simulation(*self.suggested))
        console.left_out(self.failed)

    def _table(self, of: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
        """Columns and rows, few enough for a terminal; the rest is in CSV, workbook, JSON and report."""
        by_model = any(r["model"] for r in of)
        true = {r["name"]: self.truth[r["name"]]["cd"] for r in of if "cd" in self.truth.get(r["name"], {})}
        chances = any(r["chance_best"] is not None for r in of) and len(of) > 1
        flat = self.designs[of[0]["file"]].body.dimension == 2
        lines: list[dict[str, str]] = []
        for r in of:
            line = {"design": r["name"]} | ({} if stranger(r) else {"#": ranks(r)}) | {"Cd": interval(r, "cd")}
            if true:
                known = true.get(r["name"])
                line["Cd true"] = f"{known:.4f}" if known else "-"
                line["error"] = f"{r['cd'] / known - 1:+.1%}" if known else "-"
            if self.baseline:
                line |= {"counts": change(r), "better": percent(r["chance_better"])}
            if chances:
                line["best"] = percent(r["chance_best"])
            if not (true and self.baseline):
                line["Cl"] = interval(r, "cl")
            if not true and not self.baseline:
                silent = line["Cd"] == "-"  # a number that nothing is known of is none
                line |= {"Cd int.": f"{r['cd_integrated']:.4f}"} if by_model else {"Cm": f"{r['cm']:.4f}"}
                if flat:
                    line |= {"L/D": "-" if r["ld"] is None else f"{r['ld']:.1f}", "alpha": f"{r['alpha']:.4g}"}
                else:
                    line |= {"drag N": f"{r['drag_n']:.4g}", "area m2": f"{r['area_m2']:.3f}"}
                line |= {name: "-" for name in ("Cd int.", "drag N", "L/D") if silent and name in line}
            if self.sort not in SHOWN:
                line[self.sort] = _plain(column(r, self.sort))
            lines.append(line | {"trust": r["trust"] or "-"})
        return list(lines[0]), [list(line.values()) for line in lines]


def _plain(value: Any) -> str:
    return "-" if value is None else f"{value:.5g}" if isinstance(value, int | float) else str(value)


def ranks(row: Row) -> str:
    """The rank, or those that a design shares with others that it cannot be told apart from."""
    low, high = row["rank_low"], row["rank_high"]
    return str(row["rank"]) if low is None or low == high else f"{low}-{high}"


def percent(chance: float | None) -> str:
    return "-" if chance is None else f"{chance:.0%}"


def change(row: Row) -> str:
    """Counts of drag against the baseline, with the 90 % interval."""
    counts, low, high = row["cd_counts"], row["cd_counts_low"], row["cd_counts_high"]
    if counts is None or low is None or high is None:
        return "-"
    half = (high - low) / 2
    digits = 0 if half == 0 or max(abs(counts), half) > 3 else 1  # a section's drag is some counts altogether
    return f"{counts:+.{digits}f}" if low == high else f"{counts:+.{digits}f} ± {half:.{digits}f}"


def coeffs(
    files: Sequence[str],
    settings: CoeffsOptions,
    *,
    truth: Path | None = None,
    sort: str = "cd",
    baseline: str | None = None,
    known: Sequence[Path] = (),
    suggest: int = 0,
    jobs: int | None = None,
    processes: bool = False,
) -> Ranking:
    """Rank files by a column; those that hold no pressure are predicted first.

    `baseline` is a file that all are compared with, `known` where solved values are, `suggest` how many to solve next.
    `processes` allows large folders to be read by several, which import the program's main module.
    """
    table = truth is not None and not truth.is_dir() and truth.suffix.lower() not in (".foam", ".vtu", ".vtp", ".vtk")
    true = read_truth(truth) if truth is not None and table else {}
    simulated = {} if truth is None or table else read_known([truth], settings.stream)
    known_column(sort)
    solved = read_known(known, settings.stream)
    files = shape_files(files)
    if baseline is not None:
        same = Path(baseline).absolute()
        baseline = next((file for file in files if Path(file).absolute() == same), baseline)
        if same.suffix and not same.exists():  # said before a folder of designs has been predicted in vain
            remedy = "give one of the designs, or another shape's file"
            raise InputError("the baseline cannot be used, no such file", seen=baseline, remedy=remedy)
        files = list(dict.fromkeys([*files, baseline]))
    found, failed = read_designs(files, [settings.stream], settings, jobs, processes)
    designs = {file: fields for file, (fields,) in found.items()}
    if not designs:
        refuse_all(failed)
    if baseline is not None and baseline not in designs:
        raise InputError(f"the baseline cannot be used: {failed[baseline]}")
    for body in (design.body for design in designs.values()):
        if body.name in simulated:
            true[body.name] = simulated[body.name].over(body.reference_area(settings.area)[0])
    if simulated and not true:
        seen = f"designs {console.few(d.body.name for d in designs.values())}; solved {console.few(simulated)}"
        raise InputError("no design is among the solved ones", seen=seen, remedy="solve them: aerosurrogate simulate")
    result = Ranking([], designs, failed, {}, true, baseline=baseline)
    result.decide(settings, sort, solved, suggest)
    return result


def known_column(sort: str) -> str:
    """The column that `--sort` names, if there is such a one."""
    if sort.lstrip("-") not in COLUMNS:
        raise InputError("no such column to sort by", seen=sort, remedy=f"give --sort with one of {', '.join(COLUMNS)}")
    return sort.lstrip("-")


def read_designs(
    files: Sequence[str],
    states: Sequence[StreamOptions],
    settings: CoeffsOptions,
    jobs: int | None = None,
    processes: bool = False,
) -> tuple[dict[str, list[FlowFields]], dict[str, str]]:
    """The fields of each file in each state of the stream, and why some files have none."""
    given_area(settings.area)  # what is wrong for all of them is said before the first is read
    # Sections go through the model together, with one thread each: more would wait for one another most of the time.
    light = all(Path(file).suffix.lower() in ("", *coordinates.SUFFIXES) for file in files)
    at_once = workers(files, jobs)
    threads = 1 if light else threads_each(at_once)
    alone = int(os.environ.get("WORLD_SIZE", "1")) == 1  # torchrun has processes of its own
    processes = processes and alone and not light and len(files) >= FOLDER and at_once > 1
    if processes:
        get_ready(LOADED)  # takes as long as this process takes to load torch
    if settings.model is not None:
        from aerosurrogate.surrogate import find_model

        find_model(settings.model)
    if processes and _by_cores(settings.device):
        one = partial(_read_one, tuple(states), settings, at_once, threads)
        return each_by_processes(files, one, "designs", jobs, LOADED)
    work = partial(_read, Predictor(settings.model, settings.device, at_once, threads), states, settings)
    return in_batches(files, work, "designs", min(8, -(-len(files) // at_once)) if light else 1, jobs)


def _by_cores(device: str) -> bool:
    """Whether designs are predicted by this machine's cores."""
    from aerosurrogate.devices import choose_device, takes_cores

    return takes_cores(choose_device(device))


def _read(
    predictor: Predictor, states: Sequence[StreamOptions], settings: CoeffsOptions, files: Sequence[str]
) -> list[list[FlowFields] | InputError]:
    """For each file its fields in each state, or why there are none."""
    solved = {file: _solved_or_error(file, states, settings) for file in files}
    shapes = [file for file, fields in solved.items() if fields is None]
    if settings.at_lift is not None:
        predicted = {file: _at_lift(predictor, file, settings.stream, settings.at_lift) for file in shapes}
    else:
        predicted = dict(zip(shapes, predict_many(predictor, shapes, states), strict=True))
    return [known if (known := solved[file]) is not None else predicted[file] for file in files]


def _read_one(
    states: tuple[StreamOptions, ...], settings: CoeffsOptions, at_once: int, threads: int, file: str
) -> list[FlowFields] | InputError:
    """As `_read`, in one of `at_once` processes of so many threads each."""
    return _read(_own_predictor(settings.model, settings.device, at_once, threads), states, settings, [file])[0]


@lru_cache(maxsize=1)
def _own_predictor(model: str | None, device: str, at_once: int, threads: int) -> Predictor:
    """Of a process that predicts one design after the other."""
    return Predictor(model, device, at_once, threads)


def _at_lift(predictor: Predictor, file: str, stream: StreamOptions, lift: float) -> list[FlowFields] | InputError:
    try:
        return [predictor.at_lift(file, stream, lift)]
    except InputError as error:
        return error


def _solved_or_error(
    file: str, states: Sequence[StreamOptions], settings: CoeffsOptions
) -> list[FlowFields] | InputError | None:
    try:
        # Of a sweep's states none has to be the file's own: that it holds fields is enough to refuse it.
        found = _solved(file, settings if len(states) == 1 else replace(settings, stream=StreamOptions()))
    except InputError as error:
        return error
    if found is not None and len(states) > 1:
        remedy = "give the shape itself, which can be predicted in other states"
        return InputError(f"{file}: holds the fields of one state", seen=f"{len(states)} states", remedy=remedy)
    return None if found is None else [found]


def _solved(file: str, settings: CoeffsOptions) -> FlowFields | None:
    """The fields that a file holds; None where it is a shape only."""
    path, solved = Path(file), {"patch": settings.patch, "pressure": settings.pressure}
    if path.is_dir() or path.suffix.lower() == ".foam":
        return read_solved(file, None, settings.stream, **solved)
    if path.is_file() and path.suffix.lower() not in GEOMETRY:
        mesh = load(path)
        if flow_fields.is_fields_file(mesh):
            return _same_stream(flow_fields.from_mesh(mesh, file), settings.stream)
        if holds_pressure(mesh):
            return read_solved(file, mesh, settings.stream, **solved)
    return None


def _same_stream(design: FlowFields, stream: StreamOptions) -> FlowFields:
    """The design, if what the user says of the stream is what it was predicted at."""
    said = {"speed": stream.speed, "alpha": stream.alpha, "density": stream.density, "viscosity": stream.viscosity}
    held = {key: getattr(design.conditions, key) for key in said} | {"reynolds": design.conditions.reynolds}
    for key, value in (said | {"reynolds": stream.reynolds}).items():
        if value is not None and not math.isclose(value, held[key], rel_tol=1e-6, abs_tol=1e-9):
            raise InputError(
                f"{design.body.file} was predicted at another {key} ({held[key]:g})",
                seen=f"--{key} {value:g}",
                remedy=f"leave --{key} out, or predict again at this {key}",
            )
    return design


def reference_of(designs: Sequence[FlowFields], rows: Sequence[Row], settings: CoeffsOptions) -> Reference:
    """What all numbers refer to; null where designs differ (each row has its own)."""
    flat = {d.body.dimension == 2 for d in designs}
    two, three = flat == {True}, flat == {False}
    common = {
        key: column(rows[0], key) if all(column(r, key) == column(rows[0], key) for r in rows) else None
        for key in ("speed", "alpha", "density", "viscosity", "area", "model")
    }
    return common | {
        "flow": settings.stream.flow if three else "+x turned by alpha" if two else None,
        "up": settings.stream.up if three else "+y turned by alpha" if two else None,
        "ground": None if two else settings.stream.ground,
        "pressure": settings.pressure or "by provenance: static gauge unless a note says kinematic",
        "moment_about": "quarter chord" if two else "mid-length on the ground" if three else None,
        "moment_sign": "nose-up positive",
        "symmetry": settings.stream.symmetry,
    }


def assumptions(reference: Reference) -> str:
    known = {
        "speed": "{:g} m/s", "alpha": "{:g} degrees", "density": "{:g} kg/m3", "viscosity": "{:g} m2/s",
        "area": "{}", "flow": "{}", "up": "{}", "ground": "{}", "moment_about": "{}", "model": "{}",
    }  # fmt: skip
    said = {k: text.format(reference[k]) for k, text in known.items() if reference[k] is not None}
    if "flow" in said and "turned" not in said["flow"]:
        said.pop("alpha", None)
    return "assumed: " + ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in said.items())


def show_notes(rows: Sequence[Row], most: int | None) -> None:
    """Why trust was lost, then each note once, with the designs it holds for, those of most designs first."""
    holds: dict[str, list[str]] = {}
    for r in rows:
        for text in (*r["notes"], *(f"{r['trust']} the training set: {reason}" for reason in r["reasons"][:3])):
            holds.setdefault(text, []).append(r["name"])
    doubts = {reason for r in rows for reason in r["reasons"]}
    ordered = sorted(holds.items(), key=lambda item: (item[0].partition(": ")[2] not in doubts, -len(item[1])))
    for text, names in ordered[:most]:
        whose = list(dict.fromkeys(names))  # once, in however many states
        all_of_them = len(names) == len(rows) and len(whose) > 1
        who = "all designs" if all_of_them else ", ".join(whose[:4]) + (", ..." if whose[4:] else "")
        console.note(f"{who}: {text}")
    if most is not None and len(holds) > most:
        console.note(f"{len(holds) - most} more notes: --notes shows them, --json and the report hold them")
