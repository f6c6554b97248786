"""AML as an estimator: what its parameters do to the metric, and the pairs it was trained against."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.exceptions import ConvergenceWarning

from advmetric import AML, GMML, AllPairs
from advmetric.algorithms.aml.adversary import make_adversary
from advmetric.algorithms.aml.problem import solve
from advmetric.learners.moments import Moments, scatter_of
from advmetric.pairs.data import LabelledPoints

pytestmark = pytest.mark.numerical


def matrix(learner, data, y):
    return learner.fit(data, y).get_mahalanobis_matrix()


@pytest.fixture
def scatter(vehicle):
    return scatter_of(LabelledPoints(vehicle.X, vehicle.y))


@pytest.fixture
def moments(scatter):
    return Moments.regularised(scatter)


def derived_objective(M, A, B, alpha, beta):
    """D(M) from its definition."""
    lam, U = np.linalg.eigh(M)
    u = beta * lam**2 / (2 + beta * lam**2)
    kappa = 1 + alpha * (beta / (2 + beta)) ** 2
    f_S, f_D = (U * (lam + alpha * lam * u**2)) @ U.T, (U * (kappa / lam)) @ U.T
    return np.trace(A @ f_S) + np.trace(B @ f_D)


# --- parameters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("n_components", [None, 5])
@pytest.mark.parametrize("adversary", ["derived", "printed"])
def test_without_adversarial_pairs_aml_is_gmml(vehicle, t, n_components, adversary):
    expected = matrix(GMML(t=t, n_components=n_components), vehicle.X, vehicle.y)
    found = matrix(AML(alpha=0.0, t=t, n_components=n_components, adversary=adversary), vehicle.X, vehicle.y)
    np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


def test_the_last_objective_is_d_at_the_learned_metric(vehicle, moments):
    for alpha, beta in ((1.0, 1.0), (10.0, 0.1)):
        learned = AML(alpha=alpha, beta=beta).fit(vehicle.X, vehicle.y)
        M = learned.get_mahalanobis_matrix()
        expected = derived_objective(M, moments.A, moments.B, alpha, beta)
        assert learned.objective_[-1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-60, 1e-3, 10.0, 1e60])
def test_the_objective_is_in_the_units_of_the_data(vehicle, scale):
    expected = AML().fit(vehicle.X, vehicle.y).objective_
    np.testing.assert_allclose(AML().fit(scale * vehicle.X, vehicle.y).objective_, scale**2 * expected, rtol=1e-9)


def test_the_adversary_flattens_the_top_of_the_spectrum(vehicle):
    spread = [np.linalg.cond(matrix(AML(alpha=alpha), vehicle.X, vehicle.y)) for alpha in (0.0, 1.0, 10.0, 100.0)]
    assert np.all(np.diff(spread) < 0)


def test_the_expanding_adversary_keeps_eigenvalues_below_half_of_beta(vehicle):
    for beta in (0.1, 1.0, 10.0):
        M = matrix(AML(adversary="expanding", beta=beta), vehicle.X, vehicle.y)
        assert np.linalg.eigvalsh(M)[-1] < beta / 2


def test_the_components_are_orthogonal_rows_from_the_largest_eigenvalue_down(vehicle):
    L = AML().fit(vehicle.X, vehicle.y).components_
    gram = L @ L.T
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-10)
    assert np.all(np.diff(np.diag(gram)) <= 0)


@pytest.mark.parametrize("r", [1, 4, 17, 18])
def test_n_components_learns_in_the_leading_subspace(vehicle, moments, scatter, r):
    L = AML(n_components=r).fit(vehicle.X, vehicle.y).components_
    assert L.shape == (r, 18)
    if r < 18:
        assert np.max(subspace_angles(L.T, moments.leading(r, scatter).Q)) < 1e-6
    else:
        np.testing.assert_array_equal(L, AML().fit(vehicle.X, vehicle.y).components_)


def test_plain_sums_weigh_the_kinds_by_their_number(vehicle, moments):
    every = AllPairs().sample(vehicle.X, vehicle.y)
    summed = Moments(np.sum(every.y == 1) * moments.A, np.sum(every.y == -1) * moments.B)
    M = matrix(AML(average=False, tol=1e-9), vehicle.X, vehicle.y)
    expected = solve(summed, make_adversary("derived", 1.0, 1.0), t=0.5, tol=1e-9).x.matrix
    np.testing.assert_allclose(M, expected, atol=1e-7 * np.abs(expected).max())
    assert not np.allclose(M, matrix(AML(), vehicle.X, vehicle.y), rtol=0.1)


def test_reg_pulls_towards_the_prior(vehicle):
    M0 = np.diag(np.linspace(1.0, 3.0, 18))
    distance = []
    for reg in (1e-3, 1.0, 1e3):
        M = matrix(AML(alpha=0.0, reg=reg, prior=M0), vehicle.X, vehicle.y)
        distance.append(np.linalg.norm(M / np.trace(M) - M0 / np.trace(M0)))
    assert distance[0] > distance[1] > distance[2]


def test_projected_gradient_reaches_the_metric_of_the_geodesic_solver(vehicle):
    X = vehicle.X[:, :6]
    expected = matrix(AML(tol=1e-8), X, vehicle.y)
    found = matrix(AML(solver="projected-gradient", tol=1e-6, max_iter=20_000), X, vehicle.y)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_the_alternating_game_rests_elsewhere(vehicle):
    learned = AML(solver="alternating").fit(vehicle.X, vehicle.y)
    assert learned.converged_
    best = AML().fit(vehicle.X, vehicle.y)
    assert learned.objective_[-1] > best.objective_[-1] * (1 + 1e-6)


def test_a_fixed_step_that_diverges_is_reported_in_the_users_units(vehicle):
    learner = AML(solver="projected-gradient", step_size=50.0, average=False, max_iter=100)
    with pytest.warns(
        ConvergenceWarning, match=r"diverged: the fixed step_size=50\.0 is too large|max_iter was reached"
    ):
        learner.fit(vehicle.X, vehicle.y)
    assert not learner.converged_
    assert np.isfinite(learner.components_).all()


def test_a_fixed_step_moves_by_itself_times_the_gradient(vehicle, moments):
    """One step of Algorithm 1 from the identity: M = I - ρ ∇D(I)."""
    rho, h = 1e-3, 1e-5
    with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
        M = matrix(AML(solver="projected-gradient", step_size=rho, max_iter=1), vehicle.X, vehicle.y)
    gradient = (np.eye(18) - M) / rho
    E = np.random.default_rng(0).normal(size=(18, 18))
    E = E + E.T
    ahead = derived_objective(np.eye(18) + h * E, moments.A, moments.B, 1.0, 1.0)
    behind = derived_objective(np.eye(18) - h * E, moments.A, moments.B, 1.0, 1.0)
    assert np.vdot(gradient, E) == pytest.approx((ahead - behind) / (2 * h), rel=1e-6)


def test_a_warm_start_gives_the_same_metric(moments):
    first = solve(moments, make_adversary("derived", 1.0, 0.1), t=0.25, tol=1e-9)
    cold = solve(moments, make_adversary("derived", 100.0, 0.1), t=0.25, tol=1e-9)
    warm = solve(moments, make_adversary("derived", 100.0, 0.1), t=0.25, tol=1e-9, start=first.x)
    np.testing.assert_allclose(warm.x.matrix, cold.x.matrix, atol=1e-6 * cold.x.lam.max())
    assert warm.objective[-1] == pytest.approx(cold.objective[-1], rel=1e-10)


# --- adversarial pairs ----------------------------------------------------------------------------------


def confused(pairs, y, M, beta):
    """The derived adversary's pairs, one by one, from the closed form with M itself."""
    identity = np.eye(len(M))
    contraction = beta * M @ M @ np.linalg.inv(2 * identity + beta * M @ M)
    result = np.empty_like(pairs)
    for i, ((x, other), label) in enumerate(zip(pairs, y, strict=True)):
        v = x - other
        moved = contraction @ v if label == 1 else beta / (2 + beta) * v
        result[i] = 0.5 * (x + other) + 0.5 * moved, 0.5 * (x + other) - 0.5 * moved
    return result


