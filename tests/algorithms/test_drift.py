"""DRIFT: the objective term by term, its gradients, its limits, and agreement with the plain alternating solver."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from advmetric import load_dataset
from advmetric.algorithms.drift import DRIFT, DriftProblem, solve
from advmetric.linalg.spd import project_spd
from advmetric.pairs.triplets import Neighbors, nearest_impostors, target_neighbors

pytestmark = pytest.mark.numerical


def sample(n=30, d=3, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return rng.standard_normal((n, d)) + 0.7 * np.eye(classes, d)[y], y


def problem_of(X, y, lambda1=0.1, lambda2=1.0, n_targets=3, n_impostors=4):
    return DriftProblem(
        X,
        Neighbors(target_neighbors(X, y, n_targets)),
        Neighbors(nearest_impostors(X, y, n_impostors)),
        lambda1,
        lambda2,
    )


def triplets_of(problem):
    """Every (i, j, l), by loops."""
    return [
        (i, j, m)
        for i in range(len(problem.X))
        for j in problem.targets.points[i]
        for m in problem.impostors.points[i]
        if j >= 0 and m >= 0
    ]


def plain_objective(problem, M, delta):
    Z = problem.X + delta
    losses = []
    for i, j, m in triplets_of(problem):
        near, far = Z[i] - Z[j], Z[i] - Z[m]
        losses.append(max(0.0, 1 - far @ M @ far + near @ M @ near) ** 2)
    return (
        np.mean(losses)
        + problem.lambda1 / 2 * np.sum((M - np.eye(len(M))) ** 2)
        + problem.lambda2 / (2 * len(Z)) * np.sum(delta**2)
    )


def alternating(problem, turns=1000, *, disturb=True):
    """Projected gradient in M and gradient in δ by turns, each step halved until the objective falls."""
    n, d = problem.X.shape
    M, delta = np.eye(d), np.zeros((n, d))
    steps = {"M": 1.0, "delta": float(n)}
    value, in_M, in_delta = problem.evaluate(M, delta)
    for _ in range(turns):
        before = value
        for block in ("M", "delta") if disturb else ("M",):
            steps[block] *= 2.0
            for _ in range(30):
                step = steps[block]
                trial = (project_spd(M - step * in_M), delta) if block == "M" else (M, delta - step * in_delta)
                found = problem.evaluate(*trial)
                if found[0] < value:
                    (M, delta), (value, in_M, in_delta) = trial, found
                    break
                steps[block] *= 0.5
        if before - value <= 1e-10 * value:
            break
    return value, M, delta


def random_point(problem, seed=1):
    rng = np.random.default_rng(seed)
    n, d = problem.X.shape
    R = rng.standard_normal((d, d))
    return R @ R.T / d, 0.3 * rng.standard_normal((n, d))


# --- objective and gradients -------------------------------------------------------------------------------


def test_the_objective_is_the_sum_over_triplets():
    X, y = sample()
    y[:2] = [7, 8]
    problem = problem_of(X, y, n_targets=20)
    M, delta = random_point(problem)
    assert problem.n_triplets == len(triplets_of(problem)) > 300
    assert problem.evaluate(M, delta)[0] == pytest.approx(plain_objective(problem, M, delta), rel=1e-12)


def test_gradients_in_m_and_in_delta_are_those_of_finite_differences():
    problem = problem_of(*sample())
    M, delta = random_point(problem)
    _, in_M, in_delta = problem.evaluate(M, delta)
    numeric_M = approx_fprime(M.ravel(), lambda m: plain_objective(problem, m.reshape(3, 3), delta), 1e-7)
    numeric_delta = approx_fprime(delta.ravel(), lambda v: plain_objective(problem, M, v.reshape(-1, 3)), 1e-7)
    numeric_M = numeric_M.reshape(3, 3)
    np.testing.assert_allclose(in_M, (numeric_M + numeric_M.T) / 2, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(in_delta.ravel(), numeric_delta, rtol=1e-4, atol=1e-6)


def test_gradients_are_those_of_autograd():
    problem = problem_of(*sample())
    start_M, start_delta = random_point(problem)
    M, delta = torch.tensor(start_M, requires_grad=True), torch.tensor(start_delta, requires_grad=True)
    i, j, m = np.array(triplets_of(problem)).T
    Z = torch.tensor(problem.X) + delta
    near, far = Z[i] - Z[j], Z[i] - Z[m]
    hinge = torch.clamp(1 - ((far @ M) * far).sum(1) + ((near @ M) * near).sum(1), min=0.0)
    value = (hinge**2).mean() + 0.05 * ((M - torch.eye(3)) ** 2).sum() + 1.0 / (2 * len(Z)) * (delta**2).sum()
    value.backward()
    found, in_M, in_delta = problem.evaluate(start_M, start_delta)
    assert found == pytest.approx(value.item(), rel=1e-12)
    np.testing.assert_allclose(in_M, M.grad.numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(in_delta, delta.grad.numpy(), rtol=1e-10, atol=1e-12)


# --- solutions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lambda1", "lambda2"), [(0.1, 10.0), (0.01, 30.0), (10.0, 100.0)])
def test_alternating_projected_gradient_steps_lead_to_the_same_place(lambda1, lambda2):
    problem = problem_of(*sample(), lambda1, lambda2)
    value, M, _ = alternating(problem)
    found = solve(problem, max_iter=2000, tol=1e-12)
    assert found.converged
    assert found.objective[-1] == pytest.approx(value, rel=1e-4)
    np.testing.assert_allclose(found.x[0].T @ found.x[0], M, atol=0.02 * np.abs(M).max())


def test_disturbances_at_an_infinite_price_leave_the_problem_without_them():
    problem = problem_of(*sample(), 0.1, 1e9)
    value, M, _ = alternating(problem, disturb=False)
    found = solve(problem, max_iter=2000, tol=1e-12)
    assert np.abs(found.x[1]).max() < 1e-7
    assert found.objective[-1] == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(found.x[0].T @ found.x[0], M, atol=1e-3 * np.abs(M).max())


def test_the_end_is_stationary_and_dual_feasible():
    problem = problem_of(*sample(), 0.1, 1.0)
    found = solve(problem, max_iter=2000, tol=1e-14)
    M = found.x[0].T @ found.x[0]
    _, in_M, in_delta = problem.evaluate(M, found.x[1])
    assert np.abs(in_delta).max() < 1e-6
    assert np.abs(in_M @ M).max() < 1e-5
    assert np.linalg.eigvalsh(in_M)[0] > -1e-5


def test_metric_disturbances_and_objective_of_the_estimator_belong_together():
    X, y = sample()
    learner = DRIFT(n_impostors=4).fit(7.0 * X, y)
    size = np.sqrt(np.mean(Neighbors(target_neighbors(X, y, 3)).squared_distances(X))) * 7.0
    problem = problem_of(7.0 * X / size, y, learner.lambda1, learner.lambda2)
    value = plain_objective(problem, learner.get_mahalanobis_matrix() * size**2, learner.disturbances_ / size)
    assert learner.objective_[-1] == pytest.approx(value, rel=1e-9)


def test_a_strong_pull_keeps_the_identity():
    X, y = sample()
    M = DRIFT(lambda1=1e6).fit(X, y).get_mahalanobis_matrix()
    np.testing.assert_allclose(M / M[0, 0], np.eye(3), atol=1e-4)


def test_disturbances_shrink_as_their_price_rises():
    X, y = sample()
    sizes = [np.linalg.norm(DRIFT(lambda2=price).fit(X, y).disturbances_) for price in (0.1, 1.0, 10.0, 100.0)]
    assert all(a > b > 0 for a, b in pairwise(sizes))
    assert sizes[-1] < 0.1 * sizes[0]


def test_disturbances_bring_triplets_into_order():
    X, y = sample()
    learner = DRIFT(lambda2=0.1).fit(X, y)
    Z = X + learner.disturbances_
    before, after = (
        np.mean(
            [np.linalg.norm(P[i] - P[j]) < np.linalg.norm(P[i] - P[m]) for i, j, m in triplets_of(problem_of(X, y))]
        )
        for P in (learner.transform(X), learner.transform(Z))
    )
    assert after > before + 0.1


def test_the_objective_never_rises_and_the_attributes_are_there():
    X, y = sample()
    learner = DRIFT().fit(X, y)
    assert np.all(np.diff(learner.objective_) <= 0)
    assert learner.n_iter_ == len(learner.objective_) - 1
    assert learner.disturbances_.shape == X.shape
    assert learner.components_.shape == (3, 3)
    assert learner.converged_


@pytest.mark.parametrize("size", [1e-100, 1e-3, 1e5, 1e100])
def test_scale_and_place_of_the_data_do_not_matter(size):
    X, y = sample()
    plain, moved = DRIFT().fit(X, y), DRIFT().fit((X + 3) * size, y)
    np.testing.assert_allclose(moved.objective_[-1], plain.objective_[-1], rtol=1e-8)
    np.testing.assert_allclose(moved.disturbances_ / size, plain.disturbances_, atol=1e-4)
    np.testing.assert_allclose(np.abs(moved.components_) * size, np.abs(plain.components_), rtol=1e-3, atol=1e-4)


def test_it_is_deterministic():
    X, y = sample()
    np.testing.assert_array_equal(DRIFT().fit(X, y).components_, DRIFT().fit(X, y).components_)


# --- hard input --------------------------------------------------------------------------------------------


def test_a_point_alone_in_its_class_makes_no_triplet_but_may_be_an_impostor():
    X, y = sample()
    X, y = np.vstack([X, X[:1] + 0.01, [[50.0, 0, 0]]]), np.append(y, [8, 9])
    moved = np.linalg.norm(DRIFT().fit(X, y).disturbances_, axis=1)
    assert moved[-2] > 0
    assert moved[-1] == 0


def test_constant_features_and_directions_without_data_keep_the_identity():
    X, y = sample()
    M = DRIFT().fit(np.hstack([X, np.full((len(X), 1), 3.0)]), y).get_mahalanobis_matrix()
    small = DRIFT().fit(X, y).get_mahalanobis_matrix()
    np.testing.assert_allclose(M[:3, :3], small, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(M[3, :3], 0, atol=1e-10)
    assert M[3, 3] > 0


@pytest.mark.parametrize("kind", ["same", "duplicate targets", "wide"])
def test_degenerate_points_give_a_finite_metric(kind):
    rng = np.random.default_rng(0)
    X, y = {
        "same": (np.ones((8, 3)), np.arange(8) % 2),
        "duplicate targets": (np.repeat(np.eye(3), 4, axis=0), np.repeat(np.arange(3), 4)),
        "wide": (rng.standard_normal((12, 40)), np.arange(12) % 2),
    }[kind]
    learner = DRIFT().fit(X, y)
    eigenvalues = np.linalg.eigvalsh(learner.get_mahalanobis_matrix())
    assert np.isfinite(eigenvalues).all()
    assert eigenvalues[0] >= -1e-12
    assert learner.converged_


def test_stopping_at_max_iter_warns():
    X, y = sample()
    with pytest.warns(ConvergenceWarning, match="DRIFT did not converge in 2 iterations"):
        assert not DRIFT(max_iter=2).fit(X, y).converged_


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"n_targets": 0}, "n_targets=0"),
        ({"n_impostors": 0}, "n_impostors=0"),
        ({"lambda1": 0.0}, "lambda1=0.0"),
        ({"lambda2": -1.0}, "lambda2=-1.0"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"tol": -1.0}, "tol=-1.0"),
    ],
)
def test_bad_parameters_are_named(params, match):
    with pytest.raises(ValueError, match=match):
        DRIFT(**params).fit(*sample())


@pytest.mark.parametrize("name", ["wine", "vehicle"])
def test_neighbours_under_the_metric_err_no_more_than_euclidean_ones(name):
    X, y = load_wine(return_X_y=True) if name == "wine" else (load_dataset(name).X, load_dataset(name).y)
    X = StandardScaler().fit_transform(X)
    test = np.arange(len(X)) % 3 == 0
    Z = DRIFT().fit(X[~test], y[~test]).transform(X)
    before = KNeighborsClassifier(5).fit(X[~test], y[~test]).score(X[test], y[test])
    after = KNeighborsClassifier(5).fit(Z[~test], y[~test]).score(Z[test], y[test])
    assert after >= before - 0.01
