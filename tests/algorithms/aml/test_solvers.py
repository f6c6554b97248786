"""Solvers: optima against independent optimisers, descent, convergence, and the paper's own algorithms."""

import itertools

import numpy as np
import pymanopt
import pytest
import torch
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from advmetric import AML, GMML, load_dataset
from advmetric.algorithms.aml import solvers
from advmetric.algorithms.aml.adversary import make_adversary
from advmetric.algorithms.aml.objective import evaluate
from advmetric.algorithms.aml.problem import solve
from advmetric.algorithms.aml.solvers import alternating, geodesic, projected_gradient, starting_point
from advmetric.algorithms.aml.spectral import identity
from advmetric.learners.moments import Moments
from advmetric.linalg.spd import Geodesic, geometric_mean, symmetrize
from advmetric.pairs.scatter import all_pairs_scatter
from reference.autograd import objective_in_torch
from reference.matrices import random_spd

pytestmark = pytest.mark.numerical

WEIGHTS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
CASES = [("derived", 1.0, 1.0), ("derived", 100.0, 0.5), ("derived", 1000.0, 0.01), ("printed", 1.0, 1.0)]
CASES += [("printed", 10.0, 0.3), ("expanding", 1.0, 4.0), ("expanding", 10.0, 0.5)]


@pytest.fixture
def rng():
    return np.random.default_rng(42)


@pytest.fixture
def matrices(rng):
    return random_spd(rng, 5, 30.0, 2.0), random_spd(rng, 5, 30.0, 3.0)


@pytest.fixture(scope="module")
def segment():
    """Moments of all pairs of image-segment, standardised."""
    data = load_dataset("image-segment")
    return Moments.regularised(all_pairs_scatter(StandardScaler().fit_transform(data.X), data.y))


def solved(A, B, opponent, start=None, tol=1e-10):
    M = Geodesic.between(A, B).at(0.5) if start is None else start
    return geodesic(starting_point(evaluate(M, A, B, opponent), opponent), tol=tol)


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def least_value_on_a_factor(A, B, adversary, alpha, beta, start):
    """Minimum of D by L-BFGS on L, M = LLᵀ (below the bound q of "expanding": M = q S(I + S)⁻¹, S = LLᵀ)."""
    d = len(A)
    A_, B_, eye = torch.as_tensor(A), torch.as_tensor(B), torch.eye(d, dtype=torch.float64)

    def function(x):
        L = torch.tensor(x.reshape(d, d), requires_grad=True)
        S = L @ L.T
        M = beta / 2 * S @ torch.linalg.inv(eye + S) if adversary == "expanding" else S
        value = objective_in_torch(M, A_, B_, alpha, beta, adversary)
        value.backward()
        return value.item(), L.grad.numpy().ravel()

    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-10}
    return minimize(function, start.ravel(), jac=True, method="L-BFGS-B", options=options).fun


# --- the optimum ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_optimum_is_that_of_lbfgs_on_a_factor(rng, matrices, case):
    adversary, alpha, beta = case
    ours = solved(*matrices, make_adversary(adversary, alpha, beta))
    start = np.eye(5) + 0.1 * rng.standard_normal((5, 5))
    theirs = least_value_on_a_factor(*matrices, adversary, alpha, beta, start)
    assert ours.converged
    assert ours.objective[-1] == pytest.approx(theirs, rel=1e-6)
    assert ours.objective[-1] <= theirs * (1 + 1e-12)


@pytest.mark.parametrize("case", [("derived", 1.0, 1.0), ("derived", 100.0, 0.5), ("printed", 1.0, 1.0)], ids=str)
def test_the_optimum_is_that_of_pymanopt(matrices, case):
    adversary, alpha, beta = case
    A, B = map(torch.as_tensor, matrices)
    manifold = pymanopt.manifolds.SymmetricPositiveDefinite(5)

    @pymanopt.function.pytorch(manifold)
    def cost(M):
        return objective_in_torch(M, A, B, alpha, beta, adversary)

    optimizer = pymanopt.optimizers.ConjugateGradient(verbosity=0, max_iterations=500, min_gradient_norm=1e-7)
    theirs = optimizer.run(pymanopt.Problem(manifold, cost), initial_point=np.eye(5))
    ours = solved(*matrices, make_adversary(adversary, alpha, beta))
    assert ours.objective[-1] == pytest.approx(theirs.cost, rel=1e-9)
    assert relative(ours.x.matrix, theirs.point) < 1e-4


