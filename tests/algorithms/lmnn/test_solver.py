"""LMNN: the objective is the paper's, the gradient is right, the optimum is certified and independent solvers agree."""

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime, linprog
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from advmetric import load_dataset
from advmetric.algorithms.lmnn import LMNN, lmnn_objective
from advmetric.algorithms.lmnn import solver as lmnn
from advmetric.algorithms.lmnn.problem import Problem, best_scale, pull_scatter
from advmetric.optimize.whitening import WhitenedPoints
from advmetric.pairs.triplets import Neighbors, target_neighbors

pytestmark = pytest.mark.numerical


def sample(n=40, d=3, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return rng.standard_normal((n, d)) + 0.7 * np.eye(classes, d)[y], y


def vehicle(n=None):
    data = load_dataset("vehicle")
    return StandardScaler().fit_transform(data.X)[:n], data.y[:n]


def triplets_of(X, y, k):
    """Targets and triplets by plain loops."""
    pairs, triplets = [], []
    for i in range(len(X)):
        mates = [j for j in range(len(X)) if y[j] == y[i] and j != i]
        mates.sort(key=lambda j: np.sum((X[i] - X[j]) ** 2))
        for j in mates[:k]:
            pairs.append((i, j))
            triplets += [(i, j, m) for m in range(len(X)) if y[m] != y[i]]
    return pairs, triplets


def plain_objective(L, X, y, k, push):
    """The formula of the paper, term by term."""
    pairs, triplets = triplets_of(X, y, k)
    D = ((X @ L.T)[:, None] - (X @ L.T)[None]) ** 2
    D = D.sum(axis=2)
    pull = sum(D[i, j] for i, j in pairs)
    return (1 - push) * pull + push * sum(max(0.0, 1 + D[i, j] - D[i, m]) for i, j, m in triplets)


def cutting_planes(X, y, k, push):
    """The optimum in M by linear programs: slack variables for the hinges, a cut uᵀMu >= 0 for each violated u."""
    d = X.shape[1]
    pairs, triplets = triplets_of(X, y, k)
    rows, columns = np.triu_indices(d)
    double = np.where(rows == columns, 1.0, 2.0)

    def inner(V):
        return V[:, rows] * V[:, columns] * double

    V = np.array([X[i] - X[j] for i, j in pairs])
    to_target = inner(np.array([X[i] - X[j] for i, j, _ in triplets]))
    to_impostor = inner(np.array([X[i] - X[m] for i, _, m in triplets]))
    m, p = len(triplets), len(rows)
    cost = np.concatenate([(1 - push) * inner(V).sum(axis=0), np.full(m, push)])
    hinges = np.hstack([to_target - to_impostor, -np.eye(m)])
    cuts = np.zeros((0, p))
    bounds = [(-1e4, 1e4)] * p + [(0, None)] * m
    start = np.vstack([np.eye(d), np.random.default_rng(0).standard_normal((20, d))])
    cuts = -inner(start)
    for _ in range(200):
        A = np.vstack([hinges, np.hstack([cuts, np.zeros((len(cuts), m))])])
        found = linprog(cost, A, np.concatenate([-np.ones(m), np.zeros(len(cuts))]), bounds=bounds)
        M = np.zeros((d, d))
        M[rows, columns] = M[columns, rows] = found.x[:p]
        eigenvalues, U = np.linalg.eigh(M)
        if eigenvalues[0] > -1e-7:
            return found.fun, M
        cuts = np.vstack([cuts, -inner(U[:, eigenvalues < -1e-7].T)])
    raise AssertionError("the cuts did not settle")


def problem_of(X, y, k=3, push=0.5):
    return Problem(X, y, Neighbors(target_neighbors(X, y, k)), push)


# --- objective and gradient --------------------------------------------------------------------------------


@pytest.mark.parametrize("push", [0.2, 0.5])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_the_blocked_objective_is_the_sum_over_all_triplets(push, scale):
    X, y = sample()
    y[:2] = [7, 8]
    L = scale * np.random.default_rng(1).standard_normal((2, 3))
    expected = plain_objective(L, X, y, 3, push)
    assert lmnn_objective(L, X, y, n_neighbors=3, push=push) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rounding", [0.0, 0.3])
def test_the_gradient_is_that_of_finite_differences_and_of_autograd(rounding):
    X, y = sample()
    problem = problem_of(X, y)
    L = np.random.default_rng(2).standard_normal((2, 3))
    problem.impostors = problem.find(L, slack=2.0)

    def value(flat):
        return problem.evaluate(X @ flat.reshape(2, 3).T, rounding).value

    state = problem.evaluate(X @ L.T, rounding)
    gradient = problem.gradient(X @ L.T, state)
    numeric = approx_fprime(L.ravel(), value, 1e-7).reshape(2, 3)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-3)

    factor = torch.tensor(L, requires_grad=True)
    Z = torch.tensor(X) @ factor.T
    pairs, triplets = (np.array(t) for t in triplets_of(X, y, 3))
    near = ((Z[triplets[:, 0]] - Z[triplets[:, 1]]) ** 2).sum(1)
    far = ((Z[triplets[:, 0]] - Z[triplets[:, 2]]) ** 2).sum(1)
    z = torch.clamp(1 + near - far, min=0.0)
    hinge = torch.where(z < rounding, z**2 / (2 * rounding), z - rounding / 2) if rounding else z
    total = 0.5 * ((Z[pairs[:, 0]] - Z[pairs[:, 1]]) ** 2).sum() + 0.5 * hinge.sum()
    total.backward()
    assert state.value == pytest.approx(total.item(), rel=1e-12)
    np.testing.assert_allclose(gradient, factor.grad.numpy(), rtol=1e-9, atol=1e-9)


