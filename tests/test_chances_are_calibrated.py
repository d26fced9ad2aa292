"""Statements about which design is better come true as often as they say; known values move what they should."""

import json
import math
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import pyvista as pv
from scipy.stats import norm
from small_models import judged_surrogate, save_small
from typer.testing import CliRunner

from aerosurrogate.cli import app
from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.decision import chances
from aerosurrogate.decision.chances import Joint
from aerosurrogate.decision.decide import decide
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import Row
from aerosurrogate.trust.intervals import NORMAL, stretch

RANDOM = np.random.default_rng(11)


def joint(count: int, own: float = 0.03, common: float = 0.05) -> Joint:
    return Joint("cd", np.log(RANDOM.uniform(0.25, 0.29, count)), own**2 * np.eye(count) + common**2)


def test_of_what_is_said_with_a_chance_so_many_come_true():
    said, came = [], []
    best_said, best_came = [], []
    for _ in range(60):
        found = joint(8)
        truth = RANDOM.multivariate_normal(found.mean, found.covariance)
        below = found.below()
        i, j = np.triu_indices(8, 1)
        said += below[i, j].tolist()
        came += (truth[i] < truth[j]).tolist()
        ranks = np.argsort(np.argsort(truth)) + 1
        for place, (row, rank) in enumerate(zip(chances.order(found), ranks, strict=True)):
            best_said.append(row["chance_best"])
            best_came.append(rank == 1)
            assert 1 <= row["rank_low"] <= row["rank_high"] <= 8, place
    sure = np.maximum(said, 1 - np.array(said))
    right = (np.array(said) > 0.5) == np.array(came)
    for low, high in ((0.5, 0.65), (0.65, 0.8), (0.8, 0.95), (0.95, 1.01)):
        group = (low <= sure) & (sure < high)
        assert abs(sure[group].mean() - right[group].mean()) < 0.07
    assert sum(best_said) == pytest.approx(60, abs=0.01)
    likely = np.array(best_said) > 0.3
    assert abs(np.array(best_said)[likely].mean() - np.array(best_came)[likely].mean()) < 0.12


def test_heavy_tails_make_sure_statements_less_sure_and_unsure_ones_surer():
    said, came, normal = [], [], []
    for _ in range(400):
        found = replace(joint(8, own=0.02), tail=2.0)
        draw = RANDOM.multivariate_normal(np.zeros(8), found.covariance) / stretch(2.0)
        truth = found.mean + draw * math.sqrt(2 / RANDOM.chisquare(2))
        i, j = np.triu_indices(8, 1)
        said += found.below()[i, j].tolist()
        normal += replace(found, tail=NORMAL).below()[i, j].tolist()
        came += (truth[i] < truth[j]).tolist()

    def right(chances: list[float], low: float, high: float) -> float:
        sure = np.maximum(chances, 1 - np.array(chances))
        group = (low <= sure) & (sure < high)
        return float(np.mean(((np.array(chances) > 0.5) == np.array(came))[group]))

    assert 0.76 < right(said, 0.75, 0.85) < 0.84
    assert right(normal, 0.65, 0.75) > right(said, 0.65, 0.75)
    drawn = chances.order(replace(joint(3), tail=2.0))
    assert sum(row["chance_best"] for row in drawn) == pytest.approx(1)


def test_where_routes_disagree_chances_are_less_sure_too(cars):
    options = CoeffsOptions(StreamOptions(speed=30.0), model=str(cars / "model.safetensors"))
    ranking = coeffs([str(cars / "middle.stl"), str(cars / "high.stl")], options)
    designs = [ranking.designs[row["file"]] for row in ranking.rows]
    plain = Joint.over(ranking.rows, designs, "cd")
    wide = [cast(Row, {**row, "cd_high": 1.4 * row["cd_high"]}) for row in ranking.rows]
    assert np.all(Joint.over(wide, designs, "cd").deviations > 1.2 * plain.deviations)
    open_below = [cast(Row, {**row, "cd_low": 0.0}) for row in ranking.rows]
    assert np.all(np.isfinite(Joint.over(open_below, designs, "cd").covariance))


def test_two_designs_have_the_closed_form_and_a_common_error_does_not_matter():
    found = Joint("cd", np.log([0.25, 0.26]), np.array([[2.0, 1.5], [1.5, 2.0]]) * 1e-3)
    expected = norm.cdf(math.log(0.26 / 0.25) / math.sqrt(1e-3))
    assert found.below()[0, 1] == pytest.approx(expected)
    assert found.below()[1, 0] == pytest.approx(1 - expected)
    shifted = Joint("cd", found.mean, found.covariance + 0.1)
    assert shifted.below()[0, 1] == pytest.approx(expected)
    first, second = chances.order(found)
    assert first["chance_best"] == pytest.approx(expected, abs=0.03)
    assert second == chances.order(found, largest=True)[1] | {"chance_best": second["chance_best"]}
    certain = chances.order(Joint("cd", np.log([0.2, 0.3, 0.4]), np.zeros((3, 3))))
    assert [row["rank_low"] for row in certain] == [row["rank_high"] for row in certain] == [1, 2, 3]
    assert [row["chance_best"] for row in certain] == [1, 0, 0]


