"""How far the RANS of bodies can be believed: Ahmed and bluff bodies measured, moved and finer meshes, forces twice.

    python benchmarks/validation_cars.py RUN_DIR        # about an hour of one core; needs OpenFOAM; resumes

The held-out bodies of the data set were solved on three placements of the same mesh: what changes between them belongs
to the mesh and not to the body, and no model can know it. The first of those that stand on a ground are solved once
more on the mesh `fine`.

Writes benchmarks/results/validation_cars.md and .png, and ahmed.json: the solved drag of Ahmed bodies by slant.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pyvista as pv
from scipy.stats import spearmanr

from aerosurrogate import forces
from aerosurrogate.conditions import FlowAxes, StreamOptions
from aerosurrogate.data.store import Dataset
from aerosurrogate.mesh.write import write_mesh
from aerosurrogate.simulate import cars, shapes
from aerosurrogate.simulate.car_case import MESHES
from aerosurrogate.simulate.driver import Outcome, designs_of, simulate
from aerosurrogate.simulate.spec import Design, read_spec
from aerosurrogate.writing import replacing, write_json, write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
AHMED = RESULTS / "ahmed.json"
SPECS = [ROOT / "specs" / f"{name}_rans.toml" for name in ("road", "wide")]
DATA = ROOT / "datasets" / "road_rans"
MEASURED = {0.0: 0.25, 12.5: 0.23, 25.0: 0.285, 30.0: 0.378, 35.0: 0.26}  # Ahmed et al., SAE 840300: drag by slant
SLANTS = (*MEASURED, 40.0)
AHMED_SPEED = 40.0  # m/s
# Drag on the frontal area in free air. Hoerner, Fluid-Dynamic Drag (1965): a cube, and circular cylinders along the
# stream by length over diameter; Achenbach, J. Fluid Mech. 54 (1972): a sphere at a Reynolds number of 5 million.
BLUFF = {"cube": 1.05, "cylinder_1": 0.91, "cylinder_2": 0.85, "cylinder_4": 0.87, "sphere": 0.2}
BLUFF_SPEED = 40.0  # m/s, bodies of 1 m across; the sphere, 75 m/s: a Reynolds number of 5 million
FINER = 30  # bodies solved on the mesh `fine`, as far as the data set has them


def solve_ahmed(run_dir: Path) -> list[Outcome]:
    """One outcome a slant; what has been solved before is not solved again."""
    files = [ahmed_body(slant, run_dir / "shapes") for slant in SLANTS]
    return simulate([str(file) for file in files], run_dir / "ahmed", jobs=1, stream=StreamOptions(speed=AHMED_SPEED))


def ahmed_body(slant: float, folder: Path) -> Path:
    """The file of an Ahmed body without stilts."""
    file = folder / f"ahmed_{slant:g}.stl"
    write_mesh(shapes.surface({"kind": "ahmed", "slant": slant}), file)
    return file


def bluff_body(name: str) -> pv.PolyData:
    """A body 1 m across, its axis along the stream."""
    kind, _, slender = name.partition("_")
    if kind == "sphere":
        return pv.Icosphere(radius=0.5, nsub=5)
    if kind == "cube":
        return pv.Cube().triangulate().subdivide(4)
    return pv.Cylinder(radius=0.5, height=float(slender), direction=(1, 0, 0), resolution=128).triangulate().clean()


def solve_bluff(run_dir: Path) -> list[Outcome]:
    """One outcome a body in free air."""
    found = []
    for name in BLUFF:
        file = run_dir / "shapes" / f"{name}.stl"
        bluff_body(name).save(file)
        stream = StreamOptions(speed=75.0 if name == "sphere" else BLUFF_SPEED, ground="none")
        found += simulate([str(file)], run_dir / "bluff", jobs=1, stream=stream)
    return found


def held_out() -> dict[str, dict[str, float]]:
    """Coefficients of the held-out bodies that were solved on several placements, by name."""
    dataset = Dataset(DATA)
    found = {name: dataset.manifest.cases[name]["reference"] for name in dataset.names("test")}
    return {name: reference for name, reference in found.items() if reference.get("placements", 1) > 1}


def solve_finer(run_dir: Path, names: list[str]) -> dict[str, dict[str, float]]:
    """Coefficients of bodies on the mesh `fine`, by name; those that do not settle there are left out."""
    designs = {design.name: design for spec in map(read_spec, SPECS) for design in designs_of(spec, spec.count)}
    found = {name: _finer(designs[name], run_dir / "finer") for name in names}
    return {name: reference for name, reference in found.items() if reference}


def _finer(design: Design, run_dir: Path) -> dict[str, float]:
    record, folder = run_dir / f"{design.name}.json", run_dir / design.name
    if not record.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        solution = cars.solve_body(design, cars.body_of(design), folder, MESHES["fine"])
        write_json(record, solution.case.reference if solution.converged else {})
        shutil.rmtree(folder)
    return dict(json.loads(record.read_text()))


def said_of_placement(held: dict[str, dict[str, float]]) -> list[str]:
    """How far drag moves with the placement of the mesh."""
    # The deviation of a few values about their own mean is too small by this much.
    count = np.array([one["placements"] for one in held.values()])
    spread = np.array([one["cd_spread"] / one["cd"] for one in held.values()]) * np.sqrt(count / (count - 1))
    return [
        "",
        f"Placement: {len(held)} held-out bodies of `road_rans`, each on three meshes of the same fineness that lie",
        "differently against it (by up to a cell, drawn from its name).",
        "",
        "| drag of one placement against another | |",
        "|---|---|",
        f"| differs by, mean | {np.mean(spread) * 2 / np.sqrt(np.pi):.1%} |",
        f"| one standard deviation, median | {np.median(spread):.1%} |",
        f"| at most | {spread.max():.1%} |",
    ]


def said_of_fineness(held: dict[str, dict[str, float]], finer: dict[str, dict[str, float]]) -> list[str]:
    """How far drag and lift move from `standard`, averaged over placements, to `fine`."""
    (cd, cl), (fine_cd, fine_cl) = (
        np.array([[of[name][key] for name in finer] for key in ("cd", "cl")]) for of in (held, finer)
    )
    apart = fine_cd / cd - 1
    return [
        "",
        f"Fineness: {len(finer)} of them on the mesh `fine`, against their mean on `standard`.",
        "",
        "| from `standard` to `fine` | |",
        "|---|---|",
        f"| drag moves by, mean | {np.abs(apart).mean():.1%} |",
        f"| median | {np.median(np.abs(apart)):.1%} |",
        f"| at most | {np.abs(apart).max():.0%} |",
        f"| in which direction, mean | {apart.mean():+.1%} |",
        f"| lift moves by, mean | {np.abs(fine_cl - cl).mean():.3f} |",
        f"| order of drag, Spearman | {spearmanr(cd, fine_cd).statistic:.3f} |",
        "",
        "| body | kind | Cd standard | Cd fine | Cl standard | Cl fine |",
        "|---|---|---|---|---|---|",
        *(_row(name, held[name], finer[name]) for name in finer),
    ]


def _row(name: str, standard: dict[str, float], fine: dict[str, float]) -> str:
    kind = Dataset(DATA).manifest.cases[name]["tags"]["kind"]
    values = [f"{one[key]:.3f}" for key in ("cd", "cl") for one in (standard, fine)]
    return f"| {name} | {kind} | " + " | ".join(values) + " |"


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
    bodies, bluff, held = solve_ahmed(run_dir), solve_bluff(run_dir), held_out()
    on_ground = [name for name in held if Dataset(DATA).manifest.cases[name]["conditions"]["ground"]]
    finer = solve_finer(run_dir, on_ground[:FINER])
    found = [outcome.reference.get("cd", np.nan) for outcome in bodies]
    lines = [f"# Bodies: how far the RANS can be believed (method {cars.METHOD})", ""]
    lines += [f"Ahmed body at {AHMED_SPEED:g} m/s, fidelity `standard`, without stilts, moving ground:", ""]
    lines += ["| slant, degrees | Cd here | Cd measured | Cl here | seconds of a core | converged |"]
    lines += ["|---|---|---|---|---|---|"]
    for slant, cd, outcome in zip(SLANTS, found, bodies, strict=True):
        measured = f"{MEASURED[slant]:.3f}" if slant in MEASURED else "-"
        rest = f"{outcome.reference.get('cl', np.nan):.3f} | {outcome.cpu_seconds:.0f} | {outcome.reason or 'yes'}"
        lines.append(f"| {slant:g} | {cd:.3f} | {measured} | {rest} |")
    solved = [outcome for outcome in bodies if outcome.state == "converged"]
    worst = max(integrated_again(run_dir / "ahmed", outcome) for outcome in solved)
    lines += [
        "",
        "Bodies in free air, 1 m across, their axis along the stream, fidelity `standard`; measured drag from",
    ]
    lines += ["Hoerner (1965), of the sphere from Achenbach (1972):", ""]
    lines += ["| body | Cd here | Cd measured | apart | converged |", "|---|---|---|---|---|"]
    for (name, measured), outcome in zip(BLUFF.items(), bluff, strict=True):
        cd = outcome.reference.get("cd", np.nan)
        label = name.replace("_", ", length / diameter ")
        lines.append(f"| {label} | {cd:.3f} | {measured:.2f} | {cd / measured - 1:+.0%} | {outcome.reason or 'yes'} |")
    lines += ["", "Drag and lift integrated from the stored fields differ from OpenFOAM's own by at most"]
    lines += [f"{worst:.2%} of the drag ({len(solved)} cases)."]
    lines += said_of_placement(held) + (said_of_fineness(held, finer) if finer else [])
    write_text(RESULTS / "validation_cars.md", "\n".join(lines) + "\n")
    write_json(AHMED, dict(zip(map("{:g}".format, SLANTS), found, strict=True)))
    plot(found)


def plot(found: list[float]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.5), layout="constrained")
    axes.plot(list(MEASURED), list(MEASURED.values()), "ks", label="measured (Ahmed et al. 1984)")
    axes.plot(SLANTS, found, "o-", label="RANS, standard")
    axes.set(xlabel="slant, degrees", ylabel="drag coefficient", ylim=(0.15, None), title="Ahmed body")
    axes.legend()
    with replacing(RESULTS / "validation_cars.png") as temporary:
        figure.savefig(temporary, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
