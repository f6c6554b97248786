"""PairAML: its optimum against other solvers, its limits, its forms of input, its decisions."""

import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import minimize as scipy_minimize
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from advmetric import GMML, BalancedPairs, Mahalanobis, PairAML
from advmetric.algorithms.discriminative.losses import LogisticPairs
from advmetric.algorithms.discriminative.pair_problem import pair_problem
from advmetric.algorithms.discriminative.solver import minimize
from advmetric.metric.threshold import fit_probability
from advmetric.pairs.data import Pairs
from reference.discriminative import geometric_start, pair_objective

EXACT = {"tol": 1e-9, "max_iter": 5000}


def small(N=24, d=3, seed=0):
    """Differences and labels: similar pairs differ less in the first feature."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(N) % 2 == 0, 1, -1)
    V = rng.normal(size=(N, d)) * np.array([2.0, 1.0, 0.5])[:d]
    V[y == 1, 0] *= 0.4
    return np.stack([V, np.zeros_like(V)], axis=1), V, y


def matrix(learner):
    return learner.get_mahalanobis_matrix()


def assert_close(M, expected, rtol=1e-6):
    np.testing.assert_allclose(M, expected, atol=rtol * np.abs(expected).max())


# --- the optimum ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "beta", "gamma", "t"), [(1.0, 10.0, 1.0, 0.5), (2.0, 0.5, 0.1, 0.2), (0.0, 1.0, 0.3, 0.7)]
)
def test_the_optimum_is_that_of_a_conic_solver(alpha, beta, gamma, t):
    cvxpy = pytest.importorskip("cvxpy")
    pairs, V, y = small()
    learner = PairAML(alpha=alpha, beta=beta, gamma=gamma, t=t, reg=1e-2, **EXACT).fit(pairs, y)
    M0, A, B = geometric_start(V, y, t, 1e-2)
    c = beta * np.trace(M0) / 3
    M, b = cvxpy.Variable((3, 3), PSD=True), cvxpy.Variable()
    terms = []
    for v, kind in zip(V, y, strict=True):
        real = v @ M @ v
        if kind == 1:
            harder = real + cvxpy.sum_squares(M @ v) / c
        else:
            harder = c * v @ v - c * cvxpy.matrix_frac(v, np.eye(3) + M / c)
        loss = cvxpy.logistic(kind * (real - b)) + alpha * cvxpy.logistic(kind * (harder - b))
        terms.append(loss / (2 * np.sum(y == kind) * (1 + alpha)))
    mean_loss = cvxpy.trace(M @ A) + sum(cvxpy.matrix_frac(column, M) for column in np.linalg.cholesky(B).T)
    G0 = np.trace(M0 @ A) + np.trace(np.linalg.solve(M0, B))
    problem = cvxpy.Problem(cvxpy.Minimize(sum(terms) + gamma * (mean_loss / G0 - 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", ResourceWarning)
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert learner.objective_[-1] == pytest.approx(problem.value, rel=1e-7)
    assert_close(matrix(learner), M.value, 1e-3)
    assert learner.squared_threshold_ == pytest.approx(float(b.value), rel=1e-3)


def test_every_start_leads_to_the_same_optimum():
    pairs, _, y = small(N=60)
    problem, _ = pair_problem(
        Pairs.formed(pairs, y),
        LogisticPairs(),
        alpha=1.0,
        beta=1.0,
        gamma=0.1,
        t=0.3,
        reg=1e-3,
        prior=None,
        n_components=None,
    )
    best = minimize(problem, np.eye(3), tol=1e-9, max_iter=5000)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        L, b = 10.0 ** rng.uniform(-1, 1) * (np.eye(3) + 0.5 * rng.normal(size=(3, 3))), 3.0 * rng.random()
        other = minimize(problem, L, b, tol=1e-9, max_iter=5000)
        assert other.converged
        assert other.objective[-1] == pytest.approx(best.objective[-1], rel=1e-10)
        assert_close(other.x[0].T @ other.x[0], best.x[0].T @ best.x[0], 1e-5)
        assert other.x[1] == pytest.approx(best.x[1], rel=1e-5)


def test_without_the_adversary_it_is_logistic_metric_learning():
    """Against BFGS on a Cholesky factor of M in the data's coordinates."""
    pairs, V, y = small(N=80)
    learner = PairAML(alpha=0.0, gamma=0.1, t=0.4, reg=1e-3, **EXACT).fit(pairs, y)
    start = geometric_start(V, y, 0.4, 1e-3)

    def function(x):
        x = torch.tensor(x, requires_grad=True)
        L = torch.zeros(3, 3, dtype=torch.float64)
        L[np.tril_indices(3)] = x[:6]
        value = pair_objective(L @ L.T, x[6], V, y, start, 0.0, 1.0, 0.1)
        value.backward()
        return value.item(), x.grad.numpy()

    x = np.append(np.linalg.cholesky(start[0])[np.tril_indices(3)], 1.0)
    found = scipy_minimize(function, x, jac=True, method="BFGS", options={"gtol": 1e-9})
    L = np.zeros((3, 3))
    L[np.tril_indices(3)] = found.x[:6]
    assert learner.objective_[-1] == pytest.approx(found.fun, rel=1e-10)
    assert_close(matrix(learner), L @ L.T, 1e-5)


