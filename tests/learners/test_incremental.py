"""Streaming: statistics that add up over batches, and the learners that use them."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from advmetric import AML, GMML, AllPairs, Euclidean
from advmetric.pairs.batches import slices
from advmetric.pairs.data import Pairs
from advmetric.pairs.pair_statistics import PairStatistics, PointStatistics
from advmetric.pairs.sample import PairSample
from advmetric.pairs.scatter import all_pairs_scatter, pairs_scatter

SETTINGS = [
    AML(),
    AML(t=0.2, alpha=10.0),
    AML(n_components=3, reg=0.1),
    AML(average=False),
    AML(prior=np.diag(np.linspace(1.0, 2.0, 18))),
    GMML(),
    GMML(t=0.1, n_components=5),
    Euclidean(),
]
LEARNERS = [AML(), GMML(), Euclidean()]


def assert_same(found, expected, rtol=1e-10):
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())


def assert_same_scatter(found, expected, rtol=1e-10):
    assert_same(found.A, expected.A, rtol)
    assert_same(found.B, expected.B, rtol)
    assert (found.n_similar, found.n_dissimilar) == (expected.n_similar, expected.n_dissimilar)


def brute_force(X, y):
    """Averages over all pairs in long double, relative to the first point (exact for points far away)."""
    X = (X - X[0]).astype(np.longdouble)
    left, right = np.triu_indices(len(X), k=1)
    V, same = X[left] - X[right], y[left] == y[right]
    return [(V[k].T @ V[k] / k.sum()).astype(float) for k in (same, ~same)]


def batches(X, y, seed, n_batches=7):
    cuts = np.sort(np.random.default_rng(seed).choice(np.arange(1, len(X)), n_batches - 1, replace=False))
    return zip(np.split(X, cuts), np.split(y, cuts), strict=True)


@pytest.fixture
def clusters():
    rng = np.random.default_rng(0)
    y = rng.choice([3, 5, 8, 21], size=120, p=[0.5, 0.3, 0.15, 0.05])
    return rng.normal(size=(120, 4)) * [1.0, 10.0, 0.1, 1.0] + 0.3 * y[:, None], y


# --- statistics -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8, [1e8, 0.0, -1e8, 1e3]])
@pytest.mark.parametrize("rows", [1, 7, 120])
def test_statistics_of_batches_are_those_of_all_pairs(clusters, rows, offset):
    X, y = clusters
    X = np.round(X * 2**10) / 2**10 + offset  # few bits, so that the offset costs the points themselves nothing
    statistics = PointStatistics.empty(4, np.array([], dtype=int))
    for batch, labels in slices(X, y, rows):
        statistics.update(batch, labels)
    A, B = brute_force(X, y)
    found = statistics.scatter()
    # Relative to each entry's own scale: a small feature must not hide behind a large one.
    for matrix, exact in ((found.A, A), (found.B, B)):
        scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
        assert np.max(np.abs(matrix - exact) / scale) < 1e-12
    assert_same_scatter(found, all_pairs_scatter(X, y), 1e-10)


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_merging_in_any_tree_gives_the_same(clusters, offset):
    X, y = clusters
    X = np.round(X * 2**10) / 2**10 + offset
    parts = [PointStatistics.of(*batch) for batch in batches(X, y, 1, 8)]
    before = pickle.dumps(parts)
    tree = list(parts)
    while len(tree) > 1:
        tree = [a.merge(b) for a, b in zip(tree[::2], tree[1::2], strict=True)]
    chain = PointStatistics.empty(4, np.array([], dtype=int))
    for part in reversed(parts):
        chain = chain.merge(part)
    expected = all_pairs_scatter(X, y)
    for merged in (tree[0], chain):
        np.testing.assert_array_equal(merged.classes, [3, 5, 8, 21])
        assert_same_scatter(merged.scatter(), expected, 1e-11)
    assert pickle.dumps(parts) == before, "merge changes neither side"


def test_statistics_of_rescaled_features_need_no_second_pass(clusters):
    X, y = clusters
    X = X + 1e4
    factors = np.array([1e-3, 1.0, 7.0, 1e5])
    raw = PointStatistics.of(X, y)
    scaled = raw.scaled(factors)
    assert_same_scatter(scaled.scatter(), PointStatistics.of(X * factors, y).scatter())
    assert_same_scatter(
        scaled.update(X * factors, y).scatter(), PointStatistics.of(*(np.r_[a, a] for a in (X * factors, y))).scatter()
    )
    assert raw.counts.sum() == len(X)  # the raw ones have not changed
    pairs = Pairs(X, np.arange(60), np.arange(60, 120), np.where(y[:60] == y[60:], 1, -1))
    found = PairStatistics.of(pairs).scaled(factors)
    expected = PairStatistics.of(Pairs(X * factors, pairs.left, pairs.right, pairs.y))
    assert_same_scatter(found.scatter(), expected.scatter())
    order = [np.lexsort(statistics.sample.differences.T) for statistics in (found, expected)]
    assert_same(found.sample.differences[order[0]], expected.sample.differences[order[1]])
    assert found.sample.labels[order[0]].tolist() == expected.sample.labels[order[1]].tolist()


def test_a_stream_that_drifts_away_from_its_first_batch_loses_nothing():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(400, 3)) * 2**10) / 2**10 + np.repeat([0.0, 1e6, 2e6, 2e6], 100)[:, None]
    y = rng.integers(2, size=400) + 2 * (np.arange(400) >= 200)  # classes 2 and 3 are only seen far away
    statistics = PointStatistics.of(X[:100], y[:100])
    for batch in slices(X[100:], y[100:], 50):
        statistics.update(*batch)
    far = X[200:][y[200:] == 3]
    assert_same(statistics.scatters[3], (far - far[0] - (far - far[0]).mean(0)).T @ (far - far[0]), 1e-12)


def test_many_points_far_from_the_first_one_of_their_class_lose_no_digits():
    rng = np.random.default_rng(0)
    X = np.concatenate([[[0.0, 0.0]], np.round(rng.normal(size=(20_000, 2)) * 2**10) / 2**10 + 1e3 / 3])
    y = np.zeros(len(X), dtype=int)
    statistics = PointStatistics.of(X[:1], y[:1]).update(X[1:], y[1:])
    exact = X.astype(np.longdouble) - X.astype(np.longdouble).mean(axis=0)
    assert_same(statistics.scatters[0], (exact.T @ exact).astype(float), 1e-14)


def test_float32_is_accumulated_in_double_precision(clusters):
    X, y = clusters
    X = (X + 1000.0).astype(np.float32)
    statistics = PointStatistics.of(X[:50], y[:50]).update(X[50:], y[50:])
    assert statistics.scatters.dtype == np.float64
    assert_same_scatter(statistics.scatter(), all_pairs_scatter(X.astype(np.float64), y), 1e-12)


@pytest.mark.parametrize("blocks", [1, 1 << 10])
def test_blocks_of_any_size_give_the_same_statistics(clusters, monkeypatch, blocks):
    X, y = clusters
    expected = PointStatistics.of(X, y).scatter()
    monkeypatch.setattr("advmetric.pairs.class_statistics._CACHED_BYTES", blocks)
    assert_same_scatter(PointStatistics.of(X, y).scatter(), expected, 1e-12)


def test_labels_of_any_kind_find_their_class(clusters):
    X, y = clusters
    expected = all_pairs_scatter(X, y)
    for labels in (y.astype(np.int16), y.astype(np.uint64), y * 10**9, y.astype(float), y.astype(str), -y):
        statistics = PointStatistics.of(X[:20], labels[:20]).update(X[20:], labels[20:])
        np.testing.assert_array_equal(statistics.classes, np.unique(labels))
        assert_same_scatter(statistics.scatter(), expected, 1e-12)


def test_statistics_say_what_they_lack_and_do_not_mix_features_or_types(clusters):
    X, y = clusters
    with pytest.raises(ValueError, match="needs points of at least two classes"):
        PointStatistics.of(X[:3], np.zeros(3)).scatter()
    with pytest.raises(ValueError, match="needs a class with at least two members"):
        PointStatistics.of(X[:3], np.arange(3)).scatter()
    with pytest.raises(ValueError, match="3 features do not merge with those of points with 4"):
        PointStatistics.of(X[:, :3], y).merge(PointStatistics.of(X, y))
    with pytest.raises(ValueError, match="do not go with the earlier ones"):
        PointStatistics.of(X, y).update(X, y.astype(str))


def test_statistics_of_pairs_add_up(vehicle):
    pairs = Pairs(vehicle.X, *vehicle.indices.T, vehicle.kinds)
    expected = pairs_scatter(pairs)
    first, second = pairs.take(np.flatnonzero(vehicle.kinds == 1)), pairs.take(np.flatnonzero(vehicle.kinds == -1))
    assert PairStatistics.of(first).missing == "a dissimilar pair (label -1)"
    assert PairStatistics.of(second).missing == "a similar pair (label +1)"
    with pytest.raises(ValueError, match="dissimilar pair"):
        PairStatistics.of(first).scatter()
    for merged in (
        PairStatistics.of(first).merge(PairStatistics.of(second)),
        PairStatistics.of(second).merge(PairStatistics.of(first)),
    ):
        assert_same_scatter(merged.scatter(), expected, 1e-13)


# --- the sample of pairs --------------------------------------------------------------------------------


def test_the_sample_depends_on_neither_order_nor_batches_and_is_uniform(monkeypatch):
    monkeypatch.setattr("advmetric.pairs.sample._SAMPLE_PAIRS", 500)
    monkeypatch.setattr("advmetric.pairs.data.BLOCK_BYTES", 8 * 3 * 700)
    rng = np.random.default_rng(0)
    N = 5000
    V = np.repeat(np.arange(N, dtype=float)[:, None], 3, axis=1)
    y = np.where(np.arange(N) % 4 == 0, 1, -1)
    pairs = Pairs.from_differences(V, y)
    whole = PairSample.of(pairs)
    assert len(whole.keys) == 500
    assert np.all(whole.keys[:-1] <= whole.keys[1:])
    assert whole.keys[-1] < 0.15 * 2.0**64, "the smallest tenth of all keys"
    order = rng.permutation(N)
    parts = [PairSample.of(pairs.take(rows)) for rows in np.array_split(order, 13)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    np.testing.assert_array_equal(merged.differences, whole.differences)
    np.testing.assert_array_equal(merged.labels, whole.labels)
    # Uniform: the values' mean, and the share of similar pairs, within four standard errors.
    values = whole.differences[:, 0]
    assert abs(values.mean() - N / 2) < 4 * N / np.sqrt(12 * 500)
    assert abs(np.mean(whole.labels == 1) - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 500)
    np.testing.assert_array_equal(whole.labels, y[values.astype(int)])


def test_the_sample_is_bounded_in_bytes():
    sample = PairSample(np.empty((0, 20_000)), np.empty(0, np.int8), np.empty(0, np.uint64))
    assert sample.capacity * 20_000 * 8 <= 1 << 26


# --- learners -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
@pytest.mark.parametrize("seed", [0, 1])
def test_any_split_of_points_gives_the_metric_of_one_fit(settings, vehicle, seed):
    X, y = vehicle.X + 3.0, vehicle.y
    expected = clone(settings).fit(X, y)
    streamed = clone(settings)
    for batch in batches(X, y, seed):
        assert streamed.partial_fit(*batch) is streamed
    once = clone(settings).fit_batches(batches(X, y, seed))
    for found in (streamed, once):
        assert_same(found.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix())
        np.testing.assert_array_equal(found.classes_, expected.classes_)
        assert found.n_features_in_ == 18
        assert not hasattr(found, "threshold_")
        np.testing.assert_allclose(found.transform(X).shape, expected.transform(X).shape)


@pytest.mark.parametrize("kind", ["formed", "indices"])
@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_any_split_of_pairs_gives_the_metric_and_threshold_of_one_fit(settings, vehicle, kind):
    pairs, y = getattr(vehicle, kind), vehicle.kinds
    preprocessor = vehicle.X if kind == "indices" else None
    expected = clone(settings).set_params(preprocessor=preprocessor).fit(pairs, y)
    order = np.argsort(y, kind="stable")  # the first batches hold dissimilar pairs only
    streamed = clone(settings).set_params(preprocessor=preprocessor)
    for batch in batches(pairs[order], y[order], 0):
        streamed.partial_fit(*batch)
    once = clone(settings).set_params(preprocessor=preprocessor).fit_batches(batches(pairs, y, 1))
    for found in (streamed, once):
        assert_same(found.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix())
        assert found.threshold_ == pytest.approx(expected.threshold_, rel=1e-9)
        np.testing.assert_array_equal(found.predict(pairs), expected.predict(pairs))
        np.testing.assert_array_equal(found.classes_, [-1, 1])


def test_more_index_pairs_than_points_stream_too(vehicle):
    every = AllPairs().sample(vehicle.X[:60], vehicle.y[:60])
    indices = np.column_stack([every.left, every.right])
    expected = GMML().fit(vehicle.X[:60], vehicle.y[:60]).get_mahalanobis_matrix()
    found = GMML(preprocessor=vehicle.X).fit_batches(batches(indices, every.y, 0, 4))
    assert_same(found.get_mahalanobis_matrix(), expected)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_single_rows_at_an_offset_of_1e8_give_the_metric_of_the_points_without_it(learner, vehicle):
    X = np.round(vehicle.X[:100] * 2**10) / 2**10
    y = vehicle.y[:100]
    expected = clone(learner).fit(X, y).get_mahalanobis_matrix()
    found = clone(learner).fit_batches(slices(X + 1e8, y, 1)).get_mahalanobis_matrix()
    assert_same(found, expected)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_classes_may_come_one_after_the_other(learner, vehicle):
    X, y = vehicle.X, vehicle.y
    streamed = clone(learner)
    for count, label in enumerate([2, 0, 3, 1]):
        if count == 1:
            with pytest.raises(NotFittedError, match="so far lack points of at least two classes"):
                streamed.transform(X)
        streamed.partial_fit(X[y == label], y[y == label])
        np.testing.assert_array_equal(streamed.classes_, sorted([2, 0, 3, 1][: count + 1]))
    expected = clone(learner).fit(X, y).get_mahalanobis_matrix()
    assert_same(streamed.get_mahalanobis_matrix(), expected)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_pairs_of_one_kind_wait_for_the_other(learner, vehicle):
    similar = vehicle.kinds == 1
    learner = clone(learner).partial_fit(vehicle.formed[similar], vehicle.kinds[similar])
    for call in (learner.pair_distance, learner.predict, learner.transform):
        with pytest.raises(
            NotFittedError, match=r"no metric yet: the batches so far lack a dissimilar pair \(label -1\)"
        ):
            call(vehicle.formed)
    learner.partial_fit(vehicle.formed[~similar], vehicle.kinds[~similar])
    assert np.isfinite(learner.predict(vehicle.formed)).all()


def test_a_class_of_one_member_each_waits_for_a_second(vehicle):
    learner = AML().partial_fit(vehicle.X[:2], [0, 1])
    with pytest.raises(NotFittedError, match="a class with at least two members"):
        learner.get_metric()
    assert learner.partial_fit(vehicle.X[2:3], [0]).components_.shape == (18, 18)


def test_classes_given_in_the_first_call_bind_the_later_ones(vehicle):
    X, y = vehicle.X, vehicle.y
    learner = AML().partial_fit(X[y < 2], y[y < 2], classes=[3, 2, 1, 0])
    np.testing.assert_array_equal(learner.classes_, [0, 1, 2, 3])
    two = AML().fit(X[y < 2], y[y < 2])
    assert_same(learner.get_mahalanobis_matrix(), two.get_mahalanobis_matrix())
    before = learner.components_
    with pytest.raises(ValueError, match="label 7, which classes= of the first call lacks"):
        learner.partial_fit(X[:3], [0, 7, 1])
    with pytest.raises(ValueError, match="classes differs"):
        learner.partial_fit(X[:3], [0, 1, 2], classes=[0, 1, 2])
    assert learner.components_ is before
    learner.partial_fit(X[y >= 2], y[y >= 2], classes=[0, 1, 2, 3])
    assert_same(learner.get_mahalanobis_matrix(), AML().fit(X, y).get_mahalanobis_matrix())


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_a_refused_batch_changes_nothing(learner, vehicle):
    learner = clone(learner).partial_fit(vehicle.X[:300], vehicle.y[:300])
    flawed = vehicle.X[300:].copy()
    flawed[5, 2] = np.nan
    for X, y in (
        (flawed, vehicle.y[300:]),
        (vehicle.X[300:, :5], vehicle.y[300:]),
        (vehicle.X[300:], vehicle.y[301:]),
        (vehicle.X[300:], np.linspace(0, 1, len(vehicle.y) - 300)),
        (vehicle.X[300:], vehicle.y[300:].astype(str)),
        (vehicle.formed, vehicle.kinds),
    ):
        with pytest.raises(ValueError):
            learner.partial_fit(X, y)
    learner.partial_fit(vehicle.X[300:], vehicle.y[300:])
    assert_same(learner.get_mahalanobis_matrix(), clone(learner).fit(vehicle.X, vehicle.y).get_mahalanobis_matrix())


def test_points_and_pairs_do_not_mix(vehicle):
    with pytest.raises(ValueError, match="X holds pairs, but the batches before it held points with labels"):
        AML().partial_fit(vehicle.X, vehicle.y).partial_fit(vehicle.formed, vehicle.kinds)
    with pytest.raises(ValueError, match="X holds points with labels, but the batches before it held pairs"):
        AML().partial_fit(vehicle.formed, vehicle.kinds).partial_fit(vehicle.X, vehicle.y)
    with pytest.raises(ValueError, match="classes is for points"):
        AML().partial_fit(vehicle.formed, vehicle.kinds, classes=[-1, 1])


def test_fit_forgets_the_stream_and_a_stream_after_fit_says_that_it_starts_anew(vehicle):
    X, y = vehicle.X, vehicle.y
    learner = GMML().partial_fit(X[:400], y[:400]).fit(X[400:], y[400:])
    assert not hasattr(learner, "statistics_")
    expected = GMML().fit(X[400:], y[400:]).components_
    np.testing.assert_array_equal(learner.components_, expected)
    with pytest.warns(UserWarning, match="starts anew"):
        learner.partial_fit(X[:400], y[:400])
    assert_same(learner.get_mahalanobis_matrix(), GMML().fit(X[:400], y[:400]).get_mahalanobis_matrix())
    learner.partial_fit(X[400:], y[400:])
    assert_same(learner.get_mahalanobis_matrix(), GMML().fit(X, y).get_mahalanobis_matrix())
    assert not [name for name in vars(clone(learner)) if name.endswith("_")]


def test_fit_batches_starts_anew_keeps_set_output_and_survives_failure(vehicle):
    X, y = vehicle.X, vehicle.y
    learner = AML().set_output(transform="pandas").partial_fit(X[:500], y[:500])
    before = learner.components_
    with pytest.raises(ValueError, match="NaN"):
        learner.fit_batches([(X[:300], y[:300]), (X * np.nan, y)])
    with pytest.raises(ValueError, match="batches is empty"):
        learner.fit_batches([])
    with pytest.raises(TypeError, match=r"batches must be an iterable of pairs \(X, y\), got an item of type ndarray"):
        learner.fit_batches(X, y)
    with pytest.raises(ValueError, match="do not have what a metric is learned from: points of at least two classes"):
        learner.fit_batches([(X[y == 0], y[y == 0])])
    assert learner.components_ is before
    assert learner.fit_batches([(X[500:], y[500:])]) is learner
    assert_same(learner.get_mahalanobis_matrix(), AML().fit(X[500:], y[500:]).get_mahalanobis_matrix())
    assert isinstance(learner.transform(X), pd.DataFrame)


@pytest.mark.parametrize("pairs", ["random", "balanced", 100, AllPairs()])
def test_sampled_pairs_are_refused(vehicle, pairs):
    learner = AML(pairs=pairs)
    assert not hasattr(learner, "partial_fit")
    with pytest.raises(AttributeError) as caught:
        learner.fit_batches([(vehicle.X, vehicle.y)])
    assert "would draw pairs within each batch" in str(caught.value.__cause__)


def test_merged_statistics_of_two_learners_give_the_metric_of_both(vehicle):
    X, y = vehicle.X, vehicle.y
    halves = [AML().partial_fit(X[:400], y[:400]), AML().partial_fit(X[400:], y[400:])]
    merged = AML().fit_statistics(halves[0].statistics_.merge(pickle.loads(pickle.dumps(halves[1].statistics_))))
    expected = AML().fit(X, y)
    assert_same(merged.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix())
    np.testing.assert_array_equal(merged.classes_, expected.classes_)
    halves = [GMML().partial_fit(vehicle.formed[k], vehicle.kinds[k]) for k in (slice(250), slice(250, None))]
    merged = GMML().fit_statistics(halves[0].statistics_.merge(halves[1].statistics_))
    expected = GMML().fit(vehicle.formed, vehicle.kinds)
    assert_same(merged.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix())
    assert merged.threshold_ == pytest.approx(expected.threshold_, rel=1e-9)


def test_statistics_that_were_handed_over_stay_as_they_were(vehicle):
    statistics = PointStatistics.of(vehicle.X[:400], vehicle.y[:400])
    learner = GMML().fit_statistics(statistics).partial_fit(vehicle.X[400:], vehicle.y[400:])
    assert statistics.counts.sum() == 400
    assert_same(learner.get_mahalanobis_matrix(), GMML().fit(vehicle.X, vehicle.y).get_mahalanobis_matrix())


def test_statistics_too_large_for_memory_are_refused_with_advice():
    with pytest.raises(ValueError, match=r"20 classes and 20000 features would take 64 GB.*reduce the features"):
        PointStatistics.empty(20_000, np.arange(20))


def test_names_of_features_are_held_to(vehicle):
    frame = pd.DataFrame(vehicle.X, columns=[f"f{i}" for i in range(18)])
    learner = AML().partial_fit(frame[:400], vehicle.y[:400])
    with pytest.raises(ValueError, match="feature names should match"):
        learner.partial_fit(frame[frame.columns[::-1]][400:], vehicle.y[400:])
    learner.partial_fit(frame[400:], vehicle.y[400:])
    assert list(learner.feature_names_in_) == list(frame.columns)
    assert_same(learner.get_mahalanobis_matrix(), AML().fit(frame, vehicle.y).get_mahalanobis_matrix())


def test_sparse_batches_give_the_same(vehicle):
    X = np.where(np.abs(vehicle.X) > 1.0, vehicle.X, 0.0)
    expected = AML().fit(X, vehicle.y).get_mahalanobis_matrix()
    found = AML().fit_batches((csr_array(batch), labels) for batch, labels in batches(X, vehicle.y, 0))
    assert_same(found.get_mahalanobis_matrix(), expected)


def test_memory_mapped_points_are_read_by_slices(tmp_path, vehicle):
    path = tmp_path / "points.npy"
    np.save(path, vehicle.X.astype(np.float32))
    X = np.load(path, mmap_mode="r")
    expected = AML().fit(np.asarray(X, dtype=np.float64), vehicle.y).get_mahalanobis_matrix()
    assert_same(AML().fit_batches(slices(X, vehicle.y, 100)).get_mahalanobis_matrix(), expected)
    kept = list(slices(X, vehicle.y, 100))  # pages given back are read again
    np.testing.assert_array_equal(np.concatenate([batch for batch, _ in kept]), vehicle.X.astype(np.float32))
    changed = np.load(path, mmap_mode="c")
    changed[0, 0] = 7.0
    assert [batch[0, 0] for batch, _ in slices(changed, vehicle.y, 1000)] == [7.0]
    assert changed[0, 0] == 7.0, "changes that are in memory only are not given back"


def test_only_the_rows_that_a_batch_needs_are_read_of_a_preprocessor(vehicle):
    X = vehicle.X.copy()
    first = vehicle.indices[:50]
    X[np.setdiff1d(np.arange(len(X)), first)] = np.nan
    learner = GMML(preprocessor=X).partial_fit(first, vehicle.kinds[:50])
    expected = GMML().fit(vehicle.formed[:50], vehicle.kinds[:50])
    assert_same(learner.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix())
    with pytest.raises(ValueError, match="Input preprocessor contains NaN at row"):
        learner.partial_fit(vehicle.indices[50:], vehicle.kinds[50:])
    with pytest.raises(ValueError, match="out of range"):
        learner.partial_fit([[0, 10_000]], [1])


def test_a_solver_that_does_not_converge_warns_in_the_callers_line(vehicle):
    with pytest.warns(ConvergenceWarning) as caught:
        AML(max_iter=1, tol=0.0).partial_fit(vehicle.X, vehicle.y)
    assert caught[0].filename == __file__


def test_rank_is_refused_for_batches(vehicle):
    with pytest.raises(ValueError, match="rank is for fit"):
        AML(rank=3).partial_fit(vehicle.X, vehicle.y)


@pytest.mark.parametrize("learner", [AML(), GMML()], ids=repr)
def test_squares_that_overflow_are_refused_without_a_warning(learner, vehicle):
    with pytest.raises(ValueError, match="squares of some features of X overflow"):
        clone(learner).partial_fit(vehicle.X * 1e200, vehicle.y)
    with pytest.raises(ValueError, match="squares of some features of X overflow"):
        clone(learner).partial_fit(vehicle.formed * 1e200, vehicle.kinds)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_a_batch_refused_for_overflow_leaves_no_trace(learner, vehicle):
    learner = clone(learner)
    huge = vehicle.X[:50] * 1e200
    one = np.zeros(50, dtype=int)
    if learner._keeps_scatter:
        with pytest.raises(ValueError, match="overflow"):  # the first batch, of one class: no metric is due yet
            learner.partial_fit(huge, one)
        assert not hasattr(learner, "statistics_")
        assert not hasattr(learner, "classes_")
        assert not hasattr(learner, "n_features_in_")
    learner.partial_fit(vehicle.X[:300], vehicle.y[:300])
    before = learner.components_
    if learner._keeps_scatter:
        with pytest.raises(ValueError, match="overflow"):
            learner.partial_fit(huge, vehicle.y[:50])
    assert learner.components_ is before
    learner.partial_fit(vehicle.X[300:], vehicle.y[300:])
    assert_same(learner.get_mahalanobis_matrix(), clone(learner).fit(vehicle.X, vehicle.y).get_mahalanobis_matrix())


def test_a_batch_of_pairs_refused_for_overflow_leaves_no_trace(vehicle):
    learner = GMML()
    similar = vehicle.formed[vehicle.kinds == 1]
    with pytest.raises(ValueError, match="overflow"):
        learner.partial_fit(similar * 1e200, np.ones(len(similar)))
    assert not hasattr(learner, "statistics_")
    learner.partial_fit(vehicle.formed[:200], vehicle.kinds[:200])
    with pytest.raises(ValueError, match="overflow"):
        learner.partial_fit(similar * 1e200, np.ones(len(similar)))
    learner.partial_fit(vehicle.formed[200:], vehicle.kinds[200:])
    expected = GMML().fit(vehicle.formed, vehicle.kinds)
    assert_same(learner.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix())


def test_a_solver_that_fails_leaves_the_statistics_as_they_were(vehicle, monkeypatch):
    learner = AML().partial_fit(vehicle.X[:300], vehicle.y[:300])
    counts = learner.statistics_.counts.copy()

    def fail(self, data, **extra):
        raise FloatingPointError

    with monkeypatch.context() as patch:
        patch.setattr(AML, "_learn", fail)
        with pytest.raises(ValueError, match="finds no finite metric"):
            learner.partial_fit(vehicle.X[300:], vehicle.y[300:])
    np.testing.assert_array_equal(learner.statistics_.counts, counts)


def test_statistics_of_another_learner_without_scatter_are_refused(vehicle):
    for X, y in ((vehicle.X, vehicle.y), (vehicle.formed, vehicle.kinds)):
        statistics = Euclidean().partial_fit(X, y).statistics_
        for learner in (AML(), GMML()):
            with pytest.raises(ValueError, match="gathered without the scatter matrices"):
                learner.fit_statistics(statistics)
    for nothing in (None, {}, AML()):
        with pytest.raises(TypeError, match="statistics must be PointStatistics or PairStatistics"):
            AML().fit_statistics(nothing)


def test_statistics_of_a_learner_with_scatter_serve_others(vehicle):
    statistics = AML().partial_fit(vehicle.X, vehicle.y).statistics_
    assert_same(GMML().fit_statistics(statistics).components_, GMML().fit(vehicle.X, vehicle.y).components_)
    np.testing.assert_array_equal(Euclidean().fit_statistics(statistics).components_, np.eye(vehicle.X.shape[1]))


def test_statistics_of_points_and_pairs_do_not_merge(vehicle):
    points = PointStatistics.of(vehicle.X, vehicle.y)
    pairs = PairStatistics.of(Pairs(vehicle.X, *vehicle.indices.T, vehicle.kinds))
    for one, other in ((points, pairs), (pairs, points), (points, None), (pairs, None), (points, 3)):
        with pytest.raises(ValueError, match="do not merge with"):
            one.merge(other)
