"""A shape set into the stream: the faces that the air touches, and the way to the model's frame and back.

The body keeps the axes of its file, in metres. x_model = rotation @ (x - origin) leads to the model's frame:

    3D  flow +x, up +z; origin at mid-length, mid-width, on the ground; length = extent along the flow
    2D  chord along +x, leading edge at the origin; length = chord
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate import forces
from aerosurrogate.conditions import Conditions, FlowAxes, StreamOptions
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.distance import SKIN, in_pieces, inside, nearest, outer_faces
from aerosurrogate.mesh.read import UNITS
from aerosurrogate.mesh.surface import Surface

Floats = NDArray[np.float64]
BELOW, ABOVE = -0.02, 0.15  # body lengths: a lowest point between these over the file's zero stands on that zero
SEAM = 2  # times that faces across the seam of two pieces are divided
NOSE = 1e-3  # chords: a foremost point nearer to the file's zero than this belongs to a chord that starts there
TILT = 1.0  # degrees: a chord nearer to the x axis than this counts as lying along it, as a cambered nose may seem to


@dataclass(frozen=True, eq=False)
class Body:
    """A design in the stream. `surface` holds only what the air touches; `notes` say what was done to it."""

    name: str
    file: str  # as the user gave it
    surface: Surface
    length: float  # m
    silhouette: float  # m2, area of the shadow along the flow; in 2D chord x 1 m
    origin: Floats  # (d,) m
    rotation: Floats  # (d, d)
    ground: float | None  # m along up; None in free air
    stream_axes: FlowAxes | None  # 3D: as the user named them; 2D: they follow from alpha
    notes: tuple[str, ...] = ()
    pieces: Surface | None = None  # as they were before they were united, for those who ask what lies inside

    @property
    def dimension(self) -> int:
        return self.surface.dimension

    def wind_axes(self, conditions: Conditions) -> FlowAxes:
        """Drag and lift directions in the file's axes."""
        return self.stream_axes or FlowAxes.two_dimensional(conditions.alpha)

    @property
    def tilt(self) -> float:
        """Degrees by which the chord of a section lies nose-up of the x axis in its file."""
        return 0.0 if self.dimension == 3 else float(np.degrees(np.arctan2(self.rotation[1, 0], self.rotation[0, 0])))

    def to_model(self, points: NDArray) -> Floats:
        """Points (n, d) m of the file's frame in the model's, m."""
        return (np.asarray(points, dtype=float) - self.origin) @ self.rotation.T

    def to_file(self, points: NDArray) -> Floats:
        """Points (n, d) m of the model's frame in the file's, m."""
        return np.asarray(points, dtype=float) @ self.rotation + self.origin

    def turn_to_file(self, vectors: NDArray) -> Floats:
        """Directions (n, d) of the model's frame in the file's axes."""
        return np.asarray(vectors, dtype=float) @ self.rotation

    def in_model_frame(self) -> Surface:
        """The surface in the model's frame, m."""
        return self.surface.transformed(self.rotation, -self.rotation @ self.origin)

    def covers(self, points: NDArray) -> NDArray[np.bool_]:
        """(n,) whether points (n, d) m of the model's frame lie inside the body."""
        if self.pieces is None:
            return inside(self.surface, self.to_file(points))
        return in_pieces(self.pieces, self.to_file(points))

    def reference_area(self, choice: str) -> tuple[float, str]:
        """Area in m2 by `silhouette`, `rectangle` or a number, and what it is in words."""
        if (given := given_area(choice)) is not None:
            return given, "as given"
        if self.dimension == 2:
            return self.length, "chord x 1 m"
        if choice == "silhouette":
            return self.silhouette, "silhouette along the flow"
        assert self.stream_axes is not None
        return forces.rectangle_area(self.surface.points, self.stream_axes), "rectangle around the front"

    def plain(self) -> dict[str, Any]:
        """All but the surface as JSON values; `Body.of` takes them back."""
        axes = None if self.stream_axes is None else [self.stream_axes.flow.tolist(), self.stream_axes.up.tolist()]
        frame = {
            "length": self.length,
            "silhouette": self.silhouette,
            "origin": self.origin.tolist(),
            "rotation": self.rotation.tolist(),
        }
        return {"name": self.name, **frame, "ground": self.ground, "axes": axes, "notes": list(self.notes)}

    @classmethod
    def of(cls, plain: dict[str, Any], surface: Surface, file: str) -> "Body":
        axes = None if plain["axes"] is None else FlowAxes(*(np.array(axis) for axis in plain["axes"]))
        origin, rotation = np.array(plain["origin"]), np.array(plain["rotation"])
        notes = tuple(plain["notes"])
        sizes = plain["length"], plain["silhouette"]
        return cls(plain["name"], file, surface, *sizes, origin, rotation, plain["ground"], axes, notes)

    def moment_point(self) -> Floats:
        """Where the pitching moment is taken about: mid-length on the ground, or a quarter of the chord. (d,) m."""
        quarter = np.array([[0.25 * self.length, 0.0]]) if self.dimension == 2 else np.zeros((1, 3))
        return self.to_file(quarter)[0]


