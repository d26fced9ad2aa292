"""Recipe: everything a training run depends on, read from TOML, validated, frozen.

Unknown keys, wrong types and impossible values are rejected with their path and the nearest right name. Any key can
be overridden: `--set training.epochs=3 --set model.slices=[64,64,64,64,32,32,32,32]`.
"""

import difflib
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, ValidationError
from pydantic import model_validator as validator
from typing_extensions import TypeVar

from aerosurrogate.errors import InputError
from aerosurrogate.model.interface import Options
from aerosurrogate.model.registry import find_kind
from aerosurrogate.shipped import find_dataset
from aerosurrogate.surrogate import find_model, models_folder, read_header
from aerosurrogate.tables import Table, explained

Fraction = Annotated[float, Field(ge=0, lt=1)]
# How a run that starts from a model trains unless the recipe says otherwise: shorter and gentler than from nothing.
FINE_TUNING: dict[str, Any] = {
    "optimiser": "muon",
    "learning_rate": 5e-4,
    "weight_decay": 0.05,
    "clip": 1.0,
    "schedule": "onecycle",
    "steps": 1000,
}
GONE = {"training": {"force_weight": 0.0}}  # keys that recipes of earlier run folders hold, at values that did nothing


class Data(Table):
    """Which cases, what the model sees of them and what it answers."""

    path: Path  # data set folder, relative to the recipe's file
    # Others that train beside it, solved more cheaply, say: with "source" among the inputs the model knows which is
    # which, and answers as the first would. Validation and test are the first one's alone.
    beside: tuple[Path, ...] = ()
    foreign: tuple[Path, ...] = ()  # shapes of other makers: a published model's routes and intervals hold for them too
    train: str = "train"  # split to learn from
    test: str = "test"  # split that the finished model is measured on
    validation: Fraction | str = 0.1  # part of the training split kept back, or a split of its own
    part: Annotated[float, Field(gt=0, le=1)] = 1.0  # of the training split that is used, drawn once for all seeds
    inputs: Annotated[tuple[str, ...], Field(min_length=1)]  # names of data.scaling.INPUTS, or features of the cases
    fields: Annotated[tuple[str, ...], Field(min_length=1)]  # that the model answers, by their names in the data set
    where: dict[str, Literal["all", "surface", "volume"]] = Field({})  # fields that count elsewhere than usual
    coefficients: tuple[Literal["lift", "log_drag"], ...] = ()  # answered by the head
    # Of the fields: by the stream, by mean and deviation over the training split, or none.
    scaling: Literal["nondimensional", "standardised", "raw"] = "standardised"
    # Which inputs have the mean of the training split subtracted and are divided by its deviation: functions are all
    # but the positions.
    scale_inputs: Literal["all", "functions", "none"] = "all"
    source: str = ""  # where the data come from; this and the next two are said when they are not there
    size: str = ""  # of the data
    prepare: str = ""  # the command that makes the data set


