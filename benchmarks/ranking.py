"""How fast a folder of designs is ranked: 100 bodies of 15k triangles, read, predicted on their skin, integrated.

    OPENBLAS_NUM_THREADS=1 python benchmarks/ranking.py [--count 100] [--model car] [--jobs 2] [--threads]

The bodies are the cars of sample_meshes/, each stretched a little differently. By processes, as the command does it, or
by the threads of one. Prints one JSON document; core-seconds of processes are not among it.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pyvista as pv

from aerosurrogate import console
from aerosurrogate.coeffs import FOLDER, CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions

SAMPLES = sorted((Path(__file__).parents[1] / "sample_meshes").glob("*.stl"))
TRIANGLES = 15_000


def stretched_cars(folder: Path, count: int) -> list[str]:
    """Write `count` cars of about 15k triangles."""
    meshes = [pv.read(path) for path in SAMPLES]
    meshes = [mesh for mesh in meshes if 0.9 * TRIANGLES < mesh.n_cells < 1.2 * TRIANGLES]
    random = np.random.default_rng(0)
    files = []
    for number in range(count):
        path = folder / f"car_{number:03d}.stl"
        meshes[number % len(meshes)].scale(random.uniform(0.95, 1.05, 3)).save(path)
        files.append(str(path))
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--model", default="car")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--threads", action="store_true")
    options = parser.parse_args()
    console.be_quiet(True)
    with tempfile.TemporaryDirectory() as folder:
        files = stretched_cars(Path(folder), options.count)
        settings = CoeffsOptions(StreamOptions(speed=30.0), model=options.model)
        processes = not options.threads
        coeffs(files[: FOLDER if processes else 2], settings, jobs=options.jobs, processes=processes)  # imports
        start, cpu = time.perf_counter(), time.process_time()
        ranking = coeffs(files, settings, jobs=options.jobs, processes=processes)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    faces = [len(design.body.surface.cells) for design in ranking.designs.values()]
    print(
        json.dumps(
            {
                "designs": len(ranking.rows),
                "faces_per_design": int(np.mean(faces)),
                "cores": os.cpu_count(),
                "seconds": round(seconds, 2),
                "designs_per_second": round(len(ranking.rows) / seconds, 2),
                "cpu_seconds_per_design": None if processes else round(cpu_seconds / len(ranking.rows), 3),
                "load_before": os.getloadavg()[0],
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
