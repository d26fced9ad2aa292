"""Ranges, means and spreads of fields over many cases, from sums that add up shard by shard."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from aerosurrogate.data.case import Case, field_spec

Moments = dict[str, list[list[float]]]
"""Field -> [count, sum, sum of squares, lowest, highest], each a list over the channels."""


def moments(cases: Iterable[Case]) -> Moments:
    """Sums over all points where each field is defined, in float64."""
    result: Moments = {}
    for case in cases:
        result = add(result, {name: _sums(case, name) for name in case.fields})
    return result


def _sums(case: Case, name: str) -> list[list[float]]:
    where = field_spec(name).where
    rows = case.fields[name] if where == "all" else case.fields[name][case.surface == (where == "surface")]
    v = rows.astype(np.float64)
    count = np.full(v.shape[1], float(len(v)))
    low, high = v.min(axis=0, initial=np.inf), v.max(axis=0, initial=-np.inf)
    return [part.tolist() for part in (count, v.sum(axis=0), (v**2).sum(axis=0), low, high)]


def add(one: Moments, other: Moments) -> Moments:
    """The moments of two sets of cases together."""
    result = dict(one)
    for name, theirs in other.items():
        if name in result:
            ours, more = np.array(result[name]), np.array(theirs)
            lows, highs = np.minimum(ours[3], more[3]), np.maximum(ours[4], more[4])
            result[name] = [*(ours[:3] + more[:3]).tolist(), lows.tolist(), highs.tolist()]
        else:
            result[name] = theirs
    return result


def table(sums: Moments) -> dict[str, dict[str, Any]]:
    """What a manifest says of each field: unit, place, components, and mean, std, min, max of each channel."""
    result = {}
    for name, parts in sums.items():
        count, total, square, low, high = np.array(parts)
        if not count.all():
            continue
        mean = total / count
        spec = field_spec(name)
        result[name] = {
            "unit": spec.unit,
            "where": spec.where,
            "components": len(mean),
            "mean": mean.tolist(),
            "std": np.sqrt(np.maximum(square / count - mean**2, 0)).tolist(),
            "min": low.tolist(),
            "max": high.tolist(),
        }
    return result


def field_table(cases: Iterable[Case]) -> dict[str, dict[str, Any]]:
    """`table` of some cases at once."""
    return table(moments(cases))
