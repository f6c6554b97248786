"""ITML: the optimality conditions of its LogDet problem, and the authors' projections, by independent means."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from advmetric import Euclidean
from advmetric.algorithms.itml import ITML
from advmetric.algorithms.itml import solvers as itml
from advmetric.algorithms.itml.estimator import prior_root
from advmetric.algorithms.itml.solvers import evaluate, minimise, projections
from advmetric.pairs.bounds import bounded_pairs
from advmetric.pairs.data import LabelledPoints
from advmetric.pairs.samplers import RandomPairs
from reference.neighbours import scaled_and_learned_error

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def problem(wine):
    return bounded_pairs(LabelledPoints(wine.X[:, :4], wine.y), pairs=300, random_state=0)


def differences(problem):
    return problem.graph.differences(problem.rows, slice(None))


def primal(problem, M, gamma):
    """The objective as printed, with the cheapest slacks."""
    p = np.einsum("ij,jk,ik->i", differences(problem), M, differences(problem))
    slack = np.where(problem.sign > 0, np.maximum(p, problem.bound), np.minimum(p, problem.bound))
    ratio = slack / problem.bound
    return np.trace(M) - np.linalg.slogdet(M)[1] - len(M) + gamma * np.sum(ratio - np.log(ratio) - 1.0)


def sweep_of_the_authors(problem, M, lam, b, gamma):
    """One sweep of the published algorithm, projection by projection, in plain loops."""
    share = gamma / (gamma + 1.0)
    for i, v in enumerate(differences(problem)):
        p = v @ M @ v
        if problem.sign[i] > 0:
            a = min(lam[i], share * (1.0 / p - 1.0 / b[i]))
            tau = a / (1.0 - a * p)
            b[i] = 1.0 / (1.0 / b[i] + a / gamma)
        else:
            a = min(lam[i], share * (1.0 / b[i] - 1.0 / p))
            tau = -a / (1.0 + a * p)
            b[i] = 1.0 / (1.0 / b[i] - a / gamma)
        lam[i] -= a
        M = M + tau * np.outer(M @ v, M @ v)
    return M


def visits():
    """The two ways to do a sweep; the compiled one needs numba."""
    compiled = itml._compiled_visit()
    return [itml._visit_by_blocks, itml._visit] + ([compiled] if compiled else [])


@pytest.mark.parametrize("gamma", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("visit", visits())
def test_a_sweep_does_what_the_authors_loop_does(problem, visit, gamma):
    d = problem.rows.shape[1]
    expected, lam, b = np.eye(d), np.zeros(len(problem)), problem.bound.copy()
    M, mine, inverse_slack = np.eye(d), np.zeros(len(problem)), 1.0 / problem.bound
    for _ in range(3):
        expected = sweep_of_the_authors(problem, expected, lam, b, gamma)
        visit(differences(problem), problem.sign, M, mine, inverse_slack, gamma)
        np.testing.assert_allclose(M, expected, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(mine, lam, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(1.0 / inverse_slack, b, rtol=1e-8)


@pytest.mark.parametrize("visit", visits())
def test_each_projection_lands_on_its_constraint_or_on_a_zero_multiplier(problem, visit):
    M, gamma = np.eye(problem.rows.shape[1]), 0.5
    lam, inverse_slack = np.zeros(len(problem)), 1.0 / problem.bound
    tight = 0
    for i in range(len(problem)):
        one = slice(i, i + 1)
        v = differences(problem)[one]
        visit(v, problem.sign[one], M, lam[one], inverse_slack[one], gamma)
        p = float(v[0] @ M @ v[0])
        if lam[i] > 0.0:
            tight += 1
            assert p == pytest.approx(1.0 / inverse_slack[i], rel=1e-9)
        else:
            assert problem.sign[i] * (p - 1.0 / inverse_slack[i]) <= 1e-9
    assert tight > len(problem) / 2


@pytest.mark.parametrize("visit", visits())
def test_the_gain_that_a_sweep_reports_is_that_of_the_dual_objective(problem, visit):
    gamma, d = 0.3, problem.rows.shape[1]
    M, lam, inverse_slack = np.eye(d), np.zeros(len(problem)), 1.0 / problem.bound

    def dual():
        K = np.eye(d) + differences(problem).T @ ((problem.sign * lam)[:, None] * differences(problem))
        return np.linalg.slogdet(K)[1] + gamma * np.sum(np.log1p(-problem.sign * lam * problem.bound / gamma))

    for _ in range(3):
        before = dual()
        gain = visit(differences(problem), problem.sign, M, lam, inverse_slack, gamma)
        assert gain > 0.0
        assert gain == pytest.approx(dual() - before, rel=1e-6, abs=1e-9)


def test_the_objective_is_the_printed_one_and_its_gradient_that_of_autograd(problem):
    rng, gamma = np.random.RandomState(0), 0.2
    G = np.eye(4) + 0.3 * rng.randn(4, 4)
    state = evaluate(problem, G, gamma)
    assert state.value == pytest.approx(primal(problem, G @ G.T, gamma), rel=1e-12)

    M = torch.tensor(G @ G.T, requires_grad=True)
    V, bound, sign = (torch.tensor(a) for a in (differences(problem), problem.bound, problem.sign))
    x = ((V @ M) * V).sum(dim=1) / bound
    x = torch.where(sign * (x - 1.0) > 0.0, x, torch.ones_like(x))
    (torch.trace(M) - torch.logdet(M) + gamma * (x - torch.log(x)).sum()).backward()
    np.testing.assert_allclose(state.gradient, G.T @ M.grad.numpy() @ G, atol=1e-10)


@pytest.mark.parametrize("gamma", [0.01, 0.3])
def test_the_optimum_is_that_of_an_independent_solver_of_the_dual(problem, gamma):
    """scipy's L-BFGS-B on the multipliers, λ >= 0: nothing in common with either solver here."""
    V, sign, bound = differences(problem), problem.sign, problem.bound

    def negative_dual(lam):
        K = np.eye(4) + V.T @ ((sign * lam)[:, None] * V)
        slack = 1.0 - sign * lam * bound / gamma
        if np.linalg.eigvalsh(K)[0] <= 0.0 or slack.min() <= 0.0:
            return 1e10, np.zeros_like(lam)
        M = np.linalg.inv(K)
        p = np.einsum("ij,jk,ik->i", V, M, V)
        value = np.linalg.slogdet(K)[1] + gamma * np.sum(np.log(slack))
        return -value, -sign * (p - bound / slack)

    # Similar pairs: λ < γ/b, where their slack would be infinite.
    box = [(0.0, 0.999999 * gamma / b if s > 0 else None) for s, b in zip(sign, bound, strict=True)]
    small = np.full(len(V), 1e-4 * gamma)
    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 50}
    other = minimize(negative_dual, small, jac=True, method="L-BFGS-B", bounds=box, options=options)
    found = minimise(problem, gamma, tol=1e-8)
    assert found.converged
    assert found.objective[-1] == pytest.approx(-other.fun, rel=1e-6)
    M = np.linalg.inv(np.eye(4) + V.T @ ((sign * other.x)[:, None] * V))
    np.testing.assert_allclose(found.x @ found.x.T, M, rtol=1e-2, atol=1e-3 * np.abs(M).max())


