"""Smooth ways to move a skin, each by a handful of numbers q: a lattice around a body, modes of a section.

Both move a point x of the undeformed body by

    u(x) = free(x) W(x) (S q)       W: weights of the controls at x; S: which number moves which control, and how

A body's controls are those of clamped cubic B-splines over its bounding box, or a part of it. At the sides of the box
only the outermost controls count, which is how the length is kept and the floor kept from sinking. A section's are
Kulfan's class and shape functions, of its half thickness and of its camber line: nose and tail stay where they are.

What else is to stay the same (volume, frontal area, thickness) is a function of the moved skin, with its gradient.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from aerosurrogate import forces
from aerosurrogate.conditions import FlowAxes
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.kulfan import camber_line, half_thickness
from aerosurrogate.mesh.surface import Surface, components

Floats = NDArray[np.float64]
Measure = Callable[[Surface], tuple[float, Floats]]  # of a skin (n points): a value, and what it gains a metre (n, d)

CONTROLS = (8, 5, 5)  # along, across, up
DEGREE = 3
FOLD = 0.4  # of the controls' least spacing: moved further, the skin could fold
FAR = 1e5  # m: a box that reaches so far is open
MODES = 6  # of thickness, and as many of camber
STANDS = 0.01  # lengths over the ground within which a piece stands on it
WHEEL = (0.15, 0.25)  # lengths from where the main piece stands on the ground: what stays, and from where all is free
LEAST = 0.3  # of the mean stiffness: what a number of q costs that moves next to no skin
_AXES = FlowAxes.parse()


@dataclass(frozen=True, eq=False)
class Deformation:
    """A way to move points of the model's frame, m, with the limits of its numbers."""

    weights: Callable[[Floats], Any]  # points (n, d) -> (n, controls)
    numbered: csr_array  # (controls * d, count): how controls follow the numbers of q
    low: Floats  # (count,) m
    high: Floats

    @property
    def count(self) -> int:
        return len(self.low)

    def shift(self, points: Floats, free: Floats, q: Floats) -> Floats:
        """How far points (n, d) of the undeformed body move, (n, d) m; `free` (n,) 0 to 1."""
        return np.asarray(free[:, None] * (self.weights(points) @ (self.numbered @ q).reshape(-1, points.shape[1])))

    def pull(self, points: Floats, free: Floats, by_point: Floats) -> Floats:
        """What something gains a number of q (count,), from its gradient (n, d) at the points."""
        return np.asarray(self.numbered.T @ np.asarray(self.weights(points).T @ (free[:, None] * by_point)).ravel())

    def stiffness(self, points: Floats, free: Floats, areas: Floats) -> Floats:
        """H (count, count): q H q is the mean square movement of the skin, areas (n,), and a little of q itself."""
        scaled = csr_array(self.weights(points)) * (free * np.sqrt(areas / areas.sum()))[:, None]
        gram = np.kron((scaled.T @ scaled).toarray(), np.eye(points.shape[1]))
        found = self.numbered.T @ (self.numbered.T @ gram).T
        return np.asarray(found + LEAST * np.trace(found) / len(found) * np.eye(len(found)))


# --- bodies ------------------------------------------------------------------------------------------------------


