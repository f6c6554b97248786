"""ERML: the convex problem, its optimum, privileged features, and pairs without (N, d) arrays."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from advmetric import AllPairs
from advmetric.algorithms.erml import ERML, RelaxedThreshold
from advmetric.pairs.data import Pairs
from advmetric.pairs.differences import balanced_weights, unit_differences
from advmetric.pairs.graph import PairGraph
from reference.awkward import awkward
from reference.neighbours import scaled_and_learned_error

pytestmark = pytest.mark.numerical


def small_problem(lam=0.02, gamma=0.03, radius=np.inf, seed=0):
    """Sixty labelled differences in three dimensions, with two privileged ones."""
    rng = np.random.RandomState(seed)
    labels = np.where(np.arange(60) % 3 == 0, 1.0, -1.0)
    V = rng.randn(60, 3) * np.where(labels[:, None] == 1, [0.3, 1.0, 1.0], [2.0, 1.0, 0.5])
    V_star = rng.randn(60, 2) * np.where(labels[:, None] == 1, [1.0, 1.0], [0.5, 1.5])
    return RelaxedThreshold(V, V_star, PairGraph(60), labels, balanced_weights(labels), lam, gamma, radius)


def as_told(problem, M, P):
    """The objective in torch, for autograd."""
    V, V_star, labels, weights = (torch.tensor(A) for A in (problem.F, problem.F_star, problem.labels, problem.weights))
    q = ((V @ M) * V).sum(dim=1) - ((V_star @ P) * V_star).sum(dim=1)
    total = (weights * torch.nn.functional.softplus(labels * q, threshold=700)).sum()
    eye_M, eye_P = torch.eye(len(M), dtype=M.dtype), torch.eye(len(P), dtype=P.dtype)
    return total + problem.lam / 2 * ((M - eye_M) ** 2).sum() + problem.gamma / 2 * ((P - eye_P) ** 2).sum()


def factors(z):
    return z[:9].reshape(3, 3), z[9:].reshape(2, 2)


def on_factors(problem):
    """Objective and gradient as functions of K, Q with M = KKᵀ, P = QQᵀ."""

    def value_and_gradient(z):
        K, Q = (torch.tensor(A, requires_grad=True) for A in factors(z))
        value = as_told(problem, K @ K.T, Q @ Q.T)
        value.backward()
        return float(value.detach()), np.concatenate([K.grad.numpy().ravel(), Q.grad.numpy().ravel()])

    return value_and_gradient


# --- the problem ------------------------------------------------------------------------------------------


def test_value_and_gradient_are_those_of_autograd():
    problem = small_problem()
    rng = np.random.RandomState(1)
    A, B = rng.randn(3, 3), rng.randn(2, 2)
    M, P = (torch.tensor(C @ C.T, requires_grad=True) for C in (A, B))
    expected = as_told(problem, M, P)
    expected.backward()
    x = np.concatenate([M.detach().numpy().ravel(), P.detach().numpy().ravel()])
    value, gradient = problem.loss(x)
    assert_allclose(value + problem.penalty(x), float(expected.detach()), rtol=1e-12)
    pull = np.concatenate([0.02 * (A @ A.T - np.eye(3)).ravel(), 0.03 * (B @ B.T - np.eye(2)).ravel()])
    assert_allclose(gradient + pull, np.concatenate([M.grad.numpy().ravel(), P.grad.numpy().ravel()]), atol=1e-12)


def test_gradient_is_that_of_finite_differences():
    problem = small_problem()
    rng = np.random.RandomState(2)
    x, direction = rng.randn(13), rng.randn(13)
    for z in (x, direction):
        for block in (z[:9].reshape(3, 3), z[9:].reshape(2, 2)):
            block[:] = block + block.T
    h = 1e-5
    slope = (problem.loss(x + h * direction)[0] - problem.loss(x - h * direction)[0]) / (2 * h)
    assert_allclose(problem.loss(x)[1] @ direction, slope, rtol=1e-8)


def test_proximal_map_minimises_penalty_and_distance_over_the_constraints():
    problem = small_problem(lam=0.5, gamma=2.0, radius=0.8)
    rng = np.random.RandomState(0)
    x, step = 3 * rng.randn(13), 0.7
    for block in problem.unpack(x):
        block[:] = block + block.T

    def cost(z):
        return problem.penalty(z) + np.sum((z - x) ** 2) / (2 * step)

    best = problem.prox(x, step)
    for _ in range(300):
        A, B = 0.5 * rng.randn(3, 3), 0.5 * rng.randn(2, 2)
        other = np.concatenate([(A @ A.T).ravel(), (B @ B.T).ravel()])
        feasible = np.concatenate(
            [C.ravel() * min(1.0, 0.8 * np.sqrt(len(C)) / np.linalg.norm(C)) for C in problem.unpack(other)]
        )
        assert cost(best) <= cost(best + 0.3 * (feasible - best)) + 1e-12


# --- its optimum ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_optimum_is_that_of_lbfgs_on_factors(seed):
    problem = small_problem(lam=0.005, gamma=0.003, seed=seed)
    result = problem.solve(tol=1e-11, max_iter=20000)
    # The descent on factors alone gets there; FISTA only certifies.
    assert problem._descend(1e-6, 5000, None).objective[-1] == pytest.approx(result.objective[-1], rel=1e-6)
    assert result.converged
    rng = np.random.RandomState(0)
    found = [
        minimize(on_factors(problem), rng.randn(13), jac=True, method="L-BFGS-B", options={"gtol": 1e-9, "ftol": 1e-16})
        for _ in range(3)
    ]
    best = min(found, key=lambda r: r.fun)
    assert_allclose(result.objective[-1], best.fun, rtol=1e-9)
    K, Q = factors(best.x)
    M, P = problem.unpack(result.x)
    assert_allclose(M, K @ K.T, atol=1e-4)
    assert_allclose(P, Q @ Q.T, atol=1e-4)


def test_optimum_on_the_bound_is_that_of_slsqp_and_meets_its_conditions():
    problem = small_problem(lam=0.005, gamma=0.003, radius=0.7)
    result = problem.solve(tol=1e-11, max_iter=20000)
    M, P = problem.unpack(result.x)
    assert_allclose(np.linalg.norm(M), 0.7 * np.sqrt(3), rtol=1e-9)
    limits = (0.7 * np.sqrt(3), 0.7 * np.sqrt(2))
    room = {
        "type": "ineq",
        "fun": lambda z: np.array([b**2 - np.sum((A @ A.T) ** 2) for A, b in zip(factors(z), limits, strict=True)]),
    }
    rng = np.random.RandomState(0)
    found = [
        minimize(on_factors(problem), 0.3 * rng.randn(13), jac=True, method="SLSQP", constraints=room, tol=1e-12)
        for _ in range(3)
    ]
    assert_allclose(result.objective[-1], min(r.fun for r in found), rtol=1e-7)
    # First order: no feasible direction goes down.
    gradient = problem.loss(result.x)[1]
    gradient += np.concatenate([0.005 * (M - np.eye(3)).ravel(), 0.003 * (P - np.eye(2)).ravel()])
    for _ in range(200):
        A, B = rng.randn(3, 3), rng.randn(2, 2)
        for block, C, limit in zip((slice(9), slice(9, None)), (A @ A.T, B @ B.T), limits, strict=True):
            feasible = C * min(1.0, limit / np.linalg.norm(C))
            assert gradient[block] @ (feasible.ravel() - result.x[block]) >= -1e-7


def test_objective_never_rises_and_convergence_is_reported(wine):
    model = ERML(random_state=0).fit(*wine)
    assert model.converged_
    assert model.n_iter_ == len(model.objective_) - 1
    assert np.all(np.diff(model.objective_) <= 0)
    with pytest.warns(ConvergenceWarning, match="ERML did not converge in 2 iterations"):
        model.set_params(max_iter=2).fit(*wine)
    assert not model.converged_


# --- pairs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_pairs", [10, 500])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_differences_are_scaled_to_unit_mean_square(n_pairs, scale):
    rng = np.random.RandomState(0)
    left, right = rng.randint(30, size=(2, n_pairs))
    X = rng.randn(30, 3) * scale
    F, differences, divisor = unit_differences(Pairs(X, left, right))
    V = (X[left] - X[right]) / divisor
    assert_allclose(np.mean(np.sum(V**2, axis=1)), 1.0, rtol=1e-9)
    assert_allclose(differences.quadratic(F, F), np.sum(V**2, axis=1), atol=1e-10)


def test_points_index_pairs_and_formed_pairs_learn_the_same(wine):
    X, y = wine[0][::3], wine[1][::3]
    listed = AllPairs().sample(X, y)
    indices = np.column_stack([listed.left, listed.right])
    points = ERML(pairs="all").fit(X, y)
    by_index = ERML(preprocessor=X).fit(indices, listed.y)
    formed = ERML().fit(X[indices], listed.y)
    assert_allclose(by_index.get_mahalanobis_matrix(), points.get_mahalanobis_matrix(), rtol=1e-9)
    assert_allclose(formed.get_mahalanobis_matrix(), points.get_mahalanobis_matrix(), atol=1e-6)


def test_scaling_the_points_scales_the_metric_inversely(wine):
    X, y = wine
    model, scaled = ERML(random_state=0).fit(X, y), ERML(random_state=0).fit(1e3 * X, y)
    assert_allclose(1e6 * scaled.get_mahalanobis_matrix(), model.get_mahalanobis_matrix(), rtol=1e-6, atol=1e-9)


def test_same_random_state_same_metric(wine):
    first, second = (ERML(random_state=3).fit(*wine).components_ for _ in range(2))
    assert np.array_equal(first, second)


# --- privileged features ----------------------------------------------------------------------------------


def test_privileged_features_are_taken_by_point_pair_or_row(wine):
    X, y = wine[0][::3], wine[1][::3]
    seen, privileged = X[:, 4:], X[:, :4]
    listed = AllPairs().sample(X, y)
    indices = np.column_stack([listed.left, listed.right])
    points = ERML(pairs="all").fit(seen, y, privileged=privileged)
    by_index = ERML(preprocessor=seen).fit(indices, listed.y, privileged=privileged)
    formed = ERML().fit(seen[indices], listed.y, privileged=privileged[indices])
    for model in (by_index, formed):
        assert_allclose(model.get_mahalanobis_matrix(), points.get_mahalanobis_matrix(), atol=1e-6)
        assert model.privileged_components_.shape == (4, 4)
    without = ERML(pairs="all").fit(seen, y)
    assert np.abs(without.get_mahalanobis_matrix() - points.get_mahalanobis_matrix()).max() > 1e-2


def test_without_privileged_features_the_leading_half_of_the_components_stands_in(wine):
    X, y = wine[0][::3], wine[1][::3]
    # Over all pairs the axes of the differences are those of the points.
    axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:7]
    told = ERML(pairs="all").fit(X, y, privileged=X @ axes.T)
    silent = ERML(pairs="all").fit(X, y)
    assert_allclose(silent.get_mahalanobis_matrix(), told.get_mahalanobis_matrix(), rtol=1e-5, atol=1e-7)
    assert_allclose(
        silent.privileged_components_.T @ silent.privileged_components_,
        axes.T @ told.privileged_components_.T @ told.privileged_components_ @ axes,
        atol=1e-5,
    )


def test_a_perfect_teacher_is_heeded():
    """Privileged features that tell which pairs are noise improve the metric over none."""
    rng = np.random.RandomState(0)
    y = np.repeat([0, 1], 60)
    blur = rng.choice([0.1, 3.0], size=120)[:, None]
    X = np.c_[y[:, None] + blur * rng.randn(120, 1), rng.randn(120, 3)]
    taught = ERML(pairs="all", gamma=1e-3).fit(X, y, privileged=np.c_[blur, y])
    assert taught.converged_
    assert taught.score(X, y) >= ERML(pairs="all", gamma=1e3).fit(X, y, privileged=rng.randn(120, 2)).score(X, y) - 0.01


@pytest.mark.parametrize(
    ("privileged", "message"),
    [(np.ones((5, 2)), "privileged has shape"), (np.full((178, 1), np.nan), "privileged contains NaN")],
)
def test_flawed_privileged_features_are_named(wine, privileged, message):
    with pytest.raises(ValueError, match=message):
        ERML().fit(*wine, privileged=privileged)


# --- behaviour --------------------------------------------------------------------------------------------


def test_neighbours_are_no_worse_than_euclidean_on_wine(wine):
    scaled, learned = scaled_and_learned_error(ERML(random_state=0), *wine)
    assert learned <= scaled + 0.01


@pytest.mark.parametrize("name", awkward())
def test_awkward_data_give_a_finite_metric(name):
    X = awkward()[name]
    model = ERML(random_state=0).fit(X, np.arange(len(X)) % 3)
    M = model.get_mahalanobis_matrix()
    eigenvalues = np.linalg.eigvalsh(M)
    assert np.isfinite(M).all()
    assert eigenvalues[0] >= -1e-10 * eigenvalues[-1]
    assert np.isfinite(model.transform(X)).all()


def test_classes_of_one_member_and_lost_kinds_of_pairs_are_refused(wine):
    X, y = wine
    with pytest.raises(ValueError, match="only one member"):
        ERML().fit(X[[0, 70, 150]], y[[0, 70, 150]])
    with pytest.raises(ValueError, match=r"pair \(label .1\) was drawn"):
        ERML(pairs=1, random_state=0).fit(X, y)


@pytest.mark.parametrize(
    ("name", "value"),
    [("lam", 0.0), ("gamma", -1.0), ("radius", 0.0), ("tol", -1.0), ("max_iter", 0), ("pairs", "some")],
)
def test_bad_parameters_are_named(wine, name, value):
    with pytest.raises((TypeError, ValueError), match=name):
        ERML(**{name: value}).fit(*wine)
