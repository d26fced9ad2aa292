"""Cars and other bodies over a moving ground: snappyHexMesh, simpleFoam with k-omega SST, and back to a Case.

All lengths of the domain and the mesh are in body lengths L, so that a quarter-scale Ahmed body and a van get the same
mesh. A body that is its own mirror image in y = 0 is solved in the half y >= 0. Bodies stand in the car's frame: flow
+x, up +z, origin at mid-length on the ground.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import igl
import numpy as np
from numpy.typing import NDArray

from aerosurrogate.data.case import Case
from aerosurrogate.flow import Conditions
from aerosurrogate.simulate import car_shapes
from aerosurrogate.simulate import openfoam as foam
from aerosurrogate.simulate.car_shapes import Array, Triangles
from aerosurrogate.simulate.spec import Design, Fidelity, Range, Solution

KINDS = tuple(car_shapes.RANGES)
WEIGHTS = {"ahmed": 0.45, "no": 0.14}  # chance of a word against 1 for the others: 8 % Ahmed bodies, 12 % no wheels
SPEED = (15.0, 45.0)  # m/s
KEPT_CELLS = 24_000  # of the solver's cells around the body, a random subset
CROP = np.array([[-1.2, -0.7, 0.0], [2.0, 0.7, 0.8]])  # L
DOMAIN = np.array([[-1.6, -1.7, 0.0], [5.0, 1.7, 1.7]])  # L
BOXES = (  # refinement level and box in L: body and near wake, wake, surroundings
    (3, (-0.62, -0.30, -1.0), (1.00, 0.30, 0.45)),
    (2, (-0.80, -0.50, -1.0), (2.00, 0.50, 0.70)),
    (1, (-1.20, -0.90, -1.0), (3.50, 0.90, 1.10)),
)
FEATURE_ANGLE = 140  # degrees between faces below which an edge is snapped to
FLAT_WINDOW, FLAT_DRAG, FLAT_LIFT = 60, 0.004, 0.002  # iterations, of the drag, of 1: what ends a run early
DRIFT, SPREAD = 0.01, 0.02  # of the drag over the window: what counts as converged


@dataclass(frozen=True)
class Settings:
    base_cell: float  # L
    iterations: int
    window: int  # the last iterations, over which everything is averaged


SETTINGS: dict[Fidelity, Settings] = {
    "fast": Settings(0.24, 220, 60),
    "standard": Settings(0.18, 300, 80),
    "fine": Settings(0.13, 400, 100),
}


def _union(name: str) -> Range:
    limits = [kind[name] for kind in car_shapes.RANGES.values() if name in kind]
    return min(low for low, _ in limits), max(high for _, high in limits)


RANGES: dict[str, Range] = {"kind": KINDS, "wheels": ("yes", "no"), "speed": SPEED} | {
    name: _union(name) for kind in car_shapes.RANGES.values() for name in kind
}
"""What a spec can narrow. Each kind draws from its own range within these (car_shapes.RANGES)."""


def draw(ranges: dict[str, Range], rng: np.random.Generator) -> tuple[dict[str, float | str], Conditions]:
    """One car and its speed."""

    def choose(words: Range) -> str:
        chance = np.array([WEIGHTS.get(str(word), 1.0) for word in words])
        return str(rng.choice(list(words), p=chance / chance.sum()))

    kind, wheels = choose(ranges["kind"]), choose(ranges["wheels"])
    speed = float(rng.uniform(*ranges["speed"]))
    parameters: dict[str, float | str] = {"kind": kind}
    if kind != "ahmed":
        parameters["wheels"] = wheels
    for name, usual in car_shapes.RANGES[kind].items():
        parameters[name] = float(rng.uniform(*_within(usual, ranges[name])))
    shape = car_shapes.shape_of(parameters)
    return parameters, Conditions(speed=speed, length=shape.length, ground=True)


def _within(usual: tuple[float, float], asked: Range) -> tuple[float, float]:
    """The part of a kind's usual range that was asked for; what was asked for if they do not meet."""
    low, high = float(asked[0]), float(asked[1])
    both = max(low, usual[0]), min(high, usual[1])
    return both if both[0] <= both[1] else (low, high)