@pytest.mark.parametrize("gamma", [0.01, 0.5])
def test_projections_approach_the_optimum_of_lbfgs_from_below(problem, gamma):
    best = minimise(problem, gamma, tol=1e-8)
    found = projections(problem, gamma, tol=1e-4, max_iter=2000)
    assert found.converged
    assert np.all(np.diff(found.objective) >= -1e-9 * found.objective[-1])
    assert found.objective[-1] <= best.objective[-1] * (1 + 1e-9)
    assert found.objective[-1] == pytest.approx(best.objective[-1], rel=1e-4)
    M = best.x @ best.x.T
    np.testing.assert_allclose(found.x @ found.x.T, M, atol=1e-2 * np.abs(M).max())


def test_the_optimum_meets_the_optimality_conditions_of_the_slack_problem(problem):
    gamma = 0.1
    found = minimise(problem, gamma, tol=1e-9)
    M, V = found.x @ found.x.T, differences(problem)
    p = np.einsum("ij,jk,ik->i", V, M, V)
    slack = np.where(problem.sign * (p - problem.bound) > 0.0, p, problem.bound)
    multipliers = gamma * problem.sign * (1.0 / problem.bound - 1.0 / slack)
    assert np.all(multipliers >= 0.0)
    assert np.all(problem.sign * (p - slack) <= 1e-12)
    assert np.abs(multipliers * (p - slack)).max() == 0.0
    stationary = np.eye(4) + V.T @ ((problem.sign * multipliers)[:, None] * V)
    np.testing.assert_allclose(stationary @ M, np.eye(4), atol=1e-6)


