"""VTU files of any size, cell by cell: a few megabytes at a time, never the whole mesh.

VTK's XML holds its arrays inline (`format="binary"`, in base64) or appended at the end (raw or in base64), each whole
or in zlib blocks; all of these are read, and a file that comes in parts (`volume_1.vtu.00.part`, ...) as if it were
one. The arrays are streamed side by side. Only what cells look up at any place, the points and point arrays, is kept
ready as a mapped file: the file itself where it holds them raw, else a temporary one on disk.
"""

import base64
import itertools
import mmap
import re
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.surface import Floats, Ints

CELLS = 16_384  # at a time
BYTES = 3 << 18  # of an array at a time: whole groups of base64
TAG = re.compile(rb"<(/?[A-Za-z]\w*)((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>")
ATTRIBUTE = re.compile(rb"(\w+)\s*=\s*[\"']([^\"']*)[\"']")
TYPES = {"Float32": "f4", "Float64": "f8", "Int8": "i1", "UInt8": "u1", "Int16": "i2", "UInt16": "u2"}
TYPES |= {"Int32": "i4", "UInt32": "u4", "Int64": "i8", "UInt64": "u8"}
SECTIONS = ("PointData", "CellData", "Points", "Cells")
# Faces of the linear cells by VTK's type: a cell's volume is the sum of the pyramids over them.
FACES: dict[int, tuple[tuple[int, ...], ...]] = {
    10: ((0, 1, 2), (0, 3, 1), (1, 3, 2), (0, 2, 3)),
    11: ((0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5)),
    12: ((0, 3, 2, 1), (4, 5, 6, 7), (0, 1, 5, 4), (2, 3, 7, 6), (0, 4, 7, 3), (1, 2, 6, 5)),
    13: ((0, 1, 2), (3, 5, 4), (0, 3, 4, 1), (1, 4, 5, 2), (2, 5, 3, 0)),
    14: ((0, 3, 2, 1), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)),
}


@dataclass(frozen=True, eq=False)
class Cells:
    """Some cells of a mesh, in the file's units."""

    centres: Floats  # (n, 3) means of their corners
    volumes: Floats  # (n,)
    fields: dict[str, NDArray[Any]]  # (n, c) each


