"""Packed simulations: small files, the forces of all faces, the density of prediction, shards that stay as they are."""

import dataclasses

import numpy as np
import pytest

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Case
from aerosurrogate.data.prepare import prepare
from aerosurrogate.data.splits import simulated
from aerosurrogate.data.store import Dataset, Manifest, shuffled, write_manifest, write_shard
from aerosurrogate.data.thinning import AROUND, SKIN_FACES, thin
from aerosurrogate.errors import InputError
from aerosurrogate.forces import integrate
from aerosurrogate.mesh.surroundings import CAR


def half_body(name: str = "car-00000", faces: int = 9_000, around: int = 12_000) -> Case:
    """Half an ellipsoid 4 m long above the ground, its faces of different sizes, its pressure with drag and lift."""
    rng = np.random.default_rng(5)
    u = rng.uniform(-1, 1, faces)
    angle = rng.uniform(0, np.pi, faces)
    ring = np.sqrt(1 - u**2)
    unit = np.stack([u, ring * np.sin(angle), ring * np.cos(angle)], axis=1)
    axes = np.array([2.0, 0.9, 0.7])
    vectors = unit / axes * axes.prod() * (2 * np.pi / faces)
    share = rng.choice([0.5, 1.0, 4.0], faces)
    vectors *= (share / share.mean())[:, None]
    areas = np.linalg.norm(vectors, axis=1)
    p = 200 * (1 - 2.25 * (1 - unit[:, 0] ** 2)) + 60 * (unit[:, 0] < -0.5) + 20 * unit[:, 2]
    box = np.array([[-4.8, 0, 0.0], [8.0, 2.8, 3.2]])
    outside = rng.uniform(*box, (3 * around, 3))
    outside = outside[np.linalg.norm((outside - [0, 0, 1]) / axes, axis=1) > 1.05][:around]
    distance = (np.linalg.norm((outside - [0, 0, 1]) / axes, axis=1) - 1) * 0.7
    n, m = faces, len(outside)

    def both(skin: np.ndarray, rest: np.ndarray) -> np.ndarray:
        return np.concatenate([skin, rest]).astype(np.float32)

    shear = np.stack([0.5 * ring, 0 * ring, 0 * ring], axis=1)
    return Case(
        name=name,
        points=both(unit * axes + [0, 0, 1], outside),
        surface=np.arange(n + m) < n,
        normals=both(vectors / areas[:, None], outside / np.linalg.norm(outside, axis=1, keepdims=True)),
        areas=both(areas, np.zeros(m)),
        distance=both(np.zeros(n), distance),
        volumes=both(np.zeros(n), np.full(m, np.prod(box[1] - box[0]) / m)),
        fields={
            "p": both(p, np.zeros(m))[:, None],
            "U": both(np.zeros((n, 3)), outside),
            "wallShearStress": both(shear, np.zeros((m, 3))),
        },
        conditions=Conditions(20.0, 4.0, ground=True),
        reference={"cd": 0.3},
        symmetry="y",
        tags={"kind": "estate"},
    )


def airfoil(name: str, speed: float, alpha: float) -> Case:
    t = np.linspace(0, 2 * np.pi, 160, endpoint=False)
    skin = np.stack([0.5 + 0.5 * np.cos(t), 0.06 * np.sin(t)], axis=1)
    rest = np.random.default_rng(1).uniform([-2, -1.5], [4, 1.5], (6000, 2))
    n, m = len(skin), len(rest)
    gap = np.maximum(np.linalg.norm(rest - [0.5, 0], axis=1) - 0.5, 1e-3)
    ones = np.ones((n + m, 1), np.float32)
    on, off = np.tile(np.arange(n + m) < n, (2, 1)).T, np.tile(np.arange(n + m) >= n, (2, 1)).T
    return Case(
        name=name,
        points=np.concatenate([skin, rest]).astype(np.float32),
        surface=np.arange(n + m) < n,
        normals=np.tile(np.float32([1, 0]), (n + m, 1)),
        areas=np.where(np.arange(n + m) < n, 0.0125, 0).astype(np.float32),
        distance=np.concatenate([np.zeros(n), gap]).astype(np.float32),
        volumes=np.where(np.arange(n + m) < n, 0, 18 / m).astype(np.float32),
        fields={"p": 1000 * ones, "U": ones * off, "wallShearStress": ones * on, "nut": 1e-4 * ones},
        conditions=Conditions(speed, 1.0, alpha=alpha, viscosity=1.56e-5),
    )


