"""Do the intervals hold, do the chances come true, and what is gained by knowing a few designs?

    python benchmarks/calibration.py [SOLVED]   # some minutes of one core; SOLVED: a folder that `simulate` wrote

Everything is measured on cases that had no part in what is measured: held-out cases (validation and test) in folds,
each case judged by a calibration that the other folds gave. Writes calibration.md and .png into benchmarks/results.
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.special import ndtri
from scipy.stats import spearmanr

from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.data.store import Dataset
from aerosurrogate.decision.chances import Joint
from aerosurrogate.decision.known import read_known
from aerosurrogate.evaluate import evaluate
from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.cases import divide
from aerosurrogate.trust import intervals
from aerosurrogate.trust.intervals import DEVIATIONS
from aerosurrogate.viz import save_picture
from aerosurrogate.writing import write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FOLDS = 5  # of pairs: larger ones hold more of them
LEVELS = np.linspace(0.05, 0.95, 19)
DRAWS = 200


class Held:
    """The held-out cases of a shipped model."""

    def __init__(self, name: str) -> None:
        self.name, self.model = name, Surrogate.load(name, "cpu")
        assert self.model.trust is not None
        self.known = self.model.trust
        recipe = read_recipe(ROOT / self.model.card["recipe"])
        dataset = Dataset(recipe.data.path)
        train, validation = divide(dataset, recipe.data, recipe.training.seed)
        test = dataset.names(recipe.data.test)
        routes = self.model.card["routes"]
        self.training = evaluate(self.model, dataset, train, f"{name}: training").errors(routes)
        found = evaluate(self.model, dataset, validation, f"{name}: validation")
        found = found.with_cases(evaluate(self.model, dataset, test, f"{name}: test"))
        self.sample, self.count = found.errors(routes), len(validation)
        self.predicted = {key: np.array([row[f"{key}_{routes[key]}"] for row in found.rows]) for key in ("cd", "cl")}
        angles = np.array([abs(e.conditions.get("alpha", 0.0)) for e in self.sample.evidence])
        self.groups: dict[str, Any] = {"all": np.ones(len(angles), bool)}
        if (angles > intervals.STALL).any():
            self.groups |= {
                "up to 12 degrees": angles <= intervals.STALL,
                "beyond 12 degrees": angles > intervals.STALL,
            }


def coverage(held: Held) -> tuple[list[str], dict[str, Any]]:
    """Lines of a table, and the ratios of errors to half widths by coefficient."""
    ratios = intervals.cross_checked(held.known, held.sample, held.training)
    sizes = {key: np.abs(held.sample.errors[key]) / np.maximum(np.abs(ratios[key]), 1e-12) for key in ratios}
    alone = intervals.fit(held.known, held.sample.only(range(held.count)), held.training)
    assert alone is not None
    lines = []
    for key in ("cd", "cl"):
        error = np.abs(held.sample.errors[key])
        test = np.arange(len(error)) >= held.count
        half = np.array(
            [
                DEVIATIONS * getattr(intervals.uncertainty(alone, held.known, e), key).deviation
                for e in held.sample.evidence
            ]
        )
        for words, group in held.groups.items():
            here = np.abs(ratios[key][group]) <= 1
            width = sizes[key][group].mean() / np.quantile(error[group], 0.9)
            only = group & test
            before = (
                f"{np.mean(error[only] <= half[only]):.1%} | {half[only].mean() / np.quantile(error[only], 0.9):.2f}"
            )
            lines.append(
                f"| {held.name} {key} | {words} | {group.sum()} | {here.mean():.1%} | {width:.2f} | {before} |"
            )
    return lines, ratios


def pairs(held: Held, key: str = "cd") -> dict[str, tuple[Any, Any]]:
    """By kind of joint distribution: what was said of pairs of held-out cases, and whether it came true."""
    count = len(held.sample.evidence)
    order = np.random.default_rng(1).permutation(count)
    value = np.log(held.predicted["cd"]) if key == "cd" else held.predicted[key]
    true = value + np.array(held.sample.errors[key])
    said: dict[str, list[Any]] = {"independent": [], "common error": [], "common and near": []}
    came: list[Any] = []
    for fold in range(FOLDS):
        mine = order[fold::FOLDS]
        others = held.sample.only([i for i in range(count) if i not in mine])
        calibration = intervals.fit(held.known, others, held.training)
        assert calibration is not None
        found = [intervals.uncertainty(calibration, held.known, held.sample.evidence[i]) for i in mine]
        sizes = np.array([getattr(u, key).deviation for u in found])
        full = intervals.correlation(getattr(found[0], key), np.array([u.place for u in found]))
        common = np.full_like(full, getattr(found[0], key).common)
        np.fill_diagonal(common, 1.0)
        i, j = np.triu_indices(len(mine), 1)
        for words, together in (
            ("independent", np.eye(len(mine))),
            ("common error", common),
            ("common and near", full),
        ):
            said[words].append(Joint(key, value[mine], np.outer(sizes, sizes) * together).below()[i, j])
        came.append((true[mine][:, None] < true[mine][None])[i, j])
    return {words: (np.concatenate(values), np.concatenate(came)) for words, values in said.items()}


def stated(words: str, said: Any, came: Any) -> str:
    """One line: how sure, how often right, and of those said to be 75 to 85 % sure."""
    sure, right = np.maximum(said, 1 - said), (said > 0.5) == came
    about = (sure >= 0.75) & (sure < 0.85)
    loss = -np.mean(np.log(np.clip(np.where(came, said, 1 - said), 1e-6, 1)))
    eighty = f"{right[about].mean():.1%} of {about.sum()}" if about.any() else "none"
    return f"| {words} | {len(said)} | {right.mean():.1%} | {sure.mean():.1%} | {eighty} | {loss:.3f} |"


def samples() -> tuple[Any, dict[str, float]]:
    """The sample cars' ranking, and their true drag."""
    folder = ROOT / "sample_meshes"
    found = coeffs(sorted(map(str, folder.glob("*.stl"))), CoeffsOptions(StreamOptions(speed=30.0)))
    return found, {name: v.values["cd"] for name, v in read_known([folder / "truth.csv"]).items()}


