"""Real runs on tiny grids: the physics is right, forces are the solver's, a folder goes on, failures are listed."""

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from aerosurrogate import forces
from aerosurrogate.cli import app, main
from aerosurrogate.conditions import FlowAxes, StreamOptions
from aerosurrogate.data.store import Dataset, read_shard
from aerosurrogate.errors import InputError
from aerosurrogate.simulate import airfoils, driver, openfoam
from aerosurrogate.simulate.cgrid import Resolution
from aerosurrogate.simulate.spec import Design

needs_openfoam = pytest.mark.skipif(shutil.which("simpleFoam") is None, reason="needs OpenFOAM")


@pytest.fixture
def tiny(monkeypatch):
    """`fast` on a sixth of its cells."""
    monkeypatch.setitem(airfoils.MESHES, "fast", Resolution(28, 16, 28, far=100.0))


@needs_openfoam
def test_a_solution_that_wanders_is_averaged_and_says_so(tiny, monkeypatch, tmp_path):
    for name, value in {"ITERATIONS": 160, "AVERAGED": 40, "FLAT_DRAG": 0.0}.items():
        monkeypatch.setattr(airfoils, name, value)  # never flat: every solution counts as wandering
    design = Design("section", "airfoil", {"kind": "naca4", "naca": "naca0012"}, airfoils.air(3e6, 4.0))
    solution = airfoils.solve(design, tmp_path, "fast", cautious=False)
    case = solution.case
    assert solution.converged
    assert case.tags["averaged"] == "40 iterations"
    assert case.reference["cd"] == pytest.approx(solution.history["Cd"][-40:].mean(), rel=1e-12)
    skin = case.surface
    values = (case.points, case.normals, case.areas, case.fields["p"], case.fields["wallShearStress"])
    total = forces.integrate(*(array[skin] for array in values))
    ours = forces.coefficients(total, FlowAxes.two_dimensional(4.0), design.conditions, 1.0)
    assert ours.cd == pytest.approx(case.reference["cd"], rel=2e-3)  # the fields are the mean ones, too
    last = solution.history["Cd"][-1]
    assert abs(ours.cd - case.reference["cd"]) < 0.5 * abs(last - case.reference["cd"])


def test_a_mean_that_drifts_is_no_answer(monkeypatch):
    t = np.arange(1600.0)
    wandering = {"Cl": 1.0 + 0.1 * np.sin(t / 15), "Cd": 0.05 + 0.01 * np.sin(t / 15)}
    assert airfoils._steady_mean(wandering)
    assert not airfoils._steady_mean({**wandering, "Cd": wandering["Cd"] * (1 + t / 8000)})
    assert not airfoils._steady_mean({**wandering, "Cl": wandering["Cl"] * (1 + t / 20000)})


@needs_openfoam
def test_lift_drag_and_fields_are_those_of_an_airfoil(tiny, tmp_path):
    design = Design("section", "airfoil", {"kind": "naca4", "naca": "naca0012"}, airfoils.air(3e6, 4.0))
    solution = airfoils.solve(design, tmp_path, "fast", cautious=False)
    case, stream = solution.case, design.conditions
    assert solution.converged, solution.reason
    assert case.reference["cl"] == pytest.approx(0.44, rel=0.08)  # measured: 0.4365 at Reynolds 6 million
    assert 0.008 < case.reference["cd"] < 0.02  # measured 0.0081; a tiny grid adds to it
    assert abs(case.reference["cm"]) < 0.02  # a symmetric section's lift acts at a quarter of the chord

    skin = case.surface
    assert skin.sum() == 2 * 28
    values = (case.points, case.normals, case.areas, case.fields["p"], case.fields["wallShearStress"])
    total = forces.integrate(*(array[skin] for array in values), about=np.array([0.25, 0.0]))
    ours = forces.coefficients(total, FlowAxes.two_dimensional(4.0), stream, 1.0)
    assert ours.cl == pytest.approx(case.reference["cl"], rel=1e-4)
    assert ours.cd == pytest.approx(case.reference["cd"], rel=5e-4)
    assert ours.cm == pytest.approx(case.reference["cm"], abs=1e-4)
    assert ours.cd_friction == pytest.approx(case.reference["cd_friction"], rel=1e-4)
    assert 0 < case.reference["cd_friction"] < case.reference["cd"]

    assert case.fields["p"].max() / stream.dynamic_pressure == pytest.approx(1.0, abs=0.06)  # stagnation
    assert (case.fields["U"][skin] == 0).all()
    far = ~skin & (case.distance > 1.4)
    # So coarse a grid is 0.099 to 0.1 off, by when its solver is stopped.
    assert np.linalg.norm(case.fields["U"][far], axis=1) / stream.speed == pytest.approx(1.0, abs=0.15)
    assert (case.fields["wallShearStress"][~skin] == 0).all()
    around = case.points[~skin]
    assert (around >= [-2, -1.5]).all()
    assert (around <= [4, 1.5]).all()
    assert np.linalg.norm(case.normals, axis=1) == pytest.approx(1.0, abs=1e-5)
    back = around - case.distance[~skin, None] * case.normals[~skin]  # lies on the skin
    assert np.abs(back[:, 1]).max() < 0.061
    assert case.volumes[~skin].sum() == pytest.approx(6 * 3 - 0.082, rel=0.1)


