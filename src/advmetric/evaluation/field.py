"""Training and test points under a metric: what the attack on k-NN and its certificate share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length, column_or_1d

from advmetric.metric.checks import check_points
from advmetric.utils.typing import Matrix

__all__ = ["Field", "Flags", "Indices", "Labels", "smallest"]

Labels = NDArray[np.integer]
Flags = NDArray[np.bool_]
Indices = NDArray[np.intp]

_BLOCK = 1 << 20
"""Numbers held at once."""


@dataclass(frozen=True)
class Field:
    """Images of the points under L and M.

    Squared distances of x to x_i and x_j differ by an affine function of x with gradient 2M(x_j - x_i), so attack and
    certificate need nothing else.
    """

    L: Matrix
    """Components, of norm 1."""
    Z: Matrix
    """LX of the training points, (n, r)."""
    W: Matrix
    """MX of the training points, (n, d)."""
    y: Labels
    """Codes of the classes of the training points, in the order of the labels."""
    T: Matrix
    """LX of the test points, (m, r)."""
    y_test: Labels
    """Codes of the classes of the test points; some may not occur in ``y``."""
    k: int

    @classmethod
    def of(
        cls, L: ArrayLike, X_train: ArrayLike, y_train: ArrayLike, X_test: ArrayLike, y_test: ArrayLike, k: int
    ) -> Field:
        components = np.asarray(L, dtype=np.float64)
        train, test = (
            check_points(X, name, components.shape[1]).astype(np.float64)
            for X, name in ((X_train, "X_train"), (X_test, "X_test"))
        )
        labels = [column_or_1d(y) for y in (y_train, y_test)]
        check_consistent_length(train, labels[0])
        check_consistent_length(test, labels[1])
        if not 1 <= k <= len(train):
            raise ValueError(f"k={k} neighbours are wanted of {len(train)} training points.")
        codes = np.unique(np.concatenate(labels), return_inverse=True)[1]
        scaled = components / (np.linalg.norm(components, 2) or 1.0)
        # Far from the origin squared distances would cancel.
        origin = train.mean(axis=0)
        Z = (train - origin) @ scaled.T
        return cls(scaled, Z, Z @ scaled, codes[: len(train)], (test - origin) @ scaled.T, codes[len(train) :], k)

    @property
    def majority(self) -> int:
        return self.k // 2 + 1

    def blocks(self, rows: Indices, width: int) -> Iterator[tuple[slice, Indices, Matrix]]:
        """Yield (place in rows, rows, squared distances to all training points); ``width`` numbers a test point."""
        squares = np.einsum("ij,ij->i", self.Z, self.Z)
        step = max(1, _BLOCK // width)
        for start in range(0, len(rows), step):
            place = slice(start, start + step)
            T = self.T[rows[place]]
            D = T @ (-2.0 * self.Z.T)
            D += squares
            D += np.einsum("ij,ij->i", T, T)[:, None]
            yield place, rows[place], D


def smallest(D: Matrix, count: int) -> Indices:
    """Columns of the ``count`` smallest entries of each row, in order."""
    found = np.argpartition(D, count - 1, axis=1)[:, :count] if count < D.shape[1] else np.argsort(D, axis=1)
    order = np.argsort(np.take_along_axis(D, found, axis=1), axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1)
