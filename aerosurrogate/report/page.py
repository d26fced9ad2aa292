"""A ranking as one HTML page: table, pictures, any design to turn around or two beside each other, the truth.

Everything is in the file; it opens offline.
"""

import base64
import html
import io
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from aerosurrogate import __version__, console, report
from aerosurrogate.coeffs import STRANGERS, Ranking, change, ranks
from aerosurrogate.decision.decide import stranger
from aerosurrogate.flow_fields import FlowFields, Row, interval
from aerosurrogate.report.workbook import write_workbook
from aerosurrogate.trust.agreement import in_words
from aerosurrogate.viz.page import body_figure, embedded, library, rounded, section_figure
from aerosurrogate.viz.render import Shot, render
from aerosurrogate.viz.skin import corner_values
from aerosurrogate.viz.source import Scale, Source
from aerosurrogate.writing import write_text

THUMBNAIL = (240, 128)
TRIANGLES = 90_000  # of all skins of a page: some 2 MB
FEWEST = 1500  # of one skin


@dataclass(frozen=True)
class Column:
    """What a column holds, for those who read it; `mid` ones fold on narrow pages, `more` ones unless asked for."""

    key: str
    title: str
    unit: str
    help: str
    text: str = "{:.4f}"
    fold: str = ""


COLUMNS = (
    Column("rank", "#", "", "Place in the order asked for; designs that cannot be told apart share places", "{:d}"),
    Column("name", "design", "", "The file's name", "{}"),
    Column(
        "cd", "C<sub>d</sub>", "–", "Drag over dynamic pressure and area: the best estimate, with its 90 % interval"
    ),
    Column("cd_true", "true C<sub>d</sub>", "–", "From the reference table"),
    Column("cd_error", "error", "–", "Of the estimate, relative to the truth", "{:+.1%}"),
    Column("trust", "trust", "", "Whether shape and stream lie within what the model was trained on", "{}"),
    Column("cd_counts", "against baseline", "counts", "Drag less the baseline's, in thousandths", "{:+.0f}"),
    Column("chance_best", "best", "chance", "The chance that this design has the lowest drag of all", "{:.0%}"),
    Column("chance_better", "better", "chance", "The chance that it beats the baseline", "{:.0%}"),
    Column(
        "cl", "C<sub>l</sub>", "–", "Lift over dynamic pressure and area: the best estimate, with its 90 % interval"
    ),
    Column("ld", "L/D", "–", "Lift over drag", "{:.2f}", fold="more"),
    Column("cm", "C<sub>m</sub>", "–", "Pitching moment, nose-up positive, over q, area and length", fold="mid"),
    Column("cs", "C<sub>s</sub>", "–", "Side force over dynamic pressure and reference area", fold="more"),
    Column("cda_m2", "C<sub>d</sub>A", "m²", "Drag coefficient times reference area", "{:.4f}", fold="more"),
    Column("cl_front", "C<sub>l</sub> front", "–", "Lift on the front axle", fold="more"),
    Column("cl_rear", "C<sub>l</sub> rear", "–", "Lift on the rear axle", fold="more"),
    Column("drag_n", "drag", "N", "Drag; per metre of span for sections", "{:.4g}", fold="mid"),
    Column("lift_n", "lift", "N", "Lift; per metre of span for sections", "{:.4g}", fold="mid"),
    Column("side_n", "side force", "N", "Force across the stream", "{:.4g}", fold="more"),
    Column(
        "cd_integrated", "C<sub>d</sub> integrated", "–", "From pressure and shear summed over the skin", fold="more"
    ),
    Column(
        "cl_integrated", "C<sub>l</sub> integrated", "–", "From pressure and shear summed over the skin", fold="more"
    ),
    Column("cd_pressure", "C<sub>d</sub> pressure", "–", "The part of the integral that pressure makes", fold="more"),
    Column("cd_friction", "C<sub>d</sub> friction", "–", "The part of the integral that wall shear makes", fold="more"),
    Column("area_m2", "area", "m²", "Reference area", "{:.3f}", fold="more"),
    Column("length_m", "length", "m", "Along the stream; the chord of a section", "{:.3f}", fold="more"),
    Column("speed", "speed", "m/s", "Of the free stream", "{:.4g}"),
    Column("alpha", "angle", "°", "Angle of attack", "{:g}"),
    Column("reynolds", "Re", "million", "Reynolds number on the length", "{:.3g}", fold="mid"),
)
_WORDS: dict[str, Callable[[Row], str]] = {  # what is known to lie within bounds is said with them
    "rank": ranks, "cd": lambda row: interval(row, "cd"), "cl": lambda row: interval(row, "cl"), "cd_counts": change,
}  # fmt: skip
_DERIVED = {  # columns that say nothing where nothing can be said of the coefficient
    "cd": ("cd", "ld", "cda_m2", "drag_n", "cd_integrated", "cd_pressure", "cd_friction"),
    "cl": ("cl", "ld", "cl_front", "cl_rear", "lift_n", "cl_integrated", "cm"),
}
STREAM = ("speed", "alpha", "reynolds")  # columns where designs differ in it, else one line for all


