"""Nearest neighbours among transformed points, by blocks: never an n×n matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from advmetric.utils.typing import Matrix, Vector

__all__ = ["certified_nearest", "exhaustive_nearest", "knn_judge", "knn_predict", "majority", "rounded_squares"]

_BLOCK = 1 << 19
"""Distances held at once: 4 MB, about what a cache holds."""

Indices = NDArray[np.int64]


def knn_predict(X: Matrix, y: NDArray[np.integer], queries: Matrix, k: int = 5) -> NDArray[np.integer]:
    """Majority label of the k nearest points of X, Euclidean; ties go to the smaller label.

    What scikit-learn's KNeighborsClassifier(algorithm="brute") predicts, without its overhead of a
    few milliseconds per call, which counts when thousands of small problems are scored.

    Parameters
    ----------
    X : (n, r) array
    y : (n,) array of codes 0 … c-1
    queries : (m, r) array
    """
    predicted = np.empty(len(queries), dtype=y.dtype)
    for block, votes in _votes(X, y, queries, k):
        predicted[block] = votes.argmax(axis=1)
    return predicted


def knn_judge(
    X: Matrix, y: NDArray[np.integer], queries: Matrix, labels: NDArray[np.integer], k: int = 5
) -> tuple[float, float]:
    """Share of the queries that :func:`knn_predict` gets right, and mean share of right ones among their neighbours.

    The second number is the mean probability that the vote gives to the right label: it rises with the first, and
    varies less from sample to sample.
    """
    right, shares = 0, 0.0
    for block, votes in _votes(X, y, queries, k):
        wanted = labels[block]
        right += int(np.count_nonzero(votes.argmax(axis=1) == wanted))
        known = wanted < votes.shape[1]  # a class that is not in y has no votes
        shares += float(votes[np.flatnonzero(known), wanted[known]].sum()) / k
    return right / len(queries), shares / len(queries)


def _votes(X: Matrix, y: NDArray[np.integer], queries: Matrix, k: int) -> Iterator[tuple[slice, NDArray[np.int32]]]:
    """Yield blocks of queries with the number of their k nearest points in each class."""
    weights = np.ascontiguousarray(-2.0 * X.T)
    squares = np.einsum("ij,ij->i", X, X)
    step = max(1, _BLOCK // len(X))
    for start in range(0, len(queries), step):
        block = queries[start : start + step]
        rows = np.arange(len(block))
        distances = block @ weights
        distances += squares
        votes = np.zeros((len(block), int(y.max()) + 1), dtype=np.int32)
        for _ in range(k):
            nearest = distances.argmin(axis=1)
            votes[rows, y[nearest]] += 1
            distances[rows, nearest] = np.inf
        yield slice(start, start + len(block)), votes


def majority(labels: NDArray[np.integer], n_classes: int) -> NDArray[np.integer]:
    """Most frequent code of each row; ties go to the smaller one.

    Parameters
    ----------
    labels : (m, k) array of codes 0 … n_classes-1, those of the neighbours
    """
    predicted = np.empty(len(labels), dtype=labels.dtype)
    step = max(1, _BLOCK // n_classes)
    for start in range(0, len(labels), step):
        block = labels[start : start + step]
        places = np.arange(len(block))[:, None] * n_classes + block
        votes = np.bincount(places.ravel(), minlength=len(block) * n_classes)
        predicted[start : start + step] = votes.reshape(len(block), n_classes).argmax(axis=1)
    return predicted


# --- exact neighbours through a search that rounds ------------------------------------------------------


def certified_nearest(
    X: Matrix,
    queries: Matrix,
    k: int,
    propose: Callable[[Indices, int], tuple[Matrix, Indices]],
    bound: Callable[[Indices, Vector], Vector],
) -> tuple[Matrix, Indices]:
    """k nearest points of X, Euclidean, in double precision: proposed by a search that rounds, then certified.

    Every point within the radius ρ of a query has a rounded square of at most ``bound`` says. Let ρ be the
    exact distance of the k-th best proposal. If the last proposal's rounded square is larger than the bound, no point
    within ρ was left out, and the proposals in their exact order are the answer. Queries for which it is not (many
    ties, or a crowd far from the origin) get more proposals, then a search through all points.

    Parameters
    ----------
    X : (n, r) array
    queries : (m, r) array
    k : int <= n
    propose : function (rows of queries, width) -> rounded squares, ascending, and indices, of as many proposals each
    bound : function (rows of queries, radii) -> squares

    Returns
    -------
    distances, indices : (m, k) arrays, nearest first
    """
    distances, indices = np.empty((len(queries), k)), np.empty((len(queries), k), dtype=np.int64)
    left = np.arange(len(queries))
    for width in (2 * k + 16, 16 * k + 128):
        if not len(left):
            break
        rounded, proposed = propose(left, min(width, len(X)))
        distances[left], indices[left] = _ordered(_distances(X, queries[left], proposed), proposed, k)
        if width >= len(X):
            return distances, indices
        left = left[rounded[:, -1] <= bound(left, distances[left, -1])]
    if len(left):
        distances[left], indices[left] = exhaustive_nearest(X, queries[left], k)
    return distances, indices


def rounded_squares(norms: Vector, radii: Vector, r: int, precision: type[np.floating]) -> Vector:
    """The most that ‖z‖² - 2zᵀq + ‖q‖² can come to, in the given precision, for ‖z - q‖ <= radius.

    Its rounding error is at most (r + 4)·u·(‖z‖ + ‖q‖)² to first order in the unit u, here taken twice.

    Parameters
    ----------
    norms, radii : (m,) arrays
        ‖q‖ of the queries, and the radius round each.
    r : int
        Number of terms of the products.
    """
    kind = np.finfo(precision)
    return radii**2 + (r + 4) * float(kind.eps) * (2 * norms + radii) ** 2 + r * float(kind.tiny)


def exhaustive_nearest(X: Matrix, queries: Matrix, k: int) -> tuple[Matrix, Indices]:
    """k nearest points of X from the differences themselves: no digit is lost to ‖x‖² - 2xᵀq + ‖q‖², at several times
    its cost."""
    found = [_scan(X, queries[start : start + 16], k) for start in range(0, len(queries), 16)]
    return np.concatenate([distances for distances, _ in found]), np.concatenate([indices for _, indices in found])


def _scan(X: Matrix, queries: Matrix, k: int) -> tuple[Matrix, Indices]:
    best, indices = np.empty((len(queries), 0)), np.empty((len(queries), 0), dtype=np.int64)
    step = max(k, _BLOCK // len(queries))
    for start in range(0, len(X), step):
        distances = cdist(queries, X[start : start + step])
        nearest = np.argpartition(distances, min(k, distances.shape[1]) - 1, axis=1)[:, :k]
        best = np.hstack([best, np.take_along_axis(distances, nearest, axis=1)])
        best, indices = _ordered(best, np.hstack([indices, nearest + start]), k)
    return best, indices


def _distances(X: Matrix, queries: Matrix, candidates: Indices) -> Matrix:
    """Distance of each query to its candidates."""
    distances = np.empty(candidates.shape)
    step = max(1, _BLOCK // (candidates.shape[1] * X.shape[1]))
    for start in range(0, len(queries), step):
        rows = slice(start, start + step)
        V = X[candidates[rows]]
        V -= queries[rows, None]
        np.sqrt(np.einsum("ijk,ijk->ij", V, V), out=distances[rows])
    return distances


def _ordered(distances: Matrix, indices: Indices, k: int) -> tuple[Matrix, Indices]:
    """The k nearest of each row, nearest first; of equal ones the first added."""
    order = np.lexsort((indices, distances), axis=1)[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(indices, order, axis=1)
