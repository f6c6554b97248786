"""Splits, tuning and methods of the comparison: everything is chosen inside the training part."""

import numpy as np
import pytest

from advmetric import load_dataset
from advmetric.algorithms.registry import Method
from advmetric.experiments import protocol
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Task
from advmetric.experiments.protocol import contenders, fit_tuned, make_learner, split

BY_NAME = contenders()


def test_scaling_is_fitted_on_the_training_part_only():
    parts = split("vehicle", 0)
    np.testing.assert_allclose(parts.X_train.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(parts.X_train.std(axis=0), 1.0, rtol=1e-12)
    assert np.abs(parts.X_test.mean(axis=0)).max() > 1e-3
    assert len(parts.X_test) == pytest.approx(0.2 * 846, abs=1)


def test_wide_sets_are_reduced_to_fifty_components_and_subsets_are_stratified():
    parts = split("mnist-4000", 0, max_rows=500)
    assert parts.X_train.shape == (400, 50)
    assert np.bincount(np.concatenate([parts.y_train, parts.y_test])).tolist() == [50] * 10


def test_trials_differ_and_are_reproducible():
    first, again, other = split("vehicle", 0), split("vehicle", 0), split("vehicle", 1)
    np.testing.assert_array_equal(first.X_test, again.X_test)
    assert not np.array_equal(first.y_test, other.y_test)


@pytest.mark.parametrize(
    ("name", "grid", "best"), [("GMML", {"t": (1.0, 0.1)}, 0.1), ("RVML", {"lam": (1e6, 1e-2)}, 1e-2)]
)
def test_tuning_picks_the_best_of_the_grid_by_cross_validation(name, grid, best):
    method = Method(name, BY_NAME[name].estimator, "", "", grid)
    learner, chosen = fit_tuned(method, split("vehicle", 0), Task("table1", "vehicle", name, 0))
    assert list(chosen.values()) == [best]
    assert learner.get_params()[next(iter(grid))] == best


@pytest.mark.slow
def test_amlcv_tunes_by_itself_with_the_folds_of_the_profile():
    parts = split("breast-cancer", 0, max_rows=40)
    learner, chosen = fit_tuned(BY_NAME["AMLCV"], parts, Task("table1", "breast-cancer", "AMLCV", 0, "quick"))
    assert chosen == {"loss": learner.best_loss_}
    assert sum(key.startswith("split") for key in learner.cv_results_) == 3


def test_the_test_part_has_no_say(monkeypatch):
    """Everything is learned from the training part or from folds of it."""
    parts = split("breast-cancer", 0)
    seen = []
    learn = BY_NAME["RVML"].estimator._learn

    def watched(self, data, **extra):
        seen.append(len(data))
        return learn(self, data, **extra)

    monkeypatch.setattr(BY_NAME["RVML"].estimator, "_learn", watched)
    fit_tuned(BY_NAME["RVML"], parts, Task("table1", "breast-cancer", "RVML", 0))
    folds = {len(parts.X_train) - len(parts.X_train) // 3 - extra for extra in (0, 1)}
    assert set(seen[:-1]) <= folds
    assert seen[-1] == len(parts.X_train)


def test_all_pair_methods_learn_from_the_same_pairs():
    parts = split("vehicle", 0)
    samplers = {}
    for name, method in BY_NAME.items():
        learner = make_learner(method, {}, pairs=300, random_state=7)
        if "pairs" in learner.get_params() and method.draws_paper_pairs:
            samplers[name] = (learner.get_params()["pairs"], learner.get_params()["random_state"])
    assert {"ITML", "FlatGeo", "GMML", "ERML", "DRML", "AML"} <= set(samplers)
    assert set(samplers.values()) == {(300, 7)}
    assert len(parts.y_train)


def test_nca_learns_from_a_stratified_draw_of_many_points(monkeypatch):
    monkeypatch.setattr(protocol, "NCA_ROWS", 100)
    data = load_dataset("vehicle")
    drawn = []
    monkeypatch.setattr(
        "sklearn.neighbors.NeighborhoodComponentsAnalysis.fit",
        lambda self, X, y: drawn.append((len(X), np.bincount(y))),
    )
    protocol.NCA(random_state=0).fit(data.X, data.y)
    assert drawn[0][0] == 100
    assert drawn[0][1].min() >= 20


def test_a_plan_goes_trial_by_trial():
    tasks = Plan(profile="quick", trials=2).tasks("table1", ["a", "b"], ["m"])
    assert [(t.trial, t.dataset) for t in tasks] == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert {t.profile for t in tasks} == {"quick"}
    assert len(Plan().tasks("x", ["a"], ["m"])) == 20
    assert len(Plan().tasks("x", ["a"], ["m"], trials=5)) == 5
