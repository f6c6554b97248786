"""D(M), its gradient and its Hessian against pair-by-pair sums, autograd and finite differences."""

import numpy as np
import pytest
import torch
from scipy.linalg import expm, sqrtm

from advmetric.algorithms.aml.adversary import make_adversary
from advmetric.algorithms.aml.objective import evaluate
from advmetric.linalg.spd import project_spd, symmetrize
from reference import paper
from reference.autograd import objective_in_torch
from reference.matrices import random_spd

pytestmark = pytest.mark.numerical

D = 5
ADVERSARIES = ["derived", "printed", "expanding"]
SETTINGS = [(0.0, 1.0), (1.0, 1.0), (10.0, 0.01), (0.3, 100.0)]
POINTS = ["random", "identity", "nearly equal", "ill-conditioned"]


@pytest.fixture
def rng():
    return np.random.default_rng(1806)


def metric_at(point, rng, beta, adversary):
    """An SPD matrix of the kind wanted, inside the expanding adversary's bound."""
    Q, _ = np.linalg.qr(rng.standard_normal((D, D)))
    lam = {
        "random": rng.uniform(0.2, 2.0, D),
        "identity": np.ones(D),
        "nearly equal": 0.8 * (1 + 1e-9 * np.arange(D)),
        "ill-conditioned": np.logspace(-3, 0.5, D),
    }[point]
    if adversary == "expanding" and lam.max() >= beta / 2:
        lam = lam * (0.4 * beta / lam.max())
    return np.eye(D) * lam[0] if point == "identity" else symmetrize((Q * lam) @ Q.T)


def labelled_pairs(rng, n_pairs=12):
    y = np.where(np.arange(n_pairs) % 3 == 0, 1, -1)
    return rng.standard_normal((n_pairs, 2, D)) * np.linspace(0.5, 2.0, D), y


def every_case(test):
    for name, values in (("point", POINTS), ("setting", SETTINGS), ("adversary", ADVERSARIES)):
        test = pytest.mark.parametrize(name, values, ids=str)(test)
    return test


def case_of(rng, adversary, setting, point):
    """The adversary of a case, a metric and two scatter matrices."""
    alpha, beta = setting
    M, A, B = metric_at(point, rng, beta, adversary), random_spd(rng, D), random_spd(rng, D)
    return make_adversary(adversary, alpha, beta), M, A, B


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


# --- the objective --------------------------------------------------------------------------------------

WRITTEN_OUT = {
    "derived": paper.objective,
    "printed": paper.printed_objective,
    "expanding": paper.expanding_objective,
}


@every_case
def test_the_sum_over_pairs_collapses_onto_two_matrices(rng, adversary, setting, point):
    """Eq. 11 pair by pair with Π = F(M) (derived), Eq. 12 as printed, and the expanding pairs: D(M) each."""
    alpha, beta = setting
    pairs, y = labelled_pairs(rng)
    M = metric_at(point, rng, beta, adversary)
    A, B = paper.scatter(pairs, y)
    value = evaluate(M, A, B, make_adversary(adversary, alpha, beta)).value
    assert value == pytest.approx(WRITTEN_OUT[adversary](M, pairs, y, alpha, beta), rel=1e-10)


@pytest.mark.parametrize("beta", [0.1, 1.0, 30.0])
def test_the_printed_equation_12_is_not_the_loss_of_the_adversarial_pairs(rng, beta):
    """Erratum 1. The derived exponent and denominator are; the printed ones only where β = λ = 1."""
    pairs, y = labelled_pairs(rng)
    M = metric_at("random", rng, beta, "derived")
    true_loss = paper.geometric_mean_loss(M, paper.adversarial_pairs(M, pairs, y, beta), y)
    assert paper.adversarial_loss(M, pairs, y, beta, paper.derived_h) == pytest.approx(true_loss, rel=1e-12)
    assert abs(paper.adversarial_loss(M, pairs, y, beta, paper.printed_h) / true_loss - 1) > 0.01


@every_case
def test_value_in_torch_is_the_same(rng, adversary, setting, point):
    """So that the autograd tests below differentiate the right function."""
    alpha, beta = setting
    M, A, B = metric_at(point, rng, beta, adversary), random_spd(rng, D), random_spd(rng, D)
    expected = objective_in_torch(*map(torch.as_tensor, (M, A, B)), alpha, beta, adversary).item()
    assert evaluate(M, A, B, make_adversary(adversary, alpha, beta)).value == pytest.approx(expected, rel=1e-10)


# --- the gradient ---------------------------------------------------------------------------------------


@every_case
def test_gradient_agrees_with_autograd(rng, adversary, setting, point):
    alpha, beta = setting
    M, A, B = metric_at(point, rng, beta, adversary), random_spd(rng, D), random_spd(rng, D)
    variable = torch.tensor(M, requires_grad=True)
    objective_in_torch(variable, torch.as_tensor(A), torch.as_tensor(B), alpha, beta, adversary).backward()
    gradient = evaluate(M, A, B, make_adversary(adversary, alpha, beta)).gradient
    # Autograd goes through inverses, and loses what their conditioning costs.
    assert relative(gradient, symmetrize(variable.grad.numpy())) < 1e-8
    assert np.array_equal(gradient, gradient.T)


