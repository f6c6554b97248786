"""RGML: the closed form for the classes, the optimum against another solver, its limits, and what Tyler's cost does."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from advmetric import RGML, load_dataset
from advmetric.algorithms import rgml
from advmetric.algorithms.rgml import minimise, shrunk_logarithms
from advmetric.linalg.spd import geometric_mean

pytestmark = pytest.mark.numerical


def sample(n=60, d=3, seed=0):
    """Three classes of different shapes, and a point that is alone in its class."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], n // 3)
    shapes = rng.standard_normal((3, d, d))
    X = np.einsum("nij,nj->ni", shapes[y], rng.standard_normal((n, d))) + 5.0 * rng.standard_normal((3, d))[y]
    return np.vstack([X, np.ones(d)]), np.append(y, 7)


def covariance_of_differences(X):
    return 2.0 * np.cov(X.T)


def metric(learner):
    return learner.get_mahalanobis_matrix()


@pytest.mark.parametrize("lam", [1e-3, 0.05, 1.0, 1e3])
def test_shrunk_logarithms_are_the_minimum_of_one_variable(lam):
    for t in (1e-8, 0.3, 1.0, 40.0, 1e9):
        found = float(shrunk_logarithms(np.array([t]), lam)[0])
        numerical = minimize_scalar(lambda u, t=t: t * np.exp(-u) + u + lam * u**2, bounds=(-60, 60), method="bounded")
        assert found == pytest.approx(numerical.x, abs=1e-4)
        assert t * np.exp(-found) == pytest.approx(1.0 + 2.0 * lam * found, rel=1e-10)
    assert shrunk_logarithms(np.array([0.0]), lam)[0] == pytest.approx(-0.5 / lam)


def torch_objective(matrices, differences, shares, lam, cost):
    """As in the paper, from the factors of A and of all A_k; the mean over the given differences."""
    A, *of_classes = [factor @ factor.T for factor in matrices]
    total = torch.zeros((), dtype=torch.float64)
    for share, C, V in zip(shares, of_classes, differences, strict=True):
        d = len(A)
        q = torch.einsum("ni,ij,nj->n", V, torch.linalg.inv(C), V)
        loss = q.mean() if cost == "gaussian" else d * q.log().mean()
        ratios = torch.linalg.eigvals(torch.linalg.solve(C, A)).real.log()
        total = total + share * (loss + torch.logdet(C) + lam * (ratios**2).sum())
    return total


