"""DRML: value, gradient and geometry on Stiefel × SPD, and where the solver ends."""

import numpy as np
import pymanopt
import pytest
import torch
from numpy.testing import assert_allclose
from pymanopt.manifolds import Product, Stiefel, SymmetricPositiveDefinite
from pymanopt.optimizers import ConjugateGradient
from scipy.optimize import minimize
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier

from advmetric import AllPairs
from advmetric.algorithms.drml import DRML
from advmetric.algorithms.drml.solver import DRMLProblem, Point, Tangent, minimise
from advmetric.pairs.differences import balanced_weights
from advmetric.pairs.graph import PairGraph
from reference.awkward import awkward
from reference.neighbours import scaled_and_learned_error

pytestmark = pytest.mark.numerical


def small_problem(d=6, lam=0.01, beta=1.0, seed=0):
    rng = np.random.RandomState(seed)
    labels = np.where(np.arange(80) % 2 == 0, 1.0, -1.0)
    spread = np.where(labels[:, None] == 1, np.linspace(0.2, 1.0, d), np.linspace(1.0, 0.5, d))
    V = rng.randn(80, d) * spread
    V /= np.sqrt(np.mean(np.sum(V**2, axis=1)))
    return DRMLProblem(V, PairGraph(80), labels, 2 * balanced_weights(labels), lam, beta)


def some_point(d=6, p=3, seed=0):
    rng = np.random.RandomState(seed)
    return Point(np.linalg.qr(rng.randn(d, p))[0], np.eye(p) + 0.3 * rng.randn(p, p))


def some_tangent(point, seed=1):
    rng = np.random.RandomState(seed)
    E = rng.randn(*point.R.shape)
    return Tangent(point.project(rng.randn(*point.W.shape)), E + E.T)


def as_told(problem, W, M):
    """The objective in torch, for autograd."""
    F, labels, weights = (torch.tensor(A) for A in (problem.F, problem.labels, problem.weights))
    q = ((F @ W @ M) * (F @ W)).sum(dim=1)
    loss = (weights * torch.nn.functional.softplus(labels * problem.beta * q, threshold=700)).sum()
    return loss + problem.lam * (torch.trace(M) - torch.logdet(M) - len(M))


def euclidean(problem, W, M):
    """Value and Euclidean gradients by autograd."""
    W, M = torch.tensor(W, requires_grad=True), torch.tensor(M, requires_grad=True)
    value = as_told(problem, W, M)
    value.backward()
    G = M.grad.numpy()
    return float(value.detach()), W.grad.numpy(), 0.5 * (G + G.T)


# --- value, gradient, geometry ----------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 3, 6])
def test_value_and_riemannian_gradient_are_those_of_autograd_and_pymanopt(p):
    problem, point = small_problem(), some_point(p=p)
    M = point.R @ point.R.T
    value, by_W, by_M = euclidean(problem, point.W, M)
    found, gradient = problem.evaluate(point)
    assert_allclose(found, value, rtol=1e-12)
    # Pymanopt's Stiefel metric is tr(ξᵀξ); the paper's is twice that, so its gradient is half as long.
    expected_W = 0.5 * Stiefel(6, p).euclidean_to_riemannian_gradient(point.W, by_W)
    expected_M = SymmetricPositiveDefinite(p).euclidean_to_riemannian_gradient(M, by_M)
    assert_allclose(gradient.W, expected_W, atol=1e-12)
    assert_allclose(point.R @ gradient.E @ point.R.T, expected_M, atol=1e-12)


def test_gradient_is_the_slope_along_the_retraction():
    problem, point = small_problem(), some_point()
    tangent = some_tangent(point)
    h = 1e-5
    ahead, behind = (problem.evaluate(point.retract(tangent * t))[0] for t in (h, -h))
    assert_allclose(problem.evaluate(point)[1].dot(tangent), (ahead - behind) / (2 * h), rtol=1e-8)


def test_gradient_is_tangent_and_horizontal():
    """No component along (WΩ, MΩ - ΩM), the directions that leave WMWᵀ as it is."""
    problem, point = small_problem(), some_point()
    gradient = problem.evaluate(point)[1]
    inside = point.W.T @ gradient.W
    assert_allclose(inside, -inside.T, atol=1e-14)
    assert_allclose(gradient.E, gradient.E.T)
    M = point.R @ point.R.T
    inverse = np.linalg.inv(point.R)
    rng = np.random.RandomState(0)
    for _ in range(5):
        skew = rng.randn(3, 3)
        skew = skew - skew.T
        vertical = Tangent(point.W @ skew, inverse @ (M @ skew - skew @ M) @ inverse.T)
        assert abs(gradient.dot(vertical)) < 1e-12


