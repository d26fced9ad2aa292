"""How far a model's drag and lift may be off: 90 % intervals that hold on cases it has not seen.

Errors are measured where they are alike for all designs: drag as the log of true over predicted, lift as the difference
over dynamic pressure and silhouette. On held-out cases each error is divided by how strange the case is (its score of
trust to a power that the cases themselves give, and at least in proportion beyond `inside`); the conformal 90 %
quantile of the ratios is then what the next case stays within 90 times of 100. Sections beyond 12 degrees, where the
flow separates, have a quantile of their own.

Errors of similar designs go together. Their correlation, fitted on the same cases, is

    common + near exp(-d2 / (2 reach2))        d: distance of their learned features, in standard deviations

and what is left is each design's own. Shapes of other makers, where there are such cases, make the intervals as wide
as they ask for by themselves, since nothing tells them from held-out ones and a user's are of their kind; what they
add is an error that all designs of a call have in common, and leaves their order alone. Many errors are small and a
few are large: their distribution is Student's t with the degrees of freedom under which differences of held-out ones
are likeliest. chances.py makes a joint distribution of it. The fit is a plain JSON document, kept in the checkpoint.
"""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.trust import familiarity
from aerosurrogate.trust.familiarity import Statistics

LEVEL = 0.9
DEVIATIONS = 1.6448536  # either way of the middle hold LEVEL: by that a deviation is defined here, whatever the tails
NORMAL = 1e6  # degrees of freedom that are as good as a normal distribution
STALL = 12.0  # degrees: sections beyond are calibrated apart
FEWEST = 9  # cases for a 90 % quantile
FOLDS = 10
LARGEST = math.log(2.0)  # a drag that may be twice or half as large is no answer
_FAMILIAR = 0.25  # scores below this are all alike
_COMMON, _OWN, _REACH = (0.1, 0.2, 0.35, 0.5), (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9), (0.7, 1.0, 1.5, 2.0, 3.0, 4.0)
_TAILS = (2.0, 4.0, 6.0, 10.0, 20.0, NORMAL)  # even: then Student's distribution is a polynomial
_SHAPE = ("common", "near", "reach")
_CLIP = 3.0  # standard deviations: a few failures must not decide how errors go together

Floats = NDArray[np.float64]


class Sizes(TypedDict):
    """How large the errors of a coefficient are."""

    growth: float  # power of the score that they grow with
    half: list[float]  # half the width at the edge of `inside`: below the stall, beyond it


class Fitted(Sizes):
    """And how they go together with those of other designs."""

    common: float
    near: float
    reach: float
    tail: NotRequired[float]  # degrees of freedom; normal without


class Calibration(TypedDict):
    """The document of `fit`."""

    level: float
    cases: int
    cd: Fitted
    cl: Fitted


@dataclass(frozen=True)
class Error:
    """Of one coefficient of one design: its size, and how it goes together with that of other designs."""

    deviation: float  # DEVIATIONS of them hold LEVEL
    common: float
    near: float
    reach: float
    tail: float = NORMAL  # degrees of freedom: the fewer, the more large errors among many small ones


@dataclass(frozen=True)
class Uncertainty:
    """What a model leaves open of one design."""

    cd: Error  # of log drag
    cl: Error  # of lift over dynamic pressure and silhouette
    place: tuple[float, ...]  # where its learned features lie, in standard deviations of the training set

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Uncertainty":
        """From `dataclasses.asdict` and JSON."""
        return cls(Error(**plain["cd"]), Error(**plain["cl"]), tuple(plain["place"]))


def error(key: str, predicted: float, true: float, area_per_silhouette: float = 1.0) -> float:
    """The error of a coefficient as it is measured here."""
    if key == "cd":
        return math.log(max(true, 1e-6) / max(predicted, 1e-6))
    return (true - predicted) * area_per_silhouette


@dataclass(frozen=True)
class Sample:
    """Cases with their errors by coefficient, one a case."""

    evidence: Sequence[familiarity.Evidence]
    errors: Mapping[str, Sequence[float]]  # cd, cl

    def with_cases(self, other: "Sample") -> "Sample":
        """The cases of both."""
        return Sample([*self.evidence, *other.evidence], {k: [*v, *other.errors[k]] for k, v in self.errors.items()})

    def only(self, rows: Sequence[int]) -> "Sample":
        return Sample([self.evidence[i] for i in rows], {k: [v[i] for i in rows] for k, v in self.errors.items()})


