"""Do the intervals hold, do the chances come true, and what is gained by knowing a few designs?

    python benchmarks/calibration.py [MODEL ...] [--foreign DATASET ...] [--out DIR]   # some minutes of one core

MODEL: the shipped ones unless said, or run folders. DATASET: solved cases that no model has learned from, unlike those
that it has. Everything is measured on cases that had no part in what is measured: held-out cases (validation and test)
in folds, each case judged by a calibration that the other folds gave. Writes calibration.md and .png into DIR
(benchmarks/results).
"""

import argparse
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
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
from aerosurrogate.training.publish import measure
from aerosurrogate.trust import familiarity, intervals
from aerosurrogate.trust.intervals import DEVIATIONS, NORMAL
from aerosurrogate.viz import save_picture
from aerosurrogate.writing import write_text

ROOT = Path(__file__).parents[1]
FOLDS = 4  # of pairs: each pair is judged by the cases of the folds that neither is in
LEVELS = np.linspace(0.05, 0.95, 19)
DRAWS = 200
TOGETHER = 25  # held-out designs that some are known of
KNOWN = (3, 5, 10)


class Held:
    """The held-out cases of a model."""

    def __init__(self, name: str) -> None:
        self.name, self.model = Path(name).name, Surrogate.load(name, "cpu")
        if self.model.trust is None or self.model.calibration is None:
            raise SystemExit(f"{name}: too few held-out cases were there to fit intervals to")
        self.known, self.calibration = self.model.trust, self.model.calibration
        run = Path(name) if (Path(name) / "recipe.toml").is_file() else None
        recipe = read_recipe(run / "recipe.toml" if run else ROOT / self.model.card["recipe"])
        routes = self.model.card["routes"]
        measured = measure(self.model, recipe, with_beside=False)
        self.training = measured.training.errors(routes)
        self.sample, rows = measured.held_out.errors(routes), measured.held_out.rows
        self.foreign = measured.foreign.errors(routes)
        self.ratio = np.array([row["area_over_silhouette"] for row in rows])
        self.predicted = {key: np.array([row[f"{key}_{routes[key]}"] for row in rows]) for key in ("cd", "cl")}
        angles = np.array([abs(e.conditions.get("alpha", 0.0)) for e in self.sample.evidence])
        every = np.arange(len(angles) + len(self.foreign.evidence))
        self.groups: dict[str, Any] = {"held out": every < len(angles)}
        if self.foreign.evidence:
            self.groups["of other makers"] = every >= len(angles)
        if (angles > intervals.STALL).any():
            stalled = np.append(angles > intervals.STALL, np.zeros(len(self.foreign.evidence), bool))
            self.groups |= {"up to 12 degrees": (every < len(angles)) & ~stalled, "beyond 12 degrees": stalled}

    def values(self, key: str) -> Any:
        """Predictions as errors are measured: log drag, lift over the silhouette."""
        return np.log(np.maximum(self.predicted["cd"], 1e-6)) if key == "cd" else self.predicted[key] * self.ratio


def joint_of(held: Held, calibration: dict[str, Any], rows: Any, key: str = "cd") -> Joint:
    """The joint distribution of held-out cases, as `coeffs` makes it of designs."""
    found = [intervals.uncertainty(calibration, held.known, held.sample.evidence[i]) for i in rows]
    sizes = np.array([getattr(u, key).deviation for u in found])
    mine = getattr(found[0], key)
    together = intervals.correlation(mine, np.array([u.place for u in found]))
    return Joint(key, held.values(key)[rows], np.outer(sizes, sizes) * together, mine.tail)


def coverage(held: Held) -> tuple[list[str], dict[str, Any]]:
    """Lines of a table, and the ratios of errors to half widths by coefficient."""
    sample = held.sample.with_cases(held.foreign)
    ratios = intervals.cross_checked(held.known, held.sample, held.training, held.foreign)
    lines = []
    for key in ("cd", "cl"):
        error = np.abs(sample.errors[key])
        size = error / np.maximum(np.abs(ratios[key]), 1e-12)
        for words, group in held.groups.items():
            covered = np.mean(np.abs(ratios[key][group]) <= 1)
            width = size[group].mean() / np.quantile(error[group], 0.9)
            middle = np.median(size[group])
            lines.append(
                f"| {held.name} {key} | {words} | {group.sum()} | {covered:.1%} | {width:.2f} | {middle:.3f} |"
            )
    return lines, ratios


