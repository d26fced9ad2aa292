"""Where to push: what a coefficient gains for each metre that the skin moves outward, face by face.

The model's head is differentiated with respect to the body's vertices, through everything that they decide about the
points that its states come from: where skin points lie and how they face, how far points in the air are from the skin,
where it is nearest and in which direction. A drawn set of points knows the skin only at these points, so that the
gradient is averaged over several draws, and smoothed over a part of the body's length into a density that does not
depend on how the skin is cut into faces.

The coefficient is that of the body's own silhouette, as `coeffs` prints it; reference length and origin stay as they
are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aerosurrogate import console
from aerosurrogate.body import is_mirror_symmetric
from aerosurrogate.conditions import Conditions, StreamOptions
from aerosurrogate.data.scaling import CLOSEST, WAVES
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import FlowFields
from aerosurrogate.mesh import potential, source_panels, vortex_panels
from aerosurrogate.mesh.distance import nearest
from aerosurrogate.mesh.orient import open_edges
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.model_frame import in_place, sample
from aerosurrogate.predict import Predictor, Prepared

if TYPE_CHECKING:
    from aerosurrogate.surrogate import Surrogate

COEFFICIENTS = ("cd", "cl", "cl/cd")
DRAWS = 12  # sets of points that a gradient is averaged over
SMOOTHING = 0.012  # body lengths
FOLLOWING = 0.2  # body lengths over which the air ceases to move with the skin
INNER = 1e-6  # of a face's barycentric coordinates: nearer to an edge than this, a nearest place is on the edge
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The map of one body: `density` (n,) at the skin's corners, gain per metre outward and square metre of skin, 1/m3.

    A patch of A m2 pushed outward by d m changes the coefficient by density * A * d. In 2D the skin is a metre wide.
    """

    flow: FlowFields  # the body with its fields and coefficients
    of: str
    value: float  # of the coefficient, by the head
    density: Floats  # (n,) 1/m3
    per_speed: float  # a m/s
    per_alpha: float | None  # a degree, 2D
    modes: dict[str, float]  # 2D: thickness and camber, a per cent of the chord

    @property
    def field(self) -> str:
        """Name of the map in a file."""
        return f"d({self.of})/dn"

    def save(self, path: Path) -> None:
        """The body with its fields and the map, as a file that `viz` and ParaView open."""
        if path.suffix.lower() != ".vtu":
            raise InputError("the map is written as .vtu", seen=f"--out {path}", remedy=f"{path.with_suffix('.vtu')}")
        by_face = self.density[self.flow.body.surface.cells].mean(axis=1).astype(np.float32)
        replace(self.flow, skin=self.flow.skin | {self.field: by_face}).save(path)

    def change(self, movement: Floats) -> float:
        """What the coefficient changes by where the skin's corners move outward by `movement` (n,) in m."""
        return float(np.sum(self.density * self.flow.body.surface.point_areas * movement))

    def document(self) -> dict[str, Any]:
        row = self.flow.row()
        return {
            "name": row["name"], "file": row["file"], "of": self.of, "value": self.value, "per_speed": self.per_speed,
            "per_alpha": self.per_alpha, "modes": self.modes, "trust": row["trust"], "reasons": row["reasons"],
            "notes": row["notes"], "most": float(self.density.max()), "least": float(self.density.min()),
        }  # fmt: skip

    def show(self, out: Path) -> None:
        row = self.flow.row()
        for text in (*row["notes"], *(f"{row['trust']} the training set: {why}" for why in row["reasons"][:3])):
            console.note(f"{row['name']}: {text}")
        areas = self.flow.body.surface.point_areas
        gain, loss = (float(np.sum(np.maximum(sign * self.density, 0) * areas)) * 1e-3 for sign in (1, -1))
        console.note(
            f"{row['name']}: {self.of} {self.value:.4f}; pushed out by 1 mm where that raises it, {gain:+.5f}, "
            f"where it lowers it, {-loss:+.5f}; {self.per_speed:+.2g} a m/s"
            + (f", {self.per_alpha:+.4f} a degree" if self.per_alpha is not None else "")
            + "".join(f", {value:+.4f} a per cent of chord in {name}" for name, value in self.modes.items())
            + f"; map in {out}"
        )


