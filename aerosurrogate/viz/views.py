"""Figures of fields and errors: bodies and flat sections, laid out with their titles and colour bars."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from aerosurrogate.errors import InputError
from aerosurrogate.viz.planes import FlowPlane, flow_plane
from aerosurrogate.viz.render import Shot, render
from aerosurrogate.viz.skin import corner_values, sides
from aerosurrogate.viz.source import Difference, Scale, Source

DPI = 110
WIDE, BROAD = (900, 480), (900, 330)
_PLACES = {  # of the views of one body: the picture's size, its row, and its columns of twelve
    "front": (WIDE, 0, slice(0, 6)),
    "rear": (WIDE, 0, slice(6, 12)),
    "head on": ((420, 330), 1, slice(0, 3)),
    "side": (BROAD, 1, slice(3, 9)),
    "from behind": ((420, 330), 1, slice(9, 12)),
    "top": (BROAD, 2, slice(0, 6)),
    "underbody": (BROAD, 2, slice(6, 12)),
}


def field(sources: Sequence[Source]) -> Figure:
    """One design from several sides, or several designs side by side with one scale of colours."""
    if len({s.surface.dimension for s in sources}) > 1:
        seen = ", ".join(f"{s.name} ({s.surface.dimension}D)" for s in sources)
        raise InputError("bodies and sections make no picture together", seen=seen, remedy="draw them apart")
    if sources[0].surface.dimension == 2:
        return _sections(sources)
    return _body(sources[0]) if len(sources) == 1 else _bodies(sources)


def error(compared: Difference) -> Figure:
    """Prediction, reference and difference."""
    return _section_error(compared) if compared.predicted.surface.dimension == 2 else _body_error(compared)


def new_figure(width: float, height: float, title: str) -> Figure:
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained", facecolor="white")
    engine: Any = figure.get_layout_engine()
    engine.set(w_pad=0.12, h_pad=0.12)  # inches
    figure.suptitle(title, fontsize=13)
    return figure


def colour_bar(
    figure: Any, scale: Scale, label: str, where: Any, *, horizontal: bool = True, whole: bool = False
) -> None:
    """A bar of its own space: beside or below the axes `where`, never over them; `whole` where no value lies beyond."""
    shades = ScalarMappable(Normalize(scale.low, scale.high), scale.map)
    place = {"location": "bottom", "aspect": 45, "shrink": 0.7} if horizontal else {"location": "right", "shrink": 0.85}
    beyond = "neither" if whole else "max" if scale.low == 0 else "both"
    bar = figure.colorbar(shades, ax=where, label=label, extend=beyond, pad=0.02, **place)
    if horizontal and len(where) <= 2:  # of a narrow one the numbers would run into each other
        bar.ax.locator_params(nbins=4)


def picture(axes: Any, image: NDArray, title: str = "") -> None:
    axes.imshow(image)
    axes.set_axis_off()
    axes.set_title(title, fontsize=10, color="0.35")


def _skin_shot(source: Source, scale: Scale, view: str, size: tuple[int, int], values: NDArray | None = None) -> Shot:
    shown = source.values if values is None else values
    colours = scale.colours(corner_values(source.surface, shown))
    return Shot.of(source.surface.corners, colours, view, source.axes, size)


def _body(source: Source) -> Figure:
    plane = flow_plane(source)
    if source.in_air and plane is not None:
        return _planes([plane], source.title)
    scale = Scale.over(source.values)
    images = render([_skin_shot(source, scale, view, size) for view, (size, *_) in _PLACES.items()])
    heights = [WIDE[1], BROAD[1], BROAD[1]] + ([1.25 * BROAD[1]] if plane is not None else [])
    figure = new_figure(13, 13 * (sum(heights) + 260) / 1800, source.title)
    grid = figure.add_gridspec(len(heights), 12, height_ratios=heights)
    panels = []
    for (view, (_, row, columns)), image in zip(_PLACES.items(), images, strict=True):
        panels.append(figure.add_subplot(grid[row, columns]))
        picture(panels[-1], image, view)
    colour_bar(figure, scale, source.label, panels)
    if plane is not None:
        draw_plane(figure, figure.add_subplot(grid[3, :]), plane)
    return figure


def _bodies(sources: Sequence[Source]) -> Figure:
    found = [flow_plane(s) for s in sources] if sources[0].in_air else []
    if planes := [plane for plane in found if plane is not None]:
        return _planes(planes, planes[0].label)
    scale = Scale.over(*(s.values for s in sources))
    images = render([_skin_shot(s, scale, "front", WIDE) for s in sources])
    columns = min(3, len(sources))
    rows = -(-len(sources) // columns)
    figure = new_figure(4.6 * columns, 2.9 * rows + 1.3, sources[0].label)
    panels = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for axes in panels[len(sources) :]:
        axes.set_axis_off()
    for axes, image, source in zip(panels, images, sources, strict=False):
        picture(axes, image)
        axes.set_title(source.title.replace("   ", "\n", 1).replace("   ", "  "), fontsize=8)
    colour_bar(figure, scale, sources[0].label, list(panels))
    return figure


def _planes(planes: Sequence[FlowPlane], title: str) -> Figure:
    """The flow in a plane of each design, one below the other, with as much room as the widest takes."""
    tall = 4.0 if planes[0].source.surface.dimension == 3 else 5.4  # inches
    widest = max(np.ptp(plane.x) / np.ptp(plane.y) for plane in planes)
    wide = min(13.0, tall * widest + 2.2)
    figure = new_figure(wide, ((wide - 2.2) / widest + 1.7) * len(planes), title)
    for axes, plane in zip(np.atleast_1d(figure.subplots(len(planes), 1)), planes, strict=True):
        draw_plane(figure, axes, plane)
        if len(planes) > 1:
            axes.set_title(plane.source.title, fontsize=9)
    return figure


def draw_plane(figure: Any, axes: Any, plane: FlowPlane) -> None:
    """What a plane shows, with streamlines and the body's true section."""
    scale = plane.scale
    extent = (plane.x[0], plane.x[-1], plane.y[0], plane.y[-1])
    axes.imshow(
        plane.values, origin="lower", extent=extent, cmap=scale.map, vmin=scale.low, vmax=scale.high, aspect="equal",
        interpolation="nearest",
    )  # fmt: skip
    wider = 1.5 * (extent[1] - extent[0]) / (extent[3] - extent[2]) / 2
    lines = [line for line in plane.streamlines((1.5 * max(1.0, wider), 1.2)) if len(line) > 1]
    axes.add_collection(LineCollection(lines, colors=[(1, 1, 1, 0.6)], linewidths=0.6))
    axes.add_collection(LineCollection(list(plane.outline), colors="black", linewidths=1.0, zorder=5))
    axes.set_facecolor("0.8")
    across, upward = plane.axis_titles
    axes.set(xlim=extent[:2], ylim=extent[2:], xlabel=across, ylabel=upward)
    axes.set_title(plane.title, fontsize=10, color="0.35")
    colour_bar(figure, scale, plane.label, axes, horizontal=False)


