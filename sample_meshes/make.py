"""Makes the shapes of this folder and solves the cars: STL files and truth.csv, and two airfoil sections.

    python sample_meshes/make.py RUN_DIR        # one to two minutes a design, one core; needs OpenFOAM; resumes

One car and variations of it that an engineer would try, and the other kinds, all at 30 m/s. None is a member of the
training set.
"""

import csv
import sys
from math import comb
from pathlib import Path

import numpy as np

from aerosurrogate.conditions import StreamOptions
from aerosurrogate.mesh.airfoil import naca
from aerosurrogate.mesh.write import write_mesh
from aerosurrogate.simulate import shapes
from aerosurrogate.simulate.driver import show, simulate
from aerosurrogate.writing import replacing

HERE = Path(__file__).parent
SPEED = 30.0  # m/s

CAR: dict[str, float | str] = {
    "kind": "notchback",
    "wheels": "yes",
    "length": 4.5,
    "width": 1.8,
    "height": 1.44,
    "clearance": 0.15,
    "nose_height": 0.52,
    "bonnet_height": 0.66,
    "bonnet_length": 0.25,
    "windscreen_angle": 30.0,
    "roof_end": 0.65,
    "roof_drop": 0.05,
    "rear_angle": 28.0,
    "deck_height": 0.71,
    "hatch_lean": 4.0,
    "taper": 3.0,
    "tumblehome": 18.0,
    "nose_radius": 0.18,
    "edge_radius": 0.11,
    "tail_radius": 0.04,
    "nose_bow": 0.2,
    "diffuser": 2.0,
    "wheel_radius": 0.32,
}

TALL = {"width": 1.86, "wheel_radius": 0.36, "clearance": 0.21, "windscreen_angle": 38.0}

DESIGNS: dict[str, dict[str, float | str]] = {
    "car": CAR,
    "car_boat_tail": CAR | {"taper": 10.0},
    "car_steep_rear": CAR | {"rear_angle": 36.0, "deck_height": 0.67},
    "car_diffuser": CAR | {"diffuser": 6.0},
    "car_blunt_nose": CAR | {"nose_radius": 0.10, "nose_bow": 0.10, "edge_radius": 0.07},
    "car_no_wheels": CAR | {"wheels": "no"},
    "fastback": CAR | {"kind": "fastback", "height": 1.40, "roof_end": 0.62, "rear_angle": 17.0, "deck_height": 0.66},
    "estate": CAR | {"kind": "estate", "roof_end": 0.95, "rear_angle": 38.0, "deck_height": 0.68, "hatch_lean": 22.0},
    "suv": CAR
    | TALL
    | {"kind": "suv", "height": 1.68, "nose_height": 0.56, "roof_end": 0.94, "deck_height": 0.65, "hatch_lean": 16.0},
    "van": CAR
    | TALL
    | {
        "kind": "van",
        "length": 4.8,
        "height": 1.92,
        "clearance": 0.18,
        "nose_height": 0.48,
        "bonnet_height": 0.57,
        "bonnet_length": 0.16,
        "windscreen_angle": 43.0,
        "roof_end": 0.965,
        "deck_height": 0.55,
        "hatch_lean": 6.0,
        "tumblehome": 8.0,
        "wheel_radius": 0.33,
    },
    "ahmed_25": {"kind": "ahmed", "slant": 25.0},
}

# Weights of Bernstein polynomials (class-shape transformation): a thick aft-loaded section for wind turbines' mid-span.
UPPER, LOWER = (0.24, 0.30, 0.22, 0.34), (-0.20, -0.22, -0.08, 0.06)


def cst(weights: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    """Ordinates of a section's side: sqrt(x) (1 - x) times a Bernstein polynomial."""
    n = len(weights) - 1
    return np.sqrt(x) * (1 - x) * sum(w * comb(n, i) * x**i * (1 - x) ** (n - i) for i, w in enumerate(weights))


def write_sections() -> None:
    """Coordinates in Selig's order: trailing edge, upper side, nose, lower side, trailing edge."""
    x = 0.5 * (1 + np.cos(np.linspace(0, np.pi, 81)))
    custom = np.concatenate([np.stack([x, cst(UPPER, x)], 1), np.stack([x, cst(LOWER, x)], 1)[-2::-1]])
    plain = naca("2412", 160)
    for name, curve in {"naca_2412": np.concatenate([plain, plain[:1]]), "custom_section": custom}.items():
        with replacing(HERE / f"{name}.dat") as temporary:
            np.savetxt(temporary, curve, fmt="%9.6f", header=name.replace("_", " "), comments="")


def main(run_dir: Path) -> None:
    write_sections()
    files = [HERE / f"{name}.stl" for name in DESIGNS]
    for parameters, file in zip(DESIGNS.values(), files, strict=True):
        write_mesh(shapes.surface(parameters), file)
    outcomes = simulate([str(file) for file in files], run_dir, jobs=1, stream=StreamOptions(speed=SPEED))
    show(outcomes)
    rows = [
        [name, f"{o.reference['cd']:.4f}", f"{o.reference['cl']:.4f}"]
        for name, o in zip(DESIGNS, outcomes, strict=True)
        if o.state == "converged"
    ]
    with replacing(HERE / "truth.csv") as temporary, temporary.open("w", newline="") as out:
        csv.writer(out).writerows([["name", "cd", "cl"], *rows])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
