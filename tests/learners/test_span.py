"""Fewer rows than features: what is learned in the span of the data is what the whole space would give."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors

from advmetric import AML, GMML
from advmetric.learners.span import span_of
from advmetric.linalg.span import complement
from advmetric.pairs.data import LabelledPoints, Pairs
from advmetric.pairs.scatter import all_pairs_scatter, pairs_scatter

pytestmark = pytest.mark.numerical

SETTINGS = [
    GMML(),
    GMML(t=0.1),
    GMML(average=False, reg=0.1),
    AML(tol=1e-11),
    AML(t=0.2, alpha=10.0, tol=1e-11),
    AML(t=0.8, tol=1e-11),
    AML(adversary="printed", tol=1e-11),
    AML(pairs=150, random_state=0, tol=1e-8),
    GMML(pairs=40, random_state=0),
    GMML(pairs="neighbors"),
]


@pytest.fixture
def wide():
    """60 points of 4 classes with 200 features of different scales, away from the origin; two are twins."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 4
    X = rng.normal(size=(60, 200)) * np.geomspace(0.1, 3.0, 200) + rng.normal(size=(4, 200))[y] + 5.0
    X[-1] = X[-5]
    return X, y


@pytest.fixture
def whole_space(monkeypatch):
    """Learn in all d dimensions, as for n >= d."""

    def fit(learner, X, y):
        with monkeypatch.context() as patch:
            patch.setattr("advmetric.learners.moments.span_of", lambda *_: None)
            return clone(learner).fit(X, y)

    return fit


def relative_gap(found, expected):
    return np.max(np.abs(found - expected)) / np.max(np.abs(expected))


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_the_metric_is_that_of_the_whole_space(settings, kind, wide, whole_space):
    X, y = wide
    expected = whole_space(settings, X, y)
    found = clone(settings).fit(kind(X), y)
    assert found.components_.shape == (200, 200)
    assert relative_gap(found.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix()) < 1e-8
    if isinstance(settings, AML):
        assert found.objective_[-1] == pytest.approx(expected.objective_[-1], rel=1e-12)
        assert found.converged_
    squares = np.sum(found.components_**2, axis=1)
    assert np.all(np.diff(squares) <= 1e-9 * squares[0]), "from the largest eigenvalue down"
    gram = found.components_ @ found.components_.T
    assert np.max(np.abs(gram - np.diag(np.diag(gram)))) < 1e-9 * squares[0]


@pytest.mark.parametrize("kind", ["formed", "indices", "many indices", "sparse indices"])
@pytest.mark.parametrize("settings", [GMML(), AML(t=0.3, tol=1e-11)], ids=repr)
def test_pairs_have_a_span_too(settings, kind, wide, whole_space):
    X, y = wide
    rng = np.random.default_rng(1)
    indices = rng.integers(60, size=(500 if kind == "many indices" else 40, 2))
    kinds = np.where(y[indices[:, 0]] == y[indices[:, 1]], 1, -1)
    settings = clone(settings)
    if kind != "formed":
        settings.set_params(preprocessor=csr_array(X) if kind == "sparse indices" else X)
    pairs = X[indices] if kind == "formed" else indices
    expected, found = whole_space(settings, pairs, kinds), settings.fit(pairs, kinds)
    assert relative_gap(found.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix()) < 1e-8
    assert found.threshold_ == pytest.approx(expected.threshold_, rel=1e-8)


def test_outside_the_span_the_metric_is_the_scalar_geometric_mean(wide):
    X, y = wide
    scatter = all_pairs_scatter(X, y)
    M = GMML(t=0.3, reg=0.01).fit(X, y).get_mahalanobis_matrix()
    _, _, Vt = np.linalg.svd(X - X.mean(axis=0))
    outside = Vt[59:].T
    a, b = 0.01 * np.trace(scatter.A) / 200, 0.01 * np.trace(scatter.B) / 200
    np.testing.assert_allclose(outside.T @ M @ outside, a**-0.7 * b**0.3 * np.eye(141), atol=1e-9)
    np.testing.assert_allclose(M @ outside, outside @ (outside.T @ M @ outside), atol=1e-9)


@pytest.fixture
def decomposed(monkeypatch):
    """The sizes of the square matrices that ``eigh`` was called with."""
    sizes, original = [], np.linalg.eigh

    def eigh(matrix, *arguments, **settings):
        sizes.append(len(matrix))
        return original(matrix, *arguments, **settings)

    monkeypatch.setattr(np.linalg, "eigh", eigh)
    return sizes