def given_area(choice: str) -> float | None:
    """The m2 of `--area`; None where it names a way to measure it."""
    if choice in ("silhouette", "rectangle"):
        return None
    try:
        given = float(choice)
    except ValueError:
        given = math.nan
    if not (math.isfinite(given) and given > 0):
        remedy = "give --area silhouette, --area rectangle or a number of m2"
        raise InputError("no such reference area", seen=f"--area {choice}", remedy=remedy)
    return given


def set_in_stream(surface: Surface, stream: StreamOptions, file: str) -> Body:
    """Make a body of a surface read from `file`: mirrored if asked, cut at the ground, its pieces united."""
    name = surface.name or Path(file).stem
    notes = list(surface.notes)
    if surface.dimension == 2:
        origin, rotation, chord = _chord(surface)
        body = Body(name, file, surface, chord, chord, origin, rotation, None, None, tuple(notes))
        if body.tilt:
            turned = f"the chord lies {body.tilt:+.2f} degrees off the x axis; the angle of attack is measured from x"
            body = replace(body, notes=(*notes, turned))
        return body
    if stream.symmetry is not None:
        surface = mirrored(surface, stream.symmetry, file)
        notes.append(f"half body doubled across the plane {stream.symmetry} = 0")
    axes = FlowAxes.parse(stream.flow, stream.up)
    ground = _ground(surface, axes, stream)
    # Faces that are hidden in another piece lie in its shadow, and so does the lee of closed ones.
    seen = surface.cells[surface.area_vectors @ axes.flow < 0] if surface.closed else surface.cells
    shadow = forces.silhouette_area(surface.points, axes, -np.inf if ground is None else ground, seen)
    pieces = surface
    surface, hidden = _united(pieces)
    notes += hidden
    if ground is not None:
        clearance = float(_heights(surface, axes).min()) - ground
        surface, below = _above(surface, axes, ground)
        where = "the file's zero height" if ground == 0 else f"height {ground:.4g} m"
        lies = f"{clearance:.4g} m below the lowest point" if below == 0 else f"{below:.2%} of the skin lies below it"
        notes.append(f"ground at {where}, {lies}" + (" and does not count" if below else ""))
    along, across = surface.points @ axes.flow, surface.points @ axes.side
    floor = ground if ground is not None else float(_heights(surface, axes).min())
    middle = np.array([_middle(along), _middle(across), floor])
    rotation = axes.to_model
    length = float(np.ptp(along))
    origin = rotation.T @ middle
    return Body(name, file, surface, length, shadow, origin, rotation, ground, axes, tuple(notes), pieces)


