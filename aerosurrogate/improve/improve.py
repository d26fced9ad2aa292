"""From a shape to a better one: its skin moves smoothly down the gradient of the model's head, within limits.

How it gets there is in descent.py, what moves and what is kept in deform.py. What was won is asked again at points that
no step has seen, and the chance that the gain is real comes from the joint distribution of the model's errors over both
shapes (chances.py). A shape that was found by following a model has the model's errors on its side, more than any other
shape: `--verify` solves both.
"""

import html
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aerosurrogate import console
from aerosurrogate.body import Body
from aerosurrogate.coeffs import CoeffsOptions, Ranking, percent
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.decision.chances import Joint
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import FlowFields, column, interval
from aerosurrogate.improve.deform import FAR
from aerosurrogate.improve.descent import TRUST, Descent, Limits, Step, score_of
from aerosurrogate.improve.verify import Solved, solve_bodies, solve_sections
from aerosurrogate.mesh.coordinates import SUFFIXES, write_section
from aerosurrogate.mesh.read import UNITS, read_surface
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.mesh.write import WRITABLE, write_mesh
from aerosurrogate.predict import Predictor
from aerosurrogate.sensitivity import require_closed, require_head

if TYPE_CHECKING:
    from aerosurrogate.viz.source import Source

Floats = NDArray[np.float64]
KEPT = {2: ("volume", "thickness"), 3: ("volume", "length", "wheels", "area")}
OF = {2: ("cd", "cl/cd"), 3: ("cd", "cl")}
MOST, LARGEST = 0.03, 0.2  # lengths: unless said, and at all


@dataclass
class Improvement:
    """A shape before and after, how it came about and how sure the gain is."""

    of: str
    ranking: Ranking  # of both; the start is the baseline
    chance: float | None  # that the coefficient is truly better
    steps: list[Step] = field(default_factory=list)
    ended: str = ""  # why there is no further step
    kept: dict[str, tuple[float, float]] = field(default_factory=dict)  # before, after
    surfaces: tuple[Surface, ...] = ()  # both in the file's axes, m
    solved: Solved | str | None = None  # by OpenFOAM, or why not
    written: list[Path] = field(default_factory=list)

    @property
    def flows(self) -> tuple[FlowFields, FlowFields]:
        first, last = self.ranking.designs.values()
        return first, last

    @property
    def values(self) -> tuple[float, float]:
        """The coefficient before and after."""
        rows = {row["file"]: row for row in self.ranking.rows}
        first, last = (column(rows[file], "ld" if self.of == "cl/cd" else self.of) for file in self.ranking.designs)
        return float(first), float(last)

    def document(self) -> dict[str, Any]:
        before, after = self.values
        solved = asdict(self.solved) | {"gain": self.solved.gain} if isinstance(self.solved, Solved) else self.solved
        return {
            "of": self.of, "before": before, "after": after, "chance_better": self.chance,
            "kept": {name: list(pair) for name, pair in self.kept.items()}, "ended": self.ended,
            "steps": [asdict(step) for step in self.steps], "verified": solved,
            "written": [str(path) for path in self.written], **self.ranking.document(),
        }  # fmt: skip

    def lines(self) -> list[str]:
        """What was found, in words."""
        before, after = self.values
        rows = {row["file"]: row for row in self.ranking.rows}
        first, last = (rows[flow.body.file] for flow in self.flows)
        flat = self.flows[0].body.dimension == 2
        digits = 4 if abs(before) > 0.1 else 6
        lines = [
            f"{self.of} {before:.{digits}f} -> {after:.{digits}f} ({_change(before, after)}), "
            f"steps {len(self.steps)}, the skin moved by {self.steps[-1].moved * 1000:.0f} mm at most",
            f"the chance that it is truly better: {percent(self.chance)}",
            f"Cd {interval(first, 'cd')} -> {interval(last, 'cd')}, Cl {first['cl']:.4f} -> {last['cl']:.4f}, "
            + (f"angle {first['alpha']:.3f} -> {last['alpha']:.3f} degrees, " if flat else "")
            + f"trust {first['trust'] or 'unknown'} -> {last['trust'] or 'unknown'}",
            "kept: " + (", ".join(f"{name} {a:.5g} -> {b:.5g}" for name, (a, b) in self.kept.items()) or "nothing"),
            f"ended: {self.ended}",
        ]
        if isinstance(self.solved, Solved):
            a, b = self.solved.before, self.solved.after
            lines.append(
                f"solved by OpenFOAM, {'at one lift' if flat else 'on one mesh'}: "
                f"Cd {a['cd']:.{digits}f} -> {b['cd']:.{digits}f} ({self.solved.gain:+.1%}), "
                f"Cl {a['cl']:.4f} -> {b['cl']:.4f}"
            )
        elif self.solved:
            lines.append(f"not verified: {self.solved}")
        return lines

    def show(self) -> None:
        for line in self.lines():
            console.note(line)
        console.note(f"in {', '.join(map(str, self.written))}")


def _change(before: float, after: float) -> str:
    return f"{after / before - 1:+.1%}" if before > 0 else f"{after - before:+.4f}"


