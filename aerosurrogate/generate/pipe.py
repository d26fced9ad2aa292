"""Pipe: steady incompressible flow through a bent channel.

The channel is 10 long and 1 high; its centreline is a cubic spline piece by piece through five heights in [-2, 2] with
slopes in [-1, 1], the first of which are 0. A parabola of speed 1 enters, viscosity 0.005, no slip on the walls, no
stress at the outlet: the problem of the published set. Finite elements with biquadratic velocity and, in each of
64 x 64 cells, a linear pressure, eliminated by a slight compressibility; Newton's method down from higher viscosities.

Cases: the 129 x 129 velocity nodes; field `velocity` (n, 1), the horizontal one: the names of `prepare --format pipe`.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers.arrays import structured
from aerosurrogate.errors import InputError
from aerosurrogate.generate.quads import Quads, assembled, freedoms, gathered, shapes, solved

ABOUT = "Steady Navier-Stokes in bent channels by finite elements; a stand-in, not the published Geo-FNO set."
VERSION = 1
SIDE = 129
LENGTH = 10.0
VISCOSITY = 0.005
START, FALL = 0.08, 4.0  # the viscosity of the first flow, and by what it is divided from one to the next
GIVE = 1e-6  # divergence per pressure
TOLERANCE, ROUGH, MOST = 1e-5, 0.1, 12  # of Newton's last change, at the last viscosity and before; of its steps

Array = NDArray[np.float64]


def case(name: str, rng: np.random.Generator, every: int | None) -> Case:
    points = mesh(rng.uniform(-2, 2, 4), rng.uniform(-1, 1, 4))
    u = flow(points)[0]
    return structured(name, (SIDE, SIDE), points.reshape(-1, 2), {"velocity": u[..., 0].ravel()})


def mesh(heights: Array, slopes: Array, side: int = SIDE) -> Array:
    """Nodes (side, side, 2): along the channel, then from its lower to its upper wall."""
    knots = np.linspace(0, LENGTH, len(heights) + 1)
    middle = CubicHermiteSpline(knots, np.append(0, heights), np.append(0, slopes))
    x, across = np.linspace(0, LENGTH, side), np.linspace(-0.5, 0.5, side)
    x, y = np.broadcast_arrays(x[:, None], middle(x)[:, None] + across)
    return np.stack([x, y], axis=-1)


def flow(points: Array, viscosity: float = VISCOSITY) -> tuple[Array, Array]:
    """Velocity (a, b, 2) at the nodes (a, b, 2), and the mean pressure of each element (a // 2, b // 2)."""
    a, b = points.shape[:2]
    quads = Quads.of(points)
    at, slopes, weights = quads.gauss(3)
    v, p = shapes(at, 2)[0], np.column_stack([np.ones(len(at)), at])
    places, n = freedoms(quads.cells), 2 * a * b
    diffusion = np.einsum("eqki,eqli,eq->ekl", slopes, slopes, weights)
    divergence = np.einsum("qj,eqki,eq->ejki", p, slopes, weights).reshape(len(quads.cells), 3, 18)
    # Pressure = -divergence / GIVE, in each element for itself.
    mass = np.einsum("qi,qj,eq->eij", p, p, weights)
    pressing = np.linalg.solve(mass, divergence) / GIVE  # (e, 3, 18)
    stiff = np.einsum("eji,ejk->eik", divergence, pressing)
    number = np.arange(a * b).reshape(a, b)
    inlet, walls = number[0], np.concatenate([number[:, 0], number[:, -1]])
    fixed = np.unique(np.concatenate([2 * inlet, 2 * inlet + 1, 2 * walls, 2 * walls + 1]))
    x = np.zeros(n)
    x[2 * inlet] = 1 - np.linspace(-1, 1, b) ** 2

    def newton(nu: float, convected: bool) -> float:
        """One step; returns the largest change of a velocity."""
        u = x[places].reshape(-1, 9, 2)
        here, gradient = np.einsum("qk,eki->eqi", v, u), np.einsum("eqkj,eki->eqij", slopes, u)
        carried = np.einsum("qk,eqj,eqlj,eq->ekl", v, here, slopes, weights, optimize=True) * convected
        plain = nu * diffusion + carried
        block = np.einsum("qk,ql,eqij,eq->ekilj", v, v, gradient, weights, optimize=True) * convected
        for i in (0, 1):
            block[:, :, i, :, i] += plain
        force = np.einsum("ekl,eli->eki", plain, u).reshape(-1, 18) + np.einsum("eik,ek->ei", stiff, x[places])
        residual = gathered(places, force, n)
        matrix = assembled(block.reshape(-1, 18, 18) + stiff, places, places, (n, n))
        step = solved(matrix, residual, fixed, 0.0)
        x[:] -= step
        return float(np.abs(step).max())

    newton(START, convected=False)
    for nu in (*_falling(viscosity), viscosity):
        for _ in range(MOST):
            change = newton(nu, convected=True)
            if change < (TOLERANCE if nu == viscosity else ROUGH):
                break
        else:
            raise InputError("the flow did not converge", seen=f"{change:.1e} at viscosity {nu:.3g}")
    pressure = -np.einsum("ejk,ek->ej", pressing, x[places])[:, 0]
    return x.reshape(a, b, 2), pressure.reshape(a // 2, b // 2)


def _falling(end: float) -> list[float]:
    """Viscosities from START down towards `end`."""
    count = math.ceil(math.log(START / end) / math.log(FALL))
    return [START / FALL**i for i in range(count) if START / FALL**i > end]