def mirrored(surface: Surface, axis: str, file: str) -> Surface:
    """The surface and its mirror image across the plane where the coordinate `axis` is zero."""
    if surface.dimension != 3:
        raise InputError(f"{file}: a section is not doubled", seen=f"--symmetry {axis}", remedy="leave it out")
    column = "xyz".index(axis)
    depth = surface.points[:, column]
    if min(depth.max(), -depth.min()) > 1e-3 * surface.length:
        raise InputError(
            f"{file}: not a half body, it reaches to both sides of {axis} = 0",
            seen=f"{axis} from {depth.min():.4g} to {depth.max():.4g} m",
            remedy="leave --symmetry out",
        )
    flip = np.ones(3)
    flip[column] = -1.0

    def twice(data: dict[str, NDArray]) -> dict[str, NDArray]:
        return {
            name: np.concatenate([values, values * flip if values.shape[1:] == (3,) else values])
            for name, values in data.items()
        }

    return replace(
        surface,
        points=np.concatenate([surface.points, surface.points * flip]),
        cells=np.concatenate([surface.cells, surface.cells[:, ::-1] + len(surface.points)]),
        point_data=twice(surface.point_data),
        cell_data=twice(surface.cell_data),
    )


def is_mirror_symmetric(surface: Surface) -> bool:
    """Whether a body in the model's frame is its own mirror image in y = 0 to 1e-3 of its length."""
    image = nearest(surface, surface.points * [1.0, -1.0, 1.0]).distance
    return bool(np.abs(image).max() < 1e-3 * surface.size[0])


def _united(surface: Surface) -> tuple[Surface, list[str]]:
    """What the air touches of pieces that reach into each other; faces across the seam are divided to follow it."""
    outer = outer_faces(surface)
    if outer.all():
        return surface, []
    notes = [f"{(~outer).sum():,} of {len(outer):,} faces lie inside another piece and are left out"]
    near = np.zeros((len(surface.points), 2), dtype=bool)
    near[surface.cells[outer], 0], near[surface.cells[~outer], 1] = True, True
    seam: NDArray[np.bool_] = np.logical_and(*near.T)[surface.cells].any(axis=1)  # faces that may reach across
    rest, own = surface.select(seam), surface.pieces[seam]
    kept = [surface.select(outer & ~seam)]
    for _ in range(SEAM):
        owner = np.empty(len(rest.points), dtype=np.int64)
        owner[rest.cells] = own[:, None]  # pieces share no points
        count = _hidden(surface, rest.points, rest.point_normals, owner)[rest.cells].sum(axis=1)
        kept.append(rest.select(count == 0))
        across = (count > 0) & (count < 3)
        rest, own = _divided(rest.select(across)), np.repeat(own[across], 4)
    kept.append(rest.select(np.logical_not(_hidden(surface, rest.centres, rest.normals, own))))
    return _joined(kept), notes


