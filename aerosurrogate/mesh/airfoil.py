"""Airfoil sections by name, as closed curves: the NACA 4- and 5-digit families, digits real-valued, and the 6-series.

A closed curve is an (n, 2) float array that starts at the trailing edge, runs over the upper side to the
leading edge and back along the lower side: counter-clockwise, chord along x, no point repeated (the last one
joins the first).
"""

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.naca6 import is_six_series, six_series

Curve = NDArray[np.float64]

# Half thickness over sqrt(x), x, x^2, x^3, x^4 at 20 % thickness; the last one closes the trailing edge.
THICKNESS = (0.2969, -0.1260, -0.3516, 0.2843, -0.1036)
DESIGN_LIFT = 0.15  # lift coefficient of one unit of the first of five digits

NAMED = re.compile(r"naca[\s_:-]*(\d{4,5})", re.IGNORECASE)
REAL = re.compile(r"naca:((?:\d+(?:\.\d*)?|\.\d+)(?:_(?:\d+(?:\.\d*)?|\.\d+)){2,3})", re.IGNORECASE)


def naca_digits(name: str) -> tuple[float, ...] | None:
    """The digits in a NACA name, or None when the text is not one.

    `naca2412` gives (2, 4, 12), `naca23012` gives (2, 3, 0, 12), and real-valued digits are written with
    underscores: `naca:0.919_6.98_14.32` gives (0.919, 6.98, 14.32).
    """
    if match := NAMED.fullmatch(name.strip()):
        digits = match[1]
        return (*(float(digit) for digit in digits[:-2]), float(digits[-2:]))
    if match := REAL.fullmatch(name.strip()):
        return tuple(float(digit) for digit in match[1].split("_"))
    return None


def is_naca(name: str) -> bool:
    """Whether a text names a section that `naca` draws."""
    return is_six_series(name) or naca_digits(name) is not None