@pytest.mark.parametrize("t", [0.1, 0.5, 0.9])
def test_a_large_gamma_gives_the_metric_of_gmml(t, vehicle):
    learner = PairAML(gamma=1e7, t=t, reg=1e-3).fit(vehicle.formed, vehicle.kinds)
    expected = matrix(GMML(t=t, reg=1e-3).fit(vehicle.formed, vehicle.kinds))
    V = vehicle.formed[:, 0] - vehicle.formed[:, 1]
    expected /= np.median(np.einsum("ij,jk,ik->i", V, expected, V))
    assert_close(matrix(learner), expected, 1e-4)
    sampled = PairAML(gamma=1e7, t=t, pairs=BalancedPairs(300), random_state=3).fit(vehicle.X, vehicle.y)
    expected = matrix(GMML(t=t, pairs=BalancedPairs(300), random_state=3).fit(vehicle.X, vehicle.y))
    assert_close(matrix(sampled) / np.trace(matrix(sampled)), expected / np.trace(expected), 1e-4)


def test_the_objective_never_rises_and_the_slope_is_certified(vehicle):
    for settings in ({}, {"alpha": 0.0}, {"gamma": 0.01, "t": 0.1}, {"n_components": 5}):
        learner = PairAML(**settings).fit(vehicle.formed, vehicle.kinds)
        assert learner.converged_
        assert learner.slope_ <= learner.tol
        assert np.all(np.diff(learner.objective_) <= 0.0)
        assert learner.n_iter_ == len(learner.objective_) - 1


def test_running_out_of_iterations_warns(vehicle):
    with pytest.warns(ConvergenceWarning, match="PairAML did not converge in 2 iterations"):
        learner = PairAML(max_iter=2).fit(vehicle.formed, vehicle.kinds)
    assert not learner.converged_


def test_a_tolerance_that_no_rounding_allows_ends_as_converged(vehicle):
    learner = PairAML(tol=0.0, max_iter=20_000).fit(vehicle.formed, vehicle.kinds)
    assert learner.converged_
    assert learner.slope_ < 1e-6


def test_the_adversary_flattens_the_spectrum(vehicle):
    def condition(alpha):
        return np.linalg.cond(matrix(PairAML(alpha=alpha, beta=1.0, t=0.1).fit(vehicle.formed, vehicle.kinds)))

    assert condition(10.0) < 0.7 * condition(0.0)


# --- forms of input -------------------------------------------------------------------------------------


@pytest.mark.numerical
def test_index_pairs_give_the_metric_of_formed_pairs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4)) + 5.0
    indices = np.column_stack([rng.integers(30, size=200), rng.integers(30, size=200)])
    y = np.where(np.abs(X[indices[:, 0], 0] - X[indices[:, 1], 0]) < 0.8, 1, -1)
    for settings in ({}, {"n_components": 2}, {"alpha": 0.0, "t": 0.1}):
        formed = PairAML(tol=1e-8, **settings).fit(X[indices], y)
        indexed = PairAML(tol=1e-8, preprocessor=X, **settings).fit(indices, y)
        assert_close(matrix(indexed), matrix(formed), 1e-8)
        assert indexed.threshold_ == pytest.approx(formed.threshold_, rel=1e-6)
        single = PairAML(tol=1e-8, preprocessor=X.astype(np.float32), **settings).fit(indices, y)
        assert_close(matrix(single), matrix(formed), 1e-4)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_the_scale_of_the_features_divides_the_components_and_changes_nothing_else(scale, vehicle):
    expected = PairAML().fit(vehicle.formed, vehicle.kinds)
    learner = PairAML().fit(vehicle.formed * scale, vehicle.kinds)
    np.testing.assert_allclose(learner.objective_[-1], expected.objective_[-1], rtol=1e-8)
    assert learner.threshold_ == pytest.approx(expected.threshold_, rel=1e-4)
    np.testing.assert_allclose(
        learner.pair_distance(vehicle.formed * scale), expected.pair_distance(vehicle.formed), rtol=1e-3
    )


