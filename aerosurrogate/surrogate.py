"""Surrogate: a trained model with all that is needed to use it, in one file.

The file is safetensors: the weights, and a header with a JSON document that holds architecture, inputs and outputs with
units, scaling, training ranges, statistics for trust and intervals, versions and the model's card. Nothing is pickled.
"""

import difflib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import safetensors
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from aerosurrogate import __version__
from aerosurrogate.data.case import Array, field_spec
from aerosurrogate.data.sampling import Sampling
from aerosurrogate.data.scaling import Places, Scaling
from aerosurrogate.data.training_frame import TrainingFrame
from aerosurrogate.devices import choose_device
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.pattern import Pattern
from aerosurrogate.model import registry
from aerosurrogate.model.folding import laid_out
from aerosurrogate.model.interface import Grid, Model, States
from aerosurrogate.model.slices import slice_weights
from aerosurrogate.model.transolver import Transolver
from aerosurrogate.trust.familiarity import Statistics
from aerosurrogate.trust.intervals import Calibration
from aerosurrogate.writing import replacing

SCHEMA = 2
BESIDE = 4  # times as many points of the body as are asked beside them, of a model without states
CHUNK = 65536  # points at a time unless said: some hundred MB
_KEY = "aerosurrogate"


class Trained(TypedDict):
    """The run that a model comes from."""

    steps: int
    of: int  # as many as the run had; the best weights may be earlier ones
    seconds: int
    seed: int
    start: str  # the model it went on from; "" is none


class TrainedOn(TypedDict):
    """The cases that a model comes from."""

    set: str
    train: int
    beside: NotRequired[dict[str, int]]  # of other sets
    validation: int
    test: NotRequired[int]
    source: str


class Learned(TypedDict):
    """Which cases a model has learned from and which chose it: their check sums, by which any data set knows them."""

    train: list[int]
    validation: list[int]


# What people should know of a model: each entry from when it is known on, and whatever a recipe's [card] says. Not
# written as a class because of the one key with a blank.
Card = TypedDict(
    "Card",
    {
        "name": str,
        "about": str,
        "limits": str,
        "trained": Trained,
        "data": TrainedOn,
        "paper": dict[str, float],  # figures to compare with
        "validation": dict[str, float],  # figures by the names of `evaluate`
        "routes": dict[str, str],  # to cd and cl: head, integrated or both
        "shape alone": dict[str, str],  # what it costs to draw points for a shape, in words
        "recipe": str,
        "test": dict[str, float],
        "test_intervals": dict[str, list[float]],
        "intervals": dict[str, float],  # how often those of cd and cl hold
    },
    total=False,
)


class Output(TypedDict):
    """A field that a model answers."""

    name: str
    unit: str
    where: str
    channels: int


class Header(TypedDict):
    """The JSON document in a model's file."""

    schema: int
    architecture: dict[str, Any]  # kind, options and interface of the model
    inputs: list[str]
    outputs: list[Output]
    coefficients: list[str]
    scaling: dict[str, Any]
    sampling: dict[str, Any]
    task: str
    time_steps: int
    ranges: dict[str, list[float]]  # of conditions, over the training cases
    trust: Statistics | None
    calibration: NotRequired[Calibration | None]
    card: Card
    native: NotRequired[dict[str, Any] | None]  # the training frame
    learned: NotRequired[Learned | None]
    versions: dict[str, str]


