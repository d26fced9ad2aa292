"""CONTRIBUTING's map lists what exists, a module imports only from rooms above it or beside it, none is too long."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "aerosurrogate"


def rooms() -> dict[str, int]:
    """Each file or folder of the map with the number of its line."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    block = re.search(r"^## The map\n.*?\n\n(.*?)\n\n", text, re.S | re.M)
    assert block
    placed: dict[str, int] = {}
    for number, line in enumerate(block[1].splitlines()):
        for name in re.findall(r"(\w+)(?:\.py|/)(?=,|\s|$)", line[4:] if line[4] != " " else ""):
            assert name not in placed, f"{name} stands twice in the map"
            placed[name] = number
    return placed


def imported(path: Path) -> set[str]:
    """The rooms that a module imports from, wherever in it the import stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "aerosurrogate":
            below = (node.module or "").split(".")[1:]
            found |= {below[0]} if below else {alias.name for alias in node.names}
    return found - {"__version__"}


def test_the_map_lists_what_exists():
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py"}
    there |= {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert set(rooms()) == there - {"__init__", "__main__"}


def test_the_picture_of_the_rooms_shows_what_exists():
    shown = re.findall(r"\w+(?:\.py|/)(?=[,<])", (ROOT / "docs" / "rooms.svg").read_text())
    assert len(shown) > 20
    assert not [name for name in shown if not (PACKAGE / name).exists()]


def test_no_import_goes_against_the_map():
    placed = rooms()
    against = [
        f"{path.relative_to(PACKAGE)} imports {other}, which stands below it"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "__main__.py" and path != PACKAGE / "__init__.py"
        for room in [path.relative_to(PACKAGE).parts[0].removesuffix(".py")]
        for other in sorted(imported(path))
        if placed[other] > placed[room]
    ]
    assert not against, "\n".join(against)


def test_a_module_can_be_read_in_one_sitting_and_the_core_like_the_paper():
    lengths = {path.relative_to(PACKAGE).as_posix(): path.read_text().count("\n") for path in PACKAGE.rglob("*.py")}
    assert not {name: length for name, length in lengths.items() if length >= 500}
    assert lengths["model/transolver.py"] <= 450
