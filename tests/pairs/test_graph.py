"""Differences of pairs without forming them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from advmetric.pairs import graph
from advmetric.pairs.graph import PairGraph


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("dense", [0, 10**9])
def test_difference_map_is_the_difference_array(dense, in_order, monkeypatch):
    monkeypatch.setattr(graph, "_DENSE", dense)
    monkeypatch.setattr(graph, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(graph, "_CACHE_BYTES", 200)
    rng = np.random.RandomState(0)
    Z, left, right, weights = rng.randn(20, 4), rng.randint(20, size=300), rng.randint(20, size=300), rng.randn(300)
    if in_order:
        left = np.sort(left)
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
    Y, columns = rng.randn(20, 4), rng.rand(4, 2)
    part = PairGraph(300, rows=slice(40, 90))
    for pairs, rows, chosen in ((by_index, Z, slice(None)), (formed, V, slice(None)), (part, V, slice(40, 90))):
        W, w = V[chosen], weights[chosen]
        assert len(pairs) == len(W)
        assert_allclose(pairs.squares(rows, columns), W**2 @ columns, rtol=1e-12)
        assert_allclose(pairs.inner(rows, rows @ M), expected[chosen], atol=1e-11)
        assert_allclose(pairs.scatter(w, rows), W.T @ (w[:, None] * W), atol=1e-11)
        assert_allclose(pairs.moment(w, rows @ M, rows), M @ W.T @ (w[:, None] * W), atol=1e-11)
        assert_allclose(pairs.quadratic(rows, rows @ M), expected[chosen], atol=1e-11)
    assert_allclose(by_index.moment(weights, Y, Z), (Y[left] - Y[right]).T @ (weights[:, None] * V), atol=1e-11)


def test_a_product_does_not_change_the_weights_of_an_earlier_one():
    pairs, Z = PairGraph(3, np.array([0, 1]), np.array([1, 2])), np.array([[0.0], [1.0], [3.0]])
    first = pairs._weighted(np.array([1.0, 1.0]))
    assert_allclose(pairs.scatter(np.array([5.0, 1.0]), Z), [[9.0]])
    assert first.data.tolist() == [1.0, 1.0]
