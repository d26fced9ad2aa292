"""Forces and moments from values on the faces of a skin, and the area they are divided by.

Formulas, with n the unit normal out of the body, A the face's area, tau the stress of the fluid on the body:

    F = sum(-p n A) + sum(tau A)            N (in 2D lines of length A x 1 m: N per metre of span)
    M = sum((x - about) x f)                N m
    cd = F.flow / (q S)    cl = F.up / (q S)    cs = F.side / (q S)    cm = M.side / (q S L), nose-up positive

with q = rho U^2 / 2. p is static gauge pressure in Pa; a kinematic pressure has to be multiplied by the density
before. The normals must point into the fluid: AirfRANS' files hold the opposite. A subset of the faces gives a
subset of the force: integrate over all of them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.conditions import Conditions, FlowAxes
from aerosurrogate.errors import InputError

Vector = NDArray[np.float64]
View = NDArray[np.complex128]  # points of the front view: x across, y up
_LINES = 1000  # scan lines across a silhouette: a step in its outline is then placed to 0.05 % of its height


@dataclass(frozen=True)
class Forces:
    """Force on the body in the axes of the points it was integrated over."""

    pressure: Vector  # (3,) N
    friction: Vector | None  # (3,) N; None where no shear was given
    moment: Vector  # (3,) N m about `about`
    about: Vector  # (3,) m

    @property
    def total(self) -> Vector:
        return self.pressure if self.friction is None else self.pressure + self.friction


@dataclass(frozen=True)
class Coefficients:
    """Forces in wind axes over q S; None where the shear is not known."""

    cd: float
    cl: float
    cs: float  # side force, along up x flow
    cm: float  # nose-up positive
    cd_pressure: float
    cd_friction: float | None
    drag: float  # N
    lift: float  # N


def integrate(
    centres: NDArray,
    normals: NDArray,
    areas: NDArray,
    pressure: NDArray,
    shear: NDArray | None = None,
    about: NDArray | None = None,
) -> Forces:
    """Sum pressure (n,) Pa and shear (n, d) Pa over faces at `centres` (n, d) with unit `normals` (n, d), `areas` (n,).

    d is 2 or 3; the result is always in three dimensions.
    """
    area = np.asarray(areas, dtype=float)[:, None]
    arms = _three(centres)
    origin = np.zeros(3) if about is None else _three(np.asarray(about)[None])[0]
    by_pressure = -_three(normals) * area * np.asarray(pressure, dtype=float).reshape(-1, 1)
    by_shear = None if shear is None else _three(shear) * area
    each = by_pressure if by_shear is None else by_pressure + by_shear
    return Forces(
        pressure=by_pressure.sum(axis=0),
        friction=None if by_shear is None else by_shear.sum(axis=0),
        moment=np.cross(arms - origin, each).sum(axis=0),
        about=origin,
    )


def coefficients(forces: Forces, axes: FlowAxes, conditions: Conditions, area: float) -> Coefficients:
    """Forces over q S in wind axes; `area` in m2 (2D: chord x 1 m), the moment over q S L."""
    if not (math.isfinite(area) and area > 0):
        raise InputError("the reference area must be positive", seen=area, remedy="give --area with a number of m2")
    scale = conditions.dynamic_pressure * area
    total = forces.total
    return Coefficients(
        cd=float(total @ axes.flow) / scale,
        cl=float(total @ axes.up) / scale,
        cs=float(total @ axes.side) / scale,
        cm=float(forces.moment @ axes.side) / (scale * conditions.length),
        cd_pressure=float(forces.pressure @ axes.flow) / scale,
        cd_friction=None if forces.friction is None else float(forces.friction @ axes.flow) / scale,
        drag=float(total @ axes.flow),
        lift=float(total @ axes.up),
    )


def between(head: Mapping[str, float], integrated: Mapping[str, float]) -> dict[str, float]:
    """Halfway between two estimates of `cd` and `cl`: the mean of lifts, and of the logs of drags.

    An integral that is no drag at all, as the small difference of large pressures on a thin section may come out, says
    nothing, and the head stands alone.
    """
    found = {"cl": (head["cl"] + integrated["cl"]) / 2} if "cl" in head and "cl" in integrated else {}
    if "cd" in head and "cd" in integrated:
        drags = head["cd"], integrated["cd"]
        found["cd"] = math.sqrt(drags[0] * drags[1]) if min(drags) > 0 else drags[0]
    return found


def silhouette_area(
    points: NDArray, axes: FlowAxes, floor: float = -math.inf, triangles: NDArray[np.intp] | None = None
) -> float:
    """Area in m2 of the shadow that triangles cast along the flow above `floor`; right to 0.1 %.

    They are triples (m, 3) of points (n, 3) m; without them the points are their corners, (m, 3, 3) m.
    Scan lines are measured exactly where at least one triangle covers them, and added up. Overlapping, concave and
    separate pieces therefore count once and gaps do not count at all.
    """
    points = np.asarray(points, dtype=float).reshape(-1, 3)
    across, height = points @ axes.side, points @ axes.up
    low, high = max(float(height.min()), floor), float(height.max())
    if high <= low:
        return 0.0
    spacing = (high - low) / _LINES
    view = across - across.min() + 1j * ((height - low) / spacing - 0.5)
    if triangles is None:  # corners that fall together are one point
        view, index = np.unique(view, return_inverse=True)
        triangles = index.reshape(-1, 3)
    sides, times = _outline(view, triangles)
    line, x, more, _ = _crossings(view, sides, times)
    order, covered = _coverage(line, x, more)
    return float(np.diff((x + line * _apart(x))[order])[covered[:-1]].sum()) * spacing


def silhouette_slope(points: NDArray, triangles: NDArray, axes: FlowAxes, floor: float = -math.inf) -> Vector:
    """What the area of `silhouette_area` gains where points (n, 3) of triangles (m, 3) move, (n, 3) m2 a metre.

    The area changes with its rim alone: by the rim's movement across, summed over lines along, and its movement up,
    summed over lines upright.
    """
    across, height = points @ axes.side, np.maximum(points @ axes.up, floor)
    slope = np.zeros((len(points), 2))
    for axis, (along, count) in enumerate(((across, height), (height, across))):
        spacing = float(np.ptp(count)) / _LINES
        view = along - along.min() + 1j * ((count - count.min()) / max(spacing, 1e-300) - 0.5)
        sides, times = _outline(view, triangles)
        line, x, more, which = _crossings(view, sides, times)
        order, covered = _coverage(line, x, more)
        enters = np.diff(covered.astype(int), prepend=0)  # 1 where the shadow begins, -1 where it ends
        rim = order[enters != 0]
        start, end = view[sides[which[rim]]].T.imag
        part = (line[rim] - start) / (end - start)
        for corner, weight in zip(sides[which[rim]].T, (1 - part, part), strict=True):
            np.add.at(slope[:, axis], corner, -enters[enters != 0] * weight * spacing)
    slope[points @ axes.up < floor, 1] = 0.0
    return slope[:, :1] * axes.side + slope[:, 1:] * axes.up


def rectangle_area(points: NDArray, axes: FlowAxes) -> float:
    """Area in m2 of the upright rectangle that encloses the front view of points (n, 3) m."""
    return float(np.ptp(np.asarray(points) @ axes.side) * np.ptp(np.asarray(points) @ axes.up))


def _three(vectors: NDArray) -> Vector:
    vectors = np.asarray(vectors, dtype=float)
    return vectors if vectors.shape[1] == 3 else np.pad(vectors, ((0, 0), (0, 3 - vectors.shape[1])))


def _outline(view: View, triangles: NDArray[np.intp]) -> tuple[NDArray[np.intp], Vector]:
    """Sides (k, 2) of triangles (n, 3) of points in the front view, and how often (k,) they are run along that way.

    All triangles are laid counter-clockwise. A side that two of them run along in opposite ways drops out, and those
    that are left still tell how many triangles cover a place: as many as they wind around it.
    """
    a, b, c = view[triangles].T
    laid = np.sign(((b - a).conj() * (c - a)).imag)
    start, end = triangles.ravel(), np.roll(triangles, -1, axis=1).ravel()
    ways = np.repeat(laid, 3) * np.sign(end - start)
    keys, which = np.unique(np.minimum(start, end) * len(view) + np.maximum(start, end), return_inverse=True)
    times = np.bincount(which, ways)
    left = times != 0
    return np.stack(np.divmod(keys[left], len(view)), axis=1), times[left]


def _crossings(view: View, sides: NDArray[np.intp], times: Vector) -> tuple[Vector, Vector, Vector, NDArray[np.intp]]:
    """Where the lines y = 0, 1, 2, ... meet sides: line, x, how many more triangles cover what is right of it, side."""
    start, end = view[sides].T
    down = start.imag > end.imag
    low, high = np.where(down, end, start), np.where(down, start, end)
    first = np.maximum(np.ceil(low.imag), 0.0)
    count = np.maximum(np.ceil(high.imag) - first, 0.0).astype(np.intp)
    which = np.repeat(np.arange(len(sides)), count)
    line = first[which] + (np.arange(len(which)) - (np.cumsum(count) - count)[which])
    along = (high - low)[which]
    x = low.real[which] + (line - low.imag[which]) / along.imag * along.real
    return line, x, np.where(down, times, -times)[which], which


def _coverage(line: Vector, x: Vector, more: Vector) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The crossings in their order, line by line, and whether what lies right of each is covered; no x is negative."""
    order = np.argsort(x + line * _apart(x))
    return order, np.cumsum(more[order]) > 0


def _apart(x: Vector) -> float:
    """By how much lines laid end to end lie apart: one sort and one running sum serve them all."""
    return 1.5 * float(x.max(initial=0.0)) + 1e-300
