"""On fine meshes two triangles in one plane share an answer, and splinters one more; nobody's drag changes by it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aerosurrogate import predict_many
from aerosurrogate.body import _divided, _joined
from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.mesh.pairs import paired
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.surface import Surface

SAMPLES = Path(__file__).parents[1] / "sample_meshes"
CAR = SAMPLES / "car_no_wheels.stl"


def test_the_halves_of_quadrilaterals_find_each_other_and_no_others():
    x, y = np.meshgrid(np.arange(4.0), np.arange(3.0), indexing="ij")
    points = np.stack([x, y, np.where(x > 1, x - 1, 0.0)], axis=-1).reshape(-1, 3)  # bent by 45 degrees at x = 1
    node = np.arange(12).reshape(4, 3)
    a, b, c, d = (n.ravel() for n in (node[:-1, :-1], node[1:, :-1], node[1:, 1:], node[:-1, 1:]))
    group = paired(Surface(points, np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]), "sheet"))
    assert (group[:6] == group[6:]).all()  # over the diagonal, the longest edge
    assert sorted(group[:6]) == list(range(6))


def test_splinters_of_a_triangle_share_few_answers_and_whole_triangles_do_not():
    whole = Surface(np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]), np.array([[0, 1, 2]]), "triangle")
    splinters = _divided(_divided(whole))
    for count, least, most in ((1, 8, 16), (200, 1, 3)):  # beside one whole triangle, small ones are the usual ones
        large = [replace(whole, points=whole.points + np.array([2.0 * i, 0.0, 0.0])) for i in range(1, count + 1)]
        found = paired(_joined([splinters, *large]))
        assert least <= len(np.unique(found[:16])) <= most
        assert sorted(found[16:]) == list(range(found[16], found[16] + count))


def test_pairs_lie_in_one_plane_and_larger_groups_are_no_larger_than_a_triangle():
    surface = read_surface(str(CAR))
    group = paired(surface)
    many = np.bincount(group)[group] > 2
    assert many.any()
    assert np.bincount(group[many], surface.areas[many]).max() <= surface.areas.mean()
    assert group.max() + 1 < 0.56 * len(surface.cells)
    first, second = np.argsort(group, kind="stable")[:-1], np.argsort(group, kind="stable")[1:]
    both = (group[first] == group[second]) & ~many[first]
    assert np.einsum("ij,ij->i", surface.normals[first[both]], surface.normals[second[both]]).min() > 0.98


@pytest.mark.parametrize("name", ["car_no_wheels.stl", "car.stl"])  # one piece; five with seams of splinters
def test_the_forces_stay(monkeypatch: pytest.MonkeyPatch, name: str):
    options = CoeffsOptions(StreamOptions(speed=30.0))
    (shared,) = coeffs([str(SAMPLES / name)], options).rows
    monkeypatch.setattr(predict_many, "FINE", 10**9)
    (each,) = coeffs([str(SAMPLES / name)], options).rows
    assert shared["cd_integrated"] != each["cd_integrated"]
    assert shared["cd_integrated"] == pytest.approx(each["cd_integrated"], rel=0.01)
    assert shared["cl_integrated"] == pytest.approx(each["cl_integrated"], abs=0.003)
    assert shared["cd"] == pytest.approx(each["cd"], rel=0.005)  # half of it the head's, which sees other points
