"""Airfoil coordinate files as they are found: a closed curve out of columns of numbers and whatever is around them.

Read are, with titles, comments, zone headers, addresses and remarks before, between and after the numbers:

    once around      from the trailing edge over one side to the nose and back along the other (Selig)
    two sides        each from nose to tail or back, one after the other (Lednicer, with counts above them or without)
    a table          x with the two ordinates beside it, or x and y of both sides in four columns
    CSV              columns by their names x and y where there is a header

A closed curve is as in airfoil.py. Where a file leaves its trailing edge open, the joining segment is that edge.
"""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.errors import InputError
from aerosurrogate.writing import write_text

Curve = NDArray[np.float64]
Block = NDArray[np.float64]  # (n, columns) rows of numbers that follow each other

SUFFIXES = (".dat", ".txt", ".csv", ".cor")
LEAST = 3  # rows: fewer numbers than this in a row are a date or a telephone, not a side of a section
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?"
ROW = re.compile(rf"\s*\(?({NUMBER})(?:[\s,;]+({NUMBER}))(?:[\s,;]+({NUMBER}))?(?:[\s,;]+({NUMBER}))?[\s,;)]*")
POINT = re.compile(rf"\s*({NUMBER})[\s,;]+({NUMBER})\s+\D.*")  # a remark behind a pair
BROKEN = re.compile(rf"\s*(?:{NUMBER}|nan|inf)\b", re.IGNORECASE)
DECIMAL_COMMA = re.compile(r"\s*-?\d*,\d+\s*[;\s]\s*-?\d*,\d+\s*")  # as spreadsheets of half of Europe write a pair
COMMENT = re.compile(r"\s*(?:#|!|%|//).*")
# Tecplot's meshes end in .dat too: their zones have cells.
CELLS = re.compile(r"^\s*ZONE\b.*\b(?:E\s*=|ELEMENTS\s*=|ZONETYPE\s*=\s*FE)", re.MULTILINE | re.IGNORECASE | re.DOTALL)


def named_in_folder(path: Path) -> Path | None:
    """The coordinate file that a name without its ending stands for: `airfoils/e387` is airfoils/e387.dat."""
    if path.exists() or path.suffix.lower() in SUFFIXES or not path.parent.is_dir():
        return None
    found = [p for p in path.parent.iterdir() if p.suffix.lower() in SUFFIXES and p.stem.lower() == path.name.lower()]
    return min(found, key=lambda p: SUFFIXES.index(p.suffix.lower()), default=None)


def is_section(path: Path) -> bool:
    """Whether a file is one of coordinates."""
    return path.suffix.lower() in SUFFIXES and not CELLS.search(path.read_text(errors="replace"))


def read_section(path: Path) -> Curve:
    """The closed curve (n, 2) in a coordinate file."""
    blocks = _blocks(path)
    sides = _sides(blocks, path)
    table = np.concatenate(sides)
    if not np.all(np.isfinite(table)):
        raise InputError(f"{path}: coordinates that are not finite numbers")
    return closed_curve(table, str(path))


def closed_curve(points: Curve, label: str) -> Curve:
    """Points (n, 2) once around a section, in either direction and from any start, as a closed curve."""
    apart = np.linalg.norm(points - np.roll(points, 1, axis=0), axis=1) > 1e-9 * np.ptp(points, axis=0).max()
    points = points[apart]
    x, y = points.T
    area = 0.5 * float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))
    if len(points) < 5 or abs(area) < 1e-9 * float(np.ptp(x)) ** 2:
        raise InputError(f"{label}: the coordinates enclose no area", seen=f"{len(points)} distinct points")
    if area < 0:
        points = points[::-1]
    # A blunt trailing edge has two rearmost points: the start is the one after which the curve runs forward.
    rear = np.flatnonzero(points[:, 0] >= points[:, 0].max() - 1e-9 * np.ptp(points[:, 0]))
    start = rear[np.argmax(points[rear, 1])]
    return np.roll(points, -int(start), axis=0)


def write_section(curve: Curve, path: Path, title: str) -> None:
    """Write a closed curve (n, 2) once around from the trailing edge over the upper side (Selig)."""
    around = closed_curve(curve, str(path))
    first, last = around[0], around[-1]
    # A blunt trailing edge stays open in the file: what joins its ends is that edge.
    blunt = abs(last[0] - first[0]) < 1e-6 * np.ptp(around[:, 0])
    table = around if blunt else np.concatenate([around, around[:1]])
    write_text(path, "\n".join([title, *(f"{x:10.7f} {y:10.7f}" for x, y in table)]) + "\n")