def sensitivity(
    file: str, stream: StreamOptions, of: str = "cd", *, model: str | None = None, device: str = "auto"
) -> Sensitivity:
    """The map of a closed shape by the model's head."""
    if of not in COEFFICIENTS:
        raise InputError("no such coefficient", seen=f"--of {of}", remedy=f"one of {', '.join(COEFFICIENTS)}")
    predictor = Predictor(model, device)
    body = predictor.read(file, stream)
    require_closed(file, stream)
    surrogate = predictor.surrogate(body.dimension)
    require_head(surrogate, of)
    prepared = predictor.place(*predictor.in_stream(body, stream))
    found = Response(surrogate, prepared).derivatives(of)[of]
    flat = prepared.body.dimension == 2
    return Sensitivity(
        flow=predictor.answer(prepared),
        of=of,
        value=found.value,
        density=evened(prepared.surface, smoothed(prepared.surface, found.corners)) * prepared.scale**2,
        per_speed=found.speed * prepared.stream.speed / prepared.conditions.speed,
        per_alpha=found.alpha if flat else None,
        modes=section_modes(prepared.surface, found.corners) if flat else {},
    )


def require_closed(file: str, stream: StreamOptions) -> None:
    """Refuse a skin with holes: where nothing is inside, outward means nothing."""
    surface = read_surface(file, stream.units)
    edges = open_edges(surface)
    if len(edges) and stream.symmetry is None:
        what = f"the surface is open along {len(edges)} edges" if surface.dimension == 3 else "the outline is open"
        remedy = f"aerosurrogate check {file} --repair closed.stl" if surface.dimension == 3 else "close it in its file"
        raise InputError(f"{file}: {what}: no side of it is the outside", remedy=remedy)


def require_head(surrogate: "Surrogate", of: str) -> None:
    needed = {"cd": {"log_drag"}, "cl": {"lift"}, "cl/cd": {"log_drag", "lift"}}[of]
    if missing := needed - set(surrogate.scaling.coefficient_names):
        raise InputError(
            f"the model has no head for {of}: summed over its fields the gradient would be their error's",
            seen=f"coefficients {', '.join(surrogate.scaling.coefficient_names) or 'none'}",
            remedy=f"train with data.coefficients that hold {', '.join(sorted(missing))}, or take a shipped model",
        )


@dataclass(frozen=True, eq=False)
class Derivatives:
    """A coefficient, and what it gains with the corners of a body (n, d) a metre, a m/s and a degree."""

    value: float
    corners: Floats
    speed: float
    alpha: float


