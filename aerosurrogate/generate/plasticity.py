"""Plasticity: a block of 50 x 15 mm, clamped at its bottom, pressed 3 mm down by a die of random shape.

A quasi-static stand-in. The published set is a dynamic simulation at finite strain of elastic, perfectly plastic steel;
solved here is, at each of 20 depths of the die, equilibrium at small strain in plane strain with the deformation
theory of plasticity: E = 200 GPa, Poisson's ratio 0.3, yield stress 70 MPa, then a slope of E / 100. No inertia, no
unloading, no friction. Biquadratic finite elements on 101 x 31 nodes with reduced integration of the volume change;
Newton's method on the energy, which is convex, the die's resistance included.

Cases: grid (101, 31) with points on the unit square; feature `die` (n, 1), the die's height above its lowest place in
mm; field `displacement` (n, 80) = 20 depths x 4, the depth changing slowest: position x, y and displacement x, y in mm:
the names of `prepare --format plasticity`.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.interpolate import CubicSpline

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers.arrays import structured, unit_grid
from aerosurrogate.errors import InputError
from aerosurrogate.generate.quads import Quads, assembled, freedoms, gathered, solved, strains

ABOUT = "Quasi-static pressing by deformation theory at small strain; a stand-in, not the published Geo-FNO set."
VERSION = 1
GRID = (101, 31)
LENGTH, HEIGHT = 50.0, 15.0  # mm
TRAVEL, STEPS = 3.0, 20  # mm
YOUNG, POISSON, YIELD = 200e3, 0.3, 70.0  # MPa
SLOPE = YOUNG / 100
SHEAR, BULK = YOUNG / (2 * (1 + POISSON)), YOUNG / (3 * (1 - 2 * POISSON))
FIRST = YIELD / (3 * SHEAR)  # equivalent strain at yield
DIE = 1e6  # N/mm2, by which the die resists each node that enters it, and is entered by some 1e-4 mm
KNOTS, WAVINESS = 9, 4.0  # of the die's spline: its knots, and the range of their heights in mm
TOLERANCE, MOST = 1e-4, 40  # mm, of Newton's last change; of its steps

Array = NDArray[np.float64]


def case(name: str, rng: np.random.Generator, every: int | None) -> Case:
    x = np.linspace(0, LENGTH, GRID[0])
    die = CubicSpline(np.linspace(0, LENGTH, KNOTS), rng.uniform(0, WAVINESS, KNOTS))(x)
    die -= die.min()
    points = LENGTH * unit_grid(*GRID).astype(float) * [1, HEIGHT / LENGTH]
    moved = pressed(die, np.linspace(TRAVEL / STEPS, TRAVEL, STEPS))  # (20, n, 2)
    table = np.concatenate([points + moved, moved], axis=-1).transpose(1, 0, 2).reshape(len(points), -1)
    return structured(name, GRID, unit_grid(*GRID), {"displacement": table}, die=np.repeat(die, GRID[1]))


def pressed(die: Array, depths: Array, grid: tuple[int, int] = GRID) -> Array:
    """Displacements (depths, n, 2) of the block's nodes under a die of heights (a,) above its lowest place, in mm."""
    axes = np.linspace(0, LENGTH, grid[0]), np.linspace(0, HEIGHT, grid[1])
    quads = Quads.of(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1))
    _, slopes, weights = quads.gauss(3)
    b = strains(slopes)
    _, coarse, coarse_weights = quads.gauss(2)
    volume = strains(coarse)[..., :2, :].sum(2)  # (e, 4, 18): volume change, in fewer points lest the mesh lock
    rigid = BULK * np.einsum("eqk,eql,eq->ekl", volume, volume, coarse_weights)
    places, n = freedoms(quads.cells), 2 * len(quads.nodes)
    number = np.arange(n // 2).reshape(grid)
    bottom, top = number[:, 0], 2 * number[:, -1] + 1
    clamped = np.concatenate([2 * bottom, 2 * bottom + 1])
    diagonal = np.zeros(n)

    def energy(u: Array) -> float:
        own = u[places]
        bulk = 0.5 * np.einsum("ek,ekl,el->", own, rigid, own, optimize=True)
        entered = np.maximum(u[top] - limit, 0)
        return float((_energy(np.einsum("eqik,ek->eqi", b, own)) * weights).sum() + bulk + DIE / 2 * entered @ entered)

    u, results = np.zeros(n), []
    for depth in depths:
        limit = die - depth  # the highest place that the die leaves to a node
        for _ in range(MOST):
            stress, stiffness = _response(np.einsum("eqik,ek->eqi", b, u[places]))
            force = np.einsum("eqik,eqi,eq->ek", b, stress, weights) + np.einsum("ekl,el->ek", rigid, u[places])
            residual = gathered(places, force, n)
            residual[top] += DIE * np.maximum(u[top] - limit, 0)
            diagonal[top] = DIE * (u[top] > limit)
            blocks = np.einsum("eqik,eqij,eqjl,eq->ekl", b, stiffness, b, weights, optimize=True) + rigid
            matrix = assembled(blocks, places, places, (n, n)) + sparse.diags(diagonal, format="csc")
            step = solved(matrix, -residual, clamped, 0.0)
            slope = residual @ step  # of the energy; the step is nothing where the block is clamped
            part, before = 1.0, energy(u)
            while energy(u + part * step) > before + 1e-4 * part * slope and part > 1e-3:
                part /= 2
            u += part * step
            if np.abs(step).max() < TOLERANCE:
                break
        else:
            raise InputError("the block did not come to rest", seen=f"depth {depth:.2f} mm, {np.abs(step).max():.1e}")
        results.append(u.reshape(-1, 2).copy())
    return np.stack(results)


def _sizes(strain: Array) -> tuple[Array, Array]:
    """Deviators xx, yy, zz, xy (e, q, 4) of strains xx, yy, gxy (e, q, 3), and the equivalent strain (e, q)."""
    mean = strain[..., :2].sum(-1) / 3
    dev = np.stack([strain[..., 0] - mean, strain[..., 1] - mean, -mean, strain[..., 2] / 2], axis=-1)
    return dev, np.sqrt(2 / 3 * (dev**2 @ np.array([1.0, 1.0, 1.0, 2.0]))) + 1e-15


def _energy(strain: Array) -> Array:
    """The work of the deviatoric stress up to a strain."""
    _, size = _sizes(strain)
    beyond = np.maximum(size - FIRST, 0)
    return 1.5 * SHEAR * np.minimum(size, FIRST) ** 2 + YIELD * beyond + SLOPE / 2 * beyond**2


def _response(strain: Array) -> tuple[Array, Array]:
    """Deviatoric stress (e, q, 3) and its slope (e, q, 3, 3) at strains xx, yy, xy; the volume's share is elsewhere.

    The equivalent stress is 3 G times the equivalent strain up to yield, and then rises with SLOPE.
    """
    dev, size = _sizes(strain)
    plastic = size > FIRST
    level = np.where(plastic, YIELD + SLOPE * (size - FIRST), 3 * SHEAR * size)
    rise = np.where(plastic, SLOPE, 3 * SHEAR)
    secant = 2 / 3 * level / size
    project = np.array([[2, -1, 0], [-1, 2, 0], [0, 0, 1.5]]) / 3  # xx, yy, gxy to deviators xx, yy, xy
    kept = dev[..., [0, 1, 3]]
    # d size = 2/3 dev : d strain / size; for deviators the volume's part drops out, and xy counts twice as gxy / 2.
    change = 4 / 9 * (rise - level / size) / size**2
    outer = kept[..., :, None] * kept[..., None, :]
    return secant[..., None] * kept, secant[..., None, None] * project + change[..., None, None] * outer