def solve(design: Design, folder: Path, fidelity: Fidelity = "standard", cautious: bool = False) -> Solution:
    """Mesh, solve and read one body; see `spec` for the contract."""
    points, triangles = car_shapes.surface(car_shapes.shape_of(design.parameters))
    return solve_body(design, points, triangles, folder, SETTINGS[fidelity], cautious)


def solve_body(
    design: Design, points: Array, triangles: Triangles, folder: Path, settings: Settings, cautious: bool = False
) -> Solution:
    """Solve the body whose closed pieces are given as points (n, 3) and outward triangles (m, 3)."""
    conditions = design.conditions
    half = is_mirror_symmetric(points, conditions.length)
    area = frontal_area(points, triangles)
    write_case(folder, points, triangles, conditions, settings, half=half, area=area, cautious=cautious)
    foam.run(folder, "blockMesh")
    foam.run(folder, "surfaceFeatureExtract")
    foam.run(folder, "snappyHexMesh", "-overwrite")
    foam.run(folder, "simpleFoam", until=lambda: is_flat(foam.history(folder)))
    history = foam.history(folder)
    reason = unsteadiness(history["Cd"], settings.window)
    case = read_case(design, folder, points, triangles, history, settings.window, half=half, area=area)
    return Solution(case, history, not reason, reason)


def is_flat(history: dict[str, Array]) -> bool:
    """Whether drag and lift stand so still that the run can end before its time, and its last fields are the means."""
    if len(history.get("Cd", ())) < FLAT_WINDOW + 40:
        return False
    drag, lift = history["Cd"][-FLAT_WINDOW:], history["Cl"][-FLAT_WINDOW:]
    return bool(np.ptp(drag) < FLAT_DRAG * abs(drag.mean()) and np.ptp(lift) < FLAT_LIFT)


def unsteadiness(drag: Array, window: int) -> str:
    """Why a drag history does not count as converged, or ''."""
    tail = drag[-window:]
    mean = abs(tail.mean())
    drift, spread = abs(foam.drift(drag, window)) / mean, tail.std() / mean
    if not (drift < DRIFT and spread < SPREAD):  # also where they are not numbers
        return f"drag not steady: drifts by {drift:.1%}, varies by {spread:.1%}"
    return ""


# --- geometry ---------------------------------------------------------------------------------------------------


def is_mirror_symmetric(points: Array, length: float) -> bool:
    """Whether every vertex has a mirror image in y = 0 within 1e-3 L."""
    from scipy.spatial import KDTree

    gap, _ = KDTree(points).query(points * [1.0, -1.0, 1.0])
    return bool(gap.max() < 1e-3 * length)


def frontal_area(points: Array, triangles: Triangles, lines: int = 1000) -> float:
    """Area (m2) of the silhouette seen along x, above the ground: mean width on even lines times height."""
    corners = points[triangles][:, :, 1:]
    low, high = max(0.0, float(points[:, 2].min())), float(points[:, 2].max())
    step = (high - low) / lines
    z_min, z_max = corners[..., 1].min(1), corners[..., 1].max(1)
    total = 0.0
    for z in low + step * (np.arange(lines) + 0.5):
        cut = corners[(z_min < z) & (z_max > z)]
        a, b = cut, np.roll(cut, -1, axis=1)
        crossing = (a[..., 1] > z) != (b[..., 1] > z)
        rise = np.where(crossing, b[..., 1] - a[..., 1], 1.0)
        y = a[..., 0] + (z - a[..., 1]) / rise * (b[..., 0] - a[..., 0])
        start = np.where(crossing, y, np.inf).min(1)
        stop = np.where(crossing, y, -np.inf).max(1)
        order = np.argsort(start)
        start, stop = start[order], np.maximum.accumulate(stop[order])
        reached = np.concatenate([[-np.inf], stop[:-1]])
        total += np.clip(stop - np.maximum(start, reached), 0, None).sum() * step
    return float(total)


