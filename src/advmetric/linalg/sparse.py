"""Products of sparse points that never become dense as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import diags_array, issparse

from advmetric.utils.typing import Matrix

__all__ = ["dense_rows", "weighted_gram"]

_SPARSE_DENSITY = 0.05
"""Up to this share of nonzeros, a product of two sparse matrices is faster than dense blocks."""


def dense_rows(X: Any, rows: Any) -> Matrix:
    """Return the given rows (a slice or indices) of a dense or sparse X, dense and in double precision."""
    chosen = X[rows]
    dense: Matrix = (chosen.toarray() if issparse(chosen) else np.asarray(chosen)).astype(np.float64, copy=False)
    return dense


def weighted_gram(X: Any, weight: NDArray[Any], block_bytes: int) -> Matrix:
    """Return Xᵀ diag(weight) X of a sparse X: by a sparse product, or by dense blocks where that is faster."""
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
