"""Sparse points without densifying them: second moments through sparse products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array, issparse

from .linalg import Matrix, Vector

__all__ = ["class_sums", "column_means", "dense_rows", "near_origin", "pair_sum", "weighted_gram"]

_SPARSE_DENSITY = 0.05
"""Up to this share of nonzeros, a product of two sparse matrices beats dense blocks."""


def dense_rows(X: Any, rows: Any) -> Matrix:
    """The given rows (a slice or indices) of a dense or sparse X, dense and in double precision."""
    chosen = X[rows]
    dense: Matrix = (chosen.toarray() if issparse(chosen) else np.asarray(chosen)).astype(np.float64, copy=False)
    return dense


def column_means(X: Any) -> Vector:
    """Mean of each column of a dense or sparse X, in double precision."""
    return np.asarray(X.sum(axis=0, dtype=np.float64)).ravel() / X.shape[0]


def near_origin(X: Any) -> Any:
    """Sparse X in double precision, without the means of columns that lie far from 0.

    Such a column (mean² above 16 variances) has hardly a zero in it, so that shifting it costs no
    sparsity; left alone, its scatter would cancel.
    """
    X = csr_array(X, dtype=np.float64)
    mean = column_means(X)
    variance = column_means(X.multiply(X)) - mean**2
    far = np.flatnonzero(mean**2 > 16.0 * np.maximum(variance, 0.0))
    if not len(far):
        return X
    n, d = X.shape
    shift = coo_array(
        (np.tile(mean[far], n), (np.repeat(np.arange(n), len(far)), np.tile(far, n))),
        shape=(n, d),
    )
    return csr_array(X - shift)


def weighted_gram(X: Any, weight: NDArray[Any], block_bytes: int) -> Matrix:
    """Xᵀ diag(weight) X of a sparse X: a sparse product, or dense blocks where that is faster."""
    n, d = X.shape
    root = np.sqrt(weight)
    if X.nnz <= _SPARSE_DENSITY * n * d:
        scaled = diags_array(root) @ X
        product: Matrix = (scaled.T @ scaled).toarray()
        return product
    total = np.zeros((d, d))
    step = max(1, block_bytes // (8 * d))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        Z = dense_rows(X, rows) * root[rows, None]
        total += Z.T @ Z
    return total


def class_sums(X: Any, code: NDArray[Any], sizes: NDArray[Any], block_bytes: int) -> tuple[Matrix, Matrix]:
    """Σ_similar and Σ_dissimilar over all pairs of sparse points: see ``supervision.all_pairs_scatter``.

    The scatter of a class is its second moment about 0 less that of its mean. A sparse feature has most
    of the former in its variance, so that little cancels.
    """
    X = near_origin(X)
    n = X.shape[0]
    membership = csr_array((np.ones(n), (code, np.arange(n))), shape=(len(sizes), n))
    means = (membership @ X).toarray() / sizes[:, None]

    def within(weight: NDArray[Any]) -> Matrix:
        """Σ_c weight_c S_c."""
        return weighted_gram(X, weight[code], block_bytes) - (means.T * (weight * sizes)) @ means

    gaps = means - sizes @ means / n
    return within(sizes), within(n - sizes) + n * (gaps.T * sizes) @ gaps


def pair_sum(X: Any, left: NDArray[Any], right: NDArray[Any], block_bytes: int) -> Matrix:
    """Σ (x - x')(x - x')ᵀ over pairs of rows of sparse points, by their graph if they outnumber the points."""
    n = X.shape[0]
    if len(left) <= n:
        return weighted_gram(csr_array(X[left] - X[right], dtype=np.float64), np.ones(len(left)), block_bytes)
    graph = csr_array((np.ones(len(left)), (left, right)), shape=(n, n))
    degree = np.bincount(left, minlength=n) + np.bincount(right, minlength=n)
    crossed = (X.T @ (graph @ X)).toarray()
    return weighted_gram(X, degree, block_bytes) - crossed - crossed.T
