"""RVML: closed form, virtual targets, kernel form."""

import sys
import warnings

import numpy as np
import ot
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist
from sklearn.datasets import load_wine
from sklearn.exceptions import SkipTestWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import check_estimator

from advmetric.algorithms.rvml import RVML, KernelRVML, kernel
from advmetric.algorithms.rvml.estimator import ridge
from advmetric.algorithms.rvml.targets import centre_and_scale, select_landmarks, transport_targets
from reference.awkward import awkward
from reference.neighbours import scaled_and_learned_error

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def wine_scaled(wine):
    X, y = wine
    return (X - X.mean(axis=0)) / (3 * X.std(axis=0)), y


def test_scikit_learn_contract_of_the_kernel_form():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        results = check_estimator(KernelRVML(), on_fail=None)
    assert {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"} == {}


# --- regression -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(50, 7), (7, 50), (10, 10)])
def test_ridge_solves_the_stacked_least_squares_problem(shape):
    rng = np.random.RandomState(0)
    n, d = shape
    X, V, lam = rng.randn(n, d), rng.randn(n, 3), 0.02
    stacked = np.vstack([X, np.sqrt(lam * n) * np.eye(d)])
    expected = np.linalg.lstsq(stacked, np.vstack([V, np.zeros((d, 3))]), rcond=None)[0]
    assert_allclose(ridge(X, V, lam), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("targets", ["class", "transport"])
def test_fit_is_that_regression_on_centred_points_over_three_sigma(wine, wine_scaled, targets):
    (X, y), (Z, _) = wine, wine_scaled
    V = np.eye(3)[y] if targets == "class" else transport_targets(Z, y)
    stacked = np.vstack([Z, np.sqrt(0.05 * len(Z)) * np.eye(13)])
    L = np.linalg.lstsq(stacked, np.vstack([V, np.zeros((13, V.shape[1]))]), rcond=None)[0]
    model = RVML(lam=0.05, targets=targets).fit(X, y)
    embedded = model.transform(X)
    assert_allclose(embedded - embedded[0], (Z - Z[0]) @ L, atol=1e-9)


def test_metric_does_not_depend_on_units_and_origin(wine):
    X, y = wine
    rng = np.random.RandomState(0)
    factor, shift = np.exp(3 * rng.randn(13)), 10 * rng.randn(13)
    model, moved = RVML().fit(X, y), RVML().fit(X * factor + shift, y)
    assert_allclose(moved.components_ * factor, model.components_, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_scale_is_three_sigma_for_any_size_of_number(scale):
    X = np.array([[0.1, 1.0], [0.1, 2.0], [0.1, 6.0]]) * scale
    mean, sigma = centre_and_scale(X)
    assert_allclose(mean / scale, [0.1, 3.0])
    assert sigma[0] == 1.0
    assert_allclose(sigma[1] / scale, 3 * np.std([1.0, 2.0, 6.0]))


# --- targets ----------------------------------------------------------------------------------------------


def landmarks_as_told(X, n_classes):
    """The rule, recomputed from scratch at each step."""
    everything = cdist(X, X)
    chosen = [int(np.argmax(np.linalg.norm(X, axis=1)))]
    while True:
        rest = np.setdiff1d(np.arange(len(X)), chosen)
        radius = everything[np.ix_(chosen, rest)].min(axis=0).max()
        if len(chosen) >= n_classes and radius <= everything.mean():
            return chosen
        chosen.append(int(rest[np.argmax(everything[np.ix_(chosen, rest)].mean(axis=0))]))


@pytest.mark.parametrize("n_classes", [3, 30])
def test_landmarks_follow_the_authors_rule(wine_scaled, n_classes):
    Z, _ = wine_scaled
    assert select_landmarks(Z, n_classes).tolist() == landmarks_as_told(Z, n_classes)


def test_landmarks_end_when_all_points_are_taken():
    assert sorted(select_landmarks(np.eye(4), 9).tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("eta", [10.0, 0.3])
def test_transport_targets_are_those_of_pots_solver(wine_scaled, eta):
    Z, y = wine_scaled
    landmarks = Z[select_landmarks(Z, 3)]
    n, m = len(Z), len(landmarks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", ResourceWarning)
        plan = ot.da.sinkhorn_lpl1_mm(np.full(n, 1 / n), y, np.full(m, 1 / m), cdist(Z, landmarks), 0.5, eta)
    expected = plan / plan.sum(axis=1, keepdims=True) @ landmarks
    assert_allclose(transport_targets(Z, y, eta=eta), expected, atol=1e-10)


def test_transport_survives_costs_beyond_the_range_of_exp(wine_scaled):
    Z, y = wine_scaled
    targets = transport_targets(1e4 * Z, y)
    assert np.isfinite(targets).all()
    assert np.abs(targets).max() <= np.abs(1e4 * Z).max() * (1 + 1e-9)


def test_missing_pot_is_explained(wine, monkeypatch):
    monkeypatch.setitem(sys.modules, "ot", None)
    RVML().fit(*wine)
    with pytest.raises(ImportError, match=r"advmetric\[ot\]"):
        RVML(targets="transport").fit(*wine)


# --- kernel -----------------------------------------------------------------------------------------------


def test_linear_kernel_gives_the_linear_form(wine):
    X, y = wine
    pairs = np.stack([X[:80], X[80:160]], axis=1)
    linear, kernel = RVML(lam=0.01).fit(X, y), KernelRVML(lam=0.01, kernel="linear").fit(X, y)
    assert_allclose(kernel.pair_distance(pairs), linear.pair_distance(pairs), rtol=1e-8)


def test_kernel_form_is_its_formula(wine, wine_scaled):
    (X, y), (Z, _) = wine, wine_scaled
    gamma = 1 / (2 * cdist(Z, Z).mean() ** 2)
    A = np.linalg.solve(rbf_kernel(Z, Z, gamma) + 0.01 * len(Z) * np.eye(len(Z)), np.eye(3)[y])
    model = KernelRVML(lam=0.01).fit(X, y)
    assert_allclose(model.gamma_, gamma, rtol=1e-9)
    assert_allclose(model.transform(X), rbf_kernel(Z, Z, gamma) @ A, atol=1e-10)
    assert model.transform(X.astype(np.float32)).dtype == np.float32


def test_kernel_distances_agree_with_transform_and_vanish_on_the_diagonal(wine, monkeypatch):
    X, y = wine
    monkeypatch.setattr(kernel, "BLOCK", 1000)
    model = KernelRVML().fit(X, y)
    embedded = model.transform(X)
    pairs = np.stack([X[:-1], X[1:]], axis=1)
    expected = np.linalg.norm(embedded[1:] - embedded[:-1], axis=1)
    assert_allclose(model.pair_distance(pairs), expected, atol=1e-9)
    assert_allclose(model.get_metric()(X[0], X[1]), expected[0], atol=1e-9)
    assert np.all(model.pair_distance(np.stack([X, X], axis=1)) == 0.0)


def test_kernel_form_decides_on_pairs_after_calibration(wine):
    X, y = wine
    model = KernelRVML().fit(X, y)
    i, j = np.random.RandomState(0).randint(len(X), size=(2, 400))
    pairs, labels = np.stack([X[i], X[j]], axis=1), np.where(y[i] == y[j], 1, -1)
    assert np.mean(model.calibrate_threshold(pairs, labels).predict(pairs) == labels) > 0.97


def test_kernel_form_has_no_matrix(wine):
    model = KernelRVML().fit(*wine)
    assert not hasattr(model, "get_mahalanobis_matrix")
    with pytest.raises(AttributeError, match="not a quadratic form"):
        model.get_mahalanobis_matrix()


def test_kernel_may_be_a_function(wine):
    X, y = wine
    by_name = KernelRVML(kernel="rbf", gamma=0.7).fit(X, y)
    by_function = KernelRVML(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.7)).fit(X, y)
    assert_allclose(by_function.transform(X), by_name.transform(X), atol=1e-10)


def test_a_function_that_returns_no_matrix_of_kernel_values_is_named(wine):
    X, y = wine
    for values in (3, np.ones(len(X)), np.ones((2, 2))):
        with pytest.raises(ValueError, match=r"kernel returned shape .*; \(178, 178\) is needed"):
            KernelRVML(kernel=lambda A, B, values=values: values).fit(X, y)


def test_the_kernel_metric_takes_what_other_metrics_take(wine):
    X, y = wine
    learned = KernelRVML().fit(X, y)
    metric, expected = learned.get_metric(), learned.pair_distance(X[None, :2])[0]
    assert_allclose([metric(X[0], X[1]), metric(X[:1], X[1:2].tolist())], expected)
    assert_allclose(metric.pair_distance(X[None, :2].tolist()), expected)
    assert_allclose(metric.transform(X[:3].tolist()), learned.transform(X[:3]))
    with pytest.raises(ValueError, match="v must be a vector of length 13, got shape"):
        metric(X[0], X[1, :5])
    with pytest.raises(ValueError, match="X has 5 features, but the metric is expecting 13 features"):
        metric.transform(X[:, :5])


def test_kernel_matrix_is_not_formed_for_too_many_points(wine, monkeypatch):
    monkeypatch.setattr(kernel, "_MAX_KERNEL_POINTS", 100)
    with pytest.raises(ValueError, match="Nystroem"):
        KernelRVML().fit(*wine)


# --- behaviour --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", [RVML(), RVML(targets="transport"), KernelRVML(), KernelRVML(targets="transport")], ids=str
)
def test_neighbours_are_no_worse_than_euclidean_on_wine(wine, model):
    scaled, learned = scaled_and_learned_error(model, *wine)
    assert learned <= scaled + 0.01


@pytest.mark.parametrize("name", awkward())
@pytest.mark.parametrize("model", [RVML(), RVML(targets="transport"), KernelRVML()], ids=str)
def test_awkward_data_give_a_finite_metric(name, model):
    X = awkward()[name]
    y = np.arange(len(X)) % 3
    embedded = model.fit(X, y).transform(X)
    assert np.isfinite(embedded).all()
    assert embedded.dtype == X.dtype


def test_pairs_are_refused_with_what_to_pass(wine):
    X = wine[0]
    with pytest.raises(ValueError, match="learns from points with class labels"):
        RVML().fit(np.stack([X[:50], X[50:100]], axis=1), np.where(np.arange(50) % 2, 1, -1))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (RVML(lam=0.0), "lam"),
        (RVML(lam=np.nan), "lam"),
        (RVML(targets="classes"), "targets"),
        (RVML(ot_reg=0.0), "ot_reg"),
        (RVML(ot_eta=-1.0), "ot_eta"),
        (KernelRVML(kernel="gauss"), "kernel"),
        (KernelRVML(gamma=-1.0), "gamma"),
    ],
)
def test_bad_parameters_are_named(wine, model, name):
    with pytest.raises(ValueError, match=name):
        model.fit(*wine)