@needs_openfoam
def test_a_folder_goes_on_and_keeps_what_happened(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(airfoils, "ITERATIONS", 150)
    monkeypatch.setattr(airfoils, "COARSE_ITERATIONS", 60)
    design = Design("one", "airfoil", {"kind": "naca4", "naca": "naca0015"}, airfoils.air(2e6, 0.0))
    task = driver.Task(design, "fast", tmp_path, driver.digest(design, "fast"))
    monkeypatch.setattr(airfoils, "FLAT_DRAG", 1.0)
    outcome = driver.solve_task(task)
    assert (outcome.state, outcome.tries) == ("converged", 1)
    run = tmp_path / "runs" / "one"
    assert sorted(path.name for path in run.iterdir()) == ["history.csv", "record.json"]
    history = np.genfromtxt(run / "history.csv", delimiter=",", names=True)
    assert history["Cd"][-1] == pytest.approx(outcome.reference["cd"], rel=1e-5)
    assert driver.recorded(tmp_path, task) == outcome
    tags = read_shard(tmp_path / "one.safetensors")[1]["one"]["tags"]
    assert (tags["fidelity"], tags["method"]) == ("fast", str(airfoils.METHOD)), "a case knows how it was solved"

    other = replace(design, conditions=airfoils.air(3e6, 0.0))
    with pytest.raises(InputError, match="another case"):
        driver.recorded(tmp_path, replace(task, design=other, digest=driver.digest(other, "fast")))
    with monkeypatch.context() as later:
        later.setattr(airfoils, "METHOD", airfoils.METHOD + 1)  # a later version meshes otherwise
        with pytest.raises(InputError, match="another case"):
            driver.recorded(tmp_path, replace(task, digest=driver.digest(design, "fast")))
    (tmp_path / "one.safetensors").unlink()
    assert driver.recorded(tmp_path, task) is None  # its data is lost: solved again

    monkeypatch.setattr(airfoils, "FLAT_DRAG", 0.0)  # nothing is ever flat
    restless = replace(design, name="two")
    failed = driver.solve_task(driver.Task(restless, "fast", tmp_path, driver.digest(restless, "fast")))
    assert (failed.state, failed.tries) == ("failed", 1)  # longer, not safer, is what it would need
    assert "unsteady" in failed.reason
    assert not (tmp_path / "two.safetensors").exists()
    logs = sorted(path.name for path in (tmp_path / "runs" / "two").glob("*log*"))
    assert logs == ["first.coarse.log.simpleFoam", "first.fine.log.simpleFoam"]


@needs_openfoam
def test_what_blows_up_is_tried_again_with_safer_settings(tiny, tmp_path, monkeypatch):
    def settings(case, stream, iterations, *, cautious, first_order):
        write(case, stream, iterations, cautious=cautious, first_order=first_order)
        if not cautious:  # as if every step were twice too long
            path = case / "system" / "fvSolution"
            path.write_text(path.read_text().replace("p 0.85", "p 1.9"))

    write = airfoils.write_settings
    monkeypatch.setattr(airfoils, "write_settings", settings)
    design = Design("one", "airfoil", {"kind": "naca4", "naca": "naca0015"}, airfoils.air(2e6, 0.0))
    outcome = driver.solve_task(driver.Task(design, "fast", tmp_path, driver.digest(design, "fast")))
    assert (outcome.state, outcome.tries) == ("converged", 2)
    assert outcome.reference["cl"] == pytest.approx(0.0, abs=2e-3)


@needs_openfoam
def test_a_crash_of_the_solver_is_told_in_its_own_words(tmp_path):
    openfoam.write_dictionary(tmp_path / "system" / "controlDict", {"application": "simpleFoam"})
    with pytest.raises(openfoam.SolverError, match=r"checkMesh failed: .*(deltaT|fvSchemes|polyMesh|cannot)"):
        openfoam.run(tmp_path, "checkMesh")


@needs_openfoam
def test_the_command_solves_a_name_once_and_makes_a_data_set(tmp_path):
    command = ["simulate", "naca2410", "--out", str(tmp_path), "--fidelity", "fast", "--alpha", "2", "--jobs", "1"]
    runner = CliRunner()
    first = runner.invoke(app, [*command, "--json"])
    assert first.exit_code == 0, first.output
    (case,) = json.loads(first.stdout)["cases"]
    assert case["state"] == "converged"
    assert case["reference"]["cl"] == pytest.approx(0.45, abs=0.05)  # thin-airfoil theory with 2 % camber: 0.47
    dataset = Dataset(tmp_path)
    assert dataset.names() == [case["name"]] == ["naca2410_62.4ms_2deg"]
    assert dataset.case(case["name"]).conditions.alpha == 2.0
    assert (tmp_path / f"{case['name']}.vtu").is_file()
    again = runner.invoke(app, [*command, "--json"])
    assert json.loads(again.stdout)["cases"] == [case]  # the very record: nothing was solved again


def solvers_in(folder: Path) -> list[str]:
    """Running processes that work somewhere in the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append((process / "comm").read_text().strip())
    return found


@needs_openfoam
@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs /proc to see other processes")
def test_a_driver_that_is_killed_leaves_no_solver_behind(tmp_path):
    command = [sys.executable, "-m", "aerosurrogate", "simulate", "naca0012", "--out", str(tmp_path / "run")]
    driver = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        assert within(60, lambda: "simpleFoam" in solvers_in(tmp_path))
        workers = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
    finally:
        driver.kill()
        driver.wait()
    # Soon: a worker that lives on would end by itself once its case is solved.
    assert within(4, lambda: not any(alive(worker) for worker in workers) and not solvers_in(tmp_path))


@needs_openfoam
def test_a_case_whose_process_died_is_told_and_can_be_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "over_processes", lambda work, tasks, *_: ((task, None) for task in tasks))
    (outcome,) = driver.simulate(["naca0012"], tmp_path, fidelity="fast")
    assert outcome.state == "failed"
    assert "memory" in outcome.reason
    assert not list(tmp_path.glob("runs/*/record.json"))


def alive(process: str) -> bool:
    """Whether a process runs, or sleeps; one that only waits to be counted as dead does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def within(seconds: float, true: Callable[[], bool]) -> bool:
    """Whether something comes true in time."""
    end = time.monotonic() + seconds
    while not (came := true()) and time.monotonic() < end:
        time.sleep(0.1)
    return came


def test_without_openfoam_the_command_names_the_one_that_installs_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="apt-get install openfoam"):
        driver.simulate(["naca0012"], tmp_path / "out")
    monkeypatch.setattr("sys.argv", ["aerosurrogate", "simulate", "naca0012", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "apt-get install openfoam" in capsys.readouterr().err


@needs_openfoam
def test_what_cannot_be_meant_is_refused(tmp_path):
    def simulate(*sources, **options):
        return driver.simulate(list(sources), tmp_path / "out", **options)

    with pytest.raises(InputError, match="--count"):
        simulate("naca0012", count=3)
    with pytest.raises(InputError, match="--first"):
        simulate("naca0012", first=3)
    with pytest.raises(InputError, match="no case is left"):
        simulate(str(Path(__file__).parents[1] / "specs" / "example.toml"), first=3)
    with pytest.raises(InputError, match="stands alone"):
        simulate("one.toml", "two.toml")
    with pytest.raises(InputError, match="same name"):
        simulate("a/x.dat", "b/x.dat")
    with pytest.raises(InputError, match="superb"):
        simulate("naca0012", fidelity="superb")
    with pytest.raises(InputError, match="no such file"):
        simulate("missing.stl")
    with pytest.raises(InputError, match="disagree"):
        simulate("naca0012", stream=StreamOptions(speed=10.0, reynolds=6e6))
