"""The OpenFOAM case of a body over a moving ground or in free air: snappyHexMesh, then simpleFoam with k-omega SST.

All lengths of domain and mesh are in sizes of the body (`size_of`: its length, or more where it is blunt), so that a
quarter-scale Ahmed body, a van and a cube get the same mesh and block the same part of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aerosurrogate.conditions import Conditions
from aerosurrogate.mesh.surface import Floats, Surface
from aerosurrogate.mesh.write import write_mesh
from aerosurrogate.simulate import openfoam as foam
from aerosurrogate.simulate.spec import Fidelity

DOMAIN = np.array([[-1.6, -1.7, 0.0], [5.0, 1.7, 1.7]])  # sizes; in free air as far below the body as above it
BOXES = (  # refinement level, and how far its box reaches beyond the body: ahead, beside and below, behind, above
    (3, (0.08, 0.06, 0.35, 0.09)),
    (2, (0.25, 0.22, 1.10, 0.27)),
    (1, (0.45, 0.45, 2.00, 0.50)),
)
LAYER_GROWTH, LAST_LAYER = 1.3, 0.4  # from one layer to the next; the outermost against the skin's cell
WINDOW = 100  # iterations that fields and forces are averaged over at the end of a run: a wake may grow for hundreds
LONG = "long"  # what the names of fields averaged over `longer` iterations end with, after Mean_
FEATURE_ANGLE = 140  # degrees between faces below which an edge is snapped to


@dataclass(frozen=True)
class MeshSettings:
    base_cell: float  # sizes
    average_from: int  # iteration before which none is averaged
    iterations: int  # at most, of a wake that settles
    # The same everywhere: refined where it bends, the skin's mesh jumps when a body changes a little, and the place of
    # separation with it: a fastback 0.2 % off had 41 % more drag.
    skin_level: int = 4  # times that the base cell is halved at the skin
    longer: int = 350  # more iterations, which one that does not settle is averaged over
    layers: int = 3  # of prisms on the skin; without them drag rises by 15 to 25 % when the mesh is refined
    relax_u: float = 0.95
    relax_p: float = 1.0
    relax_k: float = 0.8  # and omega

    @property
    def skin_cell(self) -> float:
        """Sizes."""
        return self.base_cell / 2**self.skin_level

    def cautious(self) -> MeshSettings:
        """Safer: smaller steps, and longer before the average begins."""
        return replace(self, average_from=self.average_from * 4 // 3, relax_u=0.7, relax_p=0.7, relax_k=0.5)


# Chosen on a fastback and an estate. With base cells of 0.18 the fastback's drag was 0.207, 0.215 and 0.255
# on three placements, with 0.15 and 0.13 it is 0.200 and 0.201; the estate's 0.277 and 0.260, and 0.277 with 0.13.
# Steps of 0.9 for the velocity let the estate's wake wander for 350 iterations (0.25 at the 80th, 0.28 from
# the 200th on): whoever stops early finds two states. Steps of 0.95 settle within 150 to 200.
MESHES: dict[Fidelity, MeshSettings] = {
    "fast": MeshSettings(0.24, 130, 400),
    "standard": MeshSettings(0.15, 150, 400),
    "fine": MeshSettings(0.11, 200, 600),
}


def size_of(surface: Surface, area: float) -> float:
    """The length, m, that domain and mesh scale with: the body's own, or more where it is blunt or wide."""
    long, wide, _ = surface.size
    return float(max(long, 3 * np.sqrt(area), 0.9 * wide))


def lattice(
    surface: Surface, settings: MeshSettings, size: float, *, ground: bool, half: bool, place: Floats
) -> Floats:
    """Corners (2, 3) of the background mesh, m, for one placement of its cells against the body.

    `place` (3,), each in [0, 1): by so much of a base cell the mesh lies further along the flow, and by so much of a
    skin cell, about its middle, the lattice is off at the body's side and top (its planes of symmetry stay).
    """
    low, high = DOMAIN.copy()
    middle = 0.0 if ground else float(surface.bounds.mean(axis=0)[2]) / size
    low[2] = 0.0 if ground else middle - high[2]
    high[2] += middle
    low[1] = 0.0 if half else low[1]
    cells = np.round((high - low) / settings.base_cell)
    high = low + cells * settings.base_cell
    low[0], high[0] = (end + (place[0] - 0.5) * settings.base_cell for end in (low[0], high[0]))
    fixed = np.array([0.0, 0.0, middle])
    reach = np.maximum(surface.bounds[1] / size - fixed, settings.skin_cell)
    stretch = 1 + (place - 0.5) * settings.skin_cell / reach
    stretch[0] = 1.0
    return np.asarray((fixed + (np.stack([low, high]) - fixed) * stretch) * size)


