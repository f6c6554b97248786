"""Bounded pairs: percentiles without n×n, and products over pairs through the graph of the points."""

import tracemalloc

import numpy as np
import pytest

from advmetric.pairs.bounds import bounded_pairs, check_bounds, check_percentiles, percentile_bounds
from advmetric.pairs.data import LabelledPoints, Pairs
from advmetric.pairs.samplers import RandomPairs

pytestmark = pytest.mark.numerical


def labelled(n=40, d=5, seed=0, shift=0.0):
    rng = np.random.RandomState(seed)
    return LabelledPoints(rng.randn(n, d) + shift, rng.randint(3, size=n))


def squared_distances(X):
    left, right = np.triu_indices(len(X), k=1)
    return ((X[left] - X[right]) ** 2).sum(axis=1)


def test_percentiles_of_few_points_are_exact_and_of_squared_distances():
    X = labelled().X
    expected = np.percentile(squared_distances(X), (5, 95))
    np.testing.assert_allclose(percentile_bounds(X, (5, 95)), expected, rtol=1e-12)


def test_percentiles_of_many_points_are_met_by_a_sample_without_an_n_by_n_matrix():
    X = np.random.RandomState(0).randn(2500, 3)
    exact = np.percentile(squared_distances(X), (5, 95))
    tracemalloc.start()
    sampled = percentile_bounds(X, (5, 95), random_state=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_allclose(sampled, exact, rtol=0.02)
    assert peak < 8 * 2500**2 / 3
    assert sampled == percentile_bounds(X, (5, 95), random_state=0)


def test_duplicates_do_not_make_a_bound_zero():
    X = np.repeat(labelled(n=10).X, 30, axis=0)
    low, high = percentile_bounds(X, (5, 95))
    assert 0.0 < low < high
    assert percentile_bounds(np.ones((5, 2))) == (1.0, 1.0)
    assert percentile_bounds(np.ones((1, 2))) == (1.0, 1.0)


def explicit(data, left, right):
    return data.X[left] - data.X[right]


@pytest.mark.parametrize("n_pairs", [30, 300])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_moments_and_distances_equal_the_sums_over_pairs(n_pairs, shift):
    data = labelled(shift=shift)
    rng = np.random.RandomState(1)
    left = rng.randint(40, size=n_pairs)
    right = (left + rng.randint(1, 40, size=n_pairs)) % 40
    y = np.where(np.arange(n_pairs) % 3 == 0, 1, -1)
    problem = bounded_pairs(Pairs(data.X, left, right, y), bounds=(1.0, 4.0))
    assert (problem.graph.right is None) == (n_pairs == 30)
    V = explicit(data, left, right)
    G, H, weights = rng.randn(5, 2), rng.randn(5, 3), rng.randn(n_pairs)
    Y, Z = problem.rows @ G, problem.rows @ H
    unit, tolerance = problem.scale**2, 1e-8 if shift else 1e-11
    np.testing.assert_allclose(unit * problem.graph.inner(Y, Y), ((V @ G) ** 2).sum(axis=1), rtol=tolerance)
    np.testing.assert_allclose(
        unit * problem.graph.inner(Y, Y @ G[:2, :2]), np.einsum("ij,ij->i", V @ G, V @ G @ G[:2, :2]), atol=1e-7
    )
    expected = (V @ G).T @ (weights[:, None] * (V @ H))
    np.testing.assert_allclose(
        unit * problem.graph.moment(weights, Y, Z), expected, atol=tolerance * np.abs(expected).max() * 10
    )
    np.testing.assert_allclose(unit * problem.bound, np.where(y == 1, 1.0, 4.0))
    np.testing.assert_allclose(problem.original_bounds, (1.0, 4.0))


def test_pairs_of_equal_points_are_dropped():
    X = np.array([[0.0, 1.0], [0.0, 1.0], [2.0, 0.0], [3.0, 5.0]])
    pairs = Pairs(X, np.array([0, 0, 1, 2]), np.array([1, 2, 2, 3]), np.array([1, 1, -1, -1]))
    problem = bounded_pairs(pairs)
    np.testing.assert_array_equal(problem.sign, [1, -1, -1])


def test_labels_pairs_and_index_pairs_pose_the_same_problem():
    data = labelled()
    drawn = bounded_pairs(data, pairs=500, random_state=3)
    assert len(drawn) == 500
    sampled = RandomPairs(500).sample(data.X, data.y, 3)
    left, right = sampled.left, sampled.right
    formed = np.stack([data.X[left], data.X[right]], axis=1)
    other = bounded_pairs(Pairs.formed(formed, drawn.sign.astype(int)), bounds=drawn.original_bounds)
    np.testing.assert_allclose(
        drawn.scale**2 * drawn.graph.inner(drawn.rows, drawn.rows),
        other.scale**2 * other.graph.inner(other.rows, other.rows),
    )
    np.testing.assert_array_equal(drawn.sign, other.sign)


def test_all_pairs_are_listed_for_few_points_and_refused_for_many():
    assert len(bounded_pairs(labelled(n=20), pairs="all")) == 190
    with pytest.raises(ValueError, match=r'pairs="all" would list 2250381 pairs.*"random"'):
        bounded_pairs(labelled(n=2122), pairs="all")


def test_pairs_of_one_kind_only_are_refused():
    data = LabelledPoints(np.eye(4), np.arange(4))
    with pytest.raises(ValueError, match="no similar pair"):
        bounded_pairs(data, pairs=50, random_state=0)


@pytest.mark.parametrize(
    ("bounds", "percentiles", "error", "message"),
    [
        ((2.0, 1.0), (5, 95), ValueError, "0 < upper <= lower"),
        ((0.0, 1.0), (5, 95), ValueError, "0 < upper <= lower"),
        ((1.0,), (5, 95), ValueError, "bounds must be two"),
        ((1.0, np.nan), (5, 95), ValueError, "bounds must be two finite"),
        ("ab", (5, 95), TypeError, "bounds must be two numbers"),
        (None, (95, 5), ValueError, "low <= high"),
        (None, (5, 101), ValueError, "low <= high"),
        (None, None, ValueError, "percentiles must be two"),
    ],
)
def test_senseless_bounds_are_refused_by_name(bounds, percentiles, error, message):
    def check():
        check_bounds("bounds", bounds)
        check_percentiles("percentiles", percentiles)

    with pytest.raises(error, match=message):
        check()
