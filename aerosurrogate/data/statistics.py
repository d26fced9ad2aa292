"""Ranges, means and deviations over many cases, from sums that add up case by case and shard by shard."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.data.case import Case, field_spec

Sums = list[list[float]]
"""Count, sum, sum of squares, lowest, highest of some rows, each a list over the channels."""
Moments = dict[str, Sums]
"""By field."""


def sums_of(rows: NDArray) -> Sums:
    """Of rows (n, c), in float64."""
    v = rows.astype(np.float64)
    count = np.full(v.shape[1], float(len(v)))
    low, high = v.min(axis=0, initial=np.inf), v.max(axis=0, initial=-np.inf)
    return [part.tolist() for part in (count, v.sum(axis=0), (v**2).sum(axis=0), low, high)]


def together(one: Sums, other: Sums) -> Sums:
    """The sums of two sets of rows."""
    ours, more = np.array(one), np.array(other)
    lows, highs = np.minimum(ours[3], more[3]), np.maximum(ours[4], more[4])
    return [*(ours[:3] + more[:3]).tolist(), lows.tolist(), highs.tolist()]


def mean_and_deviation(sums: Sums) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(c,) mean and standard deviation."""
    count, total, square = np.array(sums[:3])
    mean = total / np.maximum(count, 1)
    return mean, np.sqrt(np.maximum(square / np.maximum(count, 1) - mean**2, 0))


def moments(case: Case) -> Moments:
    """Sums over all points of a case where each field is defined."""
    return {name: sums_of(_defined(case, name)) for name in case.fields}


def _defined(case: Case, name: str) -> NDArray:
    where = field_spec(name).where
    return case.fields[name] if where == "all" else case.fields[name][case.surface == (where == "surface")]


def add_up(parts: Iterable[Moments]) -> Moments:
    """The moments of all of them together."""
    result: Moments = {}
    for part in parts:
        for name, sums in part.items():
            result[name] = together(result[name], sums) if name in result else sums
    return result


def table(sums: Moments) -> dict[str, dict[str, Any]]:
    """What a manifest says of each field: unit, place, components, and mean, std, min, max of each channel."""
    result = {}
    for name, parts in sums.items():
        count, _, _, low, high = np.array(parts)
        if not count.all():
            continue
        mean, deviation = mean_and_deviation(parts)
        spec = field_spec(name)
        result[name] = {
            "unit": spec.unit,
            "where": spec.where,
            "components": len(mean),
            "mean": mean.tolist(),
            "std": deviation.tolist(),
            "min": low.tolist(),
            "max": high.tolist(),
        }
    return result
