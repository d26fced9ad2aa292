"""Where drag comes from: face by face, by part of the body, and built up along it; and where two designs differ.

The drag contribution of a face is -Cp n_x + tau_x / q, x along the stream: its drag over dynamic pressure and area.
Over the skin it adds up to the integrated drag coefficient. Parts are told by where a face looks; wheels are pieces of
their own that stand on the ground.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.flow_fields import FlowFields

PARTS = ("front", "roof", "sides", "rear", "floor", "wheels")
STATIONS = 121  # along the body
_TURN = 0.1  # body lengths that a face lies further off for looking the other way
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DragSources:
    """The drag of one design, over its silhouette (2D: chord x 1 m), to be compared with others'."""

    contribution: Floats  # (m,) by face
    shares: Floats  # (m,) of the drag coefficient
    places: Floats  # (m, d) face centres in the model's frame, body lengths
    normals: Floats  # (m, d) in the model's frame
    parts: NDArray[np.int64]  # (m,) index into PARTS; all -1 for a section

    @classmethod
    def of(cls, design: FlowFields) -> "DragSources":
        body, stream = design.body, design.conditions
        surface, axes = body.surface, body.wind_axes(stream)
        flow = axes.flow[: surface.dimension]
        found = -np.asarray(design.skin["p"], float) * (surface.normals @ flow)
        if (shear := design.skin.get("wallShearStress")) is not None:
            found = found + np.asarray(shear, float) @ flow
        found = found / stream.dynamic_pressure
        places = body.to_model(surface.centres) / body.length
        normals = surface.normals @ body.rotation.T
        parts = _parts(design, places, normals) if body.dimension == 3 else np.full(len(found), -1)
        return cls(found, found * surface.areas / body.silhouette, places, normals, parts)

    def by_part(self) -> dict[str, float]:
        """Drag coefficient of each part that the body has; {} for a section."""
        return {
            name: float(self.shares[self.parts == i].sum()) for i, name in enumerate(PARTS) if (self.parts == i).any()
        }

    def along(self) -> tuple[Floats, Floats]:
        """Stations (s,) in body lengths from the nose, and the drag coefficient (s,) of all that lies ahead of each."""
        nose = self.places[:, 0].min()
        stations = np.linspace(0.0, float(np.ptp(self.places[:, 0])), STATIONS)
        order = np.argsort(self.places[:, 0])
        built = np.concatenate([[0.0], np.cumsum(self.shares[order])])
        return stations, built[np.searchsorted(self.places[order, 0] - nose, stations, side="right")]

    def less(self, other: "DragSources") -> Floats:
        """(m,) this design's contribution less the other's, at the faces that lie and look alike."""
        from scipy.spatial import cKDTree

        here, there = (np.concatenate([s.places, _TURN * s.normals], axis=1) for s in (self, other))
        return self.contribution - other.contribution[cKDTree(there).query(here)[1]]


def _parts(design: FlowFields, places: Floats, normals: Floats) -> NDArray[np.int64]:
    x, y, z = normals.T
    looks = np.stack([-x, z, np.abs(y), x, -z], axis=1)  # front, roof, sides, rear, floor
    return np.where(_wheels(design), PARTS.index("wheels"), np.argmax(looks, axis=1))


def _wheels(design: FlowFields) -> NDArray[np.bool_]:
    """(m,) faces of round pieces that stand on the ground."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    surface = design.body.surface
    _, number = np.unique(np.round(surface.points / surface.length, 6), axis=0, return_inverse=True)
    cells = number.ravel()[surface.cells]
    start, end = cells.ravel(), np.roll(cells, -1, axis=1).ravel()
    count = int(number.max()) + 1
    _, piece = connected_components(
        coo_array((np.ones(len(start)), (start, end)), shape=(count, count)), directed=False
    )
    corners = design.body.to_model(surface.points) / design.body.length
    found = np.zeros(len(cells), dtype=bool)
    of_face = piece[cells[:, 0]]
    for one in np.unique(of_face):
        mine = of_face == one
        points = corners[np.unique(surface.cells[mine])]
        long, wide, high = np.ptp(points, axis=0)
        on_ground = design.conditions.ground and points[:, 2].min() < 0.02
        # What shows of a wheel below the body may be less than half of it.
        found[mine] = on_ground and 0.05 < long < 0.3 and wide < 0.2 and 0.25 * long < high < 1.15 * long
    return found
