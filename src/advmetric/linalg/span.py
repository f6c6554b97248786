"""Orthonormal bases of the span of rows, and of its complement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs, qr
from scipy.sparse import csr_array, issparse
from sklearn.utils.extmath import randomized_svd

from advmetric.utils.typing import Matrix

from .centring import column_means, near_origin

__all__ = ["RowsInSpan", "complement", "rows_in_span"]

RowsInSpan = tuple[Matrix, Callable[[Matrix], Matrix]]
"""Rows (m, r) in an orthonormal basis Q (d, r) of their span, and the map L (k, r) ↦ LQᵀ (k, d)."""


def rows_in_span(X: Any, *, centre: bool, rank: int | None = None, random_state: Any = None) -> RowsInSpan:
    """Return rows in an orthonormal basis of their span.

    Parameters
    ----------
    X : (m, d) array, dense or sparse
    centre : bool
        Whether to subtract the mean first.
    rank : int, optional
        Keep only the leading principal directions, found by a randomised SVD. (Sparse rows are not centred for it.)
    """
    if rank is not None:
        return _leading(X, rank, random_state, centre)
    return _by_gram(X, centre) if issparse(X) else _by_qr(X, centre)


def _by_qr(X: Matrix, centre: bool) -> RowsInSpan:
    """Zᵀ = QR by Householder, then the SVD of R: stable, whatever the condition. O(dm²)."""
    Z = X.astype(np.float64)
    if centre:
        Z -= Z.mean(axis=0)
    Q, R = qr(Z.T, mode="economic", overwrite_a=True, check_finite=False)
    U, s, Vt = np.linalg.svd(R)
    r = _rank(s, max(X.shape) * np.finfo(float).eps)
    basis = Q @ U[:, :r]
    return Vt[:r].T * s[:r], lambda L: L @ basis.T


def _by_gram(X: Any, centre: bool) -> RowsInSpan:
    """ZZᵀ = U S² Uᵀ, Q = ZᵀU/S: the dense basis is never formed, unless as many components are asked for.

    Directions are right to about eps (S_max/S)²; those below 10⁻⁷ S_max count as none. The prior rules there anyway.
    """
    C = near_origin(X) if centre else csr_array(X, dtype=np.float64)
    mean = column_means(C) if centre else np.zeros(C.shape[1])
    gram = (C @ C.T).toarray()
    if centre:
        gram -= gram.mean(axis=0)
        gram -= gram.mean(axis=1)[:, None]
    squares, U = np.linalg.eigh(gram)
    squares, U = np.maximum(squares[::-1], 0.0), U[:, ::-1]
    if squares[0] == 0.0:  # all rows the same: any one direction stands for the span
        return np.zeros((len(squares), 1)), lambda L: np.pad(L, ((0, 0), (0, C.shape[1] - 1)))
    r = _rank(squares, 10 * len(squares) * np.finfo(float).eps)
    s, U = np.sqrt(squares[:r]), U[:, :r]

    def lift(L: Matrix) -> Matrix:
        weights = (L / s) @ U.T
        lifted: Matrix = (C.T @ weights.T).T - np.outer(weights.sum(axis=1), mean)
        return lifted

    return U * s, lift


def _leading(X: Any, rank: int, random_state: Any, centre: bool) -> RowsInSpan:
    """The leading right singular vectors, by a randomised range finder with power iterations."""
    if issparse(X):
        Z = near_origin(X) if centre else csr_array(X, dtype=np.float64)
    else:
        Z = X - X.mean(axis=0, dtype=np.float64) if centre else X.astype(np.float64)
    _, _, Vt = randomized_svd(Z, rank, random_state=random_state)
    return Z @ Vt.T, lambda L: L @ Vt


def _rank(values: Matrix, tolerance: float) -> int:
    """How many of the descending values are not rounding; at least 1."""
    return max(1, int(np.sum(values > tolerance * values[0])))


def complement(basis: Matrix, count: int) -> Matrix:
    """``count`` orthonormal columns (d, count) orthogonal to those of ``basis`` (d, r), by r reflections."""
    d, r = basis.shape
    (reflectors, tau), _ = qr(basis, mode="raw", check_finite=False)
    (multiply,) = get_lapack_funcs(("ormqr",), (reflectors,))
    columns = np.zeros((d, count), order="F")
    columns[r + np.arange(count), np.arange(count)] = 1.0
    _, work, _ = multiply("L", "N", reflectors, tau, columns, -1)
    product, _, _ = multiply("L", "N", reflectors, tau, columns, int(work[0]), overwrite_c=True)
    orthonormal: Matrix = product
    return orthonormal
