"""Recipes and specs that come with the project, by name: in a checkout beside the package, in a wheel inside it."""

import difflib
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aerosurrogate import console
from aerosurrogate.errors import InputError
from aerosurrogate.writing import write_text

_HERE = Path(__file__).parent
_ROOTS = (_HERE / "files", _HERE.parent)  # of a wheel, of a checkout


def shipped_folder(kind: str) -> Path:
    """The folder of `recipes` or `specs`."""
    return next((root / kind for root in _ROOTS if (root / kind).is_dir()), _ROOTS[0] / kind)


def shipped_files(kind: str) -> dict[str, Path]:
    """The recipes or specs by name."""
    return {path.stem: path for path in sorted(shipped_folder(kind).glob("*.toml"))}


def find_recipe(name_or_path: str) -> Path:
    """A recipe's file: the path as given if it is there, else the one of that name that comes with the project."""
    path = Path(name_or_path)
    found = shipped_files("recipes")
    if path.is_file() or path.suffix == ".toml" or path.parent != Path():
        return path
    if name_or_path in found:
        return found[name_or_path]
    near = difflib.get_close_matches(name_or_path, found, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(found)}"
    raise InputError("no such recipe", seen=name_or_path, remedy=f"give the path of a TOML file, or a name; {hint}")


def find_dataset(recipe_folder: Path, path: str) -> Path:
    """A recipe's data set: where the recipe says, seen from its own folder, else of that name in datasets/ here or
    beside the package."""
    said = (recipe_folder / path).resolve()
    elsewhere = [root / "datasets" / said.name for root in (Path.cwd(), _HERE.parent)]
    return next((folder for folder in (said, *elsewhere) if (folder / "manifest.json").is_file()), said)


@dataclass(frozen=True)
class Shipped:
    """Recipes and specs by name, with the first line of their headers."""

    files: dict[str, Path]

    def document(self) -> dict[str, Any]:
        return {
            "files": [
                {"name": path.stem, "kind": path.parent.name, "file": str(path), "about": _about(path)}
                for path in self.files.values()
            ]
        }

    def show(self) -> None:
        rows = [(path.stem, path.parent.name.removesuffix("s"), _about(path)) for path in self.files.values()]
        console.table("", ("name", "kind", "about"), rows, results=True)
        console.note("aerosurrogate recipes NAME --copy puts one into the folder you are in, to be changed")


def recipes(name: str | None = None, *, copy: bool = False) -> Shipped:
    """All recipes and specs, or the one of that name; `copy` writes it into the present folder."""
    found = {f"{kind}/{stem}": path for kind in ("recipes", "specs") for stem, path in shipped_files(kind).items()}
    if name is None:
        if copy:
            raise InputError(
                "nothing to copy", seen="--copy without a name", remedy="aerosurrogate recipes NAME --copy"
            )
        return Shipped(found)
    matching = {key: path for key, path in found.items() if name in (key, path.stem)}
    if not matching:
        near = difflib.get_close_matches(name, [path.stem for path in found.values()], n=1)
        hint = f"did you mean {near[0]}?" if near else "`aerosurrogate recipes` lists them"
        raise InputError("no such recipe or spec", seen=name, remedy=hint)
    if copy:
        path = next(iter(matching.values()))
        target = Path(path.name)
        if target.exists():
            raise InputError("there is a file of that name already", seen=target, remedy="rename or remove it first")
        write_text(target, path.read_text(encoding="utf-8"))
        console.note(f"{target} written; train it with: aerosurrogate train {target}")
    return Shipped(matching)


def _about(path: Path) -> str:
    """The first sentence of the header."""
    lines = path.read_text(encoding="utf-8").splitlines()
    header = itertools.takewhile(lambda line: line.startswith("#"), lines)
    return " ".join(line.lstrip("# ") for line in header).partition(". ")[0].rstrip(".") + "."