def pairs(held: Held, key: str = "cd") -> dict[str, tuple[Any, Any]]:
    """By kind of joint distribution: what was said of pairs of held-out cases, and whether it came true."""
    count = len(held.sample.evidence)
    fold = np.random.default_rng(1).permutation(count) % FOLDS
    true = held.values(key) + np.array(held.sample.errors[key])
    said: dict[str, list[Any]] = {"independent": [], "together": [], "together, heavy tails": []}
    came: list[Any] = []
    for two in itertools.combinations(range(FOLDS), 2):
        mine = np.flatnonzero(np.isin(fold, two))
        others = held.sample.only(np.flatnonzero(~np.isin(fold, two)).tolist())
        calibration = intervals.fit(held.known, others, held.training, held.foreign)
        assert calibration is not None
        full = joint_of(held, calibration, mine, key)
        i, j = np.triu_indices(len(mine), 1)
        apart = fold[mine[i]] != fold[mine[j]]  # a pair within a fold would come up three times
        i, j = i[apart], j[apart]
        alone = replace(full, covariance=np.diag(np.diag(full.covariance)), tail=NORMAL)
        for words, joint in zip(said, (alone, replace(full, tail=NORMAL), full), strict=True):
            said[words].append(joint.below()[i, j])
        came.append(true[mine[i]] < true[mine[j]])
    return {words: (np.concatenate(values), np.concatenate(came)) for words, values in said.items()}


def strangers(held: Held, folder: Path) -> tuple[list[str], Joint, Any]:
    """Lines of a table on cases that the model has not seen the like of; the joint distribution of those that it gives
    an interval for, and their true log drag."""
    dataset = Dataset(folder)
    found = evaluate(held.model, dataset, dataset.names(), f"{held.name}: {folder.name}")
    route = held.model.card["routes"]["cd"]
    marks = {name: familiarity.judge(held.known, e).mark for name, e in found.evidence.items()}
    rows = [row for row in found.rows if row["name"] in marks and row.get("cd_low") is not None]
    lines = []
    for mark in ("inside", "near", "outside", "all"):
        count = sum(mark in (m, "all") for m in marks.values())
        told = [row for row in rows if mark in (marks[row["name"]], "all")]
        within = [[row[f"{key}_low"] <= row[key] <= row[f"{key}_high"] for row in told] for key in ("cd", "cl")]
        words = " | ".join(f"{sum(part)} of {len(part)}" for part in within)
        lines.append(f"| {held.name} on {folder.name} | {mark} | {count} | {count - len(told)} | {words} |")
    evidence = [found.evidence[row["name"]] for row in rows]
    half = np.array([math.log(row["cd_high"] / max(row["cd_low"], 1e-3)) / 2 for row in rows]) / DEVIATIONS
    mine = intervals.uncertainty(held.calibration, held.known, evidence[0]).cd if rows else None
    places = np.array([familiarity.place(held.known, e.features) for e in evidence])
    together = np.zeros((0, 0)) if mine is None else intervals.correlation(mine, places)
    mean = np.log([max(row[f"cd_{route}"], 1e-3) for row in rows])
    joint = Joint("cd", mean, np.outer(half, half) * together, NORMAL if mine is None else mine.tail)
    return lines, joint, np.log([row["cd"] for row in rows])


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


def learned(words: str, before: Joint, true: Any, draw: Callable[[], Any]) -> list[str]:
    """Lines of a table: error, rank correlation and coverage of the designs left, before and after some are known."""
    lines = []
    rng = np.random.default_rng(0)
    for count in KNOWN:
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
            lines.append(f"| {words} | {count} | {changes} |")
    return lines