def test_value_depends_on_the_metric_alone():
    problem, point = small_problem(), some_point()
    Q = np.linalg.qr(np.random.RandomState(5).randn(3, 3))[0]
    turned = Point(point.W @ Q, Q.T @ point.R)
    assert_allclose(problem.evaluate(turned)[0], problem.evaluate(point)[0], rtol=1e-13)


def test_retraction_stays_on_the_manifold_and_follows_the_geodesic_of_m():
    point = some_point()
    tangent = some_tangent(point)
    moved = point.retract(tangent * 3.0)
    assert_allclose(moved.W.T @ moved.W, np.eye(3), atol=1e-13)
    M = point.R @ point.R.T
    expected = SymmetricPositiveDefinite(3).exp(M, point.R @ (3.0 * tangent.E) @ point.R.T)
    assert_allclose(moved.R @ moved.R.T, expected, rtol=1e-9)


def test_transported_frame_coordinates_keep_their_length_on_the_cone():
    point = some_point()
    tangent, other = some_tangent(point, 1), some_tangent(point, 2)
    moved = point.retract(tangent)
    arrived = moved.transport(other)
    assert_allclose(np.vdot(arrived.E, arrived.E), np.vdot(other.E, other.E))
    inside = moved.W.T @ arrived.W
    assert_allclose(inside, -inside.T, atol=1e-13)


def test_far_pairs_do_not_overflow():
    problem = small_problem(beta=1e6)
    with np.errstate(all="raise", under="ignore"):
        value, gradient = problem.evaluate(some_point())
    assert np.isfinite(value)
    assert np.isfinite(gradient.W).all()


# --- where the solver ends --------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "lam"), [(2, 0.1), (3, 0.001), (6, 0.01)])
def test_optimum_is_no_worse_than_pymanopts_from_the_same_start(p, lam):
    problem = small_problem(lam=lam)
    start = problem.start(p)
    solution = minimise(problem, start, tol=1e-9)
    assert solution.converged
    manifold = Product([Stiefel(6, p), SymmetricPositiveDefinite(p)])

    @pymanopt.function.numpy(manifold)
    def cost(W, M):
        return problem.evaluate(Point(W, np.linalg.cholesky(M)))[0]

    @pymanopt.function.numpy(manifold)
    def gradient(W, M):
        return euclidean(problem, W, M)[1:]

    optimizer = ConjugateGradient(verbosity=0, max_iterations=500, min_gradient_norm=1e-7)
    other = optimizer.run(
        pymanopt.Problem(manifold, cost, euclidean_gradient=gradient), initial_point=[start.W, np.eye(p)]
    )
    assert solution.objective[-1] <= other.cost * (1 + 1e-6)


@pytest.mark.parametrize(("p", "lam"), [(2, 0.1), (3, 0.001), (6, 0.01)])
def test_optimum_is_that_of_lbfgs_on_the_factor_from_the_same_start(p, lam):
    """With Y = WM^{1/2} the problem has no constraint: W and M are the polar factors of Y."""
    problem = small_problem(lam=lam)
    start = problem.start(p)

    def value_and_gradient(y):
        Y = torch.tensor(y.reshape(6, p), requires_grad=True)
        value = as_told(problem, Y, torch.eye(p, dtype=Y.dtype))
        K = Y.T @ Y
        value = value + problem.lam * (torch.trace(K) - torch.logdet(K) - p)
        value.backward()
        return float(value.detach()), Y.grad.numpy().ravel()

    other = minimize(
        value_and_gradient, start.W.ravel(), jac=True, method="L-BFGS-B", options={"gtol": 1e-8, "ftol": 1e-16}
    )
    solution = minimise(problem, start, tol=1e-9)
    assert_allclose(solution.objective[-1], other.fun, rtol=1e-8)


def test_values_fall_and_the_end_is_stationary():
    problem = small_problem(d=10)
    solution = minimise(problem, problem.start(4), tol=1e-8)
    assert solution.converged
    assert np.all(np.diff(solution.objective) <= 0)
    value, gradient = problem.evaluate(solution.x)
    assert np.sqrt(gradient.dot(gradient)) <= 1e-8 * value
    assert_allclose(solution.x.W.T @ solution.x.W, np.eye(4), atol=1e-12)


def test_a_problem_without_information_is_left_at_the_identity():
    labels = np.array([1.0, -1.0])
    problem = DRMLProblem(np.zeros((2, 3)), PairGraph(2), labels, np.ones(2), 0.1, 1.0)
    solution = minimise(problem, problem.start(2))
    assert solution.converged
    assert_allclose(solution.x.R, np.eye(2))


# --- the estimator ----------------------------------------------------------------------------------------