def test_the_best_scale_is_that_of_a_search_along_the_ray():
    X, y = sample()
    problem = problem_of(X, y)
    L = np.random.default_rng(3).standard_normal((3, 3))
    s = best_scale(problem, L)
    values = [lmnn_objective(np.sqrt(s * factor) * L, X, y) for factor in np.geomspace(0.1, 10, 201)]
    assert min(values) == pytest.approx(values[100], rel=1e-12)


def test_in_the_whitened_coordinates_the_pull_scatter_is_the_identity_and_distances_are_kept():
    X, y = sample()
    X = np.hstack([X, X[:, :1] * 2, np.zeros((len(X), 1))]) * [1, 1e4, 1e-4, 1, 1]
    X -= X.mean(axis=0)
    targets = Neighbors(target_neighbors(X, y, 3))
    coordinates = WhitenedPoints.of(X, lambda Z: pull_scatter(Z, targets))
    assert coordinates.X.shape == (len(X), 3)
    np.testing.assert_allclose(pull_scatter(coordinates.X, targets), np.eye(3), atol=1e-8)
    L = np.random.default_rng(0).standard_normal((4, 5))
    np.testing.assert_allclose(
        coordinates.X @ (L @ coordinates.to).T, X @ L.T, rtol=1e-6, atol=1e-6 * np.abs(X @ L.T).max()
    )
    np.testing.assert_allclose(X @ coordinates.unseen, 0.0, atol=1e-10 * np.abs(X).max())


# --- optimum -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("push", "d"), [(0.5, 2), (0.5, 4), (0.2, 3)])
def test_the_optimum_is_that_of_a_linear_program_with_cutting_planes(push, d):
    X, y = sample(n=30, d=d, seed=d)
    best, M = cutting_planes(X, y, 2, push)
    learner = LMNN(n_neighbors=2, push=push, tol=1e-6).fit(X, y)
    assert learner.objective_[-1] == pytest.approx(best, rel=1e-5)
    assert learner.objective_[-1] >= best * (1 - 1e-9)
    assert plain_objective(learner.components_, X, y, 2, push) == pytest.approx(learner.objective_[-1], rel=1e-9)
    learned = learner.get_mahalanobis_matrix()
    assert np.linalg.norm(learned - M) <= 0.02 * np.linalg.norm(M)


