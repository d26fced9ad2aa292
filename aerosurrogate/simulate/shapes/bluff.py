"""Bluff bodies near the ground: the Ahmed body, bodies like it and like the Windsor body, boxes, buses and lorries.

One outline serves all: a box with a rounded nose, whose roof may rise behind the nose, fall at the tail (slant), whose
floor may rise (diffuser) and whose sides may draw in (taper). Radii below 0 stand for sharp edges.
"""

from dataclasses import dataclass

import numpy as np

from aerosurrogate.mesh.surface import Floats
from aerosurrogate.simulate.shapes.loft import (
    Piece,
    brick,
    capped,
    loft,
    rounded_half,
    rounding,
    smooth_polyline,
    wheel_pair,
)

Range = tuple[float, float]


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


@dataclass(frozen=True)
class BluffShape:
    """One bluff body. Lengths in m, angles in degrees; what is a fraction says of what."""

    kind: str
    length: float
    width: float
    height: float  # of the roof above the ground
    clearance: float  # of the floor above the ground / height
    nose_radius: float  # / half of the smaller of width and height of the body
    nose_stretch: float = 1.0  # length of the rounded nose / its radius
    nose_height: float = 1.0  # of the front's upper edge above the floor / height of the body
    nose_angle: float = 45.0  # at which the roof rises behind it
    edge_radius: float = 0.0  # of the long edges / the same half
    tail_radius: float = 0.0  # likewise
    slant: float = 0.0  # of the roof at the tail
    slant_length: float = 0.0  # along the slant / height of the body
    diffuser: float = 0.0  # of the floor at the tail, over the last fifth
    taper: float = 0.0  # each side inward over the last quarter
    cab_length: float = 0.25  # lorries: / length
    cab_height: float = 0.8  # lorries: / height
    gap: float = 0.03  # lorries: between cab and load / length
    wheels: str = "no"
    wheel_radius: float = 0.0  # / height


_TAIL: dict[str, Range] = {"diffuser": (0.0, 15.0), "taper": (0.0, 12.0)}

RANGES: dict[str, dict[str, Range]] = {
    "ahmed": {"slant": (0.0, 40.0)},
    "ahmed_like": {
        "length": (0.8, 1.4),
        "width": (0.28, 0.52),
        "height": (0.25, 0.45),
        "clearance": (0.05, 0.30),
        "nose_radius": (-0.2, 0.95),
        "nose_stretch": (0.6, 2.0),
        "edge_radius": (-0.2, 0.3),
        "slant": (0.0, 70.0),
        "slant_length": (0.2, 0.9),
    },
    "windsor": _TAIL
    | {
        "length": (0.9, 1.3),
        "width": (0.32, 0.46),
        "height": (0.28, 0.42),
        "clearance": (0.08, 0.25),
        "nose_radius": (0.2, 0.8),
        "nose_height": (0.4, 0.8),
        "nose_angle": (20.0, 60.0),
        "edge_radius": (-0.1, 0.25),
        "slant": (0.0, 30.0),
        "slant_length": (0.2, 0.8),
    },
    "box": {
        "length": (0.9, 1.8),
        "width": (0.25, 1.0),
        "height": (0.25, 0.65),
        "clearance": (0.04, 0.35),
        "nose_radius": (-0.4, 0.9),
        "edge_radius": (-0.4, 0.6),
        "tail_radius": (-0.4, 0.6),
    },
    "bus": {
        "length": (6.0, 13.0),
        "width": (2.1, 2.6),
        "height": (2.6, 3.5),
        "clearance": (0.08, 0.14),
        "nose_radius": (0.0, 0.45),
        "nose_height": (0.5, 1.0),
        "nose_angle": (55.0, 80.0),
        "edge_radius": (-0.05, 0.25),
        "tail_radius": (-0.05, 0.2),
        "diffuser": (0.0, 8.0),
        "taper": (0.0, 5.0),
        "wheel_radius": (0.14, 0.17),
    },
    "lorry": {
        "length": (6.0, 11.0),
        "width": (2.1, 2.6),
        "height": (2.9, 4.0),
        "clearance": (0.22, 0.30),
        "nose_radius": (0.05, 0.4),
        "nose_height": (0.4, 0.8),
        "nose_angle": (60.0, 85.0),
        "edge_radius": (-0.2, 0.2),
        "cab_length": (0.2, 0.3),
        "cab_height": (0.65, 1.0),
        "gap": (0.01, 0.08),
        "wheel_radius": (0.12, 0.15),
    },
}


def body(s: AhmedShape | BluffShape) -> list[Piece]:
    """The skin without wheels."""
    if isinstance(s, AhmedShape):
        return [loft(_ahmed_rings(s))]
    if s.kind == "lorry":
        return _lorry(s)
    return [loft(_rings(s, s.length, s.width, s.clearance * s.height, s.height))]


def wheels(s: BluffShape) -> list[Piece]:
    """Four wheels, flush with the sides."""
    radius = s.wheel_radius * s.height
    y_out = s.width / 2 - 0.1 * radius
    inward = np.tan(np.radians(s.taper)) * 0.03 * s.length
    return wheel_pair(-0.31 * s.length, y_out, radius) + wheel_pair(0.28 * s.length, y_out - inward, radius)


