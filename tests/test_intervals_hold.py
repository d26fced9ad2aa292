"""90 % intervals hold for 90 of 100 cases they were not fitted to, travel with the fields, and can be missing."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
from scipy.stats import t as student
from small_models import ask_few_places, judged_surrogate

from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.data.store import Dataset
from aerosurrogate.evaluate import evaluate
from aerosurrogate.flow_fields import interval
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.write import write_mesh
from aerosurrogate.predict import Predictor, predict
from aerosurrogate.surrogate import Surrogate, read_header, shipped_models
from aerosurrogate.trust import familiarity, intervals
from aerosurrogate.trust.intervals import Error, Sample, Uncertainty, bounds, cross_checked, fit, uncertainty

ROOT = Path(__file__).parents[1]
RANDOM = np.random.default_rng(3)
MIXING = RANDOM.normal(size=(4, 20))


def sections(count: int) -> Sample:
    """Sections whose drag is the more uncertain the further out their features lie, and beyond the stall."""
    latent = RANDOM.normal(size=(count, 4))
    angles = RANDOM.uniform(-5, 17, count)
    far = np.linalg.norm(latent, axis=1) / 2
    size = np.where(np.abs(angles) > intervals.STALL, 0.15, 0.02) * far
    found = [
        familiarity.Evidence(row, {"alpha": float(angle)}, {"thickness": 0.12}, {"cd": 0.0})
        for row, angle in zip(latent @ MIXING, angles, strict=True)
    ]
    errors = {"cd": (size * RANDOM.standard_t(5, count)).tolist(), "cl": RANDOM.normal(0, 0.02, count).tolist()}
    return Sample(found, errors)


@pytest.fixture(scope="module")
def known() -> dict:
    return familiarity.fit(sections(300).evidence, sections(100).evidence)


def test_the_next_case_lies_within_nine_times_of_ten_on_either_side_of_the_stall(known):
    calibration = json.loads(json.dumps(fit(known, sections(300), sections(300)), allow_nan=False))
    later = sections(3000)
    stalled = np.array([abs(e.conditions["alpha"]) > intervals.STALL for e in later.evidence])
    for key in ("cd", "cl"):
        half = np.array(
            [intervals.DEVIATIONS * getattr(uncertainty(calibration, known, e), key).deviation for e in later.evidence]
        )
        covered = np.abs(later.errors[key]) <= half
        assert 0.85 <= covered[~stalled].mean() <= 0.94
        assert 0.83 <= covered[stalled].mean() <= 0.96
    # Wider where it must be: narrower on average than one width for all that covers as much.
    drag = [intervals.DEVIATIONS * uncertainty(calibration, known, e).cd.deviation for e in later.evidence]
    assert np.mean(drag) < 0.95 * np.quantile(np.abs(later.errors["cd"]), 0.9)


def test_folds_tell_what_later_cases_confirm(known):
    ratios = cross_checked(known, sections(300), sections(300))
    for key in ("cd", "cl"):
        assert 0.86 <= np.mean(np.abs(ratios[key]) <= 1) <= 0.94


def test_few_held_out_cases_give_wide_intervals_and_fewer_none(known):
    several, few = sections(200), sections(3)
    small = fit(known, Sample(few.evidence, {key: [0.01, -0.01, 0.01] for key in ("cd", "cl")}))
    same = fit(known, Sample(several.evidence, {key: [0.01] * 200 for key in ("cd", "cl")}))
    assert small["cl"]["half"][0] > same["cl"]["half"][0]
    assert fit(known, sections(2)) is None


def test_errors_that_go_together_are_found_to_do_so(known):
    sample = sections(150)
    places = np.array([familiarity.place(known, e.features) for e in sample.evidence])
    together = intervals.correlation(Error(1.0, 0.1, 0.8, 1.0), places)
    draw = np.linalg.cholesky(together) @ RANDOM.normal(size=150)
    errors = {"cd": (0.05 * draw).tolist(), "cl": RANDOM.normal(0, 0.02, 150).tolist()}
    found = fit(known, Sample(sample.evidence, errors))
    assert found["cd"]["near"] > 0.3
    assert 0.7 <= found["cd"]["reach"] <= 2.0
    assert found["cl"]["near"] < found["cd"]["near"]


def test_shapes_of_other_makers_widen_the_intervals_and_leave_the_order_alone(known):
    own, training, foreign = sections(200), sections(200), sections(100)
    low = Sample(foreign.evidence, {"cd": [e + 0.3 for e in foreign.errors["cd"]], "cl": foreign.errors["cl"]})
    alone, both = fit(known, own, training), fit(known, own, training, low)
    assert both["cases"] == 300
    mean = [
        np.mean([uncertainty(calibration, known, e).cd.deviation for e in own.evidence])
        for calibration in (alone, both)
    ]
    assert mean[1] > 2 * mean[0]
    ratios = cross_checked(known, own, training, low)["cd"]
    assert np.mean(np.abs(ratios[200:]) <= 1) == pytest.approx(0.9, abs=0.05)  # they are covered by themselves
    assert np.mean(np.abs(ratios[:200]) <= 1) > 0.98
    far_apart = [size**2 * (2 - 2 * each["cd"]["common"]) for size, each in zip(mean, (alone, both), strict=True)]
    assert far_apart[1] == pytest.approx(far_apart[0])  # the variance of the difference of two designs


def test_heavy_tails_are_found_and_hold_as_much_at_the_same_width(known):
    sample = sections(400)
    errors = {"cd": (0.05 * RANDOM.standard_t(2, 400)).tolist(), "cl": RANDOM.normal(0, 0.02, 400).tolist()}
    found = fit(known, Sample(sample.evidence, errors))
    assert found["cd"]["tail"] <= 4 < 10 <= found["cl"]["tail"]
    for tail in (2.0, 6.0, intervals.NORMAL):
        reach = intervals.DEVIATIONS * intervals.stretch(tail)
        assert np.diff(student.cdf([-reach, reach], tail)) == pytest.approx(intervals.LEVEL, abs=1e-6)
        values = np.linspace(-9, 9, 31)
        np.testing.assert_allclose(intervals.below(values, tail), student.cdf(values, tail), atol=1e-6)


def test_beyond_inside_both_routes_belong_to_it_and_what_cannot_be_said_is_not():
    size = Uncertainty(Error(0.05, 0.1, 0.5, 1.0), Error(0.02, 0.1, 0.5, 1.0), ())
    best, whole = {"cd": 0.3, "cl": 0.1}, {"cd": 0.5, "cl": -0.2}
    inside = bounds(size, best, [whole], "inside", 2.0)
    assert inside["cd_high"] == pytest.approx(0.3 * math.exp(intervals.DEVIATIONS * 0.05))
    assert inside["cl_high"] - inside["cl_low"] == pytest.approx(4 * intervals.DEVIATIONS * 0.02)
    near = bounds(size, best, [whole], "near", 1.0)
    assert near["cd_low"] == pytest.approx(0.3 / math.exp(intervals.DEVIATIONS * 0.05))
    assert near["cd_high"] == pytest.approx(0.5 * math.exp(intervals.DEVIATIONS * 0.05))
    assert near["cl_low"] == pytest.approx(-0.2 - intervals.DEVIATIONS * 0.02)
    assert bounds(size, best, [{"cd": -0.1, "cl": 0.1}], "near", 1.0)["cd_low"] == 0
    lost = replace(size, cd=replace(size.cd, deviation=0.6))
    assert set(bounds(lost, best, [whole], "outside", 1.0).values()) == {None}
    assert set(bounds(None, best, [whole], "inside", 1.0).values()) == {None}
    assert Uncertainty.of(json.loads(json.dumps(asdict(size)))) == size


def test_a_table_never_shows_a_number_without_what_is_known_of_its_error():
    row = {"cd": 0.227, "cd_low": 0.2, "cd_high": 0.256, "trust": "inside", "known": False, "area": "silhouette"}
    row |= {"model": "car"}
    assert interval(row, "cd") == "0.227 ± 0.028"
    # Up to where the other route is, further than down: the truth may lie at 0.34.
    assert interval(row | {"trust": "near", "cd_high": 0.345}, "cd") == "0.227 -0.027 +0.118"
    assert interval(row | {"trust": "outside", "cd_high": 0.9}, "cd") == "0.200 to 0.900"
    assert interval(row | {"cd_low": 0.05, "cd_high": 1.2}, "cd") == "0.050 to 1.200"
    nothing = row | {"cd_low": None, "cd_high": None}
    assert interval(nothing | {"trust": "outside"}, "cd") == "-"
    assert interval(nothing | {"trust": None}, "cd") == "0.2270 ± ?"
    assert interval(nothing | {"trust": None, "model": None}, "cd") == "0.2270"  # integrated from a solver's fields


def test_the_interval_travels_in_the_fields_file(tmp_path, monkeypatch):
    ask_few_places(monkeypatch)
    body = pv.Box((-2, 2, -0.8, 0.8, 0.2, 1.4), level=3).triangulate()
    body.save(tmp_path / "car.stl")
    judged_surrogate(tmp_path).save(tmp_path / "judged.safetensors")
    model, air = str(tmp_path / "judged.safetensors"), StreamOptions(speed=30.0)
    predict([str(tmp_path / "car.stl")], tmp_path / "fields.vtu", air, model=model)
    shape, fields = (
        coeffs([str(tmp_path / name)], CoeffsOptions(air, model=model)).rows[0] for name in ("car.stl", "fields.vtu")
    )
    for key in ("cd", "cl", "cd_low", "cd_high", "cl_low", "cl_high"):
        assert fields[key] == pytest.approx(shape[key], abs=1e-6), key
    assert shape["cd_low"] < shape["cd"] < shape["cd_high"]
    wide = coeffs([str(tmp_path / "car.stl")], CoeffsOptions(air, area="1.0", model=model)).rows[0]
    silhouette = shape["area_m2"]
    assert wide["cl_high"] - wide["cl"] == pytest.approx((shape["cl_high"] - shape["cl"]) * silhouette)


@pytest.mark.parametrize("name", sorted(shipped_models()))
def test_the_shipped_models_cover_nine_of_ten_held_out_cases_in_every_group(name):
    header = read_header(shipped_models()[name])
    cases = header["calibration"]["cases"]
    assert cases >= 15
    figures = header["card"]["intervals"]
    foreign = figures.get("foreign_cases", 0)
    assert figures["cases"] + foreign == cases
    assert foreign >= 40
    covered = {key: value for key, value in figures.items() if "coverage" in key and "foreign" not in key}
    assert len(covered) == (6 if name == "airfoil" else 2)
    for key, value in covered.items():
        other = figures.get(f"{key}_foreign")
        # They are as wide as those ask for who ask for more: they are covered nine times of ten, the others more often.
        least, count = min((value, figures["cases"]), (1.0 if other is None else other, foreign))
        luck = 1.7 * (0.9 * 0.1 / count) ** 0.5  # of few cases, that one more or less lies within
        assert least - 0.9 >= -max(0.03, luck), key
        assert least - 0.9 <= max(0.03, luck) or other is None, key


def test_a_car_turned_against_the_stream_is_not_inside(tmp_path):
    predictor = Predictor("car")
    marks = {}
    for yaw in (0, 2, 5):
        surface = read_surface(str(ROOT / "sample_meshes" / "car.stl"))
        c, s = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
        turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        write_mesh(surface.transformed(turn, np.zeros(3)), tmp_path / "car.stl")
        found = predictor.predict(str(tmp_path / "car.stl"), StreamOptions(speed=30.0)).verdict
        marks[yaw] = found.mark
        assert yaw == 0 or any("angle between body and stream" in reason for reason in found.reasons)
    assert marks == {0: "inside", 2: "near", 5: "outside"}


def test_evaluate_prints_the_coverage_of_its_split():
    dataset = Dataset(ROOT / "datasets" / "sections_rans")
    found = evaluate(Surrogate.load("airfoil", "cpu"), dataset, dataset.names("full_test")[:6])
    covered = [row["cd_low"] <= row["cd"] <= row["cd_high"] for row in found.rows]
    assert found.figures["cd_coverage"] == pytest.approx(np.mean(covered))
    assert found.figures["cl_half_width"] > 0
    assert not any(key.endswith(("_low", "_high", "silhouette")) for key in found.figures)
