"""Sums and second moments of labelled points by class about one origin, at little more than the cost of one XᵀX."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from advmetric.utils.typing import Indices, Matrix, Vector

from .data import BLOCK_BYTES

__all__ = ["FAR", "ClassProducts", "ClassSums", "rows_of"]

FAR = 16.0
"""The mean of a class is far from the origin if its square exceeds this many variances in some feature: the scatter
about the mean would lose more than a digit as a difference of second moments."""
_BLOCK_BYTES = 1 << 23
"""Rows worked on at a time: they stay in the processor's cache from reading to squaring."""
_ROWS_PER_CLASS = 600
"""With fewer rows of a class at a time, products are slower than BLAS can be."""
_LEAST_ROWS = 8
"""With fewer rows per class in all, each is better looked at by itself."""
_BLOCKS = 16
"""Blocks whose products are added up before they are looked at."""

_Block = tuple[Matrix, Indices]
"""Rows about the origin, class by class, and where each class ends."""


@dataclass(frozen=True)
class ClassSums:
    """Σ (x - o) and Σ (x - o)(x - o)ᵀ over the points x of each class, for an origin o."""

    counts: NDArray[np.int64]
    """(c,)"""
    sums: Matrix
    """(c, d)"""
    squares: NDArray[np.float64]
    """(c, d, d)"""

    @property
    def cancelled(self) -> NDArray[np.bool_]:
        """(c,): whether the mean of the class is far from the origin."""
        moments = np.einsum("cii->ci", self.squares)
        far: NDArray[np.bool_] = np.any((1.0 + FAR) * self.sums**2 > FAR * self.counts[:, None] * moments, axis=1)
        return far & (self.counts > 1)


class ClassProducts:
    """Second moments of the rows of each class, for batch after batch in the same buffers.

    Rows are read in order, less the origin and with a column of ones, and put class by class into a buffer; one product
    of the rows of a class then gives their second moments, sum and number. While the products of one block are formed,
    a thread reads the next one. Memory: (d + 4)² numbers per class, and three blocks.

    Parameters
    ----------
    n_classes, n_features : int
    """

    def __init__(self, n_classes: int, n_features: int) -> None:
        self.n_classes, self.n_features = n_classes, n_features
        row = 8 * _width(n_features)
        self.block = min(max(1, BLOCK_BYTES // row), max(_BLOCK_BYTES // row, n_classes * _ROWS_PER_CLASS))
        """Rows of a block."""
        self._buffers: list[Matrix] = []

    @staticmethod
    def worthwhile(n_classes: int, n_features: int, n_rows: int) -> bool:
        """Whether a second (d, d) matrix per class costs less than it saves."""
        return n_classes * 8 * _width(n_features) ** 2 <= BLOCK_BYTES and n_rows >= _LEAST_ROWS * n_classes

    @property
    def stretch(self) -> int:
        """Number of rows that :meth:`of` should be given at a time."""
        return self.block * _BLOCKS

    def of(self, X: Any, code: NDArray[np.integer], origin: Vector, chosen: NDArray[np.bool_]) -> ClassSums:
        """Sums of the rows of the chosen classes (the others are left at 0). O(nd²)."""
        d, width = self.n_features, _width(self.n_features)
        total = np.zeros((self.n_classes, width, width))
        for rows, ends in self._blocks(X, code, origin):
            start = 0
            for c, end in enumerate(ends):
                if end > start and chosen[c]:
                    own = rows[start:end]
                    total[c] += own.T @ own
                start = end
        return ClassSums(total[:, d, d].astype(np.int64), total[:, d, :d], total[:, :d, :d])

    def _blocks(self, X: Any, code: NDArray[np.integer], origin: Vector) -> Iterator[_Block]:
        d, n = self.n_features, X.shape[0]
        size = min(self.block, n)
        if not self._buffers or len(self._buffers[0]) < size:
            self._buffers = [np.zeros((size, _width(d))) for _ in range(3)]
            self._buffers[0][:, d] = 1.0

        def read(number: int) -> _Block:
            part = slice(number * size, (number + 1) * size)
            labels = code[part]
            in_order, by_class = (self._buffers[k][: len(labels)] for k in (0, 1 + number % 2))
            np.subtract(rows_of(X, part), origin, out=in_order[:, :d])
            np.take(in_order, np.argsort(labels, kind="stable"), axis=0, out=by_class, mode="clip")
            return by_class, np.cumsum(np.bincount(labels, minlength=self.n_classes))

        count = -(-n // size)
        if count == 1:
            yield read(0)
            return
        with ThreadPoolExecutor(1) as reader:
            following = reader.submit(read, 0)
            for number in range(1, count + 1):
                block = following.result()
                if number < count:
                    following = reader.submit(read, number)
                yield block


def rows_of(X: Any, rows: Any) -> Matrix:
    """Return the given rows (a slice or indices) of a dense or sparse X, dense, in its own precision."""
    chosen = X[rows]
    dense: Matrix = chosen.toarray() if issparse(chosen) else np.asarray(chosen)
    return dense


def _width(d: int) -> int:
    """d features and a column of ones, filled up to what BLAS likes."""
    return d + 1 + -(d + 1) % 4
