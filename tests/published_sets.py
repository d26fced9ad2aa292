"""Small files of all eight tasks with the published names, axes and units, and flows that mean something.

Each writer fills a folder that `prepare` reads: potential flow around Joukowski sections (AirfRANS, Airfoil), boxes in
a wind (ShapeNet-Car), Kirsch's stresses around a hole (Elasticity), a block under a die (Plasticity), a parabolic
profile in a bent pipe (Pipe), vortices that drift and decay (Navier-Stokes), and Darcy flow solved on a small grid.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyvista as pv
import scipy.io
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import NDArray

SPEED = 20.0  # m/s around cars


def section_flow(
    thickness: float, camber: float, alpha: float, rings: NDArray, count: int
) -> tuple[NDArray, NDArray, NDArray]:
    """Points (rings, count, 2) of an O-mesh around a section of chord 1, velocity over the free stream's, its angle.

    The circle is a little larger than Joukowski's, so that the tail is round and no velocity is infinite.
    """
    centre = complex(-thickness / 1.3, 2 * camber) * 0.25
    radius = 1.02 * abs(0.25 - centre)
    angle, beta = np.radians(alpha), np.arcsin(centre.imag / radius)
    around = np.linspace(0, 2 * np.pi, count, endpoint=False) - beta
    zeta = centre + radius * (1 + rings[:, None]) * np.exp(1j * around[None])
    place = zeta + 0.0625 / zeta
    s = zeta - centre
    circulation = 4 * np.pi * radius * np.sin(angle + beta)
    w = np.exp(-1j * angle) - np.exp(1j * angle) * radius**2 / s**2 + 1j * circulation / (2 * np.pi * s)
    flow = np.conj(w / (1 - 0.0625 / zeta**2))
    left, chord = place[0].real.min(), np.ptp(place[0].real)
    place = (place - left - 1j * place[0, 0].imag) / chord
    return (
        np.stack([place.real, place.imag], axis=-1),
        np.stack([flow.real, flow.imag], axis=-1),
        np.abs(flow),
    )


def write_airfrans(root: Path, count: int = 6, around: int = 64) -> Path:
    """The full task's two splits; the air comes to rest at the wall within a thin layer."""
    rng, names = np.random.default_rng(0), []
    rings = np.concatenate([[0.0], np.geomspace(1e-4, 12.0, 24)])
    for _ in range(count):
        speed, alpha = rng.uniform(35, 90), rng.uniform(-4, 10)
        name = f"airFoil2D_SST_{speed:.3f}_{alpha:.3f}_2.0_4.0_{rng.uniform(8, 16):.3f}"
        points, flow, size = section_flow(rng.uniform(0.08, 0.16), rng.uniform(0, 0.03), alpha, rings, around)
        layer = np.tanh(rings / 5e-3)[:, None]
        n, m = around, len(rings)
        quads = [
            [4, k * n + i, k * n + (i + 1) % n, (k + 1) * n + (i + 1) % n, (k + 1) * n + i]
            for k in range(m - 1)
            for i in range(n)
        ]
        flat = points.reshape(-1, 2)
        grid = pv.UnstructuredGrid(np.array(quads), np.full(len(quads), 9), np.c_[flat, np.full(len(flat), 0.5)])
        velocity = (speed * layer[..., None] * flow).reshape(-1, 2)
        grid.point_data["U"] = np.c_[velocity, np.zeros(n * m)].astype(np.float32)
        pressure = (0.5 * speed**2 * (1 - size**2)).ravel()
        grid.point_data["p"] = pressure.astype(np.float32)
        grid.point_data["nut"] = (1e-4 * speed * np.exp(-((rings[:, None] - 0.1) ** 2)) * np.ones((m, n))).ravel()
        grid.point_data["implicit_distance"] = -np.repeat(rings, n).astype(np.float32)
        lines = np.c_[np.full(n, 2), np.arange(n), (np.arange(n) + 1) % n]
        skin = pv.PolyData(np.c_[points[0], np.full(n, 0.5)], lines=lines.ravel())
        skin.point_data["p"] = pressure[:n].astype(np.float32)
        skin.point_data["U"] = np.zeros((n, 3), np.float32)
        folder = root / "Dataset" / name
        folder.mkdir(parents=True)
        grid.save(folder / f"{name}_internal.vtu")
        skin.save(folder / f"{name}_aerofoil.vtp")
        names.append(name)
    train, test = names[: -max(count // 3, 1)], names[-max(count // 3, 1) :]
    splits = {"full_train": train, "full_test": test, "scarce_train": train}
    (root / "Dataset" / "manifest.json").write_text(json.dumps(splits))
    return root


def write_shapenet_car(root: Path, count: int = 4) -> Path:
    """Boxes of several sizes, 4 m long or so along +z, up +y; param0 is for testing."""
    rng = np.random.default_rng(1)
    for number in range(count):
        folder = root / f"param{number % 2}" / f"{number:04x}"
        folder.mkdir(parents=True)
        blocks = pv.ImageData(dimensions=(13, 9, 21), spacing=(0.4, 0.3, 0.5), origin=(-2.4, -0.1, -5.0))
        grid = blocks.cast_to_unstructured_grid()
        centres = grid.cell_centers().points
        low, size = np.array([-0.8, 0.2, -2.0]), np.array([1.6, 1.2, 4.0])
        body = ((centres > low) & (centres < low + size)).all(axis=1)
        stretch = rng.uniform(0.9, 1.1, 3)
        grid.points = np.asarray(grid.points) * stretch
        low, size = low * stretch, size * stretch
        skin = grid.extract_cells(np.flatnonzero(body)).extract_surface(algorithm="dataset_surface")
        air = grid.extract_cells(np.flatnonzero(~body))
        skin.clear_data()
        air.clear_data()
        q = 0.5 * 1.225 * SPEED**2
        along = (np.asarray(skin.points)[:, 2] - low[2]) / size[2]
        skin.point_data["point_scalars"] = (q * (1.1 * np.exp(-8 * along) - 0.25 * size[1])).astype(np.float32)
        gap = np.linalg.norm(np.maximum(np.abs(air.points - low - size / 2) - size / 2, 0), axis=1)
        flow = SPEED * np.tanh(2 * gap)[:, None] * [0.02, 0.05, 1.0]
        air.point_data["point_vectors"] = flow.astype(np.float32)
        skin.cast_to_unstructured_grid().save(folder / "quadpress_smpl.vtk", binary=False)
        air.save(folder / "hexvelo_smpl.vtk", binary=False)
    return root


def write_elasticity(root: Path, count: int = 10, points: int = 240) -> Path:
    """A plate pulled along y with a round hole in it; samples lie along the last axis."""
    rng = np.random.default_rng(2)
    places, stress = np.empty((points, 2, count)), np.empty((points, count))
    for i in range(count):
        a = rng.uniform(0.15, 0.3)
        r, angle = a + (0.48 - a) * np.sqrt(rng.random(points)), rng.uniform(0, 2 * np.pi, points)
        edge = rng.random(points) < 0.15
        r[edge] = a
        places[:, :, i] = 0.5 + np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)
        k = (a / r) ** 2
        stress[:, i] = 100 * (0.5 * (1 + k) + 0.5 * (1 + 3 * k**2) * np.cos(2 * angle))
    root.mkdir(parents=True)
    np.save(root / "Random_UnitCell_sigma_10.npy", stress)
    np.save(root / "Random_UnitCell_XY_10.npy", places)
    return root


def write_plasticity(root: Path, count: int = 8, grid: tuple[int, int] = (21, 9)) -> Path:
    """A block, 50 x 15, pressed from above by a die: places and displacements at 20 times."""
    rng = np.random.default_rng(3)
    x, y = np.meshgrid(np.linspace(0, 50, grid[0]), np.linspace(0, 15, grid[1]), indexing="ij")
    die, output = np.empty((count, grid[0])), np.empty((count, *grid, 20, 4))
    for i in range(count):
        bump = rng.uniform(0.5, 2) * np.cos(np.linspace(0, rng.uniform(3, 8), grid[0]) + rng.uniform(0, 6))
        die[i] = bump
        for t in range(20):
            depth = 0.25 * t * (1 + 0.3 * bump)[:, None] * (y / 15)
            shift = np.stack([0.02 * t * (x - 25) / 25 * (1 - y / 15), -depth], axis=-1)
            output[i, :, :, t] = np.concatenate([np.stack([x, y], axis=-1) + shift, shift], axis=-1)
    root.mkdir(parents=True)
    scipy.io.savemat(root / "plas_N987_T20.mat", {"input": die, "output": output})
    return root


def write_airfoil(root: Path, count: int = 8, grid: tuple[int, int] = (41, 17)) -> Path:
    """Mach numbers on O-meshes around sections; the wrapping axis comes first, as in the published C-meshes."""
    rng = np.random.default_rng(4)
    rings = np.concatenate([[0.0], np.geomspace(5e-3, 8.0, grid[1] - 1)])
    q = np.zeros((count, 5, *grid))
    places = np.empty((count, *grid, 2))
    for i in range(count):
        found = section_flow(rng.uniform(0.08, 0.16), rng.uniform(0, 0.03), 2.0, rings, grid[0] - 1)
        closed = [np.concatenate([part, part[:, :1]], axis=1).swapaxes(0, 1) for part in found]
        places[i], q[i, 4] = closed[0], 0.5 * closed[2]
    root.mkdir(parents=True)
    np.save(root / "NACA_Cylinder_X.npy", places[..., 0])
    np.save(root / "NACA_Cylinder_Y.npy", places[..., 1])
    np.save(root / "NACA_Cylinder_Q.npy", q)
    return root


def write_pipe(root: Path, count: int = 8, grid: tuple[int, int] = (33, 17)) -> Path:
    """Flow along pipes whose middle line waves."""
    rng = np.random.default_rng(5)
    x, across = np.meshgrid(np.linspace(0, 10, grid[0]), np.linspace(-0.5, 0.5, grid[1]), indexing="ij")
    xs, ys, q = (np.zeros((count, *shape)) for shape in (grid, grid, (3, *grid)))
    for i in range(count):
        wave = rng.uniform(0.2, 0.8), rng.uniform(0.3, 0.9), rng.uniform(0, 6)
        slope = wave[0] * wave[1] * np.cos(wave[1] * x + wave[2])
        xs[i], ys[i] = x, across + wave[0] * np.sin(wave[1] * x + wave[2])
        q[i, 0] = 0.25 * (1 - 4 * across**2) / np.sqrt(1 + slope**2)
        q[i, 1] = q[i, 0] * slope
    root.mkdir(parents=True)
    for letter, values in zip("XYQ", (xs, ys, q), strict=True):
        np.save(root / f"Pipe_{letter}.npy", values)
    return root


def write_navier_stokes(root: Path, count: int = 8, side: int = 16) -> Path:
    """Vorticity of waves on a torus that drift with the mean flow and decay."""
    rng = np.random.default_rng(6)
    x, y = np.meshgrid(*[2 * np.pi * np.arange(side) / side] * 2, indexing="ij")
    u = np.zeros((count, side, side, 20))
    for i in range(count):
        a, b, phase = rng.uniform(0.5, 1.5), rng.uniform(0.5, 1.5), rng.uniform(0, 6, 2)
        for t in range(20):
            moved = x - 0.15 * t + phase[0], y - 0.1 * t + phase[1]
            u[i, ..., t] = (a * np.sin(moved[0]) * np.sin(moved[1]) + b * np.cos(moved[0])) * np.exp(-0.03 * t)
    root.mkdir(parents=True)
    scipy.io.savemat(root / "NavierStokes_V1e-5_N1200_T20.mat", {"u": u})
    return root


def write_darcy(root: Path, count: int = 8, side: int = 17) -> Path:
    """-div(a grad u) = 1 with two permeabilities, u = 0 on the rim, by finite differences."""
    rng = np.random.default_rng(7)
    x, y = np.meshgrid(*[np.linspace(0, 1, side)] * 2, indexing="ij")
    root.mkdir(parents=True)
    for number in (1, 2):
        coeff, sol = np.empty((count, side, side)), np.zeros((count, side, side))
        for i in range(count):
            f = rng.uniform(2, 7, 4)
            coeff[i] = np.where(np.sin(f[0] * x + f[1]) + np.cos(f[2] * y + f[3]) > 0, 12.0, 3.0)
            sol[i, 1:-1, 1:-1] = _darcy(coeff[i])
        file = root / f"piececonst_r421_N1024_smooth{number}.mat"
        scipy.io.savemat(file, {"coeff": coeff, "sol": sol})
    return root


def _darcy(a: NDArray) -> NDArray:
    n = len(a) - 2
    number = np.arange(n * n).reshape(n, n)
    system = scipy.sparse.lil_array((n * n, n * n))
    for i in range(n):
        for j in range(n):
            for di, dj in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                k = 0.5 * (a[i + 1, j + 1] + a[i + 1 + di, j + 1 + dj])
                system[number[i, j], number[i, j]] += k
                if 0 <= i + di < n and 0 <= j + dj < n:
                    system[number[i, j], number[i + di, j + dj]] -= k
    step = 1 / (len(a) - 1)
    return scipy.sparse.linalg.spsolve(system.tocsr(), np.full(n * n, step**2)).reshape(n, n)


WRITERS: dict[str, Callable[[Path], Path]] = {
    "airfrans": write_airfrans,
    "shapenet_car": write_shapenet_car,
    "elasticity": write_elasticity,
    "plasticity": write_plasticity,
    "airfoil": write_airfoil,
    "pipe": write_pipe,
    "navier_stokes": write_navier_stokes,
    "darcy": write_darcy,
}
