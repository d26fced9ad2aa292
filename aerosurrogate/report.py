"""A ranking as one HTML page: table, pictures, the best design to turn around, the comparison with the truth.

Everything is in the file; it opens offline.
"""

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aerosurrogate import __version__, console
from aerosurrogate.coeffs import Ranking, agreement, assumptions
from aerosurrogate.flow_fields import FlowFields, Row
from aerosurrogate.viz.page import embedded, field_figures, rounded
from aerosurrogate.viz.render import Shot, render
from aerosurrogate.viz.source import Scale, Source
from aerosurrogate.writing import write_text

THUMBNAIL = (300, 160)
_COLUMNS = (
    ("#", "rank", "{:d}"),
    ("design", "name", "{}"),
    ("C<sub>d</sub>", "cd", "{:.4f}"),
    ("true C<sub>d</sub>", "cd_true", "{:.4f}"),
    ("error", "cd_error", "{:+.1%}"),
    ("C<sub>l</sub>", "cl", "{:.4f}"),
    ("C<sub>m</sub>", "cm", "{:.4f}"),
    ("C<sub>d</sub> integrated", "cd_integrated", "{:.4f}"),
    ("C<sub>l</sub> integrated", "cl_integrated", "{:.4f}"),
    ("drag N", "drag_n", "{:.1f}"),
    ("lift N", "lift_n", "{:.1f}"),
    ("area m²", "area_m2", "{:.3f}"),
    ("trust", "trust", "{}"),
)


def write_report(ranking: Ranking, path: Path) -> None:
    """Write the page."""
    sources = {row["file"]: _source(ranking.designs[row["file"]]) for row in ranking.rows}
    write_text(path, page(ranking, sources))
    console.note(f"report written to {path}")


def page(ranking: Ranking, sources: dict[str, Source]) -> str:
    rows = [_with_truth(row, ranking) for row in ranking.rows]
    best = sources[rows[0]["file"]]
    scale = Scale.over(*(source.values for source in sources.values()))
    pictures = _pictures([sources[row["file"]] for row in rows], scale)
    turn = field_figures(best)[0]
    sections = [
        f"<p class=assumed>{html.escape(assumptions(ranking.reference))}</p>",
        _table(rows, pictures, with_truth=bool(ranking.truth)),
        f"<p class=scale>Pressure coefficient on the skin {_legend(scale)}</p>" if best.surface.dimension == 3 else "",
        f"<h2>Best: {html.escape(rows[0]['name'])}</h2>",
        embedded(turn),
    ]
    if ranking.comparison:
        sections += [
            "<h2>Against the truth</h2>",
            *(f"<p>{html.escape(line)}</p>" for line in agreement(ranking.comparison).splitlines()),
            embedded(_scatter(rows), library=False),
        ]
    sections += _remarks(rows, ranking.failed)
    return _PAGE.format(body="\n".join(sections), version=__version__, count=len(rows), style=_STYLE, script=_SCRIPT)


def _source(design: FlowFields) -> Source:
    body = design.body
    coefficient = design.skin["p"] / design.conditions.dynamic_pressure
    axes = body.wind_axes(design.conditions)
    return Source(body.name, body.surface, axes, "Cp", "-", np.asarray(coefficient, dtype=float), design)


def _with_truth(row: Row, ranking: Ranking) -> dict[str, Any]:
    true = ranking.truth.get(row["name"], {}).get("cd")
    return {**row, "cd_true": true, "cd_error": row["cd"] / true - 1 if true else None}


def _pictures(sources: Sequence[Source], scale: Scale) -> list[str]:
    """A small picture of each design, as the text of an image's address."""
    solid = [s for s in sources if s.surface.dimension == 3]
    shots = [Shot.of(s.surface.corners, scale.colours(s.values), "front", s.axes, THUMBNAIL) for s in solid]
    drawn = iter(render(shots) if shots else [])
    return [_image(next(drawn)) if s.surface.dimension == 3 else _image(_section(s)) for s in sources]


