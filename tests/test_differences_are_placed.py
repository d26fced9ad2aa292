"""Where two designs differ in drag: contributions add up to the coefficient, and land on the faces that caused them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
from small_models import judged_surrogate

from aerosurrogate.body import set_in_stream
from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import Conditions, StreamOptions
from aerosurrogate.drag_sources import PARTS, DragSources
from aerosurrogate.errors import InputError
from aerosurrogate.flow_fields import FlowFields
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.report.page import write_report
from aerosurrogate.viz import viz

SAMPLES = Path(__file__).parents[1] / "sample_meshes"


def design(file: Path, rear: float = -0.2) -> FlowFields:
    """Pressure as on a bluff body: 0.8 q on what faces the stream, `rear` q on what faces away, with some friction."""
    body = set_in_stream(read_surface(str(file)), StreamOptions(), str(file))
    stream = Conditions(speed=30.0, length=body.length, ground=True)
    facing = body.surface.normals[:, 0]
    q = stream.dynamic_pressure
    shear = np.tile([0.003 * q, 0.0, 0.0], (len(facing), 1))
    skin = {"p": np.where(facing < 0, 0.8, rear) * q, "wallShearStress": shear}
    return FlowFields(body, stream, skin)


@pytest.fixture(scope="module")
def car() -> FlowFields:
    return design(SAMPLES / "car.stl")


def test_contributions_add_up_by_part_and_along_the_body(car):
    found = DragSources.of(car)
    whole = car.row()["cd_integrated"]
    assert found.shares.sum() == pytest.approx(whole)
    parts = found.by_part()
    assert set(parts) == set(PARTS)
    assert sum(parts.values()) == pytest.approx(whole)
    assert parts["front"] > 0.2 > 0.02 > parts["wheels"] - 0.1
    x, built = found.along()
    assert built[-1] == pytest.approx(whole)
    assert 0.99 < x[-1] < 1.01
    assert built[len(x) // 2] == pytest.approx(whole, rel=0.6)


def test_four_wheels_are_found_and_none_where_there_are_none(car):
    found = DragSources.of(car)
    wheels = found.places[found.parts == PARTS.index("wheels")]
    ends = {(x > 0, y > 0) for x, y in wheels[:, :2]}
    assert len(ends) == 4
    assert wheels[:, 2].max() < 0.2
    assert "wheels" not in DragSources.of(design(SAMPLES / "car_no_wheels.stl")).by_part()


def test_a_change_at_the_rear_is_seen_at_the_rear_alone(car):
    q, facing = car.conditions.dynamic_pressure, car.body.surface.normals[:, 0]
    changed = replace(car, skin=car.skin | {"p": car.skin["p"] - np.where(facing > 0.9, 0.1 * q, 0.0)})
    here, there = DragSources.of(changed), DragSources.of(car)
    assert np.abs(there.less(there)).max() == 0
    difference = here.less(there)
    assert difference[facing > 0.9] == pytest.approx(0.1 * facing[facing > 0.9])
    assert np.abs(difference[facing <= 0.9]).max() < 1e-12
    change = {part: here.by_part()[part] - there.by_part()[part] for part in PARTS}
    assert change["rear"] > 0.01
    assert max(abs(change[part]) for part in ("front", "roof", "sides", "floor")) < 1e-9


def test_designs_of_another_mesh_and_length_are_laid_over_each_other(tmp_path):
    """The same body, twice as large and cut into other faces, has the same contributions everywhere."""
    for name, size, level in (("small", 1.0, 7), ("large", 2.0, 9)):
        box = pv.Box((-2, 2, -0.8, 0.8, 0.2, 1.4), level=level).triangulate().scale(size)
        box.save(tmp_path / f"{name}.stl")
    small, large = (DragSources.of(design(tmp_path / f"{name}.stl")) for name in ("small", "large"))
    assert np.quantile(np.abs(small.less(large)), 0.98) < 1e-9


def test_pictures_and_page_show_it(tmp_path):
    judged_surrogate(tmp_path).save(tmp_path / "model.safetensors")
    options = CoeffsOptions(StreamOptions(speed=30.0), model=str(tmp_path / "model.safetensors"))
    for name, height in (("low", 1.2), ("high", 1.5)):
        pv.Box((-2, 2, -0.76, 0.76, 0.2, height), level=3).triangulate().save(tmp_path / f"{name}.stl")
    ranking = coeffs([str(tmp_path / "high.stl")], options, baseline=str(tmp_path / "low.stl"))
    for row in ranking.rows:
        ranking.designs[row["file"]].save(tmp_path / f"{row['name']}.vtu")
    files = [tmp_path / "high.vtu", tmp_path / "low.vtu"]
    viz(files, tmp_path / "difference.png", kind="difference")
    assert pv.read(tmp_path / "difference.png").dimensions[0] > 1000
    with pytest.raises(InputError, match="a picture of two files"):
        viz(files[:1], tmp_path / "one.png", kind="difference")
    write_report(ranking, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Where drag differs from low" in page
    assert "<th>floor</th>" in page
