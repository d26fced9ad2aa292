"""Every shell command in the README runs, and every command and option is documented."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from published_sets import write_shapenet_car
from typer.main import get_command

from aerosurrogate.cli import app
from aerosurrogate.data.prepare import prepare

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
# Commands that install or test, or start one process a GPU: they are run by make itself and by the tests of training.
ELSEWHERE = ("make ", "git ", "cd ", "pip ", "torchrun ", "apt-get ")
COMMANDS = [
    line.strip()
    for block in re.findall(r"```sh\n(.*?)```", README, re.S)
    for line in block.splitlines()
    if line.strip() and not line.startswith(("#", *ELSEWHERE))
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder that looks like a fresh clone to relative paths, for outputs to go to."""
    place = tmp_path_factory.mktemp("clone")
    for name in ("sample_meshes", "recipes", "datasets", "specs"):
        (place / name).symlink_to(ROOT / name)
    return place


def test_readme_commands_run_in_order_as_they_stand(folder):
    assert len(COMMANDS) >= 6
    bin = str(Path(sys.executable).parent)
    for line in COMMANDS:
        command, _, mark = line.partition("  # ")
        # What needs data has none here; what needs the solver does not find it, whether it is installed or not.
        path = bin if mark.startswith("needs") else f"{bin}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "COLUMNS": "140"}
        result = subprocess.run(
            command, shell=True, cwd=folder, capture_output=True, text=True, timeout=300, env=environment
        )
        if mark.startswith("needs"):
            assert result.returncode == 2, f"{command}\n{result.stderr}"
            assert "Traceback" not in result.stderr
            assert "To fix it" in result.stderr
        else:
            assert result.returncode == 0, f"{command}\n{result.stderr}"
        if command == COMMANDS[0]:  # the table that stands below it
            shown = [row for row in README.splitlines() if row.startswith("│ ") and "design" not in row]
            printed = [row for row in result.stdout.splitlines() if row.startswith("│ ")]
            assert len(shown) >= 4
            for one, other in zip(shown, printed, strict=False):
                assert one.split()[1] == other.split()[1]
                for digits, near in ((r"-?\d+\.\d+", 0.002), (r"(?<![\d.])-?\d+(?![\d.])", 2)):  # machines round apart
                    numbers = [[float(n) for n in re.findall(digits, row.split("│", 2)[2])] for row in (one, other)]
                    assert numbers[0] == pytest.approx(numbers[1], abs=near), f"{one}\n{other}"


def test_the_snippet_in_python_runs_as_it_stands(folder):
    (snippet,) = re.findall(r"```python\n(.*?)```", README, re.S)
    result = subprocess.run([sys.executable, "-c", snippet], cwd=folder, capture_output=True, text=True, timeout=300)
    assert (result.returncode, result.stderr) == (0, "")
    assert "naca2412" in result.stdout


@pytest.mark.slow
def test_the_line_for_several_processes_runs_on_data_in_the_published_form(folder, tmp_path):
    line = next(line for line in README.splitlines() if line.startswith("torchrun "))
    prepare([write_shapenet_car(tmp_path / "training_data", 8)], tmp_path / "set", format="shapenet-car", jobs=1)
    # As it stands but for its size: two processes, a small model, three steps, and where the data are.
    small = (
        "--set training.steps=3 --set model.layers=1 --set model.channels=16 --set model.heads=2 --set model.slices=4"
    )
    recipe = tmp_path / "shapenet_car.toml"
    recipe.write_text(re.sub("^epochs = .*$", "", (ROOT / "recipes" / "shapenet_car.toml").read_text(), flags=re.M))
    command = line.replace("--nproc-per-node 4", "--nproc-per-node 2")
    command = f"{command.replace('recipes/shapenet_car.toml', str(recipe))} {small} --set data.path={tmp_path / 'set'}"
    bin = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}
    words = [*shlex.split(command), "--out", str(tmp_path / "run"), "--device", "cpu"]
    result = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, env=environment)
    assert result.returncode == 0, f"{command}\n{result.stderr}"
    assert (tmp_path / "run" / "best.safetensors").is_file() or (tmp_path / "run" / "last.safetensors").is_file()


def test_recipe_keys_are_documented_as_the_types_have_them():
    spec = importlib.util.spec_from_file_location("recipe_keys", ROOT / "docs" / "recipe_keys.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert (ROOT / "docs" / "recipe.md").read_text() == made.page(), "run: python docs/recipe_keys.py"
    for table, keys in {name: [key for key, *_ in made.keys(kind)] for name, kind in made.TABLES.items()}.items():
        assert set(made.TABLES[table].model_fields) == set(keys)
    assert all(meaning for kind in made.TABLES.values() for *_, meaning in made.keys(kind))


def test_files_the_readme_shows_are_there():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target


@pytest.mark.parametrize("name", sorted(get_command(app).commands))
def test_each_option_is_documented(name):
    text = (ROOT / "docs" / "commands.md").read_text()
    section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.S | re.M)
    assert section, name
    for parameter in get_command(app).commands[name].params:
        for option in parameter.opts:
            if option.startswith("--") and option != "--help":
                assert f"`{option}" in section[1] or f"`{option}" in text.partition("\n## ")[0], f"{name} {option}"
    documented = set(re.findall(r"`(--[a-z-]+)", section[1]))
    assert documented <= {o for p in get_command(app).commands[name].params for o in (*p.opts, *p.secondary_opts)}


def test_examples_in_help_are_whole_commands():
    for name, command in get_command(app).commands.items():
        example = re.search(r"Example: `(.+?)`", command.help or "")
        assert example, name
        assert shlex.split(example[1])[:2] == ["aerosurrogate", name]
