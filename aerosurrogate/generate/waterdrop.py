"""Water drop: particles of a drop that falls into a box and splashes.

A stand-in for the WaterDrop set of Sanchez-Gonzalez et al. (2020), which has 2,000 particles and 1,000 frames. A drop
of random radius and place, with a random velocity, falls in the unit square between walls that it slips along; about
450 particles, 200 frames of 2.5 ms. Solved by the moving-least-squares material point method on 32 x 32 cells, with a
weakly compressible pressure (speed of sound 10) and no viscosity but the method's own.

Cases: particles without order; feature `positions` (n, 12): x, y of the first six frames, and field `positions`
(n, 388): of the 194 after them, the frame changing slowest.
"""

import math

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers.arrays import structured

ABOUT = "A falling drop by the material point method; a stand-in, not the published WaterDrop set."
VERSION = 1
CELLS = 32
FRAMES, GIVEN, FRAME = 200, 6, 2.5e-3  # s
STEPS = 5  # between two frames
GRAVITY, SOUND = 9.81, 10.0
WALL = 3  # cells of the wall, which particles cannot enter
SPACING = 0.5 / CELLS  # four particles a cell

Array = NDArray[np.float64]


def case(name: str, rng: np.random.Generator, every: int | None) -> Case:
    radius = rng.uniform(0.17, 0.2)
    middle = rng.uniform(0.35, 0.65), rng.uniform(0.5, 0.7)
    x = drop(radius, middle)
    v = np.broadcast_to([rng.uniform(-1, 1), rng.uniform(-1, 0)], x.shape)
    frames = trajectory(x, v, FRAMES).transpose(1, 0, 2).reshape(len(x), -1)  # (n, 2 FRAMES)
    return structured(
        name, None, frames[:, :2], {"positions": frames[:, 2 * GIVEN :]}, positions=frames[:, : 2 * GIVEN]
    )


def drop(radius: float, middle: tuple[float, float]) -> Array:
    """Particles of a disc on a square lattice, (n, 2)."""
    side = np.arange(-math.ceil(radius / SPACING), math.ceil(radius / SPACING) + 1) * SPACING
    lattice = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    return lattice[np.linalg.norm(lattice, axis=1) < radius] + middle


def trajectory(x: Array, v: Array, frames: int) -> Array:
    """Positions (frames, n, 2) of particles that start at x (n, 2) with velocities v."""
    x, v = x.copy(), v.copy()
    shear, squeeze = np.zeros((len(x), 2, 2)), np.ones(len(x))  # velocity gradients; volumes over those at rest
    kept = [x.copy()]
    for _ in range(frames - 1):
        for _ in range(STEPS):
            advance(x, v, shear, squeeze, FRAME / STEPS)
        kept.append(x.copy())
    return np.stack(kept)


def advance(x: Array, v: Array, shear: Array, squeeze: Array, dt: float) -> None:
    """One step of all particles, in place: to the grid, forces and walls there, and back."""
    base = (x * CELLS - 0.5).astype(int)
    apart = x * CELLS - base  # (n, 2) in 0.5 .. 1.5
    weight = np.stack([0.5 * (1.5 - apart) ** 2, 0.75 - (apart - 1) ** 2, 0.5 * (apart - 0.5) ** 2])  # (3, n, 2)
    w = weight[:, None, :, 0] * weight[None, :, :, 1]  # (3, 3, n)
    offsets = np.stack(np.meshgrid(*[np.arange(3)] * 2, indexing="ij"), -1)[:, :, None] - apart  # (3, 3, n, 2), cells
    node = (base[:, 0] + np.arange(3)[:, None, None]) * CELLS + base[:, 1] + np.arange(3)[None, :, None]
    push = SOUND**2 * (1 - squeeze) * dt * 4 * CELLS  # pressure times volume, over mass: momentum a cell of distance
    carried = v + np.einsum("nij,abnj->abni", shear / CELLS, offsets) + push[:, None] * offsets
    mass = np.bincount(node.ravel(), w.ravel(), CELLS**2)
    momentum = np.stack([np.bincount(node.ravel(), (w * carried[..., i]).ravel(), CELLS**2) for i in (0, 1)], axis=-1)
    grid = (momentum / np.maximum(mass, 1e-12)[:, None]).reshape(CELLS, CELLS, 2)
    grid[..., 1] -= dt * GRAVITY
    for axis in (0, 1):
        along = np.moveaxis(grid[..., axis], axis, 0)
        along[:WALL] = np.maximum(along[:WALL], 0)
        along[-WALL:] = np.minimum(along[-WALL:], 0)
    seen = grid.reshape(-1, 2)[node] * w[..., None]  # (3, 3, n, 2)
    v[:] = seen.sum((0, 1))
    shear[:] = 4 * CELLS * np.einsum("abni,abnj->nij", seen, offsets)
    squeeze *= 1 + dt * np.trace(shear, axis1=1, axis2=2)
    x += dt * v
