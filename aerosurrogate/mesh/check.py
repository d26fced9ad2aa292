"""What a mesh is like, and what would be done about it."""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import igl
import numpy as np

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.distance import outer_faces
from aerosurrogate.mesh.orient import open_edges, outward, shared_too_often
from aerosurrogate.mesh.read import read_as_it_is, units_doubt
from aerosurrogate.mesh.repair import SMALL, hole_sizes, loose_faces, repaired
from aerosurrogate.mesh.surface import Bools, Floats, Surface
from aerosurrogate.mesh.write import WRITABLE, write_mesh

POOR = 0.05  # a triangle's quality, 2 x inradius / circumradius: 1 equilateral, 0 a line


@dataclass
class Report:
    """One mesh as it was found; lengths in metres if its units are what was said."""

    name: str
    file: str
    error: str | None = None  # why it could not be read; nothing below holds then
    dimension: int = 0
    points: int = 0
    faces: int = 0
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    length: float = 0.0  # largest extent along an axis
    area: float = 0.0
    volume: float | None = None  # of watertight bodies without intersecting pieces
    watertight: bool = False
    open_edges: int = 0
    holes: int = 0
    largest_hole: float = 0.0
    non_manifold_edges: int = 0
    pieces: int = 0
    enclosed_pieces: int = 0  # wholly inside another: cavities, or parts that no air touches
    inner_faces: int = 0  # inside another piece, those of enclosed pieces included
    orientation: str = ""  # outward, inward or mixed
    turned_faces: int = 0  # that face the wrong way
    worst_quality: float | None = None
    poor_faces: int = 0
    arrays: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    repaired: str | None = None  # the file written
    repaired_watertight: bool | None = None  # what it was found to be

    def document(self) -> dict[str, Any]:
        return asdict(self) if self.error is None else {"name": self.name, "file": self.file, "error": self.error}

    def rows(self) -> list[tuple[str, str]]:
        """What a person wants to read, line by line."""
        if self.error:
            return [("cannot be read", self.error)]
        size = " x ".join(f"{high - low:.4g}" for low, high in zip(self.low, self.high, strict=True))
        rows = [
            ("points, faces" if self.dimension == 3 else "points, segments", f"{self.points:,}, {self.faces:,}"),
            ("size", f"{size} m, from ({_spaced(self.low)}) to ({_spaced(self.high)})"),
            ("area", f"{self.area:.5g} m2" if self.dimension == 3 else f"{self.area:.5g} m around"),
            ("volume", "-" if self.volume is None else f"{self.volume:.5g} m{self.dimension}"),
            ("watertight", "yes" if self.watertight else f"no: {self.open_edges:,} open edges, {self.holes:,} holes"),
            ("non-manifold edges", f"{self.non_manifold_edges:,}"),
            ("pieces", f"{self.pieces:,}"),
            ("orientation", self.orientation),
        ]
        if self.worst_quality is not None:
            rows.append(("triangle quality", f"worst {self.worst_quality:.2g}, {self.poor_faces:,} below {POOR}"))
        rows += [("arrays", ", ".join(self.arrays))] if self.arrays else []
        rows += [("found", text) for text in self.findings]
        rows += [("repaired" if self.repaired else "would be repaired", text) for text in self.repairs]
        sound = "watertight" if self.repaired_watertight else "with what is open or crossed as it was"
        return [*rows, ("written to", f"{self.repaired}, {sound}")] if self.repaired else rows


def check(
    meshes: Sequence[str | Path],
    repair: str | Path | None = None,
    units: str | None = None,
    patch: str | None = None,
) -> list[Report]:
    """Look at meshes, one report each; write repaired ones to `repair`, a file, or a folder when there are several.

    A mesh that cannot be read has its report too, unless it is the only one.
    """
    reports = []
    for mesh in meshes:
        try:
            report, surface = examine(mesh, units, patch)
            if repair is not None:
                _write_repaired(report, surface, _target(Path(repair), surface, alone=len(meshes) == 1))
        except InputError as error:
            if len(meshes) == 1:
                raise
            report = Report(Path(mesh).stem, str(mesh), error=str(error))
        reports.append(report)
    return reports


