"""What GMML and AML share: the prior, the leading subspace and the place t on the geodesic."""

import numpy as np
import pytest
from scipy.linalg import eigh, subspace_angles

from advmetric import GMML, AllPairs, RandomPairs
from advmetric.learners.moments import Moments, scatter_of
from advmetric.learners.prior import prior_matrix
from advmetric.linalg.spd import geometric_mean
from advmetric.pairs.data import LabelledPoints, Pairs, Scatter

pytestmark = pytest.mark.numerical


def random_spd(d, seed=0, condition=100.0):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return (Q * np.geomspace(1.0, condition, d)) @ Q.T


@pytest.fixture
def scatter():
    return Scatter(random_spd(6, 1), 3.0 * random_spd(6, 2), 40, 160)


def brute_force(X, left, right, kinds):
    V = X[left] - X[right]
    return V[kinds == 1].T @ V[kinds == 1] / np.sum(kinds == 1), V[kinds == -1].T @ V[kinds == -1] / np.sum(kinds == -1)


def test_the_moments_of_points_pairs_and_samples_are_averages_of_outer_products(vehicle):
    X, y = vehicle.X[:80], vehicle.y[:80]
    every = AllPairs().sample(X, y)
    A, B = brute_force(X, every.left, every.right, every.y)
    for found in (scatter_of(LabelledPoints(X, y)), scatter_of(LabelledPoints(X, y), AllPairs()), scatter_of(every)):
        np.testing.assert_allclose(found.A, A, atol=1e-10)
        np.testing.assert_allclose(found.B, B, atol=1e-10)
        assert (found.n_similar, found.n_dissimilar) == (np.sum(every.y == 1), np.sum(every.y == -1))
    drawn = RandomPairs(300).sample(X, y, 5)
    A, B = brute_force(X, drawn.left, drawn.right, drawn.y)
    found = scatter_of(LabelledPoints(X, y), 300, 5)
    np.testing.assert_allclose(found.A, A, atol=1e-10)
    np.testing.assert_allclose(found.B, B, atol=1e-10)


def test_given_pairs_are_used_as_they_are_whatever_the_sampler(vehicle):
    pairs = Pairs(vehicle.X, *vehicle.indices.T, vehicle.kinds)
    expected = scatter_of(pairs)
    np.testing.assert_array_equal(scatter_of(pairs, "random", 0).A, expected.A)


def test_the_prior_is_scaled_to_the_trace(scatter):
    M0 = random_spd(6, 3)
    a, b = np.trace(scatter.A) / 6, np.trace(scatter.B) / 6
    found = Moments.regularised(scatter, 0.1, M0)
    np.testing.assert_allclose(found.A, scatter.A + 0.1 * a * np.linalg.inv(M0))
    np.testing.assert_allclose(found.B, scatter.B + 0.1 * b * M0)
    found = Moments.regularised(scatter, 0.1)
    np.testing.assert_allclose(found.A, scatter.A + 0.1 * a * np.eye(6))
    np.testing.assert_allclose(found.B, scatter.B + 0.1 * b * np.eye(6))
    found = Moments.regularised(scatter, 0.0, M0)
    np.testing.assert_array_equal(found.A, scatter.A)
    np.testing.assert_array_equal(found.B, scatter.B)


def test_plain_sums_are_averages_times_the_number_of_pairs(scatter):
    averaged, summed = Moments.regularised(scatter, 0.1), Moments.regularised(scatter, 0.1, average=False)
    np.testing.assert_allclose(summed.A, 40 * averaged.A)
    np.testing.assert_allclose(summed.B, 160 * averaged.B)


def test_pairs_of_one_kind_that_are_all_duplicates_take_the_scale_of_the_other(scatter):
    zero = np.zeros((6, 6))
    b = np.trace(scatter.B) / 6
    np.testing.assert_allclose(Moments.regularised(Scatter(zero, scatter.B, 1, 1), 0.1).A, 0.1 * b * np.eye(6))
    a = np.trace(scatter.A) / 6
    np.testing.assert_allclose(Moments.regularised(Scatter(scatter.A, zero, 1, 1), 0.1).B, 0.1 * a * np.eye(6))
    both = Moments.regularised(Scatter(zero, zero, 1, 1), 0.1)
    np.testing.assert_allclose(both.A, 0.1 * np.eye(6))
    np.testing.assert_allclose(both.B, 0.1 * np.eye(6))


def test_the_leading_subspace_is_spanned_by_the_top_generalised_eigenvectors(scatter):
    moments = Moments.regularised(scatter)
    found = moments.leading(2, scatter)
    _, vectors = eigh(scatter.B, moments.A)
    assert np.max(subspace_angles(found.Q, vectors[:, -2:])) < 1e-7
    np.testing.assert_allclose(found.Q.T @ found.Q, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(found.A, found.Q.T @ moments.A @ found.Q, atol=1e-12)
    np.testing.assert_allclose(found.B, found.Q.T @ moments.B @ found.Q, atol=1e-12)
    components = np.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(found.embed(components), components @ found.Q.T)


def test_the_full_space_is_left_alone(scatter):
    moments = Moments.regularised(scatter)
    assert moments.leading(None, scatter) is moments
    assert moments.leading(6, scatter) is moments
    components = np.eye(6)
    assert moments.embed(components) is components


@pytest.mark.parametrize("t", [0.0, 0.1, 0.25, 0.5, 0.75, 1.0])
def test_the_midpoint_of_the_weighted_moments_is_the_place_t_on_the_geodesic(scatter, t):
    moments = Moments.regularised(scatter)
    A, B = moments.weighted(t)
    expected = geometric_mean(np.linalg.inv(moments.A), moments.B, t)
    np.testing.assert_allclose(geometric_mean(np.linalg.inv(A), B), expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(moments.geodesic.at(t), expected, rtol=1e-8, atol=1e-10)
    if t <= 0.5:
        assert A is moments.A
    if t >= 0.5:
        assert B is moments.B


def test_singular_moments_are_refused_with_advice(scatter):
    singular = np.diag([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    for moments in (Moments(singular, scatter.B), Moments(scatter.A, singular)):
        with pytest.raises(ValueError, match=r"without any spread, and reg is too small.*use a larger reg"):
            moments.geodesic  # noqa: B018
    with pytest.raises(ValueError, match="use a larger reg"):
        Moments(singular, scatter.B).leading(2, scatter)


def test_a_prior_is_returned_symmetric_and_the_identity_as_none():
    assert prior_matrix("identity", None, 6) is None
    M0 = random_spd(6)
    np.testing.assert_array_equal(prior_matrix(M0.tolist(), None, 6), 0.5 * (M0 + M0.T))


def test_a_strong_prior_sets_the_metric(vehicle):
    M0 = random_spd(18, 4, condition=10.0)
    # A + λM₀⁻¹ and B + λM₀ with a large λ: M → (M₀⁻¹)⁻¹ # M₀ = M₀, up to the ratio of the traces.
    M = GMML(prior=M0, reg=1e9).fit(vehicle.X, vehicle.y).get_mahalanobis_matrix()
    np.testing.assert_allclose(M / np.trace(M), M0 / np.trace(M0), atol=1e-8)


def test_the_rows_of_components_are_orthogonal_from_the_largest_eigenvalue_down(vehicle):
    L = GMML().fit(vehicle.X, vehicle.y).components_
    gram = L @ L.T
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-10)
    assert np.all(np.diff(np.diag(gram)) <= 0)
