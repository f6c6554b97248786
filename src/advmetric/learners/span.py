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
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from advmetric.linalg.span import rows_in_span
from advmetric.linalg.sparse import dense_rows
from advmetric.pairs.data import LabelledPoints, Pairs, Samples, Scatter
from advmetric.pairs.scatter import all_pairs_scatter, pairs_scatter
from advmetric.utils.arrays import to_numpy
from advmetric.utils.typing import Matrix

__all__ = ["Span", "in_span", "span_of"]


@dataclass(frozen=True)
class Span:
    """Scatter matrices in an orthonormal basis Q (d, r) of the span of the data."""

    scatter: Scatter
    lift: Callable[[Matrix], Matrix]
    """L (k, r) ↦ LQᵀ (k, d)."""
    d: int


def span_of(data: Samples, rank: int | None = None, random_state: Any = None) -> Span | None:
    """Return the span of points (about their mean) or of pairs, and the scatter in it.

    None where the span would be no smaller than the space. With ``rank``, only the leading principal directions of
    the data, found by a randomised SVD: the scatter is that of the data projected on them, an approximation. (Sparse
    data are not centred for it: their directions are those of latent semantic analysis.)
    """
    differences = isinstance(data, Pairs) and len(data) <= data.X.shape[0]
    m, d = len(data) if differences else data.X.shape[0], data.X.shape[1]
    if rank is not None and rank >= min(m, d):
        rank = None
    if rank is None and m >= d:
        return None
    X = data.X if issparse(data.X) else to_numpy(data.X)  # small: fewer rows than features
    rows = _differences(X, data) if isinstance(data, Pairs) and differences else X
    Y, lift = rows_in_span(rows, centre=not differences, rank=rank, random_state=random_state)
    if not isinstance(data, Pairs):
        return Span(all_pairs_scatter(Y, data.labels), lift, d)
    pairs = Pairs.from_differences(Y, data.y) if differences else Pairs(Y, data.left, data.right, data.y)
    return Span(pairs_scatter(pairs), lift, d)


def in_span(data: Samples) -> Samples:
    """Return points by their coordinates in an orthonormal basis of their span, where that is smaller than the space.

    Learners whose prior is the identity find in these coordinates what their metric does to the points, at the cost of
    n features instead of d. Sparse points and pairs are returned as they are. O(dn²).
    """
    if isinstance(data, Pairs) or issparse(data.X) or len(data) >= data.X.shape[1]:
        return data
    rows, _ = rows_in_span(data.X, centre=True)
    return LabelledPoints(rows, data.y, data.n_features)


def _differences(X: Any, pairs: Pairs) -> Any:
    if issparse(X):
        return X[pairs.left].astype(np.float64) - X[pairs.right]
    return dense_rows(X, pairs.left) - X[pairs.right]
