"""How the points of solved meshes lie on and around their bodies: measured on some, drawn for others.

A model that was trained on whole meshes has seen their points where the mesher put them: crowded at noses, tails and
walls, thin far out. A pattern keeps that as boxes that hold equally many of their points each, found by halving the
points along their widest side again and again. The sides of a box are the place, and around a body also the logarithm
of the wall distance. Points for another body are drawn box by box. Lengths are in body lengths, in the body's frame as
in `mesh.surroundings`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.distance import inside, nearest_on
from aerosurrogate.mesh.surface import Bools, Floats, Ints, Surface
from aerosurrogate.mesh.surroundings import Around, Skin, on_skin

SKIN_BOXES, AROUND_BOXES = 128, 512
DECADE = 0.3  # body lengths that a factor of ten in wall distance counts for, when the widest side is sought
CLOSEST = 1e-7  # body lengths: nearer points count as being there
LAYER = 0.3  # of a box' widest place: points of boxes that reach less far from the wall are put there along normals
ROUNDS = 8  # of candidates
Boxes = tuple[tuple[float, ...], ...]  # each: lowest sides, then highest ones


class Cloud(NamedTuple):
    """Points of one solved mesh."""

    skin: Floats  # (n, d)
    around: Floats  # (m, d)
    distance: Floats  # (m,) from the wall


@dataclass(frozen=True)
class Pattern:
    """Where the points of meshes lie; plain values, so that it travels in a checkpoint as JSON."""

    points: int  # of a mesh
    skin_share: float  # of them
    skin: Boxes  # of places
    around: Boxes  # of log10 of the wall distance, and places
    low: tuple[float, ...] = field(default=())  # the region that the meshes cover
    high: tuple[float, ...] = field(default=())

    def draw(self, surface: Surface, count: int, seed: int) -> tuple[Skin, Around]:
        """`count` points on and around a body that lie as those of the meshes do."""
        rng = np.random.default_rng(seed)
        on = round(self.skin_share * count)
        candidates = on_skin(surface, max(20 * on, 4000), seed)
        skin = _on_skin(np.array(self.skin), candidates, on, rng)
        if not self.around:
            return skin, Around(skin.points[:0], np.zeros(0), skin.points[:0])
        return skin, _around(np.array(self.around), surface, candidates, count - on, rng)


def measure(clouds: Sequence[Cloud], points: int, skin_share: float) -> Pattern:
    """The pattern of meshes of so many points, of which each cloud shows some."""
    skin = np.concatenate([cloud.skin for cloud in clouds])
    around = np.concatenate([cloud.around for cloud in clouds])
    distance = np.concatenate([cloud.distance for cloud in clouds])
    reach = np.log10(np.maximum(distance, CLOSEST))
    both = np.concatenate([skin, around])
    return Pattern(
        points=points,
        skin_share=skin_share,
        skin=_boxes(skin, SKIN_BOXES, np.ones(skin.shape[1])),
        around=_boxes(np.column_stack([reach, around]), AROUND_BOXES, np.array([DECADE] + [1.0] * skin.shape[1])),
        low=_plain(both.min(axis=0)),
        high=_plain(both.max(axis=0)),
    )


def _boxes(values: Floats, most: int, scale: Floats) -> Boxes:
    """At most `most` boxes around equally many of the values (n, k): halved across the side of greatest spread."""
    parts = [values]
    while 2 * len(parts) <= most and len(values) >= 8 * len(parts):
        halves = []
        for part in parts:
            side = int(np.argmax(part.std(axis=0) * scale))
            order = np.argpartition(part[:, side], len(part) // 2)
            halves += [part[order[: len(part) // 2]], part[order[len(part) // 2 :]]]
        parts = halves
    return tuple(_plain(np.concatenate([part.min(axis=0), part.max(axis=0)])) for part in parts if len(part))


def _plain(values: Floats) -> tuple[float, ...]:
    return tuple(float(f"{value:.5g}") for value in values)


def _on_skin(boxes: Floats, candidates: Skin, count: int, rng: np.random.Generator) -> Skin:
    """Of points spread evenly over the skin, those next to places drawn from the boxes."""
    from scipy.spatial import KDTree

    if not count:
        return Skin(candidates.points[:0], candidates.cells[:0])
    wanted = _places(boxes[_shares(len(boxes), count)], rng)
    chosen = KDTree(candidates.points).query(wanted)[1]
    return Skin(candidates.points[chosen], candidates.cells[chosen])


def _around(boxes: Floats, surface: Surface, candidates: Skin, count: int, rng: np.random.Generator) -> Around:
    """Points in the boxes; what a box cannot hold, because this body fills it, goes to boxes that can."""
    from scipy.spatial import KDTree

    tree, nearest, normals = KDTree(candidates.points), nearest_on(surface), surface.normals
    missing = _shares(len(boxes), count)
    found: list[Around] = []
    for attempt in range(ROUNDS):
        if not len(missing):
            break
        asked = np.repeat(missing, 2)
        low, high = np.split(boxes[asked], 2, axis=1)
        places = _places(np.column_stack([low[:, 1:], high[:, 1:]]), rng)
        reach = 10.0 ** rng.uniform(low[:, 0], high[:, 0])
        layer = 10.0 ** high[:, 0] < LAYER * (high - low)[:, 1:].max(axis=1)
        foot = tree.query(places[layer])[1]
        places[layer] = candidates.points[foot] + reach[layer, None] * normals[candidates.cells[foot]]
        near = nearest(places)
        log = np.log10(np.maximum(near.distance, CLOSEST))
        slack = 0.1  # decades: facets and the feet of normals are not exact
        fits = (near.distance > 0) & ~inside(surface, places) & (log >= low[:, 0] - slack) & (log <= high[:, 0] + slack)
        taken = _first_of_each_pair(fits)
        away = (places[taken] - near.closest[taken]) / near.distance[taken, None]
        found.append(Around(places[taken], near.distance[taken], away))
        missing = np.setdiff1d(np.arange(len(missing)), taken // 2)
        missing = asked[::2][missing]
        if attempt >= ROUNDS // 2 and len(missing):  # these boxes are full of body
            missing = rng.integers(0, len(boxes), len(missing))
    drawn = Around(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
    if len(drawn.points) < 0.9 * count:
        raise InputError(
            "the body leaves no room around itself where the model's training meshes had their points",
            seen=f"{surface.name or 'body'} from {surface.bounds[0].round(3)} to {surface.bounds[1].round(3)} lengths",
            remedy="check the axes with --flow and --up",
        )
    return drawn


def _shares(boxes: int, count: int) -> Ints:
    """(count,) the boxes that points are drawn from: each as often as any other, within one."""
    return np.arange(count) * boxes // max(count, 1)


def _places(boxes: Floats, rng: np.random.Generator) -> Floats:
    low, high = np.split(boxes, 2, axis=1)
    return rng.uniform(low, high)


def _first_of_each_pair(fits: Bools) -> Ints:
    """Indices of the candidates to take: of each two for one point, the first that fits."""
    first, second = fits[::2], fits[1::2]
    rows = np.flatnonzero(first | second)
    return 2 * rows + ~first[rows]
