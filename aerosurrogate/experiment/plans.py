"""What each experiment trains: the cells of its table at the paper's size, and at one that ends within the hour.

Each plan is a function of the scale that gives a Plan. At scale "small" the models have 3 layers of 32 channels and see
few cases for few steps: enough to compare them with each other, not with the paper's figures.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from aerosurrogate.experiment import published
from aerosurrogate.experiment.trial import Source, Trial

Scale = Literal["small", "paper"]

KINDS = {  # rows: kind of model
    "MLP": "mlp",
    "PointNet": "pointnet",
    "GraphSAGE": "graphsage",
    "MeshGraphNet": "meshgraphnet",
    "FNO": "fno2d",
    "Galerkin": "galerkin",
    "GNOT": "gnot",
    "plain transformer": "transformer",
    "LinearNO": "linearno",
    "FLARE": "flare",
    "Transolver++": "transolver++",
    "Transolver (paper)": "transolver",
}
OURS = "ours"
PAPER = "Transolver (paper)"
FIGURES = {  # of the six standard tasks
    "elasticity": "stress",
    "plasticity": "displacement",
    "airfoil": "mach",
    "pipe": "velocity",
    "navier-stokes": "frames",
    "darcy": "solution",
}
CASES = {"plasticity": 980}
SMALL = (
    "model.layers=3",
    "model.channels=32",
    "model.heads=4",
    "model.slices=16",
    "model.mlp_ratio=1",
)
STEPS = {"darcy": 300, "navier-stokes": 300}  # at scale "small", on whole grids; 1000 of all else
UNROLLED = 1  # of Navier-Stokes' ten frames, a step at scale "small": more steps for the same cost teach more
SMALL_FNO = (("width", 16), ("modes", 5))  # as many weights as Transolver, within a tenth
NEIGHBOURHOOD = 9  # points along a side, of our own models on structured meshes
# Of our own model on the torus: no rim, the largest waves seen at once, positions as they are instead of distances to a
# grid that ends at a rim, and frames as changes of the one before.
TORUS = ("model.periodic=true", "model.waves=5", 'model.unified_pos="none"', "model.increment=true")
QUADRATIC = ("plain transformer",)  # too large for more points than some thousand


@dataclass(frozen=True)
class Plan:
    """A table to be filled: its words, its cells, and the paper's figures by (row, column)."""

    title: str
    about: str
    trials: tuple[Trial, ...]
    paper: Mapping[tuple[str, str], float]
    across: str = ""  # what the rows count, where they are numbers: then the figure is a curve
    measure: str = "relative L2"  # of all columns; none where they differ


def small(task: str, every: int = 0) -> tuple[str, ...]:
    """Settings of a small model and a short run."""
    steps = 1000 if every else STEPS.get(task, 1000)
    unrolled = (f"training.unrolled={UNROLLED}",) if task == "navier-stokes" else ()
    return (*SMALL, f"training.steps={steps}", f"training.batch={2 if every else 1}", *unrolled)


def ours(steps: int | None) -> tuple[str, ...]:
    """What our own way is: Muon, weights averaged over the last tenth of a run, and slices that keep what they know."""
    mean = round(1 - 10 / steps, 5) if steps else 0.999
    return (
        "training.optimiser=muon",
        "training.learning_rate=2e-3",
        "training.clip=1.0",
        f"training.ema={mean}",
        "model.token_residual=true",
    )


def standard(
    task: str,
    scale: Scale,
    row: str,
    *settings: str,
    kind: str = "transolver",
    every: int = 0,
) -> Trial:
    """A cell of one of the six standard tasks."""
    count = {"darcy": 180, "navier-stokes": 30}.get(task, 60) if scale == "small" else 1200
    source = Source(task, count if scale == "small" else CASES.get(task, count), every or None)
    sized = (*(small(task, every) if scale == "small" else ()), *settings)
    fewer = SMALL_FNO if kind == "fno2d" and scale == "small" else ()
    return Trial(row, task, task.replace("-", "_"), FIGURES[task], sized, kind, fewer, source)


def _steps(trial: Trial) -> int | None:
    found = [int(s.removeprefix("training.steps=")) for s in trial.settings if s.startswith("training.steps=")]
    return found[-1] if found else None


def lasting(trial: Trial, steps: int) -> Trial:
    """The trial with a run of another length; weights that are averaged are so over its last tenth."""
    averaged = any(setting.startswith("training.ema=") for setting in trial.settings)
    ema = (f"training.ema={round(1 - 10 / steps, 5)}",) if averaged else ()
    return replace(trial, settings=(*trial.settings, f"training.steps={steps}", *ema))


def our_own(trial: Trial) -> Trial:
    """Beside the paper's, on the same data; points of structured meshes see their neighbourhood."""
    near = () if trial.recipe == "elasticity" else (f"model.neighbourhood={NEIGHBOURHOOD}",)
    torus = TORUS if trial.recipe == "navier_stokes" else ()
    return replace(trial, row=OURS, settings=(*trial.settings, *ours(_steps(trial)), *near, *torus))


