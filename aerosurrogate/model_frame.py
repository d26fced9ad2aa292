"""A body where a model knows bodies: at the size, the place and in the stream of its training set, seen at points that
lie as they did in training.

Models of non-dimensional inputs take any body as it is. A model that sees metres and metres per second, as the paper's
do, is asked at the same Reynolds number about the body at a size that it knows; what it answers is then scaled back.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.body import Body
from aerosurrogate.conditions import Conditions
from aerosurrogate.data.scaling import Places
from aerosurrogate.errors import InputError
from aerosurrogate.mesh import potential, surroundings
from aerosurrogate.mesh.surface import Surface

if TYPE_CHECKING:  # torch takes seconds to import, and files that hold a pressure do without
    from aerosurrogate.surrogate import Surrogate

SEED = 0
MORE = 4  # times the points of a training step are seen of a body, as held-out cases are: states scatter less
DRAWN = 32_768  # points, at most, that states come from where a mesh had more


def known_stream(surrogate: "Surrogate", stream: Conditions) -> Conditions:
    """The stream at the size, and in the air, that a model of metres knows; the Reynolds number stays the user's.

    A model that does not see the speed is asked at the one it was trained at.
    """
    frame = surrogate.training_frame
    if frame is None or not surrogate.scaling.in_metres:
        return stream
    low, high = surrogate.ranges["length"]
    length = min(max(stream.length, low), high)
    speed = stream.reynolds * frame.viscosity / length
    if not surrogate.scaling.sees_speed:
        speed = sum(surrogate.ranges["speed"]) / 2
    return replace(stream, speed=speed, length=length, density=frame.density, viscosity=frame.viscosity)


def what_the_model_cannot(surrogate: "Surrogate", conditions: Conditions) -> list[str]:
    """Notes on what an answer leaves open because of what the model sees and answers."""
    known, notes = known_stream(surrogate, conditions), []
    other_speed = abs(known.speed / conditions.speed - 1) > 1e-3
    other_size = abs(known.length / conditions.length - 1) > 1e-3
    if surrogate.scaling.sees_speed and (other_speed or other_size):
        asked = f"{known.length:.4g} m and {known.speed:.4g} m/s"
        notes.append(f"asked at {asked}: the same Reynolds number at the size and in the air of the training set")
    elif other_speed:
        notes.append(f"the model knows {known.speed:g} m/s alone: its answer is scaled by speed and dynamic pressure")
    elif other_size:
        notes.append(f"asked at a length of {known.length:.4g} m, the nearest that the model was trained at")
    if "wallShearStress" not in surrogate.scaling.field_names and not surrogate.scaling.coefficient_names:
        notes.append("the model answers no wall shear: forces are those of the pressure alone")
    return notes


def usual_stream(surrogate: "Surrogate", body: Body) -> Conditions:
    """What is assumed where the user says nothing: the middle of what the model was trained on."""
    speeds = surrogate.ranges.get("speed", [30.0, 30.0])
    return Conditions(speed=float(f"{sum(speeds) / 2:.2g}"), length=body.length, ground=body.ground is not None)


def in_place(surrogate: "Surrogate", places: Places) -> Places:
    """Places around a body in its own frame, where the bodies of the model's training set stand."""
    frame = surrogate.training_frame
    if frame is None or not any(frame.origin) or not surrogate.scaling.in_metres:
        return places
    by = np.array(frame.origin, np.float32)
    outline = None if places.outline is None else places.outline.moved(by)
    return replace(places, points=places.points + by, outline=outline)


def sample(
    surface: Surface, stream: Conditions, surrogate: "Surrogate", seed: int = SEED, body: Body | None = None
) -> Places:
    """The points that states come from, drawn as in training: by area on the skin and by wall distance around it, or
    as those of the meshes lie that the model was trained on. `body` is the one that the surface was framed from."""
    plan, length = surrogate.sampling, stream.length
    pattern = surrogate.pattern
    by_density = plan.kind == "density"
    scaled = _in_order(surface.transformed(np.eye(surface.dimension), np.zeros(surface.dimension), 1 / length))
    if pattern is not None:
        skin, off = pattern.draw(scaled, min(pattern.points, DRAWN), seed)
    elif not (by_density and plan.skin and plan.around):
        raise InputError(
            "this checkpoint does not know how the points of its training meshes lie",
            seen=f"sampling by {plan.kind}",
            remedy="train it again with this version, whose checkpoints do",
        )
    if by_density:
        more = MORE if surface.dimension == 3 else 1
        skin = surroundings.on_skin(scaled, more * plan.skin if plan.skin else len(skin.points), 2 * seed)
    if by_density and plan.around:
        region = surroundings.usual_region(surface.dimension, stream.ground)
        covers = None if body is None else lambda points: body.covers(points * body.length)
        off = surroundings.around(region, scaled, more * plan.around, 2 * seed + 1, covers)
    return Places(
        points=np.concatenate([skin.points, off.points]).astype(np.float32) * np.float32(length),
        surface=np.arange(len(skin.points) + len(off.points)) < len(skin.points),
        normals=np.concatenate([scaled.normals[skin.cells], off.direction]).astype(np.float32),
        distance=np.concatenate([np.zeros(len(skin.points)), off.distance]).astype(np.float32) * np.float32(length),
        conditions=stream,
        outline=potential.around(surface, ground=stream.ground),
    )


def _in_order(surface: Surface) -> Surface:
    """The surface with its cells, and their corners, in an order that the file's has no part in."""
    keys = np.round(surface.points, 9) @ np.array([1.0, np.pi, np.e])[: surface.dimension]
    first = np.argmin(keys[surface.cells], axis=1)[:, None]
    cells = np.take_along_axis(surface.cells, (first + np.arange(surface.dimension)) % surface.dimension, axis=1)
    if surface.dimension == 2:  # a segment turned around would face the other way
        cells = surface.cells
    order = np.lexsort(keys[cells].T)
    ordered = replace(surface, cells=cells[order])
    ordered.__dict__["pieces"] = surface.pieces[order]  # the same ones: not to be found again
    return ordered


def skin_places(surface: Surface, stream: Conditions, group: NDArray[np.int64] | None = None) -> Places:
    """The centres of the skin's faces, or of groups of them (faces,), in the model's frame."""
    centres, normals = surface.centres, surface.normals
    if group is not None:
        centres, normals = (_means(values, group, surface.areas) for values in (centres, normals))
        normals = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    return Places(
        points=centres.astype(np.float32),
        surface=np.ones(len(centres), dtype=bool),
        normals=normals.astype(np.float32),
        distance=np.zeros(len(centres), np.float32),
        conditions=stream,
        outline=potential.around(surface, ground=stream.ground),
    )


def _means(values: NDArray, group: NDArray[np.int64], weights: NDArray) -> NDArray:
    """Weighted means (groups, c) of the values (n, c) of each group (n,)."""
    weights = np.maximum(weights, 1e-30)  # a face of no area among others of none
    sums = [np.bincount(group, weights * column) for column in values.T]
    return np.stack(sums, axis=1) / np.bincount(group, weights)[:, None]