def forces(case: Case) -> np.ndarray:
    s = case.surface
    found = integrate(
        case.points[s], case.normals[s], case.areas[s], case.fields["p"][s, 0], case.fields["wallShearStress"][s]
    )
    return np.array([*found.total, found.moment[1], case.areas[s].sum(dtype=np.float64)])


def test_a_thinned_car_has_the_forces_moment_and_area_of_all_its_faces():
    case = half_body()
    small = thin(case, whole_skin=False, seed=1)
    assert abs(int(small.surface.sum()) - SKIN_FACES) <= 1
    assert np.allclose(forces(small), forces(case), rtol=1e-4, atol=1e-4 * np.abs(forces(case)).max())


def test_faces_are_drawn_by_area_and_shares_stay_near_equal():
    case = half_body()
    small = thin(case, whole_skin=False, seed=1)
    shares = small.areas[small.surface]
    assert shares.max() / shares.min() < 1.5
    front = case.surface & (case.points[:, 0] < -1)
    part = case.areas[front].sum() / case.areas.sum()
    drawn = (small.points[small.surface, 0] < -1).mean()
    assert abs(drawn - part) < 0.01


def test_a_held_out_case_keeps_its_whole_skin():
    case = half_body()
    assert thin(case, whole_skin=True, seed=1).surface.sum() == case.surface.sum()


def test_surroundings_follow_the_density_that_prediction_draws_by():
    case = half_body(around=40_000)
    small = thin(case, whole_skin=False, seed=1)
    rest = ~case.surface & CAR.contains(case.points / 4)
    wanted = CAR.density(case.distance[rest] / 4) * case.volumes[rest]
    edges = np.quantile(case.distance[rest], [0, 0.2, 0.4, 0.6, 0.8, 1])
    expected = np.histogram(case.distance[rest], edges, weights=wanted)[0] / wanted.sum()
    seen = np.histogram(small.distance[~small.surface], edges)[0] / AROUND[3]
    assert np.abs(seen - expected).max() < 0.04


def stored(folder, cases):
    entries = {}
    for case in cases:
        entries |= write_shard(folder / f"{case.name}.safetensors", [shuffled(case, 0)])
    write_manifest(folder, Manifest(source="specs/cars.toml", cases=entries))
    return folder


@pytest.fixture(scope="module")
def cars(tmp_path_factory):
    return [half_body(f"car-{i:05d}", 5_000, 6_000) for i in range(6)]


def test_packed_cars_are_small_and_their_forces_survive_half_precision(tmp_path, cars):
    prepare([stored(tmp_path / "sims", cars)], tmp_path / "packed", compact=True, jobs=1)
    packed = Dataset(tmp_path / "packed")
    assert packed.manifest.splits == {"train": [f"car-{i:05d}" for i in (0, 1, 2, 3, 5)], "test": ["car-00004"]}
    train, test = packed.case("car-00000"), packed.case("car-00004")
    assert train.surface.sum() <= SKIN_FACES + 1
    assert test.surface.sum() == 5_000
    for case in (train, test):
        assert np.allclose(forces(case)[[0, 2, 4]], forces(cars[0])[[0, 2, 4]], rtol=2e-3)
    assert case.symmetry == "y"
    assert (case.conditions, case.reference, case.tags) == (cars[0].conditions, cars[0].reference, cars[0].tags)
    size = (tmp_path / "packed" / packed.manifest.cases["car-00000"]["shard"]).stat().st_size
    assert size < 5 * 120_000 + 220_000
    assert packed.manifest.source == "specs/cars.toml"


