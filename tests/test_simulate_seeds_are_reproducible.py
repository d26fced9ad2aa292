"""Case i of a seed is always the same case; a spec is checked before anything is solved."""

from pathlib import Path

import numpy as np
import pytest

from aerosurrogate.conditions import StreamOptions
from aerosurrogate.errors import InputError
from aerosurrogate.mesh.airfoil import naca, naca_digits
from aerosurrogate.simulate import airfoils, cgrid, driver
from aerosurrogate.simulate.driver import designs_of
from aerosurrogate.simulate.spec import Spec, parse_spec, read_spec

SPECS = Path(__file__).parents[1] / "specs"


@pytest.mark.parametrize("family", ["airfoil", "car", "ahmed"])
def test_a_case_depends_on_seed_and_number_alone(family):
    few = list(designs_of(Spec(family, seed=3), 3))
    assert list(designs_of(Spec(family, seed=3), 6))[:3] == few
    others = list(designs_of(Spec(family, seed=4), 3))
    assert all(a.conditions != b.conditions for a, b in zip(few, others, strict=True))
    assert [design.name for design in few] == [f"{family}-{i:05d}" for i in range(3)]


def test_a_run_can_begin_at_a_later_case():
    path = str(SPECS / "road_rans.toml")
    later, _, _ = driver._designs([path], 12, 9, None, StreamOptions())
    assert later == list(designs_of(read_spec(Path(path)), 12))[9:]
    assert [design.placements for design in later] == [3, 1, 1], "held-out bodies are solved three times"


def test_the_order_of_ranges_in_a_file_does_not_matter():
    ranges = {"thickness": (10.0, 12.0), "alpha": (0.0, 4.0)}
    backwards = dict(reversed(ranges.items()))
    assert list(designs_of(Spec("airfoil", ranges=ranges), 3)) == list(designs_of(Spec("airfoil", ranges=backwards), 3))


def test_published_case_of_the_airfoil_set_never_moves():
    design = next(designs_of(read_spec(SPECS / "naca_rans.toml"), 1))
    assert (design.name, design.parameters["naca"]) == ("naca-00000", "naca:1.482_4.775_1_7.660")
    assert (design.conditions.reynolds, design.conditions.alpha) == pytest.approx(
        (5620575.346708695, -1.4213037264912765), rel=1e-12
    )


def test_drawn_airfoils_keep_to_their_ranges_and_can_be_drawn():
    spec = read_spec(SPECS / "naca_rans.toml")
    designs = list(designs_of(spec, 300))
    digits = [naca_digits(design.parameters["naca"]) for design in designs]
    assert {len(d) for d in digits} == {3, 4}
    assert all(5 <= d[-1] <= 20 for d in digits)
    assert all(d[0] <= 7 and 1.5 <= d[1] <= 7 for d in digits if len(d) == 3)
    assert all(d[0] <= 4 and 3 <= d[1] <= (7 if d[2] else 8) for d in digits if len(d) == 4)
    reynolds, alpha = np.array([(d.conditions.reynolds, d.conditions.alpha) for d in designs]).T
    assert 2e6 <= reynolds.min() < 2.1e6 < 5.9e6 < reynolds.max() <= 6e6
    assert -5 <= alpha.min() < -4.5 < 14.5 < alpha.max() <= 15
    for design in designs[:40]:
        assert np.isfinite(naca(design.parameters["naca"], 50)).all()


def test_free_sections_are_as_thick_and_cambered_as_drawn_and_can_be_meshed():
    spec = read_spec(SPECS / "sections_rans.toml")
    designs = list(designs_of(spec, 120))
    free = [design for design in designs if design.parameters["kind"] == "cst"]
    assert 40 <= len(free) <= 80  # half of them
    edges = np.array([float(design.parameters["trailing_edge"]) for design in free])
    assert 0.2 <= np.mean(edges > 0) <= 0.5
    assert edges.max() <= 1.0
    assert {design.parameters["kind"] for design in designs} == {"naca4", "naca5", "naca6", "cst"}
    reynolds = np.array([design.conditions.reynolds for design in designs])
    assert 1.5e6 < np.median(reynolds) < 3.5e6  # even in the logarithm: the middle of 5e5 and 1e7 is 2.2e6
    for design in free[:25]:
        curve = airfoils.curve_of(design)
        nose = airfoils.CURVE_POINTS // 2
        upper, lower = curve[nose::-1], np.concatenate([curve, curve[:1]])[nose : 2 * nose + 1]
        thickness = np.max(upper[:, 1] - lower[:, 1])
        assert 0.049 <= thickness <= 0.261  # a blunt edge adds to it
        assert np.abs(upper[:, 1] + lower[:, 1]).max() / 2 <= 0.071
        assert (upper[1:-1, 1] > lower[1:-1, 1]).all()
        grid = cgrid.grid(curve, airfoils.MESHES["standard"], 1e-5)
        assert (grid.areas() > 0).all()


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_spec_of_the_project_gives_designs(path):
    spec = read_spec(path)
    assert len(list(designs_of(spec, 2))) == 2


def test_a_fixed_number_and_a_single_word_are_ranges_too():
    spec = parse_spec({"family": "airfoil", "ranges": {"alpha": 4, "series": "naca4"}}, "spec")
    design = next(designs_of(spec, 1))
    assert design.conditions.alpha == 4
    assert len(naca_digits(design.parameters["naca"])) == 3


def test_ones_own_shape_goes_through_many_streams(tmp_path):
    file = tmp_path / "mine.dat"
    file.write_text("mine\n" + "\n".join(f"{x:.6f} {y:.6f}" for x, y in naca("2412", 60)))
    (tmp_path / "spec.toml").write_text('file = "mine.dat"\nname = "mine"\n[ranges]\nalpha = [0, 4]\n')
    designs = list(designs_of(read_spec(tmp_path / "spec.toml"), 4))
    assert [design.file for design in designs] == [str(file)] * 4
    assert len({design.conditions.alpha for design in designs}) == 4
    assert all(0 <= design.conditions.alpha <= 4 for design in designs)


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ({}, "family"),
        ({"family": "boat"}, "boat"),
        ({"family": "airfoil", "sped": 3}, "sped"),
        ({"family": "airfoil", "seed": "one"}, "seed"),
        ({"family": "airfoil", "count": 0}, "count"),
        ({"family": "airfoil", "fidelity": "superb"}, "superb"),
        ({"family": "airfoil", "ranges": {"alpha": [5, -5]}}, "alpha"),
        ({"family": "airfoil", "ranges": {"alpha": [1, float("nan")]}}, "alpha"),
        ({"family": "airfoil", "ranges": {"span": [1, 2]}}, "span"),
        ({"family": "airfoil", "ranges": {"series": ["naca7"]}}, "naca7"),
        ({"family": "airfoil", "ranges": {"series": 4}}, "series"),
    ],
)
def test_what_is_wrong_in_a_spec_is_named(document, word):
    with pytest.raises(InputError, match=word):
        list(designs_of(parse_spec(document, "spec"), 1))


def test_a_spec_that_is_no_toml_is_refused(tmp_path):
    file = tmp_path / "spec.toml"
    file.write_text("family = ")
    with pytest.raises(InputError, match="TOML"):
        read_spec(file)
    with pytest.raises(InputError, match="no such spec"):
        read_spec(tmp_path / "missing.toml")
