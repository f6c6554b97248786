"""Target neighbours, impostors and graphs of triplets, against plain loops."""

import tracemalloc

import numpy as np
import pytest

from advmetric.pairs import graph, triplets
from advmetric.pairs.triplets import (
    Impostors,
    Neighbors,
    centred,
    impostors_within,
    nearest_impostors,
    target_neighbors,
)


@pytest.fixture(params=[1 << 23, 200], ids=["one block", "many blocks"], autouse=True)
def block(request, monkeypatch):
    monkeypatch.setattr(triplets, "BLOCK_BYTES", request.param)
    monkeypatch.setattr(graph, "_CACHE_BYTES", request.param)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = np.array([0] * 12 + [1] * 3 + [2] * 9 + [3])
    return rng.standard_normal((len(y), 4)), rng.permutation(y)


def all_distances(X):
    return ((X[:, None] - X[None]) ** 2).sum(axis=2)


def test_targets_are_the_nearest_of_the_same_class_and_missing_ones_are_minus_1(data):
    X, y = data
    D = all_distances(X)
    for i, row in enumerate(target_neighbors(X, y, 5)):
        mates = [j for j in np.argsort(D[i]) if y[j] == y[i] and j != i][:5]
        assert row.tolist() == mates + [-1] * (5 - len(mates))


def test_a_point_is_not_its_own_target_even_among_duplicates():
    targets = target_neighbors(np.ones((4, 2)), np.array([0, 0, 0, 1]), 2)
    assert all(i not in targets[i] for i in range(4))
    assert targets[3].tolist() == [-1, -1]


def test_targets_of_classes_with_one_member_each_are_refused():
    with pytest.raises(ValueError, match="every class in y has only one member"):
        target_neighbors(np.eye(3), np.arange(3), 1)


def test_nearest_impostors_are_the_nearest_of_other_classes(data):
    X, y = data
    D = all_distances(X)
    found = nearest_impostors(X, y, 20)
    for i, row in enumerate(found):
        others = [j for j in np.argsort(D[i]) if y[j] != y[i]][:20]
        assert row.tolist() == others + [-1] * (20 - len(others))
    some = np.array([7, 2, 24])
    np.testing.assert_array_equal(nearest_impostors(X, y, 20, some), found[some])


def test_impostors_within_a_radius_are_all_those_and_no_others(data):
    X, y = data
    radius = np.random.default_rng(1).uniform(-2, 9, size=len(X))
    found = impostors_within(X, y, radius)
    D = all_distances(X)
    expected = [(i, j) for i in range(len(X)) for j in range(len(X)) if y[i] != y[j] and D[i, j] < radius[i]]
    assert list(zip(found.anchors.tolist(), found.points.tolist(), strict=True)) == expected
    assert len(found) == len(expected) > 50


def test_the_search_for_impostors_does_not_hold_an_n_by_n_matrix(monkeypatch):
    monkeypatch.setattr(triplets, "BLOCK_BYTES", 1 << 23)
    n = 6000
    rng = np.random.default_rng(0)
    Z, y = rng.standard_normal((n, 3)), rng.integers(4, size=n)
    tracemalloc.start()
    impostors_within(Z, y, np.full(n, 1e-3))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n * n / 8


def pairs(left, right, n=5):
    return Impostors.of_pairs(np.array(left), np.array(right), n)


def test_sets_of_impostors_unite_and_subtract():
    a, b = pairs([3, 0, 0], [1, 4, 2]), pairs([0, 3, 4], [2, 0, 0])
    union = a.union(b)
    assert list(zip(union.anchors, union.points, strict=True)) == [(0, 2), (0, 4), (3, 0), (3, 1), (4, 0)]
    rest = a.without(b)
    assert list(zip(rest.anchors, rest.points, strict=True)) == [(0, 4), (3, 1)]
    assert len(a.without(a)) == 0


def test_sums_by_anchor_and_the_graph_of_impostors_follow_the_pairs():
    a = pairs([3, 0, 0], [1, 4, 2])
    values = np.array([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
    np.testing.assert_array_equal(a.sum_by_anchor(values), [[11, 22], [0, 0], [0, 0], [100, 200], [0, 0]])
    expected = np.zeros((5, 5))
    expected[0, 2], expected[3, 1] = 2.0, -1.0
    found = a.graph(np.array([2.0, 0.0, -1.0]))
    np.testing.assert_array_equal(found.toarray(), expected)
    assert found.nnz == 2


def test_the_laplacian_gives_the_weighted_sum_of_outer_products(data):
    X, y = data
    targets = Neighbors(target_neighbors(X, y, 3))
    weights = np.random.default_rng(2).standard_normal(targets.points.shape)
    expected = np.zeros((4, 4))
    for i, row in enumerate(targets.points):
        for c, j in enumerate(row):
            if j >= 0:
                expected += weights[i, c] * np.outer(X[i] - X[j], X[i] - X[j])
    np.testing.assert_allclose(X.T @ targets.laplacian(weights, X), expected, rtol=1e-12, atol=1e-12)


def test_distances_to_neighbours_are_those_of_the_differences(data):
    X, y = data
    targets = Neighbors(target_neighbors(X, y, 4))
    M = np.random.default_rng(3).standard_normal((4, 4))
    M += M.T
    found = targets.squared_distances(X, X @ M, missing=-7.0)
    plain = targets.squared_distances(X)
    for i, row in enumerate(targets.points):
        for c, j in enumerate(row):
            v = X[i] - X[j]
            assert found[i, c] == pytest.approx(v @ M @ v if j >= 0 else -7.0, rel=1e-12, abs=1e-12)
            assert plain[i, c] == pytest.approx(v @ v if j >= 0 else 0.0, rel=1e-12)


def test_duplicates_are_at_distance_0_exactly():
    Z = np.full((2, 3), 1e8 + 0.1)
    assert pairs([0], [1]).squared_distances(Z).tolist() == [0.0]


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e150])
def test_centred_points_have_mean_0_and_reach_1_at_any_scale(size):
    X = np.random.default_rng(0).standard_normal((9, 3)) * size
    points, scale = centred(X)
    assert np.abs(points.mean(axis=0)).max() < 1e-15
    assert np.abs(points).max() == 1.0
    np.testing.assert_allclose(points * scale, X - X.mean(axis=0), rtol=1e-12)


def test_centred_leaves_identical_points_at_0():
    points, scale = centred(np.full((3, 2), 5.0, dtype=np.float32))
    assert scale == 0.0
    assert not points.any()
    assert points.dtype == np.float64