@pytest.mark.parametrize("cost", ["gaussian", "tyler"])
@pytest.mark.parametrize("lam", [0.05, 2.0])
def test_the_optimum_is_that_of_a_solver_over_all_matrices_at_once(cost, lam):
    rng = np.random.default_rng(1)
    d, shares = 3, np.array([0.5, 0.3, 0.2])
    differences = [rng.standard_normal((40, d)) @ rng.standard_normal((d, d)) for _ in shares]
    if cost == "gaussian":
        moments = [V.T @ V / len(V) for V in differences]

        def weigh(factors):
            return moments, np.array([np.vdot(B @ S, B) for B, S in zip(factors, moments, strict=True)])

    else:
        weigh = rgml._tyler(differences, 0.0)
    found = minimise(weigh, np.eye(d), shares, lam, scale_free=cost == "tyler", tol=1e-9, max_iter=500)
    assert found.converged
    assert np.diff(found.objective).max() <= 1e-12

    def function(flat):
        matrices = torch.tensor(flat.reshape(-1, d, d), requires_grad=True)
        value = torch_objective(matrices, [torch.tensor(V) for V in differences], shares, lam, cost)
        value.backward()
        return value.item(), matrices.grad.numpy().ravel()

    start = np.eye(d) + 0.1 * rng.standard_normal((4, d, d))
    other = minimize(function, start.ravel(), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    assert found.objective[-1] == pytest.approx(other.fun, rel=1e-9)
    A, B = found.x.G @ found.x.G.T, other.x.reshape(-1, d, d)[0] @ other.x.reshape(-1, d, d)[0].T
    scale = (np.linalg.det(A) / np.linalg.det(B)) ** (1 / d) if cost == "tyler" else 1.0
    np.testing.assert_allclose(A, scale * B, rtol=1e-4, atol=1e-4 * np.abs(A).max())


def test_strong_shrinking_gives_the_pooled_covariance_and_weak_the_riemannian_mean():
    X, y = sample()
    pooled = sum(covariance_of_differences(X[y == k]) / 3 for k in range(3))
    np.testing.assert_allclose(metric(RGML(lam=1e7, reg=1e-13).fit(X, y)), np.linalg.inv(pooled), rtol=1e-5)
    two = y < 2
    mean = geometric_mean(*(covariance_of_differences(X[y == k]) for k in range(2)))
    found = RGML(lam=1e-5, reg=1e-13, tol=1e-9).fit(X[two], y[two])
    np.testing.assert_allclose(metric(found), np.linalg.inv(mean), rtol=1e-3)


@pytest.mark.parametrize("cost", ["gaussian", "tyler"])
def test_the_metric_follows_linear_maps_of_the_features(cost):
    # The distance is invariant under congruence, and noise of 1e-13 is next to none.
    X, y = sample()
    T = np.random.default_rng(5).standard_normal((3, 3))
    settings = {"cost": cost, "reg": 1e-13, "tol": 1e-8, "random_state": 0}
    M, N = (metric(RGML(**settings).fit(points, y)) for points in (X, X @ T.T))
    moved = T.T @ N @ T
    moved *= (np.linalg.det(M) / np.linalg.det(moved)) ** (1 / 3)
    np.testing.assert_allclose(moved, M, rtol=1e-4, atol=1e-5 * np.abs(M).max())
    if cost == "tyler":
        assert np.linalg.det(M) == pytest.approx(1.0)


def test_tylers_cost_does_not_see_the_lengths_of_differences():
    rng = np.random.default_rng(6)
    differences = [rng.standard_normal((50, 4)) for _ in range(2)]
    longer = [V * rng.uniform(0.1, 1e3, size=(50, 1)) for V in differences]
    shapes = []
    for given in (differences, longer):
        result = minimise(
            rgml._tyler(given, 1e-3), np.eye(4), np.array([0.5, 0.5]), 0.1, scale_free=True, tol=1e-9, max_iter=500
        )
        A = result.x.G @ result.x.G.T
        shapes.append(A / np.linalg.det(A) ** 0.25)
    np.testing.assert_allclose(*shapes, rtol=1e-6, atol=1e-8)


def test_tylers_cost_leaves_the_scale_to_the_centre_at_once():
    rng = np.random.default_rng(7)
    weigh = rgml._tyler([rng.standard_normal((50, 4)) * [1.0, 2.0, 5.0, 9.0] for _ in range(2)], 1e-3)
    early = minimise(weigh, np.eye(4), np.array([0.5, 0.5]), 0.01, scale_free=True, tol=1e-12, max_iter=2)
    assert not early.converged
    assert max(abs(u.mean()) for u in early.x.logs) < 1e-12


def test_outliers_turn_tylers_metric_less():
    bunch = load_dataset("vehicle")
    X, y = StandardScaler().fit_transform(bunch.X), bunch.y
    rng = np.random.default_rng(0)
    spoilt = X.copy()
    spoilt[::20] += 20.0 * rng.standard_normal(X[::20].shape)

    def turn(cost):
        first, second = (RGML(cost=cost, random_state=0).fit(points, y) for points in (X, spoilt))
        logs = np.log(np.linalg.eigvals(np.linalg.solve(metric(first), metric(second))).real)
        return np.linalg.norm(logs - logs.mean())  # without the scale, which tyler fixes

    assert turn("tyler") < 0.5 * turn("gaussian")


def test_it_says_when_it_stopped_too_early():
    X, y = sample()
    with pytest.warns(ConvergenceWarning, match="RGML did not converge in 1 iterations: max_iter=1 was reached"):
        RGML(max_iter=1, tol=1e-12).fit(X, y)


def test_classes_that_say_nothing_are_left_out():
    X, y = sample()
    with_copies = np.vstack([X, np.full((5, 3), 2.0)]), np.append(y, [9] * 5)
    np.testing.assert_allclose(metric(RGML().fit(*with_copies)), metric(RGML().fit(X, y)), rtol=1e-8)
    with pytest.raises(ValueError, match="every class in y has only one member"):
        RGML().fit(X[:3], [0, 1, 2])
    all_equal = RGML(cost="tyler").fit(np.repeat(X[:2], 3, axis=0), [0, 0, 0, 1, 1, 1])
    np.testing.assert_allclose(metric(all_equal), metric(all_equal)[0, 0] * np.eye(3))
