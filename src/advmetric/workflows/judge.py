"""How good a distance is, beside the Euclidean one; by a sample of the points where all would take too long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from advmetric.evaluation.scores import K, euclidean, leave_one_out_error, neighbor_error, pair_quality, scale_of
from advmetric.metric.knn import majority
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.pairs.data import LabelledPoints, Pairs, Samples
from advmetric.utils.typing import Indices, Matrix

from .stages import stage

__all__ = ["HELPS", "Judgement", "compare", "draw_queries", "judge", "rulers_beside"]

DISTANCES = 200_000_000
"""Distances that are computed at most for one error, unless that would leave fewer than QUERIES points."""
QUERIES = 1000
HELPS = "learning helps here"


@dataclass(frozen=True)
class Judgement:
    """Scores by the name of the distance, and the number of points judged if not all."""

    scores: dict[str, dict[str, Any]]
    sampled: int | None = None


def draw_queries(n: int, among: int, seed: int = 0) -> Indices | None:
    """Return which of n points to judge by their neighbours among the reference points; None for all."""
    count = max(QUERIES, DISTANCES // max(among, 1))
    if n <= count:
        return None
    drawn: Indices = np.sort(np.random.default_rng(seed).choice(n, count, replace=False))
    return drawn


def rulers_beside(
    name: str, metric: Mahalanobis, points: Matrix, *, standardized: bool = True
) -> dict[str, Mahalanobis]:
    """Return the metric and Euclidean distances, of features as they are or standardised by ``points``."""
    scale = scale_of(points)
    rulers = {name: metric}
    if standardized:
        rulers["Euclidean, standardised"] = euclidean(scale)
    rulers["Euclidean, raw"] = euclidean(np.ones_like(scale))
    return rulers


def judge(
    rulers: Mapping[str, Mahalanobis], test: Samples, train: Samples | None = None, *, seed: int = 0
) -> Judgement:
    """Score distances on labelled samples.

    Points: the error of 5 nearest neighbours among ``train``, or leave-one-out. Pairs: area under the ROC curve, and
    accuracy at the threshold that is best on ``train``, or at the metric's own.
    """
    rows = None
    if isinstance(test, LabelledPoints):
        rows = draw_queries(len(test), len(test if train is None else train), seed)
    scores: dict[str, dict[str, Any]] = {}
    with stage("Judging", len(rulers)) as current:
        for name, ruler in rulers.items():
            if isinstance(test, Pairs):
                assert train is None or isinstance(train, Pairs)
                scores[name] = pair_quality(ruler, test, train)
            elif train is None:
                scores[name] = {"error": _left_out(ruler, test.X, test.labels, rows)}
            else:
                queries = test if rows is None else test.take(rows)
                error = neighbor_error(ruler, train.X, train.labels, queries.X, queries.labels)
                scores[name] = {"error": error}
            current.advance()
    return Judgement(scores, None if rows is None else len(rows))


def compare(scores: Mapping[str, Mapping[str, Any]], judged: int) -> tuple[str, str]:
    """Return the name of the best other distance, and in words what the first one is worth beside it.

    A difference within about one standard error over the judged samples may be chance.
    """
    mine, *others = scores.values()
    key, sign = ("error", -1.0) if "error" in mine else ("roc_auc", 1.0)
    place = int(np.argmax([sign * other[key] for other in others]))
    learned, plain = mine[key], others[place][key]
    # Of points: the two verdicts on a row differ in at most a share of learned + plain of the rows.
    variance = learned + plain if key == "error" else 2.0 * learned * (1.0 - learned)
    gain = sign * (learned - plain)
    if abs(gain) <= np.sqrt(variance / judged):
        said = "the difference may be chance" if gain else "no difference"
    else:
        said = HELPS if gain > 0 else "learning does not help here"
    return list(scores)[1 + place], said


def _left_out(metric: Mahalanobis, X: Matrix, y: NDArray, rows: Indices | None) -> float:
    """Leave-one-out error of all points, or of some among all."""
    if rows is None:
        return leave_one_out_error(metric, X, y)
    classes, codes = np.unique(y, return_inverse=True)
    Z = metric.transform(X - X.mean(axis=0))
    # One neighbour more than needed: the point itself, or, if it has equals, one of these for the last.
    near = NearestNeighbors(n_neighbors=K + 1).fit(Z).kneighbors(Z[rows], return_distance=False)
    itself = near == rows[:, None]
    itself[~itself.any(axis=1), -1] = True
    votes = codes[near[~itself].reshape(len(rows), K)]
    return float(np.mean(majority(votes, len(classes)) != codes[rows]))
