"""Cars and other bodies, over a moving ground or in free air, from parameters or a file to a Case.

Bodies stand in the car's frame: flow +x, up +z, origin at mid-length on the ground; in free air z = 0 is the lowest
point. One that is its own mirror image in y = 0 is solved in the half y >= 0.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aerosurrogate import forces
from aerosurrogate.body import is_mirror_symmetric, mirrored, set_in_stream
from aerosurrogate.conditions import Conditions, FlowAxes, StreamOptions
from aerosurrogate.data.case import Case
from aerosurrogate.mesh.distance import distance
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.surface import Floats, Surface
from aerosurrogate.mesh.surroundings import usual_region
from aerosurrogate.simulate import openfoam as foam
from aerosurrogate.simulate import shapes
from aerosurrogate.simulate.car_case import LONG, MESHES, WINDOW, MeshSettings, size_of, write_case
from aerosurrogate.simulate.spec import Design, Fidelity, Range, Solution

METHOD = 3  # raised with every change of mesh or solver that moves results: no folder mixes two
KINDS = tuple(shapes.RANGES)
WEIGHTS = {"ahmed": 0.45, "no": 0.14}  # chance of a word against 1 for the others: 8 % Ahmed bodies, 12 % no wheels
SPEED = (15.0, 45.0)  # m/s
KEPT_CELLS = 24_000  # of the solver's cells in the region around the body, a random subset
# What ends a run early: iterations, of the drag, of 1, and iterations at least (a wake takes long to settle).
FLAT_WINDOW, FLAT_DRAG, FLAT_LIFT, FLAT_FROM = 50, 0.003, 0.003, 110
# Of the mean drag, over the iterations averaged: what counts as steady. A wake that swings slowly by more seems to
# stand still wherever it turns round: ended there, single bodies had drags 8 % off their means.
DRIFT, SCATTER = 0.01, 0.015
# Of the mean drag, and of lift beside 1, from one half of many more iterations to the other, where a wake wanders.
# Their mean is then off by half of it at most, less than by the placement of the mesh; left out, blunt bodies would be
# missing.
LONG_DRIFT = 0.04
COEFFICIENTS = {"cd": "Cd", "cl": "Cl", "cm": "CmPitch"}
_AXES = FlowAxes.parse()


def _union(name: str) -> Range:
    limits = [kind[name] for kind in shapes.RANGES.values() if name in kind]
    return min(low for low, _ in limits), max(high for _, high in limits)


RANGES: dict[str, Range] = {
    "kind": KINDS,
    "wheels": ("yes", "no"),
    "speed": SPEED,
    **{name: _union(name) for kind in shapes.RANGES.values() for name in kind},
    **dict.fromkeys(shapes.OPTIONS, ("no", "yes")),
    "deform": (-0.04, 0.04),
}
"""What a spec can narrow. Each kind draws from its own range within these (shapes.RANGES)."""


def draw(ranges: dict[str, Range], rng: np.random.Generator) -> tuple[dict[str, float | str], Conditions]:
    """One body and its speed. What it does not have, options and deformations, stands nowhere in its parameters."""

    def choose(words: Range) -> str:
        names = [str(word) for word in words]
        chance = np.array([WEIGHTS.get(name, 1.0) for name in names])
        return str(rng.choice(names, p=chance / chance.sum()))

    kind, wheels = choose(ranges["kind"]), choose(ranges["wheels"])
    speed = float(rng.uniform(*ranges["speed"]))
    parameters: dict[str, float | str] = {"kind": kind}
    if "wheel_radius" in shapes.RANGES[kind]:
        parameters["wheels"] = wheels
    for name, usual in shapes.RANGES[kind].items():
        parameters[name] = float(rng.uniform(*_within(usual, ranges[name])))
    for option, kinds in shapes.OPTIONS.items():
        if rng.choice([str(word) for word in ranges[option]]) == "yes" and kind in kinds:
            parameters[option] = "yes"
    if (amplitude := float(rng.uniform(*ranges["deform"]))) > 0:  # half of the usual range: none
        parameters |= {"deform": amplitude, "deform_seed": float(rng.integers(2**31))}
    conditions = Conditions(speed=speed, length=shapes.shape_of(parameters).length, ground=shapes.on_ground(kind))
    return parameters, conditions


def _within(usual: tuple[float, float], asked: Range) -> tuple[float, float]:
    """The part of a kind's usual range that was asked for; what was asked for if they do not meet."""
    low, high = float(asked[0]), float(asked[1])
    both = max(low, usual[0]), min(high, usual[1])
    return both if both[0] <= both[1] else (low, high)


