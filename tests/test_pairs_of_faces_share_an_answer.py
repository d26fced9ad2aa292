"""On fine meshes two triangles in one plane share an answer, and nobody's drag changes by it."""

from pathlib import Path

import numpy as np
import pytest

from aerosurrogate import predict_many
from aerosurrogate.coeffs import CoeffsOptions, coeffs
from aerosurrogate.conditions import StreamOptions
from aerosurrogate.mesh.pairs import paired
from aerosurrogate.mesh.read import read_surface
from aerosurrogate.mesh.surface import Surface

CAR = Path(__file__).parents[1] / "sample_meshes" / "car_no_wheels.stl"


def test_the_halves_of_quadrilaterals_find_each_other_and_no_others():
    x, y = np.meshgrid(np.arange(4.0), np.arange(3.0), indexing="ij")
    points = np.stack([x, y, np.where(x > 1, x - 1, 0.0)], axis=-1).reshape(-1, 3)  # bent by 45 degrees at x = 1
    node = np.arange(12).reshape(4, 3)
    a, b, c, d = (n.ravel() for n in (node[:-1, :-1], node[1:, :-1], node[1:, 1:], node[:-1, 1:]))
    group = paired(Surface(points, np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]), "sheet"))
    assert (group[:6] == group[6:]).all()  # over the diagonal, the longest edge
    assert sorted(group[:6]) == list(range(6))


def test_pairs_are_two_at_most_and_lie_in_one_plane():
    surface = read_surface(str(CAR))
    group = paired(surface)
    assert np.bincount(group).max() == 2
    assert group.max() + 1 < 0.56 * len(surface.cells)
    first, second = np.argsort(group, kind="stable")[:-1], np.argsort(group, kind="stable")[1:]
    both = group[first] == group[second]
    assert np.einsum("ij,ij->i", surface.normals[first[both]], surface.normals[second[both]]).min() > 0.98


def test_the_forces_stay(monkeypatch: pytest.MonkeyPatch):
    options = CoeffsOptions(StreamOptions(speed=30.0))
    (shared,) = coeffs([str(CAR)], options).rows
    monkeypatch.setattr(predict_many, "FINE", 10**9)
    (each,) = coeffs([str(CAR)], options).rows
    assert shared["cd_integrated"] != each["cd_integrated"]
    assert shared["cd_integrated"] == pytest.approx(each["cd_integrated"], rel=0.01)
    assert shared["cl_integrated"] == pytest.approx(each["cl_integrated"], abs=0.003)
    assert shared["cd"] == each["cd"]  # the head's, which sees other points
