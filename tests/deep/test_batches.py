"""Batches: balanced, complete, and a function of seed and step."""

import numpy as np
import pytest

from advmetric.deep.batches import ClassBatches, PairBatches
from advmetric.deep.fitting import hold_out_classes


@pytest.mark.parametrize(("classes", "expected"), [(20, [4] * 8), (3, [10] * 3), (8, [4] * 8)])
def test_classes_have_equal_shares(classes, expected):
    batches = ClassBatches(np.repeat(np.arange(classes), 15), batch_size=32, per_class=4, seed=0)
    for step in range(5):
        batch = batches.batch(step)
        assert sorted(np.unique(batch.labels, return_counts=True)[1].tolist()) == expected
        assert len(np.unique(batch.rows)) == len(batch.rows)


def test_a_batch_depends_on_seed_and_step_only():
    codes = np.arange(60) % 6
    one, same, other = (ClassBatches(codes, 12, 4, seed) for seed in (0, 0, 1))
    one.batch(3)
    assert np.array_equal(one.batch(7).rows, same.batch(7).rows)
    assert not np.array_equal(one.batch(7).rows, one.batch(8).rows)
    assert not np.array_equal(one.batch(7).rows, other.batch(7).rows)


def test_points_without_a_class_are_not_drawn():
    codes = np.where(np.arange(60) < 30, -1, np.arange(60) % 5)
    batches = ClassBatches(codes, 10, 2, 0)
    assert min(batches.batch(step).rows.min() for step in range(20)) >= 30
    assert batches.steps_per_epoch == 3


def test_small_classes_give_what_they_have():
    batch = ClassBatches(np.array([0, 0, 0, 0, 1, 1, 2]), batch_size=12, per_class=4, seed=0).batch(0)
    assert sorted(batch.rows.tolist()) == [0, 1, 2, 3, 4, 5, 6]


def test_pairs_are_half_similar_and_an_epoch_has_all_of_the_rarer_kind():
    rng = np.random.default_rng(0)
    pairs, labels = rng.integers(40, size=(100, 2)), np.repeat([1, -1], [30, 70])
    batches = PairBatches(pairs, labels, batch_size=12, seed=0)
    assert batches.steps_per_epoch == 5
    drawn = []
    for step in range(5):
        batch = batches.batch(step)
        assert np.sum(batch.labels > 0) == np.sum(batch.labels < 0) == 6
        assert len(np.unique(batch.rows)) == len(batch.rows)
        drawn += [tuple(pair) for pair in batch.rows[batch.pairs][batch.labels > 0]]
    assert sorted(drawn) == sorted(map(tuple, pairs[:30]))


def test_all_of_the_more_frequent_kind_get_their_turn():
    pairs, labels = np.arange(40).reshape(20, 2), np.repeat([1, -1], [4, 16])
    batches = PairBatches(pairs, labels, batch_size=8, seed=0)
    seen = [batches.batch(step) for step in range(4)]
    left = np.concatenate([b.rows[b.pairs[b.labels < 0, 0]] for b in seen])
    assert sorted(left.tolist()) == list(range(8, 40, 2))


def test_held_out_classes_are_whole_and_leave_some():
    codes = np.arange(100) % 10
    held, whole = hold_out_classes(codes, 0.15, np.random.RandomState(0))
    assert whole
    assert len(np.unique(codes[held])) == 2
    assert not set(codes[held]) & set(codes[~held])
    held, whole = hold_out_classes(np.array([0, 0, 1, 2, 3, 4, 5]), 0.3, np.random.RandomState(0))
    assert not whole
