"""Lofting: rounded cross-sections at stations along x become closed skins.

Half of every ring is built and mirrored, so bodies are symmetric to the last bit; ends are closed by concentric rings.
"""

import numpy as np

from aerosurrogate.mesh.surface import Floats, Ints

Piece = tuple[Floats, Ints]
"""Points (n, 3) in m and outward triangles (m, 3) of one closed skin."""


def stations(length: float, nose: float, tail: float, step: float) -> Floats:
    """Stations from 0 to length: even steps, and even angles on the rounded ends."""
    front = nose * (1 - np.cos(np.linspace(0, np.pi / 2, 9)))
    back = length - tail * (1 - np.cos(np.linspace(0, np.pi / 2, 5)))[::-1]
    middle = np.linspace(nose, length - tail, round((length - nose - tail) / step) + 1)
    return np.concatenate([front, middle[1:-1], back])


def rounding(x: Floats, radius: float) -> Floats:
    """How far a quarter circle of `radius`, tangent to the end at x = 0, lies inside the outline at x."""
    u = np.clip(1 - x / radius, 0, 1)
    return radius * (1 - np.sqrt(1 - u**2))


def rounded_half(half: float, low: float, high: float, r_low: float, r_high: float) -> tuple[Floats, Floats]:
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


def capped(rings: Floats) -> Floats:
    """Adds shrinking copies of the first and last half ring, so that the flat ends are meshed evenly too."""

    def shrunk(ring: Floats, scale: float) -> Floats:
        middle = np.array([ring[0, 0], 0.0, 0.5 * (ring[0, 2] + ring[-1, 2])])
        return middle + scale * (ring - middle)

    scales = (0.82, 0.6, 0.36, 0.14)
    front = [shrunk(rings[0], k) for k in reversed(scales)]
    back = [shrunk(rings[-1], k) for k in scales]
    return np.concatenate([front, rings, back])


def loft(half_rings: Floats) -> Piece:
    """Closed surface through half rings (stations, m, 3) and their mirror image in y = 0."""
    mirrored = half_rings[:, -2:0:-1] * np.array([1.0, -1.0, 1.0])
    return closed(np.concatenate([half_rings, mirrored], axis=1))


def closed(rings: Floats) -> Piece:
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


def smooth_polyline(x: Floats, corners: Floats, width: float) -> Floats:
    """Height at x of a polyline with its corners rounded over about `width` metres either way."""
    slopes = np.diff(corners[:, 1]) / np.diff(corners[:, 0])
    z = corners[0, 1] + slopes[0] * (x - corners[0, 0])
    for (xc, _), bend in zip(corners[1:-1], np.diff(slopes), strict=True):
        z = z + bend * softplus(x - xc, width / 2)
    return z


def softplus(x: Floats, width: float) -> Floats:
    """max(x, 0) with its corner rounded over about `width`."""
    return width * np.logaddexp(0.0, x / width)


def cylinder(radius: float, y_in: float, y_out: float, around: int = 40) -> Piece:
    """A cylinder along y as a loft of circles, its edges chamfered by a tenth of the radius."""
    c = 0.1 * radius
    profile = [(y_in, 0.5), (y_in, 0.9), (y_in + c, 1.0), (y_out - c, 1.0), (y_out, 0.9), (y_out, 0.5)]
    t = 2 * np.pi * np.arange(around) / around
    circle = np.stack([np.sin(t), np.zeros(around), np.cos(t)], axis=1)
    rings = np.stack([circle * (radius * scale) + [0.0, y, 0.0] for y, scale in profile])
    return closed(rings)


WHEEL_SINK = 0.02  # m below the ground: a wheel that merely touches it leaves cells of no height


def wheel_pair(x: float, y_out: float, radius: float, width: float = 0.62) -> list[Piece]:
    """Two wheels at station x, their outer faces at +-y_out: closed cylinders, chamfered, sunk into the ground.

    `width` is over the radius."""
    points, triangles = cylinder(radius, y_out - width * radius, y_out)
    points = points + np.array([x, 0.0, radius - WHEEL_SINK])
    return [(points, triangles), mirror_image((points, triangles))]


def mirror_image(piece: Piece) -> Piece:
    """The piece on the other side of y = 0."""
    points, triangles = piece
    return points * [1.0, -1.0, 1.0], triangles[:, ::-1]


def brick(low: tuple[float, float, float], high: tuple[float, float, float]) -> Piece:
    """A closed box between two corners, symmetric to y = 0 where they are."""
    rings = [
        np.array([(x, low[1], low[2]), (x, high[1], low[2]), (x, high[1], high[2]), (x, low[1], high[2])])
        for x in np.linspace(low[0], high[0], 5)
    ]
    return closed(np.stack(rings))


def ellipsoid(centre: tuple[float, float, float], radii: tuple[float, float, float]) -> Piece:
    """An ellipsoid as a loft of ellipses along x."""
    t = 2 * np.pi * np.arange(24) / 24
    circle = np.stack([np.zeros(24), np.sin(t), -np.cos(t)], axis=1)
    angles = np.linspace(0, np.pi, 15)[1:-1]
    rings = np.stack([circle * np.sin(a) + [-np.cos(a), 0.0, 0.0] for a in angles])
    points, triangles = closed(rings)
    points[-2:] = [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    return points * np.array(radii) + np.array(centre), triangles
