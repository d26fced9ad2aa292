"""The points of a case that a model sees: tokens are means over points, so they are always drawn alike."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.data.case import Case, field_spec
from aerosurrogate.data.store import Dataset, Entry, stream_of
from aerosurrogate.mesh import surroundings
from aerosurrogate.mesh.vortex_panels import SectionFlow


@dataclass(frozen=True)
class Sampling:
    """How many points states come from, in training and in prediction alike, and how they are drawn."""

    kind: Literal["density", "rows"] = "rows"  # density: skin by area, surroundings by wall distance; rows: any alike
    skin: int | None = None  # points on the skin, by density; None is as many as the case has
    around: int | None = None  # points around it, or rows; None is all


def drawn(
    dataset: Dataset, name: str, sampling: Sampling, rng: np.random.Generator, share: tuple[int, int] = (0, 1)
) -> Case:
    """A case at the points that a step sees: skin by area, surroundings by the density that prediction uses.

    Half bodies become whole. Structured cases, and cases without a limit on their points, stay as they are. `share` is
    that of one of several processes: the first of 2 is (0, 2). Fields of the others' points are not read.
    """
    entry = dataset.manifest.cases[name]
    all_of_it, (part, parts) = sees_all(entry, sampling), share
    if all_of_it and parts == 1:
        return dataset.case(name).whole()
    total, chosen = entry["points"], np.arange(entry["points"])
    by_density = not all_of_it and sampling.kind == "density" and entry["surface"] > 0
    if by_density:
        areas = dataset.array(name, "areas").rows(0, entry["surface"])
        count = sampling.skin or entry["surface"]
        around = _around(dataset, name, sampling, rng)
        chosen = np.concatenate([by_area(areas, count, rng), around])
    elif not all_of_it:
        chosen = rng.permutation(total)[: sampling.around]
    if entry["symmetry"]:  # by density, each point stands on one side or the other; else there are both
        side = rng.integers(0, 2, len(chosen)) if by_density else np.array([[0], [1]])
        chosen = np.ravel(chosen + total * side)
    chosen = np.array_split(chosen, parts)[part]
    case = dataset.case(name, chosen % total)
    if case.symmetry is None:
        return case
    return case.whole().take(np.arange(len(chosen)) + len(chosen) * (chosen >= total))


def sees_all(entry: Entry, sampling: Sampling) -> bool:
    """Whether a step sees all points of a case."""
    return bool(entry["grid"]) or (sampling.around is None and sampling.skin is None)


def points_seen(entry: Entry, sampling: Sampling) -> int:
    """How many points of a case a step sees, at most."""
    total, skin = entry["points"], entry["surface"]
    if sees_all(entry, sampling):
        count = total
    elif sampling.kind == "density" and skin:  # each of them on one side of a half body or the other
        return (sampling.skin or skin) + min(sampling.around or total, total - skin)
    else:
        count = min(sampling.around or total, total)
    return 2 * count if entry["symmetry"] else count


def _around(dataset: Dataset, name: str, sampling: Sampling, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows off the skin."""
    entry = dataset.manifest.cases[name]
    skin, total = entry["surface"], entry["points"]
    count = min(sampling.around or total, total - skin)
    weights = weights_around(dataset, name)
    if weights is None:
        return skin + rng.permutation(total - skin)[:count]
    return skin + surroundings.by_weight(weights, count, seed=int(rng.integers(2**31)))


def weights_around(dataset: Dataset, name: str) -> NDArray | None:
    """How likely each row off the skin is drawn; None is all alike, as in a compact data set, whose rows were drawn by
    density when it was made."""
    entry = dataset.manifest.cases[name]
    skin, total = entry["surface"], entry["points"]
    try:
        points, distance, volumes = (
            dataset.array(name, key).rows(skin, total) for key in ("points", "distance", "volumes")
        )
    except KeyError:
        return None
    stream, d = stream_of(entry), entry["dimensions"]
    length, region = stream.length, surroundings.usual_region(d, stream.ground)
    return surroundings.cell_weights(region, points / length, volumes / length**d, distance / length)


def by_area(areas: NDArray, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows drawn by evenly spaced ticks along the summed area: each comes as often as its area says, within one.

    Faces that follow each other mostly lie side by side, so that the ticks cover the body evenly too.
    """
    reach = np.cumsum(areas, dtype=np.float64)
    ticks = (np.arange(count) + rng.random()) / count * reach[-1]
    return np.minimum(np.searchsorted(reach, ticks), len(areas) - 1)


def mirrored(case: Case) -> Case:
    """A 2D case upside down at the opposite angle of attack, which is as good a solution as the case itself."""
    flip, flow = np.array([1, -1], np.float32), case.potential_flow
    return replace(
        case,
        outline=flow.mirrored() if isinstance(flow, SectionFlow) else None,
        points=case.points * flip,
        normals=None if case.normals is None else case.normals * flip,
        fields={k: v * flip if field_spec(k).vector else v for k, v in case.fields.items()},
        conditions=None if case.conditions is None else replace(case.conditions, alpha=-case.conditions.alpha),
        reference={k: -v if k in ("cl", "cm") else v for k, v in case.reference.items()},
    )
