"""The part of a ranking's page that compares with the baseline: by part, on the skin, and along the body."""

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from aerosurrogate.coeffs import Ranking
from aerosurrogate.drag_sources import PARTS, DragSources
from aerosurrogate.flow_fields import FlowFields, Row
from aerosurrogate.viz.difference import shot
from aerosurrogate.viz.page import embedded, rounded
from aerosurrogate.viz.source import Scale, Source

SHOWN = 6  # designs whose skin is drawn
CURVES = 12
PICTURE = (420, 224)


def section(ranking: Ranking, sources: Mapping[str, Source], image: Callable[[np.ndarray], str]) -> str:
    """Markup; empty where there is nothing to compare."""
    base = ranking.designs[ranking.baseline or ""]
    rows = [r for r in ranking.rows if r["file"] != ranking.baseline and _alike(ranking.designs[r["file"]], base)]
    if not rows:
        return ""
    there = DragSources.of(base)
    found = {row["file"]: DragSources.of(ranking.designs[row["file"]]) for row in rows}
    parts = [
        f"<h2>Where drag differs from {html.escape(base.body.name)}</h2>",
        "<p>Integrated over the skin, -C<sub>p</sub> n + tau / q of each face along the stream; counts are 0.001.</p>",
    ]
    if base.body.dimension == 3:
        parts += [_table(rows, found, there), _pictures(rows[:SHOWN], found, there, sources, image)]
    return "\n".join([*parts, embedded(_curves(rows[:CURVES], found, there), library=False)])


def _alike(design: FlowFields, base: FlowFields) -> bool:
    return design.body.dimension == base.body.dimension


def _table(rows: Sequence[Row], found: Mapping[str, DragSources], there: DragSources) -> str:
    """Counts by part, and what the estimate says in all."""
    other = there.by_part()
    names = [part for part in PARTS if part in other or any(part in s.by_part() for s in found.values())]
    head = "".join(f"<th>{name}</th>" for name in ("design", *names, "integrated", "estimate"))
    lines = []
    for row in rows:
        mine = found[row["file"]]
        counts = [1000 * (mine.by_part().get(name, 0.0) - other.get(name, 0.0)) for name in names]
        counts.append(1000 * float(mine.shares.sum() - there.shares.sum()))
        low, high = row["cd_counts_low"], row["cd_counts_high"]
        told = "–" if low is None or high is None else f"{row['cd_counts']:+.0f} ± {(high - low) / 2:.0f}"
        cells = "".join(f"<td>{value:+.1f}</td>" for value in counts)
        lines.append(f"<tr><td class=name>{html.escape(row['name'])}</td>{cells}<td>{told}</td></tr>")
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f"<div class=wide><table class=parts>{body}</table></div>"


def _pictures(
    rows: Sequence[Row],
    found: Mapping[str, DragSources],
    there: DragSources,
    sources: Mapping[str, Source],
    image: Callable[[np.ndarray], str],
) -> str:
    """The difference on each design's own skin, front and rear, in one scale of colours."""
    from aerosurrogate.viz.render import render

    changes = {row["file"]: found[row["file"]].less(there) for row in rows}
    scale = Scale.over(*changes.values())
    views = ("front", "rear")
    shots = [shot(sources[f], values, scale, view, PICTURE) for f, values in changes.items() for view in views]
    drawn = iter(render(shots))
    figures = [
        f"<figure><img alt=front src='{image(next(drawn))}'><img alt=rear src='{image(next(drawn))}'>"
        f"<figcaption>{html.escape(row['name'])}</figcaption></figure>"
        for row in rows
    ]
    colours = f"from {scale.low:.2f} (blue, less drag) to {scale.high:.2f} (red, more)"
    return f"<div class=changes>{''.join(figures)}</div><p class=scale>Difference of the contribution, {colours}</p>"


def _curves(rows: Sequence[Row], found: Mapping[str, DragSources], there: DragSources) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    for row in rows:
        x, built = found[row["file"]].along()
        figure.add_scatter(x=rounded(x), y=rounded(1000 * (built - there.along()[1])), mode="lines", name=row["name"])
    figure.update_layout(
        template="plotly_white", height=420, margin={"l": 70, "r": 20, "t": 10, "b": 60},
        xaxis={"title": "body lengths from the nose"},
        yaxis={"title": "drag of what lies ahead, less the baseline's: counts"},
    )  # fmt: skip
    return figure
