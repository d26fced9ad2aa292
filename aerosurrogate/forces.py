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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.errors import InputError
from aerosurrogate.flow import Conditions, FlowAxes

Vector = NDArray[np.float64]
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


def silhouette_area(corners: NDArray, axes: FlowAxes, floor: float = -math.inf) -> float:
    """Area in m2 of the shadow that triangles, corners (n, 3, 3) m, cast along the flow above `floor`; right to 0.1 %.

    Each scan line meets a triangle in an interval; the union of a line's intervals is measured exactly and the lines
    are added up. Overlapping, concave and separate pieces therefore count once and gaps do not count at all.
    """
    across, height = np.asarray(corners, dtype=float) @ axes.side, np.asarray(corners, dtype=float) @ axes.up
    low, high = max(float(height.min()), floor), float(height.max())
    if high <= low:
        return 0.0
    spacing = (high - low) / _LINES
    line, start, end = _intervals(across - across.min(), (height - low) / spacing - 0.5)
    if floor > height.min():
        start, end, line = start[line >= 0], end[line >= 0], line[line >= 0]
    return float(_union_length(line, start, end) * spacing)


def rectangle_area(points: NDArray, axes: FlowAxes) -> float:
    """Area in m2 of the upright rectangle that encloses the front view of points (n, 3) m."""
    return float(np.ptp(np.asarray(points) @ axes.side) * np.ptp(np.asarray(points) @ axes.up))


def _three(vectors: NDArray) -> Vector:
    vectors = np.asarray(vectors, dtype=float)
    return vectors if vectors.shape[1] == 3 else np.pad(vectors, ((0, 0), (0, 3 - vectors.shape[1])))


def _intervals(x: Vector, y: Vector) -> tuple[NDArray[np.intp], Vector, Vector]:
    """Where the lines y = 0, 1, 2, ... meet triangles with corners x, y (n, 3): line, start and end, each (k,)."""
    order = np.argsort(y, axis=1)
    x, y = np.take_along_axis(x, order, axis=1), np.take_along_axis(y, order, axis=1)
    first = np.ceil(y[:, 0])
    count = np.maximum(np.floor(y[:, 2]) - first + 1, 0).astype(np.intp)
    count[np.ptp(x, axis=1) == 0] = 0
    which = np.repeat(np.arange(len(x)), count)
    line = first[which] + (np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count))
    (x0, x1, x2), (y0, y1, y2) = x[which].T, y[which].T

    def crossing(xa: Vector, ya: Vector, xb: Vector, yb: Vector) -> Vector:
        rise = yb - ya
        part = np.clip((line - ya) / np.where(rise > 0, rise, 1.0), 0.0, 1.0)
        return xa + part * (xb - xa)

    long_side = crossing(x0, y0, x2, y2)
    short_side = np.where(line < y1, crossing(x0, y0, x1, y1), crossing(x1, y1, x2, y2))
    return line.astype(np.intp), np.minimum(long_side, short_side), np.maximum(long_side, short_side)


def _union_length(line: NDArray[np.intp], start: Vector, end: Vector) -> float:
    """Length covered by intervals, counted once on each line; starts and ends are not negative."""
    if not len(line):
        return 0.0
    # Lines laid end to end, wider apart than any interval reaches: one sort and one running maximum serve them all.
    shift = line * (1.5 * end.max() + 1e-300)
    order = np.argsort(start + shift)
    start, end = (start + shift)[order], (end + shift)[order]
    reached = np.maximum.accumulate(np.concatenate([[-np.inf], end[:-1]]))
    return float(np.maximum(end - np.maximum(start, reached), 0.0).sum())