def test_components_have_the_value_of_the_optimum_in_the_units_of_the_points(wine):
    X, y = wine
    X = X * 7.0
    listed = AllPairs().sample(X[::3], y[::3])
    model = DRML(n_components=4, pairs="all").fit(X[::3], y[::3])
    V = listed.X[listed.left] - listed.X[listed.right]
    scale = np.sqrt(np.mean(np.sum(V**2, axis=1)))
    q = np.sum((V @ model.components_.T) ** 2, axis=1)
    M = scale**2 * model.components_ @ model.components_.T
    loss = np.mean(np.log1p(np.exp(q[listed.y == 1]))) + np.mean(np.log1p(np.exp(-q[listed.y == -1])))
    penalty = model.lam * (np.trace(M) - np.linalg.slogdet(M)[1] - 4)
    assert_allclose(loss + penalty, model.objective_[-1], rtol=1e-9)
    assert np.all(np.diff(np.linalg.norm(model.components_, axis=1)) <= 0)


def test_plain_sums_are_averages_with_another_lam_where_kinds_balance(wine):
    X, y = wine
    rng = np.random.RandomState(0)
    i, j = rng.randint(len(X), size=(2, 3000))
    kinds = np.where(y[i] == y[j], 1, -1)
    chosen = np.concatenate([np.flatnonzero(kinds == 1)[:500], np.flatnonzero(kinds == -1)[:500]])
    pairs, kinds = np.column_stack([i, j])[chosen], kinds[chosen]
    average = DRML(preprocessor=X, lam=0.01).fit(pairs, kinds)
    sums = DRML(preprocessor=X, lam=5.0, average=False).fit(pairs, kinds)
    assert_allclose(sums.objective_[-1], 500 * average.objective_[-1], rtol=1e-8)


def test_points_index_pairs_and_formed_pairs_learn_the_same(wine):
    X, y = wine[0][::3], wine[1][::3]
    listed = AllPairs().sample(X, y)
    indices = np.column_stack([listed.left, listed.right])
    points = DRML(pairs="all", n_components=3).fit(X, y)
    by_index = DRML(preprocessor=X, n_components=3).fit(indices, listed.y)
    formed = DRML(n_components=3).fit(X[indices], listed.y)
    assert_allclose(by_index.get_mahalanobis_matrix(), points.get_mahalanobis_matrix(), rtol=1e-9, atol=1e-12)
    assert_allclose(formed.get_mahalanobis_matrix(), points.get_mahalanobis_matrix(), atol=1e-3)
    assert formed.threshold_ > 0


def test_running_out_of_iterations_is_reported(wine):
    with pytest.warns(ConvergenceWarning, match="DRML did not converge in 3 iterations"):
        model = DRML(max_iter=3, random_state=0).fit(*wine)
    assert not model.converged_
    assert model.n_iter_ == 3


def test_same_random_state_same_metric(wine):
    first, second = (DRML(random_state=3, n_components=5).fit(*wine).components_ for _ in range(2))
    assert np.array_equal(first, second)
    assert first.shape == (5, 13)


def test_neighbours_are_no_worse_than_euclidean_on_wine(wine):
    scaled, learned = scaled_and_learned_error(DRML(random_state=0), *wine)
    assert learned <= scaled + 0.01


@pytest.mark.parametrize("name", awkward())
@pytest.mark.parametrize("whole", [True, False])
def test_awkward_data_give_a_finite_metric(name, whole):
    X = awkward()[name]
    p = None if whole else (X.shape[1] + 1) // 2
    model = DRML(n_components=p, random_state=0).fit(X, np.arange(len(X)) % 3)
    M = model.get_mahalanobis_matrix()
    eigenvalues = np.linalg.eigvalsh(M)
    assert np.isfinite(M).all()
    assert eigenvalues[0] >= -1e-10 * eigenvalues[-1]
    assert np.isfinite(model.transform(X)).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lam", 0.0),
        ("beta", 0.0),
        ("n_components", 0),
        ("n_components", 2.5),
        ("n_components", 14),
        ("tol", -1.0),
        ("max_iter", 0),
        ("pairs", "some"),
    ],
)
def test_bad_parameters_are_named(wine, name, value):
    with pytest.raises((TypeError, ValueError), match=name):
        DRML(**{name: value}).fit(*wine)


def test_defaults_are_about_as_good_as_euclidean_on_digits():
    X, y = load_digits(return_X_y=True)
    train, test = next(StratifiedShuffleSplit(1, test_size=0.3, random_state=0).split(X, y))
    learned = DRML(random_state=0).fit(X[train], y[train])
    errors = [
        1 - KNeighborsClassifier(5).fit(transform(X[train]), y[train]).score(transform(X[test]), y[test])
        for transform in (np.asarray, learned.transform)
    ]
    assert errors[1] <= 1.3 * errors[0]  # with lam=1e-3 it was twice as much
