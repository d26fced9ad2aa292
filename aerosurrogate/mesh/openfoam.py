"""A solved OpenFOAM case at its latest time: which walls are the body, where the stream comes from, what p means.

The body is every wall where the air stands still that is not a side of the domain's box (the ground is one). Time
means (pMean, UMean, ...) are taken where there are any. Pressure and wall shear are kinematic if p has the dimensions
of m2/s2, and then to be multiplied by the density: rhoInf of a function object in controlDict, else rho of
transportProperties (physicalProperties), else that of air. OpenFOAM's wall shear is that of the wall on the fluid. The
stream is what enters through the boundary.
"""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from aerosurrogate.conditions import DENSITY, VISCOSITY
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.surface import Floats, Surface
from aerosurrogate.mesh.volume import Volume, read_volume

FIELDS = ("p", "U", "wallShearStress", "nut")
STILL = 1e-9  # of the stream's speed
FLAT = 1e-6  # of the domain's size
NUMBER = r"([-+]?[\d.]+(?:[eE][-+]?\d+)?)"
TIME = re.compile(r"\d+(\.\d+)?(e-?\d+)?")


@dataclass(frozen=True, eq=False)
class SolvedCase:
    """What a case says of itself."""

    path: Path
    volume: Volume
    names: dict[str, str]  # of FIELDS, as the case has them
    skin: Surface  # the body, facing the fluid
    stream: Floats | None  # (3,) m/s; None where no air enters
    density: float  # kg/m3
    viscosity: float  # m2/s, kinematic
    kinematic: bool  # p and wallShearStress are per density

    @property
    def flat(self) -> bool:
        return self.skin.dimension == 2

    @property
    def speed(self) -> float | None:
        return None if self.stream is None else float(np.linalg.norm(self.stream))

    @property
    def alpha(self) -> float:
        """Degrees by which the stream of a 2D case comes from below."""
        return 0.0 if self.stream is None or not self.flat else _angle(self.stream)

    @property
    def axes(self) -> tuple[str, str]:
        """Flow and up, as options name them; in 3D the stream must be along an axis."""
        if self.flat or self.stream is None:
            return "+x", "+z"
        axis = int(np.argmax(np.abs(self.stream)))
        if abs(self.stream[axis]) < 0.999 * np.linalg.norm(self.stream):
            raise InputError(f"{self.path}: the stream is not along an axis", seen=self.stream.round(4).tolist())
        sign = "+" if self.stream[axis] > 0 else "-"
        return f"{sign}{'xyz'[axis]}", "+y" if axis == 2 else "+z"

    def ground(self, up: str) -> str:
        """Height of the domain's floor, if it is a wall within a body length of the body, or any floor close to it."""
        if self.flat or not up.startswith("+"):
            return "none" if self.flat else "auto"
        axis = "xyz".index(up[1])
        low, high = _box(self.volume)
        reach = 1.0 if any(_side(wall, low, high) == (axis, False) for wall in self._of_kind("wall")) else 0.15
        near = self.skin.bounds[0][axis] - low[axis] <= reach * self.skin.length
        return f"{low[axis]:.9g}" if near else "none"

    @cached_property
    def halved(self) -> bool:
        """Whether the body is cut by a symmetry plane at y = 0."""
        if self.flat:
            return False
        low, high = _box(self.volume)
        reach = 1e-3 * self.skin.length
        at_zero = any(
            (side := _side(plane, low, high)) and side[0] == 1 and abs(plane.points[0, 1]) <= reach
            for plane in self._of_kind("symmetry")
        )
        return at_zero and float(np.abs(self.skin.points[:, 1]).min()) <= reach

    def _of_kind(self, word: str) -> list[Surface]:
        return [patch for name, patch in self.volume.patches.items() if word in self.volume.kinds.get(name, "")]


def is_case(path: Path) -> bool:
    return (path / "system" / "controlDict").is_file()


def solution_files(case: Path) -> list[Path]:
    """The files that a case's solution depends on: mesh and latest fields."""
    latest = _latest(case) or case / "0"
    mesh = [case / "constant" / "polyMesh" / name for name in ("points", "boundary")]
    return mesh + [
        latest / name for name in (*FIELDS, *(f"{name}Mean" for name in FIELDS)) if (latest / name).is_file()
    ]


def _latest(case: Path) -> Path | None:
    folders = [*case.iterdir(), *(case / "processor0").glob("*")]
    return max((f for f in folders if TIME.fullmatch(f.name)), key=lambda f: float(f.name), default=None)


