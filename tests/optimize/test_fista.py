"""FISTA: optimal, monotone, accelerated, and honest about how it ended."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import nnls

from advmetric.optimize.fista import fista, project_psd_ball

pytestmark = pytest.mark.numerical


def least_squares(A, b):
    return lambda x: (0.5 * float(np.sum((A @ x - b) ** 2)), A.T @ (A @ x - b))


def free(x, s):
    return x


@pytest.fixture
def stiff():
    """A quadratic of condition number 10⁴ with its minimiser."""
    rng = np.random.RandomState(0)
    Q, _ = np.linalg.qr(rng.randn(30, 30))
    H = (Q * np.geomspace(1.0, 1e4, 30)) @ Q.T
    target = rng.randn(30)
    return lambda x: (1.0 + 0.5 * float((x - target) @ H @ (x - target)), H @ (x - target)), target


def test_constrained_optimum_is_that_of_an_independent_solver():
    rng = np.random.RandomState(0)
    A, b = rng.randn(40, 12), rng.randn(40)
    result = fista(least_squares(A, b), lambda x, s: np.maximum(x, 0.0), np.ones(12), tol=1e-12, max_iter=5000)
    assert result.converged
    assert_allclose(result.x, nnls(A, b)[0], atol=1e-8)


def test_penalised_optimum_satisfies_the_lasso_conditions():
    rng = np.random.RandomState(1)
    A, b, weight = rng.randn(30, 50), rng.randn(30), 5.0

    def soft(x, s):
        return np.sign(x) * np.maximum(np.abs(x) - s * weight, 0.0)

    f = least_squares(A, b)
    result = fista(f, soft, np.zeros(50), penalty=lambda x: weight * float(np.abs(x).sum()), tol=1e-11, max_iter=20000)
    gradient = f(result.x)[1]
    active = result.x != 0
    assert result.converged
    assert 0 < active.sum() < 50
    assert_allclose(gradient[active], -weight * np.sign(result.x[active]), atol=1e-6)
    assert np.all(np.abs(gradient[~active]) <= weight + 1e-6)


def test_history_never_rises(stiff):
    f, _ = stiff
    result = fista(f, free, np.zeros(30), tol=1e-10, max_iter=5000)
    assert np.all(np.diff(result.objective) <= 0.0)
    assert_allclose(result.objective[-1], f(result.x)[0], rtol=1e-14)


def test_momentum_and_restart_beat_plain_gradient_by_far(stiff):
    f, _ = stiff
    result = fista(f, free, np.zeros(30), tol=1e-8, max_iter=5000)
    x = np.zeros(30)
    for _ in range(len(result.objective)):
        x = x - 1e-4 * f(x)[1]
    assert result.converged
    assert len(result.objective) < 4500
    assert f(result.x)[0] - 1.0 < 1e-6 * (f(x)[0] - 1.0)


@pytest.mark.parametrize("step", [1e-8, 1e6])
def test_first_step_may_be_far_off(stiff, step):
    f, target = stiff
    result = fista(f, free, np.zeros(30), step=step, tol=1e-10, max_iter=5000)
    assert result.converged
    assert_allclose(result.x, target, atol=1e-7)


def test_stopping_rule_knows_no_units(stiff):
    f, _ = stiff

    def rescaled(x):
        value, gradient = f(x / 1e3)
        return 1e6 * value, 1e3 * gradient

    plain = fista(f, free, np.zeros(30), step=1e-4, tol=1e-6, max_iter=5000)
    scaled = fista(rescaled, free, np.zeros(30), step=1e-4, tol=1e-6, max_iter=5000)
    assert plain.converged
    assert abs(len(plain.objective) - len(scaled.objective)) <= 0.1 * len(plain.objective)
    assert_allclose(scaled.x / 1e3, plain.x, rtol=1e-3, atol=1e-5)


def test_a_step_out_of_the_domain_is_shortened():
    def barrier(x):
        return (float(x[0] - np.log(x[0])), 1.0 - 1.0 / x) if x[0] > 0 else (np.inf, np.full(1, np.nan))

    result = fista(barrier, free, np.array([0.01]), step=1e3, tol=1e-10)
    assert result.converged
    assert_allclose(result.x, 1.0, atol=1e-8)


def test_running_out_of_iterations_is_reported(stiff):
    result = fista(stiff[0], free, np.zeros(30), tol=1e-12, max_iter=3)
    assert not result.converged
    assert len(result.objective) == 4
    assert "tol" in result.message


def test_start_without_a_value_is_refused():
    with pytest.raises(ValueError, match="not finite at the start"):
        fista(lambda x: (np.nan, x), free, np.ones(2))


def test_start_is_made_feasible():
    result = fista(lambda x: (float(x @ x), 2 * x), lambda x, s: np.maximum(x, 1.0), np.full(2, -5.0))
    assert result.objective[0] == 2.0


@pytest.mark.parametrize("radius", [np.inf, 1.5])
def test_projection_is_the_nearest_point_of_cone_and_ball(radius):
    rng = np.random.RandomState(0)
    A = rng.randn(6, 6)
    P = project_psd_ball(A, radius)
    assert np.linalg.eigvalsh(P)[0] > -1e-12
    assert np.linalg.norm(P) <= radius * (1 + 1e-12)
    assert_allclose(P, P.T)
    symmetric = 0.5 * (A + A.T)
    for _ in range(200):
        B = rng.randn(6, 6)
        Q = B @ B.T
        Q *= min(1.0, radius / np.linalg.norm(Q))
        assert np.vdot(symmetric - P, Q - P) <= 1e-10


def test_projection_leaves_members_alone():
    M = np.diag([2.0, 1.0, 0.0])
    assert_allclose(project_psd_ball(M, 3.0), M, atol=1e-15)
