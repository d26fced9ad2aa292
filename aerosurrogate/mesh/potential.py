"""Potential flow around a shape, which a model sees beside its geometry: what air without friction does there.

A section's is made of vortex panels and leaves its trailing edge smoothly; a body's of source panels, and slides along
its skin from end to end. Both are exact in any stream and solved in milliseconds; what friction makes of them is a
model's to learn.
"""

import weakref

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.mesh.source_panels import BodyFlow
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.mesh.vortex_panels import SectionFlow

PotentialFlow = SectionFlow | BodyFlow

_known: weakref.WeakKeyDictionary[Surface, dict[bool, PotentialFlow]] = weakref.WeakKeyDictionary()


def around(surface: Surface, *, ground: bool) -> PotentialFlow:
    """That around a surface, over a ground at z = 0 or in free air; the same one whenever it is asked for."""
    flows = _known.setdefault(surface, {})
    if ground not in flows:
        flat = surface.dimension == 2
        flows[ground] = SectionFlow.around(surface) if flat else BodyFlow.around(surface, 0.0 if ground else None)
    return flows[ground]


def of_skin(points: NDArray, normals: NDArray, areas: NDArray, *, ground: bool, half: bool) -> PotentialFlow:
    """That around a skin known by its faces: centres, normals (n, d) and areas (n,); of a half body its y >= 0."""
    if points.shape[1] == 2:
        return SectionFlow.of_skin(points, normals, areas)
    if half:
        flip = np.array([1, -1, 1])
        points, normals = (np.concatenate([one, one * flip]) for one in (points, normals))
        areas = np.concatenate([areas, areas])
    return BodyFlow(points, normals, areas, 0.0 if ground else None)
