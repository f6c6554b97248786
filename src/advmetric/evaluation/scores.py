"""How good a distance is: the error of 5 nearest neighbours on points, ROC curve and accuracy on pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler

from advmetric.metric.knn import knn_predict
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.metric.threshold import best_threshold
from advmetric.pairs.data import Pairs
from advmetric.utils.typing import Matrix, Vector

__all__ = ["K", "euclidean", "leave_one_out_error", "neighbor_error", "pair_quality", "scale_of"]

K = 5
"""Neighbours, as in the experiments."""


def scale_of(X: Matrix) -> Vector:
    """Standard deviation of each feature; 1 for a constant one."""
    scale: Vector = StandardScaler().fit(X).scale_
    return scale


def euclidean(scale: Vector) -> Mahalanobis:
    """The Euclidean distance after division of each feature by its scale."""
    return Mahalanobis(np.diag(1.0 / scale))


def neighbor_error(metric: Mahalanobis, X: Matrix, y: NDArray, queries: Matrix, truth: NDArray) -> float:
    """Share of the queries that their 5 nearest points of X give another label than ``truth``."""
    classes, codes = np.unique(y, return_inverse=True)
    centre = X.mean(axis=0)  # far from the origin, squares of distances would cancel
    found = knn_predict(metric.transform(X - centre), codes, metric.transform(queries - centre), min(K, len(X)))
    return float(np.mean(classes[found] != truth))


def leave_one_out_error(metric: Mahalanobis, X: Matrix, y: NDArray) -> float:
    """Share of the points that their 5 nearest others give another label than their own."""
    if len(X) < 2:
        raise ValueError("leave-one-out needs at least two rows.")
    classes, codes = np.unique(y, return_inverse=True)
    Z = metric.transform(X - X.mean(axis=0))
    neighbours = NearestNeighbors(n_neighbors=min(K, len(X) - 1)).fit(Z).kneighbors(return_distance=False)
    votes = np.zeros((len(X), len(classes)), dtype=np.int32)
    for column in neighbours.T:
        votes[np.arange(len(X)), codes[column]] += 1
    return float(np.mean(votes.argmax(axis=1) != codes))


def pair_quality(metric: Mahalanobis, pairs: Pairs, train: Pairs | None = None) -> dict[str, Any]:
    """ROC AUC, and accuracy at the threshold that is best on ``train``, or else at the metric's own (or None)."""
    distances = metric.pair_distance(pairs)
    threshold = metric.threshold
    if train is not None:
        threshold = best_threshold(metric.pair_distance(train), train.labels)
    accuracy = None
    if threshold is not None:
        accuracy = float(np.mean(np.where(distances <= threshold, 1, -1) == pairs.labels))
    if len(np.unique(pairs.labels)) < 2:
        raise ValueError("the ROC curve needs pairs of both kinds, +1 and -1.")
    return {"roc_auc": float(roc_auc_score(pairs.labels, -distances)), "accuracy": accuracy}
