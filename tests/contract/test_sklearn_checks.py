"""scikit-learn: its own checks on every learner, and the tools that users put round them."""

import os
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, roc_auc_score
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version
from sklearn.utils.validation import check_is_fitted

import advmetric
from advmetric import AML, GMML
from advmetric.learners.base import MetricLearner

FOLDS = StratifiedKFold(3)


def test_sklearn_check(estimator, check):
    check(estimator)


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.7"), reason="wants labels of NumPy back in the namespace of X"
)
def test_the_array_api_checks_pass_where_they_are_switched_on(learners):
    """scikit-learn skips them unless SCIPY_ARRAY_API is set before SciPy is imported: do that."""
    script = """if True:
        import sys, pickle, unittest
        import torch
        from sklearn.utils import estimator_checks
        from sklearn.utils.estimator_checks import estimator_checks_generator
        # scikit-learn skips checks on a GPU where PyTorch is built without CUDA, not where there is no GPU.
        torch.backends.cuda.is_built = torch.cuda.is_available
        same = getattr(estimator_checks, "check_array_api_same_namespace", None)  # new in scikit-learn 1.9
        for learner in pickle.load(sys.stdin.buffer):
            if same is not None and learner.accepts_array_api:
                same(type(learner).__name__, learner, "torch")
            for estimator, check in estimator_checks_generator(learner):
                if check.func.__name__.startswith("check_array_api"):
                    try:
                        check(estimator)
                    except unittest.SkipTest:  # no CuPy, no GPU
                        continue
                    given = check.keywords
                    print(type(learner).__name__, given.get("array_namespace") or given["X_ns_and_device"].xp)
    """
    environment = os.environ | {"SCIPY_ARRAY_API": "1", "PYTHONWARNINGS": "error"}
    given = pickle.dumps(list(learners.values()))
    run = subprocess.run([sys.executable, "-c", script], env=environment, input=given, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()
    passed = set(run.stdout.decode().splitlines())
    for learner in learners.values():
        expected = {"numpy", "torch", "array_api_strict"} if learner.accepts_array_api else {"numpy"}
        assert {f"{type(learner).__name__} {namespace}" for namespace in expected} <= passed


def test_every_public_learner_is_held_to_the_contract(learners):
    public = {getattr(advmetric, name) for name in advmetric.__all__}
    classes = {value for value in public if isinstance(value, type) and issubclass(value, MetricLearner)}
    # A kernel's distance is not x ↦ Lx: KernelRVML passes scikit-learn's checks (tests/baselines/test_rvml.py) only.
    assert classes - {advmetric.KernelRVML} <= {type(learner) for learner in learners.values()}


# --- points ---------------------------------------------------------------------------------------------


def test_a_pipeline_of_a_learner_and_neighbours_classifies(point_learner, vehicle):
    X, y = vehicle.X, vehicle.y
    model = make_pipeline(StandardScaler(), point_learner, KNeighborsClassifier(5))
    scores = cross_val_score(model, X, y, cv=FOLDS)
    by_hand = []
    for train, test in FOLDS.split(X, y):
        scaler = StandardScaler().fit(X[train])
        learned = clone(point_learner).fit(scaler.transform(X[train]), y[train])
        neighbours = KNeighborsClassifier(5).fit(learned.transform(scaler.transform(X[train])), y[train])
        by_hand.append(neighbours.score(learned.transform(scaler.transform(X[test])), y[test]))
    np.testing.assert_allclose(scores, by_hand)
    assert scores.mean() > 0.55


def test_grid_search_over_a_pipeline_tunes_the_learner(vehicle):
    model = make_pipeline(StandardScaler(), AML(), KNeighborsClassifier(5))
    search = GridSearchCV(model, {"aml__t": [0.1, 0.5], "aml__alpha": [0.0, 1.0]}, cv=FOLDS).fit(vehicle.X, vehicle.y)
    assert search.best_params_["aml__t"] == 0.1
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()


def test_cross_val_score_on_labels_without_a_classifier_is_the_auc_over_pairs_of_points(vehicle):
    X, y = vehicle.X, vehicle.y
    for (train, test), score in zip(FOLDS.split(X, y), cross_val_score(GMML(), X, y, cv=FOLDS), strict=True):
        learned = GMML().fit(X[train], y[train])
        left, right = np.triu_indices(len(test), k=1)
        distances = np.linalg.norm(learned.transform(X[test])[left] - learned.transform(X[test])[right], axis=1)
        assert score == pytest.approx(roc_auc_score(y[test][left] == y[test][right], -distances))


# --- pairs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["formed", pytest.param("indices", marks=pytest.mark.slow)])
def test_cross_validation_on_pairs_equals_a_loop(pair_learner, vehicle, kind):
    pairs, y = getattr(vehicle, kind), vehicle.kinds
    if kind == "indices":
        pair_learner.set_params(preprocessor=vehicle.X)
    names = ("roc_auc", "accuracy", "f1", "average_precision")
    own = {"own": lambda learner, X, y: learner.score(X, y)}
    scores = cross_validate(pair_learner, pairs, y, cv=FOLDS, scoring=dict(zip(names, names, strict=True)) | own)
    for fold, (train, test) in enumerate(FOLDS.split(pairs, y)):
        learned = clone(pair_learner).fit(pairs[train], y[train])
        distances = learned.pair_distance(pairs[test])
        predicted = np.where(distances <= learned.threshold_, 1, -1)
        expected = {
            "roc_auc": roc_auc_score(y[test], -distances),
            "accuracy": accuracy_score(y[test], predicted),
            "f1": f1_score(y[test], predicted),
            "average_precision": average_precision_score(y[test], -distances),
            "own": roc_auc_score(y[test], -distances),
        }
        for name, value in expected.items():
            assert scores[f"test_{name}"][fold] == pytest.approx(value), name


def test_cross_val_score_without_a_scorer_is_the_learners_own(vehicle):
    own = cross_val_score(GMML(), vehicle.formed, vehicle.kinds, cv=FOLDS)
    np.testing.assert_allclose(own, cross_val_score(GMML(), vehicle.formed, vehicle.kinds, cv=FOLDS, scoring="roc_auc"))


def test_grid_search_on_pairs_finds_the_parameter_with_the_best_auc(vehicle):
    ts = [0.0, 0.1, 0.5, 0.9]
    search = GridSearchCV(AML(), {"t": ts}, cv=FOLDS, scoring="roc_auc").fit(vehicle.formed, vehicle.kinds)
    by_hand = [cross_val_score(AML(t=t), vehicle.formed, vehicle.kinds, cv=FOLDS, scoring="roc_auc").mean() for t in ts]
    assert search.best_params_ == {"t": ts[int(np.argmax(by_hand))]}
    assert is_classifier(search.best_estimator_)
    assert set(search.predict(vehicle.formed)) == {-1, 1}


def test_cross_val_predict_gives_out_of_fold_decisions(pair_learner, vehicle):
    predicted = cross_val_predict(pair_learner, vehicle.formed, vehicle.kinds, cv=FOLDS)
    for train, test in FOLDS.split(vehicle.formed, vehicle.kinds):
        learned = clone(pair_learner).fit(vehicle.formed[train], vehicle.kinds[train])
        np.testing.assert_array_equal(predicted[test], learned.predict(vehicle.formed[test]))


@pytest.mark.parametrize("kind", ["formed", "indices"])
def test_calibrated_classifier_gives_probabilities_that_fall_with_the_distance(pair_learner, vehicle, kind):
    pairs = getattr(vehicle, kind)
    if kind == "indices":
        pair_learner.set_params(preprocessor=vehicle.X)
    model = CalibratedClassifierCV(pair_learner, cv=FOLDS).fit(pairs, vehicle.kinds)
    probability = model.predict_proba(pairs)
    np.testing.assert_array_equal(model.classes_, [-1, 1])
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert probability[:, 1].max() > probability[:, 1].min() + 0.05
    for part in model.calibrated_classifiers_:
        nearest_first = np.argsort(part.estimator.pair_distance(pairs))
        assert np.all(np.diff(part.predict_proba(pairs)[nearest_first, 1]) <= 1e-12)


@pytest.mark.parametrize("kind", ["formed", pytest.param("indices", marks=pytest.mark.slow)])
def test_tuned_threshold_classifier_maximises_its_score_on_pairs(pair_learner, vehicle, kind):
    pairs, y = getattr(vehicle, kind), vehicle.kinds
    if kind == "indices":
        pair_learner.set_params(preprocessor=vehicle.X)
    model = TunedThresholdClassifierCV(
        pair_learner, scoring="f1", cv=FOLDS, thresholds=20, response_method="decision_function"
    ).fit(pairs, y)
    assert np.isfinite(model.best_threshold_)
    everything_similar = f1_score(y, np.ones_like(y))
    assert f1_score(y, model.predict(pairs)) >= everything_similar - 0.05
    np.testing.assert_array_equal(
        model.predict(pairs), np.where(model.estimator_.decision_function(pairs) >= model.best_threshold_, 1, -1)
    )


def test_fixed_threshold_classifier_moves_the_cut(pair_learner, vehicle):
    fixed = FixedThresholdClassifier(pair_learner, threshold=-0.5, response_method="decision_function").fit(
        vehicle.formed, vehicle.kinds
    )
    expected = np.where(fixed.estimator_.decision_function(vehicle.formed) >= -0.5, 1, -1)
    np.testing.assert_array_equal(fixed.predict(vehicle.formed), expected)
    assert (expected == 1).sum() > (fixed.estimator_.predict(vehicle.formed) == 1).sum()


def test_an_unfitted_learner_shows_predict_and_says_that_it_is_not_fitted(pair_learner, vehicle):
    for method in ("predict", "decision_function"):
        assert hasattr(pair_learner, method)
        with pytest.raises(NotFittedError):
            getattr(pair_learner, method)(vehicle.formed)


def test_a_learner_fitted_on_points_has_no_predict_until_a_threshold_is_set(fitted_on_points, vehicle):
    assert not hasattr(fitted_on_points, "predict")
    assert not hasattr(fitted_on_points, "decision_function")
    fitted_on_points.set_threshold(3.0)
    assert set(fitted_on_points.predict(vehicle.formed)) <= {-1, 1}


# --- copies ---------------------------------------------------------------------------------------------


def test_clone_keeps_the_parameters_and_nothing_learned(learner, vehicle):
    learner.fit(vehicle.X, vehicle.y)
    copy = clone(learner)
    assert copy.get_params() == learner.get_params()
    assert not [name for name in vars(copy) if name.endswith("_") or name.startswith("_")]


@pytest.mark.parametrize("kind", ["X", "formed"])
def test_pickle_and_joblib_round_trips_are_exact(learner, vehicle, kind, tmp_path):
    if kind == "formed" and "pairs" not in learner.supervision:
        pytest.skip(f"{type(learner).__name__} does not learn from pairs")
    learner.fit(getattr(vehicle, kind), vehicle.y if kind == "X" else vehicle.kinds)
    joblib.dump(learner, tmp_path / "learner.joblib")
    for copy in (pickle.loads(pickle.dumps(learner)), joblib.load(tmp_path / "learner.joblib")):
        check_is_fitted(copy)
        np.testing.assert_array_equal(copy.components_, learner.components_)
        np.testing.assert_array_equal(copy.transform(vehicle.X), learner.transform(vehicle.X))
        assert is_classifier(copy) == is_classifier(learner) == (kind == "formed")
        if kind == "formed":
            np.testing.assert_array_equal(copy.predict(vehicle.formed), learner.predict(vehicle.formed))


# --- output ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["X", "formed"])
def test_set_output_gives_data_frames_with_the_names_of_the_components(learner, vehicle, kind):
    if kind == "formed" and "pairs" not in learner.supervision:
        pytest.skip(f"{type(learner).__name__} does not learn from pairs")
    learner.fit(getattr(vehicle, kind), vehicle.y if kind == "X" else vehicle.kinds)
    plain = learner.transform(vehicle.X)
    frame = learner.set_output(transform="pandas").transform(vehicle.X)
    assert isinstance(frame, pd.DataFrame)
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    prefix = type(learner).__name__.lower()
    expected = [f"{prefix}{i}" for i in range(len(learner.components_))]
    assert list(frame.columns) == list(learner.get_feature_names_out()) == expected


def test_data_frames_in_keep_their_index_and_names(point_learner, vehicle):
    frame = pd.DataFrame(vehicle.X, columns=[f"size {i}" for i in range(18)], index=np.arange(len(vehicle.X)) + 1000)
    point_learner.set_output(transform="pandas").fit(frame, vehicle.y)
    assert list(point_learner.feature_names_in_) == list(frame.columns)
    assert point_learner.transform(frame).index.equals(frame.index)
    with pytest.raises(ValueError, match="feature names should match"):
        point_learner.transform(frame[frame.columns[::-1]])
