"""DrivAerML, AhmedML, WindsorML, DrivAerNet: files in the published form give what they were made with."""

import json

import numpy as np
import published_cars as cars
import pytest
import pyvista as pv
from test_published_flows_are_read import read_one
from typer.testing import CliRunner

from aerosurrogate.cli import app
from aerosurrogate.data.prepare import prepare
from aerosurrogate.data.readers import Options, reader_of, recognise
from aerosurrogate.errors import InputError
from aerosurrogate.forces import integrate
from aerosurrogate.recipe import read_recipe
from aerosurrogate.training.loop import train


def force_of(case):
    skin = case.surface
    shear = case.fields["wallShearStress"][skin]
    found = integrate(case.points[skin], case.normals[skin], case.areas[skin], case.fields["p"][skin], shear)
    return (found.pressure + found.friction) / case.conditions.dynamic_pressure


@pytest.mark.parametrize("keep", [200_000, 400])
def test_a_run_of_drivaerml_has_the_published_forces_whole_and_thinned(tmp_path, keep):
    drag, lift, area = cars.write_drivaerml(tmp_path, 7)
    assert recognise(tmp_path) == "drivaerml"
    case = read_one(tmp_path, "run_7", keep=keep)
    assert (case.conditions.speed, case.conditions.viscosity, case.conditions.ground) == (38.889, 1.507e-5, True)
    assert case.reference["area"] == case.reference["silhouette"] == pytest.approx(area)
    assert case.reference["cd"] == pytest.approx(drag / area, rel=1e-6)
    assert force_of(case)[[0, 2]] == pytest.approx([drag, lift], rel=2e-4)
    assert case.reference["cd_friction"] > 0  # of the fluid on the body, whose sign is not OpenFOAM's
    assert case.points[case.surface][:, 2].min() == pytest.approx(0.2 + 0.084, abs=0.1)  # over the ground at -0.3
    assert case.surface.sum() <= max(keep, 2000)
    assert case.tags["Ramp_Angle"] == "-2.0"


def test_the_air_of_drivaerml_comes_from_parts_with_its_values(tmp_path):
    for number, parts in ((1, 1), (2, 2), (3, 3)):
        cars.write_drivaerml(tmp_path, number, parts=parts)
    first, second, third = (read_one(tmp_path, f"run_{n}", keep=3000) for n in (1, 2, 3))
    for case in (first, second, third):
        around = ~case.surface
        assert around.sum() == 3000
        places = case.points[around] + [2.0, 0.0, -0.3]  # back to the file's frame: mid-length, ground
        middle = case.points[case.surface][:, 0]
        places[:, 0] += (middle.min() + middle.max()) / 2
        assert np.allclose(case.fields["p"][around][:, 0], cars.pressure(places), atol=0.05)
        assert np.allclose(case.fields["U"][around], cars.velocity(places, 38.889), atol=2e-2)
        assert np.allclose(case.fields["nut"][around][:, 0], places[:, 2] + 9, atol=1e-2)


def test_thinned_air_stands_for_all_of_it_and_follows_the_density(tmp_path):
    cars.write_drivaerml(tmp_path, 1)
    whole, thinned = (read_one(tmp_path, "run_1", keep=keep) for keep in (200_000, 400))
    shares = []
    for case in (whole, thinned):
        around = ~case.surface
        near = case.distance[around] < 0.1 * case.conditions.length
        shares.append((case.volumes[around][near].sum(), case.volumes[around].sum(), near.mean()))
    assert shares[1][:2] == pytest.approx(shares[0][:2], rel=0.2)  # the volumes that drawn cells stand for
    assert shares[1][2] > 2.5 * shares[0][2]  # and how many of them are near the wall


def test_ahmedml_and_windsorml_keep_their_own_conventions(tmp_path):
    drag, lift = cars.write_ahmedml(tmp_path / "ahmed", 3)
    assert recognise(tmp_path / "ahmed") == "ahmedml"
    case = read_one(tmp_path / "ahmed", "run_3")
    assert (case.conditions.speed, case.conditions.viscosity) == (1.0, 3.75e-7)
    assert (case.reference["area"], case.reference["silhouette"]) == pytest.approx((0.112, 0.125))
    assert force_of(case)[[0, 2]] == pytest.approx([drag, lift], rel=5e-4)
    assert case.reference["cd"] == pytest.approx(drag / 0.112, rel=1e-6)
    assert "nut" not in case.fields  # the volume has none

    drag, lift = cars.write_windsorml(tmp_path / "windsor", 0)
    assert recognise(tmp_path / "windsor") == "windsorml"
    case = read_one(tmp_path / "windsor", "run_0")
    assert force_of(case)[[0, 2]] == pytest.approx([drag, lift], rel=2e-3)  # lift along the file's y
    assert case.reference["cl"] == pytest.approx(lift / 0.112)
    around = ~case.surface
    assert not case.fields["p"][around].any()
    places = case.points[around]
    assert np.allclose(case.fields["U"][around][:, 2], 2 * places[:, 2], atol=1e-3)  # the file's y component, 2 y
    assert np.allclose(case.fields["U"][around][:, 1], 3 * places[:, 1], atol=1e-3)