def _write_repaired(report: Report, surface: Surface, target: Path) -> None:
    """Write the repaired body, once it has been read back and found to be what was promised."""
    mended = repaired(surface)
    with tempfile.TemporaryDirectory() as folder:
        trial = Path(folder) / target.name
        write_mesh(mended, trial)
        after, _ = examine(trial, units="m")
    small = after.holes > 0 and after.largest_hole <= SMALL * after.length
    if small or after.turned_faces or after.non_manifold_edges > report.non_manifold_edges:
        raise InputError(
            f"{report.file}: the repaired body would not be sound, and was not written",
            seen=f"{after.open_edges:,} open edges, {after.non_manifold_edges:,} that join more than two faces",
            remedy="mend it where it was made, or export it again",
        )
    write_mesh(mended, target)
    report.repaired, report.repaired_watertight = str(target), after.watertight


def examine(mesh: str | Path, units: str | None = None, patch: str | None = None) -> tuple[Report, Surface]:
    """The report on one mesh, and its surface as the file has it."""
    surface = read_as_it_is(mesh, units, patch)
    facing, turned = outward(surface)
    outer = outer_faces(facing)
    count = int(facing.pieces.max()) + 1
    exposed = np.bincount(facing.pieces, outer, count) > 0
    edges, sizes, loose = open_edges(facing), hole_sizes(facing), loose_faces(facing)
    crossed = shared_too_often(facing)
    quality = _quality(facing)
    seen = exposed[facing.pieces]
    report = Report(
        name=surface.name,
        file=str(mesh),
        dimension=surface.dimension,
        points=len(surface.points),
        faces=len(surface.cells),
        low=surface.bounds[0].tolist(),
        high=surface.bounds[1].tolist(),
        length=surface.length,
        area=float(surface.areas.sum()),
        volume=facing.volume if not len(edges) and outer.all() else None,
        watertight=not len(edges) and not crossed,
        open_edges=len(edges),
        holes=len(sizes),
        largest_hole=float(sizes.max(initial=0.0)),
        non_manifold_edges=crossed,
        pieces=count,
        enclosed_pieces=int(np.sum(~exposed)),
        inner_faces=int(np.sum(~outer)),
        orientation=_orientation(turned[seen]),
        turned_faces=int(np.sum(turned[seen])),
        worst_quality=None if quality is None else float(quality.min()),
        poor_faces=0 if quality is None else int(np.sum(quality < POOR)),
        arrays=sorted({*surface.point_data, *surface.cell_data}),
        findings=list(surface.notes),
    )
    _say(report, sizes, int(loose.sum()), units)
    return report, surface


def _say(report: Report, sizes: Floats, loose: int, units: str | None) -> None:
    """Findings and repairs in words."""
    small = int(np.sum(sizes <= SMALL * report.length))
    if units is None and (doubt := units_doubt(report.length, report.dimension)):
        report.findings.append(doubt)
    if len(sizes) > small:
        report.findings.append(
            f"{len(sizes) - small:,} openings too large to be closed, up to {report.largest_hole:.3g} m: half a body "
            "(--symmetry y), or separate panels; inside and outside are told apart by the winding number"
        )
    if report.non_manifold_edges:
        report.findings.append(f"{report.non_manifold_edges:,} edges join more than two faces: walls inside the body?")
    if report.enclosed_pieces:
        report.findings.append(
            f"{report.enclosed_pieces:,} pieces wholly inside others: cavities or parts no air touches"
        )
    if report.inner_faces:
        report.findings.append(f"{report.inner_faces:,} faces inside other pieces: the body counts as the union")
    if report.poor_faces:
        report.findings.append(f"{report.poor_faces:,} very thin triangles")
    if report.turned_faces:
        report.repairs.append(f"{report.turned_faces:,} faces turned outward")
    if loose:
        report.repairs.append(f"{loose:,} loose faces left out")
    if small:
        report.repairs.append(f"{small:,} small holes closed")


def _orientation(turned: Bools) -> str:
    return "outward" if not turned.any() else "inward" if turned.all() else "mixed"


def _quality(surface: Surface) -> Floats | None:
    if surface.dimension == 2:
        return None
    inner = igl.inradius(surface.points, surface.cells)
    outer = igl.circumradius(surface.points, surface.cells)[0]
    return np.nan_to_num(2.0 * inner / outer, nan=0.0, posinf=0.0, neginf=0.0)


def _target(repair: Path, surface: Surface, alone: bool) -> Path:
    if alone and repair.suffix and not repair.is_dir():
        return repair
    suffix = surface.path.suffix.lower() if surface.path else ""
    plain = ".stl" if surface.dimension == 3 else ".vtp"
    return repair / f"{surface.name}{suffix if suffix in WRITABLE else plain}"


def _spaced(values: list[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)