def draw_curves(curves: dict[str, Any], said: dict[str, tuple[Any, Any]], path: Path) -> None:
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
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
    right.set(xlim=(48, 101), ylim=(40, 101))
    save_picture(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["car", "airfoil"], metavar="MODEL")
    parser.add_argument("--foreign", nargs="*", type=Path, default=[], metavar="DATASET")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", metavar="DIR")
    options = parser.parse_args()
    table, curves, told, statements, foreign, known = [], {}, {}, [], [], []
    rng = np.random.default_rng(2)
    for name in options.models:
        held = Held(name)
        lines, ratios = coverage(held)
        table += lines
        curves |= {f"{held.name} {key}": ratios[key] for key in ratios}
        enough = len(held.sample.evidence) >= 2 * intervals.FEWEST  # so that half of them can be fitted to
        for words, (said, came) in (pairs(held) if enough else {}).items():
            statements.append(stated(f"{held.name}: {words}", said, came))
            told[held.name] = (said, came)  # the last one is what `coeffs` uses
        every = np.arange(len(held.sample.evidence))
        designs = joint_of(held, held.calibration, every)
        true = designs.mean + np.array(held.sample.errors["cd"])
        some = min(TOGETHER, len(every))
        draw = lambda rng=rng, every=every, some=some: rng.permutation(len(every))[:some]  # noqa: E731
        for words, more in (("", 0.0), (", by a solver that gives 15 % more", math.log(1.15))):
            known += learned(f"{held.name}: {some} held-out designs{words}", designs, true + more, draw)
        for folder in options.foreign:
            if Dataset(folder).case(Dataset(folder).names()[0]).dimensions == held.model.dimensions:
                lines, joint, true = strangers(held, folder)
                foreign += lines
                all_of_them = np.arange(len(true))
                known += learned(
                    f"{held.name}: {folder.name}", joint, true, lambda all_of_them=all_of_them: all_of_them
                )
    if "car" in options.models:
        ranking, truth = samples()
        joint = Joint.over(ranking.rows, [ranking.designs[row["file"]] for row in ranking.rows], "cd")
        true = np.log([truth[row["name"]] for row in ranking.rows])
        variants = [i for i, row in enumerate(ranking.rows) if row["name"].startswith("car")]
        for words, rows in (("sample cars", list(range(len(true)))), ("variants of one sample car", variants)):
            i, j = np.triu_indices(len(rows), 1)
            said, came = joint.only(rows).below()[i, j], (true[rows][:, None] < true[rows][None])[i, j]
            statements.append(stated(words, said, came))
        known += learned("sample cars", joint, true, lambda: np.arange(len(true)))
    draw_curves(curves, told, options.out / "calibration.png")
    page = [
        "# Intervals and chances, held against the truth",
        "",
        "90 % intervals of models on their held-out cases (validation and test), and on cars of another maker, which",
        "they are fitted to together. *Covered*: by folds, each case",
        "within an interval that the other nine tenths of the cases gave. *Width*: the mean, over the constant width",
        "that holds 90 % of the same cases. *Half*: the median half width, as a part of drag, and of lift over the",
        "silhouette.",
        "",
        "| | | cases | covered | width | half |",
        "|---|---|---|---|---|---|",
        *table,
        "",
        "![Nominal against found coverage](calibration.png)",
        "",
        "Which of two designs has less drag, for all pairs of held-out cases, each judged by a calibration that",
        "neither had a part in (the last one is what `coeffs` uses). Published practice on car projects: 77 % right",
        "directions.",
        "",
        "| | pairs | right | said to be sure | right of those said 75 to 85 % | log loss |",
        "|---|---|---|---|---|---|",
        *statements,
        "",
    ]
    if foreign:
        page += [
            "Cases unlike what the model learned from. Those that its recipe names in `data.foreign` had a part in its",
            "calibration (by folds, without: above). *Dash*: no interval is given, and no number shown.",
            "",
            "| | trust | cases | dash | drag covered | lift covered |",
            "|---|---|---|---|---|---|",
            *foreign,
            "",
        ]
    page += [
        f"What some known values tell of the others, mean over {DRAWS} random choices:",
        "",
        "| | known | mean error of drag of the others | Spearman of all | half width | covered |",
        "|---|---|---|---|---|---|",
        *known,
    ]
    write_text(options.out / "calibration.md", "\n".join(page) + "\n")


if __name__ == "__main__":
    main()
