"""OFF files: counts, points and polygons in plain text."""

from pathlib import Path

import numpy as np

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.surface import Floats, Ints


def read_off(path: Path) -> tuple[Floats, Ints]:
    """Points (n, 3) and flat polygons (number of corners, corners, number of corners, ...) of an OFF file."""
    rows = [line.partition(b"#")[0].split() for line in path.read_bytes().splitlines()]
    rows = [row for row in rows if row]
    try:
        if rows[0][0].upper() != b"OFF":
            raise ValueError("it does not start with OFF")
        rows = [rows[0][1:], *rows[1:]] if len(rows[0]) > 1 else rows[1:]  # counts may share the first line
        points, faces = (int(word) for word in rows[0][:2])
        if not (points > 0 and faces > 0 and points + faces < len(rows)):
            raise ValueError(f"{points:,} points and {faces:,} faces promised in {len(rows):,} lines")
        corners = [np.array(row[: int(row[0]) + 1], dtype=np.int64) for row in rows[1 + points : 1 + points + faces]]
        if any(len(row) != row[0] + 1 for row in corners):
            raise ValueError("a face with too few corners")
        return np.array([row[:3] for row in rows[1 : 1 + points]], dtype=float).reshape(-1, 3), np.concatenate(corners)
    except (ValueError, IndexError, OverflowError) as error:
        raise InputError(f"{path}: damaged OFF file", seen=error, remedy="export it again, or as .stl") from error
