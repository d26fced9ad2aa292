"""A shape and a better one, both solved by OpenFOAM: is the gain real?

Bodies are solved on one lattice, laid around the first, so that what the mesh does to the drag is mostly the same for
both; sections at one lift, the angle of the second being sought.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from aerosurrogate import console
from aerosurrogate.body import Body, mirrored
from aerosurrogate.conditions import Conditions, StreamOptions
from aerosurrogate.mesh.coordinates import write_section
from aerosurrogate.mesh.surface import Surface

SAME_LIFT = 0.003  # relative: lifts closer than this are one
TRIES = 3  # angles at which the lift of the first is looked for
LIFT_SLOPE = 0.1  # a degree


@dataclass(frozen=True)
class Solved:
    """Coefficients of both by RANS; those of bodies refer to the first one's frontal area."""

    before: dict[str, float]  # cd, cl; sections: alpha
    after: dict[str, float]

    @property
    def gain(self) -> float:
        """By how much the drag has changed, relative."""
        return self.after["cd"] / self.before["cd"] - 1


def solve_bodies(body: Body, surfaces: Sequence[Surface], stream: StreamOptions) -> Solved | str:
    """Two bodies of closed pieces in the axes of the file, or why they could not be solved."""
    from aerosurrogate.simulate import cars
    from aerosurrogate.simulate.car_case import MESHES
    from aerosurrogate.simulate.driver import own_design
    from aerosurrogate.simulate.openfoam import SolverError

    design = own_design(body.file, stream)

    def framed(surface: Surface) -> Surface:
        whole = surface if stream.symmetry is None else mirrored(surface, stream.symmetry, body.file)
        return whole.transformed(body.rotation, -body.rotation @ body.origin)

    shapes = [framed(surface) for surface in surfaces]
    found = []
    for surface in shapes:
        with tempfile.TemporaryDirectory() as folder:
            try:
                solution = cars.solve_body(design, surface, Path(folder), MESHES["standard"], frame=shapes[0])
            except SolverError as error:
                return str(error)
        if not solution.converged:
            return solution.reason
        found.append(solution.case.reference)
    scale = found[1]["area"] / found[0]["area"]
    return Solved({key: found[0][key] for key in ("cd", "cl")}, {key: found[1][key] * scale for key in ("cd", "cl")})


def solve_sections(surfaces: Sequence[Surface], streams: Sequence[Conditions]) -> Solved | str:
    """Two sections, each at its angle of attack to begin with, or why they could not be solved."""
    from aerosurrogate.simulate import airfoils
    from aerosurrogate.simulate.driver import own_design
    from aerosurrogate.simulate.openfoam import SolverError

    def solve(surface: Surface, stream: Conditions) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "section.dat"
            write_section(surface.points, file, surface.name)
            design = own_design(str(file), StreamOptions(alpha=stream.alpha, reynolds=stream.reynolds))
            solution = airfoils.solve(design, Path(folder), "standard", cautious=False)
        if not solution.converged:
            raise SolverError(solution.reason)
        return {"alpha": stream.alpha, **{key: solution.case.reference[key] for key in ("cd", "cl")}}

    try:
        return _at_one_lift(
            lambda: solve(surfaces[0], streams[0]),
            lambda a: solve(surfaces[1], replace(streams[1], alpha=a)),
            streams[1].alpha,
        )
    except SolverError as error:
        return str(error)


def _at_one_lift(
    before: Callable[[], dict[str, float]], after: Callable[[float], dict[str, float]], alpha: float
) -> Solved:
    first, second, slope = before(), after(alpha), LIFT_SLOPE
    for _ in range(TRIES - 1):
        off = first["cl"] - second["cl"]
        if abs(off) <= SAME_LIFT * abs(first["cl"]):
            break
        console.note(f"lift {second['cl']:.4f} at {second['alpha']:.3f} degrees, {first['cl']:.4f} is wanted")
        again = after(second["alpha"] + off / slope)
        slope = (again["cl"] - second["cl"]) / (again["alpha"] - second["alpha"]) or slope
        second = again
    return Solved(first, second)
