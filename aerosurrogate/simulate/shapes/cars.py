"""Parametric cars: notchback, fastback, estate, SUV, van, hatchback, sports car, pick-up with a covered bed; and
concept cars, whose every measure is drawn far more widely than any of these kinds has it.

A body is a loft through the outlines of roof, floor and plan; wheels are closed cylinders sunk into body and ground.
"""

from dataclasses import dataclass

import numpy as np

from aerosurrogate.mesh.surface import Floats
from aerosurrogate.simulate.shapes.loft import (
    Piece,
    capped,
    loft,
    rounded_half,
    rounding,
    smooth_polyline,
    softplus,
    stations,
    wheel_pair,
)

Range = tuple[float, float]


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
    diffuser: float  # floor upward to the tail
    wheels: str  # "yes" or "no"
    wheel_radius: float
    chin_rise: float = 0.09  # of the floor towards a point half a metre ahead of the nose, m
    chin_end: float = 0.12  # nose to where the floor is flat / length
    diffuser_start: float = 0.8  # nose to where the floor begins to rise / length
    sill_radius: float = 0.6  # of the lower long edges / edge_radius
    front_axle: float = 0.195  # behind the nose / length
    wheelbase: float = 0.605  # between the axles / length
    wheel_width: float = 0.62  # / wheel_radius


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
    "hatchback": _ALL
    | {
        "length": (3.4, 4.2),
        "height": (1.42, 1.58),
        "width": (1.60, 1.82),
        "nose_height": (0.48, 0.58),
        "bonnet_height": (0.62, 0.69),
        "bonnet_length": (0.18, 0.26),
        "windscreen_angle": (28.0, 40.0),
        "roof_end": (0.84, 0.93),
        "roof_drop": (0.03, 0.12),
        "rear_angle": (30.0, 60.0),
        "deck_height": (0.58, 0.70),
        "hatch_lean": (5.0, 25.0),
        "tumblehome": (10.0, 20.0),
        "wheel_radius": (0.28, 0.32),
    },
    "sports": _ALL
    | {
        "length": (4.0, 4.8),
        "height": (1.12, 1.30),
        "width": (1.76, 2.00),
        "clearance": (0.09, 0.14),
        "nose_height": (0.44, 0.54),
        "bonnet_height": (0.60, 0.70),
        "bonnet_length": (0.22, 0.36),
        "windscreen_angle": (22.0, 32.0),
        "roof_end": (0.54, 0.68),
        "rear_angle": (8.0, 28.0),
        "deck_height": (0.62, 0.80),
        "hatch_lean": (0.0, 15.0),
        "tumblehome": (16.0, 28.0),
        "diffuser": (0.0, 15.0),
    },
    "pickup": _ALL
    | {
        "length": (4.9, 5.9),
        "height": (1.70, 1.95),
        "width": (1.80, 2.05),
        "clearance": (0.20, 0.32),
        "nose_height": (0.52, 0.62),
        "bonnet_height": (0.62, 0.68),
        "bonnet_length": (0.22, 0.27),
        "windscreen_angle": (30.0, 42.0),
        "roof_end": (0.50, 0.64),
        "rear_angle": (55.0, 78.0),
        "deck_height": (0.56, 0.66),
        "hatch_lean": (0.0, 5.0),
        "taper": (0.0, 4.0),
        "tumblehome": (8.0, 16.0),
        "edge_radius": (0.04, 0.12),
        "wheel_radius": (0.36, 0.42),
    },
    "concept": {
        "length": (3.4, 5.6),
        "width": (1.5, 2.1),
        "height": (1.15, 1.9),
        "clearance": (0.08, 0.28),
        "nose_height": (0.42, 0.70),
        "bonnet_height": (0.50, 0.80),
        "bonnet_length": (0.08, 0.34),
        "windscreen_angle": (24.0, 65.0),
        "roof_end": (0.55, 0.98),
        "roof_drop": (0.0, 0.16),
        "rear_angle": (8.0, 75.0),
        "deck_height": (0.50, 0.90),
        "hatch_lean": (0.0, 20.0),
        "taper": (0.0, 13.0),
        "tumblehome": (3.0, 28.0),
        "nose_radius": (0.01, 0.34),
        "edge_radius": (0.02, 0.28),
        "tail_radius": (0.01, 0.18),
        "nose_bow": (0.0, 0.40),
        "diffuser": (0.0, 16.0),
        "wheel_radius": (0.26, 0.42),
    },
}
# Prototypes vary below the sills too, where the others are alike and real cars are not.
RANGES["prototype"] = RANGES["concept"] | {
    "chin_rise": (0.0, 0.9),
    "chin_end": (0.03, 0.25),
    "diffuser_start": (0.6, 0.92),
    "sill_radius": (0.3, 2.5),
    "front_axle": (0.14, 0.23),
    "wheelbase": (0.54, 0.64),
    "wheel_width": (0.45, 0.85),
}