@pytest.mark.parametrize("case", CASES, ids=str)
def test_three_different_starts_end_at_the_same_metric(rng, matrices, case):
    opponent = make_adversary(*case)
    starts = [0.05 * np.eye(5), 5.0 * np.eye(5), random_spd(rng, 5, 1e3, 10.0)]
    if np.isfinite(opponent.bound):
        starts = [0.9 * opponent.bound / np.linalg.eigvalsh(M)[-1] * M for M in starts] + [1e-3 * np.eye(5)]
    ends = [solved(*matrices, opponent, start) for start in starts]
    assert all(end.converged for end in ends)
    for end in ends[1:]:
        assert relative(end.x.matrix, ends[0].x.matrix) < 1e-7
        assert end.objective[-1] == pytest.approx(ends[0].objective[-1], rel=1e-12)


@pytest.mark.parametrize("adversary", ["derived", "printed", "expanding"])
@pytest.mark.parametrize("t", [0.1, 0.5, 0.75])
def test_on_real_data_every_start_ends_at_the_same_metric(rng, segment, t, adversary):
    A, B = segment.weighted(t)
    d = len(A)
    for alpha, beta in itertools.product((1.0, 100.0), (1e-2, 1.0)):
        opponent = make_adversary(adversary, alpha, beta)
        ends = [
            solved(A, B, opponent, start, tol=1e-8)
            for start in (segment.geodesic.at(t), 0.05 * np.eye(d), 5.0 * np.eye(d), random_spd(rng, d, 1e3, 5.0))
        ]
        assert all(end.converged for end in ends)
        for end in ends[1:]:
            assert end.objective[-1] == pytest.approx(ends[0].objective[-1], rel=1e-10)


def test_ill_conditioned_matrices_that_do_not_commute_may_have_several_minima(rng):
    """So "the" optimum is a fact about well-sampled data, not a theorem: two true minima in two dimensions."""
    quarter = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2.0)
    A, B = np.diag([1.0, 1e-3]), symmetrize(quarter @ np.diag([1.0, 1e-3]) @ quarter.T)
    opponent = make_adversary("derived", 30.0, 0.1)
    values = []
    for _ in range(40):
        start = random_spd(rng, 2, 10.0 ** rng.uniform(0, 3), 10.0 ** rng.uniform(-1, 1.5))
        end = solved(A, B, opponent, start, tol=1e-9)
        basis = [np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.array([[0.0, 1.0], [1.0, 0.0]]) / np.sqrt(2.0)]
        hessian = [[np.vdot(F, end.x.hessian_product(E)) for E in basis] for F in basis]
        assert end.converged
        assert np.linalg.eigvalsh(hessian)[0] > 0
        # Another optimiser, started a little off, agrees that this is a minimum.
        L = np.linalg.cholesky(end.x.matrix) * 1.01
        assert least_value_on_a_factor(A, B, "derived", 30.0, 0.1, L) == pytest.approx(end.objective[-1], rel=1e-8)
        values.append(round(end.objective[-1], 6))
    assert set(values) == {1.592003, 1.621627}


@pytest.mark.parametrize("t", WEIGHTS)
@pytest.mark.parametrize("adversary", ["derived", "printed", "expanding"])
def test_without_an_adversary_the_optimum_is_gmml(matrices, adversary, t):
    moments = Moments(*matrices)
    solution = solve(moments, make_adversary(adversary, 0.0, 1e9), t=t, tol=1e-12)
    assert solution.converged
    assert relative(solution.x.matrix, geometric_mean(np.linalg.inv(moments.A), moments.B, t)) < 1e-10


@pytest.mark.parametrize("t", [0.1, 0.5, 0.8])
def test_aml_with_alpha_0_is_gmml_as_estimators(t):
    data = load_dataset("vehicle")
    X = StandardScaler().fit_transform(data.X)
    aml, gmml = AML(alpha=0.0, t=t).fit(X, data.y), GMML(t=t).fit(X, data.y)
    assert relative(aml.get_mahalanobis_matrix(), gmml.get_mahalanobis_matrix()) < 1e-10