@pytest.mark.parametrize("beta", [0.1, 1.0, 10.0])
def test_adversarial_pairs_follow_the_closed_form(vehicle, beta):
    learned = AML(beta=beta).fit(vehicle.formed, vehicle.kinds)
    found = learned.adversarial_pairs(vehicle.formed, vehicle.kinds)
    assert found.shape == (400, 2, 18)
    expected = confused(vehicle.formed, vehicle.kinds, learned.get_mahalanobis_matrix(), beta)
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_the_expanding_adversary_pushes_similar_pairs_apart_and_dissimilar_ones_together(vehicle):
    learned = AML(adversary="expanding").fit(vehicle.formed, vehicle.kinds)
    found = learned.adversarial_pairs(vehicle.formed, vehicle.kinds)
    change = learned.pair_distance(found) / learned.pair_distance(vehicle.formed)
    assert np.all(change[vehicle.kinds == 1] > 1.0)
    assert np.all(change[vehicle.kinds == -1] < 1.0)
    np.testing.assert_allclose(found.mean(axis=1), vehicle.formed.mean(axis=1), atol=1e-12)


def test_adversarial_pairs_take_points_formed_and_index_pairs(vehicle):
    X, y = vehicle.X[:60], vehicle.y[:60]
    every = AllPairs().sample(X, y)
    indices = np.column_stack([every.left, every.right])
    learned = AML().fit(X, y)
    from_points = learned.adversarial_pairs(X, y)
    assert from_points.shape == (60 * 59 // 2, 2, 18)
    np.testing.assert_allclose(learned.adversarial_pairs(X[indices], every.y), from_points, atol=1e-12)
    learned.set_params(preprocessor=X)
    np.testing.assert_allclose(learned.adversarial_pairs(indices, every.y), from_points, atol=1e-12)


def test_adversarial_pairs_of_points_are_those_of_the_sampler(vehicle):
    learned = AML(pairs=70, random_state=0).fit(vehicle.X, vehicle.y)
    found = learned.adversarial_pairs(vehicle.X, vehicle.y)
    assert len(found) == 70
    np.testing.assert_array_equal(found, learned.adversarial_pairs(vehicle.X, vehicle.y))


def test_directions_that_the_metric_does_not_see_are_left_alone(vehicle):
    learned = AML(n_components=3).fit(vehicle.formed, vehicle.kinds)
    moved = learned.adversarial_pairs(vehicle.formed, vehicle.kinds) - vehicle.formed
    _, _, Vt = np.linalg.svd(learned.components_)
    np.testing.assert_allclose(moved @ Vt[3:].T, 0.0, atol=1e-10)
    assert np.abs(moved @ Vt[:3].T).max() > 0.1


def test_adversarial_pairs_by_blocks_are_those_of_all_at_once(vehicle, monkeypatch):
    learned = AML().fit(vehicle.formed, vehicle.kinds)
    expected = learned.adversarial_pairs(vehicle.formed, vehicle.kinds)
    monkeypatch.setattr("advmetric.pairs.data.BLOCK_BYTES", 8 * 18 * 33)
    np.testing.assert_allclose(learned.adversarial_pairs(vehicle.formed, vehicle.kinds), expected, atol=1e-13)