def test_the_lower_bound_holds_and_closes_at_the_optimum():
    X, y = sample(n=30)
    best, _ = cutting_planes(X, y, 3, 0.5)
    learner = LMNN(tol=1e-4).fit(X, y)
    assert learner.gap_ <= 1e-4
    assert learner.objective_[-1] * (1 - learner.gap_) <= best * (1 + 1e-9)

    targets = Neighbors(target_neighbors(X, y, 3))
    coordinates = WhitenedPoints.of(X - X.mean(axis=0), lambda Z: pull_scatter(Z, targets))
    problem = Problem(coordinates.X, y, targets, 0.5)
    for seed in range(5):
        L = np.random.default_rng(seed).standard_normal((3, 3))
        problem.impostors = problem.find(L)
        bound = problem.lower_bound(problem.evaluate(problem.X @ L.T, 0.1), np.full(3, 0.5))
        assert 0 <= bound <= best * (1 + 1e-9)


def test_the_reported_objective_counts_every_triplet_on_real_data():
    X, y = vehicle(250)
    learner = LMNN().fit(X, y)
    assert learner.converged_
    assert learner.objective_[-1] == pytest.approx(plain_objective(learner.components_, X, y, 3, 0.5), rel=1e-9)


def test_starts_do_not_change_the_optimum():
    X, y = vehicle(250)
    values = [
        LMNN(init=init, tol=1e-3).fit(X, y).objective_[-1]
        for init in ("identity", "pca", np.random.default_rng(0).standard_normal((18, 18)))
    ]
    assert max(values) <= min(values) * (1 + 1e-3)


def test_a_metric_of_low_rank_is_found_without_a_certificate():
    X, y = vehicle(250)
    full = LMNN().fit(X, y)
    values = []
    for init in ("auto", "pca", "identity"):
        learner = LMNN(n_components=6, init=init).fit(X, y)
        assert learner.components_.shape == (6, 18)
        assert np.isnan(learner.gap_)
        assert learner.objective_[-1] >= full.objective_[-1] * (1 - full.gap_)
        values.append(learner.objective_[-1])
    assert values[0] <= min(values) * 1.05


# --- what the metric does not depend on --------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-100, 1e-3, 1e5, 1e100])
def test_the_scale_of_the_data_only_divides_the_components(size):
    X, y = sample()
    plain, scaled = LMNN().fit(X, y), LMNN().fit(X * size, y)
    assert scaled.objective_[-1] == pytest.approx(plain.objective_[-1], rel=1e-9)
    np.testing.assert_allclose(np.abs(scaled.components_) * size, np.abs(plain.components_), rtol=1e-4, atol=1e-6)


def test_features_of_very_different_scale_are_solved_to_the_same_gap():
    X, y = vehicle(300)
    learner = LMNN(tol=0.01).fit(X * np.geomspace(1e-6, 1e6, 18), y)
    assert learner.gap_ <= 0.01


def test_it_is_deterministic():
    X, y = vehicle(200)
    np.testing.assert_array_equal(LMNN().fit(X, y).components_, LMNN().fit(X, y).components_)


# --- hard input --------------------------------------------------------------------------------------------


def test_a_point_alone_in_its_class_is_no_anchor_but_still_an_impostor():
    X, y = sample()
    X, y = np.vstack([X, X[:1] + 0.01]), np.append(y, 9)
    learner = LMNN().fit(X, y)
    assert learner.objective_[-1] == pytest.approx(plain_objective(learner.components_, X, y, 3, 0.5), rel=1e-9)
    without = lmnn_objective(learner.components_, X[:-1], y[:-1])
    assert learner.objective_[-1] > without


def test_a_class_smaller_than_k_has_fewer_targets():
    X, y = sample()
    y[:] = 0
    y[:2] = 1
    learner = LMNN(n_neighbors=5).fit(X, y)
    assert learner.objective_[-1] == pytest.approx(plain_objective(learner.components_, X, y, 5, 0.5), rel=1e-9)


@pytest.mark.parametrize("n_neighbors", [3, 50, 10**6])
def test_more_neighbours_than_any_class_has_members_are_all_of_them(n_neighbors):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), np.repeat([0, 1, 2], 4)
    found = LMNN(n_neighbors=n_neighbors).fit(X, y)
    np.testing.assert_allclose(found.components_, LMNN(n_neighbors=3).fit(X, y).components_, rtol=1e-6, atol=1e-9)


