"""An experiment's results as a page and a picture, laid out as the paper's table, its figures beside ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from aerosurrogate.experiment.plans import KINDS, OURS, PAPER, Plan
from aerosurrogate.writing import replacing, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import YAxis


@dataclass(frozen=True)
class Cell:
    """What was measured for a place in the table, once a seed."""

    values: tuple[float, ...]
    costs: Mapping[str, float]  # CPU seconds of training by run, which cells of one row may share

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def text(self) -> str:
        half = (max(self.values) - min(self.values)) / 2
        return f"{self.mean:.4g}" + (f" ± {half:.2g}" if len(self.values) > 1 else "")


Cells = Mapping[tuple[str, str], Cell]


def page(plan: Plan, scale: str, cells: Cells, picture: str) -> str:
    """Markdown: a row a model, for each column ours and, where there is one, the paper's figure."""
    columns = list(dict.fromkeys(trial.column for trial in plan.trials))
    rows = rows_of(plan, cells)
    beside = {c for c in columns if any((row, c) in plan.paper for row in rows)}
    heads = ["", *(h for c in columns for h in ((c, "paper") if c in beside else (c,)))]
    lines = [" | ".join(heads), "|".join(["---"] * len(heads))]
    for row in rows:
        line = [row]
        for column in columns:
            cell = cells.get((row, column))
            line.append(cell.text if cell else "-")
            if column in beside:
                line.append(f"{plan.paper[row, column]:g}" if (row, column) in plan.paper else "")
        lines.append(" | ".join(line))
    table = "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)
    done, planned = len(cells), len({(t.row, t.column) for t in plan.trials})
    seconds = sum({run: cost for cell in cells.values() for run, cost in cell.costs.items()}.values())
    note = f"Scale `{scale}`: {done} of {planned} cells measured"
    seeds = {len(cell.values) for cell in cells.values()}
    many = max(seeds, default=1)
    note += f", {many} seeds (mean ± half their range)" if many > 1 else ", one seed"
    note += " where there is a range, else one" if len(seeds) > 1 else ""
    note += f", {seconds / 60:.1f} CPU minutes of training."
    small = ""
    if beside and scale.startswith("small"):
        small = " The paper's figures are those of its own sizes and data, not to be reached here."
    return f"# {plan.title}\n\n{plan.about}{small}\n\n{note}\n\n![{plan.title}]({picture})\n\n{table}\n"


def write(folder: Path, name: str, plan: Plan, scale: str, cells: Cells) -> Path:
    """NAME.md and NAME.png; returns the page's path."""
    draw(folder / f"{name}.png", plan, cells)
    write_text(folder / f"{name}.md", page(plan, scale, cells, f"{name}.png"))
    return folder / f"{name}.md"


def draw(path: Path, plan: Plan, cells: Cells) -> None:
    """Curves where the rows are numbers, else bars; whiskers span the seeds, the paper's figures are grey or marked."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    columns = [c for c in dict.fromkeys(t.column for t in plan.trials) if any(c == column for _, column in cells)]
    tallest = max(len(rows_of(plan, cells, column)) for column in columns)
    height = 3.6 if plan.across else 1.6 + 0.26 * tallest
    figure = Figure(figsize=(4.4 * len(columns), height), layout="constrained")
    # One scale for curves of one figure, so that columns can be compared.
    every = figure.subplots(1, len(columns), squeeze=False, sharey=bool(plan.across))[0]
    for axes, column in zip(every, columns, strict=True):
        known = {row: cells[row, column] for row in rows_of(plan, cells, column)}
        theirs = {row: plan.paper[row, column] for row in known if (row, column) in plan.paper}
        (_curve if plan.across else _bars)(axes, known, theirs)
        axes.set_title(column, fontsize=11)
        axes.set_xlabel(plan.across or plan.measure)
    if plan.across:
        every[0].set_ylabel(plan.measure)
    elif marks := [entry for axes in every for entry in axes.get_legend_handles_labels()[0]]:
        figure.legend(handles=marks[:1], fontsize=8, loc="outside lower center", frameon=False)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=130)


def rows_of(plan: Plan, cells: Cells, column: str | None = None) -> list[str]:
    """Rows of the plan, or those of a column that are measured; models as in the list of kinds, ours last."""
    rows = dict.fromkeys(t.row for t in plan.trials if column is None or (t.row, column) in cells)
    places = {row: place for place, row in enumerate([*KINDS, OURS])}
    return sorted(rows, key=lambda row: places.get(row, -1))


def _curve(axes: "Axes", known: Mapping[str, Cell], theirs: Mapping[str, float]) -> None:
    numbers = {float(row): cell for row, cell in known.items() if _is_number(row)}
    means, low, high = _spread(list(numbers.values()))
    axes.errorbar(list(numbers), means, [low, high] if any(high) else None, fmt="o-", capsize=3, label="here")
    beside = {float(row): value for row, value in theirs.items() if _is_number(row)}
    if beside:
        axes.plot(list(beside), list(beside.values()), "s--", color="grey", label="paper")
    others = [(row, cell) for row, cell in known.items() if not _is_number(row)]
    for (row, cell), style in zip(others, ("--", ":", "-."), strict=False):
        axes.axhline(cell.mean, color="tab:red", linestyle=style, linewidth=1, label=f"{row}, here")
    axes.set_xscale("log")
    axes.set_xticks(list(numbers), labels=[f"{number:g}" for number in numbers])
    axes.xaxis.minorticks_off()
    plain(axes.yaxis, [*means, *beside.values(), *(cell.mean for _, cell in others)])
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)


def plain(axis: "YAxis", values: Sequence[float]) -> None:
    """A scale on which all values can be told apart, with figures that are read at once."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    if max(values) < 4 * min(values):
        return
    axis.axes.set_yscale("log")
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.axes.minorticks_off()


def _bars(axes: "Axes", known: Mapping[str, Cell], theirs: Mapping[str, float]) -> None:
    colours = ["tab:blue" if row == OURS else "tab:orange" if row == PAPER else "silver" for row in known]
    axes.barh(list(known), [cell.mean for cell in known.values()], color=colours)
    repeated = {row: cell for row, cell in known.items() if len(cell.values) > 1}
    means, low, high = _spread(list(repeated.values()))
    if repeated:
        axes.errorbar(means, list(repeated), xerr=[low, high], fmt="none", ecolor="black", capsize=2, linewidth=1)
    for row, cell in known.items():  # at the rim, where neither bars nor the paper's marks reach
        text, rim = f"{cell.mean:#.3g}", axes.get_yaxis_transform()
        axes.annotate(text, (0.985, row), xycoords=rim, ha="right", va="center", size=7)
    if theirs:
        axes.plot(
            list(theirs.values()),
            list(theirs),
            "k|",
            markersize=8,
            label="the paper's figure, of its own sizes and data",
        )
    axes.set_xlim(0, 1.25 * max(*(max(cell.values) for cell in known.values()), *theirs.values(), 1e-9))
    axes.invert_yaxis()
    axes.tick_params(labelsize=8)


def _spread(cells: Sequence[Cell]) -> tuple[list[float], list[float], list[float]]:
    """Means, and how far the least and the largest of the seeds lie from them."""
    means = [cell.mean for cell in cells]
    return means, [c.mean - min(c.values) for c in cells], [max(c.values) - c.mean for c in cells]


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()