def test_packed_shards_are_never_rewritten_and_new_cases_get_new_ones(tmp_path, cars):
    sims, out = stored(tmp_path / "sims", cars[:3]), tmp_path / "packed"
    prepare([sims], out, compact=True, jobs=1)
    before = {path.name: path.read_bytes() for path in out.glob("*.safetensors")}
    changed = dataclasses.replace(
        cars[0], reference={"cd": 9.0}, fields={**cars[0].fields, "p": 2 * cars[0].fields["p"]}
    )
    stored(sims, [changed, *cars[1:5]])
    summary = prepare([sims], out, compact=True, jobs=1)
    assert (summary.read, summary.kept) == (2, 3)
    assert {path.name: path.read_bytes() for path in out.glob("*.safetensors") if path.name in before} == before
    assert len(list(out.glob("*.safetensors"))) == 2
    assert Dataset(out).case("car-00000").reference == {"cd": 0.3}
    assert Dataset(out).case("car-00000").surface.sum() <= SKIN_FACES + 1, "with none held out it is no test case"
    assert set(Dataset(out).names()) == {f"car-{i:05d}" for i in range(5)}


def test_packing_goes_on_while_simulations_are_written_and_after_an_interruption(tmp_path, cars):
    sims, out = stored(tmp_path / "sims", cars[:2]), tmp_path / "packed"
    (sims / "manifest.json").unlink()  # as long as simulate runs
    prepare([sims], out, compact=True, jobs=1)
    (out / "manifest.json").unlink()  # as after a kill between shards and manifest
    summary = prepare([sims], out, compact=True, jobs=1)
    assert (summary.read, summary.kept) == (0, 2)
    assert Dataset(out).case("car-00001").surface.any()


def test_a_packed_shard_that_was_taken_away_is_not_a_place_to_overwrite_another(tmp_path, cars):
    sims, out = stored(tmp_path / "sims", cars[:1]), tmp_path / "packed"
    prepare([sims], out, compact=True, jobs=1)
    stored(sims, cars[:2])
    prepare([sims], out, compact=True, jobs=1)
    (out / "part-0000.safetensors").unlink()
    second = (out / "part-0001.safetensors").read_bytes()
    summary = prepare([sims], out, compact=True, jobs=1)
    assert (summary.read, summary.kept) == (1, 1)
    assert (out / "part-0001.safetensors").read_bytes() == second


def test_airfoils_have_the_four_tasks_and_stay_small(tmp_path):
    speeds, angles = [40.0, 60.0, 90.0], [-4.0, 0.0, 14.0]
    cases = [airfoil(f"naca-{i:05d}", speeds[i % 3], angles[i // 3 % 3]) for i in range(12)]
    prepare([stored(tmp_path / "sims", cases)], tmp_path / "packed", compact=True, jobs=1)
    packed = Dataset(tmp_path / "packed")
    splits = packed.manifest.splits
    assert splits["full_test"] == splits["test"] == ["naca-00004", "naca-00009"]
    assert splits["scarce_train"] == splits["full_train"] == splits["train"]
    for name in packed.names():
        conditions = packed.case(name).conditions
        assert (name in splits["reynolds_train"]) == (3e6 <= conditions.reynolds <= 5e6)
        assert (name in splits["reynolds_test"]) == (name not in splits["reynolds_train"])
        assert (name in splits["aoa_train"]) == (-2.5 <= conditions.alpha <= 12.5)
    assert packed.case("naca-00000").surface.sum() == 160
    assert (tmp_path / "packed" / "part-0000.safetensors").stat().st_size / 12 < 42_000


def test_the_scarce_task_has_two_hundred_cases():
    entries = {f"naca-{i:05d}": {"dimensions": 2, "conditions": vars(Conditions(60.0, 1.0))} for i in range(1000)}
    splits = simulated(entries)
    assert (len(splits["full_train"]), len(splits["full_test"]), len(splits["scarce_train"])) == (800, 200, 200)


def test_what_cannot_be_packed_is_said(tmp_path, cars):
    bare = dataclasses.replace(cars[0], volumes=None)
    with pytest.raises(InputError, match="no volumes"):
        prepare([stored(tmp_path / "sims", [bare])], tmp_path / "packed", compact=True, jobs=1)
    with pytest.raises(InputError, match="overwrite its source"):
        prepare([tmp_path / "sims"], tmp_path / "sims", compact=True)