def trend(task: str, scale: Scale, row: str, *settings: str, every: int = 0) -> Trial:
    """A cell of an ablation. Small ones are trained our way, which shows in few steps what takes the paper's many."""
    if scale == "small":
        settings = (*ours(1000), *settings)
    return standard(task, scale, row, *settings, every=every if task == "darcy" else 0)


def airfoils(scale: Scale, column: str, figure: str, train: str, split: str) -> Iterable[Trial]:
    """Rows on the RANS airfoils that come with the project, which stand in for AirfRANS."""
    sizes: tuple[str, ...] = ()
    length: tuple[str, ...] = ()
    if scale == "small":
        sizes, length = SMALL, ("training.steps=1000", "data.part=0.2")
    most = 40 if scale == "small" else None
    shared = (f"data.train={train}", *length)
    fields = 'data.fields=["U","p","nut","wallShearStress"]'
    points = ("training.points=640", "training.batch=1") if scale == "small" else ("training.points=1280",)
    theirs = ("data.path=../datasets/naca_rans", *shared, *sizes, *points, fields)
    for row, kind in KINDS.items():
        if kind != "fno2d":
            yield Trial(row, column, "airfrans", figure, theirs, kind, split=split, most=most)
    fewer = ("training.points=512", "training.skin_points=128") if scale == "small" else ()
    averaged = (f"training.ema={round(1 - 10 / 1000, 5)}",) if scale == "small" else ()
    own = (*shared, *sizes, *fewer, *averaged, "model.token_residual=true")
    yield Trial(OURS, column, "naca_rans", figure, own, split=split, most=most)


def main(scale: Scale) -> Plan:
    tasks = ("darcy",) if scale == "small" else published.TASKS
    trials = [trial for task in tasks for trial in rows_of(task, scale)]
    trials += airfoils(scale, "airfoils, U around", "U_volume", "full_train", "full_test")
    trials += airfoils(scale, "airfoils, p on the skin", "p_surface", "full_train", "full_test")
    trials += rows_of("navier-stokes", scale) if scale == "small" else ()
    paper = {(row, task): v for row, r in published.MAIN.items() for task, v in zip(published.TASKS, r, strict=True)}
    for row, (_, surface, _, _) in published.AIRFRANS.items():
        paper[row, "airfoils, p on the skin"] = surface
    about = (
        "Relative L2 on held-out cases. Baselines and the paper's Transolver are trained as the paper trains all of "
        "them. Ours: Muon, averaged weights, a residual around the attention among slices, on grids a depthwise "
        "convolution ahead of it, on the torus also one over its lowest waves and frames as increments, and on "
        "airfoils our own recipe. On `airfoils`, RANS that this project solved, the paper's figures are those of "
        "AirfRANS; `darcy` and `navier-stokes` were generated."
    )
    return Plan("Main table", about, tuple(trials), _known(paper))


def rows_of(task: str, scale: Scale) -> list[Trial]:
    """All kinds of models on a standard task, those left out that cannot do it."""
    left_out = ("FNO",) if task == "elasticity" else QUADRATIC
    trials = [standard(task, scale, row, kind=kind) for row, kind in KINDS.items() if row not in left_out]
    return [*trials, our_own(standard(task, scale, OURS))]


def slices(scale: Scale) -> Plan:
    numbers = (1, 4, 16, 64) if scale == "small" else (1, 8, 16, 32, 64, 96, 128, 256, 512, 1024)
    tasks = ("darcy",) if scale == "small" else published.TASKS
    every = 20 if scale == "small" else 0
    trials = [trend(task, scale, str(m), f"model.slices={m}", every=every) for task in tasks for m in numbers]
    half = "[16,16,8]" if scale == "small" else "[64,64,64,64,32,32,32,32]"
    for task in tasks:
        trials.append(
            trend(
                task,
                scale,
                "half in the later layers",
                f"model.slices={half}",
                every=every,
            )
        )
        if task != "elasticity":
            trials.append(
                trend(
                    task,
                    scale,
                    "regular squares",
                    'model.attention="squares"',
                    every=every,
                )
            )
    paper = {(row, task): v for row, r in published.SLICES.items() for task, v in zip(published.TASKS, r, strict=True)}
    return Plan(
        "Number of slices",
        "Relative L2 by slices of a head.",
        tuple(trials),
        _known(paper),
        "slices",
    )


def layers(scale: Scale) -> Plan:
    numbers = (1, 2, 4) if scale == "small" else (8, 16, 24, 32, 40)
    tasks = ("darcy",) if scale == "small" else published.TASKS
    every = 20 if scale == "small" else 0
    trials = [trend(task, scale, str(n), f"model.layers={n}", every=every) for task in tasks for n in numbers]
    paper = {(row, task): value for row, given in published.LAYERS.items() for task, value in given.items()}
    return Plan("Layers", "Relative L2 by layers of the model.", tuple(trials), paper, "layers")