def read_case(path: Path, patch: str | None = None) -> SolvedCase:
    """A case folder, or a .foam file in it, with its body, or the patch that is said to be it.

    Raises InputError where nothing has been solved yet.
    """
    case = path.parent if path.suffix.lower() == ".foam" else path
    volume = read_volume(path)
    latest = _latest(case)
    if latest is None or float(latest.name) == 0:
        raise InputError(
            f"{case}: nothing has been solved in this case yet",
            seen="no time but 0" if latest else "no times",
            remedy="run the solver first",
        )
    names = {name: f"{name}Mean" if f"{name}Mean" in volume.grid.cell_data else name for name in FIELDS}
    skin = volume.wall(patch) if patch is not None else _body(volume, names["U"], case)
    skin = replace(skin, name=case.resolve().name, path=path)
    density, viscosity = _properties(case)
    kinematic = _kinematic(case, names["p"])
    return SolvedCase(case, volume, names, skin, _stream(volume, names["U"], case), density, viscosity, kinematic)


def _body(volume: Volume, velocity: str, case: Path) -> Surface:
    """All walls at rest that are not sides of the domain's box, as one surface."""
    low, high = _box(volume)
    fastest = float(np.abs(volume.grid.cell_data[velocity]).max()) if velocity in volume.grid.cell_data else 0.0
    walls = []
    for name, patch in volume.patches.items():
        if volume.kinds.get(name) != "wall" or _side(patch, low, high) is not None:
            continue
        if velocity not in patch.cell_data and velocity in volume.grid.cell_data:
            raise InputError(f"{case}: patch {name} has no array {velocity}", seen=", ".join(patch.cell_data) or "none")
        speed = np.linalg.norm(patch.cell_data[velocity], axis=1) if velocity in patch.cell_data else np.zeros(1)
        if speed.max(initial=0) <= STILL * max(fastest, 1e-300):
            walls.append(patch)
    if not walls:
        raise InputError(
            f"{case}: no wall at rest inside the domain",
            seen=", ".join(f"{name} ({kind})" for name, kind in volume.kinds.items()),
            remedy="name the body's patch with --patch",
        )
    return _united(walls)


def _united(patches: list[Surface]) -> Surface:
    shared = set.intersection(*(set(patch.cell_data) for patch in patches))
    starts = np.cumsum([0, *(len(patch.points) for patch in patches[:-1])])
    return Surface(
        np.concatenate([patch.points for patch in patches]),
        np.concatenate([patch.cells + start for patch, start in zip(patches, starts, strict=True)]),
        cell_data={name: np.concatenate([patch.cell_data[name] for patch in patches]) for name in shared},
    )


def _box(volume: Volume) -> tuple[Floats, Floats]:
    points = np.asarray(volume.grid.points, dtype=float)
    return points.min(axis=0), points.max(axis=0)


def _side(patch: Surface, low: Floats, high: Floats) -> tuple[int, bool] | None:
    """The axis of the side of the box that a patch lies in, and whether it is the upper one."""
    reach = FLAT * float((high - low).max())
    for axis in range(patch.dimension):
        for upper, plane in ((False, low[axis]), (True, high[axis])):
            if np.abs(patch.points[:, axis] - plane).max() <= reach:
                return axis, upper
    return None


def _stream(volume: Volume, velocity: str, case: Path) -> Floats | None:
    """The velocity (3,) at which air enters: the stated free stream, or the mean over the faces it enters through."""
    text = (case / "0" / "U").read_text(errors="replace") if (case / "0" / "U").is_file() else ""
    if found := re.search(r"freestreamValue\s+uniform\s*\(\s*([^)]+)\)", text):
        return np.array(found.group(1).split(), dtype=float)
    flux, total = np.zeros(3), 0.0
    for name, patch in volume.patches.items():
        if volume.kinds.get(name) != "patch" or velocity not in patch.cell_data:
            continue
        values = np.asarray(patch.cell_data[velocity], dtype=float)
        entering = np.maximum(np.einsum("ij,ij->i", values[:, : patch.dimension], patch.area_vectors), 0)
        flux, total = flux + entering @ values, total + entering.sum()
    return flux / total if total > 0 else None


def _angle(stream: Floats) -> float:
    return float(np.degrees(np.arctan2(stream[1], stream[0])))


def _properties(case: Path) -> tuple[float, float]:
    """Density (kg/m3) and kinematic viscosity (m2/s)."""
    control = (case / "system" / "controlDict").read_text(errors="replace")
    files = [case / "constant" / name for name in ("transportProperties", "physicalProperties")]
    transport = "\n".join(path.read_text(errors="replace") for path in files if path.is_file())
    density = re.search(rf"\brhoInf\s+{NUMBER}\s*;", control) or _property("rho", transport)
    viscosity = _property("nu", transport)
    return (
        float(density.group(1)) if density else DENSITY,
        float(viscosity.group(1)) if viscosity else VISCOSITY,
    )


def _property(name: str, text: str) -> re.Match[str] | None:
    return re.search(rf"^\s*{name}\s+(?:{name}\s+)?(?:\[[^\]]*\]\s*)?{NUMBER}\s*;", text, re.MULTILINE)


def _kinematic(case: Path, name: str) -> bool:
    for path in (path for path in solution_files(case) if path.name == name):
        head = path.read_bytes()[:4096].decode(errors="replace")
        if found := re.search(r"dimensions\s*\[\s*([^\]]+)\]", head):
            return float(found.group(1).split()[0]) == 0
    return True
