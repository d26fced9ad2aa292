"""Parametric car bodies: notchback, fastback, estate, SUV, van, and the Ahmed body by slant angle.

Frame: flow along +x, up +z, y = 0 the mid-plane, origin at mid-length on the ground. Metres.

A body is a loft: rounded cross-sections at stations along x, each a ring of the same number of points, closed by
concentric rings at nose and tail. Half of every ring is built and mirrored, so bodies are symmetric to the last bit.
Wheels are closed cylinders sunk into body and ground; pieces overlap and stand for their union.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aerosurrogate.mesh.surface import Floats, Ints, Surface

WHEEL_SINK = 0.02  # m below the ground: a wheel that merely touches it leaves cells of no height


@dataclass(frozen=True)
class CarShape:
    """One car. Lengths in m, angles in degrees; heights and stations are fractions as named."""

    kind: str
    length: float
    width: float
    height: float  # of the roof above the ground
    clearance: float  # of the floor above the ground
    nose_height: float  # of the bonnet's leading edge / height
    bonnet_height: float  # at the foot of the windscreen / height
    bonnet_length: float  # nose to foot of the windscreen / length
    windscreen_angle: float  # from the horizontal
    roof_end: float  # nose to the end of the roof / length
    roof_drop: float  # of the roof's end below its top, m
    rear_angle: float  # of the rear window from the horizontal
    deck_height: float  # of boot lid or tail / height
    hatch_lean: float  # of the tail's upper part, forward from the vertical
    taper: float  # boat tail: each side inward over the last quarter
    tumblehome: float  # side windows inward from the vertical
    nose_radius: float  # m
    edge_radius: float  # of the long edges, m
    tail_radius: float  # m
    nose_bow: float  # how far the front curves back towards its corners, m
    diffuser: float  # floor upward over the last fifth
    wheels: str  # "yes" or "no"
    wheel_radius: float


@dataclass(frozen=True)
class AhmedShape:
    """The Ahmed body (SAE 840300) without its stilts: 1.044 x 0.389 x 0.288 m, 0.05 m above the ground."""

    slant: float  # degrees, over the last 0.222 m of the roof, measured along the slant
    kind: str = "ahmed"
    length: float = 1.044
    width: float = 0.389
    height: float = 0.338
    clearance: float = 0.05
    nose_radius: float = 0.1
    slant_length: float = 0.222


Shape = CarShape | AhmedShape
Range = tuple[float, float]

_ALL: dict[str, Range] = {
    "length": (3.9, 4.9),
    "width": (1.68, 1.90),
    "clearance": (0.13, 0.20),
    "roof_drop": (0.02, 0.08),
    "taper": (0.0, 11.0),
    "nose_radius": (0.10, 0.26),
    "edge_radius": (0.07, 0.16),
    "tail_radius": (0.02, 0.08),
    "nose_bow": (0.10, 0.30),
    "diffuser": (0.0, 11.0),
    "wheel_radius": (0.30, 0.34),
}

RANGES: dict[str, dict[str, Range]] = {
    "notchback": _ALL
    | {
        "height": (1.36, 1.50),
        "nose_height": (0.48, 0.56),
        "bonnet_height": (0.63, 0.69),
        "bonnet_length": (0.22, 0.28),
        "windscreen_angle": (26.0, 34.0),
        "roof_end": (0.62, 0.68),
        "rear_angle": (22.0, 36.0),
        "deck_height": (0.66, 0.76),
        "hatch_lean": (0.0, 10.0),
        "tumblehome": (14.0, 24.0),
    },
    "fastback": _ALL
    | {
        "height": (1.32, 1.48),
        "nose_height": (0.46, 0.55),
        "bonnet_height": (0.64, 0.69),
        "bonnet_length": (0.21, 0.27),
        "windscreen_angle": (26.0, 34.0),
        "roof_end": (0.58, 0.66),
        "rear_angle": (12.0, 24.0),
        "deck_height": (0.60, 0.74),
        "hatch_lean": (0.0, 10.0),
        "tumblehome": (14.0, 24.0),
    },
    "estate": _ALL
    | {
        "height": (1.40, 1.54),
        "nose_height": (0.46, 0.54),
        "bonnet_height": (0.62, 0.68),
        "bonnet_length": (0.23, 0.28),
        "windscreen_angle": (27.0, 35.0),
        "roof_end": (0.93, 0.97),
        "roof_drop": (0.03, 0.14),
        "rear_angle": (30.0, 45.0),
        "deck_height": (0.62, 0.72),
        "hatch_lean": (12.0, 35.0),
        "tumblehome": (12.0, 22.0),
    },
    "suv": _ALL
    | {
        "height": (1.58, 1.78),
        "width": (1.78, 1.98),
        "clearance": (0.18, 0.26),
        "nose_height": (0.52, 0.60),
        "bonnet_height": (0.62, 0.68),
        "bonnet_length": (0.22, 0.28),
        "windscreen_angle": (32.0, 44.0),
        "roof_end": (0.92, 0.97),
        "roof_drop": (0.02, 0.12),
        "rear_angle": (30.0, 45.0),
        "deck_height": (0.60, 0.70),
        "hatch_lean": (8.0, 30.0),
        "tumblehome": (10.0, 20.0),
        "wheel_radius": (0.34, 0.39),
    },
    "van": _ALL
    | {
        "length": (4.3, 5.2),
        "height": (1.80, 2.05),
        "width": (1.78, 1.98),
        "clearance": (0.15, 0.22),
        "nose_height": (0.44, 0.52),
        "bonnet_height": (0.54, 0.60),
        "bonnet_length": (0.13, 0.19),
        "windscreen_angle": (36.0, 50.0),
        "roof_end": (0.95, 0.98),
        "roof_drop": (0.01, 0.08),
        "rear_angle": (30.0, 45.0),
        "deck_height": (0.50, 0.60),
        "hatch_lean": (2.0, 12.0),
        "taper": (0.0, 8.0),
        "tumblehome": (5.0, 12.0),
        "edge_radius": (0.08, 0.18),
        "wheel_radius": (0.31, 0.35),
    },
    "ahmed": {"slant": (0.0, 40.0)},
}


def shape_of(parameters: Mapping[str, float | str]) -> Shape:
    """The shape with these parameters, `kind` among them."""
    values: dict[str, Any] = dict(parameters)
    return AhmedShape(**values) if values["kind"] == "ahmed" else CarShape(**values)


def surface(shape: Shape) -> Surface:
    """The skin of the shape: one or more closed pieces, facing outward."""
    pieces = [_loft(_ahmed_rings(shape) if isinstance(shape, AhmedShape) else _car_rings(shape))]
    if isinstance(shape, CarShape) and shape.wheels == "yes":
        pieces += _wheels(shape)
    starts = np.cumsum([0] + [len(points) for points, _ in pieces])
    return Surface(
        np.concatenate([points for points, _ in pieces]),
        np.concatenate([triangles + start for (_, triangles), start in zip(pieces, starts[:-1], strict=True)]),
        name=shape.kind,
    )


# --- cars -------------------------------------------------------------------------------------------------------


def _car_rings(s: CarShape) -> Floats:
    """Half rings (stations, m, 3) of the body, nose to tail, in the car's frame."""
    x = _stations(s.length, s.nose_radius, s.tail_radius, step=s.length / 64)
    top, bottom = _top_line(s, x), _floor_line(s, x)
    half = _plan_line(s, x)
    inset = _rounding(x, s.nose_radius) + _rounding(s.length - x, s.tail_radius)
    # The nose is never rounder than half its height.
    room = 0.45 * (top - bottom)
    inset_z = np.minimum(inset, room)
    rings = np.stack(
        [
            _section(xi, hw - di, lo + dz, hi - dz, s.edge_radius, s)
            for xi, hw, lo, hi, di, dz in zip(x, half, bottom, top, inset, inset_z, strict=True)
        ]
    )
    rings = _capped(rings)
    _bend(rings, s)
    rings[..., 0] -= s.length / 2
    return rings


