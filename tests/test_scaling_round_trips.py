"""Scaling: what the model sees and answers is the case itself, in other units."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from joukowski import joukowski_case
from small_models import made_up_case

from aerosurrogate.conditions import Conditions
from aerosurrogate.data.case import Case
from aerosurrogate.data.sampling import by_area, mirrored
from aerosurrogate.data.scaling import Places, Scaling
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.read import read_surface

CASES = [joukowski_case(f"c{i}", 0.1 + 0.01 * i, 0.02, i, 30.0 + 10 * i) for i in range(4)]
INPUTS = [
    "position_per_length", "nearest_per_length", "nearest_waves", "normal", "log_distance", "surface", "stream",
    "log_reynolds",
]  # fmt: skip
FIELDS = ["p", "U", "wallShearStress"]
SAMPLE = Path(__file__).parents[1] / "sample_meshes" / "ahmed_25.stl"


def fitted(kind: str, **options: object) -> Scaling:
    return Scaling.fit(CASES, inputs=INPUTS, fields=FIELDS, coefficients=["lift", "log_drag"], kind=kind, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["nondimensional", "standardised", "raw"])
def test_fields_come_back(kind: str) -> None:
    scaling, case = Scaling.from_document(fitted(kind).document()), CASES[2]
    fields = scaling.fields(scaling.targets(case), case.surface, case.conditions)
    for name in FIELDS:
        np.testing.assert_allclose(fields[name], case.fields[name], atol=2e-6 * np.abs(case.fields[name]).max())


def test_scaled_values_have_mean_zero_and_spread_one_where_they_count() -> None:
    scaling = fitted("nondimensional")
    targets = np.concatenate([scaling.targets(case) for case in CASES])
    surface = np.concatenate([case.surface for case in CASES])
    shear = targets[:, scaling.columns()["wallShearStress"]]
    assert not shear[~surface].any()
    for values in (targets[:, :3], shear[surface]):
        np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-4)
        np.testing.assert_allclose(values.std(axis=0), 1, atol=1e-3)


def test_a_component_that_is_zero_is_scaled_like_the_vector() -> None:
    rng = np.random.default_rng(0)
    velocity = rng.normal(size=(200, 3)).astype(np.float32) * [30.0, 5.0, 1e-6]  # zero but for rounding
    fields = {"U": velocity.astype(np.float32)}
    case = Case("flat", rng.random((200, 3), np.float32), np.zeros(200, bool), fields)
    scaling = Scaling.fit([case], inputs=["position"], fields=["U"])
    assert np.abs(scaling.targets(case)[:, 2]).max() < 1e-5
    assert scaling.targets(case)[:, 1].std() == pytest.approx(1.0, rel=1e-3)  # small, but a component of its own


def test_nondimensional_form_does_not_know_speed_density_or_size() -> None:
    scaling, case = fitted("nondimensional"), CASES[1]
    assert case.conditions is not None
    stream = case.conditions
    larger = replace(
        case,
        points=case.points * 3,
        distance=None if case.distance is None else case.distance * 3,
        fields={
            "p": case.fields["p"] * 8,
            "U": case.fields["U"] * 2,
            "wallShearStress": case.fields["wallShearStress"] * 8,
        },
        conditions=replace(
            stream, speed=stream.speed * 2, density=stream.density * 2, length=3.0, viscosity=stream.viscosity * 6
        ),
        reference={**case.reference, "area": 3.0},
    )
    np.testing.assert_allclose(scaling.targets(larger), scaling.targets(case), atol=1e-5)
    np.testing.assert_allclose(scaling.inputs(Places.of(larger)), scaling.inputs(Places.of(case)), atol=1e-4)
    np.testing.assert_allclose(scaling.coefficient_targets(larger), scaling.coefficient_targets(case), atol=1e-5)


def test_coefficients_come_back() -> None:
    scaling = fitted("nondimensional")
    for case in CASES:
        assert case.silhouette is not None
        areas = scaling.force_areas(scaling.coefficient_targets(case), case.silhouette)
        assert areas["drag"] == pytest.approx(case.reference["cd"], rel=1e-5)
        assert areas["lift"] == pytest.approx(case.reference["cl"], rel=1e-5)


def test_the_head_learns_forces_per_silhouette_whatever_the_reference_area() -> None:
    box, stream = read_surface(str(SAMPLE)), Conditions(speed=30.0, length=1.0, ground=True)
    cars = [made_up_case(box, stream, seed) for seed in range(3)]
    scaling = Scaling.fit(cars, inputs=["position"], fields=["p"], coefficients=["lift", "log_drag"])
    car = cars[1]
    assert car.silhouette == car.reference["area"]
    half, twice = 0.5 * car.reference["cd"], 2 * car.reference["area"]
    other = {"cd": half, "cl": 0.5 * car.reference["cl"], "area": twice, "silhouette": car.silhouette}
    same = replace(car, reference=other)
    np.testing.assert_allclose(scaling.coefficient_targets(same), scaling.coefficient_targets(car), atol=1e-6)
    areas = scaling.force_areas(scaling.coefficient_targets(same), car.silhouette)
    assert areas["drag"] == pytest.approx(half * twice, rel=1e-5)


def test_the_nearest_place_lies_on_the_skin() -> None:
    case = CASES[0]
    scaling = fitted("raw", scale_inputs="none")
    nearest = scaling.inputs(Places.of(case))[:, 2:4]
    skin = case.points[case.surface]
    gaps = np.linalg.norm(nearest[:, None] - skin[None], axis=2).min(axis=1)
    assert gaps.max() < 1e-5


def test_waves_of_the_nearest_place_come_in_octaves_of_the_body_length() -> None:
    scaling = fitted("raw", scale_inputs="none")
    inputs = scaling.inputs(Places.of(CASES[0]))
    nearest, waves = inputs[:, 2:4], inputs[:, 4:20].reshape(-1, 2, 4, 2)  # sine and cosine, octave, direction
    for octave, length in enumerate((1, 1 / 2, 1 / 4, 1 / 8)):
        turns = 2 * np.pi * nearest / length
        np.testing.assert_allclose(waves[:, 0, octave], np.sin(turns), atol=2e-5)
        np.testing.assert_allclose(waves[:, 1, octave], np.cos(turns), atol=2e-5)


def test_unknown_names_are_refused_with_the_right_ones() -> None:
    with pytest.raises(InputError, match="position"):
        Scaling.fit(CASES, inputs=["positoin"], fields=["p"])
    with pytest.raises(InputError, match="wallShearStress"):
        Scaling.fit(CASES, inputs=["position"], fields=["pressure"])


def test_skin_is_drawn_by_area() -> None:
    areas = np.array([1.0, 2.0, 5.0, 12.0])
    drawn = by_area(areas, 40, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(drawn), areas * 2, atol=1)


def test_a_mirrored_case_is_a_solution_of_its_own() -> None:
    up, down = CASES[3], mirrored(CASES[3])
    assert down.conditions is not None
    assert up.conditions is not None
    assert down.conditions.alpha == -up.conditions.alpha
    assert down.reference["cl"] == -up.reference["cl"]
    skin = down.surface
    assert down.normals is not None
    assert down.areas is not None
    force = (-down.fields["p"] * down.normals + down.fields["wallShearStress"])[skin] * down.areas[skin, None]
    lift = force.sum(axis=0) @ [-down.conditions.direction(2)[1], down.conditions.direction(2)[0]]
    assert lift / down.conditions.dynamic_pressure == pytest.approx(down.reference["cl"], rel=1e-4)
