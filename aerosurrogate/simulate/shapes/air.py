"""Bodies in free air: ellipsoids and spheres, teardrops, cuboids, fuselages, thick wings; pitched in the stream.

They touch z = 0 from above, where a body on the ground would stand, and are as long along the stream as they say.
"""

from dataclasses import dataclass

import numpy as np

from aerosurrogate.mesh.airfoil import naca
from aerosurrogate.simulate.shapes.loft import Piece, capped, closed, loft, rounded_half

Range = tuple[float, float]


@dataclass(frozen=True)
class AirShape:
    """One body in free air. Lengths in m, angles in degrees; width and height before pitching / length."""

    kind: str
    length: float  # along the stream, pitched
    width: float = 1.0  # wings: span / chord at the root
    height: float = 1.0  # wings: thickness / chord
    pitch: float = 0.0  # nose up
    edge_radius: float = 0.0  # cuboids: of the long edges / half the smaller side; below 0: sharp
    nose: float = 0.2  # fuselages: length of the nose / length
    tail: float = 0.3  # fuselages: of the tail / length
    tip: float = 1.0  # wings: chord at the tip / at the root
    sweep: float = 0.0  # wings: of the leading edge


_PITCH = (-15.0, 15.0)

RANGES: dict[str, dict[str, Range]] = {
    "sphere": {"length": (0.5, 3.0)},
    "ellipsoid": {"length": (0.8, 4.0), "width": (0.25, 1.1), "height": (0.25, 1.1), "pitch": _PITCH},
    "teardrop": {"length": (0.8, 4.0), "width": (0.15, 0.5), "height": (0.15, 0.5), "pitch": _PITCH},
    "cuboid": {
        "length": (0.6, 3.0),
        "width": (0.3, 1.1),
        "height": (0.3, 1.1),
        "pitch": _PITCH,
        "edge_radius": (-0.5, 0.6),
    },
    "fuselage": {
        "length": (1.5, 5.0),
        "width": (0.12, 0.35),
        "height": (0.12, 0.35),
        "pitch": (-10.0, 10.0),
        "nose": (0.08, 0.35),
        "tail": (0.1, 0.5),
    },
    "wing": {
        "length": (0.8, 2.5),
        "width": (1.2, 3.0),
        "height": (0.12, 0.24),
        "pitch": (-3.0, 10.0),
        "tip": (0.5, 1.0),
        "sweep": (0.0, 30.0),
    },
}


def body(s: AirShape) -> list[Piece]:
    """The skin, pitched, scaled to its length and set down on z = 0."""
    if s.kind == "wing":
        points, triangles = _wing(s)
    elif s.kind == "cuboid":
        points, triangles = _cuboid(s)
    else:
        points, triangles = _round(s)
    angle = np.radians(s.pitch)
    x = points[:, 0] * np.cos(angle) + points[:, 2] * np.sin(angle)
    z = points[:, 2] * np.cos(angle) - points[:, 0] * np.sin(angle)
    scale = s.length / np.ptp(x)
    set_down = np.stack([x - 0.5 * (x.min() + x.max()), points[:, 1], z - z.min()], axis=1)
    return [(scale * set_down, triangles)]


def _round(s: AirShape) -> Piece:
    """Elliptic sections along x, 0 to 1, closed by points."""
    angle = np.linspace(0, np.pi, 49)[1:-1]
    x = 0.5 * (1 - np.cos(angle))
    if s.kind == "teardrop":  # the NACA thickness, closed at the end
        radius = 5 * (0.2969 * np.sqrt(x) - 0.126 * x - 0.3516 * x**2 + 0.2843 * x**3 - 0.1036 * x**4)
    elif s.kind == "fuselage":
        nose, tail = np.clip(x / s.nose, 0, 1), np.clip((1 - x) / s.tail, 0, 1)
        radius = 0.5 * np.sqrt(1 - (1 - nose) ** 2) * (1 - (1 - tail) ** 2)
    else:
        radius = 0.5 * np.sin(angle)
    t = np.linspace(0, np.pi, 21)
    half = np.stack([np.zeros(21), np.sin(t) * s.width, -np.cos(t) * s.height], axis=1)
    half[[0, -1], 1] = 0.0
    rings = half * radius[:, None, None] + np.stack([x, 0 * x, 0 * x], axis=1)[:, None]
    points, triangles = loft(rings)
    points[-2:, 0] = 0.0, 1.0
    return points, triangles


def _cuboid(s: AirShape) -> Piece:
    """A box of length 1 with rounded long edges."""
    radius = max(s.edge_radius, 0.0) * min(s.width, s.height) / 2
    y, z = rounded_half(s.width / 2, -s.height / 2, s.height / 2, radius, radius)
    return loft(capped(np.stack([np.stack([np.full_like(y, x), y, z], axis=1) for x in np.linspace(-0.5, 0.5, 25)])))


def _wing(s: AirShape) -> Piece:
    """A section lofted from tip to tip, its leading edge swept; tips are cut straight."""
    loop = naca((0.0, 0.0, 100 * s.height), 60)
    side = np.linspace(0, 1, 16)
    rings = []
    for along in np.concatenate([-side[:0:-1], side]):
        chord = 1 - (1 - s.tip) * abs(along)
        front = abs(along) * s.width / 2 * np.tan(np.radians(s.sweep))
        y = np.full(len(loop), along * s.width / 2)
        rings.append(np.stack([front + chord * loop[:, 0], y, chord * loop[:, 1]], axis=1))
    points, triangles = closed(np.stack(rings))
    return points, triangles[:, ::-1]
