"""The C-grid around any section of the family is sound, and OpenFOAM reads it as we mean it."""

import shutil

import numpy as np
import pytest

from aerosurrogate.errors import InputError
from aerosurrogate.mesh.airfoil import naca
from aerosurrogate.mesh.coordinates import read_section
from aerosurrogate.simulate import airfoils, cgrid, openfoam
from aerosurrogate.simulate.spec import Design, Spec

COARSE = cgrid.Resolution(20, 12, 24)


def random_grids(count, resolution):
    spec = Spec("airfoil", seed=5)
    for index in range(count):
        parameters, stream = airfoils.draw(dict(airfoils.RANGES), spec.generator(index))
        curve = airfoils.curve_of(Design("section", "airfoil", parameters, stream))
        first = airfoils.WALL_REYNOLDS / stream.reynolds
        yield str(parameters), first, cgrid.grid(curve, resolution, first, 0.5 * np.radians(stream.alpha))


def test_no_cell_of_random_sections_is_inverted():
    for name, first, grid in random_grids(100, airfoils.MESHES["fast"]):
        assert (grid.areas() > 0).all(), name
        assert (grid.halved().areas() > 0).all(), name
        heights = np.linalg.norm(grid.points[:, 1] - grid.points[:, 0], axis=1)[grid.wake + 5 : -grid.wake - 5]
        assert heights == pytest.approx(first, rel=0.4), name


def test_no_cell_is_inverted_at_any_fidelity():
    for resolution in (COARSE, *airfoils.MESHES.values()):
        for name, _, grid in random_grids(5, resolution):
            assert grid.shape == (2 * (resolution.side + resolution.wake), resolution.across)
            assert (grid.areas() > 0).all(), name


def test_the_skin_lies_on_the_section():
    curve = naca("4415", airfoils.CURVE_POINTS)
    grid = cgrid.grid(curve, airfoils.MESHES["fast"], 1e-5)
    skin = grid.points[grid.wake : -grid.wake, 0]
    finer = naca("4415", 20_000)
    apart = np.linalg.norm(skin[:, None] - finer[None], axis=2).min(axis=1)
    assert apart.max() < 2e-4
    assert skin[0] == pytest.approx([1, 0], abs=1e-12)
    assert skin[-1] == pytest.approx([1, 0], abs=1e-12)


def opened(edge, points=100):
    """NACA 0012 with a trailing edge of this thickness, and two corners there."""
    sharp = naca("0012", points)
    upper, lower = sharp[: points // 2 + 1], np.concatenate([sharp[points // 2 + 1 :], sharp[:1]])
    lift = 0.5 * edge * np.array([[0.0, 0.0], [1.0, 0.0]])  # (x, y) -> (0, edge x / 2)
    return np.concatenate([upper + upper @ lift.T, lower - lower @ lift.T])


def test_a_blunt_trailing_edge_is_meshed_one_thinner_than_cells_closed_a_very_thick_one_refused(tmp_path):
    file = tmp_path / "blunt.dat"
    file.write_text("blunt\n" + "\n".join(f"{x:.8f} {y:.8f}" for x, y in opened(0.004)))
    grid = cgrid.grid(read_section(file), COARSE, 1e-5)
    assert (grid.areas() > 0).all()
    assert (grid.halved().areas() > 0).all()
    assert grid.strip.shape == (COARSE.wake + 1, COARSE.base + 1, 2)
    assert grid.strip[0, [0, -1]] == pytest.approx(np.array([[1, -0.002], [1, 0.002]]), abs=1e-6)
    assert (grid.strip[:, 0] == grid.points[COARSE.wake :: -1, 0]).all()  # it joins the C below and above
    assert grid.strip[:, -1] == pytest.approx(grid.points[-COARSE.wake - 1 :, 0], rel=1e-12)
    closed = cgrid.grid(opened(0.0008), COARSE, 1e-5)
    assert closed.strip is None
    assert closed.points[closed.wake, 0] == pytest.approx(closed.points[-closed.wake - 1, 0])
    with pytest.raises(InputError, match="trailing edge"):
        cgrid.grid(opened(0.08), COARSE, 1e-5)


@pytest.mark.parametrize("edge", [0.0, 0.006])
def test_the_mesh_that_is_read_back_is_the_one_that_was_written(tmp_path, edge):
    grid = cgrid.grid(opened(edge, 200) if edge else naca("2412", 200), COARSE, 1e-5, 0.05)
    cgrid.write(grid, tmp_path)
    mesh = openfoam.read_mesh(tmp_path)
    ni, nj = grid.shape
    base = COARSE.base if edge else 0
    assert mesh.cells == ni * nj + COARSE.wake * base
    assert (mesh.owner[: len(mesh.neighbour)] < mesh.neighbour).all()
    wall, far, sides = (mesh.patches[name] for name in ("airfoil", "farfield", "sides"))
    assert (wall.kind, wall.count, sides.kind, sides.count) == ("wall", 2 * COARSE.side + base, "empty", 2 * mesh.cells)
    assert far.count == ni + 2 * nj + base
    # A cell's faces close it; the closed skin has no area vector left over; the volume is the domain's area x 1 m.
    closed = np.zeros((mesh.cells, 3))
    np.add.at(closed, mesh.owner, mesh.face_areas)
    np.subtract.at(closed, mesh.neighbour, mesh.face_areas[: len(mesh.neighbour)])
    scale = np.zeros(mesh.cells)
    np.add.at(scale, mesh.owner, np.linalg.norm(mesh.face_areas, axis=1))
    assert np.abs(closed / scale[:, None]).max() < 1e-6
    assert mesh.face_areas[wall.faces].sum(axis=0) == pytest.approx([0, 0, 0], abs=1e-12)
    strip = grid.points[:0, 0] if grid.strip is None else grid.strip[-1, ::-1]
    rim = np.concatenate([grid.points[:, -1], grid.points[-1, ::-1], strip, grid.points[0, :]])
    x, y = rim.T
    domain = 0.5 * abs(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))
    section = np.append(grid.points[grid.wake : -grid.wake, 0], grid.points[[grid.wake], 0], axis=0)
    hole = 0.5 * abs(np.sum(section[:-1, 0] * section[1:, 1] - section[1:, 0] * section[:-1, 1]))
    assert (mesh.cell_volumes > 0).all()
    assert mesh.cell_volumes.sum() == pytest.approx(domain - hole, rel=1e-9)
    # The wall's area vectors point out of the fluid: into the section.
    centres, into = mesh.face_centres[wall.faces], mesh.face_areas[wall.faces]
    upper = centres[:, 1] > 0.03
    assert (into[upper, 1] < 0).all()
    assert (into[2 * COARSE.side :, 0] < 0).all()  # the base looks downstream


@pytest.mark.skipif(shutil.which("checkMesh") is None, reason="needs OpenFOAM")
@pytest.mark.parametrize("curve", [naca("4415", 400), opened(0.005, 400)], ids=["sharp", "blunt"])
def test_openfoam_finds_no_fault_but_long_cells(tmp_path, curve):
    grid = cgrid.grid(curve, airfoils.MESHES["fast"], 1e-5, 0.05)
    cgrid.write(grid, tmp_path)
    airfoils.write_settings(tmp_path, airfoils.air(4e6, 3.0), 10)
    log = openfoam.run(tmp_path, "checkMesh").read_text()
    assert "Boundary openness" in log
    for fault in ("negative", "incorrectly oriented", "Upper triangular ordering: ***", "highly skew"):
        assert fault not in log