def test_where_every_direction_feels_the_adversary_in_full_the_start_is_the_optimum(matrices):
    """β → ∞: u = 1, and the optimum is √(κ/(1+α)) · A⁻¹ # B, which is A⁻¹ # B again."""
    solution = solved(*matrices, make_adversary("derived", 5.0, 1e12))
    assert relative(solution.x.matrix, Geodesic.between(*matrices).at(0.5)) < 1e-8
    assert solution.n_iter == 0


def test_the_adversary_shrinks_large_eigenvalues_and_leaves_small_ones():
    """Directions with βλ² ≪ 2 keep GMML's eigenvalue √(b/a) (times √κ ≈ 1), those with βλ² ≫ 2 pay 1 + α."""
    A, B = np.eye(3), np.diag([1e-6, 1.0, 1e6])
    alpha, beta = 8.0, 1e-2
    solution = solved(A, B, make_adversary("derived", alpha, beta))
    found, kappa = np.sort(np.linalg.eigvalsh(solution.x.matrix)), 1 + alpha * (beta / (2 + beta)) ** 2
    assert found[0] == pytest.approx(np.sqrt(kappa) * 1e-3, rel=1e-6)
    assert found[2] == pytest.approx(np.sqrt(kappa / (1 + alpha)) * 1e3, rel=2e-2)


# --- descent and speed of the geodesic solver -----------------------------------------------------------


@pytest.mark.parametrize("adversary", ["derived", "printed", "expanding"])
@pytest.mark.parametrize("t", WEIGHTS)
def test_descent_is_strict_and_fast_over_the_whole_grid_on_image_segment(segment, t, adversary):
    """α ∈ 10^{-3..3}, β ∈ 10^{-4..3}: to 1e-7 in at most 10 iterations, 30 for the two others."""
    step = 1 if adversary == "derived" else 2
    for alpha, beta in itertools.product(10.0 ** np.arange(-3, 4, step), 10.0 ** np.arange(-4, 4, step)):
        solution = solve(segment, make_adversary(adversary, alpha, beta), t=t, tol=1e-7)
        assert solution.converged, (alpha, beta)
        # Near the barrier of "expanding" rounding may hide the last decrease.
        hidden = adversary == "expanding" and "no step decreases" in solution.message
        assert solution.x.slope_norm <= (1e-6 if hidden else 1e-7), (alpha, beta)
        assert np.all(np.diff(solution.objective) < 0), (alpha, beta)
        assert solution.n_iter <= (10 if adversary == "derived" else 30), (alpha, beta, solution.n_iter)
        assert solution.x.lam.max() < solution.x.adversary.bound


@pytest.mark.parametrize("adversary", ["derived", "printed", "expanding"])
def test_descent_is_strict_for_matrices_in_general_position(rng, adversary):
    """From the identity, far off; steps grow many only where both matrices are ill-conditioned."""
    for condition, alpha, beta in itertools.product((1e1, 1e6), (1.0, 1e3), (1e-2, 1.0)):
        A, B = random_spd(rng, 10, condition), random_spd(rng, 10, condition)
        opponent = make_adversary(adversary, alpha, beta)
        start = starting_point(evaluate(np.eye(10), A, B, opponent), opponent)
        solution = geodesic(start, tol=1e-7, max_iter=500)
        assert solution.converged
        assert np.all(np.diff(solution.objective) < 0)
        assert solution.objective[-1] == solution.x.value
        assert solution.n_iter <= 30 or condition == 1e6


def test_the_expanding_metric_stays_below_half_of_beta(segment):
    """Also where the data would want a metric thousands of times larger."""
    for beta in (1e-4, 1e-2, 1.0):
        solution = solve(segment, make_adversary("expanding", 1.0, beta), t=0.1)
        assert solution.x.lam.min() > 0
        assert solution.x.lam.max() < beta / 2
        assert np.linalg.eigvalsh(solve(segment, make_adversary("derived", 0.0, 1e9), t=0.1).x.matrix)[-1] > beta / 2


def test_stopping_early_is_not_called_convergence(matrices):
    opponent = make_adversary("derived", 100.0, 0.5)
    A, B = matrices
    start = evaluate(random_spd(np.random.default_rng(0), 5, 1e4, 50.0), A, B, opponent)
    solution = geodesic(start, tol=1e-10, max_iter=1)
    assert not solution.converged
    assert solution.n_iter == 1
    assert solution.message == "max_iter was reached"


