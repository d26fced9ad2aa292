"""Small untrained surrogates for tests of what stands around a model: real files, real chain, arbitrary weights."""

from pathlib import Path

import numpy as np
import pytest
import torch

from aerosurrogate import query_cells
from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Case
from aerosurrogate.data.sampling import Sampling
from aerosurrogate.data.scaling import Scaling
from aerosurrogate.mesh import surroundings
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.model.architecture import TransolverConfig
from aerosurrogate.model.interface import Interface
from aerosurrogate.model.transolver import Transolver
from aerosurrogate.surrogate import Surrogate

INPUTS = ("position_per_length", "normal", "log_distance", "surface", "stream", "log_reynolds")
FIELDS = {2: ("p", "U", "wallShearStress", "nut"), 3: ("p", "U", "wallShearStress")}
CHANNELS = {"p": 1, "nut": 1}


def made_up_case(surface: Surface, stream: Conditions, seed: int = 0) -> Case:
    """A body of length 1 in its frame with smooth fields of about the right size, which no one solved for."""
    d = surface.dimension
    box = surroundings.AIRFOIL if d == 2 else surroundings.CAR
    skin = surroundings.on_skin(surface, 300, seed)
    off = surroundings.around(box, surface, 300, seed)
    points = np.concatenate([skin.points, off.points]).astype(np.float32)
    normals = np.concatenate([surface.normals[skin.cells], off.direction]).astype(np.float32)
    on = np.arange(600) < 300
    q, speed = stream.dynamic_pressure, stream.speed
    velocity = np.where(on[:, None], 0.0, speed * stream.direction(d) - 0.3 * speed * normals)
    fields = {
        "p": q * (normals[:, :1] ** 2 - 0.4) * np.exp(-np.abs(points[:, :1])),
        "U": velocity,
        "wallShearStress": np.where(on[:, None], 0.004 * q * stream.direction(d), 0.0) * np.ones((600, 1)),
        "nut": 1e-4 * np.exp(points[:, :1]),
    }
    return Case(
        name=f"made-up-{seed}",
        points=points,
        surface=on,
        fields={name: fields[name].astype(np.float32) for name in FIELDS[d]},
        normals=normals,
        areas=np.where(on, surface.areas.sum() / 300, 0).astype(np.float32),
        distance=np.concatenate([np.zeros(300), off.distance]).astype(np.float32),
        conditions=stream,
        reference={"cd": 0.3 + 0.02 * seed, "cl": 0.05 * (1 + seed), "area": 0.1 if d == 3 else 1.0},
    )


def small_surrogate(dimensions: int) -> Surrogate:
    """A model of a few thousand weights, the same at every call."""
    if dimensions == 2:
        surface, stream = read_surface("naca2412"), Conditions(speed=60.0, length=1.0, alpha=3.0)
    else:
        import pyvista as pv

        box = pv.Cube(bounds=(-0.5, 0.5, -0.2, 0.2, 0.04, 0.34)).triangulate()
        surface = Surface(np.asarray(box.points, dtype=float), np.asarray(box.regular_faces, dtype=np.int64))
        stream = Conditions(speed=30.0, length=1.0, ground=True)
    fields = FIELDS[dimensions]
    scaling = Scaling.fit(
        [made_up_case(surface, stream, seed) for seed in range(3)],
        inputs=INPUTS,
        fields=fields,
        coefficients=("lift", "log_drag"),
        kind="nondimensional",
    )
    torch.manual_seed(3)
    interface = Interface(scaling.input_channels, scaling.output_channels, dimensions, coefficients=2)
    model = Transolver(interface, TransolverConfig(layers=2, channels=32, heads=4, slices=8)).eval()
    with torch.no_grad():  # large enough weights that the answer depends on the shape
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.mul_(3.0)
    return Surrogate(
        model,
        scaling,
        Sampling("density", skin=128, around=64),
        ranges={"speed": [20.0, 40.0] if dimensions == 3 else [40.0, 80.0], "length": [1.0, 5.0]},
        card={"name": "small", "routes": {"cd": "head", "cl": "integrated"}},
    )


def ask_few_places(patch: pytest.MonkeyPatch) -> None:
    """Fewer cells around bodies, which tests of files and pictures have no use for."""
    patch.setattr(query_cells, "POINTS", 1500)
    patch.setattr(query_cells, "CELLS", (12, 8, 8))
    patch.setattr(query_cells, "PLANE_CELLS", (64, 18))


def save_small(folder: Path, dimensions: int) -> str:
    path = folder / f"small{dimensions}.safetensors"
    small_surrogate(dimensions).save(path)
    return str(path)


def judged_surrogate(folder: Path) -> Surrogate:
    """A small model of bodies that knows what it was trained on and how large its errors are, all of it made up."""
    import pyvista as pv

    from aerosurrogate.conditions import StreamOptions
    from aerosurrogate.predict import Predictor, evidence
    from aerosurrogate.trust import familiarity, intervals

    surrogate = small_surrogate(3)
    surrogate.save(folder / "blank.safetensors")
    predictor, shown = Predictor(str(folder / "blank.safetensors")), []
    for number in range(10):
        height, width, stream = 1.1 + 0.08 * number, 0.7 + 0.02 * (number % 5), StreamOptions(speed=22.0 + 2 * number)
        pv.Box((-2, 2, -width, width, 0.2, height), level=3).triangulate().save(folder / "shown.stl")
        prepared = predictor.prepare(str(folder / "shown.stl"), stream)
        shown.append(evidence(surrogate, prepared, predictor.answer(prepared)))
    (folder / "shown.stl").unlink()
    (folder / "blank.safetensors").unlink()
    surrogate.trust = familiarity.fit(shown[::2], shown[1::2])
    errors = np.random.default_rng(0).normal(size=(2, 10))
    held_out = intervals.Sample(shown, {"cd": (0.05 * errors[0]).tolist(), "cl": (0.03 * errors[1]).tolist()})
    surrogate.calibration = intervals.fit(surrogate.trust, held_out)
    return surrogate