def write_report(ranking: Ranking, path: Path, opening: str = "") -> None:
    """Write the page; `opening` is markup to stand before the table."""
    write_text(path, page(ranking, opening))
    console.note(f"report written to {path}")


def page(ranking: Ranking, opening: str = "") -> str:
    rows = [_with_truth(row, ranking) for row in ranking.rows]
    sources = {row["file"]: source_of(ranking.designs[row["file"]]) for row in rows}
    solid = [s for s in sources.values() if s.surface.dimension == 3]
    scale = Scale.over(*(s.values for s in solid or sources.values()))
    pictures = dict(zip(sources, _pictures(list(sources.values()), scale), strict=True))
    tables = _tables(ranking, rows, pictures)
    sections = [
        opening,
        _conditions(ranking, rows),
        _controls(ranking, rows),
        *tables,
        f"<p class=scale>Pressure coefficient on the skin {_legend(scale)}</p>" if solid else "",
        _views(rows, sources, scale),
    ]
    if ranking.baseline is not None:
        from aerosurrogate.report import changes

        sections.append(changes.section(ranking, sources, _image))
    if ranking.comparison:
        sections += [
            "<h2>Against the truth</h2>",
            *(f"<p>{html.escape(line)}</p>" for line in in_words(ranking.comparison).splitlines()),
            embedded(_scatter(rows), library=False),
        ]
    kinds = ranking.kinds(ranking.rows)
    for kind, listed in kinds.items():
        drawn = [dict(row) for row in listed if row["cd_low"] is not None]
        if len(drawn) > 1:
            whose = f" of {kind}" if len(kinds) > 1 else ""
            sections += [f"<h2>Drag{whose}, with 90 % intervals</h2>", embedded(_bars(drawn), library=False)]
    if ranking.suggested:
        advice = html.escape(ranking.advice().removeprefix("solve next: "))
        command = html.escape(ranking.simulation(*ranking.suggested))
        sections += ["<h2>Solve next</h2>", f"<p>{advice}.</p><pre>{command}</pre>"]
    sections += _remarks(rows, ranking.failed)
    return _PAGE.format(
        body="\n".join(sections), version=__version__, count=len(rows), style=report.text("report.css"),
        script=report.text("report.js"), library=library(),
    )  # fmt: skip


def source_of(design: FlowFields) -> Source:
    """The pressure coefficient of a design."""
    body = design.body
    coefficient = design.skin["p"] / design.conditions.dynamic_pressure
    axes = body.wind_axes(design.conditions)
    return Source(body.name, body.surface, axes, "Cp", "-", np.asarray(coefficient, dtype=float), design)


def _with_truth(row: Row, ranking: Ranking) -> dict[str, Any]:
    true = ranking.truth.get(row["name"], {}).get("cd")
    return {**row, "cd_true": true, "cd_error": row["cd"] / true - 1 if true else None}


def _conditions(ranking: Ranking, rows: Sequence[dict[str, Any]]) -> str:
    """All that the numbers refer to."""
    known = ranking.reference
    numbers = sorted(row["reynolds"] / 1e6 for row in rows)
    span = f"{numbers[0]:.3g}" if numbers[-1] < 1.01 * numbers[0] else f"{numbers[0]:.3g} to {numbers[-1]:.3g}"
    flat = "turned" in str(known["flow"])
    entries = {
        "speed": "{:.4g} m/s", "Reynolds number": "{} million", "alpha": "{:g}°", "density": "{:g} kg/m³",
        "viscosity": "{:g} m²/s", "area": "{}", "flow": "{}", "up": "{}", "ground": "{}", "moment_about": "{}",
        "symmetry": "{}", "pressure": "{}", "model": "{}",
    }  # fmt: skip
    shown = known | {"Reynolds number": span, "alpha": known["alpha"] if flat else None}
    words = {"alpha": "angle of attack", "area": "reference area", "moment_about": "moment about (nose-up positive)"}
    parts = [
        f"<span>{words.get(key, key)} <b>{html.escape(text.format(shown[key]))}</b></span>"
        for key, text in entries.items()
        if shown.get(key) is not None
    ]
    return f"<div class=conditions>{''.join(parts)}</div>"


