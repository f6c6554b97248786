"""Folds and samples of rows: stratified, usable, and of the rows that were meant."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, PredefinedSplit, StratifiedKFold

from advmetric.learners.folds import check_groups, draw_rows, make_folds, split_rows
from advmetric.pairs.data import LabelledPoints, Pairs


def points(y):
    return LabelledPoints(np.zeros((len(y), 1)), np.asarray(y))


def test_small_classes_allow_fewer_folds_and_too_small_ones_none():
    assert len(make_folds(points([0, 0, 0, 1, 1, 1]), 5)) == 3
    with pytest.raises(ValueError, match="at least two members"):
        make_folds(points([0, 1, 2]), 5)
    with pytest.raises(ValueError, match="two pairs of each kind"):
        make_folds(Pairs(np.eye(3), np.array([0, 1]), np.array([1, 2]), np.array([1, -1])), 5)


def test_folds_with_pairs_of_one_kind_are_left_out():
    kinds = np.repeat([1, -1], [10, 15])
    pairs = Pairs(np.eye(25), np.arange(25), np.arange(25)[::-1], kinds)
    groups = np.r_[np.arange(10) % 2, 2 + np.arange(15) % 2]
    groups[-3:] = 1  # the only group with both kinds
    ((train, test),) = split_rows(pairs, [(np.arange(10, 25), np.arange(10)), (np.arange(5, 20), np.arange(25))])
    assert (train[0], len(test)) == (5, 25)
    for fold in split_rows(pairs, 5, groups):
        assert all(set(kinds[rows]) == {1, -1} for rows in fold)
    with pytest.raises(ValueError, match="25 pairs are too few for cross-validation: no fold has both kinds"):
        split_rows(pairs, KFold(5))
    with pytest.raises(ValueError, match="no fold has"):
        split_rows(pairs, [])


@pytest.mark.parametrize(
    "splitter", [StratifiedKFold(3), PredefinedSplit(np.arange(90) % 3)], ids=["kfold", "predefined"]
)
def test_given_folds_keep_their_rows_where_a_sample_of_the_rows_is_used(splitter):
    y, among = np.arange(90) % 2, np.arange(5, 85)
    whole = list(splitter.split(np.zeros(90), y))
    for given in (splitter, whole):
        found = split_rows(points(y), given, among=among)
        for rows, fold in zip(found, whole, strict=True):
            for mine, theirs in zip(rows, fold, strict=True):
                np.testing.assert_array_equal(mine, theirs[np.isin(theirs, among)])


def test_a_number_of_folds_divides_the_sample():
    y, among = np.arange(90) % 2, np.arange(0, 60)
    folds = split_rows(points(y), 4, among=among)
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), among)
    assert all(np.bincount(y[test]).tolist() in ([7, 8], [8, 7]) for _, test in folds)


def test_a_sample_keeps_the_shares_of_the_classes():
    y = np.repeat([0, 1], [900, 100])
    rows = draw_rows(y, 200, 0)
    assert np.bincount(y[rows]).tolist() == [180, 20]
    assert len(set(rows)) == 200
    assert np.all(np.diff(rows) > 0)
    assert draw_rows(y, 1000, 0) is None
    assert draw_rows(y, None, 0) is None


def test_a_sample_may_leave_out_fewer_rows_than_there_are_classes():
    assert len(draw_rows(np.arange(103) % 4, 100, 0)) == 100


def test_groups_are_numbers_of_equal_values():
    assert check_groups(["b", "a", "b"], 3).tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="groups has 2 entries for 3 rows"):
        check_groups([1, 2], 3)
    for lacking in (["a", None, "b"], [1.0, np.nan, 2.0]):
        with pytest.raises(ValueError, match="groups lacks the group of row 1"):
            check_groups(lacking, 3)
