"""Nearest faces and winding numbers by NVIDIA Warp (`pip install warp-lang`) on a CPU, for benchmarks/distance.py.

In float32. Its public calls give winding numbers only together with nearest faces; here they are asked for alone.
"""

import numpy as np
import warp as wp

wp.config.log_level = wp.LOG_ERROR
wp.init()


@wp.func_native("return wp::mesh_query_winding_number(mesh, point, accuracy);")
def winding_number(mesh: wp.uint64, point: wp.vec3, accuracy: float) -> float: ...


@wp.kernel
def _winding(mesh: wp.uint64, points: wp.array(dtype=wp.vec3), accuracy: float, number: wp.array(dtype=float)):
    i = wp.tid()
    number[i] = winding_number(mesh, points[i], accuracy)


@wp.kernel
def _nearest(
    mesh: wp.uint64, points: wp.array(dtype=wp.vec3), face: wp.array(dtype=int), closest: wp.array(dtype=wp.vec3)
):
    i = wp.tid()
    found = wp.mesh_query_point_no_sign(mesh, points[i], 1.0e9)
    face[i] = found.face
    closest[i] = wp.mesh_eval_position(mesh, found.face, found.u, found.v)


def tree(vertices: np.ndarray, cells: np.ndarray, winding: bool = True) -> wp.Mesh:
    corners = wp.array(np.ascontiguousarray(cells, np.int32).ravel(), dtype=wp.int32, device="cpu")
    return wp.Mesh(_vectors(vertices), corners, support_winding_number=winding)


def nearest(mesh: wp.Mesh, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The face (n,) nearest to each of points (n, 3), and the nearest place (n, 3) on it."""
    face = wp.empty(len(points), dtype=int, device="cpu")
    closest = wp.empty(len(points), dtype=wp.vec3, device="cpu")
    wp.launch(_nearest, dim=len(points), inputs=[mesh.id, _vectors(points), face, closest], device="cpu")
    return face.numpy(), closest.numpy()


def winding(mesh: wp.Mesh, points: np.ndarray, accuracy: float = 2.0) -> np.ndarray:
    """(n,) the winding numbers at points (n, 3)."""
    number = wp.empty(len(points), dtype=float, device="cpu")
    wp.launch(_winding, dim=len(points), inputs=[mesh.id, _vectors(points), accuracy, number], device="cpu")
    return number.numpy()


def signed(mesh: wp.Mesh, points: np.ndarray) -> np.ndarray:
    """(n,) signed distances of points (n, 3)."""
    away = np.linalg.norm(points - nearest(mesh, points)[1], axis=1)
    return np.where(winding(mesh, points) > 0.5, -away, away)


def _vectors(values: np.ndarray) -> wp.array:
    return wp.array(np.ascontiguousarray(values, np.float32), dtype=wp.vec3, device="cpu")
