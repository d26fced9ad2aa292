"""The skin of a body: triangles in 3D, line segments in 2D."""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]


def in_space(vectors: NDArray) -> NDArray:
    """Points or vectors (n, 2 or 3) as (n, 3), those of a plane at z = 0."""
    return np.pad(vectors, ((0, 0), (0, 3 - vectors.shape[1])))


@dataclass(frozen=True, eq=False)
class Surface:
    """Points, and the cells that join them, of a body in d dimensions; lengths in metres.

    Cells are triangles (d = 3), counter-clockwise seen from the fluid, or segments (d = 2) with the fluid on
    their right-hand side, so that a closed curve runs counter-clockwise. What `read_surface` returns is
    oriented that way; `notes` says in words what was done to get there.
    """

    points: Floats  # (n, d)
    cells: Ints  # (m, d)
    name: str = ""
    path: Path | None = None
    point_data: Arrays = field(default_factory=dict)  # (n, ...) each
    cell_data: Arrays = field(default_factory=dict)  # (m, ...) each
    notes: list[str] = field(default_factory=list)

    @property
    def dimension(self) -> int:
        return int(self.points.shape[1])

    @cached_property
    def corners(self) -> Floats:
        """(m, d, d): cell, corner, coordinate."""
        return self.points.take(self.cells, axis=0)

    @cached_property
    def area_vectors(self) -> Floats:
        """(m, d): unit outward normal times area (m2; in 2D the length of the segment x 1 m)."""
        corners = self.corners
        if self.dimension == 2:
            along = corners[:, 1] - corners[:, 0]
            return np.stack([along[:, 1], -along[:, 0]], axis=1)
        return 0.5 * np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])

    @cached_property
    def areas(self) -> Floats:
        """(m,) exact areas, m2."""
        return np.asarray(np.sqrt(np.einsum("md,md->m", self.area_vectors, self.area_vectors)))

    @cached_property
    def normals(self) -> Floats:
        """(m, d) unit outward normals of the cells."""
        return self.area_vectors / np.maximum(self.areas, np.finfo(float).tiny)[:, None]

    @cached_property
    def point_area_vectors(self) -> Floats:
        """(n, d): each cell's area vector shared equally among its corners; they sum to the same
        integrals."""
        share = self.area_vectors / self.dimension
        flat = self.cells.ravel()
        columns = [np.bincount(flat, np.repeat(column, self.dimension), len(self.points)) for column in share.T]
        return np.stack(columns, axis=1)

    @cached_property
    def point_normals(self) -> Floats:
        """(n, d) unit outward normals of the points, weighted by the areas of the cells around them."""
        vectors = self.point_area_vectors
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.maximum(lengths, np.finfo(float).tiny)

    @cached_property
    def point_areas(self) -> Floats:
        """(n,) areas belonging to the points, m2."""
        share = np.repeat(self.areas / self.dimension, self.dimension)
        return np.bincount(self.cells.ravel(), share, len(self.points)).astype(float)

    @cached_property
    def centres(self) -> Floats:
        """(m, d) centroids of the cells."""
        return np.asarray(np.einsum("mkd->md", self.corners) / self.dimension)

    @cached_property
    def bounds(self) -> Floats:
        """(2, d): lowest and highest coordinates."""
        # Column by column: numpy takes twenty times as long for rows of three.
        return np.array([[x.min() for x in self.points.T], [x.max() for x in self.points.T]])

    @property
    def size(self) -> Floats:
        """(d,) extents along the axes, m."""
        return self.bounds[1] - self.bounds[0]

    @property
    def length(self) -> float:
        """The largest extent along an axis, m. The extent along the stream is `size[axis]`."""
        return float(self.size.max())

    @cached_property
    def volume(self) -> float:
        """Enclosed volume, m3 (2D: area x 1 m); negative when the cells face inward; exact for closed
        bodies."""
        heights = (self.centres - self.bounds.mean(axis=0)) * self.area_vectors
        return float(heights.sum() / self.dimension)

    @cached_property
    def pieces(self) -> Ints:
        """(m,) which piece each cell belongs to, numbered from 0; pieces share no point."""
        if self.dimension == 2 and np.array_equal(self.cells[1:, 0], self.cells[:-1, 1]):
            return np.zeros(len(self.cells), np.int64)  # one curve, in order: as most sections are
        labels = components(self.cells, len(self.points))[self.cells[:, 0]]
        return np.unique(labels, return_inverse=True)[1]

    @cached_property
    def parts(self) -> list["Surface"]:
        """The pieces, each as a surface of its own."""
        return [self.select(self.pieces == piece) for piece in range(int(self.pieces.max(initial=-1)) + 1)]

    @cached_property
    def closed(self) -> bool:
        """Whether every side belongs to two cells that run along it in opposite ways, as in a watertight body."""
        if self.dimension == 2:
            start, end = np.sort(self.cells, axis=0).T
            return bool(np.array_equal(start, end) and np.all(np.diff(start)))
        start, end = self.cells.ravel(), np.roll(self.cells, -1, axis=1).ravel()
        way = 2 * (np.minimum(start, end) * len(self.points) + np.maximum(start, end)) + (start > end)
        way.sort()  # one there and one back: 2k, 2k + 1
        return len(way) % 2 == 0 and bool(np.all(way[::2] + 1 == way[1::2]) and np.all(way[::2] % 2 == 0))

    def select(self, mask: Bools) -> "Surface":
        """The cells where the mask (m,) holds, with the points they use and their data."""
        cells = self.cells[mask]
        used = np.zeros(len(self.points), dtype=bool)
        used[cells] = True
        return replace(
            self,
            points=self.points[used],
            cells=(np.cumsum(used) - 1)[cells],
            point_data={name: values[used] for name, values in self.point_data.items()},
            cell_data={name: values[mask] for name, values in self.cell_data.items()},
        )

    def __getstate__(self) -> dict[str, Any]:
        """What goes to another process: not what can be computed again."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def transformed(self, matrix: Floats, shift: Floats, scale: float = 1.0) -> "Surface":
        """The body at scale * (matrix @ x) + shift; its arrays stay as they are, vectors in them too."""
        return replace(self, points=scale * (self.points @ np.asarray(matrix).T) + shift)


def components(cells: Ints, count: int) -> Ints:
    """(count,) label of the connected set that each point belongs to, cells (m, k) joining their points."""
    first = np.repeat(cells[:, :1], cells.shape[1] - 1, axis=1).ravel()
    links = coo_array((np.ones(len(first), dtype=bool), (first, cells[:, 1:].ravel())), shape=(count, count))
    return connected_components(links, directed=False)[1].astype(np.int64)