def _top_line(s: CarShape, x: Floats) -> Floats:
    """Height of the mid-plane's upper outline at stations x: bonnet, windscreen, roof, rear window, deck."""
    cowl_x, cowl_z = s.bonnet_length * s.length, s.bonnet_height * s.height
    roof_front_z = s.height - 0.03
    roof_front_x = cowl_x + (roof_front_z - cowl_z) / np.tan(np.radians(s.windscreen_angle))
    roof_end_x, roof_end_z = s.roof_end * s.length, s.height - s.roof_drop
    # The roof's highest point lies a third along it.
    peak_x = roof_front_x + (roof_end_x - roof_front_x) / 3
    corners = [(-0.5, s.nose_height * s.height - 0.06), (0.0, s.nose_height * s.height)]
    corners += [(cowl_x, cowl_z), (roof_front_x, roof_front_z), (peak_x, s.height), (roof_end_x, roof_end_z)]
    fall = np.tan(np.radians(s.rear_angle))
    deck_z = s.deck_height * s.height
    deck_x = roof_end_x + (roof_end_z - deck_z) / fall
    if deck_x < s.length:
        corners += [(deck_x, deck_z), (s.length + 0.5, deck_z - 0.06 * (s.length + 0.5 - deck_x))]
    else:
        corners += [(s.length + 0.5, roof_end_z - fall * (s.length + 0.5 - roof_end_x))]
    return _smooth_polyline(x, np.array(corners), width=0.13)


