"""Forty cars of a generator that no model of ours learned from: superellipses lofted between outlines, on four wheels.

    python benchmarks/foreign_cars.py SIMS_DIR [--jobs 2]

Solves them at 30 m/s with `simulate` (needs OpenFOAM; some seventy seconds of a core each; goes on where it stopped)
and packs them as datasets/foreign_cars, with the halves `even` and `odd`. finetuning.py and calibration.py measure on
them.
"""

import argparse
from pathlib import Path

import numpy as np
import pyvista as pv
from scipy.interpolate import PchipInterpolator

from aerosurrogate.conditions import StreamOptions
from aerosurrogate.data.prepare import prepare
from aerosurrogate.data.store import write_manifest
from aerosurrogate.simulate import driver

ROOT = Path(__file__).parents[1]
COUNT = 40
STATIONS, AROUND = 61, 64
SPEED = 30.0  # m/s


def foreign_car(number: int) -> pv.PolyData:
    """A car over the ground at z = 0, flow along x: superelliptic sections lofted between outlines, and four wheels."""
    rng = np.random.default_rng([2026, number])
    length, width, height = rng.uniform(3.4, 5.0), rng.uniform(1.55, 1.95), rng.uniform(1.2, 1.8)  # m
    clearance, wheel = rng.uniform(0.12, 0.24), rng.uniform(0.28, 0.38)
    bonnet, cowl, screen = (
        rng.uniform(0.5, 0.68),
        rng.uniform(0.18, 0.32),
        rng.uniform(0.1, 0.2),
    )  # of height, of length
    roof_end, tail, tail_height = rng.uniform(0.6, 0.85), rng.uniform(0.88, 0.98), rng.uniform(0.5, 0.95)
    top = PchipInterpolator(
        [0.0, 0.03, cowl, cowl + screen, 0.5 * (cowl + screen + roof_end), roof_end, tail, 1.0],
        [0.35, 0.48, bonnet, 0.95, 1.0, 0.96, tail_height, tail_height - 0.04],
    )
    floor = PchipInterpolator([0.0, 0.08, rng.uniform(0.7, 0.9), 1.0], [0.12, 0.0, 0.0, rng.uniform(0.02, 0.15)])
    plan = PchipInterpolator([0.0, 0.05, 0.25, 0.75, 1.0], [0.7, 0.84, 1.0, 1.0, rng.uniform(0.75, 0.95)])
    s = 0.5 - 0.5 * np.cos(np.linspace(0, np.pi, STATIONS))
    low, high = clearance + height * floor(s), clearance + (height - clearance) * top(s)
    angle = np.linspace(0, 2 * np.pi, AROUND, endpoint=False) + np.pi / AROUND
    square = rng.uniform(3.0, 5.0)
    y, z = (np.sign(w) * np.abs(w) ** (2 / square) for w in (np.cos(angle), np.sin(angle)))
    y = y * (1 - rng.uniform(0.08, 0.2) * np.clip(z, 0, 1))  # the cabin leans inward
    ring = np.stack([
        np.broadcast_to((s[:, None] - 0.5) * length, (STATIONS, AROUND)),
        0.5 * width * plan(s)[:, None] * y,
        0.5 * (low + high)[:, None] + 0.5 * (high - low)[:, None] * z,
    ], axis=-1)  # fmt: skip
    points = np.concatenate([ring.reshape(-1, 3), ring[[0, -1]].mean(axis=1)])
    first = AROUND * np.arange(STATIONS)[:, None] + np.arange(AROUND)
    after = np.roll(first, -1, axis=1)
    sides = [np.stack([first[:-1], after[:-1], first[1:]], -1), np.stack([after[:-1], after[1:], first[1:]], -1)]
    front, back = len(points) - 2, len(points) - 1
    ends = [np.stack([after[0], first[0], np.full(AROUND, front)], -1)]
    ends += [np.stack([first[-1], after[-1], np.full(AROUND, back)], -1)]
    body = pv.PolyData.from_regular_faces(points, np.concatenate([side.reshape(-1, 3) for side in sides + ends]))
    body = body.compute_normals(auto_orient_normals=True, consistent_normals=True)
    wheels = [
        pv.Cylinder(
            center=(x * length, side * (0.5 * width - 0.13), wheel), direction=(0, 1, 0), radius=wheel, height=0.22
        ).triangulate()
        for x in (rng.uniform(-0.36, -0.3), rng.uniform(0.27, 0.34))
        for side in (-1, 1)
    ]
    return pv.merge([body, *wheels], merge_points=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="SIMS_DIR")
    parser.add_argument("--jobs", type=int)
    given = parser.parse_args()
    shapes = [given.folder / "shapes" / f"foreign-{number:02d}.stl" for number in range(COUNT)]
    shapes[0].parent.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(shapes):
        foreign_car(number).save(path)
    solved, packed = given.folder / "solved", ROOT / "datasets" / "foreign_cars"
    driver.simulate([str(path) for path in shapes], solved, stream=StreamOptions(speed=SPEED), jobs=given.jobs)
    manifest = prepare([solved], packed, compact=True, jobs=given.jobs).manifest
    names = sorted(manifest.cases)
    manifest.splits = {"even": names[::2], "odd": names[1::2]}
    write_manifest(packed, manifest)


if __name__ == "__main__":
    main()
