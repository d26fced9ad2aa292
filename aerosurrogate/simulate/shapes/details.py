"""What can be added to a body: mirrors, a spoiler, a rough floor; and a smooth deformation of all of it."""

from collections.abc import Sequence

import numpy as np

from aerosurrogate.mesh.surface import Floats
from aerosurrogate.simulate.shapes.cars import CarShape
from aerosurrogate.simulate.shapes.loft import Piece, brick, ellipsoid, mirror_image

MODES = 3  # waves along each coordinate of a deformation


def mirrors(s: CarShape) -> list[Piece]:
    """A rounded housing on each side, at the foot of the windscreen, sunk into the side window."""
    x = (s.bonnet_length + 0.06 - 0.5) * s.length
    housing = ellipsoid((x, s.width / 2 + 0.02, s.bonnet_height * s.height + 0.05), (0.07, 0.16, 0.08))
    return [housing, mirror_image(housing)]


def spoiler(s: CarShape, body: Piece) -> list[Piece]:
    """A plate that carries on the line of the roof, or of the boot, over the upper rear edge."""
    points, _ = body
    middle = points[np.abs(points[:, 1]) < 0.2 * s.width]
    x, _, z = middle[np.argmax(middle[:, 0] + 1.5 * middle[:, 2] * (middle[:, 0] > 0.25 * s.length))]
    end = min(x + 0.03 * s.length, s.length / 2)
    return [brick((x - 0.05 * s.length, -0.33 * s.width, z - 0.04), (end, 0.33 * s.width, z + 0.01))]


def rough_floor(s: CarShape) -> list[Piece]:
    """Bars across the floor ahead of the diffuser, a quarter of the clearance deep: exhaust, axles and suspension of a
    real car."""
    depth, y = 0.25 * s.clearance, 0.3 * s.width
    places = np.linspace(-0.28, min(0.28, s.diffuser_start - 0.52), 6) * s.length
    return [brick((x, -y, s.clearance - depth), (x + 0.02 * s.length, y, s.clearance + 0.1)) for x in places]


def deformed(pieces: Sequence[Piece], amplitude: float, seed: int) -> list[Piece]:
    """The pieces under one smooth map of space that keeps ground, mid-plane and length where they are.

    x moves by up to `amplitude` lengths, y and z stretch by up to twice that part of themselves; waves are no shorter
    than the body.
    """
    rng = np.random.default_rng(seed)
    both = np.concatenate([points for points, _ in pieces])
    low, size = both.min(axis=0), np.ptp(both, axis=0)
    waves = rng.uniform(-1, 1, (3, MODES, 3)), rng.uniform(0, 2 * np.pi, (3, MODES)), rng.uniform(-1, 1, (3, MODES))

    def wave(component: int, place: Floats) -> Floats:
        turns, phase, height = (part[component] for part in waves)
        angle = 2 * np.pi * place @ turns.T * 0.5 + phase
        return np.asarray(np.sin(angle) @ height / np.abs(height).sum())

    def moved(points: Floats) -> Floats:
        x, y, z = points.T
        place = np.stack([(x - low[0]) / size[0], (2 * y / size[1]) ** 2, z / (low[2] + size[2])], axis=1)
        stretch = [1 + 2 * amplitude * wave(k, place) for k in (1, 2)]
        return np.stack([x + amplitude * size[0] * wave(0, place), y * stretch[0], z * stretch[1]], axis=1)

    results = [moved(points) for points, _ in pieces]
    along = np.concatenate(results)[:, 0]
    scale = size[0] / np.ptp(along)
    shift = low[0] - along.min() * scale
    return [
        (np.stack([points[:, 0] * scale + shift, points[:, 1], points[:, 2]], axis=1), triangles)
        for points, (_, triangles) in zip(results, pieces, strict=True)
    ]