def solved(folder: Path) -> tuple[Any, dict[str, float]]:
    """Bodies that `simulate` solved from files, all in one stream."""
    known = read_known([folder])
    designs = [json.loads(path.read_text())["design"] for path in sorted(folder.glob("runs/*/record.json"))]
    files = [design["file"] for design in designs if Path(design["file"] or "").stem in known]
    found = coeffs(files, CoeffsOptions(StreamOptions(speed=designs[0]["conditions"]["speed"])))
    return found, {row["name"]: known[row["name"]].over(row["area_m2"])["cd"] for row in found.rows}


def learned(before: Joint, true: Any, counts: tuple[int, ...], draw: Callable[[], Any]) -> list[str]:
    """Lines of a table: error, rank correlation and coverage of the designs left, before and after some are known."""
    lines = []
    rng = np.random.default_rng(0)
    for count in counts:
        figures = []
        for _ in range(DRAWS):
            mine = draw()
            if count >= len(mine) - 2:
                break
            part, truth = before.only(mine), true[mine]
            at = rng.choice(len(mine), count, replace=False)
            left = np.setdiff1d(np.arange(len(mine)), at)
            after = part.given({int(i): math.exp(truth[i]) for i in at})
            row = []
            for joint in (part, after):
                error = np.abs(np.expm1(joint.mean[left] - truth[left]))
                covered = np.abs(joint.mean[left] - truth[left]) <= DEVIATIONS * joint.deviations[left]
                rho = spearmanr(np.where(np.isin(np.arange(len(mine)), at), truth, joint.mean), truth).statistic
                row += [error.mean(), rho, covered.mean(), DEVIATIONS * joint.deviations[left].mean()]
            row[1] = spearmanr(part.mean, truth).statistic
            figures.append(row)
        if figures:
            e0, r0, c0, w0, e1, r1, c1, w1 = np.mean(figures, axis=0)
            changes = f"{e0:.1%} to {e1:.1%} | {r0:.3f} to {r1:.3f} | {w0:.1%} to {w1:.1%} | {c0:.0%} to {c1:.0%}"
            lines.append(f"| {count} | {changes} |")
    return lines


def draw_curves(curves: dict[str, Any], said: dict[str, tuple[Any, Any]]) -> None:
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, (words, ratios) in enumerate(curves.items()):
        held = [np.mean(np.abs(ratios) <= ndtri(0.5 + level / 2) / DEVIATIONS) for level in LEVELS]
        left.plot(100 * LEVELS, 100 * np.array(held), color=f"C{number}", marker=".", label=words)
    left.set(xlabel="said to hold, %", ylabel="held-out cases within, %", title="intervals")
    for number, (words, (chance, came)) in enumerate(said.items()):
        sure, true = np.maximum(chance, 1 - chance), (chance > 0.5) == came
        edges = np.quantile(sure, np.linspace(0, 1, 9))
        which = np.clip(np.searchsorted(edges, sure, side="right") - 1, 0, 7)
        places = [(sure[which == k].mean(), true[which == k].mean()) for k in range(8) if (which == k).any()]
        right.plot(*(100 * np.array(places).T), color=f"C{number}", marker=".", label=words)
    right.set(xlabel="said to be sure, %", ylabel="right, %", title="which of two has less drag")
    for axes in (left, right):
        axes.plot([0, 100], [0, 100], color="0.7", linewidth=0.8, zorder=0)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
    right.set(xlim=(48, 101), ylim=(40, 101))
    save_picture(figure, RESULTS / "calibration.png")


