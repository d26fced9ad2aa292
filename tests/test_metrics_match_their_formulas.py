"""Figures people decide by, each against its formula worked out by hand."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
import torch
from joukowski import joukowski_case, joukowski_set
from small_models import made_up_case, small_surrogate

from aerosurrogate.body import set_in_stream
from aerosurrogate.conditions import Conditions, StreamOptions
from aerosurrogate.data.scaling import Scaling, natural_unit
from aerosurrogate.data.store import Dataset, Manifest, write_manifest, write_shard
from aerosurrogate.evaluate import CaseResult, Evaluation, evaluate_case, relative_l2, summarise
from aerosurrogate.flow_fields import FlowFields
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.recipe import Training
from aerosurrogate.training.batches import Batches
from aerosurrogate.training.objective import Objective

SAMPLES = Path(__file__).parents[1] / "sample_meshes"


def test_relative_error_is_relative_to_the_truth():
    assert relative_l2(np.array([6.0, 8.0]), np.array([3.0, 4.0])) == pytest.approx(1.0)
    assert relative_l2(np.array([0.0, 0.0]), np.array([3.0, 4.0])) == pytest.approx(1.0)


def rows(true: list[float], predicted: list[float], key: str) -> Evaluation:
    other = {"cd": "cl", "cl": "cd"}[key]
    made = [
        CaseResult(str(i), truth={key: t, other: 1.0 + i}, answers={"head": {key: p, other: 1.0 + i}})
        for i, (t, p) in enumerate(zip(true, predicted, strict=True))
    ]
    result = Evaluation(made)
    summarise(result)
    return result


def test_explained_variance_is_over_the_scatter_of_the_truth():
    result = rows([1.0, 2.0, 3.0, 6.0], [1.0, 2.0, 3.0, 5.0], "cd")
    assert result.figures["R2_cd_head"] == pytest.approx(1 - 1.0 / 14.0)


def test_a_lift_near_zero_has_no_relative_error():
    result = rows([1e-4, 0.5, 1.0], [0.1, 0.55, 1.1], "cl")
    assert result.figures["cl_head_error"] == pytest.approx(0.1)
    drag = rows([0.01, 0.02], [0.011, 0.022], "cd")
    assert drag.figures["cd_head_error"] == pytest.approx(0.1)


def test_turbulent_viscosity_is_made_non_dimensional_by_speed_and_length():
    stream = Conditions(speed=30.0, length=4.0)
    assert natural_unit("nut", stream) == 120.0
    assert natural_unit("p", stream) == pytest.approx(0.5 * 1.225 * 900)
    assert natural_unit("U", stream) == 30.0


def test_the_moment_of_a_section_is_about_a_quarter_of_its_chord():
    # In thin-airfoil theory lift without camber acts there; thickness moves it by a few parts in a thousand.
    case = joukowski_case("thin", 0.04, 0.0, 4.0, 50.0)
    whole = case.coefficients()
    assert whole is not None
    assert whole.cl == pytest.approx(0.45, abs=0.02)
    assert abs(whole.cm) < 0.01 * whole.cl
    body = set_in_stream(read_surface(str(SAMPLES / "naca_2412.dat")), StreamOptions(), "naca_2412.dat")
    assert body.moment_point() == pytest.approx([0.25, 0.0], abs=2e-3)


def test_a_head_answers_forces_and_the_asked_area_makes_coefficients_of_them():
    surface = read_surface(str(SAMPLES / "ahmed_25.stl"))
    body = set_in_stream(surface, StreamOptions(), "ahmed_25.stl")
    stream = Conditions(speed=30.0, length=body.length, ground=True)
    skin = {"p": np.zeros(len(body.surface.cells))}
    flow = FlowFields(
        body, stream, skin, direct={"drag": 0.06, "lift": 0.01}, route={"cd": "head", "cl": "head"}, model="made up"
    )
    row = flow.row("0.5")
    assert (row["cd"], row["cl"]) == pytest.approx((0.12, 0.02))
    assert row["drag_n"] == pytest.approx(0.06 * stream.dynamic_pressure)
    assert flow.row()["cd"] == pytest.approx(0.06 / body.silhouette)


def test_what_a_case_shows_for_trust_does_not_depend_on_its_reference_area(tmp_path):
    cube = pv.Cube(bounds=(-0.5, 0.5, -0.2, 0.2, 0.04, 0.34)).triangulate()
    box = Surface(np.asarray(cube.points, float), np.asarray(cube.regular_faces, np.int64))
    one = made_up_case(box, Conditions(speed=30.0, length=1.0, ground=True))
    one = replace(one, name="over-silhouette", reference=one.reference | {"silhouette": 0.1})
    half = {"cd": one.reference["cd"] / 2, "cl": one.reference["cl"] / 2, "area": 0.2}
    other = replace(one, name="over-twice-that", reference=one.reference | half)
    entries = write_shard(tmp_path / "cases.safetensors", [one, other])
    write_manifest(tmp_path, Manifest(cases=entries, splits={"test": [one.name, other.name]}))
    dataset, surrogate = Dataset(tmp_path), small_surrogate(3)
    first, second = (evaluate_case(surrogate, dataset, name)[0] for name in dataset.names())
    assert second.answers["head"]["cd"] == pytest.approx(first.answers["head"]["cd"] / 2, rel=1e-5)
    shown, again = first.evidence, second.evidence
    assert shown is not None
    assert again is not None
    assert again.disagreement == pytest.approx(shown.disagreement, rel=1e-5)


def test_the_weight_of_the_skin_counts_in_the_relative_loss(tmp_path):
    dataset = Dataset(joukowski_set(tmp_path, 2))
    names = dataset.names()
    scaling = Scaling.fit(
        (dataset.case(n) for n in names), inputs=("position_per_length",), fields=("p",), kind="nondimensional"
    )

    class Nothing(torch.nn.Module):
        def forward(self, inputs, *_, **__):
            return torch.zeros(*inputs.shape[:-1], 1)

    def loss(weight: float) -> float:
        training = Training(steps=1, sampling="rows", surface_weight=weight)
        batch = Batches(dataset, names, scaling, training).make(0)
        return Objective(Nothing(), scaling, training)(batch)["loss"].item()

    none, once, thrice = loss(0.0), loss(1.0), loss(3.0)
    assert once > none
    assert thrice - none == pytest.approx(3 * (once - none), rel=1e-4)


def test_coefficients_of_half_a_body_are_the_whole_ones():
    from test_packed_cases_keep_their_forces import half_body

    half = replace(half_body(faces=600, around=50), reference={"area": 2.0})
    one, both = half.coefficients(), half.whole().coefficients()
    assert one is not None
    assert both is not None
    assert one.cd == pytest.approx(both.cd, rel=1e-4)
    assert not math.isclose(one.cd, replace(half, symmetry=None).coefficients().cd, rel_tol=0.1)  # type: ignore[union-attr]
