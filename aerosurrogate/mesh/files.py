"""Which files are shapes, and those of a folder."""

from collections.abc import Sequence
from pathlib import Path

from aerosurrogate.errors import InputError

SHAPES = (".stl", ".obj", ".ply", ".off", ".vtp", ".vtu", ".vtk", ".dat", ".cor")


def shape_files(given: Sequence[str]) -> list[str]:
    """The files once each, a folder of them replaced by what it holds; OpenFOAM cases stay as they are."""
    found: list[str] = []
    for file in given:
        folder = Path(file)
        if folder.is_dir() and not (folder / "system").is_dir():
            inside = sorted(str(path) for path in folder.iterdir() if path.suffix.lower() in SHAPES)
            if not inside:
                raise InputError("no shapes in this folder", seen=file, remedy=f"put {', '.join(SHAPES)} files there")
            found += inside
        else:
            found.append(file)
    return list(dict.fromkeys(found))