@every_case
def test_gradient_agrees_with_central_differences(rng, adversary, setting, point):
    opponent, M, A, B = case_of(rng, adversary, setting, point)
    state = evaluate(M, A, B, opponent)
    root = (state.U * state.root) @ state.U.T
    for _ in range(3):
        # Steps relative to M, so that they suit every eigenvalue.
        E = symmetrize(rng.standard_normal((D, D)))
        V, h = symmetrize(root @ E @ root), 1e-5
        difference = evaluate(M + h * V, A, B, opponent).value - evaluate(M - h * V, A, B, opponent).value
        scale = np.linalg.norm(state.slope) * np.linalg.norm(E)
        assert abs(difference / (2 * h) - np.sum(state.gradient * V)) < 1e-6 * max(scale, abs(state.value))


def test_gradient_is_continuous_where_eigenvalues_meet(rng):
    """At M = I, where Algorithm 1 starts and Eq. 14 is undefined, the gradient is the limit of those near by."""
    A, B = random_spd(rng, D), random_spd(rng, D)
    opponent = make_adversary("derived", 2.0, 1.0)
    at_identity = evaluate(np.eye(D), A, B, opponent).gradient
    for gap in (1e-4, 1e-9, 1e-15):
        near = evaluate(metric_at("random", rng, 1.0, "derived") * gap + np.eye(D), A, B, opponent).gradient
        assert relative(near, at_identity) < 50 * gap + 1e-14


def test_the_printed_gradient_is_not_symmetric_but_its_symmetric_part_is_right(rng):
    """Erratum 2, at distinct eigenvalues: Eq. 14 as printed, for one similar pair."""
    M, beta = metric_at("random", rng, 1.0, "derived"), 1.5
    v = rng.standard_normal(D)
    opponent = make_adversary("derived", 1.0, beta)

    def slope(lam, step=1e-6):
        return (paper.derived_h(lam + step, 1, beta) - paper.derived_h(lam - step, 1, beta)) / (2 * step)

    printed = beta**2 * paper.printed_gradient_of_term(M, v, lambda lam: paper.derived_h(lam, 1, beta), slope)
    ours = evaluate(M, np.outer(v, v), np.zeros((D, D)), opponent).gradient - np.outer(v, v)
    assert relative(printed.T, printed) > 0.01
    assert relative(symmetrize(printed), ours) < 1e-7


def test_the_printed_gradient_is_wrong_at_equal_eigenvalues(rng):
    """Erratum 2, at M = I: the pseudo-inverse drops every off-diagonal term (and eigenvectors are arbitrary)."""
    beta, v = 1.5, rng.standard_normal(D)
    printed = beta**2 * paper.printed_gradient_of_term(
        np.eye(D), v, lambda lam: paper.derived_h(lam, 1, beta), lambda lam: beta**-2
    )
    ours = evaluate(np.eye(D), np.outer(v, v), np.zeros((D, D)), make_adversary("derived", 1.0, beta))
    assert relative(symmetrize(printed), ours.gradient - np.outer(v, v)) > 0.1


def test_the_printed_term_pulls_dissimilar_points_together(rng):
    """Erratum 1: for y = -1 Eq. 12 as printed is a multiple of tr(MB), whose gradient is positive.

    Descending it shortens the distances of dissimilar pairs; the derived term lengthens them.
    """
    M, B, nothing = metric_at("random", rng, 1.0, "derived"), random_spd(rng, D), np.zeros((D, D))
    for beta in (0.1, 1.0, 10.0):
        parts = {}
        for name in ("printed", "derived"):
            with_it, without = (evaluate(M, nothing, B, make_adversary(name, alpha, beta)) for alpha in (1.0, 0.0))
            parts[name] = with_it.gradient - without.gradient
        assert np.linalg.eigvalsh(parts["printed"]).min() > 0
        assert relative(parts["printed"], beta**2 / (2 + beta**2) ** 2 * B) < 1e-9
        assert np.linalg.eigvalsh(parts["derived"]).max() < 0


def test_projection_onto_the_closed_cone_makes_the_loss_infinite(rng):
    """Erratum 3: Eq. 16 truncates at 0, where M⁻¹ does not exist; a positive floor keeps the loss finite."""
    A, B = random_spd(rng, D), random_spd(rng, D)
    step = symmetrize(np.eye(D) - 3.0 * np.outer(np.eye(D)[0], np.eye(D)[0]))
    assert np.linalg.eigvalsh(step)[0] < 0
    for projected in (paper.projection(step), project_spd(step, floor=0.0)):
        assert np.linalg.eigvalsh(projected)[0] == pytest.approx(0.0, abs=1e-15)
        with np.errstate(divide="ignore"):
            state = evaluate(projected, A, B, make_adversary("derived", 1.0, 1.0))
            assert not state.feasible or abs(state.value) > 1e12
    assert evaluate(project_spd(step, floor=1e-8), A, B, make_adversary("derived", 1.0, 1.0)).feasible