class Parts:
    """Files read as one, at any place."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = list(paths)
        self.ends = list(itertools.accumulate(path.stat().st_size for path in paths))
        self.files: list[IO[bytes]] = [path.open("rb") for path in paths]

    def read(self, start: int, count: int) -> bytes:
        """Up to `count` bytes from `start`; fewer where the last file ends."""
        found = []
        for file, end in zip(self.files, self.ends, strict=True):
            if count > 0 and start < end:
                file.seek(start - (end - self._size(end)))
                found.append(file.read(min(count, end - start)))
                start, count = start + len(found[-1]), count - len(found[-1])
        return b"".join(found)

    def _size(self, end: int) -> int:
        place = self.ends.index(end)
        return end - (self.ends[place - 1] if place else 0)


@dataclass(frozen=True)
class Coding:
    """How a file writes its arrays."""

    word: int  # bytes of the numbers that tell sizes
    order: str  # < or >
    compressed: bool


@dataclass(frozen=True)
class Column:
    """An array of the file, unread."""

    parts: Parts
    coding: Coding
    name: str
    dtype: np.dtype[Any]
    components: int
    start: int  # of its sizes, in the file
    encoded: bool  # in base64

    def _words(self, count: int) -> list[int]:
        raw = self._decoded(self.start, 0, count * self.coding.word)
        if len(raw) < count * self.coding.word:
            raise InputError(f"{self.parts.paths[0]}: cut off within array {self.name}", remedy="get the file again")
        return np.frombuffer(raw, f"{self.coding.order}u{self.coding.word}").tolist()

    def _decoded(self, start: int, offset: int, count: int) -> bytes:
        """Bytes of what begins at `start` in the file, base64 or not."""
        if not self.encoded:
            return self.parts.read(start + offset, count)
        first = offset // 3
        text = self.parts.read(start + 4 * first, 4 * (-(-(offset + count) // 3) - first))
        try:
            return base64.b64decode(text[: len(text) // 4 * 4])[offset - 3 * first :][:count]
        except ValueError as error:
            what = f"{self.parts.paths[0]}: damaged, array {self.name} is not base64"
            raise InputError(what, seen=error, remedy="get the file again") from None

    def _plain(self) -> tuple[int, int, int]:
        """Of an array that is not compressed: where its text begins, the bytes before its data, and those of it."""
        (size,) = self._words(1)
        if not self.encoded:
            return self.start, self.coding.word, size
        head = 4 * -(-self.coding.word // 3)  # writers encode the size alone, which then ends in "=", or with the data
        alone = self.parts.read(self.start, head).endswith(b"=")
        return (self.start + head, 0, size) if alone else (self.start, self.coding.word, size)

    def _compressed(self) -> tuple[int, list[int]]:
        """Where the blocks begin, and their compressed sizes."""
        count = self._words(3)[0]
        head = (3 + count) * self.coding.word
        sizes = self._words(3 + count)[3:] if count else []
        return self.start + (4 * -(-head // 3) if self.encoded else head), sizes

    @property
    def stored(self) -> int:
        """Bytes that it takes in the file."""
        if self.coding.compressed:
            start, sizes = self._compressed()
            return start - self.start + (4 * -(-sum(sizes) // 3) if self.encoded else sum(sizes))
        start, skip, size = self._plain()
        return start - self.start + (4 * -(-(skip + size) // 3) if self.encoded else skip + size)

    def blocks(self) -> Iterator[bytes]:
        """Its bytes in order, some hundred thousand at a time."""
        if self.coding.compressed:
            start, sizes = self._compressed()
            for offset, size in zip(itertools.accumulate(sizes, initial=0), sizes, strict=False):
                try:
                    yield zlib.decompress(self._decoded(start, offset, size))
                except zlib.error as error:
                    what = f"{self.parts.paths[0]}: damaged, array {self.name} cannot be unpacked"
                    raise InputError(what, seen=error, remedy="get the file again") from None
            return
        start, skip, size = self._plain()
        for offset in range(0, size, BYTES):
            yield self._decoded(start, skip + offset, min(BYTES, size - offset))

    def taker(self) -> "Taker":
        return Taker(self)

    def mapped(self) -> "Mapped":
        """All of it, on disk."""
        if not (self.encoded or self.coding.compressed) and len(self.parts.paths) == 1:
            start, skip, size = self._plain()
            return Mapped(self.parts.files[0], start + skip, size, self)
        file = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the map)
        size = sum(file.write(block) for block in self.blocks())
        file.flush()
        return Mapped(file, 0, size, self)


class Taker:
    """The rows of an array, one run after the other."""

    def __init__(self, column: Column) -> None:
        self.column, self.blocks, self.rest = column, column.blocks(), b""

    def take(self, count: int) -> NDArray[Any]:
        """The next rows: (count,), or (count, components)."""
        column = self.column
        need = count * column.components * column.dtype.itemsize
        pieces, have = [self.rest], len(self.rest)
        while have < need:
            block = next(self.blocks, None)
            if block is None:
                what = f"{column.parts.paths[0]}: array {column.name} is too short"
                raise InputError(what, seen=f"{have} of {need} bytes", remedy="get the file again")
            pieces.append(block)
            have += len(block)
        data = b"".join(pieces)
        self.rest = data[need:]
        values = np.frombuffer(data[:need], column.dtype)
        return values.reshape(count, column.components) if column.components > 1 else values


class Mapped:
    """An array on disk, of which any rows can be looked up."""

    def __init__(self, file: IO[bytes], start: int, size: int, column: Column) -> None:
        self.pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        count = size // column.dtype.itemsize
        self.rows = np.frombuffer(self.pages, column.dtype, count, start).reshape(-1, column.components)

    def pick(self, index: Ints) -> NDArray[Any]:
        return self.rows[index]

    def forget(self) -> None:
        """Let go of the pages that were looked at; the disk still has them."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self.pages.madvise(mmap.MADV_DONTNEED)


