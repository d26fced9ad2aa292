"""Curves of training runs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from aerosurrogate.errors import InputError

Curve = tuple[list[float], list[float]]


def curves(run: Path) -> dict[str, Curve]:
    """Steps and values of `loss`, `validation` and `learning_rate`, as far as a run logged them."""
    path = run / "log.jsonl"
    if not path.is_file():
        remedy = "give the folder of a training run"
        raise InputError("no history here: log.jsonl is missing", seen=run, remedy=remedy)
    entries: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:  # the last line of a run that was killed
            continue
    found = {}
    for key in ("loss", "validation", "learning_rate"):
        pairs = [(e["step"], e[key]) for e in entries if "step" in e and isinstance(e.get(key), int | float)]
        if pairs:
            found[key] = ([float(step) for step, _ in pairs], [float(value) for _, value in pairs])
    if not found:
        raise InputError("the run has logged nothing yet", seen=run, remedy="wait for its first steps")
    return found


def figure(runs: Sequence[Path]) -> Figure:
    """Losses on the left in a logarithmic scale, the learning rate on the right."""
    from aerosurrogate.viz.views import new_figure

    drawing = new_figure(11, 4.6, ", ".join(run.resolve().name for run in runs))
    left, right = drawing.subplots(1, 2, width_ratios=(2, 1))
    for number, run in enumerate(runs):
        known, name = curves(run), run.resolve().name
        prefix = f"{name}: " if len(runs) > 1 else ""
        if "loss" in known:
            left.plot(*known["loss"], color=f"C{number}", alpha=0.45, linewidth=0.9, label=f"{prefix}training loss")
        if "validation" in known:
            left.plot(*known["validation"], "o-", color=f"C{number}", markersize=3, label=f"{prefix}validation")
        if "learning_rate" in known:
            right.plot(*known["learning_rate"], color=f"C{number}", label=name)
    left.set(xlabel="step", ylabel="loss", yscale="log")
    right.set(xlabel="step", ylabel="learning rate")
    right.locator_params(axis="x", nbins=4)
    right.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    for axes in (left, right):
        axes.grid(alpha=0.25)
    left.legend(frameon=False)
    return drawing
