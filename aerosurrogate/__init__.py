"""Surrogates for aerodynamics: from a folder of shapes to fields, forces and a ranking.

    import aerosurrogate as aero

The functions and types below are the front door for Python; docs/python.md shows each at work. They are imported when
they are first asked for, so that the import itself costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from aerosurrogate.api import (
        improve_shape,
        integrate_file,
        load_model,
        map_sensitivity,
        predict_shape,
        rank_shapes,
        train_recipe,
    )
    from aerosurrogate.coeffs import Ranking
    from aerosurrogate.conditions import Conditions
    from aerosurrogate.errors import InputError
    from aerosurrogate.flow_fields import FlowFields
    from aerosurrogate.surrogate import Surrogate

_HOMES = {
    "load_model": "api",
    "predict_shape": "api",
    "rank_shapes": "api",
    "integrate_file": "api",
    "map_sensitivity": "api",
    "improve_shape": "api",
    "train_recipe": "api",
    "Conditions": "conditions",
    "FlowFields": "flow_fields",
    "Ranking": "coeffs",
    "Surrogate": "surrogate",
    "InputError": "errors",
}
__all__ = [
    "Conditions",
    "FlowFields",
    "InputError",
    "Ranking",
    "Surrogate",
    "__version__",
    "improve_shape",
    "integrate_file",
    "load_model",
    "map_sensitivity",
    "predict_shape",
    "rank_shapes",
    "train_recipe",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
