"""Is the order right? Predicted coefficients against true ones, with the uncertainty that few designs leave.

Intervals are 95 % percentile intervals of the paired bootstrap: designs are drawn again with replacement, prediction
and truth together.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.errors import InputError

Values = NDArray[np.float64]
RESAMPLES = 1000
BEST = (1, 3, 5, 10)


class Comparison(TypedDict):
    """Predicted beside true coefficients: each statistic of `cd` and `cl`, with its `cd_interval` and `cl_interval`;
    None where it has no value, and nothing of a coefficient that fewer than two designs have."""

    spearman: dict[str, Any]
    kendall: dict[str, Any]
    relative_error: dict[str, Any]
    best: dict[str, dict[str, int]]  # by coefficient and k: how many of the truly best k are the predicted best k
    compared: int  # designs


def read_truth(path: Path) -> dict[str, dict[str, float]]:
    """A table `name,cd[,cl]` as name -> {"cd": ..., "cl": ...}; other columns are left alone."""
    remedy = "give a CSV file that starts with the line name,cd or name,cd,cl"
    if not path.is_file():
        raise InputError("no such table of true values", seen=path, remedy=remedy)
    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines(), skipinitialspace=True))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the true values ({error})", seen=path, remedy=remedy) from None
    columns = list(rows[0]) if rows else []
    if "name" not in columns or "cd" not in columns:
        raise InputError("the true values need the columns name and cd", seen=columns or "nothing", remedy=remedy)
    try:
        found = {row["name"]: {key: float(row[key]) for key in ("cd", "cl") if row.get(key)} for row in rows}
    except ValueError as error:
        raise InputError(f"{path}: a value is not a number ({error})", remedy=remedy) from None
    for name, values in found.items():
        if values.get("cd", 1.0) <= 0 or not all(np.isfinite(value) for value in values.values()):
            said = ", ".join(f"{key} {value:g}" for key, value in values.items())
            remedy = "correct the line or leave it out: drag is a number above 0"
            raise InputError(f"{path}: what cannot be a coefficient", seen=f"{name}: {said}", remedy=remedy)
    return found


def compare(designs: Sequence[Mapping[str, Any]], truth: Mapping[str, Mapping[str, float]]) -> Comparison:
    """Spearman, Kendall, relative errors and overlap of the best, for each coefficient that both sides have."""
    names = [d["name"] for d in designs if d["name"] in truth]
    if not names:
        raise InputError(
            "no design is named in the true values",
            seen=f"designs {', '.join(d['name'] for d in designs[:3])}...; truth {', '.join(list(truth)[:3])}...",
            remedy="the column name holds file names without folder and extension",
        )
    found: Comparison = {"spearman": {}, "kendall": {}, "relative_error": {}, "best": {}, "compared": len(names)}
    for key in ("cd", "cl"):
        pairs = [
            (d[key], truth[d["name"]][key])
            for d in designs
            if key in truth.get(d["name"], {}) and d.get(key) is not None
        ]
        if len(pairs) < 2:
            continue
        predicted, true = np.array(pairs, dtype=float).T
        for into, statistic in (
            (found["spearman"], spearman),
            (found["kendall"], _kendall),
            (found["relative_error"], _relative_error),
        ):
            into[key], into[f"{key}_interval"] = bootstrap(statistic, predicted, true)
        found["best"][key] = {str(k): _overlap(predicted, true, k) for k in BEST if k <= len(true) / 2 or k == 1}
    return found


def in_words(comparison: Comparison) -> str:
    """What `compare` found, a line a coefficient."""
    lines = []
    for key, value in comparison["spearman"].items():
        if key.endswith("_interval") or value is None:
            continue
        low, high = comparison["spearman"][f"{key}_interval"]
        lines.append(
            f"{key} against the truth of {comparison['compared']} designs: "
            f"Spearman {value:.3f} (95 % interval {low:.3f} to {high:.3f}), Kendall {comparison['kendall'][key]:.3f}, "
            f"mean relative error {comparison['relative_error'][key]:.1%}"
        )
        if key == "cd":
            best = ", ".join(f"{n} of {k}" for k, n in comparison["best"][key].items())
            lines[-1] += f", truly best among the predicted best: {best}"
    return "\n".join(lines) or "too few designs to compare with the truth"


def spearman(predicted: Values, true: Values) -> float:
    from scipy.stats import rankdata

    a, b = rankdata(predicted), rankdata(true)
    return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) and np.ptp(b) else float("nan")


def _kendall(predicted: Values, true: Values) -> float:
    from scipy.stats import kendalltau

    return float(kendalltau(predicted, true).statistic)


def _relative_error(predicted: Values, true: Values) -> float:
    """Mean of |error| / |truth|, leaving out truths too near zero for a ratio (1 % of the largest)."""
    counted = np.abs(true) > 0.01 * np.abs(true).max()
    return float(np.mean(np.abs(predicted - true)[counted] / np.abs(true)[counted])) if counted.any() else float("nan")


def _overlap(predicted: Values, true: Values, k: int) -> int:
    return len(set(np.argsort(predicted, kind="stable")[:k]) & set(np.argsort(true, kind="stable")[:k]))


def bootstrap(
    statistic: Callable[[Values, Values], float], predicted: Values, true: Values
) -> tuple[float | None, list[float] | None]:
    """The statistic and its interval; None where it has no value (all designs alike)."""
    value = statistic(predicted, true)
    draws = np.random.default_rng(0).integers(0, len(true), size=(RESAMPLES, len(true)))
    again = np.array([statistic(predicted[rows], true[rows]) for rows in draws])
    again = again[np.isfinite(again)]
    if not np.isfinite(value) or not len(again):
        return None, None
    return value, [float(edge) for edge in np.quantile(again, [0.025, 0.975])]
