"""The prior metric."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from advmetric import AML, GMML, PairAML
from advmetric.learners.prior import covariance_root, prior_matrix
from advmetric.pairs.data import LabelledPoints


@pytest.mark.parametrize("scale", [1e-160, 1e-5, 1.0, 1e150])
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("convert", [np.asarray, csr_array])
def test_the_covariance_prior_is_the_inverse_covariance_whatever_the_scale(scale, offset, convert, vehicle):
    X = vehicle.X[:, :6]
    covariance = np.cov(X.T, ddof=0)
    found = prior_matrix("covariance", LabelledPoints(convert((X + offset) * scale), vehicle.y), 6)
    np.testing.assert_allclose(found, np.linalg.inv(covariance) * np.trace(covariance) / 6, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("make", [AML, GMML])
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_the_name_does_what_the_matrix_does(make, scale, vehicle):
    X = vehicle.X[:, :6]
    covariance = np.cov(X.T, ddof=0)
    by_name = make(prior="covariance", reg=0.5).fit(X * scale, vehicle.y)
    by_matrix = make(prior=np.linalg.inv(covariance) * np.trace(covariance) / 6, reg=0.5).fit(X * scale, vehicle.y)
    M = by_matrix.get_mahalanobis_matrix()
    np.testing.assert_allclose(by_name.get_mahalanobis_matrix(), M, rtol=1e-5, atol=1e-8 * np.abs(M).max())
    other = make(prior="identity", reg=0.5).fit(X * scale, vehicle.y).get_mahalanobis_matrix()
    assert not np.allclose(by_name.get_mahalanobis_matrix() / M.max(), other / M.max(), rtol=1e-2)


@pytest.mark.parametrize("make", [AML, GMML])
@pytest.mark.parametrize("kind", ["points", "pairs"])
def test_sparse_points_give_the_prior_of_dense_ones(make, kind, vehicle):
    X = np.where(vehicle.X > 0.5, vehicle.X, 0.0)[:, :6]
    learner = make(prior="covariance", reg=0.5)
    if kind == "points":
        dense, sparse = (make(prior="covariance", reg=0.5).fit(Z, vehicle.y) for Z in (X, csr_array(X)))
    else:
        dense, sparse = (
            make(prior="covariance", reg=0.5, preprocessor=Z).fit(vehicle.indices, vehicle.kinds)
            for Z in (X, csr_array(X))
        )
    np.testing.assert_allclose(sparse.get_mahalanobis_matrix(), dense.get_mahalanobis_matrix(), rtol=1e-6, atol=1e-9)
    assert learner.prior == "covariance"


def test_directions_without_spread_get_a_finite_prior():
    X = np.random.default_rng(0).normal(size=(20, 3))
    X = np.c_[X, X[:, 0], np.ones(20)]
    for points in (X, csr_array(X), np.ones((5, 4))):
        assert np.isfinite(covariance_root(points)).all()


def test_batches_cannot_give_the_covariance(vehicle):
    with pytest.raises(ValueError, match="prior='covariance' needs the points, which batches do not keep"):
        AML(prior="covariance").partial_fit(vehicle.X, vehicle.y)


def test_complex_priors_are_refused(vehicle):
    for learner in (AML, GMML, PairAML):
        with pytest.raises(ValueError, match="Complex data not supported: prior must be"):
            learner(prior=np.eye(18) * (1 + 0j)).fit(vehicle.X, vehicle.y)


@pytest.mark.filterwarnings("error")
def test_priors_of_huge_condition_give_no_warning_of_scipy(vehicle):
    X = vehicle.X[:, :3]
    learned = GMML(prior=np.diag([1e-9, 1.0, 1e9])).fit(X, vehicle.y)
    assert np.isfinite(learned.components_).all()


def test_other_names_are_refused(vehicle):
    with pytest.raises(ValueError, match="prior='inverse' is not known; use 'identity', 'covariance'"):
        AML(prior="inverse").fit(vehicle.X, vehicle.y)