def naca(digits: str | Sequence[float], points: int = 200) -> Curve:
    """The closed curve (points, 2) of a NACA section, leading edge at the origin, trailing edge at (1, 0).

    Digits are a name ("2412", "naca23012", "naca63-415"), or numbers in the digits' own units, real values welcome:
    three for the 4-digit family (camber in % of chord, its place in tenths, thickness in %), four for the 5-digit
    family (design lift in 0.15, place of the camber in twentieths, 0 plain or 1 reflexed, thickness in %).
    `points` is even: the trailing and the leading edge stand once each, the others in cosine spacing, as many
    above as below.
    """
    if points < 8 or points % 2:
        raise ValueError(f"a section needs an even number of points, at least 8, not {points}")
    theta = np.linspace(0.0, np.pi, points // 2 + 1)
    x = (1.0 - np.cos(theta)) / 2.0
    if isinstance(digits, str) and is_six_series(digits):
        half, camber, slope = six_series(digits, x)
    else:
        numbers = _numbers(digits)
        powers = np.stack([np.sqrt(x), x, x**2, x**3, x**4], axis=1)
        half = 5.0 * numbers[-1] / 100.0 * (powers @ np.array(THICKNESS))
        camber, slope = _camber4(x, *numbers[:2]) if len(numbers) == 3 else _camber5(x, *numbers[:3])
    half[-1], camber[0], camber[-1] = 0.0, 0.0, 0.0
    across = np.stack([-np.sin(np.arctan(slope)), np.cos(np.arctan(slope))], axis=1)
    middle = np.stack([x, camber], axis=1)
    upper, lower = middle + half[:, None] * across, middle - half[:, None] * across
    return np.concatenate([upper[::-1], lower[1:-1]])


def _numbers(digits: str | Sequence[float]) -> tuple[float, ...]:
    if isinstance(digits, str):
        named = naca_digits(digits) or naca_digits(f"naca{digits}")
        if named is None:
            raise InputError("not a NACA section", seen=digits, remedy="write naca2412 or naca:0.919_6.98_14.32")
        numbers = named
    else:
        numbers = tuple(float(digit) for digit in digits)
    if len(numbers) not in (3, 4) or not np.all(np.isfinite(numbers)) or min(numbers) < 0:
        raise InputError("a NACA section takes three or four digits, none negative", seen=numbers)
    if not 0.1 <= numbers[-1] <= 60:
        raise InputError("the thickness of a NACA section lies between 0.1 and 60 % of its chord", seen=numbers[-1])
    if numbers[0] > 20:
        raise InputError("the camber digit of a NACA section is at most 20", seen=numbers[0])
    return numbers


def _camber4(x: Curve, height: float, place: float) -> tuple[Curve, Curve]:
    """Camber line and its slope at x: two parabolas that meet at the highest point."""
    if height == 0:
        return np.zeros_like(x), np.zeros_like(x)
    if not 0 < place < 10:
        raise InputError("a cambered section needs its camber between 0 and 10 tenths of the chord", seen=place)
    m, p = height / 100.0, place / 10.0
    reach = np.where(x < p, p, 1.0 - p)
    start = np.where(x < p, 0.0, 1.0 - 2.0 * p)
    return m * (start + 2.0 * p * x - x**2) / reach**2, 2.0 * m * (p - x) / reach**2


def _camber5(x: Curve, lift: float, place: float, reflex: float) -> tuple[Curve, Curve]:
    """Camber line and its slope at x: a cubic up to r, then a line (plain) or a second cubic (reflexed).

    The tables printed for whole digits follow from three demands, which hold for real digits too: the highest
    camber stands at the given place, thin-airfoil theory gives the design lift and, reflexed, no moment about
    quarter chord.
    """
    if lift == 0:
        return np.zeros_like(x), np.zeros_like(x)
    if reflex not in (0, 1):
        raise InputError("the third of five digits is 0 (plain) or 1 (reflexed)", seen=reflex)
    p = place / 20.0
    r = _reflexed_joint(p) if reflex else _plain_joint(p)
    ratio = _ratio(r, p) if reflex else 0.0
    first = _fourier(r, ratio)[0]
    k1 = DESIGN_LIFT * lift / (np.pi * first)
    line, slope = _cubic_camber(x, r, ratio)
    return k1 * line, k1 * slope


def _cubic_camber(x: Curve, r: float, ratio: float) -> tuple[Curve, Curve]:
    """Camber and slope over k1, with ratio = k2 / k1."""
    gain = np.where(x < r, 1.0, ratio)
    fall = ratio * (1.0 - r) ** 3 + r**3
    return (gain * (x - r) ** 3 - fall * x + r**3) / 6.0, (3.0 * gain * (x - r) ** 2 - fall) / 6.0


def _fourier(r: float, ratio: float) -> tuple[float, float]:
    """The coefficients A1 and A2 of the camber line (over k1) in thin-airfoil theory."""
    theta = (np.arange(2000) + 0.5) * np.pi / 2000
    slope = _cubic_camber((1.0 - np.cos(theta)) / 2.0, r, ratio)[1]
    return 2.0 * float(np.mean(slope * np.cos(theta))), 2.0 * float(np.mean(slope * np.cos(2.0 * theta)))


def _ratio(r: float, p: float) -> float:
    """k2 / k1 that puts the highest camber at p."""
    return (3.0 * (r - p) ** 2 - r**3) / (1.0 - r) ** 3


def _plain_joint(p: float) -> float:
    return _root(lambda r: r * (1.0 - np.sqrt(r / 3.0)) - p, p, low=p, high=1.0)


def _reflexed_joint(p: float) -> float:
    def moment(r: float) -> float:
        first, second = _fourier(r, _ratio(r, p))
        return first - second

    # Below this joint the rear cubic would bend the same way as the front one.
    return _root(moment, p, low=_plain_joint(p), high=min(3.0 * p, 0.95))


def _root(function: Callable[[float], float], p: float, low: float, high: float) -> float:
    from scipy.optimize import brentq

    if not 0 < p < 1 or function(low) * function(high) > 0:
        raise InputError("no camber line of the 5-digit family has its highest point there", seen=f"{20 * p:g}/20")
    return float(brentq(function, low, high, xtol=1e-12))
