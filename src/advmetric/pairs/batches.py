"""Batches of arrays that may be memory-mapped."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

__all__ = ["release", "slices"]


def slices(X: Any, y: Any, rows: int = 65_536) -> Iterator[tuple[Any, Any]]:
    """Yield (X[i : i + rows], y[i : i + rows]): of memory-mapped arrays, one batch is in memory at a time.

    See Also
    --------
    advmetric.AML.fit_batches : Learns from them.

    Examples
    --------
    >>> import numpy as np
    >>> [len(batch) for batch, _ in slices(np.zeros((5, 2)), np.zeros(5), rows=2)]
    [2, 2, 1]
    """
    for start in range(0, X.shape[0], rows):
        yield X[start : start + rows], y[start : start + rows]
        release(X)


def release(X: Any) -> None:
    """Give back the pages of a file that were read: else the process seems to hold all of it in the end."""
    base: Any = getattr(X, "base", None)
    # Not of a copy-on-write map: its changes are in these pages only.
    if isinstance(base, mmap.mmap) and getattr(X, "mode", "") == "r" and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
