"""Arrays of other libraries: what goes in as a tensor comes out as one, with NumPy's numbers.

``array_api_strict`` refuses whatever is not in the standard, so what runs on it runs on CuPy and JAX too.
"""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from advmetric import AML, AMLCV, GMML, ITML, LMNN, Euclidean, Mahalanobis
from advmetric.linalg.spd import geometric_mean, project_spd
from advmetric.pairs.data import Pairs
from advmetric.pairs.samplers import RandomPairs
from advmetric.pairs.scatter import all_pairs_scatter, pairs_scatter
from advmetric.utils.arrays import convert_like, is_array_api, namespace, to_numpy

pytestmark = pytest.mark.numerical

LIBRARIES = pytest.mark.parametrize("library", [torch, strict], ids=["torch", "strict"])


@pytest.fixture(scope="module")
def wine() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def index_pairs(wine: Any) -> tuple[np.ndarray, np.ndarray]:
    pairs = RandomPairs(500).sample(*wine, 0)
    return np.stack([pairs.left, pairs.right], axis=1), pairs.labels.astype(np.int64)


def same(found: Any, expected: Any, kind: Any, rtol: float = 1e-9) -> None:
    """``found`` is an array of the library ``kind``, of the type of NumPy's, with its numbers."""
    assert is_array_api(found)
    assert namespace(found) is namespace(kind.asarray([1.0]))
    assert to_numpy(found).dtype == expected.dtype
    np.testing.assert_allclose(to_numpy(found), expected, rtol=rtol, atol=rtol * np.abs(expected).max())


def gram(components: Any) -> np.ndarray:
    L = to_numpy(components)
    return L.T @ L


@LIBRARIES
@pytest.mark.parametrize(
    "learner",
    [
        AML(),
        AML(alpha=10.0, beta=0.1, t=0.1),
        AML(adversary="printed"),
        AML(adversary="expanding", beta=50.0),
        AML(solver="alternating", tol=1e-8),
        AML(solver="projected-gradient", tol=1e-8),
        AML(n_components=4),
        AML(prior=np.diag(np.arange(1.0, 14.0))),
        AML(pairs=300, random_state=0),
        GMML(t=0.25),
        Euclidean(),
    ],
    ids=str,
)
def test_learning_from_labels_gives_numpys_metric(library: Any, learner: Any, wine: Any) -> None:
    X, y = wine
    expected = learner.fit(X, y)
    M, Z = gram(expected.components_), expected.transform(X)
    foreign = learner.fit(library.asarray(X), library.asarray(y))
    assert is_array_api(foreign.components_)
    np.testing.assert_allclose(gram(foreign.components_), M, rtol=1e-7, atol=1e-7 * np.abs(M).max())
    embedded = foreign.transform(library.asarray(X))
    same(embedded, Z, library, 1e-5)  # row by row: neither order nor signs are left to chance


@LIBRARIES
@pytest.mark.parametrize("form", ["formed", "index"])
def test_pairs_in_decisions_out(library: Any, form: str, wine: Any, index_pairs: Any) -> None:
    X, (pairs, y) = wine[0], index_pairs
    if form == "formed":
        expected, given = AML().fit(X[pairs], y), library.asarray(X[pairs])
        judged, learner = X[pairs], AML()
    else:
        expected, given = AML(preprocessor=X).fit(pairs, y), library.asarray(pairs)
        judged, learner = pairs, AML(preprocessor=library.asarray(X))
    learner.fit(given, library.asarray(y))
    same(learner.pair_distance(given), expected.pair_distance(judged), library, 1e-8)
    same(learner.decision_function(given), expected.decision_function(judged), library, 1e-7)
    same(learner.predict(given), expected.predict(judged), library)
    assert learner.threshold_ == pytest.approx(expected.threshold_)
    assert learner.score(given, library.asarray(y)) == pytest.approx(expected.score(judged, y))


def test_single_precision_is_kept_but_not_learned_in(wine: Any) -> None:
    X, y = wine
    far = X + 1e3
    single = torch.asarray(far.astype(np.float32))
    learner = AML().fit(single, y)
    assert learner.components_.dtype == torch.float64
    assert learner.transform(single).dtype == torch.float32
    expected = AML().fit(far.astype(np.float32), y)
    np.testing.assert_allclose(gram(learner.components_), gram(expected.components_), rtol=1e-7, atol=1e-9)


def test_whole_numbers_become_floating_point() -> None:
    X = torch.tensor([[0, 1], [1, 0], [5, 6], [6, 5]])
    learner = AML().fit(X, [0, 0, 1, 1])
    assert learner.transform(X).dtype == torch.float64


@LIBRARIES
def test_the_metric_goes_where_the_points_are(library: Any, wine: Any) -> None:
    X, y = wine
    learner = AML().fit(X, y)
    same(learner.transform(library.asarray(X)), learner.transform(X), library)
    tensors = AML().fit(library.asarray(X), y)
    assert isinstance(tensors.transform(X), np.ndarray)


@pytest.mark.parametrize("learner", [AMLCV(alphas=[0.0, 1.0], betas=[1.0], ts=[0.5], cv=3), LMNN()], ids=str)
def test_others_learn_from_a_copy_and_transform_tensors(learner: Any, wine: Any) -> None:
    X, y = wine
    expected = learner.fit(X, y).transform(X)
    same(learner.fit(torch.asarray(X), torch.asarray(y)).transform(torch.asarray(X)), expected, torch)


def test_a_baseline_learns_from_pairs_of_tensors(wine: Any, index_pairs: Any) -> None:
    X, (pairs, y) = wine[0], index_pairs
    expected = ITML().fit(X[pairs], y).pair_distance(X[pairs])
    given = torch.asarray(X[pairs])
    same(ITML().fit(given, torch.asarray(y)).pair_distance(given), expected, torch)


