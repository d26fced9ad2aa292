"""Interactive pages: one HTML file each, with everything in it."""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.flow_fields import PLANE, SURROUNDINGS
from aerosurrogate.viz import history as runs
from aerosurrogate.viz.source import Difference, Scale, Source
from aerosurrogate.viz.views import plane_of

_SCALES = {"RdBu_r": "RdBu_r", "viridis": "Viridis"}
_AXIS = {"visible": False, "showbackground": False}


def field(source: Source) -> str:
    figure = section_figure(source) if source.surface.dimension == 2 else body_figure(source)
    return document(figure, source.title)


def error(compared: Difference) -> str:
    predicted = compared.predicted
    title = f"{predicted.name}: relative L2 error {compared.relative:.3f}"
    if predicted.surface.dimension == 2:
        figure = _curves_figure(
            [("prediction", predicted.values), ("reference", compared.true)], predicted, predicted.label
        )
        return document(figure, title)
    choices = {"prediction": predicted.values, "reference": compared.true, "difference": compared.error}
    return document(_switched(predicted, choices, predicted.label), title)


def slices(source: Source) -> str:
    from aerosurrogate.viz.slices import weights

    shown = dict(weights(source))
    if source.surface.dimension == 2:
        return document(_curves_figure(list(shown.items()), source, "slice weight"), source.name)
    return document(_switched(source, shown, "slice weight"), f"{source.name}: learned slices")


def history(folders: Sequence[Path]) -> str:
    import plotly.graph_objects as go

    figure = go.Figure()
    for folder in folders:
        for key, (steps, values) in runs.curves(folder).items():
            if key != "learning_rate":
                figure.add_scatter(x=steps, y=values, name=f"{folder.resolve().name}: {key}", mode="lines")
    figure.update_layout(xaxis_title="step", yaxis={"title": "loss", "type": "log", "exponentformat": "power"})
    return document(figure, "training history")


def body_figure(source: Source, height: int = 640) -> Any:
    """The coloured skin, to be turned, and the speed in the middle plane, to be switched on in the legend."""
    import plotly.graph_objects as go

    figure = go.Figure([_skin(source, source.values, Scale.over(source.values), plain(source.label))])
    plane = plane_of(source, PLANE)
    if plane is not None and source.solution is not None:
        size = np.linalg.norm(plane.arrays["U"], axis=1) / source.solution.conditions.speed
        triangles = plane.cells[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)
        scale = Scale(0.0, float(np.quantile(size, 0.995)), signed=False)
        bar = {"title": {"text": "speed over free stream", "side": "right"}, "x": 1.1, "len": 0.8}
        figure.add_trace(
            _triangles(plane.points, triangles, np.repeat(size, 2), scale, bar, "middle plane", visible="legendonly")
        )
    return _staged(figure, source, height)


def section_figure(source: Source) -> Any:
    """Values over x/c, and the speed around the section where it is known."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    curves = _curves_figure([("", source.values)], source, source.label)
    around = plane_of(source, SURROUNDINGS)
    if around is None or source.solution is None:
        return curves
    figure = make_subplots(1, 2, column_widths=[0.6, 0.4], horizontal_spacing=0.1)
    figure.update_layout(template="plotly_white")
    body, speed = source.solution.body, source.solution.conditions.speed
    size = np.linalg.norm(around.arrays["U"], axis=1) / speed
    x, y, shown = _image_of(body.to_model(around.points[around.cells].mean(axis=1)) / body.length, size)
    bar = {"title": "speed over free stream", "orientation": "h", "x": 0.29, "y": -0.32, "len": 0.5, "thickness": 14}
    picture = go.Heatmap(
        x=x, y=y, z=shown, colorscale="Viridis", zsmooth="best", colorbar=bar, zmin=0,
        hovertemplate="%{z:.3f}<extra></extra>",
    )  # fmt: skip
    figure.add_trace(picture, 1, 1)
    outline = body.to_model(body.surface.corners.reshape(-1, 2)) / body.length
    lines = _chained(outline.reshape(-1, 2, 2))
    figure.add_trace(
        go.Scatter(
            x=rounded(lines[:, 0]), y=rounded(lines[:, 1]), mode="lines", fill="toself", fillcolor="#ddd",
            line={"color": "black", "width": 1.5}, showlegend=False, hoverinfo="skip",
        ), 1, 1,
    )  # fmt: skip
    for trace in curves.data:
        figure.add_trace(trace, 1, 2)
    figure.update_xaxes(title="x / c")
    figure.update_yaxes(title="y / c", scaleanchor="x", constrain="domain", row=1, col=1)
    figure.update_xaxes(constrain="domain", row=1, col=1)
    figure.update_layout(height=520, legend={"x": 0.98, "y": 0.98, "xanchor": "right"})
    figure.update_yaxes(title=plain(source.label), autorange=_direction(source), row=1, col=2)
    return figure


def _image_of(centres: NDArray, values: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Scattered values around a section on a regular grid of chords: x, y and the values, three digits each."""
    from scipy.interpolate import LinearNDInterpolator

    x, y = np.linspace(-0.5, 1.6, 211), np.linspace(-0.6, 0.6, 121)
    return x.round(3), y.round(3), LinearNDInterpolator(centres, values)(*np.meshgrid(x, y)).round(3)


