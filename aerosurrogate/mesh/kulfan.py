"""Sections by class and shape functions (Kulfan's CST): smooth airfoils from a handful of weights.

Half thickness and camber line are drawn apart, because that is how sections are thought of:

    half thickness   sqrt(x) (1 - x) sum_i t_i B_i(x)
    camber           x (1 - x) sum_i c_i B_i(x)

with the Bernstein polynomials B_i; chord 1, nose radius t_0^2 / 2. A blunt trailing edge of thickness e adds e x / 2 to
the half thickness.
"""

from collections.abc import Sequence

import numpy as np

from aerosurrogate.mesh.airfoil import Curve


def kulfan(thickness: Sequence[float], camber: Sequence[float], points: int = 200, edge: float = 0.0) -> Curve:
    """The closed curve (points, 2) of the section with these weights; see mesh.airfoil for the order of its points.

    `edge`: thickness of the trailing edge in chords; a blunt one has two corners, and one point more.
    """
    x = (1.0 - np.cos(np.linspace(0.0, np.pi, points // 2 + 1))) / 2.0
    half, line = half_thickness(x, thickness) + 0.5 * edge * x, camber_line(x, camber)
    upper, lower = np.stack([x, line + half], axis=1), np.stack([x, line - half], axis=1)
    return np.concatenate([upper[::-1], lower[1:] if edge > 0 else lower[1:-1]])


def half_thickness(x: Curve, weights: Sequence[float] | Curve) -> Curve:
    """Half the section's height at x (n,) in chords."""
    return np.sqrt(x) * (1.0 - x) * _bernstein(x, weights)


def camber_line(x: Curve, weights: Sequence[float] | Curve) -> Curve:
    """Height of the section's middle at x (n,) in chords."""
    return x * (1.0 - x) * _bernstein(x, weights)


def _bernstein(x: Curve, weights: Sequence[float] | Curve) -> Curve:
    from scipy.special import comb

    i = np.arange(len(weights))
    last = len(weights) - 1
    return (comb(last, i) * x[:, None] ** i * (1.0 - x[:, None]) ** (last - i)) @ np.asarray(weights, dtype=float)