def test_the_duality_gap_bounds_the_distance_to_the_optimum(problem):
    gamma = 0.1
    best = minimise(problem, gamma, tol=1e-10).objective[-1]
    rough = minimise(problem, gamma, tol=1e-2)
    gap = evaluate(problem, rough.x, gamma).gap
    assert np.isfinite(gap)
    assert 0.0 < rough.objective[-1] - best <= gap
    assert evaluate(problem, 0.1 * np.eye(4), 1e3).gap == np.inf


def test_values_never_increase(problem):
    values = np.array(minimise(problem, 1.0).objective)
    assert np.all(np.diff(values) <= 0.0)


def test_bounds_are_percentiles_of_squared_distances_under_the_prior(wine):
    left, right = np.triu_indices(len(wine.X), k=1)
    V = wine.X[left] - wine.X[right]
    learner = ITML(gamma=0.01, random_state=0).fit(wine.X, wine.y)
    np.testing.assert_allclose(learner.bounds_, np.percentile((V**2).sum(axis=1), (5, 95)), rtol=1e-9)
    M0 = np.diag(np.arange(1.0, 14.0))
    learner = ITML(gamma=0.01, prior=M0, percentiles=(10, 90), random_state=0).fit(wine.X, wine.y)
    squared = np.einsum("ij,jk,ik->i", V, M0, V, optimize=True)
    np.testing.assert_allclose(learner.bounds_, np.percentile(squared, (10, 90)), rtol=1e-9)


@pytest.mark.parametrize("solver", ["lbfgs", "projections"])
def test_a_prior_is_met_as_the_slack_gets_cheap_and_acts_like_a_change_of_coordinates(wine, solver):
    rng = np.random.RandomState(0)
    A = rng.randn(13, 13)
    M0 = A @ A.T / 13 + np.eye(13)
    free = ITML(gamma=1e-9, prior=M0, solver=solver, random_state=0).fit(wine.X, wine.y)
    np.testing.assert_allclose(free.get_mahalanobis_matrix(), M0, atol=1e-3)
    R = np.linalg.cholesky(M0)
    settings = {"gamma": 0.001, "solver": solver, "tol": 1e-6, "random_state": 0}
    given = ITML(prior=M0, **settings).fit(wine.X, wine.y).get_mahalanobis_matrix()
    mapped = ITML(**settings).fit(wine.X @ R, wine.y).get_mahalanobis_matrix()
    np.testing.assert_allclose(given, R @ mapped @ R.T, atol=1e-4 * np.abs(given).max())


def test_the_covariance_prior_whitens_and_survives_constant_features(wine):
    root = prior_root("covariance", LabelledPoints(wine.X, wine.y))
    np.testing.assert_allclose(np.cov(wine.X @ root, rowvar=False, ddof=0), np.eye(13), atol=1e-8)
    X = np.column_stack([wine.X, np.ones(len(wine.X))])
    M = ITML(prior="covariance", gamma=0.01, random_state=0).fit(X, wine.y).get_mahalanobis_matrix()
    assert np.isfinite(M).all()


@pytest.mark.parametrize("solver", ["lbfgs", "projections"])
def test_labels_pairs_and_index_pairs_give_the_same_metric(wine, solver):
    drawn = RandomPairs(500).sample(wine.X, wine.y, 0)
    y, index = drawn.labels, np.column_stack([drawn.left, drawn.right])
    settings = {"gamma": 0.01, "solver": solver, "bounds": (5.0, 60.0), "tol": 1e-5}
    M = ITML(pairs=500, random_state=0, **settings).fit(wine.X, wine.y).get_mahalanobis_matrix()
    from_index = ITML(preprocessor=wine.X, **settings).fit(index, y)
    from_pairs = ITML(**settings).fit(wine.X[index], y)
    np.testing.assert_allclose(from_index.get_mahalanobis_matrix(), M, atol=1e-4)
    np.testing.assert_allclose(from_pairs.get_mahalanobis_matrix(), M, atol=1e-4)
    assert from_pairs.score(wine.X[index], y) > Euclidean().fit(wine.X[index], y).score(wine.X[index], y)