# --- writing ----------------------------------------------------------------------------------------------------


def write_stl(path: Path, points: Array, triangles: Triangles) -> None:
    """Binary STL with outward normals."""
    corners = points[triangles].astype("<f4")
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1), 1e-30)[:, None]
    facets = np.zeros(len(corners), np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("byte", "<u2")]))
    facets["normal"], facets["corners"] = normals, corners
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"body".ljust(80) + np.uint32(len(facets)).tobytes() + facets.tobytes())


def write_case(
    folder: Path,
    points: Array,
    triangles: Triangles,
    conditions: Conditions,
    settings: Settings,
    *,
    half: bool,
    area: float,
    cautious: bool = False,
) -> None:
    """Write the whole OpenFOAM case: surface, mesh dictionaries, fields, schemes, controls."""
    write_stl(folder / "constant" / "triSurface" / "body.stl", points, triangles)
    length = conditions.length
    system = folder / "system"
    (system).mkdir(parents=True, exist_ok=True)
    (system / "blockMeshDict").write_text(_block_mesh(length, settings.base_cell, half))
    foam.write_dictionary(system / "surfaceFeatureExtractDict", _FEATURES)
    foam.write_dictionary(system / "snappyHexMeshDict", _snappy(length, half))
    foam.write_dictionary(system / "controlDict", _control(conditions, settings, area / 2 if half else area))
    foam.write_dictionary(system / "fvSchemes", _SCHEMES)
    foam.write_dictionary(system / "fvSolution", _solution(cautious))
    foam.write_dictionary(
        folder / "constant" / "transportProperties", {"transportModel": "Newtonian", "nu": conditions.viscosity}
    )
    turbulence = {"RASModel": "kOmegaSST", "turbulence": True, "printCoeffs": False}
    foam.write_dictionary(folder / "constant" / "turbulenceProperties", {"simulationType": "RAS", "RAS": turbulence})
    _write_fields(folder / "0", conditions)


def _block_mesh(length: float, base_cell: float, half: bool) -> str:
    low, high = DOMAIN.copy()
    low[1] = 0.0 if half else low[1]
    cells = np.round((high - low) / base_cell).astype(int)
    (x0, y0, z0), (x1, y1, z1) = low, high
    corners = [(x0, y0, z0), (x1, y0, z0), (x1, y1, z0), (x0, y1, z0)]
    corners += [(x0, y0, z1), (x1, y0, z1), (x1, y1, z1), (x0, y1, z1)]
    patches = {
        "inlet": ("patch", "(0 4 7 3)"),
        "outlet": ("patch", "(1 2 6 5)"),
        "ground": ("wall", "(0 3 2 1)"),
        "top": ("patch", "(4 5 6 7)"),
        "middle" if half else "right": ("symmetryPlane" if half else "patch", "(0 1 5 4)"),
        "left": ("patch", "(3 7 6 2)"),
    }
    sides = "".join(f"{name} {{ type {kind}; faces ({face}); }}\n" for name, (kind, face) in patches.items())
    return (
        foam.header("dictionary", "blockMeshDict")
        + f"scale {length:.10g};\nvertices {foam.entry(corners)};\n"
        + f"blocks (hex (0 1 2 3 4 5 6 7) {foam.entry(cells)} simpleGrading (1 1 1));\n"
        + f"edges ();\nboundary\n(\n{sides});\nmergePatchPairs ();\n"
    )


_FEATURES = {
    "body.stl": {
        "extractionMethod": "extractFromSurface",
        "extractFromSurfaceCoeffs": {"includedAngle": FEATURE_ANGLE},
        "writeObj": False,
    }
}