def fit(
    known: Statistics, held_out: Sample, training: Sample | None = None, foreign: Sample | None = None
) -> Calibration | None:
    """The calibration, as a JSON document; None where there are too few held-out cases to say anything.

    The training cases' own errors are too small, but how they grow with the score is taken from them too. `foreign` are
    shapes of other makers.
    """
    if len(held_out.evidence) < 3 or not {"cd", "cl"} <= held_out.errors.keys():
        return None
    makers = [held_out] if foreign is None or not foreign.evidence else [held_out, foreign]
    places = np.array([familiarity.place(known, e.features) for e in held_out.evidence])

    def fitted(key: str) -> Fitted:
        sizes = _sizes(known, [held_out], training, key)
        halves = np.array([_half(sizes, e, familiarity.judge(known, e).score) for e in held_out.evidence])
        scaled = np.asarray(held_out.errors[key]) / np.maximum(halves, 1e-12) * DEVIATIONS
        kinship = _kinship(places, np.clip(scaled, -_CLIP, _CLIP))
        tail = _tail(scaled, correlation(Error(1.0, *(kinship[k] for k in _SHAPE)), places))
        if len(makers) > 1:
            sizes = _sizes(known, makers, training, key)
            wider = np.array([_half(sizes, e, familiarity.judge(known, e).score) for e in held_out.evidence])
            own = min(1.0, float(halves.mean() / wider.mean())) ** 2  # part of the variance that is not the maker's
            kinship |= {"common": 1 - (1 - kinship["common"]) * own, "near": kinship["near"] * own}
        return cast(Fitted, sizes | kinship | {"tail": tail})

    return {"level": LEVEL, "cases": sum(len(m.evidence) for m in makers), "cd": fitted("cd"), "cl": fitted("cl")}


def cross_checked(
    known: Statistics, held_out: Sample, training: Sample | None = None, foreign: Sample | None = None
) -> dict[str, Floats]:
    """Each error over the half width that cases of other folds give it, by coefficient: within 1 is covered.

    Those of the held-out cases come first, then those of other makers.
    """
    makers = [held_out] if foreign is None or not foreign.evidence else [held_out, foreign]
    ratios: dict[str, Floats] = {}
    folds = [np.argsort(np.random.default_rng(0).permutation(len(maker.evidence))) % FOLDS for maker in makers]
    scores = [[familiarity.judge(known, e).score for e in maker.evidence] for maker in makers]
    for key in ("cd", "cl"):
        found = [np.zeros(len(maker.evidence)) for maker in makers]
        for fold in range(FOLDS):
            others = [m.only(np.flatnonzero(f != fold).tolist()) for m, f in zip(makers, folds, strict=True)]
            sizes = _sizes(known, others, training, key)
            for ratio, maker, f, score in zip(found, makers, folds, scores, strict=True):
                for i in np.flatnonzero(f == fold).tolist():
                    ratio[i] = maker.errors[key][i] / _half(sizes, maker.evidence[i], score[i])
        ratios[key] = np.concatenate(found)
    return ratios


def _sizes(known: Statistics, makers: Sequence[Sample], training: Sample | None, key: str) -> Sizes:
    """How large errors are: `growth` with the score, and `half` the width at the edge of `inside` by angle, which holds
    for the cases of each maker."""
    samples = [*makers] if training is None else [*makers, training]
    scores = [np.array([familiarity.judge(known, e).score for e in sample.evidence]) for sample in samples]
    errors = [np.asarray(sample.errors[key], dtype=float) for sample in samples]
    growth = _growth(np.concatenate(scores), np.concatenate(errors))
    halves = []
    for maker, error, score in zip(makers, errors, scores, strict=False):  # but for the training cases
        ratio = np.abs(error) / strangeness(score, growth)
        stalled = np.array([_stalled(e) for e in maker.evidence])
        # A side of the angle without enough cases of its own is judged with all of them.
        groups = [group if group.sum() >= FEWEST else np.ones(len(group), bool) for group in (~stalled, stalled)]
        halves.append([_quantile(ratio[group]) for group in groups])
    return {"growth": growth, "half": [max(sides) for sides in zip(*halves, strict=True)]}


def _half(sizes: Sizes, evidence: familiarity.Evidence, score: float) -> float:
    """Half the width of the interval of a case with this score of trust."""
    return float(sizes["half"][_stalled(evidence)] * strangeness(np.array(score), sizes["growth"]))


def _stalled(evidence: familiarity.Evidence) -> bool:
    return bool(abs(evidence.conditions.get("alpha", 0.0)) > STALL)  # a numpy number would give a numpy truth


def uncertainty(
    calibration: Calibration, known: Statistics, evidence: familiarity.Evidence, score: float | None = None
) -> Uncertainty:
    """What is left open of a design that shows this evidence, with this score of trust if it is judged already."""
    strange = familiarity.judge(known, evidence).score if score is None else score

    def of(key: Literal["cd", "cl"]) -> Error:
        c = calibration[key]
        shape = (c["common"], c["near"], c["reach"], c.get("tail", NORMAL))
        return Error(_half(c, evidence, strange) / DEVIATIONS, *shape)

    return Uncertainty(of("cd"), of("cl"), tuple(familiarity.place(known, evidence.features)))


