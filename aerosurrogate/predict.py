"""From a shape to the flow around it.

A body is put into the model's frame, points are drawn on and around it as in training, and the model makes its states
of them. Everything else is decoded from the states: the skin's own faces, the surroundings, a grid, a mesh of the
user's. The answer comes back in the file's axes and in SI units.
"""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate import console, query_cells
from aerosurrogate.body import Body, set_in_stream
from aerosurrogate.conditions import Conditions, StreamOptions
from aerosurrogate.data.case import field_spec
from aerosurrogate.data.scaling import Places, natural_unit
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import FlowFields, Region, Row, interval
from aerosurrogate.mesh.files import shape_files
from aerosurrogate.mesh.load import load
from aerosurrogate.mesh.orient import open_edges
from aerosurrogate.mesh.read import UNITS, read_surface, units_doubt
from aerosurrogate.mesh.surface import Surface, in_space
from aerosurrogate.mesh.write import write_mesh
from aerosurrogate.model_frame import in_place, known_stream, sample, skin_places, usual_stream, what_the_model_cannot
from aerosurrogate.parallel import each, refuse_all, threads_each, workers
from aerosurrogate.trust import familiarity, intervals

if TYPE_CHECKING:  # torch takes seconds to import, and files that hold a pressure do without
    from aerosurrogate.evaluate import Evaluation
    from aerosurrogate.model.interface import States
    from aerosurrogate.surrogate import Surrogate

MODELS = {2: "airfoil", 3: "car"}
STILL_ON_WALLS = ("U", "nut")
LIFT_SLOPE = 0.11  # a degree: of thin sections, where the search for an angle begins
LIFT_STEPS, LIFT_TOLERANCE, LIFT_ANGLE = 10, 1e-4, 25.0
CHUNK = 65536  # points at a time, at most
_BYTES = 64  # a point and channel take while they are worked on


@dataclass(frozen=True)
class Wanted:
    """Where fields are asked for, beside the skin."""

    surface_only: bool = False
    grid: tuple[int, ...] | None = None
    chunk: int | None = None  # points at a time

    @classmethod
    def parse(cls, surface_only: bool, grid: str | None, chunk: int | None) -> "Wanted":
        """From the options of the command; `grid` is a text such as 64x32x32."""
        if grid is None:
            return cls(surface_only, None, chunk)
        match = re.fullmatch(r"(\d+)x(\d+)(?:x(\d+))?", grid)
        shape = tuple(int(n) for n in match.groups() if n is not None) if match else ()
        if not shape or min(shape) < 1:
            raise InputError("a grid is given by its numbers of cells", seen=f"--grid {grid}", remedy="--grid 64x32x32")
        return cls(surface_only, shape, chunk)


SKIN = Wanted(surface_only=True)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A body in the model's frame, at the size and in the stream that the model knows, with its states."""

    body: Body
    conditions: Conditions  # as the user sees them
    surface: Surface  # in the model's frame, m
    stream: Conditions  # as the model sees them
    states: "States"
    chunk: int  # points at a time

    @property
    def scale(self) -> float:
        """Metres of the model's frame in a metre of the file's."""
        return self.stream.length / self.body.length

    def unit(self, name: str) -> float:
        """What a field as the model answers it is multiplied by, to be that of the user's stream."""
        return natural_unit(name, self.conditions) / natural_unit(name, self.stream)