class Training(Table):
    """The loop: how long, how fast, on which points, towards what."""

    epochs: PositiveInt | None = None  # passes over the training cases
    steps: PositiveInt | None = None  # instead of epochs
    batch: PositiveInt = 1  # cases a step, over all processes
    seed: int = 0  # of weights, order and drawn points
    start: str = ""  # a model to go on from (--start): a shipped one, a run folder or a checkpoint
    optimiser: Literal["adam", "adamw", "muon"] = "adamw"  # muon: for the matrices of the blocks, AdamW for the rest
    learning_rate: PositiveFloat = 1e-3  # the largest of the schedule
    weight_decay: NonNegativeFloat = 1e-5  # a step, times the learning rate
    schedule: Literal["onecycle", "cosine", "constant"] = "onecycle"  # of the learning rate
    final_divisor: PositiveFloat = 1e4  # OneCycle ends at its start / final_divisor
    clip: NonNegativeFloat = 0.1  # of the gradient's norm; 0 is none
    ema: Fraction = 0.0  # decay of the averaged weights; 0 is none
    # One answer, an answer at each time asked for, or step by step.
    task: Literal["steady", "time", "rollout"] = "steady"
    time_steps: PositiveInt = 1  # of the fields' channels, for tasks "time" and "rollout"
    unrolled: PositiveInt | None = None  # frames a step trains on, from a random start; all of a rollout unless said
    sampling: Literal["density", "rows"] = "rows"  # density: as prediction draws points; rows: any rows alike
    points: PositiveInt | None = None  # around the body by density, or rows, a step and case; all unless said
    skin_points: PositiveInt | None = None  # on the skin by area; as many as the case has unless said
    loss: Literal["relative", "mean_square"] = "relative"  # norm of the error over that of the truth, or its square
    surface_weight: NonNegativeFloat = 1.0  # of the skin's loss beside the surroundings'
    small_faces: Fraction = 0.0  # skin points count by their face's area to minus this
    gradient_weight: NonNegativeFloat = 0.0  # of the error of central differences, structured meshes
    coefficient_weight: NonNegativeFloat = 0.3  # of the head's error
    mirror: bool = False  # half of the 2D cases upside down, at the opposite angle
    shard_points: bool | PositiveInt = False  # processes share the points of each case: all, or teams of so many
    validate_every: PositiveInt | None = None  # steps; twenty times a run unless said
    checkpoint_seconds: NonNegativeFloat = 60.0  # between two checkpoints to go on from

    @validator(mode="after")
    def _one_length(self) -> Self:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("give either epochs or steps")
        if self.skin_points and self.sampling == "rows":
            raise ValueError('skin_points needs sampling = "density"')
        return self


ModelOptions = TypeVar("ModelOptions", bound=Options, default=Any)


