"""AMLCV's choice as a method of the registry."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from advmetric.algorithms.registry import SEARCH, methods
from advmetric.pairs.data import LabelledPoints, Pairs
from advmetric.utils.errors import UsageError
from advmetric.workflows.choice import choose_method
from advmetric.workflows.fit import fit_samples
from advmetric.workflows.parameters import find_method


@pytest.fixture(scope="module")
def few(vehicle):
    return LabelledPoints(StandardScaler().fit_transform(vehicle.X)[::8], vehicle.y[::8])


def test_the_choice_is_a_method_with_parameters_that_it_takes(few, vehicle):
    method, params, how = choose_method({"cv": 2}, few, 0)
    assert method in methods()
    method.estimator(**params)._check_params()
    assert "2-fold cross-validation" in how
    pairs = Pairs(vehicle.X, *vehicle.indices.T, vehicle.kinds)
    method, params, _ = choose_method({"cv": 2, "losses": ["pairs"]}, pairs, 0)
    assert method.name == "PairAML"
    method.estimator(**params)._check_params()


def test_fit_learns_with_the_chosen_method(few):
    assert find_method("amlcv") is SEARCH
    found = fit_samples(SEARCH, {"cv": 2, "losses": ["softmax"]}, few, seed=1)
    assert found.method is not None
    assert found.method.name == "NeighborAML"
    assert found.params["loss"] == "softmax"
    assert "NeighborAML" in found.scores
    assert np.isfinite(found.metric.components).all()


def test_a_choice_without_tuning_is_refused(few):
    with pytest.raises(UsageError, match="leave out --no-tune"):
        fit_samples(SEARCH, {}, few, tuned=False)
