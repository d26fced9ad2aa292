"""Pictures of held-out cases: prediction, truth and error side by side; several times as a strip.

Plane cases are painted on their own mesh, where it lies (or has moved to); bodies in space show their skin.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation
from numpy.typing import NDArray
from scipy.spatial import KDTree

from aerosurrogate.conditions import FlowAxes
from aerosurrogate.data.case import field_spec
from aerosurrogate.errors import InputError
from aerosurrogate.held_out import MOVED, PARTICLES, HeldOut, is_held_out, read_held_out, triangles
from aerosurrogate.mesh.distance import inside
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.viz.planes import cut
from aerosurrogate.viz.source import Difference, Scale, Source, labelled
from aerosurrogate.viz.views import colour_bar, new_figure
from aerosurrogate.writing import write_text

STRIP = 6  # times of a strip
WORDS = {"U": "speed", "p": "pressure", "nut": "turbulent viscosity", "frames": "vorticity", "mach": "Mach number"}
FILM = 50  # times of a film at most; of more, every so-manieth
PLANE = 300  # places along the middle plane of a body
NEAREST = 8  # points that a place of that plane has its value from
FAR = 3.0  # a mesh that reaches so many times farther than its middle four fifths is shown there alone
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shown:
    """One field of a held-out case, with one scale of colours for all its times."""

    held: HeldOut
    field: str

    @property
    def label(self) -> str:
        width = self.held.true(self.field).shape[1]
        words = WORDS.get(self.field, self.field)
        if self.field == PARTICLES:
            return "height"
        return labelled(words if width == 1 or self.field == "U" else f"size of {words}", field_spec(self.field).unit)

    @property
    def title(self) -> str:
        apart = [self.held.answer(self.field, step) - self.held.true(self.field, step) for step in self.steps]
        true = [self.held.true(self.field, step) for step in self.steps]
        error = np.linalg.norm(np.stack(apart)) / max(float(np.linalg.norm(np.stack(true))), 1e-30)
        return f"{self.held.case.name}: {self.label}, relative L2 error {error:.3g}"

    @property
    def steps(self) -> range:
        return range(self.held.steps)

    def true(self, step: int) -> Floats:
        return self._size(self.held.true(self.field, step))

    def answer(self, step: int) -> Floats:
        return self._size(self.held.answer(self.field, step))

    def error(self, step: int) -> Floats:
        """Signed where the field is one number, else the length of the difference."""
        return self._size(self.held.answer(self.field, step) - self.held.true(self.field, step), apart=True)

    def _size(self, values: NDArray, apart: bool = False) -> Floats:
        if self.field == PARTICLES and not apart:  # particles are told apart by their height
            return values[:, -1].astype(float)
        if self.field in MOVED and values.shape[1] >= 4:  # how far, not where
            values = values[:, 2:]
        return (values[:, 0] if values.shape[1] == 1 else np.linalg.norm(values, axis=1)).astype(float)

    def rows(self, step: int) -> list[tuple[str, NDArray, Floats]]:
        """What is shown of a time: its name, the places (n, d) and the values (n,)."""
        answer, true = self.held.answer(self.field, step), self.held.true(self.field, step)
        there, moved = self.held.places(true, self.field), self.held.places(answer, self.field)
        return [
            ("prediction", moved, self.answer(step)),
            ("truth", there, self.true(step)),
            ("prediction - truth", there, self.error(step)),
        ]

    def scales(self) -> tuple[Scale, Scale]:
        """Of the field, and of its error, over all times."""
        true = [self.true(step)[self.counted] for step in self.steps]
        return Scale.over(*true), Scale.over(*(self.error(step)[self.counted] for step in self.steps))

    @property
    def counted(self) -> NDArray[np.bool_]:
        """(n,) the points whose values choose the colours: those in sight."""
        return in_sight(self.held)


def open_case(path: Path, name: str | None = None) -> HeldOut:
    """A held-out case from a file of `predict DATASET`, or from a run: its data's test split, the first case unless
    named."""
    if path.is_file():
        if not is_held_out(path):
            raise InputError("not a case that predict DATASET wrote", seen=path, remedy="give such a file, or a run")
        return read_held_out(path)
    from aerosurrogate.data.store import Dataset
    from aerosurrogate.evaluate import evaluate_case
    from aerosurrogate.recipe import read_recipe
    from aerosurrogate.surrogate import Surrogate

    data = read_recipe(path / "recipe.toml").data
    dataset = Dataset(data.path)
    name = name or dataset.names(data.test)[0]
    if name not in dataset.manifest.cases:
        one = next(iter(dataset.manifest.cases))
        raise InputError("the run's data set has no such case", seen=name, remedy=f"give --case {one}, say")
    return evaluate_case(Surrogate.load(path), dataset, name)[1].by(str(path))


def draw(
    path: Path, out: Path, *, kind: str, field: str | None = None, layer: int | None = None, name: str | None = None
) -> None:
    """Draw a held-out case: a picture, an animation of its times, or a page."""
    from aerosurrogate.viz import moving, page, save_picture, slices

    form = out.suffix.lower()
    if kind not in ("error", "field", "slices"):
        raise InputError(
            "a case is no such picture", seen=f"--kind {kind}", remedy="give --kind error, field or slices"
        )
    if form not in (".png", ".html", ".gif", ".mp4"):
        remedy = "end the name with .png for a picture, .gif or .mp4 for a film, .html for a page"
        raise InputError("unknown kind of picture", seen=out, remedy=remedy)
    held = open_case(path, name)
    films = form in (".gif", ".mp4")
    if films and (held.steps == 1 or kind == "slices"):
        what = "slices are" if kind == "slices" else f"{held.case.name} is"
        raise InputError(f"{what} steady: nothing moves", seen=out, remedy=f"give --out {out.with_suffix('.png')}")
    if kind == "slices":
        if form == ".png":
            return save_picture(slices.case_figure(held, layer), out)
        layers = range(1, slices.layers_of(held) + 1) if layer is None else [layer]
        frames = [moving.frame(slices.case_figure(held, number), titled=False) for number in layers]
        title = f"{held.case.name}: learned slices"
        return moving.write_page(frames, [f"layer {number}" for number in layers], title, out)
    view = shown(held, field)
    if form == ".png":
        return save_picture(figure(view, kind), out)
    if form == ".html" and (body := in_space(view)) is not None:
        return write_text(out, page.error(body) if kind == "error" else page.field(body.predicted))
    scales = view.scales()
    steps = view.steps[:: -(-len(view.steps) // FILM)]
    frames = [moving.frame(moment(view, step, kind, scales), titled=films) for step in steps]
    if form == ".html":
        return moving.write_page(frames, [f"time {step + 1}" for step in steps], view.title, out)
    return moving.write_gif(frames, out) if form == ".gif" else moving.write_mp4(frames, out)


def shown(held: HeldOut, field: str | None) -> Shown:
    """The field asked for; the pressure, or the first there is, unless said."""
    known = list(held.predicted)
    name = field or ("p" if "p" in known else known[0])
    if name not in known:
        raise InputError("no such field in this case", seen=field, remedy=f"give --field {'|'.join(known)}")
    return Shown(held, name)


def in_space(view: Shown) -> Difference | None:
    """The skin of a body in space with one value a face, where the case has its faces and the field lives there."""
    case = view.held.case
    if case.dimensions != 3 or case.cells is None or not case.lives_at(view.field, case.surface):
        return None
    cells = case.cells.astype(np.int64)
    surface = Surface(case.points.astype(float), cells, name=case.name)

    def on_faces(values: Floats) -> Floats:
        return values[cells].mean(axis=1)

    used = surface.select(np.ones(len(cells), bool))
    unit = field_spec(view.field).unit
    name = f"{case.name}: {view.label}"
    source = Source(name, used, FlowAxes.parse(), view.field, unit, on_faces(view.answer(0)))
    return Difference(source, on_faces(view.true(0)), source, called="truth")


def figure(view: Shown, kind: str = "error") -> Figure:
    """All that is to see of a case: a strip of its times, or prediction, truth and error of one."""
    if view.held.steps > 1:
        return _strip(view)
    if (body := in_space(view)) is not None:
        from aerosurrogate.viz import views

        return views.error(body) if kind == "error" else views.field([body.predicted])
    return moment(view, 0, kind)


def moment(view: Shown, step: int, kind: str = "error", scales: tuple[Scale, Scale] | None = None) -> Figure:
    """One time: prediction, truth and error, or the prediction alone."""
    scale, apart = scales or view.scales()
    rows = view.rows(step)[: 3 if kind == "error" else 1]
    when = f", time {step + 1} of {view.held.steps}" if view.held.steps > 1 else ""
    if view.held.case.dimensions == 3 and view.field != PARTICLES:
        when += "; shown in the middle plane"
    width, height = shape(view.held)
    drawing = new_figure(4.6 * len(rows) + 0.4, min(max(4.6 * height / width, 0.8), 6.0) + 1.5, view.title + when)
    panels = np.atleast_1d(drawing.subplots(1, len(rows)))
    for axes, (words, places, values) in zip(panels, rows, strict=True):
        error = words == "prediction - truth"
        paint(axes, view.held, places, values, apart if error else scale)
        if words == "prediction":
            outline(axes, view, step)
        axes.set_title(words, fontsize=10, color="0.35")
    colour_bar(drawing, scale, view.label, list(panels[:2]))
    if len(rows) == 3:
        colour_bar(drawing, apart, "error", [panels[2]])
    return drawing


def _strip(view: Shown) -> Figure:
    """Prediction, truth and error, one above the other, at times from the first to the last."""
    scale, apart = view.scales()
    times = np.unique(np.linspace(0, view.held.steps - 1, STRIP).round().astype(int)).tolist()
    width, height = shape(view.held)
    drawing = new_figure(2.6 * len(times) + 1.6, 3 * min(max(2.6 * height / width, 0.6), 4.0) + 1.4, view.title)
    panels = drawing.subplots(3, len(times), squeeze=False)
    for column, step in enumerate(times):
        for axes, (words, places, values) in zip(panels[:, column], view.rows(step), strict=True):
            paint(axes, view.held, places, values, apart if words == "prediction - truth" else scale)
            if words == "prediction":
                outline(axes, view, step)
            if column == 0:
                axes.set_ylabel("error" if words.endswith("- truth") else words, fontsize=10, color="0.35")
        panels[0, column].set_title(f"time {step + 1}", fontsize=10, color="0.35")
    colour_bar(drawing, scale, view.label, list(panels[:2].ravel()), horizontal=False)
    colour_bar(drawing, apart, "error", list(panels[2]), horizontal=False)
    return drawing


def paint(axes: Any, held: HeldOut, places: NDArray, values: Floats, scale: Scale) -> None:
    """Values (n,) at the places (n, d) of a case; of the air around a body in space, those in its middle plane."""
    case = held.case
    across = 2 if case.dimensions == 3 else 1
    colours = {"cmap": scale.map, "vmin": scale.low, "vmax": scale.high}
    if PARTICLES in held.predicted:
        axes.scatter(places[:, 0], places[:, across], c=values, s=4, **colours)
    elif case.dimensions == 3:
        _paint_plane(axes, held, values, colours)
    elif case.grid is not None:
        x, y = (column.reshape(case.grid) for column in places.T)
        axes.pcolormesh(x, y, values.reshape(case.grid), shading="gouraud", rasterized=True, **colours)
    else:
        mesh = Triangulation(places[:, 0].astype(float), places[:, 1].astype(float), triangles(case, places))
        axes.tripcolor(mesh, values, shading="gouraud", rasterized=True, **colours)
    low, high = window(held)
    axes.set(xlim=(low[0], high[0]), ylim=(low[across], high[across]), aspect="equal", xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_color("0.8")


def _paint_plane(axes: Any, held: HeldOut, values: Floats, colours: dict[str, Any]) -> None:
    """Values (n,) in the plane through the middle of a body in space, by the nearest points, and its section there."""
    case, (low, high) = held.case, window(held)
    skin = case.points[case.surface] if case.surface.any() else case.points
    middle = 0.5 * float(skin[:, 1].min() + skin[:, 1].max())
    x = np.linspace(low[0], high[0], PLANE)
    z = np.linspace(low[2], high[2], max(round(PLANE * (high[2] - low[2]) / (high[0] - low[0])), 2))
    grid = np.stack(np.broadcast_arrays(x[None], middle, z[:, None]), axis=-1).reshape(-1, 3)
    gap, near = KDTree(case.points).query(grid, k=min(NEAREST, len(case.points)))
    weights = 1 / np.maximum(gap, 1e-9 * (high[0] - low[0])) ** 2
    shown = np.sum(weights * values[near], axis=1) / weights.sum(axis=1)
    if case.cells is not None:
        body = Surface(case.points.astype(float), case.cells.astype(np.int64)).select(np.ones(len(case.cells), bool))
        shown[inside(body, grid)] = np.nan
        axes.set_facecolor("0.8")
        section = cut(body.corners - [0.0, middle, 0.0])
        axes.add_collection(LineCollection(list(section), colors="black", linewidths=0.8, zorder=5))
    axes.pcolormesh(x, z, shown.reshape(len(z), len(x)), shading="gouraud", rasterized=True, **colours)


def outline(axes: Any, view: Shown, step: int) -> None:
    """The rim of where a mesh has truly moved to, beside where a prediction moves it."""
    grid, field = view.held.case.grid, view.field
    if field in MOVED and grid is not None and len(grid) == 2:
        x = view.held.places(view.held.true(field, step), field).reshape(*grid, -1)
        rim = np.concatenate([x[:, 0], x[-1], x[::-1, -1], x[0, ::-1]])
        axes.plot(rim[:, 0], rim[:, 1], color="0.55", linewidth=0.8)


def window(held: HeldOut) -> tuple[Floats, Floats]:
    """The corners (d,) of what is shown: all, or where most points are if the mesh reaches far beyond."""
    case = held.case
    points = case.points.astype(float)
    if case.surface.any():
        low, high = points[case.surface].min(axis=0), points[case.surface].max(axis=0)
        margin = 0.35 * (high - low).max()
        return np.maximum(low - margin, points.min(axis=0)), np.minimum(high + margin, points.max(axis=0))
    for name in set(held.predicted) & set(MOVED):
        points = np.concatenate([held.places(held.true(name, step), name) for step in range(held.steps)]).astype(float)
    low, high = points.min(axis=0), points.max(axis=0)
    inner = np.quantile(points, [0.1, 0.9], axis=0)
    if (high - low).max() > FAR * np.ptp(inner, axis=0).max():
        middle, reach = inner.mean(axis=0), 0.6 * np.ptp(inner, axis=0).max()
        return np.maximum(middle - reach, low), np.minimum(middle + reach, high)
    margin = 0.02 * (high - low)
    return low - margin, high + margin


def in_sight(held: HeldOut) -> NDArray[np.bool_]:
    """(n,) the points of a case that are shown."""
    if not set(held.predicted).isdisjoint(MOVED):
        return np.ones(len(held.case.points), bool)
    low, high = window(held)
    return np.asarray(((held.case.points >= low) & (held.case.points <= high)).all(axis=1))


def last_places(held: HeldOut) -> NDArray:
    """Where the points (n, d) are in the end."""
    moved = next((name for name in held.predicted if name in MOVED), None)
    return held.case.points if moved is None else held.places(held.true(moved, held.steps - 1), moved)


def shape(held: HeldOut) -> tuple[float, float]:
    """Width and height of what is shown."""
    low, high = window(held)
    across = 2 if held.case.dimensions == 3 else 1
    return float(high[0] - low[0]), float(high[across] - low[across])
