"""Navier-Stokes: vorticity w of a forced incompressible flow on the unit torus.

dw/dt + u . grad w = nu Laplace w + 0.1 (sin 2 pi (x + y) + cos 2 pi (x + y)), nu = 1e-5, from a Gaussian random field
with covariance 2 * 7^3 (-Laplace + 49)^-2.5, as the program of the FNO benchmarks draws it. Pseudo-spectral with the
2/3 rule on 128 x 128 points (the published set: 256 x 256), fourth-order Runge-Kutta with the viscous term exact.

Cases: every second point (64 x 64), frames at t = 1, 2, ..., 20: feature `frames` (n, 10), field `frames` (n, 10), the
ten to be predicted: the names of `prepare --format navier-stokes`.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft2, rfft2

from aerosurrogate.data.case import Case
from aerosurrogate.data.readers.arrays import structured, unit_grid

ABOUT = "Vorticity on the torus, nu = 1e-5, pseudo-spectral on 128 x 128 points; a stand-in, not the published FNO set."
VERSION = 1
SIDE, STORED = 128, 64
VISCOSITY = 1e-5
FRAMES, GIVEN = 20, 10
STABLE = 1.5  # of a step times velocity times wave number; Runge-Kutta's limit is 2.8

Field = NDArray[np.floating]


def case(name: str, rng: np.random.Generator, every: int | None) -> Case:
    w = random_vorticity(rng, SIDE)
    frames, kept = [], slice(None, None, SIDE // STORED)
    for _ in range(FRAMES):
        w = advance(w, 1.0, VISCOSITY, force(SIDE))
        frames.append(w[kept, kept].ravel())
    table = np.stack(frames, axis=1)
    grid = (STORED, STORED)
    return structured(name, grid, unit_grid(*grid), {"frames": table[:, GIVEN:]}, frames=table[:, :GIVEN])


def random_vorticity(rng: np.random.Generator, side: int) -> Field:
    """A sample of N(0, 2 * 7^3 (-Laplace + 49)^-2.5) on the unit torus, (side, side)."""
    kx, ky = _wave_numbers(side)
    amplitude = math.sqrt(2 * 7**3) * (kx**2 + ky**2 + 49) ** -1.25
    amplitude[0, 0] = 0.0
    return irfft2(rfft2(rng.standard_normal((side, side))) * amplitude * side, s=(side, side))


def force(side: int) -> Field:
    x = np.arange(side) / side
    phase = 2 * np.pi * (x[:, None] + x)
    return 0.1 * (np.sin(phase) + np.cos(phase))


def _wave_numbers(side: int) -> tuple[Field, Field]:
    """Along the first and second axis, shaped for rfft2."""
    kx = 2 * np.pi * np.fft.fftfreq(side, 1 / side)[:, None]
    return kx, 2 * np.pi * np.fft.rfftfreq(side, 1 / side)[None]


def advance(w: Field, time: float, viscosity: float, push: Field | float = 0.0) -> Field:
    """The vorticity (n, n) after a time, in as many even steps as the velocity at its start asks for."""
    n = len(w)
    kx, ky = _wave_numbers(n)
    square = kx**2 + ky**2
    inverse = np.divide(1.0, square, out=np.zeros_like(square), where=square > 0)
    limit = 2 * np.pi * (n // 3)
    kept = (np.abs(kx) < limit) & (ky < limit)  # products of these alias onto none of these
    pushed = rfft2(np.broadcast_to(push, w.shape)) * kept

    def velocity(spectrum: NDArray) -> tuple[Field, Field]:
        stream = spectrum * inverse  # -Laplace psi = w, u = d psi / dy, v = -d psi / dx
        return irfft2(1j * ky * stream, s=w.shape), irfft2(-1j * kx * stream, s=w.shape)

    def rate(spectrum: NDArray) -> NDArray:
        u, v = velocity(spectrum)
        whole = irfft2(spectrum, s=w.shape)
        return pushed - kept * 1j * (kx * rfft2(u * whole) + ky * rfft2(v * whole))

    spectrum = rfft2(w) * kept
    u, v = velocity(spectrum)
    speed = float(np.abs(u).max() + np.abs(v).max())
    steps = max(math.ceil(1.2 * time * speed * limit / STABLE), math.ceil(time / 0.05), 1)
    dt = time / steps
    half = np.exp(-viscosity * square * dt / 2)
    whole = half**2
    for _ in range(steps):
        a = rate(spectrum)
        b = rate(half * (spectrum + dt / 2 * a))
        c = rate(half * spectrum + dt / 2 * b)
        d = rate(whole * spectrum + dt * half * c)
        spectrum = whole * spectrum + dt / 6 * (whole * a + 2 * half * (b + c) + d)
    return irfft2(spectrum, s=w.shape)
