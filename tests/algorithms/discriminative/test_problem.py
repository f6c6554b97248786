"""The problem: adversary in closed form, whitened coordinates, and gradients against autograd and differences."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.base import clone

from advmetric import NeighborAML, PairAML
from advmetric.algorithms.discriminative.adversary import AdversarialFrame, contracted, expanded
from advmetric.algorithms.discriminative.losses import LogisticPairs, LogisticTriplets
from advmetric.algorithms.discriminative.pair_problem import pair_problem
from advmetric.algorithms.discriminative.solver import minimize as solve
from advmetric.algorithms.discriminative.whitening import reduce_to_span
from advmetric.pairs.data import Pairs
from advmetric.pairs.graph import PairGraph
from reference.discriminative import adversarial, geometric_start, pair_objective, scaled_start, triplet_objective

SETTINGS = {"alpha": 1.5, "beta": 2.0, "gamma": 0.3, "t": 0.3, "reg": 1e-2, "prior": None, "n_components": None}


def random_pairs(n=20, d=4, N=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [3.0, 1.0, 0.5, 0.2][:d]
    left, shift = rng.integers(n, size=N), rng.integers(1, n, size=N)
    return Pairs(X, left, (left + shift) % n, np.where(rng.random(N) < 0.4, 1, -1))


def random_metric(d, seed=0):
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(d, d))
    return L.T @ L + 0.1 * np.eye(d)


# --- adversary ------------------------------------------------------------------------------------------


def test_a_dissimilar_pair_is_moved_to_the_minimum_of_distance_and_price():
    M, c, v = random_metric(4), 0.7, np.arange(1.0, 5.0)
    best = minimize(lambda delta: (v + delta) @ M @ (v + delta) + c * delta @ delta, np.zeros(4), tol=1e-12)
    assert v @ contracted(M, c) @ v == pytest.approx(best.fun, rel=1e-8)


def test_a_similar_pair_is_moved_to_the_maximum_of_linearised_distance_and_price():
    M, c, v = random_metric(4), 0.7, np.arange(1.0, 5.0)
    best = minimize(lambda delta: -(v @ M @ v + 2 * v @ M @ delta - c * delta @ delta), np.zeros(4), tol=1e-12)
    assert v @ expanded(M, c) @ v == pytest.approx(-best.fun, rel=1e-8)


@pytest.mark.parametrize("r", [4, 2])
def test_distances_in_the_frame_of_a_factor_are_those_of_the_matrix_of_any_rank(r):
    rng = np.random.default_rng(0)
    L, c, V = rng.normal(size=(r, 4)), 0.7, rng.normal(size=(9, 4))
    frame, rotation = AdversarialFrame.of(L, np.eye(4) / c)
    np.testing.assert_allclose(rotation @ frame.L, L, atol=1e-14)
    Y = V @ frame.L.T
    for weights, matrix in ((frame.near, expanded), (frame.far, contracted)):
        found = PairGraph(9).squares(Y, weights)
        np.testing.assert_allclose(found[:, 0], np.einsum("ij,jk,ik->i", V, L.T @ L, V))
        np.testing.assert_allclose(found[:, 1], np.einsum("ij,jk,ik->i", V, matrix(L.T @ L, c), V))


def test_the_two_adversarial_matrices_are_operator_convex_and_concave():
    for seed in range(20):
        P, Q = random_metric(4, seed), 3 * random_metric(4, seed + 100)
        middle = 0.5 * (P + Q)
        assert np.linalg.eigvalsh(0.5 * (expanded(P, 0.7) + expanded(Q, 0.7)) - expanded(middle, 0.7))[0] > -1e-12
        assert np.linalg.eigvalsh(contracted(middle, 0.7) - 0.5 * (contracted(P, 0.7) + contracted(Q, 0.7)))[0] > -1e-12


# --- objective ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [0.0, 0.1, 0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("N", [12, 60], ids=["differences", "edges"])
def test_value_and_gradient_in_whitened_coordinates_are_those_of_the_formula(t, N):
    pairs = random_pairs(N=N)
    settings = SETTINGS | {"t": t}
    problem, divisor = pair_problem(pairs, LogisticPairs(), **settings)
    V, y = pairs.X[pairs.left] - pairs.X[pairs.right], pairs.labels
    start = geometric_start(V, y, t, settings["reg"])
    np.testing.assert_allclose(problem.start.R.T @ problem.start.R / divisor**2, start[0], rtol=1e-8, atol=1e-10)
    L = np.eye(4) + 0.3 * np.random.default_rng(2).normal(size=(4, 4))
    value, gradient, slope = problem.evaluate(L, 0.8)
    factor, b = torch.tensor(L, requires_grad=True), torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    components = factor @ torch.tensor(problem.start.R / divisor)
    names = ("alpha", "beta", "gamma")
    expected = pair_objective(components.T @ components, b, V, y, start, *(settings[name] for name in names))
    expected.backward()
    assert value == pytest.approx(expected.item(), rel=1e-9)
    np.testing.assert_allclose(gradient, factor.grad, atol=1e-8 * np.abs(gradient).max())
    assert slope == pytest.approx(float(b.grad), rel=1e-8)


@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_gradient_agrees_with_finite_differences(alpha):
    problem, _ = pair_problem(random_pairs(), LogisticPairs(), **SETTINGS | {"alpha": alpha})
    L, b, step = np.eye(4) + 0.2 * np.random.default_rng(3).normal(size=(4, 4)), 1.2, 1e-6
    _, gradient, slope = problem.evaluate(L, b)
    for place in np.ndindex(4, 4):
        shift = np.zeros((4, 4))
        shift[place] = step
        difference = (problem.evaluate(L + shift, b)[0] - problem.evaluate(L - shift, b)[0]) / (2 * step)
        assert gradient[place] == pytest.approx(difference, abs=1e-8)
    assert slope == pytest.approx(
        (problem.evaluate(L, b + step)[0] - problem.evaluate(L, b - step)[0]) / (2 * step), abs=1e-8
    )


def test_a_factor_of_low_rank_has_the_right_gradient():
    problem, _ = pair_problem(random_pairs(), LogisticPairs(), **SETTINGS | {"gamma": 0.0})
    L, step = np.random.default_rng(3).normal(size=(2, 4)), 1e-6
    _, gradient, _ = problem.evaluate(L, 1.0)
    for place in np.ndindex(2, 4):
        shift = np.zeros((2, 4))
        shift[place] = step
        difference = (problem.evaluate(L + shift, 1.0)[0] - problem.evaluate(L - shift, 1.0)[0]) / (2 * step)
        assert gradient[place] == pytest.approx(difference, abs=1e-8)


def test_triplets_give_the_same_as_a_loop():
    rng = np.random.default_rng(0)
    X, rows = rng.normal(size=(15, 3)), np.stack([rng.permutation(15)[:3] for _ in range(25)])
    a, p, n = X[rows].transpose(1, 0, 2)
    both, y = np.concatenate([a - p, a - n]), np.repeat([1, -1], 25)
    start = geometric_start(both, y, 0.3, 1e-2)
    pairs = Pairs(X, np.concatenate([rows[:, 0]] * 2), np.concatenate([rows[:, 1], rows[:, 2]]), y)
    problem, divisor = pair_problem(pairs, LogisticTriplets(), **SETTINGS)
    L = np.eye(3) + 0.3 * rng.normal(size=(3, 3))
    components = L @ problem.start.R / divisor
    expected = triplet_objective(torch.tensor(components.T @ components), a - p, a - n, start, 1.5, 2.0, 0.3)
    assert problem.evaluate(L, 0.0)[0] == pytest.approx(expected.item(), rel=1e-9)


def test_the_objective_is_jointly_convex_in_the_metric_and_the_threshold():
    pairs = random_pairs(N=40)
    V, y = pairs.X[pairs.left] - pairs.X[pairs.right], pairs.labels
    start = geometric_start(V, y, 0.3, 1e-2)
    rng = np.random.default_rng(0)

    def F(M, b):
        return float(pair_objective(torch.tensor(M), b, V, y, start, 2.0, 0.5, 0.3))

    for seed in range(30):
        (P, p), (Q, q) = ((random_metric(4, seed + k) * 10.0 ** rng.uniform(-2, 1), 5 * rng.random()) for k in (0, 500))
        assert F(0.5 * (P + Q), 0.5 * (p + q)) <= 0.5 * (F(P, p) + F(Q, q)) + 1e-10


@pytest.mark.parametrize("n", [6, 40], ids=["fewer rows than features", "collinear features"])
def test_directions_in_which_no_pair_differs_keep_the_start_and_do_not_count(n):
    rng = np.random.default_rng(0)
    V = rng.normal(size=(n, 6)) @ rng.normal(size=(6, 9))
    y = np.where(np.arange(n) % 2, 1, -1)
    problem, divisor = pair_problem(Pairs.from_differences(V, y), LogisticPairs(), **SETTINGS)
    assert problem.start.Z.shape[1] == 6
    solution = solve(problem, np.eye(6), tol=1e-10, max_iter=1000)
    components = problem.start.components(solution.x[0], divisor)
    # The same in coordinates of the span, where the prior of nine features has six ninths of the strength.
    Q = np.linalg.svd(V)[2][:6].T
    inside = SETTINGS | {"reg": SETTINGS["reg"] * 6 / 9, "prior": np.eye(6)}
    known, size = pair_problem(Pairs.from_differences(V @ Q, y), LogisticPairs(), **inside)
    direct = solve(known, np.eye(6), tol=1e-10, max_iter=1000)
    expected = known.start.components(direct.x[0], size)
    M, within = components.T @ components, expected.T @ expected
    np.testing.assert_allclose(Q.T @ M @ Q, within, atol=1e-6 * np.abs(within).max())
    assert solution.objective[-1] == pytest.approx(direct.objective[-1], rel=1e-9)
    assert solution.x[1] == pytest.approx(direct.x[1], rel=1e-6)
    # Outside, the start, in the unit in which the median of d² under M₀ is 1.
    start = geometric_start(V, y, SETTINGS["t"], SETTINGS["reg"])[0]
    outside = np.eye(9) - Q @ Q.T
    np.testing.assert_allclose(outside @ M @ outside, outside @ start @ outside, atol=1e-6 * np.abs(start).max())


@pytest.mark.parametrize(
    "learner", [PairAML(pairs=300, random_state=0), NeighborAML(), NeighborAML(loss="radius")], ids=repr
)
def test_a_constant_feature_changes_nothing(learner):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = (rng.normal(size=(90, 4)) + rng.normal(size=(3, 4))[y]) * [3.0, 1.0, 0.5, 0.2]
    # Of four features out of five, the prior has four fifths of the strength.
    alone = clone(learner).set_params(reg=0.8e-3).fit(X, y).get_mahalanobis_matrix()
    beside = clone(learner).fit(np.column_stack([X, np.full(90, 7.0)]), y).get_mahalanobis_matrix()
    np.testing.assert_allclose(beside[:4, :4], alone, atol=1e-6 * np.abs(alone).max())
    np.testing.assert_allclose(beside[4, :4], 0.0, atol=1e-9 * np.abs(alone).max())


def test_rows_in_their_span_have_the_same_products():
    F = np.random.default_rng(0).normal(size=(5, 12)) @ np.diag([1.0] * 11 + [1e-3])
    F[4] = F[0] + F[1]
    rows, basis = reduce_to_span(F)
    assert rows.shape == (5, 4)
    np.testing.assert_allclose(rows @ rows.T, F @ F.T, atol=1e-12)
    np.testing.assert_allclose(rows @ basis.T, F, atol=1e-12)


def test_the_reference_start_is_a_minimum_of_its_mean_loss():
    """Guards the oracle: M₀ must minimise tr(M A_t) + tr(M⁻¹ B_t)."""
    A, B = random_metric(3, 1), random_metric(3, 2)
    for t in (0.1, 0.5, 0.9):
        M0, A_t, B_t = scaled_start(A, B, t, lambda M: 2.0)
        np.testing.assert_allclose(M0 @ A_t @ M0, B_t, atol=1e-8)
    v = torch.ones(3, dtype=torch.float64)
    assert float(adversarial(v, torch.tensor(A), 1.0, True)) > float(v @ torch.tensor(A) @ v)
