"""The way down: a deformation's numbers moved against the gradient of the model's head, with what is to be kept held.

Each step draws new points, so that no draw's noise is followed for long. A step is taken back and halved where the
coefficient does not fall or where trust leaves `inside`: further out the model's word is worth nothing.

The drag of a body counts over the frontal area that it has at the start: a larger shadow is no gain. The drag of a
section counts at one lift: what the shape gains or loses of it, the angle of attack has to make up for.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aerosurrogate import console
from aerosurrogate.body import Body, is_mirror_symmetric, set_in_stream
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import FlowFields
from aerosurrogate.improve import deform
from aerosurrogate.improve.deform import Measure
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.predict import Predictor, Prepared
from aerosurrogate.sensitivity import DRAWS, Derivatives, Response

Floats = NDArray[np.float64]
STEPS = 12  # tried at most
FIRST, LAST = 4, 24  # parts of the most: the first step, and the smallest that is still tried
HELD = 1e-3  # relative: how well what is kept is kept
CORRECTIONS = 8
FRESH = 10_000  # the first seed of draws that no step sees
DIRECT = {"cd": "drag", "cl": "lift"}  # as FlowFields calls them
TRUST = "further on, trust leaves `inside`"
LIFT, ANGLES = 1e-3, 4  # how near to a lift coefficient is near enough, and how many angles are tried for it


@dataclass(frozen=True)
class Limits:
    """How far a skin may move, and what has to stay."""

    keep: tuple[str, ...]
    most: float  # m
    box: Floats  # (2, 3) m in the model's frame; of no meaning for sections


@dataclass(frozen=True)
class Step:
    """A step that was taken."""

    number: int
    value: float  # of the coefficient, by the points of that step
    moved: float  # m, the furthest that any point has moved from the start
    trust: float | None  # score: 1 is the edge of inside
    alpha: float | None  # degrees, sections


class State(NamedTuple):
    """A shape on the way, as the model sees it."""

    q: Floats
    alpha: float | None  # degrees, sections
    value: float  # what is to fall
    slope: Floats  # (count,) of it
    shown: float  # the coefficient
    score: float | None  # of trust
    lift_slope: Floats | None = None  # (count,) of the lift of a section that is to keep it
    missing: float = 0.0  # of that lift
    per_degree: float = 1.0  # lift

    def angle(self, q: Floats) -> float | None:
        """The angle of attack at which a section moved to q has its lift."""
        if self.alpha is None or self.lift_slope is None:
            return self.alpha
        return self.alpha + (self.missing - float(self.lift_slope @ (q - self.q))) / self.per_degree


class Descent:
    """The descent of one shape, a surface in its file's axes (m), as the body that the model sees."""

    def __init__(
        self, surface: Surface, body: Body, stream: StreamOptions, of: str, limits: Limits, predictor: Predictor
    ) -> None:
        self.surface, self.body, self.stream, self.of = surface, body, stream, of
        self.limits, self.predictor = limits, predictor
        self.flat = body.dimension == 2
        self.at = body.to_model(surface.points)
        self.free = np.ones(len(self.at))
        framed = replace(surface, points=self.at)
        measures: dict[str, Measure] = {"volume": deform.volume}
        if self.flat:
            self.deformation = deform.section_modes(framed, body.length, limits.most)
            measures["thickness"] = partial(deform.thickness, side=deform.upper_side(framed))
        else:
            floor = None if body.ground is None else 0.0
            if "wheels" in limits.keep:
                self.free = deform.free_of_wheels(framed, body.length, floor)
            if not self.free.any():
                raise InputError(
                    "nothing to move: all of the skin stands on the ground", remedy="--keep without wheels"
                )
            self.deformation = deform.lattice(
                self.at[self.free > 0],
                limits.box,
                limits.most,
                length="length" in limits.keep,
                floor=floor,
                mirror=stream.symmetry is not None or is_mirror_symmetric(body.in_model_frame()),
            )
            measures["area"] = deform.frontal_area
        self.measures = {name: measure for name, measure in measures.items() if name in limits.keep}
        self.start = {name: measure(framed)[0] for name, measure in self.measures.items()}
        self.stiffness = self.deformation.stiffness(self.at, self.free, framed.point_areas)

    # --- shapes --------------------------------------------------------------------------------------------------

    def moved(self, q: Floats) -> Surface:
        """The shape in the file's axes."""
        return replace(self.surface, points=self.surface.points + self.body.turn_to_file(self._shift(q)))

    def furthest(self, q: Floats) -> float:
        return float(np.linalg.norm(self._shift(q), axis=1).max())

    def held(self, q: Floats) -> dict[str, tuple[float, float]]:
        """What is kept, before and after."""
        skin = self._framed(q)
        return {name: (self.start[name], measure(skin)[0]) for name, measure in self.measures.items()}

    def _shift(self, q: Floats) -> Floats:
        return self.deformation.shift(self.at, self.free, q)

    def _framed(self, q: Floats) -> Surface:
        return replace(self.surface, points=self.at + self._shift(q))

    def _pull(self, gradient: Floats) -> Floats:
        return self.deformation.pull(self.at, self.free, gradient)

    def _corrected(self, q: Floats) -> Floats | None:
        """Numbers near these within all limits; None where there are none."""
        for _ in range(CORRECTIONS):
            q = q.clip(self.deformation.low, self.deformation.high)
            if (furthest := self.furthest(q)) > self.limits.most:
                q = q * (self.limits.most / furthest)
            skin = self._framed(q)
            found = {name: measure(skin) for name, measure in self.measures.items()}
            off = np.array([value / self.start[name] - 1 for name, (value, _) in found.items()])
            if np.abs(off).max(initial=0.0) < HELD:
                return q
            slopes = np.stack([self._pull(gradient) / self.start[name] for name, (_, gradient) in found.items()])
            along = np.linalg.solve(self.stiffness, slopes.T)
            q = q - along @ np.linalg.lstsq(slopes @ along, off, rcond=1e-6)[0]
        return None

    def _towards(self, state: State, size: float) -> Floats:
        """The numbers after a step down the slope, along which what is kept does not change; a control moves by `size`.

        Those at their limits stay there, and the others make do without them.
        """
        q, low, high = state.q, self.deformation.low, self.deformation.high
        skin = self._framed(q)
        kept = [self._pull(measure(skin)[1]) / self.start[name] for name, measure in self.measures.items()]
        slopes = np.array(kept).reshape(-1, len(q))
        free = np.ones(len(q), dtype=bool)
        for _ in range(len(q)):
            stiff, held = self.stiffness[np.ix_(free, free)], slopes[:, free]
            down = -np.linalg.solve(stiff, state.slope[free])
            if len(held):
                along = np.linalg.solve(stiff, held.T)
                down -= along @ np.linalg.lstsq(held @ along, held @ down, rcond=1e-9)[0]
            step = np.zeros(len(q))
            step[free] = down / max(np.abs(down).max(initial=0.0), 1e-300)
            stuck = free & (((q <= low + 1e-9) & (step < 0)) | ((q >= high - 1e-9) & (step > 0)))
            if not stuck.any() or not (free & ~stuck).any():
                break
            free &= ~stuck
        return q + size * step

    # --- the model -----------------------------------------------------------------------------------------------

    def place(self, q: Floats, alpha: float | None) -> Prepared:
        """The shape as the model sees it. Its points know where they were, and how free."""
        stream = self.stream if alpha is None else replace(self.stream, alpha=alpha)
        marked = replace(self.moved(q), point_data={"start": self.surface.points, "free": self.free})
        body = set_in_stream(marked, stream, self.body.file)
        return self.predictor.place(*self.predictor.in_stream(body, stream))

    def seen(self, prepared: Prepared, first_seed: int) -> tuple[FlowFields, dict[str, Derivatives]]:
        """The answer for a shape, the head's coefficients being means over draws, with their derivatives."""
        seeds = range(first_seed, first_seed + DRAWS)
        response = Response(self.predictor.surrogate(self.body.dimension), prepared, seeds)
        names = [name for name in ("cd", "cl") if name in response.names]
        found = response.derivatives(*names)
        direct = {DIRECT[name]: found[name].value * prepared.body.silhouette for name in names}
        return replace(self.predictor.answer(prepared), direct=direct), found

    def state(self, q: Floats, alpha: float | None, lift: float, seed: int) -> State:
        """A shape with its slope; sections are held to the lift."""
        prepared = self.place(q, alpha)
        flow, found = self.seen(prepared, seed)
        missing = lift - flow.row()["cl"]
        value, slope = self._objective(q, prepared, found, missing)
        state = State(q, alpha, value, slope, -value if self.of == "cl/cd" else value, score_of(flow))
        if not self.flat or self.of != "cd":
            return state
        by_lift = self._pulled(prepared, found["cl"])
        return state._replace(lift_slope=by_lift, missing=missing, per_degree=found["cl"].alpha)

    def _objective(
        self, q: Floats, prepared: Prepared, found: dict[str, Derivatives], missing: float
    ) -> tuple[float, Floats]:
        """What is to fall, and what it gains a number of q; `missing` is the lift that a section lacks."""
        if self.flat:
            cd, cl = found["cd"], found["cl"]
            by_drag, by_lift = self._pulled(prepared, cd), self._pulled(prepared, cl)
            if self.of == "cl/cd":
                return -cl.value / cd.value, (cl.value * by_drag / cd.value - by_lift) / cd.value
            price = cd.alpha / cl.alpha  # in drag, of lift that another angle has to bring
            return cd.value + price * missing, by_drag - price * by_lift
        value, slope = found[self.of].value, self._pulled(prepared, found[self.of])
        larger = prepared.body.silhouette / self.body.silhouette
        wider = self._pull(deform.frontal_area(self._framed(q))[1]) / self.body.silhouette
        return value * larger, slope * larger + value * wider

    def _pulled(self, prepared: Prepared, found: Derivatives) -> Floats:
        """What a coefficient gains a number of q."""
        data = prepared.surface.point_data
        start = self.body.to_model(data["start"])
        return self.deformation.pull(start, data["free"], found.corners * prepared.scale)

    def run(self, alpha: float | None, lift: float) -> tuple[list[Step], list[State], str]:
        """The steps that were taken with the shapes they led to, and why there is no further one."""
        state = self.state(np.zeros(self.deformation.count), alpha, lift, 0)
        if state.score is not None and state.score > 1:
            console.warn(f"{self.body.name} itself is not inside what the model has seen: verify what is found")
        edge = self.edge(state.score)
        size, smallest = self.limits.most / FIRST, self.limits.most / LAST
        steps: list[Step] = []
        states: list[State] = []
        ended = f"{STEPS} steps were tried"
        with console.progress("improving", STEPS, 0, unit="steps") as advance:
            for number in range(1, STEPS + 1):
                q = self._corrected(self._towards(state, size))
                new = None if q is None else self.state(q, state.angle(q), lift, number * DRAWS)
                advance(1, **{self.of: f"{state.shown:.4f}"})
                if new is None:
                    why = "what is to be kept cannot be kept any further"
                elif new.score is not None and new.score > edge:
                    why = TRUST
                elif new.value >= state.value:
                    why = f"no further gain in {self.of}"
                else:
                    state = new
                    states.append(new)
                    steps.append(Step(len(steps) + 1, new.shown, self.furthest(new.q), new.score, new.alpha))
                    continue
                size /= 2
                if size < smallest:
                    ended = why
                    break
        return steps, states, ended

    def edge(self, score: float | None) -> float:
        """The score of trust that no step may go beyond, from that of the start."""
        return max(1.0, score or 0.0)

    def settled(self, q: Floats, alpha: float | None, lift: float | None) -> FlowFields:
        """The answer for a shape, its coefficients means over draws that no step has seen; sections at the lift."""
        for _ in range(ANGLES):
            flow, found = self.seen(self.place(q, alpha), FRESH)
            if alpha is None or lift is None or abs(off := lift - flow.row()["cl"]) < LIFT:
                break
            alpha += off / found["cl"].alpha
        return flow


def score_of(flow: FlowFields) -> float | None:
    """How far a design is from what the model has seen: 1 is the edge of `inside`."""
    return None if flow.verdict is None else flow.verdict.score
