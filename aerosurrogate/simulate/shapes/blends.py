"""Blended cars: a hull and a cabin that are lumps without any edge, melted into each other like clay, cut off at floor,
nose and tail, with arches around the wheels.

They are drawn as the surface where a smooth function of space is zero. So they have what neither the lofted nor the
faceted cars have: air between body and wheels, roofs that flow into tails, and a skin meshed alike everywhere.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyvista as pv

from aerosurrogate.mesh.surface import Bools, Floats
from aerosurrogate.simulate.shapes.loft import Piece, softplus, wheel_pair

Range = tuple[float, float]
Coordinate = tuple[Floats, Floats | float, Floats | float]

FINENESS = 110  # cells of the grid along the car
MARGIN = 3  # of its cells around it


@dataclass(frozen=True)
class BlendShape:
    """One blended car. Lengths in m, angles in degrees; what is a fraction says of what.

    A lump reaches as far as |x|^n + |y|^m + |z|^k = 1 of its half sizes: 2 is an ellipsoid, many are a box.
    """

    kind: str
    length: float
    width: float
    height: float  # of the roof above the ground
    clearance: float  # of the floor above the ground
    belt: float  # top of the hull above the floor / height of the body
    nose_fall: float  # of the hull's top, from its middle to the nose / its height
    tail_fall: float  # to the tail
    hull_front: float  # exponents of the hull: towards the nose,
    hull_rear: float  # the tail,
    hull_side: float  # the sides,
    hull_top: float  # the top
    hull_floor: float  # and the floor
    cabin_middle: float  # nose to the cabin's middle / length
    cabin_front: float  # cabin's half length ahead of its middle / length
    cabin_rear: float  # and behind it
    cabin_width: float  # at its foot / width
    windscreen: float  # exponents of the cabin: towards the nose,
    rear_window: float  # the tail,
    cabin_side: float  # the sides,
    roof: float  # and the top
    blend: float  # over which hull and cabin melt, m
    nose_cut: float  # nose to where the hull is cut off / length: the more, the flatter
    nose_lean: float  # of that cut, backward
    tail_cut: float  # the same at the tail
    tail_lean: float  # of that cut, forward
    edge: float  # over which cuts are rounded, m
    chin: float  # floor upward to the nose, over its first tenth
    diffuser: float  # floor upward to the tail
    diffuser_start: float  # nose to where that begins / length
    wheels: str  # "yes" or "no"
    wheel_radius: float
    wheel_width: float  # / wheel_radius
    arch: float  # radius of the wheel arches / wheel_radius
    front_axle: float  # behind the nose / length
    wheelbase: float  # between the axles / length


RANGES: dict[str, dict[str, Range]] = {
    "blended": {
        "length": (3.4, 5.3),
        "width": (1.5, 2.05),
        "height": (1.15, 1.95),
        "clearance": (0.1, 0.26),
        "belt": (0.54, 0.72),
        "nose_fall": (0.05, 0.3),
        "tail_fall": (0.0, 0.35),
        "hull_front": (2.2, 6.0),
        "hull_rear": (2.5, 8.0),
        "hull_side": (2.5, 6.0),
        "hull_top": (2.0, 5.0),
        "hull_floor": (3.0, 8.0),
        "cabin_middle": (0.46, 0.62),
        "cabin_front": (0.2, 0.36),
        "cabin_rear": (0.24, 0.48),
        "cabin_width": (0.82, 0.97),
        "windscreen": (1.7, 3.2),
        "rear_window": (1.7, 6.0),
        "cabin_side": (2.2, 5.0),
        "roof": (2.0, 3.5),
        "blend": (0.03, 0.25),
        "nose_cut": (0.0, 0.05),
        "nose_lean": (-5.0, 25.0),
        "tail_cut": (0.0, 0.07),
        "tail_lean": (-8.0, 22.0),
        "edge": (0.01, 0.08),
        "chin": (0.0, 20.0),
        "diffuser": (0.0, 15.0),
        "diffuser_start": (0.68, 0.9),
        "wheel_radius": (0.27, 0.36),
        "wheel_width": (0.5, 0.8),
        "arch": (1.1, 1.3),
        "front_axle": (0.16, 0.23),
        "wheelbase": (0.55, 0.63),
    }
}


def body(s: BlendShape) -> list[Piece]:
    """The skin without wheels, as triangles of a surface of zeros."""
    step = s.length / FINENESS
    low = np.array([-0.5 * s.length - MARGIN * step, 0.0, s.clearance - MARGIN * step])
    high = np.array([0.5 * s.length, 0.5 * s.width, s.height]) + MARGIN * step
    counts = np.ceil((high - low) / step).astype(int) + 1
    x, y, z = (start + step * np.arange(count) for start, count in zip(low, counts, strict=True))
    values = outside(s, x[:, None, None], y[None, :, None], z[None, None, :])
    # A zero next to a corner of the grid makes needles.
    values = np.where(np.abs(values) < 0.05 * step, np.copysign(0.05 * step, values), values)
    grid = pv.ImageData(dimensions=tuple(counts), spacing=(step,) * 3, origin=tuple(low))
    grid.point_data["outside"] = values.ravel(order="F")
    half = grid.contour([0.0], scalars="outside", method="flying_edges").connectivity("largest").clean()
    points, triangles = np.asarray(half.points, float), half.regular_faces.astype(np.int64)
    corners = points[triangles]
    if np.einsum("nk,nk->n", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() < 0:
        triangles = triangles[:, ::-1]
    scale = s.length / np.ptp(points[:, 0])
    points[:, 0] = (points[:, 0] - points[:, 0].min()) * scale - 0.5 * s.length
    beside = points[:, 1] > 0  # the others lie in the mid-plane, and serve both sides
    image = np.arange(len(points))
    image[beside] = len(points) + np.arange(beside.sum())
    both = np.concatenate([points, points[beside] * [1.0, -1.0, 1.0]])
    return [(both, np.concatenate([triangles, image[triangles][:, ::-1]]))]


def wheels(s: BlendShape) -> list[Piece]:
    """Four wheels, flush with the skin."""
    return [piece for axle in _axles(s) for piece in wheel_pair(axle.x, axle.side, axle.radius, s.wheel_width)]


class Axle(NamedTuple):
    x: float
    radius: float  # of its wheels
    side: float  # of the skin there, and of the wheels' outer faces


@lru_cache(64)
def _axles(s: BlendShape) -> tuple[Axle, Axle]:
    """Both, with wheels no larger than their arches find room for below a low bonnet or tail."""
    first = (s.front_axle - 0.5) * s.length
    y, z = np.linspace(0.0, 0.55 * s.width, 200), np.linspace(s.clearance, s.height, 200)

    def axle(x: float) -> Axle:
        def within(y: Floats, z: Floats) -> Bools:
            return _hull_and_cabin(s, _inner(s, np.array(x)), y, z) < 0

        top = z[within(np.array(0.4 * s.width), z)].max(initial=s.clearance)
        radius = float(min(s.wheel_radius, max(0.2, (top - 0.04) / (1 + s.arch))))
        return Axle(x, radius, float(y[within(y, np.array(1.2 * radius))].max(initial=0.3 * s.width)) - 0.01)

    return axle(first), axle(first + s.wheelbase * s.length)


def outside(s: BlendShape, x: Floats, y: Floats, z: Floats) -> Floats:
    """Below 0 within the body, above 0 outside of it, about the distance in m; x from mid-length, z from the ground."""
    found = _hull_and_cabin(s, _inner(s, x), np.abs(y), z)
    for axle in _axles(s):
        around = np.sqrt((x - axle.x) ** 2 + (z - axle.radius) ** 2) - s.arch * axle.radius
        inner = axle.side - 0.85 * s.wheel_width * axle.radius - np.abs(y)  # the wheel is sunk into the body
        found = _larger(found, -np.maximum(around, inner), s.edge)
    return found


def _inner(s: BlendShape, x: Floats) -> Floats:
    """Where x would be if cuts took from the length."""
    first, last = _ends(s)
    return first + (x / s.length + 0.5) * (last - first)


@lru_cache(64)
def _ends(s: BlendShape) -> tuple[float, float]:
    """Where nose and tail would be."""
    x, z = np.linspace(-0.55, 0.55, 2201) * s.length, np.linspace(s.clearance, s.height, 120)
    within = x[(_hull_and_cabin(s, x[:, None], np.zeros(1), z[None, :]) < 0).any(axis=1)]
    return float(within.min()), float(within.max())


def _hull_and_cabin(s: BlendShape, x: Floats, y: Floats, z: Floats) -> Floats:
    """The body without arches at y >= 0, as `outside` says; x as if cuts took from the length."""
    half, tall = 0.5 * s.length, s.height - s.clearance
    top = s.belt * tall
    along = x / half
    fall = np.where(along < 0, s.nose_fall, s.tail_fall) * along**2
    middle = s.clearance + 0.5 * top
    hull = _lump(
        (along, half, np.where(along < 0, s.hull_front, s.hull_rear)),
        (y / (0.5 * s.width), 0.5 * s.width, s.hull_side),
        _halves(z - middle, 0.5 * top, 0.5 * top * (1 - 2 * fall.clip(0, 0.45)), s.hull_floor, s.hull_top),
    )
    centre, foot = (s.cabin_middle - 0.5) * s.length, middle + 0.3 * top
    cabin = _lump(
        _halves(x - centre, s.cabin_front * s.length, s.cabin_rear * s.length, s.windscreen, s.rear_window),
        (y / (0.5 * s.cabin_width * s.width), 0.5 * s.cabin_width * s.width, s.cabin_side),
        _halves(z - foot, 0.5 * top, s.height - foot, 4.0, s.roof),
    )
    found = cabin - softplus(cabin - hull, 0.3 * s.blend)  # the smaller of the two, blended
    slope = {name: np.tan(np.radians(getattr(s, name))) for name in ("nose_lean", "tail_lean", "chin", "diffuser")}
    cuts = [
        slope["nose_lean"] * (z - s.clearance) - (x + half - s.nose_cut * s.length),
        slope["tail_lean"] * (z - s.clearance) + x - half + s.tail_cut * s.length,
        s.clearance + slope["chin"] * (-0.4 * s.length - x) - z,
        s.clearance + slope["diffuser"] * (x - (s.diffuser_start - 0.5) * s.length) - z,
        s.clearance - z,
    ]
    for cut in cuts:
        found = _larger(found, cut, s.edge)
    return found


def _larger(one: Floats, other: Floats, edge: float) -> Floats:
    """The larger of the two, rounded over `edge`."""
    return np.asarray(one + softplus(other - one, 0.3 * edge))


def _halves(offset: Floats, ahead: Floats | float, behind: Floats | float, first: float, last: float) -> Coordinate:
    """Place, half size and exponent along one coordinate of a lump that differs on both sides of its middle."""
    size = np.where(offset < 0, ahead, behind)
    return offset / size, size, np.where(offset < 0, first, last)


def _lump(*coordinates: Coordinate) -> Floats:
    """About the distance from a lump's skin, by place, half size and exponent along each coordinate."""
    powers = [np.abs(place) ** exponent for place, _, exponent in coordinates]
    slopes = [exponent * np.abs(place) ** (exponent - 1) / size for place, size, exponent in coordinates]
    steep = np.sqrt(sum(slope**2 for slope in slopes)) + 0.5
    return np.asarray(((sum(powers) - 1) / steep).clip(-1.0, 1.0))