def _section(source: Source) -> np.ndarray:
    """A section's outline over its pressure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from aerosurrogate.viz.views import chord_curves

    figure = Figure(figsize=(THUMBNAIL[0] / 100, THUMBNAIL[1] / 100), dpi=100)
    curves, outline = figure.subplots(2, 1, height_ratios=(2, 1))
    figure.subplots_adjust(0.02, 0.02, 0.98, 0.98, 0, 0)
    chord_curves(curves, source.surface, source.values, "Cp", colour="#1f77b4")
    curves.invert_yaxis()
    for segment in source.surface.corners:
        outline.plot(*segment.T, color="black", linewidth=1)
    outline.set_aspect("equal")
    for axes in (curves, outline):
        axes.set_axis_off()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3]


def _image(pixels: np.ndarray) -> str:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _table(rows: Sequence[dict[str, Any]], pictures: Sequence[str], *, with_truth: bool) -> str:
    columns = [c for c in _COLUMNS if with_truth or c[1] not in ("cd_true", "cd_error")]
    heads = "".join(f"<th data-key={key} tabindex=0>{title}</th>" for title, key, _ in columns)
    lines = []
    for row, picture in zip(rows, pictures, strict=True):
        cells = "".join(_cell(row, key, text) for _, key, text in columns)
        lines.append(f"<tr>{cells}<td><img src='{picture}' alt='{html.escape(row['name'])}'></td></tr>")
    head = f"<thead><tr>{heads}<th>C<sub>p</sub></th></tr></thead>"
    return f"<table id=ranking>{head}<tbody>{''.join(lines)}</tbody></table>"


def _cell(row: dict[str, Any], key: str, text: str) -> str:
    value = row[key]
    if key == "trust":
        order = {"inside": 0, "near": 1, "outside": 2}.get(value, 3)
        why = html.escape("\n".join(row["reasons"]) or "like the training set", quote=True)
        return f"<td data-value={order} title=\"{why}\"><span class='mark {value}'>{value or '–'}</span></td>"
    if value is None:
        return "<td data-value=''>–</td>"
    if isinstance(value, str):
        return f"<td class=name data-value='{html.escape(value, quote=True)}'>{html.escape(value)}</td>"
    return f"<td data-value={value!r}>{text.format(value)}</td>"


def _legend(scale: Scale) -> str:
    ramp = scale.colours(np.linspace(scale.low, scale.high, 9))
    colours = ", ".join(f"rgb({r},{g},{b})" for r, g, b in ramp)
    return (
        f"{scale.low:.2f} <span class=ramp style='background:linear-gradient(90deg,{colours})'></span> {scale.high:.2f}"
    )


def _scatter(rows: Sequence[dict[str, Any]]) -> Any:
    import plotly.graph_objects as go

    known = [r for r in rows if r["cd_true"] is not None]
    true, found = np.array([r["cd_true"] for r in known]), np.array([r["cd"] for r in known])
    low, high = min(true.min(), found.min()), max(true.max(), found.max())
    margin = 0.14 * (high - low) or 0.1 * abs(high)
    span = [low - margin, high + margin]
    figure = go.Figure()
    figure.add_scatter(x=span, y=span, mode="lines", line={"color": "#bbb", "dash": "dash"}, name="exact")
    figure.add_scatter(
        x=rounded(true), y=rounded(found), mode="markers+text", text=[r["name"] for r in known], name="designs",
        textposition="top center", textfont={"size": 11}, marker={"size": 9, "color": "#1f77b4"},
        hovertemplate="%{text}<br>true %{x:.4f}<br>predicted %{y:.4f}<extra></extra>",
    )  # fmt: skip
    axis = {"range": span}
    figure.update_layout(
        template="plotly_white", height=460, width=620, showlegend=False, margin={"l": 70, "r": 20, "t": 10, "b": 60},
        xaxis={**axis, "title": "true drag coefficient"}, yaxis={**axis, "title": "predicted drag coefficient"},
    )  # fmt: skip
    return figure


def _remarks(rows: Sequence[dict[str, Any]], failed: dict[str, str]) -> list[str]:
    """Why some answers cannot be trusted, what was done to the shapes, and what was left out."""
    doubts = [(r["name"], f"{r['trust']}: {reason}") for r in rows for reason in r["reasons"][:3]]
    notes = [(r["name"], text) for r in rows for text in r["notes"]]
    parts = []
    for title, entries in (("Trust", doubts), ("Left out", list(failed.items())), ("Notes", notes)):
        if entries:
            lines = "".join(f"<li><b>{html.escape(who)}</b> {html.escape(text)}</li>" for who, text in entries)
            body = f"<ul>{lines}</ul>"
            shown = f"<details><summary>{len(entries)} notes</summary>{body}</details>" if title == "Notes" else body
            parts.append(f"<h2>{title}</h2>{shown}")
    return parts


_STYLE = """
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; color: #1c1f24; margin: 2em auto;
  max-width: 1180px; padding: 0 1em }
h1 { font-size: 1.5em; margin-bottom: .2em }
h2 { font-size: 1.1em; margin: 1.8em 0 .4em }
.assumed, .scale, footer { color: #5b6470; font-size: .9em }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th { cursor: pointer; text-align: right; font-weight: 600; font-size: .85em; border-bottom: 2px solid #1c1f24;
  padding: .4em .5em; vertical-align: bottom }
th:last-child { cursor: default }
th[aria-sort=ascending]::after { content: " ▲" }
th[aria-sort=descending]::after { content: " ▼" }
td { text-align: right; padding: .15em .5em; border-bottom: 1px solid #e3e6ea }
td.name, th[data-key=name] { text-align: left; font-weight: 600 }
tr:hover td { background: #f5f7fa }
td img { width: 150px; display: block; margin-left: auto; mix-blend-mode: multiply }
.mark { border-radius: 1em; padding: .1em .7em; font-size: .85em; background: #e3e6ea }
.inside { background: #d9f2e3; color: #0c5c2f }
.near { background: #fdf0cf; color: #7a5200 }
.outside { background: #fbdcdc; color: #8c1515 }
.ramp { display: inline-block; width: 220px; height: .8em; vertical-align: middle; border-radius: 2px }
"""
_SCRIPT = """
const table = document.getElementById("ranking"), body = table.tBodies[0];
const sortBy = head => {
  const index = head.cellIndex, falling = head.getAttribute("aria-sort") === "ascending";
  const value = row => row.cells[index].dataset.value;
  const rows = [...body.rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === "" || y === "") return (x === "") - (y === "");
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
    return falling ? -order : order;
  });
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", falling ? "descending" : "ascending");
  body.append(...rows);
};
for (const head of table.tHead.rows[0].cells) {
  if (!head.dataset.key) continue;
  head.addEventListener("click", () => sortBy(head));
  head.addEventListener("keydown", event => { if (event.key === "Enter") sortBy(head); });
}
"""
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Ranking of {count} designs</title><link rel="icon" href="data:,"><style>{style}</style></head>
<body><h1>Ranking of {count} designs</h1>
{body}
<footer><p>aerosurrogate {version}. Click a column's title to sort.</p></footer>
<script>{script}</script></body></html>
"""