def _floor_line(s: CarShape, x: Floats) -> Floats:
    """Height of the floor: a slight rise to the nose, flat, then the diffuser over the last fifth."""
    start = 0.8 * s.length
    rise = np.tan(np.radians(s.diffuser))
    corners = [(-0.5, s.clearance + 0.09), (0.12 * s.length, s.clearance), (start, s.clearance)]
    corners += [(s.length + 0.5, s.clearance + rise * (s.length + 0.5 - start))]
    return _smooth_polyline(x, np.array(corners), width=0.08)


def _plan_line(s: CarShape, x: Floats) -> Floats:
    """Half width at stations x: fuller amidships, drawn in at the nose and, by the taper, at the tail."""
    half, start = s.width / 2, 0.75 * s.length
    inward = np.tan(np.radians(s.taper))
    corners = [(-0.5, half - 0.10), (0.25 * s.length, half), (start, half)]
    corners += [(s.length + 0.5, half - inward * (s.length + 0.5 - start))]
    return _smooth_polyline(x, np.array(corners), width=0.2)


def _section(x: float, half: float, low: float, high: float, radius: float, s: CarShape) -> Floats:
    """Half ring (m, 3) at station x from the bottom's middle to the top's: a rounded rectangle whose sides bulge
    slightly below the belt line and lean inward above it."""
    y, z = _rounded_half(half, low, high, 0.6 * radius, radius)
    belt = s.bonnet_height * s.height
    lean = np.tan(np.radians(s.tumblehome))
    over = _softplus(z - belt, 0.06) * lean
    waist = 0.5 * (s.clearance + belt)
    under = 0.05 * np.clip((waist - z) / waist, 0, None) ** 2 * 4
    y = y * (1 - (over + under) / (s.width / 2))
    crown = 0.035 * (1 - (y / half) ** 2) - 0.035
    z = z + crown * np.clip((z - low) / (high - low), 0, 1) ** 2
    return np.stack([np.full_like(y, x), y, z], axis=1)


def _bend(rings: Floats, s: CarShape) -> None:
    """Curves front and tail in plan and leans the hatch forward, in place: points move along x, inward only."""
    x, y, z = rings[..., 0], rings[..., 1], rings[..., 2]
    forward = np.clip(1 - x / (0.45 * s.length), 0, 1) ** 2
    aft = np.clip(1 - (s.length - x) / (0.35 * s.length), 0, 1) ** 2
    across = (y / (s.width / 2)) ** 2
    chin = 0.10 * np.clip((z - 0.33 * s.height) / (0.33 * s.height), -1, 1) ** 2
    deck = s.deck_height * s.height
    lean = _softplus(z - deck, 0.05) * np.tan(np.radians(s.hatch_lean))
    lean += 0.12 * np.clip((0.36 * s.height - z) / (0.36 * s.height), 0, 1) ** 2
    tail_bow = 0.4 * s.nose_bow
    rings[..., 0] = x + forward * (s.nose_bow * across + chin) - aft * (tail_bow * across + lean)


