"""What the base class gives to all learners: the inverse of transform, and metrics in range or none."""

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from advmetric import AML, DRIFT, DRML, ERML, GMML, LMNN, RVML, Euclidean, NeighborAML, PairAML


def test_inverse_transform_undoes_transform(vehicle):
    learned = AML().fit(vehicle.X, vehicle.y)
    np.testing.assert_allclose(learned.inverse_transform(learned.transform(vehicle.X)), vehicle.X, atol=1e-8)


def test_inverse_transform_gives_a_point_with_the_same_image(vehicle):
    learned = GMML(n_components=3).fit(vehicle.X, vehicle.y)
    Z = learned.transform(vehicle.X)
    back = learned.inverse_transform(Z.tolist())
    np.testing.assert_allclose(learned.transform(back), Z, atol=1e-9)
    assert np.all(np.linalg.norm(back, axis=1) <= np.linalg.norm(vehicle.X, axis=1) + 1e-9)


def test_inverse_transform_goes_through_a_pipeline(vehicle):
    X = 100.0 + 7.0 * vehicle.X
    model = make_pipeline(StandardScaler(), AML()).fit(X, vehicle.y)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, rtol=1e-9)


def test_inverse_transform_checks_its_input(vehicle):
    with pytest.raises(NotFittedError):
        AML().inverse_transform(np.eye(2))
    learned = GMML(n_components=3).fit(vehicle.X, vehicle.y)
    for bad in (np.eye(4), np.ones(3)):
        with pytest.raises(ValueError, match=r"Z has shape .*; \(n, 3\) is needed"):
            learned.inverse_transform(bad)
    Z = np.zeros((3, 3))
    with pytest.raises(ValueError, match="Complex data not supported"):
        learned.inverse_transform(Z + 1j)
    Z[1, 2] = np.nan
    for form in (np.asarray, np.ndarray.tolist, pd.DataFrame):
        with pytest.raises(ValueError, match="Input Z contains NaN at row 1, column 2"):
            learned.inverse_transform(form(Z))
    with pytest.raises(ValueError, match="Z has the text a at row 0, column 0"):
        learned.inverse_transform([["a", 1.0, 2.0]])


def test_inverse_transform_of_many_features_that_are_kept_sparse():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 4100))
    learned = Euclidean().fit(X, [0, 0, 1, 1])
    np.testing.assert_array_equal(learned.inverse_transform(X), X)


# --- numbers at the ends of their range -------------------------------------------------------------------

RANGE = [LMNN(), RVML(), ERML(random_state=0), DRML(random_state=0), DRIFT(), PairAML(random_state=0), NeighborAML()]


@pytest.fixture
def few(vehicle):
    return vehicle.X[:60, :4], vehicle.y[:60]


@pytest.mark.parametrize("learner", RANGE, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize("scale", [1e-170, 1e-250, 1e-300])
def test_a_matrix_out_of_range_is_refused(learner, scale, few):
    X, y = few
    with pytest.raises(ValueError, match="finds no finite metric: the features of X are too large, too small"):
        learner.set_params(**{"max_iter": 50} if "max_iter" in learner.get_params() else {}).fit(X * scale, y)


@pytest.mark.parametrize("learner", RANGE, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize("scale", [1e-140, 1e155, 1e200, 1e300])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_embedding_does_not_depend_on_the_scale(learner, scale, few):
    X, y = few
    expected = pdist(learner.fit(X, y).transform(X))
    found = pdist(learner.fit(X * scale, y).transform(X * scale))
    np.testing.assert_allclose(found, expected, rtol=0.02, atol=1e-3 * expected.max())
    M = learner.get_mahalanobis_matrix()
    assert np.isfinite(M).all()
    assert np.linalg.eigvalsh(M / (np.abs(M).max() or 1.0))[0] >= -1e-10


def test_points_at_the_end_of_the_range_are_refused_or_learned_from(few):
    X, y = few
    X = X / np.abs(X).max() * 1.7e308
    with pytest.raises(ValueError, match="finds no finite metric"):
        LMNN().fit(np.where(X > 0, 1.7e308, -1.7e308), y)
    assert np.isfinite(LMNN().fit(X / 4, y).transform(X / 4)).all()


def test_outliers_have_finite_distances(few):
    X, y = few
    X = X.copy()
    X[3] *= 1e160
    learned = Euclidean().fit(X, y)
    pairs = np.stack([X[:5], X[1:6]], axis=1)
    expected = [
        float(np.abs(np.subtract(*pair)).max() * np.linalg.norm(np.subtract(*pair) / np.abs(np.subtract(*pair)).max()))
        for pair in pairs
    ]
    np.testing.assert_allclose(learned.pair_distance(pairs), expected, rtol=1e-12)
    on_pairs = Euclidean().fit(np.stack([X[:30], X[30:]], axis=1), np.where(y[:30] == y[30:], 1, -1))
    assert np.isfinite(on_pairs.threshold_)


def test_tiny_distances_do_not_vanish(few):
    X, y = few
    learned = Euclidean().fit(X * 1e-200, y)
    pairs = np.stack([X[:5], X[1:6]], axis=1)
    np.testing.assert_allclose(learned.pair_distance(pairs * 1e-200), 1e-200 * learned.pair_distance(pairs))


def test_distances_out_of_range_are_refused_by_name(few):
    X, y = few
    learned = Euclidean().fit(X, y)
    pairs = np.stack([np.full((2, 4), -1.7e308), np.full((2, 4), 1.7e308)], axis=1)
    pairs[0] = 0.0
    with pytest.raises(ValueError, match="pair 1 is too far apart"):
        learned.pair_distance(pairs)
    with pytest.raises(ValueError, match="the embedding of X is out of the range of float32"):
        GMML().fit(X * 1e-30, y).transform(np.full((1, 4), 3e38, np.float32))