def _snappy(length: float, half: bool) -> dict[str, Any]:
    boxes = {
        f"box{level}": {
            "type": "searchableBox",
            "min": list(np.array(low) * length),
            "max": list(np.array(high) * length),
        }
        for level, low, high in BOXES
    }
    inside = DOMAIN[1] * length * [0.97, 0.93, 0.91]  # a far corner, on no cell face
    return {
        "castellatedMesh": True,
        "snap": True,
        "addLayers": False,
        "geometry": {"body.stl": {"type": "triSurfaceMesh", "name": "body"}, **boxes},
        "castellatedMeshControls": {
            "maxLocalCells": 2_000_000,
            "maxGlobalCells": 4_000_000,
            "minRefinementCells": 30,
            "nCellsBetweenLevels": 3,
            "features": '({ file "body.eMesh"; level 4; })',
            "refinementSurfaces": {"body": {"level": (4, 5), "patchInfo": {"type": "wall"}}},
            "resolveFeatureAngle": 30,
            "refinementRegions": {
                f"box{level}": {"mode": "inside", "levels": f"((1e15 {level}))"} for level, *_ in BOXES
            },
            "locationInMesh": list(inside),
            "allowFreeStandingZoneFaces": True,
        },
        "snapControls": {
            "nSmoothPatch": 3,
            "tolerance": 2.0,
            "nSolveIter": 20,
            "nRelaxIter": 5,
            "nFeatureSnapIter": 10,
            "implicitFeatureSnap": False,
            "explicitFeatureSnap": True,
            "multiRegionFeatureSnap": False,
        },
        "addLayersControls": {
            "relativeSizes": True,
            "layers": {},
            "expansionRatio": 1.0,
            "finalLayerThickness": 0.3,
            "minThickness": 0.1,
            "nGrow": 0,
            "featureAngle": 60,
            "nRelaxIter": 3,
            "nSmoothSurfaceNormals": 1,
            "nSmoothNormals": 3,
            "nSmoothThickness": 10,
            "maxFaceThicknessRatio": 0.5,
            "maxThicknessToMedialRatio": 0.3,
            "minMedianAxisAngle": 90,
            "nBufferCellsNoExtrude": 0,
            "nLayerIter": 50,
        },
        "meshQualityControls": {
            "maxNonOrtho": 65,
            "maxBoundarySkewness": 20,
            "maxInternalSkewness": 4,
            "maxConcave": 80,
            "minVol": 1e-13,
            "minTetQuality": 1e-15,
            "minArea": -1,
            "minTwist": 0.02,
            "minDeterminant": 0.001,
            "minFaceWeight": 0.05,
            "minVolRatio": 0.01,
            "minTriangleTwist": -1,
            "nSmoothScale": 4,
            "errorReduction": 0.75,
            "relaxed": {"maxNonOrtho": 75},
        },
        "mergeTolerance": 1e-6,
    }


def _control(conditions: Conditions, settings: Settings, area: float) -> dict[str, Any]:
    """Run control, with forces every iteration and means over the last window."""
    average = {"mean": True, "prime2Mean": False, "base": "iteration"}
    return {
        "application": "simpleFoam",
        "startFrom": "startTime",
        "startTime": 0,
        "stopAt": "endTime",
        "endTime": settings.iterations,
        "deltaT": 1,
        "writeControl": "timeStep",
        "writeInterval": settings.iterations,
        "writeFormat": "binary",
        "writePrecision": 8,
        "timePrecision": 8,
        "runTimeModifiable": False,
        "functions": {
            "abort": foam.ABORT,
            "forceCoeffs": {
                "type": "forceCoeffs",
                "libs": "(forces)",
                "patches": "(body)",
                "rho": "rhoInf",
                "rhoInf": conditions.density,
                "CofR": (0, 0, 0),
                "liftDir": (0, 0, 1),
                "dragDir": (1, 0, 0),
                "pitchAxis": (0, 1, 0),  # nose-up is positive
                "magUInf": conditions.speed,
                "lRef": conditions.length,
                "Aref": area,
                "log": False,
            },
            "wallShearStress": {
                "type": "wallShearStress",
                "libs": "(fieldFunctionObjects)",
                "patches": "(body)",
                "log": False,
            },
            "means": {
                "type": "fieldAverage",
                "libs": "(fieldFunctionObjects)",
                "timeStart": settings.iterations - settings.window + 0.5,
                "log": False,
                "fields": "("
                + " ".join(f"{name} {{ {foam.dictionary(average)} }}" for name in ("p", "U", "wallShearStress"))
                + ")",
            },
        },
    }


