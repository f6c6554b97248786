"""Pairs, samplers and scatter matrices against sums over pairs written out."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import chisquare

from advmetric import GMML, load_dataset
from advmetric.pairs.data import Pairs
from advmetric.pairs.samplers import AllPairs, BalancedPairs, NeighborPairs, RandomPairs, make_sampler
from advmetric.pairs.scatter import all_pairs_scatter, pairs_scatter
from reference.scatter import all_pairs, scatter_of

SAMPLERS = [AllPairs(), RandomPairs(500), BalancedPairs(501), NeighborPairs(2, 4)]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def unbalanced(rng):
    """Sixty points of four classes of very different size, one of them with a single member."""
    y = np.repeat([3, 0, 9, 5], [35, 4, 20, 1])
    X = rng.standard_normal((60, 5)) @ rng.standard_normal((5, 5)) + y[:, None]
    order = rng.permutation(60)
    return X[order], y[order]


def assert_close(found, expected, tolerance=1e-10):
    for ours, theirs in zip(found, expected, strict=True):
        assert np.linalg.norm(ours - theirs) < tolerance * np.linalg.norm(theirs)


def random_index_pairs(rng, n, n_pairs):
    left, right = rng.integers(n, size=(2, n_pairs))
    y = np.where(rng.random(n_pairs) < 0.3, 1, -1)
    return left, right, y


# --- scatter --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_all_pairs_scatter_is_the_sum_over_all_pairs(unbalanced, offset, dtype):
    """In double precision whatever the input: rounding X to its own dtype is the only loss."""
    X, classes = unbalanced
    X = (X + offset).astype(dtype)
    left, right, y = all_pairs(classes)
    scatter = all_pairs_scatter(X, classes)
    assert_close((scatter.A, scatter.B), scatter_of(X, left, right, y))
    assert (scatter.n_similar, scatter.n_dissimilar) == (np.sum(y == 1), np.sum(y == -1))


def test_all_pairs_scatter_is_right_for_balanced_classes_too(rng):
    X, classes = rng.standard_normal((30, 4)) + 5.0, np.tile([0, 1, 2], 10)
    scatter = all_pairs_scatter(X, classes)
    assert_close((scatter.A, scatter.B), scatter_of(X, *all_pairs(classes)))


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_pairs", [40, 2000], ids=["differences", "graph"])
def test_scatter_of_index_pairs_is_the_sum_over_them(rng, n_pairs, dtype, offset):
    """Repeated pairs, a pair and its mirror image, and pairs of a point with itself count as given."""
    X = (rng.standard_normal((50, 6)) * [1, 10, 0.1, 1, 3, 2] + offset).astype(dtype)
    left, right, y = random_index_pairs(rng, 50, n_pairs)
    left[:4], right[:4], y[:4] = [1, 1, 2, 3], [2, 2, 1, 3], 1
    scatter = pairs_scatter(Pairs(X, left, right, y))
    assert_close((scatter.A, scatter.B), scatter_of(X, left, right, y))
    assert (scatter.n_similar, scatter.n_dissimilar) == (np.sum(y == 1), np.sum(y == -1))


def test_one_distant_feature_does_not_spoil_the_scatter_of_the_others(rng):
    X = rng.standard_normal((50, 3)) * [1.0, 1e-3, 1.0] + [0.0, 1e6, 0.0]
    left, right, y = random_index_pairs(rng, 50, 3000)
    scatter, expected = pairs_scatter(Pairs(X, left, right, y)), scatter_of(X, left, right, y)
    for ours, theirs in zip((scatter.A, scatter.B), expected, strict=True):
        scale = np.sqrt(np.diagonal(theirs))
        assert np.abs((ours - theirs) / np.outer(scale, scale)).max() < 1e-10


def test_all_listed_pairs_and_class_statistics_agree_on_real_data():
    data = load_dataset("image-segment")
    X, classes = data.X[::10], data.y[::10]
    listed, exact = pairs_scatter(AllPairs().sample(X, classes)), all_pairs_scatter(X, classes)
    assert_close((exact.A, exact.B), (listed.A, listed.B))
    assert (exact.n_similar, exact.n_dissimilar) == (listed.n_similar, listed.n_dissimilar)


def test_blocks_of_any_size_give_the_same_scatter(rng, monkeypatch):
    X = rng.standard_normal((50, 6))
    for n_pairs in (40, 2000):
        pairs = Pairs(X, *random_index_pairs(rng, 50, n_pairs))
        whole = pairs_scatter(pairs)
        monkeypatch.setattr("advmetric.pairs.data.BLOCK_BYTES", 8 * 6 * 7)
        blocked = pairs_scatter(pairs)
        monkeypatch.undo()
        assert_close((blocked.A, blocked.B), (whole.A, whole.B), 1e-13)


def test_more_pairs_than_points_go_through_the_graph(rng, monkeypatch):
    """O(Nd + nd²), not O(Nd²): no difference is formed."""
    pairs = Pairs(rng.standard_normal((50, 6)), *random_index_pairs(rng, 50, 2000))
    monkeypatch.setattr(Pairs, "differences", lambda self: pytest.fail("differences were formed"))
    assert pairs_scatter(pairs).n_similar > 50


def test_formed_pairs_and_index_pairs_go_through_the_same_kernel(rng):
    X = rng.standard_normal((50, 6))
    left, right, y = random_index_pairs(rng, 50, 300)
    formed = Pairs.formed(np.stack([X[left], X[right]], axis=1), y)
    by_index, by_value = pairs_scatter(Pairs(X, left, right, y)), pairs_scatter(formed)
    assert_close((by_value.A, by_value.B), (by_index.A, by_index.B), 1e-13)


def test_formed_pairs_are_a_view():
    formed = np.arange(24.0).reshape(4, 2, 3)
    pairs = Pairs.formed(formed)
    assert np.shares_memory(pairs.X, formed)
    assert len(pairs) == 4
    assert np.array_equal(pairs.X[pairs.left], formed[:, 0])
    assert np.array_equal(pairs.X[pairs.right], formed[:, 1])


def test_taking_pairs_keeps_the_points_and_the_labels(rng):
    X = rng.standard_normal((10, 2))
    pairs = Pairs(X, np.array([0, 1, 2]), np.array([3, 4, 5]), np.array([1, -1, 1]))
    some = pairs.take(np.array([2, 0]))
    assert some.X is X
    assert (some.left.tolist(), some.right.tolist(), some.labels.tolist()) == ([2, 0], [5, 3], [1, 1])
    with pytest.raises(ValueError, match="no labels"):
        _ = Pairs(X, pairs.left, pairs.right).take(np.array([True, False, True])).labels


def test_differences_come_in_blocks_in_double_precision(rng, monkeypatch):
    monkeypatch.setattr("advmetric.pairs.data.BLOCK_BYTES", 8 * 3 * 4)
    X = rng.standard_normal((20, 3)).astype(np.float32)
    left, right, _ = random_index_pairs(rng, 20, 10)
    blocks = list(Pairs(X, left, right).differences())
    assert [len(V) for _, V in blocks] == [4, 4, 2]
    assert all(V.dtype == np.float64 for _, V in blocks)
    found = np.concatenate([V for _, V in blocks])
    assert np.array_equal(found, X[left].astype(float) - X[right].astype(float))


@pytest.mark.parametrize("n_points", [1000, 1_100_000], ids=["graph", "differences"])
def test_a_million_index_pairs_are_never_formed(rng, n_points):
    """Formed, they would take 480 MB; the graph and blocks of differences stay well below."""
    d, n_pairs = 30, 10**6
    X = np.ones((n_points, d), dtype=np.float32)
    X[:1000] = rng.standard_normal((1000, d))
    left, right, y = random_index_pairs(rng, n_points, n_pairs)
    pairs = Pairs(X, left, right, y)
    tracemalloc.start()
    try:
        pairs_scatter(pairs)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.3 * (n_pairs * 2 * d * 8)


def test_scatter_needs_pairs_of_both_kinds(rng):
    X, index = rng.standard_normal((4, 2)), np.arange(2)
    with pytest.raises(ValueError, match="no dissimilar pair"):
        pairs_scatter(Pairs(X, index, index + 2, np.array([1, 1])))
    with pytest.raises(ValueError, match="no similar pair"):
        pairs_scatter(Pairs(X, index, index + 2, np.array([-1, -1])))
    with pytest.raises(ValueError, match="only one class"):
        all_pairs_scatter(X, np.zeros(4))
    with pytest.raises(ValueError, match="only one member"):
        all_pairs_scatter(X, np.arange(4))


# --- samplers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_samplers_label_right_and_pair_no_point_with_itself(unbalanced, sampler):
    X, classes = unbalanced
    pairs = sampler.sample(X, classes, 3)
    assert pairs.X is X
    assert np.all(pairs.left != pairs.right)
    assert np.array_equal(pairs.labels == 1, classes[pairs.left] == classes[pairs.right])
    assert set(pairs.labels) == {-1, 1}


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_samplers_repeat_themselves_under_the_same_random_state(unbalanced, sampler):
    X, classes = unbalanced
    once, again = sampler.sample(X, classes, 3), sampler.sample(X, classes, np.random.RandomState(3))
    assert np.array_equal(once.left, again.left)
    assert np.array_equal(once.right, again.right)


@pytest.mark.parametrize("sampler", [RandomPairs(500), BalancedPairs(500)], ids=repr)
def test_another_random_state_draws_other_pairs(unbalanced, sampler):
    X, classes = unbalanced
    assert not np.array_equal(sampler.sample(X, classes, 3).left, sampler.sample(X, classes, 4).left)


@pytest.mark.parametrize("sampler", [RandomPairs(), BalancedPairs()], ids=repr)
def test_the_default_number_of_pairs_is_1000_c_times_c_minus_1(unbalanced, sampler):
    X, classes = unbalanced
    assert len(sampler.sample(X, classes, 0)) == 1000 * 4 * 3


def test_all_pairs_lists_each_pair_once(unbalanced):
    X, classes = unbalanced
    pairs = AllPairs().sample(X, classes)
    left, right, y = all_pairs(classes)
    assert np.array_equal(pairs.left, left)
    assert np.array_equal(pairs.right, right)
    assert np.array_equal(pairs.labels, y)


def counts_of_pairs(pairs, n):
    """How often each unordered pair i < j was drawn, as an upper triangle."""
    table = np.zeros((n, n), dtype=int)
    np.add.at(table, (np.minimum(pairs.left, pairs.right), np.maximum(pairs.left, pairs.right)), 1)
    return table


def test_random_pairs_are_uniform_over_all_pairs(rng):
    X, classes = rng.standard_normal((12, 2)), np.repeat([0, 1, 2], [6, 4, 2])
    pairs = RandomPairs(60_000).sample(X, classes, 11)
    drawn = counts_of_pairs(pairs, 12)[np.triu_indices(12, k=1)]
    assert chisquare(drawn).pvalue > 1e-3


def test_balanced_pairs_are_uniform_over_the_pairs_of_each_kind(rng):
    """Not over classes and then members: a large class has more pairs and is drawn more often."""
    X, classes = rng.standard_normal((12, 2)), np.array([0, 1, 0, 2, 0, 1, 0, 2, 0, 1, 0, 3])
    pairs = BalancedPairs(60_001).sample(X, classes, 11)
    assert np.sum(pairs.labels == 1) == 30_001
    assert np.sum(pairs.labels == -1) == 30_000
    left, right, y = all_pairs(classes)
    drawn = counts_of_pairs(pairs, 12)[left, right]
    for kind in (1, -1):
        assert chisquare(drawn[y == kind]).pvalue > 1e-3


def test_neighbor_pairs_are_the_nearest_of_each_kind(unbalanced):
    X, classes = unbalanced
    pairs = NeighborPairs(3, 2).sample(X, classes)
    found = {(int(i), int(j)) for i, j in zip(pairs.left, pairs.right, strict=True)}
    expected = set()
    for i in range(len(X)):
        by_distance = sorted((float(np.sum((X[i] - X[j]) ** 2)), j) for j in range(len(X)) if j != i)
        same = [j for _, j in by_distance if classes[j] == classes[i]]
        other = [j for _, j in by_distance if classes[j] != classes[i]]
        expected |= {(i, j) for j in same[:3] + other[:2]}
    assert found == expected
    assert len(pairs) == len(expected)


def test_neighbor_pairs_of_duplicate_points_pair_no_point_with_itself():
    X, classes = np.zeros((8, 2)), np.repeat([0, 1], 4)
    pairs = NeighborPairs(2, 2).sample(X, classes)
    assert len(pairs) == 8 * 4
    assert np.all(pairs.left != pairs.right)


def test_samplers_say_when_there_is_nothing_to_draw(rng):
    X = rng.standard_normal((4, 2))
    with pytest.raises(ValueError, match="only one member"):
        BalancedPairs(10).sample(X, np.arange(4), 0)
    with pytest.raises(ValueError, match="only one class"):
        BalancedPairs(10).sample(X, np.zeros(4), 0)
    with pytest.raises(ValueError, match="no pair of neighbours"):
        NeighborPairs().sample(X[:1], np.zeros(1))


def test_the_pairs_parameter_accepts_names_numbers_and_samplers():
    assert make_sampler("all") is None
    assert make_sampler("random") == RandomPairs()
    assert make_sampler("balanced") == BalancedPairs()
    assert make_sampler("neighbors") == NeighborPairs()
    assert make_sampler(np.int64(70)) == RandomPairs(70)
    sampler = NeighborPairs(1, 9)
    assert make_sampler(sampler) is sampler
    for wrong in ("every", 0, -5, True, 2.5, None):
        with pytest.raises(ValueError, match="is not understood"):
            make_sampler(wrong)


# --- classes without spread -------------------------------------------------------------------------------


def nearly_constant(spread):
    """Points of four classes, with features that have little or no spread within the classes."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 25)
    centres, mixing, noise = rng.normal(size=(4, 6)), rng.normal(size=(6, 6)), rng.normal(size=(100, 6))
    plain = centres[y] + spread * noise
    some = centres[y] + np.array([1.0, 1.0, spread, spread, spread, spread]) * noise
    return y, {
        "all features": plain,
        "some features": some,
        "correlated": plain @ mixing,
        "some correlated": some @ mixing,
        "one class": centres[y] + np.where(y == 0, 1.0, spread)[:, None] * noise,
        "offset": plain + 100.0,
        "thirds": np.round(3.0 * centres[y]) / 3.0 + spread * noise,
    }