def test_more_features_than_rows(wine: Any) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 40)), np.arange(12) % 3
    learner = AML().fit(torch.asarray(X), y)
    expected = AML().fit(X, y)
    same(learner.components_.T @ learner.components_, gram(expected.components_), torch)


def test_gradients_flow_through_transform_but_not_into_fit(wine: Any) -> None:
    X = torch.asarray(wine[0]).requires_grad_()
    learner = AML().fit(X, wine[1])
    assert not learner.components_.requires_grad
    learner.transform(X).square().sum().backward()
    np.testing.assert_allclose(X.grad.numpy(), 2 * wine[0] @ gram(learner.components_), rtol=1e-8)


@LIBRARIES
def test_the_metric_object(library: Any, wine: Any, index_pairs: Any) -> None:
    X, (pairs, _) = wine[0], index_pairs
    metric = AML().fit(library.asarray(X), wine[1]).get_metric()
    assert isinstance(metric.components, np.ndarray)
    same(metric.transform(library.asarray(X)), metric.transform(X), library)
    view = Pairs(X, pairs[:, 0], pairs[:, 1])
    distances = metric.pair_distance(Pairs(library.asarray(X), view.left, view.right))
    same(distances, metric.pair_distance(view), library)
    assert metric(library.asarray(X[0]), library.asarray(X[1])) == pytest.approx(metric(X[0], X[1]))


@LIBRARIES
def test_scatter_and_algebra(library: Any, wine: Any, index_pairs: Any) -> None:
    X, y = wine
    for offset, labels in ((0.0, y), (1e6, y), (0.0, np.arange(len(y)) % 2)):  # the last: classes of one size
        found, expected = all_pairs_scatter(library.asarray(X + offset), labels), all_pairs_scatter(X + offset, labels)
        same(found.A, expected.A, library, 1e-8)
        same(found.B, expected.B, library, 1e-8)
    left, right, labels = *index_pairs[0].T, index_pairs[1]
    found = pairs_scatter(Pairs(library.asarray(X), left, right, labels))
    expected = pairs_scatter(Pairs(X, left, right, labels))
    same(found.A, expected.A, library)
    same(found.B, expected.B, library)
    A, B = (library.asarray(matrix) for matrix in (expected.A, expected.B))
    same(geometric_mean(A, B, 0.3), geometric_mean(expected.A, expected.B, 0.3), library)
    same(project_spd(A - B, 0.1), project_spd(expected.A - expected.B, 0.1), library)


def test_adversarial_pairs_of_tensors(wine: Any, index_pairs: Any) -> None:
    X, (pairs, y) = wine[0], index_pairs
    expected = AML().fit(X[pairs], y).adversarial_pairs(X[pairs], y)
    given = torch.asarray(X[pairs])
    found = AML().fit(given, y).adversarial_pairs(given, torch.asarray(y))
    same(found, expected, torch, 1e-6)


def test_batches_of_tensors(wine: Any) -> None:
    X, y = wine
    learner = AML()
    for part in np.array_split(np.random.default_rng(0).permutation(len(X)), 3):
        learner.partial_fit(torch.asarray(X[part]), torch.asarray(y[part]))
    np.testing.assert_allclose(gram(learner.components_), gram(AML().fit(X, y).components_), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (torch.tensor([[1.0, np.nan], [0.0, 1.0]]), "NaN at row 0, column 1"),
        (torch.tensor([[1.0, 0.0], [np.inf, 1.0]]), "inf at row 1, column 0"),
        (torch.ones(3), "2D array"),
        (torch.ones((0, 2)), "at least 1 row"),
        (torch.ones((2, 2), dtype=torch.complex64), "Complex"),
    ],
)
def test_flaws_are_named(X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AML().fit(X, [0, 1])


def test_labels_are_needed_and_one_for_each_point(wine: Any) -> None:
    X = torch.asarray(wine[0])
    with pytest.raises(ValueError, match="requires y"):
        AML().fit(X, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        AML().fit(X, wine[1][:-1])


def test_the_identity_of_many_features_is_sparse_but_not_for_tensors() -> None:
    X, y = np.random.default_rng(0).normal(size=(6, 4100)), [0, 0, 0, 1, 1, 1]
    same(Euclidean().fit(torch.asarray(X), y).transform(torch.asarray(X)), X, torch)
    same(Euclidean().fit(X, y).transform(torch.asarray(X)), X, torch)


def test_another_number_of_features_is_refused(wine: Any) -> None:
    learner = AML().fit(torch.asarray(wine[0]), wine[1])
    with pytest.raises(ValueError, match="features"):
        learner.transform(torch.asarray(wine[0][:, :5]))


def test_singular_scatter_says_what_to_do() -> None:
    X = torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]], dtype=torch.float64)
    with pytest.raises(ValueError, match="reg"):
        AML(reg=0.0).fit(X, [0, 0, 1, 1])


def test_what_is_foreign() -> None:
    assert is_array_api(torch.ones(2))
    assert is_array_api(strict.ones(2))
    for other in (np.ones(2), [1.0], 1.0, None, "text", np.float64(1.0)):
        assert not is_array_api(other)
    assert convert_like(torch.ones(2, requires_grad=True), np.ones(1)).dtype == np.float32


def test_saving_a_metric_learned_from_tensors(wine: Any, tmp_path: Any) -> None:
    metric = AML().fit(torch.asarray(wine[0]), wine[1]).get_metric()
    metric.save(tmp_path / "metric.npz")
    np.testing.assert_array_equal(Mahalanobis.load(tmp_path / "metric.npz").components, metric.components)
