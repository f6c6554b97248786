"""Learners and searches in joblib's worker processes, which are started once for this file."""

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, cross_val_score

from advmetric import AML, AMLCV

GRID = {"alphas": [0.0, 1.0, 100.0], "betas": [0.01, 1.0], "ts": [0.1, 0.5]}
FOLDS = StratifiedKFold(3)


def scores_of(search):
    results = search.cv_results_
    return np.column_stack([results[name] for name in sorted(results) if name.startswith("split")])


def test_learners_run_inside_joblib_workers(vehicle):
    scores = cross_val_score(AML(), vehicle.formed, vehicle.kinds, cv=FOLDS, n_jobs=2)
    np.testing.assert_array_equal(scores, cross_val_score(AML(), vehicle.formed, vehicle.kinds, cv=FOLDS))


def test_two_jobs_give_the_same_results_as_one(vehicle):
    for data, y in ((vehicle.X, vehicle.y), (vehicle.formed, vehicle.kinds)):
        one = AMLCV(**GRID, n_components=[None, 5], cv=2).fit(data, y)
        two = clone(one).set_params(n_jobs=2).fit(data, y)
        # Workers get copies of the arrays, with another alignment and so other last digits: of 100 x 100 ranks of an
        # AUC, two may be exchanged.
        np.testing.assert_allclose(scores_of(two), scores_of(one), atol=0.0 if data.ndim == 2 else 2e-4, rtol=0.0)
        np.testing.assert_array_equal(two.components_, one.components_)
        assert two.best_params_ == one.best_params_


def test_scorers_work_in_other_processes(vehicle):
    search = AMLCV(alphas=[0, 1], betas=1.0, ts=0.5, cv=2, scoring="f1").fit(vehicle.formed, vehicle.kinds)
    two = clone(search).set_params(n_jobs=2).fit(vehicle.formed, vehicle.kinds)
    np.testing.assert_array_equal(scores_of(two), scores_of(search))
