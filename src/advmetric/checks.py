"""Checks of parameters and input: errors that name the argument, the place and what to do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import column_or_1d

from .arrays import is_foreign, namespace, to_numpy
from .linalg import Matrix

__all__ = [
    "all_finite",
    "check_choice",
    "check_number",
    "check_whole",
    "dimensions",
    "floating",
    "index_pairs",
    "is_lazy",
    "pair_labels",
    "refuse_nonfinite",
    "refuse_text",
]

_BLOCK = 1 << 20
"""So many labels are looked at together."""


def check_number(name: str, value: Any, low: float, high: float = np.inf, *, open_low: bool = False) -> None:
    """Raise unless ``value`` is a finite number in [low, high] ((low, high] with ``open_low``)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if not np.isfinite(value) or value > high or value < low or (open_low and value == low):
        above = f" {'>' if open_low else '>='} {low:g}" if low > -np.inf else ""
        below = f" and <= {high:g}" if high < np.inf else ""
        raise ValueError(f"{name}={value!r} must be a finite number{above}{below}.")


def check_whole(name: str, value: Any, low: int) -> None:
    """Raise unless ``value`` is a whole number >= low."""
    check_number(name, value, low)
    if not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name}={value!r} must be a whole number (an int).")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not known; use one of {', '.join(map(repr, choices))}.")


def is_lazy(X: Any) -> bool:
    """Whether X is a Dask collection (which there is none of unless Dask was imported)."""
    dask: Any = sys.modules.get("dask")
    return dask is not None and bool(dask.is_dask_collection(X))


def _refuse_lazy(X: Any) -> None:
    """Raise rather than gather a Dask collection, as ``np.asarray`` would."""
    if is_lazy(X):
        raise TypeError(
            "this takes no Dask collection, only fit, transform, pair_distance, decision_function and predict do; "
            "gather what fits in memory with .compute() first."
        )


def dimensions(X: Any) -> int:
    """Number of dimensions of an array-like."""
    _refuse_lazy(X)
    if hasattr(X, "ndim"):
        return int(X.ndim)
    try:
        return np.asarray(X).ndim
    except ValueError as error:
        raise ValueError(f"X is not a regular array: its rows or pairs differ in length ({error}).") from error


def refuse_text(X: Any, name: str) -> None:
    """Raise if an array-like holds text that is not a number, naming the first place."""
    _refuse_lazy(X)
    if is_foreign(X):
        return
    values = np.asarray(X)
    if values.dtype.kind not in "OSU" or values.ndim < 2:
        return
    for place, value in np.ndenumerate(values):
        if isinstance(value, (str, bytes)):
            try:
                float(value)
            except ValueError:
                raise ValueError(
                    f"{name} has the text {value!s:.40} at {_place(place)}, which is not a number. Encode text and "
                    "categories as numbers first, for example with sklearn.preprocessing.OneHotEncoder."
                ) from None


def floating(X: Any, *, keep_gradient: bool = False) -> Any:
    """An array of another library as floating-point numbers; whole ones become of double precision."""
    xp = namespace(X)
    if hasattr(X, "detach") and not keep_gradient:
        X = X.detach()
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("Complex data not supported: X must be real.")
    return X if X.dtype in (xp.float64, xp.float32) else xp.astype(X, xp.float64)


def all_finite(X: Any) -> bool:
    """Whether X, dense or sparse, of whatever library, has no NaN and no inf."""
    values = X.data if issparse(X) else X
    xp = namespace(values)
    return bool(xp.all(xp.isfinite(values)))


def _place(place: Sequence[int], columns: Sequence[str] | None = None) -> str:
    if len(place) == 3:
        return f"pair {place[0]}, point {place[1]}, feature {place[2]}"
    column = f"{place[1]}" if columns is None else f"{place[1]} ({columns[place[1]]!r})"
    return f"row {place[0]}, column {column}"


def refuse_nonfinite(X: Matrix, name: str, columns: Sequence[str] | None = None, first: int | None = None) -> None:
    """Raise if X has NaN or inf, naming the first place and the number of rows or pairs affected.

    Where X is a part of an array, ``first`` is how many rows are before it.
    """
    # The sum is finite unless an entry is not (or overflows): a pass without a temporary.
    with np.errstate(over="ignore", invalid="ignore"):
        if all_finite(namespace(X).sum(X) if is_foreign(X) else X.sum()):
            return
    X = to_numpy(X) if is_foreign(X) else X
    places = _flaws(X)
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


def _flaws(X: Any) -> NDArray[np.integer]:
    """Places of NaN and inf in a dense or sparse array, one a row, first place first."""
    if not issparse(X):
        return np.argwhere(~np.isfinite(X))
    entries = X.tocoo()
    flawed = ~np.isfinite(entries.data)
    places = np.column_stack([entries.row[flawed], entries.col[flawed]])
    return places[np.lexsort(places.T[::-1])]


def index_pairs(pairs: Any, n: int, first: int = 0) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Check pairs of row numbers of n points; return the left and the right ones. ``first`` pairs came before."""
    indices = to_numpy(pairs)
    if indices.ndim != 2 or indices.shape[1] != 2 or len(indices) == 0:
        raise ValueError(f"index pairs must have shape (N, 2) with N >= 1, got {indices.shape}.")
    if indices.dtype.kind not in "iu":
        raise TypeError(
            f"index pairs must be integers, got dtype {indices.dtype}. (Without preprocessor, X is taken as points.)"
        )
    if indices.min() < 0 or indices.max() >= n:
        bad = int(np.flatnonzero(((indices < 0) | (indices >= n)).any(axis=1))[0])
        raise ValueError(
            f"pair {first + bad} is {tuple(indices[bad].tolist())}, out of range for a preprocessor of {n} rows "
            f"(0 to {n - 1})."
        )
    return indices[:, 0], indices[:, 1]


def pair_labels(y: Any, n_pairs: int, *, both: bool = True, first: int = 0) -> NDArray[np.integer]:
    """Check labels of pairs: one a pair, -1 or +1, and (unless ``both`` is false) both present."""
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
            )
        kinds[block] = labels[block]
    for label, kind in ((1, "similar"), (-1, "dissimilar")):
        if both and not np.any(kinds == label):
            raise ValueError(f"y has no {kind} pair (label {label:+d}); pairs of both kinds are needed.")
    return kinds
