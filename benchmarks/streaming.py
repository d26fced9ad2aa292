"""Memory and time of `prepare` on a volume that is never held whole: a run in the form of DrivAerML, of any size.

    python benchmarks/streaming.py [--cells 20e6] [--form raw|zlib|inline] [--folder DIR] [--whole]

Writes run_1 with a small skin and a volume of so many hexahedra around it (a stretched grid, finest at the body),
prepares it in a process of its own and reports that process's peak of resident memory, its CPU seconds and the size of
the file. `--whole` reads the file with VTK for comparison. Prints one JSON document.
"""

import argparse
import base64
import itertools
import json
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyvista as pv

BLOCK = 1 << 15  # bytes, as VTK packs them
SPEED = 38.889
TYPES = {"<f4": "Float32", "<i8": "Int64", "|u1": "UInt8"}


def axis(count: int, low: float, high: float, inner: tuple[float, float]) -> np.ndarray:
    """`count` places from low to high, half of them evenly over the inner part, the others growing apart outside it."""
    left = count * 3 // 16
    middle, right = count // 2, count - left - count // 2
    ease = np.linspace(0, 1, left, endpoint=False) ** 0.6, 1 - np.linspace(1, 0, right) ** 0.6
    return np.concatenate(
        [
            low + (inner[0] - low) * ease[0],
            np.linspace(*inner, middle, endpoint=False),
            inner[1] + (high - inner[1]) * np.clip(ease[1], 0, 1),
        ]
    )


class Grid:
    """Hexahedra between the places along three axes, written layer by layer."""

    def __init__(self, cells: int) -> None:
        n = max(round((cells / 2) ** (1 / 3)), 16)
        self.axes = (
            axis(2 * n + 1, -5.0, 10.0, (-0.2, 4.4)),
            axis(n + 1, -3.2, 3.2, (-1.1, 1.1)),
            axis(n + 1, -0.3, 3.8, (-0.25, 1.4)),
        )
        self.shape = tuple(len(a) for a in self.axes)
        self.points = int(np.prod(self.shape))
        self.cells = int(np.prod([m - 1 for m in self.shape]))

    def layers(self, name: str) -> Iterator[np.ndarray]:
        """An array of the file, one layer of the grid along x after the other."""
        x, y, z = self.axes
        centres = [0.5 * (a[1:] + a[:-1]) for a in self.axes]
        ny, nz = len(y), len(z)
        for i in range(len(x) if name == "Points" else len(x) - 1):
            if name == "Points":
                yy, zz = np.meshgrid(y, z, indexing="ij")
                yield np.stack([np.full_like(yy, x[i]), yy, zz], axis=-1).astype("<f4")
                continue
            j, k = np.meshgrid(np.arange(ny - 1), np.arange(nz - 1), indexing="ij")
            if name == "connectivity":
                first = (i * ny + j) * nz + k
                far = first + ny * nz
                corners = [first, far, far + nz, first + nz, first + 1, far + 1, far + nz + 1, first + nz + 1]
                yield np.stack(corners, axis=-1).astype("<i8")
            elif name == "offsets":
                size = (ny - 1) * (nz - 1)
                yield (8 * (i * size + np.arange(1, size + 1))).astype("<i8")
            elif name == "types":
                yield np.full((ny - 1) * (nz - 1), 12, np.uint8)
            elif name == "pMeanTrim":
                yield (100 * centres[0][i] + 10 * centres[2][k]).astype("<f4")
            else:
                shape = j.shape
                yield np.stack([np.full(shape, SPEED), centres[1][j], centres[2][k]], axis=-1).astype("<f4")


ARRAYS = (
    ("Points", "Points", "<f4", 3),
    ("Cells", "connectivity", "<i8", 1),
    ("Cells", "offsets", "<i8", 1),
    ("Cells", "types", "|u1", 1),
    ("CellData", "pMeanTrim", "<f4", 1),
    ("CellData", "UMeanTrim", "<f4", 3),
)


def sizes(grid: Grid, name: str, kind: str, width: int) -> int:
    rows = {"Points": grid.points, "connectivity": 8 * grid.cells}.get(name, grid.cells)
    return rows * width * np.dtype(kind).itemsize