def test_the_monitor_sees_every_iteration(matrices):
    opponent = make_adversary("derived", 100.0, 0.5)
    seen = []
    start = evaluate(np.diag([1.0, 2.0, 3.0, 4.0, 50.0]), *matrices, opponent)
    solution = geodesic(start, tol=1e-10, monitor=lambda *report: seen.append(report))
    assert [iteration for iteration, _, _ in seen] == list(range(solution.n_iter + 1))
    assert [value for _, value, _ in seen] == solution.objective
    assert seen[-1][2] <= 1e-10


# --- the printed objective ------------------------------------------------------------------------------


def test_the_printed_objective_learns_another_metric(segment):
    for beta in (0.1, 1.0, 10.0):
        derived, printed = (solve(segment, make_adversary(a, 1.0, beta), t=0.5) for a in ("derived", "printed"))
        assert relative(printed.x.matrix, derived.x.matrix) > 0.05


def test_the_more_the_printed_term_weighs_the_closer_dissimilar_points_come(segment):
    """Erratum 1, at the optimum, with the term for dissimilar pairs alone: derived lengthens, printed shortens."""
    A, B = segment.A, segment.B
    distances = {}
    for name in ("derived", "printed"):
        distances[name] = []
        for alpha in (0.0, 1.0, 10.0, 100.0):
            opponent = make_adversary(name, alpha, 1.0)
            opponent.similar = identity()
            distances[name].append(np.sum(solved(A, B, opponent, tol=1e-8).x.matrix * B))
    assert np.all(np.diff(distances["printed"]) < 0)
    assert np.all(np.diff(distances["derived"]) > 0)


# --- Algorithm 1 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [("derived", 1.0, 1.0), ("printed", 1.0, 1.0), ("expanding", 1.0, 4.0)], ids=str)
def test_algorithm_1_with_backtracking_reaches_the_same_optimum(matrices, case):
    opponent = make_adversary(*case)
    slow = projected_gradient(*matrices, opponent, tol=1e-6, max_iter=20_000)
    assert slow.converged
    assert np.all(np.diff(slow.objective) <= 0)
    fast = solved(*matrices, opponent)
    assert slow.objective[-1] == pytest.approx(fast.objective[-1], rel=1e-9)
    assert relative(slow.x.matrix, fast.x.matrix) < 1e-4


def test_algorithm_1_with_a_small_fixed_step_reaches_the_same_optimum(matrices):
    opponent = make_adversary("derived", 1.0, 1.0)
    slow = projected_gradient(*matrices, opponent, step_size=3e-2, tol=1e-6, max_iter=20_000)
    assert slow.converged
    assert slow.objective[-1] == pytest.approx(solved(*matrices, opponent).objective[-1], rel=1e-9)


@pytest.mark.parametrize("case", [("derived", 1.0, 1.0), ("printed", 1.0, 1.0), ("expanding", 1.0, 4.0)], ids=str)
def test_a_tolerance_below_rounding_ends_as_converged_at_rounding(matrices, case):
    """With a slope of 1e-8 D is within 1e-16 of its minimum: no step can decrease it visibly."""
    opponent = make_adversary(*case)
    start = starting_point(evaluate(np.eye(5), *matrices, opponent), opponent)
    ends = geodesic(start, tol=1e-18), projected_gradient(*matrices, opponent, tol=1e-18, max_iter=20_000)
    for end in ends:
        assert end.converged
        assert end.message == "no step decreases the objective further"
        assert end.x.slope_norm < 1e-6
    assert ends[0].objective[-1] == pytest.approx(ends[1].objective[-1], rel=1e-13)


@pytest.fixture
def hindered(monkeypatch):
    """Every step after the first few seems to go uphill, where much is left to gain."""
    states = []

    def evaluate_too_high(*arguments):
        states.append(evaluate(*arguments))
        if len(states) > 3:
            vars(states[-1])["value"] = 1.01 * states[0].value
        return states[-1]

    monkeypatch.setattr(solvers, "evaluate", evaluate_too_high)
    monkeypatch.setattr(solvers, "_line_search", lambda *arguments: None)


def test_a_stall_far_above_rounding_is_not_called_convergence(matrices, hindered):
    opponent = make_adversary("derived", 1.0, 1.0)
    start = starting_point(evaluate(np.eye(5), *matrices, opponent), opponent)
    for end in (geodesic(start, tol=1e-8), projected_gradient(*matrices, opponent, tol=1e-8)):
        assert not end.converged
        assert end.message == "no step decreases the objective further"
        assert end.x.slope_norm > 1e-3


