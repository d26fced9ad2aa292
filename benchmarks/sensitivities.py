"""Where to push, held against the model itself and against RANS of bumped shapes.

    python benchmarks/sensitivities.py [--only model|solve]   # solving: half an hour of one core; needs OpenFOAM

Two questions. Is the map the derivative of the model? Finite differences of the model on smooth bumps say so. And is
it that of the flow? Bumps are put on a car and on two sections, outward and inward, and solved on the mesh of the shape
without a bump. What was solved stays in benchmarks/results/sensitivities.json, and serves any model.

Writes benchmarks/results/sensitivities.json and .md.
"""

import argparse
import hashlib
import json
import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

from aerosurrogate.body import set_in_stream
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.mesh.airfoil import naca
from aerosurrogate.mesh.coordinates import write_section
from aerosurrogate.mesh.read import curve_surface, read_surface
from aerosurrogate.mesh.surface import Floats, Surface
from aerosurrogate.predict import Predictor, Prepared
from aerosurrogate.sensitivity import Response, Sensitivity, evened, sensitivity, smoothed
from aerosurrogate.simulate import airfoils, cars
from aerosurrogate.simulate.car_case import MESHES
from aerosurrogate.simulate.driver import own_design
from aerosurrogate.simulate.openfoam import SolverError
from aerosurrogate.surrogate import Surrogate, find_model
from aerosurrogate.writing import write_json, write_text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CAR = str(ROOT / "sample_meshes" / "car.stl")
CAR_STREAM = StreamOptions(speed=30.0)
SECTIONS = {"naca2412": StreamOptions(alpha=4.0, reynolds=3e6), "naca23015": StreamOptions(alpha=2.0, reynolds=5e6)}
# Where bumps are: of a car in parts of its bounding box, of a section x/c on either side.
PLACES = {
    "bonnet, front edge": (0.05, 0.5, 0.56),
    "rear window, upper edge": (0.66, 0.5, 0.95),
    "flanks behind the rear wheels": (0.94, 1.0, 0.55),
    "floor, rear edge": (0.96, 0.5, 0.15),
}
UPPER, LOWER = (0.08, 0.25, 0.45, 0.65, 0.85), (0.1, 0.35, 0.6, 0.85)
WIDTH = {2: 0.09, 3: 0.06}  # of a bump, one standard deviation in lengths
HEIGHT = {2: 0.005, 3: 0.01}  # lengths
CHECKED = 24  # bumps at random places that the model itself is asked about
BROAD = 0.083  # lengths, their width
STEP = 5e-4  # lengths
NOISE = {"section": 1e-6, "car": 0.001}  # of coefficients: what the solver's iterations leave open


class Bump:
    """A bell on the skin, and its mirror image on a body; only skin that faces as its middle does moves."""

    def __init__(self, surface: Surface, face: int, width: float) -> None:
        self.middle, self.normal = surface.centres[face], surface.normals[face]
        self.width = width * float(np.ptp(surface.points[:, 0]))

    def heights(self, surface: Surface) -> Floats:
        """(n,) how far the corners of a surface in the same frame move outward, 1 at the most."""
        flips = [np.ones(surface.dimension)] + [np.array([1.0, -1.0, 1.0])] * (surface.dimension == 3)
        found = np.zeros(len(surface.points))
        for flip in flips:
            away = np.linalg.norm(surface.points - self.middle * flip, axis=1)
            facing = np.maximum(surface.point_normals @ (self.normal * flip), 0.0)
            found = np.maximum(found, np.exp(-0.5 * (away / self.width) ** 2) * facing)
        return found

    def on(self, surface: Surface, height: float) -> Surface:
        return replace(surface, points=surface.points + height * self.heights(surface)[:, None] * surface.point_normals)


def nearest_face(surface: Surface, point: Floats) -> int:
    return int(np.argmin(np.linalg.norm(surface.centres - point, axis=1)))


# --- solved ------------------------------------------------------------------------------------------------------


def car_surface() -> Surface:
    """The sample car's closed pieces in the car's frame."""
    surface = read_surface(CAR)
    body = set_in_stream(surface, CAR_STREAM, CAR)
    return surface.transformed(body.rotation, -body.rotation @ body.origin)


def car_bumps() -> dict[str, Bump]:
    surface = car_surface()
    low, high = surface.bounds
    return {
        name: Bump(surface, nearest_face(surface, low + np.array(place) * (high - low)), WIDTH[3])
        for name, place in PLACES.items()
    }


def section_bumps(name: str) -> dict[str, Bump]:
    surface = curve_surface(naca(name, airfoils.CURVE_POINTS), name)
    found = {}
    for side, places in (("upper", UPPER), ("lower", LOWER)):
        faces = np.flatnonzero((surface.normals[:, 1] > 0) == (side == "upper"))
        for x in places:
            face = faces[np.argmin(np.abs(surface.centres[faces, 0] - x))]
            found[f"{side}, x/c {x:g}"] = Bump(surface, int(face), WIDTH[2])
    return found