@dataclass
class Piece:
    """A part of a mesh: its counts, and its arrays by section and name."""

    points: int
    cells: int
    columns: dict[tuple[str, str], Column] = field(default_factory=dict)


class VtuFile:
    """A VTU file of which only the description has been read."""

    def __init__(self, *paths: Path) -> None:
        self.parts = Parts(paths)
        self.label = str(paths[0])
        self.pieces = self._described()
        if not self.pieces:
            raise InputError(f"{self.label}: not a VTU file, it describes no mesh", remedy="export it again")

    @property
    def cells(self) -> int:
        return sum(piece.cells for piece in self.pieces)

    def names(self, section: str) -> list[str]:
        """Arrays of CellData or PointData."""
        return [name for where, name in self.pieces[0].columns if where == section]

    def _described(self) -> list[Piece]:
        """The mesh as its tags tell it; inline arrays are jumped over."""
        pieces: list[Piece] = []
        appended: list[tuple[Piece, str, dict[str, str]]] = []
        coding, section, at = Coding(4, "<", False), "", 0
        while window := self.parts.read(at, 1 << 16):
            match = TAG.search(window)
            if match is None:
                at += max(len(window) - (1 << 12), 1) if len(window) == 1 << 16 else len(window)
                continue
            at += match.end()
            tag = match[1].decode()
            said = {key.decode(): value.decode(errors="replace") for key, value in ATTRIBUTE.findall(match[2])}
            if tag == "VTKFile":
                coding = self._coding(said)
            elif tag == "Piece":
                pieces.append(Piece(int(said.get("NumberOfPoints", 0)), int(said.get("NumberOfCells", 0))))
            elif tag.lstrip("/") in SECTIONS:
                section = "" if tag.startswith("/") else tag
            elif tag == "DataArray" and section and pieces:
                if said.get("format") == "appended":
                    appended.append((pieces[-1], section, said))
                elif said.get("format") == "binary":
                    blank = re.match(rb"\s*", self.parts.read(at, 256))
                    at += blank.end() if blank else 0
                    column = self._column(said, coding, at, True)
                    pieces[-1].columns[section, column.name] = column
                    at += column.stored
            elif tag == "AppendedData":
                start = at + self.parts.read(at, 256).index(b"_") + 1
                for piece, where, told in appended:
                    place = start + int(told["offset"])
                    column = self._column(told, coding, place, said.get("encoding") == "base64")
                    piece.columns[where, column.name] = column
                break
        return pieces

    def _coding(self, said: dict[str, str]) -> Coding:
        packer = said.get("compressor", "")
        if packer not in ("", "vtkZLibDataCompressor"):
            remedy = "write it with zlib or without compression"
            raise InputError(f"{self.label}: packed in a way that cannot be streamed", seen=packer, remedy=remedy)
        word = 8 if said.get("header_type") == "UInt64" else 4
        return Coding(word, ">" if said.get("byte_order") == "BigEndian" else "<", bool(packer))

    def _column(self, said: dict[str, str], coding: Coding, start: int, encoded: bool) -> Column:
        kind = TYPES.get(said.get("type", ""))
        if kind is None:
            raise InputError(f"{self.label}: array of an unknown type", seen=said.get("type"))
        dtype, width = np.dtype(coding.order + kind), int(said.get("NumberOfComponents", "1") or 1)
        return Column(self.parts, coding, said.get("Name", ""), dtype, width, start, encoded)

    def chunks(self, names: Sequence[str], size: int = CELLS) -> Iterator[Cells]:
        """All cells with the arrays named, in order; those that belong to points are averaged over a cell's corners."""
        for piece in self.pieces:
            yield from self._chunks(piece, names, size)

    def _chunks(self, piece: Piece, names: Sequence[str], size: int) -> Iterator[Cells]:
        def column(section: str, name: str) -> Column:
            if (section, name) not in piece.columns:
                remedy = "write it with binary or appended arrays" if section in ("Points", "Cells") else ""
                have = ", ".join(name for _, name in piece.columns) or "no array that can be streamed"
                raise InputError(f"{self.label} has no array {name}", seen=have, remedy=remedy)
            return piece.columns[section, name]

        points = next((c for (where, _), c in piece.columns.items() if where == "Points"), None)
        points = points or column("Points", "Points")
        at_points = [name for name in names if ("CellData", name) not in piece.columns]
        lookups = {name: column("PointData", name).mapped() for name in at_points}
        places = points.mapped()
        if len(places.rows) != piece.points:
            raise InputError(f"{self.label}: wrong number of points", seen=f"{len(places.rows)} of {piece.points}")
        ends, corners, kinds = (column("Cells", name).taker() for name in ("offsets", "connectivity", "types"))
        values = {name: column("CellData", name).taker() for name in names if name not in at_points}
        done = 0
        for start in range(0, piece.cells, size):
            count = min(size, piece.cells - start)
            stops = ends.take(count).astype(np.int64)
            starts = np.concatenate([[done], stops[:-1]])
            if (stops <= starts).any():
                raise InputError(f"{self.label}: damaged, cells without corners", remedy="get the file again")
            index = corners.take(int(stops[-1]) - done).astype(np.int64)
            if not 0 <= index.min() <= index.max() < piece.points:
                raise InputError(f"{self.label}: damaged, cells refer to points that do not exist")
            where = places.pick(index).astype(float)
            begins, sides = starts - done, stops - starts
            done = int(stops[-1])
            fields = {name: taker.take(count).reshape(count, -1) for name, taker in values.items()}
            for name, lookup in lookups.items():
                sums = np.add.reduceat(lookup.pick(index).astype(float), begins, axis=0)
                fields[name] = sums / sides[:, None]
            centres = np.add.reduceat(where, begins, axis=0) / sides[:, None]
            yield Cells(centres, _volumes(kinds.take(count), where, begins, sides, centres), fields)
            for lookup in (places, *lookups.values()):
                lookup.forget()


