"""Differences of pairs without forming them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from advmetric.pairs import graph
from advmetric.pairs.graph import PairGraph


@pytest.mark.parametrize("dense", [0, 10**9])
def test_difference_map_is_the_difference_array(dense, monkeypatch):
    monkeypatch.setattr(graph, "_DENSE", dense)
    monkeypatch.setattr(graph, "BLOCK_BYTES", 2000)
    rng = np.random.RandomState(0)
    Z, left, right, weights = rng.randn(20, 4), rng.randint(20, size=300), rng.randint(20, size=300), rng.randn(300)
    M = rng.randn(4, 4)
    M = M + M.T
    V = Z[left] - Z[right]
    by_index, formed = PairGraph(20, left, right), PairGraph(300)
    expected = np.einsum("ij,jk,ik->i", V, M, V)
    assert_allclose(by_index.quadratic(Z, Z @ M), expected, atol=1e-11)
    assert_allclose(formed.quadratic(V, V @ M), expected, atol=1e-11)
    scatter = V.T @ (weights[:, None] * V)
    assert_allclose(Z.T @ by_index.laplacian(weights, Z), scatter, atol=1e-11)
    assert_allclose(V.T @ formed.laplacian(weights, V), scatter, atol=1e-11)