def test_constant_and_collinear_features_and_duplicates_just_work(vehicle):
    X = np.column_stack([vehicle.X, np.ones(len(vehicle.X)), vehicle.X[:, 0], 1e-9 * vehicle.X[:, 1]])
    indices = np.concatenate([vehicle.indices, np.column_stack([np.arange(5)] * 2)])
    y = np.concatenate([vehicle.kinds, np.ones(5)])
    learner = PairAML(preprocessor=X).fit(indices, y)
    assert learner.converged_
    assert learner.components_.shape == (21, 21)
    assert np.all(np.linalg.eigvalsh(matrix(learner)) > -1e-12)
    learner = PairAML().fit(np.zeros((4, 2, 3)), [1, -1, 1, -1])
    assert np.isfinite(learner.components_).all()
    assert learner.threshold_ == pytest.approx(0.0, abs=1e-2)


def test_pairs_of_both_kinds_are_drawn_from_labelled_points(vehicle):
    learner = PairAML(random_state=0).fit(vehicle.X, vehicle.y)
    again = PairAML(random_state=0).fit(vehicle.X, vehicle.y)
    np.testing.assert_array_equal(learner.components_, again.components_)
    assert not hasattr(learner, "threshold_")
    assert not hasattr(learner, "predict_proba")
    assert learner.squared_threshold_ > 0.0


def test_n_components_learns_in_the_leading_subspace(vehicle):
    learner = PairAML(n_components=5).fit(vehicle.formed, vehicle.kinds)
    assert learner.components_.shape == (5, 18)
    subspace = GMML(n_components=5).fit(vehicle.formed, vehicle.kinds).components_
    stacked = np.linalg.svd(np.vstack([learner.components_, subspace]), compute_uv=False)
    assert stacked[5] < 1e-8 * stacked[0]
    with pytest.raises(ValueError, match="n_components=19 is more than the 18 features"):
        PairAML(n_components=19).fit(vehicle.formed, vehicle.kinds)


def test_a_principal_subspace_is_where_the_pairs_differ_most(vehicle):
    learner = PairAML(n_components=5, subspace="principal").fit(vehicle.formed, vehicle.kinds)
    V = vehicle.formed[:, 0] - vehicle.formed[:, 1]
    principal = np.linalg.svd(V, full_matrices=False)[2][:5]
    stacked = np.linalg.svd(np.vstack([learner.components_, principal]), compute_uv=False)
    assert learner.components_.shape == (5, 18)
    assert stacked[5] < 1e-8 * stacked[0]


# --- decisions ------------------------------------------------------------------------------------------


def test_decisions_and_probabilities_agree(vehicle):
    learner = PairAML().fit(vehicle.formed, vehicle.kinds)
    assert learner.threshold_ == pytest.approx(np.sqrt(learner.squared_threshold_))
    probability = learner.predict_proba(vehicle.formed)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    distances = learner.pair_distance(vehicle.formed)
    np.testing.assert_allclose(probability[:, 1], 1 / (1 + np.exp(distances**2 - learner.squared_threshold_)))
    np.testing.assert_array_equal(probability[:, 1] > 0.5, learner.predict(vehicle.formed) == 1)
    np.testing.assert_array_equal(probability[:, 1] > 0.5, learner.decision_function(vehicle.formed) > 0)
    learner.set_threshold(0.5 * learner.threshold_)
    np.testing.assert_array_equal(
        learner.predict_proba(vehicle.formed)[:, 1] > 0.5, learner.predict(vehicle.formed) == 1
    )
    with pytest.raises(NotFittedError):
        PairAML().predict_proba(vehicle.formed)


