"""Dataset files: reading with checks, writing in one step, and a checksum of the content."""

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advmetric.utils.archive import DamagedFileError, atomic_write, read_arrays

from .registry import DatasetInfo

Points = NDArray[np.float64]
Labels = NDArray[np.int64]


def content_checksum(X: ArrayLike, y: ArrayLike) -> str:
    """SHA-256 of a labelled dataset, whatever the order of its rows.

    Each row becomes its d features and its label code as little-endian float32 (one pattern for NaN, no negative
    zero); the rows are sorted as bytes, joined and hashed. Two copies agree if and only if they hold the same
    multiset of rows in single precision.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Points.
    y : array-like of shape (n,)
        Label codes.

    Returns
    -------
    str
        64 hexadecimal digits. O(n d + n log n) time, two float32 copies of X in memory.
    """
    rows = np.column_stack([np.asarray(X, dtype="<f4"), np.asarray(y, dtype="<f4")])
    rows += np.float32(0)
    rows[np.isnan(rows)] = np.nan
    return hashlib.sha256(b"".join(sorted(row.tobytes() for row in rows))).hexdigest()


def check_arrays(
    X: NDArray[np.generic], y: NDArray[np.generic], info: DatasetInfo, place: str
) -> tuple[Points, Labels]:
    """Check X and y against the registry; return them as float64 and int64.

    `place` opens the message of a ValueError: the file or the service that the arrays came from.
    """
    if X.dtype.kind not in "fiu" or X.shape != (info.n, info.d):
        raise ValueError(
            f"{place}: X must be {info.n} x {info.d} numbers for {info.name!r}, got shape {X.shape} and dtype {X.dtype}"
        )
    if y.dtype.kind not in "iu" or y.shape != (info.n,):
        raise ValueError(
            f"{place}: y must be {info.n} integer codes for {info.name!r}, got shape {y.shape} and dtype {y.dtype}"
        )
    found = np.unique(y)
    if not np.array_equal(found, np.arange(info.c)):
        raise ValueError(
            f"{place}: y must contain every label code from 0 to {info.c - 1}, "
            f"got {found.size} codes from {found[0]} to {found[-1]}"
        )
    points = X.astype(np.float64)
    missing = np.isnan(points)
    bad = np.isinf(points) if missing.sum() == info.n_missing else ~np.isfinite(points)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"{place}: X has {missing.sum()} NaN and {np.isinf(points).sum()} infinite values where {info.name!r} has "
            f"{info.n_missing} missing ones; the first is X[{row}, {column}] = {points[row, column]}"
        )
    return points, y.astype(np.int64)


def read_npz(path: Path, info: DatasetInfo) -> tuple[Points, Labels]:
    """Read X and y from an npz file and check them."""
    try:
        arrays = read_arrays(path, ("X", "y"))
    except DamagedFileError as error:
        raise DamagedFileError(f"{error} Write it anew with np.savez_compressed(path, X=X, y=y).") from error
    return check_arrays(arrays["X"], arrays["y"], info, str(path))


def write_npz(path: Path, X: Points, y: Labels) -> None:
    """Write X and y atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as stream:
        np.savez_compressed(stream, X=X, y=y)
