"""What the slices of a model have learned: small multiples of the weights by which points belong to them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from aerosurrogate.errors import InputError
from aerosurrogate.held_out import HeldOut
from aerosurrogate.viz.source import Scale, Source

SHOWN = 12
ENOUGH = 20_000  # points to choose the slices by
Floats = NDArray[np.float64]


def weights(source: Source, layer: int | None = None) -> list[tuple[str, Floats]]:
    """The slices that differ most over the skin and from each other: their names and weights (m,)."""
    from aerosurrogate.model_frame import in_place, skin_places
    from aerosurrogate.predict import Predictor

    solution = source.solution
    if solution is None or solution.model is None:
        remedy = "give a file that aerosurrogate predict wrote, or a run folder"
        raise InputError("no model stands behind this file", seen=source.name, remedy=remedy)
    predictor = Predictor(solution.model)
    prepared = predictor.place(solution.body, solution.conditions)
    surrogate = predictor.surrogate(source.surface.dimension)
    places = in_place(surrogate, skin_places(prepared.surface, prepared.stream))
    return _chosen(surrogate.slice_weights(places, layer, states=prepared.states))


def case_weights(held: HeldOut, layer: int | None = None) -> list[tuple[str, Floats]]:
    """The same over the points of a held-out case: its data set and the model are looked up again."""
    from aerosurrogate.data.scaling import Places
    from aerosurrogate.data.store import Dataset
    from aerosurrogate.surrogate import Surrogate
    from aerosurrogate.viz.cases import in_sight

    case = Dataset(held.dataset).case(held.case.name).whole()
    found = Surrogate.load(held.model).slice_weights(Places.of(case), layer, case.grid)
    return _chosen(found, case.surface if case.dimensions == 3 and case.cells is not None else in_sight(held))


def layers_of(held: HeldOut) -> int:
    """How many layers the model has that answered."""
    from aerosurrogate.surrogate import find_model, read_header

    return int(read_header(find_model(held.model))["architecture"]["layers"])


def _chosen(found: NDArray, by: NDArray[np.bool_] | None = None) -> list[tuple[str, Floats]]:
    """Of weights (n, heads, slices), those to show; chosen by some of the points (n,)."""
    heads, count = found.shape[1:]
    names = [f"head {h + 1}, slice {s + 1}" for h in range(heads) for s in range(count)]
    columns = found.reshape(len(found), -1)
    some = np.flatnonzero(np.ones(len(columns), bool) if by is None else by)
    some = np.random.default_rng(0).permutation(some)[:ENOUGH]
    return [(names[i], columns[:, i].astype(float)) for i in _most_different(columns[some], SHOWN)]


def _most_different(columns: NDArray, count: int) -> list[int]:
    """Columns one after the other: each varies much and looks little like those before it."""
    centred = columns - columns.mean(axis=0)
    varied = np.linalg.norm(centred, axis=0)
    unit = centred / np.maximum(varied, 1e-12)
    chosen = [int(np.argmax(varied))]
    while len(chosen) < min(count, columns.shape[1]):
        alike = np.abs(unit.T @ unit[:, chosen]).max(axis=1)
        worth = varied * (1.0 - alike)
        worth[chosen] = -np.inf
        chosen.append(int(np.argmax(worth)))
    return chosen


def figure(source: Source, layer: int | None = None) -> Figure:
    from aerosurrogate.viz.views import chord_curves

    shown = weights(source, layer)
    if source.surface.dimension == 3:
        return _on_body(source, shown, _title(source.name, layer))
    drawing, panels = _panels(_title(source.name, layer), shown)
    for axes, (name, values) in zip(panels, shown, strict=False):
        chord_curves(axes, source.surface, values, "", colour="C0")
        axes.set_title(name, fontsize=9)
        axes.set(xlabel="x / c", ylim=(0, None))
    panels[0].legend(frameon=False, fontsize=8)
    return drawing


def case_figure(held: HeldOut, layer: int | None = None) -> Figure:
    """The slices over all points of a case: a plane one is painted whole, of a body in space its skin."""
    from aerosurrogate.viz.cases import Shown, in_sight, in_space, last_places, paint, shape
    from aerosurrogate.viz.views import colour_bar

    shown, title = case_weights(held, layer), _title(held.case.name, layer)
    cells = held.case.cells
    body = next((b for name in held.predicted if (b := in_space(Shown(held, name))) is not None), None)
    if body is not None and cells is not None:
        return _on_body(body.predicted, [(name, values[cells].mean(axis=1)) for name, values in shown], title)
    drawing, panels = _panels(title, shown, shape(held))
    scale = Scale(0.0, 1.0, signed=False)
    seen = in_sight(held)
    for axes, (name, values) in zip(panels, shown, strict=False):
        most = float(values[seen].max())
        paint(axes, held, last_places(held), values / most, scale)
        axes.set_title(f"{name} (up to {most:.2f})", fontsize=9)
    colour_bar(drawing, scale, "slice weight over its largest", list(panels), whole=True)
    return drawing


def _title(name: str, layer: int | None) -> str:
    return f"{name}: weights of the learned slices in {'the last layer' if layer is None else f'layer {layer}'}"


def _panels(title: str, shown: Sequence[Any], shape: tuple[float, float] = (5, 4)) -> tuple[Figure, Any]:
    """A figure with four panels in a row, each of about that width by height."""
    from aerosurrogate.viz.views import new_figure

    rows = -(-len(shown) // 4)
    drawing = new_figure(15, rows * (min(max(3.5 * shape[1] / shape[0], 0.6), 3.5) + 0.3) + 1.4, title)
    panels = drawing.subplots(rows, 4, squeeze=False).ravel()
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    return drawing, panels


def _on_body(source: Source, shown: Sequence[tuple[str, Floats]], title: str) -> Figure:
    from aerosurrogate.viz.render import Shot, render
    from aerosurrogate.viz.skin import corner_values
    from aerosurrogate.viz.views import WIDE, colour_bar, picture

    drawing, panels = _panels(title, shown)
    scale, surface = Scale(0.0, 1.0, signed=False), source.surface
    shades = [scale.colours(corner_values(surface, values / values.max())) for _, values in shown]
    images = render([Shot.of(surface.corners, colours, "front", source.axes, WIDE) for colours in shades])
    for axes, image, (name, values) in zip(panels, images, shown, strict=False):
        picture(axes, image, f"{name} (up to {values.max():.2f})")
    colour_bar(drawing, scale, "slice weight over its largest on the skin", list(panels), whole=True)
    return drawing
