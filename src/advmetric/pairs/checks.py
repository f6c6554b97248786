"""Validation of formed pairs, of index pairs and of the labels of pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, column_or_1d

from advmetric.utils.arrays import is_array_api, to_numpy
from advmetric.utils.validation import FLOATS, as_floating, reject_non_numbers, reject_nonfinite

from .data import Pairs

__all__ = ["check_formed_pairs", "check_index_pairs", "check_pair_labels", "check_row_numbers"]

_BLOCK = 1 << 20
"""Number of labels checked at a time."""


def check_formed_pairs(pairs: Any) -> Pairs:
    """Check an (N, 2, d) array-like of pairs; return an index view on its points."""
    formed = as_floating(pairs) if is_array_api(pairs) else np.asarray(pairs)
    if formed.ndim != 3 or formed.shape[1] != 2 or 0 in formed.shape:
        raise ValueError(
            f"pairs must have shape (N, 2, d) with N, d >= 1, got {formed.shape}. "
            "For pairs of row numbers, shape (N, 2), set preprocessor to the points, or pass points[pairs]."
        )
    reject_non_numbers(pairs, "pairs")
    if not is_array_api(formed):
        formed = check_array(formed, dtype=FLOATS, allow_nd=True, ensure_2d=False, ensure_all_finite=False)
    reject_nonfinite(formed, "pairs")
    return Pairs.formed(formed)


def check_row_numbers(rows: Any, what: str, width: int) -> NDArray[np.integer]:
    """Check index pairs or triplets: (N, width) integers, which may be in nullable columns of a DataFrame."""
    numbers = to_numpy(rows)
    if numbers.ndim != 2 or numbers.shape[1] != width or len(numbers) == 0:
        raise ValueError(f"index {what} must have shape (N, {width}) with N >= 1, got {numbers.shape}.")
    if numbers.dtype.kind in "iu":
        return numbers
    if not (hasattr(rows, "isna") and all(getattr(dtype, "kind", "O") in "iu" for dtype in rows.dtypes)):
        raise TypeError(
            f"index {what} must be integers, got dtype {numbers.dtype}. (Without preprocessor, X is taken as points.)"
        )
    missing = np.argwhere(rows.isna().to_numpy())
    if len(missing):
        row, column = missing[0]
        raise ValueError(f"index {what} have no row number at row {row}, column {column}. Drop such rows.")
    return numbers.astype(np.int64)


def check_index_pairs(pairs: Any, n: int | None, first: int = 0) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Check pairs of row numbers of n points; return the left and the right ones.

    n is None if the number of points is not known. ``first`` is the number of pairs before these, for error messages.
    """
    indices = check_row_numbers(pairs, "pairs", 2)
    if n is not None and (indices.min() < 0 or indices.max() >= n):
        bad = int(np.flatnonzero(((indices < 0) | (indices >= n)).any(axis=1))[0])
        raise ValueError(
            f"pair {first + bad} is {tuple(indices[bad].tolist())}, out of range for a preprocessor of {n} rows "
            f"(0 to {n - 1})."
        )
    return indices[:, 0], indices[:, 1]


def check_pair_labels(y: Any, n_pairs: int, *, both: bool = True, first: int = 0) -> NDArray[np.integer]:
    """Check labels of pairs: one per pair, -1 or +1, and (unless ``both`` is false) both present."""
    labels = column_or_1d(y)
    if len(labels) != n_pairs:
        raise ValueError(f"y has {len(labels)} labels for {n_pairs} pairs.")
    kinds = np.empty(n_pairs, np.int8)
    for start in range(0, n_pairs, _BLOCK):
        block = slice(start, start + _BLOCK)
        valid = np.isin(labels[block], (-1, 1))
        if not valid.all():
            bad = start + int(np.flatnonzero(~valid)[0])
            raise ValueError(
                f"y of pair {first + bad} is {labels[bad : bad + 1].tolist()[0]!r}; "
                "labels of pairs must be +1 (similar) or -1 (dissimilar)."
                + (" For labels 0 and 1, pass np.where(y == 1, 1, -1)." if _zero_or_one(labels) else "")
            )
        kinds[block] = labels[block]
    for label, kind in ((1, "similar"), (-1, "dissimilar")):
        if both and not np.any(kinds == label):
            raise ValueError(
                f"y has no {kind} pair (label {label:+d}); pairs of both kinds are needed. In cross-validation, "
                "shuffle the pairs or pass cv=StratifiedKFold(): sorted pairs of a rare kind end up in one fold."
            )
    return kinds


def _zero_or_one(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind in "biuf" and bool(np.all((labels == 0) | (labels == 1)))
