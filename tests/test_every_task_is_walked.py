"""Each of the eight tasks from the published files to the pictures: prepare, train, evaluate, predict, viz."""

from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
from PIL import Image
from published_sets import WRITERS
from typer.testing import CliRunner

from aerosurrogate.cli import app
from aerosurrogate.data.store import Dataset
from aerosurrogate.errors import InputError
from aerosurrogate.held_out import read_held_out
from aerosurrogate.viz import viz
from aerosurrogate.viz.cases import figure, in_space, moment, shown

RECIPES = Path(__file__).parents[1] / "recipes"
SMALL = ("channels=16", "layers=2", "heads=2", "slices=4")
FIELDS = {
    "airfrans": {"p", "U", "nut"},
    "shapenet_car": {"p", "U"},
    "elasticity": {"stress"},
    "plasticity": {"displacement"},
    "airfoil": {"mach"},
    "pipe": {"velocity"},
    "navier_stokes": {"frames"},
    "darcy": {"solution"},
}
TIMES = {"plasticity": 20, "navier_stokes": 10}


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module", params=sorted(WRITERS))
def walked(request, tmp_path_factory) -> tuple[str, Path]:
    """The folder of a task with its data, a run of a few steps and the held-out cases as files."""
    task, folder = request.param, tmp_path_factory.mktemp(request.param)
    WRITERS[task](folder / "raw")
    run("prepare", folder / "raw", "--out", folder / "data", "--jobs", 1, "-q")
    small = [word for key in SMALL for word in ("--set", f"model.{key}")]
    small += ["--set", f"data.path={folder / 'data'}", "--set", "training.batch=1", "--set", "training.steps=2"]
    run("train", RECIPES / f"{task}.toml", *small, "--out", folder / "run", "--device", "cpu", "-q")
    run("predict", folder / "data", "--split", "test", "--model", folder / "run", "--out", folder / "cases", "-q")
    return task, folder


def opened(folder: Path) -> Path:
    """The first file for a person to open."""
    return sorted(path for path in folder.iterdir() if path.is_file())[0]


def test_the_files_hold_truth_prediction_and_error(walked: tuple[str, Path]) -> None:
    task, folder = walked
    data = Dataset(folder / "data")
    files = sorted(path for path in (folder / "cases").iterdir() if path.is_file())
    assert [path.stem for path in files] == sorted(data.names("test"))
    held = read_held_out(files[0])
    case = data.case(files[0].stem)
    assert set(held.predicted) == FIELDS[task]
    assert held.steps == TIMES.get(task, 1)
    for name in FIELDS[task]:
        assert np.array_equal(held.case.fields[name], case.fields[name])
        assert held.predicted[name].shape == case.fields[name].shape
        assert np.isfinite(held.predicted[name]).all()
    assert held.case.grid == case.grid


def test_vtk_itself_reads_the_files(walked: tuple[str, Path]) -> None:
    task, folder = walked
    file = opened(folder / "cases")
    if task in TIMES:
        reader = pv.get_reader(file)
        assert list(reader.time_values) == list(range(TIMES[task]))
        reader.set_active_time_point(TIMES[task] - 1)
        mesh = reader.read()[0]
    else:
        mesh = pv.read(file)
    for name in FIELDS[task]:
        answer, true, error = (np.asarray(mesh.point_data[f"{name}{end}"]) for end in ("", "_true", "_error"))
        assert np.allclose(answer - true, error, atol=1e-5 * max(float(np.abs(true).max()), 1))
    if task not in ("airfrans", "shapenet_car", "elasticity"):
        assert isinstance(mesh, pv.StructuredGrid)
        assert mesh.n_cells > 0
    if task == "shapenet_car":
        assert mesh.extract_cells_by_type(pv.CellType.TRIANGLE).n_cells > 100  # the skin
    if task == "elasticity":  # no triangle bridges the hole
        centres = mesh.extract_cells_by_type(pv.CellType.TRIANGLE).cell_centers().points
        assert np.linalg.norm(centres[:, :2] - 0.5, axis=1).min() > 0.1


def test_evaluate_writes_the_same_files_by_the_way(walked: tuple[str, Path]) -> None:
    _, folder = walked
    run("evaluate", folder / "run", folder / "data", "--out", folder / "tables", "--fields", "-q")
    mine, theirs = opened(folder / "tables" / "cases_test"), opened(folder / "cases")
    assert mine.name == theirs.name
    one, other = read_held_out(mine), read_held_out(theirs)
    for name, values in one.predicted.items():
        assert np.allclose(values, other.predicted[name], rtol=1e-4, atol=1e-5)
    assert (folder / "tables" / "evaluation_test.csv").is_file()


def colours(path: Path) -> int:
    """How many colours a picture has: a blank one has few."""
    return len(np.unique(np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3) @ [1, 256, 65536]))


def test_files_and_runs_are_drawn(walked: tuple[str, Path], tmp_path: Path) -> None:
    task, folder = walked
    viz([opened(folder / "cases")], tmp_path / "case.png")
    viz([folder / "run"], tmp_path / "slices.png", kind="slices", layer=1)
    assert min(colours(tmp_path / f"{name}.png") for name in ("case", "slices")) > 300
    if task not in TIMES:
        viz([folder / "run"], tmp_path / "page.html", kind="error")
        text = (tmp_path / "page.html").read_text()
        assert "src='http" not in text
        assert 'src="http' not in text
    with pytest.raises(InputError, match="layers 1 to 2"):
        viz([folder / "run"], tmp_path / "x.png", kind="slices", layer=3)


def test_what_moves_or_lives_in_the_air_is_shown_as_such(walked: tuple[str, Path]) -> None:
    task, folder = walked
    held = read_held_out(opened(folder / "cases"))
    if task == "shapenet_car":  # on the skin the air stands still, but for round-off
        held.case.fields["U"][held.case.surface] += 1e-9
        assert in_space(shown(held, "p")) is not None
        assert in_space(shown(held, "U")) is None
        panel = moment(shown(held, "U"), 0).axes[0]
        plane = panel.collections[-1].get_array()
        assert 0.05 < np.ma.getmaskarray(plane).mean() < 0.6  # the body, which is left out
        assert plane.max() > 10  # m/s around it
    if task == "plasticity":  # a mesh that a bad model moves away is looked for within its true rim
        strip = figure(shown(held, None))
        rims = [axes.lines[0].get_xydata() for axes in strip.axes if axes.lines]
        assert len(rims) == 6
        assert np.ptp(rims[-1][:, 0]) == pytest.approx(50, rel=0.1)


def test_times_are_a_film_and_a_slider(walked: tuple[str, Path], tmp_path: Path) -> None:
    task, folder = walked
    file = opened(folder / "cases")
    if task not in TIMES:
        with pytest.raises(InputError, match="nothing moves"):
            viz([file], tmp_path / "film.gif")
        return
    viz([file], tmp_path / "film.gif")
    film = Image.open(tmp_path / "film.gif")
    assert film.n_frames == TIMES[task]
    first = np.asarray(film.convert("RGB")).astype(int)
    film.seek(TIMES[task] - 1)
    assert np.abs(np.asarray(film.convert("RGB")).astype(int) - first).max() > 50
    if task == "navier_stokes":
        viz([file], tmp_path / "page.html")
        text = (tmp_path / "page.html").read_text()
        assert text.count("data:image/png") == TIMES[task]
        assert f'max="{TIMES[task] - 1}"' in text