class Response:
    """Coefficients as differentiable functions of a body's corners (n, d), the speed and the angle.

    The points that the body is seen at are drawn once, from the body as it is, and move with its faces.
    """

    def __init__(self, surrogate: "Surrogate", prepared: Prepared, seeds: Sequence[int] = range(DRAWS)) -> None:
        self.surrogate, self.stream = surrogate, prepared.stream
        self.corners = prepared.surface.points
        self.cells = torch.from_numpy(prepared.surface.cells)
        self.faced = torch.from_numpy(prepared.surface.normals)  # which way is out
        self.draws = [_Seen(prepared.surface, prepared.stream, surrogate, seed) for seed in seeds]
        self.body_flow = _MovedFlow(prepared.surface, prepared.stream) if prepared.surface.dimension == 3 else None

    @property
    def names(self) -> tuple[str, ...]:
        """The coefficients that the model has a head for."""
        known = self.surrogate.scaling.coefficient_names
        found = [name for name, head in (("cd", "log_drag"), ("cl", "lift")) if head in known]
        return (*found, "cl/cd") if len(found) == 2 else tuple(found)

    @torch.no_grad()
    def means(self, corners: Floats | None = None) -> dict[str, float]:
        """The coefficients of the body, or of one whose corners (n, d) have moved, by name; means over the draws."""
        moved = torch.tensor(self.corners if corners is None else corners)
        speed, alpha = (torch.tensor(v, dtype=torch.float64) for v in (self.stream.speed, self.stream.alpha))
        found = [self._of_draw(seen, moved, speed, alpha) for seen in self.draws]
        return {name: float(np.mean([one[name].item() for one in found])) for name in found[0]}

    def derivatives(self, *of: str) -> dict[str, Derivatives]:
        """Of coefficients by name, means over the draws."""
        corners = torch.tensor(self.corners, requires_grad=True)
        speed, alpha = (
            torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (self.stream.speed, self.stream.alpha)
        )
        draws: dict[str, list[Derivatives]] = {name: [] for name in of}
        for seen in self.draws:
            found = self._of_draw(seen, corners, speed, alpha)
            for name in of:
                slopes = torch.autograd.grad(
                    found[name], (corners, speed, alpha), retain_graph=name != of[-1], materialize_grads=True
                )
                by_corner, by_speed, by_alpha = (slope.numpy() for slope in slopes)
                draws[name].append(Derivatives(found[name].item(), by_corner, float(by_speed), float(by_alpha)))
        return {name: _mean(found) for name, found in draws.items()}

    def _of_draw(self, seen: "_Seen", corners: Tensor, speed: Tensor, alpha: Tensor) -> dict[str, Tensor]:
        stream, scaling = self.stream, self.surrogate.scaling
        faces = corners[self.cells]  # (m, k, d)
        normals = _normals(faces, self.faced)
        at = torch.einsum("nk,nkd->nd", seen.weights, faces[seen.face])
        n = normals[seen.face]
        points = seen.points + seen.follows[:, None] * (at - seen.at)
        off = points - at
        gap = off.norm(dim=1).clamp_min(1e-12)
        # Within a face the nearest place slides as the face turns: distance and direction are those to its plane.
        plane = (off * n).sum(1)
        inner = seen.inner & ~seen.skin
        distance = torch.where(seen.skin, torch.zeros_like(gap), torch.where(inner, plane, gap))
        away = torch.where((seen.skin | inner)[:, None], n, off / gap[:, None])
        if self.body_flow is None:
            flow = section_flow(faces + seen.shift)
        else:
            flow = partial(self.body_flow.seen, seen, faces, normals)
        points = points + seen.shift
        features = inputs_of(scaling.input_names, points, away, distance, seen.skin, speed, alpha, stream, flow)
        mean, size = (torch.tensor(v, dtype=torch.float64) for v in scaling.input_scale)
        inputs = ((features - mean) / size).float()[None].to(self.surrogate.device)
        answer = self.surrogate.model(inputs, skin=seen.skin[None].to(self.surrogate.device))
        mean, size = (torch.tensor(v, dtype=torch.float64) for v in scaling.coefficient_scale)
        head = dict(zip(scaling.coefficient_names, answer.coefficients[0].double().cpu() * size + mean, strict=True))
        known = {"cl": head["lift"]} if "lift" in head else {}
        known |= {"cd": head["log_drag"].exp()} if "log_drag" in head else {}
        return known | ({"cl/cd": known["cl"] / known["cd"]} if len(known) == 2 else {})


def _mean(draws: Sequence[Derivatives]) -> Derivatives:
    value, speed, alpha = (float(np.mean([getattr(d, name) for d in draws])) for name in ("value", "speed", "alpha"))
    return Derivatives(value, np.mean([d.corners for d in draws], axis=0), speed, alpha)


class _Seen:
    """One draw of points, tied to the faces they lie on or are nearest to.

    Points of the air follow the skin the more the nearer they are, as if drawn again by their distance from it: left
    where they are, those of the boundary layer would end up inside the body.
    """

    def __init__(self, surface: Surface, stream: Conditions, surrogate: "Surrogate", seed: int) -> None:
        places = sample(surface, stream, surrogate, seed)
        found = nearest(surface, places.points.astype(float))
        weights = _barycentric(surface.corners[found.cells], found.closest)
        self.points = torch.from_numpy(places.points.astype(float))
        shift = in_place(surrogate, places).points[:1] - places.points[:1]
        self.shift = torch.from_numpy(shift.astype(float))  # to where the model's training set stands
        self.at = torch.from_numpy(found.closest)
        self.follows = torch.from_numpy(np.exp(-found.distance / (FOLLOWING * stream.length)))
        self.skin = torch.from_numpy(places.surface)
        self.face = torch.from_numpy(found.cells)
        self.weights = torch.from_numpy(weights)
        self.inner = torch.from_numpy(weights.min(axis=1) > INNER)
        self.places = places


