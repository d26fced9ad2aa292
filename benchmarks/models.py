"""What the models that come with the package say of two bodies that were measured, NACA 0012 and the Ahmed body, and of
the held-out cars on two meshes.

    python benchmarks/models.py RUN_DIR        # of validation_cars.py, whose Ahmed bodies and CFD it takes

Writes benchmarks/results/models.md.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from validation_airfoils import LADSON, RESULTS, REYNOLDS
from validation_cars import AHMED_SPEED, MEASURED, ROOT, data_set_drag, solve_moved

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


def car(run_dir: Path) -> list[str]:
    """Ahmed bodies by slant beside their own CFD and the measurements."""
    solved = Dataset(run_dir / "ahmed").manifest.cases
    lines = ["| slant, degrees | Cd measured | Cd CFD | Cd model | model / CFD | trust |", "|" + "---|" * 6]
    for slant, measured in MEASURED.items():
        file = run_dir / "shapes" / f"ahmed_{slant:g}.stl"
        row = predicted(str(file), StreamOptions(speed=AHMED_SPEED))
        truth = solved[file.stem]["reference"]["cd"]
        beside = f"{truth:.3f} | {row['cd']:.3f} | {row['cd'] / truth - 1:+.1%}"
        lines.append(f"| {slant:g} | {measured:.3f} | {beside} | {row['trust']} |")
    return lines


def held_out_cars(run_dir: Path) -> list[str]:
    """The held-out cars beside the drag that two meshes of the same fineness give them."""
    drag = data_set_drag()
    moved = solve_moved(run_dir, drag)
    model = Surrogate.load("car", "cpu")
    rows = evaluate(model, Dataset(ROOT / "datasets" / "car_rans"), list(moved)).rows
    predicted = np.array([row[f"cd_{model.card['routes']['cd']}"] for row in rows])
    here, there = (np.array([values[row["name"]] for row in rows]) for values in (drag, moved))
    truths = {
        "the data set's mesh": here,
        "the mesh moved by half a cell": there,
        "the mean of both": (here + there) / 2,
    }
    lines = [f"| {len(rows)} held-out cars against the drag of | mean error of Cd | Spearman |", "|---|---|---|"]
    for name, truth in truths.items():
        error = np.abs(predicted / truth - 1).mean()
        lines.append(f"| {name} | {error:.1%} | {spearmanr(predicted, truth).statistic:.3f} |")
    between = f"{np.abs(there / here - 1).mean():.1%} | {spearmanr(there, here).statistic:.3f}"
    return [*lines, f"| (one mesh against the other) | {between} |"]


def main(run_dir: Path) -> None:
    lines = [
        "# The models beside measurements",
        "",
        f"`airfoil`: NACA 0012 at a Reynolds number of {REYNOLDS / 1e6:g} million, against Ladson (tripped). What the",
        "CFD that it learned from says is in [validation_airfoils.md](validation_airfoils.md), under `fast`.",
        "",
        *airfoil(),
        "",
        f"`car`: Ahmed bodies without stilts over a moving ground at {AHMED_SPEED:g} m/s, beside CFD of the fidelity",
        "of its data:",
        "",
        *car(run_dir),
        "",
        "What the mesh alone does to drag ([validation_cars.md](validation_cars.md)) bounds what can be seen of the",
        "model's own error:",
        "",
        *held_out_cars(run_dir),
    ]
    write_text(RESULTS / "models.md", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