def write_case(
    folder: Path,
    surface: Surface,
    conditions: Conditions,
    settings: MeshSettings,
    *,
    half: bool,
    area: float,
    place: Floats,
    frame: Surface,
    size: float,
) -> None:
    """Write the whole OpenFOAM case: surface, mesh dictionaries, fields, schemes, controls.

    `half`: solve y >= 0 only; `area`: reference area of the whole body, m2; `place`: of the cells, see `lattice`;
    `frame`: the body that the mesh is laid around, of this `size`: this one, or another to be compared with.
    """
    write_mesh(surface, folder / "constant" / "triSurface" / "body.stl")
    corners = lattice(frame, settings, size, ground=conditions.ground, half=half, place=place)
    system = folder / "system"
    system.mkdir(exist_ok=True)
    (system / "blockMeshDict").write_text(_block_mesh(corners, settings.base_cell * size, half, conditions.ground))
    foam.write_dictionary(system / "surfaceFeatureExtractDict", _FEATURES)
    foam.write_dictionary(system / "snappyHexMeshDict", _snappy(frame, corners, size, settings))
    foam.write_dictionary(system / "controlDict", _control(conditions, settings, area / 2 if half else area))
    foam.write_dictionary(system / "fvSchemes", _SCHEMES)
    foam.write_dictionary(system / "fvSolution", _solution(settings))
    foam.write_dictionary(
        folder / "constant" / "transportProperties", {"transportModel": "Newtonian", "nu": conditions.viscosity}
    )
    turbulence = {"RASModel": "kOmegaSST", "turbulence": True, "printCoeffs": False}
    foam.write_dictionary(folder / "constant" / "turbulenceProperties", {"simulationType": "RAS", "RAS": turbulence})
    _write_fields(folder / "0", conditions)