class _MovedFlow:
    """The potential flow around a body whose corners move: its panels are tied to the faces that they were drawn on."""

    def __init__(self, surface: Surface, stream: Conditions) -> None:
        flow = potential.around(surface, ground=stream.ground)
        assert isinstance(flow, source_panels.BodyFlow)
        self.flow = flow
        found = nearest(surface, flow.points)
        self.face = torch.from_numpy(found.cells)
        self.weights = torch.from_numpy(_barycentric(surface.corners[found.cells], found.closest))

    def seen(self, draw: "_Seen", faces: Tensor, normals: Tensor, *_: Tensor) -> Tensor:
        """What `BodyFlow.seen` says at the points of a draw, of faces (m, 3, 3) with unit normals (m, 3)."""
        points = torch.einsum("nk,nkd->nd", self.weights, faces[self.face])
        centres, facing = source_panels.centres_and_normals(points, normals[self.face], self.flow.panels, torch)
        across = torch.linalg.cross(faces[:, 1] - faces[:, 0], faces[:, 2] - faces[:, 0])
        area = 0.5 * across.norm(dim=1).sum()
        velocity = source_panels.slip(centres, facing, area, self.flow.ground, torch)
        places = draw.places  # where they were drawn: the panels next to them stay the same ones
        assert places.normals is not None
        assert places.distance is not None
        rows, weights = self.flow.between(places.points, places.normals, places.distance)
        return source_panels.with_pressure(torch.einsum("mk,mkd->md", torch.from_numpy(weights), velocity[rows]), torch)


def _barycentric(corners: Floats, points: Floats) -> Floats:
    """Weights (n, k) of corners (n, k, d) whose mean are the points (n, d) in their planes."""
    sides = corners[:, 1:] - corners[:, :1]
    gram = np.einsum("nid,njd->nij", sides, sides)
    gram += 1e-14 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(sides.shape[1]) + 1e-300
    right = np.einsum("nid,nd->ni", sides, points - corners[:, 0])
    inner = np.linalg.solve(gram, right[..., None])[..., 0]
    return np.concatenate([1 - inner.sum(axis=1, keepdims=True), inner], axis=1)


def _normals(faces: Tensor, out: Tensor) -> Tensor:
    """Unit normals (m, d) of faces (m, k, d), on the side of `out` (m, d)."""
    if faces.shape[-1] == 2:
        along = faces[:, 1] - faces[:, 0]
        across = torch.stack([along[:, 1], -along[:, 0]], dim=1)
    else:
        across = torch.linalg.cross(faces[:, 1] - faces[:, 0], faces[:, 2] - faces[:, 0])
    unit = across / across.norm(dim=1, keepdim=True).clamp_min(1e-30)
    return unit * torch.where((unit * out).sum(1, keepdim=True) < 0, -1.0, 1.0)


def inputs_of(
    names: Sequence[str],
    points: Tensor,
    away: Tensor,
    distance: Tensor,
    skin: Tensor,
    speed: Tensor,
    alpha: Tensor,
    stream: Conditions,
    potential_flow: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
) -> Tensor:
    """A model's inputs (n, c), as data.scaling.INPUTS makes them, of tensors that can be differentiated.

    points, away (n, d); distance, skin (n,); speed in m/s, alpha in degrees; length and viscosity are the stream's;
    `potential_flow` tells of points, ways off, distances and an angle in radians what `PotentialFlow.seen` does.
    """
    (n, d), length = points.shape, stream.length
    angle = torch.deg2rad(alpha)
    direction = torch.stack([angle.cos(), angle.sin()]) if d == 2 else torch.eye(3, dtype=points.dtype)[0]
    place = (points - distance[:, None] * away) / length

    def everywhere(values: Tensor) -> Tensor:
        return values.reshape(1, -1).expand(n, -1)

    def waves() -> Tensor:
        angles = torch.cat([(2 * torch.pi / wave) * place for wave in WAVES], dim=1)
        return torch.cat([angles.sin(), angles.cos()], dim=1)

    known = {
        "potential_flow": lambda: potential_flow(points, away, distance, angle),
        "position": lambda: points,
        "position_per_length": lambda: points / length,
        "normal": lambda: away,
        "normal_on_skin": lambda: away * skin[:, None],
        "distance": lambda: distance[:, None],
        "log_distance": lambda: torch.log10(distance.clamp_min(0)[:, None] / length + CLOSEST),
        "nearest_per_length": lambda: place,
        "nearest_waves": waves,
        "surface": lambda: skin[:, None].to(points.dtype),
        "stream": lambda: everywhere(direction),
        "stream_velocity": lambda: everywhere(direction * speed),
        "ground": lambda: points.new_full((n, 1), float(stream.ground)),
        "source": lambda: points.new_zeros(n, 1),
        "log_reynolds": lambda: everywhere(torch.log10(speed * length / stream.viscosity)),
    }
    if unknown := [name for name in names if name not in known]:
        raise InputError("an input of this model does not follow from a shape", seen=", ".join(unknown))
    return torch.cat([known[name]() for name in names], dim=1)


