"""The outline that the points of a section stand for: a smooth curve through them, with the corners that it has.

A third of a catalogue are tables of thirty to sixty points. Between them a section is no polygon: its nose is
round, and how air leaves it hangs on the last few per cent. The root zeta = sqrt(z - z0), with z0 just inside the nose,
unrolls a section into a nearly straight line along which such points are spread evenly; there a spline goes through
them.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Curve = NDArray[np.float64]

SIDES = 160  # of an outline: the sections that a model learns from have as many
FEWEST = 20  # points that are taken for a curve; fewer are a polygon
CORNER = 40.0  # degrees by which an outline turns in zeta at a point that is a corner, not a coarse curve


def unrolled(z: NDArray[np.complex128]) -> tuple[NDArray[np.complex128], complex]:
    """zeta (n,), from the lower side's end over the nose to the upper one's, and z0, of an outline z (n,) of chord 1
    the other way round, whose nose is at x = 0."""
    z0 = _root_point(z, int(np.argmin(z.real)))
    # Angles around z0 run from 2 pi (below) to 0 (above).
    outline = z[::-1] - z0
    theta = np.unwrap(np.angle(outline))
    theta -= 2 * np.pi * np.round((theta[-1] - np.angle(outline[-1])) / (2 * np.pi))
    return np.sqrt(np.abs(outline)) * np.exp(0.5j * theta), z0


def is_open(z: NDArray[np.complex128]) -> bool:
    """Whether the ends of an outline are those of a blunt edge's base; else the edge is sharp, and z begins at it."""
    gap = z[0] - z[-1]
    return bool(abs(gap.real) <= 0.2 * abs(gap))


def filled(curve: Curve) -> Curve:
    """A closed curve (n, 2) with more points wherever its own are far apart; its own stay where they are."""
    if len(curve) < FEWEST:
        return curve
    start, chord = curve[:, 0].min(), np.ptp(curve[:, 0])
    z = (curve[:, 0] - start + 1j * curve[:, 1]) / chord
    blunt = is_open(z)
    zeta, z0 = unrolled(z if blunt else np.append(z, z[0]))
    steps = np.diff(zeta)
    pieces = np.ceil(np.diff(_rank(zeta)) * SIDES - 1.0).clip(1).astype(int)
    if pieces.max() == 1:
        return curve
    corners = 1 + np.flatnonzero(np.degrees(np.abs(np.angle(steps[1:] / steps[:-1]))) > CORNER)
    bounds = [0, *corners.tolist(), len(steps)]
    parts = [_between(zeta[first : last + 1], pieces[first:last]) for first, last in pairwise(bounds)]
    found = np.concatenate([zeta[:1], *parts])
    own = np.concatenate([[0], np.cumsum(pieces)])
    around = (z0 + found**2) * chord + start
    around[own] = (curve[:, 0] + 1j * curve[:, 1])[np.arange(len(own) - 1, -1, -1) % len(curve)]
    around = around[::-1] if blunt else around[:0:-1]
    return np.stack([around.real, around.imag], axis=1)


def _rank(zeta: NDArray[np.complex128]) -> NDArray[np.float64]:
    """(n,) from 0 to 1: the part of an outline's sides that lies before each of its points, spread as those of the
    sections are that a model learns from: twice as dense at the nose, ten times at the trailing edge."""
    arc = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(zeta)))])
    nose = arc[np.argmin(np.abs(zeta))]
    away = np.where(arc < nose, (nose - arc) / nose, (arc - nose) / (arc[-1] - nose))
    count = away + 0.15 * (1 - np.exp(-away / 0.15)) + 0.5 * np.exp((away - 1) / 0.05)
    count *= np.where(arc < nose, -1.0, 1.0)
    return np.asarray((count - count[0]) / (count[-1] - count[0]))


def _between(zeta: NDArray[np.complex128], pieces: NDArray[np.int64]) -> NDArray[np.complex128]:
    """Points of the spline through zeta (n,), without the first: so many for each of its sides as `pieces` says."""
    from scipy.interpolate import CubicSpline  # a ranking of sections by name starts without it

    arc = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(zeta)))])
    along = np.repeat(np.diff(arc) / pieces, pieces)
    within = np.concatenate([np.arange(1, count + 1) for count in pieces])
    return np.asarray(CubicSpline(arc, zeta)(np.repeat(arc[:-1], pieces) + along * within))


def _root_point(z: NDArray[np.complex128], nose: int) -> complex:
    """Half a nose radius behind the nose, on the mean line; the radius from the thickness at 0.5 % of the chord."""
    x_nose = z[nose].real

    def sides(x: float) -> NDArray[np.float64]:
        return np.array([np.interp(x, side.real, side.imag) for side in (z[nose::-1], z[nose:])])

    half_thickness = -0.5 * np.diff(sides(x_nose + 0.005))[0]
    radius = min(half_thickness**2 / (2 * 0.005), 0.1)
    return complex(x_nose + radius / 2, sides(x_nose + radius / 2).mean())
