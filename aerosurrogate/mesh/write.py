"""Meshes to files: VTU, VTP and STL, whole or not at all."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.load import errors_of_vtk
from aerosurrogate.mesh.surface import Surface, in_space
from aerosurrogate.writing import replacing

if TYPE_CHECKING:
    import pyvista as pv

WRITABLE = (".vtu", ".vtp", ".stl")


def polydata(surface: Surface) -> "pv.PolyData":
    """A surface with its arrays as VTK's polygons or lines."""
    import pyvista as pv

    cells = np.insert(surface.cells, 0, surface.dimension, axis=1).ravel()
    kind = "faces" if surface.dimension == 3 else "lines"
    mesh = pv.PolyData(in_space(surface.points), **{kind: cells})
    mesh.point_data.update(surface.point_data)
    mesh.cell_data.update(surface.cell_data)
    return mesh


def write_mesh(mesh: "pv.DataSet | Surface", path: str | Path) -> None:
    """Write a surface or a VTK data set in the format that the path's extension names."""
    import pyvista as pv

    path = Path(path)
    kind = path.suffix.lower()
    if kind not in WRITABLE:
        raise InputError("unknown format to write", seen=path.name, remedy=f"end the name with {', '.join(WRITABLE)}")
    if isinstance(mesh, Surface):
        if kind == ".stl" and mesh.dimension == 2:
            raise InputError("a curve in 2D is no STL file", seen=path, remedy="end the name with .vtp")
        mesh = polydata(mesh)
    if kind == ".vtu":
        mesh = mesh.cast_to_unstructured_grid()
    elif not isinstance(mesh, pv.PolyData):
        mesh = mesh.extract_surface(algorithm="dataset_surface")
    with replacing(path) as temporary:
        with errors_of_vtk() as errors:
            mesh.save(temporary)
        if errors or not temporary.is_file():  # VTK fails in silence, on a full disk too
            raise InputError("cannot write", seen=f"{path} ({errors[0] if errors else 'no file'})")