def test_a_learner_warns_of_a_stall(hindered):
    data = load_dataset("vehicle")
    with pytest.warns(ConvergenceWarning, match="no step decreases the objective further"):
        AML(solver="projected-gradient", tol=1e-8).fit(StandardScaler().fit_transform(data.X), data.y)


def test_algorithm_1_starts_at_the_identity(matrices):
    opponent = make_adversary("derived", 1.0, 1.0)
    assert projected_gradient(*matrices, opponent, max_iter=1).objective[0] == pytest.approx(
        evaluate(np.eye(5), *matrices, opponent).value, rel=1e-14
    )


def test_algorithm_1_with_the_papers_step_diverges_on_plain_sums_and_says_so():
    """ρ = 0.001 on sums over pairs, as printed: noticed, reported, and no NaN comes back."""
    data = load_dataset("image-segment")
    X = StandardScaler().fit_transform(data.X)
    learner = AML(solver="projected-gradient", step_size=1e-3, average=False, pairs="random", random_state=0)
    with pytest.warns(ConvergenceWarning, match="diverged: the fixed step_size=0.001 is too large"):
        learner.fit(X, data.y)
    assert not learner.converged_
    assert np.isfinite(learner.components_).all()
    assert np.linalg.eigvalsh(learner.get_mahalanobis_matrix())[0] > 0


@pytest.mark.parametrize("step_size", [1e-3, 1.0, 1e10, 1e200])
@pytest.mark.parametrize("adversary", ["derived", "printed", "expanding"])
def test_no_fixed_step_returns_nan(segment, adversary, step_size):
    opponent = make_adversary(adversary, 1.0, 1.0)
    solution = projected_gradient(1e4 * segment.A, 1e4 * segment.B, opponent, step_size=step_size, max_iter=50)
    assert np.isfinite(solution.x.matrix).all()
    assert solution.x.feasible
    assert solution.x.value == min(solution.objective)


# --- the alternating game -------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [("derived", 1.0, 1.0), ("derived", 10.0, 0.5), ("expanding", 1.0, 8.0)], ids=str)
def test_the_game_rests_where_each_side_answers_the_other(matrices, case):
    """Eq. 5: M is the best metric for the union of real and adversarial pairs, and they are the answer to M."""
    A, B = matrices
    opponent = make_adversary(*case)
    start = starting_point(evaluate(Geodesic.between(A, B).at(0.5), A, B, opponent), opponent)
    solution = alternating(start, tol=1e-10, max_iter=500)
    assert solution.converged
    state = solution.x
    u = (state.U * opponent.stretch_similar(state.lam)) @ state.U.T
    w = (state.U * opponent.stretch_dissimilar(state.lam)) @ state.U.T
    A_union, B_union = A + opponent.alpha * u @ A @ u, B + opponent.alpha * w @ B @ w
    M = state.matrix
    # The gradient of tr(M A) + tr(M⁻¹ B) vanishes where M A M = B.
    assert relative(M @ A_union @ M, B_union) < 1e-8


@pytest.mark.parametrize("case", [("derived", 1.0, 1.0), ("derived", 10.0, 0.5), ("expanding", 1.0, 8.0)], ids=str)
def test_the_game_does_not_end_at_the_minimum_of_the_objective(matrices, case):
    A, B = matrices
    opponent = make_adversary(*case)
    start = starting_point(evaluate(Geodesic.between(A, B).at(0.5), A, B, opponent), opponent)
    game, optimum = alternating(start, tol=1e-10, max_iter=500), solved(A, B, opponent)
    assert game.x.slope_norm > 1e-3
    assert game.objective[-1] > optimum.objective[-1] * (1 + 1e-5)
    assert game.objective[-1] == game.x.value


def test_a_game_cut_short_says_so(matrices):
    A, B = matrices
    start = evaluate(np.eye(5), A, B, make_adversary("derived", 10.0, 0.5))
    solution = alternating(start, tol=1e-12, max_iter=2)
    assert not solution.converged
    assert solution.n_iter == 2
    assert np.array_equal(solution.x.matrix, symmetrize(solution.x.matrix))
