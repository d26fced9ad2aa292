"""Rows of a ranking with what they leave open: known values, chances, shared ranks, changes against a baseline."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from aerosurrogate.decision import chances
from aerosurrogate.decision.chances import Joint
from aerosurrogate.flow_fields import FlowFields, Row, column
from aerosurrogate.trust import intervals

Known = Mapping[str, Mapping[str, float]]  # name -> cd, cl


@dataclass(frozen=True)
class Suggestion:
    """A design whose run would help the decision, and by how much it is expected to."""

    name: str
    file: str
    gain: float  # of the coefficient that is ranked by
    of: str = "cd"


def decide(
    rows: Sequence[Row],
    designs: Mapping[str, FlowFields],
    *,
    sort: str = "cd",
    known: Known | None = None,
    baseline: str | None = None,
    suggest: int = 0,
) -> tuple[list[Row], list[Suggestion]]:
    """The rows ranked by a column, with everything that the joint distribution of their errors tells.

    `designs` by file; `known` by name; `baseline` is a file; `suggest` so many designs to solve next.
    """
    known, fields = known or {}, [designs[row["file"]] for row in rows]
    joints = {}
    for key in ("cd", "cl"):
        joint = Joint.over(rows, fields, key)
        values = {i: known[r["name"]][key] for i, r in enumerate(rows) if key in known.get(r["name"], {})}
        joints[key] = joint.given(values)
        rows = [_updated(row, key, joints[key], i, values) for i, row in enumerate(rows)] if values else rows
    key, largest = sort.lstrip("-"), sort.startswith("-")
    rank = in_order(rows, "cd" if key == "rank" else key, largest)
    suggested: list[Suggestion] = []
    if key in ("rank", "cd", "cl"):
        joint = joints["cl" if key == "cl" else "cd"]
        worth: list[tuple[float, int]] = []
        for dimension in {design.body.dimension for design in fields}:  # a car and a section are not to be compared
            told = [
                i
                for i, row in enumerate(rows)
                if fields[i].body.dimension == dimension and (row["cd_low"] is not None or row["model"] is None)
            ]
            part = joint.only(told)
            apart = dict(zip(told, chances.order(part, largest=largest), strict=True))
            rows = [cast(Row, {**row, **apart.get(i, {})}) for i, row in enumerate(rows)]
            worth += [(gain, told[i]) for i, gain in chances.suggest(part, suggest, largest=largest)]
        for gain, i in sorted(worth, key=lambda pair: -pair[0])[:suggest]:
            scale = rows[i]["cd"] if joint.key == "cd" else 1.0
            suggested.append(Suggestion(rows[i]["name"], rows[i]["file"], gain * scale, joint.key))
    if baseline is not None:
        rows = _changes(rows, joints["cd"], [row["file"] for row in rows].index(baseline))
    return [cast(Row, {**rows[i], "rank": place}) for place, i in enumerate(rank, 1)], suggested


def in_order(rows: Sequence[Row], key: str, largest: bool) -> list[int]:
    """Indices of the rows by a column, best first; then what the model cannot know, last those without a value."""
    known = [i for i, row in enumerate(rows) if column(row, key) is not None]
    known = sorted(known, key=lambda i: column(rows[i], key), reverse=largest)
    known.sort(key=lambda i: stranger(rows[i]))
    return known + [i for i in range(len(rows)) if i not in set(known)]


def stranger(row: Row) -> bool:
    """Whether a row is a guess about a design unlike all that the model has seen: listed apart, never first."""
    return row["trust"] == "outside" and not row["known"]


def _updated(row: Row, key: str, joint: Joint, i: int, values: Mapping[int, float]) -> Row:
    """A row after some values of the coefficient have become known, maybe its own."""
    before = column(row, key)
    value = values.get(i, _value(joint, i))
    size = intervals.DEVIATIONS * float(joint.deviations[i])
    new: dict[str, Any] = {key: value}
    if i in values:
        new |= {f"{key}_low": value, f"{key}_high": value, "known": True}
    elif row["model"] is not None and joint.deviations[i] > 0:
        told = row["trust"] != "outside" or key != "cd" or size <= intervals.LARGEST
        low, high = (value / math.exp(size), value * math.exp(size)) if key == "cd" else (value - size, value + size)
        new |= {f"{key}_low": low if told else None, f"{key}_high": high if told else None}
    pressure = 0.5 * row["density"] * row["speed"] ** 2 * row["area_m2"]
    if key == "cd":
        new |= {
            "drag_n": value * pressure,
            "cda_m2": value * row["area_m2"],
            "ld": row["cl"] / value if value else None,
        }
    else:
        new |= {"lift_n": value * pressure, "ld": value / row["cd"] if row["cd"] else None}
        for axle in ("cl_front", "cl_rear"):
            if (lift := column(row, axle)) is not None:
                new[axle] = lift + (value - before) / 2
    return cast(Row, {**row, **new})


def _value(joint: Joint, i: int) -> float:
    return math.exp(float(joint.mean[i])) if joint.key == "cd" else float(joint.mean[i])


def _changes(rows: Sequence[Row], joint: Joint, base: int) -> list[Row]:
    """Drag against the baseline: counts (0.001) and per cent with 90 % intervals, and the chance that it is less."""
    below, width = joint.below(), intervals.DEVIATIONS * joint.apart()
    found = []
    for i, row in enumerate(rows):
        ratio = joint.mean[i] - joint.mean[base] + np.array([0.0, -1.0, 1.0]) * width[i, base]
        told = all(r["cd_low"] is not None or r["model"] is None for r in (row, rows[base]))
        changes = {f"cd_percent{end}": 100 * v for end, v in zip(("", "_low", "_high"), np.expm1(ratio), strict=True)}
        changes |= {name.replace("percent", "counts"): 10 * v * rows[base]["cd"] for name, v in changes.items()}
        row = cast(Row, {**row, **({name: float(v) for name, v in changes.items()} if told else {})})
        row["chance_better"] = float(below[i, base]) if told and i != base else None
        found.append(row)
    return found
