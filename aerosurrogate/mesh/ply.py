"""PLY files, ASCII and binary. VTK's reader crashes on damaged ones, meshio's misses half of the names in use."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.surface import Arrays, Floats, Ints

TYPES = {
    "char": "i1",
    "uchar": "u1",
    "short": "i2",
    "ushort": "u2",
    "int": "i4",
    "uint": "u4",
    "float": "f4",
    "double": "f8",
}
TYPES |= {"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4"}
TYPES |= {"float32": "f4", "float64": "f8", "int64": "i8", "uint64": "u8"}
ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}


class Ply(NamedTuple):
    """A PLY file's content."""

    points: Floats  # (n, 3)
    faces: Ints  # flat: number of corners, corners, number of corners, ...
    point_data: Arrays  # (n,) each


class Element(NamedTuple):
    name: str
    size: int
    scalars: list[tuple[str, str]]  # name, type
    lists: list[tuple[str, str, str]]  # name, type of the count, type of the items


def read_ply(path: Path) -> Ply:
    """Points, polygons and scalar point arrays of a PLY file."""
    data = path.read_bytes()
    head, mark, body = data.partition(b"end_header")
    try:
        order, elements = _header(head.decode("ascii"))
        body = body[body.index(b"\n") + 1 :] if mark else b""
        if not all(0 <= element.size <= len(body) for element in elements):
            raise ValueError(f"{max(element.size for element in elements):,} items promised in {len(data):,} bytes")
        return _content(elements, _Ascii(body) if order == "" else _Binary(body, order))
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, MemoryError) as error:
        raise InputError(f"{path}: damaged PLY file", seen=error, remedy="export it again, or as .stl") from error


def _header(text: str) -> tuple[str, list[Element]]:
    lines = [line.split() for line in text.splitlines()]
    if not lines or lines[0] != ["ply"]:
        raise ValueError("it does not start with ply")
    order, elements = None, []
    for words in lines[1:]:
        match words:
            case ["format", kind, _]:
                order = ORDERS[kind]
            case ["element", name, count]:
                elements.append(Element(name, int(count), [], []))
            case ["property", "list", counts, items, name]:
                elements[-1].lists.append((name, TYPES[counts], TYPES[items]))
            case ["property", kind, name]:
                elements[-1].scalars.append((name, TYPES[kind]))
    if order is None:
        raise ValueError("no format in its header")
    return order, elements


class _Ascii:
    """Numbers one after the other."""

    def __init__(self, body: bytes) -> None:
        self.numbers, self.at = np.array(body.split(), dtype=float), 0

    def table(self, element: Element) -> Arrays:
        names = [name for name, _ in element.scalars]
        values = self._take(element.size * len(names)).reshape(element.size, -1)
        return {name: values[:, column].copy() for column, name in enumerate(names)}

    def faces(self, element: Element) -> list[Ints]:
        found = []
        for _ in range(element.size):
            size = int(self._take(1)[0])
            found.append(np.append(size, self._take(size).astype(np.int64)))
            self._take(len(element.scalars))
        return found

    def _take(self, count: int) -> Floats:
        if not 0 <= count <= len(self.numbers) - self.at:
            raise ValueError("it ends too early")
        self.at += count
        return self.numbers[self.at - count : self.at]


class _Binary:
    """Packed records."""

    def __init__(self, body: bytes, order: str) -> None:
        self.body, self.order, self.at = body, order, 0

    def table(self, element: Element) -> Arrays:
        values = self._take([(name, self.order + kind) for name, kind in element.scalars], element.size)
        return {name: values[name].copy() for name, _ in element.scalars}

    def faces(self, element: Element) -> list[Ints]:
        _, counts, items = element.lists[0]
        rest = [(name, self.order + kind) for name, kind in element.scalars]
        found: list[Ints] = []
        left = element.size
        while left:
            # As many faces as follow with the same number of corners: all of them, in a mesh of triangles.
            size = int(self._take([("count", self.order + counts)], 1)["count"][0])
            self.at -= np.dtype(counts).itemsize
            record = [("count", self.order + counts), ("corners", self.order + items, (size,)), *rest]
            fits = min(left, (len(self.body) - self.at) // np.dtype(record).itemsize)
            faces = self._take(record, fits)
            other = np.flatnonzero(faces["count"] != size)
            alike = int(other[0]) if len(other) else max(fits, 1)
            self.at -= (fits - alike) * np.dtype(record).itemsize
            found.append(np.column_stack([np.full(alike, size), faces["corners"][:alike].astype(np.int64)]).ravel())
            left -= alike
        return found

    def _take(self, record: list[Any], count: int) -> NDArray[Any]:
        kind = np.dtype(record)
        if count * kind.itemsize > len(self.body) - self.at or not count:
            raise ValueError("it ends too early")
        values = np.frombuffer(self.body, kind, count, self.at)
        self.at += kind.itemsize * count
        return values


def _content(elements: list[Element], source: _Ascii | _Binary) -> Ply:
    table: Arrays = {}
    faces: list[Ints] = []
    for element in elements:
        if element.name == "face" and len(element.lists) == 1:
            faces = source.faces(element)
            break  # edges, strips and materials behind the faces are of no use here
        if element.lists:
            raise ValueError(f"cannot read its element {element.name}")
        values = source.table(element)
        table = values if element.name == "vertex" else table
    points = np.stack([table.pop(axis) for axis in "xyz"], axis=1).astype(float)
    return Ply(points, np.concatenate(faces) if faces else np.empty(0, np.int64), table)
