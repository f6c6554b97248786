"""Probabilities and thresholds of learners on pairs."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss

from advmetric import AML, GMML, Euclidean, Mahalanobis


def test_probabilities_add_up_and_follow_the_distance(pair_learner, vehicle):
    pair_learner.fit(vehicle.formed, vehicle.kinds)
    probabilities = pair_learner.predict_proba(vehicle.formed)
    assert probabilities.shape == (len(vehicle.formed), 2)
    assert np.all((probabilities >= 0.0) & (probabilities <= 1.0))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    order = np.argsort(pair_learner.pair_distance(vehicle.formed))
    assert np.all(np.diff(probabilities[order, 1]) <= 1e-12)  # columns as in classes_: -1, +1
    constant = np.full(len(vehicle.kinds), np.mean(vehicle.kinds == 1))
    assert log_loss(vehicle.kinds, probabilities) < log_loss(vehicle.kinds, constant)


def test_index_pairs_have_the_probabilities_of_formed_pairs(vehicle):
    learned = AML(preprocessor=vehicle.X).fit(vehicle.indices, vehicle.kinds)
    np.testing.assert_allclose(learned.predict_proba(vehicle.indices), learned.predict_proba(vehicle.formed))


def test_probabilities_need_pairs_and_survive_a_file(vehicle, tmp_path):
    on_points = GMML().fit(vehicle.X, vehicle.y)
    assert not hasattr(on_points, "predict_proba")
    with pytest.raises(ValueError, match="set_threshold gives no probabilities; fit them with calibrate_threshold"):
        on_points.set_threshold(1.0).predict_proba(vehicle.formed)
    on_points.calibrate_threshold(vehicle.formed, vehicle.kinds)
    expected = on_points.predict_proba(vehicle.formed)[:, 1]
    on_points.get_metric().save(tmp_path / "metric.npz")
    distances = on_points.pair_distance(vehicle.formed)
    np.testing.assert_allclose(Mahalanobis.load(tmp_path / "metric.npz").probability(distances), expected)


def test_scikit_learns_calibration_takes_a_learner_of_pairs(vehicle):
    model = CalibratedClassifierCV(Euclidean().fit(vehicle.formed, vehicle.kinds), cv=2)
    assert model.fit(vehicle.formed, vehicle.kinds).predict_proba(vehicle.formed).shape == (len(vehicle.kinds), 2)


def test_f_beta_at_beta_zero_is_precision(vehicle):
    learned = AML().fit(vehicle.formed, vehicle.kinds)
    learned.calibrate_threshold(vehicle.formed, vehicle.kinds, strategy="f_beta", beta=0)
    called = learned.predict(vehicle.formed) == 1
    distances = learned.pair_distance(vehicle.formed)
    order = np.argsort(distances)
    best = max(np.mean(vehicle.kinds[order][:k] == 1) for k in range(1, len(order) + 1))
    assert called.any()
    assert np.mean(vehicle.kinds[called] == 1) == pytest.approx(best)


@pytest.mark.parametrize("beta", [-1.0, np.nan, np.inf])
def test_other_betas_are_refused(vehicle, beta):
    learned = AML().fit(vehicle.formed, vehicle.kinds)
    before = learned.threshold_
    with pytest.raises(ValueError, match=r"beta=.* must be a finite number >= 0"):
        learned.calibrate_threshold(vehicle.formed, vehicle.kinds, strategy="f_beta", beta=beta)
    assert learned.threshold_ == before
