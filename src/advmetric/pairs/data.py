"""Labelled points and labelled pairs, under one protocol.

Both have ``X`` (the points), ``labels``, ``take`` (a subset), ``points`` (the points that occur) and ``as_pairs``
(themselves as pairs), so that code which learns, splits or scores need not ask which of the two it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from advmetric.utils.arrays import convert_like, namespace, representation
from advmetric.utils.typing import Indices, Matrix

__all__ = ["BLOCK_BYTES", "LabelledPoints", "PairSampler", "Pairs", "Samples", "Scatter", "take_rows"]

BLOCK_BYTES = 1 << 25
"""Working memory of loops over blocks of pairs or points."""


@dataclass(frozen=True)
class Scatter:
    """Second moments of the differences of similar (A) and dissimilar (B) pairs.

    ``n_similar`` and ``n_dissimilar`` count the pairs; A and B are averages over them.
    """

    A: Matrix
    B: Matrix
    n_similar: int
    n_dissimilar: int


class PairSampler(Protocol):
    """An object that chooses pairs of labelled points."""

    def sample(self, X: Matrix, y: NDArray, random_state: object = None) -> Pairs: ...


@dataclass(frozen=True)
class LabelledPoints:
    """Points with class labels.

    Parameters
    ----------
    X : (n, d) array, dense or sparse (CSR)
    y : (n,) array
        Codes 0 … c-1 of the classes.
    n_original : int, optional
        Number of features of the data, where X has the coordinates of the points in a basis of their span.
    """

    X: Matrix
    y: NDArray[np.integer]
    n_original: int | None = None

    kind: ClassVar[str] = "points"

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Return the number of features of the data."""
        return self.n_original or int(self.X.shape[1])

    @property
    def labels(self) -> NDArray[np.integer]:
        """Return the class of each point."""
        return self.y

    @property
    def points(self) -> Matrix:
        """Return all points."""
        return self.X

    def take(self, rows: NDArray) -> LabelledPoints:
        """Return the points at the given positions (or under a mask)."""
        return LabelledPoints(self.X[rows], self.y[rows], self.n_original)

    def as_pairs(self, sampler: PairSampler, random_state: Any = None) -> Pairs:
        """Return pairs of the points, chosen by a sampler."""
        return sampler.sample(self.X, self.y, random_state)


@dataclass(frozen=True)
class Pairs:
    """Labelled pairs of rows of X, by index.

    Parameters
    ----------
    X : (n, d) array, dense or sparse (CSR)
        The points; shared, never copied.
    left, right : (N,) integer arrays
        Pair i is (X[left[i]], X[right[i]]).
    y : (N,) array of -1 and +1, or None
        +1 for similar, -1 for dissimilar.
    """

    X: Matrix
    left: Indices
    right: Indices
    y: NDArray[np.integer] | None = None

    kind: ClassVar[str] = "pairs"

    @classmethod
    def formed(cls, pairs: Matrix, y: NDArray[np.integer] | None = None) -> Pairs:
        """View an (N, 2, d) array as pairs of rows of its (2N, d) reshape."""
        rows = np.arange(2 * pairs.shape[0], dtype=np.intp)
        return cls(namespace(pairs).reshape(pairs, (-1, pairs.shape[2])), rows[::2], rows[1::2], y)

    @classmethod
    def from_differences(cls, V: Matrix, y: NDArray[np.integer] | None = None) -> Pairs:
        """Return pairs that differ by the rows of V: each row and the origin."""
        N, d = V.shape
        return cls(np.concatenate([V, np.zeros((1, d))]), np.arange(N), np.full(N, N), y)

    def __len__(self) -> int:
        return len(self.left)

    @property
    def n_features(self) -> int:
        """Return the number of features of the points."""
        return int(self.X.shape[1])

    @property
    def labels(self) -> NDArray[np.integer]:
        """Return ``y``; raise if the pairs have no labels."""
        if self.y is None:
            raise ValueError("these pairs have no labels; pass y.")
        return self.y

    @property
    def indices(self) -> NDArray[np.integer]:
        """Return the pairs as an (N, 2) array of row numbers."""
        return np.column_stack([self.left, self.right])

    @property
    def points(self) -> Matrix:
        """Return the points that occur in the pairs."""
        occurring: Matrix = self.X[np.union1d(self.left, self.right)]
        return occurring

    def take(self, rows: NDArray) -> Pairs:
        """Return the pairs at the given positions (or under a mask), on the same points."""
        return Pairs(self.X, self.left[rows], self.right[rows], None if self.y is None else self.y[rows])

    def as_pairs(self, sampler: PairSampler, random_state: Any = None) -> Pairs:
        """Return the pairs themselves; the sampler is for points."""
        return self

    def differences(self, *, dense: bool = True) -> Iterator[tuple[slice, Matrix]]:
        """Yield (slice, X[left] - X[right]) by blocks of about 32 MB, in double precision.

        Differences of sparse points stay sparse with ``dense=False``.
        """
        step = max(1, BLOCK_BYTES // (8 * self.X.shape[1]))
        subtract = _SUBTRACT[representation(self.X)]
        for start in range(0, len(self), step):
            block = slice(start, start + step)
            V = subtract(self.X, self.left[block], self.right[block])
            yield block, V.toarray() if dense and issparse(V) else V


Samples = LabelledPoints | Pairs
"""What a learner is given."""


def take_rows(X: Any, rows: Indices) -> Any:
    """Return rows of an array of another library, in double precision."""
    xp = namespace(X)
    return xp.astype(xp.take(X, convert_like(rows, X), axis=0), xp.float64)


def _subtract_dense(X: Matrix, left: Indices, right: Indices) -> Matrix:
    V = X[left].astype(np.float64, copy=False)
    V -= X[right]
    return V


_SUBTRACT: dict[str, Callable[[Any, Indices, Indices], Any]] = {
    "dense": _subtract_dense,
    "sparse": lambda X, left, right: X[left].astype(np.float64) - X[right],
    "array_api": lambda X, left, right: take_rows(X, left) - take_rows(X, right),
}
