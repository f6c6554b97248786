"""Validation of array input: errors name the argument, the position and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from .arrays import is_array_api, is_lazy, namespace, to_numpy
from .typing import Matrix

__all__ = [
    "FLOATS",
    "all_finite",
    "as_floating",
    "count_dimensions",
    "reject_masked",
    "reject_non_numbers",
    "reject_nonfinite",
]

FLOATS = (np.float64, np.float32)
"""Data types of points that are kept as they are; other types are converted to the first."""


def _reject_lazy(X: Any) -> None:
    """Raise for a Dask collection, which ``np.asarray`` would load into memory."""
    if is_lazy(X):
        raise TypeError(
            "this takes no Dask collection; only fit, transform, pair_distance, decision_function and predict do. "
            "Load what fits in memory with .compute() first."
        )


def count_dimensions(X: Any) -> int:
    """Return the number of dimensions of an array-like."""
    _reject_lazy(X)
    if hasattr(X, "ndim"):
        return int(X.ndim)
    try:
        return np.asarray(X).ndim
    except ValueError as error:
        raise ValueError(f"X is not a regular array: its rows or pairs differ in length ({error}).") from error


def reject_masked(X: Any, name: str) -> None:
    """Raise if a NumPy masked array has masked entries, which np.asarray would use as if they were not masked."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        place = tuple(np.argwhere(np.ma.getmaskarray(X))[0])
        raise ValueError(
            f"{name} has a masked entry at {_place(place)}. Drop masked entries or fill them first, for example with "
            f"{name}.filled(numpy.nan) and sklearn.impute.SimpleImputer."
        )


def reject_non_numbers(X: Any, name: str) -> None:
    """Raise if an array-like holds text, dates or masked entries; the message names the first one."""
    _reject_lazy(X)
    if is_array_api(X) or issparse(X):
        return
    reject_masked(X, name)
    if isinstance(X, np.ma.MaskedArray):
        X = X.data
    columns = getattr(X, "columns", None)
    dtypes = getattr(X, "dtypes", None)
    if columns is not None and dtypes is not None:
        for column, dtype in zip(columns, list(dtypes), strict=True):
            _reject_dates(name, getattr(dtype, "kind", "O"), f" in column {column!r}")
    values = np.asarray(X)
    _reject_dates(name, values.dtype.kind, "")
    if values.dtype.kind not in "OSU" or values.ndim < 2:
        return
    for place, value in np.ndenumerate(values):
        if isinstance(value, (str, bytes)):
            try:
                float(value)
            except ValueError:
                raise ValueError(
                    f"{name} has the text {value!s:.40} at {_place(place, columns)}, which is not a number. Encode "
                    "text and categories as numbers first, for example with sklearn.preprocessing.OneHotEncoder."
                ) from None


def _reject_dates(name: str, kind: str, where: str) -> None:
    if kind in "mM":
        raise ValueError(
            f"{name} has dates or durations{where}, which are not numbers. Convert them first, for example to days "
            "since a fixed date."
        )


def as_floating(X: Any, *, keep_gradient: bool = False) -> Any:
    """Convert an array of another library to floating point; integers become double precision."""
    xp = namespace(X)
    if hasattr(X, "detach") and not keep_gradient:
        X = X.detach()
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("Complex data not supported: X must be real.")
    return X if X.dtype in (xp.float64, xp.float32) else xp.astype(X, xp.float64)


def all_finite(X: Any) -> bool:
    """Return whether X, dense or sparse, of any library, has no NaN and no inf."""
    values = X.data if issparse(X) else X
    xp = namespace(values)
    return bool(xp.all(xp.isfinite(values)))


def _place(place: Sequence[int], columns: Sequence[str] | None = None) -> str:
    if len(place) == 1:
        return f"row {place[0]}"
    if len(place) == 3:
        return f"pair {place[0]}, point {place[1]}, feature {place[2]}"
    named = columns is not None and isinstance(columns[place[1]], str)
    column = f"{place[1]} ({columns[place[1]]!r})" if columns is not None and named else f"{place[1]}"
    return f"row {place[0]}, column {column}"


def reject_nonfinite(X: Matrix, name: str, columns: Sequence[str] | None = None, first: int | None = None) -> None:
    """Raise if X has NaN or inf; the message names the first one and the number of rows or pairs affected.

    Where X is a part of an array, ``first`` is the number of rows before it.
    """
    # The sum is finite unless an entry is not (or the sum overflows): one pass without a temporary array.
    with np.errstate(over="ignore", invalid="ignore"):
        if all_finite(namespace(X).sum(X) if is_array_api(X) else X.sum()):
            return
    X = to_numpy(X) if is_array_api(X) else X
    places = _nonfinite_places(X)
    if not len(places):
        return
    place = places[0]
    what = "NaN" if np.isnan(X[tuple(place)]) else "inf"
    rows = f"{'' if first is None else 'at least '}{len(np.unique(places[:, 0]))}"
    kind = "pairs" if X.ndim == 3 else "rows"
    where = _place((place[0] + (first or 0), *place[1:]), columns)
    raise ValueError(
        f"Input {name} contains {what} at {where} ({rows} {kind} affected). "
        "Drop or impute such entries first, for example with sklearn.impute.SimpleImputer."
    )


def _nonfinite_places(X: Any) -> NDArray[np.integer]:
    """Return the positions of NaN and inf in a dense or sparse array, one per row, in order."""
    if not issparse(X):
        return np.argwhere(~np.isfinite(X))
    entries = X.tocoo()
    bad = ~np.isfinite(entries.data)
    places = np.column_stack([entries.row[bad], entries.col[bad]])
    return places[np.lexsort(places.T[::-1])]
