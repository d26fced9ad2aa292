"""Fifty sections of a generator that no model of ours learned from: splines for camber, powers for thickness.

    python benchmarks/foreign_sections.py SIMS_DIR [--jobs 2]

They have what catalogues have and the sections of specs/sections_rans.toml have not: camber that turns close to the
tail, cusps, flat bottoms. Solved with `simulate` at ten angles and Reynolds numbers (needs OpenFOAM; some ten seconds
of a core each; goes on where it stopped; a few do not settle) and packed as datasets/foreign_sections. The intervals
of `airfoil` are as wide as they ask for.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from aerosurrogate.conditions import StreamOptions
from aerosurrogate.data.prepare import prepare
from aerosurrogate.mesh.coordinates import write_section
from aerosurrogate.simulate import driver

ROOT = Path(__file__).parents[1]
COUNT = 50
STATES = 10
POINTS = 81  # on a side


def foreign_section(number: int) -> NDArray[np.float64]:
    """A closed curve (n, 2) of chord 1, from the trailing edge over the upper side."""
    rng = np.random.default_rng([2027, number])
    x = 0.5 - 0.5 * np.cos(np.linspace(0, np.pi, POINTS))
    # A round nose, a tail between a wedge and a cusp; the power of x moves the thickest place between 0.25 and 0.45.
    moved, tail = x ** rng.uniform(0.8, 1.15), rng.uniform(0.85, 1.5)
    shape = np.sqrt(moved) * (1 - moved) ** tail
    half = 0.5 * rng.uniform(0.07, 0.2) * shape / shape.max()
    half += 0.5 * rng.choice([0.0, 0.0, rng.uniform(0.001, 0.008)]) * x
    knots = np.array([0.0, 0.2, 0.45, 0.7, 0.88, 1.0])
    turns = rng.normal(0.0, 0.004, len(knots)) * np.array([0, 1, 1, 1, 1, 0])
    mean = CubicSpline(knots, rng.uniform(0.0, 0.05) * 4 * knots * (1 - knots) + turns)(x)
    if rng.random() < 0.25:  # a flat bottom
        behind = (x / 0.3).clip(0, 1)
        below = rng.uniform(0.5, 0.75) * half.max() * (1 - x) + half[-1] * x
        mean = (half - below) * behind**2 * (3 - 2 * behind)
    upper, lower = np.stack([x, mean + half], axis=1), np.stack([x, mean - half], axis=1)
    return np.concatenate([upper[::-1], lower[1:] if half[-1] > 0 else lower[1:-1]])


def states() -> list[StreamOptions]:
    """Angles and Reynolds numbers, spread alike."""
    rng = np.random.default_rng(2028)
    angles, reynolds = np.linspace(-4.0, 12.0, STATES), np.geomspace(7e5, 8e6, STATES)
    pairs = zip(angles, rng.permutation(reynolds), strict=True)
    return [StreamOptions(alpha=round(float(alpha), 1), reynolds=float(f"{re:.2g}")) for alpha, re in pairs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="SIMS_DIR")
    parser.add_argument("--jobs", type=int)
    given = parser.parse_args()
    files = [given.folder / "shapes" / f"foreign-{number:02d}.dat" for number in range(COUNT)]
    files[0].parent.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(files):
        write_section(foreign_section(number), path, path.stem)
    solved = given.folder / "solved"
    for number, stream in enumerate(states()):
        driver.simulate([str(path) for path in files[number::STATES]], solved, stream=stream, jobs=given.jobs)
    prepare([solved], ROOT / "datasets" / "foreign_sections", compact=True, jobs=given.jobs)


if __name__ == "__main__":
    main()