# --- the Hessian ----------------------------------------------------------------------------------------


@every_case
def test_hessian_agrees_with_the_second_derivative_along_geodesics(rng, adversary, setting, point):
    """⟨E, Hess E⟩ = d²/ds² D(M^{1/2} exp(sE) M^{1/2}), from differences of the exact first derivative."""
    opponent, M, A, B = case_of(rng, adversary, setting, point)
    state = evaluate(M, A, B, opponent)
    root = np.real(sqrtm(M))
    E, F = (symmetrize(0.5 * rng.standard_normal((D, D))) for _ in range(2))

    def slope_along(T, s):
        there = evaluate(root @ expm(s * T) @ root, A, B, opponent)
        return np.sum(there.gradient * (root @ expm(s * T) @ T @ root))

    def second_derivative(T, h=1e-4):
        return (slope_along(T, h) - slope_along(T, -h)) / (2 * h)

    in_basis = [state.U.T @ T @ state.U for T in (E, F)]
    product = state.hessian_product(in_basis[0])
    assert np.allclose(product, product.T, rtol=0, atol=1e-10 * np.abs(product).max())
    assert np.vdot(in_basis[0], product) == pytest.approx(second_derivative(E), rel=1e-5)
    mixed = (second_derivative(E + F) - second_derivative(E - F)) / 4
    scale = np.linalg.norm(product) * np.linalg.norm(F)
    assert np.vdot(in_basis[1], product) == pytest.approx(mixed, abs=1e-5 * scale)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_euclidean_hessian_product_agrees_with_differences_of_the_gradient(rng, adversary):
    opponent = make_adversary(adversary, 2.0, 6.0)
    A, B, M = random_spd(rng, D), random_spd(rng, D), metric_at("random", rng, 6.0, adversary)
    state, V, h = evaluate(M, A, B, opponent), symmetrize(rng.standard_normal((D, D))), 1e-5
    difference = evaluate(M + h * V, A, B, opponent).gradient - evaluate(M - h * V, A, B, opponent).gradient
    V_hat = state.U.T @ V @ state.U
    product = opponent.similar.hessian_product(state.lam, state.A_hat, V_hat)
    product += opponent.dissimilar.hessian_product(state.lam, state.B_hat, V_hat)
    assert relative(state.U @ product @ state.U.T, difference / (2 * h)) < 1e-7


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_entries_of_the_preconditioner_are_the_hessian_where_the_matrices_commute(rng, adversary):
    lam, a, b = rng.uniform(0.2, 2.0, (3, D))
    state = evaluate(np.diag(lam), np.diag(a), np.diag(b), make_adversary(adversary, 3.0, 6.0))
    for i in range(D):
        for j in range(i + 1):
            E = np.zeros((D, D))
            E[i, j] = E[j, i] = 1.0
            # Here hessian_entries is in the order of the (sorted) eigenbasis, as E is.
            expected = state.hessian_entries[i, j] * E
            assert np.abs(state.hessian_product(E) - expected).max() < 1e-12 * np.abs(state.hessian_entries).max()


# --- moving about ---------------------------------------------------------------------------------------


def test_moving_in_the_eigenbasis_is_evaluating_afresh(rng):
    opponent, other = make_adversary("derived", 1.0, 2.0), make_adversary("expanding", 1.0, 9.0)
    A, B, M, N = (random_spd(rng, D) for _ in range(4))
    state = evaluate(M, A, B, opponent)
    assert relative(state.matrix, M) < 1e-14
    moved = state.rotated(state.U.T @ N @ state.U)
    fresh = evaluate(N, A, B, opponent)
    assert relative(moved.matrix, N) < 1e-13
    assert moved.value == pytest.approx(fresh.value, rel=1e-13)
    assert relative(moved.gradient, fresh.gradient) < 1e-12
    scaled = state.against(other, 3.0 * state.lam)
    assert scaled.value == pytest.approx(evaluate(3.0 * M, A, B, other).value, rel=1e-12)


def test_eigenvalues_are_kept_inside_the_bound_and_above_zero(rng):
    opponent = make_adversary("expanding", 1.0, 1.0)
    state = evaluate(np.diag([0.1, 5.0]), np.eye(2), np.eye(2), opponent)
    assert not state.feasible
    assert state.against(opponent, state.lam).feasible
    assert state.against(opponent, np.array([-1e-20, 0.3])).feasible


@pytest.mark.parametrize("factor", [1e-50, 1e50])
def test_the_relative_slope_does_not_depend_on_the_unit_of_the_data(rng, factor):
    opponent = make_adversary("derived", 1.0, 2.0)
    A, B, M = (random_spd(rng, D) for _ in range(3))
    scaled = evaluate(M, factor * A, factor * B, opponent)
    assert scaled.slope_norm == pytest.approx(evaluate(M, A, B, opponent).slope_norm, rel=1e-12)
