"""Kinds of models by name: those of this package, and any other class as "package.module:Class"."""

import difflib
import importlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic import ValidationError

from aerosurrogate.errors import InputError
from aerosurrogate.model.interface import Interface, Model, Options
from aerosurrogate.tables import explained

KINDS = {
    "transolver": "aerosurrogate.model.transolver:Transolver",
    "particles": "aerosurrogate.model.particles:Particles",
    "mlp": "aerosurrogate.model.baselines.mlp:PointwiseMlp",
    "pointnet": "aerosurrogate.model.baselines.pointnet:PointNet",
    "graphsage": "aerosurrogate.model.baselines.graphsage:GraphSage",
    "meshgraphnet": "aerosurrogate.model.baselines.meshgraphnet:MeshGraphNet",
    "fno2d": "aerosurrogate.model.baselines.fno2d:Fno2d",
    "galerkin": "aerosurrogate.model.baselines.galerkin:Galerkin",
    "gnot": "aerosurrogate.model.baselines.gnot:Gnot",
    "transformer": "aerosurrogate.model.baselines.transformer:Transformer",
    "linearno": "aerosurrogate.model.baselines.linearno:LinearNo",
    "flare": "aerosurrogate.model.baselines.flare:Flare",
    "transolver++": "aerosurrogate.model.baselines.transolver_plus:TransolverPlus",
}


def find_kind(kind: str) -> type[Model]:
    """The class of a kind of model."""
    module, colon, name = KINDS.get(kind, kind).partition(":")
    if not colon:
        near = difflib.get_close_matches(kind, KINDS, n=1, cutoff=0.4)
        known = f"did you mean {near[0]}?" if near else f"there are {', '.join(KINDS)}"
        raise InputError("no such kind of model", seen=kind, remedy=f"{known}; your own is package.module:Class")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        remedy = "install its package, or put its folder on PYTHONPATH"
        raise InputError(f"this kind of model cannot be imported ({error})", seen=kind, remedy=remedy) from None
    if not (isinstance(found, type) and issubclass(found, Model)):
        remedy = "derive it from aerosurrogate.model.interface.Model"
        raise InputError("this is no kind of model", seen=kind, remedy=remedy)
    return found


def alike(options: Options, kind: str) -> Options:
    """The options of another kind, as large as these: what both have is taken over, the rest is that kind's default."""
    config = find_kind(kind).Config
    shared = {key: value for key, value in options.model_dump().items() if key in config.model_fields}
    return config(**shared | {"kind": kind})


def build(document: Mapping[str, Any]) -> Model:
    """The model of an architecture, the interface and the options of its kind in one table, with fresh weights."""
    kind = find_kind(document.get("kind", "transolver"))
    own = {field.name for field in fields(Interface)}
    interface = Interface(**{key: value for key, value in document.items() if key in own})
    options = {key: value for key, value in document.items() if key not in own}
    try:
        config = kind.Config.model_validate_json(json.dumps(options))
    except ValidationError as error:
        raise explained(error, kind.Config, "architecture") from None
    return kind(interface, config)