@pytest.mark.parametrize("spread", [0.0, 1e-9, 1e-6])
@pytest.mark.parametrize("pairs", ["all", "listed"])
def test_sparse_and_dense_scatter_agree_where_classes_have_no_spread(spread, pairs):
    y, sets = nearly_constant(spread)
    for name, X in sets.items():
        listed = AllPairs().sample(X, y)
        V = X[listed.left] - X[listed.right]
        expected = [V[listed.labels == kind].T @ V[listed.labels == kind] for kind in (1, -1)]
        for points in (X, csr_array(X)):
            scatter = (
                all_pairs_scatter(points, y)
                if pairs == "all"
                else pairs_scatter(Pairs(points, listed.left, listed.right, listed.y))
            )
            for found, total, count in zip(
                (scatter.A, scatter.B), expected, (scatter.n_similar, scatter.n_dissimilar), strict=True
            ):
                size = np.sqrt(np.outer(np.diagonal(total), np.diagonal(total))) / count
                assert np.all(np.abs(found - total / count) <= 1e-5 * size + 1e-28 * np.abs(X).max() ** 2), name


def test_given_pairs_of_duplicates_teach_a_metric_like_other_pairs(rng):
    y, sets = nearly_constant(0.0)
    X = sets["correlated"]
    indices = rng.integers(len(X), size=(3000, 2))
    kinds = np.where(y[indices[:, 0]] == y[indices[:, 1]], 1, -1)
    dense = GMML(preprocessor=X).fit(indices, kinds).get_mahalanobis_matrix()
    np.testing.assert_allclose(dense, GMML().fit(X[indices], kinds).get_mahalanobis_matrix(), rtol=1e-6)
    np.testing.assert_allclose(
        dense, GMML(preprocessor=csr_array(X)).fit(indices, kinds).get_mahalanobis_matrix(), rtol=1e-6
    )
