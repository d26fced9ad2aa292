"""Each generator against a closed form or a finer grid; the sets are seeded, resumable, and train at once."""

import json

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import simpson

from aerosurrogate.data.store import Dataset
from aerosurrogate.errors import InputError
from aerosurrogate.generate import airfoil, darcy, elasticity, generate, navier_stokes, pipe, plasticity, waterdrop
from aerosurrogate.mesh.airfoil import naca
from aerosurrogate.recipe import read_recipe
from aerosurrogate.simulate.cgrid import Resolution, grid


def test_darcy_of_one_permeability_is_the_sine_series() -> None:
    n = 61
    x = np.linspace(0, 1, n)
    k = np.arange(1, 60, 2)
    modes = 16 / (np.pi**4 * k[:, None] * k * (k[:, None] ** 2 + k**2))
    series = np.sin(np.pi * k * x[:, None]) @ modes @ np.sin(np.pi * k * x[:, None]).T
    np.testing.assert_allclose(darcy.pressure(np.full((n, n), 3.0)), series / 3, atol=2e-5)


def test_darcy_equals_a_direct_solution_and_converges() -> None:
    field = darcy.random_field(np.random.default_rng(3), 421)
    assert abs((field > 0).mean() - 0.5) < 0.45
    a = np.where(field > 0, 12.0, 3.0)
    coarse, fine = darcy.pressure(a[::20, ::20]), darcy.pressure(a[::5, ::5])[::4, ::4]
    assert 1e-4 < np.linalg.norm(coarse - fine) / np.linalg.norm(fine) < 0.1
    small = a[::20, ::20]
    n = len(small)
    number = np.arange(n * n).reshape(n, n)
    rows, columns, values = [], [], []
    for first, second in ((number[1:], number[:-1]), (number[:, 1:], number[:, :-1])):
        i, j = first.ravel(), second.ravel()
        between = 2 / (1 / small.ravel()[i] + 1 / small.ravel()[j])
        for p, q, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
            rows.append(p), columns.append(q), values.append(sign * between)
    matrix = sparse.csc_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))))
    inner = number[1:-1, 1:-1].ravel()
    direct = sparse.linalg.spsolve(matrix[inner][:, inner], np.full(len(inner), 1 / (n - 1) ** 2))
    np.testing.assert_allclose(coarse[1:-1, 1:-1].ravel(), direct, rtol=1e-6)


def test_a_coarser_darcy_is_the_finer_one_thinned(monkeypatch, tmp_path) -> None:
    """Its cases need not be solved again."""
    monkeypatch.setattr(darcy, "SIDE", 61)
    monkeypatch.setattr(
        "aerosurrogate.generate.over_processes", lambda work, tasks, jobs: ((t, work(t)) for t in tasks)
    )
    generate("darcy", tmp_path / "fine", count=2)
    generate("darcy", tmp_path / "solved", count=2, every=20)
    monkeypatch.setattr(darcy, "pressure", None)
    generate("darcy", tmp_path / "thinned", count=2, every=20, finer=tmp_path / "fine")
    for name in ("darcy-00000", "darcy-00001"):
        solved, thinned = (Dataset(tmp_path / folder).case(name) for folder in ("solved", "thinned"))
        assert solved.grid == thinned.grid == (4, 4)
        np.testing.assert_array_equal(solved.points, thinned.points)
        np.testing.assert_array_equal(solved.fields["solution"], thinned.fields["solution"])
        np.testing.assert_array_equal(solved.features["coefficient"], thinned.features["coefficient"])


def test_vorticity_of_one_forced_mode_is_known() -> None:
    # The force depends on x + y alone and so does the vorticity it makes, whose velocity carries nothing along.
    nu, time, side = 1e-2, 0.7, 32
    decay = 8 * np.pi**2 * nu
    expected = navier_stokes.force(side) / decay * (1 - np.exp(-decay * time))
    computed = navier_stokes.advance(np.zeros((side, side)), time, nu, navier_stokes.force(side))
    np.testing.assert_allclose(computed, expected, atol=1e-8)


def test_vorticity_is_carried_as_on_a_finer_grid() -> None:
    start = 10 * navier_stokes.random_vorticity(np.random.default_rng(0), 96)
    start = np.fft.irfft2(np.where(_low(96, 4), np.fft.rfft2(start), 0), s=start.shape)
    fine = navier_stokes.advance(start, 0.1, 1e-3)[::3, ::3]
    coarse = navier_stokes.advance(start[::3, ::3], 0.1, 1e-3)
    assert np.linalg.norm(fine - start[::3, ::3]) / np.linalg.norm(fine) > 0.02  # it has moved
    assert np.linalg.norm(fine - coarse) / np.linalg.norm(fine) < 1e-3