def _controls(ranking: Ranking, rows: Sequence[dict[str, Any]]) -> str:
    """Filter by trust, all columns, and the table as a file."""
    counts = {mark: sum(r["trust"] == mark for r in rows) for mark in ("inside", "near", "outside", None)}
    boxes = [
        f"<label><input type=checkbox class=trust value={mark or 'unknown'} checked> "
        f"<span class='mark {mark}'>{mark or 'unknown'}</span> {count}</label>"
        for mark, count in counts.items()
        if count
    ]
    files = {"CSV": ("ranking.csv", ranking.csv_text().encode()), "Excel": ("ranking.xlsx", _workbook(ranking))}
    links = [
        f"<a class=button download={name} href='data:application/octet-stream;base64,"
        f"{base64.b64encode(data).decode()}'>{words}</a>"
        for words, (name, data) in files.items()
    ]
    return (
        f"<div class=controls><span>Trust</span>{''.join(boxes)}<label><input type=checkbox id=columns> all columns"
        f"</label><span>{' '.join(links)}</span></div>"
    )


def _workbook(ranking: Ranking) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ranking.xlsx"
        write_workbook(ranking, path)
        return path.read_bytes()


def _views(rows: Sequence[dict[str, Any]], sources: dict[str, Source], scale: Scale) -> str:
    """Two stages on which any design can be turned around, and what they show, as data."""
    best = next((r for r in rows if r["trust"] != "outside"), rows[0])
    names = "".join(f"<option value='{_quoted(r['file'])}'>{html.escape(r['name'])}</option>" for r in rows)
    chosen = names.replace(f"'{_quoted(best['file'])}'>", f"'{_quoted(best['file'])}' selected>", 1)
    most = max(FEWEST, TRIANGLES // len(rows))
    data = []
    for file, source in sources.items():
        solid = source.surface.dimension == 3
        figure = body_figure(source, scale=scale, most=most) if solid else section_figure(source)
        figure.update_layout(template="none", font={"family": "system-ui, sans-serif", "size": 12})
        text = figure.to_json().replace("</", "<\\/")
        data.append(f"<script type='application/json' class=figure data-file='{_quoted(file)}'>{text}</script>")
    return (
        "<h2>Turn and compare</h2>"
        f"<div class=views><div class=pane><select>{chosen}</select><div class=stage></div></div>"
        f"<div class=pane hidden><select><option value=''>–</option>{names}</select><div class=stage></div></div></div>"
        + "".join(data)
    )


def _pictures(sources: Sequence[Source], scale: Scale) -> list[list[str]]:
    """Small pictures of each design, as the text of images' addresses: front and rear, or a section's pressure."""
    shots = []
    for s in sources:
        if s.surface.dimension == 3:
            colours = scale.colours(corner_values(s.surface, s.values))
            shots += [Shot.of(s.surface.corners, colours, view, s.axes, THUMBNAIL) for view in ("front", "rear")]
    drawn = iter(render(shots) if shots else [])
    return [
        [_image(next(drawn)), _image(next(drawn))] if s.surface.dimension == 3 else [_image(_section(s))]
        for s in sources
    ]


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
    Image.fromarray(pixels).save(buffer, "WEBP", quality=90)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _tables(ranking: Ranking, rows: Sequence[dict[str, Any]], pictures: dict[str, list[str]]) -> list[str]:
    """Bodies and sections apart, and apart from both what nobody should compare."""
    kinds = ranking.kinds(ranking.rows)
    tables = []
    for kind, listed in kinds.items():
        files = {row["file"] for row in listed}
        for apart in (False, True):
            title = [kind] * (len(kinds) > 1) + [STRANGERS] * apart  # "bodies outside what the model has seen"
            some = [row for row in rows if row["file"] in files and stranger(cast(Row, row)) == apart]
            tables += [_table(some, pictures, " ".join(title))] if some else []
    return tables


def _table(rows: Sequence[dict[str, Any]], pictures: dict[str, list[str]], title: str) -> str:
    columns = [c for c in COLUMNS if any(r.get(c.key) is not None for r in rows)]
    if stranger(cast(Row, rows[0])):  # places are for those that can be compared
        columns = [c for c in columns if c.key != "rank"]
    columns = [c for c in columns if c.key not in STREAM or len({c.text.format(r[c.key]) for r in rows}) > 1]
    heads = [
        f"<th data-key={c.key} tabindex=0 title='{_quoted(c.help)}'{_folded(c)}>{c.title}"
        f"<small>{c.unit or '&nbsp;'}</small></th>"
        for c in columns
    ]
    views = "front, rear" if len(pictures[rows[0]["file"]]) == 2 else "along the chord"
    after = [c.key for c in columns].index("name") + 1
    heads.insert(after, f"<th>C<sub>p</sub><small>{views}</small></th>")
    lines = []
    for row in rows:
        cells = [_cell(row, c) for c in columns]
        images = "".join(f"<img src='{image}' alt='{_quoted(row['name'])}'>" for image in pictures[row["file"]])
        buttons = "<button data-pane=0>view</button> <button data-pane=1>beside</button>"
        cells.insert(after, f"<td class=pictures>{images}<br>{buttons}</td>")
        mark = row["trust"] or "unknown"
        lines.append(f"<tr data-file='{_quoted(row['file'])}' data-trust={mark}>{''.join(cells)}</tr>")
    title = f"<h2>{title[0].upper()}{title[1:]}</h2>" if title else ""
    head = f"<thead><tr>{''.join(heads)}</tr></thead>"
    return f"{title}<div class=wide><table class=ranking>{head}<tbody>{''.join(lines)}</tbody></table></div>"


def _cell(row: dict[str, Any], column: Column) -> str:
    value, more = row.get(column.key), _folded(column)
    if column.key == "trust":
        order = {"inside": 0, "near": 1, "outside": 2}.get(value or "", 3)
        why = _quoted("\n".join(row["reasons"]) or "like the training set")
        return f"<td data-value={order} title='{why}'><span class='mark {value}'>{value or '–'}</span></td>"
    if value is None or any(_silent(cast(Row, row), of) for of, keys in _DERIVED.items() if column.key in keys):
        return f"<td data-value=''{more}>–</td>"
    if isinstance(value, str):
        return f"<td class=name data-value='{_quoted(value)}' title='{_quoted(value)}'>{html.escape(value)}</td>"
    shown = column.text.format(value / 1e6 if column.key == "reynolds" else value)
    if (words := _WORDS.get(column.key)) is not None:
        shown = words(cast(Row, row))
    return f"<td data-value={value!r}{more}>{html.escape(shown)}</td>"


def _silent(row: Row, key: str) -> bool:
    """Whether nothing can be said of a coefficient."""
    return interval(row, key) == "-"


def _folded(column: Column) -> str:
    return f" class={column.fold}" if column.fold else ""


def _quoted(text: str) -> str:
    return html.escape(text, quote=True)


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


def _bars(rows: Sequence[dict[str, Any]]) -> Any:
    """Each design's drag with its interval, best on top, in the colour of its trust."""
    import plotly.graph_objects as go

    known = list(reversed(rows))
    figure = go.Figure()
    for mark, colour in {"inside": "#1b8a4b", "near": "#c98a00", "outside": "#b32121", None: "#5b6470"}.items():
        some = [row for row in known if row["trust"] == mark]
        reach = [[r["cd_high"] - r["cd"] for r in some], [r["cd"] - r["cd_low"] for r in some]]
        figure.add_scatter(
            x=[r["cd"] for r in some], y=[r["name"] for r in some], mode="markers", name=mark or "unknown",
            marker={"color": colour, "size": 8}, showlegend=bool(some),
            error_x={"type": "data", "symmetric": False, "array": reach[0], "arrayminus": reach[1], "color": colour},
        )  # fmt: skip
    order = {"categoryorder": "array", "categoryarray": [row["name"] for row in known]}
    figure.update_layout(
        template="plotly_white", height=140 + 24 * len(known), margin={"l": 10, "r": 20, "t": 40, "b": 50},
        xaxis={"title": "drag coefficient"}, yaxis={**order, "automargin": True},
        legend={"orientation": "h", "x": 0.0, "y": 1.0, "yanchor": "bottom"},
    )  # fmt: skip
    return figure


def _remarks(rows: Sequence[dict[str, Any]], failed: dict[str, str]) -> list[str]:
    """Why some answers cannot be trusted, what was done to the shapes, and what was left out."""
    doubts = [(r["name"], f"{r['trust']}: {reason}") for r in rows for reason in r["reasons"][:3]]
    notes = [(r["name"], text) for r in rows for text in r["notes"]]
    gone = [(file, why.removeprefix(f"{file}: ")) for file, why in failed.items()]
    parts = []
    for title, entries in (("Trust", doubts), ("Left out", gone), ("Notes", notes)):
        if entries:
            lines = "".join(f"<li><b>{html.escape(who)}</b> {html.escape(text)}</li>" for who, text in entries)
            body = f"<ul>{lines}</ul>"
            shown = f"<details><summary>{len(entries)} notes</summary>{body}</details>" if title == "Notes" else body
            parts.append(f"<h2>{title}</h2>{shown}")
    return parts


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Ranking of {count} designs</title><link rel="icon" href="data:,"><style>{style}</style>
<script>{library}</script></head>
<body><h1>Ranking of {count} designs</h1>
{body}
<footer><p>aerosurrogate {version}. Click a column's title to sort; hover over it to see what it means.</p></footer>
<script>{script}</script></body></html>
"""
