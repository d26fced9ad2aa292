"""What to simulate: a spec (TOML) names a family of shapes, ranges and a seed; a Design is one case of it.

A family is a module with three things, and the driver knows no more of it:

    RANGES: dict[str, Range]
        every parameter and condition it draws, with its usual range; a spec narrows or fixes them
    draw(ranges, rng) -> (parameters, Conditions)
        one design, from a generator that belongs to this case alone
    solve(design, folder, fidelity, cautious) -> Solution
        write an OpenFOAM case into the empty `folder`, run it, read it; `cautious` asks for safer settings, on the
        second try. Raises SolverError where no solution came out.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Case
from aerosurrogate.errors import InputError

Fidelity = Literal["fast", "standard", "fine"]
FIDELITIES: tuple[Fidelity, ...] = ("fast", "standard", "fine")
Range = tuple[float, float] | tuple[str, ...]
"""Lowest and highest value, or the words to choose from."""
FAMILY_NAMES = ("airfoil", "car", "ahmed", "file")


@dataclass(frozen=True)
class Design:
    """One shape in one stream. `file` is the user's own geometry, where the family takes one."""

    name: str
    family: str
    parameters: dict[str, float | str]
    conditions: Conditions
    file: str | None = None
    placements: int = 1  # of the mesh that its coefficients are averaged over


@dataclass(frozen=True)
class Solution:
    """A solved case. history: {column of forceCoeffs: (iterations,)}; reason: why it is not converged, or ''."""

    case: Case
    history: dict[str, np.ndarray]
    converged: bool
    reason: str = ""


@dataclass(frozen=True)
class Spec:
    """A family of shapes with its ranges; case i of a seed is always the same case."""

    family: str
    seed: int = 0
    count: int = 10
    fidelity: Fidelity = "standard"
    name: str = ""  # what its cases are called: <name>-00012
    ranges: dict[str, Range] = field(default_factory=dict)
    file: str | None = None
    placements: int = 1  # of the mesh, to average the coefficients of held-out bodies over

    def generator(self, index: int) -> np.random.Generator:
        """The random numbers of case `index`: independent of how many others are drawn."""
        return np.random.default_rng([self.seed, index])

    def case_name(self, index: int) -> str:
        return f"{self.name or self.family}-{index:05d}"


def draw_uniform(ranges: dict[str, Range], rng: np.random.Generator) -> dict[str, Any]:
    """One value from each range, in the order of the names, so that the order in a file does not matter."""
    return {
        name: str(rng.choice(list(limits))) if isinstance(limits[0], str) else float(rng.uniform(*limits))
        for name, limits in sorted(ranges.items())
    }


def read_spec(path: Path) -> Spec:
    """Read and check a spec; everything unknown or impossible is rejected with its name.

    A `file` in it is looked for beside the spec first.
    """
    try:
        document = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise InputError("no such spec", seen=path, remedy="give the path of a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not valid TOML", seen=error) from None
    spec = parse_spec(document, str(path))
    beside = path.parent / (spec.file or "")
    return replace(spec, file=str(beside)) if spec.file and beside.is_file() else spec


def parse_spec(document: dict[str, Any], where: str) -> Spec:
    """A spec from the tables of a TOML file; `where` names it in messages."""
    known = {"family": str, "seed": int, "count": int, "fidelity": str, "name": str, "file": str, "ranges": dict}
    known |= {"placements": int}
    for key, value in document.items():
        if key not in known:
            raise InputError(f"{where}: unknown key", seen=key, remedy=f"use one of {', '.join(known)}")
        if not isinstance(value, known[key]) or isinstance(value, bool):
            raise InputError(f"{where}: {key} must be {known[key].__name__}", seen=value)
    family = document.get("family", "file" if "file" in document else None)
    if family not in FAMILY_NAMES:
        raise InputError(f"{where}: unknown family", seen=family, remedy=f"one of {', '.join(FAMILY_NAMES)}")
    known_fidelity(document.get("fidelity", "standard"))
    if min(document.get("count", 1), document.get("placements", 1)) < 1 or document.get("seed", 0) < 0:
        raise InputError(f"{where}: count and placements must be at least 1 and seed at least 0", seen=document)
    if document.get("placements", 1) > 1 and family == "airfoil":
        raise InputError(f"{where}: the mesh of an airfoil follows it, and has one placement", seen="placements")
    ranges = {key: _range(value, f"{where}: ranges.{key}") for key, value in document.get("ranges", {}).items()}
    return Spec(**{**document, "family": family, "ranges": ranges})


def known_fidelity(text: str) -> Fidelity:
    """The fidelity of that name."""
    for fidelity in FIDELITIES:
        if text == fidelity:
            return fidelity
    raise InputError("unknown fidelity", seen=text, remedy=f"one of {', '.join(FIDELITIES)}")


def _range(value: Any, where: str) -> Range:
    """[low, high], a single number (fixed), a word or a list of words."""
    values = value if isinstance(value, list) else [value] if isinstance(value, str) else [value, value]
    words = bool(values) and all(isinstance(v, str) for v in values)
    numbers = len(values) == 2 and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if words:
        return tuple(values)
    if not numbers or not np.isfinite(values).all() or values[0] > values[1]:
        raise InputError(f"{where} must be a number, [low, high] or a list of words", seen=value)
    return float(values[0]), float(values[1])
