"""Forces from files that hold a pressure agree with analysis and with values published beside the data."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pyvista as pv
from test_openfoam_cases_become_training_data import write_case

from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.errors import InputError

SPEED, DENSITY = 30.0, 1.2
Q = 0.5 * DENSITY * SPEED**2
AIR = StreamOptions(speed=SPEED, density=DENSITY, ground="none")


def only_row(path: Path, settings: CoeffsOptions | None = None, **stream: object) -> dict:
    settings = settings or CoeffsOptions(replace(AIR, **stream))
    return coeffs([str(path)], settings).rows[0]


def saved(mesh: pv.DataSet, path: Path) -> Path:
    mesh.save(path)
    return path


def ball_in_potential_flow(nsub: int = 4) -> pv.PolyData:
    ball = pv.Icosphere(radius=0.5, nsub=nsub)
    ball["p"] = Q * (1 - 2.25 * (1 - (ball.points[:, 0] / 0.5) ** 2))
    return ball


def test_shapenet_car_drag_is_the_published_force(shared_data):
    settings = CoeffsOptions(StreamOptions(speed=20, density=1.2, flow="+z", up="+y"))
    folder = shared_data / "shapenet_car"
    for name, force in (("mini_car_0", 111.60), ("mini_car_1", 109.17)):
        row = only_row(folder / f"{name}.vtp", settings)
        assert row["drag_n"] == pytest.approx(force, rel=5e-4)
        assert row["name"] == name
        assert row["trust"] is None
        assert row["cd_friction"] is None


def test_airfrans_surface_gives_the_published_lift(shared_data):
    file = next((shared_data / "airfrans").glob("*_aerofoil.vtp"))
    row = only_row(file, CoeffsOptions())
    assert row["cl"] == pytest.approx(-0.3211, abs=5e-5)
    assert row["cd"] == pytest.approx(0.0028, abs=5e-5)
    assert (row["speed"], row["alpha"], row["viscosity"]) == (31.283, -4.156, 1.56e-5)
    assert any("kinematic" in note for note in row["notes"])
    static = only_row(file, CoeffsOptions(pressure="static"))
    assert static["cl"] == pytest.approx(row["cl"] / row["density"], rel=1e-6)


def test_sphere_in_potential_flow_has_no_drag_whether_p_is_on_points_or_cells(tmp_path):
    ball = ball_in_potential_flow()
    on_points = only_row(saved(ball, tmp_path / "points.vtp"))
    cells = ball.point_data_to_cell_data()
    on_cells = only_row(saved(cells, tmp_path / "cells.vtp"))
    for row in (on_points, on_cells):
        assert max(abs(row["cd"]), abs(row["cl"]), abs(row["cs"])) < 1e-3
        assert row["area_m2"] == pytest.approx(np.pi / 4, rel=2e-3)
    # The drag of the front half alone is not zero: the test above could fail.
    front = only_row(saved(ball.clip("x", invert=True), tmp_path / "front.vtp"))
    assert abs(front["cd"]) > 0.05


def test_cylinder_with_circulation_obeys_kutta_joukowski(tmp_path):
    circulation, radius, n = 40.0, 0.5, 720
    angle = np.arange(n) * 2 * np.pi / n
    points = radius * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    swirl = 2 * SPEED * np.sin(angle) + circulation / (2 * np.pi * radius)
    lines = np.stack([np.full(n, 2), np.arange(n), np.roll(np.arange(n), -1)], axis=1)
    ring = pv.PolyData(points, lines=lines.ravel())
    ring["p"] = 0.5 * DENSITY * (SPEED**2 - swirl**2)
    row = only_row(saved(ring, tmp_path / "cylinder.vtp"))
    assert row["lift_n"] == pytest.approx(DENSITY * SPEED * circulation, rel=1e-3)
    assert abs(row["drag_n"]) < 1e-3 * row["lift_n"]


def test_quads_and_polygons_give_what_triangles_give(tmp_path):
    quads = pv.Box((-1, 1, -0.5, 0.5, 0.2, 1.2), level=4, quads=True)
    quads["p"] = 100 * quads.points[:, 0] + 30 * quads.points[:, 2] ** 2
    whole = only_row(saved(quads, tmp_path / "quads.vtp"), ground="auto")
    split = only_row(saved(quads.triangulate(), tmp_path / "triangles.vtp"), ground="auto")
    assert whole["drag_n"] == pytest.approx(split["drag_n"], rel=1e-9)
    # dp/dx = 100 Pa/m pushes a body of 2 m3 with -200 N.
    assert whole["drag_n"] == pytest.approx(-200, rel=1e-6)


def test_inside_out_normals_do_not_turn_the_force(tmp_path):
    box = pv.Box((-1, 1, -0.5, 0.5, 0.2, 1.2), level=3).triangulate()
    box["p"] = 100 * box.points[:, 0]
    right = only_row(saved(box, tmp_path / "right.vtp"))
    wrong = only_row(saved(box.flip_faces(), tmp_path / "wrong.vtp"))
    assert wrong["drag_n"] == pytest.approx(right["drag_n"])
    assert any("turned outward" in note for note in wrong["notes"])


def test_axes_turn_the_answer_with_the_body(tmp_path):
    box = pv.Box((-1, 1, -0.5, 0.5, 0.2, 1.2), level=3).triangulate()
    box["p"] = 100 * box.points[:, 0] + 40 * box.points[:, 2]
    first = only_row(saved(box, tmp_path / "a.vtp"))
    turned = box.copy()
    turned.points = box.points[:, [1, 2, 0]]  # x -> z, y -> x, z -> y: an even permutation
    second = only_row(saved(turned, tmp_path / "b.vtp"), flow="+z", up="+y")
    for key in ("cd", "cl", "cs", "cm", "area_m2", "length_m"):
        assert second[key] == pytest.approx(first[key], abs=1e-6), key


def test_units_scale_lengths_and_areas(tmp_path):
    box = pv.Box((-1, 1, -0.5, 0.5, 0.2, 1.2), level=3).triangulate()
    box["p"] = 100 * box.points[:, 0]
    metres = only_row(saved(box, tmp_path / "m.vtp"))
    box.points *= 1000
    millimetres = only_row(saved(box, tmp_path / "mm.vtp"), units="mm")
    assert millimetres["drag_n"] == pytest.approx(metres["drag_n"], rel=1e-6)
    assert millimetres["area_m2"] == pytest.approx(metres["area_m2"], rel=1e-6)


def test_intersecting_pieces_give_the_force_of_their_union(tmp_path):
    body = pv.Box((-2, 2, -0.8, 0.8, 0.3, 1.3), level=19).triangulate()
    wheel = pv.Box((-0.5, 0.5, -0.6, 0.6, 0.0, 0.7), level=19).triangulate()
    both = body.append_polydata(wheel)
    both["p"] = 100 * both.points[:, 0] + 50 * both.points[:, 2]
    row = only_row(saved(both, tmp_path / "union.vtp"), ground="auto")
    volume = 4 * 1.6 * 1.0 + 1.0 * 1.2 * 0.3  # what sticks out below the body is 0.3 m high
    assert row["drag_n"] == pytest.approx(-100 * volume, rel=0.01)
    assert row["lift_n"] == pytest.approx(-50 * volume, rel=0.01)
    assert row["area_m2"] == pytest.approx(1.6 * 1.0 + 1.2 * 0.3, rel=1e-3)
    assert any("inside another piece" in note for note in row["notes"])


def test_faces_below_the_ground_count_in_neither_force_nor_area(tmp_path):
    box = pv.Box((-2, 2, -0.8, 0.8, -0.05, 1.3), level=7).triangulate()
    box["p"] = 100 * box.points[:, 0]
    row = only_row(saved(box, tmp_path / "sunk.vtp"), ground="auto")
    assert row["area_m2"] == pytest.approx(1.6 * 1.3, rel=1e-3)
    assert row["drag_n"] == pytest.approx(-100 * 4 * 1.6 * 1.3, rel=1e-3)
    in_air = only_row(tmp_path / "sunk.vtp", ground="none")
    assert in_air["area_m2"] == pytest.approx(1.6 * 1.35, rel=1e-3)


def test_half_a_body_is_doubled_and_a_whole_one_refused(tmp_path):
    box = pv.Box((-2, 2, 0.0, 0.8, 0.1, 1.3), level=7).triangulate()
    box["p"] = 100 * box.points[:, 0]
    box["wallShearStress"] = np.tile([2.0, 1.0, 0.0], (box.n_points, 1))
    half = saved(box, tmp_path / "half.vtp")
    row = only_row(half, CoeffsOptions(replace(AIR, ground="auto", symmetry="y")))
    assert row["area_m2"] == pytest.approx(1.6 * 1.2, rel=1e-3)
    assert abs(row["cs"]) < 1e-9
    box.points[:, 1] -= 0.4
    saved(box, half)
    with pytest.raises(InputError, match="leave --symmetry out"):
        only_row(half, CoeffsOptions(replace(AIR, symmetry="y")))


def test_wall_shear_from_the_file_adds_friction(tmp_path):
    box = pv.Box((-1, 1, -0.5, 0.5, 0.2, 1.2), level=3).triangulate()
    box.cell_data["p"] = np.zeros(box.n_cells)
    box.cell_data["wallShearStress"] = np.tile([3.0, 0.0, 0.0], (box.n_cells, 1))
    row = only_row(saved(box, tmp_path / "shear.vtp"))
    assert row["drag_n"] == pytest.approx(3.0 * 10)
    assert row["cd"] == pytest.approx(row["cd_friction"])
    assert row["cd_pressure"] == 0


def channel_with_a_block() -> pv.UnstructuredGrid:
    """Air around a box that stands clear of the ground, sheared near its skin: U grows by 1000 per second from it."""
    grid = pv.ImageData(
        dimensions=(41, 31, 31), spacing=(0.1, 0.1, 0.1), origin=(-2, -1.5, 0)
    ).cast_to_unstructured_grid()
    centre = grid.cell_centers().points
    body = (np.abs(centre) < [0.5, 0.4, 0]).astype(bool)[:, :2].all(axis=1) & (centre[:, 2] > 0.3) & (centre[:, 2] < 1)
    air = grid.extract_cells(~body)
    points = np.asarray(air.points)
    outside = np.maximum(np.maximum(np.abs(points[:, 0]) - 0.5, np.abs(points[:, 1]) - 0.4), 0)
    outside = np.maximum(outside, np.maximum(0.3 - points[:, 2], points[:, 2] - 1.0))
    depth = np.maximum(outside, 0)
    depth[depth < 1e-6] = 0
    air.point_data["U"] = np.stack([1000 * depth, 0 * depth, 0 * depth], axis=1)
    air.point_data["U"][points[:, 2] < 1e-9] = 0  # the ground stands still too
    air.point_data["p"] = 100 * points[:, 0]
    return air


def test_in_a_volume_the_body_is_the_wall_that_is_neither_box_nor_ground(tmp_path):
    row = only_row(saved(channel_with_a_block(), tmp_path / "volume.vtu"), ground="auto")
    assert row["cd_pressure"] * Q * row["area_m2"] == pytest.approx(-100 * 1.0 * 0.8 * 0.7, rel=1e-5)
    assert row["area_m2"] == pytest.approx(0.8 * 0.7, rel=1e-3)
    assert row["length_m"] == pytest.approx(1.0)


def test_wall_shear_comes_from_the_velocity_next_to_the_wall(tmp_path):
    row = only_row(saved(channel_with_a_block(), tmp_path / "volume.vtu"), ground="auto")
    sides = 2 * 1.0 * 0.7 + 2 * 1.0 * 0.8  # along the stream
    friction = DENSITY * 1.5e-5 * 1000 * sides
    assert row["cd_friction"] * Q * row["area_m2"] == pytest.approx(friction, rel=0.1)
    assert any("next to the wall" in note for note in row["notes"])


def test_a_flat_volume_gives_the_force_on_its_hole(tmp_path):
    grid = pv.ImageData(dimensions=(61, 41, 1), spacing=(0.1, 0.1, 0.1), origin=(-3, -2, 0)).cast_to_unstructured_grid()
    inner = (np.abs(grid.cell_centers().points) < [0.5, 0.3, 1]).all(axis=1)
    air = grid.extract_cells(~inner)
    points = np.asarray(air.points)
    still = (np.abs(points[:, 0]) < 0.51) & (np.abs(points[:, 1]) < 0.31)
    air.point_data["U"] = np.where(still[:, None], 0.0, [30.0, 0.0, 0.0])
    air.point_data["p"] = 100 * points[:, 0] + 50 * points[:, 1]
    row = only_row(saved(air, tmp_path / "flat.vtu"))
    assert row["cd_pressure"] * Q * row["area_m2"] == pytest.approx(-100 * 0.6, rel=1e-5)
    assert row["cl"] * Q * row["area_m2"] == pytest.approx(-50 * 0.6, rel=1e-5)


@pytest.mark.parametrize("static", [False, True])
def test_an_openfoam_case_is_read_by_its_own_conventions(tmp_path, static):
    # Half a box of 2 x 2 x 1 m over the ground, p/rho = -x, the wall's stress on the fluid 0.5 m2/s2 against the flow.
    write_case(tmp_path / "case", static=static)
    row = only_row(tmp_path / "case", CoeffsOptions(replace(AIR, ground="auto", symmetry="y")))
    pressure, friction = DENSITY * 2 * 2 * 1, DENSITY * 0.5 * (2 * 2 * 1 + 2 * 2 * 2 + 2 * 2 * 1)
    if static:  # then the shear is in Pa too
        friction /= DENSITY
    force = row["cd_pressure"] * Q * row["area_m2"]
    assert force == pytest.approx(pressure, rel=1e-4)
    assert row["cd_friction"] * Q * row["area_m2"] == pytest.approx(friction, rel=1e-4)
    assert row["area_m2"] == pytest.approx(2 * 1, rel=1e-3)
    assert any(("Pa" if static else "kinematic") in note for note in row["notes"])


def test_what_is_missing_is_refused_with_the_option_that_settles_it(tmp_path):
    file = saved(ball_in_potential_flow(2), tmp_path / "ball.vtp")
    for settings, option in (
        (CoeffsOptions(), "--speed"),
        (CoeffsOptions(AIR, area="frontal"), "--area"),
        (CoeffsOptions(AIR, area="-1"), "--area"),
        (CoeffsOptions(AIR, patch="body"), "--patch"),
        (CoeffsOptions(replace(AIR, reynolds=1.0)), "leave one out"),
    ):
        with pytest.raises(InputError, match=option):
            only_row(file, settings)
    with pytest.raises(InputError, match="--flow"):
        replace(AIR, flow="+x", up="+x")
    with pytest.raises(InputError, match="--sort"):
        coeffs([str(file)], CoeffsOptions(AIR), sort="colour")


def test_areas_are_the_silhouette_the_rectangle_or_the_one_given(tmp_path):
    file = saved(ball_in_potential_flow(), tmp_path / "ball.vtp")
    assert only_row(file, CoeffsOptions(AIR, area="rectangle"))["area_m2"] == pytest.approx(1.0, rel=1e-3)
    given = only_row(file, CoeffsOptions(AIR, area="2.5"))
    assert given["area_m2"] == 2.5
    assert given["area"] == "as given"