class Predictor:
    """Predicts with one model, or with the shipped one that fits each shape; safe to share among threads."""

    def __init__(
        self, model: str | None = None, device: str = "auto", at_once: int = 1, threads: int | None = None
    ) -> None:
        self.model, self.device = model, device
        self.at_once, self.threads = at_once, threads  # shapes at a time, which share the memory; threads for each
        self._loaded: dict[str, Surrogate] = {}
        self._lock = threading.Lock()

    def surrogate(self, dimension: int) -> "Surrogate":
        """The model for shapes of that dimension, loaded when it is first asked for."""
        import torch

        from aerosurrogate.devices import choose_device, device_of_process
        from aerosurrogate.surrogate import Surrogate

        name = self.model or MODELS[dimension]
        with self._lock:
            if name not in self._loaded:
                if self.threads is not None:
                    torch.set_num_threads(self.threads)
                self._loaded[name] = Surrogate.load(name, str(device_of_process(choose_device(self.device))))
                self._loaded[name].model.at_once = self.at_once
        found = self._loaded[name]
        if found.dimensions != dimension:
            remedy = f"leave --model out, or give one for {dimension} dimensions"
            raise InputError(f"model {name} is for {found.dimensions} dimensions", seen=f"{dimension}D", remedy=remedy)
        if "p" not in found.scaling.field_names:
            answers = ", ".join(found.scaling.field_names)
            remedy = "predict the held-out cases of its data set: predict DATASET --split test --model MODEL --out DIR"
            raise InputError(f"model {name} knows no pressure on a body in a stream", seen=answers, remedy=remedy)
        return found

    def prepare(self, file: str, stream: StreamOptions, chunk: int | None = None) -> Prepared:
        """Read a shape, put it into the model's frame and make states of it."""
        return self.place(*self.in_stream(self.read(file, stream), stream), chunk)

    def read(self, file: str, stream: StreamOptions) -> Body:
        """A shape in its axes, over its ground; of the stream no more than that counts."""
        surface = read_surface(file, stream.units)
        if stream.units is None and (doubt := units_doubt(surface.length, surface.dimension)):
            raise InputError(f"{file}: {doubt}")
        if stream.symmetry is None and len(edges := open_edges(surface)):
            surface.notes.append(f"the surface is open along {len(edges)} edges; inside and outside by winding number")
        return set_in_stream(surface, stream, file)

    def in_stream(self, body: Body, stream: StreamOptions) -> tuple[Body, Conditions]:
        """The body, without the pieces it was made of, with notes on what is assumed of the stream; and the stream."""
        if body.dimension == 3 and stream.alpha:
            remedy = "leave --alpha out: a body in 3D is turned in its file, or by --flow and --up"
            raise InputError("the angle of attack is for airfoils", seen=f"--alpha {stream.alpha:g}", remedy=remedy)
        surrogate = self.surrogate(body.dimension)
        usual = usual_stream(surrogate, body)
        notes = list(body.notes)
        if stream.speed is None and stream.reynolds is None:
            notes.append(f"no speed given: {usual.speed:g} m/s, the middle of the model's training range")
        conditions = stream.conditions(body.length, usual)
        notes += what_the_model_cannot(surrogate, conditions)
        return replace(body, notes=tuple(notes), pieces=None), conditions  # many bodies live on, their pieces need not

    def place(self, body: Body, conditions: Conditions, chunk: int | None = None) -> Prepared:
        """Put a body into the model's frame and make states of it."""
        surrogate = self.surrogate(body.dimension)
        stream = self.seen_stream(body, conditions)
        surface = self.framed(body, stream.length)
        chunk = chunk or chunk_of(surrogate, self.at_once)
        states = surrogate.states(in_place(surrogate, sample(surface, stream, surrogate)), chunk)
        return Prepared(body, conditions, surface, stream, states, chunk)

    def seen_stream(self, body: Body, conditions: Conditions) -> Conditions:
        """The stream as the model sees it."""
        turned = replace(conditions, alpha=conditions.alpha + body.tilt)
        return known_stream(self.surrogate(body.dimension), turned)

    def framed(self, body: Body, length: float) -> Surface:
        """The surface in the model's frame, m, at a length that the model knows."""
        surface, d = body.in_model_frame(), body.dimension
        return surface if length == body.length else surface.transformed(np.eye(d), np.zeros(d), length / body.length)

    def predict(self, file: str, stream: StreamOptions, wanted: Wanted = SKIN) -> FlowFields:
        """The fields on a shape's skin, and around it as wanted."""
        return self.answer(self.prepare(file, stream, wanted.chunk), wanted)

    def at_lift(self, file: str, stream: StreamOptions, lift: float) -> FlowFields:
        """The fields on a section's skin at the angle of attack that gives a lift coefficient."""
        if stream.alpha is not None:
            remedy = "leave --alpha or --at-lift out"
            raise InputError(
                "the angle of attack follows from the lift", seen=f"--alpha {stream.alpha:g}", remedy=remedy
            )
        before, alpha, slope = None, 0.0, LIFT_SLOPE
        reached: list[tuple[float, float]] = []  # how far off, at which angle
        for _ in range(LIFT_STEPS):
            found = self.predict(file, replace(stream, alpha=alpha))
            if found.body.dimension == 3:
                raise InputError("--at-lift is for sections", seen=file, remedy="leave it out for bodies in 3D")
            off = lift - found.row()["cl"]
            reached.append((off, alpha))
            if abs(off) <= LIFT_TOLERANCE:
                said = f"angle of attack {alpha:.3f} degrees, solved for a lift coefficient of {lift:g}"
                return replace(found, body=replace(found.body, notes=(*found.body.notes, said)))
            if before is not None and before[0] != alpha:
                slope = (before[1] - off) / (alpha - before[0])
            if slope <= 0 or (before is not None and before[0] == alpha):
                break
            before, alpha = (alpha, off), float(np.clip(alpha + off / slope, -LIFT_ANGLE, LIFT_ANGLE))
        off, alpha = min(reached, key=lambda pair: abs(pair[0]))
        raise InputError(
            f"{file}: no angle of attack gives this lift",
            seen=f"--at-lift {lift:g}; nearest {lift - off:.4g} at {alpha:.3g} degrees",
            remedy="ask for less lift",
        )

    def answer(
        self, prepared: Prepared, wanted: Wanted = SKIN, decoded: dict[str, NDArray] | None = None
    ) -> FlowFields:
        """The fields on a body's skin, where they are not `decoded` already, and around it as wanted."""
        body, surrogate = prepared.body, self.surrogate(prepared.body.dimension)
        pattern = surrogate.pattern
        regions: list[query_cells.QueryCells] = []
        if not wanted.surface_only and (pattern is None or pattern.around):
            regions = query_cells.cells(prepared.surface, prepared.stream, wanted.grid, pattern)
        fields = FlowFields(
            body=body,
            conditions=prepared.conditions,
            skin=self.at(prepared, skin_places(prepared.surface, prepared.stream), decoded),
            around=tuple(
                Region(r.code, body.to_file(r.points / prepared.scale), r.cells, self.at(prepared, r.places))
                for r in regions
            ),
            direct=surrogate.force_areas(prepared.states, body.silhouette),
            route=surrogate.card.get("routes", {}),
            model=self.model or MODELS[body.dimension],
        )
        return judged(surrogate, prepared, fields)

    def on_mesh(self, prepared: Prepared, fields: FlowFields, mesh: Any, metres: float = 1.0) -> Any:
        """A copy of the user's mesh with the fields where its own arrays are: on points if only there, else on cells.

        `metres` is the mesh's unit of length. Points inside the body have no answer and get NaN.
        """
        at_points = len(mesh.point_data) > 0 and len(mesh.cell_data) == 0
        centres = np.asarray(mesh.points if at_points else mesh.cell_centers().points, dtype=float) * metres
        model_points = prepared.body.to_model(centres[:, : prepared.body.dimension]) * prepared.scale
        places, covered = query_cells.places_at(prepared.surface, prepared.stream, model_points)
        answered = mesh.copy()
        for name, values in fields.with_pressure_coefficient(self.at(prepared, places)).items():
            values = in_space(values) if values.ndim == 2 else values
            values[covered] = np.nan
            (answered.point_data if at_points else answered.cell_data)[name] = values
        fields.sign(answered)
        if covered.any():
            console.note(f"{covered.sum()} of {len(covered)} points lie inside {fields.body.name} and have no answer")
        return answered

    def at(self, prepared: Prepared, places: Places, decoded: dict[str, NDArray] | None = None) -> dict[str, NDArray]:
        """Fields at places of the model's frame, vectors turned to the file's axes; single channels as (n,)."""
        surrogate = self.surrogate(prepared.body.dimension)
        fields = decoded or surrogate.decode(prepared.states, in_place(surrogate, places), prepared.chunk)
        turned = {}
        for (name, values), where in zip(fields.items(), surrogate.scaling.where, strict=True):
            if where != "all" and not (places.surface == (where == "surface")).any():
                continue
            if name in STILL_ON_WALLS:
                values[places.surface] = 0.0
            if (unit := prepared.unit(name)) != 1.0:
                values = values * np.float32(unit)
            turn = field_spec(name).vector
            turned[name] = prepared.body.turn_to_file(values).astype(np.float32) if turn else values[:, 0]
        return turned


