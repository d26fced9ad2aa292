"""Faceted cars: a hull and a cabin, each cut out by planes whose edges are rounded alike, and blended into each other.

Nothing of the lofted cars is shared but the wheels: no outline is a curve, radii are the same all over, noses and tails
are flat faces that lean. What a model learns of them cannot hang on how the lofted ones are drawn.
"""

from dataclasses import dataclass

import numpy as np

from aerosurrogate.mesh.surface import Floats
from aerosurrogate.simulate.shapes.loft import Piece, capped, loft, softplus, wheel_pair

Range = tuple[float, float]

STATIONS, AROUND = 72, 49  # cross-sections, and points of half a cross-section


@dataclass(frozen=True)
class FacetShape:
    """One faceted car. Lengths in m, angles in degrees; what is a fraction says of what."""

    kind: str
    length: float
    width: float
    height: float  # of the roof above the ground
    clearance: float  # of the floor above the ground
    belt: float  # top of the hull above the floor / height of the body
    nose_height: float  # of the front's upper edge above the floor / height of the hull
    bonnet_rise: float  # of the bonnet behind that edge
    front_lean: float  # of the front, backward
    chin_rise: float  # of the floor ahead of chin_end, towards the nose
    chin_end: float  # nose to where the floor is flat / length
    corner: float  # sides inward towards the nose
    corner_end: float  # nose to where the sides are straight / length
    side_lean: float  # of the sides below the belt, inward towards the floor
    taper: float  # each side inward towards the tail
    taper_start: float  # nose to where that begins / length
    diffuser: float  # floor upward to the tail
    diffuser_start: float  # nose to where that begins / length
    tail_lean: float  # of the tail, forward
    deck_fall: float  # of the hull's top over the last fifth
    cowl: float  # nose to the foot of the windscreen / length
    windscreen_angle: float  # from the horizontal
    roof_fall: float  # of the roof towards the tail
    rear_foot: float  # nose to where the rear window meets the belt / length; beyond 1 it ends at the tail
    rear_angle: float  # of the rear window from the horizontal
    tumblehome: float  # side windows inward from the vertical
    edge_radius: float  # of all edges, about, m
    wheels: str  # "yes" or "no"
    wheel_radius: float
    wheel_width: float  # / wheel_radius
    front_axle: float  # behind the nose / length
    wheelbase: float  # between the axles / length


RANGES: dict[str, dict[str, Range]] = {
    "faceted": {
        "length": (3.4, 5.4),
        "width": (1.5, 2.05),
        "height": (1.2, 1.95),
        "clearance": (0.1, 0.28),
        "belt": (0.5, 0.72),
        "nose_height": (0.55, 1.0),
        "bonnet_rise": (2.0, 14.0),
        "front_lean": (-5.0, 25.0),
        "chin_rise": (0.0, 35.0),
        "chin_end": (0.02, 0.16),
        "corner": (3.0, 35.0),
        "corner_end": (0.05, 0.2),
        "side_lean": (0.0, 12.0),
        "taper": (0.0, 12.0),
        "taper_start": (0.6, 0.85),
        "diffuser": (0.0, 16.0),
        "diffuser_start": (0.65, 0.9),
        "tail_lean": (-5.0, 22.0),
        "deck_fall": (0.0, 15.0),
        "cowl": (0.12, 0.34),
        "windscreen_angle": (25.0, 60.0),
        "roof_fall": (-1.0, 7.0),
        "rear_foot": (0.78, 1.15),
        "rear_angle": (12.0, 75.0),
        "tumblehome": (3.0, 26.0),
        "edge_radius": (0.02, 0.2),
        "wheel_radius": (0.27, 0.4),
        "wheel_width": (0.5, 0.85),
        "front_axle": (0.15, 0.23),
        "wheelbase": (0.55, 0.64),
    }
}


def body(s: FacetShape) -> list[Piece]:
    """The skin without wheels."""
    middle = s.clearance + 0.5 * s.belt * s.nose_height * (s.height - s.clearance)
    first, last = _crossing(s, middle, -0.1 * s.length), _crossing(s, middle, 1.1 * s.length)
    # Stations crowd towards nose and tail, where the edges turn; the outermost stand a hair's breadth inside.
    x = first + (last - first) * (0.5 - 0.4995 * np.cos(np.linspace(0, np.pi, STATIONS)))
    turn = np.linspace(-np.pi / 2, np.pi / 2, AROUND)
    across, up = np.cos(turn), np.sin(turn)
    across[[0, -1]] = 0.0  # in the mid-plane to the last bit
    centre = np.full(STATIONS, middle)
    for _ in range(3):  # towards the middle of the section, from where all of it is seen
        ends = [_reach(s, x, centre, np.zeros(1), np.array([way]))[:, 0] for way in (-1.0, 1.0)]
        centre = np.minimum(centre + 0.5 * (ends[1] - ends[0]), 0.5 * (middle + s.clearance + s.belt * s.height))
    reach = _reach(s, x, centre, across, up)
    rings = np.stack([np.broadcast_to(x[:, None], reach.shape), reach * across, centre[:, None] + reach * up], axis=-1)
    rings = capped(rings)
    along = rings[..., 0]
    rings[..., 0] = (along - along.min()) * (s.length / np.ptp(along)) - s.length / 2
    return [loft(rings)]