def solve(design: Design, folder: Path, fidelity: Fidelity = "standard", cautious: bool = False) -> Solution:
    """Mesh, solve and read one body; see `spec` for the contract.

    Where the design asks for several placements of the mesh, the flow is that of the first, and the coefficients are
    means over those that settled; `cd_spread` is the standard deviation of their drag.
    """
    settings = MESHES[fidelity].cautious() if cautious else MESHES[fidelity]
    surface = body_of(design)
    first = solve_body(design, surface, folder, settings)
    found = [first.case.reference]
    for number in range(1, design.placements if first.converged else 1):
        again = folder / f"placement{number}"
        again.mkdir()
        with contextlib.suppress(foam.SolverError):
            solution = solve_body(design, surface, again, settings, number)
            found += [solution.case.reference] if solution.converged else []
    reference = first.case.reference
    if design.placements > 1:
        reference = {name: float(np.mean([one[name] for one in found])) for name in reference}
        reference |= {"cd_spread": float(np.std([one["cd"] for one in found])), "placements": float(len(found))}
    return replace(first, case=replace(first.case, reference=reference))


def place_of(name: str, number: int) -> Floats:
    """(3,) in [0, 1): how the cells lie against the body, by its name, so that their noise averages out over cases."""
    return np.random.default_rng([zlib.crc32(name.encode()), number]).random(3)


def body_of(design: Design) -> Surface:
    """The design's closed pieces, in the car's frame."""
    if design.file is None:
        return shapes.surface(design.parameters)
    said = {name: str(value) for name, value in design.parameters.items()}
    surface = read_surface(design.file, said.get("units"))
    stream = StreamOptions(flow=said.get("flow", "+x"), up=said.get("up", "+z"), ground=said.get("ground", "auto"))
    if "symmetry" in said:
        surface = mirrored(surface, said["symmetry"], design.file)
    body = set_in_stream(surface, stream, design.file)
    return surface.transformed(body.rotation, -body.rotation @ body.origin)


def solve_body(
    design: Design,
    surface: Surface,
    folder: Path,
    settings: MeshSettings,
    placement: int = 0,
    frame: Surface | None = None,
) -> Solution:
    """Solve the flow around closed pieces given in the car's frame.

    A wake that does not settle is averaged over many more iterations: where their halves agree, that mean is the
    answer, and the case's tag `averaged` says so.
    With a `frame`, the mesh is laid as around that body: what it does to the drag of both is then mostly the same.
    """
    frame = frame or surface
    half = is_mirror_symmetric(surface)
    area = frontal_area(surface)
    place = place_of(Path(design.file).stem if design.file else design.name, placement)
    size = size_of(frame, frontal_area(frame))
    write_case(folder, surface, design.conditions, settings, half=half, area=area, place=place, frame=frame, size=size)
    foam.run(folder, "blockMesh")
    foam.run(folder, "surfaceFeatureExtract")
    foam.run(folder, "snappyHexMesh", "-overwrite")

    def settled() -> bool:
        history = foam.history(folder)
        done = len(history.get("Cd", ()))
        if done > settings.iterations:
            return False
        averaged = done - settings.average_from
        return is_flat(history) or (averaged >= WINDOW and not unsteadiness(history["Cd"], settings.average_from))

    foam.run(folder, "simpleFoam", until=settled)
    history = foam.history(folder)
    done, reason = len(history["Cd"]), unsteadiness(history["Cd"], settings.average_from)
    count = min(done - settings.average_from, WINDOW)  # of the iterations that the fields are means of; 0: the last
    if wanders := bool(reason) and done > settings.iterations:
        count = done - settings.iterations
        reason = wandering(history, count)
    case = read_case(design, folder, surface, half=half, area=area, wanders=wanders)
    last = slice(-max(1, count), None)
    means = {name: float(history[column][last].mean()) for name, column in COEFFICIENTS.items()}
    said = {"averaged": f"{count} iterations"} if wanders else {}
    case = replace(case, reference=case.reference | means, tags=case.tags | said)
    return Solution(case, history, not reason, reason)


def is_flat(history: dict[str, Floats]) -> bool:
    """Whether drag and lift stand so still that the run can end before its time, and its last fields are the means."""
    if len(history.get("Cd", ())) < FLAT_FROM:
        return False
    drag, lift = history["Cd"][-FLAT_WINDOW:], history["Cl"][-FLAT_WINDOW:]
    return bool(np.ptp(drag) < FLAT_DRAG * abs(drag.mean()) and np.ptp(lift) < FLAT_LIFT)


def unsteadiness(drag: Floats, since: int) -> str:
    """Why the drag does not count as converged over the iterations it is averaged over, or ''.

    A run that ended early, standing still, has averaged over few iterations or none: its last ones are judged instead.
    """
    drag = drag[min(max(since, len(drag) - WINDOW), len(drag) - FLAT_WINDOW) :]
    half = len(drag) // 2
    mean = abs(drag.mean())
    drift, scatter = abs(drag[half:].mean() - drag[:half].mean()) / mean, drag.std() / mean
    if not (drift < DRIFT and scatter < SCATTER):  # also where they are not numbers
        return f"drag not steady: drifts by {drift:.1%}, varies by {scatter:.1%}"
    return ""


