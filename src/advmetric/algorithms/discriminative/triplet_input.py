"""Triplets as supervision: formed (N, 3, d), or of row numbers (N, 3) of a preprocessor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, column_or_1d

from advmetric.learners.input import call_preprocessor
from advmetric.pairs.checks import check_row_numbers
from advmetric.pairs.data import Pairs
from advmetric.utils.arrays import is_array_api, to_numpy
from advmetric.utils.typing import Matrix
from advmetric.utils.validation import FLOATS, count_dimensions, reject_masked, reject_non_numbers, reject_nonfinite

__all__ = ["Triplets", "check_triplets", "holds_triplets"]


@dataclass(frozen=True)
class Triplets:
    """Triplets (a, p, n) of rows of X, by index: row a should be nearer to row p than to row n."""

    X: Matrix
    rows: NDArray[np.integer]
    """(N, 3)"""

    def __len__(self) -> int:
        return len(self.rows)

    def pairs(self) -> Pairs:
        """The N similar pairs (a, p), then the N dissimilar pairs (a, n), on the same points."""
        a, p, n = self.rows.T
        y = np.repeat(np.array([1, -1], dtype=np.int8), len(self))
        return Pairs(self.X, np.concatenate([a, a]), np.concatenate([p, n]), y)


def holds_triplets(X: Any, preprocessor: Any) -> bool:
    """Whether X is triplets: of shape (N, 3, d), or integers of shape (N, 3) with a preprocessor."""
    if isinstance(X, Triplets):
        return True
    if isinstance(X, Pairs):
        return False
    ndim = count_dimensions(X)
    if ndim != 3 and (ndim != 2 or preprocessor is None):
        return False
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    return bool(shape[1] == 3)


def check_triplets(X: Any, y: Any, preprocessor: Any) -> Triplets:
    """Bring formed or index triplets into one form; y is None, or +1 and -1, which exchanges p and n.

    Raises
    ------
    ValueError, TypeError
        For non-finite features, wrong shapes, indices out of range or labels other than ±1.
    """
    reject_masked(X, "triplets")
    reject_masked(y, "y")
    if isinstance(X, Triplets):
        found = X
    elif count_dimensions(X) == 3:
        formed = to_numpy(X) if is_array_api(X) else np.asarray(X)
        if 0 in formed.shape:
            raise ValueError(f"triplets must have shape (N, 3, d) with N, d >= 1, got {formed.shape}.")
        reject_non_numbers(formed, "triplets")
        formed = check_array(formed, dtype=FLOATS, allow_nd=True, ensure_2d=False, ensure_all_finite=False)
        reject_nonfinite(formed, "triplets")
        N, _, d = formed.shape
        found = Triplets(formed.reshape(3 * N, d), np.arange(3 * N).reshape(N, 3))
    else:
        found = _index_triplets(X, preprocessor)
    if y is None:
        return found
    labels = column_or_1d(to_numpy(y))
    if len(labels) != len(found):
        raise ValueError(f"y has {len(labels)} labels for {len(found)} triplets.")
    if not np.isin(labels, (-1, 1)).all():
        bad = int(np.flatnonzero(~np.isin(labels, (-1, 1)))[0])
        raise ValueError(
            f"y of triplet {bad} is {labels[bad : bad + 1].tolist()[0]!r}; labels of triplets must be +1 (the second "
            "point is nearer to the first than the third) or -1 (the third is nearer), or y must be None."
        )
    a, p, n = found.rows.T
    swapped = labels == -1
    return Triplets(found.X, np.column_stack([a, np.where(swapped, n, p), np.where(swapped, p, n)]))


def _index_triplets(X: Any, preprocessor: Any) -> Triplets:
    rows = check_row_numbers(X, "triplets", 3)
    if callable(preprocessor):
        needed, places = np.unique(rows, return_inverse=True)
        return Triplets(call_preprocessor(preprocessor, needed), places.reshape(rows.shape))
    reject_non_numbers(preprocessor, "preprocessor")
    points = to_numpy(preprocessor) if is_array_api(preprocessor) else preprocessor
    points = check_array(points, dtype=FLOATS, ensure_all_finite=False, input_name="preprocessor")
    reject_nonfinite(points, "preprocessor", getattr(preprocessor, "columns", None))
    if rows.min() < 0 or rows.max() >= len(points):
        bad = int(np.flatnonzero(((rows < 0) | (rows >= len(points))).any(axis=1))[0])
        raise ValueError(
            f"triplet {bad} is {tuple(rows[bad].tolist())}, out of range for a preprocessor of {len(points)} rows "
            f"(0 to {len(points) - 1})."
        )
    return Triplets(points, rows)
