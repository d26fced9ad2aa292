"""Coefficients of shapes over states of the stream: a table, CSV, and curves as a page or a picture.

The columns of the CSV are named as in the polars of XFLR5 and AeroSandbox: alpha, Re, CL, CD, CDp, CM.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aerosurrogate import console
from aerosurrogate.coeffs import (
    FOLDED,
    CoeffsOptions,
    Reference,
    assumptions,
    known_column,
    read_designs,
    reference_of,
    show_notes,
)
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.decision.decide import in_order
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import Row, column, interval
from aerosurrogate.mesh.files import shape_files
from aerosurrogate.parallel import refuse_all
from aerosurrogate.sweeps import swept

CSV = {  # our names by those that the users of polars know
    "name": "name", "Re": "reynolds", "speed": "speed", "alpha": "alpha", "CL": "cl", "CD": "cd", "CDp": "cd_pressure",
    "CM": "cm", "CL/CD": "ld", "CL_low": "cl_low", "CL_high": "cl_high", "CD_low": "cd_low", "CD_high": "cd_high",
    "trust": "trust",
}  # fmt: skip
_WORDS = {"alpha": "{:g}°", "reynolds": "Re {:.3g}", "speed": "{:g} m/s"}


def pressure_part(row: Row) -> float:
    """The pressure's part of the drag coefficient, where that is a model's own: in proportion, as integrated."""
    whole = row["cd_integrated"]
    return row["cd_pressure"] * (row["cd"] / whole if whole > 0 else 1.0)


def _plain(value: Any) -> Any:
    return f"{value:.7g}" if isinstance(value, float) else value


@dataclass
class Polars:
    """One row a state: the states of a design follow one another; `rank` compares designs in the same state."""

    rows: list[Row]
    failed: dict[str, str]  # by file
    reference: Reference
    swept: list[str]  # what varies: of reynolds, speed, alpha

    def document(self) -> dict[str, Any]:
        return {"designs": self.rows, "reference": self.reference, "failed": self.failed}

    def csv_text(self) -> str:
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(CSV)
        rows = [{**row, "cd_pressure": pressure_part(row)} for row in self.rows]
        writer.writerows([_plain(row[key]) for key in CSV.values()] for row in rows)
        return lines.getvalue()

    def show(self, *, table: bool = True, notes: bool = False) -> None:
        console.note(assumptions(self.reference))
        show_notes(self.rows, None if notes else FOLDED)
        if table:
            heads = {"alpha": "angle °", "reynolds": "Re", "speed": "speed m/s"}
            columns = ["design", *(heads[name] for name in self.swept), "#", "Cl", "Cd", "L/D", "Cm", "trust"]
            lines = [
                [
                    row["name"], *(f"{column(row, name):.4g}" for name in self.swept), row["rank"], interval(row, "cl"),
                    interval(row, "cd"), "-" if row["ld"] is None else f"{row['ld']:.2f}", f"{row['cm']:.4f}",
                    row["trust"] or "-",
                ]
                for row in self.rows
            ]  # fmt: skip
            console.table("", columns, lines, results=True)
        console.left_out(self.failed)

    def series(self) -> dict[str, list[Row]]:
        """The curves: a design in states that differ in one thing, the one that has the most values."""
        along = self.along
        others = [name for name in self.swept if name != along]
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            words = [row["name"], *(_WORDS[name].format(column(row, name)) for name in others)]
            found.setdefault(", ".join(words), []).append(row)
        return found

    @property
    def along(self) -> str:
        """What runs along a curve."""
        return max(reversed(self.swept), key=lambda name: len({column(row, name) for row in self.rows}))

    def write(self, path: Path) -> None:
        """The curves, as a page (.html) or as a picture (.png)."""
        from aerosurrogate.viz import curves, save_picture
        from aerosurrogate.writing import write_text

        if path.suffix.lower() == ".png":
            save_picture(curves.figure(self.series(), self.along), path)
        elif path.suffix.lower() == ".html":
            write_text(path, curves.page(self.series(), self.along, assumptions(self.reference)))
        else:
            raise InputError("polars are drawn as .html or .png", seen=path, remedy="--report polars.html")
        console.note(f"polars written to {path}")


def polars(
    files: Sequence[str],
    states: Sequence[StreamOptions],
    settings: CoeffsOptions,
    jobs: int | None = None,
    sort: str = "cd",
) -> Polars:
    """Predict each shape in each state; `sort` is the column to rank by in each."""
    key, names = known_column(sort), swept(list(states))
    found, failed = read_designs(shape_files(files), states, settings, jobs)
    if not found:
        refuse_all(failed)
    by_design = [[fields.row(settings.area) for fields in designs] for designs in found.values()]
    for rows in by_design:
        for row in rows:
            row["state"] = ", ".join(_WORDS[name].format(column(row, name)) for name in names)
    for together in zip(*by_design, strict=True):
        for rank, i in enumerate(in_order(together, "cd" if key == "rank" else key, sort.startswith("-")), 1):
            together[i]["rank"] = rank
    rows = [row for rows in by_design for row in rows]
    designs = [fields for designs in found.values() for fields in designs]
    return Polars(rows, failed, reference_of(designs, rows, settings), names)