def _body_error(compared: Difference) -> Figure:
    predicted = compared.predicted
    scale, apart = Scale.over(predicted.values, compared.true), Scale.over(compared.error, signed=True)
    columns = [
        ("prediction", predicted.values, scale),
        (compared.called, compared.true, scale),
        (f"prediction - {compared.called}", compared.error, apart),
    ]
    shots = [_skin_shot(predicted, s, view, WIDE, values) for view in ("front", "rear") for _, values, s in columns]
    images = render(shots)
    figure = new_figure(15, 7.2, f"{predicted.title}   relative L2 error {compared.relative:.3f}")
    panels = figure.subplots(2, 3)
    for i, axes in enumerate(panels.ravel()):
        picture(axes, images[i], columns[i][0] if i < 3 else "")
    colour_bar(figure, scale, predicted.label, list(panels[:, :2].ravel()))
    colour_bar(figure, apart, "difference", list(panels[:, 2]))
    return figure


def _sections(sources: Sequence[Source]) -> Figure:
    """The flow around the first section, and the field over x/c of all of them."""
    first = sources[0]
    plane = flow_plane(first) if len(sources) == 1 or first.in_air else None
    if first.in_air and plane is not None:
        rest = [flow_plane(source) for source in sources[1:]]
        return _planes([plane, *(p for p in rest if p is not None)], first.title if len(sources) == 1 else plane.label)
    figure = new_figure(13 if plane is not None else 8, 5.6, first.title if len(sources) == 1 else first.label)
    panels = figure.subplots(1, 2, width_ratios=(1.5, 1)) if plane is not None else [figure.subplots()]
    if plane is not None:
        draw_plane(figure, panels[0], plane)
    for number, source in enumerate(sources):
        label = None if len(sources) == 1 else source.title.partition("   Cd")[0].replace("   ", ", ")
        chord_curves(panels[-1], source.surface, source.values, source.field, colour=f"C{number}", label=label)
    _finish_chord_axes(panels[-1], first)
    return figure


def chord_curves(
    axes: Any, surface: Any, values: NDArray, field: str, *, colour: str, label: str | None = None
) -> None:
    """A skin's values over x/c: the upper side as a line, the lower side dashed."""
    for (upper, x, along), style in zip(sides(surface, values), ("-", "--"), strict=True):
        name = label if upper else None
        name = name or (None if label else "upper side" if upper else "lower side")
        axes.plot(x, along, style, color=colour, linewidth=1.4, label=name)


def _finish_chord_axes(axes: Any, source: Source) -> None:
    axes.set(xlabel="x / c", ylabel=source.label, xlim=(-0.02, 1.02))
    if source.field in ("Cp", "p"):
        axes.invert_yaxis()  # suction up, as is the custom
    axes.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)


def _section_error(compared: Difference) -> Figure:
    predicted = compared.predicted
    figure = new_figure(12, 5, f"{predicted.title}   relative L2 error {compared.relative:.3f}")
    left, right = figure.subplots(1, 2)
    chord_curves(left, predicted.surface, predicted.values, predicted.field, colour="C0", label="prediction")
    chord_curves(left, predicted.surface, compared.true, predicted.field, colour="0.2", label="reference")
    _finish_chord_axes(left, predicted)
    chord_curves(right, predicted.surface, compared.error, "", colour="C3")
    right.set(xlabel="x / c", ylabel=f"prediction - reference, {predicted.label}", xlim=(-0.02, 1.02))
    right.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    right.grid(alpha=0.25)
    right.legend(frameon=False)
    return figure
