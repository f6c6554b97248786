"""SPD algebra against pyRiemann, scipy and sixty-digit arithmetic."""

import mpmath as mp
import numpy as np
import pytest
from pyriemann.geometry.geodesic import geodesic_riemann
from scipy.linalg import fractional_matrix_power, sqrtm

from advmetric.linalg.spd import Geodesic, geometric_mean, leading_generalised, project_spd, spd_factor, symmetrize
from reference.matrices import DIGITS, affine_error, exact, exact_geometric_mean, norm_error, random_spd

pytestmark = pytest.mark.numerical

EPS = np.finfo(float).eps
WEIGHTS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@pytest.fixture(autouse=True)
def sixty_digits():
    with mp.workdps(DIGITS):
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(20180713)


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


# --- the geometric mean ---------------------------------------------------------------------------------


@pytest.mark.parametrize("t", WEIGHTS)
@pytest.mark.parametrize("d", [1, 2, 7, 30])
def test_geometric_mean_agrees_with_pyriemann(rng, d, t):
    P, Q = random_spd(rng, d, 1e2), random_spd(rng, d, 1e3)
    assert relative(geometric_mean(P, Q, t), geodesic_riemann(P, Q, t)) < 1e-12


@pytest.mark.parametrize("t", WEIGHTS)
def test_geometric_mean_agrees_with_matrix_functions_of_scipy(rng, t):
    P, Q = random_spd(rng, 6, 1e2), random_spd(rng, 6, 1e2)
    root = sqrtm(P)
    inverse = np.linalg.inv(root)
    expected = root @ fractional_matrix_power(symmetrize(inverse @ Q @ inverse), t) @ root
    assert relative(geometric_mean(P, Q, t), expected) < 1e-12


@pytest.mark.parametrize("conditions", [(1e1, 1e1), (1e12, 1e1), (1e1, 1e12), (1e6, 1e6), (1e12, 1e6), (1e12, 1e12)])
def test_geometric_mean_is_right_in_every_direction_up_to_the_condition_number(rng, conditions):
    """The error that a rounding of the input alone makes is about the condition number times eps.

    That holds along the smallest eigenvectors too, where an error in norm would not show.
    """
    bound = 4 * EPS * max(conditions) + 1e-13
    for d in (2, 5):
        P, Q = random_spd(rng, d, conditions[0]), random_spd(rng, d, conditions[1])
        for t in WEIGHTS:
            expected = exact_geometric_mean(exact(P), exact(Q), t)
            assert affine_error(geometric_mean(P, Q, t), expected) < bound


@pytest.mark.parametrize("conditions", [(1e1, 1e1), (1e12, 1e1), (1e1, 1e12), (1e6, 1e6), (1e12, 1e6), (1e12, 1e12)])
def test_geodesic_and_its_inverse_are_right_in_every_direction_up_to_the_condition_number(rng, conditions):
    bound = 4 * EPS * max(conditions) + 1e-13
    for d in (2, 5):
        A, B = random_spd(rng, d, conditions[0]), random_spd(rng, d, conditions[1])
        geodesic = Geodesic.between(A, B)
        for t in WEIGHTS:
            expected = exact_geometric_mean(exact(A) ** -1, exact(B), t)
            assert affine_error(geodesic.at(t), expected) < bound
            assert affine_error(geodesic.inverse_at(t), expected**-1) < bound


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]])
def test_features_on_scales_six_orders_apart_keep_the_geodesic_accurate(rng, order):
    """A and B ill-conditioned in the same directions: the eigenvalues of AB span 24 orders of magnitude."""
    scale = np.logspace(-6.0, 0.0, 5)[order]
    A, B = (symmetrize(scale[:, None] * random_spd(rng, 5) * scale) for _ in range(2))
    geodesic = Geodesic.between(A, B)
    for t in WEIGHTS:
        expected = exact_geometric_mean(exact(A) ** -1, exact(B), t)
        assert affine_error(geodesic.at(t), expected) < 1e-3
        assert affine_error(geodesic.inverse_at(t), expected**-1) < 1e-3
        mean = exact_geometric_mean(exact(A), exact(B), t)
        assert affine_error(geometric_mean(A, B, t), mean) < 1e-12


@pytest.mark.parametrize("t", WEIGHTS)
def test_geometric_mean_is_symmetric_in_its_arguments(rng, t):
    for conditions in ((1e2, 1e2), (1e8, 1e1)):
        P, Q = random_spd(rng, 8, conditions[0]), random_spd(rng, 8, conditions[1])
        assert relative(geometric_mean(P, Q, t), geometric_mean(Q, P, 1.0 - t)) < 10 * EPS * conditions[0] + 1e-13


def test_the_end_points_of_the_mean_are_its_arguments(rng):
    P, Q = random_spd(rng, 9, 1e8), random_spd(rng, 9, 1e4)
    assert relative(geometric_mean(P, Q, 0.0), P) < 1e-13
    assert relative(geometric_mean(P, Q, 1.0), Q) < 1e-13


