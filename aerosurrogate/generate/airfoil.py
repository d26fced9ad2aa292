"""Airfoil: the Mach number around deformed NACA 0012 sections in a transonic stream, Mach 0.8 at no angle of attack.

The published set's problem, compressible flow without viscosity, solved by another program: finite volumes of second
order (limited slopes, AUSM+ fluxes) on this project's own C-grid (simulate/cgrid.py) of 220 x 50 cells to 30 chords,
marched to a steady state from half the resolution. The section is deformed as a bar that follows the vertical
displacements, up to 5 % of the chord, of eight nodes around it: cubic along the chord, linear across.

Cases: grid (221, 51), its corner points; field `mach` (n, 1), there the mean of the cells around: the names of
`prepare --format airfoil`.
"""

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers.arrays import structured
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.airfoil import naca
from aerosurrogate.simulate.cgrid import CGrid, Resolution, grid

ABOUT = "Euler equations at Mach 0.8 by finite volumes on a C-grid; a stand-in, not the published Geo-FNO set."
VERSION = 1
MACH, GAMMA = 0.8, 1.4
CELLS = Resolution(side=80, wake=30, across=50, far=30.0)
FIRST_CELL = 4e-3  # chords
BEND, BOX = 0.05, 0.06  # chords: the largest displacement of a node, and how far the nodes are from the chord
SMOOTH = 1e-4  # squares of differences below which slopes are not limited, lest the limiter keep the flow unsteady
STAGES, COURANT = (0.1918, 0.4929, 1.0), 1.2
FALL, TREMBLE = 5e-3, 0.1  # of the residual: at rest, and at rest but for a shock that trembles
STEADY, LAST, MOST = 25, 500, 2500  # steps: between two looks at the residual, of the mean at the end, of all

Array = NDArray[np.float64]


def case(name: str, rng: np.random.Generator, every: int | None) -> Case:
    mesh = grid(deformed(naca("0012"), rng.uniform(-BEND, BEND, (4, 2))), CELLS, FIRST_CELL)
    if mesh.areas().min() <= 0:
        raise InputError("the grid around this section is folded", seen=name)
    flow = steady(mesh, MACH, start=steady(mesh.halved(), MACH).repeat(2, axis=1).repeat(2, axis=2))
    mach = at_corners(np.hypot(flow[1], flow[2]) / np.sqrt(GAMMA * flow[3] / flow[0]), mesh.wake)
    return structured(name, mach.shape, mesh.points.reshape(-1, 2), {"mach": mach.ravel()})


def deformed(curve: Array, nodes: Array) -> Array:
    """The section (n, 2) moved vertically with eight nodes: (4 along the chord, below and above)."""
    x, y = curve[:, :1], (curve[:, 1:] + BOX) / (2 * BOX)
    cubic = np.concatenate([(1 - x) ** 3, 3 * x * (1 - x) ** 2, 3 * x**2 * (1 - x), x**3], axis=1)
    moved = (cubic @ nodes * np.concatenate([1 - y, y], axis=1)).sum(1)
    return np.column_stack([curve[:, 0], curve[:, 1] + moved])


def steady(mesh: CGrid, mach: float, alpha: float = 0.0, start: Array | None = None) -> Array:
    """Density, velocity and pressure (4, ni, nj) of the steady flow, in units of the stream's density and sound.

    alpha in radians. InputError where the residual has not fallen.
    """
    stream = np.array([1.0, mach * np.cos(alpha), mach * np.sin(alpha), 1 / GAMMA])[:, None, None]
    flow = np.broadcast_to(stream, (4, *mesh.shape)).copy() if start is None else start.copy()
    faces = _faces(mesh)
    first, total = 0.0, np.zeros_like(flow)
    for step in range(MOST):
        before, dt = _conserved(flow), COURANT / _rates(flow, faces)
        for part in STAGES:
            change = residual(flow, mesh.wake, faces, stream)
            flow = _primitive(before - part * dt * change)
        if step >= MOST - LAST:
            total += flow / LAST
        if step % STEADY == STEADY - 1:
            size = float(np.sqrt(np.mean((dt * change)[0] ** 2)))
            first = max(first, size)
            if size < FALL * first:
                return flow
    if size < TREMBLE * first:  # the limiter keeps a shock from coming to rest: the mean has
        return total
    raise InputError("the flow did not become steady", seen=f"residual {size:.1e} of {first:.1e}")


Faces = tuple[Array, Array, Array]  # normals times lengths, (2, ni + 1, nj) and (2, ni, nj + 1); areas (ni, nj)


def _faces(mesh: CGrid) -> Faces:
    p = np.moveaxis(mesh.points, -1, 0)
    out, up = np.diff(p, axis=2), np.diff(p, axis=1)
    ac, bd = p[:, 1:, 1:] - p[:, :-1, :-1], p[:, :-1, 1:] - p[:, 1:, :-1]
    areas = 0.5 * (ac[0] * bd[1] - ac[1] * bd[0])
    return np.stack([out[1], -out[0]]), np.stack([-up[1], up[0]]), areas


