"""Interactive pages: one HTML file each, with everything in it."""

import html
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.viz import history as runs
from aerosurrogate.viz.planes import FlowPlane, flow_plane
from aerosurrogate.viz.render import VIEWS
from aerosurrogate.viz.skin import edges, sides, thinned
from aerosurrogate.viz.source import Difference, Scale, Source

_SCALES = {"RdBu_r": "RdBu_r", "viridis": "Viridis"}
_AXIS = {"visible": False, "showbackground": False}
_UNLIT = {"ambient": 1.0, "diffuse": 0.0, "specular": 0.0, "roughness": 1.0, "fresnel": 0.0}  # colours mean values
MOST = 60_000  # triangles of a skin in a page: some 1.2 MB
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.2em; color: #222 }
h1 { font-size: 1.15em; font-weight: 600 }
.figures { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1em }
@media (min-width: 900px) { .two { grid-template-columns: minmax(0, 3fr) minmax(0, 2fr) }
  .even { grid-template-columns: repeat(2, minmax(0, 1fr)) } }
p { color: #5b6470; font-size: .9em; max-width: 75em }
p:empty { display: none }
"""


def field(source: Source) -> str:
    return document(field_figures(source), source.title)


def field_figures(source: Source) -> list[Any]:
    """What there is to see of a source: its skin in 3D, or the flow around a section and the values along it."""
    plane = flow_plane(source)
    if source.surface.dimension == 3:
        return [body_figure(source, plane=plane)]
    flow = [] if plane is None else [plane_figure(plane)]
    return flow if source.in_air else [*flow, _curves_figure([("", source.values)], source, source.label)]


def error(compared: Difference) -> str:
    predicted = compared.predicted
    title = f"{predicted.title}   relative L2 error {compared.relative:.3f}"
    if predicted.surface.dimension == 2:
        curves = [("prediction", predicted.values), ("reference", compared.true)]
        return document([_curves_figure(curves, predicted, predicted.label)], title)
    choices = {"prediction": predicted.values, compared.called: compared.true, "difference": compared.error}
    return document([_switched(predicted, choices, predicted.label)], title)


def slices(source: Source, layer: int | None = None) -> str:
    from aerosurrogate.viz.slices import weights

    shown = dict(weights(source, layer))
    title = f"{source.name}: learned slices"
    if source.surface.dimension == 2:
        return document([_curves_figure(list(shown.items()), source, "slice weight")], title)
    return document([_switched(source, shown, "slice weight")], title)


def history(folders: Sequence[Path]) -> str:
    import plotly.graph_objects as go

    figure = go.Figure()
    for folder in folders:
        for key, (steps, values) in runs.curves(folder).items():
            if key != "learning_rate":
                figure.add_scatter(x=steps, y=values, name=f"{folder.resolve().name}: {key}", mode="lines")
    figure.update_layout(xaxis_title="step", yaxis={"title": "loss", "type": "log", "exponentformat": "power"})
    return document([figure], "training history")


def body_figure(source: Source, *, plane: FlowPlane | None = None, scale: Scale | None = None, most: int = MOST) -> Any:
    """The coloured skin, to be turned, and the flow in the middle plane, to be switched on in the legend."""
    import plotly.graph_objects as go

    figure = go.Figure()
    if source.in_air:
        figure.add_trace(_skin(source, source.values, Scale(0.0, 1.0, signed=False), "", most, colour="#c9ccd1"))
    else:
        figure.add_trace(_skin(source, source.values, scale or Scale.over(source.values), source.label, most))
    figure.add_trace(_edge_lines(source))
    if plane is not None:
        for trace in _plane_traces(plane, shown=source.in_air):
            figure.add_trace(trace)
    return _staged(figure, source)


def plane_figure(plane: FlowPlane) -> Any:
    """The flow around a section as a map with streamlines."""
    import plotly.graph_objects as go

    scale = plane.scale
    bar = {"title": plane.label, "orientation": "h", "y": -0.22, "yanchor": "top", "len": 0.8, "thickness": 14}
    figure = go.Figure(
        go.Heatmap(
            x=_light(plane.x), y=_light(plane.y), z=_light(plane.values), colorscale=_SCALES[scale.map], colorbar=bar,
            zmin=scale.low, zmax=scale.high, hovertemplate="%{z:.4g}<extra></extra>",
        )
    )  # fmt: skip
    for lines, colour, width in (
        (plane.streamlines(1.6), "rgba(255,255,255,0.6)", 1),
        (list(plane.outline), "black", 1.5),
    ):
        x, y = _broken(lines).T
        line = {"color": colour, "width": width}
        figure.add_scatter(x=_light(x), y=_light(y), mode="lines", line=line, hoverinfo="skip", showlegend=False)
    across, upward = plane.axis_titles
    span = ([float(axis[0]), float(axis[-1])] for axis in (plane.x, plane.y))
    for update, title, reach in zip((figure.update_xaxes, figure.update_yaxes), (across, upward), span, strict=True):
        update(title=title, range=reach, constrain="domain", showgrid=False, zeroline=False)
    figure.update_yaxes(scaleanchor="x")
    figure.update_layout(template="plotly_white", plot_bgcolor="#ccc", height=500)
    return figure


def section_figure(source: Source) -> Any:
    """Values along a section, over its outline."""
    figure = _curves_figure([("", source.values)], source, source.label)
    points = source.surface.points
    low, high = points[:, 0].min(), points[:, 0].max()
    x, y = _light((_broken(list(source.surface.corners)) - [low, 0.0]) / (high - low)).T
    line = {"color": "#333", "width": 1.5}
    figure.add_scatter(x=x, y=y, yaxis="y2", mode="lines", line=line, hoverinfo="skip", showlegend=False)
    outline = {"domain": [0.0, 0.22], "scaleanchor": "x", "visible": False}
    legend = {"x": 1.0, "y": 1.0, "xanchor": "right"}
    figure.update_layout(yaxis={"domain": [0.3, 1.0]}, yaxis2=outline, legend=legend)
    figure.update_layout(xaxis={"anchor": "y", "constrain": "domain"}, margin={"l": 60, "r": 20, "t": 20, "b": 20})
    return figure


def document(figures: Sequence[Any], title: str, words: str = "") -> str:
    """A page that opens offline: the library is in it. `words` is markup that stands below the title."""
    for figure in figures:
        flat = not figure.layout.scene.camera.eye.x
        figure.update_layout(template="plotly_white")
        if flat:
            figure.update_layout(margin={"l": 60, "r": 20, "t": 20, "b": 50}, height=figure.layout.height or 480)
    parts = "".join(f"<div>{embedded(figure, library=n == 0)}</div>" for n, figure in enumerate(figures))
    title, layout = title.replace("   ", " · "), ["", "two", "even"][min(len(figures), 3) - 1]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><link rel='icon' href='data:,'><style>{_STYLE}</style></head>"
        f"<body><h1>{html.escape(title)}</h1><p>{words}</p><div class='figures {layout}'>{parts}</div></body></html>\n"
    )


def embedded(figure: Any, *, library: bool = True) -> str:
    """A figure as a part of a page; one of them has to bring the library along."""
    tools = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["select2d", "lasso2d"]}
    # A scene as wide as it is on a page of any width shows the whole body.
    height = "min(640px, 60vw)" if figure.layout.height is None else f"{figure.layout.height}px"
    return str(figure.to_html(full_html=False, include_plotlyjs=library, config=tools, default_height=height))


def library() -> str:
    """The text of the script that draws figures."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def rounded(values: NDArray) -> NDArray:
    """Four or five digits: enough for the eye, and a file of a quarter of the size."""
    values = np.asarray(values, dtype=float)
    reach = float(np.nanmax(np.abs(values), initial=0.0))
    return np.round(values, 5 - int(np.ceil(np.log10(reach)))) if reach > 0 else values


def _light(values: NDArray) -> NDArray:
    """As little of a file as the eye needs."""
    return np.asarray(values, dtype=np.float32)


def _skin(
    source: Source, values: NDArray, scale: Scale, label: str, most: int = MOST, colour: str | None = None, **more: Any
) -> Any:
    """The skin's triangles, with values that run smoothly between them except across the body's own edges."""
    import plotly.graph_objects as go

    surface, corner = thinned(source.surface, values, most)
    # Corners that share their place and their value are one point of the page.
    rows = np.column_stack([surface.corners.reshape(-1, 3), corner.ravel()]).astype(np.float32)
    points, cells = np.unique(rows, axis=0, return_inverse=True)
    i, j, k = cells.reshape(-1, 3).astype(np.uint16 if len(points) < 2**16 else np.uint32).T
    x, y, z, shown = points.T
    look: dict[str, Any] = {"color": colour} if colour else {
        "intensity": shown, "cmin": scale.low, "cmax": scale.high, "colorscale": _SCALES[scale.map],
        "colorbar": _bar(label),
        "hovertemplate": "%{intensity:.4g}<extra></extra>",
    }  # fmt: skip
    return go.Mesh3d(
        x=x,
        y=y,
        z=z,
        i=i,
        j=j,
        k=k,
        name="skin",
        showlegend=True,
        lighting=_UNLIT if not colour else None,
        **look,
        **more,
    )


def _bar(label: str) -> dict[str, Any]:
    return {"title": {"text": "<br>".join(textwrap.wrap(label, 12)), "side": "top"}, "len": 0.8, "thickness": 16}


def _edge_lines(source: Source) -> Any:
    import plotly.graph_objects as go

    middle = source.surface.bounds.mean(axis=0)
    outward = middle + 1.002 * (edges(source.surface.corners) - middle)  # or they would lie half below the skin
    x, y, z = _light(_broken(list(outward))).T
    line = {"color": "rgba(48,52,58,0.5)", "width": 1.5}
    return go.Scatter3d(x=x, y=y, z=z, mode="lines", line=line, hoverinfo="skip", name="edges", showlegend=False)


def _plane_traces(plane: FlowPlane, shown: bool) -> list[Any]:
    """The middle plane and its streamlines in space."""
    import plotly.graph_objects as go
    from scipy.ndimage import binary_erosion

    scale, visible = plane.scale, True if shown else "legendonly"
    flat = np.stack(np.meshgrid(plane.x, plane.y), axis=-1)
    x, y, z = plane.in_file(flat.reshape(-1, 2)).T.reshape(3, *plane.values.shape)
    bar = _bar(plane.label) | {"x": 0.0, "xanchor": "left"}
    gap = np.where(binary_erosion(plane.covered, iterations=2), np.nan, 0.0)  # its rim hides below the skin
    sheet = go.Surface(
        x=_light(x + gap), y=_light(y + gap), z=_light(z + gap), surfacecolor=_light(plane.everywhere), cmin=scale.low,
        cmax=scale.high, colorscale=_SCALES[scale.map], colorbar=bar, lighting=_UNLIT, name=plane.title,
        showlegend=True, hovertemplate="%{surfacecolor:.4g}<extra></extra>", visible=visible,
    )  # fmt: skip
    lines = _broken([plane.in_file(line) for line in plane.streamlines((2.0, 1.0))])
    line = {"color": "white", "width": 1.5}
    streams = go.Scatter3d(
        **dict(zip("xyz", _light(lines).T, strict=True)), mode="lines", line=line, hoverinfo="skip",
        name="streamlines", visible=visible,
    )  # fmt: skip
    return [sheet, streams]


def _broken(lines: Sequence[NDArray]) -> NDArray:
    """Lines (n, d) one after the other as one (m, d), with a row of NaN between them."""
    if not len(lines):
        return np.empty((0, 3))
    gap = np.full((1, lines[0].shape[1]), np.nan)
    return np.concatenate([part for line in lines for part in (line, gap)])


def _staged(figure: Any, source: Source) -> Any:
    cameras = {name: _camera(source, name) for name in VIEWS}
    scene = {"aspectmode": "data", "camera": cameras["front"], "xaxis": _AXIS, "yaxis": _AXIS, "zaxis": _AXIS}
    scene |= {"dragmode": "orbit"}
    buttons = [
        {"label": name, "method": "relayout", "args": [{"scene.camera": camera}]} for name, camera in cameras.items()
    ]
    menu = {"buttons": buttons, "direction": "down", "x": 0.0, "y": 1.0, "xanchor": "left", "yanchor": "top"}
    legend = {"orientation": "h", "x": 1.0, "xanchor": "right", "y": 0.0, "yanchor": "bottom"}
    figure.update_layout(scene=scene, legend=legend, updatemenus=[menu])
    figure.update_layout(showlegend=sum(trace.showlegend is not False for trace in figure.data) > 1)
    figure.update_layout(margin={"l": 0, "r": 0, "t": 0, "b": 0}, uirevision="view")
    return figure


def _camera(source: Source, view: str) -> dict[str, Any]:
    axes = source.axes
    share = np.array(VIEWS[view]) / np.linalg.norm(VIEWS[view])
    eye = (2.3 if view in ("front", "rear") else 1.9) * (share @ np.stack([axes.flow, axes.side, axes.up]))
    up = {"top": axes.side, "underbody": -axes.side}.get(view, axes.up)
    named = {"eye": eye, "up": up, "center": np.zeros(3)}
    return {key: dict(zip("xyz", vector.tolist(), strict=True)) for key, vector in named.items()}


def _switched(source: Source, choices: dict[str, NDArray], label: str) -> Any:
    """One body, coloured by the choice of a menu."""
    import plotly.graph_objects as go

    scales = {name: Scale.over(values, signed=name == "difference") for name, values in choices.items()}
    traces = [
        _skin(source, values, scales[name], label, MOST // len(choices), visible=number == 0)
        for number, (name, values) in enumerate(choices.items())
    ]
    figure = _staged(go.Figure([*traces, _edge_lines(source)]), source)
    buttons = [
        {"label": name, "method": "update", "args": [{"visible": [*(n == number for n in range(len(choices))), True]}]}
        for number, name in enumerate(choices)
    ]
    shown = {"buttons": buttons, "x": 0.0, "y": 0.9, "xanchor": "left", "yanchor": "top"}
    figure.update_layout(updatemenus=[figure.layout.updatemenus[0], shown], showlegend=False)
    return figure


def _curves_figure(curves: Sequence[tuple[str, NDArray]], source: Source, label: str) -> Any:
    import plotly.graph_objects as go

    figure = go.Figure()
    for number, (name, values) in enumerate(curves):
        for upper, x, along in sides(source.surface, values):
            words = f"{name} {'upper' if upper else 'lower'} side".strip()
            line = {"dash": "solid" if upper else "dash", "color": _COLOURS[number % len(_COLOURS)]}
            figure.add_scatter(x=rounded(x), y=rounded(along), name=words, mode="lines", line=line)
    yaxis = {"title": label, "autorange": _direction(source)}
    figure.update_layout(template="plotly_white", xaxis_title="x / c", yaxis=yaxis)
    return figure


def _direction(source: Source) -> Any:
    return "reversed" if source.field in ("Cp", "p") else True


_COLOURS = ("#1f77b4", "#333333", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e")