def _low(side: int, limit: int) -> np.ndarray:
    k = np.fft.fftfreq(side, 1 / side)
    return (np.abs(k)[:, None] < limit) & (np.arange(side // 2 + 1) < limit)


def test_a_small_hole_triples_the_stress() -> None:
    """Kirsch: at the sides of a round hole in a wide plate the pull is three times that without the hole."""
    points = elasticity.mesh(np.full(elasticity.AROUND, 0.04)).reshape(-1, 2)
    stress = elasticity.pulled(points.reshape(elasticity.AROUND, -1, 2))[:, 1]
    plain_points = elasticity.mesh(np.full(elasticity.AROUND, 1e-3)).reshape(-1, 2)
    plain = elasticity.pulled(plain_points.reshape(elasticity.AROUND, -1, 2))[:, 1]
    side = np.argmin(np.linalg.norm(points - [0.54, 0.5], axis=1))
    without = np.argmin(np.linalg.norm(plain_points - [0.54, 0.5], axis=1))
    assert stress[side] / plain[without] == pytest.approx(3, rel=0.04)
    top = plain_points[:, 1] > 1 - 1e-9
    assert plain[top].mean() == pytest.approx(elasticity.PULL, rel=0.01)


def test_a_straight_pipe_has_its_parabola_and_a_bent_one_loses_nothing() -> None:
    points = pipe.mesh(np.zeros(4), np.zeros(4), 17)
    velocity, pressure = pipe.flow(points)
    np.testing.assert_allclose(velocity[..., 0], 1 - 4 * points[..., 1] ** 2, atol=1e-4)
    assert pressure[0].mean() - pressure[-1].mean() == pytest.approx(8 * pipe.VISCOSITY * pipe.LENGTH * 7 / 8, rel=1e-3)
    points = pipe.mesh(np.array([0.8, -0.5, 0.3, 0.0]), np.array([0.2, 0.4, -0.3, 0.1]), 33)
    velocity = pipe.flow(points, 0.02)[0]
    through = simpson(velocity[..., 0], x=points[0, :, 1], axis=1)
    np.testing.assert_allclose(through, 2 / 3, rtol=2e-4)


def test_the_airfoils_stream_stays_even_and_stagnates_as_it_should() -> None:
    mesh = grid(naca("0012"), Resolution(side=30, wake=10, across=20, far=15.0), 8e-3)
    faces = airfoil._faces(mesh)
    stream = np.array([1.0, 0.5, 0.1, 1 / airfoil.GAMMA])[:, None, None]
    even = np.broadcast_to(stream, (4, *mesh.shape))
    assert np.abs(airfoil.residual(even, mesh.wake, faces, stream)[:, :, 1:] * faces[2][:, 1:]).max() < 1e-12
    mach = 0.5
    flow = airfoil.steady(mesh, mach)
    wall = slice(mesh.wake, -mesh.wake)
    pressure = 1.5 * flow[3, wall, 0] - 0.5 * flow[3, wall, 1]
    height = (pressure - 1 / airfoil.GAMMA) / (0.5 * mach**2)
    assert height.max() == pytest.approx(((1 + 0.2 * mach**2) ** 3.5 - 1) / (0.7 * mach**2), rel=0.03)
    drag, lift = (-pressure * -faces[1][:, wall, 0]).sum(1) / (0.5 * mach**2)
    assert abs(drag) < 0.015
    assert abs(lift) < 1e-6


def test_steel_yields_as_in_pure_shear() -> None:
    for shear in (0.5, 8.0):
        gamma = shear * plasticity.YIELD / np.sqrt(3) / plasticity.SHEAR
        stress, stiffness = plasticity._response(np.array([[[0, 0, gamma]]]))
        size = gamma / np.sqrt(3)
        level = min(3 * plasticity.SHEAR * size, plasticity.YIELD + plasticity.SLOPE * (size - plasticity.FIRST))
        assert stress[0, 0, 2] == pytest.approx(level / np.sqrt(3), rel=1e-6)
    rng = np.random.default_rng(0)
    strain, step = 1e-3 * rng.standard_normal(3), 1e-8
    for i, direction in enumerate(np.eye(3)):
        ahead, behind = (np.array([[strain + sign * step * direction]]) for sign in (1, -1))
        stress, stiffness = plasticity._response(strain[None, None])
        slope = (plasticity._response(ahead)[0] - plasticity._response(behind)[0])[0, 0] / (2 * step)
        np.testing.assert_allclose(stiffness[0, 0, :, i], slope, rtol=1e-3, atol=1.0)
        work = (plasticity._energy(ahead) - plasticity._energy(behind))[0, 0] / (2 * step)
        assert work == pytest.approx(stress[0, 0, i], rel=1e-4)


def test_the_block_lies_against_the_die() -> None:
    side = (21, 7)
    x = np.linspace(0, plasticity.LENGTH, side[0])
    die = 2 * (1 - np.cos(2 * np.pi * x / plasticity.LENGTH))
    moved = plasticity.pressed(die, np.array([0.5, 1.0]), side).reshape(2, *side, 2)
    gap = die - 1.0 - moved[1, :, -1, 1]
    assert gap.min() > -0.01
    assert (np.abs(gap) < 0.01).sum() >= 3
    assert np.abs(moved[:, :, 0]).max() == 0
    assert moved[1, 0, 3, 0] < 0 < moved[1, -1, 3, 0] or moved[1, :, -1, 1].max() > 0  # what is pressed goes elsewhere


def test_a_drop_falls_freely_and_stays_in_its_box() -> None:
    start = waterdrop.drop(0.1, (0.5, 0.3))
    frames = waterdrop.trajectory(start, np.zeros_like(start), 90)
    dt, steps = waterdrop.FRAME / waterdrop.STEPS, 20 * waterdrop.STEPS
    fallen = start - frames[20]
    np.testing.assert_allclose(fallen[:, 0], 0, atol=1e-9)
    np.testing.assert_allclose(fallen[:, 1], waterdrop.GRAVITY * dt**2 * steps * (steps + 1) / 2, rtol=1e-6)
    assert frames.min() > 1 / waterdrop.CELLS
    assert frames.max() < 1 - 1 / waterdrop.CELLS
    velocity = np.diff(frames, axis=0) / waterdrop.FRAME
    energy = (0.5 * velocity**2).sum(-1).mean(1) + waterdrop.GRAVITY * frames[1:, :, 1].mean(1)
    assert energy[-1] < 0.9 * energy[0]
    assert np.diff(energy).max() < 0.02 * energy[0]


def test_a_set_is_seeded_resumable_and_trains_at_once(tmp_path, caplog) -> None:
    whole = generate("elasticity", tmp_path / "whole", count=11, jobs=2)
    assert (len(whole.manifest.cases), whole.read, whole.kept) == (11, 11, 0)
    assert len(whole.manifest.splits["test"]) == 1
    assert "stand-in" in whole.manifest.source
    generate("elasticity", tmp_path / "parts", count=4, jobs=1)
    assert "no case is for testing" in caplog.text
    later = generate("elasticity", tmp_path / "parts", count=11, jobs=1)
    assert (later.read, later.kept) == (11, 0)  # the shard that was begun is solved as a whole
    again = generate("elasticity", tmp_path / "parts", count=11, jobs=1)
    assert (again.read, again.kept) == (0, 11)
    one, other = (Dataset(tmp_path / name).case("elasticity-00010") for name in ("whole", "parts"))
    np.testing.assert_array_equal(one.fields["stress"], other.fields["stress"])
    assert len(one.points) == 972
    with pytest.raises(InputError, match=r"other data.*seed 0.*Geo-FNO set\. To fix it"):
        generate("elasticity", tmp_path / "parts", count=11, seed=1)
    (tmp_path / "parts" / "manifest.json").unlink()  # as a run that is killed leaves it
    with pytest.raises(InputError, match=r"other data: elasticity-00000, .*another --out for .* pipe"):
        generate("pipe", tmp_path / "parts", count=1)
    assert generate("elasticity", tmp_path / "parts", count=11, jobs=1).kept == 11
    from aerosurrogate.training.loop import train

    small = ["model.layers=1", "model.channels=16", "model.heads=2", "model.slices=4", "training.steps=2"]
    recipe = read_recipe("recipes/elasticity.toml", [f"data.path={tmp_path / 'whole'}", *small])
    assert "stress" in json.dumps(train(recipe, tmp_path / "run", device="cpu")["validation"])
