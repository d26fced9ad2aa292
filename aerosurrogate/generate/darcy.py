"""Darcy: the pressure of a fluid that seeps through a porous square.

-div(a grad u) = 1 on the unit square, u = 0 on its rim. The permeability a is 12 where a Gaussian random field with
covariance (-Laplace + 9)^-2 and zero slope at the rim is positive and 3 elsewhere, as in the FNO benchmarks. Solved on
421 x 421 points by finite volumes, with the harmonic mean of the two permeabilities on each face.

Cases: a grid on the unit square, every 5th point along each axis (85 x 85) unless said; feature `coefficient` (n, 1),
field `solution` (n, 1): the names of `prepare --format darcy`.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dstn, idctn, idstn
from scipy.sparse.linalg import LinearOperator, cg

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers.arrays import structured, unit_grid
from aerosurrogate.errors import InputError

ABOUT = "Darcy flow by finite volumes on 421 x 421 points; a stand-in, not the published FNO set."
VERSION = 1
SIDE, EVERY = 421, 5
HIGH, LOW = 12.0, 3.0
TOLERANCE = 1e-9  # of the residual

Grid = NDArray[np.float64]


def case(name: str, rng: np.random.Generator, every: int | None) -> Case:
    step = every or EVERY
    if (SIDE - 1) % step:
        raise InputError(f"{SIDE} points do not end on every {step}th", seen=every, remedy="give a divisor of 420")
    a = np.where(random_field(rng, SIDE) > 0, HIGH, LOW)
    u = pressure(a)
    kept = slice(None, None, step)
    a, u = a[kept, kept], u[kept, kept]
    return structured(name, a.shape, unit_grid(*a.shape), {"solution": u}, coefficient=a)


def thinned(finer: Case, every: int | None) -> Case:
    """What `case` gives for `every`, from a case that keeps more points."""
    side = (SIDE - 1) // (every or EVERY) + 1
    assert finer.grid is not None
    kept = slice(None, None, (finer.grid[0] - 1) // (side - 1))
    a, u = (x.reshape(finer.grid)[kept, kept] for x in (finer.features["coefficient"], finer.fields["solution"]))
    return structured(finer.name, a.shape, unit_grid(*a.shape), {"solution": u}, coefficient=a)


def random_field(rng: np.random.Generator, side: int) -> Grid:
    """A sample of N(0, (-Laplace + 9)^-2) on the unit square with zero slope at the rim, (side, side)."""
    k = np.pi * np.arange(side)
    modes = rng.standard_normal((side, side)) / (k[:, None] ** 2 + k**2 + 9)
    modes[0, 0] = 0.0
    return side * idctn(modes, norm="ortho")


def pressure(a: Grid, load: Grid | float = 1.0) -> Grid:
    """u with -div(a grad u) = load and u = 0 on the rim, at the points of a (n, n).

    The permeabilities differ by a factor of four, so the Laplacian, inverted by sine transforms, is a preconditioner
    that gains half a decimal a step on any grid.
    """
    n = len(a) - 2
    h = 1 / (n + 1)
    # Conductances of the faces between neighbours, harmonic means: those of two half cells in series.
    across = 2 * a[1:, 1:-1] * a[:-1, 1:-1] / (a[1:, 1:-1] + a[:-1, 1:-1])  # (n + 1, n), along the first axis
    along = 2 * a[1:-1, 1:] * a[1:-1, :-1] / (a[1:-1, 1:] + a[1:-1, :-1])  # (n, n + 1)

    def flow(x: NDArray) -> NDArray:
        u = np.pad(x.reshape(n, n), 1)
        out = np.diff(across * np.diff(u[:, 1:-1], axis=0), axis=0) + np.diff(along * np.diff(u[1:-1], axis=1), axis=1)
        return -out.ravel()

    waves = 4 * np.sin(np.pi * np.arange(1, n + 1) / (2 * (n + 1))) ** 2
    eigenvalues = waves[:, None] + waves

    def smooth(x: NDArray) -> NDArray:
        return idstn(dstn(x.reshape(n, n), type=1) / eigenvalues, type=1).ravel()

    size = n * n
    right = np.broadcast_to(np.asarray(load, float), (n, n)).ravel() * h**2
    operator, inverse = (LinearOperator((size, size), matvec=f, dtype=float) for f in (flow, smooth))
    u, failed = cg(operator, right, rtol=TOLERANCE, maxiter=200, M=inverse)
    if failed:
        raise InputError("the pressure did not converge", seen=f"{failed} steps")
    return np.pad(u.reshape(n, n), 1)
