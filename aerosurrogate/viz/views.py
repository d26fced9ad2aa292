"""Figures of fields and errors: shaded bodies and flat sections, laid out with their titles and colour bars."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from aerosurrogate.flow_fields import PLANE, SURROUNDINGS, Region
from aerosurrogate.viz.render import Shot, render
from aerosurrogate.viz.source import Difference, Scale, Source

DPI = 110
WIDE, BROAD = (900, 480), (900, 330)
_CLOSE_UP = ((-0.35, 1.45), (-0.55, 0.55))  # chords: what is shown of the flow around a section


def field(sources: Sequence[Source]) -> Figure:
    """One design from several sides, or several designs side by side with one scale of colours."""
    if len({s.surface.dimension for s in sources}) > 1:
        sources = [s for s in sources if s.surface.dimension == sources[0].surface.dimension]
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


def colour_bar(figure: Figure, scale: Scale, label: str, where: Any, *, horizontal: bool = True) -> None:
    """A bar of its own space: beside or below the axes `where`, never over them."""
    shades = ScalarMappable(Normalize(scale.low, scale.high), scale.map)
    place = {"location": "bottom", "aspect": 45, "shrink": 0.7} if horizontal else {"location": "right", "shrink": 0.85}
    beyond = "max" if scale.low == 0 else "both"
    figure.colorbar(shades, ax=where, label=label, extend=beyond, pad=0.02, **place)  # type: ignore[arg-type]


def picture(axes: Any, image: NDArray, title: str = "") -> None:
    axes.imshow(image)
    axes.set_axis_off()
    axes.set_title(title, fontsize=10, color="0.35")


def plane_of(source: Source, code: int = PLANE) -> Region | None:
    regions = source.solution.around if source.solution is not None else ()
    return next((region for region in regions if region.code == code), None)


def _body(source: Source) -> Figure:
    scale = Scale.over(source.values)
    views = ("front", "rear", "side", "top")
    corners, colours = source.surface.corners, scale.colours(source.values)
    sizes = {"front": WIDE, "rear": WIDE, "side": BROAD, "top": BROAD}
    images = render([Shot.of(corners, colours, view, source.axes, sizes[view]) for view in views])
    plane = plane_of(source)
    ratios = [WIDE[1], BROAD[1]] + ([BROAD[1] * 1.25] if plane is not None else [])
    figure = new_figure(13, 13 * (sum(ratios) + 220) / 1800, source.title)
    grid = figure.add_gridspec(len(ratios), 2, height_ratios=ratios)
    panels = [figure.add_subplot(grid[i // 2, i % 2]) for i in range(4)]
    for axes, image, view in zip(panels, images, views, strict=True):
        picture(axes, image, view)
    colour_bar(figure, scale, source.label, panels)
    if plane is not None:
        _plane(figure, figure.add_subplot(grid[2, :]), source, plane)
    return figure


def _bodies(sources: Sequence[Source]) -> Figure:
    scale = Scale.over(*(s.values for s in sources))
    images = render([Shot.of(s.surface.corners, scale.colours(s.values), "front", s.axes, WIDE) for s in sources])
    columns = min(3, len(sources))
    rows = -(-len(sources) // columns)
    figure = new_figure(4.6 * columns, 2.9 * rows + 1.3, sources[0].label)
    panels = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for axes in panels[len(sources) :]:
        axes.set_axis_off()
    for axes, image, source in zip(panels, images, sources, strict=False):
        picture(axes, image)
        axes.set_title(source.title.replace("   ", "  "), fontsize=9)
    colour_bar(figure, scale, sources[0].label, list(panels))
    return figure


def _plane(figure: Figure, axes: Any, source: Source, plane: Region) -> None:
    """Speed over the free stream's in the middle plane, with streamlines."""
    assert source.solution is not None
    body, speed = source.solution.body, source.solution.conditions.speed
    corners = body.to_model(plane.points)[:, [0, 2]][plane.cells]  # (m, 4, 2)
    velocity = plane.arrays["U"] @ body.rotation.T / speed
    size = np.linalg.norm(velocity, axis=1)
    scale = Scale(0.0, float(np.quantile(size, 0.995)), signed=False)
    low = corners[:, 0].min(axis=0)
    step = corners[0, 2] - corners[0, 0]
    place = np.round((corners[:, 0] - low) / step).astype(int)
    shape = tuple(place.max(axis=0) + 1)
    values = np.full((3, *shape), np.nan)
    values[:, place[:, 0], place[:, 1]] = np.stack([size, velocity[:, 0], velocity[:, 2]])
    x, z = (low[i] + step[i] * (np.arange(shape[i]) + 0.5) for i in (0, 1))
    extent = (x[0] - step[0] / 2, x[-1] + step[0] / 2, z[0] - step[1] / 2, z[-1] + step[1] / 2)
    shown = np.ma.masked_invalid(values[0].T)
    axes.imshow(shown, origin="lower", extent=extent, cmap=scale.map, vmin=scale.low, vmax=scale.high, aspect="equal")
    axes.streamplot(
        x, z, values[1].T, values[2].T, color=(1, 1, 1, 0.6), linewidth=0.6, density=(2.4, 1.0), arrowsize=0.6
    )
    axes.set_facecolor("0.8")
    # The body as seen from the side, over cells that meet it in steps.
    sides = body.to_model(body.surface.corners.reshape(-1, 3))[:, [0, 2]].reshape(-1, 3, 2)
    axes.add_collection(PolyCollection(list(sides), facecolors="0.8", edgecolors="0.8", linewidths=0.5, zorder=5))
    axes.set(xlim=extent[:2], ylim=extent[2:], xlabel="along the flow from mid-length (m)", ylabel="height (m)")
    axes.set_title("middle plane", fontsize=10, color="0.35")
    colour_bar(figure, scale, "speed over free stream", axes, horizontal=False)