def _chained(segments: NDArray) -> NDArray:
    """Segments (m, 2, 2) of a closed outline as one line (n, 2), each starting where another ends."""
    after = {tuple(np.round(start, 9)): end for start, end in segments}
    line = [segments[0, 0]]
    while len(line) <= len(segments) and tuple(np.round(line[-1], 9)) in after:
        line.append(after.pop(tuple(np.round(line[-1], 9))))
    return np.array(line)


def document(figure: Any, title: str) -> str:
    """A page that opens offline: the library is in it."""
    figure.update_layout(template="plotly_white", margin={"l": 60, "r": 20, "t": 20, "b": 50})
    body = embedded(figure)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(plain(title))}</title><link rel='icon' href='data:,'>"
        "<style>body{font:15px/1.45 system-ui,sans-serif;margin:1.2em;color:#222}h1{font-size:1.15em;font-weight:600}"
        f"</style></head><body><h1>{html.escape(plain(title))}</h1>{body}</body></html>\n"
    )


def embedded(figure: Any, *, library: bool = True) -> str:
    """A figure as a part of a page; one of them has to bring the library along."""
    tools = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["select2d", "lasso2d"]}
    return str(figure.to_html(full_html=False, include_plotlyjs=library, config=tools))


def plain(text: str) -> str:
    """A label without the formula marks that matplotlib understands."""
    return text.replace("$C_p$", "Cp").replace("$C_d$", "Cd").replace("$C_l$", "Cl")


def rounded(values: NDArray) -> NDArray:
    """Four or five digits: enough for the eye, and a file of a quarter of the size."""
    values = np.asarray(values, dtype=float)
    reach = float(np.nanmax(np.abs(values), initial=0.0))
    return np.round(values, 5 - int(np.ceil(np.log10(reach)))) if reach > 0 else values


def _skin(source: Source, values: NDArray, scale: Scale, label: str, **more: Any) -> Any:
    bar = {"title": {"text": label, "side": "right"}, "len": 0.8}
    return _triangles(source.surface.points, source.surface.cells, values, scale, bar, "skin", **more)


def _triangles(
    points: NDArray, cells: NDArray, values: NDArray, scale: Scale, bar: dict[str, Any], name: str, **more: Any
) -> Any:
    import plotly.graph_objects as go

    x, y, z = rounded(points).T
    i, j, k = cells.astype(np.int32).T
    return go.Mesh3d(
        x=x, y=y, z=z, i=i, j=j, k=k, intensity=rounded(values), intensitymode="cell", cmin=scale.low, cmax=scale.high,
        colorscale=_SCALES[scale.map], colorbar=bar, name=name, showlegend=True, flatshading=False,
        lighting={"ambient": 0.65, "diffuse": 0.6, "specular": 0.05},
        hovertemplate="%{x:.3f}, %{y:.3f}, %{z:.3f} m<extra></extra>", **more,
    )  # fmt: skip


def _staged(figure: Any, source: Source, height: int) -> Any:
    axes = source.axes
    eye = -1.6 * axes.flow - 1.6 * axes.side + 0.8 * axes.up
    camera = {"eye": dict(zip("xyz", eye.tolist(), strict=True)), "up": dict(zip("xyz", axes.up.tolist(), strict=True))}
    scene = {"aspectmode": "data", "camera": camera, "xaxis": _AXIS, "yaxis": _AXIS, "zaxis": _AXIS}
    legend = {"orientation": "h", "y": 1.02}
    figure.update_layout(scene=scene, height=height, legend=legend, showlegend=len(figure.data) > 1)
    figure.update_layout(margin={"l": 0, "r": 0, "t": 0, "b": 0})
    return figure


def _switched(source: Source, choices: dict[str, NDArray], label: str) -> Any:
    """One body, coloured by the choice of a menu."""
    import plotly.graph_objects as go

    scales = {name: Scale.over(values) for name, values in choices.items()}
    traces = [
        _skin(source, values, scales[name], label, visible=number == 0)
        for number, (name, values) in enumerate(choices.items())
    ]
    figure = _staged(go.Figure(traces), source, 640)
    buttons = [
        {"label": name, "method": "update", "args": [{"visible": [n == number for n in range(len(choices))]}]}
        for number, name in enumerate(choices)
    ]
    figure.update_layout(updatemenus=[{"buttons": buttons, "x": 0.02, "y": 0.98, "xanchor": "left"}], showlegend=False)
    return figure


def _curves_figure(curves: Sequence[tuple[str, NDArray]], source: Source, label: str) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    surface = source.surface
    low, high = surface.points[:, 0].min(), surface.points[:, 0].max()
    for number, (name, values) in enumerate(curves):
        for upper, dash in ((True, "solid"), (False, "dash")):
            side = (surface.normals[:, 1] >= 0) == upper
            order = np.argsort(surface.centres[side, 0])
            x = (surface.centres[side, 0][order] - low) / (high - low)
            words = f"{name} {'upper' if upper else 'lower'} side".strip()
            line = {"dash": dash, "color": _COLOURS[number % len(_COLOURS)]}
            figure.add_scatter(x=rounded(x), y=rounded(values[side][order]), name=words, mode="lines", line=line)
    yaxis = {"title": plain(label), "autorange": _direction(source)}
    figure.update_layout(template="plotly_white", xaxis_title="x / c", yaxis=yaxis)
    return figure


def _direction(source: Source) -> Any:
    return "reversed" if source.field in ("Cp", "p") else True


_COLOURS = ("#1f77b4", "#333333", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e")
