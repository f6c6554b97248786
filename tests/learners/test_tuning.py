"""One search for all learners: grids, folds, scores, and the choice."""

import numpy as np
import pytest

from advmetric import methods
from advmetric.learners.folds import make_folds
from advmetric.learners.tuning import NeighborScorer, PairScorer, Search, best_params, expand_grid
from advmetric.metric.knn import knn_predict
from advmetric.pairs.data import LabelledPoints, Pairs


def labelled(n=90, d=4, seed=0):
    rng = np.random.RandomState(seed)
    y = np.arange(n) % 3
    return LabelledPoints(rng.randn(n, d) + 2.0 * np.eye(3, d)[y], y)


def test_ranks_are_those_of_the_mean_scores_with_ties_sharing_the_best():
    scores = np.array([[0.5, 0.75, 0.75, 0.25], [0.5, 0.25, 0.25, 0.25]])
    search = Search([{"alpha": alpha} for alpha in range(4)], scores, np.zeros_like(scores), scores)
    np.testing.assert_array_equal(search.results()["rank_test_score"], [1, 1, 1, 4])
    assert search.best == {"alpha": 0}


def test_a_thinned_grid_keeps_every_nth_value_of_each_parameter():
    assert expand_grid({"a": [1, 2, 3], "b": [4, 5]}, thin=2) == [{"a": 1, "b": 4}, {"a": 3, "b": 4}]


@pytest.mark.parametrize("method", [m for m in methods() if len(m.grid)], ids=lambda m: m.name)
def test_the_choice_is_that_of_a_plain_loop(method):
    data = labelled()
    grid = {name: list(values)[:2] for name, values in method.grid.items()}
    if "n_steps" in grid:
        grid["n_steps"] = [20, 60]
    learner = method.estimator()
    if "random_state" in learner.get_params():
        learner.set_params(random_state=0)
    found = best_params(learner, data, grid, cv=3)
    best, chosen = -1.0, None
    for params in expand_grid(grid):
        scores = []
        for learning, judging in make_folds(data, 3):
            fitted = learner._unfitted().set_params(**params).fit(learning.X, learning.y)
            predicted = knn_predict(fitted.transform(learning.X), learning.y, fitted.transform(judging.X), 5)
            scores.append(np.mean(predicted == judging.y))
        if np.mean(scores) > best + 1e-12:
            best, chosen = np.mean(scores), params
    assert found == chosen


def test_fixed_parameters_are_kept_and_used_in_the_search():
    data = labelled()
    seen = []

    class Watching(NeighborScorer):
        def __call__(self, metric, learning, judging):
            seen.append(metric.components.shape[0])
            return super().__call__(metric, learning, judging)

    gmml = next(m for m in methods() if m.name == "GMML")
    found = best_params(
        gmml.estimator(), data, gmml.grid, fixed={"reg": 0.1, "n_components": 2, "average": False}, score=Watching(5)
    )
    assert {name: found[name] for name in ("reg", "n_components", "average")} == {
        "reg": 0.1,
        "n_components": 2,
        "average": False,
    }
    assert set(seen) == {2}


def test_pairs_are_scored_by_their_auc():
    data = labelled()
    rng = np.random.RandomState(1)
    left, right = rng.randint(90, size=(2, 200))
    pairs = Pairs(data.X, left, right, np.where(data.y[left] == data.y[right], 1, -1))

    class Metric:
        def pair_distance(self, pairs):
            return -pairs.labels.astype(float)

    assert PairScorer()(Metric(), pairs, pairs) == 1.0