def wandering(history: dict[str, Floats], count: int) -> str:
    """Why drag and lift have no mean over so many last iterations, or ''."""
    drag, lift = (foam.drift(history[name], count) for name in ("Cd", "Cl"))
    mean = abs(float(history["Cd"][-count:].mean()))
    if abs(drag) < LONG_DRIFT * mean and abs(lift) < LONG_DRIFT:  # not where they are not numbers
        return ""
    drifts = f"its mean drifts by {abs(drag) / mean:.1%}, that of lift by {abs(lift):.2g}"
    return f"drag not steady: over {count} iterations {drifts}"


def frontal_area(surface: Surface) -> float:
    """Silhouette seen along the flow, above the ground, m2."""
    return float(forces.silhouette_area(surface.corners.clip([-np.inf, -np.inf, 0.0]), _AXES))


def layers_of(log: Path) -> dict[str, str]:
    """What snappyHexMesh says of the prism layers it made: faces that got any, layers on average, thickness in m."""
    text = log.read_text()
    faces = re.findall(r"Extruding (\d+) out of (\d+) faces", text)
    made = re.findall(r"^body\s+\d+\s+([\d.]+)\s+([\d.e+-]+)\s+[\d.e+-]+\s*$", text, re.M)
    if not faces or not made:
        return {"layered": "0"}
    got, all_faces = map(int, faces[-1])
    return {"layered": f"{got / all_faces:.3f}", "layers": made[-1][0], "layer_thickness": made[-1][1]}


def sound_faces(vectors: Floats, conditions: Conditions | None) -> NDArray[np.intp]:
    """Indices of faces with area vectors (n, 3) that have an area to speak of."""
    length = conditions.length if conditions else 1.0
    return np.flatnonzero(np.linalg.norm(vectors, axis=1) > 1e-12 * length**2)


def read_case(design: Design, folder: Path, surface: Surface, *, half: bool, area: float, wanders: bool) -> Case:
    """The solved flow as a Case: every face of the body, and a random part of the cells in the region around it.

    The cells kept stand for those left out: their volumes are scaled up to fill the region.
    """
    conditions = design.conditions
    mesh = foam.read_mesh(folder)
    end = foam.latest_time(folder)
    usual = "Mean" if (end / "pMean").exists() else ""  # none where the run ended early, standing still
    mean = f"Mean_{LONG}" if wanders else usual
    pressure, velocity, shear = (foam.read_field(end / f"{f}{mean}", mesh) for f in ("p", "U", "wallShearStress"))

    body = mesh.patches["body"].faces
    outward = -mesh.face_areas[body]
    areas = np.linalg.norm(outward, axis=1)
    skin = sound_faces(outward, conditions)
    centres, areas, normals = mesh.face_centres[body][skin], areas[skin], outward[skin] / areas[skin][:, None]
    skin_p = conditions.density * pressure.patches["body"][skin]
    tau = foam.skin_stress(shear, "body", conditions.density)[skin]

    kept = usual_region(3, conditions.ground)
    inside = np.flatnonzero(kept.contains(mesh.cell_centres / conditions.length))
    cells = np.random.default_rng(0).permutation(inside)[:KEPT_CELLS]
    around = mesh.cell_centres[cells]
    wall = distance(surface, around)

    on_skin, off_skin = np.zeros(len(skin)), np.zeros(len(cells))
    tags = {name: value if isinstance(value, str) else f"{value:.10g}" for name, value in design.parameters.items()}
    tags |= {"cells": str(mesh.cells)} | layers_of(folder / "log.snappyHexMesh")
    return Case(
        name=design.name,
        points=_joined(centres, around),
        surface=np.arange(len(skin) + len(cells)) < len(skin),
        normals=_joined(normals, wall.direction),
        areas=_joined(areas, off_skin),
        distance=_joined(on_skin, np.abs(wall.distance)),
        volumes=_joined(on_skin, mesh.cell_volumes[cells] * (len(inside) / len(cells))),
        fields={
            "p": _joined(skin_p, conditions.density * pressure.internal[cells]),
            "U": _joined(np.zeros_like(centres), velocity.internal[cells]),
            "wallShearStress": _joined(tau, np.zeros_like(around)),
        },
        conditions=conditions,
        reference={"area": area},
        symmetry="y" if half else None,
        tags=tags,
    ).with_coefficients()


def _joined(skin: Floats, around: Floats) -> NDArray[np.float32]:
    return np.concatenate([skin, around]).astype(np.float32)