def lattice(
    points: Floats, box: Floats, most: float, *, length: bool, floor: float | None, mirror: bool
) -> Deformation:
    """Controls around points (n, 3) that may move, within a box (2, 3) m; each moves by `most` m at most.

    `length`: the body's ends stay where they are. `floor`: height of the ground; what is nearest to it does not sink,
    and what stands on it stays. `mirror`: left and right move alike.
    """
    if mirror:
        reach = np.abs(box[:, 1]).max()
        box = np.stack([[box[0, 0], -reach, box[0, 2]], [box[1, 0], reach, box[1, 2]]])
    if not np.all((points >= box[0]) & (points <= box[1]), axis=1).any():
        seen = ", ".join(":".join(f"{end:.4g}" if abs(end) < FAR else "" for end in side) for side in box.T)
        raise InputError("nothing to move: no skin that may move lies in the box", seen=seen, remedy="a larger --box")
    bounds = np.stack([points.min(axis=0), points.max(axis=0)])
    if mirror:
        bounds[:, 1] = np.abs(bounds[:, 1]).max() * np.array([-1.0, 1.0])
    cut = np.stack([box[0] > bounds[0], box[1] < bounds[1]])  # (2, 3) sides beyond which skin goes on
    low, high = np.maximum(box[0], bounds[0]), np.minimum(box[1], bounds[1])
    most = min(most, FOLD * float(((high - low) / (np.array(CONTROLS) - 1)).min()))
    knots = [np.concatenate([[a] * DEGREE, np.linspace(a, b, n - DEGREE + 1), [b] * DEGREE])
             for a, b, n in zip(low, high, CONTROLS, strict=True)]  # fmt: skip

    def weights(at: Floats) -> csr_array:
        parts = [BSpline.design_matrix(x, t, DEGREE) for x, t in zip(at.clip(low, high).T, knots, strict=True)]
        (a, b, c), (i, j, k) = (
            [getattr(part, name).reshape(len(at), DEGREE + 1) for part in parts] for name in ("data", "indices")
        )
        beyond = np.any(((at < low) & cut[0]) | ((at > high) & cut[1]), axis=1)
        values = (~beyond)[:, None, None, None] * a[:, :, None, None] * b[:, None, :, None] * c[:, None, None, :]
        columns = (i[:, :, None, None] * CONTROLS[1] + j[:, None, :, None]) * CONTROLS[2] + k[:, None, None, :]
        starts = np.arange(len(at) + 1) * (DEGREE + 1) ** 3
        return csr_array((values.ravel(), columns.ravel(), starts), shape=(len(at), int(np.prod(CONTROLS))))

    still = np.zeros((*CONTROLS, 3), dtype=bool)  # control, axis
    for axis in range(3):
        ends = np.moveaxis(still, axis, 0)
        # Where skin goes on beyond the box, two layers at rest let it leave smoothly.
        ends[:2] |= cut[0, axis]
        ends[-2:] |= cut[1, axis]
    if length:
        still[[0, -1], :, :, 0] = True
    least = np.full(still.shape, -most)
    if floor is not None and not cut[0, 2]:
        least[:, :, 0, 2] = 0.0
        still[:, :, 0, 2] |= low[2] - floor < STANDS * (bounds[1, 0] - bounds[0, 0])
    return _with_numbers(weights, still, least, most, mirror)


def _with_numbers(weights: Any, still: NDArray[np.bool_], least: Floats, most: float, mirror: bool) -> Deformation:
    """One number of q for each control and axis that is not still; with `mirror`, for each of a pair."""
    rows: list[int] = []
    columns: list[int] = []
    signs: list[float] = []
    low: list[float] = []
    high: list[float] = []
    number = np.arange(still.size).reshape(still.shape)
    for place in np.argwhere(~still):
        i, j, k, axis = place.tolist()
        other = still.shape[1] - 1 - j
        if mirror and (j > other or (j == other and axis == 1)):
            continue
        moved = {number[i, j, k, axis]: 1.0}
        if mirror:
            moved[number[i, other, k, axis]] = -1.0 if axis == 1 else 1.0
        rows += list(moved)
        columns += [len(low)] * len(moved)
        signs += list(moved.values())
        low.append(least[i, j, k, axis])
        high.append(most)
    if not low:
        raise InputError("nothing to move: the box leaves no control free", remedy="a larger --box, or less to --keep")
    numbered = csr_array((signs, (rows, columns)), shape=(still.size, len(low)))
    return Deformation(weights, numbered, np.array(low), np.array(high))