def test_drivaernet_matches_shear_to_pressure_and_tables_to_designs(tmp_path):
    names = [f"F_D_WM_WW_{i:04d}" for i in range(1, 6)]
    truths = cars.write_drivaernet(tmp_path, names)
    assert recognise(tmp_path) == "drivaernet"
    case = read_one(tmp_path, names[2])
    skin = case.surface
    assert skin.all()
    q = case.conditions.dynamic_pressure
    found = integrate(case.points, case.normals, case.areas, case.fields["p"])
    assert found.pressure[[0, 2]] / 1.2 == pytest.approx(truths[names[2]], rel=5e-3)
    assert (case.reference["cd"], case.reference["area"]) == (0.27, 2.3)
    assert q == pytest.approx(0.5 * 1.2 * 30**2)
    low, high, *_ = pv.read(next(tmp_path.glob(f"PressureVTK/*/{names[2]}.vtk"))).bounds
    grown = 1 + case.points[:, 0] + (low + high) / 2  # the shear of each point is its own
    assert np.allclose(case.fields["wallShearStress"][:, 0], 1.2 * cars.SHEAR * grown, rtol=1e-3, atol=0.02)
    splits = reader_of("drivaernet").splits(tmp_path, {name: {} for name in names})
    assert splits == {"train": names[:3], "validation": names[3:4], "test": names[4:]}


def test_drivaernet_shear_on_another_mesh_is_refused(tmp_path):
    (name,) = ["F_D_WM_WW_0001"]
    cars.write_drivaernet(tmp_path, [name, "F_D_WM_WW_0002", "F_D_WM_WW_0003"])
    path = next(tmp_path.glob(f"Wall*/*/{name}.vtk"))
    mesh = pv.read(path)
    mesh.points[:50] += 0.1
    mesh.save(path)
    with pytest.raises(InputError, match="another mesh"):
        read_one(tmp_path, name)


def test_splits_that_come_with_a_set_are_taken(tmp_path):
    for number in range(4):
        cars.write_windsorml(tmp_path, number)
    cars.write_splits(tmp_path, {"full": {"train": ["run_0", "run_1"], "test": ["run_3", "run_354"]}})
    found = prepare([tmp_path], tmp_path / "out", Options(keep=500), jobs=1).manifest.splits
    assert (found["train"], found["test"], found["full_test"]) == (["run_0", "run_1"], ["run_3"], ["run_3"])


@pytest.mark.parametrize("name", ["drivaerml", "ahmedml", "windsorml", "drivaernet"])
def test_the_recipe_trains_on_what_prepare_makes_of_the_set_and_the_model_answers(tmp_path, name):
    source = tmp_path / "source"
    if name == "drivaernet":
        cars.write_drivaernet(source, [f"F_D_WM_WW_{i:04d}" for i in range(5)])
    else:
        write = getattr(cars, f"write_{name}")
        for number in range(5):
            write(source, number)
    prepare([source], tmp_path / "set", Options(keep=800), jobs=1)
    small = ["model.layers=2", "model.channels=16", "model.heads=2", "model.slices=8", "training.steps=2"]
    small += ["training.points=64", "training.skin_points=64", f"data.path={tmp_path / 'set'}"]
    small += [] if name == "drivaernet" else ["data.validation=0.3"]
    reached = train(read_recipe(f"recipes/{name}.toml", small), tmp_path / "run")
    assert np.isfinite(list(reached["validation"].values())).all()
    run = ["--model", str(tmp_path / "run"), "--device", "cpu"]
    held = CliRunner().invoke(
        app, ["predict", str(tmp_path / "set"), "--split", "test", *run, "--out", str(tmp_path / "held"), "--json"]
    )
    assert held.exit_code == 0, held.output
    (file,) = (tmp_path / "held").iterdir()
    assert {"p", "p_true", "p_error"} <= set(pv.read(file).array_names)
    if name == "drivaernet":  # comes without shapes alone, here
        return
    shape, up = next(source.rglob("*.stl")), "+y" if name == "windsorml" else "+z"
    answer = CliRunner().invoke(app, ["coeffs", str(shape), *run, "--speed", "30", "--up", up, "--json"])
    assert np.isfinite(json.loads(answer.stdout)["designs"][0]["cd_integrated"])
