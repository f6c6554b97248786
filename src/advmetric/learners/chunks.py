"""Dask collections as Dask arrays that are cut alike: whole rows in a chunk, labels beside them."""

from __future__ import annotations

from typing import Any

import numpy as np

from advmetric.utils.arrays import is_lazy
from advmetric.utils.optional import require

__all__ = ["active_client", "aligned", "array", "split", "standing", "starts", "whole_rows"]


def active_client() -> Any:
    """The distributed client that Dask would compute with, or None: threads of this process."""
    scheduler = require("dask.base").get_scheduler()
    client = getattr(scheduler, "__self__", None)
    return client if hasattr(client, "scheduler_info") else None


def split(X: Any, y: Any) -> tuple[Any, Any]:
    """Take the column named y out of a dataframe."""
    if not isinstance(y, str):
        return X, y
    columns = list(getattr(X, "columns", []))
    if y not in columns:
        raise ValueError(f"y={y!r} is not a column of X; its columns are {', '.join(map(repr, columns)) or 'unnamed'}.")
    return X.drop(columns=[y]), X[y]


def array(collection: Any, name: str) -> Any:
    """A Dask array of any supported collection."""
    da = require("dask.array")
    if isinstance(collection, da.Array):
        return collection
    if not hasattr(collection, "map_partitions") or not hasattr(collection, "to_dask_array"):
        raise TypeError(f"{name} must be a dask array or dataframe, got {type(collection).__name__}.")
    meta = collection._meta
    if meta.ndim == 1:
        return collection.map_partitions(np.asarray, meta=np.empty(0, dtype=object))
    for column, dtype in meta.dtypes.items():
        if getattr(dtype, "kind", "O") not in "fiub":
            raise ValueError(f"column {column!r} of {name} holds {dtype}, not numbers; drop it or encode it first.")
    dtype = meta.to_numpy().dtype
    dtype = dtype if dtype.kind in "fiub" else np.dtype(np.float64)
    return collection.map_partitions(_numbers, dtype, meta=np.empty((0, meta.shape[1]), dtype))


def _numbers(frame: Any, dtype: Any) -> Any:
    """A partition as an array; what is missing is NaN, to be refused with its place."""
    return frame.to_numpy(dtype=dtype, **({"na_value": np.nan} if dtype.kind == "f" else {}))


def whole_rows(X: Any) -> Any:
    """X with each row (or pair) in one chunk."""
    return X.rechunk(dict.fromkeys(range(1, X.ndim), -1)) if max(X.numblocks[1:], default=1) > 1 else X


def _known(X: Any) -> bool:
    return not np.isnan(X.chunks[0]).any()


def aligned(X: Any, y: Any) -> tuple[Any, Any]:
    """X in whole rows, and y as a Dask array that is cut as X is.

    Unknown sizes, as those of dataframes, are counted (one number per chunk) unless both are unknown
    and equally many: those belong together, or a worker will say so.
    """
    X = whole_rows(X)
    if X.ndim not in (2, 3):
        raise ValueError(f"X must have shape (n, d), or (N, 2, d) for pairs; got {X.shape}.")
    y = array(y, "y") if is_lazy(y) else require("dask.array").from_array(np.asarray(y), chunks=-1)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise ValueError(f"y must have one label per row, got shape {y.shape}.")
    if not _known(X) and not _known(y) and X.numblocks[0] == y.numblocks[0]:
        return X, y
    X, y = (a if _known(a) else a.copy().compute_chunk_sizes() for a in (X, y))  # copied, since this is done in place
    if X.shape[0] != y.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows, but y has {y.shape[0]} labels.")
    return X, y.rechunk((X.chunks[0],))


def standing(y: Any, ndim: int) -> Any:
    """Labels with as many axes as X, since blocks are matched from the last; mapped, so that Dask fuses it."""
    ones = list(range(1, ndim))
    return y.map_blocks(
        np.expand_dims, ones, new_axis=ones, chunks=(y.chunks[0], *[(1,)] * len(ones)), dtype=y.dtype, meta=y._meta
    )


def starts(sizes: tuple[float, ...]) -> list[int] | None:
    """Number of the first row of each chunk, if known."""
    return None if np.isnan(sizes).any() else [0, *np.cumsum(sizes)[:-1].tolist()]
