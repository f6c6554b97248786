"""Significance of differences between methods."""

import numpy as np
import pytest
from scipy.stats import wilcoxon

from advmetric.evaluation.significance import average_ranks, holm, p_values_against_best


def test_holm_is_never_below_the_raw_values_and_in_their_order():
    p = np.array([0.001, 0.2, 0.04, 0.03])
    adjusted = holm(p)
    np.testing.assert_allclose(adjusted, [0.004, 0.2, 0.09, 0.09])


def test_p_values_are_those_of_scipy_adjusted():
    rng = np.random.default_rng(0)
    errors = {"a": rng.random(20), "b": rng.random(20) + 0.5, "c": rng.random(20) + 0.1}
    found = p_values_against_best(errors)
    raw = [wilcoxon(errors[m], errors["a"]).pvalue for m in ("b", "c")]
    assert found["a"] == 1.0
    assert found["b"] == pytest.approx(2 * raw[0])
    assert found["c"] == pytest.approx(max(2 * raw[0], raw[1]))
    assert p_values_against_best({"a": np.zeros(5), "b": np.zeros(5)}) == {"a": 1.0, "b": 1.0}


def test_ranks_average_over_sets():
    np.testing.assert_allclose(average_ranks(np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]])), [1.0, 2.5, 2.5])
