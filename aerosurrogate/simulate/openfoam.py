"""OpenFOAM, as far as this package needs it: find it, write its dictionaries, run it, read back what it wrote.

Traps that are settled here, once:
- Debian's package needs one variable, WM_PROJECT_DIR; sourcing its `etc/bashrc` fails. PWD must be the case folder.
- A list in a dictionary needs a space before its bracket: `liftDir (0 0 1)`.
- `wallShearStress` is the stress of the wall on the fluid per density: `skin_stress` turns it round.
- Pressure is kinematic (p / rho).
- The mesh is read with its faces and their owners, which VTK's reader of anybody's cases (mesh/volume.py) leaves out.
- A run is ended from outside by the `abort` function object (a file appears, the step is finished and written): no
  restart, hence no end time that misses the write interval.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from aerosurrogate.errors import InputError

Array = np.ndarray
INSTALL = "apt-get install openfoam"
HOMES = ("/usr/share/openfoam", "/usr/lib/openfoam", "/opt/openfoam")
STOP_FILE = "STOP"
WIDTHS = {"scalar": 1, "vector": 3, "symmTensor": 6, "tensor": 9}


class SolverError(RuntimeError):
    """An OpenFOAM program ended with an error; the message holds the end of its log."""


def environment() -> dict[str, str]:
    """Environment variables OpenFOAM's programs need. Raises InputError where OpenFOAM is not installed."""
    home = os.environ.get("WM_PROJECT_DIR") or next((h for h in HOMES if Path(h, "etc/controlDict").exists()), "")
    if not home or not shutil.which("simpleFoam"):
        raise InputError("OpenFOAM is not installed on this machine", seen="no simpleFoam on PATH", remedy=INSTALL)
    return {**os.environ, "WM_PROJECT_DIR": home, "FOAM_SIGFPE": "false"}


# --- writing ---------------------------------------------------------------------------------------------------


def header(kind: str, name: str, binary: bool = False) -> str:
    """The FoamFile block of a file of class `kind` (dictionary, volScalarField, ...)."""
    form = 'binary;\n    arch "LSB;label=32;scalar=64"' if binary else "ascii"
    return f"FoamFile\n{{\n    version 2.0;\n    format {form};\n    class {kind};\n    object {name};\n}}\n\n"


def entry(value: Any) -> str:
    """A value in OpenFOAM's spelling: True -> yes, [0, 0, 1] -> (0 0 1), everything else as it prints."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{value:.10g}"
    if isinstance(value, list | tuple | np.ndarray):
        return "(" + " ".join(entry(v) for v in value) + ")"
    return str(value)


def dictionary(entries: Mapping[str, Any], indent: int = 0) -> str:
    """Nested mappings as an OpenFOAM dictionary. Keys that are patterns bring their own quotes: '"k|omega"'."""
    pad = "    " * indent
    lines = []
    for key, value in entries.items():
        if isinstance(value, Mapping):
            lines += [f"{pad}{key}", f"{pad}{{", dictionary(value, indent + 1) + f"{pad}}}"]
        else:
            lines.append(f"{pad}{key} {entry(value)};")
    return "\n".join(lines) + "\n"


def write_dictionary(path: Path, entries: Mapping[str, Any]) -> None:
    """Write `entries` to `path` (case/system/controlDict, ...), with its header; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(header("dictionary", path.name) + dictionary(entries))


