"""Many designs, and many states of each, through a model at once.

The states of one shape share its reading, its points, their distances and its silhouette. A call of the model takes
several bodies: sections of all files together, states of one body in 3D (whose skins differ too much to be mixed). On
a fine mesh two triangles in one plane share an answer: decoding is most of a ranking's time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.body import Body
from aerosurrogate.conditions import Conditions, StreamOptions
from aerosurrogate.data.scaling import Places
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import FlowFields
from aerosurrogate.mesh.pairs import paired
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.model_frame import in_place, sample, skin_places
from aerosurrogate.predict import SKIN, Predictor, Prepared, chunk_of

FINE = 8_000  # faces of a body from which on pairs of them share an answer
TOGETHER = {2: 8, 3: 4}  # in a call, of sections and of bodies: with more, what is worked on leaves the cache


@dataclass(frozen=True, eq=False)
class _Asked:
    """One state of one shape, ready for the model."""

    number: int  # of its file
    body: Body
    conditions: Conditions
    surface: Surface
    stream: Conditions
    points: Places
    skin: Places
    group: NDArray[np.int64] | None  # of faces, by which the skin is asked

    @property
    def kind(self) -> tuple[int, int, int]:
        """What can go together."""
        own = -1 if self.body.dimension == 2 else self.number
        return self.body.dimension, len(self.points.points), own


def predict_many(
    predictor: Predictor, files: Sequence[str], states: Sequence[StreamOptions]
) -> list[list[FlowFields] | InputError]:
    """For each file its fields in each of the states, skin only, or why there are none.

    What the states say of axes, ground and units is the same in all of them.
    """
    answers: list[list[FlowFields] | InputError] = []
    asked: list[_Asked] = []
    for number, file in enumerate(files):
        try:
            asked += _ask(predictor, number, file, states)
            answers.append([])
        except InputError as error:
            answers.append(error)
    for batch in _batches(asked):
        surrogate = predictor.surrogate(batch[0].body.dimension)
        chunk = chunk_of(surrogate, predictor.at_once)
        found = surrogate.together(
            [in_place(surrogate, one.points) for one in batch], [in_place(surrogate, one.skin) for one in batch]
        )
        for one, (known, decoded) in zip(batch, found, strict=True):
            ready = Prepared(one.body, one.conditions, one.surface, one.stream, known, chunk)
            answer = answers[one.number]
            assert isinstance(answer, list)
            if one.group is not None:
                decoded = {name: values[one.group] for name, values in decoded.items()}
            answer.append(predictor.answer(ready, SKIN, decoded))
    return answers


def _ask(predictor: Predictor, number: int, file: str, states: Sequence[StreamOptions]) -> list[_Asked]:
    body = predictor.read(file, states[0])
    surrogate = predictor.surrogate(body.dimension)
    asked: list[_Asked] = []
    for state in states:
        noted, conditions = predictor.in_stream(body, state)
        stream = predictor.seen_stream(noted, conditions)
        if not asked or asked[0].stream.length != stream.length:
            surface = predictor.framed(body, stream.length)
            group = paired(surface) if surface.dimension == 3 and len(surface.cells) >= FINE else None
            points, skin = sample(surface, stream, surrogate, body=body), skin_places(surface, stream, group)
        there = replace(points, conditions=stream), replace(skin, conditions=stream)
        asked.append(_Asked(number, noted, conditions, surface, stream, *there, group))
    return asked


def _batches(asked: Sequence[_Asked]) -> Iterator[list[_Asked]]:
    for _, group in groupby(sorted(asked, key=lambda one: one.kind), key=lambda one: one.kind):
        alike = list(group)  # sorted stably: the states of a file stay in their order
        together = TOGETHER[alike[0].body.dimension]
        for start in range(0, len(alike), together):
            yield alike[start : start + together]