def test_a_saved_metric_has_the_probabilities_of_the_learner(vehicle, tmp_path):
    learner = PairAML().fit(vehicle.formed, vehicle.kinds)
    for change in (
        lambda: learner,
        lambda: learner.set_threshold(0.5 * learner.threshold_),
        lambda: learner.calibrate_threshold(vehicle.formed[:200], vehicle.kinds[:200]),
    ):
        change().get_metric().save(tmp_path / "metric.npz")
        saved = Mahalanobis.load(tmp_path / "metric.npz")
        found = saved.probability(saved.pair_distance(vehicle.formed))
        np.testing.assert_allclose(found, learner.predict_proba(vehicle.formed)[:, 1], rtol=1e-9)


def test_probabilities_after_calibration_are_those_of_the_held_out_pairs(vehicle):
    """As for every learner, whatever the strategy: log-odds linear in the distance."""
    learner = PairAML().fit(vehicle.formed[:200], vehicle.kinds[:200])
    learner.calibrate_threshold(vehicle.formed[200:], vehicle.kinds[200:], "max_tpr", min_rate=0.99)
    expected = fit_probability(learner.pair_distance(vehicle.formed[200:]), vehicle.kinds[200:])
    assert learner.calibration_ == expected


def test_the_threshold_balances_the_expected_errors(vehicle):
    """∂F/∂b = 0 at α = 0: the mean probability of "similar" is that of the labels, each kind weighing one half."""
    learner = PairAML(alpha=0.0, tol=1e-8).fit(vehicle.formed, vehicle.kinds)
    probability = learner.predict_proba(vehicle.formed)[:, 1]
    similar = vehicle.kinds == 1
    assert probability[similar].mean() + probability[~similar].mean() == pytest.approx(1.0, abs=1e-5)


# --- triplets -------------------------------------------------------------------------------------------


def triplets_of(vehicle, N=300):
    rng = np.random.default_rng(0)
    rows = []
    for a in rng.integers(len(vehicle.X), size=N):
        same, other = np.flatnonzero(vehicle.y == vehicle.y[a]), np.flatnonzero(vehicle.y != vehicle.y[a])
        rows.append((a, rng.choice(same[same != a]), rng.choice(other)))
    return np.array(rows)


def test_triplets_in_three_forms_give_the_same_metric(vehicle):
    rows = triplets_of(vehicle)
    formed = PairAML(tol=1e-8).fit(vehicle.X[rows])
    indexed = PairAML(tol=1e-8, preprocessor=vehicle.X).fit(rows)
    swapped = PairAML(tol=1e-8, preprocessor=vehicle.X).fit(rows[:, [0, 2, 1]], -np.ones(len(rows)))
    for other in (indexed, swapped):
        assert_close(matrix(other), matrix(formed), 1e-7)
    assert formed.score(vehicle.X[rows]) == indexed.score(rows) > 0.6
    assert not hasattr(formed, "threshold_")
    assert not hasattr(formed, "classes_")
    assert formed.n_features_in_ == 18


def test_a_large_gamma_gives_gmml_on_the_two_kinds_of_pairs_of_triplets(vehicle):
    rows = triplets_of(vehicle)
    learner = PairAML(gamma=1e7, t=0.5, preprocessor=vehicle.X).fit(rows)
    index_pairs = np.concatenate([rows[:, [0, 1]], rows[:, [0, 2]]])
    expected = matrix(GMML(preprocessor=vehicle.X).fit(index_pairs, np.repeat([1, -1], len(rows))))
    assert_close(matrix(learner) / np.trace(matrix(learner)), expected / np.trace(expected), 1e-4)


def test_refitting_on_triplets_clears_what_belonged_to_pairs(vehicle):
    learner = PairAML().fit(vehicle.formed, vehicle.kinds).fit(vehicle.X[triplets_of(vehicle)])
    assert not hasattr(learner, "threshold_")
    assert not hasattr(learner, "predict")
    learner.fit(vehicle.formed, vehicle.kinds)
    np.testing.assert_array_equal(learner.classes_, [-1, 1])
    assert learner.threshold_ > 0.0


def test_triplets_give_the_covariance_prior_of_their_points(vehicle):
    triplets = vehicle.X[triplets_of(vehicle)]
    points = triplets.reshape(-1, 18)
    covariance = np.cov(points.T, ddof=0)
    by_name = PairAML(prior="covariance", reg=0.5).fit(triplets)
    by_matrix = PairAML(prior=np.linalg.inv(covariance) * np.trace(covariance) / 18, reg=0.5).fit(triplets)
    np.testing.assert_allclose(matrix(by_name), matrix(by_matrix), rtol=1e-3, atol=1e-5)


