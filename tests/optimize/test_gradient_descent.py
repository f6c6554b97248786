"""Descent to a measure of the caller's choice."""

import numpy as np
import pytest

from advmetric.optimize.gradient_descent import armijo_descent
from advmetric.optimize.lbfgs import minimize_lbfgs

pytestmark = pytest.mark.numerical

DESCENTS = (armijo_descent, minimize_lbfgs)


def quadratic(condition=100.0, d=8, seed=0):
    rng = np.random.RandomState(seed)
    Q, _ = np.linalg.qr(rng.randn(d, d))
    H = (Q * np.geomspace(1.0, condition, d)) @ Q.T
    minimum = rng.randn(d)

    def function(x):
        return 0.5 * float((x - minimum) @ H @ (x - minimum)), H @ (x - minimum)

    return function, minimum


def norm(x, value, gradient):
    return float(np.linalg.norm(gradient))


@pytest.mark.parametrize("descent", DESCENTS)
def test_it_finds_the_minimum_of_an_ill_conditioned_bowl(descent):
    function, minimum = quadratic()
    found = descent(function, np.ones(8), norm, tol=1e-8, max_iter=500)
    assert found.converged
    assert found.slope <= 1e-8
    np.testing.assert_allclose(found.x, minimum, atol=1e-7)


def test_barzilai_borwein_steps_beat_steepest_descent_by_far():
    # Steepest descent needs of the order of the condition number, 10⁴, steps a digit.
    function, _ = quadratic(condition=1e4)
    found = armijo_descent(function, np.ones(8), norm, tol=1e-6, max_iter=2000)
    assert found.converged
    assert len(found.objective) < 1000


@pytest.mark.parametrize("descent", DESCENTS)
def test_it_reports_that_it_ran_out_of_iterations_and_keeps_the_best_point(descent):
    function, _ = quadratic()
    found = descent(function, np.ones(8), norm, tol=1e-12, max_iter=5)
    assert not found.converged
    assert found.exhausted
    assert len(found.objective) == 6
    assert function(found.x)[0] == pytest.approx(min(found.objective))
    assert "above tol=1e-12" in found.message


@pytest.mark.parametrize("descent", DESCENTS)
def test_a_stationary_start_is_returned_as_it_is(descent):
    function, minimum = quadratic()
    found = descent(function, minimum.copy(), norm, tol=1e-8, max_iter=5)
    assert found.converged
    assert len(found.objective) == 1
    np.testing.assert_array_equal(found.x, minimum)


@pytest.mark.parametrize("descent", DESCENTS)
def test_it_stops_at_rounding_instead_of_looping(descent):
    function, minimum = quadratic()
    found = descent(lambda x: (function(x)[0] + 1e6, function(x)[1]), np.ones(8), norm, tol=0.0, max_iter=10**5)
    assert not found.converged
    assert not found.exhausted
    assert "rounding" in found.message
    np.testing.assert_allclose(found.x, minimum, atol=1e-3)


def test_every_step_goes_below_the_worst_of_the_last_ten_values():
    function, _ = quadratic(condition=1e4)
    values = armijo_descent(function, np.ones(8), norm, tol=1e-6, max_iter=2000).objective
    assert all(values[i] < max(values[max(0, i - 10) : i]) for i in range(1, len(values)))


def test_a_step_that_overshoots_is_halved():
    # A wall: the quartic's gradient at 3 promises more than a step of 0.3 can hold.
    calls = []

    def quartic(x):
        calls.append(float(x[0]))
        return float(np.exp(20 * abs(x[0] - 2.9))), 20 * np.sign(x - 2.9) * np.exp(20 * np.abs(x - 2.9))

    found = armijo_descent(quartic, np.array([3.0]), norm, tol=0.0, max_iter=1)
    assert calls[1] == pytest.approx(2.7)
    assert 2.8 < found.x[0] < 3.0


@pytest.mark.parametrize("descent", DESCENTS)
def test_the_monitor_sees_every_iteration(descent):
    function, _ = quadratic()
    seen = []
    found = descent(function, np.ones(8), norm, tol=1e-8, max_iter=500, monitor=lambda *facts: seen.append(facts))
    assert [iteration for iteration, _, _ in seen] == list(range(1, len(found.objective)))
    assert seen[-1][2] == pytest.approx(found.slope)


@pytest.mark.parametrize("descent", DESCENTS)
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_the_first_step_changes_the_start_by_a_tenth_whatever_its_scale(descent, scale):
    seen = []

    def function(x):
        seen.append(x.copy())
        return 3.0 * float(np.sum(x)) + 100.0 * scale, np.full_like(x, 3.0)

    descent(function, scale * np.array([3.0, 4.0]), norm, tol=0.0, max_iter=1)
    lengths = [np.linalg.norm(x - seen[0]) for x in seen]
    assert next(length for length in lengths if length > 1e-3 * scale) == pytest.approx(0.5 * scale)
