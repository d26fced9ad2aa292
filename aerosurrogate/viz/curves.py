"""Polars: coefficients over the states of a sweep, several designs over each other.

Bands are 90 % intervals. Markers tell trust: filled inside the training set, hollow near it, a cross outside.
"""

import html
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from aerosurrogate.flow_fields import Row, column
from aerosurrogate.viz.page import document
from aerosurrogate.viz.views import new_figure

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2", "#333333", "#bcbd22")
MARKERS = {"inside": "o", "near": "o", "outside": "x", None: "."}
_SYMBOLS = {"inside": "circle", "near": "circle-open", "outside": "x", None: "circle"}
TITLES = {
    "alpha": "angle of attack (°)", "reynolds": "Reynolds number (million)", "speed": "speed (m/s)", "cl": "Cl",
    "cd": "Cd", "ld": "Cl / Cd", "cm": "Cm, nose-up positive", "drag_n": "drag (N)",
}  # fmt: skip


class Panel(NamedTuple):
    """One picture: a column over another one."""

    x: str
    y: str

    def of(self, rows: Sequence[Row]) -> tuple[list[float], list[float]]:
        pairs = [(_shown(row, self.x), _shown(row, self.y)) for row in rows]
        return [x for x, _ in pairs], [y for _, y in pairs]

    def band(self, rows: Sequence[Row]) -> tuple[list[float], list[float]] | None:
        """The outline of the intervals, of drag where lift is drawn over it; None where a row or column has none."""
        key = next((key for key in ("cd", "cl") if key in self), None)
        if key is None or any(column(row, f"{key}_low") is None for row in rows):
            return None
        ends = [column(row, f"{key}_low") for row in rows] + [column(row, f"{key}_high") for row in reversed(rows)]
        other = [_shown(row, self.y if key == self.x else self.x) for row in (*rows, *reversed(rows))]
        return (ends, other) if key == self.x else (other, ends)


def panels(along: str) -> list[Panel]:
    """What is drawn of a sweep: the polars of a section over its angle, else the coefficients over what varies."""
    if along == "alpha":
        return [
            Panel("alpha", "cl"),
            Panel("cd", "cl"),
            Panel("alpha", "ld"),
            Panel("alpha", "cm"),
            Panel("alpha", "cd"),
        ]
    return [Panel(along, "cd"), Panel(along, "cl"), Panel(along, "drag_n"), Panel(along, "cm")]


def figure(series: Mapping[str, Sequence[Row]], along: str) -> Figure:
    drawn = panels(along)[:4]
    picture = new_figure(11, 8.4, _title(series))
    for axes, panel in zip(picture.subplots(2, 2).ravel(), drawn, strict=True):
        for number, (name, rows) in enumerate(series.items()):
            colour = COLOURS[number % len(COLOURS)]
            axes.plot(*panel.of(rows), color=colour, linewidth=1.3, label=name)
            if band := panel.band(rows):
                axes.fill(*band, color=colour, alpha=0.15, linewidth=0)
            for mark, marker in MARKERS.items():
                some = [row for row in rows if row["trust"] == mark]
                face = "white" if mark == "near" else colour
                look = {"markersize": 4.5, "color": colour, "markerfacecolor": face}
                axes.plot(*panel.of(some), marker, linestyle="none", **look)
        axes.set(xlabel=TITLES[panel.x], ylabel=TITLES[panel.y])
        axes.grid(alpha=0.25)
    picture.axes[0].legend(frameon=False, fontsize=8)
    if {row["trust"] for rows in series.values() for row in rows} - {None}:
        words = "bands: 90 % intervals; filled: inside the training set, hollow: near it, cross: outside"
        picture.supxlabel(words, fontsize=9, color="0.4")
    return picture


def page(series: Mapping[str, Sequence[Row]], along: str, assumed: str) -> str:
    """All curves, each with its legend entry once."""
    figures = [_panel_figure(series, panel, legend=n == 0) for n, panel in enumerate(panels(along))]
    words = (
        f"{html.escape(assumed)}. Bands are 90 % intervals; filled markers lie inside the training set, hollow ones "
        "near it, crosses outside: simulate those."
    )
    return document(figures, _title(series), words)


def _panel_figure(series: Mapping[str, Sequence[Row]], panel: Panel, legend: bool) -> Any:
    import plotly.graph_objects as go

    drawing = go.Figure()
    for number, (name, rows) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        if band := panel.band(rows):
            x, y = band
            drawing.add_scatter(
                x=x, y=y, mode="lines", fill="toself", fillcolor=colour, opacity=0.15,
                line={"width": 0}, hoverinfo="skip", showlegend=False, legendgroup=name,
            )  # fmt: skip
        x, y = panel.of(rows)
        hints = [
            f"{name}<br>{row['state']}<br>Cl {row['cl']:.4f}, Cd {row['cd']:.5f}<br>{row['trust'] or ''}"
            for row in rows
        ]
        drawing.add_scatter(
            x=x, y=y, mode="lines+markers", name=name, legendgroup=name, showlegend=legend and len(series) > 1,
            line={"color": colour}, text=hints, hovertemplate="%{text}<extra></extra>",
            marker={"symbol": [_SYMBOLS[row["trust"]] for row in rows], "size": 7},
        )  # fmt: skip
    drawing.update_layout(xaxis_title=TITLES[panel.x], yaxis_title=TITLES[panel.y], height=400)
    drawing.update_layout(legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    return drawing


def _shown(row: Row, key: str) -> float:
    value = column(row, key)
    return float("nan") if value is None else value / 1e6 if key == "reynolds" else value


def _title(series: Mapping[str, Sequence[Row]]) -> str:
    """The designs, and the Reynolds number where it is one."""
    rows = [row for some in series.values() for row in some]
    names = list(dict.fromkeys(row["name"] for row in rows))
    numbers = {f"{row['reynolds'] / 1e6:.3g}" for row in rows}
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return ", ".join(names[:6]) + more + (f"   Re {numbers.pop()} million" if len(numbers) == 1 else "")
