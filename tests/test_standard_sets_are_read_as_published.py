"""The six standard sets, from files with the published names and axis orders, as .npy, MATLAB v5 and v7.3."""

import contextlib

import h5py
import numpy as np
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st

from aerosurrogate.data.prepare import prepare
from aerosurrogate.data.readers import FORMATS, Options, arrays, reader_of, recognise
from aerosurrogate.data.store import Dataset
from aerosurrogate.errors import InputError


def read_all(source, format=None, options=None):
    """Every case of a source without prepare: {name: Case}."""
    format, options = format or recognise(source), options or Options()
    reader = reader_of(format)
    found = {n: reader.read(b, n, options) for b in reader.batches(source, options) for n in b.names}
    return found, reader.splits(source, {name: {} for name in found})


def save_v73(path, **variables):
    """As MATLAB writes it: a 512-byte block of text, then HDF5 with the axes in reverse."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in variables.items():
            file[name] = np.asarray(values).T
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def save_v5(path, **variables):
    scipy.io.savemat(path, variables)


def test_elasticity_has_its_samples_along_the_last_axis(tmp_path):
    rng = np.random.default_rng(0)
    stress, places = rng.random((97, 12)), rng.random((97, 2, 12))
    np.save(tmp_path / "Random_UnitCell_sigma_10.npy", stress)
    np.save(tmp_path / "Random_UnitCell_XY_10.npy", places)
    cases, splits = read_all(tmp_path)
    assert recognise(tmp_path) == "elasticity"
    case = cases["elasticity-train-0003"]
    assert np.array_equal(case.points, places[:, :, 3].astype(np.float32))
    assert np.array_equal(case.fields["stress"][:, 0], stress[:, 3].astype(np.float32))
    assert case.grid is None
    assert splits["test"] == ["elasticity-test-0010", "elasticity-test-0011"]


def test_published_sizes_give_the_published_splits():
    assert arrays.published(2000, 1000, 200) == {"train": range(1000), "test": range(1800, 2000)}  # elasticity
    assert arrays.published(987, 900, 80) == {"train": range(900), "test": range(907, 987)}  # plasticity
    assert arrays.published(2490, 1000, 200, test_start=1000)["test"] == range(1000, 1200)  # airfoil
    assert arrays.published(2310, 1000, 200, test_start=1000)["test"] == range(1000, 1200)  # pipe: last 200 of 1200
    assert arrays.published(1200, 1000, 200) == {"train": range(1000), "test": range(1000, 1200)}  # navier-stokes


@pytest.mark.parametrize("save", [save_v5, save_v73])
def test_plasticity_keeps_positions_and_values_together(tmp_path, save):
    n, nx, ny = 6, 11, 5
    i, x, y, t, c = np.meshgrid(*(np.arange(k) for k in (n, nx, ny, 20, 4)), indexing="ij")
    die = np.random.default_rng(0).random((n, nx))
    save(
        tmp_path / "plas_N987_T20.mat",
        input=die,
        output=1000.0 * i + 10 * x / (nx - 1) + y / (ny - 1) + 100 * t + 5e3 * c,
    )
    cases, splits = read_all(tmp_path)
    case = cases["plasticity-train-0002"]
    assert case.grid == (nx, ny)
    assert case.fields["displacement"].shape == (nx * ny, 80)
    along, across = case.points.T
    for step, channel in ((0, 0), (7, 3), (19, 2)):
        expected = 2000 + 10 * along + across + 100 * step + 5e3 * channel
        assert np.allclose(case.fields["displacement"][:, 4 * step + channel], expected, rtol=1e-5)
    assert np.allclose(case.features["die"][:, 0], die[2][np.round(along * (nx - 1)).astype(int)])
    assert splits["test"] == ["plasticity-test-0005"]


def test_airfoil_takes_the_mach_number_and_pipe_the_horizontal_velocity(tmp_path):
    rng = np.random.default_rng(0)
    for prefix, name, channels, field, channel in (
        ("NACA_Cylinder", "airfoil", 5, "mach", 4),
        ("Pipe", "pipe", 3, "velocity", 0),
    ):
        folder = tmp_path / name
        folder.mkdir()
        x, y, q = rng.random((10, 7, 5)), rng.random((10, 7, 5)), rng.random((10, channels, 7, 5))
        for letter, values in zip("XYQ", (x, y, q), strict=True):
            np.save(folder / f"{prefix}_{letter}.npy", values)
        assert recognise(folder) == name
        case = read_all(folder)[0][f"{name}-train-0004"]
        assert case.grid == (7, 5)
        assert np.array_equal(case.points.reshape(7, 5, 2)[..., 0], x[4].astype(np.float32))
        assert np.array_equal(case.points.reshape(7, 5, 2)[..., 1], y[4].astype(np.float32))
        assert np.array_equal(case.fields[field].reshape(7, 5), q[4, channel].astype(np.float32))


@pytest.mark.parametrize("save", [save_v5, save_v73])
def test_navier_stokes_gives_ten_frames_and_asks_for_ten(tmp_path, save):
    u = np.random.default_rng(0).random((5, 8, 8, 20))
    save(tmp_path / "NavierStokes_V1e-5_N1200_T20.mat", u=u)
    case = read_all(tmp_path)[0]["navier-stokes-test-0004"]
    assert np.allclose(case.features["frames"].reshape(8, 8, 10), u[4, ..., :10])
    assert np.allclose(case.fields["frames"].reshape(8, 8, 10), u[4, ..., 10:])
    assert np.allclose(case.points.reshape(8, 8, 2)[3, 5], [3 / 7, 5 / 7])


@pytest.mark.parametrize("save", [save_v5, save_v73])
def test_darcy_trains_on_the_first_file_and_tests_on_the_second(tmp_path, save):
    rng = np.random.default_rng(0)
    train, test = rng.random((3, 421, 421)), rng.random((2, 421, 421))
    save(tmp_path / "piececonst_r421_N1024_smooth1.mat", coeff=train, sol=train + 1)
    save(tmp_path / "piececonst_r421_N1024_smooth2.mat", coeff=test, sol=test + 1)
    cases, splits = read_all(tmp_path)
    case = cases["darcy-test-0001"]
    assert case.grid == (85, 85)
    assert np.allclose(case.features["coefficient"].reshape(85, 85), test[1, ::5, ::5])
    assert np.allclose(case.fields["solution"].reshape(85, 85), test[1, ::5, ::5] + 1)
    assert np.allclose(case.points[-1], 1)
    assert {split: len(names) for split, names in splits.items()} == {"train": 3, "test": 2}
    coarse = read_all(tmp_path, options=Options(every=10))[0]["darcy-train-0000"]
    assert coarse.grid == (43, 43)


def test_the_real_darcy_of_neuraloperator_is_prepared_whole(shared_data, tmp_path):
    summary = prepare([shared_data / "darcy16"], tmp_path / "out", jobs=2)
    with np.load(shared_data / "darcy16" / "darcy16.npz") as truth:
        case = Dataset(tmp_path / "out").case("darcy-test-0049")
        assert np.array_equal(case.fields["solution"].reshape(16, 16), truth["test_y"][49])
        assert np.array_equal(case.features["coefficient"].reshape(16, 16), truth["test_x"][49])
        every = np.concatenate([truth["train_y"], truth["test_y"]])
    assert (len(summary.manifest.splits["train"]), len(summary.manifest.splits["test"])) == (1000, 50)
    entry = summary.manifest.fields["solution"]
    assert np.allclose([entry["mean"][0], entry["std"][0]], [every.mean(), every.std()], rtol=1e-5)
    assert [entry["min"][0], entry["max"][0]] == [every.min(), every.max()]


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "lie", "pickle", "wrong shape", "missing"])
def test_a_damaged_array_file_is_named(tmp_path, damage):
    np.save(tmp_path / "Random_UnitCell_sigma_10.npy", np.zeros((97, 12)))
    path = tmp_path / "Random_UnitCell_XY_10.npy"
    np.save(path, np.zeros((97, 2, 12)))
    data = path.read_bytes()
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "text":
        path.write_text("not an array")
    elif damage == "cut":
        path.write_bytes(data[:-100])
    elif damage == "lie":
        path.write_bytes(data.replace(b"(97, 2, 12)", b"(97,2,99999999999999)"[:11].ljust(11)))
    elif damage == "pickle":
        np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    elif damage == "wrong shape":
        np.save(path, np.zeros((97, 3, 12)))
    else:
        path.unlink()
    with pytest.raises(InputError, match="XY_10"):
        reader_of("elasticity").batches(tmp_path, Options())


@pytest.mark.parametrize(
    "content", [b"", b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM" + b"\xff" * 64, b"\x89HDF\r\n\x1a\n"]
)
def test_a_damaged_mat_file_is_named(tmp_path, content):
    (tmp_path / "NavierStokes_V1e-5_N1200_T20.mat").write_bytes(content)
    with pytest.raises(InputError, match="NavierStokes"):
        reader_of("navier-stokes").batches(tmp_path, Options())


@settings(max_examples=60, deadline=10_000)
@given(data=st.data())
def test_changed_bytes_in_an_array_file_never_raise_anything_but_a_message(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("changed")
    path = folder / "NavierStokes_V1e-5_N1200_T20.mat"
    save_v73(path, u=np.ones((5, 4, 4, 20)))
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=8)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    arrays.block.cache_clear()
    with contextlib.suppress(InputError):
        read_all(folder, "navier-stokes")


def test_a_file_that_crashes_its_library_does_not_crash_prepare(tmp_path):
    """Damaged v5 files can end a process inside scipy: what comes back is a message all the same."""
    rng = np.random.default_rng(1)
    path = tmp_path / "NavierStokes_V1e-5_N1200_T20.mat"
    save_v5(path, u=rng.random((5, 8, 8, 20)))
    sound = path.read_bytes()
    for _ in range(10):
        content = bytearray(sound)
        for place in rng.integers(0, 300, 5):
            content[place] = rng.integers(256)
        path.write_bytes(content)
        with contextlib.suppress(InputError):
            prepare([tmp_path], tmp_path / "out", format="navier-stokes", jobs=1)


def test_values_that_are_not_finite_leave_out_that_sample_only(tmp_path):
    u = np.random.default_rng(0).random((5, 8, 8, 20))
    u[1, 2, 3, 4] = np.nan
    save_v5(tmp_path / "NavierStokes_V1e-5_N1200_T20.mat", u=u)
    summary = prepare([tmp_path], tmp_path / "out", jobs=1)
    assert list(summary.failures) == ["navier-stokes-train-0001"]
    assert "not finite" in summary.failures["navier-stokes-train-0001"]
    assert len(summary.manifest.cases) == 4


def test_every_format_the_command_offers_has_a_reader():
    from aerosurrogate.cli.data import Format

    assert {str(f) for f in Format} - {"auto"} == set(FORMATS) - {"dataset"}
    for format in FORMATS:
        assert reader_of(format).VERSION >= 1