def _hidden(pieces: Surface, points: Floats, normals: Floats, own: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(n,) whether points (n, 3) on the skin of pieces `own` (n,), with its normals (n, 3), lie inside another."""
    return in_pieces(pieces, points + SKIN * pieces.length * normals, own)


def _joined(parts: list[Surface]) -> Surface:
    """Parts of one surface as one again."""
    starts = np.cumsum([0, *(len(part.points) for part in parts)])
    return replace(
        parts[0],
        points=np.concatenate([part.points for part in parts]),
        cells=np.concatenate([part.cells + start for part, start in zip(parts, starts, strict=False)]),
        point_data={k: np.concatenate([part.point_data[k] for part in parts]) for k in parts[0].point_data},
        cell_data={k: np.concatenate([part.cell_data[k] for part in parts]) for k in parts[0].cell_data},
    )


def _divided(surface: Surface) -> Surface:
    """The triangles cut into four each; arrays go along, those on points by interpolation."""
    cells = surface.cells
    sides = np.sort(np.stack([cells, np.roll(cells, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
    pairs, index = np.unique(sides, axis=0, return_inverse=True)
    ab, bc, ca = (index.reshape(-1, 3) + len(surface.points)).T
    a, b, c = cells.T
    four = np.stack([[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]], axis=1).transpose(2, 1, 0).reshape(-1, 3)
    return replace(
        surface,
        points=np.concatenate([surface.points, surface.points[pairs].mean(axis=1)]),
        cells=four,
        point_data={k: np.concatenate([v, v[pairs].mean(axis=1)]) for k, v in surface.point_data.items()},
        cell_data={k: np.repeat(v, 4, axis=0) for k, v in surface.cell_data.items()},
    )


def _chord(surface: Surface) -> tuple[Floats, Floats, float]:
    """Leading edge (2,), rotation (2, 2) that lays the chord along x, and the chord's length in metres."""
    points = surface.points
    rear = points[:, 0] >= points[:, 0].max() - 1e-6 * surface.length
    trailing = points[rear].mean(axis=0)
    reach = np.linalg.norm(points - trailing, axis=1)
    leading = points[int(np.argmax(reach))]
    angle = np.arctan2(*(trailing - leading)[::-1])
    if abs(np.degrees(angle)) < TILT:
        low, high = points[:, 0].min(), points[:, 0].max()
        # The nose of a cambered section reaches a little ahead of its chord.
        front = 0.0 if abs(low) < NOSE * (high - low) else low
        return np.array([front, trailing[1]]), np.eye(2), float(high - front)
    c, s = np.cos(angle), np.sin(angle)
    return leading, np.array([[c, s], [-s, c]]), float(reach.max())


def _ground(surface: Surface, axes: FlowAxes, stream: StreamOptions) -> float | None:
    """Height of the ground along up in metres, None in free air."""
    if stream.ground == "none":
        return None
    if stream.ground != "auto":
        return float(stream.ground) * UNITS[stream.units or "m"]
    lowest = float(_heights(surface, axes).min())
    length = float(np.ptp(surface.points @ axes.flow))
    return 0.0 if BELOW * length <= lowest <= ABOVE * length else lowest


def _above(surface: Surface, axes: FlowAxes, ground: float) -> tuple[Surface, float]:
    """What stands above the ground, and which part of the area does not; faces across it are cut."""
    heights = _heights(surface, axes)
    if heights.min() >= ground - 1e-9 * surface.length:
        return surface, 0.0
    if heights.max() <= ground:
        raise InputError("the whole body lies below the ground", seen=f"ground {ground:g} m", remedy="give --ground")
    a, b, c = (heights >= ground)[surface.cells].T
    stands, crosses = a & b & c, (a | b | c) & ~(a & b & c)
    above = surface.select(stands)
    if crosses.any():
        above = _joined([above, _clipped(surface.select(crosses), axes, ground)])
    return above, 1 - float(above.areas.sum() / surface.areas.sum())


def _clipped(surface: Surface, axes: FlowAxes, ground: float) -> Surface:
    """The part above the ground of faces that cross it."""
    import pyvista as pv

    mesh = pv.PolyData.from_regular_faces(surface.points, surface.cells)
    mesh.point_data.update(surface.point_data)
    mesh.cell_data.update(surface.cell_data)
    above = mesh.clip(normal=axes.up, origin=ground * axes.up, invert=False).triangulate()
    return replace(
        surface,
        points=np.asarray(above.points, dtype=float),
        cells=np.asarray(above.regular_faces, dtype=np.int64),
        point_data={name: np.asarray(above.point_data[name]) for name in surface.point_data},
        cell_data={name: np.asarray(above.cell_data[name]) for name in surface.cell_data},
    )


def _heights(surface: Surface, axes: FlowAxes) -> Floats:
    return np.asarray(surface.points @ axes.up)


def _middle(values: Floats) -> float:
    return 0.5 * float(values.min() + values.max())