@dataclass
class Surrogate:
    """A model that takes and gives numpy arrays in SI units, in the model's frame."""

    model: Model
    scaling: Scaling
    sampling: Sampling = field(default_factory=Sampling)
    task: str = "steady"
    time_steps: int = 1
    ranges: dict[str, list[float]] = field(default_factory=dict)  # of conditions, over the training cases
    trust: Statistics | None = None
    calibration: Calibration | None = None
    card: Card = field(default_factory=Card)
    training_frame: TrainingFrame | None = None  # where its bodies stand, and how their meshes' points lie
    learned: Learned | None = None

    @classmethod
    def load(cls, name_or_path: str | Path, device: str = "auto") -> "Surrogate":
        """From a checkpoint file, a run folder, or the name of a model that comes with the package."""
        path = find_model(name_or_path)
        document = read_header(path)
        model = registry.build(document["architecture"])
        weights = {name: value.float() for name, value in load_file(path).items()}
        try:
            model.load_state_dict(weights)
        except RuntimeError as error:
            raise InputError(f"weights do not fit the architecture ({error})", seen=path) from None
        model = model.to(choose_device(device)).eval()
        with torch.no_grad():  # trainings take the values alone
            for part in model.modules():
                if isinstance(part, torch.nn.Linear):
                    part.weight.data = laid_out(part.weight)
        return cls(
            model,
            Scaling.from_document(document["scaling"]),
            Sampling(**document["sampling"]),
            document["task"],
            document["time_steps"],
            document["ranges"],
            document["trust"],
            document.get("calibration"),
            document["card"],
            None if (frame := document.get("native")) is None else TrainingFrame.of(frame),
            document.get("learned"),
        )

    def save(self, path: str | Path, *, half: bool = False) -> None:
        """Write the file, whole or not at all; `half` stores the weights in float16."""
        dtype = torch.float16 if half else torch.float32
        weights = {k: v.detach().to("cpu", dtype).contiguous() for k, v in self.model.state_dict().items()}
        with replacing(path) as temporary:
            # save_file would hide the file from other users
            temporary.write_bytes(save(weights, {_KEY: json.dumps(self.document(), allow_nan=False)}))

    def document(self) -> Header:
        """The header, as plain values."""
        columns = self.scaling.columns()
        outputs: list[Output] = [
            {
                "name": name,
                "unit": field_spec(name).unit,
                "where": where,
                "channels": columns[name].stop - columns[name].start,
            }
            for name, where in zip(self.scaling.field_names, self.scaling.where, strict=True)
        ]
        return {
            "schema": SCHEMA,
            "architecture": self.model.document(),
            "inputs": list(self.scaling.input_names),
            "outputs": outputs,
            "coefficients": list(self.scaling.coefficient_names),
            "scaling": self.scaling.document(),
            "sampling": asdict(self.sampling),
            "task": self.task,
            "time_steps": self.time_steps,
            "ranges": self.ranges,
            "trust": self.trust,
            "calibration": self.calibration,
            "card": self.card,
            "native": None if self.training_frame is None else asdict(self.training_frame),
            "learned": self.learned,
            "versions": {"aerosurrogate": __version__, "torch": torch.__version__, "python": platform.python_version()},
        }

    @property
    def pattern(self) -> Pattern | None:
        """How the points of the training set's meshes lie; None where they are drawn by density, or it is not known."""
        return None if self.training_frame is None else self.training_frame.pattern

    @property
    def sees_meshes(self) -> bool:
        """Whether it was trained on the points of meshes, so that those for a shape alone are drawn as they lie."""
        return self.sampling.kind == "rows" and self.pattern is not None

    @property
    def dimensions(self) -> int:
        return self.scaling.dimensions

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def times(self) -> int:
        """How many times a field's channels hold, one after the other."""
        return 1 if self.task == "steady" else self.time_steps

    def has_states(self, grid: Grid = None) -> bool:
        """Whether the model makes states of points, from which others are decoded."""
        return self.task == "steady" and not self.model.without_states and grid is None

    @torch.inference_mode()
    def states(self, places: Places, chunk: int = CHUNK) -> States:
        """What the model makes of a body, from points drawn as `sampling` says; skin points among them.

        A model without states keeps the points themselves: others are then asked beside them.
        """
        inputs = self._inputs(places, chunk)
        if self.model.without_states:
            skin = self.answer(places)[1]
            return States((torch.cat(inputs, dim=1),), None, *(skin[2:4] if skin is not None else (None, None)))
        skin = torch.from_numpy(np.ascontiguousarray(places.surface)).to(self.device).split(chunk)
        if not places.surface.any():
            return self.model.states(inputs)
        return self.model.states([(part, s[None]) for part, s in zip(inputs, skin, strict=True)])

    @torch.inference_mode()
    def decode(self, states: States, places: Places, chunk: int = CHUNK) -> dict[str, Array]:
        """Fields in SI units at any points beside the body of the states; zero where a field is not defined."""
        if self.model.without_states:
            body = states.tokens[0]
            few = max(body.shape[1] // BESIDE, 1)  # so that the body's own points remain what the model looks at
            calls = (torch.cat([body, part], dim=1) for part in self._inputs(places, few))
            parts = [self.model(call)[0, body.shape[1] :].float().cpu().numpy() for call in calls]
        else:
            parts = [self.model.decode(part, states)[0].float().cpu().numpy() for part in self._inputs(places, chunk)]
        return self.scaling.fields(np.concatenate(parts), places.surface, places.conditions)

    @torch.inference_mode()
    def together(self, bodies: Sequence[Places], asked: Sequence[Places]) -> list[tuple[States, dict[str, Array]]]:
        """States of several bodies, and fields at places beside each of them, in one call of the model.

        The bodies have as many points each, those on the skin first, and as many of them.
        """
        on = int(bodies[0].surface.sum())
        inputs = torch.from_numpy(np.stack([self.scaling.inputs(places) for places in bodies])).to(self.device)
        skin = inputs.new_ones(len(bodies), on, dtype=torch.bool)
        parts: list[Tensor | tuple[Tensor, Tensor]] = [(inputs[:, :on], skin), inputs[:, on:]]
        states = self.model.states(parts if on else [inputs])
        rows = max(len(places.points) for places in asked)
        padded = np.zeros((len(asked), rows, inputs.shape[2]), np.float32)
        for row, places in zip(padded, asked, strict=True):
            row[: len(places.points)] = self.scaling.inputs(places)
        outputs = self.model.decode(torch.from_numpy(padded).to(self.device), states).float().cpu().numpy()
        return [
            (states.of(i), self.scaling.fields(outputs[i, : len(places.points)], places.surface, places.conditions))
            for i, places in enumerate(asked)
        ]

    @torch.inference_mode()
    def fields(self, places: Places, grid: Grid = None, chunk: int = CHUNK) -> dict[str, Array]:
        """Fields at the points whose states they are themselves: all points of a case, or of a structured mesh."""
        return self.answer(places, grid, chunk)[0]

    @torch.inference_mode()
    def answer(self, places: Places, grid: Grid = None, chunk: int = CHUNK) -> tuple[dict[str, Array], States | None]:
        """As `fields`, with what the skin gives; the latter is None for tasks in time, and where there is no skin.

        Models without states answer at all points in one call.
        """
        if self.has_states(grid):
            states = self.states(places, chunk)
            return self.decode(states, places, chunk), states
        inputs = torch.from_numpy(self.scaling.inputs(places))[None].to(self.device)
        skin = None
        if self.task == "steady" and places.surface.any():
            surface = torch.from_numpy(np.ascontiguousarray(places.surface))[None].to(self.device)
            outputs, coefficients, pooled = self.model(inputs, grid, skin=surface)
            skin = States((), None, pooled, coefficients)
        else:
            outputs = answer_all_times(self.model, inputs, grid, self.task, self.time_steps)
        return self.scaling.fields(outputs[0].float().cpu().numpy(), places.surface, places.conditions), skin

    @torch.inference_mode()
    def slice_weights(
        self, places: Places, layer: int | None = None, grid: Grid = None, states: States | None = None
    ) -> Array:
        """The weights (n, heads, slices) by which points belong to the slices of a layer, 1 the first; the last unless
        said. The points are the body, unless its states are given. Of several times it is the last that is asked for.
        """
        if not isinstance(self.model, Transolver):
            remedy = "give another --kind"
            raise InputError("only a Transolver has slices", seen=self.model.config.kind, remedy=remedy)
        layers = self.model.config.layers
        if layer is not None and not 1 <= layer <= layers:
            raise InputError("no such layer", seen=layer, remedy=f"the model has layers 1 to {layers}")
        inputs = torch.from_numpy(self.scaling.inputs(places))[None].to(self.device)
        time = inputs.new_ones(1) if self.task == "time" else None
        found = slice_weights(self.model, inputs, (layer or layers) - 1, states, grid, time)
        return found[0].float().cpu().numpy()

    def force_areas(self, states: States, silhouette: float) -> dict[str, float]:
        """The head's answer for a body of this silhouette, m2 (2D: chord x 1 m): `drag` and `lift` over dynamic
        pressure, m2; {} without a head."""
        if states.coefficients is None:
            return {}
        return self.scaling.force_areas(states.coefficients[0].float().cpu().numpy(), silhouette)

    @staticmethod
    def features(states: States) -> NDArray[np.float64] | None:
        """Mean features of the skin in the last layer, (c,): what trust compares."""
        return None if states.pooled is None else states.pooled[0].double().cpu().numpy()

    def _inputs(self, places: Places, chunk: int) -> list[Tensor]:
        count = len(places.points)
        return [
            torch.from_numpy(self.scaling.inputs(places.rows(i, min(i + chunk, count))))[None].to(self.device)
            for i in range(0, count, chunk)
        ]


def answer_all_times(
    model: Model, inputs: Tensor, grid: Grid, task: str, time_steps: int, mask: Tensor | None = None
) -> Tensor:
    """Outputs [B, N, time_steps * c], time by time, of a model that answers one time a call.

    Task "time": the time is an input. Task "rollout": the inputs end with the frames before, and each answer becomes
    the youngest of them; where there will be a backward pass, the frames are computed again in it, so that a long
    rollout keeps no more than one of them. Task "steady": one call.
    """
    if task == "steady":
        return model(inputs, grid, mask)
    if task == "time":
        moments = [moment(time, time_steps, inputs) for time in range(time_steps)]
        return torch.cat([model(inputs, grid, mask, time=time) for time in moments], dim=-1)
    answers = []
    fixed = model.interface.dimensions
    for _ in range(time_steps):
        if torch.is_grad_enabled() and time_steps > 1:
            answers.append(checkpoint(model, inputs, grid, mask, use_reentrant=False))
        else:
            answers.append(model(inputs, grid, mask))
        frames = inputs[..., fixed + answers[-1].shape[-1] :]
        inputs = torch.cat([inputs[..., :fixed], frames, answers[-1]], dim=-1)
    return torch.cat(answers, dim=-1)


def moment(time: int, time_steps: int, inputs: Tensor) -> Tensor:
    """The time [B] as a model sees it, from 0 to 1."""
    return inputs.new_full((len(inputs),), time / max(time_steps - 1, 1))


def models_folder() -> Path:
    """Where the models that come with the package lie."""
    return Path(str(resources.files("aerosurrogate.models")))


def shipped_models() -> dict[str, Path]:
    """The models that come with the package, by name."""
    return {path.stem: path for path in sorted(models_folder().glob("*.safetensors"))}


def find_model(name_or_path: str | Path) -> Path:
    """The file of a model: a checkpoint, a run folder's best (or last) one, or a shipped one by name."""
    path, shipped = Path(name_or_path), shipped_models()
    if path.is_file():
        return path
    if path.is_dir():
        for name in ("best.safetensors", "last.safetensors"):
            if (path / name).is_file():
                return path / name
        raise InputError("no checkpoint in this folder", seen=path, remedy="give the folder of a finished run")
    if str(name_or_path) in shipped:
        return shipped[str(name_or_path)]
    near = difflib.get_close_matches(str(name_or_path), shipped, n=1)
    choice = f"did you mean {near[0]}?" if near else f"shipped models: {', '.join(shipped) or 'none'}"
    raise InputError("no such model", seen=name_or_path, remedy=f"give a run folder, a checkpoint or a name; {choice}")


def read_header(path: Path) -> Header:
    """The JSON document of a model's file, without its weights."""
    try:
        with safetensors.safe_open(path, "numpy") as file:
            metadata: Mapping[str, str] = file.metadata() or {}
    except (safetensors.SafetensorError, OSError) as error:
        raise InputError(f"not a model file ({error})", seen=path, remedy="give a .safetensors file of a run") from None
    if _KEY not in metadata:
        raise InputError("this safetensors file holds no surrogate", seen=path, remedy="give a checkpoint of a run")
    document: Header = json.loads(metadata[_KEY])
    if document["schema"] != SCHEMA:
        raise InputError(
            f"model file has schema {document['schema']}, this version reads {SCHEMA}",
            seen=path,
            remedy="use the version it was written by, or train it again",
        )
    return document
