"""The OpenFOAM case of a body over a moving ground: snappyHexMesh, then simpleFoam with k-omega SST.

All lengths of domain and mesh are in body lengths L, so that a quarter-scale Ahmed body and a van get the same mesh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aerosurrogate.conditions import Conditions
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.mesh.write import write_mesh
from aerosurrogate.simulate import openfoam as foam
from aerosurrogate.simulate.spec import Fidelity

DOMAIN = np.array([[-1.6, -1.7, 0.0], [5.0, 1.7, 1.7]])  # L
BOXES = (  # refinement level and box in L: body and near wake, wake, surroundings
    (3, (-0.58, -0.26, -1.0), (0.85, 0.26, 0.42)),
    (2, (-0.75, -0.42, -1.0), (1.60, 0.42, 0.60)),
    (1, (-1.20, -0.90, -1.0), (3.50, 0.90, 1.10)),
)
# The same everywhere: refined where it bends, the skin's mesh jumps when a body changes a little, and the place of
# separation with it: a fastback 0.2 % off had 41 % more drag. Where the cells lie still moves drag by 6 % on average
# (benchmarks/validation_cars.py).
SKIN_LEVEL = 4
FEATURE_ANGLE = 140  # degrees between faces below which an edge is snapped to


@dataclass(frozen=True)
class Settings:
    base_cell: float  # L
    average_from: int  # iteration from which fields and forces are averaged
    iterations: int  # at most
    relax_u: float = 0.9
    relax_p: float = 1.0
    relax_k: float = 0.7  # and omega

    def cautious(self) -> Settings:
        """Safer: smaller steps, and longer before the average begins."""
        return replace(self, average_from=self.average_from * 4 // 3, relax_u=0.7, relax_p=0.7, relax_k=0.5)


SETTINGS: dict[Fidelity, Settings] = {
    "fast": Settings(0.24, 130, 300),
    "standard": Settings(0.18, 160, 400),
    "fine": Settings(0.13, 220, 500),
}


def write_case(
    folder: Path, surface: Surface, conditions: Conditions, settings: Settings, *, half: bool, area: float
) -> None:
    """Write the whole OpenFOAM case: surface, mesh dictionaries, fields, schemes, controls.

    `half`: solve y >= 0 only; `area`: reference area of the whole body, m2.
    """
    write_mesh(surface, folder / "constant" / "triSurface" / "body.stl")
    length = conditions.length
    system = folder / "system"
    system.mkdir(exist_ok=True)
    (system / "blockMeshDict").write_text(_block_mesh(length, settings.base_cell, half))
    foam.write_dictionary(system / "surfaceFeatureExtractDict", _FEATURES)
    foam.write_dictionary(system / "snappyHexMeshDict", _snappy(length))
    foam.write_dictionary(system / "controlDict", _control(conditions, settings, area / 2 if half else area))
    foam.write_dictionary(system / "fvSchemes", _SCHEMES)
    foam.write_dictionary(system / "fvSolution", _solution(settings))
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


def _snappy(length: float) -> dict[str, Any]:
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
            "minRefinementCells": 0,
            "nCellsBetweenLevels": 3,
            "features": f'({{ file "body.eMesh"; level {SKIN_LEVEL}; }})',
            "refinementSurfaces": {"body": {"level": (SKIN_LEVEL, SKIN_LEVEL), "patchInfo": {"type": "wall"}}},
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
    """Run control, with forces every iteration and means over the later part."""
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
                "executeControl": "timeStep",
                "executeInterval": 10,  # as dear as a tenth of an iteration, and it hardly changes
                "log": False,
            },
            "means": {
                "type": "fieldAverage",
                "libs": "(fieldFunctionObjects)",
                "timeStart": settings.average_from + 0.5,
                "log": False,
                "fields": "("
                + " ".join(f"{name} {{ {foam.dictionary(average)} }}" for name in ("p", "U", "wallShearStress"))
                + ")",
            },
        },
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


def _solution(settings: Settings) -> dict[str, Any]:
    smooth = {"solver": "smoothSolver", "smoother": "symGaussSeidel", "tolerance": 1e-10, "relTol": 0.1}
    return {
        "solvers": {
            "p": {"solver": "GAMG", "smoother": "GaussSeidel", "tolerance": 1e-9, "relTol": 0.05},
            '"(U|k|omega)"': smooth,
        },
        "SIMPLE": {"nNonOrthogonalCorrectors": 0, "consistent": True},
        "relaxationFactors": {
            "fields": {"p": settings.relax_p},
            "equations": {"U": settings.relax_u, '"(k|omega)"': settings.relax_k},
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
