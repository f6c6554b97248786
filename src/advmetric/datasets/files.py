"""Dataset files: reading with checks, writing in one step, and a checksum of the content."""

import hashlib
import os
import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advmetric.datasets.registry import DatasetInfo

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


def read_npz(stream: IO[bytes], info: DatasetInfo, place: str) -> tuple[Points, Labels]:
    """Read X and y from an open ``.npz`` file and check them; nothing is unpickled."""
    try:
        archive = np.load(stream, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("it holds a single array")
        with archive:
            absent = {"X", "y"}.difference(archive.files)
            if absent:
                raise ValueError(f"it has no array {' and no array '.join(sorted(absent))}")
            X, y = archive["X"], archive["y"]
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"{place} is not a readable npz file with plain arrays X and y ({error}); "
            "it may be truncated: write it anew with np.savez_compressed(path, X=X, y=y)"
        ) from error
    return check_arrays(np.asarray(X), np.asarray(y), info, place)


def write_npz(path: Path, X: Points, y: Labels) -> None:
    """Write X and y so that `path` is at every moment absent, the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own for every process, and no mkstemp: its files are closed to other users of a shared data home.
    unfinished = path.with_name(f".{path.stem}-{os.getpid()}.part")
    try:
        # Through a stream: given a name, NumPy would append ".npz" to it.
        with unfinished.open("wb") as stream:
            np.savez_compressed(stream, X=X, y=y)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
