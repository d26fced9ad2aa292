"""Volume meshes: files with cells around (or in) a body, and OpenFOAM cases with their patches."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.load import cell_sizes, checked, errors_of_vtk, load
from aerosurrogate.mesh.read import faces_of, skin
from aerosurrogate.mesh.surface import Surface

if TYPE_CHECKING:
    import pyvista as pv

PATCH = re.compile(r"([^\s{}();]+)\s*\{([^{}]*)\}")


@dataclass(frozen=True, eq=False)
class Volume:
    """Cells, points and arrays as the file has them, units and orientation untouched."""

    path: Path
    grid: "pv.UnstructuredGrid"  # arrays in point_data, cell_data and field_data
    patches: dict[str, Surface] = field(default_factory=dict)  # OpenFOAM's boundary, facing into the fluid
    kinds: dict[str, str] = field(default_factory=dict)  # their types: wall, patch, empty, symmetry ...
    time: float | None = None  # of the solution that was read, the latest

    def wall(self, patch: str | None = None) -> Surface:
        """The patch of that name, or the only wall; without patches, the boundary of the cells."""
        if not self.patches and patch is None:
            return replace(skin(self.grid, str(self.path)), name=self.path.stem, path=self.path)
        walls = [name for name in self.patches if self.kinds.get(name) == "wall"]
        wanted = patch or (walls[0] if len(walls) == 1 else None)
        if wanted not in self.patches:
            raise InputError(
                f"{self.path}: no patch of that name" if patch else f"{self.path}: which patch is the body?",
                seen=patch or f"{len(walls)} walls",
                remedy=f"give --patch with one of {', '.join(walls or self.patches) or 'none'}",
            )
        return replace(self.patches[wanted], name=self.path.resolve().stem, path=self.path)


def read_volume(path: str | Path) -> Volume:
    """The mesh of a volume file, or of an OpenFOAM case (its folder, or a .foam file in it) at its latest time."""
    path = Path(path)
    case = path.parent if path.suffix.lower() == ".foam" else path
    if case.is_dir():
        if not (case / "system" / "controlDict").is_file():
            raise InputError("a folder without system/controlDict is not an OpenFOAM case", seen=case)
        return _read_case(path, case)
    return Volume(path, load(path))


def _read_case(path: Path, case: Path) -> Volume:
    import pyvista as pv

    boundary = case / "constant" / "polyMesh" / "boundary"
    if not boundary.is_file():
        raise InputError(f"{case}: an OpenFOAM case without a mesh", seen=boundary, remedy="mesh it first")
    blocks = dict(
        PATCH.findall(re.sub(r"/\*.*?\*/|//[^\n]*", "", boundary.read_text(errors="replace"), flags=re.DOTALL))
    )
    kinds = {name: found[1] for name, body in blocks.items() if (found := re.search(r"\btype\s+(\w+)\s*;", body))}
    with errors_of_vtk() as errors:
        reader = pv.OpenFOAMReader(case / "system" / "controlDict")
        reader.cell_to_point_creation = False
        reader.enable_all_patch_arrays()
        if reader.time_values:
            reader.set_active_time_value(reader.time_values[-1])
        mesh = reader.read()
    grid = mesh["internalMesh"] if "internalMesh" in mesh.keys() else None  # noqa: SIM118
    if grid is None or grid.n_cells == 0:
        raise InputError(f"{case}: not a readable OpenFOAM case", seen=errors[0] if errors else "no cells")
    flat = "empty" in kinds.values()
    faces = mesh["boundary"] if "boundary" in mesh.keys() else pv.MultiBlock()  # noqa: SIM118
    patches = {
        name: _patch(faces[name], str(case), flat)
        for name in faces.keys()  # noqa: SIM118
        if faces[name] is not None and faces[name].n_cells and kinds.get(name) != "empty"
    }
    return Volume(
        path, checked(grid, str(case)), patches, kinds, reader.active_time_value if reader.time_values else None
    )


def _patch(mesh: "pv.PolyData", label: str, flat: bool) -> Surface:
    surface = _section(mesh, label) if flat else faces_of(checked(mesh, label), label)
    return replace(surface, cells=surface.cells[:, ::-1])  # OpenFOAM's faces look out of the fluid


def _section(mesh: "pv.PolyData", label: str) -> Surface:
    """The line that a patch of a mesh one cell thick draws in the x-y plane: the lower side of each of its faces."""
    if np.any(cell_sizes(checked(mesh, label)) != 4):
        raise InputError(f"{label}: a mesh with empty sides that is not one cell thick")
    quads = mesh.regular_faces.astype(np.int64)  # (m, 4)
    points = np.asarray(mesh.points, dtype=float)
    low = points[quads][:, :, 2] < points[:, 2].mean()
    follows = low & np.roll(low, -1, axis=1)  # the corner that starts the lower side
    start = np.argmax(follows, axis=1)
    row = np.arange(len(quads))
    cells = np.stack([quads[row, start], quads[row, (start + 1) % 4]], axis=1)
    data = {name: np.asarray(mesh.cell_data[name]) for name in mesh.cell_data.keys()}  # noqa: SIM118
    return Surface(points[:, :2], cells, cell_data=data)