def _wheels(s: CarShape) -> list[tuple[Floats, Ints]]:
    """Four closed cylinders, chamfered, standing 2 cm deep in the ground."""
    tread = 0.62 * s.wheel_radius
    y_out = s.width / 2 - 0.035
    z = s.wheel_radius - WHEEL_SINK
    front = -s.length / 2 + 0.195 * s.length
    pieces = []
    for x in (front, front + 0.605 * s.length):
        # The rear wheels follow the boat tail inward.
        inward = s.width / 2 - float(_plan_line(s, np.array([x + s.length / 2]))[0])
        points, triangles = _cylinder(s.wheel_radius, y_out - inward - tread, y_out - inward)
        points = points + np.array([x, 0.0, z])
        pieces += [(points, triangles), (points * [1.0, -1.0, 1.0], triangles[:, ::-1])]
    return pieces


def _cylinder(radius: float, y_in: float, y_out: float, around: int = 40) -> tuple[Floats, Ints]:
    """A cylinder along y as a loft of circles, its edges chamfered by a tenth of the radius."""
    c = 0.1 * radius
    profile = [(y_in, 0.5), (y_in, 0.9), (y_in + c, 1.0), (y_out - c, 1.0), (y_out, 0.9), (y_out, 0.5)]
    t = 2 * np.pi * np.arange(around) / around
    circle = np.stack([np.sin(t), np.zeros(around), np.cos(t)], axis=1)
    rings = np.stack([circle * (radius * scale) + [0.0, y, 0.0] for y, scale in profile])
    return _closed(rings)


# --- the Ahmed body ---------------------------------------------------------------------------------------------


def _ahmed_rings(s: AhmedShape) -> Floats:
    """Half rings of the Ahmed body: sharp long edges, front edges rounded by 0.1 m, slanted rear."""
    run = s.slant_length * np.cos(np.radians(s.slant))
    nose = s.nose_radius * (1 - np.cos(np.linspace(0, np.pi / 2, 15)))
    middle = np.linspace(s.nose_radius, s.length - run, 37)[1:]
    x = np.concatenate([nose, middle, np.linspace(s.length - run, s.length, 13)[1:]])
    drop = np.clip(x - (s.length - run), 0, None) * np.tan(np.radians(s.slant))
    inset = _rounding(x, s.nose_radius)
    rings = []
    for xi, di, fall in zip(x, inset, drop, strict=True):
        y, z = _rounded_half(s.width / 2 - di, s.clearance + di, s.height - di - fall, 0.0, 0.0)
        rings.append(np.stack([np.full_like(y, xi), y, z], axis=1))
    capped = _capped(np.stack(rings))
    capped[..., 0] -= s.length / 2
    return capped


# --- lofting ----------------------------------------------------------------------------------------------------


def _stations(length: float, nose: float, tail: float, step: float) -> Floats:
    """Stations from 0 to length: even steps, and even angles on the rounded ends."""
    front = nose * (1 - np.cos(np.linspace(0, np.pi / 2, 9)))
    back = length - tail * (1 - np.cos(np.linspace(0, np.pi / 2, 5)))[::-1]
    middle = np.linspace(nose, length - tail, round((length - nose - tail) / step) + 1)
    return np.concatenate([front, middle[1:-1], back])


def _rounding(x: Floats, radius: float) -> Floats:
    """How far a quarter circle of `radius`, tangent to the end at x = 0, lies inside the outline at x."""
    u = np.clip(1 - x / radius, 0, 1)
    return radius * (1 - np.sqrt(1 - u**2))


