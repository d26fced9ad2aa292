"""What a wheel installs, away from the checkout, has its models, recipes and specs, and says where data are."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with the unpacked wheel, as pip would lay it into site-packages."""
    pytest.importorskip("hatchling", reason="needs hatchling, which the test extra installs")
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    ignored = shutil.ignore_patterns(".*", "datasets", "runs", "out", "tests", "benchmarks", "__pycache__")
    shutil.copytree(ROOT, source, ignore=ignored)
    build = f"import hatchling.build; hatchling.build.build_wheel(r'{place}')"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    wheel = next(place.glob("aerosurrogate-*.whl"))
    shutil.unpack_archive(wheel, place / "site", "zip")
    shutil.rmtree(source)
    return place / "site"


def run(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    line = [sys.executable, "-m", "aerosurrogate", *arguments]
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_models_recipes_and_types_are_inside(installed, tmp_path):
    where = subprocess.run(
        [sys.executable, "-c", "import aerosurrogate; print(aerosurrogate.__file__)"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(installed)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert where.stdout.startswith(str(installed))
    assert (installed / "aerosurrogate" / "py.typed").is_file()
    assert {m["name"] for m in json.loads(run(installed, tmp_path, "models", "--json").stdout)["models"]} >= {
        "airfoil",
        "car",
    }
    files = json.loads(run(installed, tmp_path, "recipes", "--json").stdout)["files"]
    assert {(f["kind"], f["name"]) for f in files} == {
        (kind, path.stem) for kind in ("recipes", "specs") for path in (ROOT / kind).glob("*.toml")
    }


def test_a_shape_is_ranked_from_the_wheel(installed, tmp_path):
    page = tmp_path / "ranking.html"  # styles and scripts come from the wheel too
    shape = str(ROOT / "sample_meshes" / "naca_2412.dat")
    answer = run(installed, tmp_path, "coeffs", shape, "--json", "--report", str(page))
    assert answer.returncode == 0, answer.stderr
    assert page.stat().st_size > 10_000
    assert json.loads(answer.stdout)["designs"][0]["model"] == "airfoil"


def test_a_recipe_by_name_says_where_its_data_come_from(installed, tmp_path):
    missing = run(installed, tmp_path, "train", "naca_rans")
    assert missing.returncode == 2
    assert "data set is not there" in missing.stderr
    assert "Traceback" not in missing.stderr
    unknown = run(installed, tmp_path, "train", "naca_ran")
    assert unknown.returncode == 2
    assert "did you mean naca_rans?" in unknown.stderr


def test_a_recipe_finds_its_data_in_the_folder_one_works_in(installed, tmp_path):
    (tmp_path / "datasets" / "naca_rans").mkdir(parents=True)
    (tmp_path / "datasets" / "naca_rans" / "manifest.json").write_text("{}")
    damaged = run(installed, tmp_path, "train", "naca_rans")
    assert damaged.returncode == 2
    assert str(tmp_path / "datasets" / "naca_rans") in damaged.stderr


def test_a_recipe_is_copied_to_be_changed_and_never_over_another(installed, tmp_path):
    assert run(installed, tmp_path, "recipes", "road_rans", "--copy").returncode == 0
    assert (tmp_path / "road_rans.toml").read_text() == (ROOT / "recipes" / "road_rans.toml").read_text()
    again = run(installed, tmp_path, "recipes", "road_rans", "--copy")
    assert again.returncode == 2
    assert "already" in again.stderr