def _rates(flow: Array, faces: Faces) -> Array:
    """How often a second waves cross each cell, (ni, nj)."""
    along, across, areas = faces
    sound, total = np.sqrt(GAMMA * flow[3] / flow[0]), 0.0
    for normal in (0.5 * (along[:, 1:] + along[:, :-1]), 0.5 * (across[:, :, 1:] + across[:, :, :-1])):
        total = total + np.abs(flow[1] * normal[0] + flow[2] * normal[1]) + sound * np.hypot(*normal)
    return total / areas


def residual(flow: Array, wake: int, faces: Faces, stream: Array) -> Array:
    """What leaves each cell, per area: mass, momentum, energy, (4, ni, nj)."""
    along, across, areas = faces
    ni, nj = areas.shape
    far = np.broadcast_to(stream, (4, 2, nj))
    left, right = _sides(np.concatenate([far, flow, far], axis=1))
    f = _flux(left, right, along)
    # Below the cut is what lies above it, mirrored along the C; at the wall the ghosts only limit the slopes.
    below = flow[:, ::-1, :2][:, :, ::-1].copy()
    wall = slice(wake, ni - wake)
    below[:, wall] = flow[:, wall, 1::-1]
    left, right = _sides(np.concatenate([below, flow, np.broadcast_to(stream, (4, ni, 2))], axis=2).swapaxes(1, 2))
    g = _flux(left.swapaxes(1, 2), right.swapaxes(1, 2), across)
    pressure = 1.5 * flow[3, wall, 0] - 0.5 * flow[3, wall, 1]
    g[:, wall, 0] = 0.0
    g[1:3, wall, 0] = pressure * across[:, wall, 0]
    return (np.diff(f, axis=1) + np.diff(g, axis=2)) / areas


def _sides(flow: Array) -> tuple[Array, Array]:
    """States on both sides of the faces along axis 1, by limited slopes; two ghosts at either end."""
    d = np.diff(flow, axis=1)
    a, b = d[:, :-1], d[:, 1:]
    slope = (a * (b**2 + SMOOTH) + b * (a**2 + SMOOTH)) / (a**2 + b**2 + 2 * SMOOTH)  # van Albada's
    return flow[:, 1:-2] + 0.5 * slope[:, :-1], flow[:, 2:-1] - 0.5 * slope[:, 1:]


def _flux(left: Array, right: Array, normal: Array) -> Array:
    """AUSM+ (Liou 1996) through faces (4, ...) with normals times lengths (2, ...)."""
    length = np.hypot(*normal)
    n = normal / length
    sounds = [np.sqrt(GAMMA * s[3] / s[0]) for s in (left, right)]
    sound = 0.5 * (sounds[0] + sounds[1])
    carried, pressure = 0.0, 0.0
    for sign, state in ((1, left), (-1, right)):
        m = sign * (state[1] * n[0] + state[2] * n[1]) / sound
        square = (m**2 - 1) ** 2
        fast = np.abs(m) >= 1
        carried = carried + sign * np.where(fast, 0.5 * (m + np.abs(m)), 0.25 * (m + 1) ** 2 + 0.125 * square)
        share = np.where(fast, m > 0, 0.25 * (m + 1) ** 2 * (2 - m) + 0.1875 * m * square)
        pressure = pressure + share * state[3]
    mass = np.asarray(carried) * sound
    heights = [_conserved(s) + np.stack([np.zeros_like(s[3])] * 3 + [s[3]]) for s in (left, right)]
    flux = np.where(mass > 0, heights[0], heights[1]) * mass
    flux[1:3] += pressure * n
    return flux * length


def _conserved(flow: Array) -> Array:
    r, u, v, p = flow
    return np.stack([r, r * u, r * v, p / (GAMMA - 1) + 0.5 * r * (u**2 + v**2)])


def _primitive(state: Array) -> Array:
    r = np.maximum(state[0], 1e-3)
    u, v = state[1:3] / r
    return np.stack([r, u, v, np.maximum((GAMMA - 1) * (state[3] - 0.5 * r * (u**2 + v**2)), 1e-3)])


def at_corners(cells: Array, wake: int) -> Array:
    """Means of the cells around each corner, (ni, nj) -> (ni + 1, nj + 1); the wake's cut joins both of its sides."""
    below = cells[::-1, :1].copy()
    below[wake:-wake] = 1.5 * cells[wake:-wake, :1] - 0.5 * cells[wake:-wake, 1:2]
    below[wake:-wake] = 2 * below[wake:-wake] - cells[wake:-wake, :1]  # so that the mean is the wall's own value
    padded = np.pad(np.concatenate([below, cells], axis=1), ((1, 1), (0, 1)), mode="edge")
    corners: Array = 0.25 * (padded[1:, 1:] + padded[:-1, 1:] + padded[1:, :-1] + padded[:-1, :-1])
    return corners
