"""How the bodies of a training set stand in its frame, the air they stand in, and how the points of their meshes lie.

A model that sees metres and metres per second, as the paper's do, knows bodies of its training set's size at its place
only: a body is brought there to be asked about. Models of non-dimensional inputs need none of this.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.data.sampling import Sampling
from aerosurrogate.data.store import Dataset, Entry, stream_of
from aerosurrogate.mesh.pattern import Cloud, Pattern, measure
from aerosurrogate.mesh.surface import Floats

CASES = 60  # of the training set, evenly spread, that are looked at
POINTS = 6000  # of each


@dataclass(frozen=True)
class TrainingFrame:
    """What a checkpoint keeps of its training set's frame and meshes."""

    origin: tuple[float, ...]  # m: where a body's own origin lies (see body.py), on average
    density: float  # kg/m3
    viscosity: float  # m2/s
    pattern: Pattern | None = None  # None where training points are drawn by density

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "TrainingFrame":
        pattern = document["pattern"]
        if pattern is not None:
            pattern = Pattern(**{key: _tuples(value) for key, value in pattern.items()})
        return cls(tuple(document["origin"]), document["density"], document["viscosity"], pattern)


def measure_frame(dataset: Dataset, names: Sequence[str], sampling: Sampling) -> TrainingFrame | None:
    """Measured on the training cases; None where they are not bodies in a stream."""
    cases = dataset.manifest.cases
    names = [name for name in names if cases[name]["surface"] and cases[name]["conditions"]]
    if not names:
        return None
    names = [names[i] for i in np.unique(np.linspace(0, len(names) - 1, CASES).astype(int))]
    streams = [stream_of(cases[name]) for name in names]
    origins = [_origin(dataset, name) for name in names]
    pattern = None
    if sampling.kind == "rows" or sampling.skin is None or sampling.around is None:
        total = float(np.median([_count(cases[name], sampling) for name in names]))
        share = float(np.mean([cases[name]["surface"] / cases[name]["points"] for name in names]))
        clouds = [_cloud(dataset, name, origin) for name, origin in zip(names, origins, strict=True)]
        pattern = measure(clouds, round(total), share)
    return TrainingFrame(
        tuple(np.mean(origins, axis=0).tolist()),
        float(np.mean([stream.density for stream in streams])),
        float(np.mean([stream.viscosity for stream in streams])),
        pattern,
    )


def _count(meta: Entry, sampling: Sampling) -> int:
    whole = meta["points"] * (2 if meta["symmetry"] else 1)
    return whole if sampling.around is None else min(whole, sampling.around + (sampling.skin or 0))


def body_origin(skin: NDArray, ground: bool) -> Floats:
    """Where mid-length, mid-width and the ground of a case's body lie, m; sections have their noses at zero."""
    if skin.shape[1] == 2:
        return np.zeros(2)
    low, high = skin.min(axis=0).astype(float), skin.max(axis=0).astype(float)
    return np.array([*0.5 * (low + high)[:2], 0.0 if ground else low[2]])


def _origin(dataset: Dataset, name: str) -> Floats:
    meta = dataset.manifest.cases[name]
    found = body_origin(dataset.array(name, "points").rows(0, meta["surface"]), stream_of(meta).ground)
    return found * [1.0, 0.0, 1.0] if meta["symmetry"] else found


def _cloud(dataset: Dataset, name: str, origin: Floats) -> Cloud:
    """Some points of a case, which were shuffled when it was stored, in its body's frame and lengths."""
    meta = dataset.manifest.cases[name]
    skin, total = meta["surface"], meta["points"]
    few = min(POINTS, skin), min(POINTS, total - skin)
    case = dataset.case(name, np.r_[: few[0], skin : skin + few[1]]).whole()
    length = stream_of(meta).length
    points = (case.points.astype(float) - origin) / length
    distance = np.zeros(len(points)) if case.distance is None else case.distance.astype(float) / length
    return Cloud(points[case.surface], points[~case.surface], distance[~case.surface])


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
