"""A ranking as a workbook: a sheet for bodies, one for sections, and one that says what the numbers refer to."""

from pathlib import Path
from typing import Any

from aerosurrogate.coeffs import COLUMNS, Ranking
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import column
from aerosurrogate.trust.agreement import in_words
from aerosurrogate.writing import replacing

WIDTH = 14  # characters; names and files get more
FORMATS = {"cd": "0.0000", "cl": "0.0000", "cm": "0.0000", "cs": "0.0000", "chance": "0 %", "reynolds": "0.00E+00"}


def write_workbook(ranking: Ranking, path: Path) -> None:
    """Write the file."""
    import xlsxwriter

    if path.suffix.lower() != ".xlsx":
        raise InputError("a workbook ends in .xlsx", seen=path, remedy=f"--xlsx {path.with_suffix('.xlsx')}")
    with replacing(path) as temporary:
        book = xlsxwriter.Workbook(str(temporary), {"nan_inf_to_errors": True})
        head = book.add_format({"bold": True, "bottom": 1})
        for kind, rows in ranking.kinds(ranking.rows).items():
            sheet = book.add_worksheet(kind)
            used = [name for name in COLUMNS if any(column(row, name) is not None for row in rows)]
            for place, name in enumerate(used):
                style = next((text for start, text in FORMATS.items() if name.startswith(start)), "General")
                wide = max(WIDTH, *(len(str(column(row, name))) for row in rows)) if name in ("name", "file") else WIDTH
                sheet.set_column(place, place, wide, book.add_format({"num_format": style}))
                sheet.write(0, place, name, head)
                for line, row in enumerate(rows, 1):
                    _write(sheet, line, place, column(row, name))
            sheet.freeze_panes(1, 2)
            sheet.autofilter(0, 0, len(rows), len(used) - 1)
        sheet = book.add_worksheet("conditions")
        sheet.set_column(0, 0, 2 * WIDTH)
        said = [(name.replace("_", " "), value) for name, value in ranking.reference.items()]
        said += [("left out: " + file, reason) for file, reason in ranking.failed.items()]
        said += [("against the truth", in_words(ranking.comparison))] if ranking.comparison else []
        said += [(f"{row['name']}: note", text) for row in ranking.rows for text in row["notes"]]
        said += [(f"{row['name']}: {row['trust']}", text) for row in ranking.rows for text in row["reasons"]]
        for line, (name, value) in enumerate(said):
            sheet.write_string(line, 0, name)
            _write(sheet, line, 1, value)
        book.close()


def _write(sheet: Any, line: int, place: int, value: Any) -> None:
    """A value as it is; text is never taken for a formula or an address."""
    if isinstance(value, str):
        sheet.write_string(line, place, value)
    elif value is not None:
        sheet.write(line, place, value)
