"""The tutorial's commands run in order as they stand; pages of the site exist and their links lead somewhere; the list
of `make mutants` names lines that are there."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = {"reference.md"}  # by `make docs`, from the program itself


def test_the_tutorial_runs_from_start_to_end(tmp_path):
    for name in ("sample_meshes", "recipes", "datasets", "specs"):
        (tmp_path / name).symlink_to(ROOT / name)
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / "tutorial.md").read_text(), re.S)
    lines = [line for block in blocks for line in block.strip().splitlines()]
    assert len(lines) >= 8
    binaries = str(Path(sys.executable).parent)
    for line in lines:
        command, _, mark = line.partition("  # ")
        path = binaries if mark.startswith("needs") else f"{binaries}{os.pathsep}{os.environ['PATH']}"
        result = subprocess.run(
            command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=300,
            env={**os.environ, "PATH": path},
        )  # fmt: skip
        assert result.returncode == (2 if mark.startswith("needs") else 0), f"{line}\n{result.stderr}"
    assert (tmp_path / "ranking.html").stat().st_size > 100_000
    assert (tmp_path / "boat_tail.png").stat().st_size > 10_000


def test_pages_of_the_site_exist_and_link_to_what_is_there():
    pages = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    there = {path.name for path in DOCS.glob("*.md")}
    assert pages - GENERATED == there - GENERATED
    for page in there - GENERATED:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (DOCS / page).read_text()):
            assert target in GENERATED or (DOCS / target).exists(), f"{page}: {target}"


def test_every_fault_of_the_mutants_can_still_be_planted():
    for mutant in tomllib.loads((ROOT / "tests" / "mutants.toml").read_text())["mutant"]:
        text = (ROOT / "aerosurrogate" / mutant["file"]).read_text()
        assert text.count(mutant["old"]) == 1, f"tests/mutants.toml, {mutant['what']}: {mutant['old']}"
        assert (ROOT / "tests" / mutant["tests"].split()[0]).exists(), mutant["what"]
