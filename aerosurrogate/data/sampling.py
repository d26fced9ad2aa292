"""The points of a case that a model sees: tokens are means over points, so they are always drawn alike."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.data.case import Case, field_spec
from aerosurrogate.data.store import Dataset, stream_of
from aerosurrogate.mesh import surroundings


@dataclass(frozen=True)
class Sampling:
    """How many points states come from, in training and in prediction alike, and how they are drawn."""

    kind: Literal["density", "rows"] = "rows"  # density: skin by area, surroundings by wall distance; rows: any alike
    skin: int | None = None  # points on the skin, by density; None is as many as the case has
    around: int | None = None  # points around it, or rows; None is all


def drawn(dataset: Dataset, name: str, sampling: Sampling, rng: np.random.Generator) -> Case:
    """A case at the points that a step sees: skin by area, surroundings by the density that prediction uses.

    Half bodies become whole. Structured cases, and cases without a limit on their points, stay as they are.
    """
    meta = dataset.manifest.cases[name]
    if meta["grid"] or (sampling.around is None and sampling.skin is None):
        return dataset.case(name).whole()
    skin, total = meta["surface"], meta["points"]
    if sampling.kind == "rows" or not skin:
        return dataset.case(name, rng.permutation(total)[: sampling.around]).whole()
    areas = dataset.array(name, "areas").rows(0, skin)
    count = sampling.skin or skin
    around = _around(dataset, name, sampling, rng)
    case = dataset.case(name, np.concatenate([by_area(areas, count, rng), around]))
    if case.symmetry is None:
        return case
    n = len(case.points)  # each point stands on one side or the other
    return case.whole().take(np.arange(n) + n * rng.integers(0, 2, n))


def _around(dataset: Dataset, name: str, sampling: Sampling, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows off the skin; those of a compact data set were drawn by density when it was made, so any will do."""
    meta = dataset.manifest.cases[name]
    skin, total = meta["surface"], meta["points"]
    count = min(sampling.around or total, total - skin)
    try:
        points, distance, volumes = (
            dataset.array(name, key).rows(skin, total) for key in ("points", "distance", "volumes")
        )
    except KeyError:
        return skin + rng.permutation(total - skin)[:count]
    stream, d = stream_of(meta), meta["dimensions"]
    length, region = stream.length, surroundings.usual_region(d, stream.ground)
    seed = int(rng.integers(2**31))
    return skin + surroundings.from_cells(region, points / length, volumes / length**d, distance / length, count, seed)


def by_area(areas: NDArray, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows drawn by evenly spaced ticks along the summed area: each comes as often as its area says, within one.

    Faces that follow each other mostly lie side by side, so that the ticks cover the body evenly too.
    """
    reach = np.cumsum(areas, dtype=np.float64)
    ticks = (np.arange(count) + rng.random()) / count * reach[-1]
    return np.minimum(np.searchsorted(reach, ticks), len(areas) - 1)


def mirrored(case: Case) -> Case:
    """A 2D case upside down at the opposite angle of attack, which is as good a solution as the case itself."""
    flip = np.array([1, -1], np.float32)
    return replace(
        case,
        points=case.points * flip,
        normals=None if case.normals is None else case.normals * flip,
        fields={k: v * flip if field_spec(k).vector else v for k, v in case.fields.items()},
        conditions=None if case.conditions is None else replace(case.conditions, alpha=-case.conditions.alpha),
        reference={k: -v if k in ("cl", "cm") else v for k, v in case.reference.items()},
    )
