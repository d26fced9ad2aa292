"""Elasticity: stress in a unit cell with a hole, clamped at its bottom and pulled up at its top by 100 Pa.

The hole's radius at angle t is 0.2 + 0.2 / (1 + exp(r(t))), r a Gaussian random function with covariance
16 (-d2/dt2 + 9)^-1, of which the first ten waves are kept. The published set is a rubber with shear modulus
2 (C1 + C2) = 0.39 MPa, incompressible, at finite strain; 100 Pa strain it by less than a thousandth, so that linear
elasticity in plane stress is solved here. Biquadratic finite elements on 216 x 17 nodes around the hole.

Cases: every second node, 972 points without order; field `stress` (n, 1), von Mises, Pa: the names of
`prepare --format elasticity`.
"""

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers.arrays import structured
from aerosurrogate.generate.quads import Quads, assembled, freedoms, solved, square, strains

ABOUT = "Linear elasticity, plane stress, biquadratic finite elements; a stand-in, not the published Geo-FNO set."
VERSION = 1
AROUND, OUTWARD = 216, 17  # nodes
WAVES = 10
SHEAR = 2 * (1.863e5 + 9.79e3)  # Pa
PULL = 100.0  # Pa

Array = NDArray[np.float64]


def case(name: str, rng: np.random.Generator, every: int | None) -> Case:
    points = mesh(random_radius(rng))
    stress = von_mises(pulled(points)).reshape(points.shape[:2])
    return structured(name, None, points[::2, ::2].reshape(-1, 2), {"stress": stress[::2, ::2].ravel()})


def random_radius(rng: np.random.Generator) -> Array:
    """Radii of a hole at the angles of `angles`, (AROUND,)."""
    k = np.arange(WAVES + 1)
    size = 4 / np.sqrt(k**2 + 9) / np.sqrt(np.where(k == 0, 2 * np.pi, np.pi))
    phase = k * angles()[:, None]
    even, odd = size * rng.standard_normal((2, WAVES + 1))
    r = np.cos(phase) @ even + np.sin(phase) @ odd
    return 0.2 + 0.2 / (1 + np.exp(r))


def rim() -> Array:
    """Even points on the square's rim about its middle, from the lower right corner upwards, (AROUND, 2)."""
    quarter = AROUND // 4
    s = np.arange(quarter) / quarter - 0.5
    half = np.full(quarter, 0.5)
    sides = [(half, s), (-s, half), (-half, -s), (s, -half)]
    return np.concatenate([np.stack(side, axis=1) for side in sides])


def angles() -> Array:
    return np.arctan2(rim()[:, 1], rim()[:, 0])


def mesh(radius: Array) -> Array:
    """Nodes (AROUND, OUTWARD, 2) on rays from the hole to the rim, closest at the hole: each in the same ratio."""
    reach = np.linalg.norm(rim(), axis=1)
    along = (reach / radius)[:, None] ** np.linspace(-1, 0, OUTWARD)  # of the way to the rim
    return 0.5 + along[..., None] * rim()[:, None]


def pulled(points: Array) -> Array:
    """Stresses xx, yy, xy at the nodes (a, b, 2) of a ring, clamped at y = 0 and pulled up at y = 1: (a * b, 3)."""
    quads = Quads.of(points[:, ::-1], ring=True)  # inwards, so that elements are not turned over
    # Plane stress of an incompressible material: E = 3 G, Poisson's ratio 1/2.
    stiffness = SHEAR * np.array([[4.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
    _, slopes, weights = quads.gauss(3)
    b = strains(slopes)
    blocks = np.einsum("eqik,ij,eqjl,eq->ekl", b, stiffness, b, weights, optimize=True)
    places, n = freedoms(quads.cells), len(quads.nodes)
    matrix = assembled(blocks, places, places, (2 * n, 2 * n))
    clamped = np.flatnonzero(quads.nodes[:, 1] < 1e-9)
    u = solved(matrix, _pull(quads), np.concatenate([2 * clamped, 2 * clamped + 1]), 0.0)
    at_nodes = strains(quads.slopes(square(np.array([-1.0, 0.0, 1.0])))[0])
    stress = quads.at_nodes(np.einsum("ij,eqjk,ek->eqi", stiffness, at_nodes, u[places]))
    return stress.reshape(*points.shape[:2], 3)[:, ::-1].reshape(-1, 3)


def _pull(quads: Quads) -> Array:
    """Forces of the traction on the upper edges: a sixth, two thirds and a sixth of each go to its three nodes."""
    force = np.zeros(2 * len(quads.nodes))
    for edge in quads.cells[:, [0, 3, 6]]:  # the side of an element that lies on the rim
        x, y = quads.nodes[edge].T
        if (y > 1 - 1e-9).all():
            force[2 * edge + 1] += PULL * abs(x[2] - x[0]) * np.array([1, 4, 1]) / 6
    return force


def von_mises(stress: Array) -> Array:
    x, y, xy = stress.T
    return np.sqrt(x**2 - x * y + y**2 + 3 * xy**2)
