"""What the arrays of other people's files are called; by our names, the likeliest first.

Capitals, a unit in brackets behind the name, and what stands between its words do not count: "Static Pressure [Pa]" is
`static_pressure`.
"""

import re
from collections.abc import Iterable

NAMES: dict[str, tuple[str, ...]] = {
    "p": ("p", "pressure", "p_static", "static_pressure", "pmean", "pmeantrim"),
    "U": ("u", "velocity", "umean", "umeantrim"),
    "wallShearStress": (
        "wallshearstress",
        "wall_shear_stress",
        "wallshearstressmean",
        "wallshearstressmeantrim",
        "tau_w",
        "tau_wall",
    ),
    "nut": ("nut", "nutmean", "nutmeantrim", "turbulent_viscosity"),
}
UNIT = re.compile(r"\s*[\[(][^\])]*[\])]$")
PRESSURE_COEFFICIENTS = ("cp", "pressure_coefficient", "cpmean")


def find_array(arrays: Iterable[str], names: tuple[str, ...]) -> str | None:
    """The array that has one of the names, in the order of the names."""
    known = {re.sub(r"[\s.-]+", "_", UNIT.sub("", name.strip())).lower(): name for name in arrays}
    return next((known[name] for name in names if name in known), None)


def recognised(arrays: Iterable[str]) -> dict[str, str]:
    """Our names of the arrays whose meaning their own names tell."""
    there = list(arrays)
    found = {ours: find_array(there, names) for ours, names in NAMES.items()}
    return {ours: theirs for ours, theirs in found.items() if theirs is not None}