def write_volume(path: Path, cells: int, form: str) -> int:
    """A VTU of about so many cells, written without holding it; the number of cells it has.

    raw: appended; zlib: appended in compressed blocks; inline: base64 within the XML, as OpenFOAM writes it.
    """
    grid = Grid(cells)
    with path.open("wb") as file, tempfile.TemporaryFile() as appended:
        packed = ' compressor="vtkZLibDataCompressor"' if form == "zlib" else ""
        file.write(
            b'<?xml version="1.0"?>\n<VTKFile type="UnstructuredGrid" version="1.0" byte_order="LittleEndian" '
            + f'header_type="UInt64"{packed}>\n<UnstructuredGrid>\n'.encode()
            + f'<Piece NumberOfPoints="{grid.points}" NumberOfCells="{grid.cells}">\n'.encode()
        )
        for section in ("Points", "Cells", "CellData"):
            file.write(f"<{section}>\n".encode())
            for _, name, kind, width in (a for a in ARRAYS if a[0] == section):
                where = 'format="binary"' if form == "inline" else f'format="appended" offset="{appended.tell()}"'
                tag = f'<DataArray type="{TYPES[kind]}" Name="{name}" NumberOfComponents="{width}" {where}>'
                file.write(tag.encode())
                size = sizes(grid, name, kind, width)
                if form == "inline":
                    _inline(file, grid.layers(name), size)
                elif form == "zlib":
                    _blocks(appended, grid.layers(name), size)
                else:
                    appended.write(np.uint64(size).tobytes())
                    for layer in grid.layers(name):
                        appended.write(layer.tobytes())
                file.write(b"</DataArray>\n")
            file.write(f"</{section}>\n".encode())
        file.write(b"</Piece>\n</UnstructuredGrid>\n")
        if form != "inline":
            file.write(b'<AppendedData encoding="raw">\n_')
            appended.seek(0)
            while block := appended.read(1 << 22):
                file.write(block)
            file.write(b"\n</AppendedData>\n")
        file.write(b"</VTKFile>\n")
    return grid.cells


def _inline(file: IO[bytes], layers: Iterator[np.ndarray], size: int) -> None:
    rest = np.uint64(size).tobytes()
    for layer in layers:
        data = rest + layer.tobytes()
        whole = len(data) // 3 * 3
        file.write(base64.b64encode(data[:whole]))
        rest = data[whole:]
    file.write(base64.b64encode(rest))


def _blocks(file: IO[bytes], layers: Iterator[np.ndarray], size: int) -> None:
    count = -(-size // BLOCK)
    place = file.tell()
    packed: list[int] = []
    file.write(b"\0" * 8 * (3 + count))
    rest = b""
    for layer in itertools.chain(layers, [None]):
        rest += b"" if layer is None else layer.tobytes()
        while len(rest) >= BLOCK or (layer is None and rest):
            block, rest = zlib.compress(rest[:BLOCK], 1), rest[BLOCK:]
            packed.append(len(block))
            file.write(block)
    end = file.tell()
    file.seek(place)
    file.write(np.array([count, BLOCK, size % BLOCK, *packed], "<u8").tobytes())
    file.seek(end)


def write_run(folder: Path, cells: int, form: str) -> int:
    """run_1 in `folder`; the number of its cells."""
    run = folder / "run_1"
    run.mkdir(parents=True)
    car = pv.Box((0.0, 4.2, -0.9, 0.9, -0.1, 1.2), level=30).clean().compute_normals(auto_orient_normals=True)
    car.clear_data()
    car.cell_data["pMeanTrim"] = car.cell_centers().points[:, 0].astype("f4")
    car.cell_data["wallShearStressMeanTrim"] = np.tile(np.float32([-1, 0, 0]), (car.n_cells, 1))
    car.save(run / "boundary_1.vtp")
    car.triangulate().save(run / "drivaer_1.stl")
    (run / "force_mom_1.csv").write_text("Cd, Cl, Clf, Clr, Cs\n0.3, 0.0, 0.0, 0.0, 0.0\n")
    (run / "geo_ref_1.csv").write_text("lRef,aRef,forcesCoR\n2.79,2.3,(1.402 0 -0.3)\n")
    return write_volume(run / "volume_1.vtu", cells, form)


PREPARE = """
import json, resource, sys
from pathlib import Path
import aerosurrogate.data.prepare, aerosurrogate.data.readers.drivaerml as reader
from aerosurrogate.data.prepare import Task, convert
from aerosurrogate.data.readers import Options
def peak():  # ru_maxrss would count what the parent process held when this one was started
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
before = peak()
batch = reader.batches(Path(sys.argv[1]), Options())[0]
shard = Path(sys.argv[1]) / "shard.safetensors"
written = convert(Task("drivaerml", batch, Options(), shard, {batch.names[0]: ""}))
assert not written.failures, written.failures
use = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"before": before, "peak": peak(), "seconds": use.ru_utime + use.ru_stime,
                  "points": written.entries["run_1"]["points"]}))
"""
WHOLE = """
import json, resource, sys
from pathlib import Path
import pyvista as pv
def peak():  # ru_maxrss would count what the parent process held when this one was started
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
before = peak()
grid = pv.read(sys.argv[1] + "/run_1/volume_1.vtu")
use = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"before": before, "peak": peak(), "seconds": use.ru_utime + use.ru_stime, "points": grid.n_cells}))
"""


def measured(program: str, folder: Path) -> dict[str, Any]:
    answer = subprocess.run([sys.executable, "-c", program, str(folder)], check=True, capture_output=True, text=True)
    return json.loads(answer.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=float, default=20e6)
    parser.add_argument("--form", choices=("raw", "zlib", "inline"), default="raw")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as temporary:
        folder = Path(temporary) / "set"
        cells = write_run(folder, int(given.cells), given.form)
        size = (folder / "run_1" / "volume_1.vtu").stat().st_size
        result = {"cells": cells, "form": given.form, "file_bytes": size, "prepare": measured(PREPARE, folder)}
        if given.whole:
            result["whole"] = measured(WHOLE, folder)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
