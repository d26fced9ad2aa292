"""Tables that a user writes: keys typed and checked, what is wrong named with its path and the nearest right name."""

import difflib
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from aerosurrogate.errors import InputError


class Table(BaseModel):
    """A frozen table; unknown keys and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def explained(error: ValidationError, table: Any, source: str) -> InputError:
    """The first thing wrong in a document that should be a `table`; `source` is where it was read."""
    first = error.errors()[0]
    place = [part for part in first["loc"] if isinstance(part, str) and not part.startswith(("tuple", "constrained"))]
    for part in place[:-1]:
        annotation = table.model_fields[part].annotation if part in table.model_fields else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            break
        table = annotation
    key = ".".join(place) or "the whole"
    if first["type"] == "extra_forbidden":
        names = list(table.model_fields)
        near = difflib.get_close_matches(place[-1], names, n=1, cutoff=0.4)
        remedy = f"did you mean {near[0]}?" if near else f"it takes {', '.join(names)}"
        return InputError(f"{source}: unknown key {key}", seen=first["input"], remedy=remedy)
    if first["type"] == "missing":
        return InputError(f"{source}: {key} is missing", remedy=f"add {key} to the recipe, or --set {key}=VALUE")
    seen = first["input"] if not isinstance(first["input"], dict) else None
    return InputError(f"{source}: {key} is not valid", seen=seen, remedy=first["msg"].removeprefix("Value error, "))
