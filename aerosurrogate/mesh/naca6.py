"""NACA 6- and 6A-series sections by name: `naca63-415`, `naca64A010`, `naca65(2)-415`, `naca65-410 a=0.5`.

Their thickness has no closed form. As in NASA TM X-3069 a circle is mapped onto the section,

    x = -2 cosh(s psi) cos(phi - s eps)    y = 2 sinh(s psi) sin(phi - s eps)    phi: 0 at the nose, pi at the tail

with one function psi(phi) a family and the factor s that gives the wanted thickness. psi and eps are conjugate, so one
cosine series holds both: psi = sum c_k cos(k phi), eps = sum c_k sin(k phi). The coefficients below were fitted to the
published ordinates of the 12 % sections and of one or two others of each family; ordinates of further thicknesses
from 6 to 21 % come out within 1e-4 of the chord. The camber line is the one of uniform load up to a (1 unless said) and
linear fall behind; of the A series the one with a = 0.8 and a straight tail.
"""

import re

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.errors import InputError

Floats = NDArray[np.float64]

NAMED = re.compile(
    r"naca[\s_:-]*(6[3-7])[,_]?\(?\d?\)?\s*(a|-)?(\d)(\d\d)(?:[\s_,]*a\s*=?\s*(0?\.\d+|0|1(?:\.0*)?))?", re.IGNORECASE
)
THICKEST = 0.30  # of the chord: beyond this no such section was ever published
STRAIGHT = 0.87437  # of the chord: where the straight tail of the A series' camber begins
# fmt: off
SERIES = {  # c_k in 1e-5, at 12 % thickness
    "63": (
        9017, 6953, -2050, 213, 266, 155, 132, 92, 90, 75, 59, 40, 32, 24, 17, 10, 6, 2, 2, -0, 1, -0, 0, -0,
        0,
    ),
    "64": (
        9042, 6307, -2003, 126, 500, 21, 249, -53, 183, -11, 84, -16, 27, 7, -5, 4, -19, 2, -12, -4, -7, -7,
        -2, -3, -1,
    ),
    "65": (
        9024, 5654, -2416, 482, 441, 72, 252, 43, 221, 6, 114, -1, 60, -3, 12, 4, -13, 11, -25, 13, -25, 10,
        -17, 4, -6,
    ),
    "66": (
        9234, 4986, -2859, 1234, 109, 145, 229, 179, 101, 67, 81, 23, 9, 9, -6, -14, -19, -9, -23, -14, -13,
        -11, -10, -3, -4,
    ),
    "67": (
        9819, 4603, -2619, 1868, -269, 313, 199, 80, 90, 46, 53, -17, 43, -26, 8, -9, -7, -6, -9, 4, -16, 12,
        -14, 7, -4,
    ),
    "63A": (
        9589, 6033, -1662, 300, 235, 246, 131, 131, 123, 81, 95, 49, 54, 37, 30, 25, 15, 17, 4, 11, 0, 6, -0,
        2, -1,
    ),
    "64A": (
        9519, 5713, -1756, 417, 346, 275, 152, 128, 144, 84, 89, 36, 49, 36, 23, 21, 5, 17, 1, 10, -5, 4, -4,
        2, -3,
    ),
    "65A": (
        9549, 5081, -2033, 702, 333, 277, 171, 170, 140, 79, 54, 35, 26, 18, 8, 18, 14, 15, 22, 13, 27, 10,
        21, 6, 9,
    ),
}
# fmt: on


def is_six_series(name: str) -> bool:
    return NAMED.fullmatch(name.strip()) is not None


def six_series(name: str, x: Floats) -> tuple[Floats, Floats, Floats]:
    """Half thickness, camber and its slope at x (n,) from 0 to 1, over the chord, of a section by its name."""
    match = NAMED.fullmatch(name.strip())
    assert match is not None
    straight = (match[2] or "").lower() == "a"
    family = match[1] + ("A" if straight else "")
    if family not in SERIES:
        raise InputError("no such family of sections", seen=f"NACA {family}", remedy=f"one of {', '.join(SERIES)}")
    thickness, lift = int(match[4]) / 100.0, int(match[3]) / 10.0
    if not 0 < thickness <= THICKEST:
        remedy = f"the last two digits are the thickness in % of the chord, up to {THICKEST:.0%}"
        raise InputError("no section of this thickness", seen=name, remedy=remedy)
    if straight and match[5]:
        raise InputError("the A series has a camber line of its own", seen=name, remedy=f"leave a={match[5]} out")
    camber, slope = _straight_tail(x) if straight else _camber(x, float(match[5] or 1.0))
    return _half_thickness(family, thickness, x), lift * camber, lift * slope


def _half_thickness(family: str, thickness: float, x: Floats) -> Floats:
    from scipy.optimize import brentq

    phi = np.linspace(0.0, np.pi, 2001)
    modes = np.outer(phi, np.arange(len(SERIES[family])))
    series = np.array(SERIES[family]) * 1e-5
    psi, eps = np.cos(modes) @ series, np.sin(modes) @ series

    def mapped(s: float) -> tuple[Floats, Floats]:
        along, up = -2 * np.cosh(s * psi) * np.cos(phi - s * eps), 2 * np.sinh(s * psi) * np.sin(phi - s * eps)
        return (along - along[0]) / np.ptp(along), up / np.ptp(along)

    s = brentq(lambda s: 2 * float(mapped(s)[1].max()) - thickness, 0.01, 4.0, xtol=1e-12)
    along, up = mapped(s)
    # Over the root the nose is straight, which is what is drawn between the points.
    return np.asarray(np.interp(np.sqrt(x), np.sqrt(np.maximum(along, 0.0)), up))


def _camber(x: Floats, a: float) -> tuple[Floats, Floats]:
    """Camber and slope at unit design lift of the load that is uniform up to a and falls to nothing at the tail."""
    x = np.clip(x, 1e-9, 1 - 1e-9)  # the slope at both ends is infinite, and meets a thickness of zero there
    if a == 1.0:
        line = -((1 - x) * np.log(1 - x) + x * np.log(x)) / (4 * np.pi)
        return line, (np.log(1 - x) - np.log(x)) / (4 * np.pi)
    inner, outer = np.abs(a - x) + 1e-12, 1 - x
    log_a = np.log(a) if a > 0 else 0.0
    g = -(a**2 * (log_a / 2 - 0.25) + 0.25) / (1 - a)
    h = (1 - a) * (np.log(1 - a) / 2 - 0.25) + g
    bend = (inner**2 * np.log(inner) / 2 - outer**2 * np.log(outer) / 2 + (outer**2 - inner**2) / 4) / (1 - a)
    fall = (-(a - x) * np.log(inner) + outer * np.log(outer)) / (1 - a)
    scale = 2 * np.pi * (a + 1)
    return (bend - x * np.log(x) + g - h * x) / scale, (fall - np.log(x) - 1 - h) / scale


def _straight_tail(x: Floats) -> tuple[Floats, Floats]:
    """The camber of the A series: a = 0.8, its tail made straight, and scaled to the design lift again."""
    line, slope = (part / 1.0209 for part in _camber(x, 0.8))
    joint = float(_camber(np.array([STRAIGHT]), 0.8)[0][0]) / 1.0209
    tail = x > STRAIGHT
    return np.where(tail, joint * (1 - x) / (1 - STRAIGHT), line), np.where(tail, -joint / (1 - STRAIGHT), slope)
