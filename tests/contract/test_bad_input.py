"""Bad input: an error that names the argument, the place and what to do, from every learner and method."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from advmetric import AML, AMLCV, ARML, DRIFT, GMML, ITML, LMNN, FlatGeo, NeighborAML, load_dataset, methods


def raises(message, kind=ValueError):
    return pytest.raises(kind, match=re.escape(message))


QUESTIONS_ON_PAIRS = ("pair_distance", "pair_score", "decision_function", "predict")


# --- NaN and inf ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
def test_a_flawed_point_is_named_by_row_and_column(learner, vehicle, value, name):
    X = vehicle.X.copy()
    X[[7, 9], 3] = value
    message = f"Input X contains {name} at row 7, column 3 (2 rows affected). Drop or impute"
    with raises(message):
        learner.fit(X, vehicle.y)
    learner.fit(vehicle.X, vehicle.y)
    with raises(message):
        learner.transform(X)
    with raises(message):
        learner.score(X, vehicle.y)


def test_a_flawed_column_of_a_frame_is_named(learner, vehicle):
    frame = pd.DataFrame(vehicle.X.copy(), columns=[f"size {i}" for i in range(18)])
    frame.loc[5, "size 4"] = np.nan
    with raises("Input X contains NaN at row 5, column 4 ('size 4') (1 rows affected)"):
        learner.fit(frame, vehicle.y)


def test_the_missing_values_of_breast_cancer_are_refused_with_the_row(learner):
    data = load_dataset("breast-cancer", missing="keep")
    row, column = np.argwhere(np.isnan(data.X))[0]
    with raises(f"Input X contains NaN at row {row}, column {column} (16 rows affected)"):
        learner.fit(data.X, data.y)


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "inf")])
def test_a_flawed_pair_is_named_by_pair_point_and_feature(fitted_on_pairs, vehicle, value, name):
    pairs = vehicle.formed.copy()
    pairs[11, 1, 4] = value
    message = f"Input pairs contains {name} at pair 11, point 1, feature 4 (1 pairs affected)"
    for method in QUESTIONS_ON_PAIRS:
        with raises(message):
            getattr(fitted_on_pairs, method)(pairs)
    for method in ("fit", "calibrate_threshold"):
        with raises(message):
            getattr(fitted_on_pairs, method)(pairs, vehicle.kinds)


def test_a_flawed_preprocessor_is_named(pair_learner, vehicle):
    X = vehicle.X.copy()
    X[30, 2] = np.nan
    with raises("Input preprocessor contains NaN at row 30, column 2 (1 rows affected)"):
        pair_learner.set_params(preprocessor=X).fit(vehicle.indices, vehicle.kinds)
    frame = pd.DataFrame(X, columns=[f"size {i}" for i in range(18)])
    with raises("Input preprocessor contains NaN at row 30, column 2 ('size 2')"):
        pair_learner.set_params(preprocessor=frame).fit(vehicle.indices, vehicle.kinds)


def test_numbers_whose_sum_overflows_are_not_taken_for_inf():
    X = np.array([[1e308, 1.0], [1e308, 2.0], [1e308, 3.0], [1e308, 5.0]])
    with raises("squares of some features of X overflow"):
        AML().fit(X * [1, 1], [0, 0, 1, 1])


def test_infinite_labels_are_refused(learner, vehicle):
    y = vehicle.y.astype(float)
    y[3] = np.inf
    with raises("Input y contains infinity"):
        learner.fit(vehicle.X, y)


MISSING = {
    "float": lambda y: pd.Series(y, dtype=float).where(y > 0).to_numpy(),
    "object": lambda y: np.where(y > 0, y.astype(str).astype(object), None),
    **{
        dtype: lambda y, dtype=dtype: pd.Series(y > 1 if dtype == "boolean" else y).astype(dtype).where(y > 0)
        for dtype in ("Int64", "Float64", "boolean", "string", "category", "str")
    },
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_labels_are_named_by_row(kind):
    X = np.random.default_rng(0).normal(size=(60, 4))
    y = np.repeat([1, 2, 0, 2, 1], 12)
    learner = AML().fit(X, y)
    message = "y has no label (None or NaN) at row 24 (12 rows affected). Drop such rows."
    for ask in (learner.fit, learner.score, learner.adversarial_pairs, AML().partial_fit):
        with raises(message):
            ask(X, MISSING[kind](y))


def test_continuous_labels_are_refused(learner, vehicle):
    y = vehicle.y + 0.5
    with raises("Unknown label type: continuous"):
        learner.fit(vehicle.X, y)
    learner.fit(vehicle.X, vehicle.y)
    with raises("Unknown label type: continuous"):
        learner.score(vehicle.X, y)


def test_labels_are_taken_from_nullable_columns(vehicle):
    expected = GMML().fit(vehicle.X, vehicle.y).components_
    for dtype in ("Int64", "Float64", "string", "category"):
        y = pd.Series(vehicle.y).astype(dtype)
        np.testing.assert_array_equal(GMML().fit(vehicle.X, y).components_, expected)


def test_labels_that_mostly_occur_once_give_no_warning(learner):
    X = np.random.default_rng(0).normal(size=(60, 4))
    people = np.array([f"person {i:02}" for i in [*range(31), *[31] * 29]])
    for y in (people, people.astype(object), np.unique(people, return_inverse=True)[1].astype(float)):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="The number of unique classes")
            warnings.filterwarnings("ignore", category=ConvergenceWarning)
            clone(learner).fit(X, y).score(X, y)


# --- shape and type -------------------------------------------------------------------------------------


def test_points_of_the_wrong_shape_are_refused(learner, vehicle):
    with raises("Expected 2D array, got 1D array instead"):
        learner.fit(vehicle.X[:, 0], vehicle.y)
    with raises("Expected 2D array, got scalar array instead"):
        learner.fit(1.0, vehicle.y)
    with pytest.raises(ValueError, match="Found array with dim 4"):
        learner.fit(np.zeros((3, 2, 2, 2)), [1, -1, 1])
    with raises("X is not a regular array: its rows or pairs differ in length"):
        learner.fit([[1.0, 2.0], [3.0]], [0, 1])


@pytest.mark.parametrize("shape", [(5, 3, 4), (5, 1, 4), (0, 2, 4), (5, 2, 0)])
def test_pairs_of_the_wrong_shape_are_refused(pair_learner, shape):
    if shape[1] == 3 and "triplets" in pair_learner.supervision:
        shape = (5, 4, 4)
    with raises(f"pairs must have shape (N, 2, d) with N, d >= 1, got {shape}"):
        pair_learner.fit(np.zeros(shape), np.ones(shape[0]))


def test_row_numbers_without_a_preprocessor_are_refused_with_advice(fitted_on_pairs, vehicle):
    for method in QUESTIONS_ON_PAIRS:
        with raises("set preprocessor to the points"):
            getattr(fitted_on_pairs, method)(vehicle.indices)


@pytest.mark.parametrize("dtype", [object, str])
def test_text_among_the_points_is_named_by_row_and_column(learner, vehicle, dtype):
    X = vehicle.X.astype(dtype)
    X[4, 2] = "red"
    message = "X has the text red at row 4, column 2, which is not a number. Encode text"
    with raises(message):
        learner.fit(X, vehicle.y)
    with raises(message):
        learner.fit(pd.DataFrame(X), vehicle.y)
    with raises(message):
        learner.fit(vehicle.X, vehicle.y).transform(X)


def test_text_among_the_pairs_is_named(fitted_on_pairs, vehicle):
    pairs = vehicle.formed.astype(object)
    pairs[3, 0, 1] = "red"
    for method in QUESTIONS_ON_PAIRS:
        with raises("pairs has the text red at pair 3, point 0, feature 1"):
            getattr(fitted_on_pairs, method)(pairs)
    with raises("pairs has the text red at pair 3, point 0, feature 1"):
        clone(fitted_on_pairs).fit(pairs, vehicle.kinds)
    with raises("preprocessor has the text red at row 0, column 0"):
        clone(fitted_on_pairs).set_params(preprocessor=[["red", 1.0]]).fit(vehicle.indices, vehicle.kinds)


def test_objects_complex_numbers_and_sparse_matrices_are_refused(learner, vehicle):
    X = vehicle.X.astype(object)
    X[0, 0] = {}
    with pytest.raises(TypeError, match=r"argument must be .* string.* number"):
        learner.fit(X, vehicle.y)
    with raises("Complex data not supported"):
        learner.fit(vehicle.X.astype(complex), vehicle.y)
    if not learner.accepts_sparse:
        with pytest.raises(TypeError, match="parse"):
            learner.fit(csr_array(vehicle.X), vehicle.y)


def test_complex_pairs_are_refused(pair_learner, vehicle):
    with raises("Complex data not supported"):
        pair_learner.fit(vehicle.formed.astype(complex), vehicle.kinds)


def test_empty_input_is_refused(learner):
    with raises("Found array with 0 sample(s)"):
        learner.fit(np.empty((0, 3)), [])
    with raises("0 feature(s)"):
        learner.fit(np.empty((4, 0)), [0, 0, 1, 1])
    with raises("minimum of 2 is required"):
        learner.fit(np.ones((1, 3)), [0])


def test_empty_index_pairs_are_refused(pair_learner, vehicle):
    with raises("index pairs must have shape (N, 2) with N >= 1, got (0, 2)"):
        pair_learner.set_params(preprocessor=vehicle.X).fit(np.empty((0, 2), dtype=int), [])


# --- labels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0, 2, -2, np.nan, 0.5, "1", "same"], ids=repr)
@pytest.mark.parametrize("kind", ["formed", "indices"])
def test_labels_of_pairs_other_than_plus_and_minus_one_are_refused(vehicle, bad, kind):
    y = vehicle.kinds.astype(object)
    y[6] = bad
    learner = GMML(preprocessor=vehicle.X)
    pairs = getattr(vehicle, kind)
    message = f"y of pair 6 is {bad!r}; labels of pairs must be +1 (similar) or -1 (dissimilar)"
    with raises(message):
        learner.fit(pairs, y)
    learner.fit(pairs, vehicle.kinds)
    for method in ("score", "calibrate_threshold"):
        with raises(message):
            getattr(learner, method)(pairs, y)


def test_a_bad_label_or_index_is_named_wherever_it_is_in_the_blocks(vehicle, monkeypatch):
    monkeypatch.setattr("advmetric.pairs.checks._BLOCK", 5)
    y, pairs = vehicle.kinds.copy(), vehicle.indices.copy()
    y[13] = 3
    pairs[11, 1] = -1
    learner = GMML(preprocessor=vehicle.X)
    with raises("y of pair 13 is 3; labels"):
        learner.fit(vehicle.indices, y)
    with raises("pair 11 is "):
        learner.fit(pairs, vehicle.kinds)


def test_zero_one_labels_of_pairs_are_refused(pair_learner, vehicle):
    with raises("y of pair 1 is 0; labels of pairs must be +1 (similar) or -1 (dissimilar)"):
        pair_learner.fit(vehicle.formed, (vehicle.kinds + 1) // 2)


@pytest.mark.parametrize(("label", "missing"), [(1, "dissimilar pair (label -1)"), (-1, "similar pair (label +1)")])
def test_pairs_of_one_kind_are_refused(fitted_on_pairs, vehicle, label, missing):
    y = np.full(len(vehicle.kinds), label)
    for method in ("fit", "calibrate_threshold"):
        with raises(f"y has no {missing}; pairs of both kinds are needed"):
            getattr(fitted_on_pairs, method)(vehicle.formed, y)


def test_a_single_class_is_refused(learner, vehicle):
    with raises("y has only one class (3); at least two are needed"):
        learner.fit(vehicle.X, np.full(len(vehicle.X), 3))
    with raises("y has only one class ('bus')"):
        learner.fit(vehicle.X, ["bus"] * len(vehicle.X))


@pytest.mark.parametrize("sampler", ["all", "balanced"])
@pytest.mark.parametrize("make", [AML, GMML])
def test_classes_of_one_member_each_are_refused(make, sampler, vehicle):
    with raises("every class in y has only one member, so there is no similar pair"):
        make(pairs=sampler).fit(vehicle.X[:10], np.arange(10))


@pytest.mark.parametrize("make", [ITML, FlatGeo])
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"bounds": (3, 1)}, "upper <= lower"),
        ({"percentiles": (50, 20)}, "percentiles"),
        ({"solver": "newton"}, "solver='newton' is not known"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_iter": 10.5}, "whole number"),
        ({"tol": -1.0}, "tol"),
        ({"pairs": "some"}, "pairs='some'"),
    ],
)
def test_parameters_of_methods_with_bounds_are_refused_by_name(make, params, message, vehicle):
    with raises(message, (TypeError, ValueError)):
        make(**params).fit(vehicle.X, vehicle.y)


@pytest.mark.parametrize("make", [ARML, DRIFT, LMNN, NeighborAML])
def test_classes_of_one_member_each_are_refused_by_methods_of_neighbours(make):
    with raises("every class in y has only one member"):
        make().fit(np.eye(4), np.arange(4))


@pytest.mark.parametrize("make", [method.estimator for method in methods() if "pairs" not in method.supervision])
def test_methods_of_points_refuse_pairs(make):
    with raises(f"{make.__name__} learns from points with class labels"):
        make().fit(np.zeros((4, 2, 3)), [1, -1, 1, -1])


@pytest.mark.parametrize("sampler", ["random", "neighbors"])
def test_sampled_pairs_of_one_kind_are_refused(sampler, vehicle):
    with raises("y has no similar pair (label +1)"):
        AML(pairs=sampler).fit(vehicle.X[:10], np.arange(10))


def test_cross_validation_of_classes_of_one_member_each_is_refused(vehicle):
    with raises("cross-validation needs a class in y with at least two members"):
        AMLCV().fit(vehicle.X[:10], np.arange(10))
    with raises("cross-validation needs at least two pairs of each kind"):
        AMLCV().fit(vehicle.formed[:10], [1] * 9 + [-1])


def test_continuous_targets_are_refused(learner, vehicle):
    with raises("Unknown label type: continuous"):
        learner.fit(vehicle.X, vehicle.X[:, 0])


def test_labels_of_the_wrong_length_are_refused(learner, vehicle):
    with raises("inconsistent numbers of samples: [282, 281]"):
        learner.fit(vehicle.X, vehicle.y[:-1])
    learner.fit(vehicle.X, vehicle.y)
    with raises("inconsistent numbers of samples: [282, 281]"):
        learner.score(vehicle.X, vehicle.y[:-1])


def test_labels_of_pairs_of_the_wrong_length_are_refused(fitted_on_pairs, vehicle):
    for method in ("fit", "calibrate_threshold"):
        with raises("y has 399 labels for 400 pairs"):
            getattr(fitted_on_pairs, method)(vehicle.formed, vehicle.kinds[:-1])


def test_missing_labels_are_refused(fitted_on_pairs, vehicle):
    with raises("requires y to be passed, but the target y is None"):
        clone(fitted_on_pairs).fit(vehicle.formed, None)
    for method in ("score", "calibrate_threshold"):
        with raises("these pairs have no labels; pass y"):
            getattr(fitted_on_pairs, method)(vehicle.formed, None)


def test_labels_in_two_columns_are_refused(fitted_on_pairs, vehicle):
    with raises("y should be a 1d array"):
        fitted_on_pairs.fit(vehicle.formed, np.column_stack([vehicle.kinds] * 2))


# --- index pairs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [282, 10**6, -1])
def test_row_numbers_out_of_range_are_named(pair_learner, vehicle, bad):
    indices = vehicle.indices.copy()
    indices[8] = (3, bad)
    pair_learner.set_params(preprocessor=vehicle.X)
    message = f"pair 8 is (3, {bad}), out of range for a preprocessor of 282 rows (0 to 281)"
    with raises(message):
        pair_learner.fit(indices, vehicle.kinds)
    pair_learner.fit(vehicle.indices, vehicle.kinds)
    for method in QUESTIONS_ON_PAIRS:
        with raises(message):
            getattr(pair_learner, method)(indices)


@pytest.mark.parametrize("dtype", [float, bool, str, object])
def test_row_numbers_must_be_integers(pair_learner, vehicle, dtype):
    pair_learner.set_params(preprocessor=vehicle.X)
    with raises("index pairs must be integers, got dtype", TypeError):
        pair_learner.fit(vehicle.indices.astype(dtype), vehicle.kinds)


def test_row_numbers_come_in_pairs(pair_learner, vehicle):
    pair_learner.set_params(preprocessor=vehicle.X)
    with raises("index pairs must have shape (N, 2) with N >= 1, got (400, 4)"):
        pair_learner.fit(np.zeros((400, 4), dtype=int), vehicle.kinds)
    with raises("index pairs must have shape (N, 2) with N >= 1, got (282, 18)"):
        pair_learner.fit(vehicle.X, vehicle.kinds[:282])


def test_a_preprocessor_of_the_wrong_shape_is_refused(pair_learner, vehicle):
    with raises("Expected 2D array, got 1D array instead"):
        pair_learner.set_params(preprocessor=vehicle.X[:, 0]).fit(vehicle.indices, vehicle.kinds)


# --- at prediction --------------------------------------------------------------------------------------


def test_another_number_of_features_is_refused(fitted_on_pairs, vehicle):
    name = type(fitted_on_pairs).__name__
    for method in QUESTIONS_ON_PAIRS:
        with raises(f"pairs have 17 features, but {name} is expecting 18 features"):
            getattr(fitted_on_pairs, method)(vehicle.formed[:, :, :17])
    for method in ("score", "calibrate_threshold"):
        with raises(f"pairs have 17 features, but {name} is expecting 18 features"):
            getattr(fitted_on_pairs, method)(vehicle.formed[:, :, :17], vehicle.kinds)
    with raises(f"X has 17 features, but {name} is expecting 18 features as input"):
        fitted_on_pairs.transform(vehicle.X[:, :17])
    fitted_on_pairs.set_params(preprocessor=vehicle.X[:, :17])
    with raises(f"pairs have 17 features, but {name} is expecting 18 features"):
        fitted_on_pairs.predict(vehicle.indices)


def test_an_unfitted_learner_says_so(learner, vehicle):
    questions = {
        "transform": (vehicle.X,),
        "pair_distance": (vehicle.formed,),
        "pair_score": (vehicle.formed,),
        "decision_function": (vehicle.formed,),
        "predict": (vehicle.formed,),
        "score": (vehicle.formed, vehicle.kinds),
        "calibrate_threshold": (vehicle.formed, vehicle.kinds),
        "set_threshold": (1.0,),
        "get_metric": (),
        "get_mahalanobis_matrix": (),
        "get_feature_names_out": (),
    }
    for method, arguments in questions.items():
        with pytest.raises(NotFittedError, match=f"This {type(learner).__name__} instance is not fitted yet"):
            getattr(learner, method)(*arguments)


def test_adversarial_pairs_of_an_unfitted_learner_are_refused(vehicle):
    for data, y in ((vehicle.formed, vehicle.kinds), (vehicle.X, vehicle.y)):
        with pytest.raises(NotFittedError):
            AML().adversarial_pairs(data, y)


@pytest.mark.parametrize("threshold", [np.nan, np.inf])
def test_a_threshold_must_be_finite(fitted_on_pairs, threshold):
    with raises(f"threshold={threshold!r} must be a finite number"):
        fitted_on_pairs.set_threshold(threshold)


@pytest.mark.parametrize("threshold", ["far", None, [1.0]])
def test_a_threshold_must_be_a_number(fitted_on_pairs, threshold):
    with raises(f"threshold must be a number, got {threshold!r}", TypeError):
        fitted_on_pairs.set_threshold(threshold)


def test_bad_ways_to_calibrate_are_refused_and_change_nothing(fitted_on_pairs, vehicle):
    before = fitted_on_pairs.threshold_
    with raises("strategy='youden' is not known; use one of 'accuracy', 'f_beta', 'max_tpr', 'max_tnr'"):
        fitted_on_pairs.calibrate_threshold(vehicle.formed, vehicle.kinds, "youden")
    with raises("strategy='max_tpr' needs min_rate in [0, 1], got None"):
        fitted_on_pairs.calibrate_threshold(vehicle.formed, vehicle.kinds, "max_tpr")
    for strategy, name, bad in (("max_tnr", "min_rate", "a"), ("f_beta", "beta", None), ("f_beta", "beta", [1.0])):
        with raises(f"{name} must be a number, got {bad!r}", TypeError):
            fitted_on_pairs.calibrate_threshold(vehicle.formed, vehicle.kinds, strategy, **{name: bad})
    with raises("min_rate=1.5 must be a finite number >= 0 and <= 1"):
        fitted_on_pairs.calibrate_threshold(vehicle.formed, vehicle.kinds, "max_tpr", min_rate=1.5)
    with raises("beta=-1.0 must be a finite number >= 0"):
        fitted_on_pairs.calibrate_threshold(vehicle.formed, vehicle.kinds, "f_beta", beta=-1.0)
    assert fitted_on_pairs.threshold_ == before


def test_a_refused_fit_leaves_the_old_metric_and_threshold(fitted_on_pairs, vehicle):
    before = fitted_on_pairs.predict(vehicle.formed)
    with raises("y has no similar pair"):
        fitted_on_pairs.fit(vehicle.formed, -np.ones(400))
    np.testing.assert_array_equal(fitted_on_pairs.predict(vehicle.formed), before)


# --- parameters -----------------------------------------------------------------------------------------

NOT_SYMMETRIC = np.eye(18) + np.triu(np.ones((18, 18)), 1)
INDEFINITE = np.diag([1.0] * 17 + [-1.0])
SINGULAR = np.diag([1.0] * 17 + [0.0])


@pytest.mark.parametrize(
    ("params", "kind", "message"),
    [
        ({"alpha": -1.0}, ValueError, "alpha=-1.0 must be a finite number >= 0."),
        ({"alpha": np.nan}, ValueError, "alpha=nan must be a finite number >= 0."),
        ({"alpha": np.inf}, ValueError, "alpha=inf must be a finite number >= 0."),
        ({"alpha": "1"}, TypeError, "alpha must be a number, got '1'."),
        ({"alpha": None}, TypeError, "alpha must be a number, got None."),
        ({"alpha": True}, TypeError, "alpha must be a number, got True."),
        ({"beta": 0}, ValueError, "beta=0 must be a finite number > 0."),
        ({"beta": -2.0}, ValueError, "beta=-2.0 must be a finite number > 0."),
        ({"beta": [1.0]}, TypeError, "beta must be a number, got [1.0]."),
        ({"t": 2}, ValueError, "t=2 must be a finite number >= 0 and <= 1."),
        ({"t": -0.1}, ValueError, "t=-0.1 must be a finite number >= 0 and <= 1."),
        ({"t": "half"}, TypeError, "t must be a number, got 'half'."),
        ({"reg": -1e-3}, ValueError, "reg=-0.001 must be a finite number >= 0."),
        ({"reg": None}, TypeError, "reg must be a number, got None."),
        ({"n_components": 0}, ValueError, "n_components=0 must be a finite number >= 1."),
        ({"n_components": 19}, ValueError, "n_components=19 is more than the 18 features of X."),
        ({"n_components": 1.5}, TypeError, "n_components=1.5 must be a whole number"),
        ({"n_components": 2.0}, TypeError, "n_components=2.0 must be a whole number"),
        ({"n_components": "all"}, TypeError, "n_components must be a number, got 'all'."),
        ({"solver": "newton"}, ValueError, "solver='newton' is not known; use one of 'geodesic', 'projected-gradient'"),
        ({"solver": None}, ValueError, "solver=None is not known"),
        ({"adversary": "evil"}, ValueError, "adversary='evil' is not known; use one of 'derived', 'printed'"),
        ({"pairs": "some"}, ValueError, "pairs='some' is not understood; use 'all', 'random', 'balanced'"),
        ({"pairs": 0}, ValueError, "pairs=0 is not understood"),
        ({"pairs": -5}, ValueError, "pairs=-5 is not understood"),
        ({"pairs": 2.5}, ValueError, "pairs=2.5 is not understood"),
        ({"pairs": None}, ValueError, "pairs=None is not understood"),
        ({"average": "yes"}, TypeError, "average must be True or False, got 'yes'."),
        ({"prior": "correlation"}, ValueError, "prior='correlation' is not known; use 'identity', 'covariance' or a"),
        ({"prior": np.eye(17)}, ValueError, "prior has shape (17, 17); a (18, 18) array is needed for 18 features."),
        ({"prior": np.ones(18)}, ValueError, "prior has shape (18,); a (18, 18) array is needed"),
        ({"prior": None}, ValueError, "prior has shape (); a (18, 18) array is needed"),
        ({"prior": NOT_SYMMETRIC}, ValueError, "prior must be a finite symmetric matrix."),
        ({"prior": np.full((18, 18), np.nan)}, ValueError, "prior must be a finite symmetric matrix."),
        ({"prior": INDEFINITE}, ValueError, "prior must be positive definite."),
        ({"prior": SINGULAR}, ValueError, "prior must be positive definite."),
        ({"prior": [["a"] * 18] * 18}, ValueError, "prior is not numeric"),
        ({"step_size": 0.0}, ValueError, "step_size=0.0 must be a finite number > 0."),
        ({"step_size": "small"}, TypeError, "step_size must be a number, got 'small'."),
        ({"tol": -1e-9}, ValueError, "tol=-1e-09 must be a finite number >= 0."),
        ({"tol": None}, TypeError, "tol must be a number, got None."),
        ({"max_iter": 0}, ValueError, "max_iter=0 must be a finite number >= 1."),
        ({"max_iter": 10.5}, TypeError, "max_iter=10.5 must be a whole number"),
        ({"max_iter": "many"}, TypeError, "max_iter must be a number, got 'many'."),
    ],
    ids=lambda value: re.sub(r"\s+", " ", repr(value))[:40] if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("kind_of_data", ["X", "formed"])
def test_bad_parameters_of_aml_are_named(vehicle, params, kind, message, kind_of_data):
    y = vehicle.y if kind_of_data == "X" else vehicle.kinds
    with raises(message, kind):
        AML(**params).fit(getattr(vehicle, kind_of_data), y)
    shared = {name: value for name, value in params.items() if name in GMML().get_params()}
    if shared == params:
        with raises(message, kind):
            GMML(**params).fit(getattr(vehicle, kind_of_data), y)


@pytest.mark.parametrize(
    ("params", "kind", "message"),
    [
        ({"alphas": [1.0, -1.0]}, ValueError, "alpha=-1.0 must be a finite number >= 0."),
        ({"alphas": []}, ValueError, "alphas is empty; give at least one value to try."),
        ({"betas": ()}, ValueError, "betas is empty"),
        ({"betas": [0.0]}, ValueError, "beta=0.0 must be a finite number > 0."),
        ({"ts": [0.5, 3]}, ValueError, "t=3 must be a finite number >= 0 and <= 1."),
        ({"ts": "half"}, TypeError, "t must be a number, got 'half'."),
        ({"n_components": [2, 19]}, ValueError, "n_components=19 is more than the 18 features of X."),
        ({"n_components": [1.5]}, TypeError, "n_components=1.5 must be a whole number"),
        ({"regs": [-1.0]}, ValueError, "reg=-1.0 must be a finite number >= 0."),
        ({"priors": ["identity", "other"]}, ValueError, "prior='other' is not known"),
        ({"priors": [np.eye(3)]}, ValueError, "prior has shape (3, 3); a (18, 18) array is needed"),
        ({"priors": []}, ValueError, "priors is empty"),
        ({"regs": None}, ValueError, "regs is empty"),
        ({"n_jobs": 1.5}, ValueError, "n_jobs must be None or a whole number other than 0, got 1.5."),
        ({"scoring": "fastest"}, ValueError, "'fastest' is not a valid scoring value"),
        ({"scoring": 3}, TypeError, "scoring must be the name of a scorer, a callable or None, got 3."),
        ({"n_neighbors": 0}, ValueError, "n_neighbors=0 must be a finite number >= 1."),
        ({"n_neighbors": 2.5}, TypeError, "n_neighbors=2.5 must be a whole number"),
        ({"adversary": "evil"}, ValueError, "adversary='evil' is not known"),
        ({"pairs": "some"}, ValueError, "pairs='some' is not understood"),
        ({"cv": 1}, ValueError, "n_splits=1"),
        ({"cv": "five"}, ValueError, "cv"),
        ({"max_iter": 0}, ValueError, "max_iter=0 must be a finite number >= 1."),
        ({"tol": -1.0}, ValueError, "tol=-1.0 must be a finite number >= 0."),
    ],
    ids=lambda value: re.sub(r"\s+", " ", repr(value))[:40] if isinstance(value, dict) else "",
)
def test_bad_parameters_of_amlcv_are_named_before_any_work(vehicle, params, kind, message, monkeypatch):
    monkeypatch.setattr(
        "advmetric.algorithms.aml.estimator.solve", lambda *_, **__: pytest.fail("a candidate was tried")
    )
    with raises(message, kind):
        AMLCV(**params).fit(vehicle.X, vehicle.y)


@pytest.mark.parametrize("seed", ["seed", -1, 1.5, 2**32, np.random.default_rng(0)], ids=str)
def test_a_bad_random_state_is_refused_also_where_nothing_is_drawn(learner, vehicle, seed):
    if "random_state" in learner.get_params():
        with raises(f"random_state={seed!r} cannot be used to seed a numpy.random.RandomState; use None, an integer"):
            learner.set_params(random_state=seed).fit(vehicle.X, vehicle.y)


@pytest.mark.parametrize("verbose", ["a", None, -3, 0.5])
def test_a_bad_verbose_is_refused(learner, vehicle, verbose):
    if "verbose" in learner.get_params():
        with raises("verbose", (TypeError, ValueError)):
            learner.set_params(verbose=verbose).fit(vehicle.X, vehicle.y)


def test_reg_zero_with_a_singular_scatter_is_refused_with_advice(vehicle):
    data = load_dataset("image-segment")
    X, y = data.X[::5], data.y[::5]
    assert (X.std(axis=0) == 0).any()
    message = (
        "The pairs leave some directions without any spread, and reg is too small to fill them in; use a larger reg"
    )
    for learner in (AML(reg=0), GMML(reg=0.0), AML(reg=0, n_components=3), AML(reg=0, t=0.1), AMLCV(regs=0.0, cv=2)):
        with raises(message):
            learner.fit(X, y)
    assert np.isfinite(AML(reg=0).fit(vehicle.X, vehicle.y).components_).all()


def test_too_many_adversarial_pairs_are_refused_before_they_are_made(vehicle, monkeypatch):
    learned = AML().fit(vehicle.X, vehicle.y)
    monkeypatch.setattr("advmetric.algorithms.aml.estimator._MAX_FORMED_BYTES", 10**5)
    with raises("39621 adversarial pairs would take over"):
        learned.adversarial_pairs(vehicle.X, vehicle.y)


def test_labels_of_the_wrong_shape_are_refused_by_adversarial_pairs(vehicle):
    learned = AML().fit(vehicle.X, vehicle.y)
    with raises("inconsistent numbers of samples: [282, 281]"):
        learned.adversarial_pairs(vehicle.X, vehicle.y[:-1])
