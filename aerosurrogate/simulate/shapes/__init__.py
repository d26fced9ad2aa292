"""Shapes to simulate, each drawn from parameters: cars, bluff bodies near the ground, bodies in free air.

Frame: flow along +x, up +z, y = 0 the mid-plane, origin at mid-length on the ground. Metres. A shape is one or more
closed pieces that overlap and stand for their union.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from aerosurrogate.mesh.surface import Surface
from aerosurrogate.simulate.shapes import air, blends, bluff, cars, details, facets
from aerosurrogate.simulate.shapes.air import AirShape
from aerosurrogate.simulate.shapes.blends import BlendShape
from aerosurrogate.simulate.shapes.bluff import AhmedShape, BluffShape
from aerosurrogate.simulate.shapes.cars import CarShape
from aerosurrogate.simulate.shapes.facets import FacetShape

Shape = CarShape | FacetShape | BlendShape | BluffShape | AhmedShape | AirShape

RANGES = cars.RANGES | facets.RANGES | blends.RANGES | bluff.RANGES | air.RANGES
"""Kind -> parameter -> its usual range."""
OPTIONS = {
    "mirrors": cars.RANGES.keys() - {"concept", "prototype"},
    "spoiler": cars.RANGES.keys(),
    "rough_floor": cars.RANGES.keys(),
}
"""What may be added by a word, "yes" or "no", and the kinds that have it: mirrors would float beside the widest."""


def on_ground(kind: str) -> bool:
    """Whether bodies of this kind stand over a ground; the others are in free air."""
    return kind not in air.RANGES


def shape_of(parameters: Mapping[str, float | str]) -> Shape:
    """The shape with these parameters, `kind` among them; options and deformation are no part of it."""
    values: dict[str, Any] = {k: v for k, v in parameters.items() if k not in (*OPTIONS, "deform", "deform_seed")}
    kind = values["kind"]
    if kind == "ahmed":
        return AhmedShape(**values)
    makers = ((cars, CarShape), (facets, FacetShape), (blends, BlendShape), (bluff, BluffShape), (air, AirShape))
    return next(shape(**values) for room, shape in makers if kind in room.RANGES)


def surface(parameters: Mapping[str, float | str]) -> Surface:
    """The skin of the shape with these parameters: one or more closed pieces, facing outward."""
    shape = shape_of(parameters)
    added = {name for name in OPTIONS if parameters.get(name) == "yes"}
    if isinstance(shape, CarShape):
        pieces = cars.body(shape)
        pieces += details.spoiler(shape, pieces[0]) if "spoiler" in added else []
        pieces += details.mirrors(shape) if "mirrors" in added else []
        pieces += details.rough_floor(shape) if "rough_floor" in added else []
    elif isinstance(shape, FacetShape):
        pieces = facets.body(shape)
    elif isinstance(shape, BlendShape):
        pieces = blends.body(shape)
    else:
        pieces = air.body(shape) if isinstance(shape, AirShape) else bluff.body(shape)
    if amplitude := float(parameters.get("deform", 0.0)):
        pieces = details.deformed(pieces, amplitude, int(parameters.get("deform_seed", 0)))
    if isinstance(shape, CarShape) and shape.wheels == "yes":
        pieces += cars.wheels(shape)
    if isinstance(shape, FacetShape) and shape.wheels == "yes":
        pieces += facets.wheels(shape)
    if isinstance(shape, BlendShape) and shape.wheels == "yes":
        pieces += blends.wheels(shape)
    if isinstance(shape, BluffShape) and shape.wheels == "yes":
        pieces += bluff.wheels(shape)
    starts = np.cumsum([0] + [len(points) for points, _ in pieces])
    return Surface(
        np.concatenate([points for points, _ in pieces]),
        np.concatenate([triangles + start for (_, triangles), start in zip(pieces, starts[:-1], strict=True)]),
        name=shape.kind,
    )