def _block_mesh(corners: Floats, cell: float, half: bool, ground: bool) -> str:
    low, high = corners
    cells = np.round((high - low) / cell).astype(int)
    (x0, y0, z0), (x1, y1, z1) = low, high
    vertices = [(x0, y0, z0), (x1, y0, z0), (x1, y1, z0), (x0, y1, z0)]
    vertices += [(x0, y0, z1), (x1, y0, z1), (x1, y1, z1), (x0, y1, z1)]
    patches = {
        "inlet": ("patch", "(0 4 7 3)"),
        "outlet": ("patch", "(1 2 6 5)"),
        "ground" if ground else "bottom": ("wall" if ground else "patch", "(0 3 2 1)"),
        "top": ("patch", "(4 5 6 7)"),
        "middle" if half else "right": ("symmetryPlane" if half else "patch", "(0 1 5 4)"),
        "left": ("patch", "(3 7 6 2)"),
    }
    sides = "".join(f"{name} {{ type {kind}; faces ({face}); }}\n" for name, (kind, face) in patches.items())
    return (
        foam.header("dictionary", "blockMeshDict")
        + f"scale 1;\nvertices {foam.entry(vertices)};\n"
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


def _snappy(surface: Surface, corners: Floats, size: float, settings: MeshSettings) -> dict[str, Any]:
    low, high = surface.bounds
    boxes = {}
    for level, (ahead, beside, behind, above) in BOXES:
        first = low - np.array([ahead, beside, beside]) * size
        last = high + np.array([behind, beside, above]) * size
        boxes[f"box{level}"] = {"type": "searchableBox", "min": list(first), "max": list(last)}
    inside = corners[0] + (corners[1] - corners[0]) * [0.97, 0.93, 0.91]  # a far corner, on no cell face
    level = settings.skin_level
    return {
        "castellatedMesh": True,
        "snap": True,
        "addLayers": settings.layers > 0,
        "geometry": {"body.stl": {"type": "triSurfaceMesh", "name": "body"}, **boxes},
        "castellatedMeshControls": {
            "maxLocalCells": 2_000_000,
            "maxGlobalCells": 4_000_000,
            "minRefinementCells": 0,
            "nCellsBetweenLevels": 2,
            "features": f'({{ file "body.eMesh"; level {level}; }})',
            "refinementSurfaces": {"body": {"level": (level, level), "patchInfo": {"type": "wall"}}},
            "resolveFeatureAngle": 30,
            "refinementRegions": {
                f"box{outer}": {"mode": "inside", "levels": f"((1e15 {outer}))"} for outer, _ in BOXES
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
            "layers": {"body": {"nSurfaceLayers": settings.layers}},
            "expansionRatio": LAYER_GROWTH,
            "finalLayerThickness": LAST_LAYER,
            "minThickness": 0.05,
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
            "nLayerIter": 30,
            "nRelaxedIter": 15,
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


def _control(conditions: Conditions, settings: MeshSettings, area: float) -> dict[str, Any]:
    """Run control, with forces every iteration and means over the later part."""
    return {
        "application": "simpleFoam",
        "startFrom": "startTime",
        "startTime": 0,
        "stopAt": "endTime",
        "endTime": settings.iterations + settings.longer,
        "deltaT": 1,
        "writeControl": "timeStep",
        "writeInterval": settings.iterations + settings.longer,
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
                "executeControl": "timeStep",
                "executeInterval": 10,  # as dear as a tenth of an iteration, and it hardly changes
                "writeControl": "writeTime",  # or every iteration is written: a tenth of the time, and a gigabyte
                "log": False,
            },
            "means": _means(settings.average_from, WINDOW),
        }
        | ({"longMeans": _means(settings.iterations, settings.longer, LONG)} if settings.longer else {}),
    }


def _means(since: int, window: int, name: str = "") -> dict[str, Any]:
    """The function object that averages all fields after this iteration, over so many last ones."""
    how = {"mean": True, "prime2Mean": False, "base": "iteration", "window": window, "windowType": "approximate"}
    how |= {"windowName": name} if name else {}
    return {
        "type": "fieldAverage",
        "libs": "(fieldFunctionObjects)",
        "timeStart": since + 0.5,
        "writeControl": "writeTime",  # or they are written at every iteration, a gigabyte a case
        "log": False,
        "fields": "("
        + " ".join(f"{field} {{ {foam.dictionary(how)} }}" for field in ("p", "U", "wallShearStress"))
        + ")",
    }


_SCHEMES = {
    "ddtSchemes": {"default": "steadyState"},
    "gradSchemes": {"default": "Gauss linear", "grad(U)": "cellLimited Gauss linear 1"},
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


def _solution(settings: MeshSettings) -> dict[str, Any]:
    smooth = {"solver": "smoothSolver", "smoother": "symGaussSeidel", "tolerance": 1e-10, "relTol": 0.1}
    return {
        "solvers": {
            "p": {"solver": "GAMG", "smoother": "GaussSeidel", "tolerance": 1e-9, "relTol": 0.1},
            '"(U|k|omega)"': smooth,
        },
        "SIMPLE": {"nNonOrthogonalCorrectors": 0, "consistent": True},
        "relaxationFactors": {
            "fields": {"p": settings.relax_p},
            "equations": {"U": settings.relax_u, '"(k|omega)"': settings.relax_k},
        },
    }


def _write_fields(folder: Path, conditions: Conditions) -> None:
    """Uniform start: 1 % turbulence, nut = 10 nu; a ground moves with the stream, other sides let it slip."""
    speed, nu = conditions.speed, conditions.viscosity
    k = 1.5 * (0.01 * speed) ** 2
    omega = k / (10 * nu)
    stream = (speed, 0.0, 0.0)
    walls = '"body|ground"'
    sides = {'"top|bottom|left|right"': {"type": "slip"}, "middle": {"type": "symmetryPlane"}}

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
