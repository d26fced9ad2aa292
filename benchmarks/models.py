"""What the models that come with the package say of two bodies that were measured, NACA 0012 and the Ahmed body, and of
the held-out bodies of the data set road_rans.

    python benchmarks/models.py        # a minute; takes the CFD of Ahmed bodies from validation_cars.py's ahmed.json

Writes benchmarks/results/models.md.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from validation_airfoils import LADSON, RESULTS, REYNOLDS
from validation_cars import AHMED, AHMED_SPEED, DATA, MEASURED, ahmed_body, held_out

from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.data.store import Dataset
from aerosurrogate.evaluate import evaluate
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.writing import write_text


def predicted(shape: str, stream: StreamOptions) -> dict[str, Any]:
    """The row that `aerosurrogate coeffs` prints."""
    return coeffs([shape], CoeffsOptions(stream)).rows[0]


def airfoil() -> list[str]:
    """NACA 0012 beside Ladson's measurements."""
    lines = ["| angle | Cl measured | Cl model | Cd measured | Cd model | error of Cd | trust |", "|" + "---|" * 7]
    for alpha, lift, drag in LADSON:
        row = predicted("naca0012", StreamOptions(alpha=alpha, reynolds=REYNOLDS))
        drags = f"{drag:.5f} | {row['cd']:.5f} | {row['cd'] / drag - 1:+.1%}"
        lines.append(f"| {alpha:g} | {lift:.4f} | {row['cl']:.4f} | {drags} | {row['trust']} |")
    return lines


def car() -> list[str]:
    """Ahmed bodies by slant beside their own CFD and the measurements."""
    solved = json.loads(AHMED.read_text())
    lines = ["| slant, degrees | Cd measured | Cd CFD | Cd model | model / CFD | trust |", "|" + "---|" * 6]
    for slant, measured in MEASURED.items():
        with tempfile.TemporaryDirectory() as folder:
            row = predicted(str(ahmed_body(slant, Path(folder))), StreamOptions(speed=AHMED_SPEED))
        truth = solved[f"{slant:g}"]
        beside = f"{truth:.3f} | {row['cd']:.3f} | {row['cd'] / truth - 1:+.1%}"
        lines.append(f"| {slant:g} | {measured:.3f} | {beside} | {row['trust']} |")
    return lines


def held_out_bodies() -> list[str]:
    """Bodies over a ground that no model has seen, beside their drag averaged over placements of the mesh."""
    dataset = Dataset(DATA)
    names = [name for name in held_out() if dataset.manifest.cases[name]["conditions"]["ground"]]
    model = Surrogate.load("car", "cpu")
    rows = evaluate(model, dataset, names).rows
    predicted = np.array([row[f"cd_{model.card['routes']['cd']}"] for row in rows])
    truth = np.array([held_out()[row["name"]]["cd"] for row in rows])
    error, rho = np.abs(predicted / truth - 1).mean(), spearmanr(predicted, truth).statistic
    return [
        "| held-out bodies | mean error of Cd | Spearman |",
        "|---|---|---|",
        f"| {len(rows)} | {error:.1%} | {rho:.3f} |",
    ]


def main() -> None:
    lines = [
        "# The models beside measurements",
        "",
        f"`airfoil`: NACA 0012 at a Reynolds number of {REYNOLDS / 1e6:g} million, against Ladson (tripped). What the",
        "CFD that it learned from says is in [validation_airfoils.md](validation_airfoils.md), under `standard`.",
        "",
        *airfoil(),
        "",
        f"`car`: Ahmed bodies without stilts over a moving ground at {AHMED_SPEED:g} m/s, beside CFD of the fidelity",
        "of its data:",
        "",
        *car(),
        "",
        "Bodies as wide as the road, solved as [validation_cars.md](validation_cars.md) says:",
        "",
        *held_out_bodies(),
    ]
    write_text(RESULTS / "models.md", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