def free_of_wheels(surface: Surface, length: float, floor: float | None) -> Floats:
    """(n,) 0 for points of a body in the model's frame that stay with its wheels, 1 for those that are free.

    Wheels are pieces that stand on the ground. Where the body is one piece with them, what lies near the places where
    it stands stays.
    """
    free = np.ones(len(surface.points))
    if floor is None:
        return free
    piece = components(surface.cells, len(surface.points))
    area = np.bincount(piece[surface.cells[:, 0]], surface.areas, piece.max() + 1)
    main = int(np.argmax(area))
    stands = surface.points[:, 2] - floor < STANDS * length
    for number in np.unique(piece[stands]):
        if number != main:
            free[piece == number] = 0.0
    if (at := surface.points[stands & (piece == main)]).size:
        away = cKDTree(at).query(surface.points)[0] / length
        part = ((away - WHEEL[0]) / (WHEEL[1] - WHEEL[0])).clip(0, 1)
        free = np.where(piece == main, part**2 * (3 - 2 * part), free)
    return free


# --- sections ----------------------------------------------------------------------------------------------------


def section_modes(surface: Surface, chord: float, most: float) -> Deformation:
    """Thickness and camber of a section in the model's frame, each mode by `most` m at most."""
    grid = np.linspace(0, 1, 401)
    unit = np.eye(MODES)
    forms = [(form, one, np.abs(form(grid, one)).max()) for form in (half_thickness, camber_line) for one in unit]
    tree = cKDTree(surface.points)

    def weights(at: Floats) -> Floats:
        x = (at[:, 0] / chord).clip(0, 1)
        side = upper_side(surface)[tree.query(at)[1]]
        return np.stack(
            [form(x, one) / top * (side if form is half_thickness else 1.0) for form, one, top in forms], axis=1
        )

    count = 2 * MODES
    numbered = csr_array((np.ones(count), (2 * np.arange(count) + 1, np.arange(count))), shape=(2 * count, count))
    return Deformation(weights, numbered, np.full(count, -most), np.full(count, most))


def upper_side(surface: Surface) -> Floats:
    """(n,) 1 for points of a section's upper side, -1 for those of the lower one."""
    return np.where(surface.point_area_vectors[:, 1] >= 0, 1.0, -1.0)


# --- what stays the same -----------------------------------------------------------------------------------------


def volume(surface: Surface) -> tuple[float, Floats]:
    """Of closed pieces, m3; in 2D the area inside, m2."""
    return surface.volume, surface.point_area_vectors


def frontal_area(surface: Surface) -> tuple[float, Floats]:
    """The silhouette over the ground of a body in the model's frame, m2."""
    slope = forces.silhouette_slope(surface.points, surface.cells, _AXES, 0.0)
    return forces.silhouette_area(surface.points, _AXES, 0.0, surface.cells), slope


def thickness(surface: Surface, side: Floats) -> tuple[float, Floats]:
    """The largest height of a section in the model's frame, m; `side` (n,) as of the undeformed one."""
    points, sides = surface.points, []
    for sign in (1.0, -1.0):
        index = np.flatnonzero(side == sign)
        sides.append(index[np.argsort(points[index, 0])])
    grid = np.linspace(points[:, 0].min(), points[:, 0].max(), 501)[1:-1]
    heights = [np.interp(grid, points[i, 0], points[i, 1]) for i in sides]
    best = int(np.argmax(heights[0] - heights[1]))
    gradient = np.zeros_like(points)
    for index, sign in zip(sides, (1.0, -1.0), strict=True):
        x = points[index, 0]
        after = int(np.clip(np.searchsorted(x, grid[best]), 1, len(x) - 1))
        part = (grid[best] - x[after - 1]) / max(x[after] - x[after - 1], 1e-300)
        gradient[index[after - 1], 1], gradient[index[after], 1] = sign * (1 - part), sign * part
    return float(heights[0][best] - heights[1][best]), gradient
