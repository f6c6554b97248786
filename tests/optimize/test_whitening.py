"""Coordinates: there and back again, and white."""

import numpy as np

from advmetric.optimize.whitening import WhitenedPoints


def test_factors_go_there_and_back_and_the_scatter_is_white():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4)) * [0.1, 1.0, 3.0, 10.0]
    X -= X.mean(axis=0)
    found = WhitenedPoints.of(X, lambda Z: Z.T @ Z)
    L = rng.normal(size=(3, 4))
    np.testing.assert_allclose(L @ found.to @ found.back, L, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.X @ (L @ found.to).T, X @ L.T, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found.X.T @ found.X, np.eye(4), atol=1e-8)
