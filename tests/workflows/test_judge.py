"""Judging: all points or a sample, and never a point as its own neighbour."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from advmetric import Mahalanobis, load_dataset
from advmetric.pairs.data import LabelledPoints
from advmetric.workflows import judge as module
from advmetric.workflows.judge import compare, draw_queries, judge, rulers_beside

VEHICLE = load_dataset("vehicle")
POINTS = LabelledPoints(VEHICLE.X, VEHICLE.y)


def test_a_sample_is_drawn_only_where_all_would_be_too_many():
    assert draw_queries(1000, 200_000) is None
    rows = draw_queries(40_000, 160_000)
    assert len(rows) == module.DISTANCES // 160_000
    assert len(set(rows)) == len(rows)
    assert rows.max() < 40_000


def test_the_error_of_a_sample_is_that_of_its_points(monkeypatch):
    train, test = POINTS.take(np.arange(600)), POINTS.take(np.arange(600, 846))
    rulers = rulers_beside("it", Mahalanobis(np.eye(18)), train.X)
    whole = judge(rulers, test, train)
    assert whole.sampled is None
    monkeypatch.setattr(module, "DISTANCES", 600 * 100)
    monkeypatch.setattr(module, "QUERIES", 10)
    found = judge(rulers, test, train, seed=3)
    rows = draw_queries(246, 600, 3)
    assert found.sampled == len(rows) == 100
    raw = KNeighborsClassifier(5, algorithm="brute").fit(train.X, train.y)
    assert found.scores["it"]["error"] == pytest.approx(1 - raw.score(test.X[rows], test.y[rows]), abs=1 / 100)


def test_leave_one_out_of_a_sample_is_leave_one_out_of_all(monkeypatch):
    rulers = {"it": Mahalanobis(np.eye(18))}
    everything = judge(rulers, POINTS).scores["it"]["error"]
    monkeypatch.setattr(module, "DISTANCES", 0)
    monkeypatch.setattr(module, "QUERIES", 845)
    found = judge(rulers, POINTS)
    assert found.sampled == 845
    assert found.scores["it"]["error"] == pytest.approx(everything, abs=4 / 846)
    noise = LabelledPoints(np.random.default_rng(0).normal(size=(846, 3)), np.arange(846) % 2)
    assert judge({"it": Mahalanobis(np.eye(3))}, noise).scores["it"]["error"] > 0.3  # its own neighbour: far fewer


@pytest.mark.parametrize(
    ("key", "learned", "standardised", "raw", "rival", "said"),
    [
        ("error", 0.10, 0.30, 0.35, "standardised", "learning helps here"),
        ("error", 0.10, 0.30, 0.12, "raw", "the difference may be chance"),
        ("error", 0.12, 0.30, 0.10, "raw", "the difference may be chance"),
        ("error", 0.25, 0.30, 0.10, "raw", "learning does not help here"),
        ("error", 0.10, 0.10, 0.10, "standardised", "no difference"),
        ("roc_auc", 0.90, 0.60, 0.70, "raw", "learning helps here"),
        ("roc_auc", 0.90, 0.89, 0.70, "standardised", "the difference may be chance"),
        ("roc_auc", 0.70, 0.60, 0.90, "raw", "learning does not help here"),
    ],
)
def test_the_verdict_is_against_the_better_euclidean_distance_and_knows_chance(
    key, learned, standardised, raw, rival, said
):
    numbers = {"GMML": learned, "Euclidean, standardised": standardised, "Euclidean, raw": raw}
    found = compare({name: {key: value} for name, value in numbers.items()}, judged=170)
    assert found == (f"Euclidean, {rival}", said)
