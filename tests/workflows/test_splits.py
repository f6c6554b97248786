"""Splits: stratified, by group, and errors that say what is too few."""

from __future__ import annotations

import numpy as np
import pytest

from advmetric.pairs.data import LabelledPoints, Pairs
from advmetric.workflows.splits import folds_of, hold_out

RNG = np.random.default_rng(0)


def points(y):
    return LabelledPoints(np.zeros((len(y), 1)), np.asarray(y))


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_no_group_is_on_both_sides(share):
    groups = RNG.integers(40, size=400)
    y = RNG.integers(3, size=400)
    train, held_out = hold_out(y, share, 0, groups)
    assert not set(groups[train]) & set(groups[held_out])
    assert sorted([*train, *held_out]) == list(range(400))
    assert len(held_out) / 400 == pytest.approx(share, abs=0.1)
    for learned, judged in folds_of(points(y), 3, 0, groups):
        assert not set(groups[learned]) & set(groups[judged])
    again = hold_out(y, share, 0, groups)
    np.testing.assert_array_equal(again[0], train)
    assert not np.array_equal(hold_out(y, share, 1, groups)[1], held_out)


@pytest.mark.parametrize(
    ("y", "groups", "said"),
    [
        ([0, 1], None, "2 rows are too few to hold some out: give --test 0"),
        ([0, 0, 1], None, "left to learn from are all of one class. Give --test 0"),
        ([0, 0, 1, 1], [5, 5, 5, 5], "1 group is too few"),
        ([0, 0, 1, 1], [0, 0, 1, 1], "too few groups to hold some out"),
    ],
)
def test_too_few_rows_are_said_to_be_too_few(y, groups, said):
    def hold_out_with_some_seed():
        for seed in range(20):
            hold_out(np.array(y), 0.2, seed, None if groups is None else np.array(groups))

    with pytest.raises(ValueError, match=said):
        hold_out_with_some_seed()


def test_small_classes_do_not_warn_of_n_splits():
    y = np.repeat(np.arange(30), 2)
    y[:6] = 0
    assert len(folds_of(points(y), 3, 0)) == 3  # pytest turns warnings into errors


def test_folds_that_cannot_be_learned_from_are_left_out():
    assert folds_of(points([0, 0, 1, 1, 2, 2]), 3, 0) == []  # one of each class would be left
    assert folds_of(points([0, 1, 2]), 3, 0) == []
    pairs = Pairs(np.zeros((4, 1)), np.arange(4), np.arange(4), np.array([1, 1, 1, -1]))
    assert folds_of(pairs, 5, 0) == []
    assert folds_of(points([0, 0, 0, 1, 1, 1]), 3, 0, np.array([0, 0, 0, 1, 1, 1])) == []
