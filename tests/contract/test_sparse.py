"""Sparse points: the same answers as dense ones, without making them dense."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, csr_matrix
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from advmetric import AML, GMML, Euclidean
from advmetric.linalg.centring import near_origin
from advmetric.pairs.data import Pairs
from advmetric.pairs.scatter import all_pairs_scatter, pairs_scatter

LEARNERS = [AML(), GMML(), Euclidean()]


def bag_of_words(n, d, words=40, n_topics=4, seed=0):
    """Documents as sparse counts of words: each topic prefers words of its own, all share the frequent ones."""
    rng = np.random.default_rng(seed)
    topic = np.arange(n) % n_topics
    frequency = 1.0 / np.arange(1, d + 1)
    rows, columns = [], []
    for i, t in enumerate(topic):
        own = np.where(np.arange(d) % (3 * n_topics) == t, 4.0, 1.0) * frequency
        rows += [i] * words
        columns += list(rng.choice(d, size=words, p=own / own.sum()))
    counts = csr_array(coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, d)))
    counts.data = np.log1p(counts.data)
    return counts, topic


@pytest.fixture
def counts():
    """More points than features, 5 % to 40 % of the entries not 0."""
    rng = np.random.default_rng(0)
    X = 5.0 * rng.random((90, 12)) * (rng.random((90, 12)) < 0.3)
    return csr_array(X), rng.integers(3, size=90)


@pytest.mark.parametrize("density", [0.0, 1.0])
@pytest.mark.parametrize("offset", [None, 1e7])
def test_scatter_of_sparse_points_is_that_of_dense_ones(counts, monkeypatch, density, offset):
    X, y = counts
    monkeypatch.setattr("advmetric.linalg.sparse._SPARSE_DENSITY", density)
    dense = np.round(X.toarray() * 2**10) / 2**10
    if offset:
        dense[:, 4] += offset  # a feature without zeros, far from the origin
    found, expected = all_pairs_scatter(csr_array(dense), y), all_pairs_scatter(dense, y)
    for a, b in ((found.A, expected.A), (found.B, expected.B)):
        scale = np.sqrt(np.outer(np.diag(b), np.diag(b)))
        assert np.max(np.abs(a - b) / scale) < 1e-12
    rng = np.random.default_rng(1)
    for n_pairs in (50, 2000):
        indices = rng.integers(90, size=(n_pairs, 2))
        kinds = rng.choice([-1, 1], size=n_pairs)
        found = pairs_scatter(Pairs(csr_array(dense), *indices.T, kinds))
        expected = pairs_scatter(Pairs(dense, *indices.T, kinds))
        for a, b in ((found.A, expected.A), (found.B, expected.B)):
            scale = np.sqrt(np.outer(np.diag(b), np.diag(b)))
            assert np.max(np.abs(a - b) / scale) < 1e-12


def test_features_near_the_origin_are_not_shifted(counts):
    X, _ = counts
    assert near_origin(X).nnz == X.nnz
    dense = X.toarray()
    dense[:, 0] += 100.0
    shifted = near_origin(csr_array(dense)).toarray()
    np.testing.assert_allclose(shifted[:, 0], dense[:, 0] - dense[:, 0].mean())
    np.testing.assert_array_equal(shifted[:, 1:], dense[:, 1:])


@pytest.mark.parametrize("kind", [csr_array, csr_matrix, coo_array, lambda X: csr_array(X).tocsc()])
@pytest.mark.parametrize("learner", [*LEARNERS, AML(n_components=2), GMML(pairs=200, random_state=0)], ids=repr)
def test_sparse_and_dense_points_give_the_same_answers(learner, kind, counts):
    X, y = counts
    dense = X.toarray()
    expected = clone(learner).fit(dense, y)
    found = clone(learner).fit(kind(X), y)
    M = expected.get_mahalanobis_matrix()
    np.testing.assert_allclose(found.get_mahalanobis_matrix(), M, atol=1e-10 * np.abs(M).max())
    Z = found.transform(kind(X))
    assert type(Z) is np.ndarray
    np.testing.assert_allclose(np.abs(Z), np.abs(expected.transform(dense)), atol=1e-8)
    assert found.score(kind(X), y) == pytest.approx(expected.score(dense, y))
    assert get_tags(found).input_tags.sparse


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_index_pairs_on_sparse_points_give_the_same_answers(learner, counts):
    X, y = counts
    rng = np.random.default_rng(0)
    indices = rng.integers(90, size=(300, 2))
    kinds = np.where(y[indices[:, 0]] == y[indices[:, 1]], 1, -1)
    expected = clone(learner).set_params(preprocessor=X.toarray()).fit(indices, kinds)
    found = clone(learner).set_params(preprocessor=X).fit(indices, kinds)
    streamed = clone(learner).set_params(preprocessor=X)
    streamed.partial_fit(indices[:100], kinds[:100]).partial_fit(indices[100:], kinds[100:])
    for other in (found, streamed):
        np.testing.assert_allclose(other.pair_distance(indices), expected.pair_distance(indices), rtol=1e-8, atol=1e-10)
        np.testing.assert_array_equal(other.predict(indices), expected.predict(indices))
    same = np.column_stack([np.arange(90)] * 2)
    assert np.all(found.pair_distance(same) == 0.0)


def test_adversarial_pairs_of_sparse_points_are_those_of_dense_ones(counts):
    X, y = counts
    learned = AML(pairs=50, random_state=0).fit(X, y)
    expected = learned.adversarial_pairs(X.toarray(), y)
    np.testing.assert_allclose(learned.adversarial_pairs(X, y), expected, atol=1e-10)


def test_float32_stays_float32_and_is_learned_from_in_double_precision(counts):
    X, y = counts
    single = X.astype(np.float32)
    learned = AML().fit(single, y)
    assert learned.transform(single).dtype == np.float32
    expected = AML().fit(single.toarray().astype(np.float64), y).get_mahalanobis_matrix()
    np.testing.assert_allclose(learned.get_mahalanobis_matrix(), expected, atol=1e-9)
    pairs = np.column_stack([np.arange(89), np.arange(1, 90)])
    found = learned.set_params(preprocessor=single).pair_distance(pairs)
    doubled = learned.set_params(preprocessor=single.astype(np.float64)).pair_distance(pairs)
    np.testing.assert_allclose(found, doubled, rtol=1e-13)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_a_flawed_entry_is_named(learner, counts, value):
    X, y = counts
    flawed = X.toarray()
    flawed[[7, 7, 9], [3, 5, 0]] = value
    name = "NaN" if np.isnan(value) else "inf"
    for call in (
        lambda: clone(learner).fit(csr_array(flawed), y),
        lambda: clone(learner).partial_fit(csr_array(flawed), y),
        lambda: clone(learner).fit(X, y).transform(csr_array(flawed)),
    ):
        with pytest.raises(ValueError, match=rf"contains {name} at row 7, column 3 \(2 rows affected\)"):
            call()


# --- text: few documents, many words --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*keeps the .* directions")
@pytest.mark.parametrize("learner", [GMML(), AML()], ids=repr)
def test_few_documents_of_many_words_are_learned_in_little_memory(learner):
    X, y = bag_of_words(200, 20_000)
    tracemalloc.start()
    learned = clone(learner).fit(X, y)
    Z = learned.transform(X)
    distances = learned.set_params(preprocessor=X).pair_distance([[0, 1], [0, 4], [5, 5]])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    r = len(learned.components_)
    assert 190 <= r <= 199
    assert peak < 6 * 8 * 200 * 20_000, "a few times the (n, d) size of the components, never (d, d)"
    np.testing.assert_allclose(distances[:2], np.linalg.norm(Z[[0, 0]] - Z[[1, 4]], axis=1), rtol=1e-9)
    assert distances[2] == 0.0
    # What the whole space would give: A and B in an orthonormal basis of the span, found another way.
    _, _, Vt = np.linalg.svd(X.toarray() - X.toarray().mean(axis=0), full_matrices=False)
    Vt = Vt[:r]
    extra = 20_000 - r
    scatter = all_pairs_scatter(X.toarray() @ Vt.T, y)
    a, b = (1e-3 * np.trace(matrix) / 20_000 for matrix in (scatter.A, scatter.B))
    assert extra > 0
    if isinstance(learner, GMML):
        from advmetric.linalg.spd import geometric_mean

        expected = geometric_mean(np.linalg.inv(scatter.A + a * np.eye(r)), scatter.B + b * np.eye(r))
        found = Vt @ learned.components_.T @ learned.components_ @ Vt.T
        np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


def test_a_pipeline_on_text_learns_to_tell_topics_apart():
    X, y = bag_of_words(240, 6000, words=60)
    neighbours = KNeighborsClassifier(5)
    plain = cross_val_score(make_pipeline(Euclidean(), neighbours), X, y, cv=3).mean()
    learned = cross_val_score(make_pipeline(AML(n_components=3), neighbours), X, y, cv=3).mean()
    assert learned > plain + 0.1
    approximate = cross_val_score(
        make_pipeline(AML(n_components=3, rank=100, random_state=0), neighbours), X, y, cv=3
    ).mean()
    assert approximate > plain + 0.1


def test_the_euclidean_distance_of_many_words_needs_no_dense_identity():
    X, y = bag_of_words(50, 20_000)
    tracemalloc.start()
    learned = Euclidean(preprocessor=X).fit(np.column_stack([np.arange(49), np.arange(1, 50)]), [1, -1] * 24 + [1])
    distances = learned.pair_distance([[0, 1], [3, 3]])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
    assert distances[0] == pytest.approx(np.linalg.norm(X[[0]].toarray() - X[[1]].toarray()))
    assert distances[1] == 0.0
    np.testing.assert_array_equal(Euclidean().fit(X, y).transform(X), X.toarray())
    assert learned.get_metric()(X[[0]].toarray().ravel(), X[[1]].toarray().ravel()) == pytest.approx(distances[0])
