"""Biquadratic finite elements on a structured mesh, for the solids and the pipe."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]
Index = NDArray[np.int64]
GAUSS = {n: np.polynomial.legendre.leggauss(n) for n in (2, 3)}


def lagrange(x: Array, order: int) -> tuple[Array, Array]:
    """Values and slopes at x (q,) of the `order` + 1 polynomials on even nodes of [-1, 1]: (q, order + 1) each."""
    if order == 1:
        return np.stack([1 - x, 1 + x], 1) / 2, np.stack([-np.ones_like(x), np.ones_like(x)], 1) / 2
    return np.stack([x * (x - 1) / 2, 1 - x**2, x * (x + 1) / 2], 1), np.stack([x - 0.5, -2 * x, x + 0.5], 1)


def shapes(points: Array, order: int) -> tuple[Array, Array]:
    """Shape functions (q, k) and their slopes (q, k, 2) at reference points (q, 2); the second axis runs fastest."""
    (a, da), (b, db) = (lagrange(points[:, i], order) for i in (0, 1))

    def product(x: Array, y: Array) -> Array:
        return (x[:, :, None] * y[:, None]).reshape(len(points), -1)

    return product(a, b), np.stack([product(da, b), product(a, db)], axis=-1)


def square(x: Array) -> Array:
    """All pairs of x (n,): (n * n, 2)."""
    return np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)


@dataclass(frozen=True)
class Quads:
    """Elements of nine nodes each on nodes (a, b, 2), both odd; a ring's first axis closes on itself and is even."""

    nodes: Array  # (n, 2)
    cells: Index  # (e, 9)

    @classmethod
    def of(cls, points: Array, *, ring: bool = False) -> "Quads":
        a, b = points.shape[:2]
        number = np.arange(a * b).reshape(a, b)
        if ring:
            number = np.concatenate([number, number[:1]])
        windows = np.lib.stride_tricks.sliding_window_view(number, (3, 3))[::2, ::2]
        return cls(points.reshape(-1, 2), windows.reshape(-1, 9))

    def slopes(self, reference: Array) -> tuple[Array, Array]:
        """At reference points (q, 2) of each element: slopes of the shape functions (e, q, 9, 2), areas (e, q)."""
        _, d = shapes(reference, 2)
        jacobian = np.einsum("qkr,eki->eqir", d, self.nodes[self.cells])  # d x_i / d reference_r
        return np.einsum("qkr,eqri->eqki", d, np.linalg.inv(jacobian)), np.linalg.det(jacobian)

    def gauss(self, n: int) -> tuple[Array, Array, Array]:
        """Gauss points (n * n, 2), slopes (e, q, 9, 2) and weights times areas (e, q)."""
        x, w = GAUSS[n]
        points = square(x)
        slopes, areas = self.slopes(points)
        return points, slopes, areas * (w[:, None] * w).ravel()

    def at_nodes(self, values: Array) -> Array:
        """Means over the elements that share a node: (e, 9, c) -> (n, c)."""
        total = np.zeros((len(self.nodes), values.shape[-1]))
        np.add.at(total, self.cells, values)
        return total / np.bincount(self.cells.ravel())[:, None]


def strains(slopes: Array) -> Array:
    """Maps of nodal displacements (x and y of each node in turn) to exx, eyy, gxy: (e, q, 9, 2) -> (e, q, 3, 18)."""
    b = np.zeros((*slopes.shape[:2], 3, 18))
    b[..., 0, 0::2] = b[..., 2, 1::2] = slopes[..., 0]
    b[..., 1, 1::2] = b[..., 2, 0::2] = slopes[..., 1]
    return b


def freedoms(cells: Index) -> Index:
    """Places of the displacements of elements' nodes, (e, 2 k)."""
    return (2 * cells[..., None] + np.arange(2)).reshape(len(cells), -1)


def assembled(blocks: Array, rows: Index, columns: Index, shape: tuple[int, int]) -> sparse.csc_matrix:
    """The sparse matrix of element blocks (e, r, c) at rows (e, r) and columns (e, c)."""
    i, j = np.broadcast_arrays(rows[:, :, None], columns[:, None])
    return sparse.csc_matrix((blocks.ravel(), (i.ravel(), j.ravel())), shape)


def gathered(places: Index, blocks: Array, count: int) -> Array:
    """The vector (count,) of element vectors (e, r) at places (e, r)."""
    return np.bincount(places.ravel(), blocks.ravel(), count).astype(float)


def solved(matrix: sparse.csc_matrix, right: Array, fixed: Index, values: Array | float) -> Array:
    """x with matrix x = right but for the rows `fixed`, where x has the values given."""
    x = np.zeros(len(right))
    x[fixed] = values
    free = np.setdiff1d(np.arange(len(right)), fixed)
    right = right - matrix @ x
    inner = matrix[free][:, free].tocsc()
    # All matrices here are symmetric in their pattern and strong on their diagonal, where pivots may stay.
    factors = sparse.linalg.splu(inner, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    x[free] = factors.solve(right[free])
    return x
