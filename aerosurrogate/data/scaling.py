"""Features and scaling: the one place where a case becomes a model's inputs and targets, and its outputs fields again.

Three scalings of fields. `nondimensional`: Cp = p/q, U/U_inf, Cf = tau/q, nut/(U_inf L), then each channel by its mean
and deviation over the training split. `standardised`: SI values by their mean and deviation, as in the paper. `raw`: as
they are. Coefficients are those of the silhouette S (in 2D the chord times a metre of span), whatever reference area a
data set has: lift = F_lift / (q S), log_drag = ln(F_drag / (q S)). S is exact for any shape; a head that answered F/q
would have to learn it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Array, Case, field_spec
from aerosurrogate.data.statistics import Moments, Sums, add_up, mean_and_deviation, sums_of
from aerosurrogate.errors import InputError
from aerosurrogate.mesh import potential
from aerosurrogate.mesh.potential import PotentialFlow

CLOSEST = 1e-5  # body lengths: wall distances below it look alike in "log_distance"
NOTHING = 1e-3  # of a vector's size: a component with less is none
WAVES = (1.0, 0.5, 0.25, 0.125)  # body lengths
MeanAndSize = tuple[tuple[float, ...], tuple[float, ...]]  # by channel: subtracted, and divided by
_IN_FILES = {f"{name}_scale": f"{name}s_spread" for name in ("input", "field", "coefficient")}


@dataclass(frozen=True)
class Places:
    """Points of one body in its stream, as the features see them: `points` (n, d), `surface` (n,), ... as in Case."""

    points: Array
    surface: NDArray[np.bool_]
    normals: Array | None = None
    distance: Array | None = None
    conditions: Conditions | None = None
    features: Mapping[str, Array] | None = None
    source: int = 0  # of the recipe's data sets, the one whose way of solving is meant; 0 is what a model answers as
    outline: PotentialFlow | None = None  # around the body that these are places of

    @classmethod
    def of(cls, case: Case) -> Self:
        source = int(case.tags.get("source", 0))
        seen = case.points, case.surface, case.normals, case.distance, case.conditions, case.features
        return cls(*seen, source, case.potential_flow)

    def rows(self, start: int, stop: int) -> "Places":
        """The points from `start` up to `stop`."""

        def cut(array: NDArray | None) -> Any:
            return None if array is None else array[start:stop]

        features = {name: values[start:stop] for name, values in (self.features or {}).items()}
        return Places(
            self.points[start:stop],
            self.surface[start:stop],
            cut(self.normals),
            cut(self.distance),
            self.conditions,
            features,
            self.source,
            self.outline,
        )


def _length(places: Places) -> float:
    return _known(places.conditions, "the stream").length


def _known(value: Any, what: str) -> Any:
    if value is None:
        remedy = "choose other data.inputs, or no data.coefficients"
        raise InputError(f"this model needs {what}, which the case does not have", remedy=remedy)
    return value


def _everywhere(places: Places, values: Any) -> Array:
    return np.broadcast_to(np.asarray(values, np.float32), (len(places.points), np.size(values)))


def _direction(places: Places) -> NDArray:
    return _known(places.conditions, "the stream").direction(places.points.shape[1])


def _nearest(places: Places) -> Array:
    """The place on the skin that is closest, in body lengths, (n, d)."""
    distance, away = _known(places.distance, "wall distances"), _known(places.normals, "normals")
    return (places.points - distance[:, None] * away) / _length(places)


def _potential_flow(places: Places) -> Array:
    flow, stream = (
        _known(places.outline, "the skin that potential flow goes around"),
        _known(places.conditions, "the stream"),
    )
    away, distance = _known(places.normals, "normals"), _known(places.distance, "wall distances")
    return np.asarray(flow.seen(places.points, away, distance, stream.alpha), np.float32)


def _waves(positions: Array) -> Array:
    """Sines and cosines of positions in body lengths (n, d), by which close places differ: (n, 2 w d)."""
    angles = np.concatenate([(2 * np.pi / wave) * positions for wave in WAVES], axis=1)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


# Inputs by name: Places -> (n, c). Lengths are in body lengths where the name says so.
INPUTS: dict[str, Callable[[Places], Array]] = {
    "position": lambda places: places.points,
    "position_per_length": lambda places: places.points / _length(places),
    "normal": lambda places: _known(places.normals, "normals"),
    "normal_on_skin": lambda places: _known(places.normals, "normals") * places.surface[:, None],
    "distance": lambda places: _known(places.distance, "wall distances")[:, None],
    "log_distance": lambda places: np.log10(
        _known(places.distance, "wall distances")[:, None] / _length(places) + CLOSEST
    ),
    "nearest_per_length": _nearest,
    "nearest_waves": lambda places: _waves(_nearest(places)),
    "potential_flow": _potential_flow,  # a section's there, and its lift; a body's at the nearest skin
    "surface": lambda places: places.surface[:, None].astype(np.float32),
    "stream": lambda places: _everywhere(places, _direction(places)),
    "stream_velocity": lambda places: _everywhere(places, _direction(places) * places.conditions.speed),  # type: ignore[union-attr]
    "source": lambda places: _everywhere(places, [places.source]),
    "ground": lambda places: _everywhere(places, [_known(places.conditions, "the stream").ground]),  # 0 in free air
    "log_reynolds": lambda places: _everywhere(places, [np.log10(_known(places.conditions, "the stream").reynolds)]),
}


@dataclass(frozen=True)
class Scaling:
    """How cases look to a model; plain values, so that it travels in the checkpoint as JSON."""

    input_names: tuple[str, ...]
    field_names: tuple[str, ...]
    coefficient_names: tuple[str, ...]
    kind: str  # nondimensional, standardised or raw
    dimensions: int
    channels: tuple[int, ...]  # of each field
    where: tuple[str, ...]  # each field counts: all, surface, volume
    input_scale: MeanAndSize
    field_scale: MeanAndSize
    coefficient_scale: MeanAndSize

    @classmethod
    def fit(
        cls,
        cases: Iterable[Case],
        *,
        inputs: Sequence[str],
        fields: Sequence[str],
        coefficients: Sequence[str] = (),
        kind: str = "standardised",
        scale_inputs: str = "all",
        where: Mapping[str, str] | None = None,
    ) -> "Scaling":
        """Statistics over the training cases; each field's only where it counts. Cases of which no more than the
        coefficients are known must come after one with fields."""
        places = tuple((where or {}).get(name, field_spec(name).where) for name in fields)
        seen: Moments = {}
        answered: Moments = {}
        head: Moments = {}
        bare = None
        for case in cases:
            if case.fields or bare is None:
                bare = cls._bare(case, inputs, fields, coefficients, kind, places)
            seen = add_up([seen, {name: sums_of(bare._input(name, Places.of(case))) for name in inputs}])
            if case.fields:
                rows = {name: _defined(place, case.surface) for name, place in zip(fields, places, strict=True)}
                values = {name: bare._field(name, case.fields[name][rows[name]], case.conditions) for name in fields}
                answered = add_up([answered, {name: sums_of(of) for name, of in values.items()}])
            targets = bare.coefficient_targets(case)[None]
            targets = targets[np.isfinite(targets).all(axis=1)]  # one of them may be unknown
            head = add_up([head, {"targets": sums_of(targets)}])
        if bare is None:
            raise InputError("no training cases", remedy="check the recipe's split")
        kept = {"all": (), "functions": ("position", "position_per_length"), "none": tuple(inputs)}[scale_inputs]
        return cls(
            **{
                **bare.__dict__,
                "input_scale": _joined([as_is(seen[n]) if n in kept else mean_and_size(seen[n]) for n in inputs]),
                "field_scale": _joined(
                    [
                        as_is(answered[n]) if kind == "raw" else mean_and_size(answered[n], field_spec(n).vector)
                        for n in fields
                    ]
                ),
                "coefficient_scale": mean_and_size(head["targets"]),
            }
        )

    @classmethod
    def _bare(
        cls,
        case: Case,
        inputs: Sequence[str],
        fields: Sequence[str],
        coefficients: Sequence[str],
        kind: str,
        where: tuple[str, ...],
    ) -> "Scaling":
        """The scaling before its statistics are known, which leaves values as they are."""
        for name in fields:
            if name not in case.fields:
                raise InputError(
                    f"case {case.name} has no field of that name",
                    seen=name,
                    remedy=f"data.fields may hold {', '.join(case.fields)}",
                )
        channels = tuple(case.fields[name].shape[1] for name in fields)
        k, c = len(coefficients), sum(channels)
        width = sum(cls._width(name, case) for name in inputs)
        return cls(
            tuple(inputs),
            tuple(fields),
            tuple(coefficients),
            kind,
            case.dimensions,
            channels,
            where,
            ((0.0,) * width, (1.0,) * width),
            ((0.0,) * c, (1.0,) * c),
            ((0.0,) * k, (1.0,) * k),
        )

    @staticmethod
    def _width(name: str, case: Case) -> int:
        if name not in INPUTS and name not in case.features:
            raise InputError(
                "no input of that name",
                seen=name,
                remedy=f"data.inputs may hold {', '.join([*INPUTS, *case.features])}",
            )
        return Scaling._input(name, Places.of(case).rows(0, 1)).shape[1]

    @staticmethod
    def _input(name: str, places: Places) -> Array:
        return INPUTS[name](places) if name in INPUTS else _known((places.features or {}).get(name), name)

    def _field(self, name: str, values: NDArray, conditions: Conditions | None) -> NDArray:
        return values if self.kind != "nondimensional" else values / natural_unit(name, conditions)

    @property
    def in_metres(self) -> bool:
        """Whether the model sees or answers SI values, and so knows bodies of its training set's size alone."""
        return self.kind != "nondimensional" or not {"position", "distance", "stream_velocity"}.isdisjoint(
            self.input_names
        )

    @property
    def sees_speed(self) -> bool:
        return not {"stream_velocity", "log_reynolds"}.isdisjoint(self.input_names)

    @property
    def input_channels(self) -> int:
        return len(self.input_scale[0])

    @property
    def output_channels(self) -> int:
        return sum(self.channels)

    def columns(self) -> dict[str, slice]:
        """Where each field's channels are among the model's outputs."""
        ends = np.cumsum(self.channels)
        return {
            name: slice(int(e - c), int(e)) for name, c, e in zip(self.field_names, self.channels, ends, strict=True)
        }

    def inputs(self, places: Places) -> Array:
        """The model's inputs, (n, channels), positions first."""
        mean, size = _rows(self.input_scale)
        raw = np.concatenate([self._input(name, places) for name in self.input_names], axis=1, dtype=np.float32)
        return (raw - mean) / size

    def targets(self, case: Case) -> Array:
        """The fields as the model should answer them, (n, channels); what is not known at a point is 0 there."""
        mean, size = _rows(self.field_scale)
        if not case.fields:
            return np.zeros((len(case.points), self.output_channels), np.float32)
        raw = [self._field(name, case.fields[name], case.conditions) for name in self.field_names]
        return np.where(self.known(case), (np.concatenate(raw, axis=1) - mean) / size, 0).astype(np.float32)

    def known(self, case: Case) -> NDArray[np.bool_]:
        """Which channels of a case are known at which points, (n, channels): none where only coefficients are."""
        return self.defined(case.surface) & bool(case.fields)

    def defined(self, surface: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which channels are defined at which points, (n, channels)."""
        columns = [
            np.repeat(_defined(place, surface)[:, None], c, axis=1)
            for place, c in zip(self.where, self.channels, strict=True)
        ]
        return np.concatenate(columns, axis=1)

    def fields(self, outputs: NDArray, surface: NDArray[np.bool_], conditions: Conditions | None) -> dict[str, Array]:
        """Fields in SI units from the model's outputs (n, channels); zero where a field is not defined."""
        mean, size = _rows(self.field_scale)
        values = np.where(self.defined(surface), outputs * size + mean, 0)
        unit = {
            name: natural_unit(name, conditions) if self.kind == "nondimensional" else 1.0 for name in self.field_names
        }
        return {name: (values[:, part] * unit[name]).astype(np.float32) for name, part in self.columns().items()}

    def coefficient_targets(self, case: Case) -> Array:
        """What the head should answer for a case, scaled, (k,); NaN is unknown."""
        if not self.coefficient_names:
            return np.zeros(0, np.float32)
        reference, shadow = case.reference, _known(case.silhouette, "a reference area")
        scale = reference.get("area", shadow) / shadow
        lift, drag = (reference.get(name, np.nan) * scale for name in ("cl", "cd"))
        raw = {"lift": lift, "log_drag": np.log(np.maximum(drag, 1e-6))}
        mean, size = _rows(self.coefficient_scale)
        return ((np.array([raw[name] for name in self.coefficient_names]) - mean) / size).astype(np.float32)

    def force_areas(self, answers: NDArray, silhouette: float) -> dict[str, float]:
        """Drag and lift over dynamic pressure, m2, of a body of this silhouette, m2, from the head's answer (k,)."""
        mean, size = _rows(self.coefficient_scale)
        values = dict(zip(self.coefficient_names, (answers * size + mean).tolist(), strict=True))
        areas = {}
        if "log_drag" in values:
            areas["drag"] = float(np.exp(values["log_drag"]) * silhouette)
        if "lift" in values:
            areas["lift"] = float(values["lift"] * silhouette)
        return areas

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {_IN_FILES.get(key, key): value for key, value in asdict(self).items()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "Scaling":
        names = {stored: name for name, stored in _IN_FILES.items()}
        return cls(**{names.get(key, key): _tuples(value) for key, value in document.items()})


def natural_unit(name: str, conditions: Conditions | None) -> float:
    """What a field is divided by to become non-dimensional."""
    stream = _known(conditions, "the stream")
    q, speed = stream.dynamic_pressure, stream.speed
    return {"p": q, "wallShearStress": q, "U": speed, "nut": speed * stream.length}.get(name, 1.0)


def input_widths(scaling: Scaling) -> tuple[int, ...]:
    """Channels of each input. A case's own features, whose width no rule tells, share what the others leave."""
    zero = np.zeros((1, scaling.dimensions), np.float32)
    one = Places(zero, np.zeros(1, bool), zero, np.zeros(1, np.float32), Conditions(speed=1.0, length=1.0))
    sides = np.concatenate([np.eye(scaling.dimensions), -np.eye(scaling.dimensions)])  # of a square or cube: some body
    one = replace(one, outline=potential.of_skin(0.5 * sides, sides, np.ones(len(sides)), ground=False, half=False))
    known = {name: INPUTS[name](one).shape[1] for name in scaling.input_names if name in INPUTS}
    own = sum(name not in INPUTS for name in scaling.input_names)
    rest = scaling.input_channels - sum(known.values())
    return tuple(known[name] if name in known else rest // own for name in scaling.input_names)


def _defined(where: str, surface: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.ones_like(surface) if where == "all" else surface == (where == "surface")


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _rows(scale: MeanAndSize) -> tuple[NDArray, NDArray]:
    return np.array(scale[0], np.float32), np.array(scale[1], np.float32)


def _joined(parts: Sequence[MeanAndSize]) -> MeanAndSize:
    return tuple(m for mean, _ in parts for m in mean), tuple(s for _, size in parts for s in size)


def as_is(sums: Sums) -> MeanAndSize:
    """Of channels that are not scaled."""
    return (0.0,) * len(sums[0]), (1.0,) * len(sums[0])


def mean_and_size(sums: Sums, together: bool = False) -> MeanAndSize:
    """Mean and standard deviation by channel.

    Channels that belong `together`, a vector's, have one size: a component that is zero but for rounding would
    otherwise be blown up to noise as large as the others.
    """
    mean, deviation = mean_and_deviation(sums)
    if together:
        whole = np.sqrt(np.mean(deviation**2))
        deviation = np.where(deviation < NOTHING * whole, whole, deviation)
    flat = deviation < 1e-6 * np.abs(mean) + 1e-12  # a constant channel carries nothing: leave its size alone
    return tuple(mean.tolist()), tuple(np.where(flat, 1.0, deviation).tolist())