def test_after_triplets_predict_says_that_there_were_no_pairs(vehicle):
    learner = PairAML().fit(vehicle.X[triplets_of(vehicle)])
    with pytest.raises(AttributeError) as caught:
        learner.predict(vehicle.formed)
    assert "was not fitted on pairs, so it has no threshold" in str(caught.value.__cause__)


def test_flaws_of_triplets_are_named(vehicle):
    rows, learner = triplets_of(vehicle), PairAML(preprocessor=vehicle.X)
    formed = vehicle.X[rows]
    formed[3, 1, 2] = np.nan
    with pytest.raises(ValueError, match="triplets contains NaN at pair 3, point 1, feature 2"):
        PairAML().fit(formed)
    with pytest.raises(ValueError, match=r"triplet 0 is \(9999, .*out of range for a preprocessor of 846 rows"):
        learner.fit(np.where(np.arange(3) == 0, 9999, rows))
    with pytest.raises(TypeError, match="index triplets must be integers"):
        learner.fit(rows.astype(float))
    with pytest.raises(ValueError, match="y of triplet 0 is 0"):
        learner.fit(rows, np.zeros(len(rows)))
    with pytest.raises(ValueError, match="y has 2 labels for 300 triplets"):
        learner.fit(rows, [1, 1])
    with pytest.raises(ValueError, match="shape \\(N, 3\\) with N >= 1"):
        learner.fit(np.empty((0, 3), dtype=int))
    with pytest.raises(ValueError, match="expecting 18 features"):
        learner.fit(rows).score(np.zeros((2, 3, 4)))


# --- parameters -----------------------------------------------------------------------------------------


def test_the_automatic_gamma_is_a_fifth_of_the_free_entries_per_pair(vehicle):
    learner = PairAML().fit(vehicle.formed, vehicle.kinds)
    assert learner.gamma_ == pytest.approx(0.2 * (18 * 19 / 2) / 400)
    assert PairAML(n_components=2).fit(vehicle.formed, vehicle.kinds).gamma_ == 0.01
    assert PairAML(gamma=0.7).fit(vehicle.formed, vehicle.kinds).gamma_ == 0.7
    same = PairAML(gamma=learner.gamma_).fit(vehicle.formed, vehicle.kinds)
    np.testing.assert_array_equal(same.components_, learner.components_)


def test_points_that_are_in_no_pair_change_nothing(vehicle):
    padded = np.concatenate([vehicle.X, 1e6 + np.random.default_rng(0).normal(size=(5000, 18))])
    many = np.tile(vehicle.indices[:, ::-1], (5, 1)), np.tile(vehicle.kinds, 5)
    expected = PairAML(tol=1e-8, preprocessor=vehicle.X).fit(*many)
    learner = PairAML(tol=1e-8, preprocessor=padded).fit(*many)
    assert_close(matrix(learner), matrix(expected), 1e-8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": "large"}, "gamma='large' is not known"),
        ({"gamma": -1.0}, "gamma=-1.0 must be"),
        ({"beta": 0.0}, "beta=0.0 must be"),
        ({"t": 1.5}, "t=1.5 must be"),
        ({"pairs": "few"}, "pairs='few' is not understood"),
    ],
)
def test_bad_parameters_are_named(settings, message, vehicle):
    with pytest.raises(ValueError, match=message):
        PairAML(**settings).fit(vehicle.formed, vehicle.kinds)


def test_candidates_that_stop_early_do_not_start_where_others_stopped(vehicle):
    from advmetric.pairs.data import LabelledPoints

    settings = {"t": 0.25, "max_iter": 2, "alpha": 0.0, "beta": 1.0}
    found = PairAML(random_state=0)._candidate_metrics(
        [{**settings, "gamma": 1.0}, {**settings, "gamma": 0.01}], LabelledPoints(vehicle.X, vehicle.y)
    )
    _, (second, steps) = found
    assert steps == 2
    with pytest.warns(ConvergenceWarning):
        alone = PairAML(random_state=0, gamma=0.01, **settings).fit(vehicle.X, vehicle.y)
    assert_close(second.components, alone.components_, 1e-9)
