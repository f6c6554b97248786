"""The default score in scikit-learn's cross-validation, whose folds are not stratified for learners."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

from advmetric import AML
from advmetric.learners.scoring import Reference
from advmetric.pairs.data import LabelledPoints
from advmetric.pairs.pair_statistics import PairStatistics


def make_pairs(rng, n=200):
    """The pairs of the README: similar ones differ in the second feature only."""
    left = rng.normal(size=(n, 2))
    y = np.where(np.arange(n) < n // 2, 1, -1)
    right = left + rng.normal(size=(n, 2)) * np.where(y[:, None] == 1, [0.1, 1.0], [2.0, 1.0])
    return np.stack([left, right], axis=1), y


@pytest.fixture
def sorted_pairs():
    return make_pairs(np.random.default_rng(0))


def test_a_plain_cv_on_pairs_sorted_by_kind_gives_a_score_for_every_fold(sorted_pairs, pair_learner):
    pairs, y = sorted_pairs
    assert len(np.unique(y[:40])) == 1
    if "max_iter" in pair_learner.get_params():
        pair_learner.set_params(tol=1e-2)
    scores = cross_val_score(pair_learner, pairs, y, cv=5, error_score="raise")
    assert np.all((scores > 0.5) & (scores <= 1.0))


def test_a_plain_cv_on_sorted_labels_gives_a_score_for_every_fold(vehicle, point_learner):
    chosen = np.concatenate([np.flatnonzero(vehicle.y == label)[:40] for label in np.unique(vehicle.y)])
    X, y = vehicle.X[chosen], vehicle.y[chosen]
    if "max_iter" in point_learner.get_params():
        point_learner.set_params(tol=1e-2)
    scores = cross_val_score(point_learner, X, y, cv=4, error_score="raise")
    assert np.all((scores > 0.0) & (scores <= 1.0))


def test_a_grid_search_on_sorted_pairs_finds_finite_scores(sorted_pairs):
    search = GridSearchCV(AML(), {"t": [0.25, 0.5]}, cv=5, error_score="raise").fit(*sorted_pairs)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_the_score_of_one_kind_is_close_to_the_score_of_both(sorted_pairs):
    learned = AML().fit(*sorted_pairs)
    pairs, y = make_pairs(np.random.default_rng(1), 2000)
    both = learned.score(pairs, y)
    for kind in (1, -1):
        assert learned.score(pairs[y == kind], y[y == kind]) == pytest.approx(both, abs=0.05)


def test_where_a_training_part_lacks_a_kind_the_message_says_what_to_do(sorted_pairs):
    pairs, y = sorted_pairs
    with pytest.raises(ValueError, match=r"y has no similar pair.*shuffle the pairs or pass cv=StratifiedKFold"):
        cross_val_score(AML(), pairs, y, cv=2, error_score="raise")


def test_where_there_are_no_training_pairs_to_compare_with_the_message_says_so(sorted_pairs):
    pairs, y = sorted_pairs
    learned = AML().partial_fit(pairs, y)
    with pytest.raises(ValueError, match=r"pairs of one kind only, and this estimator keeps no training pairs"):
        learned.score(pairs[y == 1], y[y == 1])
    assert isinstance(learned.statistics_, PairStatistics)


def test_points_of_different_people_are_scored_whatever_their_number(vehicle, monkeypatch):
    learned = AML().fit(vehicle.X, vehicle.y)
    people = np.arange(len(vehicle.X))
    listed = learned.score(vehicle.X, people)
    monkeypatch.setattr("advmetric.learners.scoring._MOST_LISTED", len(people) - 1)
    monkeypatch.setattr("advmetric.learners.scoring._DRAWN", 50_000)
    assert learned.score(vehicle.X, people) == pytest.approx(listed, abs=0.01)


def test_one_point_cannot_be_scored(vehicle):
    learned = AML().fit(vehicle.X, vehicle.y)
    with pytest.raises(ValueError, match="X has one point only"):
        learned.score(vehicle.X[:1], vehicle.y[:1])


def test_the_reference_of_a_metric_does_not_depend_on_chance(vehicle):
    data = LabelledPoints(vehicle.X, np.unique(vehicle.y, return_inverse=True)[1])
    metric = AML().fit(vehicle.X, vehicle.y).get_metric()
    first, second = Reference.of(metric, data), Reference.of(metric, data)
    np.testing.assert_array_equal(first.similar, second.similar)
    assert np.median(first.similar) < np.median(first.dissimilar)
