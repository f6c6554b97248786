"""Scatter through the graph of the pairs against the sum over them, whatever the tiles and blocks."""

import tracemalloc

import numpy as np
import pytest

from advmetric.pairs import tiles as pair_graph
from advmetric.pairs.data import Pairs
from advmetric.pairs.scatter import pairs_scatter
from advmetric.pairs.tiles import tiled_pair_sums
from reference.scatter import scatter_of


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def draw(rng, n, n_pairs):
    """Index pairs with repetitions, mirror images and pairs of a point with itself; more dissimilar ones."""
    left, right = rng.integers(n, size=(2, n_pairs))
    y = np.where(rng.random(n_pairs) < 0.3, 1, -1)
    left[:4], right[:4], y[:4] = [1, 1, 2, 3], [2, 2, 1, 3], 1
    return left, right, y


def assert_sums(found, X, left, right, y, tolerance=1e-12):
    expected = scatter_of(X, left, right, y)
    for ours, mean, label in zip(found, expected, (1, -1), strict=True):
        theirs = mean * np.sum(y == label)
        assert np.array_equal(ours, ours.T)
        assert np.linalg.norm(ours - theirs) < tolerance * np.linalg.norm(theirs)


@pytest.mark.parametrize("tile_rows", [7, 20, 50, 1000])
@pytest.mark.parametrize("block", [1, 33, 10**6])
@pytest.mark.parametrize("most", [100, 10**6])
def test_tiles_blocks_and_rounds_of_any_size_give_the_sum_over_the_pairs(rng, monkeypatch, tile_rows, block, most):
    X = rng.standard_normal((50, 6)) * [1, 10, 0.1, 1, 3, 2]
    left, right, y = draw(rng, 50, 251)
    monkeypatch.setattr(pair_graph, "TILE_BYTES", 16 * 6 * tile_rows)
    monkeypatch.setattr(pair_graph, "BLOCK_PAIRS", block)
    monkeypatch.setattr(pair_graph, "MOST_PAIRS", most)
    assert_sums(tiled_pair_sums(X, left, right, y), X, left, right, y)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64])
def test_index_types_do_not_overflow(rng, dtype):
    """Row numbers are doubled and multiplied by n on the way: 120 · 120 is no int8."""
    X = rng.standard_normal((120, 3))
    left, right, y = draw(rng, 120, 400)
    assert_sums(tiled_pair_sums(X, left.astype(dtype), right.astype(dtype), y.astype(np.int8)), X, left, right, y)


@pytest.mark.parametrize(("n_pairs", "unused"), [(20, "csc_array"), (60, "csr_array")])
def test_few_pairs_of_a_tile_do_not_walk_along_all_points(rng, monkeypatch, n_pairs, unused):
    """The sort makes a CSR row of its own, so it is done before the format that must not be used is taken away."""
    X = rng.standard_normal((500, 4))
    rows, columns = rng.integers(100, size=n_pairs), rng.integers(500, size=n_pairs)
    expected = np.zeros((100, 4))
    np.add.at(expected, rows, X[columns])
    ready = {
        n_keys: pair_graph._counting_sort(*args, n_keys)
        for *args, n_keys in ((rows, columns, 100), (columns, rows, 500))
    }
    monkeypatch.setattr(pair_graph, "_counting_sort", lambda keys, values, n_keys: ready[n_keys])
    monkeypatch.setattr(pair_graph, unused, lambda *args, **options: pytest.fail("the other format was used"))
    np.testing.assert_allclose(pair_graph._product(rows, columns, 100, X), expected, atol=1e-14)


def test_counting_sort_keeps_the_order_of_equal_keys_and_adds_nothing_up():
    values, ends = pair_graph._counting_sort(np.array([2, 0, 2, 0, 2]), np.array([5, 7, 5, 1, -3]), 4)
    assert values.tolist() == [7, 1, 5, 5, -3]
    assert ends.tolist() == [0, 2, 2, 5, 5]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_any_layout_precision_and_place_of_the_points(rng, monkeypatch, order, dtype, offset):
    X = np.asarray(rng.standard_normal((60, 5)) + offset, dtype=dtype, order=order)
    left, right, y = draw(rng, 60, 500)
    monkeypatch.setattr(pair_graph, "TILE_BYTES", 16 * 5 * 8)
    scatter = pairs_scatter(Pairs(X, left, right, y))
    found = scatter.A * scatter.n_similar, scatter.B * scatter.n_dissimilar
    assert_sums(found, X.astype(np.float64), left, right, y, 1e-10)


def test_the_sums_take_eight_bytes_a_pair_and_no_more_than_so_many_pairs_at_a_time(rng, monkeypatch):
    X = rng.standard_normal((1000, 4))
    pairs = rng.integers(1000, size=(1_000_000, 2), dtype=np.int32)
    y = np.where(rng.random(len(pairs)) < 0.5, 1, -1).astype(np.int8)
    monkeypatch.setattr(pair_graph, "BLOCK_PAIRS", 10_000)
    monkeypatch.setattr(pair_graph, "TILE_BYTES", 16 * 4 * 50)
    peaks = []
    for most in (10**6, 10**5):
        monkeypatch.setattr(pair_graph, "MOST_PAIRS", most)
        tracemalloc.start()
        tiled_pair_sums(X, pairs[:, 0], pairs[:, 1], y)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] < 15 * len(pairs)
    assert peaks[1] < 4 * len(pairs)