_SCHEMES = {
    "ddtSchemes": {"default": "steadyState"},
    "gradSchemes": {"default": "cellLimited Gauss linear 1"},
    "divSchemes": {
        "default": "none",
        "div(phi,U)": "bounded Gauss linearUpwindV grad(U)",
        '"div\\(phi,(k|omega)\\)"': "bounded Gauss upwind",
        "div((nuEff*dev2(T(grad(U)))))": "Gauss linear",
    },
    "laplacianSchemes": {"default": "Gauss linear limited 0.5"},
    "interpolationSchemes": {"default": "linear"},
    "snGradSchemes": {"default": "limited 0.5"},
    "wallDist": {"method": "meshWave"},
}


def _solution(cautious: bool) -> dict[str, Any]:
    relax = (0.7, 0.5, 0.5) if cautious else (0.9, 1.0, 0.7)
    smooth = {"solver": "smoothSolver", "smoother": "symGaussSeidel", "tolerance": 1e-10, "relTol": 0.1}
    return {
        "solvers": {
            "p": {"solver": "GAMG", "smoother": "GaussSeidel", "tolerance": 1e-9, "relTol": 0.05},
            '"(U|k|omega)"': smooth,
        },
        "SIMPLE": {"nNonOrthogonalCorrectors": 0, "consistent": True},
        "relaxationFactors": {
            "fields": {"p": relax[1]},
            "equations": {"U": relax[0], '"(k|omega)"': relax[2]},
        },
    }


def _write_fields(folder: Path, conditions: Conditions) -> None:
    """Uniform start: 1 % turbulence, nut = 10 nu; the ground moves with the stream."""
    speed, nu = conditions.speed, conditions.viscosity
    k = 1.5 * (0.01 * speed) ** 2
    omega = k / (10 * nu)
    stream = (speed, 0.0, 0.0)
    walls = '"body|ground"'
    sides = {'"top|left|right"': {"type": "slip"}, "middle": {"type": "symmetryPlane"}}

    def through(value: Any) -> dict[str, dict[str, Any]]:
        uniform = f"uniform {foam.entry(value)}"
        return {
            "inlet": {"type": "fixedValue", "value": uniform},
            "outlet": {"type": "inletOutlet", "inletValue": uniform, "value": uniform},
        }

    def at_wall(kind: str, value: float) -> dict[str, dict[str, Any]]:
        return {walls: {"type": kind, "value": f"uniform {foam.entry(value)}"}}

    on_ground = {"ground": {"type": "fixedValue", "value": f"uniform {foam.entry(stream)}"}}
    foam.write_field(
        folder / "U", "[0 1 -1 0 0 0 0]", stream, {**through(stream), **on_ground, "body": {"type": "noSlip"}, **sides}
    )
    outlet = {"outlet": {"type": "fixedValue", "value": "uniform 0"}, "inlet": {"type": "zeroGradient"}}
    foam.write_field(folder / "p", "[0 2 -2 0 0 0 0]", 0.0, {**outlet, walls: {"type": "zeroGradient"}, **sides})
    foam.write_field(folder / "k", "[0 2 -2 0 0 0 0]", k, {**through(k), **at_wall("kqRWallFunction", k), **sides})
    foam.write_field(
        folder / "omega", "[0 0 -1 0 0 0 0]", omega, {**through(omega), **at_wall("omegaWallFunction", omega), **sides}
    )
    open_ends = {'"inlet|outlet"': {"type": "calculated", "value": f"uniform {foam.entry(10 * nu)}"}}
    foam.write_field(
        folder / "nut", "[0 2 -1 0 0 0 0]", 10 * nu, {**open_ends, **at_wall("nutkWallFunction", 0.0), **sides}
    )


