"""Signed distance to a triangle mesh: time and memory beside pyvista's own and a KD-tree on the vertices.

    python benchmarks/distance.py                                  # 200,000 triangles, 1,000,000 points: minutes
    python benchmarks/distance.py --triangles 20000 --points 32000 # seconds

Each method runs in a process of its own, on one core; CPU seconds, trees included. pyvista's time is measured on a
share of the points and scaled up, unless --whole. The error is that of the distance against the analytic torus.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

METHODS = ("aerosurrogate", "pyvista", "kdtree", "aerosurrogate, all cores")
SHARE = 10  # pyvista's time per point hardly depends on their number: a tenth of them will do


def measure(method: str, triangles: int, count: int) -> dict[str, float]:
    """CPU and wall seconds, peak memory above the start (MB) and largest error of one method."""
    import numpy as np
    import pyvista as pv

    from aerosurrogate.mesh.distance import distance
    from aerosurrogate.mesh.surface import Surface

    sides = round((triangles / 2) ** 0.5)
    u, v = np.meshgrid(*2 * [np.arange(sides) * 2 * np.pi / sides], indexing="ij")
    ring = 1 + 0.4 * np.cos(v)
    vertices = np.stack([ring * np.cos(u), ring * np.sin(u), 0.4 * np.sin(v)], axis=-1).reshape(-1, 3)
    index = np.arange(sides**2).reshape(sides, sides)
    a, b, c, d = index, np.roll(index, -1, 0), np.roll(index, (-1, -1), (0, 1)), np.roll(index, -1, 1)
    cells = np.concatenate([np.stack([a, b, c], -1).reshape(-1, 3), np.stack([a, c, d], -1).reshape(-1, 3)])
    points = np.random.default_rng(0).uniform(-2, 2, (count, 3))
    mesh = pv.PolyData.from_regular_faces(vertices, cells)

    def by_kdtree() -> Any:
        from scipy.spatial import cKDTree

        return cKDTree(vertices).query(points)[0]

    run: Callable[[], Any] = {
        "pyvista": lambda: np.asarray(pv.PolyData(points).compute_implicit_distance(mesh)["implicit_distance"]),
        "kdtree": by_kdtree,
    }.get(method, lambda: distance(Surface(vertices, cells), points).distance)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu, wall = time.process_time(), time.perf_counter()
    found = run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    exact = np.hypot(np.hypot(points[:, 0], points[:, 1]) - 1, points[:, 2]) - 0.4
    error = np.abs(np.abs(found) - np.abs(exact)).max() if method == "kdtree" else np.abs(found - exact).max()
    return {"cpu": cpu, "wall": wall, "memory": memory, "error": float(error)}


def in_a_process(method: str, triangles: int, count: int) -> dict[str, float]:
    threads = {} if method.endswith("all cores") else {"IGL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--one", method, "--triangles", str(triangles), "--points", str(count)]
    answer = subprocess.run(command, env={**os.environ, **threads}, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triangles", type=int, default=200_000)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--whole", action="store_true", help="run pyvista on all points")
    parser.add_argument("--one", choices=METHODS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.triangles, options.points)))
        return
    print(f"{options.triangles:,} triangles, {options.points:,} points")
    print(f"{'method':28}{'CPU s':>9}{'wall s':>9}{'of pyvista':>12}{'memory MB':>11}{'error':>10}")
    results = {}
    for method in METHODS:
        share = SHARE if method == "pyvista" and not options.whole and options.points >= 100_000 else 1
        results[method] = in_a_process(method, options.triangles, options.points // share)
        for key in ("cpu", "wall"):
            results[method][key] *= share
    for method, result in results.items():
        ratio = result["cpu"] / results["pyvista"]["cpu"]
        print(
            f"{method:28}{result['cpu']:9.2f}{result['wall']:9.2f}{ratio:12.2f}{result['memory']:11.0f}{result['error']:10.1e}"
        )


if __name__ == "__main__":
    main()
