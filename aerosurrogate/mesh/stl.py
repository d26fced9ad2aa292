"""STL files, ASCII and binary, read with care: their headers lie more often than others'."""

import re
from pathlib import Path

import numpy as np

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.surface import Floats

HEADER = 84  # bytes: 80 of text, then the number of triangles
RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])  # 50 bytes
VERTEX = re.compile(rb"^\s*vertex\s+(\S+)\s+(\S+)\s+(\S+)\s*$", re.MULTILINE | re.IGNORECASE)
FACET = re.compile(rb"^\s*facet\b", re.MULTILINE | re.IGNORECASE)


def read_stl(path: Path) -> Floats:
    """The corners (m, 3, 3) of an STL file's triangles, in the file's units."""
    data = path.read_bytes()
    count = int.from_bytes(data[80:HEADER], "little")
    # Binary files may start with "solid" too: the size decides.
    if len(data) > HEADER and len(data) == HEADER + RECORD.itemsize * count:
        return np.frombuffer(data, RECORD, offset=HEADER)["corners"].astype(float)
    if data[:200].lstrip()[:5].lower() == b"solid" or FACET.search(data[:2000]):
        return _ascii(path, data)
    if len(data) < HEADER:
        raise InputError(f"{path}: too short for an STL file", seen=f"{len(data)} bytes")
    raise InputError(
        f"{path}: damaged STL file, its header promises {count:,} triangles",
        seen=f"{len(data):,} bytes, not {HEADER + RECORD.itemsize * count:,}",
        remedy="export it again",
    )


def _ascii(path: Path, data: bytes) -> Floats:
    vertices = VERTEX.findall(data)
    facets = len(FACET.findall(data))
    if not facets or len(vertices) != 3 * facets:
        raise InputError(
            f"{path}: damaged ASCII STL file",
            seen=f"{facets:,} facets with {len(vertices):,} corners",
            remedy="export it again",
        )
    try:
        return np.array(vertices).astype(float).reshape(-1, 3, 3)
    except ValueError as error:
        raise InputError(f"{path}: a corner that is not three numbers", seen=error, remedy="export it again") from error
