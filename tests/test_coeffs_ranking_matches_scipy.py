"""The comparison with true values gives the statistics that scipy gives, with intervals that cover."""

import numpy as np
import pytest
from scipy import stats

from aerosurrogate.errors import InputError
from aerosurrogate.trust.agreement import compare, read_truth


def table(noise: float, count: int = 30, seed: int = 0):
    random = np.random.default_rng(seed)
    true = random.uniform(0.2, 0.4, count)
    predicted = true + noise * random.normal(size=count)
    designs = [{"name": f"d{i}", "cd": float(v), "cl": None} for i, v in enumerate(predicted)]
    return designs, {f"d{i}": {"cd": float(v)} for i, v in enumerate(true)}, predicted, true


def test_statistics_are_those_of_scipy():
    designs, truth, predicted, true = table(0.03)
    found = compare(designs, truth)
    assert found["spearman"]["cd"] == pytest.approx(stats.spearmanr(predicted, true).statistic)
    assert found["kendall"]["cd"] == pytest.approx(stats.kendalltau(predicted, true).statistic)
    assert found["relative_error"]["cd"] == pytest.approx(np.mean(np.abs(predicted / true - 1)))
    low, high = found["spearman"]["cd_interval"]
    assert low < found["spearman"]["cd"] < high <= 1
    assert "cl" not in found["spearman"]
    assert set(found["best"]["cd"]) == {"1", "3", "5", "10"}


def test_a_perfect_ranking_is_perfect_whatever_the_scale():
    designs, truth, _, _ = table(0.0)
    found = compare([{**d, "cd": 2 * d["cd"]} for d in designs], truth)
    assert found["spearman"]["cd"] == pytest.approx(1)
    assert found["spearman"]["cd_interval"] == pytest.approx([1, 1])
    assert found["best"]["cd"] == {"1": 1, "3": 3, "5": 5, "10": 10}
    assert found["relative_error"]["cd"] == pytest.approx(1)


def test_designs_that_are_all_alike_have_no_rank_correlation():
    designs, truth, _, _ = table(0.01, count=4)
    assert compare([{**d, "cd": 0.3} for d in designs], truth)["spearman"]["cd"] is None


def test_names_that_do_not_match_are_refused_with_the_remedy():
    with pytest.raises(InputError, match="without folder and extension"):
        compare([{"name": "a", "cd": 1.0}], {"a.stl": {"cd": 1.0}})


def test_truth_is_read_with_or_without_lift_and_refused_when_it_is_not_a_table(tmp_path):
    path = tmp_path / "truth.csv"
    path.write_text("name,cd,cl,kind\na,0.3,-0.1,van\nb,0.2,,suv\n")
    assert read_truth(path) == {"a": {"cd": 0.3, "cl": -0.1}, "b": {"cd": 0.2}}
    path.write_text("design,drag\na,0.3\n")
    with pytest.raises(InputError, match="name,cd"):
        read_truth(path)
    path.write_text("name,cd\na,low\n")
    with pytest.raises(InputError, match="not a number"):
        read_truth(path)
