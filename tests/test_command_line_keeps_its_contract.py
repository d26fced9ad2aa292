"""Help at once, errors in one paragraph with exit code 2, results alone on stdout."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.main import get_command

from aerosurrogate import __version__
from aerosurrogate.cli import app
from aerosurrogate.errors import InputError
from aerosurrogate.writing import alone_in, replacing

HEAVY = {"torch", "vtk", "vtkmodules", "pyvista", "meshio", "scipy", "pandas", "matplotlib", "plotly", "numpy"}
COMMANDS = sorted(get_command(app).commands)
DESIGN = {
    *("predict", "coeffs", "study", "viz", "serve", "check", "models"),
    *("prepare", "generate", "simulate", "recipes", "train", "evaluate", "experiment"),
    *("sensitivity", "improve"),
}


def run(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aerosurrogate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def test_a_damaged_file_of_vtk_is_one_message(tmp_path):
    (tmp_path / "a.vtp").write_bytes(b"<VTKFile garbage")
    for command in (["prepare", str(tmp_path), "--explain"], ["check", str(tmp_path / "a.vtp")]):
        result = run(*command)
        assert result.returncode == 2
        assert len(result.stderr.splitlines()) == 1
        assert "damaged" in result.stderr


def test_numpy_has_one_thread_unless_it_is_said_otherwise():
    code = "import os, sys; from aerosurrogate.cli import main; assert 'numpy' not in sys.modules"
    code += "\nsys.argv[1:] = ['--help']\ntry: main()\nfinally: print('threads', os.environ['OPENBLAS_NUM_THREADS'])"
    for said, threads in (({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")):
        bare = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
        words = [sys.executable, "-c", code]
        result = subprocess.run(words, capture_output=True, text=True, timeout=120, env={**bare, **said})
        assert result.stdout.endswith(f"threads {threads}\n"), result.stderr


def test_every_command_is_there():
    assert set(COMMANDS) == DESIGN


def test_names_to_choose_from_are_those_the_library_knows():
    """They stand twice, because --help imports nothing heavy."""
    from aerosurrogate import experiment, generate
    from aerosurrogate.cli.app import Units
    from aerosurrogate.cli.data import Generated
    from aerosurrogate.cli.training import Experiment
    from aerosurrogate.mesh.read import UNITS

    assert {str(kind) for kind in Generated} == set(generate.KINDS)
    assert {str(name) for name in Experiment} == set(experiment.NAMES)
    assert {str(unit) for unit in Units} == set(UNITS)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_loads_nothing_heavy_and_shows_an_example(command):
    code = (
        "import sys\n"
        "from aerosurrogate.cli import main\n"
        f"sys.argv = ['aerosurrogate'] + {[command] if command else []} + ['--help']\n"
        "try: main()\n"
        "finally: print('LOADED', *sorted({m.split('.')[0] for m in sys.modules}))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    loaded = set(result.stdout.rpartition("LOADED")[2].split())
    assert not loaded & HEAVY
    assert not command or f"aerosurrogate {command}" in result.stdout.partition("Example:")[2]


def test_version():
    assert run("--version").stdout.strip() == f"aerosurrogate {__version__}"


def test_a_shell_completes_commands():
    asked = {"_AEROSURROGATE_COMPLETE": "complete_bash", "COMP_WORDS": "aerosurrogate pre", "COMP_CWORD": "1"}
    script = Path(sys.executable).with_name("aerosurrogate")
    result = subprocess.run([script], capture_output=True, text=True, env={**os.environ, **asked}, timeout=60)
    assert sorted(result.stdout.split()) == ["predict", "prepare"]


def test_a_missing_file_is_one_paragraph_and_exit_code_2(tmp_path):
    result = run("predict", "nowhere.stl", "--out", "x.vtu", cwd=tmp_path)
    assert result.returncode == 2
    assert "nowhere.stl" in result.stderr
    assert "Traceback" not in result.stderr
    assert "\n\n" not in result.stderr.strip()
    assert result.stdout == ""
    assert not list(tmp_path.iterdir())


def test_writing_below_a_file_is_the_users_error(tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(InputError, match="cannot write"), replacing(tmp_path / "taken" / "out.vtu") as temporary:
        temporary.write_text("never")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize("command", ["generate elasticity --count 1", "experiment data"])
def test_a_file_in_the_place_of_a_folder_is_told_before_any_work(command, tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    result = run(*command.split(), "--out", str(tmp_path / "taken"))
    assert result.returncode == 2
    assert f"error: cannot write (File exists): {tmp_path / 'taken'}. To" in " ".join(result.stderr.split("\n"))
    assert (tmp_path / "taken").read_text() == "a file, not a folder"


def test_two_runs_do_not_write_into_one_folder(tmp_path):
    recipe = Path(__file__).parents[1] / "recipes" / "naca_rans.toml"
    with alone_in(tmp_path / "run"):
        result = run("train", str(recipe), "--out", str(tmp_path / "run"))
    assert result.returncode == 2
    assert "another run is writing into this folder" in result.stderr
    assert not (tmp_path / "run").exists()  # made for the lock alone
    with alone_in(tmp_path / "run"):
        (tmp_path / "run" / "kept").touch()
    assert (tmp_path / "run" / "kept").exists()


def test_debug_shows_where_an_error_came_from(tmp_path):
    result = run("predict", "nowhere.stl", "--out", "x.vtu", "--debug", cwd=tmp_path)
    assert "Traceback" in result.stderr


def test_a_wrong_option_is_the_users_error():
    assert run("predict", "--no-such-option").returncode == 2


def test_training_without_its_data_says_where_they_come_from(tmp_path):
    recipe = Path(__file__).parents[1] / "recipes" / "airfrans.toml"
    result = run("train", str(recipe), cwd=tmp_path)
    assert result.returncode == 2
    for part in ("GB", "aerosurrogate prepare", "naca_rans.toml"):
        assert part in result.stderr, part
    assert "Traceback" not in result.stderr


def test_json_is_all_there_is_on_stdout():
    result = run("models", "--json")
    assert result.returncode == 0, result.stderr
    json.loads(result.stdout)


def test_interrupting_leaves_no_half_written_file_and_exits_130(tmp_path):
    recipe = Path(__file__).parents[1] / "recipes" / "naca_rans.toml"
    command = [sys.executable, "-m", "aerosurrogate", "train", str(recipe), "--out", str(tmp_path / "run")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "log.jsonl").exists() and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume goes on" in said
    assert not [path for path in tmp_path.rglob("*") if ".part" in path.name]