def test_a_known_value_stands_and_moves_the_designs_that_share_its_error():
    own = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]]) * 0.05**2
    before = Joint("cd", np.log([0.25, 0.25, 0.25]), own)
    after = before.given({0: 0.26})
    assert math.exp(after.mean[0]) == pytest.approx(0.26)
    assert after.deviations[0] == 0
    assert 0.255 < math.exp(after.mean[1]) < 0.26
    assert abs(math.exp(after.mean[2]) - 0.25) < 0.003
    assert after.deviations[1] < 0.6 * before.deviations[1]


def test_a_family_whose_known_members_are_all_off_alike_is_off_alike():
    """Coverage of what is left holds, with and without an error that the whole family shares."""
    for bias in (0.0, 0.15):
        covered, errors, before = [], [], []
        for _ in range(200):
            found = Joint("cd", np.log(np.full(12, 0.3)), 0.04**2 * (0.9 * np.eye(12) + 0.1))
            truth = RANDOM.multivariate_normal(found.mean, found.covariance) + bias
            after = found.given({i: math.exp(truth[i]) for i in range(4)})
            left = np.abs(after.mean - truth)[4:]
            covered.append(np.mean(left <= 1.645 * after.deviations[4:]))
            errors.append(left.mean())
            before.append(np.abs(found.mean - truth)[4:].mean())
        assert 0.85 <= np.mean(covered) <= 0.96
        assert np.mean(errors) < (1.03 if bias == 0 else 0.35) * np.mean(before)


def test_what_is_suggested_could_change_the_choice():
    mean = np.log([0.250, 0.252, 0.254, 0.400])
    found = chances.suggest(Joint("cd", mean, np.diag([0.001, 0.03, 0.02, 0.03]) ** 2), 2)
    assert [i for i, _ in found] == [1, 2]
    assert found[0][1] > found[1][1] >= 0
    assert chances.suggest(Joint("cd", mean, np.zeros((4, 4))), 2) == []


