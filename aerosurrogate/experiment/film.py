"""Particles as they move: the truth and each model's rollout side by side, as an animation."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aerosurrogate.data.scaling import Places
from aerosurrogate.data.store import Dataset
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.writing import replacing

EVERY = 4  # frames of a rollout from one picture to the next
SECONDS = 0.08  # a picture


def rollouts(surrogates: Mapping[str, Surrogate], dataset: Dataset, name: str) -> dict[str, NDArray]:
    """Positions (frames, n, 2) by title: those of the case, and those that each model answers."""
    case = dataset.case(name)
    (field,) = case.fields
    answers = {title: surrogate.fields(Places.of(case))[field] for title, surrogate in surrogates.items()}
    columns = {"truth": case.fields[field]} | answers
    return {title: values.reshape(len(values), -1, 2).transpose(1, 0, 2) for title, values in columns.items()}


def write(path: Path, positions: Mapping[str, NDArray]) -> None:
    """A GIF of all rollouts; each particle keeps the colour of its height in the first frame."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.animation import FuncAnimation, PillowWriter
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2 * len(positions), 3.6), layout="constrained")
    colours = np.argsort(np.argsort(positions["truth"][0, :, 1]))
    dots = []
    for place, (title, frames) in enumerate(positions.items()):
        axes = figure.add_subplot(1, len(positions), place + 1)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[], yticks=[], title=title)
        dots.append(axes.scatter(frames[0, :, 0], frames[0, :, 1], c=colours, s=6, cmap="viridis"))

    def show(number: int) -> list[object]:
        for points, frames in zip(dots, positions.values(), strict=True):
            points.set_offsets(frames[number])
        return list(dots)

    film = FuncAnimation(figure, show, range(0, len(positions["truth"]), EVERY))  # type: ignore[arg-type]
    with replacing(path) as temporary:
        film.save(temporary, PillowWriter(fps=round(1 / SECONDS)), dpi=70)
