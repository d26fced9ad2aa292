"""Two designs beside each other: where on the skin their drag differs, by part, and built up along the body."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from aerosurrogate.drag_sources import PARTS, DragSources
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import FlowFields
from aerosurrogate.viz.render import Shot, render
from aerosurrogate.viz.skin import corner_values
from aerosurrogate.viz.source import Scale, Source
from aerosurrogate.viz.views import WIDE, chord_curves, colour_bar, new_figure, picture

LABEL = "drag contribution of the skin, -Cp n + tau / q"


def sources_of(design: Source, baseline: Source) -> tuple[FlowFields, FlowFields]:
    """The two solutions, if they can be compared."""
    found = design.solution, baseline.solution
    if found[0] is None or found[1] is None:
        which = (design if found[0] is None else baseline).name
        remedy = "give files that `aerosurrogate predict` wrote, or solved ones with their speed"
        raise InputError("a difference of drag needs the stream", seen=which, remedy=remedy)
    if found[0].body.dimension != found[1].body.dimension:
        raise InputError("a body and a section have no difference", seen=f"{design.name}, {baseline.name}")
    return found[0], found[1]


def figure(design: Source, baseline: Source) -> Figure:
    """The design, the baseline, the difference on the design's skin; below, by part and along the body."""
    mine, other = sources_of(design, baseline)
    here, there = DragSources.of(mine), DragSources.of(other)
    counts = 1000 * (here.shares.sum() - there.shares.sum())
    title = f"{design.name} less {baseline.name}: {counts:+.1f} counts of integrated drag"
    if mine.body.dimension == 2:
        return _sections(design, baseline, here, there, title)
    scale, apart = Scale.over(here.contribution, there.contribution), Scale.over(here.less(there))
    columns = [
        (design, design.name, here.contribution, scale),
        (baseline, baseline.name, there.contribution, scale),
        (design, "difference", here.less(there), apart),
    ]
    images = render([shot(s, values, c, view) for view in ("front", "rear") for s, _, values, c in columns])
    drawn = new_figure(15, 11.2, title)
    grid = drawn.add_gridspec(3, 3, height_ratios=(1, 1, 0.9))
    panels = [[drawn.add_subplot(grid[row, column]) for column in range(3)] for row in range(2)]
    for i, axes in enumerate(panels[0] + panels[1]):
        picture(axes, images[i], columns[i][1] if i < 3 else "")
    colour_bar(drawn, scale, LABEL, [row[i] for row in panels for i in (0, 1)])
    colour_bar(drawn, apart, "difference", [row[2] for row in panels])
    _along(drawn.add_subplot(grid[2, :2]), [(design.name, here), (baseline.name, there)])
    _by_part(drawn.add_subplot(grid[2, 2]), here, there)
    return drawn


def shot(source: Source, values: np.ndarray, scale: Scale, view: str, size: tuple[int, int] = WIDE) -> Shot:
    return Shot.of(
        source.surface.corners, scale.colours(corner_values(source.surface, values)), view, source.axes, size
    )


def _along(axes: Any, designs: Sequence[tuple[str, DragSources]]) -> None:
    """Drag built up from the nose to the tail, and the difference of the first two."""
    curves = [(name, *found.along()) for name, found in designs]
    for number, (name, x, built) in enumerate(curves):
        axes.plot(x, built, color=f"C{number}", label=name)
    (_, x, first), (_, _, second) = curves[:2]
    axes.plot(x, first - second, color="C3", linestyle="--", label="difference")
    axes.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    axes.set(xlabel="body lengths from the nose", ylabel="drag coefficient of what lies ahead")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)


def _by_part(axes: Any, here: DragSources, there: DragSources) -> None:
    mine, other = here.by_part(), there.by_part()
    names = [part for part in PARTS if part in mine or part in other]
    counts = [1000 * (mine.get(part, 0.0) - other.get(part, 0.0)) for part in names]
    bars = axes.barh(names[::-1], counts[::-1], color=["#b2182b" if c > 0 else "#2166ac" for c in counts[::-1]])
    axes.bar_label(bars, fmt="%+.1f", padding=3)
    axes.axvline(0, color="0.4", linewidth=0.8)
    axes.margins(x=0.2)
    axes.set(xlabel="difference by part, counts")


def _sections(design: Source, baseline: Source, here: DragSources, there: DragSources, title: str) -> Figure:
    drawn = new_figure(13, 5.2, title)
    left, right = drawn.subplots(1, 2)
    for number, (source, found) in enumerate(((design, here), (baseline, there))):
        chord_curves(left, source.surface, found.contribution, "", colour=f"C{number}", label=source.name)
    left.set(xlabel="x / c", ylabel=LABEL, xlim=(-0.02, 1.02))
    left.grid(alpha=0.25)
    left.legend(frameon=False)
    _along(right, [(design.name, here), (baseline.name, there)])
    return drawn