@dataclass
class Predictions:
    """What a call of `predict` wrote, by file, and which files failed."""

    rows: dict[str, Row]  # by geometry
    written: dict[str, Path]
    failed: dict[str, str]

    def document(self) -> dict[str, Any]:
        designs = [{**row, "rank": None, "out": str(self.written[file])} for file, row in self.rows.items()]
        return {"designs": designs, "failed": self.failed}

    def show(self) -> None:
        for file, row in self.rows.items():
            for text in (*row["notes"], *(f"{row['trust']} the training set: {why}" for why in row["reasons"][:3])):
                console.note(f"{row['name']}: {text}")
            console.note(
                f"{row['name']}: Cd {interval(row, 'cd')} (integrated {row['cd_integrated']:.4f}), "
                f"Cl {interval(row, 'cl')} (integrated {row['cl_integrated']:.4f}) at {row['speed']:g} m/s, "
                f"area {row['area_m2']:.4g} m2 "
                f"({row['area']}), density {row['density']:g} kg/m3, model {row['model']}, "
                f"trust {row['trust'] or 'unknown'}; fields in {self.written[file]}"
            )
        console.left_out(self.failed)


def predict_cases(
    datasets: Sequence[str], out: Path, model: str | None, split: str | None = None, device: str = "auto"
) -> "Evaluation":
    """Predict the cases of a split [test] of a data set; each goes into `out` with its truth and the error."""
    from aerosurrogate.data.store import Dataset
    from aerosurrogate.evaluate import evaluate
    from aerosurrogate.surrogate import Surrogate

    if len(datasets) > 1:
        raise InputError("one data set at a time", seen=", ".join(datasets), remedy="predict them into two folders")
    if model is None:
        remedy = "give --model, a run folder or a checkpoint that was trained on such data"
        raise InputError("which model should answer for a data set?", seen=datasets[0], remedy=remedy)
    cases, surrogate = Dataset(datasets[0]), Surrogate.load(model, device)
    return evaluate(surrogate, cases, cases.names(split or "test"), "predict", keep=lambda a: a.by(model).save(out))


