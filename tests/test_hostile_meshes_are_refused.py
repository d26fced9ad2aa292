"""Damaged, lying and mutated files end in one message that names them: no traceback, no crash, no hang."""

import os
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path

import meshio
import numpy as np
import pytest
import pyvista as pv
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.airfoil import naca
from aerosurrogate.mesh.check import examine
from aerosurrogate.mesh.read import read_surface

LEGACY = (
    "# vtk DataFile Version 3.0\nlie\nASCII\nDATASET POLYDATA\nPOINTS {points} float\n0 0 0 1 0 0 0 1 0\n"
    "POLYGONS {faces} 4\n3 0 1 {last}\n"
)


def stl(corners: np.ndarray, count: int | None = None) -> bytes:
    records = b"".join(struct.pack("<12fH", 0, 0, 0, *triangle.ravel(), 0) for triangle in corners)
    return b"binary".ljust(80) + struct.pack("<I", len(corners) if count is None else count) + records


HOSTILE: dict[str, bytes] = {
    "empty.stl": b"",
    "empty.vtp": b"",
    "empty.dat": b"",
    "text.stl": b"This is no mesh at all, it is a letter. " * 20,
    "short.stl": b"hello",
    "zero_faces.stl": stl(np.empty((0, 3, 3))),
    "four_billion.stl": stl(np.random.default_rng(0).random((4, 3, 3)), 4_000_000_000),
    "truncated.stl": stl(np.random.default_rng(0).random((50, 3, 3)))[:-30],
    "nan.stl": stl(np.full((4, 3, 3), np.nan)),
    "infinite.stl": stl(np.full((4, 3, 3), np.inf)),
    "degenerate.stl": stl(np.ones((4, 3, 3))),
    "ascii_truncated.stl": b"solid x\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\n",
    "ascii_words.stl": b"solid x\nfacet normal 0 0 1\nouter loop\nvertex a b c\nvertex 1 0 0\nvertex 0 1 0\nendloop",
    "lie.vtk": LEGACY.format(points=4_000_000_000, faces=1, last=2).encode(),
    "lie_in_faces.vtk": LEGACY.format(points=3, faces=4_000_000_000, last=2).encode(),
    "dangling.vtk": LEGACY.format(points=3, faces=1, last=99).encode(),
    "flat.vtk": LEGACY.format(points=3, faces=1, last=2).encode(),
    "lie.ply": b"ply\nformat binary_little_endian 1.0\nelement vertex 4000000000\nproperty float x\nproperty float y\n"
    b"property float z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n" + bytes(64),
    "lie.vtu": b'<VTKFile type="UnstructuredGrid"><UnstructuredGrid><Piece NumberOfPoints="4000000000"'
    b' NumberOfCells="1"></Piece></UnstructuredGrid></VTKFile>',
    "half.vtp": b'<?xml version="1.0"?><VTKFile type="PolyData"><PolyData><Piece NumberOfPoints="3"',
    "words.off": b"OFF\n3 1 0\n0 0 0\n1 0 0\n",
    "dangling.off": b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 1\n3 0 1 77\n",
    "points_only.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 1\n",
    "few.dat": b"section\n0 0\n1 0\n",
    "words.dat": b"section\n1 0\n0.5 0.1\n0 zero\n0.5 -0.1\n1 0\n",
    "line.dat": b"section\n1 0\n0.75 0\n0.5 0\n0.25 0\n0 0\n0.5 0\n",
    "endless.off": b"OFF\n",
    "unknown.xyz": b"1 2 3\n4 5 6\n",
    "noise.msh": bytes(range(256)) * 8,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_message_names_the_file(tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    path.write_bytes(HOSTILE[name])
    start = time.monotonic()
    with pytest.raises(InputError, match=name.split(".")[0]):
        read_surface(path)
    assert time.monotonic() - start < 10
    said = capfd.readouterr()
    assert said.out == said.err == ""


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path / "none.stl", tmp_path / "naca24", tmp_path):
        with pytest.raises(InputError):
            read_surface(path)


def _samples(folder: Path) -> dict[str, bytes]:
    """Small sound files in every format, with arrays."""
    ball = pv.Sphere(theta_resolution=6, phi_resolution=6)
    ball.point_data["p"] = np.arange(ball.n_points, dtype=np.float32)
    box = pv.Box(level=1)
    box.cell_data["q"] = np.arange(box.n_cells, dtype=float)
    block = pv.ImageData(dimensions=(3, 3, 3)).cast_to_unstructured_grid()
    writers: dict[str, Callable[[Path], object]] = {
        "binary.stl": ball.save,
        "ascii.stl": lambda path: ball.save(path, binary=False),
        "binary.vtp": ball.save,
        "ascii.vtp": lambda path: box.save(path, binary=False),
        "binary.vtk": box.save,
        "ascii.vtk": lambda path: ball.save(path, binary=False),
        "block.vtu": block.save,
        "binary.ply": ball.save,
        "ascii.ply": lambda path: ball.save(path, binary=False),
        "section.dat": lambda path: np.savetxt(path, naca("2412", 20), header="naca 2412", comments=""),
    }
    for kind in ("off", "obj", "inp"):
        writers[f"mesh.{kind}"] = lambda path: meshio.write_points_cells(
            path, ball.points, [("triangle", ball.regular_faces)]
        )
    for name, writer in writers.items():
        writer(folder / name)
    return {name: (folder / name).read_bytes() for name in writers}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return _samples(tmp_path_factory.mktemp("sound"))


def mutated(data: bytes, edits: list[tuple[str, float, bytes]]) -> bytes:
    """The bytes after some edits, each at a place given as a part of the length."""
    for kind, place, content in edits:
        at = int(place * len(data))
        if kind == "cut":
            data = data[:at]
        elif kind == "insert":
            data = data[:at] + content + data[at:]
        elif kind == "delete":
            data = data[:at] + data[at + 5 * len(content) :]
        else:
            data = data[:at] + content + data[at + len(content) :]
    return data


@pytest.mark.parametrize("header", [b"1e400", b"/////", b"AAAA"])
def test_arrays_that_lie_about_their_size_are_refused(tmp_path: Path, samples: dict[str, bytes], header: bytes) -> None:
    sound = samples["binary.vtp"]
    at = sound.index(b"AQAAAA", sound.index(b'Name="connectivity"')) + 2  # within the number of blocks
    path = tmp_path / "lies.vtp"
    path.write_bytes(sound[:at] + header + sound[at:])
    with pytest.raises(InputError, match=r"lies.vtp: damaged, an array"):
        read_surface(path)


content = st.one_of(
    st.binary(min_size=1, max_size=6), st.sampled_from([b"9", b"-1 ", b"nan", b"\xff" * 4, b"99999999", b"1e400"])
)
edit = st.tuples(st.sampled_from(["cut", "insert", "delete", "overwrite"]), st.floats(0, 1), content)
names = ["binary.stl", "ascii.stl", "binary.vtp", "ascii.vtp", "binary.vtk", "ascii.vtk", "block.vtu", "binary.ply"]
names += ["ascii.ply", "section.dat", "mesh.off", "mesh.obj", "mesh.inp"]


def test_a_section_of_one_point_and_a_curve_is_read_or_refused(tmp_path: Path) -> None:
    """As where the first number of a file lost its first digits: a jump that leaves a side of one point."""
    curve = naca("2412", 20)
    curve[0] = 0.0
    np.savetxt(tmp_path / "section.dat", curve)
    assert "edges join more than two faces" in str(examine(tmp_path / "section.dat")[0].findings)


@pytest.mark.parametrize("name", names)
def test_mutated_files_never_crash(
    tmp_path_factory: pytest.TempPathFactory, samples: dict[str, bytes], name: str
) -> None:
    folder = tmp_path_factory.mktemp("mutated")
    path = folder / name
    path.write_bytes(samples[name])
    examine(path)

    @settings(
        max_examples=3 if name == "mesh.inp" else 60,
        deadline=10_000,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(edit, min_size=1, max_size=4))
    def holds(edits: list[tuple[str, float, bytes]]) -> None:
        path.write_bytes(mutated(samples[name], edits))
        signal.alarm(20)  # a hang in C++ ends the process, not only the test
        try:
            examine(path)
        except InputError as error:
            assert name in str(error)  # noqa: PT017
        finally:
            signal.alarm(0)

    holds()
    assert os.listdir(folder) == [name]
