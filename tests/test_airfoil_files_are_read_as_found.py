"""Coordinate files in the many forms that catalogues hold give the section they describe."""

from pathlib import Path

import numpy as np
import pytest
from small_models import small_surrogate
from typer.testing import CliRunner

from aerosurrogate.cli import app
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.airfoil import naca
from aerosurrogate.mesh.coordinates import read_section
from aerosurrogate.mesh.read import curve_surface, read_surface

CURVE = naca("4412", 60)
UPPER, LOWER = CURVE[:31], np.concatenate([CURVE[30:], CURVE[:1]])  # tail to nose, nose to tail
AROUND = np.concatenate([UPPER, LOWER[1:]])


def lines(rows: np.ndarray, form: str = "  {:.7f}  {:.7f}") -> str:
    return "".join(form.format(*row) + "\n" for row in rows)


FORMS = {
    "selig": "NACA 4412\n" + lines(AROUND),
    "no title": lines(AROUND),
    "title of numbers": "44 12\n" + lines(AROUND),
    "title that begins with a number": "2032c (smoothed)\n" + lines(AROUND),
    "long title": "NACA 4412\nmodified 12.5 % thick\n\n" + lines(AROUND),
    "address behind": "NACA 4412\n" + lines(AROUND) + "\nA. Reader\n1206 W. Green St.\nUrbana, IL 61801\n217 333 444\n",
    "remark right behind": "NACA 4412\n" + lines(AROUND) + "this section was digitised from a print of 1932\n",
    "remarks with numbers": "NACA 4412\n" + lines(AROUND) + "\nt/c = 0.12 at 30 %\n12.0 % thick\n",
    "dates": "NACA 4412\n12 5 1991\n\n" + lines(AROUND) + "\n3 7 1992\n",
    "zone header": 'TITLE = "NACA 4412"\nVARIABLES = "X", "Y"\nZONE T="section", I=61, F=POINT\n' + lines(AROUND),
    "zone first": 'ZONE T="NACA 4412"\n' + lines(AROUND),
    "two zones": 'VARIABLES = X Y\nZONE T="upper"\n' + lines(UPPER) + 'ZONE T="lower"\n' + lines(LOWER),
    "lednicer": f"NACA 4412\n {len(UPPER)}.  {len(LOWER)}.\n\n" + lines(UPPER[::-1]) + "\n" + lines(LOWER),
    "lednicer without gaps": f"NACA 4412\n{len(UPPER)} {len(LOWER)}\n" + lines(UPPER[::-1]) + lines(LOWER),
    "lednicer, wrong counts": "NACA 4412\n 35.  35.\n\n" + lines(UPPER[::-1]) + "\n" + lines(LOWER),
    "lednicer, no counts": "NACA 4412\n" + lines(UPPER[::-1]) + lines(LOWER),
    "sides by name": "NACA 4412\nUpper surface\n" + lines(UPPER[::-1]) + "Lower surface\n" + lines(LOWER),
    "sides from the tail": lines(UPPER) + "\n" + lines(LOWER[::-1]),
    "gap at the nose": lines(UPPER) + "\n" + lines(LOWER),
    "csv": "x,y\n" + lines(AROUND, "{:.7f},{:.7f}"),
    "decimal commas": "x;y\n" + lines(AROUND, "{:.7f};{:.7f}").replace(".", ","),
    "decimal commas, spaces": "NACA 4412\n" + lines(AROUND).replace(".", ","),
    "csv by names": "point;y/c;x/c\n" + "".join(f"{i};{y:.7f};{x:.7f}\n" for i, (x, y) in enumerate(AROUND)),
    "numbered": "NACA 4412\n" + "".join(f"{i} {x:.7f} {y:.7f}\n" for i, (x, y) in enumerate(AROUND, 1)),
    "in space": "NACA 4412\n" + lines(AROUND, "{:.7f} {:.7f} 0.0"),
    "four columns": "NACA 4412\nxu yu xl yl\n" + "".join(
        "{:.7f} {:.7f} {:.7f} {:.7f}\n".format(*a, *b) for a, b in zip(UPPER[::-1], LOWER, strict=True)
    ),
    "comments": "# NACA 4412\n! by hand\n" + lines(AROUND, "{:.7f} {:.7f}  # checked"),
    "words behind numbers": lines(AROUND[:1], "{:.7f} {:.7f} trailing edge") + lines(AROUND[1:]),
    "Fortran": lines(AROUND, "{:.7E} {:.7E}").replace("E", "D"),
    "brackets and tabs": lines(AROUND, "({:.7f},\t{:.7f})"),
    "Windows": "\ufeffNACA 4412\r\n" + lines(AROUND).replace("\n", "\r\n"),
    "backwards": lines(AROUND[::-1]),
    "from the nose": lines(np.roll(CURVE, 30, axis=0)),
    "not closed": lines(CURVE),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_section(form: str, tmp_path: Path) -> None:
    path = tmp_path / ("section.csv" if "csv" in form else "section.dat")
    path.write_text(FORMS[form], encoding="utf-8")
    np.testing.assert_allclose(read_section(path), CURVE, atol=2e-7)
    assert len(read_section(path)) == len(CURVE)


def test_a_table_of_two_ordinates(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 21) ** 2
    y = 0.6 * (0.2969 * np.sqrt(x) - 0.126 * x - 0.3516 * x**2 + 0.2843 * x**3 - 0.1036 * x**4)
    path = tmp_path / "table.txt"
    path.write_text("x  upper  lower\n" + lines(np.stack([x, y, -y], axis=1), "{:.7f} {:.7f} {:.7f}"))
    assert curve_surface(read_section(path), "").volume == pytest.approx(2 * np.trapezoid(y, x), rel=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "section\n1 0\n0.5 0.1\n0 zero\n0.5 -0.1\n1 0\n",
        lines(AROUND[:20]) + "0.5 oops\n" + lines(AROUND[20:]),
        lines(AROUND[:20]) + "nan nan\n" + lines(AROUND[20:]),
        "slat\n" + lines(0.1 * AROUND) + "main\n" + lines(AROUND) + "flap\n" + lines(0.2 * AROUND + [1, 0]),
        "no numbers at all\n",
        "phone 217 333 4444\n1 2\n",
    ],
)
def test_what_is_not_one_section_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "section.dat"
    path.write_text(text)
    with pytest.raises(InputError):
        read_section(path)


def test_a_name_finds_its_file_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "E387.dat").write_text(FORMS["selig"])
    assert read_surface(tmp_path / "e387").name == "E387"
    with pytest.raises(InputError, match="no such file"):
        read_surface(tmp_path / "e388")


def test_a_long_list_of_failures_is_ten_names_and_a_count(tmp_path: Path) -> None:
    for i in range(25):
        (tmp_path / f"bad{i:02}.dat").write_text("nothing here\n")
    (tmp_path / "good.dat").write_text(FORMS["selig"])
    small_surrogate(2).save(tmp_path / "flat.safetensors")
    words = [str(tmp_path), "--model", str(tmp_path / "flat.safetensors")]
    result = CliRunner().invoke(app, ["coeffs", *words])
    assert isinstance(result.exception, InputError)
    assert str(result.exception).count("bad") == 10
    assert "25" in str(result.exception)
    assert result.stderr.count("left out: ") == 10
    assert "15 more" in result.stderr
