"""The flow in a plane: around a section, or through the middle of a body, on a regular grid with streamlines."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.flow_fields import PLANE, SURROUNDINGS, Region
from aerosurrogate.mesh.distance import inside
from aerosurrogate.viz.source import LABELS, Scale, Source, labelled

CLOSE_UP = ((-0.35, 1.75), (-0.55, 0.55))  # chords: what is shown of the flow around a section
_STEP = {2: 0.005, 3: 0.008}  # of the grid, in chords or body lengths
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FlowPlane:
    """Values on a grid of x (nx,) and y (ny,): chords around a section; in 3D metres from mid-length on the ground."""

    x: Floats
    y: Floats
    everywhere: Floats  # (ny, nx) values, interpolated across the body
    velocity: Floats  # (2, ny, nx) over the free stream's, along x and y; NaN inside the body
    covered: NDArray[np.bool_]  # (ny, nx) inside the body
    outline: Floats  # (s, 2, 2) the body's contour in this plane, as segments
    label: str
    source: Source

    @property
    def values(self) -> Floats:
        """(ny, nx), NaN inside the body."""
        return np.where(self.covered, np.nan, self.everywhere)

    @property
    def title(self) -> str:
        return "middle plane" if self.source.surface.dimension == 3 else "flow around the section"

    @property
    def axis_titles(self) -> tuple[str, str]:
        if self.source.surface.dimension == 2:
            return "x / c", "y / c"
        return "along the flow from mid-length (m)", "height (m)"

    @property
    def scale(self) -> Scale:
        """From zero: what is shown in a plane are sizes."""
        return Scale(0.0, max(float(np.nanquantile(self.values, 0.995)), 1e-12), signed=False)

    def in_file(self, points: Floats) -> Floats:
        """Points (n, 2) of this plane in the file's axes, m."""
        assert self.source.solution is not None
        body = self.source.solution.body
        if body.dimension == 2:
            return body.to_file(points * body.length)
        return body.to_file(np.stack([points[:, 0], np.zeros(len(points)), points[:, 1]], axis=1))

    def streamlines(self, density: float | tuple[float, float] = 1.5) -> list[Floats]:
        """Lines (n, 2) along the velocity, evenly spread."""
        from matplotlib.figure import Figure

        lines = (
            Figure().subplots().streamplot(self.x, self.y, self.velocity[0], self.velocity[1], density=density).lines
        )
        return _joined([np.asarray(segment) for segment in lines.get_segments()])


def flow_plane(source: Source) -> FlowPlane | None:
    """The plane of a source: its own field where that lives in the air, else the speed. None without surroundings."""
    solution, region = source.solution, _flat_region(source)
    if solution is None or region is None or "U" not in region.arrays:
        return None
    from scipy.interpolate import LinearNDInterpolator

    body, speed = solution.body, solution.conditions.speed
    flat, unit = ([0, 1], body.length) if body.dimension == 2 else ([0, 2], 1.0)
    places = body.to_model(region.points[region.cells].mean(axis=1))[:, flat] / unit
    velocity = region.arrays["U"] @ body.rotation.T / speed
    size, label = np.linalg.norm(velocity, axis=1), "speed over free stream"
    if source.in_air:
        chosen = np.asarray(region.arrays[source.field], float)
        size = chosen if chosen.ndim == 1 else np.linalg.norm(chosen, axis=1)
        label = labelled(LABELS.get(source.field, source.field), source.unit)
    window = CLOSE_UP if body.dimension == 2 else tuple(zip(places.min(axis=0), places.max(axis=0), strict=True))
    step = _STEP[body.dimension] * (1.0 if body.dimension == 2 else body.length)
    x, y = (np.linspace(low, high, round((high - low) / step) + 1) for low, high in window)
    columns = np.column_stack([size, velocity[:, flat]])
    grid = np.stack(np.meshgrid(x, y), axis=-1)  # (ny, nx, 2)
    shown = LinearNDInterpolator(places, columns)(grid.reshape(-1, 2))
    skin = body.in_model_frame()
    spatial = grid.reshape(-1, 2) * unit
    if body.dimension == 3:
        spatial = np.stack([spatial[:, 0], np.zeros(len(spatial)), spatial[:, 1]], axis=1)
    covered = inside(skin, spatial)
    size = shown[:, 0].copy()
    shown[covered] = np.nan
    along, upward = shown[:, 1:].T.reshape(2, len(y), len(x))
    outline = skin.corners / unit if body.dimension == 2 else cut(skin.corners)
    size, covered = size.reshape(len(y), len(x)), covered.reshape(len(y), len(x))
    return FlowPlane(x, y, size, np.stack([along, upward]), covered, outline, label, source)


def _flat_region(source: Source) -> Region | None:
    """The cells of the plane: those that lie in it, else those of a volume that it passes through."""
    around = region_of(source, SURROUNDINGS)
    if source.surface.dimension == 2:
        return around
    flat = region_of(source, PLANE)
    if flat is not None or around is None or around.cells.shape[1] < 4 or source.solution is None:
        return flat
    across = source.solution.body.to_model(around.points)[around.cells][..., 1]  # (m, k)
    reach = 1e-6 * source.surface.length
    crossed = (across.min(axis=1) <= reach) & (across.max(axis=1) > reach)
    arrays = {name: values[crossed] for name, values in around.arrays.items()}
    return Region(PLANE, around.points, around.cells[crossed], arrays)


def region_of(source: Source, code: int) -> Region | None:
    regions = source.solution.around if source.solution is not None else ()
    return next((region for region in regions if region.code == code), None)


def cut(corners: NDArray) -> Floats:
    """Segments (s, 2, 2) in x and z where triangles (m, 3, 3) cross the plane y = 0."""
    # Bodies drawn in two halves have a row of points right on the plane: it is moved aside by a hair.
    height = corners[:, :, 1] - 1e-7 * max(float(np.ptp(corners[:, :, 0])), 1e-12)
    above = height > 0
    crossed = np.flatnonzero(above.any(axis=1) & ~above.all(axis=1))
    lone = np.where(above[crossed].sum(axis=1) == 1, above[crossed].argmax(axis=1), (~above[crossed]).argmax(axis=1))
    ends = []
    for turn in (1, 2):  # both sides of the corner that lies alone on its side of the plane
        other = (lone + turn) % 3
        a, b = height[crossed, lone], height[crossed, other]
        share = (a / (a - b))[:, None]
        flat = corners[:, :, [0, 2]]
        ends.append(flat[crossed, lone] * (1 - share) + flat[crossed, other] * share)
    return np.stack(ends, axis=1)


def _joined(parts: Sequence[Floats]) -> list[Floats]:
    """Lines (n, 2), those that follow one another as one: matplotlib's versions differ in how they cut them."""
    lines: list[list[Floats]] = []
    for part in parts:
        if lines and np.array_equal(lines[-1][-1][-1], part[0]):
            lines[-1].append(part[1:])
        else:
            lines.append([part])
    return [np.concatenate(line) for line in lines]
