"""Files of any mesh format as one checked VTK grid: nothing a damaged file holds reaches a VTK filter."""

import base64
import binascii
import contextlib
import logging
import mmap
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.off import read_off
from aerosurrogate.mesh.ply import read_ply
from aerosurrogate.mesh.surface import Ints

if TYPE_CHECKING:  # VTK takes a quarter of a second to import, and sections by name do without
    import pyvista as pv

# What VTK reads; PLY and OFF we read ourselves, and meshio all other formats.
VTK = {".vtk", ".vtu", ".vtp", ".vtm", ".vtmb", ".pvtu", ".vts", ".vtr", ".vti", ".vtkhdf", ".obj", ".case", ".pvd"}
# Sizes that VTK's files promise, and VTK believes: none holds more items than bytes, or a thousand times that
# compressed.
PROMISE = re.compile(
    rb"\b(?:POINTS|CELLS|CELL_TYPES|POLYGONS|LINES|VERTICES|TRIANGLE_STRIPS|POINT_DATA|CELL_DATA"
    rb'|NumberOf[A-Za-z]+=")\s*"?(\d{6,4000})'
)
COMPRESSION = 1000
INLINE = re.compile(rb'<DataArray\b[^>]*\bformat="binary"[^>]*>\s*')  # what follows is the array, in base64
APPENDED = re.compile(rb'<AppendedData\s+encoding="(raw|base64)"\s*>\s*_')
OFFSET = re.compile(rb'<DataArray\b[^>]*\boffset="(\d{1,18})"')
CONVERT = "import sys, meshio; meshio.read(sys.argv[1]).write(sys.argv[2])"
SECONDS, BYTES_PER_SECOND = 8.0, 1e6  # how long meshio may take
CORNERS = {1: 1, 3: 2, 5: 3, 8: 4, 9: 4, 10: 4, 11: 8, 12: 8, 13: 6, 14: 5, 15: 10, 16: 12}  # by VTK's cell type
CORNERS |= {21: 3, 22: 6, 23: 8, 24: 10, 25: 20, 26: 15, 27: 13, 28: 9, 29: 27}


def load(path: Path) -> "pv.UnstructuredGrid":
    """The points, cells and arrays of a mesh file; every cell refers to points that exist."""
    if not path.is_file():
        raise InputError("no such file", seen=path)
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty")
    _refuse_lies(path)
    try:
        kind = path.suffix.lower()
        mesh = _by_vtk(path) if kind in VTK else _by_us(path) if kind in (".ply", ".off") else _by_meshio(path)
    except InputError:
        raise
    except Exception as error:  # readers raise whatever they stumble over
        if "Could not deduce file format" in str(error):
            remedy = "give a mesh, for example .stl, .obj, .vtp or .vtu"
            raise InputError("no mesh format that is known", seen=path, remedy=remedy) from None
        reason = str(error).strip().splitlines()
        raise InputError(
            f"{path}: not a readable {path.suffix or 'mesh'} file",
            seen=reason[0][:200] if reason else type(error).__name__,
            remedy="export it again, or as .stl or .vtp",
        ) from error
    return checked(mesh, str(path))