def _rounded_half(half: float, low: float, high: float, r_low: float, r_high: float) -> tuple[Floats, Floats]:
    """y and z of the right half of a rounded rectangle, bottom middle to top middle; the same count for all radii > 0.

    Corners of radius 0 stand once.
    """
    limit = 0.45 * min(high - low, half)
    r_low, r_high = min(r_low, limit), min(r_high, limit)
    turn = np.linspace(0, np.pi / 2, 7)[1:-1]
    up, across = np.linspace(0, 1, 11), np.linspace(0, 1, 10)
    flat = np.ones(len(across))
    y = [across * (half - r_low), half - r_low * (1 - np.sin(turn)), np.full(len(up), half)]
    y += [half - r_high * (1 - np.cos(turn)), across[::-1] * (half - r_high)]
    z = [low * flat, low + r_low * (1 - np.cos(turn)), low + r_low + up * (high - low - r_low - r_high)]
    z += [high - r_high * (1 - np.sin(turn)), high * flat]
    outline = np.stack([np.concatenate(y), np.concatenate(z)])
    apart = np.linalg.norm(np.diff(outline), axis=0) > 1e-9
    y_kept, z_kept = outline[:, np.concatenate([[True], apart])]
    return y_kept, z_kept


def _capped(rings: Floats) -> Floats:
    """Adds shrinking copies of the first and last half ring, so that the flat ends are meshed evenly too."""

    def shrunk(ring: Floats, scale: float) -> Floats:
        middle = np.array([ring[0, 0], 0.0, 0.5 * (ring[0, 2] + ring[-1, 2])])
        return middle + scale * (ring - middle)

    scales = (0.82, 0.6, 0.36, 0.14)
    front = [shrunk(rings[0], k) for k in reversed(scales)]
    back = [shrunk(rings[-1], k) for k in scales]
    return np.concatenate([front, rings, back])


def _loft(half_rings: Floats) -> tuple[Floats, Ints]:
    """Closed surface through half rings (stations, m, 3) and their mirror image in y = 0."""
    mirrored = half_rings[:, -2:0:-1] * np.array([1.0, -1.0, 1.0])
    return _closed(np.concatenate([half_rings, mirrored], axis=1))


def _closed(rings: Floats) -> tuple[Floats, Ints]:
    """Outward triangles through full rings (stations, k, 3), ends closed by fans about their middles."""
    stations, k, _ = rings.shape
    j = np.arange(k)
    a = (np.arange(stations - 1)[:, None] * k + j).ravel()
    b = (np.arange(stations - 1)[:, None] * k + (j + 1) % k).ravel()
    # Diagonals mirror each other across the mid-plane of the ring.
    flip = np.tile(j >= k // 2, stations - 1)[:, None]
    one = np.where(flip, np.stack([a, b, a + k], 1), np.stack([a, b, b + k], 1))
    two = np.where(flip, np.stack([b, b + k, a + k], 1), np.stack([a, b + k, a + k], 1))
    first, last = stations * k, stations * k + 1
    end = (stations - 1) * k
    front = np.stack([np.full(k, first), (j + 1) % k, j], 1)
    back = np.stack([np.full(k, last), end + j, end + (j + 1) % k], 1)
    # The mean of a ring's extremes lies on the mid-plane of a mirrored ring exactly.
    middles = [(rings[i].min(0) + rings[i].max(0)) / 2 for i in (0, -1)]
    points = np.concatenate([rings.reshape(-1, 3), middles])
    return points, np.concatenate([one, two, front, back])


def _smooth_polyline(x: Floats, corners: Floats, width: float) -> Floats:
    """Height at x of a polyline with its corners rounded over about `width` metres either way."""
    slopes = np.diff(corners[:, 1]) / np.diff(corners[:, 0])
    z = corners[0, 1] + slopes[0] * (x - corners[0, 0])
    for (xc, _), bend in zip(corners[1:-1], np.diff(slopes), strict=True):
        z = z + bend * _softplus(x - xc, width / 2)
    return z


def _softplus(x: Floats, width: float) -> Floats:
    """max(x, 0) with its corner rounded over about `width`."""
    return width * np.logaddexp(0.0, x / width)
