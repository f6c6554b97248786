"""Are the differences more than noise? Ranks, paired Wilcoxon tests, Holm's correction, critical difference."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata, studentized_range, wilcoxon

__all__ = ["average_ranks", "critical_difference", "holm", "p_values_against_best", "paired_p_value", "spread"]


def spread(values: ArrayLike) -> Any:
    """Return the standard deviation over the first axis, with n - 1 in the denominator; 0 of a single value.

    >>> round(float(spread([1.0, 3.0])), 3), float(spread([1.0]))
    (1.414, 0.0)
    """
    array = np.asarray(values)
    return array.std(axis=0, ddof=min(1, len(array) - 1))


def holm(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Holm's step-down adjustment: the i-th smallest of m is multiplied by m - i + 1, and never falls below the last.

    >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values)
    factors = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factors * p_values[order]))
    return adjusted


def paired_p_value(gaps: NDArray[np.float64]) -> float:
    """Two-sided Wilcoxon signed-rank test of paired differences; 1 where there are none.

    >>> paired_p_value(np.zeros(5)), round(paired_p_value(np.arange(1.0, 7.0)), 4)
    (1.0, 0.0312)
    """
    rounded = np.round(gaps, 12)
    if len(rounded) < 2 or not rounded.any():
        return 1.0
    with warnings.catch_warnings():
        # SciPy before 1.15, of few differences with ties.
        warnings.filterwarnings("ignore", "Sample size too small for normal approximation", UserWarning)
        return float(wilcoxon(rounded, zero_method="zsplit").pvalue)


def p_values_against_best(errors: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    """Holm-adjusted p of the paired Wilcoxon test of each method against the one with the lowest mean error.

    Two-sided, over trials on the same splits; the best itself, and one that never differs from it, has 1.
    """
    best = min(errors, key=lambda name: float(errors[name].mean()))
    others = [name for name in errors if name != best]
    p_values = [paired_p_value(errors[name] - errors[best]) for name in others]
    return {best: 1.0} | dict(zip(others, holm(np.array(p_values)).tolist(), strict=True))


def average_ranks(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean rank of each column over the rows, 1 for the lowest; ties share.

    >>> average_ranks(np.array([[0.1, 0.2, 0.2], [0.3, 0.1, 0.2]])).tolist()
    [2.0, 1.75, 2.25]
    """
    ranks: NDArray[np.float64] = np.vstack([rankdata(row) for row in means]).mean(axis=0)
    return ranks


def critical_difference(n_methods: int, n_sets: int, level: float = 0.05) -> float:
    """Return the least difference of average ranks over ``n_sets`` sets that Nemenyi's test calls significant.

    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    q = float(studentized_range.ppf(1.0 - level, n_methods, np.inf)) / np.sqrt(2.0)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_sets)))