# --- reading ----------------------------------------------------------------------------------------------------


def read_case(
    design: Design,
    folder: Path,
    points: Array,
    triangles: Triangles,
    history: dict[str, Array],
    window: int,
    *,
    half: bool,
    area: float,
) -> Case:
    """The solved flow as a Case: every face of the body, and a random part of the cells within the crop box.

    The cells kept stand for those left out: their volumes are scaled up to fill the box.
    """
    conditions = design.conditions
    mesh = foam.read_mesh(folder)
    end = foam.latest_time(folder)
    averaged = (end / "pMean").exists()  # not where the run ended early, standing still
    mean = "Mean" if averaged else ""
    window = window if averaged else 1
    pressure, velocity, shear = (foam.read_field(end / f"{f}{mean}", mesh) for f in ("p", "U", "wallShearStress"))
    body = mesh.patches["body"].faces
    face_vectors = -mesh.face_areas[body]  # out of the body
    areas = np.linalg.norm(face_vectors, axis=1)
    skin = np.flatnonzero(areas > 1e-12 * conditions.length**2)

    inside = (mesh.cell_centres >= CROP[0] * conditions.length) & (mesh.cell_centres <= CROP[1] * conditions.length)
    cells = np.flatnonzero(inside.all(axis=1))
    kept = np.random.default_rng(0).permutation(cells)[:KEPT_CELLS]
    centres = mesh.cell_centres[kept]
    squared, _, nearest = igl.point_mesh_squared_distance(centres, points, triangles)
    distance = np.sqrt(squared)
    away = (centres - nearest) / np.maximum(distance, 1e-12)[:, None]

    n, m = len(skin), len(kept)
    none = np.zeros(m)
    p = conditions.density * np.concatenate([pressure.patches["body"][skin], pressure.internal[kept]])
    tau = foam.skin_stress(shear, "body", conditions.density)[skin]
    means = {name: float(history[column][-window:].mean()) for name, column in _COEFFICIENTS.items()}
    share = conditions.dynamic_pressure * (area / 2 if half else area)
    normals = face_vectors[skin] / areas[skin][:, None]
    push = -(p[:n, 0] * normals[:, 0] * areas[skin]).sum() / share
    drag = float((tau[:, 0] * areas[skin]).sum() / share)
    parts = {"cd_pressure": float(push), "cd_friction": drag}
    return Case(
        name=design.name,
        points=_float32(mesh.face_centres[body][skin], centres),
        surface=np.arange(n + m) < n,
        normals=_float32(normals, away),
        areas=_float32(areas[skin], none),
        distance=_float32(np.zeros(n), distance),
        volumes=_float32(np.zeros(n), mesh.cell_volumes[kept] * (len(cells) / m)),
        fields={
            "p": p.astype(np.float32),
            "U": _float32(np.zeros((n, 3)), velocity.internal[kept]),
            "wallShearStress": _float32(tau, np.zeros((m, 3))),
        },
        conditions=conditions,
        reference={**means, **parts, "area": area},
        symmetry="y" if half else None,
        tags={name: value if isinstance(value, str) else f"{value:.6g}" for name, value in design.parameters.items()},
    )


_COEFFICIENTS = {"cd": "Cd", "cl": "Cl", "cm": "CmPitch"}


def _float32(skin: Array, around: Array) -> NDArray[np.float32]:
    return np.concatenate([skin, around]).astype(np.float32)