def _volumes(kinds: NDArray[Any], corners: Floats, begins: Ints, sides: Ints, centres: Floats) -> Floats:
    """(n,) volumes of cells whose corners lie one after the other in `corners`.

    Exact where faces are plane. Of polyhedra, which are hexahedra with divided faces in meshes for cars, it is that of
    the box whose corners scatter as far as theirs.
    """
    volumes = np.empty(len(kinds))
    for kind in np.unique(kinds).tolist():
        rows = np.flatnonzero(kinds == kind)
        if kind in FACES:
            count = max(map(max, FACES[kind])) + 1
            own = corners[begins[rows][:, None] + np.arange(count)] - centres[rows][:, None]
            volumes[rows] = np.abs(sum(_pyramid(own[:, face]) for face in FACES[kind]))
            continue
        which = np.repeat(np.arange(len(kinds)), sides)
        off = corners - centres[which]
        scatter = np.add.reduceat(off[:, :, None] * off[:, None, :], begins, axis=0)[rows] / sides[rows, None, None]
        volumes[rows] = 8 * np.sqrt(np.maximum(np.linalg.det(scatter), 0))
    return volumes


def _pyramid(face: Floats) -> Floats:
    """(n,) volume of the pyramids from the origin to faces (n, 3 or 4, 3)."""
    last = face[:, -1] - (face[:, 1] if face.shape[1] == 4 else face[:, 0])
    across = face[:, 2] - face[:, 0] if face.shape[1] == 4 else face[:, 1] - face[:, 0]
    return np.asarray(np.einsum("nd,nd->n", np.cross(across, last), face.mean(axis=1)) / 6)


def parts_of(path: Path) -> list[Path]:
    """The file, or the parts that it was cut into, in order; none where there is neither."""
    if path.is_file():
        return [path]
    return sorted(path.parent.glob(f"{path.name}.*.part"), key=lambda part: int(part.name.split(".")[-2]))


def worth_streaming(path: Path, points: int) -> bool:
    """Whether a file is a VTU with more cells than `points`."""
    return path.suffix.lower() == ".vtu" and path.stat().st_size > 8 * points and VtuFile(path).cells > points