def body(s: CarShape) -> list[Piece]:
    """The skin without wheels."""
    return [loft(_car_rings(s))]


def wheels(s: CarShape) -> list[Piece]:
    """Four wheels; the rear ones follow the boat tail inward."""
    pieces = []
    front = -s.length / 2 + s.front_axle * s.length
    for x in (front, front + s.wheelbase * s.length):
        inward = s.width / 2 - float(_plan_line(s, np.array([x + s.length / 2]))[0])
        pieces += wheel_pair(x, s.width / 2 - 0.035 - inward, s.wheel_radius, s.wheel_width)
    return pieces


def _car_rings(s: CarShape) -> Floats:
    """Half rings (stations, m, 3) of the body, nose to tail, in the car's frame."""
    x = stations(s.length, s.nose_radius, s.tail_radius, step=s.length / 64)
    top, bottom = _top_line(s, x), _floor_line(s, x)
    half = _plan_line(s, x)
    inset = rounding(x, s.nose_radius) + rounding(s.length - x, s.tail_radius)
    # The nose is never rounder than half its height.
    room = 0.45 * (top - bottom)
    inset_z = np.minimum(inset, room)
    rings = np.stack(
        [
            _section(xi, hw - di, lo + dz, hi - dz, s.edge_radius, s)
            for xi, hw, lo, hi, di, dz in zip(x, half, bottom, top, inset, inset_z, strict=True)
        ]
    )
    rings = capped(rings)
    _bend(rings, s)
    rings[..., 0] -= s.length / 2
    return rings


def _top_line(s: CarShape, x: Floats) -> Floats:
    """Height of the mid-plane's upper outline at stations x: bonnet, windscreen, roof, rear window, deck."""
    cowl_x, cowl_z = s.bonnet_length * s.length, s.bonnet_height * s.height
    roof_front_z = s.height - 0.03
    roof_front_x = cowl_x + (roof_front_z - cowl_z) / np.tan(np.radians(s.windscreen_angle))
    roof_end_x, roof_end_z = s.roof_end * s.length, s.height - s.roof_drop
    roof_front_x = min(roof_front_x, roof_end_x - 0.08 * s.length)  # a steeper windscreen rather than no roof
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
    return smooth_polyline(x, np.array(corners), width=0.13)


def _floor_line(s: CarShape, x: Floats) -> Floats:
    """Height of the floor: a rise to the nose, flat, then the diffuser to the tail."""
    start = s.diffuser_start * s.length
    rise = np.tan(np.radians(s.diffuser))
    flat = s.chin_end * s.length
    # The chin leaves more than half of the nose.
    chin = min(s.chin_rise, 0.4 * (s.nose_height * s.height - s.clearance) * (0.5 + flat) / flat)
    corners = [(-0.5, s.clearance + chin), (flat, s.clearance), (start, s.clearance)]
    corners += [(s.length + 0.5, s.clearance + rise * (s.length + 0.5 - start))]
    return smooth_polyline(x, np.array(corners), width=0.08)


def _plan_line(s: CarShape, x: Floats) -> Floats:
    """Half width at stations x: fuller amidships, drawn in at the nose and, by the taper, at the tail."""
    half, start = s.width / 2, 0.75 * s.length
    inward = np.tan(np.radians(s.taper))
    corners = [(-0.5, half - 0.10), (0.25 * s.length, half), (start, half)]
    corners += [(s.length + 0.5, half - inward * (s.length + 0.5 - start))]
    return smooth_polyline(x, np.array(corners), width=0.2)


def _section(x: float, half: float, low: float, high: float, radius: float, s: CarShape) -> Floats:
    """Half ring (m, 3) at station x from the bottom's middle to the top's: a rounded rectangle whose sides bulge
    slightly below the belt line and lean inward above it."""
    y, z = rounded_half(half, low, high, s.sill_radius * radius, radius)
    belt = s.bonnet_height * s.height
    lean = np.tan(np.radians(s.tumblehome))
    over = softplus(z - belt, 0.06) * lean
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
    lean = softplus(z - deck, 0.05) * np.tan(np.radians(s.hatch_lean))
    lean += 0.12 * np.clip((0.36 * s.height - z) / (0.36 * s.height), 0, 1) ** 2
    tail_bow = 0.4 * s.nose_bow
    rings[..., 0] = x + forward * (s.nose_bow * across + chin) - aft * (tail_bow * across + lean)
