"""Pairs to learn from, and the comparison of two learned metrics."""

import numpy as np
import pytest


def index_pairs(y, n):
    """Random index pairs (n, 2) of points with classes y, and their labels."""
    left, right = np.random.default_rng(1).integers(len(y), size=(2, n))
    return np.column_stack([left, right]), np.where(y[left] == y[right], 1, -1)


def assert_same_metric(found, expected, tol):
    """The same matrix up to tol of its largest entry, and the same number of features and threshold."""
    ours, theirs = found.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix()
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tol * np.abs(theirs).max())
    assert found.n_features_in_ == expected.n_features_in_
    assert hasattr(found, "threshold_") == hasattr(expected, "threshold_")
    if hasattr(expected, "threshold_"):
        assert found.threshold_ == pytest.approx(expected.threshold_, rel=tol)
