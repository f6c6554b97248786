"""The L-BFGS wrapper: history, messages, scale."""

import itertools

import numpy as np
import pytest

from advmetric.optimize.lbfgs import minimize_lbfgs

pytestmark = pytest.mark.numerical


class Quartic:
    """‖LᵀL - target‖² times a size."""

    def __init__(self, size=1.0):
        R = np.random.default_rng(0).standard_normal((4, 4))
        self.target, self.size, self.calls = R @ R.T, size, []

    def __call__(self, L):
        self.calls.append(L.copy())
        E = L.T @ L - self.target
        return self.size * np.sum(E**2), self.size * 4.0 * L @ E


def test_it_finds_the_minimum_and_keeps_the_shape():
    function = Quartic()
    found = minimize_lbfgs(function, np.eye(5, 4), max_iter=500, tol=1e-15)
    assert found.x.shape == (5, 4)
    np.testing.assert_allclose(found.x.T @ found.x, function.target, atol=1e-5)
    assert found.converged
    assert not found.exhausted
    assert "CONVERGENCE" in found.message


def test_the_history_starts_at_the_start_ends_at_the_end_and_never_rises():
    function = Quartic()
    seen = []
    found = minimize_lbfgs(
        function, np.eye(4), max_iter=500, tol=1e-10, monitor=lambda k, value, _: seen.append((k, value))
    )
    assert found.objective[0] == function(np.eye(4))[0]
    assert found.objective[-1] == pytest.approx(function(found.x)[0], rel=1e-12)
    assert np.all(np.diff(found.objective) <= 0)
    assert seen == list(enumerate(found.objective))[1:]


def test_no_point_is_evaluated_twice_in_a_row():
    function = Quartic()
    minimize_lbfgs(function, np.eye(4), max_iter=5, tol=0.0)
    assert all(np.any(a != b) for a, b in zip(function.calls, function.calls[1:], strict=False))


def test_stopping_at_max_iter_is_told():
    found = minimize_lbfgs(Quartic(), np.eye(4), max_iter=3, tol=0.0)
    assert len(found.objective) == 4
    assert found.exhausted
    assert not found.converged
    assert "ITERATIONS" in found.message


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_the_scale_of_the_objective_changes_nothing(size):
    plain, scaled = (minimize_lbfgs(Quartic(s), np.eye(4), max_iter=100, tol=1e-8) for s in (1.0, size))
    assert len(plain.objective) == len(scaled.objective)
    np.testing.assert_allclose(scaled.x, plain.x, rtol=1e-6, atol=1e-9)


def test_a_start_without_slope_is_the_end():
    found = minimize_lbfgs(lambda L: (0.0, np.zeros_like(L)), np.eye(2), max_iter=10, tol=1e-8)
    assert found.converged
    np.testing.assert_array_equal(found.x, np.eye(2))
    assert found.objective == [0.0]


def test_a_wrong_gradient_ends_as_neither_converged_nor_exhausted():
    found = minimize_lbfgs(lambda L: (float(np.sum(L**2)), -2.0 * L), np.eye(2), max_iter=50, tol=1e-12)
    assert not found.converged
    assert not found.exhausted


def test_steps_that_are_not_allowed_are_halved_without_an_evaluation():
    function, reached, refused = Quartic(), [np.eye(4)], []

    def allowed(before, after):
        assert np.array_equal(before, reached[-1]), "steps are from the last point that was accepted"
        near = bool(np.linalg.norm(after - before) < 0.3)
        refused.extend([after] * (not near))
        return near

    found = minimize_lbfgs(
        function,
        np.eye(4),
        max_iter=500,
        tol=1e-15,
        allowed=allowed,
        monitor=lambda *_: reached.append(function.calls[-1]),
    )
    assert refused
    assert all(np.any(call != other) for call in function.calls for other in refused)
    assert all(np.linalg.norm(b - a) < 0.3 for a, b in itertools.pairwise(reached))
    np.testing.assert_allclose(found.x.T @ found.x, function.target, atol=1e-5)


def test_a_refused_step_is_tried_again_at_half_its_length():
    tried = []

    def allowed(before, after):
        tried.append(float(after[0] - before[0]))
        return len(tried) > 3

    found = minimize_lbfgs(
        lambda x: (float(x @ x), 2.0 * x), np.array([8.0]), max_iter=50, tol=1e-15, first_step=1.0, allowed=allowed
    )
    np.testing.assert_allclose(tried[:4], -8.0 * 0.5 ** np.arange(4), rtol=5e-3)
    np.testing.assert_allclose(found.x, 0.0, atol=1e-6)