def is_dataset(path: str) -> bool:
    return (Path(path) / "manifest.json").is_file()


def predict(
    geometries: Sequence[str],
    out: Path,
    stream: StreamOptions,
    wanted: Wanted = Wanted(),
    *,
    points: Path | None = None,
    model: str | None = None,
    device: str = "auto",
) -> Predictions:
    """Predict each shape and write its fields: to `out` if there is one shape, else into the folder `out`."""
    asked = {"--points": points is not None, "--grid": wanted.grid is not None, "--surface-only": wanted.surface_only}
    said = [option for option, given in asked.items() if given]
    if len(said) > 1:
        raise InputError("these say different places for the answer", seen=" ".join(said), remedy="give one of them")
    if wanted.grid is not None and out.suffix.lower() == ".vtp":
        remedy = f"--out {out.with_suffix('.vtu')}, or leave --grid out"
        raise InputError("a .vtp holds the skin alone", seen=f"--grid with --out {out}", remedy=remedy)
    geometries = shape_files(geometries)
    places = _outputs(geometries, out)
    if model is not None:
        from aerosurrogate.surrogate import find_model

        find_model(model)
    at_once = workers(geometries, None)
    predictor = Predictor(model, device, at_once, threads_each(at_once))
    mesh = None if points is None else load(points)

    def work(file: str) -> Row:
        if mesh is None:
            fields = predictor.predict(file, stream, wanted)
            fields.save(places[file])
        else:
            prepared = predictor.prepare(file, stream, chunk=wanted.chunk)
            fields = predictor.answer(prepared)
            write_mesh(predictor.on_mesh(prepared, fields, mesh, UNITS[stream.units or "m"]), places[file])
        return fields.row()

    rows, failed = each(geometries, work, "designs")
    if not rows:
        refuse_all(failed)
    return Predictions(rows, {file: places[file] for file in rows}, failed)


