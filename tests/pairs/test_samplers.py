"""Samplers: how many pairs they draw, and what they refuse. (What they draw is in test_scatter.)"""

import numpy as np
import pandas as pd
import pytest

from advmetric import AllPairs, BalancedPairs, NeighborPairs, RandomPairs

SAMPLERS = [AllPairs(), RandomPairs(50), BalancedPairs(50), NeighborPairs(2, 2)]


@pytest.mark.parametrize("make", [RandomPairs, BalancedPairs])
def test_many_classes_do_not_exhaust_the_memory(make):
    y = np.repeat(np.arange(300), 2)
    assert len(make().sample(np.zeros((600, 1)), y, 0)) == 10**6
    few = np.repeat(np.arange(32), 2)
    assert len(make().sample(np.zeros((64, 1)), few, 0)) == 1000 * 32 * 31


@pytest.mark.parametrize("make", [RandomPairs, BalancedPairs])
def test_the_number_of_pairs_is_checked(make):
    for number in (0, -1):
        with pytest.raises(ValueError, match=f"n_pairs={number} must be a finite number >= 1"):
            make(number)
    with pytest.raises(TypeError, match=r"n_pairs=2.5 must be a whole number"):
        make(2.5)


def test_numbers_of_neighbours_are_checked():
    with pytest.raises(TypeError, match=r"n_similar=2.5 must be a whole number"):
        NeighborPairs(2.5, 1)
    with pytest.raises(ValueError, match="n_dissimilar=-1 must be a finite number >= 0"):
        NeighborPairs(1, -1)
    with pytest.raises(ValueError, match="or no neighbours are asked for"):
        NeighborPairs(0, 0).sample(np.eye(4), [0, 0, 1, 1])
    assert set(NeighborPairs(1, 0).sample(np.eye(4), [0, 0, 1, 1]).labels) == {1}


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
@pytest.mark.parametrize("form", [list, pd.DataFrame])
def test_points_and_labels_may_be_lists_and_frames(sampler, form):
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.repeat([0, 1], 10)
    given = sampler.sample(form(X.tolist()), y.tolist(), 0)
    expected = sampler.sample(X, y, 0)
    np.testing.assert_array_equal(given.indices, expected.indices)
    np.testing.assert_array_equal(given.labels, expected.labels)
    np.testing.assert_array_equal(given.X, X)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def test_there_must_be_a_label_for_each_point(sampler):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        sampler.sample(np.eye(4), [0, 0, 1], 0)


def test_random_pairs_need_two_points():
    with pytest.raises(ValueError, match="X has one point only"):
        RandomPairs(3).sample(np.eye(1), [0])