def improve(
    file: str,
    out: Path,
    stream: StreamOptions,
    *,
    of: str = "cd",
    keep: str | None = None,
    box: str | None = None,
    most: float = MOST,
    at_lift: float | None = None,
    verify: bool = False,
    model: str | None = None,
    device: str = "auto",
) -> Improvement:
    """Move a shape's skin so that a coefficient falls (cl/cd: rises), by `most` of its length at most.

    Writes the shape to `out`, the steps into a folder beside it and a page with before and after. `keep` names what
    stays (see KEPT), `box` the part that may move ("x0:x1,y0:y1,z0:z1" in the file's units), `at_lift` the lift that
    sections are compared at.
    """
    if verify:
        from aerosurrogate.simulate import openfoam

        openfoam.environment()
    predictor = Predictor(model, device)
    body = predictor.read(file, stream)
    _require(file, out, stream, of, most, body.dimension)
    require_head(predictor.surrogate(body.dimension), "cl/cd" if body.dimension == 2 else of)
    surface = replace(read_surface(file, stream.units), point_data={}, cell_data={})
    limits = Limits(_kept(keep, body.dimension), most * body.length, _box(box, body, UNITS[stream.units or "m"]))
    conditions = predictor.in_stream(body, stream)[1]
    stream = replace(stream, speed=conditions.speed, reynolds=None)  # which stays, should the length change
    alpha, lift = _angle_and_lift(file, stream, body.dimension, of, at_lift, predictor)
    descent = Descent(surface, body, stream, of, limits, predictor)
    result = _improved(descent, out, alpha, lift)
    if verify:
        first, last = result.flows
        result.solved = (
            solve_sections(result.surfaces, (first.conditions, last.conditions))
            if body.dimension == 2
            else solve_bodies(body, result.surfaces, stream)
        )
    _write_page(result, out.with_suffix(".html"))
    return result


def _require(file: str, out: Path, stream: StreamOptions, of: str, most: float, dimension: int) -> None:
    require_closed(file, stream)
    if of not in OF[dimension]:
        what = "sections are improved, at their lift," if dimension == 2 else "bodies are improved"
        raise InputError(f"{what} in {' or '.join(OF[dimension])}", seen=f"--of {of}", remedy="--of cd")
    if not 0 < most <= LARGEST:
        raise InputError("the skin moves by a part of the length", seen=f"--most {most:g}", remedy="--most 0.03")
    endings = SUFFIXES if dimension == 2 else WRITABLE
    if out.suffix.lower() not in endings:
        raise InputError("unknown format to write", seen=f"--out {out}", remedy=f"end it with {', '.join(endings)}")
    if out.absolute() == Path(file).absolute():
        raise InputError("the better shape would take the place of the first", seen=f"--out {out}")


def _kept(said: str | None, dimension: int) -> tuple[str, ...]:
    """What is kept: all there is, unless said."""
    if said is None:
        return KEPT[dimension]
    words = tuple(word.strip() for word in said.split(",") if word.strip() not in ("", "none"))
    if unknown := [word for word in words if word not in KEPT[dimension]]:
        kind = "section" if dimension == 2 else "body"
        remedy = f"--keep with some of {','.join(KEPT[dimension])}, or none"
        raise InputError(f"of a {kind} that cannot be kept", seen=", ".join(unknown), remedy=remedy)
    return words


def _box(said: str | None, body: Body, metres: float) -> Floats:
    """The part that may move as corners (2, d) in the model's frame, m; `metres` is the file's unit."""
    limits = np.array([[-np.inf] * body.dimension, [np.inf] * body.dimension])
    if said is None:
        return limits
    if body.dimension == 2:
        raise InputError("a box is for bodies: modes move a whole section", seen=f"--box {said}", remedy="leave it out")
    remedy = "--box x0:x1,y0:y1,z0:z1 in the file's units; an end left out is open: --box 1.2:,:,:"
    sides = [side.split(":") for side in said.split(",")]
    if len(sides) != 3 or any(len(side) != 2 for side in sides):
        raise InputError("a box has three sides", seen=f"--box {said}", remedy=remedy)
    for axis, ends in enumerate(sides):
        for row, end in enumerate(ends):
            try:
                limits[row, axis] = float(end) * metres if end.strip() else limits[row, axis]
            except ValueError:
                raise InputError("a box is given by numbers", seen=f"--box {said}", remedy=remedy) from None
    if np.any(limits[0] >= limits[1]):
        raise InputError("a box ends behind its beginning", seen=f"--box {said}", remedy=remedy)
    corners = body.to_model(limits.clip(-10 * FAR, 10 * FAR))  # infinities do not turn
    return np.stack([corners.min(axis=0), corners.max(axis=0)])


def _angle_and_lift(
    file: str, stream: StreamOptions, dimension: int, of: str, at_lift: float | None, predictor: Predictor
) -> tuple[float | None, float | None]:
    """Of a section: the angle of attack to begin with, and the lift it is to keep if there is one."""
    if dimension == 3:
        if at_lift is not None:
            raise InputError("--at-lift is for sections", seen=file, remedy="leave it out for bodies in 3D")
        return None, None
    if at_lift is not None and of != "cd":
        raise InputError("at one lift, less drag is what there is to gain", seen=f"--of {of}", remedy="--of cd")
    flow = predictor.predict(file, stream) if at_lift is None else predictor.at_lift(file, stream, at_lift)
    return flow.conditions.alpha, at_lift


