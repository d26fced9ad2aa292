"""Sweeps: one row a state, each what it would be alone; curves as page and picture; CSV as users of polars know it."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvista as pv
from PIL import Image
from small_models import save_small

from aerosurrogate import surrogate as surrogates
from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.errors import InputError
from aerosurrogate.mesh import distance, surroundings
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.predict import Predictor
from aerosurrogate.report.polars import polars
from aerosurrogate.sweeps import states, swept, values
from aerosurrogate.viz.curves import Panel

NUMBERS = ("cd", "cl", "cm", "cd_integrated", "cl_integrated", "drag_n", "speed", "alpha", "reynolds", "area_m2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("sweeps")
    save_small(place, 2)
    save_small(place, 3)
    pv.Box((-2, 2, -0.8, 0.8, 0.2, 1.2), level=2).triangulate().save(place / "box.stl")
    return place


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4", (4.0,)),
        ("-4:14:6", (-4.0, 2.0, 8.0, 14.0)),
        ("0:1:0.1", tuple(round(0.1 * i, 1) for i in range(11))),
        ("5:0:-2", (5.0, 3.0, 1.0)),
        ("2e6,4e6,2e6", (2e6, 4e6)),
    ],
)
def test_sweeps_are_read_as_they_are_written(text, expected):
    assert values(text, "--alpha") == expected


@pytest.mark.parametrize("text", ["4:2:1", "0:1:0", "0:1e9:1", "1:2", "four", "", "1,,2", "nan", "0:inf:1"])
def test_empty_and_endless_sweeps_are_refused(text):
    with pytest.raises(InputError, match="--alpha"):
        values(text, "--alpha")


def test_states_are_all_combinations():
    found = states(StreamOptions(density=1.0), None, "0:4:2", "2e6,4e6")
    assert [(s.reynolds, s.alpha) for s in found] == [(r, a) for r in (2e6, 4e6) for a in (0.0, 2.0, 4.0)]
    assert swept(found) == ["reynolds", "alpha"]
    assert {s.density for s in found} == {1.0}
    assert states(StreamOptions(), None, None, None) == [StreamOptions()]


def test_each_state_is_what_it_would_be_alone(folder):
    model = str(folder / "small2.safetensors")
    names = ["naca2412", "naca0015"]
    found = polars(names, states(StreamOptions(), None, "-2:6:2", "3e6,4e6"), CoeffsOptions(model=model))
    assert [row["name"] for row in found.rows] == [name for name in names for _ in range(10)]
    assert found.along == "alpha"
    assert list(found.series()) == [f"{name}, Re {re}" for name in names for re in ("3e+06", "4e+06")]
    for row in found.rows[::3]:
        stream = StreamOptions(alpha=row["alpha"], reynolds=row["reynolds"])
        alone = coeffs([row["name"]], CoeffsOptions(stream, model=model)).rows[0]
        for key in NUMBERS:
            assert row[key] == pytest.approx(alone[key], rel=1e-5, abs=1e-7), key
    pairs = zip(found.rows[:10], found.rows[10:], strict=True)
    assert all(sorted([a["rank"], b["rank"]]) == [1, 2] and (a["cd"] < b["cd"]) == (a["rank"] == 1) for a, b in pairs)


def test_several_files_at_once_are_what_each_is_alone(folder):
    """Sections of unequal size go through the model in one call, and a broken one does not take others along."""
    (folder / "coarse.dat").write_text("\n".join(f"{x} {y}" for x, y in read_surface("naca0010").points[::4]))
    (folder / "broken.dat").write_text("not coordinates")
    files = ["naca2412", str(folder / "coarse.dat"), str(folder / "broken.dat"), "naca4415", "naca0009", "naca23012"]
    model, stream = str(folder / "small2.safetensors"), StreamOptions(alpha=3)
    together = coeffs(files, CoeffsOptions(stream, model=model))
    assert list(together.failed) == [str(folder / "broken.dat")]
    predictor = Predictor(model)
    for row in together.rows:
        alone = predictor.predict(row["file"], stream).row()
        for key in NUMBERS:
            assert row[key] == pytest.approx(alone[key], rel=1e-5, abs=1e-7), (row["name"], key)


def test_ranks_in_a_state_follow_the_column_that_is_asked_for(folder):
    names, settings = ["naca2412", "naca0012", "naca4415"], CoeffsOptions(model=str(folder / "small2.safetensors"))
    for sort in ("cl", "-cl"):
        found = polars(names, states(StreamOptions(), None, "0:4:2", None), settings, sort=sort)
        rows = sorted((row for row in found.rows if row["alpha"] == 2.0), key=lambda row: row["rank"])
        lifts = [row["cl"] for row in rows]
        assert lifts == sorted(lifts, reverse=sort.startswith("-"))
    with pytest.raises(InputError, match="no such column"):
        polars(names, states(StreamOptions(), None, "0:4:2", None), settings, sort="best")


def test_states_of_a_body_share_what_does_not_depend_on_them(folder, monkeypatch):
    drawn, asked = [], []
    draw, ask = surroundings.around, surrogates.Surrogate.together
    monkeypatch.setattr(surroundings, "around", lambda *a: drawn.append(1) or draw(*a))
    monkeypatch.setattr(surrogates.Surrogate, "together", lambda self, b, s: asked.append(len(b)) or ask(self, b, s))
    settings = CoeffsOptions(model=str(folder / "small3.safetensors"))
    found = polars([str(folder / "box.stl")], states(StreamOptions(), "20:45:5", None, None), settings)
    assert [row["speed"] for row in found.rows] == [20, 25, 30, 35, 40, 45]
    assert len(drawn) == 1
    assert asked == [4, 2]
    drag = np.array([row["drag_n"] / row["cd"] for row in found.rows])
    assert drag / drag[0] == pytest.approx((np.arange(20, 50, 5) / 20) ** 2)


def test_curves_and_csv_from_the_shell(folder, tmp_path):
    model = ["--model", str(folder / "small2.safetensors")]
    command = [sys.executable, "-m", "aerosurrogate", "coeffs", "naca2412", "naca0012", "--alpha", "-2:4:2", *model]
    page, table, picture = tmp_path / "polar.html", tmp_path / "polar.csv", tmp_path / "polar.png"
    done = subprocess.run(
        [*command, "--json", "--csv", str(table), "--report", str(page)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["designs"]
    assert [(row["name"], row["alpha"]) for row in rows[:4]] == [("naca2412", a) for a in (-2, 0, 2, 4)]
    assert rows[1]["state"] == "0°"
    lines = list(csv.DictReader(table.read_text().splitlines()))
    assert {"alpha", "Re", "CL", "CD", "CDp", "CM"} <= set(lines[0])
    assert [float(line["CL"]) for line in lines] == pytest.approx([row["cl"] for row in rows], rel=1e-6)
    for line, row in zip(lines, rows, strict=True):  # the part that is the pressure's, of the drag beside it
        part = row["cd_pressure"] / row["cd_integrated"] * row["cd"] if row["cd_integrated"] > 0 else row["cd_pressure"]
        assert float(line["CDp"]) == pytest.approx(part, rel=1e-5)
    text = page.read_text()
    assert text.count("Plotly.newPlot") == 5
    assert "angle of attack" in text
    assert subprocess.run([*command, "--report", str(picture), "--quiet"], timeout=120).returncode == 0
    pixels = np.asarray(Image.open(picture).convert("RGB")).astype(int)
    assert np.ptp(pixels, axis=2).max() > 60
    for wrong, words in (
        (["--alpha", "4:2:1"], "empty"),
        (["--alpha", "1:x:2"], "1:x:2"),
        (["--reference", str(table)], "one state"),
        (["--report", str(tmp_path / "polar.pdf")], ".png"),
    ):
        failed = subprocess.run([*command, *wrong], capture_output=True, text=True, timeout=120)
        assert failed.returncode == 2
        assert words in failed.stderr
        assert "Traceback" not in failed.stderr


def test_a_file_of_fields_has_one_state(folder):
    settings = CoeffsOptions(model=str(folder / "small2.safetensors"))
    Predictor(settings.model).predict("naca2412", StreamOptions(alpha=2)).save(folder / "wing.vtu")
    with pytest.raises(InputError, match="the fields of one state"):
        polars([str(folder / "wing.vtu")], states(StreamOptions(), None, "0:4:2", None), settings)


def test_points_inside_a_section_are_told_quickly_and_rightly():
    section = read_surface("naca2412")
    rng = np.random.default_rng(0)
    points = rng.uniform((-0.05, -0.08), (1.05, 0.12), (4000, 2))
    import igl

    exact = np.asarray(igl.winding_number(section.points, section.cells, points)) > 0.5
    assert np.array_equal(distance.inside(section, points), exact)
    cloud = surroundings.around(surroundings.AIRFOIL, section, 2000, 0)
    assert not (np.asarray(igl.winding_number(section.points, section.cells, cloud.points)) > 0.5).any()
    assert distance.nearest(section, cloud.points).distance == pytest.approx(cloud.distance)


def test_polars_show_how_far_drag_may_be_off_in_every_curve_of_it():
    lifts, drags = (0.0, 0.5, 1.0), (0.008, 0.009, 0.012)
    rows: list[Any] = [
        {"alpha": float(i), "cl": cl, "cl_low": cl - 0.1, "cl_high": cl + 0.1, "cd": cd, "cd_low": cd - 1e-3,
         "cd_high": cd + 2e-3}
        for i, (cl, cd) in enumerate(zip(lifts, drags, strict=True))
    ]  # fmt: skip
    for panel, across, along in ((Panel("alpha", "cd"), 1, 0), (Panel("cd", "cl"), 0, 1)):
        outline = panel.band(rows)
        assert outline is not None
        np.testing.assert_allclose(outline[across], [0.007, 0.008, 0.011, 0.014, 0.011, 0.010])
        there = [0.0, 1.0, 2.0] if panel.x == "alpha" else lifts
        np.testing.assert_allclose(outline[along], [*there, *reversed(there)])
    np.testing.assert_allclose(Panel("alpha", "cl").band(rows)[1][:3], [-0.1, 0.4, 0.9])
    rows[1]["cd_low"] = None  # nothing can be said of one state
    assert Panel("cd", "cl").band(rows) is None
    assert Panel("alpha", "cm").band(rows) is None
