"""Fewer rows than features: learning in the span of the data, exactly.

With Q an orthonormal basis of the span of all differences of pairs and prior M₀ = I, the regularised scatter
matrices are block diagonal,

    A + aI = Q(QᵀAQ + aI)Qᵀ + a(I - QQᵀ),   a = reg·tr A/d   (and so is B + bI),

and every objective tr(A f_S(M)) + tr(B f_D(M)) splits with them. It is unchanged when the complement is turned or
mirrored, so its minimiser is block diagonal too,

    M = Q M_r Qᵀ + m (I - QQᵀ),

M_r from the (r, r) problem and m from the scalar problem (a, b). O(dn²) instead of O(d³).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs, qr
from scipy.sparse import csr_array, issparse
from sklearn.utils.extmath import randomized_svd

from .arrays import is_foreign, to_numpy
from .learner import LabelledPoints
from .linalg import Matrix
from .sparse import column_means, dense_rows, near_origin
from .supervision import Pairs, Scatter, all_pairs_scatter, pairs_scatter

__all__ = ["Span", "complement", "span_of"]


@dataclass(frozen=True)
class Span:
    """Scatter matrices in an orthonormal basis Q (d, r) of the span of the data."""

    scatter: Scatter
    lift: Callable[[Matrix], Matrix]
    """L (k, r) ↦ LQᵀ (k, d)."""


def span_of(data: LabelledPoints | Pairs, rank: int | None = None, random_state: Any = None) -> Span | None:
    """The span of points (about their mean) or of pairs, and the scatter in it.

    None where the span would be no smaller than the space. With ``rank``, only the leading principal directions of
    the data, found by a randomised SVD: the scatter is that of the data projected on them, an approximation. (Sparse
    data are not centred for it: their directions are those of latent semantic analysis.)
    """
    as_differences = isinstance(data, Pairs) and len(data) <= data.X.shape[0]
    m, d = len(data) if isinstance(data, Pairs) and as_differences else data.X.shape[0], data.X.shape[1]
    if rank is not None and rank >= min(m, d):
        rank = None
    if rank is None and m >= d:
        return None
    if is_foreign(data.X):  # small: fewer rows than features
        data = replace(data, X=to_numpy(data.X))
    rows = _differences(data) if isinstance(data, Pairs) and as_differences else data.X
    if rank is not None:
        Y, lift = _leading(rows, rank, random_state, centre=not as_differences)
    elif issparse(rows):
        Y, lift = _by_gram(rows, centre=not as_differences)
    else:
        Y, lift = _by_qr(rows, centre=not as_differences)
    if isinstance(data, LabelledPoints):
        return Span(all_pairs_scatter(Y, data.y), lift)
    if as_differences:
        return Span(pairs_scatter(Pairs.from_differences(Y, data.y)), lift)
    return Span(pairs_scatter(Pairs(Y, data.left, data.right, data.y)), lift)


Coordinates = tuple[Matrix, Callable[[Matrix], Matrix]]
"""Rows in an orthonormal basis Q of their span, and L ↦ LQᵀ."""


def _by_qr(X: Matrix, centre: bool) -> Coordinates:
    """Zᵀ = QR by Householder, then the SVD of R: stable, whatever the condition. O(dm²)."""
    Z = X.astype(np.float64)
    if centre:
        Z -= Z.mean(axis=0)
    Q, R = qr(Z.T, mode="economic", overwrite_a=True, check_finite=False)
    U, s, Vt = np.linalg.svd(R)
    r = _rank(s, max(X.shape) * np.finfo(float).eps)
    basis = Q @ U[:, :r]
    return Vt[:r].T * s[:r], lambda L: L @ basis.T


def _by_gram(X: Any, centre: bool) -> Coordinates:
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


def _leading(X: Any, rank: int, random_state: Any, centre: bool) -> Coordinates:
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


def _differences(pairs: Pairs) -> Any:
    if issparse(pairs.X):
        return pairs.X[pairs.left].astype(np.float64) - pairs.X[pairs.right]
    return dense_rows(pairs.X, pairs.left) - pairs.X[pairs.right]


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