@pytest.fixture(scope="module")
def cars(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cars")
    judged_surrogate(folder).save(folder / "model.safetensors")
    for name, height in (("low", 1.2), ("middle", 1.35), ("high", 1.5)):
        pv.Box((-2, 2, -0.76, 0.76, 0.2, height), level=3).triangulate().save(folder / f"{name}.stl")
    return folder


def asked(cars, *words: object) -> dict:
    files = [cars / f"{name}.stl" for name in ("low", "middle", "high")]
    line = ["coeffs", *files, "--model", cars / "model.safetensors", "--speed", 30, *words, "--json", "--quiet"]
    result = CliRunner().invoke(app, [str(word) for word in line])
    if result.exception is not None:
        raise result.exception
    return json.loads(result.stdout)


def test_every_row_stands_beside_the_baseline(cars):
    rows = {row["name"]: row for row in asked(cars, "--baseline", cars / "low.stl")["designs"]}
    base = rows["low"]
    assert (base["cd_counts"], base["chance_better"]) == (0, None)
    for row in rows.values():
        assert row["cd_counts"] == pytest.approx(1000 * (row["cd"] - base["cd"]))
        assert row["cd_percent"] == pytest.approx(100 * (row["cd"] / base["cd"] - 1))
        assert row["cd_counts_low"] <= row["cd_counts"] <= row["cd_counts_high"]
        assert row is base or (row["chance_better"] > 0.5) == (row["cd_counts"] < 0)
    assert sum(row["chance_best"] for row in rows.values()) == pytest.approx(1)


def test_known_values_are_shown_and_others_learn_from_them(cars, tmp_path):
    plain = {row["name"]: row for row in asked(cars)["designs"]}
    table = tmp_path / "solved.csv"
    value = 1.02 * plain["low"]["cd"]
    table.write_text(f"name,cd\nlow,{value}\nhigh,{1.02 * plain['high']['cd']}\nother,0.3\n")
    found = asked(cars, "--known", table, "--suggest", 1)
    rows = {row["name"]: row for row in found["designs"]}
    assert rows["low"]["known"]
    assert rows["low"]["cd"] == rows["low"]["cd_low"] == rows["low"]["cd_high"] == pytest.approx(value)
    assert rows["low"]["drag_n"] == pytest.approx(value * plain["low"]["drag_n"] / plain["low"]["cd"])
    assert rows["low"]["cl"] == plain["low"]["cl"]
    assert not rows["middle"]["known"]
    assert rows["middle"]["cd"] > plain["middle"]["cd"]
    width, before = (math.log(r["middle"]["cd_high"] / r["middle"]["cd_low"]) for r in (rows, plain))
    assert width < before
    assert found["suggested"][0]["name"] == "middle"
    assert found["suggested"][0]["command"].startswith("aerosurrogate simulate ")


def test_bad_words_are_answered_with_one_message(cars, tmp_path):
    (tmp_path / "none.csv").write_text("name,cd\nother,0.3\n")
    (tmp_path / "broken.stl").write_text("solid nothing")
    with pytest.raises(InputError, match="no design of the ranking is named"):
        asked(cars, "--known", tmp_path / "none.csv")
    for value, words in (("nan", "cannot be"), ("-0.3", "cannot be"), ("0", "cannot be"), ("300", "another size")):
        (tmp_path / "absurd.csv").write_text(f"name,cd\nlow,{value}\n")
        with pytest.raises(InputError, match=words):
            asked(cars, "--known", tmp_path / "absurd.csv")
    with pytest.raises(InputError, match="no such file or folder"):
        asked(cars, "--known", tmp_path / "nowhere")
    with pytest.raises(InputError, match="no known values"):
        asked(cars, "--known", cars / "low.stl")
    with pytest.raises(InputError, match="the baseline cannot be used"):
        asked(cars, "--baseline", tmp_path / "broken.stl")
    with pytest.raises(InputError, match="the baseline cannot be used, no such file"):  # before any design is read
        asked(cars, "--baseline", tmp_path / "nowhere.stl", "--model", tmp_path / "not_looked_for")


def test_designs_without_an_interval_take_no_part(cars):
    options = CoeffsOptions(StreamOptions(speed=30.0), model=str(cars / "model.safetensors"))
    ranking = coeffs([str(cars / "low.stl"), str(cars / "high.stl")], options)
    rows = [{**row, "cd_low": None, "cd_high": None} if row["name"] == "low" else row for row in ranking.rows]
    found, _ = decide(rows, ranking.designs, baseline=str(cars / "low.stl"))
    by_name = {row["name"]: row for row in found}
    assert by_name["high"]["chance_best"] == 1
    assert by_name["low"]["rank"] in (1, 2)
    assert by_name["high"]["chance_better"] is None


def test_what_a_solver_left_is_known_whatever_its_form(cars, tmp_path):
    options = CoeffsOptions(StreamOptions(speed=30.0), model=str(cars / "model.safetensors"))
    ranking = coeffs([str(cars / "low.stl")], options)
    design, row = next(iter(ranking.designs.values())), ranking.rows[0]
    # A folder of `simulate`: coefficients over its own reference area.
    run = tmp_path / "solved" / "runs" / "case"
    run.mkdir(parents=True)
    task = {"file": str(cars / "low.stl"), "conditions": {"alpha": 0.0, "speed": 30.0}}
    record = {"name": "case", "state": "converged", "design": task}
    record["reference"] = {"cd": 0.2, "cl": 0.1, "area": 2 * row["area_m2"]}
    (run / "record.json").write_text(json.dumps(record))
    found = asked(cars, "--known", tmp_path / "solved")["designs"]
    assert next(r for r in found if r["name"] == "low")["cd"] == pytest.approx(0.4)
    (run / "record.json").write_text(json.dumps(record | {"state": "failed"}))
    with pytest.raises(InputError, match="no case of this folder has converged"):
        asked(cars, "--known", tmp_path / "solved")
    # A solver's fields, integrated; a model's own are no knowledge.
    replace(design, model=None, direct={}, uncertainty=None, verdict=None).save(tmp_path / "low.vtu")
    found = asked(cars, "--known", tmp_path / "low.vtu")["designs"]
    assert next(r for r in found if r["name"] == "low")["cd"] == pytest.approx(row["cd_integrated"], abs=1e-6)
    design.save(tmp_path / "predicted.vtu")
    with pytest.raises(InputError, match="not known ones"):
        asked(cars, "--known", tmp_path / "predicted.vtu")


def test_a_section_does_not_compete_with_cars(cars, tmp_path):
    save_small(tmp_path, 2)
    section = coeffs(["naca2412"], CoeffsOptions(StreamOptions(alpha=2.0), model=str(tmp_path / "small2.safetensors")))
    options = CoeffsOptions(StreamOptions(speed=30.0), model=str(cars / "model.safetensors"))
    bodies = coeffs([str(cars / "low.stl"), str(cars / "high.stl")], options)
    flat = cast(Row, {**section.rows[0], "model": None})
    found, _ = decide([flat, *bodies.rows], section.designs | bodies.designs, suggest=2)
    assert [row["chance_best"] for row in found if row["name"] == "naca2412"] == [1]
    assert sum(row["chance_best"] for row in found if row["name"] != "naca2412") == pytest.approx(1)


def test_what_another_solver_adds_to_sure_designs_it_adds_to_unsure_ones_too():
    """Scaled by how unsure a design is, a solver's 15 % on two sure designs would become 90 % on an unsure one."""
    sizes = np.array([0.01, 0.01, 0.01, 0.06])
    covariance = np.outer(sizes, sizes) * (0.5 + 0.5 * np.eye(4))
    joint = Joint("cd", np.log([0.01, 0.012, 0.011, 0.02]), covariance)
    after = joint.given({0: 0.01 * 1.15, 1: 0.012 * 1.15})
    assert np.exp(after.mean[2:] - joint.mean[2:]) == pytest.approx([1.15, 1.15], rel=0.05)
    assert after.deviations[3] > after.deviations[2]
