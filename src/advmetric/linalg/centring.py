"""Means of columns, and data moved near the origin so that second moments do not cancel."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, issparse

from advmetric.utils.typing import Vector

__all__ = ["column_means", "near_origin"]

_FAR = 16.0
"""A column is far from 0 if its squared mean exceeds this many variances."""


def column_means(X: Any) -> Vector:
    """Return the mean of each column of a dense or sparse X, in double precision."""
    return np.asarray(X.sum(axis=0, dtype=np.float64)).ravel() / X.shape[0]


def near_origin(X: Any) -> Any:
    """Return X in double precision (C order or CSR), shifted where it lies far from the origin.

    Differences of rows do not change. A dense X is centred if any column is far from 0. Of a sparse X only such columns
    are shifted: they have hardly a zero, so that no sparsity is lost.
    """
    mean = column_means(X)
    if issparse(X):
        X = csr_array(X, dtype=np.float64)
        squares = column_means(X.multiply(X))
    else:
        squares = np.einsum("ij,ij->j", X, X, dtype=np.float64) / len(X)  # no copy of X
    # Where this difference cancels, the mean is far away indeed.
    far = np.flatnonzero(mean**2 > _FAR * np.maximum(squares - mean**2, 0.0))
    if not issparse(X):
        return np.ascontiguousarray(X - mean if len(far) else X, dtype=np.float64)
    if not len(far):
        return X
    n = X.shape[0]
    places = np.repeat(np.arange(n), len(far)), np.tile(far, n)
    return csr_array(X - coo_array((np.tile(mean[far], n), places), shape=X.shape))
