"""Any column ranks; bodies and sections apart, strangers behind; the same rows in table, CSV and workbook."""

import json
import zipfile

import pytest
import pyvista as pv
from small_models import small_surrogate
from typer.testing import CliRunner

from aerosurrogate.cli import app
from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.decision.decide import decide
from aerosurrogate.errors import InputError
from aerosurrogate.report.page import page

AIR = StreamOptions(reynolds=3e6)


@pytest.fixture(scope="module")
def cars(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cars")
    for name, height in (("low", 1.2), ("middle", 1.4), ("high", 1.6)):
        pv.Cube(bounds=(0, 4, -0.8, 0.8, 0.2, height)).triangulate().subdivide(3).save(folder / f"{name}.stl")
    small_surrogate(3).save(folder / "small.safetensors")
    return folder


def run(*words: object):
    return CliRunner().invoke(app, ["coeffs", *map(str, words)], terminal_width=200)


@pytest.mark.parametrize("key", ["ld", "cda_m2", "cl_front", "cl_rear", "side_n", "cs", "drag_n", "cm"])
def test_any_column_ranks_from_either_end(cars, key):
    files = [str(cars / f"{name}.stl") for name in ("low", "middle", "high")]
    settings = CoeffsOptions(StreamOptions(speed=30), model=str(cars / "small.safetensors"))
    rising, falling = (coeffs(files, settings, sort=sign + key).rows for sign in ("", "-"))
    assert [r[key] for r in rising] == sorted(r[key] for r in rising)
    assert [r["name"] for r in falling] == [r["name"] for r in rising][::-1]
    assert [r["rank"] for r in falling] == [1, 2, 3]


def test_the_table_shows_the_column_it_is_ranked_by(cars):
    shapes = (cars / "low.stl", cars / "high.stl", "--model", cars / "small.safetensors", "--speed", 30)
    assert "cda_m2" in run(*shapes, "--sort", "cda_m2").stdout
    assert "cda_m2" not in run(*shapes).stdout


def test_sections_at_one_lift_are_ranked_by_lift_over_drag():
    sections = ["naca0012", "naca2412", "naca4412"]
    ranking = coeffs(sections, CoeffsOptions(AIR, at_lift=0.5), sort="-ld")
    assert [r["cl"] for r in ranking.rows] == pytest.approx([0.5] * 3, abs=2e-4)
    assert [r["ld"] for r in ranking.rows] == sorted((r["ld"] for r in ranking.rows), reverse=True)
    angles = {r["name"]: r["alpha"] for r in ranking.rows}
    assert angles["naca0012"] > angles["naca2412"] > angles["naca4412"]  # camber lifts
    again = coeffs(["naca2412"], CoeffsOptions(StreamOptions(reynolds=3e6, alpha=angles["naca2412"]))).rows[0]
    assert again["cd"] == pytest.approx(next(r["cd"] for r in ranking.rows if r["name"] == "naca2412"), rel=1e-6)


def test_a_lift_that_no_angle_gives_is_refused(cars):
    with pytest.raises(InputError, match="no angle of attack gives this lift"):
        coeffs(["naca0012"], CoeffsOptions(AIR, at_lift=9.0))
    with pytest.raises(InputError, match="follows from the lift"):
        coeffs(["naca0012"], CoeffsOptions(StreamOptions(reynolds=3e6, alpha=2.0), at_lift=0.5))
    with pytest.raises(InputError, match="for sections"):
        coeffs([str(cars / "low.stl")], CoeffsOptions(model=str(cars / "small.safetensors"), at_lift=0.5))


def test_bodies_and_sections_have_tables_and_ranks_of_their_own(tmp_path):
    pv.Cube(bounds=(0, 4, -0.8, 0.8, 0.2, 1.4)).triangulate().subdivide(3).save(tmp_path / "box.stl")
    result = run(tmp_path / "box.stl", "naca2412", "naca0012", "--speed", 30, "--xlsx", tmp_path / "all.xlsx", "--json")
    rows = json.loads(result.stdout)["designs"]
    assert [(r["name"] == "box", r["rank"]) for r in rows] == [(True, 1), (False, 1), (False, 2)]
    shown = run(tmp_path / "box.stl", "naca2412", "naca0012", "--speed", 30).stdout
    assert shown.index("bodies") < shown.index("sections")
    with zipfile.ZipFile(tmp_path / "all.xlsx") as book:
        assert [name in book.read("xl/workbook.xml").decode() for name in ("bodies", "sections", "conditions")] == [
            True
        ] * 3
        assert "box" in book.read("xl/sharedStrings.xml").decode()
        assert "cda_m2" in book.read("xl/sharedStrings.xml").decode()


def test_strangers_are_listed_apart_and_never_first(tmp_path):
    sections = ["naca0012", "naca4412", "naca0045"]  # the last is thicker than all that was seen
    ranking = coeffs(sections, CoeffsOptions(AIR), sort="-cd")
    assert ranking.rows[-1]["name"] == "naca0045"
    assert ranking.rows[-1]["trust"] == "outside"
    assert ranking.rows[-1]["cd"] > ranking.rows[0]["cd"]
    rows = [design.row() for design in ranking.designs.values()]
    told, _ = decide(rows, ranking.designs, sort="-cd", known={"naca0045": {"cd": 0.2}})
    assert told[0]["name"] == "naca0045"  # once it is solved it is no stranger
    shown = run(*sections, "--reynolds", "3e6").stdout
    assert shown.index("naca4412") < shown.index("outside what the model has seen") < shown.index("naca0045")
    written = page(ranking)
    first, apart = written.split("<h2>Outside what the model has seen", 1)
    assert "title='naca4412'" in first
    assert "title='naca0045'" not in first
    assert "title='naca0045'" in apart


def test_notes_are_folded_unless_asked_for(tmp_path):
    for i in range(6):
        box = pv.Cube(bounds=(0, 4, -0.8, 0.8, -0.01 * (i + 1), 1.4)).triangulate().subdivide(3)
        box.save(tmp_path / f"box{i}.stl")
    small_surrogate(3).save(tmp_path / "small.safetensors")
    words = (*(tmp_path / f"box{i}.stl" for i in range(6)), "--model", tmp_path / "small.safetensors")
    folded, whole = run(*words).stderr, run(*words, "--notes").stderr
    assert folded.count("lies below it") < 6
    assert "more notes: --notes shows them" in folded
    assert whole.count("lies below it") == 6
    assert "more notes" not in whole
