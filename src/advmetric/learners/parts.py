"""Parts of data that need not be in memory: mapped where they are, and reduced.

:class:`Parts` and :class:`RowParts` are parts of Dask collections, which stay on the workers. :class:`LocalParts` and
:class:`LocalRows` are the same for an array, which may be memory-mapped: one part of it is looked at at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.optional import require
from advmetric.utils.typing import Indices, Matrix

from .chunks import aligned, array

__all__ = ["LocalParts", "LocalRows", "Parts", "RowParts"]

_FAN_IN = 4
"""How many values are merged at once."""
_LOCAL_BYTES = 1 << 22
"""Rows of an array that are looked at at a time, in double precision."""


@dataclass(frozen=True)
class Parts:
    """Delayed values, one per part. What a lost worker had is made again from the source."""

    values: Sequence[Any]

    def __len__(self) -> int:
        return len(self.values)

    def map(self, function: Callable[..., Any], *arguments: Any) -> Parts:
        """Apply a function to each part (and to the same further arguments), where it is and when it is needed."""
        return self.map_each(function, [()] * len(self), *arguments)

    def map_each(self, function: Callable[..., Any], own: Sequence[tuple[Any, ...]], *arguments: Any) -> Parts:
        """The same with further arguments of each part's own, before those that are the same for all."""
        delayed = require("dask").delayed
        # A value of its own in the graph goes to each worker once.
        call, shared = delayed(function, pure=False), [delayed(argument) for argument in arguments]
        return Parts([call(value, *mine, *shared) for value, mine in zip(self.values, own, strict=True)])

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
class LocalParts:
    """The same in this process: values are functions that are called when a part is needed."""

    values: Sequence[Callable[[], Any]]

    def __len__(self) -> int:
        return len(self.values)

    def map(self, function: Callable[..., Any], *arguments: Any) -> LocalParts:
        """As for :class:`Parts`."""
        return self.map_each(function, [()] * len(self), *arguments)

    def map_each(self, function: Callable[..., Any], own: Sequence[tuple[Any, ...]], *arguments: Any) -> LocalParts:
        """As for :class:`Parts`."""

        def called(value: Callable[[], Any], mine: tuple[Any, ...]) -> Any:
            return function(value(), *mine, *arguments)

        return LocalParts([partial(called, value, mine) for value, mine in zip(self.values, own, strict=True)])

    def kept(self) -> LocalParts:
        """Compute the parts now and keep them."""
        return LocalParts([partial(_itself, value()) for value in self.values])

    def reduce(self, merge: Callable[[Any, Any], Any]) -> Any:
        """Merge the parts in order; two are in memory at a time."""
        total = self.values[0]()
        for value in self.values[1:]:
            total = merge(total, value())
        return total


def _itself(value: Any) -> Any:
    return value


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


@dataclass(frozen=True)
class LocalRows:
    """The same for an array of points with labels, some megabytes of them at a time."""

    X: Any
    labels: NDArray[Any]

    @property
    def size(self) -> int:
        """Rows of a part."""
        return max(1, _LOCAL_BYTES // (8 * int(self.X.shape[1])))

    @property
    def starts(self) -> Indices:
        """(p + 1,)"""
        return np.append(np.arange(0, len(self.labels), self.size), len(self.labels))

    @property
    def chunks(self) -> LocalParts:
        """Slices of the array."""
        return LocalParts([partial(self._slice, int(start)) for start in self.starts[:-1]])

    def _slice(self, start: int) -> Any:
        return self.X[start : start + self.size]

    def take(self, wanted: Sequence[Indices]) -> LocalParts:
        """As for :class:`RowParts`."""
        return LocalParts([partial(_picked, self.X, rows) for rows in wanted])


def _picked(chunk: Any, rows: Indices) -> Matrix:
    picked: Matrix = np.asarray(chunk)[rows].astype(np.float64, copy=False)
    return picked


def _stacked(blocks: list[Matrix]) -> Matrix:
    return np.concatenate(blocks)