def _blocks(path: Path) -> list[Block]:
    """Runs of rows of numbers, those with their counts or too short to be a side left out."""
    runs: list[list[list[float]]] = [[]]
    broken: list[tuple[int, int, str]] = []  # lines that begin as a row and are none: after which run, number, text
    header: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig", errors="replace").splitlines(), 1):
        text = COMMENT.sub("", line)
        if DECIMAL_COMMA.fullmatch(text):
            text = text.replace(",", ".")
        if (match := ROW.fullmatch(text)) or ("." in text and (match := POINT.fullmatch(text))):
            row = [float(word.lower().replace("d", "e")) for word in match.groups() if word is not None]
            if runs[-1] and len(runs[-1][-1]) != len(row):
                runs.append([])
            runs[-1].append(row)
            continue
        if BROKEN.match(text) and runs[-1]:
            broken.append((len(runs), number, line.strip()))
        elif text.strip() and not any(runs):
            header = [word.strip(" \"'").lower() for word in re.split(r"[,;\s]+", text.strip())]
        if runs[-1]:
            runs.append([])
    kept = [i for i, run in enumerate(runs) if len(run) >= LEAST]
    for place, number, line in broken:
        if kept and kept[0] < place <= kept[-1]:
            raise InputError(f"{path}: line {number} is not a pair of coordinates", seen=line[:60])
    blocks = [_two_columns(np.array(runs[i]), header) for i in kept]
    if not blocks or sum(map(len, blocks)) < 5:
        seen = f"{sum(map(len, blocks))} points"
        raise InputError(f"{path}: too few coordinates for an airfoil", seen=seen, remedy="give x and y, a pair a line")
    return _without_counts(blocks)


def _two_columns(rows: Block, header: list[str]) -> Block:
    """x and y of rows with more columns: named ones, without a running number, or the table's two sides in one."""
    names = [name.removesuffix("/c") for name in header]
    if len(names) == rows.shape[1] and "x" in names and "y" in names:
        return rows[:, [names.index("x"), names.index("y")]]
    if rows.shape[1] == 4:
        return np.concatenate([rows[::-1, :2], rows[:, 2:]])
    if rows.shape[1] == 3:
        first, _, third = rows.T
        if np.array_equal(first, first[0] + np.arange(len(rows))) and np.ptp(first) > 2:
            return rows[:, 1:]
        if np.ptp(third) > 0 and (np.all(np.diff(first) > 0) or np.all(np.diff(first) < 0)):
            return np.concatenate([rows[::-1, :2], rows[:, [0, 2]]])
    return rows[:, :2]


def _without_counts(blocks: list[Block]) -> list[Block]:
    """Without the line of counts above two sides, or a title made of two numbers; split where the counts say so."""
    first, rest = blocks[0][0], blocks[0][1:]
    others = np.concatenate([rest, *blocks[1:]])
    if np.abs(first - others.mean(axis=0)).max() <= 3 * np.ptp(others, axis=0).max():
        return blocks
    upper = round(first[0])
    if first.sum() == len(others) and 0 < upper < len(others):
        return [others[:upper], others[upper:]]
    return [rest, *blocks[1:]]


def _sides(blocks: list[Block], path: Path) -> list[Block]:
    """The parts of the curve in the order in which they follow each other."""
    if len(blocks) == 1:
        x = blocks[0][:, 0]
        jump = np.flatnonzero(np.abs(np.diff(x)) > 0.5 * np.ptp(x))
        if len(jump) != 1:
            return blocks
        blocks = [blocks[0][: jump[0] + 1], blocks[0][jump[0] + 1 :]]  # two sides without a gap between them
    if len(blocks) > 2:
        raise InputError(
            f"{path}: more than the two sides of one section",
            seen=f"{len(blocks)} lists of coordinates",
            remedy="give each element of the section as a file of its own",
        )
    one, other = blocks
    ways = [(1, 1), (-1, 1), (1, -1), (-1, -1)]  # along the list, or back
    gaps = {(a, b): float(np.linalg.norm(one[::a][-1] - other[::b][0])) for a, b in ways}
    size = max(float(np.ptp(np.concatenate(blocks)[:, 0])), 1e-30)  # one of them may be a point
    a, b = min(ways, key=lambda way: round(gaps[way] / size, 4))  # the second side goes on where the first one ends
    return [one[::a], other[::b]]
