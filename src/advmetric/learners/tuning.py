"""Choice of parameters by cross-validation: one search for all learners.

Learners say how candidates share work: :meth:`MetricLearner._candidate_groups` splits candidates into groups, and
:meth:`MetricLearner._candidate_metrics` learns those of a group one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed, hash
from numpy.typing import NDArray
from sklearn.metrics import get_scorer, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

from advmetric.metric.knn import knn_judge, knn_predict
from advmetric.pairs.data import Pairs, Samples
from advmetric.utils.progress import progress
from advmetric.utils.threads import one_blas_thread
from advmetric.utils.typing import Matrix, Vector

from .folds import Part, make_folds

__all__ = [
    "NeighborScorer",
    "PairScorer",
    "Params",
    "Scorer",
    "Search",
    "SteadyNeighborScorer",
    "best_of_levels",
    "best_params",
    "expand_grid",
    "group_candidates",
    "join_searches",
    "make_scorer",
    "score_candidates",
    "simplest_within_one_standard_error",
]

Params = dict[str, Any]
Scorer = Callable[[Any, Samples, Samples], float | tuple[float, float]]
"""(metric, learned from, judged on) ↦ score, the larger the better, perhaps with a second one that varies less."""


@dataclass(frozen=True)
class NeighborScorer:
    """Score a metric by the k-NN classifier in its space: accuracy, or a custom scorer of that classifier."""

    n_neighbors: int = 5
    custom: Callable[..., float] | None = None
    classes: NDArray[Any] | None = None
    """For custom scorers: the labels that the codes of the classes stand for."""

    def __call__(self, metric: Any, learning: Samples, judging: Samples) -> float:
        learned, judged = metric.transform(learning.X), metric.transform(judging.X)
        k = min(self.n_neighbors, len(learned))
        if self.custom is None:
            return float(np.mean(knn_predict(learned, learning.labels, judged, k) == judging.labels))
        assert self.classes is not None
        classifier = KNeighborsClassifier(k, algorithm="brute").fit(learned, self.classes[learning.labels])
        return float(self.custom(classifier, judged, self.classes[judging.labels]))


@dataclass(frozen=True)
class SteadyNeighborScorer:
    """Score a metric by the accuracy of the k-NN classifier, and by the share of right labels among the neighbours."""

    n_neighbors: int = 5

    def __call__(self, metric: Any, learning: Samples, judging: Samples) -> tuple[float, float]:
        learned, judged = metric.transform(learning.X), metric.transform(judging.X)
        return knn_judge(learned, learning.labels, judged, judging.labels, min(self.n_neighbors, len(learned)))


@dataclass(frozen=True)
class PairScorer:
    """Score a metric on held-out pairs: ROC AUC of its distances, or a custom scorer of a fitted learner."""

    custom: Callable[..., float] | None = None
    learner: Any = None
    """For custom scorers: the learner that is given the metric."""

    def __call__(self, metric: Any, learning: Samples, judging: Samples) -> float:
        if self.custom is None:
            assert isinstance(judging, Pairs)
            return float(roc_auc_score(judging.labels, -metric.pair_distance(judging)))
        fitted = self.learner._unfitted()
        fitted.n_features_in_, fitted.classes_ = metric.components.shape[1], np.array([-1, 1])
        fitted._set_metric(metric.components, learning)
        return float(self.custom(fitted, judging, judging.labels))


def make_scorer(
    data: Samples, learner: Any = None, scoring: Any = None, n_neighbors: int = 5, classes: Any = None
) -> Scorer:
    """Return the scorer for labelled points (k-NN accuracy) or pairs (ROC AUC), or a custom one for either."""
    custom = get_scorer(scoring) if isinstance(scoring, str) else scoring
    return PairScorer(custom, learner) if data.kind == "pairs" else NeighborScorer(n_neighbors, custom, classes)


def expand_grid(grid: Mapping[str, Sequence[Any]], thin: int = 1) -> list[Params]:
    """Return all combinations of the values, or of every ``thin``-th value; the last parameter varies fastest.

    >>> expand_grid({"t": [0, 1], "alpha": [5]})
    [{'t': 0, 'alpha': 5}, {'t': 1, 'alpha': 5}]
    """
    values = [list(options)[::thin] for options in grid.values()]
    return [dict(zip(grid, combination, strict=True)) for combination in product(*values)]


def group_candidates(candidates: Sequence[Params], free: Sequence[str]) -> list[list[int]]:
    """Return groups of candidates (by position) that differ in the free parameters only.

    >>> group_candidates([{"t": 0, "a": 1}, {"t": 1, "a": 1}, {"t": 0, "a": 2}], free=("a",))
    [[0, 2], [1]]
    """
    groups: dict[str, list[int]] = {}
    for index, params in enumerate(candidates):
        shared = {name: value for name, value in params.items() if name not in free}
        groups.setdefault(hash(shared), []).append(index)
    return list(groups.values())


@dataclass(frozen=True)
class Search:
    """Scores of candidates in cross-validation."""

    candidates: list[Params]
    scores: Matrix
    """(folds, candidates)"""
    n_iter: Matrix
    """(folds, candidates)"""
    steady: Matrix
    """(folds, candidates): second scores, or the scores themselves where the scorer gives one only."""

    @property
    def mean(self) -> NDArray[np.float64]:
        """Return the mean score of each candidate."""
        mean: NDArray[np.float64] = self.scores.mean(axis=0)
        return mean

    @property
    def best_index(self) -> int:
        """Return the candidate with the highest mean score; the first of equal ones."""
        return int(np.argmax(self.mean))

    @property
    def best(self) -> Params:
        """Return the parameters with the highest mean score."""
        return self.candidates[self.best_index]

    def take(self, indices: NDArray[np.intp]) -> Search:
        """Return the search of some candidates only."""
        candidates = [self.candidates[index] for index in indices]
        return Search(candidates, self.scores[:, indices], self.n_iter[:, indices], self.steady[:, indices])

    def extended(self, other: Search) -> Search:
        """Return this search with the folds of another one of the same candidates."""
        folds = [np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("scores", "n_iter", "steady")]
        return Search(self.candidates, *folds)

    def results(self) -> dict[str, Any]:
        """Return the scores in the form of scikit-learn's ``cv_results_``."""
        mean, found = self.mean, dict[str, Any]()
        for name in self.candidates[0]:
            column = np.empty(len(self.candidates), dtype=object)
            column[:] = [candidate[name] for candidate in self.candidates]
            found[f"param_{name}"] = column
        found["params"] = self.candidates
        for fold, row in enumerate(self.scores):
            found[f"split{fold}_test_score"] = row
        found["mean_test_score"], found["std_test_score"] = mean, self.scores.std(axis=0)
        found["rank_test_score"] = (mean[None, :] > mean[:, None] + 1e-15).sum(axis=1) + 1
        found["n_iter"] = self.n_iter.mean(axis=0)
        return found