def bounds(
    found: Uncertainty | None,
    best: Mapping[str, float],
    routes: Sequence[Mapping[str, float]],
    mark: str | None,
    lift: float,
) -> dict[str, float | None]:
    """`cd_low`, `cd_high`, `cl_low`, `cl_high` around the best estimate; None where nothing can be said.

    Beyond `inside` any of the routes may be the better one, and the interval is that around all. `lift` is the
    silhouette over the reference area.
    """
    if found is None or (mark == "outside" and DEVIATIONS * found.cd.deviation > LARGEST):
        return dict.fromkeys(("cd_low", "cd_high", "cl_low", "cl_high"))
    factor, half = math.exp(DEVIATIONS * found.cd.deviation), DEVIATIONS * found.cl.deviation * lift
    drags, lifts = [best["cd"]], [best["cl"]]
    if mark != "inside":
        drags += [route["cd"] for route in routes if "cd" in route]
        lifts += [route["cl"] for route in routes if "cl" in route]
    return {
        "cd_low": max(min(drags), 0.0) / factor,
        "cd_high": max(*drags, 0.0) * factor,
        "cl_low": min(lifts) - half,
        "cl_high": max(lifts) + half,
    }


def strangeness(scores: Floats, growth: float) -> Floats:
    """By what errors are larger at these scores of trust than at the edge of `inside` (1)."""
    scores = np.maximum(scores, _FAMILIAR)
    return np.where(scores <= 1, scores**growth, scores ** max(growth, 1.0))


def correlation(mine: Error, places: Floats) -> Floats:
    """Of the errors of designs at these places (n, k): (n, n)."""
    apart = np.sum((places[:, None] - places[None]) ** 2, axis=2)
    return _correlation(apart, mine.common, mine.near, mine.reach)


def _correlation(apart: Floats, common: float, near: float, reach: float) -> Floats:
    together = common + near * np.exp(-0.5 * apart / reach**2)
    np.fill_diagonal(together, 1.0)
    return together


def _growth(scores: Floats, errors: Floats) -> float:
    """The power of the score that errors grow with: the slope of their logs, within 0 and 2."""
    size = np.log(np.abs(errors) + 0.1 * np.median(np.abs(errors)) + 1e-12)
    strange = np.log(np.maximum(scores, _FAMILIAR))
    if len(size) < FEWEST or np.ptp(strange) == 0:
        return 0.0
    return float(np.clip(np.polyfit(strange, size, 1)[0], 0.0, 2.0))


def _quantile(values: Floats) -> float:
    """What the next value stays within with the chance LEVEL, interpolated between the ordered values."""
    count = len(values)
    if count < FEWEST:  # the largest of a few says too little: the fewer, the more room
        return float(values.max() * math.sqrt(FEWEST / count))
    return float(np.quantile(values, LEVEL, method="weibull"))


def below(values: Floats, tail: float) -> Floats:
    """The chance that Student's t with these (even) degrees of freedom lies below each of the values.

    In closed form, because scipy's special functions take longer to import than a ranking takes.
    """
    if tail >= NORMAL:
        return np.asarray(0.5 + 0.5 * np.vectorize(math.erf, otypes=[float])(values / math.sqrt(2.0)))
    sine = values / np.sqrt(tail + values**2)
    term = np.ones_like(sine)
    total = term.copy()
    for k in range(1, round(tail) // 2):
        term = term * (1 - sine**2) * (2 * k - 1) / (2 * k)
        total += term
    return np.asarray(0.5 + 0.5 * sine * total)


@functools.cache
def stretch(tail: float) -> float:
    """By what Student's t with these degrees of freedom is wider than the normal distribution where it holds LEVEL."""
    low, high = 1.0, 2.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        enough = float(below(np.array(middle * DEVIATIONS), tail)) >= 0.5 + LEVEL / 2
        low, high = (low, middle) if enough else (middle, high)
    return high if tail < NORMAL else 1.0


def _tail(errors: Floats, together: Floats) -> float:
    """The degrees of freedom under which the differences of these errors, scaled to deviations, are likeliest.

    Differences, because it is pairs of designs that statements are made of.
    """
    from scipy.stats import t

    i, j = np.triu_indices(len(errors), 1)
    errors = (errors[i] - errors[j]) / np.sqrt(np.maximum(2 - 2 * together[i, j], 1e-6))
    return max(_TAILS, key=lambda tail: float(np.sum(t.logpdf(errors * stretch(tail), tail) + math.log(stretch(tail)))))


def _kinship(places: Floats, errors: Floats) -> dict[str, float]:
    """The correlation under which these errors, scaled to standard deviations, are likeliest."""
    apart = np.sum((places[:, None] - places[None]) ** 2, axis=2)
    best, chosen = -math.inf, (_COMMON[0], 0.0, _REACH[0])
    for common, own, reach in itertools.product(_COMMON, _OWN, _REACH):
        if common + own > 1:
            continue
        root = np.linalg.cholesky(_correlation(apart, common, 1 - common - own, reach))
        white = np.linalg.solve(root, errors)
        # The common size of all errors is left free: only how they go together is asked here.
        likely = -len(errors) / 2 * math.log(float(white @ white)) - float(np.log(np.diag(root)).sum())
        if likely > best:
            best, chosen = likely, (common, 1 - common - own, reach)
    return {"common": chosen[0], "near": round(chosen[1], 6), "reach": chosen[2]}
