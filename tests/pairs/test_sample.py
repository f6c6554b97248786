"""What a threshold is chosen on: all pairs, or a sample spread over them."""

import numpy as np
import pytest

from advmetric import AML
from advmetric.metric.threshold import best_threshold
from advmetric.pairs import sample as pair_sample
from advmetric.pairs.data import Pairs
from advmetric.pairs.sample import threshold_pairs


@pytest.fixture
def pairs():
    rng = np.random.default_rng(3)
    left, right = rng.integers(200, size=(2, 1003))
    return Pairs(rng.standard_normal((200, 4)), left, right, np.tile([1, -1], 502)[:1003].astype(np.int8))


def test_up_to_the_limit_all_pairs_are_kept(pairs, monkeypatch):
    monkeypatch.setattr(pair_sample, "MOST_THRESHOLD_PAIRS", len(pairs))
    assert threshold_pairs(pairs) is pairs


def test_above_the_limit_each_stretch_of_pairs_gives_one(pairs, monkeypatch):
    monkeypatch.setattr(pair_sample, "MOST_THRESHOLD_PAIRS", 100)
    numbered = Pairs(pairs.X, np.arange(len(pairs)), pairs.right, pairs.y)
    few = threshold_pairs(numbered)
    ends = np.arange(101) * len(pairs) // 100
    assert np.all((ends[:-1] <= few.left) & (few.left < ends[1:]))
    assert np.array_equal(few.right, pairs.right[few.left])
    assert np.array_equal(few.labels, pairs.labels[few.left])
    assert np.array_equal(threshold_pairs(numbered).left, few.left)


def test_kinds_that_take_turns_are_both_drawn(pairs, monkeypatch):
    """Every k-th pair would be of one kind only."""
    monkeypatch.setattr(pair_sample, "MOST_THRESHOLD_PAIRS", 100)
    assert 30 < np.sum(threshold_pairs(pairs).labels == 1) < 70


def test_fit_chooses_its_threshold_on_the_sample(pairs, monkeypatch):
    indices = np.column_stack([pairs.left, pairs.right])
    whole = AML(preprocessor=pairs.X).fit(indices, pairs.y)
    assert whole.threshold_ == best_threshold(whole.pair_distance(indices), pairs.labels)
    monkeypatch.setattr(pair_sample, "MOST_THRESHOLD_PAIRS", 40)
    learned = AML(preprocessor=pairs.X).fit(indices, pairs.y)
    few = threshold_pairs(pairs)
    assert np.array_equal(learned.components_, whole.components_)
    assert learned.threshold_ == best_threshold(learned.pair_distance(few), few.labels)
    assert learned.threshold_ != whole.threshold_


def test_a_sample_without_one_kind_still_gives_a_threshold(pairs, monkeypatch):
    monkeypatch.setattr(pair_sample, "MOST_THRESHOLD_PAIRS", 40)
    y = np.full(len(pairs), -1)
    drawn = threshold_pairs(Pairs(pairs.X, np.arange(len(pairs)), pairs.right, pairs.y)).left
    y[np.setdiff1d(np.arange(len(pairs)), drawn)[:1]] = 1
    learned = AML(preprocessor=pairs.X).fit(np.column_stack([pairs.left, pairs.right]), y)
    assert np.all(learned.predict(np.column_stack([pairs.left, pairs.right])[drawn]) == -1)