def _refuse_lies(path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for match in PROMISE.finditer(data):
            words = match[0].decode(errors="replace")
            if int(match[1]) > size * (COMPRESSION if words.startswith("Number") else 1):
                raise InputError(
                    f"{path}: damaged, it promises {words}", seen=f"{size:,} bytes", remedy="export it again"
                )
        if data[:2000].lstrip().startswith(b"<") and b"<VTKFile" in data[:2000]:
            _refuse_lying_arrays(path, data)


def _refuse_lying_arrays(path: Path, data: mmap.mmap) -> None:
    """The arrays of VTK's XML files begin with their sizes: VTK goes on for minutes where these are nonsense."""
    kind = data[:2000].partition(b"<VTKFile")[2].partition(b">")[0]
    word = 8 if b'"UInt64"' in kind else 4
    order: Literal["big", "little"] = "big" if b'"BigEndian"' in kind else "little"
    appended = APPENDED.search(data)
    starts = [(match.end(), True) for match in INLINE.finditer(data)]
    if appended:
        encoded = appended[1] == b"base64"
        starts += [(appended.end() + int(match[1]), encoded) for match in OFFSET.finditer(data, 0, appended.start())]

    def words(start: int, encoded: bool, count: int) -> list[int]:
        raw = data[start : start + count * word]
        if encoded:
            raw = base64.b64decode(data[start : start + 4 * -(-count * word // 3)])
        return [int.from_bytes(raw[i * word : (i + 1) * word], order) for i in range(count)]

    for start, encoded in starts:
        try:
            if b"compressor=" in kind:
                blocks, block, last = words(start, encoded, 3)
                stored = sum(words(start, encoded, 3 + blocks)[3:]) if blocks <= len(data) else blocks
                holds = blocks * block + last
            else:
                stored = holds = words(start, encoded, 1)[0]
        except binascii.Error as error:
            raise InputError(f"{path}: damaged, an array is not base64", seen=str(error)) from error
        if stored > len(data) or holds > COMPRESSION * len(data):
            raise InputError(
                f"{path}: damaged, an array promises {max(stored, holds):,} bytes",
                seen=f"{len(data):,} bytes",
                remedy="export it again",
            )


@contextlib.contextmanager
def errors_of_vtk() -> Iterator[list[str]]:
    """Keep VTK from writing on stderr; the list holds what it had to say."""
    import pyvista as pv
    from vtkmodules.vtkCommonCore import vtkLogger

    said: list[str] = []
    before = vtkLogger.GetCurrentVerbosityCutoff()
    vtkLogger.SetStderrVerbosity(vtkLogger.VERBOSITY_OFF)
    # pyvista's readers log the same again, and logging prints what nobody takes.
    taker = logging.NullHandler()
    logging.getLogger().addHandler(taker)
    try:
        with warnings.catch_warnings(), pv.VtkErrorCatcher(send_to_logging=False) as caught:
            warnings.simplefilter("ignore")
            yield said
        said += [str(event.alert).strip()[:200] for event in caught.error_events]
    finally:
        logging.getLogger().removeHandler(taker)
        vtkLogger.SetStderrVerbosity(before)


def _by_vtk(path: Path) -> "pv.DataSet":
    import pyvista as pv

    with errors_of_vtk() as errors:
        mesh = pv.read(path)
        if isinstance(mesh, pv.MultiBlock):
            blocks = [block for block in mesh.recursive_iterator(skip_none=True) if block.n_cells]
            mesh = pv.merge([checked(block, str(path)) for block in blocks]) if blocks else pv.UnstructuredGrid()
    if errors:
        raise InputError(f"{path}: damaged", seen=errors[0], remedy="export it again")
    return mesh


def _by_us(path: Path) -> "pv.DataSet":
    import pyvista as pv

    points, faces, data = read_ply(path) if path.suffix.lower() == ".ply" else (*read_off(path), {})
    if not len(faces):
        raise InputError(f"{path}: holds no faces", seen=f"{len(points):,} points")
    mesh = pv.PolyData(points, faces=faces)
    mesh.point_data.update(data)
    return mesh


def _by_meshio(path: Path) -> "pv.DataSet":
    """By meshio in a process of its own: on damaged files its readers loop for ever, or end the process they are in."""
    patience = SECONDS + path.stat().st_size / BYTES_PER_SECOND
    with tempfile.TemporaryDirectory() as folder:
        vtu = Path(folder) / "mesh.vtu"
        command = [sys.executable, "-c", CONVERT, str(path.resolve()), str(vtu)]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=patience, errors="replace")
        except subprocess.TimeoutExpired as error:
            raise ValueError(f"no end after {patience:.0f} s") from error
        if not vtu.is_file():
            said = [line for line in (answer.stdout + answer.stderr).splitlines() if line.strip()]
            raise ValueError(said[-1] if said else "unknown format")
        return _by_vtk(vtu)


def checked(mesh: "pv.DataSet", label: str) -> "pv.UnstructuredGrid":
    """The mesh as a grid, refused where its cells and points do not fit together."""
    import pyvista as pv

    if isinstance(mesh, pv.PolyData):
        for cells in (mesh.GetVerts(), mesh.GetLines(), mesh.GetPolys(), mesh.GetStrips()):
            _refuse_dangling(cells, mesh.n_points, label)
    grid = mesh if isinstance(mesh, pv.UnstructuredGrid) else mesh.cast_to_unstructured_grid()
    if grid.n_points == 0 or grid.n_cells == 0:
        raise InputError(f"{label}: holds no mesh", seen=f"{grid.n_points} points, {grid.n_cells} cells")
    _refuse_dangling(grid.GetCells(), grid.n_points, label)
    sizes = cell_sizes(grid)
    for kind in np.unique(grid.celltypes):
        if kind in CORNERS and np.any(sizes[grid.celltypes == kind] != CORNERS[kind]):
            raise InputError(f"{label}: damaged, cells with a wrong number of corners", seen=f"VTK cell type {kind}")
    for arrays, count in ((grid.point_data, grid.n_points), (grid.cell_data, grid.n_cells)):
        for name in arrays.keys():  # noqa: SIM118 (VTK's own container)
            if len(arrays[name]) != count:
                raise InputError(f"{label}: array {name} has a wrong length", seen=f"{len(arrays[name])} of {count}")
    return grid


def cell_sizes(grid: "pv.UnstructuredGrid") -> Ints:
    """(cells,) the number of points of each cell."""
    from vtkmodules.util.numpy_support import vtk_to_numpy

    return np.diff(vtk_to_numpy(grid.GetCells().GetOffsetsArray()))


def _refuse_dangling(cells: "pv.CellArray", count: int, label: str) -> None:
    """Refuse VTK cells whose offsets are out of order or whose indices reach beyond `count` points."""
    from vtkmodules.util.numpy_support import vtk_to_numpy

    offsets = vtk_to_numpy(cells.GetOffsetsArray())
    indices = vtk_to_numpy(cells.GetConnectivityArray())
    sound = not len(offsets) or (
        offsets[0] == 0 and offsets[-1] == len(indices) and bool(np.all(np.diff(offsets) >= 0))
    )
    if not sound or (len(indices) and not 0 <= indices.min() <= indices.max() < count):
        raise InputError(f"{label}: damaged, cells refer to points that do not exist", remedy="export it again")