class Recipe(Table, Generic[ModelOptions]):
    name: str
    data: Data
    model: ModelOptions  # of the kind it names; for a Transolver the options are in model/architecture.py
    training: Training
    card: dict[str, str] = Field({})  # what people should know of the model: what it is, its limits
    paper: dict[str, float] = Field({})  # the paper's figures for this task, by the names `evaluate` gives them

    @validator(mode="after")
    def _told_apart(self) -> Self:
        # A run that starts from a model of several data sets has its inputs, and its own cases count as of the first.
        if "source" in self.data.inputs and not self.data.beside and not self.training.start:
            raise ValueError('the input "source" tells data sets apart: name others in data.beside')
        return self

    def toml(self) -> str:
        """The recipe as a TOML text that `read_recipe` reads back to the same recipe."""
        tables = json.loads(self.model_dump_json())
        lines = [f"name = {json.dumps(tables.pop('name'))}"]
        for table, entries in tables.items():
            lines += ["", f"[{table}]"] if entries else []
            lines += [f"{key} = {_toml_value(value)}" for key, value in entries.items() if value is not None]
        return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    """Plain values are written in TOML as in JSON; tables are not."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml_value(entry)}" for key, entry in value.items()) + " }"
    return json.dumps(value)


def read_recipe(path: str | Path, overrides: Sequence[str] = (), start: str | None = None) -> Recipe:
    """Read a recipe, override some of its keys (`section.key=value`), and check it; data paths become absolute.

    A recipe with a model to start from takes over what it does not say itself: architecture, inputs, fields, scaling
    and sampling of that model, and a training that suits.
    """
    path = Path(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        folder = path.parent if path.parent.is_dir() else Path()
        near = difflib.get_close_matches(path.name, [p.name for p in folder.glob("*.toml")], n=1, cutoff=0.4)
        remedy = f"did you mean {folder / near[0]}?" if near else "give the path of a recipe, such as recipes/NAME.toml"
        raise InputError("no such recipe", seen=path, remedy=remedy) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, IsADirectoryError) as error:
        raise InputError(f"not a TOML file ({error})", seen=path, remedy="see recipes/ for examples") from None
    for name, gone in GONE.items():
        said = document.get(name)
        if isinstance(said, dict):
            document[name] = {key: value for key, value in said.items() if key not in gone or value != gone[key]}
    for text in overrides:
        _override(document, text)
    if start is not None:
        _override(document, f"training.start={json.dumps(start)}")
    document.setdefault("name", path.stem)
    if isinstance(document.get("data"), dict) and isinstance(document["data"].get("path"), str):
        data = document["data"]
        data["path"] = str(find_dataset(path.parent, data["path"]))
        for key in ("beside", "foreign"):
            if isinstance(data.get(key), list):
                data[key] = [str(find_dataset(path.parent, str(other))) for other in data[key]]
    if isinstance(document.get("training"), dict) and (start := document["training"].get("start")):
        _take_over(document, str(start))
    model = document.setdefault("model", {})
    kind = model.setdefault("kind", "transolver") if isinstance(model, dict) else "transolver"
    table = Recipe[find_kind(str(kind)).Config]  # type: ignore[misc, valid-type]
    try:
        return table.model_validate_json(json.dumps(document, default=str))
    except ValidationError as error:
        raise explained(error, table, path.name) from None


def _take_over(document: dict[str, Any], start: str) -> None:
    """Fill in what a recipe leaves open from the model that it starts from; of its fields those that the data have."""
    path = find_model(start)
    header = read_header(path)
    if path.parent != models_folder():  # a path holds wherever the run goes on
        document["training"]["start"] = str((Path(start)).resolve())
    data, training = document.setdefault("data", {}), document["training"]
    manifest = Path(str(data.get("path", ""))) / "manifest.json"
    have = json.loads(manifest.read_text(encoding="utf-8")) if manifest.is_file() else {}
    answered = [output["name"] for output in header["outputs"]]
    fields = [name for name in answered if name in have.get("fields", {})] or answered
    keys = {"lift": "cl", "log_drag": "cd"}
    truths = [set(case["reference"]) for case in have.get("cases", {}).values()]
    known = [name for name in header["coefficients"] if all(keys[name] in truth for truth in truths)]
    taken = {"inputs": header["inputs"], "fields": fields, "coefficients": known, "scaling": header["scaling"]["kind"]}
    places = {output["name"]: output["where"] for output in header["outputs"]}
    for key, value in taken.items():
        data.setdefault(key, value)
    data.setdefault("where", {name: places[name] for name in data["fields"] if name in places})
    interface = {"inputs", "outputs", "dimensions", "time_input", "coefficients"}
    architecture = {key: value for key, value in header["architecture"].items() if key not in interface}
    document["model"] = architecture | document.get("model", {})
    sampling, said = header["sampling"], FINE_TUNING | {"task": header["task"], "time_steps": header["time_steps"]}
    said |= {"sampling": sampling["kind"], "points": sampling["around"], "skin_points": sampling["skin"]}
    if "epochs" in training:
        said.pop("steps")
    if training.get("sampling", sampling["kind"]) != sampling["kind"]:
        said = {key: value for key, value in said.items() if key not in ("points", "skin_points")}
    document["training"] = {key: value for key, value in said.items() if value is not None} | training


def _override(document: dict[str, Any], text: str) -> None:
    key, equals, value = text.partition("=")
    *tables, last = key.strip().split(".")
    if not equals or not last:
        raise InputError("--set takes section.key=value", seen=text, remedy="for example --set training.epochs=3")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()  # a bare word is a string
    for table in tables:
        document = document.setdefault(table, {})
        if not isinstance(document, dict):
            raise InputError("--set goes into a table", seen=key, remedy="for example --set training.epochs=3")
    if last in ("epochs", "steps"):  # one replaces the other
        document.pop("steps" if last == "epochs" else "epochs", None)
    # As in any command, a path is seen from where one stands.
    if tables == ["data"] and last in ("path", "beside", "foreign"):
        parsed = [_from_here(entry) for entry in parsed] if isinstance(parsed, list) else _from_here(parsed)
    document[last] = parsed


def _from_here(path: Any) -> Any:
    """The data set that a path names in the present folder; as it is where there is none."""
    here = Path(path) if isinstance(path, str) else None
    return path if here is None or not (here / "manifest.json").is_file() else str(here.resolve())