def join_searches(losses: Sequence[str], searches: Sequence[Search], plain: bool) -> Search:
    """Return one search over the candidates of all losses; ``plain`` leaves the names of the losses out."""
    names = list(dict.fromkeys(name for search in searches for params in search.candidates for name in params))
    candidates = []
    for loss, search in zip(losses, searches, strict=True):
        for params in search.candidates:
            row = {name: params.get(name) for name in names}
            candidates.append(row if plain else {"loss": loss, **row})
    return Search(
        candidates,
        np.concatenate([search.scores for search in searches], axis=1),
        np.concatenate([search.n_iter for search in searches], axis=1),
        np.concatenate([search.steady for search in searches], axis=1),
    )


def simplest_within_one_standard_error(
    scores: Matrix, levels: NDArray[np.integer], steady: Matrix | None = None
) -> int:
    """Return the best candidate of the simplest level that cannot be told from the best of all.

    Parameters
    ----------
    scores : (folds, candidates) array
    levels : (candidates,) integer array
        The lower, the simpler.
    steady : (folds, candidates) array, optional
        Scores that vary less. Of the candidates within one standard error of the highest score, that with the highest
        steady score is taken for the best; in a simpler level, that with the highest steady score competes.

    Notes
    -----
    The lead of the best candidate over the best one of a level is averaged over the folds; up to one standard error of
    that mean it counts as noise.

    Examples
    --------
    >>> scores = np.array([[0.80, 0.81], [0.82, 0.81], [0.81, 0.83]])
    >>> simplest_within_one_standard_error(scores, np.array([0, 1]))
    0
    >>> simplest_within_one_standard_error(scores + [0.0, 0.05], np.array([0, 1]))
    1
    """
    mean = (scores if steady is None else steady).mean(axis=0)
    best = int(np.argmax(scores.mean(axis=0)))
    if steady is not None:
        rivals = np.flatnonzero(_within_one_standard_error(scores, best))
        best = int(rivals[np.argmax(mean[rivals])])
    close = _within_one_standard_error(scores, best)
    for level in np.unique(levels[levels < levels[best]]):
        members = np.flatnonzero(levels == level)
        candidate = int(members[np.argmax(mean[members])])
        if close[candidate]:
            return candidate
    return best