def solve_car(surface: Surface, frame: Surface) -> dict[str, float]:
    design = replace(own_design(CAR, CAR_STREAM), name="car")
    with tempfile.TemporaryDirectory() as folder:
        solution = cars.solve_body(design, surface, Path(folder), MESHES["standard"], frame=frame)
    return solution.case.reference if solution.converged else {}


def solve_section(curve: Floats, stream: StreamOptions) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "section.dat"
        write_section(curve, file, "section")
        design = own_design(str(file), stream)
        solution = airfoils.solve(design, Path(folder), "standard", cautious=False)
    return solution.case.reference if solution.converged else {}


def kept(record: Path) -> dict[str, dict[str, dict[str, float]]]:
    """What was solved before of these bumps and by this method."""
    document = json.loads(record.read_text()) if record.exists() else {}
    return {s: found["solved"] for s, found in document.items() if {**found, "solved": {}} == {**how(s), "solved": {}}}


def how(shape: str) -> dict[str, Any]:
    dimension = 3 if shape == "car" else 2
    method = cars.METHOD if shape == "car" else airfoils.METHOD
    return {"method": method, "height": HEIGHT[dimension], "width": WIDTH[dimension]}


def solved(record: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Coefficients by shape and by bump with its sign; {} where a run did not settle."""
    results = kept(record)

    def once(shape: str, name: str, run: Any) -> None:
        if name not in results.setdefault(shape, {}):
            try:
                results[shape][name] = run()
            except SolverError as error:
                print(shape, name, error)
                results[shape][name] = {}
            print(shape, name, results[shape][name], flush=True)
            write_json(record, {shape: how(shape) | {"solved": found} for shape, found in results.items()})

    for name, stream in SECTIONS.items():
        surface = curve_surface(naca(name, airfoils.CURVE_POINTS), name)
        once(name, "none", lambda s=surface, stream=stream: solve_section(s.points, stream))
        for bump_name, bump in section_bumps(name).items():
            for sign in (1, -1):
                moved = bump.on(surface, sign * HEIGHT[2])
                once(name, f"{bump_name} {sign:+d}", lambda m=moved, stream=stream: solve_section(m.points, stream))
    frame = car_surface()
    once("car", "none", lambda: solve_car(frame, frame))
    for bump_name, bump in car_bumps().items():
        for sign in (1, -1):
            moved = bump.on(frame, sign * HEIGHT[3] * float(np.ptp(frame.points[:, 0])))
            once("car", f"{bump_name} {sign:+d}", lambda m=moved: solve_car(m, frame))
    return results


# --- the model ---------------------------------------------------------------------------------------------------


def agreement(found: Floats, mapped: Floats) -> tuple[float, float]:
    """Correlation, and the slope of the map's values over those found."""
    return float(np.corrcoef(found, mapped)[0, 1]), float(mapped @ found / (found @ found))


def check_model(shape: str, stream: StreamOptions, of: str) -> dict[str, Any]:
    """The map against finite differences of the model at the same points, on bumps at random places; and the stream."""
    predictor = Predictor(device="cpu")
    prepared = predictor.prepare(shape, stream)
    surface, surrogate = prepared.surface, predictor.surrogate(prepared.body.dimension)
    response = Response(surrogate, prepared)
    slope = response.derivatives(of)[of]
    density = evened(surface, smoothed(surface, slope.corners))
    length = float(np.ptp(surface.points[:, 0]))
    faces = np.random.default_rng(5).choice(len(surface.cells), CHECKED, p=surface.areas / surface.areas.sum())
    found, mapped = [], []
    for face in faces:
        bump = Bump(surface, int(face), BROAD)
        ahead, back = (response.means(bump.on(surface, s * STEP * length).points)[of] for s in (1, -1))
        found.append((ahead - back) / (2 * STEP * length))
        mapped.append(float(density @ (surface.point_areas * bump.heights(surface))))
    correlation, over = agreement(np.array(found), np.array(mapped))
    result = {"shape": Path(shape).stem, "of": of, "bumps": CHECKED, "correlation": correlation, "slope": over}
    for name, step in (("speed", 0.02 * prepared.stream.speed), ("alpha", 0.1)):
        if name == "speed" or surface.dimension == 2:
            result[name] = [getattr(slope, name), _difference(surrogate, prepared, of, name, step)]
    return result


def _difference(surrogate: Surrogate, prepared: Prepared, of: str, name: str, step: float) -> float:
    """The central difference of a coefficient in the stream's speed or angle."""
    ends = []
    for sign in (1, -1):
        stream = replace(prepared.stream, **{name: getattr(prepared.stream, name) + sign * step})
        ends.append(Response(surrogate, replace(prepared, stream=stream)).means()[of])
    return (ends[0] - ends[1]) / (2 * step)


def check_solved(shape: str, solved: dict[str, dict[str, float]], found: Sensitivity) -> list[dict[str, Any]]:
    """For each bump the change that the map tells and that which RANS found, for a bump outward of its height."""
    surface = found.flow.body.surface
    if shape == "car":
        framed = surface.transformed(found.flow.body.rotation, -found.flow.body.rotation @ found.flow.body.origin)
        bumps, height = car_bumps(), HEIGHT[3] * found.flow.body.length
    else:
        framed, bumps, height = surface, section_bumps(shape), HEIGHT[2]
    rows = []
    for name, bump in bumps.items():
        out, into, none = (solved.get(key, {}) for key in (f"{name} +1", f"{name} -1", "none"))
        if found.of in out and found.of in into and found.of in none:
            change = (out[found.of] - into[found.of]) / 2
            bend = (out[found.of] + into[found.of]) / 2 - none[found.of]
            told = found.change(height * bump.heights(framed))
            rows.append({"bump": name, "told": told, "solved": change, "bend": bend})
    return rows


def page(checks: list[dict[str, Any]], tables: dict[tuple[str, str], list[dict[str, Any]]]) -> str:
    text = f"""# Where to push: the map against the model and against RANS

{date.today().isoformat()}, models {", ".join(f"`{name}` {letters}" for name, letters in models().items())}.

## The map is the derivative of the model

Finite differences of the model on {CHECKED} smooth bumps (bells of {BROAD:g} lengths at places drawn by area; on cars
with their mirror images), against the map of `sensitivity` summed over the bump; and the derivatives in the stream.

| shape | of | correlation | slope | a m/s: derivative, difference | a degree: derivative, difference |
|---|---|---|---|---|---|
"""
    for c in checks:
        stream = [f"{c[n][0]:+.3g}, {c[n][1]:+.3g}" if n in c else "-" for n in ("speed", "alpha")]
        text += f"| {c['shape']} | {c['of']} | {c['correlation']:.4f} | {c['slope']:.3f} | {' | '.join(stream)} |\n"
    text += f"""
## The map and RANS

Bumps outward and inward, of {HEIGHT[2]:g} chords on sections and {HEIGHT[3]:g} lengths on the car, solved on the mesh
of the shape without one. `solved` is half the difference of the two runs, `told` what the map says of a bump outward. A
bump changes drag either way, too: `bend` is the mean of both less the shape without one. Effects below the solver's own
noise are in brackets: {NOISE["section"]:.0e} of a section's coefficients (two runs of one case), {NOISE["car"]:.3f} of
the car's drag (what its last iterations leave open).
"""
    for (shape, of), rows in tables.items():
        if not rows:
            continue
        least = NOISE["car" if shape == "car" else "section"]
        above = [r for r in rows if abs(r["solved"]) > least]
        right = sum(r["told"] * r["solved"] > 0 for r in above)
        correlation = (
            agreement(*(np.array([r[k] for r in rows]) for k in ("solved", "told")))[0] if len(rows) > 2 else None
        )
        said = "" if correlation is None else f", correlation {correlation:.2f}"
        text += f"\n### {shape}, {of}: sign right for {right} of {len(above)} bumps above the noise{said}\n\n"
        text += "| bump | told | solved | bend |\n|---|---|---|---|\n"
        for r in rows:
            shown = f"{r['solved']:+.5f}"
            shown = shown if r in above else f"({shown})"
            text += f"| {r['bump']} | {r['told']:+.5f} | {shown} | {r['bend']:+.5f} |\n"
    return text


def models() -> dict[str, str]:
    """The shipped models, with letters that change with their weights."""
    return {name: hashlib.sha256(find_model(name).read_bytes()).hexdigest()[:8] for name in ("airfoil", "car")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", choices=["model", "solve"], help="ask the model alone, of what is solved; solve alone"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = RESULTS / "sensitivities.json"
    results = kept(record) if options.only == "model" else solved(record)
    if options.only == "solve":
        return
    streams = {CAR: CAR_STREAM, **SECTIONS}
    asked = [(CAR, "cd"), ("naca2412", "cd"), ("naca2412", "cl"), ("naca23015", "cd")]
    checks = [check_model(shape, streams[shape], of) for shape, of in asked]
    tables = {}
    for shape, found in results.items():
        for of in ("cd",) if shape == "car" else ("cd", "cl"):
            file = CAR if shape == "car" else shape
            tables[shape, of] = check_solved(shape, found, sensitivity(file, streams[file], of, device="cpu"))
    write_text(RESULTS / "sensitivities.md", page(checks, tables))


if __name__ == "__main__":
    main()