def write_field(path: Path, dimensions: str, internal: Any, boundary: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a volume field. `internal`: a number, a vector (3,), or values for all cells, (n,) or (n, 3).

    `boundary`: {patch name or quoted pattern: dictionary of its condition}.
    """
    values = np.asarray(internal, float)
    vector = values.shape[-1:] == (3,)
    uniform = values.ndim == (1 if vector else 0)
    kind = "vector" if vector else "scalar"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as f:
        head = header(f"vol{kind.title()}Field", path.name, binary=True) + f"dimensions {dimensions};\ninternalField "
        f.write(head.encode())
        if uniform:
            f.write(f"uniform {entry(internal)}".encode())
        else:
            f.write(f"nonuniform List<{kind}>\n{len(values)}\n(".encode() + values.astype("<f8").tobytes() + b")")
        f.write((";\n" + dictionary({"boundaryField": boundary})).encode())


def write_mesh(
    case: Path,
    points: Array,
    faces: Array,
    owner: Array,
    neighbour: Array,
    patches: Mapping[str, tuple[str, int]],
) -> None:
    """Write constant/polyMesh of quadrilateral faces (f, 4), internal faces first and then patch by patch.

    `patches`: {name: (type, number of faces)} in the order of the faces.
    """
    folder = case / "constant" / "polyMesh"
    folder.mkdir(parents=True, exist_ok=True)

    def lists(name: str, kind: str, *arrays: Array) -> None:
        blocks = b"\n".join(str(len(a)).encode() + b"\n(" + a.tobytes() + b")" for a in arrays)
        (folder / name).write_bytes(header(kind, name, binary=True).encode() + blocks + b"\n")

    offsets = np.arange(0, faces.size + 1, faces.shape[1], dtype="<i4")
    flat = faces.astype("<i4").ravel()
    vectors = np.ascontiguousarray(points, "<f8")
    lists("points", "vectorField", vectors)
    lists("faces", "faceCompactList", offsets, flat)
    lists("owner", "labelList", owner.astype("<i4"))
    lists("neighbour", "labelList", neighbour.astype("<i4"))
    start = len(neighbour)
    blocks = []
    for name, (kind, count) in patches.items():
        blocks.append(f"{name}\n{{\n" + dictionary({"type": kind, "nFaces": count, "startFace": start}, 1) + "}\n")
        start += count
    text = f"{len(patches)}\n(\n" + "".join(blocks) + ")\n"
    (folder / "boundary").write_text(header("polyBoundaryMesh", "boundary") + text)


# --- running ---------------------------------------------------------------------------------------------------

ABORT = {"type": "abort", "libs": "(utilityFunctionObjects)", "file": f'"<case>/{STOP_FILE}"', "action": "writeNow"}
"""Function object to put under `functions` of controlDict where `run(..., until=...)` shall end the run."""


def run(
    case: Path,
    program: str,
    *arguments: str,
    until: Callable[[], bool] | None = None,
    limit: float = 3600.0,
) -> Path:
    """Run `program` in the folder `case`, its output to `case/log.<program>`; returns that log.

    `until` is asked a few times a second; once it says True the run finishes its step, writes and ends (needs the
    function object `ABORT`). Raises SolverError when the program fails or takes longer than `limit` seconds.
    """
    log = case / f"log.{program}"
    stop = case / STOP_FILE
    stop.unlink(missing_ok=True)
    env = {**environment(), "PWD": str(case)}
    end = time.monotonic() + limit
    with log.open("wb") as out:
        process = subprocess.Popen([program, *arguments], cwd=case, env=env, stdout=out, stderr=subprocess.STDOUT)
        try:
            while True:
                try:
                    process.wait(0.25)
                    break
                except subprocess.TimeoutExpired:
                    if time.monotonic() > end:
                        raise SolverError(f"{program} took longer than {limit:.0f} s") from None
                    if until is not None and not stop.exists() and until():
                        stop.touch()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if process.returncode != 0:
        raise SolverError(f"{program} failed: {_last_words(log)}")
    return log


def _last_words(log: Path) -> str:
    """The error message in a log, or its last line, in one short line."""
    text = log.read_text(errors="replace")
    found = re.search(r"FOAM FATAL (?:IO )?ERROR:?\s*(.+?)\n\s*\n", text, re.S)
    words = found.group(1) if found else "\n".join(text.strip().splitlines()[-1:])
    return " ".join(words.split())[:300]


def latest_time(case: Path) -> Path:
    """The time folder with the largest number."""
    times = [d for d in case.iterdir() if d.is_dir() and re.fullmatch(r"\d+(\.\d+)?", d.name)]
    return max(times, key=lambda d: float(d.name))


# --- reading ---------------------------------------------------------------------------------------------------


def history(case: Path, name: str = "forceCoeffs") -> dict[str, Array]:
    """The table a function object wrote: {column: (iterations,)}, restarts joined, the later one kept.

    For forceCoeffs: Time, Cd, Cl, CmPitch, ... A last line that is still being written is left out. Raises SolverError
    where the solution blew up: the solver itself would go on with numbers that are none, at a snail's pace.
    """
    rows: dict[float, list[float]] = {}
    names: list[str] = []
    for file in sorted((case / "postProcessing" / name).glob("*/coefficient*.dat"), key=lambda f: float(f.parent.name)):
        for line in file.read_text().splitlines():
            if line.startswith("#"):
                names = line[1:].split()
            elif len(values := line.split()) == len(names):
                rows[float(values[0])] = [float(v) for v in values]
    table = np.array(list(rows.values())).reshape(-1, max(len(names), 1))
    if len(table) and not np.isfinite(table[-1]).all():
        raise SolverError(f"the solution blew up within {len(table)} iterations")
    return {n: table[:, i] for i, n in enumerate(names)}


def swing(series: Array, window: int) -> float:
    """Largest minus smallest value of the last `window` entries; inf when there are fewer or one is not finite."""
    tail = series[-window:]
    return float(np.ptp(tail)) if len(tail) == window and np.isfinite(tail).all() else np.inf


def drift(series: Array, window: int) -> float:
    """Mean of the later half minus mean of the earlier half of the last `window` entries; inf when there are fewer."""
    tail = series[-window:]
    if len(tail) < window or not np.isfinite(tail).all():
        return np.inf
    half = window // 2
    return float(tail[half:].mean() - tail[:half].mean())


@dataclass(frozen=True)
class Patch:
    kind: str
    start: int
    count: int

    @property
    def faces(self) -> slice:
        """Where the patch's faces lie in the mesh's face arrays."""
        return slice(self.start, self.start + self.count)


@dataclass(frozen=True)
class PolyMesh:
    """A mesh of polyhedra.

    points (p, 3); face f has the corners labels[offsets[f]:offsets[f + 1]]; owner (f,), neighbour (internal faces,);
    area vectors point from the owner to the neighbour, on patches out of the fluid (into the body).
    """

    points: Array
    offsets: Array
    labels: Array
    owner: Array
    neighbour: Array
    patches: dict[str, Patch]

    @property
    def cells(self) -> int:
        return int(max(self.owner.max(), self.neighbour.max(initial=0))) + 1

    @cached_property
    def _faces(self) -> tuple[Array, Array]:
        """Centres (f, 3) and area vectors (f, 3), from triangles around each face's mean point."""
        sizes = np.diff(self.offsets)
        face = np.repeat(np.arange(len(sizes)), sizes)
        following = np.arange(len(self.labels)) + 1
        following[self.offsets[1:] - 1] = self.offsets[:-1]
        a, b = self.points[self.labels], self.points[self.labels[following]]
        middle = np.add.reduceat(a, self.offsets[:-1]) / sizes[:, None]
        triangle = 0.5 * np.cross(b - a, middle[face] - a)
        area = np.add.reduceat(triangle, self.offsets[:-1])
        size = np.linalg.norm(area, axis=1)
        unit = area / np.maximum(size, 1e-300)[:, None]
        weight = np.einsum("ij,ij->i", triangle, unit[face])
        moment = weight[:, None] * (a + b + middle[face]) / 3
        return np.add.reduceat(moment, self.offsets[:-1]) / np.maximum(size, 1e-300)[:, None], area

    @property
    def face_centres(self) -> Array:
        return self._faces[0]

    @property
    def face_areas(self) -> Array:
        return self._faces[1]

    @cached_property
    def _cells(self) -> tuple[Array, Array]:
        """Centres (c, 3) and volumes (c,), from pyramids over the faces."""
        centre, area = self._faces
        inner = len(self.neighbour)
        cell = np.concatenate([self.owner, self.neighbour])
        face = np.concatenate([np.arange(len(self.owner)), np.arange(inner)])
        sign = np.concatenate([np.ones(len(self.owner)), -np.ones(inner)])
        count = np.bincount(cell, minlength=self.cells)
        middle = np.stack([np.bincount(cell, centre[face, k], self.cells) for k in range(3)], 1) / count[:, None]
        pyramid = sign * np.einsum("ij,ij->i", area[face], centre[face] - middle[cell]) / 3
        apex = 0.75 * centre[face] + 0.25 * middle[cell]
        volume = np.bincount(cell, pyramid, self.cells)
        moment = np.stack([np.bincount(cell, pyramid * apex[:, k], self.cells) for k in range(3)], 1)
        return moment / volume[:, None], volume

    @property
    def cell_centres(self) -> Array:
        return self._cells[0]

    @property
    def cell_volumes(self) -> Array:
        return self._cells[1]


def read_mesh(case: Path) -> PolyMesh:
    """Read constant/polyMesh, ascii or binary."""
    folder = case / "constant" / "polyMesh"
    (points,) = _lists(folder / "points", "<f8", 3)
    compact = b"faceCompactList" in (folder / "faces").read_bytes()[:1000]
    offsets, labels = _lists(folder / "faces", "<i4", 1) if compact else _face_lists(folder / "faces")
    (owner,) = _lists(folder / "owner", "<i4", 1)
    (neighbour,) = _lists(folder / "neighbour", "<i4", 1)
    text = _body((folder / "boundary").read_bytes())[0].decode()
    patches = {}
    for name, block in re.findall(r"(\S+)\s*\{(.*?)\}", text, re.S):
        values = dict(re.findall(r"(\w+)\s+([^;]+);", block))
        patches[name] = Patch(values["type"], int(values["startFace"]), int(values["nFaces"]))
    return PolyMesh(points, offsets, labels, owner, neighbour, patches)


@dataclass(frozen=True)
class Field:
    """internal (cells, c); patches {name: (faces, c)}, only those that hold a value (uniform ones are spread)."""

    internal: Array
    patches: dict[str, Array]


def read_field(path: Path, mesh: PolyMesh) -> Field:
    """Read a volume field, ascii or binary. A zero-gradient patch (no value written) takes its cells' values."""
    text, arrays = _lift(path)
    internal, boundary = text.split("boundaryField", 1)

    def values(words: str, count: int) -> Array | None:
        if found := re.search(r"nonuniform @(\d+)@", words):
            return arrays[int(found.group(1))]
        if found := re.search(r"uniform\s+\(?([^;)]+)\)?\s*;", words):
            return np.tile(np.array(found.group(1).split(), float), (count, 1))
        return None

    inner = values(internal[internal.index("internalField") :], mesh.cells)
    assert inner is not None, f"{path} has no internal values"
    patches = {}
    for name, patch in mesh.patches.items():
        found = re.search(rf"\b{re.escape(name)}\s*\{{(.*?)\n\s*\}}", boundary, re.S)
        block = re.search(r"\bvalue\s+(.*?;)", found.group(1), re.S) if found else None
        if block and (face := values(block.group(1), patch.count)) is not None:
            patches[name] = face
        elif found and "zeroGradient" in found.group(1):
            patches[name] = inner[mesh.owner[patch.faces]]
    return Field(inner, patches)


def skin_stress(field: Field, patch: str, density: float) -> Array:
    """Shear stress of the fluid on the body in Pa, (faces, 3), from the field `wallShearStress` of OpenFOAM."""
    return -density * field.patches[patch]


def _body(data: bytes) -> tuple[bytes, bool]:
    """What follows the FoamFile block, and whether it is binary."""
    end = data.index(b"}", data.index(b"FoamFile")) + 1
    return data[end:], re.search(rb"format\s+binary", data[:end]) is not None


def _lists(path: Path, dtype: str, width: int) -> list[Array]:
    """The lists `N ( ... )` of a mesh file, one after the other; each (N,) or (N, width)."""
    data, binary = _body(path.read_bytes())
    at, found = 0, []
    while start := re.compile(rb"\s*(?://[^\n]*\n\s*)*(\d+)\s*\(").match(data, at):
        count = int(start.group(1))
        if binary:
            at = start.end() + count * width * np.dtype(dtype).itemsize
            values = np.frombuffer(data[start.end() : at], dtype)
            at += 1
        else:
            text = data[start.end() :].translate(None, b"()")
            values = np.array(text.split(b"//")[0].split()[: count * width], dtype)
            at = len(data)
        found.append(values.reshape(-1, width) if width > 1 else values)
    return found


def _face_lists(path: Path) -> tuple[Array, Array]:
    """Faces of an ascii mesh, `4(0 1 2 3)` each, as offsets and labels."""
    text = _body(path.read_bytes())[0].decode()
    faces = re.findall(r"\d+\(([\d\s]+)\)", text)
    labels = [np.array(f.split(), int) for f in faces]
    return np.cumsum([0, *map(len, labels)]), np.concatenate(labels)


def _lift(path: Path) -> tuple[str, list[Array]]:
    """Take the value lists out of a field file: its text with `nonuniform @k@` in their place, and the lists."""
    data, binary = _body(path.read_bytes())
    start = re.compile(rb"nonuniform\s+(?:List<(\w+)>)?\s*(\d+)\s*([({])")
    text: list[bytes] = []
    arrays: list[Array] = []
    at = 0
    while found := start.search(data, at):
        width, count = WIDTHS[(found.group(1) or b"scalar").decode()], int(found.group(2))
        text.append(data[at : found.start()] + b"nonuniform @%d@" % len(arrays))
        if found.group(3) == b"{":  # N{value}: all the same
            at = data.index(b"}", found.end()) + 1
            one = np.array(data[found.end() : at - 1].translate(None, b"()").split(), float)
            values = np.tile(one, count)
        elif binary:
            at = found.end() + 8 * width * count
            values = np.frombuffer(data[found.end() : at], "<f8")
            at += 1
        else:
            at = data.index(b";", found.end())
            values = np.array(data[found.end() : at].translate(None, b"()").split(), float)
        arrays.append(values.reshape(-1, width))
    return b"".join([*text, data[at:]]).decode(), arrays