def section_flow(faces: Tensor) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The potential flow around a section of faces (m, 2, 2), for `inputs_of`."""

    def seen(points: Tensor, away: Tensor, distance: Tensor, angle: Tensor) -> Tensor:
        strengths = vortex_panels.strengths(faces, vortex_panels.Edge.of(faces.detach().numpy()), torch)
        return vortex_panels.seen(faces, strengths, points, away, distance, angle, torch)

    return seen


def smoothed(surface: Surface, by_corner: Floats) -> Floats:
    """Gain per metre outward and area of skin at the corners (n,), from the gradient there (n, d).

    What a corner gains along its outward normal is shared among the skin near it by a bell curve of width SMOOTHING.
    """
    from scipy.spatial import cKDTree

    outward, areas = surface.point_normals, surface.point_areas
    gain = np.sum(by_corner * outward, axis=1)
    width = SMOOTHING * float(np.ptp(surface.points[:, 0]))
    used = np.flatnonzero((areas > 0) & (gain != 0))
    density = np.zeros(len(surface.points))
    neighbours = cKDTree(surface.points).query_ball_point(surface.points[used], 3 * width)
    for corner, near in zip(used, neighbours, strict=True):
        rows = np.asarray(near, dtype=int)
        away = np.linalg.norm(surface.points[rows] - surface.points[corner], axis=1)
        # Only skin that faces the same way moves with it: not the other side of a thin tail, nor beyond an edge.
        alike = np.maximum(outward[rows] @ outward[corner], 0.0) ** 3
        weight = np.exp(-0.5 * (away / width) ** 2) * areas[rows] * alike
        density[rows] += gain[corner] * weight / weight.sum()
    return np.divide(density, areas, out=np.zeros_like(density), where=areas > 0)


def evened(surface: Surface, density: Floats) -> Floats:
    """The map (n,) of a body that is its own mirror image, the same on both sides: what differs is the draws' noise."""
    if surface.dimension == 2 or not is_mirror_symmetric(surface):
        return density
    found = nearest(surface, surface.points * [1.0, -1.0, 1.0])
    weights = _barycentric(surface.corners[found.cells], found.closest)
    other = np.einsum("nk,nk->n", weights, density[surface.cells[found.cells]])
    return np.asarray(0.5 * (density + other))


def section_modes(surface: Surface, by_corner: Floats) -> dict[str, float]:
    """Gain a per cent of the chord in thickness and in camber, by a usual thickness form and a parabola."""
    x = (surface.points[:, 0] - surface.points[:, 0].min()) / np.ptp(surface.points[:, 0])
    x = x.clip(0, 1)
    form = np.sqrt(x) * (1 - x)
    upper = np.where(surface.point_area_vectors[:, 1] >= 0, 1.0, -1.0)
    chord = np.ptp(surface.points[:, 0])
    thickness, camber = 0.5 * upper * form / (2 / 27**0.5), 4 * x * (1 - x)
    return {
        name: float(by_corner[:, 1] @ mode * 0.01 * chord)
        for name, mode in (("thickness", thickness), ("camber", camber))
    }