def best_of_levels(scores: Vector, levels: NDArray[np.integer], counts: Mapping[int, int]) -> NDArray[np.intp]:
    """Return the best candidates of each level, by position; ``counts`` says how many of which level.

    >>> best_of_levels(np.array([0.1, 0.5, 0.7, 0.6]), np.array([0, 1, 1, 1]), {0: 1, 1: 2}).tolist()
    [0, 2, 3]
    """
    order = np.argsort(-scores, kind="stable")
    return np.sort(np.concatenate([order[levels[order] == level][:n] for level, n in counts.items()]))


def _within_one_standard_error(scores: Matrix, best: int) -> NDArray[np.bool_]:
    """Return for each candidate whether the mean lead of the best over it is at most one standard error."""
    lead = scores[:, [best]] - scores
    n = len(lead)
    error = lead.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(lead.shape[1])
    within: NDArray[np.bool_] = lead.mean(axis=0) <= error
    return within


def score_candidates(
    learner: Any,
    parts: Sequence[Part],
    candidates: Sequence[Params],
    scorer: Scorer,
    *,
    n_jobs: int | None = None,
    title: str = "",
) -> Search:
    """Learn each candidate from the first of each part and score it on the second.

    Parameters
    ----------
    learner : MetricLearner
        Its other parameters hold for all candidates.
    parts : sequence of (Samples, Samples)
    candidates : sequence of dict
    scorer : callable
    n_jobs : int, optional
        Processes over parts and groups of candidates.
    title : str
        Of a progress bar; none if empty.
    """
    groups = learner._candidate_groups(list(candidates))
    tasks = [(part, group) for part in range(len(parts)) for group in groups]
    run = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_score_group)(learner, *parts[part], [candidates[index] for index in group], scorer)
        for part, group in tasks
    )
    n_iter, scores = np.empty((len(parts), len(candidates))), np.empty((len(parts), len(candidates), 2))
    watched = progress(run, len(tasks), title, enabled=bool(title))
    for (part, group), found in zip(tasks, watched, strict=True):
        values, n_iter[part, group] = found
        scores[part, group] = np.reshape(values, (len(group), -1))  # one number stands for both scores
    return Search(list(candidates), scores[:, :, 0], n_iter, scores[:, :, 1])


def _score_group(
    learner: Any, learning: Samples, judging: Samples, candidates: list[Params], scorer: Scorer
) -> tuple[list[float | tuple[float, float]], list[int]]:
    scores: list[float | tuple[float, float]] = []
    n_iter: list[int] = []
    with one_blas_thread():  # more cores are for n_jobs: with two threads of BLAS a search took 1.5 to 5 times as long
        for metric, steps in _metrics(learner, candidates, learning):
            score = scorer(metric, learning, judging)
            if not np.all(np.isfinite(score)):
                raise ValueError(f"scoring returned {score}; a search compares finite scores only.")
            scores.append(score)
            n_iter.append(steps)
    return scores, n_iter


def _metrics(learner: Any, candidates: list[Params], data: Samples) -> Iterator[tuple[Any, int]]:
    found: Iterator[tuple[Any, int]] = learner._candidate_metrics(candidates, data)
    return found


def best_params(
    learner: Any,
    data: Samples | Sequence[Part],
    grid: Mapping[str, Sequence[Any]],
    *,
    fixed: Mapping[str, Any] | None = None,
    cv: Any = 3,
    score: Scorer | None = None,
    thin: int = 1,
    n_jobs: int | None = None,
    title: str = "",
) -> Params:
    """Return the parameters of a grid that score best in cross-validation, together with the fixed ones.

    Parameters
    ----------
    learner : MetricLearner
        Not fitted. Its other parameters hold for all candidates.
    data : LabelledPoints, Pairs, or a sequence of parts
        Samples to cross-validate on, or ready-made (learn from, judge on) parts.
    grid : dict
        Values to try for each parameter; those of ``fixed`` are left out.
    fixed : dict, optional
        Parameters that are given.
    cv : int or splitter
        For samples: folds, stratified by class or by kind of pair.
    score : callable, optional
        By default 5-NN accuracy on points, ROC AUC on pairs.
    thin : int
        Try every n-th value of each parameter only.
    n_jobs, title : see :func:`score_candidates`
    """
    given = dict(fixed or {})
    candidates = expand_grid({name: values for name, values in grid.items() if name not in given}, thin)
    if len(candidates) == 1:
        return {**given, **candidates[0]}
    parts: Sequence[Part] = make_folds(data, cv) if isinstance(data, Samples) else data
    base = learner._unfitted().set_params(**given)
    search = score_candidates(base, parts, candidates, score or make_scorer(parts[0][1]), n_jobs=n_jobs, title=title)
    return {**given, **search.best}
