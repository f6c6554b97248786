"""Parts of a Dask collection that stay on the workers: mapped there, and reduced in a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.optional import require
from advmetric.utils.typing import Indices, Matrix

from .chunks import aligned, array

__all__ = ["Parts", "RowParts"]

_FAN_IN = 4
"""How many values are merged at once."""


@dataclass(frozen=True)
class Parts:
    """Delayed values, one per part. What a lost worker had is made again from the source."""

    values: Sequence[Any]

    def __len__(self) -> int:
        return len(self.values)

    def map(self, function: Callable[..., Any], *arguments: Any) -> Parts:
        """Apply a function to each part (and to the same further arguments), where it is and when it is needed."""
        delayed = require("dask").delayed
        call, shared = delayed(function, pure=False), [delayed(argument) for argument in arguments]
        return Parts([call(value, *shared) for value in self.values])

    def kept(self) -> Parts:
        """Compute the parts now and keep them on the workers."""
        return Parts(require("dask").persist(*self.values))

    def reduce(self, merge: Callable[[Any, Any], Any]) -> Any:
        """Merge neighbouring parts, in order, until one is left, and return it."""
        join = require("dask").delayed(_joined, pure=False)
        values = list(self.values)
        while len(values) > 1:
            values = [join(merge, values[i : i + _FAN_IN]) for i in range(0, len(values), _FAN_IN)]
        return values[0].compute()


def _joined(merge: Callable[[Any, Any], Any], values: list[Any]) -> Any:
    total = values[0]
    for value in values[1:]:
        total = merge(total, value)
    return total


@dataclass(frozen=True)
class RowParts:
    """The chunks of a Dask array of points with labels, and the numbers of their first rows."""

    chunks: Parts
    starts: Indices
    """(p + 1,)"""
    labels: NDArray[Any]
    """(n,), in memory."""

    @classmethod
    def of(cls, X: Any, y: Any) -> RowParts:
        """From collections of any kind; sizes that Dask does not know are counted."""
        rows, labels = aligned(array(X, "X"), y)
        if np.isnan(rows.chunks[0]).any():
            rows = rows.copy().compute_chunk_sizes()
        starts = np.concatenate([[0], np.cumsum(rows.chunks[0])]).astype(np.intp)
        return cls(Parts(list(rows.to_delayed().ravel())), starts, np.asarray(labels.compute()))

    def take(self, wanted: Sequence[Indices]) -> Parts:
        """For each array of ascending row numbers a part with these rows, in double precision."""
        delayed = require("dask").delayed
        pick, stack = delayed(_picked, pure=False), delayed(_stacked, pure=False)
        found = []
        for rows in wanted:
            cuts = np.searchsorted(rows, self.starts)
            found.append(
                stack(
                    [
                        pick(self.chunks.values[int(c)], rows[cuts[c] : cuts[c + 1]] - self.starts[c])
                        for c in np.flatnonzero(np.diff(cuts))
                    ]
                )
            )
        return Parts(found)


def _picked(chunk: Any, rows: Indices) -> Matrix:
    picked: Matrix = np.asarray(chunk)[rows].astype(np.float64, copy=False)
    return picked


def _stacked(blocks: list[Matrix]) -> Matrix:
    return np.concatenate(blocks)
