"""The store gives back what was written, part or whole, and never damaged rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Case
from aerosurrogate.data.statistics import add_up, table
from aerosurrogate.data.store import BLOCK, Dataset, Manifest, read_moments, shuffled, write_manifest, write_shard
from aerosurrogate.errors import InputError


def make_case(n: int = 3 * BLOCK + 17, name: str = "one") -> Case:
    rng = np.random.default_rng(1)
    points = rng.normal(size=(n, 3)).astype(np.float32)
    return Case(
        name=name,
        points=points,
        surface=rng.random(n) < 0.2,
        normals=points,
        areas=rng.random(n).astype(np.float32),
        fields={"p": rng.normal(size=(n, 1)).astype(np.float32), "U": points * 2},
        conditions=Conditions(20.0, 4.0, ground=True),
        reference={"cd": 0.3},
        tags={"kind": "estate"},
    )


@pytest.fixture
def stored(tmp_path):
    case = make_case()
    entries = write_shard(tmp_path / "a.safetensors", [case])
    write_manifest(tmp_path, Manifest(cases=entries, splits={"train": ["one"]}))
    return tmp_path, case


def test_a_case_comes_back_equal(stored):
    folder, case = stored
    back = Dataset(folder).case("one")
    for key, array in case.arrays().items():
        assert np.array_equal(array, back.arrays()[key]), key
    assert (back.conditions, back.reference, back.tags) == (case.conditions, case.reference, case.tags)


def test_a_split_without_cases_is_refused_with_those_that_have_some(stored):
    dataset = Dataset(stored[0])
    dataset.manifest.splits["test"] = []
    assert dataset.names("train") == ["one"]
    with pytest.raises(InputError, match=r"no case .* test.*choose one of train"):
        dataset.names("test")


def test_rows_come_back_in_the_order_asked(stored):
    folder, case = stored
    rows = np.array([5, BLOCK + 3, 0])
    part = Dataset(folder).case("one", rows)
    assert np.array_equal(part.fields["p"], case.fields["p"][rows])


def test_one_flipped_byte_is_reported_by_name_and_only_where_it_lies(stored):
    folder, _ = stored
    path = folder / "a.safetensors"
    data = bytearray(path.read_bytes())
    value = Dataset(folder).array("one", "fields/p").array[BLOCK + 5].tobytes()
    data[data.index(value)] ^= 1
    path.write_bytes(data)
    fresh = Dataset(folder).array("one", "fields/p")
    fresh.rows(0, BLOCK)  # the sound block is still served
    with pytest.raises(InputError, match="fields/p"):
        fresh.rows(BLOCK, BLOCK + 10)


def test_a_truncated_file_is_never_used(stored):
    folder, _ = stored
    path = folder / "a.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="cut off"):
        Dataset(folder).case("one")


def test_a_data_file_that_is_not_the_manifests_is_refused(stored):
    folder, case = stored
    other = Case(**{**case.__dict__, "fields": {**case.fields, "p": case.fields["p"] + 1}})
    write_shard(folder / "a.safetensors", [other])
    with pytest.raises(InputError, match="not the one its manifest describes"):
        Dataset(folder).case("one")


@pytest.mark.parametrize("damage", [b"", b"\xff" * 20, b"\x02" + b"\0" * 7 + b"{}"])
def test_nonsense_in_place_of_a_data_file_is_reported(stored, damage):
    folder, _ = stored
    (folder / "a.safetensors").write_bytes(damage)
    with pytest.raises(InputError, match="damaged data file a"):
        Dataset(folder).case("one")


@settings(max_examples=150, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255), in_header=st.booleans())
def test_no_changed_byte_ever_changes_what_is_read(tmp_path_factory, place, flip, in_header):
    folder = tmp_path_factory.mktemp("store")
    case = shuffled(make_case(300), seed=0)
    write_manifest(folder, Manifest(cases=write_shard(folder / "a.safetensors", [case])))
    data = bytearray((folder / "a.safetensors").read_bytes())
    span = 8 + int.from_bytes(data[:8], "little") if in_header else len(data)
    data[int(place * span)] ^= flip
    (folder / "a.safetensors").write_bytes(data)
    try:
        back = Dataset(folder).case("one")
    except InputError:
        return
    for key, array in case.arrays().items():
        assert np.array_equal(array, back.arrays()[key]), key


def test_rows_of_zeros_take_no_space_and_come_back(tmp_path):
    case = shuffled(make_case(40_000), seed=0)
    skin = case.surface[:, None]
    shear = np.where(skin, case.points, 0).astype(np.float32)
    case = Case(**{**case.__dict__, "areas": case.areas * case.surface, "distance": np.float32(1) - case.surface})
    case = Case(**{**case.__dict__, "fields": {"wallShearStress": shear, "U": case.points * ~skin}})
    write_manifest(tmp_path, Manifest(cases=write_shard(tmp_path / "a.safetensors", [case])))
    stored, n = Dataset(tmp_path), int(case.surface.sum())
    assert len(stored.array("one", "fields/wallShearStress").array) == n
    assert len(stored.array("one", "distance").array) == 40_000 - n
    rows = np.array([39_999, 0, n, n - 1, 5])
    for key, array in case.arrays().items():
        back = stored.array("one", key)
        assert np.array_equal(back.rows(0, 40_000), array), key
        assert np.array_equal(back.rows(n - 7, n + 9), array[n - 7 : n + 9]), key
        assert np.array_equal(back.rows(n + 5, n + 9), array[n + 5 : n + 9]), key
        assert np.array_equal(back.pick(rows), array[rows]), key


def test_moments_of_shards_add_up_to_the_statistics_of_all(tmp_path):
    cases = [make_case(300, "a"), make_case(200, "b")]
    sums = {}
    for case in cases:
        write_shard(tmp_path / f"{case.name}.safetensors", [case])
        sums = add_up([sums, read_moments(tmp_path / f"{case.name}.safetensors")])
    p = np.concatenate([case.fields["p"] for case in cases])
    entry = table(sums)["p"]
    assert entry["unit"] == "Pa"
    assert np.allclose([entry["mean"], entry["std"]], [p.mean(0, np.float64), p.std(0, dtype=np.float64)], rtol=1e-6)
    assert [entry["min"][0], entry["max"][0]] == [p.min(), p.max()]


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"schema": 7}', '{"schema": 1, "colour": "red"}'])
def test_a_manifest_that_makes_no_sense_is_reported(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError, match="prepare again"):
        Dataset(tmp_path)


def test_two_bytes_a_number_keep_positions_areas_and_fields(tmp_path):
    case = shuffled(make_case(30_000), seed=0)
    case = Case(**{**case.__dict__, "points": case.points + np.float32(1000), "areas": case.areas * case.surface})
    write_manifest(tmp_path, Manifest(cases=write_shard(tmp_path / "h.safetensors", [case], half=True)))
    stored = Dataset(tmp_path)
    back, rows = stored.case("one"), np.array([29_999, 0, 17])
    for key in ("points", "areas"):
        array, again = getattr(case, key), getattr(back, key)
        assert stored.array("one", key).array.dtype.itemsize == 2
        assert np.abs(again - array).max() < 0.51 / 65_535 * np.ptp(array, axis=0).max() + np.spacing(
            np.abs(array).max()
        )
        assert np.array_equal(stored.array("one", key).pick(rows), again[rows])
    assert np.array_equal(back.areas == 0, case.areas == 0)
    assert np.allclose(back.fields["p"], case.fields["p"], rtol=1e-3)
    force, kept = ((c.fields["p"] * c.normals * c.areas[:, None]).sum(0) for c in (case, back))
    assert np.abs(kept - force).max() < 1e-3 * np.abs(case.fields["p"][:, 0] * case.areas).sum()


def test_the_steps_of_a_shard_are_guarded_too(tmp_path):
    write_manifest(
        tmp_path, Manifest(cases=write_shard(path := tmp_path / "h.safetensors", [make_case(50)], half=True))
    )
    data = path.read_bytes()
    at = data.index(b"1", data.index(b"scales"))
    path.write_bytes(data[:at] + b"2" + data[at + 1 :])
    with pytest.raises(InputError, match="header was changed"):
        Dataset(tmp_path).case("one")


def test_shuffling_puts_the_skin_first_and_keeps_connectivity():
    case = make_case(50)
    skin = np.flatnonzero(case.surface)
    case = Case(**{**case.__dict__, "cells": np.stack([skin[:-1], skin[1:]], 1).astype(np.int32)})
    mixed = shuffled(case, seed=3)
    assert mixed.surface[: len(skin)].all()
    assert not mixed.surface[len(skin) :].any()
    assert np.array_equal(mixed.points[mixed.cells], case.points[case.cells])


def test_a_half_body_mirrors_into_a_whole_without_side_force():
    case = make_case(200)
    half = Case(**{**case.__dict__, "symmetry": "y"})
    whole = half.whole()
    force = (-whole.fields["p"] * whole.normals * whole.areas[:, None]).sum(0)
    one = (-half.fields["p"] * half.normals * half.areas[:, None]).sum(0)
    assert np.allclose(force[[0, 2]], 2 * one[[0, 2]], rtol=1e-4)
    assert abs(force[1]) < 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fields": {"p": np.zeros((3, 1), np.float32)}}, "one row a point"),
        ({"fields": {"p": np.full((10, 1), np.nan, np.float32)}}, "not finite"),
        ({"fields": {"U": np.zeros((10, 2), np.float32)}}, "3 components"),
        ({"areas": np.full(10, -1, np.float32)}, "none negative"),
        ({"distance": np.zeros((10, 1), np.float32)}, "one number a point"),
        ({"surface": np.zeros(10, np.float32)}, "True or False"),
        ({"grid": (3, 3)}, "grid"),
        ({"cells": np.array([[0, 10]], np.int32)}, "cells"),
    ],
)
def test_an_impossible_case_is_rejected_with_its_name(change, message):
    with pytest.raises(InputError, match=message) as caught:
        Case(**{**make_case(10).__dict__, **change})
    assert "one" in str(caught.value)
