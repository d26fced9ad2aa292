"""Several states of the stream in one call: `--alpha -4:14:1`, `--reynolds 2e6,4e6`, `--speed 20:40:5`."""

import math
from dataclasses import replace
from itertools import product

from aerosurrogate.conditions import StreamOptions
from aerosurrogate.errors import InputError

MOST = 2000  # states of one shape
SWEPT = ("reynolds", "speed", "alpha")  # in this order, the last one varies fastest


def values(text: str, option: str) -> tuple[float, ...]:
    """The numbers of an option: one, several with commas between, or from:to:step with both ends."""
    remedy = f"give {option} 4, {option} 2,4,6 or {option} -4:14:1"
    try:
        if ":" not in text:
            found = tuple(float(part) for part in text.split(","))
        else:
            first, last, step = (float(part) for part in text.split(":"))
            count = (last - first) / step if step else -1.0
            if not 0 <= count < MOST:
                raise InputError("an empty or endless sweep", seen=f"{option} {text}", remedy=remedy)
            # As few digits as the ends and the step have: 0.1 * 3 is not 0.3.
            found = tuple(float(f"{first + i * step:.12g}") for i in range(math.floor(count + 1e-9) + 1))
    except ValueError:
        raise InputError("neither a number nor a sweep", seen=f"{option} {text}", remedy=remedy) from None
    if not all(math.isfinite(value) for value in found):
        raise InputError("a sweep goes over numbers", seen=f"{option} {text}", remedy=remedy)
    return tuple(dict.fromkeys(found))


def states(stream: StreamOptions, speed: str | None, alpha: str | None, reynolds: str | None) -> list[StreamOptions]:
    """All combinations of what was said; one state where nothing is swept."""
    said = {"reynolds": reynolds, "speed": speed, "alpha": alpha}
    axes = [values(text, f"--{name}") if (text := said[name]) is not None else (None,) for name in SWEPT]
    if math.prod(len(axis) for axis in axes) > MOST:
        raise InputError(f"more than {MOST} states of one shape", remedy="sweep in larger steps")
    return [replace(stream, reynolds=r, speed=s, alpha=a) for r, s, a in product(*axes)]


def swept(all_states: list[StreamOptions]) -> list[str]:
    """The names of what differs among states."""
    return [name for name in SWEPT if len({getattr(state, name) for state in all_states}) > 1]