def test_no_matrix_of_the_whole_space_is_decomposed(whole_space, decomposed):
    """How much faster that is: ``benchmarks/run.py --only fit``."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 300)), np.arange(40) % 2
    AML().fit(X, y)
    assert 0 < max(decomposed) <= 40
    whole_space(AML(), X, y)
    assert max(decomposed) == 300, "else this sees nothing"


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_the_scatter_in_the_span_is_the_scatter_seen_in_its_basis(wide, kind):
    X, y = wide
    found = span_of(LabelledPoints(kind(X), y))
    r = len(found.scatter.A)
    assert r == 58, "60 points, two of them the same, about their mean"
    Q = found.lift(np.eye(r)).T
    np.testing.assert_allclose(Q.T @ Q, np.eye(r), atol=1e-9)
    expected = all_pairs_scatter(X, y)
    np.testing.assert_allclose(Q @ found.scatter.A @ Q.T, expected.A, atol=1e-9)
    np.testing.assert_allclose(Q @ found.scatter.B @ Q.T, expected.B, atol=1e-9)


def test_no_span_is_made_where_rows_abound(wide):
    X, y = wide
    assert span_of(LabelledPoints(X[:, :60], y)) is None
    assert span_of(LabelledPoints(X[:, :60], y), rank=60) is None
    assert span_of(LabelledPoints(X[:, :61], y)) is not None


@pytest.mark.parametrize("learner", [GMML(n_components=3), AML(n_components=3, tol=1e-11)], ids=repr)
def test_the_leading_components_are_those_of_the_whole_space(learner, wide, whole_space):
    """Three directions tell four classes apart; in all others a prior alone would rank the directions."""
    X, y = wide
    expected = whole_space(learner, X, y).get_mahalanobis_matrix()
    for kind in (np.asarray, csr_array):
        found = clone(learner).fit(kind(X), y)
        assert found.components_.shape == (3, 200)
        assert relative_gap(found.get_mahalanobis_matrix(), expected) < 1e-8


def test_more_components_than_the_span_has_are_filled_up_from_outside(wide):
    X, y = wide
    every = GMML().fit(X, y).components_
    found = GMML(n_components=100).fit(X, y).components_
    assert found.shape == (100, 200)
    Vt = np.linalg.svd(X - X.mean(axis=0))[2]
    inside, outside = Vt[:58], Vt[60:]
    M, full = found.T @ found, every.T @ every
    np.testing.assert_allclose(inside @ M @ inside.T, inside @ full @ inside.T, atol=1e-9)
    m = (outside @ full @ outside.T)[0, 0]
    squares = np.linalg.eigvalsh(inside @ full @ inside.T)
    np.testing.assert_allclose(np.sort(np.sum(found**2, axis=1)), np.sort([*squares] + [m] * 42))


def test_many_features_keep_the_span_and_say_so(wide, monkeypatch, recwarn):
    X, y = wide
    monkeypatch.setattr("advmetric.learners.moments._MOST_DENSE", 150)
    full = AML()
    with pytest.warns(UserWarning, match=r"keeps the 58 directions.*Set n_components") as caught:
        kept = AML().fit(X, y)
    assert caught[0].filename == __file__
    monkeypatch.setattr("advmetric.learners.moments._MOST_DENSE", 200)
    full.fit(X, y)
    assert kept.components_.shape == (58, 200)
    # The order of the training points by distance from new ones is that of the full metric, and so are distances
    # between training points; what is left out is the same for all of them.
    new = np.random.default_rng(3).normal(size=(20, 200)) + 5.0
    alone = X[:-1]  # without the second twin: which of the two comes first is up to rounding
    orders = [
        NearestNeighbors(n_neighbors=50).fit(m.transform(alone)).kneighbors(m.transform(new)) for m in (full, kept)
    ]
    np.testing.assert_array_equal(orders[0][1][:, :40], orders[1][1][:, :40])
    np.testing.assert_allclose(full.pair_distance(X[None, :2]), kept.pair_distance(X[None, :2]), rtol=1e-9)
    rest = orders[0][0] ** 2 - orders[1][0] ** 2
    np.testing.assert_allclose(rest, rest[:, :1].repeat(50, axis=1), rtol=1e-6)
    assert np.all(rest > 1.0), "between new points, the part left out is not small: hence the warning"


def test_explicit_components_do_not_warn_however_many_features(wide, monkeypatch):
    X, y = wide
    monkeypatch.setattr("advmetric.learners.moments._MOST_DENSE", 150)
    assert AML(n_components=20).fit(X, y).components_.shape == (20, 200)


def test_a_matrix_as_prior_is_learned_with_in_the_whole_space(wide, whole_space):
    X, y = wide
    prior = np.diag(np.linspace(1.0, 3.0, 200))
    found, expected = (fit(GMML(prior=prior), X, y) for fit in (lambda m, *data: m.fit(*data), whole_space))
    np.testing.assert_array_equal(found.components_, expected.components_)
    identity = GMML(prior=np.eye(200)).fit(X, y).get_mahalanobis_matrix()
    assert relative_gap(GMML().fit(X, y).get_mahalanobis_matrix(), identity) < 1e-9
    with pytest.raises(ValueError, match="rank needs prior='identity'"):
        GMML(prior=prior, rank=5).fit(X, y)


@pytest.mark.numerical
def test_reg_zero_is_refused_where_rows_are_few(wide):
    X, y = wide
    for learner in (AML(reg=0.0), GMML(reg=0.0), GMML(reg=0.0, n_components=2)):
        for kind in (np.asarray, csr_array):
            with pytest.raises(ValueError, match="use a larger reg"):
                clone(learner).fit(kind(X), y)


def test_identical_points_give_the_prior(wide):
    X = np.ones((6, 10))
    for kind in (np.asarray, csr_array):
        M = AML(alpha=0.0).fit(kind(X), [0, 0, 0, 1, 1, 1]).get_mahalanobis_matrix()
        np.testing.assert_allclose(M, np.eye(10), atol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_rank_learns_from_the_data_projected_on_their_leading_directions(kind):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    low = rng.normal(size=(300, 6)) * 3.0 + 2.0 * rng.normal(size=(3, 6))[y]
    X = low @ rng.normal(size=(6, 30)) + 0.01 * rng.normal(size=(300, 30))
    if kind is np.asarray:
        _, _, Vt = np.linalg.svd(X - X.mean(axis=0))
    else:
        _, _, Vt = np.linalg.svd(X)
    projected = X @ Vt[:6].T @ Vt[:6]
    expected = AML(tol=1e-11).fit(projected, y).get_mahalanobis_matrix()
    found = AML(rank=6, tol=1e-11, random_state=0).fit(kind(X), y)
    assert found.components_.shape == (30, 30)
    assert relative_gap(found.get_mahalanobis_matrix(), expected) < 1e-6
    assert AML(rank=6, n_components=2, random_state=0).fit(kind(X), y).components_.shape == (2, 30)
    exact = AML().fit(X, y).get_mahalanobis_matrix()
    np.testing.assert_allclose(AML(rank=30).fit(kind(X), y).get_mahalanobis_matrix(), exact, atol=1e-8)


@pytest.mark.parametrize(("rank", "kind"), [(0, ValueError), (2.5, TypeError), ("all", TypeError)])
def test_a_bad_rank_is_named(wide, rank, kind):
    with pytest.raises(kind, match="rank"):
        GMML(rank=rank).fit(*wide)


@pytest.mark.parametrize("count", [1, 5, 13])
def test_the_complement_is_orthonormal_and_orthogonal_to_the_basis(count):
    Q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 7)))
    C = complement(Q, count)
    np.testing.assert_allclose(C.T @ C, np.eye(count), atol=1e-14)
    np.testing.assert_allclose(Q.T @ C, 0.0, atol=1e-14)


def test_pairs_from_differences_differ_by_them():
    V = np.random.default_rng(0).normal(size=(5, 3))
    pairs = Pairs.from_differences(V, np.array([1, -1, 1, -1, 1]))
    (_, found), *_ = pairs.differences()
    np.testing.assert_array_equal(found, V)
    np.testing.assert_allclose(pairs_scatter(pairs).B, V[[1, 3]].T @ V[[1, 3]] / 2)


@pytest.mark.slow
def test_the_riccati_equation_holds_in_all_3000_dimensions(monkeypatch, decomposed):
    """M = A⁻¹ # B solves MAM = B. Checked on vectors, so that nothing of the kind is formed but the components."""
    monkeypatch.setattr("advmetric.learners.moments._MOST_DENSE", 3000)
    rng = np.random.default_rng(0)
    n, d = 300, 3000
    y = np.arange(n) % 5
    X = rng.normal(size=(n, d)) + 0.3 * rng.normal(size=(5, d))[y]
    L = GMML().fit(X, y).components_
    assert max(decomposed) <= n, "the whole space takes minutes"
    left, right = np.triu_indices(n, k=1)
    same = y[left] == y[right]

    def regularised(kind, V):
        graph = np.zeros((n, n))
        graph[left[kind], right[kind]] = 1.0
        graph += graph.T
        laplacian = (np.diag(graph.sum(axis=0)) - graph) / kind.sum()
        return X.T @ (laplacian @ (X @ V)) + 1e-3 * np.sum(X * (laplacian @ X)) / d * V

    V = np.column_stack([rng.normal(size=(d, 3)), X[:3].T])
    MAMV = L.T @ (L @ regularised(same, L.T @ (L @ V)))
    expected = regularised(~same, V)
    assert relative_gap(MAMV, expected) < 1e-8
