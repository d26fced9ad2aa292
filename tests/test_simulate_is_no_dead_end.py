"""What `simulate` solved can be drawn, integrated, compared with and evaluated; conditions are part of its name."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
from small_models import small_surrogate
from typer.testing import CliRunner

from aerosurrogate.cli import app
from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.distance import distance
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.simulate import airfoils, cars, driver
from aerosurrogate.simulate.car_case import MESHES, MeshSettings
from aerosurrogate.simulate.cgrid import Resolution

needs_openfoam = pytest.mark.skipif(shutil.which("simpleFoam") is None, reason="needs OpenFOAM")
AHMED = Path(__file__).parents[1] / "sample_meshes" / "ahmed_25.stl"


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """A section at two angles, and a body whose file has other axes, solved on tiny grids into two folders."""
    folder = tmp_path_factory.mktemp("solved")
    turned = folder / "turned.stl"
    mesh = pv.read(AHMED)
    mesh.points = np.asarray(mesh.points)[:, [1, 2, 0]] + [0.0, 0.5, 3.0]  # flow +z, up +y, and off the zero
    mesh.save(turned)
    designs = [driver.own_design("naca0012", StreamOptions(reynolds=3e6, alpha=alpha)) for alpha in (2.0, 4.0)]
    frame = StreamOptions(speed=40.0, flow="+z", up="+y", ground="0.5")
    designs.append(driver.own_design(str(turned), frame))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(airfoils.MESHES, "fast", Resolution(28, 16, 28, far=100.0))
        for name, value in {"ITERATIONS": 150, "COARSE_ITERATIONS": 60, "FLAT_DRAG": 1.0}.items():
            patch.setattr(airfoils, name, value)
        patch.setitem(MESHES, "fast", MeshSettings(base_cell=0.4, average_from=40, iterations=50))
        patch.setattr(cars, "unsteadiness", lambda *_: "")
        outcomes = [
            driver.solve_task(driver.Task(d, "fast", folder / d.family, driver.digest(d, "fast"), d.family == "car"))
            for d in designs
        ]
    for family in ("airfoil", "car"):
        driver._write_manifest(folder / family, "shapes", "fast")
    return folder, {outcome.name: outcome for outcome in outcomes}


@needs_openfoam
def test_fields_integrate_to_what_was_solved_and_lie_where_the_file_is(solved):
    folder, outcomes = solved
    assert sorted(outcomes) == ["naca0012_46.8ms_2deg", "naca0012_46.8ms_4deg", "turned_40ms"]
    folders = [str(folder / "airfoil"), str(folder / "car")]
    rows = {row["name"]: row for row in coeffs(folders, CoeffsOptions()).rows}
    assert rows.keys() == outcomes.keys()
    for name, row in rows.items():
        reference = outcomes[name].reference
        assert row["cd"] == pytest.approx(reference["cd"], rel=0.02)
        assert row["cl"] == pytest.approx(reference["cl"], rel=0.02, abs=2e-3)
        assert row["area_m2"] == pytest.approx(reference["area"])
        assert row["model"] is None
    assert (rows["turned_40ms"]["speed"], rows["naca0012_46.8ms_4deg"]["alpha"]) == (40.0, 4.0)
    fields = pv.read(folder / "car" / "turned_40ms.vtu")
    skin = fields.extract_cells(np.flatnonzero(fields["region"] == 0))
    apart = distance(read_surface(folder / "turned.stl"), np.asarray(skin.points, dtype=float)).distance
    assert np.median(np.abs(apart)) < 0.01  # of a body 1.04 m long, on cells of 5 cm


@needs_openfoam
def test_the_openfoam_case_is_kept_when_asked_for(solved):
    folder, _ = solved
    kept = folder / "car" / "runs" / "turned_40ms" / "case"
    assert (kept / "system" / "controlDict").is_file()
    again = coeffs([str(kept)], CoeffsOptions(StreamOptions(speed=40.0), patch="body")).rows[0]
    assert again["cd"] > 0
    assert not (folder / "airfoil" / "runs" / "naca0012_46.8ms_2deg" / "case").exists()


@needs_openfoam
@pytest.mark.parametrize("alpha", [2.0, 4.0])
def test_a_prediction_stands_beside_its_solution(solved, alpha, tmp_path):
    folder, outcomes = solved
    small_surrogate(2).save(tmp_path / "flat.safetensors")
    words = ["naca0012", "--reynolds", "3e6", "--alpha", str(alpha), "--model", str(tmp_path / "flat.safetensors")]
    result = CliRunner().invoke(app, ["coeffs", *words, "--reference", str(folder / "airfoil"), "--json"])
    assert result.exception is None, result.output
    document = json.loads(result.stdout)
    assert document["compared"] == 1
    true = coeffs(
        ["naca0012"],
        CoeffsOptions(StreamOptions(reynolds=3e6, alpha=alpha), model=str(tmp_path / "flat.safetensors")),
        truth=folder / "airfoil",
    ).truth
    assert true["naca0012"]["cd"] == outcomes[f"naca0012_46.8ms_{alpha:g}deg"].reference["cd"]


@needs_openfoam
def test_pictures_and_evaluation_take_the_folder(solved, tmp_path):
    folder, _ = solved
    for family in ("airfoil", "car"):
        result = CliRunner().invoke(app, ["viz", str(folder / family), "--out", str(tmp_path / f"{family}.png")])
        assert result.exception is None, result.output
        assert (tmp_path / f"{family}.png").stat().st_size > 10_000
    small_surrogate(2).save(tmp_path / "flat.safetensors")
    words = ["evaluate", str(tmp_path / "flat.safetensors"), str(folder / "airfoil"), "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exception is None, result.output
    assert json.loads(result.stdout)["cases"] >= 1


def test_sections_and_bodies_are_solved_into_two_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(driver.openfoam, "environment", lambda: {})
    with pytest.raises(InputError, match="two folders"):
        driver.simulate(["naca0012", str(AHMED)], tmp_path / "out")
