"""Cases that live on the device are seen as those that processes read: the same values, drawn by the same law.

Which device it is makes no difference to how this is written; here it is the CPU, on which `Resident` is never chosen.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from joukowski import joukowski_set
from safetensors.torch import load_file
from test_a_step_never_waits import Asked
from test_packed_cases_keep_their_forces import half_body

from aerosurrogate.data.sampling import drawn
from aerosurrogate.data.scaling import Scaling
from aerosurrogate.data.store import Dataset, Manifest, StoredArray, write_manifest, write_shard
from aerosurrogate.recipe import Training, read_recipe
from aerosurrogate.training import loop, resident
from aerosurrogate.training.batches import Batch, Batches
from aerosurrogate.training.resident import Resident, needed, resident_where_it_fits

RECIPE = Path(__file__).parents[1] / "recipes" / "naca_rans.toml"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def sections(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return Dataset(joukowski_set(tmp_path_factory.mktemp("sections"), 6))


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Two half bodies with solver cells around them."""
    folder = tmp_path_factory.mktemp("halves")
    cases = [half_body("car-0", 150, 400), half_body("car-1", 120, 500)]
    write_manifest(folder, Manifest(cases=write_shard(folder / "cases.safetensors", cases)))
    return Dataset(folder)


def batches(dataset: Dataset, share: tuple[int, int] = (0, 1), **settings: object) -> Batches:
    names = dataset.names()
    inputs, fields = ("position_per_length", "normal_on_skin", "log_distance"), ("p", "U", "wallShearStress")
    known = [name for name in fields if name in dataset.case(names[0]).fields]
    scaling = Scaling.fit(
        (dataset.case(name).whole() for name in names), inputs=inputs, fields=known, kind="nondimensional"
    )
    return Batches(dataset, names, scaling, Training(**{"steps": 9, "batch": 2} | settings), share)


def assert_same(one: Batch, other: Batch) -> None:
    assert (one.names, one.grid, one.padded, one.skin) == (other.names, other.grid, other.padded, other.skin)
    for name, value in one.tensors().items():
        assert value.equal(other.tensors()[name]) or name == "coefficients", name


@pytest.mark.parametrize("kind", ["sections", "halves"])
def test_all_points_of_a_case_are_what_processes_make_of_it(kind: str, request: pytest.FixtureRequest) -> None:
    made = batches(request.getfixturevalue(kind), small_faces=0.5)
    here = Resident(made, CPU)
    for step in (0, 1):
        assert_same(here.make(step), made.make(step))
    assert_same(here.make(1, 1, 2), made.make(1, 1, 2))
    held = sum(v.nbytes for kinds in here.cases.values() for case in kinds for v in case.tensors().values())
    assert needed(made) == pytest.approx(held, rel=0.2)


def test_both_are_padded_to_the_same_few_sizes(halves: Dataset) -> None:
    made = batches(halves, batch=1).of_few_sizes()
    assert made.sizes == [1100, 1240]
    here = Resident(made, CPU)
    for step in (0, 1):
        assert_same(here.make(step), made.make(step))
    made.sizes = here.sizes = [1300]
    for step in (0, 1):
        batch = here.make(step)
        assert_same(batch, made.make(step))
        assert batch.padded
        assert batch.there.shape[1] == 1300
        assert batch.there.sum() in (1100, 1240)
    alike = batches(halves, points=60).of_few_sizes()
    assert alike.sizes == [120]
    assert not alike.make(0).padded, "all have one size"
    made.sizes = [1240]  # which a case with few cells in the box of its density does not reach
    assert {made.make(step).there.sum().item(): made.make(step).padded for step in (0, 1)} == {1100: True, 1240: False}


@pytest.mark.parametrize("kind", ["density", "rows"])
def test_drawn_points_are_rows_of_their_case(halves: Dataset, kind: str) -> None:
    made = batches(halves, batch=1, sampling=kind, points=60, skin_points=40 if kind == "density" else None)
    here = Resident(made, CPU)
    batch = here.make(3)
    name, (whole,) = batch.names[0], here.cases[batch.names[0]]
    places = {tuple(x): i for i, x in enumerate(whole.inputs[0].tolist())}
    rows = torch.tensor([places[tuple(x)] for x in batch.inputs[0].tolist()])
    assert_same(batch, whole.at_rows(rows))
    n = halves.manifest.cases[name]["points"]
    case = halves.case(name, rows.numpy() % n)
    case = case.whole().take(np.arange(len(rows)) + len(rows) * (rows.numpy() >= n))
    assert_same(batch, made.collate([case]))
    image = rows >= n
    if kind == "rows":  # with the mirror image of each
        assert rows[~image].unique().equal(rows[image].unique() - n)
        assert len(rows) == 120
    else:
        assert batch.surface.sum() == 40
        assert len(rows) == 100
        assert 0.2 < image.float().mean() < 0.8


