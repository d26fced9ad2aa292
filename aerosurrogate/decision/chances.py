"""Which design is best, and how sure that is: one joint distribution over the designs of a call.

Each value (the log of drag, or lift) lies about the model's answer, as uncertain as intervals.py says and with tails as
heavy (Student's t). The errors of similar designs go together, so that the difference of two designs is known better
than either. Values that are known, because somebody solved the designs, condition it: all others move with them and
become surer.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.flow_fields import FlowFields, Row, column
from aerosurrogate.trust import intervals

SURE = 0.9  # designs are told apart with this chance
DRAWS = 4000
_FAMILIES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)  # deviation of an error that all designs share, in log drag or lift
_WEIGHT = 10.0  # known values that would count as much for the size of errors as the calibration does
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)  # of the standard normal distribution

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Joint:
    """Student's distribution of one coefficient over designs: log drag, or lift; `mean` (n,), `covariance` (n, n).

    The covariance is in the deviations of intervals.py, of which 1.645 hold 90 %, whatever the tails.
    """

    key: str  # cd | cl
    mean: Floats
    covariance: Floats
    tail: float = intervals.NORMAL  # degrees of freedom

    @classmethod
    def over(cls, rows: Sequence[Row], designs: Sequence[FlowFields], key: str) -> "Joint":
        """Of designs and their rows; what has no model behind it is taken as it is."""
        mean = np.array([_scaled(key, column(row, key)) for row in rows])
        covariance, tails = np.zeros((len(rows), len(rows))), [intervals.NORMAL]
        for model in {design.model for design in designs}:
            mine = [i for i, d in enumerate(designs) if d.model == model and d.uncertainty is not None]
            found = [designs[i].uncertainty for i in mine]
            errors = [getattr(u, key) for u in found]
            if not errors:
                continue
            lift = [designs[i].body.silhouette / rows[i]["area_m2"] if key == "cl" else 1.0 for i in mine]
            own = np.array([e.deviation for e in errors]) * lift
            sizes = np.maximum(own, [_half(key, rows[i]) / intervals.DEVIATIONS for i in mine])
            together = intervals.correlation(errors[0], np.array([u.place for u in found if u is not None]))
            covariance[np.ix_(mine, mine)] = np.outer(sizes, sizes) * together
            tails.append(errors[0].tail)
        return cls(key, mean, covariance, min(tails))

    @property
    def deviations(self) -> Floats:
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def given(self, known: Mapping[int, float]) -> "Joint":
        """After the values (cd or cl) of some designs have become known.

        Designs of a family, or another solver, may have an error in common that the training set does not have; it is
        the same for those the model is sure of and those it is not. And they may be harder or easier to predict. What
        the known values make of these possibilities is weighed.
        """
        at = [i for i in known if self.covariance[i, i] > 0]
        if not at:
            return self
        apart = np.array([_scaled(self.key, known[i]) for i in at]) - self.mean[at]
        likely, means, covariances = [], [], []
        for family in _FAMILIES:
            before = self._with(family)
            own = before[np.ix_(at, at)]
            misfit = float(apart @ np.linalg.solve(own, apart))
            chance = math.log(0.5 if family == 0 else 0.5 / (len(_FAMILIES) - 1))
            fit = -np.linalg.slogdet(own)[1] / 2 - (_WEIGHT + len(at)) / 2 * math.log1p(misfit / _WEIGHT)
            likely.append(chance + fit)
            gain = np.linalg.solve(own, before[at]).T  # (n, k)
            means.append(self.mean + gain @ apart)
            covariances.append((before - gain @ before[at]) * (_WEIGHT + misfit) / (_WEIGHT + len(at)))
        weights = np.exp(np.array(likely) - max(likely))
        weights /= weights.sum()
        mean = np.einsum("f,fn->n", weights, means)
        moved = np.array(means) - mean
        covariance = np.einsum("f,fnm->nm", weights, covariances) + np.einsum("f,fn,fm->nm", weights, moved, moved)
        covariance[at], covariance[:, at] = 0.0, 0.0
        return replace(self, mean=mean, covariance=(covariance + covariance.T) / 2)

    def _with(self, family: float) -> Floats:
        predicted = np.diag(self.covariance) > 0
        return self.covariance + family**2 * np.outer(predicted, predicted)

    def below(self) -> Floats:
        """(n, n) the chance that design i lies below design j; one half of itself."""
        apart, width = self.mean[None] - self.mean[:, None], self.apart()
        with np.errstate(divide="ignore", invalid="ignore"):
            chance = intervals.below(apart / width * intervals.stretch(self.tail), self.tail)
        return np.where(width > 1e-12, chance, np.where(apart == 0, 0.5, apart > 0))

    def apart(self) -> Floats:
        """(n, n) deviation of the difference of two designs."""
        own = np.diag(self.covariance)
        return np.sqrt(np.maximum(own[:, None] + own[None] - 2 * self.covariance, 0.0))

    def draws(self) -> Floats:
        """(DRAWS, n), the same at every call."""
        values, axes = np.linalg.eigh(self.covariance)
        root = axes * np.sqrt(np.maximum(values, 0.0))
        rng = np.random.default_rng(0)
        normal = rng.normal(size=(DRAWS, len(self.mean))) @ root.T
        wider = np.sqrt(self.tail / rng.chisquare(self.tail, size=(DRAWS, 1))) / intervals.stretch(self.tail)
        return self.mean + normal * wider

    def only(self, rows: Sequence[int]) -> "Joint":
        return replace(self, mean=self.mean[list(rows)], covariance=self.covariance[np.ix_(rows, rows)])


def order(joint: Joint, *, largest: bool = False) -> list[dict[str, Any]]:
    """For each design `chance_best`, `chance_among_best` (the best k, by k), `rank_low` and `rank_high`."""
    count = len(joint.mean)
    places = np.argsort(np.argsort(-joint.draws() if largest else joint.draws(), axis=1), axis=1)  # 0 is best
    better = joint.below().T if largest else joint.below()  # [i, j]: that i is better than j
    return [
        {
            "chance_best": float(np.mean(places[:, i] == 0)),
            "chance_among_best": {str(k): float(np.mean(places[:, i] < k)) for k in (3, 5, 10) if k < count},
            "rank_low": 1 + int(np.sum(better[:, i] >= SURE)),
            "rank_high": count - int(np.sum(better[i] >= SURE)),
        }
        for i in range(count)
    ]


def suggest(joint: Joint, count: int, *, largest: bool = False) -> list[tuple[int, float]]:
    """Designs to solve next, and what each run is expected to gain, in the units of the distribution.

    The gain is by how much the design that looks best after the run is expected to be better than the one that looks
    best now: a value is worth knowing where it may change the choice, by itself or by what others share with it. Each
    is chosen as if those before it were solved already.
    """
    mean, covariance = -joint.mean if largest else joint.mean, joint.covariance
    weights = _WEIGHTS / _WEIGHTS.sum()
    chosen: dict[int, float] = {}
    while len(chosen) < count:
        open_ = [i for i in range(len(mean)) if i not in chosen and covariance[i, i] > 1e-12]
        if not open_:
            break
        moves = {i: covariance[:, i] / math.sqrt(covariance[i, i]) for i in open_}
        gains = {i: float(mean.min() - weights @ np.min(mean + _NODES[:, None] * moves[i], axis=1)) for i in open_}
        best = max(gains, key=lambda i: (round(gains[i], 9), -mean[i]))
        chosen[best] = gains[best]
        covariance = covariance - np.outer(moves[best], moves[best])
    return list(chosen.items())


def _half(key: str, row: Row) -> float:
    """Half the width of a row's interval: wider than the model's error alone where its two routes disagree."""
    low, high = column(row, f"{key}_low"), column(row, f"{key}_high")
    if low is None:
        return 0.0
    half = (_scaled(key, high) - _scaled(key, low)) / 2
    return min(half, intervals.LARGEST) if key == "cd" else half


def _scaled(key: str, value: float) -> float:
    return math.log(max(value, 1e-6)) if key == "cd" else value