def main(folder: Path | None) -> None:
    models = {name: Held(name) for name in ("car", "airfoil")}
    table, curves, told = [], {}, {}
    for name, held in models.items():
        lines, ratios = coverage(held)
        table += lines
        curves |= {f"{name} {key}": ratios[key] for key in ratios}
    statements = []
    for name, held in models.items():
        for words, (said, came) in pairs(held).items():
            statements.append(stated(f"{name}: {words}", said, came))
            if words == "common and near":
                told[name] = (said, came)
    ranking, truth = samples()
    designs = [ranking.designs[row["file"]] for row in ranking.rows]
    joint = Joint.over(ranking.rows, designs, "cd")
    true = np.log([truth[row["name"]] for row in ranking.rows])
    variants = [i for i, row in enumerate(ranking.rows) if row["name"].startswith("car")]
    for words, rows in (("sample cars", list(range(len(true)))), ("variants of one sample car", variants)):
        i, j = np.triu_indices(len(rows), 1)
        said, came = joint.only(rows).below()[i, j], (true[rows][:, None] < true[rows][None])[i, j]
        statements.append(stated(words, said, came))
    draw_curves(curves, told)
    known = [
        "| known | mean error of drag of the others | Spearman of all | half width | covered |",
        "|---|---|---|---|---|",
    ]
    everyone = np.arange(len(true))
    known += [line.replace("| ", "| sample cars: ", 1) for line in learned(joint, true, (3, 5), lambda: everyone)]
    held, rng = models["car"], np.random.default_rng(2)
    found = [intervals.uncertainty(held.model.calibration or {}, held.known, e) for e in held.sample.evidence]
    sizes = np.array([u.cd.deviation for u in found])
    whole = np.outer(sizes, sizes) * intervals.correlation(found[0].cd, np.array([u.place for u in found]))
    mean = np.log(held.predicted["cd"])
    cars = Joint("cd", mean, whole)
    truth_of_cars = mean + np.array(held.sample.errors["cd"])
    for words, more in (("25 held-out cars", 0.0), ("the same, by a solver that gives 15 % more", math.log(1.15))):
        lines = learned(cars, truth_of_cars + more, (3, 5, 10), lambda: rng.permutation(len(mean))[:25])
        known += [line.replace("| ", f"| {words}: ", 1) for line in lines]
    if folder is not None:
        ranking, truth = solved(folder)
        rows = [row for row in ranking.rows if row["cd_low"] is not None]
        joint = Joint.over(rows, [ranking.designs[row["file"]] for row in rows], "cd")
        true = np.log([truth[row["name"]] for row in rows])
        every = np.arange(len(true))
        known += [
            line.replace("| ", f"| {folder.name}: ", 1) for line in learned(joint, true, (3, 5, 10), lambda: every)
        ]
    page = [
        "# Intervals and chances, held against the truth",
        "",
        "90 % intervals of the shipped models on their held-out cases (validation and test). *Covered*: by folds,",
        "each case within an interval that the other nine tenths of the cases gave. *Width*: the mean, over the",
        "constant width that holds 90 % of the same cases. Shipped are intervals fitted on all of them, and the last",
        "two columns tell why: what intervals fitted on the validation cases alone hold of the test cases, and how",
        "wide they are. The 34 validation cars happen to be harder than the 83 test cars.",
        "",
        "| | | cases | covered | width | validation alone: covered | width |",
        "|---|---|---|---|---|---|---|",
        *table,
        "",
        "![Nominal against found coverage](calibration.png)",
        "",
        "Which of two designs has less drag, for pairs of held-out cases within a fold, by the joint distribution of",
        "their errors (the last one is what `coeffs` uses). Published practice on car projects: 77 % right directions.",
        "",
        "| | pairs | right | said to be sure | right of those said 75 to 85 % | log loss |",
        "|---|---|---|---|---|---|",
        *statements,
        "",
        f"What some known values tell of the others, mean over {DRAWS} random choices:",
        "",
        *known,
    ]
    write_text(RESULTS / "calibration.md", "\n".join(page) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
