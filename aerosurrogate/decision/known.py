"""Values of drag and lift that somebody has solved or measured: tables, folders that `simulate` wrote, solved files."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aerosurrogate import console, flow_fields
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import Row
from aerosurrogate.mesh.load import load
from aerosurrogate.pressure_files import holds_pressure, read_solved
from aerosurrogate.trust.agreement import read_truth

ABSURD = 20.0  # a known drag so many times the predicted one is no coefficient, or over another area
_REMEDY = "give a table name,cd[,cl] (.csv), a folder that `simulate` wrote, or a file with a pressure"


@dataclass(frozen=True)
class Known:
    """What is known of a design; `cd` and `cl` over `area` m2, over the area of the ranking where that is None."""

    values: dict[str, float]  # cd, cl
    area: float | None = None
    alpha: float | None = None  # degrees at which it holds, where that is said

    def fits(self, row: Row) -> bool:
        return self.alpha is None or abs(self.alpha - row["alpha"]) < 0.01

    def over(self, area: float) -> dict[str, float]:
        return {key: value * (self.area or area) / area for key, value in self.values.items()}


def read_known(sources: Sequence[Path], stream: StreamOptions | None = None) -> dict[str, Known]:
    """Known values by the name of the design."""
    found: dict[str, Known] = {}
    for source in sources:
        if not source.exists():
            raise InputError("no such file or folder of solved values", seen=source, remedy=_REMEDY)
        if source.suffix.lower() == ".csv":
            found |= {name: Known(values) for name, values in read_truth(source).items()}
        elif any(source.glob("runs/*/record.json")):
            found |= _simulated(source, stream or StreamOptions())
        elif source.is_dir() and not (source / "system" / "controlDict").is_file():
            raise InputError("no known values in this folder", seen=source, remedy=_REMEDY)
        else:
            found |= _solved(source, stream or StreamOptions())
    return found


def matched(known: dict[str, Known], rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """The known values of the designs in a ranking, over its areas; those of other designs are named and left out."""
    found = {r["name"]: known[r["name"]].over(r["area_m2"]) for r in rows if r["name"] in known}
    if not found:
        raise InputError(
            "no design of the ranking is named in the known values",
            seen=f"designs {console.few([row['name'] for row in rows])}; known {console.few(known)}",
            remedy="the column name holds file names without folder and extension",
        )
    if strange := [r["name"] for r in rows if r["name"] in known and not known[r["name"]].fits(r)]:
        raise InputError(
            "known at another angle of attack", seen=console.few(strange), remedy="give --alpha as it was solved"
        )
    if absurd := [r for r in rows if r["model"] and not _may_be(found.get(r["name"], {}).get("cd"), r["cd"])]:
        seen = ", ".join(f"{r['name']} {found[r['name']]['cd']:.4g}, predicted {r['cd']:.4g}" for r in absurd[:3])
        remedy = "give coefficients (no counts, no newtons) over the area of the ranking (--area)"
        raise InputError("known drag of another size altogether", seen=seen, remedy=remedy)
    if others := known.keys() - found.keys():
        console.note(f"known, but not in the ranking: {console.few(sorted(others))}")
    return found


def _may_be(known: float | None, predicted: float) -> bool:
    return known is None or predicted <= 0 or 1 / ABSURD < abs(known) / predicted < ABSURD


def _simulated(folder: Path, stream: StreamOptions) -> dict[str, Known]:
    """The converged cases of a folder that `simulate` wrote, by the name of the shape's file.

    Of a shape in several streams, the one that is asked for.
    """
    found = {}
    for path in sorted(folder.glob("runs/*/record.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        reference, design = record["reference"], record["design"]
        name = Path(design["file"]).stem if design.get("file") else record["name"]
        asked = {"alpha": stream.alpha, "speed": stream.speed}
        said = {key: value for key, value in asked.items() if value is not None and design.get("file")}
        apart = any(abs(design["conditions"][key] - value) > 0.01 for key, value in said.items())
        if record["state"] == "converged" and not (apart and name in found):
            values = {key: reference[key] for key in ("cd", "cl")}
            found[name] = Known(values, reference.get("area"), design["conditions"]["alpha"])
    if not found:
        raise InputError("no case of this folder has converged", seen=folder, remedy="see the reasons in runs/")
    return found


def _solved(file: Path, stream: StreamOptions) -> dict[str, Known]:
    """A file of fields, or an OpenFOAM case, integrated."""
    mesh = None if file.is_dir() or file.suffix.lower() == ".foam" else load(file)
    if mesh is not None and flow_fields.is_fields_file(mesh):
        design = flow_fields.from_mesh(mesh, str(file))
        if design.model is not None:
            remedy = "give what a solver said; these fields are a model's own prediction"
            raise InputError("predicted fields are not known ones", seen=file, remedy=remedy)
    elif mesh is None or holds_pressure(mesh):
        design = read_solved(str(file), mesh, stream)
    else:
        raise InputError("no known values in it", seen=file, remedy=_REMEDY)
    row = design.row()
    return {row["name"]: Known({"cd": row["cd"], "cl": row["cl"]}, row["area_m2"])}
