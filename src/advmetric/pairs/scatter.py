"""Scatter matrices: the second moments of similar and dissimilar pairs that every pair-based learner needs.

    A = mean of (x - x')(x - x')ᵀ over similar pairs,   B = the same over dissimilar pairs.

Two tables, one for given pairs and one for all pairs of labelled points, say how each representation of the points
(NumPy, SciPy sparse, array API) is summed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from advmetric.linalg.centring import near_origin
from advmetric.linalg.sparse import weighted_gram
from advmetric.utils.arrays import convert_like, namespace, representation
from advmetric.utils.typing import Indices, Matrix, Vector

from .class_statistics import PointStatistics, Within, class_scatter
from .data import BLOCK_BYTES, Pairs, Scatter
from .tiles import tiled_pair_sums

__all__ = ["all_pairs_scatter", "pair_sums", "pairs_scatter"]

_BLOCK_PAIRS = 1 << 20

_CANCELLATION = 1e-10
"""A spread below this part of the second moment has lost most of its digits."""


def pairs_scatter(pairs: Pairs) -> Scatter:
    """Return the scatter of labelled pairs.

    Through the graph of the pairs where there are more than two per point, O(Nd + nd²); from blocks of differences
    otherwise, O(Nd²). Working memory: for the graph 8 bytes per pair, at most 0.5 GB, and, where the points are in
    single precision or far from the origin, one copy of them.
    """
    similar, dissimilar, n_similar, n_dissimilar = pair_sums(pairs)
    for count, label, kind in ((n_similar, +1, "similar"), (n_dissimilar, -1, "dissimilar")):
        if not count:
            raise ValueError(f"y has no {kind} pair (label {label:+d}); a metric needs pairs of both kinds.")
    return Scatter(similar / n_similar, dissimilar / n_dissimilar, n_similar, n_dissimilar)


def pair_sums(pairs: Pairs) -> tuple[Matrix, Matrix, int, int]:
    """Return Σ (x - x')(x - x')ᵀ over the similar and over the dissimilar pairs, and the number of each."""
    similar, dissimilar = _PAIR_SUMS[representation(pairs.X)](pairs)
    n_similar = int(np.count_nonzero(pairs.labels == 1))
    return similar, dissimilar, n_similar, len(pairs) - n_similar


def _by_kind(pairs: Pairs, scatter: Callable[[Pairs], Matrix]) -> tuple[Matrix, Matrix]:
    similar, dissimilar = (scatter(pairs.take(np.flatnonzero(pairs.labels == label))) for label in (1, -1))
    return similar, dissimilar


def _sum_of_differences(pairs: Pairs) -> Matrix:
    d = pairs.X.shape[1]
    return sum((V.T @ V for _, V in pairs.differences()), convert_like(np.zeros((d, d)), pairs.X))


def _dense_pair_sums(pairs: Pairs) -> tuple[Matrix, Matrix]:
    if len(pairs) <= 2 * len(pairs.X):
        return _by_kind(pairs, _sum_of_differences)
    X = near_origin(pairs.X)
    sums = tiled_pair_sums(X, pairs.left, pairs.right, pairs.labels)
    for label, total in zip((1, -1), sums, strict=True):
        _mend_pair_sums(total, np.einsum("i,ij,ij->j", _degree(pairs, label), X, X), pairs, label)
    return sums


def _degree(pairs: Pairs, label: int) -> Vector:
    """Return how often each point occurs in the pairs of one kind."""
    degree = np.zeros(pairs.X.shape[0])
    for start in range(0, len(pairs), _BLOCK_PAIRS):  # in place: copies of 10⁸ pairs would take gigabytes
        block = slice(start, start + _BLOCK_PAIRS)
        chosen = pairs.labels[block] == label
        np.add.at(degree, pairs.left[block][chosen], 1.0)
        np.add.at(degree, pairs.right[block][chosen], 1.0)
    return degree


def _cancelled(total: Matrix, moments: Vector) -> Indices:
    """Return the features whose spread is a small difference of large second moments, so that its digits are lost."""
    return np.flatnonzero((moments > 0.0) & (np.diagonal(total) <= _CANCELLATION * moments))


def _mend_pair_sums(total: Matrix, moments: Vector, pairs: Pairs, label: int) -> None:
    """Sum the rows and columns of features that cancelled again, from the differences of the pairs of one kind."""
    lost = _cancelled(total, moments)
    if not len(lost):
        return
    exact = np.zeros((len(lost), total.shape[1]))
    for _, V in pairs.take(np.flatnonzero(pairs.labels == label)).differences():
        exact += V[:, lost].T @ V
    total[lost, :] = exact
    total[:, lost] = exact.T


def _sparse_pair_sums(pairs: Pairs) -> tuple[Matrix, Matrix]:
    n = pairs.X.shape[0]
    X: Any = near_origin(pairs.X) if len(pairs) > n else pairs.X

    def scatter(part: Pairs) -> Matrix:
        left, right = part.left, part.right
        if len(part) <= n:
            V = csr_array(X[left] - X[right], dtype=np.float64)
            return weighted_gram(V, np.ones(len(part)), BLOCK_BYTES)
        graph = csr_array((np.ones(len(part)), (left, right)), shape=(n, n))
        degree = np.bincount(left, minlength=n) + np.bincount(right, minlength=n)
        crossed = (X.T @ (graph @ X)).toarray()
        gram = weighted_gram(X, degree, BLOCK_BYTES)
        total: Matrix = gram - crossed - crossed.T
        _mend_pair_sums(total, np.diagonal(gram), part, int(part.labels[0]))
        return total

    return _by_kind(pairs, scatter)


def _array_api_pair_sums(pairs: Pairs) -> tuple[Matrix, Matrix]:
    return _by_kind(pairs, _sum_of_differences)  # the standard has no sparse product


_PAIR_SUMS: dict[str, Callable[[Pairs], tuple[Matrix, Matrix]]] = {
    "dense": _dense_pair_sums,
    "sparse": _sparse_pair_sums,
    "array_api": _array_api_pair_sums,
}


# --- all pairs of labelled points -------------------------------------------------------------------------


def all_pairs_scatter(X: Matrix, y: NDArray) -> Scatter:
    """Return the scatter of all pairs of labelled points, exactly, without listing one: O(nd²).

    See :func:`~advmetric.pairs.class_statistics.class_scatter` for the formula.
    """
    classes, code, sizes = np.unique(y, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError(
            f"y has only one class ({classes.tolist()[0]!r}), so there is no dissimilar pair; at least two classes are "
            "needed."
        )
    if sizes.max() < 2:
        raise ValueError("every class in y has only one member, so there is no similar pair to learn from.")
    within, means = _CLASS_STATISTICS[representation(X)](X, code, sizes)
    return class_scatter(within, means, sizes)


def _dense_classes(X: Matrix, code: Indices, sizes: Indices) -> tuple[Within, Matrix]:
    # Faster and without a copy of X, where a (d, d) matrix per class is not the larger of the two.
    if 8 * len(sizes) * X.shape[1] ** 2 <= X.nbytes:
        statistics = PointStatistics.of(X, code)
        return statistics.within, statistics.centred_means
    membership = csr_array((np.ones(len(X)), (code, np.arange(len(X)))), shape=(len(sizes), len(X)))
    shifted = X - X.mean(axis=0, dtype=np.float64)
    return _from_rows(shifted, membership @ shifted / sizes[:, None], code)


def _array_api_classes(X: Any, code: Indices, sizes: Indices) -> tuple[Within, Matrix]:
    xp, ends = namespace(X), np.cumsum(sizes)
    doubles = xp.astype(X, xp.float64)
    shifted = doubles - xp.mean(doubles, axis=0)
    ordered = xp.take(shifted, convert_like(np.argsort(code, kind="stable"), X), axis=0)
    spans = np.stack([ends - sizes, ends], axis=1).tolist()
    sums = xp.stack([xp.sum(ordered[start:end, :], axis=0) for start, end in spans])
    return _from_rows(shifted, sums / convert_like(sizes.astype(float), X)[:, None], code)


def _from_rows(X: Any, means: Any, code: Indices) -> tuple[Within, Matrix]:
    """Return Σ_c w_c S_c as a function of w, from the rows about the mean of their class; and the means."""
    rows = X - namespace(X).take(means, convert_like(code, X), axis=0)

    def within(weights: NDArray[Any]) -> Matrix:
        scaled = rows * convert_like(np.sqrt(weights[code]), rows)[:, None]
        return scaled.T @ scaled

    return within, means


def _sparse_classes(X: Any, code: Indices, sizes: Indices) -> tuple[Within, Matrix]:
    """The scatter of a class is its second moment about 0 less that of its mean.

    A sparse feature has most of its second moment in its variance, so that little cancels. Features of which nearly all
    cancels (they are all but constant within the classes) are summed again, about the means of the classes.
    """
    X = near_origin(X)
    n = X.shape[0]
    membership = csr_array((np.ones(n), (code, np.arange(n))), shape=(len(sizes), n))
    means = (membership @ X).toarray() / sizes[:, None]

    def within(weights: NDArray[Any]) -> Matrix:
        gram = weighted_gram(X, weights[code], BLOCK_BYTES)
        total: Matrix = gram - (means.T * (weights * sizes)) @ means
        lost = _cancelled(total, np.diagonal(gram))
        columns: Any = X.tocsc() if len(lost) else None
        step = max(1, BLOCK_BYTES // (8 * n))
        for start in range(0, len(lost), step):
            features = lost[start : start + step]
            rows = columns[:, features].toarray() - means[:, features][code]
            # The rounding error of a sum of many equal numbers is not spread; the mean of a class is then off by it.
            rows[np.abs(rows) <= 8.0 * np.finfo(float).eps * np.sqrt(n) * np.abs(means[:, features][code])] = 0.0
            weighted = rows * weights[code][:, None]
            exact = (X.T @ weighted).T
            exact[:, features] = weighted.T @ rows
            total[features, :] = exact
            total[:, features] = exact.T
        return total

    return within, means


_CLASS_STATISTICS: dict[str, Callable[[Any, Indices, Indices], tuple[Within, Matrix]]] = {
    "dense": _dense_classes,
    "sparse": _sparse_classes,
    "array_api": _array_api_classes,
}
