"""An OpenFOAM case gives its cells, its patches by name and the body among them, at the latest time."""

from pathlib import Path

import numpy as np
import pytest

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.volume import read_volume

HEAD = 'FoamFile {{ version 2.0; format ascii; class {kind}; location "{place}"; object {name}; }}\n'
# One cubic cell: its faces look out of it.
POINTS = "8\n(\n(0 0 0)\n(1 0 0)\n(1 1 0)\n(0 1 0)\n(0 0 1)\n(1 0 1)\n(1 1 1)\n(0 1 1)\n)\n"
SIDES = ["4(0 1 5 4)", "4(1 2 6 5)", "4(2 3 7 6)", "4(3 0 4 7)"]
ENDS = ["4(0 3 2 1)", "4(4 5 6 7)"]


def write(path: Path, kind: str, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD.format(kind=kind, place=path.parent.name, name=path.name) + text)


def patch(name: str, kind: str, count: int, start: int) -> str:
    return f"{name} {{ type {kind}; nFaces {count}; startFace {start}; }}\n"


def write_case(case: Path, patches: list[tuple[str, str, int]]) -> None:
    mesh = case / "constant" / "polyMesh"
    write(mesh / "points", "vectorField", POINTS)
    write(mesh / "faces", "faceList", "6\n(\n" + "\n".join(SIDES + ENDS) + "\n)\n")
    write(mesh / "owner", "labelList", "6\n(\n0\n0\n0\n0\n0\n0\n)\n")
    write(mesh / "neighbour", "labelList", "0\n(\n)\n")
    starts = np.cumsum([0, *(count for *_, count in patches)])
    blocks = "".join(patch(*item, start) for item, start in zip(patches, starts.tolist(), strict=False))
    write(mesh / "boundary", "polyBoundaryMesh", f"{len(patches)}\n(\n{blocks})\n")
    write(case / "system" / "controlDict", "dictionary", "startTime 0; endTime 2; deltaT 1; writeInterval 1;\n")
    for time in ("1", "2"):
        fixed = "".join(
            f"{name} {{ type empty; }}\n"
            if kind == "empty"
            else f"{name} {{ type fixedValue; value uniform {time}; }}\n"
            for name, kind, _ in patches
        )
        text = f"dimensions [0 2 -2 0 0 0 0];\ninternalField uniform {time}0;\nboundaryField\n{{\n{fixed}}}\n"
        write(case / time / "p", "volScalarField", text)


@pytest.fixture
def case(tmp_path: Path) -> Path:
    write_case(tmp_path / "cube", [("body", "wall", 4), ("outlet", "patch", 2)])
    return tmp_path / "cube"


def test_cells_and_patches_at_the_latest_time(case: Path) -> None:
    volume = read_volume(case)
    assert volume.grid.n_cells == 1
    assert volume.time == 2
    assert volume.kinds == {"body": "wall", "outlet": "patch"}
    assert np.asarray(volume.grid.cell_data["p"]) == pytest.approx([20])
    assert volume.patches["body"].cell_data["p"] == pytest.approx(2 * np.ones(8))
    # Faces look into the fluid, here towards the middle of the cell.
    body = volume.patches["body"]
    assert np.all(np.einsum("md,md->m", body.normals, body.centres - 0.5) < 0)
    (case / "case.foam").touch()
    assert read_volume(case / "case.foam").grid.n_cells == 1


def test_the_body_is_the_only_wall_or_the_patch_named(case: Path, tmp_path: Path) -> None:
    assert len(read_surface(case).cells) == 8
    assert len(read_surface(case, patch="outlet").cells) == 4
    with pytest.raises(InputError, match="body"):
        read_surface(case, patch="wing")
    write_case(tmp_path / "two", [("body", "wall", 4), ("road", "wall", 2)])
    with pytest.raises(InputError, match="--patch with one of body, road"):
        read_surface(tmp_path / "two")


def test_a_case_one_cell_thick_gives_a_curve(tmp_path: Path) -> None:
    write_case(tmp_path / "flat", [("airfoil", "wall", 4), ("sides", "empty", 2)])
    curve = read_surface(tmp_path / "flat")
    assert curve.dimension == 2
    assert curve.cell_data["p"] == pytest.approx(2 * np.ones(4))
    assert curve.volume == pytest.approx(1)


def test_folders_that_are_no_cases_are_refused(tmp_path: Path, case: Path) -> None:
    with pytest.raises(InputError, match="controlDict"):
        read_surface(tmp_path)
    (case / "constant" / "polyMesh" / "faces").write_text("nonsense")
    with pytest.raises(InputError, match="cube"):
        read_surface(case)
    (case / "constant" / "polyMesh" / "boundary").unlink()
    with pytest.raises(InputError, match="without a mesh"):
        read_surface(case)
