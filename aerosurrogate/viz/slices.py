"""What the slices of a model have learned: small multiples of the weights by which the skin belongs to them."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from aerosurrogate.errors import InputError
from aerosurrogate.viz.source import Scale, Source

SHOWN = 12


def weights(source: Source, layer: int = -1) -> list[tuple[str, NDArray[np.float64]]]:
    """The slices that differ most over the skin and from each other: their names and weights (m,)."""
    import torch

    from aerosurrogate.model.transolver import Transolver
    from aerosurrogate.model_frame import in_place, skin_places
    from aerosurrogate.predict import Predictor

    solution = source.solution
    if solution is None or solution.model is None:
        remedy = "give a file that aerosurrogate predict wrote"
        raise InputError("no model stands behind this file", seen=source.name, remedy=remedy)
    predictor = Predictor(solution.model)
    prepared = predictor.place(solution.body, solution.conditions)
    surrogate = predictor.surrogate(source.surface.dimension)
    if not isinstance(surrogate.model, Transolver):
        raise InputError("only a Transolver has slices", seen=surrogate.model.config.kind, remedy="give another --kind")
    inputs = surrogate.scaling.inputs(in_place(surrogate, skin_places(prepared.surface, prepared.stream)))
    with torch.inference_mode():
        points = torch.from_numpy(inputs)[None].to(surrogate.device)
        found = surrogate.model.slice_weights(points, layer, prepared.states)[0]  # (m, heads, slices)
    heads, count = found.shape[1:]
    names = [f"head {h + 1}, slice {s + 1}" for h in range(heads) for s in range(count)]
    columns = found.flatten(1).double().cpu().numpy()
    return [(names[i], columns[:, i]) for i in _most_different(columns, SHOWN)]


def _most_different(columns: NDArray, count: int) -> list[int]:
    """Columns one after the other: each varies much and looks little like those before it."""
    centred = columns - columns.mean(axis=0)
    spread = np.linalg.norm(centred, axis=0)
    unit = centred / np.maximum(spread, 1e-12)
    chosen = [int(np.argmax(spread))]
    while len(chosen) < min(count, columns.shape[1]):
        alike = np.abs(unit.T @ unit[:, chosen]).max(axis=1)
        worth = spread * (1.0 - alike)
        worth[chosen] = -np.inf
        chosen.append(int(np.argmax(worth)))
    return chosen


def figure(source: Source) -> Figure:
    from aerosurrogate.viz.render import Shot, render
    from aerosurrogate.viz.views import WIDE, chord_curves, colour_bar, new_figure, picture

    shown = weights(source)
    drawing = new_figure(15, 9.5, f"{source.name}: weights of the learned slices in the last layer")
    panels = drawing.subplots(-(-len(shown) // 4), 4).ravel()
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    if source.surface.dimension == 2:
        for axes, (name, values) in zip(panels, shown, strict=False):
            chord_curves(axes, source.surface, values, "", colour="C0")
            axes.set_title(name, fontsize=9)
            axes.set(xlabel="x / c", ylim=(0, None))
        panels[0].legend(frameon=False, fontsize=8)
        return drawing
    scale = Scale(0.0, 1.0, signed=False)
    corners = source.surface.corners
    images = render([Shot.of(corners, scale.colours(v / v.max()), "front", source.axes, WIDE) for _, v in shown])
    for axes, image, (name, values) in zip(panels, images, shown, strict=False):
        picture(axes, image, f"{name} (up to {values.max():.2f})")
    colour_bar(drawing, scale, "slice weight over its largest on the skin", list(panels))
    return drawing