def wheels(s: FacetShape) -> list[Piece]:
    """Four wheels; the rear ones follow the taper inward."""
    pieces = []
    for x in (s.front_axle * s.length, (s.front_axle + s.wheelbase) * s.length):
        sides = [_inward(s.corner, s.corner_end * s.length - x), _inward(s.taper, x - s.taper_start * s.length)]
        # The floor is narrower than the belt by the lean of the sides.
        lean = np.tan(np.radians(s.side_lean)) * s.belt * (s.height - s.clearance)
        pieces += wheel_pair(x - s.length / 2, s.width / 2 - 0.03 - max(sides) - lean, s.wheel_radius, s.wheel_width)
    return pieces


def _inward(angle: float, beyond: float) -> float:
    return float(np.tan(np.radians(angle)) * max(beyond, 0.0))


def _outside(s: FacetShape, x: Floats, y: Floats, z: Floats) -> Floats:
    """Below 0 within the body, above 0 outside of it, about the distance in m; y >= 0."""
    slope = {name: np.tan(np.radians(getattr(s, name))) for name, kind in s.__annotations__.items() if kind is float}
    tall = s.height - s.clearance
    belt, nose = s.clearance + s.belt * tall, s.clearance + s.nose_height * s.belt * tall

    def cut(over: Floats, *slopes: float) -> Floats:
        """Distance beyond a plane, of how far a point lies over it along one axis and the plane's slopes."""
        return np.asarray(over / np.sqrt(1 + sum(value**2 for value in slopes)))

    ends = [
        cut((z - s.clearance) * slope["front_lean"] - x, slope["front_lean"]),
        cut(x - s.length + (z - s.clearance) * slope["tail_lean"], slope["tail_lean"]),
    ]
    sides = [
        cut(y - s.width / 2 + slope["side_lean"] * (belt - z), slope["side_lean"]),
        cut(y - s.width / 2 + slope["corner"] * (s.corner_end * s.length - x), slope["corner"]),
        cut(y - s.width / 2 + slope["taper"] * (x - s.taper_start * s.length), slope["taper"]),
    ]
    floor = [
        s.clearance - z,
        cut(s.clearance + slope["chin_rise"] * (s.chin_end * s.length - x) - z, slope["chin_rise"]),
        cut(s.clearance + slope["diffuser"] * (x - s.diffuser_start * s.length) - z, slope["diffuser"]),
    ]
    hull = [
        z - belt,
        cut(z - nose - slope["bonnet_rise"] * x, slope["bonnet_rise"]),
        cut(z - belt + slope["deck_fall"] * (x - 0.8 * s.length), slope["deck_fall"]),
    ]
    peak = s.height - slope["roof_fall"] * (x - 0.45 * s.length)
    cabin = [
        cut(z - peak, slope["roof_fall"]),
        cut(z - belt - slope["windscreen_angle"] * (x - s.cowl * s.length), slope["windscreen_angle"]),
        cut(z - belt - slope["rear_angle"] * (s.rear_foot * s.length - x), slope["rear_angle"]),
        cut(y - s.width / 2 + 0.03 + slope["tumblehome"] * (z - belt), slope["tumblehome"]),
    ]
    k = 0.3 * s.edge_radius
    shared = [*ends, *sides, *floor]
    both = _largest([*shared, *hull], k), _largest([*shared, *cabin], k)
    return both[0] - softplus(both[0] - both[1], k)  # the smaller of the two, blended


def _largest(values: list[Floats], width: float) -> Floats:
    """The largest of the values, rounded over about `width`."""
    stacked = np.stack(np.broadcast_arrays(*values)) / width
    most = stacked.max(axis=0)
    return np.asarray(width * (most + np.log(np.exp(stacked - most).sum(axis=0))))


def _crossing(s: FacetShape, z: float, outside: float) -> float:
    """Where the line at height z in the mid-plane enters the body, coming from the station `outside`."""
    inside = 0.45 * s.length
    for _ in range(60):
        halfway = 0.5 * (inside + outside)
        beyond = float(_outside(s, np.array(halfway), np.array(0.0), np.array(z))) > 0
        inside, outside = (inside, halfway) if beyond else (halfway, outside)
    return inside


def _reach(s: FacetShape, x: Floats, centre: Floats, across: Floats, up: Floats) -> Floats:
    """(stations, directions) how far the body reaches from (x, 0, centre) along the directions (0, across, up)."""

    def outside(reach: Floats) -> Floats:
        return _outside(s, x[:, None], reach * across, centre[:, None] + reach * up)

    most = 1.2 * max(s.width, s.height)
    steps = np.linspace(0.0, most, 97)
    beyond = np.stack([outside(np.full((len(x), len(up)), step)) > 0 for step in steps])
    first = np.maximum(beyond.argmax(axis=0), 1)  # the first way out
    low, high = steps[first - 1], steps[first]
    for _ in range(45):
        halfway = 0.5 * (low + high)
        out = outside(halfway) > 0
        low, high = np.where(out, low, halfway), np.where(out, halfway, high)
    return 0.5 * (low + high)
