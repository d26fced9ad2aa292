"""Does the model see what a change of one measure does to one car? Variants of three cars, solved and predicted.

    python benchmarks/variants.py RUN_DIR  # solves what is missing: two hours of one core; needs OpenFOAM; resumes
    python benchmarks/variants.py          # sets the model beside what was solved

Six measures of a car, each one step down and one step up, all else equal. Every body is solved on three placements of
the mesh; their scatter tells which changes are above the truth's own noise, and only those have a direction.

Writes benchmarks/results/variants.json (what was solved) and variants.md.
"""

import contextlib
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import aerosurrogate as aero
from aerosurrogate.conditions import Conditions
from aerosurrogate.mesh.write import write_mesh
from aerosurrogate.simulate import cars, shapes
from aerosurrogate.simulate.openfoam import SolverError
from aerosurrogate.simulate.spec import Design
from aerosurrogate.writing import write_json, write_text

RESULTS = Path(__file__).parent / "results"
SOLVED = RESULTS / "variants.json"
BASES = ("fastback", "estate", "suv")
STEPS = {  # degrees or metres
    "taper": 3.0,
    "clearance": 0.03,
    "rear_angle": 4.0,
    "height": 0.06,
    "windscreen_angle": 4.0,
    "diffuser": 4.0,
}
SPEED, PLACEMENTS = 30.0, 3
SURE = 2.0  # standard deviations of its noise beyond which a change has a direction


def designs() -> dict[str, dict[str, float | str]]:
    """Parameters by name: `estate` and `estate_taper_up`, each car at the middle of its kind's ranges."""
    found: dict[str, dict[str, float | str]] = {}
    for kind in BASES:
        middle = {name: (low + high) / 2 for name, (low, high) in shapes.RANGES[kind].items()}
        base: dict[str, float | str] = {"kind": kind, "wheels": "yes", **middle}
        found[kind] = base
        for name, step in STEPS.items():
            for way, sign in (("down", -1), ("up", 1)):
                found[f"{kind}_{name}_{way}"] = {**base, name: middle[name] + sign * step}
    return found


def solve(run_dir: Path) -> None:
    """Add what is missing to the solved bodies; every placement is kept as soon as it is there."""
    solved: dict[str, list[float | None]] = json.loads(SOLVED.read_text()) if SOLVED.exists() else {}
    for name, parameters in designs().items():
        conditions = Conditions(speed=SPEED, length=shapes.shape_of(parameters).length, ground=True)
        design = Design(name, "car", parameters, conditions)
        for placement in range(len(solved.get(name, [])), PLACEMENTS):
            folder = run_dir / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            drag = None  # no solution, or none that settled
            with contextlib.suppress(SolverError):
                found = cars.solve_body(design, cars.body_of(design), folder, cars.MESHES["standard"], placement)
                drag = found.case.reference["cd"] if found.converged else None
            shutil.rmtree(folder)
            solved.setdefault(name, []).append(drag)
            write_json(SOLVED, solved)


def compare(model: str | None) -> list[str]:
    """The page's lines."""
    solved = {name: np.array(drags, float) for name, drags in json.loads(SOLVED.read_text()).items()}
    solved = {name: drags[np.isfinite(drags)] for name, drags in solved.items() if np.isfinite(drags).sum() > 1}
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, parameters in designs().items():
            if name in solved:
                write_mesh(shapes.surface(parameters), Path(folder) / f"{name}.stl")
                files.append(Path(folder) / f"{name}.stl")
        answers = {row["name"]: row["cd"] for row in aero.rank_shapes(files, model=model, speed=SPEED).rows}
    truth = {name: float(drags.mean()) for name, drags in solved.items()}
    # One scatter for all bodies: three values tell too little of each.
    scatter = float(np.sqrt(np.mean([drags.var(ddof=1) for drags in solved.values()])))
    noise = {name: scatter / np.sqrt(len(drags)) for name, drags in solved.items()}
    lines = ["| car | variants | Spearman | changes above the noise | direction right |", "|---|---|---|---|---|"]
    counts = np.zeros(2, int)
    for base in (kind for kind in BASES if kind in truth):
        variants = [name for name in truth if name.startswith(f"{base}_")]
        order = spearmanr([truth[n] for n in (base, *variants)], [answers[n] for n in (base, *variants)]).statistic
        change = {n: truth[n] - truth[base] for n in variants}
        clear = [n for n in variants if abs(change[n]) > SURE * np.hypot(noise[n], noise[base])]
        right = sum(bool((answers[n] - answers[base]) * change[n] > 0) for n in clear)
        counts += (len(clear), right)
        lines.append(f"| {base} | {len(variants)} | {order:.2f} | {len(clear)} | {right} |")
    lines.append(f"| all | | | {counts[0]} | {counts[1]} ({counts[1] / max(counts[0], 1):.0%}) |")
    lines += ["", f"Scatter of one placement: {scatter:.4f} in C_D.", ""]
    lines += ["| body | C_D solved | change | C_D predicted | change |", "|---|---|---|---|---|"]
    for name, value in truth.items():
        base = name.split("_")[0]
        changes = [f"{1000 * (of[name] - of[base]):+.0f} counts" if base in of else "-" for of in (truth, answers)]
        lines.append(f"| {name} | {value:.4f} | {changes[0]} | {answers[name]:.4f} | {changes[1]} |")
    return lines


def main() -> None:
    if len(sys.argv) > 1:
        solve(Path(sys.argv[1]))
    head = ["# Variants of one car", "", *(__doc__ or "").split("\n\n")[2].split("\n"), ""]
    write_text(RESULTS / "variants.md", "\n".join([*head, *compare("car"), ""]))


if __name__ == "__main__":
    main()
