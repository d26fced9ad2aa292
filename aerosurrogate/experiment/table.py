"""An experiment's results as a page and a picture, laid out as the paper's table, its figures beside ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from aerosurrogate.experiment.plans import OURS, PAPER, Plan
from aerosurrogate.writing import replacing, write_text


@dataclass(frozen=True)
class Cell:
    """What was measured for a place in the table, once a seed."""

    values: tuple[float, ...]
    cpu_seconds: float  # of all seeds together

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
    rows = list(dict.fromkeys(trial.row for trial in plan.trials))
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
    seconds = sum(cell.cpu_seconds for cell in cells.values())
    note = f"Scale `{scale}`: {done} of {planned} cells measured"
    seeds = {len(cell.values) for cell in cells.values()}
    many = max(seeds, default=1)
    note += f", {many} seeds (mean ± half their range)" if many > 1 else ", one seed"
    note += " where there is a range, else one" if len(seeds) > 1 else ""
    note += f", {seconds / 60:.1f} CPU minutes of training, counted once a cell."
    small = " The paper's figures are those of its own sizes and data, not to be reached here." * scale.startswith(
        "small"
    )
    return f"# {plan.title}\n\n{plan.about}{small}\n\n{note}\n\n![{plan.title}]({picture})\n\n{table}\n"


def write(folder: Path, name: str, plan: Plan, scale: str, cells: Cells) -> Path:
    """NAME.md and NAME.png; returns the page's path."""
    draw(folder / f"{name}.png", plan, cells)
    write_text(folder / f"{name}.md", page(plan, scale, cells, f"{name}.png"))
    return folder / f"{name}.md"


def draw(path: Path, plan: Plan, cells: Cells) -> None:
    """Curves where the rows are numbers, else bars; the paper's figures in grey."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    columns = [c for c in dict.fromkeys(t.column for t in plan.trials) if any(c == column for _, column in cells)]
    figure = Figure(figsize=(4.2 * max(len(columns), 1), 3.6), layout="constrained")
    for place, column in enumerate(columns):
        axes = figure.add_subplot(1, len(columns), place + 1)
        rows = [row for row in dict.fromkeys(t.row for t in plan.trials) if (row, column) in cells]
        values = [cells[row, column].mean for row in rows]
        theirs = {row: plan.paper[row, column] for row in rows if (row, column) in plan.paper}
        (_curve if plan.across else _bars)(axes, rows, values, theirs)
        axes.set(title=column, xlabel=plan.across)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=130)


def _curve(axes, rows: Sequence[str], values: Sequence[float], theirs: Mapping[str, float]) -> None:  # type: ignore[no-untyped-def]
    numbers = [(float(row), value) for row, value in zip(rows, values, strict=True) if _is_number(row)]
    axes.plot(*zip(*numbers, strict=True), "o-", label="here")
    known = [(float(row), value) for row, value in theirs.items() if _is_number(row)]
    if known:
        axes.plot(*zip(*known, strict=True), "s--", color="grey", label="paper")
    for row, value in zip(rows, values, strict=True):
        if not _is_number(row):
            axes.axhline(value, color="tab:red", linestyle=":", linewidth=1)
            axes.annotate(row, (numbers[0][0], value), fontsize=7, va="bottom")
    axes.set(xscale="log", yscale="log")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)


def _bars(axes, rows: Sequence[str], values: Sequence[float], theirs: Mapping[str, float]) -> None:  # type: ignore[no-untyped-def]
    colours = ["tab:blue" if row == OURS else "tab:orange" if row == PAPER else "silver" for row in rows]
    axes.barh(rows, values, color=colours)
    axes.plot(
        [theirs[row] for row in rows if row in theirs],
        [row for row in rows if row in theirs],
        "k|",
        label="paper",
    )
    axes.invert_yaxis()
    axes.tick_params(labelsize=7)
    if theirs:
        axes.legend(fontsize=7)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()
