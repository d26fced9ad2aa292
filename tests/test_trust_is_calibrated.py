"""Shapes like the training set's are inside 95 times of 100; strange shapes and streams are not, and it is said why."""

import json

import numpy as np
import pyvista as pv

from aerosurrogate.trust.familiarity import Evidence, disagreement, fit, judge, shape_measures

RANDOM = np.random.default_rng(7)
MIXING = RANDOM.normal(size=(6, 40))  # features live near a few main axes, as a network's do


def familiar(count: int) -> list[Evidence]:
    """Cases whose features, shape and conditions are drawn from one distribution."""
    latent = RANDOM.normal(size=(count, 6))
    features = latent @ MIXING + 0.05 * RANDOM.normal(size=(count, 40))
    return [
        Evidence(
            features=row,
            conditions={"log10_reynolds": RANDOM.uniform(6.5, 7.1)},
            shape={"height": RANDOM.uniform(0.28, 0.42), "front": RANDOM.uniform(0.08, 0.14)},
            disagreement={"cd": RANDOM.normal(0.1, 0.03)},
        )
        for row in features
    ]


def test_held_out_shapes_of_the_family_are_inside_and_the_statistics_survive_json():
    known = json.loads(json.dumps(fit(familiar(300), familiar(200)), allow_nan=False))
    marks = [judge(known, e).mark for e in familiar(1000)]
    assert 0.92 <= marks.count("inside") / 1000 <= 0.98
    assert marks.count("outside") <= 10


def test_every_sign_alone_is_enough_and_is_named():
    known = fit(familiar(300), familiar(100))
    usual = Evidence(np.zeros(40), {"log10_reynolds": 6.8}, {"height": 0.35, "front": 0.11}, {"cd": 0.1})
    assert judge(known, usual).mark == "inside"
    strange = {
        "Reynolds": Evidence(np.zeros(40), {"log10_reynolds": 8.5}, usual.shape, usual.disagreement),
        "height over length": Evidence(np.zeros(40), usual.conditions, {"height": 1.0, "front": 0.11}, {"cd": 0.1}),
        "learned features": Evidence(20 * MIXING[0], usual.conditions, usual.shape, usual.disagreement),
        "routes to drag": Evidence(np.zeros(40), usual.conditions, usual.shape, {"cd": 0.9}),
    }
    off_axes = RANDOM.normal(size=40)
    strange["of the skin are"] = Evidence(off_axes, usual.conditions, usual.shape, usual.disagreement)
    for words, evidence in strange.items():
        verdict = judge(known, evidence)
        assert verdict.mark == "outside", words
        assert words in verdict.reasons[0]


def test_a_few_cases_alone_do_not_say_how_far_off_them_others_lie():
    """Four cases span three axes and lie on them to round-off, which is no measure of anything."""
    known = fit(familiar(4), [])
    verdicts = [judge(known, e) for e in familiar(20)]
    assert max(verdict.score for verdict in verdicts) < 100
    assert not any("spans" in reason for verdict in verdicts for reason in verdict.reasons)
    assert "spans" in " ".join(judge(fit(familiar(40), []), Evidence(RANDOM.normal(size=40), {}, {})).reasons)


def test_measures_of_a_ball_and_of_a_box_are_those_of_geometry():
    ball = pv.Icosphere(radius=0.5, nsub=5).compute_normals(cell_normals=True, point_normals=False)
    areas = ball.compute_cell_sizes()["Area"]
    found = shape_measures(ball.cell_centers().points, ball.cell_data["Normals"], areas)
    expected = {"skin": np.pi, "volume": np.pi / 6, "height": 1.0, "width": 1.0, "clearance": -0.5, "lean": 0.0}
    expected |= dict.fromkeys(("front", "profile", "plan"), np.pi / 4)
    for name, value in expected.items():
        assert abs(found[name] - value) < 0.01 * abs(value) + 2e-3, name


def test_routes_that_agree_do_not_disagree():
    assert disagreement({"cd": 0.3, "cl": 0.1}, {"cd": 0.3, "cl": 0.1}) == {"cd": 0.0, "cl": 0.0}
    assert disagreement({"cd": 0.3}, {"cd": 0.15})["cd"] > 0.6