def _body_error(compared: Difference) -> Figure:
    predicted = compared.predicted
    scale, apart = Scale.over(predicted.values, compared.true), Scale.over(compared.error)
    columns = [
        ("prediction", predicted.values, scale),
        ("reference", compared.true, scale),
        ("prediction - reference", compared.error, apart),
    ]
    corners = predicted.surface.corners
    shots = [
        Shot.of(corners, s.colours(values), view, predicted.axes, WIDE)
        for view in ("front", "rear")
        for _, values, s in columns
    ]
    images = render(shots)
    figure = new_figure(15, 7.2, f"{predicted.name}: {predicted.label}, relative L2 error {compared.relative:.3f}")
    panels = figure.subplots(2, 3)
    for i, axes in enumerate(panels.ravel()):
        picture(axes, images[i], columns[i][0] if i < 3 else "")
    colour_bar(figure, scale, predicted.label, list(panels[:, :2].ravel()))
    colour_bar(figure, apart, "difference", list(panels[:, 2]))
    return figure


def _sections(sources: Sequence[Source]) -> Figure:
    """The flow around the first section, and the field over x/c of all of them."""
    first = sources[0]
    around = plane_of(first, SURROUNDINGS) if len(sources) == 1 else None
    figure = new_figure(13 if around is not None else 8, 5.6, first.title if len(sources) == 1 else "sections")
    panels = figure.subplots(1, 2, width_ratios=(1.35, 1)) if around is not None else [figure.subplots()]
    if around is not None:
        _flow_around(figure, panels[0], first, around)
    for number, source in enumerate(sources):
        label = None if len(sources) == 1 else source.name
        chord_curves(panels[-1], source.surface, source.values, source.field, colour=f"C{number}", label=label)
    _finish_chord_axes(panels[-1], first)
    return figure


def _flow_around(figure: Figure, axes: Any, source: Source, around: Region) -> None:
    from matplotlib.tri import LinearTriInterpolator, Triangulation

    assert source.solution is not None
    body, stream = source.solution.body, source.solution.conditions
    points = body.to_model(around.points) / body.length
    turned = around.arrays["U"] @ body.rotation.T / stream.speed
    size = np.linalg.norm(turned, axis=1)
    scale = Scale(0.0, float(np.quantile(size, 0.995)), signed=False)
    mesh = Triangulation(points[:, 0], points[:, 1], around.cells)
    count = np.maximum(np.bincount(around.cells.ravel(), minlength=len(points)), 1)
    at_points = np.stack(
        [np.bincount(around.cells.ravel(), np.repeat(v, 3), len(points)) / count for v in (size, *turned.T)]
    )
    axes.tripcolor(mesh, at_points[0], shading="gouraud", cmap=scale.map, vmin=scale.low, vmax=scale.high)
    x, y = (np.linspace(low, high, n) for (low, high), n in zip(_CLOSE_UP, (140, 90), strict=True))
    flow = [LinearTriInterpolator(mesh, component)(*np.meshgrid(x, y)) for component in at_points[1:]]
    axes.streamplot(x, y, *flow, color=(1, 1, 1, 0.6), linewidth=0.6, density=1.5, arrowsize=0.6)
    outline = body.to_model(body.surface.points) / body.length
    for segment in body.surface.cells:
        axes.plot(*outline[segment].T, color="black", linewidth=1.0)
    axes.set(xlim=_CLOSE_UP[0], ylim=_CLOSE_UP[1], aspect="equal", xlabel="x / c", ylabel="y / c")
    axes.set_facecolor("0.75")
    colour_bar(figure, scale, "speed over free stream", axes, horizontal=False)


def chord_curves(
    axes: Any, surface: Any, values: NDArray, field: str, *, colour: str, label: str | None = None
) -> None:
    """A skin's values over x/c: the upper side as a line, the lower side dashed."""
    centres = surface.centres
    low, high = surface.points[:, 0].min(), surface.points[:, 0].max()
    for upper, style in ((True, "-"), (False, "--")):
        side = (surface.normals[:, 1] >= 0) == upper
        order = np.argsort(centres[side, 0])
        x = (centres[side, 0][order] - low) / (high - low)
        name = label if upper else None
        name = name or (None if label else "upper side" if upper else "lower side")
        axes.plot(x, values[side][order], style, color=colour, linewidth=1.4, label=name)


def _finish_chord_axes(axes: Any, source: Source) -> None:
    axes.set(xlabel="x / c", ylabel=source.label, xlim=(-0.02, 1.02))
    if source.field in ("Cp", "p"):
        axes.invert_yaxis()  # suction up, as is the custom
    axes.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)


def _section_error(compared: Difference) -> Figure:
    predicted = compared.predicted
    figure = new_figure(12, 5, f"{predicted.name}: relative L2 error {compared.relative:.3f}")
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