@pytest.mark.parametrize("kind", ["density", "rows"])
def test_points_are_drawn_by_the_same_law(halves: Dataset, kind: str) -> None:
    """How often each of the 550 points of a case is drawn, by either way; the same but for chance."""
    made = batches(halves, batch=1, sampling=kind, points=80, skin_points=60 if kind == "density" else None)
    draw, times = Resident(made, CPU).draws["car-0"], 1500
    assert draw is not None
    here: Counter[int] = Counter()
    there: Counter[int] = Counter()
    places = {tuple(x): i for i, x in enumerate(halves.case("car-0").whole().points.tolist())}
    for seed in range(times):
        here.update(draw.rows(seed).tolist())
        case = drawn(halves, "car-0", made.sampling, np.random.default_rng(seed))
        there.update(places[tuple(x)] for x in case.points.tolist())
    ours, theirs = (np.array([count[i] for i in range(1100)]) for count in (here, there))
    assert ours.sum() == theirs.sum()
    assert ours.max() > 3 * ours[ours > 0].min() or kind == "rows"
    gap = (ours - theirs) / np.sqrt(np.maximum(ours + theirs, 1))
    assert np.abs(gap).max() < 5
    assert gap.std() < 1.2


def test_what_a_step_sees_depends_on_its_number_alone(sections: Dataset) -> None:
    made = batches(sections, sampling="density", points=50, skin_points=20, mirror=True, small_faces=0.5)
    one, other = Resident(made, CPU), Resident(made, CPU)
    first = [one.make(step) for step in range(4)]
    assert_same(other.make(3), first[3])
    assert_same(next(other.ahead(2, 4)), first[2])
    assert not first[0].inputs.equal(first[1].inputs)
    heights = torch.cat([batch.inputs[..., 1].mean(1) for batch in first])
    assert heights.min() < 0 < heights.max(), "none was upside down"
    with Asked() as asked:
        one.make(5)
    assert asked.operations == [], "drawing waits for the device"


def test_a_resumed_run_is_the_same_run(sections: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setattr(loop, "resident_where_it_fits", lambda batches, device: Resident(batches, device))
    settings = [f"data.path={sections.folder}", "data.train=train", 'data.fields=["p","U","wallShearStress"]']
    settings += [f"model.{size}" for size in ("layers=1", "channels=16", "heads=2", "slices=4")]
    settings += [f"training.{size}" for size in ("points=64", "skin_points=32", "batch=2", "schedule=constant")]
    for out, lengths in {"straight": (6,), "resumed": (3, 6)}.items():
        for steps in lengths:
            recipe = read_recipe(RECIPE, [*settings, f"training.steps={steps}"])
            loop.train(recipe, tmp_path / out, resume=True, device="cpu")
    one, other = (load_file(tmp_path / out / "resume.safetensors") for out in ("straight", "resumed"))
    assert all(value.equal(other[key]) for key, value in one.items())


def test_they_live_there_where_there_is_room(sections: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    made = batches(sections, points=50)
    assert resident_where_it_fits(made, CPU) is made
    said: list[str] = []
    monkeypatch.setattr(resident, "feeders", lambda device: 4)
    monkeypatch.setattr(resident.console, "note", said.append)
    for free, way in {1e12: Resident, 1e4: Batches, float("inf"): Batches}.items():
        monkeypatch.setattr(resident, "free_memory", lambda device, free=free: free)
        assert type(resident_where_it_fits(made, CPU)) is way
    assert "live on the device" in said[0]
    assert "made ahead by 4 processes" in said[-1]


@pytest.mark.parametrize("kind", ["all", "rows", "density"])
def test_processes_that_share_points_read_their_own(
    halves: Dataset, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them together see the batch of one; each reads half of the rows of a field."""
    limits = {"all": {}, "rows": {"points": 90}, "density": {"points": 80, "skin_points": 60}}[kind]
    way = {"sampling": "density" if kind == "density" else "rows", "small_faces": 0.5} | limits
    one, parts = batches(halves, **way), [batches(halves, (rank, 2), **way) for rank in (0, 1)]
    whole, (first, second) = one.make(0), (part.make(0) for part in parts)
    assert first.skin == second.skin == whole.skin
    for i in range(2):
        for name in ("inputs", "targets", "surface", "weights", "defined"):
            shares = [getattr(part, name)[i][part.there[i]] for part in (first, second)]
            assert torch.cat(shares).equal(getattr(whole, name)[i][whole.there[i]]), name
    rows: list[int] = []
    plain = StoredArray.pick

    def counted(array: StoredArray, chosen: np.ndarray) -> np.ndarray:
        rows.append(len(chosen) if array.name.endswith("fields/p") else 0)
        return plain(array, chosen)

    monkeypatch.setattr(StoredArray, "pick", counted)
    for part, batch in zip(parts, (first, second), strict=True):
        rows.clear()
        part.make(0)
        assert sum(rows) == batch.there.sum()
        assert sum(rows) * 2 == pytest.approx(whole.there.sum().item(), abs=2)
