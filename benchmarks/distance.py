"""Signed distance to a triangle mesh: time and memory beside pyvista's own and a KD-tree on the vertices.

    python benchmarks/distance.py                                  # 200,000 triangles, 1,000,000 points: minutes
    python benchmarks/distance.py --triangles 20000 --points 32000 # seconds
    python benchmarks/distance.py --designs 8                      # what a ranking asks of cars, by libigl and Warp

Each method runs in a process of its own, on one core; CPU seconds, trees included. pyvista's time is measured on a
share of the points and scaled up, unless --whole. The error is that of the distance against the analytic torus.
NVIDIA Warp is measured where it is installed (`pip install warp-lang`), its kernels compiled and loaded before.
"""

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

WARP = ("warp",) if importlib.util.find_spec("warp") else ()
METHODS = ("aerosurrogate", *WARP, "pyvista", "kdtree", "aerosurrogate, all cores")
ROUNDS = 3  # by which times of designs are alternated
SHARE = 10  # pyvista's time per point hardly depends on their number: a tenth of them will do


def measure(method: str, triangles: int, count: int) -> dict[str, float]:
    """CPU and wall seconds, peak memory above the start (MB) and largest error of one method."""
    import numpy as np
    import pyvista as pv

    from aerosurrogate.mesh.distance import _along_curve, distance
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

    def with_warp() -> Any:
        order, found = _along_curve(points), np.empty(len(points))
        found[order] = by_warp.signed(by_warp.tree(vertices, cells), points[order])
        return found

    if method == "warp":
        import by_warp

        by_warp.signed(by_warp.tree(vertices[:3], np.arange(3)), points[:1])
    run: Callable[[], Any] = {
        "warp": with_warp,
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


def ranked(designs: int) -> None:
    """What ranking cars asks of their geometry, once by libigl as the package does, once by Warp."""
    import igl
    import numpy as np

    asked: list[tuple[Any, ...]] = []  # per design: kind, tree, then vertices and cells, or points and accuracy

    class Tree(igl.AABB):
        def init(self, vertices: Any, cells: Any) -> None:
            asked.append(("tree of triangles", self, vertices, cells))
            super().init(vertices, cells)

        def squared_distance(self, vertices: Any, cells: Any, points: Any) -> Any:
            asked.append(("nearest", self, points, ()))
            return super().squared_distance(vertices, cells, points)

    class Winding(igl.FastWindingNumberBVH):
        def init(self, vertices: Any, cells: Any) -> None:
            asked.append(("tree of winding numbers", self, vertices, cells))
            super().init(vertices, cells)

        def winding_number(self, points: Any, *accuracy: float) -> Any:
            if len(points):
                asked.append(("winding numbers", self, points, accuracy))
            return super().winding_number(points, *accuracy)

    import by_warp
    from ranking import stretched_cars

    from aerosurrogate import console
    from aerosurrogate.conditions import StreamOptions
    from aerosurrogate.mesh.distance import INSIDE
    from aerosurrogate.predict import Predictor
    from aerosurrogate.predict_many import predict_many

    console.be_quiet(True)
    predictor, stream = Predictor("car", "cpu"), StreamOptions(speed=30.0)
    logs = []
    with tempfile.TemporaryDirectory() as folder, mock.patch.multiple(igl, AABB=Tree, FastWindingNumberBVH=Winding):
        for file in stretched_cars(Path(folder), designs):
            asked.clear()
            predict_many(predictor, [file], [stream])
            logs.append(list(asked))
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    worst, faces, queries, signs, numbers = 0.0, 0, 0, 0, 0

    def timed(who: str, what: str, call: Callable[..., Any], *given: Any) -> Any:
        start = time.process_time()
        found = call(*given)
        spent[who, what] += time.process_time() - start
        return found

    by_warp.signed(by_warp.tree(np.eye(3), np.arange(3)), np.eye(3))
    for log in ROUNDS * logs:
        trees: dict[Any, Any] = {}
        spent: dict[tuple[str, str], float] = defaultdict(float)
        for what, key, first, second in log:
            if what.startswith("tree"):
                ours = igl.AABB() if what == "tree of triangles" else igl.FastWindingNumberBVH()
                timed("libigl", what, ours.init, first, second)
                winds = what == "tree of winding numbers"
                trees[key] = ours, timed("warp", what, by_warp.tree, first, second, winds), first, second
                continue
            ours, warped, vertices, cells = trees[key]
            if what == "nearest":
                squared, face, _ = timed("libigl", what, ours.squared_distance, vertices, cells, first)
                other, closest = timed("warp", what, by_warp.nearest, warped, first)
                away = np.linalg.norm(first - closest, axis=1)
                worst = max(worst, float(np.abs(away - np.sqrt(squared)).max() / np.ptp(vertices, axis=0).max()))
                faces, queries = faces + int((other != face).sum()), queries + len(first)
            else:
                number = np.asarray(timed("libigl", what, ours.winding_number, first, *second))
                other = timed("warp", what, by_warp.winding, warped, first, *second)
                signs += int(((number > INSIDE) != (other > INSIDE)).sum())
                numbers += len(first)
        for part, seconds in spent.items():
            times[part].append(seconds)
    print(f"{designs} cars, ms of a design (medians)\n{'':28}{'libigl':>9}{'warp':>9}")
    for what in dict.fromkeys(what for _, what in times):
        print(f"{what:28}" + "".join(f"{1e3 * np.median(times[who, what]):9.1f}" for who in ("libigl", "warp")))
    print(f"distance: at most {worst:.1e} of the length apart, another face for {faces} of {queries} points")
    print(f"sign: another for {signs} of {numbers} points")
    for name, wrong in wrong_signs().items():
        print(f"{name:28}" + ", ".join(f"{who} {count}" for who, count in wrong.items()))


def wrong_signs(count: int = 20_000) -> dict[str, dict[str, int]]:
    """How many of so many points are put on the wrong side of cars, whole and damaged, by the exact winding number."""
    import by_warp
    import igl
    import numpy as np
    from ranking import SAMPLES

    from aerosurrogate.mesh.distance import inside
    from aerosurrogate.mesh.read import read_surface
    from aerosurrogate.mesh.surface import Surface

    (file,) = (path for path in SAMPLES if path.stem == "car")
    car, random = read_surface(str(file), "m"), np.random.default_rng(0)
    turned = np.where(random.random((len(car.cells), 1)) < 0.02, car.cells[:, ::-1], car.cells)
    bodies = {
        "wrong signs: car, 5 pieces": car.cells,
        "2 % of its faces missing": car.cells[random.random(len(car.cells)) > 0.02],
        "2 % turned around": turned,
        "half of its faces missing": car.cells[random.random(len(car.cells)) > 0.5],
    }
    low, high = car.bounds
    points = np.concatenate([random.uniform(low, high, (count // 2, 3)), random.choice(car.centres, count // 2)])
    points[count // 2 :] += random.normal(0, 1e-3 * car.length, (count - count // 2, 3))
    result = {}
    for name, cells in bodies.items():
        cells = np.ascontiguousarray(cells)
        exact = np.asarray(igl.winding_number(car.points, cells, points)) > 0.5
        warped = by_warp.winding(by_warp.tree(car.points, cells), points) > 0.5
        ours = inside(Surface(car.points, cells), points)
        result[name] = {"aerosurrogate": int((ours != exact).sum()), "warp": int((warped != exact).sum())}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triangles", type=int, default=200_000)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--whole", action="store_true", help="run pyvista on all points")
    parser.add_argument("--designs", type=int, help="what ranking so many cars asks, by libigl and by Warp, instead")
    parser.add_argument("--one", choices=METHODS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.designs:
        ranked(options.designs)
        return
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
