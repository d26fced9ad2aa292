"""How well a damaged body is made whole: a sample car with triangles missing, mended by us and by VTK's filter.

Run: python benchmarks/repair.py
"""

from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
import pyvista as pv

from aerosurrogate.mesh.orient import open_edges, outward, shared_too_often
from aerosurrogate.mesh.read import read_as_it_is
from aerosurrogate.mesh.repair import repaired
from aerosurrogate.mesh.surface import Surface

CAR = Path(__file__).parents[1] / "sample_meshes" / "car.stl"


def main() -> None:
    whole = outward(read_as_it_is(CAR))[0]
    print("| missing | by | open edges | edges of more than two faces | volume off by | s |\n|---|---|---|---|---|---|")
    for missing in (50, 400, 2000):
        lost = np.random.default_rng(0).choice(len(whole.cells), missing, replace=False)
        damaged = replace(whole, cells=np.delete(whole.cells, lost, axis=0))
        for name, mend in (("ours", repaired), ("VTK's", by_vtk)):
            start = perf_counter()
            mended = mend(damaged.select(np.ones(len(damaged.cells), dtype=bool)))
            seconds = perf_counter() - start
            sound = (
                f"{len(open_edges(mended))} | {shared_too_often(mended)} | {abs(mended.volume / whole.volume - 1):.0e}"
            )
            print(f"| {missing} of {len(whole.cells):,} | {name} | {sound} | {seconds:.2f} |")


def by_vtk(surface: Surface) -> Surface:
    mesh = pv.PolyData.from_regular_faces(surface.points, surface.cells).fill_holes(2 * surface.length)
    mesh = mesh.triangulate().clean()
    return outward(Surface(np.asarray(mesh.points, dtype=float), np.asarray(mesh.regular_faces, dtype=np.int64)))[0]


if __name__ == "__main__":
    main()