def _improved(descent: Descent, out: Path, alpha: float | None, lift: float | None) -> Improvement:
    """Go down, ask both ends again at fresh points, and write the shapes."""
    first = descent.settled(np.zeros(descent.deformation.count), alpha, lift)
    lift = first.row()["cl"] if descent.flat and descent.of == "cd" else None
    steps, states, ended = descent.run(first.conditions.alpha if descent.flat else None, lift or 0.0)
    while steps:
        state = states[-1]
        last = descent.settled(state.q, state.angle(state.q), lift)
        last = replace(last, body=replace(last.body, name=out.stem, file=str(out)))
        found = _compared(descent, first, last)
        before, after = found.values
        better = after > before if descent.of == "cl/cd" else after < before
        if better and (score_of(last) or 0.0) <= descent.edge(score_of(first)):
            break
        ended = "what a further step won is not there at other points" if not better else TRUST
        del steps[-1], states[-1]
    else:
        remedy = "allow more: a larger --most or --box, less to --keep"
        raise InputError(f"nothing gained in {descent.of} ({ended})", seen=descent.body.file, remedy=remedy)
    result = replace(
        found,
        steps=steps,
        ended=ended,
        kept=descent.held(state.q),
        surfaces=(descent.surface, descent.moved(state.q)),
    )
    unit = UNITS[descent.stream.units or "m"]
    folder = out.with_name(f"{out.stem}_steps")
    for step, state in zip(steps, states, strict=True):
        _write_shape(descent.moved(state.q), folder / f"step_{step.number:02d}{out.suffix}", unit)
    _write_shape(result.surfaces[1], out, unit)
    result.written = [out, folder]
    return result


def _compared(descent: Descent, first: FlowFields, last: FlowFields) -> Improvement:
    """Both shapes over the frontal area of the first."""
    settings = CoeffsOptions(descent.stream, area="silhouette" if descent.flat else repr(descent.body.silhouette))
    ranking = Ranking([], {flow.body.file: flow for flow in (first, last)}, {}, {}, baseline=first.body.file)
    ranking.decide(settings, {"cd": "cd", "cl": "cl", "cl/cd": "-ld"}[descent.of], {})
    return Improvement(descent.of, ranking, _chance(ranking, descent.of))


def _chance(ranking: Ranking, of: str) -> float | None:
    """That the second design is truly better than the first."""
    rows = {row["file"]: row for row in ranking.rows}
    ordered = [rows[file] for file in ranking.designs]
    flows = list(ranking.designs.values())
    if any(flow.uncertainty is None for flow in flows):
        return None
    joints = {key: Joint.over(ordered, flows, key) for key in ("cd", "cl")}
    if of != "cl/cd":
        return float(joints[of].below()[1, 0])
    # Nothing is known of how errors of lift and drag go together: the draws of one are taken in reverse.
    ratio = joints["cl"].draws()[::-1] / np.exp(joints["cd"].draws())
    return float(np.mean(ratio[:, 1] > ratio[:, 0]))


def _write_shape(surface: Surface, path: Path, metres: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    surface = replace(surface, points=surface.points / metres)
    if surface.dimension == 2:
        write_section(surface.points, path, path.stem)
    else:
        write_mesh(surface, path)


def _write_page(result: Improvement, path: Path) -> None:
    from aerosurrogate.report.page import write_report
    from aerosurrogate.viz.page import embedded, field_figures

    said = "".join(f"<li>{html.escape(line)}</li>" for line in result.lines())
    moved = "".join(embedded(figure, library=False) for figure in field_figures(_movement(result.flows[1])))
    head = f"<tr><th>step</th><th>{result.of}</th><th>moved, mm</th><th>trust score</th></tr>"
    rows = "".join(
        f"<tr><td>{s.number}</td><td>{s.value:.4f}</td><td>{1000 * s.moved:.1f}</td>"
        f"<td>{'-' if s.trust is None else f'{s.trust:.2f}'}</td></tr>"
        for s in result.steps
    )
    steps = f"<details><summary>Steps</summary><table style='width: auto'>{head}{rows}</table></details>"
    opening = (
        f"<h2>Before and after</h2><ul>{said}</ul>{steps}<h2>Where the skin moved</h2>{moved}<h2>Both designs</h2>"
    )
    write_report(result.ranking, path, opening=opening)
    result.written.append(path)


def _movement(flow: FlowFields) -> "Source":
    """How far the better shape's skin has moved outward."""
    from aerosurrogate.viz.source import Source

    surface = flow.body.surface
    outward = np.sum((surface.points - surface.point_data["start"]) * surface.point_normals, axis=1)
    by_face = 1000 * outward[surface.cells].mean(axis=1)
    return Source(flow.body.name, surface, flow.body.wind_axes(flow.conditions), "moved outward", "mm", by_face)