def _outputs(files: Sequence[str], out: Path) -> dict[str, Path]:
    """The file that each shape's fields go to."""
    if out.suffix.lower() in (".vtu", ".vtp"):
        if len(files) > 1:
            remedy = f"give a folder, for example --out {out.with_suffix('')}"
            raise InputError(f"{len(files)} shapes do not fit one file", seen=f"--out {out}", remedy=remedy)
        return {files[0]: out}
    if out.suffix and not out.is_dir():
        raise InputError(
            "fields are written as .vtu, the skin alone as .vtp",
            seen=f"--out {out}",
            remedy=f"--out {out.with_suffix('.vtu')}",
        )
    named: dict[str, Path] = {}
    for file in files:
        path = out / f"{_plain_name(file)}.vtu"
        if path in named.values():
            raise InputError("two shapes have one name", seen=path.stem, remedy="predict them into two folders")
        named[file] = path
    return named


def _plain_name(file: str) -> str:
    return Path(file).stem if Path(file).exists() else re.sub(r"[^\w.-]+", "_", file)


def judged(surrogate: "Surrogate", prepared: Prepared, fields: FlowFields) -> FlowFields:
    """The fields with how far they can be trusted; as they are where the model does not know its training set."""
    if surrogate.trust is None or surrogate.features(prepared.states) is None:
        return fields
    shown = evidence(surrogate, prepared, fields)
    verdict = familiarity.judge(surrogate.trust, shown)
    if surrogate.calibration is None:
        return fields.judged(verdict)
    return fields.judged(verdict, intervals.uncertainty(surrogate.calibration, surrogate.trust, shown, verdict.score))


def evidence(surrogate: "Surrogate", prepared: Prepared, fields: FlowFields) -> familiarity.Evidence:
    """What a design shows of itself."""
    features = surrogate.features(prepared.states)
    assert features is not None
    surface, area = prepared.surface, fields.body.silhouette
    # Corners count for the extents, faces for the areas.
    corners = np.zeros_like(surface.points)
    row = fields.row()
    return familiarity.evidence(
        features,
        prepared.conditions.reynolds,
        prepared.stream,
        np.concatenate([surface.centres, surface.points]),
        np.concatenate([surface.normals, corners]),
        np.concatenate([surface.areas, corners[:, 0]]),
        {f"c{name[0]}": value / area for name, value in fields.direct.items()},
        {"cd": row["cd_integrated"], "cl": row["cl_integrated"]},
    )


def chunk_of(surrogate: "Surrogate", at_once: int = 1) -> int:
    """Points at a time that, in all of the shapes worked on at once, fit a quarter of the memory that is free."""
    from aerosurrogate.devices import free_memory

    fits = free_memory(surrogate.device) / (4 * at_once * _BYTES * surrogate.model.channels)
    return int(min(max(fits, 1024), CHUNK))
