"""Models trained exactly as the paper does, on whole meshes in metres, answer for a shape alone."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from published_sets import section_flow, write_airfrans, write_shapenet_car

from aerosurrogate import query_cells
from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import Conditions, StreamOptions
from aerosurrogate.data.prepare import prepare
from aerosurrogate.data.readers.meshes import between_centres
from aerosurrogate.data.sampling import Sampling
from aerosurrogate.data.store import Dataset
from aerosurrogate.data.training_frame import TrainingFrame
from aerosurrogate.errors import InputError
from aerosurrogate.evaluate import cost_of_drawing, evaluate
from aerosurrogate.mesh.distance import distance
from aerosurrogate.mesh.load import load
from aerosurrogate.mesh.orient import open_edges
from aerosurrogate.mesh.pattern import Cloud, measure
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.surface import Surface
from aerosurrogate.model_frame import MORE, known_stream, sample
from aerosurrogate.predict import Predictor, Wanted, predict, predict_cases
from aerosurrogate.recipe import read_recipe
from aerosurrogate.surrogate import Surrogate
from aerosurrogate.training.loop import train

ROOT = Path(__file__).parents[1]
TINY = [f"model.{key}" for key in ("channels=16", "layers=2", "heads=2", "slices=4")] + ["training.steps=3"]
RINGS = np.concatenate([[0.0], np.geomspace(1e-4, 12.0, 40)])


def trained(folder: Path, task: str, write) -> Path:
    prepare([write(folder / "raw")], folder / "data", jobs=1)
    recipe = read_recipe(
        ROOT / "recipes" / f"{task}.toml", [f"data.path={folder / 'data'}", "data.validation=test", *TINY]
    )
    train(recipe, folder / "run", device="cpu")
    return folder


@pytest.fixture(scope="module")
def airfrans(tmp_path_factory) -> Path:
    return trained(tmp_path_factory.mktemp("airfrans"), "airfrans", write_airfrans)


@pytest.fixture(scope="module")
def cars(tmp_path_factory) -> Path:
    return trained(tmp_path_factory.mktemp("cars"), "shapenet_car", write_shapenet_car)


def mesh_of(thickness: float, camber: float) -> tuple[Surface, Cloud]:
    """A section and the points of an O-mesh around it: crowded at nose, tail and wall."""
    points = section_flow(thickness, camber, 0.0, RINGS, 96)[0]
    skin = points[0]
    contour = Surface(skin, np.stack([np.arange(96), np.roll(np.arange(96), -1)], axis=1))
    around = points[1:].reshape(-1, 2)
    return contour, Cloud(skin, around, distance(contour, around).distance)


def test_points_are_drawn_as_those_of_the_meshes_lie() -> None:
    family = [mesh_of(t, c)[1] for t, c in ((0.08, 0.0), (0.12, 0.02), (0.16, 0.03), (0.1, 0.01))]
    pattern = measure(family, 4000, 96 / (96 * 41))
    surface, mesh = mesh_of(0.13, 0.015)
    skin, around = pattern.draw(surface, 4000, seed=0)
    assert len(skin.points) == round(4000 * 96 / (96 * 41))
    assert len(skin.points) + len(around.points) == 4000
    level = np.linspace(0.05, 0.95, 19)

    def apart(drawn: np.ndarray, native: np.ndarray) -> float:
        return float(np.abs(np.quantile(drawn, level) - np.quantile(native, level)).max())

    assert apart(np.log10(around.distance), np.log10(mesh.distance)) < 0.2  # decades, of five
    assert apart(skin.points[:, 0], mesh.skin[:, 0]) < 0.05
    assert apart(around.points[:, 0], mesh.around[:, 0]) < 0.3  # chords, of twenty
    assert apart(around.points[:, 1], mesh.around[:, 1]) < 0.3
    # Uniform points would not pass: a tenth of the mesh lies within a thousandth of a chord.
    assert np.mean(around.distance < 1e-3) == pytest.approx(np.mean(mesh.distance < 1e-3), abs=0.03)


def test_drawn_points_lie_in_the_air_and_know_their_wall() -> None:
    surface, mesh = mesh_of(0.12, 0.0)
    _, around = measure([mesh], 2000, 0.02).draw(surface, 2000, seed=1)
    found = distance(surface, around.points)
    assert (found.distance > 0).all()
    assert np.allclose(found.distance, around.distance, atol=1e-12)
    assert np.allclose(found.direction, around.direction, atol=1e-6)


def test_the_checkpoint_keeps_frame_and_pattern_as_plain_values(airfrans: Path, cars: Path) -> None:
    for folder, points in ((airfrans, 64), (cars, 162)):
        frame = Surrogate.load(folder / "run").training_frame
        assert frame is not None
        assert frame.pattern is not None
        assert TrainingFrame.of(json.loads(json.dumps(asdict(frame)))) == frame
        entries = Dataset(folder / "data").manifest.cases.values()
        assert frame.pattern.skin_share == pytest.approx(np.mean([points / e["points"] for e in entries]), rel=0.1)
    assert (frame.density, frame.viscosity) == (1.225, 1.5e-5)
    assert np.allclose(frame.origin, 0, atol=0.01)


def test_the_cost_of_drawn_points_is_measured_and_on_the_card(airfrans: Path) -> None:
    surrogate, data = Surrogate.load(airfrans / "run"), Dataset(airfrans / "data")
    result = evaluate(surrogate, data, data.names("test"))
    figures = result.figures
    for key in ("p_surface", "p_volume", "U_volume"):
        assert figures[f"{key}_drawn"] == pytest.approx(figures[key], rel=0.1)
        assert figures[f"{key}_drawn"] != figures[key]
        assert f"{figures[f'{key}_drawn']:.4g}" in cost_of_drawing(result)[key]
    assert "p_surface" in surrogate.card["shape alone"]


def test_a_run_that_keeps_none_back_has_that_cost_from_its_test_cases(airfrans: Path, tmp_path: Path) -> None:
    given = [f"data.path={airfrans / 'data'}", "data.validation=0", *TINY]
    recipe = read_recipe(ROOT / "recipes" / "airfrans.toml", given)
    train(recipe, tmp_path / "run", device="cpu")
    surrogate, data = Surrogate.load(tmp_path / "run"), Dataset(airfrans / "data")
    cost = surrogate.card["shape alone"]
    figures = evaluate(surrogate, data, data.names("test")).figures
    assert f"{figures['p_surface_drawn']:.4g}" in cost["p_surface"]
    assert cost["measured on"] == "2 test cases"
    assert surrogate.card["validation"] == {}  # they measure that, and nothing else
    assert surrogate.calibration is None


@pytest.mark.parametrize("name", ["naca2412", str(ROOT / "sample_meshes" / "van.stl")])
def test_centres_of_faces_carry_a_skin_too(name: str) -> None:
    """So that cases with values by face know their body: closed, facing outwards, of the same volume."""
    body = read_surface(name)
    skin = Surface(body.centres, between_centres(body))
    assert len(open_edges(skin)) == 0
    assert skin.volume == pytest.approx(body.volume, rel=5e-3)
    assert skin.areas.sum() == pytest.approx(body.areas.sum(), rel=5e-3)


@pytest.mark.parametrize("shape", ["naca2412", "section.dat"])
def test_a_section_is_predicted_and_ranked(airfrans: Path, tmp_path: Path, shape: str, monkeypatch) -> None:
    monkeypatch.setattr(query_cells, "POINTS", 300)
    monkeypatch.setattr(query_cells, "CELLS", (8, 6, 6))
    if shape.endswith(".dat"):
        points = read_surface("naca2412").points
        shape = str(tmp_path / shape)
        Path(shape).write_text("NACA 2412\n" + "\n".join(f"{x:.6f} {y:.6f}" for x, y in points))
    model, stream = str(airfrans / "run"), StreamOptions(alpha=3.0)
    done = predict([shape], tmp_path / "e.vtu", stream, model=model)
    fields = load(tmp_path / "e.vtu")
    assert {"p", "U", "nut", "Cp"} <= set(fields.cell_data.keys())
    row = next(iter(done.rows.values()))
    ranked = coeffs([str(tmp_path / "e.vtu"), shape], CoeffsOptions(stream, model=model))
    assert [r["cd"] for r in ranked.rows] == pytest.approx([row["cd"]] * 2, abs=1e-6)
    assert any("pressure alone" in note for note in row["notes"])


def test_a_model_in_metres_answers_by_reynolds_number(airfrans: Path, tmp_path: Path) -> None:
    """Half the chord at twice the speed in air twice as dense: the same flow, four times the dynamic pressure twice."""
    small = tmp_path / "small.dat"
    points = 0.5 * read_surface("naca2412").points + [0.1, 0.0]
    small.write_text("half\n" + "\n".join(f"{x:.8f} {y:.8f}" for x, y in points))
    predictor = Predictor(str(airfrans / "run"))
    one = predictor.predict("naca2412", StreamOptions(speed=50.0, alpha=2.0))
    half = predictor.predict(str(small), StreamOptions(speed=100.0, alpha=2.0, density=2.45))
    assert one.row()["cl"] == pytest.approx(half.row()["cl"], rel=1e-4)
    assert np.allclose(8 * one.skin["p"], half.skin["p"], rtol=1e-3, atol=1e-2 * np.abs(half.skin["p"]).max())
    surrogate = predictor.surrogate(2)
    assert known_stream(surrogate, half.conditions).length == 1.0
    assert known_stream(surrogate, half.conditions).reynolds == pytest.approx(half.conditions.reynolds)


def test_a_car_in_its_own_axes_is_brought_to_where_the_training_cars_stand(cars: Path, tmp_path: Path) -> None:
    import pyvista as pv

    body = pv.Cube(bounds=(-2, 2, -0.8, 0.8, 0.2, 1.4)).triangulate().subdivide(2)
    body.save(tmp_path / "car.stl")
    turned = body.copy()
    turned.points = np.asarray(body.points)[:, [1, 2, 0]] + [3.0, 1.0, -7.0]  # as published: flow +z, up +y
    turned.save(tmp_path / "turned.stl")
    model = str(cars / "run")
    predictor = Predictor(model)
    one = predictor.predict(str(tmp_path / "car.stl"), StreamOptions(speed=20.0))
    other = predictor.predict(str(tmp_path / "turned.stl"), StreamOptions(speed=40.0, flow="+z", up="+y", ground="1.0"))
    assert other.row()["cd"] == pytest.approx(one.row()["cd"], rel=0.02)
    assert other.row()["drag_n"] == pytest.approx(4 * one.row()["drag_n"], rel=0.02)
    assert any("20 m/s alone" in note for note in other.body.notes)
    around = predictor.predict(str(tmp_path / "car.stl"), StreamOptions(), Wanted(grid=(8, 4, 4)))
    assert "p" not in around.around[0].arrays  # it was never asked of the air
    assert np.isfinite(around.around[0].arrays["U"]).all()


def test_the_users_mesh_is_answered(airfrans: Path, tmp_path: Path) -> None:
    name = Dataset(airfrans / "data").names("test")[0]
    mesh = airfrans / "raw" / "Dataset" / name / f"{name}_internal.vtu"
    predict(["naca2412"], tmp_path / "on.vtu", StreamOptions(), points=mesh, model=str(airfrans / "run"))
    answered = load(tmp_path / "on.vtu")
    assert answered.n_points == load(mesh).n_points
    assert np.isfinite(np.asarray(answered.point_data["p"])).mean() > 0.8


def test_a_model_without_states_is_asked_beside_the_bodys_points(tmp_path: Path) -> None:
    folder = write_airfrans(tmp_path / "raw", count=3, around=32)
    prepare([folder], tmp_path / "data", jobs=1)
    small = [f"data.path={tmp_path / 'data'}", "data.validation=test", "training.steps=2"]
    text = (ROOT / "recipes" / "airfrans.toml").read_text()
    other = '[model]\nkind = "graphsage"\nlayers = 2\nchannels = 8\n\n'
    (tmp_path / "graphsage.toml").write_text(re.sub(r"\[model\]\n.*?\n\n", other, text, flags=re.S))
    train(read_recipe(tmp_path / "graphsage.toml", small), tmp_path / "run", device="cpu")
    surrogate = Surrogate.load(tmp_path / "run")
    assert not surrogate.has_states()
    assert "p_surface" in surrogate.card["shape alone"]
    row = Predictor(str(tmp_path / "run")).predict("naca2412", StreamOptions()).row()
    assert np.isfinite([row["cd"], row["cl"]]).all()


def test_a_model_of_skins_alone_sees_its_skin_by_area_and_no_air(cars: Path) -> None:
    surrogate = Surrogate.load(cars / "run")
    assert surrogate.training_frame is not None
    assert surrogate.pattern is not None
    pattern = replace(surrogate.pattern, around=(), skin_share=1.0)
    frame = replace(surrogate.training_frame, pattern=pattern)
    alone = replace(surrogate, sampling=Sampling("density", skin=64), training_frame=frame)
    surface, stream = read_surface(ROOT / "sample_meshes" / "van.stl"), Conditions(20.0, 4.0)
    places = sample(surface, stream, alone)
    assert len(places.points) == MORE * 64
    assert places.surface.all()


@pytest.mark.parametrize(
    ("asked", "model", "said"),
    [
        (["here", "there"], "car", "one data set"),
        (["here"], None, "which model"),
        (["here"], "car", "no data set here"),
    ],
)
def test_what_cannot_be_a_data_set_is_said(asked: list[str], model: str | None, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        predict_cases([str(tmp_path / name) for name in asked], tmp_path / "out", model)
    assert not (tmp_path / "out").exists()


def test_only_physics_is_a_reason_to_refuse(airfrans: Path, tmp_path: Path) -> None:
    surrogate = Surrogate.load(airfrans / "run")
    scaling = replace(surrogate.scaling, field_names=("a", "b", "c"))
    replace(surrogate, scaling=scaling).save(tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="no pressure on a body"):
        Predictor(str(tmp_path / "other.safetensors")).predict("naca2412", StreamOptions())