def test_directions_without_spread_keep_the_start():
    X, y = sample()
    X = np.hstack([X, np.full((len(X), 1), 3.0)])
    learner = LMNN().fit(X, y)
    M = learner.get_mahalanobis_matrix()
    assert learner.components_.shape == (4, 4)
    assert M[3, 3] > 0
    np.testing.assert_allclose(M[3, :3], 0, atol=1e-12 * M[3, 3])
    np.testing.assert_allclose(M[:3, :3], LMNN().fit(X[:, :3], y).get_mahalanobis_matrix(), rtol=1e-2, atol=1e-3)


def test_fewer_points_than_features_can_be_separated_entirely():
    rng = np.random.default_rng(0)
    learner = LMNN().fit(rng.standard_normal((12, 40)), np.arange(12) % 2)
    assert learner.converged_
    assert learner.objective_[-1] <= 1e-9 * learner.objective_[0]
    assert learner.gap_ == 0.0
    assert learner.components_.shape == (40, 40)


def test_points_that_are_all_the_same_keep_the_start():
    learner = LMNN().fit(np.ones((8, 3)), np.arange(8) % 2)
    np.testing.assert_array_equal(learner.components_, np.eye(3))
    assert learner.objective_[-1] == 0.5 * 8 * 3 * 4


def test_duplicates_within_and_across_classes_are_harmless():
    X, y = sample()
    X, y = np.vstack([X, X, X]), np.concatenate([y, y, (y + 1) % 3])
    learner = LMNN().fit(X, y)
    assert learner.converged_
    expected = lmnn_objective(learner.components_, X, y)
    assert learner.objective_[-1] == pytest.approx(expected, rel=1e-9)


def test_stopping_at_max_iter_warns():
    X, y = vehicle(200)
    with pytest.warns(ConvergenceWarning, match=r"LMNN did not converge in 3 iterations: the duality gap is still"):
        learner = LMNN(max_iter=3).fit(X, y)
    assert not learner.converged_
    assert learner.n_iter_ == 3


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"n_neighbors": 0}, ValueError, "n_neighbors=0"),
        ({"n_neighbors": 1.5}, (TypeError, ValueError), "n_neighbors=1.5"),
        ({"push": 1.0}, ValueError, "push=1.0 must be a finite number > 0 and < 1"),
        ({"push": 0}, ValueError, "push=0"),
        ({"n_components": 9}, ValueError, "n_components=9 is more than the 3 features"),
        ({"init": "lda"}, ValueError, "init='lda' is not known"),
        ({"init": np.ones((2, 5))}, ValueError, r"init must be a finite \(r, 3\) array"),
        ({"init": np.eye(3), "n_components": 2}, ValueError, "init has 3 rows, but n_components=2"),
        ({"init": np.zeros((3, 3))}, ValueError, "init must not be all zeros"),
        ({"max_iter": 0}, ValueError, "max_iter=0"),
        ({"tol": -1.0}, ValueError, "tol=-1.0"),
    ],
)
def test_bad_parameters_are_named(params, error, match):
    X, y = sample()
    with pytest.raises(error, match=match):
        LMNN(**params).fit(X, y)


# --- use ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [vehicle, lambda: load_wine(return_X_y=True)], ids=["vehicle", "wine"])
def test_neighbours_under_the_metric_err_less_than_euclidean_ones(data):
    X, y = data()
    X = StandardScaler().fit_transform(X)
    test = np.arange(len(X)) % 3 == 0
    learner = LMNN().fit(X[~test], y[~test])
    Z = learner.transform(X)
    before = KNeighborsClassifier(5).fit(X[~test], y[~test]).score(X[test], y[test])
    after = KNeighborsClassifier(5).fit(Z[~test], y[~test]).score(Z[test], y[test])
    assert after >= before


@pytest.mark.slow
def test_all_training_letters_are_solved_to_the_gap():
    data = load_dataset("letters")
    X = StandardScaler().fit_transform(data.X[:16000])
    learner = LMNN().fit(X, data.y[:16000])
    assert learner.gap_ <= learner.tol
    assert lmnn.lmnn_objective(learner.components_, X, data.y[:16000]) == pytest.approx(
        learner.objective_[-1], rel=1e-9
    )
