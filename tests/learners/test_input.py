"""What learners are given: index pairs, preprocessors of several kinds, masked entries."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from advmetric import AML, GMML, Euclidean, PairAML

# --- index pairs without preprocessor ---------------------------------------------------------------------


@pytest.mark.parametrize("convert", [np.asarray, list, pd.DataFrame])
def test_index_pairs_without_a_preprocessor_are_suspected(vehicle, convert):
    with pytest.warns(UserWarning, match=r"looks like index pairs.*set preprocessor"):
        GMML().fit(convert(vehicle.indices), vehicle.kinds)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.arange(20).reshape(10, 2) * 0.5, [-1, 1] * 5),  # not integers
        (np.arange(30).reshape(10, 3), [-1, 1] * 5),  # three columns
        (np.arange(20).reshape(10, 2), [0, 1] * 5),  # other labels
        (np.arange(20).reshape(10, 2) - 5, [-1, 1] * 5),  # negative
    ],
)
def test_other_points_are_not_suspected(X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GMML().fit(X, y)


# --- preprocessors ----------------------------------------------------------------------------------------


def test_a_callable_preprocessor_does_what_an_array_does(pair_learner, vehicle):
    look_up = vehicle.X.__getitem__
    by_array = clone(pair_learner).set_params(preprocessor=vehicle.X).fit(vehicle.indices, vehicle.kinds)
    by_call = pair_learner.set_params(preprocessor=look_up).fit(vehicle.indices, vehicle.kinds)
    np.testing.assert_allclose(by_call.components_, by_array.components_, rtol=1e-6, atol=1e-8)
    assert by_call.threshold_ == pytest.approx(by_array.threshold_)
    few = vehicle.indices[:7]
    np.testing.assert_allclose(by_call.pair_distance(few), by_call.pair_distance(vehicle.X[few]))
    np.testing.assert_array_equal(by_call.predict(few), by_call.predict(vehicle.X[few]))
    assert by_call.score(vehicle.indices, vehicle.kinds) == by_call.score(vehicle.formed, vehicle.kinds)


def test_partial_fit_and_thresholds_take_a_callable_preprocessor(vehicle):
    look_up = vehicle.X.__getitem__
    halves = (slice(0, 150), slice(150, None))
    learned = AML(preprocessor=look_up)
    for half in halves:
        learned.partial_fit(vehicle.indices[half], vehicle.kinds[half])
    whole = AML().fit(vehicle.formed, vehicle.kinds)
    np.testing.assert_allclose(learned.components_, whole.components_, rtol=1e-6, atol=1e-9)
    learned.calibrate_threshold(vehicle.indices, vehicle.kinds)
    assert learned.predict_proba(vehicle.indices).shape == (len(vehicle.indices), 2)


def test_clone_and_cross_validation_keep_a_callable_preprocessor(vehicle):
    look_up = vehicle.X.__getitem__
    learner = AML(preprocessor=look_up)
    assert clone(learner).preprocessor is not None
    assert learner.get_params()["preprocessor"] is look_up
    scores = cross_val_score(learner, vehicle.indices, vehicle.kinds, cv=3, error_score="raise")
    np.testing.assert_allclose(scores, cross_val_score(AML(), vehicle.formed, vehicle.kinds, cv=3), rtol=1e-6)


def test_index_triplets_take_a_callable_preprocessor(vehicle):
    rows = np.random.default_rng(0).integers(len(vehicle.X), size=(40, 3))
    by_call = PairAML(preprocessor=vehicle.X.__getitem__).fit(rows)
    np.testing.assert_allclose(
        by_call.pair_distance(rows[:, :2]),
        PairAML().fit(vehicle.X[rows]).pair_distance(vehicle.X[rows[:, :2]]),
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    ("preprocessor", "message"),
    [
        (lambda rows: np.zeros(len(rows)), r"preprocessor returned shape \(\d+,\) for \d+ row numbers"),
        (lambda rows: np.zeros((len(rows) - 1, 2)), r"preprocessor returned shape \(\d+, 2\) for"),
        (lambda rows: np.full((len(rows), 2), np.nan), "preprocessor contains NaN at row 0"),
        (lambda rows: [["a", "b"]] * len(rows), "preprocessor has the text a at row 0"),
    ],
)
def test_a_callable_that_returns_something_else_is_named(vehicle, preprocessor, message):
    with pytest.raises(ValueError, match=message):
        AML(preprocessor=preprocessor).fit(vehicle.indices, vehicle.kinds)


@pytest.mark.parametrize("callable_", [False, True])
def test_transform_takes_row_numbers_with_a_preprocessor(vehicle, callable_):
    learned = AML(preprocessor=vehicle.X.__getitem__ if callable_ else vehicle.X).fit(vehicle.indices, vehicle.kinds)
    np.testing.assert_allclose(learned.transform([3, 1, 3]), learned.transform(vehicle.X[[3, 1, 3]]))
    np.testing.assert_allclose(learned.transform(vehicle.X[:2]), learned.transform(range(2)))


@pytest.mark.parametrize("dtype", ["Int64", "UInt16", "int64[pyarrow]", {0: "Int64", 1: "int32"}])
def test_row_numbers_may_be_in_nullable_columns(vehicle, dtype):
    frame = pd.DataFrame(vehicle.indices).astype(dtype)
    expected = GMML(preprocessor=vehicle.X).fit(vehicle.indices, vehicle.kinds)
    learned = GMML(preprocessor=vehicle.X).fit(frame, vehicle.kinds)
    np.testing.assert_array_equal(learned.components_, expected.components_)
    np.testing.assert_array_equal(learned.pair_distance(frame), expected.pair_distance(vehicle.indices))


@pytest.mark.parametrize("dtype", ["Int64", "int64[pyarrow]"])
def test_missing_row_numbers_are_named(vehicle, dtype):
    frame = pd.DataFrame(vehicle.indices).astype(dtype)
    frame.iloc[7, 1] = pd.NA
    with pytest.raises(ValueError, match=r"index pairs have no row number at row 7, column 1\. Drop"):
        AML(preprocessor=vehicle.X).fit(frame, vehicle.kinds)


def test_row_numbers_of_triplets_may_be_in_nullable_columns(vehicle):
    rows = pd.DataFrame(np.random.default_rng(0).integers(len(vehicle.X), size=(40, 3)))
    expected = PairAML(preprocessor=vehicle.X).fit(rows).components_
    np.testing.assert_array_equal(PairAML(preprocessor=vehicle.X).fit(rows.astype("Int64")).components_, expected)
    missing = rows.astype("Int64").mask(rows == rows.iloc[3, 0])
    with pytest.raises(ValueError, match="index triplets have no row number at row 3, column 0"):
        PairAML(preprocessor=vehicle.X).fit(missing.iloc[:4])
    with pytest.raises(TypeError, match="index triplets must be integers, got dtype float64"):
        PairAML(preprocessor=vehicle.X).fit(rows.astype(float))


def test_row_numbers_out_of_range_are_refused(vehicle):
    learned = AML(preprocessor=vehicle.X).fit(vehicle.indices, vehicle.kinds)
    for rows in ([0, len(vehicle.X)], [-1]):
        with pytest.raises(ValueError, match="X has row numbers out of range for a preprocessor of"):
            learned.transform(rows)
    with pytest.raises(ValueError, match="Expected 2D array"):
        learned.transform([0.5, 1.0])


# --- masked entries ---------------------------------------------------------------------------------------


def masked(values, *place):
    values = np.ma.array(values, mask=np.zeros(np.shape(values), bool))
    values[place] = np.ma.masked
    return values


def test_masked_points_are_refused(learner, vehicle):
    X = masked(vehicle.X.copy(), 4, 2)
    if "points" in learner.supervision:
        with pytest.raises(ValueError, match="X has a masked entry at row 4, column 2"):
            learner.fit(X, vehicle.y)
    learned = Euclidean().fit(vehicle.X, vehicle.y)
    with pytest.raises(ValueError, match="X has a masked entry at row 4, column 2"):
        learned.transform(X)


def test_masked_pairs_and_preprocessors_are_refused(pair_learner, vehicle):
    with pytest.raises(ValueError, match="pairs has a masked entry at pair 3, point 1, feature 0"):
        pair_learner.fit(masked(vehicle.formed.copy(), 3, 1, 0), vehicle.kinds)
    used = int(vehicle.indices[0, 0])
    pair_learner.set_params(preprocessor=masked(vehicle.X.copy(), used, 1))
    with pytest.raises(ValueError, match=f"preprocessor has a masked entry at row {used}, column 1"):
        pair_learner.fit(vehicle.indices, vehicle.kinds)


def test_masked_index_pairs_and_labels_are_refused(vehicle):
    with pytest.raises(ValueError, match="pairs has a masked entry at row 5, column 1"):
        AML(preprocessor=vehicle.X).fit(masked(vehicle.indices.copy(), 5, 1), vehicle.kinds)
    for X, y in ((vehicle.X, vehicle.y), (vehicle.formed, vehicle.kinds)):
        with pytest.raises(ValueError, match="y has a masked entry at row 6"):
            AML().fit(X, masked(y.copy(), 6))


def test_masked_batches_are_refused(vehicle):
    with pytest.raises(ValueError, match="X has a masked entry"):
        AML().partial_fit(masked(vehicle.X.copy(), 4, 2), vehicle.y)
    with pytest.raises(ValueError, match="y has a masked entry"):
        AML().partial_fit(vehicle.X, masked(vehicle.y.copy(), 4))
    masked_points = masked(vehicle.X.copy(), int(vehicle.indices[0, 0]), 1)
    with pytest.raises(ValueError, match="preprocessor has a masked entry"):
        AML(preprocessor=masked_points).partial_fit(vehicle.indices, vehicle.kinds)


def test_masked_triplets_are_refused(vehicle):
    triplets = np.stack([vehicle.X[:30], vehicle.X[30:60], vehicle.X[60:90]], axis=1)
    with pytest.raises(ValueError, match="masked entry"):
        PairAML().fit(masked(triplets, 1, 2, 3))


def test_masked_arrays_without_masked_entries_are_fine(vehicle):
    expected = GMML().fit(vehicle.X, vehicle.y).components_
    unmasked = np.ma.array(vehicle.X, mask=False)
    np.testing.assert_array_equal(GMML().fit(unmasked, np.ma.array(vehicle.y)).components_, expected)


def test_masked_labels_of_a_score_are_refused(vehicle):
    learned = GMML().fit(vehicle.X, vehicle.y)
    with pytest.raises(ValueError, match="y has a masked entry"):
        learned.score(vehicle.X, masked(vehicle.y.copy(), 0))
    with pytest.raises(ValueError, match="y has a masked entry"):
        learned.calibrate_threshold(vehicle.formed, masked(vehicle.kinds.copy(), 0))