@pytest.mark.parametrize("solver", ["lbfgs", "projections"])
@pytest.mark.parametrize("scale", [1e-150, 1e-6, 1e6, 1e150])
def test_the_metric_does_not_depend_on_the_unit_of_the_features(wine, solver, scale):
    settings = {"gamma": 0.01, "solver": solver, "pairs": 300, "random_state": 0}
    M = ITML(**settings).fit(wine.X, wine.y).get_mahalanobis_matrix()
    scaled = ITML(**settings).fit(wine.X * scale, wine.y).get_mahalanobis_matrix()
    np.testing.assert_allclose(scaled, M, atol=1e-6 * np.abs(M).max())


@pytest.mark.parametrize("solver", ["lbfgs", "projections"])
def test_constant_features_duplicates_and_fewer_points_than_features_just_work(solver):
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.randn(12, 20), np.full(12, 7.0)])
    X, y = np.repeat(X, 2, axis=0), np.repeat(np.arange(12) % 2, 2)
    M = ITML(gamma=0.1, solver=solver, pairs=200, random_state=0).fit(X, y).get_mahalanobis_matrix()
    eigenvalues = np.linalg.eigvalsh(M)
    assert np.isfinite(M).all()
    assert eigenvalues[0] > 0.0
    # No pair says anything about the constant feature: the prior stays.
    np.testing.assert_allclose(M[20], np.eye(21)[20], atol=1e-6)


@pytest.mark.parametrize("solver", ["lbfgs", "projections"])
def test_one_feature_is_enough(wine, solver):
    """A first step of length 1 from M = I would land on M = 0 here."""
    learner = ITML(gamma=0.01, solver=solver, pairs=300, random_state=0).fit(wine.X[:, :1], wine.y)
    assert learner.converged_
    assert 0.0 < learner.components_[0, 0] ** 2 < np.inf


@pytest.mark.parametrize("solver", ["lbfgs", "projections"])
def test_identical_points_leave_the_prior(solver):
    learner = ITML(pairs=20, solver=solver, random_state=0).fit(np.ones((6, 3)), [0, 0, 0, 1, 1, 1])
    np.testing.assert_allclose(learner.get_mahalanobis_matrix(), np.eye(3))
    assert learner.converged_


@pytest.mark.parametrize(
    ("solver", "message"), [("lbfgs", "relative slope"), ("projections", "multipliers still change")]
)
def test_running_out_of_iterations_warns_and_says_how_far_it_came(wine, solver, message):
    with pytest.warns(ConvergenceWarning, match=rf"did not converge in 2 iterations: .*{message}"):
        learner = ITML(solver=solver, max_iter=2, pairs=300, random_state=0).fit(wine.X, wine.y)
    assert not learner.converged_
    assert learner.n_iter_ == 2
    assert len(learner.objective_) == 3


def test_rounding_of_many_projections_does_not_reach_the_metric(wine):
    """At gamma = 100 the updated M drifts; the returned one follows from the multipliers."""
    problem = bounded_pairs(LabelledPoints(*wine), pairs=500, random_state=0)
    found = projections(problem, 100.0, max_iter=50)
    M = found.x @ found.x.T
    assert np.linalg.eigvalsh(M)[0] > 0.0
    assert evaluate(problem, found.x, 100.0).value >= found.objective[-1]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gamma": 0.0}, "gamma=0.0 must be .*> 0"),
        ({"prior": "random"}, "prior='random' is not known"),
        ({"prior": -np.eye(13)}, "positive definite"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(wine, parameters, message):
    with pytest.raises(ValueError, match=message):
        ITML(**parameters).fit(wine.X, wine.y)


def test_it_helps_five_nearest_neighbours_on_wine(wine):
    scaled, learned = scaled_and_learned_error(ITML(gamma=0.1, pairs=1000, random_state=0), *wine)
    assert learned < scaled