@pytest.mark.parametrize("scales", [(1e100, 1e100), (1e-100, 1e-100), (1e100, 1e-100), (1e-100, 1e100)])
def test_no_scale_of_the_matrices_overflows(rng, scales):
    P, Q = random_spd(rng, 5), random_spd(rng, 5)
    p, q = (mp.mpf(scale) for scale in scales)
    # Logarithms of such scales (230) lose three digits.
    for t in WEIGHTS:
        mean = exact_geometric_mean(exact(P) * p, exact(Q) * q, t)
        assert norm_error(geometric_mean(P * scales[0], Q * scales[1], t), mean) < 1e-12
        on_geodesic = exact_geometric_mean((exact(P) * p) ** -1, exact(Q) * q, t)
        geodesic = Geodesic.between(P * scales[0], Q * scales[1])
        assert norm_error(geodesic.at(t), on_geodesic) < 1e-12
        assert norm_error(geodesic.inverse_at(t), on_geodesic**-1) < 1e-12


@pytest.mark.parametrize("condition_of_A", [1e1, 1e5])
def test_factors_of_the_geodesic_are_joint_factors_of_its_ends(rng, condition_of_A):
    """Both branches: A the better conditioned, and B the better conditioned."""
    A, B = random_spd(rng, 6, condition_of_A, 3.0), random_spd(rng, 6, 1e3, 0.2)
    geodesic = Geodesic.between(A, B)
    sigma = np.exp(geodesic.log_sigma)
    assert relative((geodesic.W * sigma) @ geodesic.W.T, B) < 1e-11
    assert relative(geodesic.V @ geodesic.V.T, A) < 1e-11
    assert np.abs(geodesic.V.T @ geodesic.W - np.eye(6)).max() < 1e-9
    F = geodesic.factor(0.3)
    assert relative(F @ F.T, geodesic.at(0.3)) < 1e-13


def test_leading_vectors_are_found_where_all_eigenvalues_agree():
    """As with one feature so much larger than the others that A and B are proportional, but for rounding."""
    for seed in range(500):
        rng = np.random.default_rng(seed)
        rounding = 1e-30 * symmetrize(rng.normal(size=(10, 10)))
        shape = np.diag([1.0] + [0.0] * 9) + 1e-4 * np.eye(10)
        a, b = rng.uniform(0.5, 2.0, size=2)
        vectors = leading_generalised(b * shape + rounding, a * shape + rounding, 1)
        assert vectors.shape == (10, 1)
        assert vectors[:, 0] @ (a * shape) @ vectors[:, 0] == pytest.approx(1.0)


def test_results_are_exactly_symmetric(rng):
    A, B = random_spd(rng, 12, 1e6), random_spd(rng, 12, 1e3)
    geodesic = Geodesic.between(A, B)
    for M in (geometric_mean(A, B, 0.3), geodesic.at(0.3), geodesic.inverse_at(0.3)):
        assert np.array_equal(M, M.T)


@pytest.mark.parametrize("singular", [np.diag([1.0, 0.0]), np.diag([1.0, -1e-3]), np.zeros((2, 2))])
def test_a_matrix_that_is_not_positive_definite_is_refused(singular):
    with pytest.raises(np.linalg.LinAlgError):
        Geodesic.between(singular, np.eye(2))
    with pytest.raises(np.linalg.LinAlgError):
        Geodesic.between(np.eye(2), singular)
    with pytest.raises(np.linalg.LinAlgError):
        geometric_mean(singular, np.eye(2))


# --- projection and factor ------------------------------------------------------------------------------


def test_projection_clips_the_spectrum_and_keeps_the_eigenvectors(rng):
    U, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    M = (U * [-3.0, 0.0, 0.5, 2.0, 9.0]) @ U.T
    expected = (U * [0.1, 0.1, 0.5, 2.0, 4.0]) @ U.T
    assert np.abs(project_spd(M, floor=0.1, ceiling=4.0) - expected).max() < 1e-14
    assert np.abs(project_spd(M) - (U * [0.0, 0.0, 0.5, 2.0, 9.0]) @ U.T).max() < 1e-14


def test_projection_leaves_what_is_inside_alone_and_is_idempotent(rng):
    M = random_spd(rng, 6, 1e2)
    assert np.abs(project_spd(M, 1e-3, 2.0) - M).max() < 1e-14
    once = project_spd(rng.standard_normal((6, 6)), 0.2, 1.0)
    assert np.abs(project_spd(once, 0.2, 1.0) - once).max() < 1e-14
    assert np.array_equal(once, once.T)


def test_projection_is_the_nearest_matrix_of_its_set(rng):
    """Variational inequality: ⟨M - P(M), Z - P(M)⟩ <= 0 for every Z in the convex set."""
    for _ in range(20):
        M = symmetrize(3.0 * rng.standard_normal((4, 4)))
        nearest = project_spd(M, 0.3, 2.0)
        for _ in range(20):
            U, _ = np.linalg.qr(rng.standard_normal((4, 4)))
            Z = (U * rng.uniform(0.3, 2.0, 4)) @ U.T
            assert np.sum((M - nearest) * (Z - nearest)) < 1e-12


def test_spd_factor_reproduces_the_matrix_with_rows_by_decreasing_eigenvalue(rng):
    M = random_spd(rng, 7, 1e4, 5.0)
    L = spd_factor(M)
    assert relative(L.T @ L, M) < 1e-14
    squared_norms = np.sum(L**2, axis=1)
    assert np.all(np.diff(squared_norms) < 0)
    assert np.allclose(squared_norms, np.linalg.eigvalsh(M)[::-1], rtol=1e-10)