def data(scale: Scale) -> Plan:
    every = 20 if scale == "small" else 0
    trials = [
        trend("darcy", scale, f"{part:g}", f"data.part={part:g}", every=every) for part in (0.2, 0.4, 0.6, 0.8, 1.0)
    ]
    about = "Relative L2 by the part of the training cases that is used. The paper shows this as a picture only."
    return Plan("Training data", about, tuple(trials), {}, "part of the training cases")


def resolution(scale: Scale) -> Plan:
    every_side = {20: 22, 10: 43, 7: 61, 5: 85, 4: 106, 3: 141, 2: 211, 1: 421}
    grids = {20: 22, 10: 43, 5: 85} if scale == "small" else every_side
    largest = 43 if scale == "small" else 85  # of full attention
    trials = []
    for every, side in grids.items():
        for column, attention in (
            ("plain transformer", "full"),
            ("Transolver", "slices"),
        ):
            if attention == "slices" or side <= largest:
                own = [f'model.attention="{attention}"']
                if scale == "small":
                    own += ["data.part=0.4", f"model.token_residual={str(attention == 'slices').lower()}"]
                cell = trend("darcy", scale, str(side), *own, every=every)
                cell = lasting(cell, 500) if scale == "small" else cell
                trials.append(replace(cell, column=column))
    near = {
        "41": "43",
        "58": "61",
        "103": "106",
        "411": "421",
    }  # ours that are closest to the paper's
    columns = ("plain transformer", "Transolver")
    paper = {
        (near.get(side, side), column): value
        for side, values in published.RESOLUTION.items()
        for column, value in zip(columns, values, strict=True)
    }
    about = "Relative L2 of Darcy by points along a side, attention among all points against attention among slices."
    return Plan(
        "Resolution and full attention",
        about,
        tuple(trials),
        _known(paper),
        "points along a side",
    )


def ood(scale: Scale) -> Plan:
    names = (
        "C_L error, Reynolds",
        "rho_L, Reynolds",
        "C_L error, angles",
        "rho_L, angles",
    )
    trials: list[Trial] = []
    for column, task in zip(names, ("reynolds", "reynolds", "aoa", "aoa"), strict=True):
        figure = "cl_integrated_error" if column.startswith("C_L") else "rho_L_integrated"
        rows = airfoils(scale, column, figure, f"{task}_train", f"{task}_test")
        trials += [trial for trial in rows if trial.row in (*published.OOD, OURS)]
    paper = {(row, name): v for row, r in published.OOD.items() for name, v in zip(names, r, strict=True)}
    about = "Lift of airfoils at Reynolds numbers and angles that were not trained on. The paper's figures: AirfRANS."
    return Plan("Beyond the training range", about, tuple(trials), paper, measure="")


def broken(scale: Scale) -> Plan:
    cells = [
        standard("elasticity", scale, row, kind=KINDS[row]) for row in ("GraphSAGE", "Galerkin", "GNOT", "FLARE", PAPER)
    ]
    trials: list[Trial] = []
    for cell in (*cells, our_own(standard("elasticity", scale, OURS))):
        trials += [replace(cell, column=f"{kept:.0%} of the points", kept=kept) for kept in (1.0, 0.8, 0.5)]
    about = "Relative L2 of elasticity where points are missing from the mesh. The paper shows this as pictures only."
    return Plan("Broken meshes", about, tuple(trials), {})


def lagrangian(scale: Scale) -> Plan:
    shorter = (
        (
            "training.steps=500",
            "training.batch=1",
            "model.layers=2",
            "model.channels=32",
        )
        if scale == "small"
        else ()
    )
    source = Source("waterdrop", 12 if scale == "small" else 1000)
    rows = {
        "graph network": "model.transolver=false",
        "graph network + Transolver": "model.transolver=true",
    }
    column = "squared error of positions"
    trials = tuple(
        Trial(
            row,
            column,
            "waterdrop",
            "positions_square",
            (*shorter, setting),
            "particles",
            source=source,
        )
        for row, setting in rows.items()
    )
    about = "Mean squared error of the particles' positions over the whole rollout. The paper's figures: WaterDrop."
    return Plan(
        "Particles",
        about,
        trials,
        {(row, column): value for row, value in published.LAGRANGIAN.items()},
        measure="",
    )


def _known(
    figures: Mapping[tuple[str, str], float | None],
) -> dict[tuple[str, str], float]:
    return {cell: value for cell, value in figures.items() if value is not None}


PLANS: dict[str, Callable[[Scale], Plan]] = {
    "main": main,
    "slices": slices,
    "layers": layers,
    "data": data,
    "resolution": resolution,
    "ood": ood,
    "broken": broken,
    "lagrangian": lagrangian,
}
