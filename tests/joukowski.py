"""Exact flows for tests: Joukowski airfoils with the Kutta condition, as a data set with a known lift and drag.

Pressure follows from Bernoulli, lift from the circulation. The wall shear is a made-up multiple of the velocity along
the skin, so that integrated and true drag are one number.
"""

from pathlib import Path

import numpy as np

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Case
from aerosurrogate.data.store import Manifest, shuffled, write_manifest, write_shard

FRICTION = 0.004


def joukowski_case(name: str, thickness: float, camber: float, alpha: float, speed: float, rows: int = 600) -> Case:
    """A section of about the given thickness and camber (over chord) at `alpha` degrees, 120 faces on its skin."""
    rng = np.random.default_rng(abs(hash((round(thickness, 6), round(alpha, 6)))) % 2**32)
    centre = complex(-thickness / 1.3, 2 * camber) * 0.25
    radius = abs(0.25 - centre)
    angle = np.radians(alpha)
    beta = np.arcsin(centre.imag / radius)
    circulation = 4 * np.pi * radius * np.sin(angle + beta)

    def shape(zeta: np.ndarray) -> np.ndarray:
        return zeta + 0.0625 / zeta

    def velocity(zeta: np.ndarray) -> np.ndarray:
        s = zeta - centre
        w = np.exp(-1j * angle) - np.exp(1j * angle) * radius**2 / s**2 + 1j * circulation / (2 * np.pi * s)
        return np.conj(w / (1 - 0.0625 / zeta**2))

    corners = centre + radius * np.exp(1j * (np.linspace(0, 2 * np.pi, 121) - beta))
    outline = shape(corners)
    left, chord = outline.real.min(), np.ptp(outline.real)
    middles = centre + radius * np.exp(1j * (np.linspace(0, 2 * np.pi, 121)[:-1] + np.pi / 120 - beta))
    edge = np.diff(outline)
    away = 1 + 3 * rng.random(rows) ** 3
    zeta = centre + radius * (1e-3 + away) * np.exp(2j * np.pi * rng.random(rows))
    around = shape(zeta)
    skin = (outline[:-1] + outline[1:]) / 2
    everything = np.concatenate([skin, around])
    flow = np.concatenate([velocity(middles), velocity(zeta)])
    normal = -1j * edge / np.abs(edge)
    gaps = around[:, None] - skin[None]
    nearest = np.abs(gaps).argmin(axis=1)
    distance = np.abs(gaps).min(axis=1)
    directions = np.concatenate([normal, gaps[np.arange(rows), nearest] / distance])
    areas = np.concatenate([np.abs(edge), np.zeros(rows)])

    def pairs(z: np.ndarray) -> np.ndarray:
        return np.stack([z.real, z.imag], axis=1).astype(np.float32)

    stream = Conditions(speed, length=1.0, alpha=alpha)
    q = stream.dynamic_pressure
    surface = np.arange(len(everything)) < len(skin)
    pressure = q * (1 - np.abs(flow) ** 2)
    shear = np.where(surface, FRICTION * q * flow, 0)
    traction = (-pressure * directions + shear) * areas / chord / q
    force = traction[surface].sum() * np.exp(-1j * angle)
    return Case(
        name=name,
        points=pairs((everything - left) / chord),
        surface=surface,
        fields={
            "p": pressure[:, None].astype(np.float32),
            "U": pairs(np.where(surface, 0, flow * speed)),
            "wallShearStress": pairs(shear),
        },
        normals=pairs(directions),
        areas=(areas / chord).astype(np.float32),
        distance=np.concatenate([np.zeros(len(skin)), distance / chord]).astype(np.float32),
        conditions=stream,
        reference={"cd": float(force.real), "cl": float(force.imag), "area": 1.0},
    )


def joukowski_set(folder: Path, count: int = 24, seed: int = 0) -> Path:
    """A data set of random sections: splits train and test, every fourth a test case."""
    rng = np.random.default_rng(seed)
    cases = [
        shuffled(
            joukowski_case(
                f"section-{i:03d}",
                rng.uniform(0.08, 0.2),
                rng.uniform(0, 0.05),
                rng.uniform(-3, 8),
                rng.uniform(30, 90),
            ),
            seed=i,
        )
        for i in range(count)
    ]
    names = [case.name for case in cases]
    entries = write_shard(folder / "cases.safetensors", cases)
    splits = {"train": [n for i, n in enumerate(names) if i % 4 != 3], "test": names[3::4]}
    write_manifest(folder, Manifest(source="joukowski", cases=entries, splits=splits))
    return folder