def _rings(s: BluffShape, length: float, width: float, low: float, high: float) -> Floats:
    """Half rings (stations, m, 3) of a body between the heights low and high, x from -length/2."""
    tall = high - low
    half_size = min(width, tall) / 2
    nose, edge, tail = (max(r, 0.0) * half_size for r in (s.nose_radius, s.edge_radius, s.tail_radius))
    reach = nose * s.nose_stretch
    run = s.slant_length * tall * np.cos(np.radians(s.slant))
    breaks = [reach, length - run, 0.8 * length, 0.75 * length, length - tail]
    even = np.linspace(0, length, 61)
    front = reach * (1 - np.cos(np.linspace(0, np.pi / 2, 12)))
    back = length - tail * (1 - np.cos(np.linspace(0, np.pi / 2, 8)))
    x = _stations(np.concatenate([front, breaks, back]), even, apart=length / 200)

    drop = np.clip(x - (length - run), 0, None) * np.tan(np.radians(s.slant))
    rise = np.clip(x - 0.8 * length, 0, None) * np.tan(np.radians(s.diffuser))
    draw = np.clip(x - 0.75 * length, 0, None) * np.tan(np.radians(s.taper))
    # What slant and diffuser leave of the tail, at least a seventh of the height.
    both = np.maximum(drop + rise, 1e-12)
    fit = np.minimum(1.0, 6 / 7 * tall / both)
    top, floor = _roof(s, x, low, tall) - fit * drop, low + fit * rise
    half = width / 2 - np.minimum(draw, 0.3 * width)
    inset = (rounding(x / s.nose_stretch, nose) if nose else 0.0) + (rounding(length - x, tail) if tail else 0.0)
    inset = np.minimum(inset + 0 * x, 0.48 * np.minimum(2 * half, top - floor))
    rings = []
    for xi, hw, lo, hi, di in zip(x, half, floor, top, inset, strict=True):
        y, z = rounded_half(hw - di, lo + di, hi - di, edge, edge)
        rings.append(np.stack([np.full_like(y, xi), y, z], axis=1))
    result = capped(np.stack(rings))
    result[..., 0] -= length / 2
    return result


def _roof(s: BluffShape, x: Floats, low: float, tall: float) -> Floats:
    """Height of the roof at x: it rises at `nose_angle` from the front's upper edge."""
    if s.nose_height >= 1:
        return np.full_like(x, low + tall)
    front = low + s.nose_height * tall
    run = (1 - s.nose_height) * tall / np.tan(np.radians(s.nose_angle))
    slope = np.tan(np.radians(s.nose_angle))
    corners = [(-tall, front - slope * tall), (run, low + tall), (run + tall, low + tall)]
    return np.minimum(smooth_polyline(x, np.array(corners), width=0.12 * tall), low + tall)


def _stations(needed: Floats, even: Floats, apart: float) -> Floats:
    """The stations that are needed, once each, and of the even ones those that lie `apart` from them, in order."""
    needed = np.unique(np.round(needed, 9))
    needed = needed[np.append(True, np.diff(needed) > 1e-6)]
    return np.sort(np.append(needed, even[np.abs(even[:, None] - needed).min(axis=1) > apart]))


def _lorry(s: BluffShape) -> list[Piece]:
    """Cab and load above a frame that reaches into both."""
    low = s.clearance * s.height
    cab_length = s.cab_length * s.length
    load_length = s.length - cab_length - s.gap * s.length
    cab = _rings(s, cab_length, 0.95 * s.width, 0.6 * low, s.cab_height * s.height)
    box = BluffShape("load", load_length, s.width, s.height, 0.0, nose_radius=0.0, edge_radius=s.edge_radius / 3)
    load = _rings(box, load_length, s.width, low, s.height)
    cab[..., 0] -= (s.length - cab_length) / 2
    load[..., 0] += (s.length - load_length) / 2
    ends = -s.length / 2 + 0.3 * cab_length, s.length / 2 - 0.05 * load_length
    frame = brick((ends[0], -0.2 * s.width, 0.7 * low), (ends[1], 0.2 * s.width, 1.1 * low))
    return [loft(cab), loft(load), frame]


def _ahmed_rings(s: AhmedShape) -> Floats:
    """Half rings of the Ahmed body: sharp long edges, front edges rounded by 0.1 m, slanted rear."""
    run = s.slant_length * np.cos(np.radians(s.slant))
    nose = s.nose_radius * (1 - np.cos(np.linspace(0, np.pi / 2, 15)))
    middle = np.linspace(s.nose_radius, s.length - run, 37)[1:]
    x = np.concatenate([nose, middle, np.linspace(s.length - run, s.length, 13)[1:]])
    drop = np.clip(x - (s.length - run), 0, None) * np.tan(np.radians(s.slant))
    inset = rounding(x, s.nose_radius)
    rings = []
    for xi, di, fall in zip(x, inset, drop, strict=True):
        y, z = rounded_half(s.width / 2 - di, s.clearance + di, s.height - di - fall, 0.0, 0.0)
        rings.append(np.stack([np.full_like(y, xi), y, z], axis=1))
    ends = capped(np.stack(rings))
    ends[..., 0] -= s.length / 2
    return ends
