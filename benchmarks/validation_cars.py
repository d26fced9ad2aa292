"""How far the cars' RANS can be believed: the Ahmed body against measurements, one car on three meshes, forces twice.

    python benchmarks/validation_cars.py RUN_DIR        # about 15 minutes of one core; needs OpenFOAM; resumes

Writes benchmarks/results/validation_cars.md and .png.
"""

import sys
from pathlib import Path

import numpy as np

from aerosurrogate import forces
from aerosurrogate.data.store import Dataset
from aerosurrogate.flow import FlowAxes, StreamOptions
from aerosurrogate.mesh.write import write_mesh
from aerosurrogate.simulate import car_shapes
from aerosurrogate.simulate.driver import Outcome, simulate
from aerosurrogate.simulate.spec import FIDELITIES
from aerosurrogate.writing import replacing, write_text

RESULTS = Path(__file__).parent / "results"
MEASURED = {0.0: 0.25, 12.5: 0.23, 25.0: 0.285, 30.0: 0.378, 35.0: 0.26}  # Ahmed et al., SAE 840300: drag by slant
AHMED_SPEED, CAR_SPEED = 40.0, 30.0  # m/s
CAR = Path(__file__).parents[1] / "sample_meshes" / "car.stl"


def solve_ahmed(run_dir: Path) -> list[Outcome]:
    """One outcome a slant; what has been solved before is not solved again."""
    files = [run_dir / "shapes" / f"ahmed_{slant:g}.stl" for slant in MEASURED]
    for slant, file in zip(MEASURED, files, strict=True):
        write_mesh(car_shapes.surface(car_shapes.AhmedShape(slant)), file)
    return simulate([str(file) for file in files], run_dir / "ahmed", jobs=1, stream=StreamOptions(speed=AHMED_SPEED))


def solve_car(run_dir: Path) -> list[Outcome]:
    """One outcome a fidelity."""
    stream = StreamOptions(speed=CAR_SPEED)
    return [simulate([str(CAR)], run_dir / level, jobs=1, fidelity=level, stream=stream)[0] for level in FIDELITIES]


def integrated_again(folder: Path, outcome: Outcome) -> float:
    """Largest difference of drag and lift, integrated from the stored fields, from OpenFOAM's own, over the drag."""
    case = Dataset(folder).case(outcome.name).whole()
    values = (case.points, case.normals, case.areas, case.fields["p"], case.fields["wallShearStress"])
    total = forces.integrate(*(array[case.surface] for array in values))
    assert case.conditions is not None
    ours = forces.coefficients(total, FlowAxes.parse(), case.conditions, case.reference["area"])
    solver = outcome.reference
    return max(abs(ours.cd - solver["cd"]), abs(ours.cl - solver["cl"])) / solver["cd"]


def main(run_dir: Path) -> None:
    bodies, meshes = solve_ahmed(run_dir), solve_car(run_dir)
    found = [outcome.reference.get("cd", np.nan) for outcome in bodies]
    lines = ["# Cars: how far the RANS can be believed", ""]
    lines += [f"Ahmed body at {AHMED_SPEED:g} m/s, fidelity `standard`, without stilts, moving ground:", ""]
    lines += ["| slant, degrees | Cd here | Cd measured | converged |", "|---|---|---|---|"]
    for (slant, measured), cd, outcome in zip(MEASURED.items(), found, bodies, strict=True):
        lines.append(f"| {slant:g} | {cd:.3f} | {measured:.3f} | {outcome.reason or 'yes'} |")
    lines += ["", f"`sample_meshes/car.stl` at {CAR_SPEED:g} m/s on three meshes:", ""]
    lines += ["| fidelity | Cd | Cl | iterations | seconds of a core | converged |", "|---|---|---|---|---|---|"]
    for level, outcome in zip(FIDELITIES, meshes, strict=True):
        cd, cl = (outcome.reference.get(name, np.nan) for name in ("cd", "cl"))
        cost = f"{outcome.iterations} | {outcome.cpu_seconds:.0f}"
        lines.append(f"| {level} | {cd:.4f} | {cl:.4f} | {cost} | {outcome.reason or 'yes'} |")
    solved = [(run_dir / "ahmed", outcome) for outcome in bodies if outcome.state == "converged"]
    solved += [(run_dir / level, o) for level, o in zip(FIDELITIES, meshes, strict=True) if o.state == "converged"]
    worst = max(integrated_again(folder, outcome) for folder, outcome in solved)
    lines += ["", "Drag and lift integrated from the stored fields differ from OpenFOAM's own by at most"]
    lines += [f"{worst:.2%} of the drag ({len(solved)} cases)."]
    write_text(RESULTS / "validation_cars.md", "\n".join(lines) + "\n")
    plot(found)


def plot(found: list[float]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    axes.plot(list(MEASURED), list(MEASURED.values()), "ks", label="measured (Ahmed et al. 1984)")
    axes.plot(list(MEASURED), found, "o-", label="RANS, standard")
    axes.set(xlabel="slant, degrees", ylabel="drag coefficient", ylim=(0.15, None), title="Ahmed body")
    axes.legend()
    with replacing(RESULTS / "validation_cars.png") as temporary:
        figure.savefig(temporary, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
