"""Airfoils in two dimensions: NACA sections with real-valued digits, free ones or any coordinates, by steady RANS.

The model of turbulence is k-omega SST. A grid of half the resolution is solved first and gives the fine one its start,
which halves the cost. Both stop as soon as lift and drag are flat. Near stall a steady solution can wander about a
mean: where that mean stands still, it is the answer, and the case's tag `averaged` says so; any other is not converged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import map_coordinates

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Case
from aerosurrogate.data.readers.meshes import between_centres
from aerosurrogate.mesh import naca6
from aerosurrogate.mesh.airfoil import is_naca, naca
from aerosurrogate.mesh.coordinates import read_section
from aerosurrogate.mesh.distance import nearest
from aerosurrogate.mesh.kulfan import camber_line, half_thickness, kulfan
from aerosurrogate.mesh.outline import filled
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.simulate import cgrid, openfoam
from aerosurrogate.simulate.cgrid import CGrid, Resolution
from aerosurrogate.simulate.spec import Design, Fidelity, Range, Solution, draw_uniform

Array = np.ndarray
METHOD = 3  # raised with every change of mesh or solver that moves results: no folder mixes two
DENSITY = 1.184  # kg/m3 and m2/s: the air of AirfRANS
VISCOSITY = 1.56e-5
CROP = np.array([[-2.0, 4.0], [-1.5, 1.5]])  # chords: the surroundings that are kept

RANGES: dict[str, Range] = {
    "series": ("naca4", "naca5", "naca6", "cst"),
    "camber": (0.0, 7.0),  # 4-digit: % of the chord
    "camber_place": (1.5, 7.0),  # 4-digit: tenths of the chord
    "lift_digit": (0.0, 4.0),  # 5-digit: design lift over 0.15
    "lift_place": (3.0, 8.0),  # 5-digit: place of the camber in twentieths; reflexed ones up to 7
    "reflex": ("no", "yes"),
    "thickness": (5.0, 20.0),  # % of the chord
    "reynolds": (2e6, 6e6),  # a range wider than WIDE is drawn evenly in its logarithm
    "alpha": (-5.0, 15.0),  # degrees
    "trailing_edge": (0.0, 0.0),  # free ones: its thickness, % of the chord; below 0: sharp
}
MESHES: dict[Fidelity, Resolution] = {
    "fast": Resolution(56, 32, 60),
    "standard": Resolution(80, 44, 88),
    "fine": Resolution(120, 64, 132),
}
CURVE_POINTS = 400
REFLEX_LIMIT = 7.0  # twentieths of the chord
WIDE = 4.0
AVERAGED_FIELDS = ("p", "U", "nut", "wallShearStress")
AVERAGED = 600  # last iterations that a wandering solution is averaged over
STEADY_LIFT, STEADY_DRAG = 0.01, 0.02  # relative: how far the mean of their halves may differ
WALL_REYNOLDS = 45.0  # height of the first cell times speed over viscosity: y+ about 1
COARSE_ITERATIONS, ITERATIONS = 400, 1600  # the median is 250; near stall some take very long
WINDOW = 60  # iterations over which lift and drag must be flat
FLAT_LIFT, FLAT_DRAG = 0.0025, 0.005  # relative
PATCH = "airfoil"
COEFFICIENTS = {"cd": "Cd", "cl": "Cl", "cm": "CmPitch"}


def draw(ranges: dict[str, Range], rng: np.random.Generator) -> tuple[dict[str, float | str], Conditions]:
    """One section, by its name with real-valued digits or by its weights, and its stream; chord 1 m."""
    first = {name: limits for name, limits in _even(ranges).items() if name != "trailing_edge"}
    drawn = draw_uniform(first, rng)
    stream = air(10 ** drawn["log10_reynolds"] if "log10_reynolds" in drawn else drawn["reynolds"], drawn["alpha"])
    if drawn["series"] == "cst":
        weights = _free_section(drawn["thickness"], drawn["camber"], rng)
        edge = max(float(rng.uniform(*ranges["trailing_edge"])), 0.0)
        return {"kind": "cst", **weights, "trailing_edge": round(edge, 4)}, stream
    if drawn["series"] == "naca6":
        return {"kind": "naca6", "naca": _six_series(drawn["thickness"], rng)}, stream
    thickness = f"{drawn['thickness']:.3f}"
    if drawn["series"] == "naca4":
        digits = f"{drawn['camber']:.3f}_{drawn['camber_place']:.3f}_{thickness}"
    else:
        place, reflexed = drawn["lift_place"], drawn["reflex"] == "yes"
        if reflexed and place > REFLEX_LIMIT:  # beyond it no reflexed camber line exists
            place = float(rng.uniform(min(float(ranges["lift_place"][0]), REFLEX_LIMIT), REFLEX_LIMIT))
        digits = f"{drawn['lift_digit']:.3f}_{place:.3f}_{int(reflexed)}_{thickness}"
    return {"kind": drawn["series"], "naca": f"naca:{digits}"}, stream


def _six_series(thickness: float, rng: np.random.Generator) -> str:
    """The name of a section of a family of the 6-series, about as thick as given (% of the chord)."""
    family = str(rng.choice(list(naca6.SERIES)))
    digits = f"{rng.integers(0, 7)}{round(np.clip(thickness, 6, 21)):02d}"  # the thicknesses that were published
    return f"naca{family}{digits}" if family.endswith("A") else f"naca{family}-{digits}"


def _even(ranges: dict[str, Range]) -> dict[str, Range]:
    """The ranges, a wide one of Reynolds numbers by its logarithm."""
    low, high = (float(limit) for limit in ranges["reynolds"])
    if high <= WIDE * low:
        return ranges
    others = {name: limits for name, limits in ranges.items() if name != "reynolds"}
    return others | {"log10_reynolds": (float(np.log10(low)), float(np.log10(high)))}


def _free_section(thickness: float, camber: float, rng: np.random.Generator) -> dict[str, float | str]:
    """Weights of a free section (mesh.kulfan) of this thickness and camber, % of the chord.

    Noses from sharp to blunt, the thickest place from a fifth to a half of the chord, camber in front, aft or reflexed:
    what the catalogues hold. Drawn again until the skin is free of waves.
    """
    x = (1.0 - np.cos(np.linspace(0.0, np.pi, 201))) / 2.0
    while True:
        place = np.linspace(-0.5, 0.5, 5)
        t = 1.0 + rng.uniform(-0.5, 0.7) * place + rng.normal(0.0, 0.12, 5)
        t[0] *= rng.uniform(0.65, 1.35)
        c = rng.uniform(0.0, 1.0, 4)
        tail = rng.uniform()
        c[3] = -rng.uniform(0.0, 0.8) if tail < 0.2 else c[3] * 2.5 if tail < 0.45 else c[3]
        half, line = half_thickness(x, t), camber_line(x, c)
        t, half = t * 0.005 * thickness / half.max(), half * 0.005 * thickness / half.max()
        c, line = c * 0.01 * camber / np.abs(line).max(), line * 0.01 * camber / np.abs(line).max()
        thickest = x[np.argmax(half)]
        bends = [_bends(x, line + half), _bends(x, half - line)]
        if 0.18 <= thickest <= 0.52 and max(bends) <= 1 and half[x > 0.9].min() >= 0:
            weights = {f"t{i}": w for i, w in enumerate(t)} | {f"c{i}": w for i, w in enumerate(c)}
            return {name: round(float(weight), 6) for name, weight in weights.items()}


def _bends(x: Array, side: Array) -> int:
    """How often a side changes from bulging outward to hollow or back."""
    inner = slice(4, -4)
    curvature = np.gradient(np.gradient(side, x), x)[inner]
    sign = np.sign(curvature[np.abs(curvature) > 0.02])
    return int(np.count_nonzero(np.diff(sign)))


def air(reynolds: float, alpha: float) -> Conditions:
    """The air of AirfRANS around a chord of 1 m; alpha in degrees."""
    return Conditions(reynolds * VISCOSITY, length=1.0, alpha=alpha, density=DENSITY, viscosity=VISCOSITY)


def solve(design: Design, folder: Path, fidelity: Fidelity, cautious: bool) -> Solution:
    """Mesh, solve and read one airfoil; see `spec` for the contract."""
    stream = design.conditions
    first_cell = WALL_REYNOLDS / stream.reynolds
    grid = cgrid.grid(curve_of(design), MESHES[fidelity], first_cell, 0.5 * np.radians(stream.alpha))
    if (grid.areas() <= 0).any():
        raise openfoam.SolverError("the grid folds over itself: the section is too unlike an airfoil")
    grid = grid.scaled(stream.length)
    coarse, fine = folder / "coarse", folder / "fine"
    start = _run(coarse, grid.halved(), stream, {}, COARSE_ITERATIONS, cautious)
    _run(fine, grid, stream, _refined(start, grid), ITERATIONS, cautious)
    history = openfoam.history(fine)
    flat = len(history["Cl"]) < ITERATIONS or _flat(history)  # a fast run can end before it is seen to be flat
    case = _read(fine, design, history, averaged=not flat)
    reason = "" if flat or _steady_mean(history) else _unrest(history)
    return Solution(case, history, not reason, reason)


def curve_of(design: Design) -> Array:
    """The section as a closed curve (n, 2) of chord 1 with the leading edge at x = 0; see mesh.airfoil."""
    if design.parameters.get("kind") == "cst":
        t, c = ([float(design.parameters[f"{name}{i}"]) for i in range(n)] for name, n in (("t", 5), ("c", 4)))
        return kulfan(t, c, CURVE_POINTS, 0.01 * float(design.parameters.get("trailing_edge", 0.0)))
    if design.file is None or is_naca(design.file):
        return naca(design.file or str(design.parameters["naca"]), CURVE_POINTS)
    curve = filled(read_section(Path(design.file)))
    return (curve - [curve[:, 0].min(), 0.0]) / np.ptp(curve[:, 0])


def _run(
    case: Path, grid: CGrid, stream: Conditions, start: dict[str, Array], iterations: int, cautious: bool
) -> dict[str, Array]:
    """Write and run one grid; returns its fields, {name: (cells,) or (cells, 3)}."""
    write_settings(case, stream, iterations, cautious=cautious, first_order=cautious and not start)
    cgrid.write(grid, case)
    _write_fields(case, stream, start)
    openfoam.run(case, "simpleFoam", until=lambda: _flat(openfoam.history(case)), limit=1200)
    mesh, last = openfoam.read_mesh(case), openfoam.latest_time(case)
    return {name: openfoam.read_field(last / name, mesh).internal for name in ("U", "p", "k", "omega", "nut")}


def _movement(history: dict[str, Array]) -> tuple[int, float, float]:
    """How far lift and drag move over the last iterations, and over how many: the slower a case, the more."""
    window = max(WINDOW, len(history["Cl"]) // 8)
    return window, openfoam.swing(history["Cl"], window), openfoam.swing(history["Cd"], window)


def _flat(history: dict[str, Array]) -> bool:
    """Whether lift and drag stay within their bands."""
    if len(history.get("Cl", ())) < 2 * WINDOW:
        return False
    _, lift, drag = _movement(history)
    return lift < FLAT_LIFT * max(abs(history["Cl"][-1]), 0.1) and drag < FLAT_DRAG * abs(history["Cd"][-1])


def _steady_mean(history: dict[str, Array]) -> bool:
    """Whether lift and drag, averaged over the later and over the earlier half of the last iterations, are the same."""
    lift, drag = (openfoam.drift(history[name], AVERAGED) for name in ("Cl", "Cd"))
    mean_lift, mean_drag = (abs(float(history[name][-AVERAGED:].mean())) for name in ("Cl", "Cd"))
    return abs(lift) < STEADY_LIFT * max(mean_lift, 0.1) and abs(drag) < STEADY_DRAG * mean_drag


def _unrest(history: dict[str, Array]) -> str:
    """Why a case does not count as converged, in words."""
    window, lift, drag = _movement(history)
    return f"unsteady: over {window} iterations lift moves by {lift:.2g}, drag by {drag:.2g}"


def _refined(fields: dict[str, Array], grid: CGrid) -> dict[str, Array]:
    """Fields of the half-resolution grid at the cells of the full one, linear in the indices; {name: (cells, c)}."""
    finer: dict[str, list[Array]] = {name: [] for name in fields}
    first = 0
    for block in grid.blocks:
        ni, nj = block.shape[0] - 1, block.shape[1] - 1
        at = np.meshgrid((np.arange(ni) + 0.5) / 2 - 0.5, (np.arange(nj) + 0.5) / 2 - 0.5, indexing="ij")
        coarse = slice(first, first := first + ni * nj // 4)
        for name, values in fields.items():
            channels = np.moveaxis(values[coarse].reshape(ni // 2, nj // 2, -1), -1, 0)
            mapped = [map_coordinates(v, at, order=1, mode="nearest").ravel() for v in channels]
            finer[name].append(np.stack(mapped, axis=-1).squeeze())
    return {name: np.concatenate(parts) for name, parts in finer.items()}


# --- the OpenFOAM case -----------------------------------------------------------------------------------------


def write_settings(
    case: Path, stream: Conditions, iterations: int, *, cautious: bool = False, first_order: bool = False
) -> None:
    """The dictionaries under system/ and constant/. `cautious`: smaller steps; `first_order`: smeared, but stable."""
    flow = np.append(stream.direction(2), 0.0)
    lift = np.array([-flow[1], flow[0], 0.0])
    coefficients = {
        "type": "forceCoeffs",
        "libs": "(forces)",
        "patches": [PATCH],
        "rho": "rhoInf",
        "rhoInf": 1.0,
        "dragDir": flow,
        "liftDir": lift,
        "CofR": [0.25 * stream.length, 0, 0],
        "pitchAxis": [0, 0, -1],  # nose-up positive
        "magUInf": stream.speed,
        "lRef": stream.length,
        "Aref": stream.length,
    }
    shear = {"type": "wallShearStress", "libs": "(fieldFunctionObjects)", "writeControl": "writeTime"}
    mean = openfoam.dictionary({"mean": True, "prime2Mean": False, "base": "iteration"})
    means = {
        "type": "fieldAverage",
        "libs": "(fieldFunctionObjects)",
        "timeStart": ITERATIONS - AVERAGED + 0.5,
        "log": False,
        "fields": "(" + " ".join(f"{name} {{ {mean} }}" for name in AVERAGED_FIELDS) + ")",
    }
    control = {
        "application": "simpleFoam",
        "startFrom": "latestTime",
        "startTime": 0,
        "stopAt": "endTime",
        "endTime": iterations,
        "deltaT": 1,
        "writeControl": "timeStep",
        "writeInterval": iterations,
        "writeFormat": "binary",
        "runTimeModifiable": False,
        "functions": {"forceCoeffs": coefficients, "shear": shear, "means": means, "abort": openfoam.ABORT},
    }
    schemes = {
        "ddtSchemes": {"default": "steadyState"},
        "gradSchemes": {"default": "Gauss linear"},
        "divSchemes": {
            "default": "none",
            "div(phi,U)": "bounded Gauss upwind" if first_order else "bounded Gauss linearUpwind grad(U)",
            "div(phi,k)": "bounded Gauss upwind",
            "div(phi,omega)": "bounded Gauss upwind",
            "div((nuEff*dev2(T(grad(U)))))": "Gauss linear",
        },
        "laplacianSchemes": {"default": "Gauss linear corrected"},
        "interpolationSchemes": {"default": "linear"},
        "snGradSchemes": {"default": "corrected"},
        "wallDist": {"method": "meshWave"},
    }
    momentum, pressure, turbulence = (0.8, 0.5, 0.6) if cautious else (0.86, 0.85, 0.8)
    solution = {
        "solvers": {
            "p": {"solver": "GAMG", "smoother": "DICGaussSeidel", "tolerance": 1e-9, "relTol": 0.05},
            '"(U|k|omega)"': {
                "solver": "smoothSolver",
                "smoother": "symGaussSeidel",
                "tolerance": 1e-12,
                "relTol": 0.1,
            },
        },
        "SIMPLE": {"nNonOrthogonalCorrectors": 0, "consistent": True},
        "relaxationFactors": {
            "fields": {"p": pressure},
            "equations": {"U": momentum, '"(k|omega)"': turbulence},
        },
    }
    openfoam.write_dictionary(case / "system" / "controlDict", control)
    openfoam.write_dictionary(case / "system" / "fvSchemes", schemes)
    openfoam.write_dictionary(case / "system" / "fvSolution", solution)
    transport = {"transportModel": "Newtonian", "nu": f"[0 2 -1 0 0 0 0] {stream.viscosity}"}
    openfoam.write_dictionary(case / "constant" / "transportProperties", transport)
    model = {"RASModel": "kOmegaSST", "turbulence": True, "printCoeffs": False}
    openfoam.write_dictionary(case / "constant" / "turbulenceProperties", {"simulationType": "RAS", "RAS": model})


def _write_fields(case: Path, stream: Conditions, start: dict[str, Array]) -> None:
    """Stream values everywhere, or `start` where it has the field."""
    velocity = stream.speed * np.append(stream.direction(2), 0.0)
    omega = 10 * stream.speed / stream.length
    nut = 0.05 * stream.viscosity
    uniform: dict[str, Any] = {"U": velocity, "p": 0.0, "k": nut * omega, "omega": omega, "nut": nut}
    dimensions = {
        "U": "[0 1 -1 0 0 0 0]",
        "p": "[0 2 -2 0 0 0 0]",
        "k": "[0 2 -2 0 0 0 0]",
        "omega": "[0 0 -1 0 0 0 0]",
        "nut": "[0 2 -1 0 0 0 0]",
    }
    walls = {
        "U": {"type": "noSlip"},
        "p": {"type": "zeroGradient"},
        "k": {"type": "fixedValue", "value": "uniform 1e-10"},
        "omega": {"type": "omegaWallFunction", "value": f"uniform {omega}"},
        "nut": {"type": "nutUSpaldingWallFunction", "value": "uniform 0"},
    }
    for name, value in uniform.items():
        stream_value = f"uniform {openfoam.entry(value)}"
        far = {
            "U": {"type": "freestreamVelocity", "freestreamValue": stream_value},
            "p": {"type": "freestreamPressure", "freestreamValue": stream_value},
            "nut": {"type": "calculated", "value": stream_value},
        }.get(name, {"type": "inletOutlet", "inletValue": stream_value, "value": stream_value})
        boundary = {PATCH: walls[name], "farfield": far, "sides": {"type": "empty"}}
        openfoam.write_field(case / "0" / name, dimensions[name], start.get(name, value), boundary)


# --- the solved case -------------------------------------------------------------------------------------------


def _read(folder: Path, design: Design, history: dict[str, Array], *, averaged: bool) -> Case:
    """The solved flow as a Case: all faces of the skin, and all cells within the crop."""
    stream = design.conditions
    mesh, last = openfoam.read_mesh(folder), openfoam.latest_time(folder)
    mean = "Mean" if averaged else ""
    pressure, velocity, nut, shear = (openfoam.read_field(last / f"{name}{mean}", mesh) for name in AVERAGED_FIELDS)

    skin = mesh.patches[PATCH].faces
    outward = -mesh.face_areas[skin, :2]
    areas = np.linalg.norm(outward, axis=1)
    normals, centres = outward / areas[:, None], mesh.face_centres[skin, :2]
    skin_p = stream.density * pressure.patches[PATCH]
    stress = openfoam.skin_stress(shear, PATCH, stream.density)[:, :2]
    low, high = CROP.T * stream.length
    cells = np.flatnonzero(((mesh.cell_centres[:, :2] >= low) & (mesh.cell_centres[:, :2] <= high)).all(axis=1))
    around = mesh.cell_centres[cells, :2]
    outline = _outline(mesh, outward)
    wall = nearest(outline, around)
    away = (around - wall.closest) / wall.distance[:, None]

    def joined(on: Array, off: Array) -> Array:
        return np.concatenate([on, off]).astype(np.float32)

    none_on, none_off = np.zeros(len(areas)), np.zeros(len(cells))
    window = AVERAGED if averaged else 1  # as the fields are
    values = {name: float(history[column][-window:].mean()) for name, column in COEFFICIENTS.items()}
    said = {"averaged": f"{AVERAGED} iterations"} if averaged else {}
    return Case(
        name=design.name,
        points=joined(centres, around),
        surface=np.arange(len(areas) + len(cells)) < len(areas),
        normals=joined(normals, away),
        areas=joined(areas, none_off),
        distance=joined(none_on, wall.distance),
        volumes=joined(none_on, mesh.cell_volumes[cells]),
        cells=between_centres(outline).astype(np.int32),
        fields={
            "p": joined(skin_p, stream.density * pressure.internal[cells]),
            "U": joined(np.zeros_like(centres), velocity.internal[cells, :2]),
            "wallShearStress": joined(stress, np.zeros_like(around)),
            "nut": joined(nut.patches[PATCH], nut.internal[cells]),
        },
        conditions=stream,
        reference={**values, "area": stream.length},
        tags={name: str(value) for name, value in design.parameters.items()} | said,
    ).with_coefficients()


def _outline(mesh: openfoam.PolyMesh, outward: Array) -> Surface:
    """The wall's faces as segments in the plane that face along `outward` (n, 2)."""
    patch = mesh.patches[PATCH]
    corners = mesh.labels.reshape(-1, 4)[patch.faces, :2].astype(np.int64)
    found = Surface(mesh.points[:, :2], corners)
    return found if np.sum(found.area_vectors * outward) > 0 else Surface(found.points, corners[:, ::-1])
