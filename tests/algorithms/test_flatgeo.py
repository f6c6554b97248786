"""FlatGeo: its gradient, its optimum, its invariances."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from advmetric.algorithms.flatgeo import FlatGeo, fit_factor, loss, start
from advmetric.linalg.spd import project_spd
from advmetric.pairs.bounds import bounded_pairs
from advmetric.pairs.data import LabelledPoints, Pairs
from advmetric.pairs.samplers import RandomPairs
from reference.neighbours import scaled_and_learned_error

pytestmark = pytest.mark.numerical


@pytest.fixture(scope="module")
def problem(wine):
    return bounded_pairs(LabelledPoints(*wine), pairs=600, random_state=0)


def explicit_loss(problem, G):
    """The formula of the docstring, pair by pair."""
    total = 0.0
    for i in range(len(problem)):
        v = problem.rows[problem.graph.left[i]] - problem.rows[problem.graph.right[i]]
        total += max(0.0, problem.sign[i] * (np.sum((G.T @ v) ** 2) - problem.bound[i])) ** 2
    return 0.5 * total / len(problem)


def test_loss_is_the_formula_and_its_gradient_that_of_autograd_and_of_finite_differences(problem):
    rng = np.random.RandomState(0)
    G = 0.5 * rng.randn(13, 4)
    value, gradient = loss(problem, G)
    assert value == pytest.approx(explicit_loss(problem, G), rel=1e-12)

    factor = torch.tensor(G, requires_grad=True)
    V = torch.tensor(problem.rows[problem.graph.left] - problem.rows[problem.graph.right])
    excess = torch.tensor(problem.sign) * (((V @ factor) ** 2).sum(dim=1) - torch.tensor(problem.bound))
    (0.5 * torch.clamp(excess, min=0.0).pow(2).mean()).backward()
    np.testing.assert_allclose(gradient, factor.grad.numpy(), rtol=1e-9, atol=1e-12)

    for _ in range(3):
        E = rng.randn(*G.shape)
        slope = (loss(problem, G + 1e-6 * E)[0] - loss(problem, G - 1e-6 * E)[0]) / 2e-6
        assert np.sum(gradient * E) == pytest.approx(slope, rel=1e-6)


def test_rotating_the_factor_changes_nothing_and_the_gradient_is_horizontal(problem):
    rng = np.random.RandomState(1)
    G = rng.randn(13, 4)
    rotation, _ = np.linalg.qr(rng.randn(4, 4))
    value, gradient = loss(problem, G)
    rotated_value, rotated_gradient = loss(problem, G @ rotation)
    assert rotated_value == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(rotated_gradient, gradient @ rotation, atol=1e-12)
    np.testing.assert_allclose(G.T @ gradient, gradient.T @ G, atol=1e-12)


@pytest.fixture(scope="module")
def projected_gradient_optimum(problem):
    """Independent: the convex problem in M, by accelerated projected gradient on the PSD cone."""
    V = problem.rows[problem.graph.left] - problem.rows[problem.graph.right]

    def value_and_gradient(M):
        excess = np.einsum("ij,jk,ik->i", V, M, V, optimize=True) - problem.bound
        excess[problem.sign * excess < 0] = 0.0
        return 0.5 * np.mean(excess**2), V.T @ ((excess / len(V))[:, None] * V)

    step = 1.0 / np.mean(np.sum(V**2, axis=1) ** 2)
    M = momentum = np.eye(13)
    t, best = 1.0, np.inf
    for _ in range(4000):
        _, gradient = value_and_gradient(momentum)
        following = project_spd(momentum - step * gradient)
        if np.sum((momentum - following) * (following - M)) > 0.0:
            t = 1.0
        t_following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        momentum = following + (t - 1.0) / t_following * (following - M)
        M, t = following, t_following
        best = min(best, value_and_gradient(M)[0])
    return best


def test_the_full_rank_optimum_is_that_of_independent_solvers(problem, projected_gradient_optimum):
    unit = np.mean(problem.bound**2)

    def function(x):
        value, gradient = loss(problem, x.reshape(13, 13))
        return value / unit, gradient.ravel() / unit

    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-10}
    start = np.random.RandomState(0).randn(169)
    other = minimize(function, start, jac=True, method="L-BFGS-B", options=options)
    for solver in ("lbfgs", "gradient"):
        found = fit_factor(problem, 13, solver=solver, tol=1e-6)
        assert found.converged
        assert min(found.objective) == pytest.approx(other.fun, rel=1e-6), solver
        assert min(found.objective) * unit == pytest.approx(projected_gradient_optimum, rel=1e-6), solver


def test_low_rank_metrics_have_that_rank_and_more_rank_fits_better(wine):
    losses = []
    for rank in (1, 2, 4, 13):
        learner = FlatGeo(n_components=rank, pairs=600, random_state=0).fit(wine.X, wine.y)
        assert learner.components_.shape == (rank, 13)
        assert learner.transform(wine.X).shape == (len(wine.X), rank)
        losses.append(learner.objective_[-1])
    assert losses[0] > losses[1] > losses[2] >= losses[3] - 1e-9


def test_the_start_is_the_principal_axes_at_the_scale_of_the_bounds(problem):
    G = start(problem, 3)
    V = problem.rows[problem.graph.left] - problem.rows[problem.graph.right]
    _, _, axes = np.linalg.svd(V, full_matrices=False)
    directions = G / np.linalg.norm(G, axis=0)
    np.testing.assert_allclose(np.abs(axes[:3] @ directions), np.eye(3), atol=1e-8)
    assert np.sum((V @ G) ** 2) == pytest.approx(problem.bound.sum())


def test_labels_pairs_and_index_pairs_give_the_same_metric(wine):
    drawn = RandomPairs(600).sample(wine.X, wine.y, 0)
    y, index, bounds = drawn.labels, np.column_stack([drawn.left, drawn.right]), (5.0, 60.0)
    from_points = FlatGeo(pairs=600, bounds=bounds, random_state=0, tol=1e-6).fit(wine.X, wine.y)
    from_index = FlatGeo(preprocessor=wine.X, bounds=bounds, tol=1e-6).fit(index, y)
    from_pairs = FlatGeo(bounds=bounds, tol=1e-6).fit(wine.X[index], y)
    M = from_points.get_mahalanobis_matrix()
    np.testing.assert_allclose(from_index.get_mahalanobis_matrix(), M, atol=1e-4 * np.abs(M).max())
    np.testing.assert_allclose(from_pairs.get_mahalanobis_matrix(), M, atol=1e-4 * np.abs(M).max())
    assert from_pairs.score(wine.X[index], y) > 0.95


@pytest.mark.parametrize("scale", [1e-150, 1e-6, 1e6, 1e150])
def test_the_metric_does_not_depend_on_the_unit_of_the_features(wine, scale):
    plain = FlatGeo(pairs=300, random_state=0).fit(wine.X, wine.y)
    scaled = FlatGeo(pairs=300, random_state=0).fit(wine.X * scale, wine.y)
    M = plain.get_mahalanobis_matrix()
    np.testing.assert_allclose(scaled.get_mahalanobis_matrix(), M, atol=1e-3 * np.abs(M).max())


def test_constant_features_duplicates_and_fewer_points_than_features_just_work():
    rng = np.random.RandomState(0)
    X = np.column_stack([rng.randn(12, 20), np.full(12, 7.0)])
    X, y = np.repeat(X, 2, axis=0), np.repeat(np.arange(12) % 2, 2)
    M = FlatGeo(pairs=200, random_state=0).fit(X, y).get_mahalanobis_matrix()
    assert np.isfinite(M).all()
    assert np.linalg.eigvalsh(M)[0] >= -1e-9 * np.linalg.eigvalsh(M)[-1]


def test_identical_points_leave_the_identity():
    M = FlatGeo(pairs=20, random_state=0).fit(np.ones((6, 3)), [0, 0, 0, 1, 1, 1]).get_mahalanobis_matrix()
    np.testing.assert_allclose(M, np.eye(3))


def test_running_out_of_iterations_warns_and_says_how_far_it_came(wine):
    with pytest.warns(ConvergenceWarning, match=r"did not converge in 3 iterations: the relative slope is"):
        learner = FlatGeo(max_iter=3, random_state=0).fit(wine.X, wine.y)
    assert not learner.converged_
    assert learner.n_iter_ == 3
    assert len(learner.objective_) == 4


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 2.5}, "whole number"),
        ({"n_components": 14}, "more than the 13 features"),
    ],
)
def test_parameters_out_of_range_are_refused_by_name(wine, parameters, message):
    with pytest.raises((TypeError, ValueError), match=message):
        FlatGeo(**parameters).fit(wine.X, wine.y)


def test_it_helps_five_nearest_neighbours_on_wine(wine):
    scaled, learned = scaled_and_learned_error(FlatGeo(pairs=1000, random_state=0), *wine)
    assert learned < scaled


def test_the_two_points_of_a_pair_may_be_swapped(wine):
    rng = np.random.RandomState(0)
    index = rng.randint(len(wine.X), size=(300, 2))
    y = np.where(wine.y[index[:, 0]] == wine.y[index[:, 1]], 1, -1)
    plain = bounded_pairs(Pairs(wine.X, index[:, 0], index[:, 1], y), random_state=0)
    swapped = bounded_pairs(Pairs(wine.X, index[:, 1], index[:, 0], y), random_state=0)
    G = rng.randn(13, 5)
    np.testing.assert_allclose(loss(plain, G)[1], loss(swapped, G)[1], atol=1e-12)
