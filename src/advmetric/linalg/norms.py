"""Norms of rows whose squares may overflow or underflow."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from advmetric.utils.arrays import namespace
from advmetric.utils.typing import Vector

__all__ = ["row_norms", "squares_are_finite"]

_SMALL, _LARGE = 1e-280, 1e280
"""Sums of squares between these have lost nothing to underflow that their other terms do not outweigh."""


def row_norms(Z: Any) -> Vector:
    """Return ‖z‖ of each row of a dense, sparse or array API matrix, also where ‖z‖² is out of range.

    Rows whose sum of squares is tiny or huge are divided by their largest entry first, as BLAS's nrm2 does.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if issparse(Z):
            squares: Any = Z.multiply(Z).sum(axis=1)
        elif isinstance(Z, np.ndarray):
            squares = np.einsum("ij,ij->i", Z, Z)
        else:
            return _array_api_norms(Z)
        norms: Vector = np.sqrt(squares)
        extreme = np.flatnonzero(~((squares > _SMALL) & (squares < _LARGE)))
        if len(extreme):
            rows = Z[extreme].toarray() if issparse(Z) else Z[extreme]
            unit = np.abs(rows).max(axis=1)
            unit[unit == 0.0] = 1.0
            rows = rows / unit[:, None]
            norms[extreme] = unit * np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return norms


def _array_api_norms(Z: Any) -> Any:
    xp = namespace(Z)
    unit = xp.max(xp.abs(Z), axis=1, keepdims=True)
    unit = xp.where(unit == 0.0, xp.ones_like(unit), unit)
    return unit[:, 0] * xp.linalg.vector_norm(Z / unit, axis=1)


def squares_are_finite(L: Any) -> bool:
    """Return whether all entries of LᵀL are finite: none is larger than the sum of squares of L."""
    values = L.data if issparse(L) else L
    with np.errstate(over="ignore", invalid="ignore"):
        total = namespace(values).sum(values * values)
    return bool(np.isfinite(float(total)))
