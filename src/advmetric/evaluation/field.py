"""k nearest neighbours of test points that may move: what the attack and the certificate share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.typing import Matrix

__all__ = ["Field", "smallest"]

Labels = NDArray[np.integer]
Indices = NDArray[np.intp]

_BLOCK = 1 << 20
"""Numbers held at once."""


@dataclass(frozen=True)
class Field:
    """The field of play. Squared distances of x to x_i and x_j differ by an affine function of x with gradient
    2M(x_j - x_i), so all that is needed is the points' images under L and under M."""

    L: Matrix
    """Components, of norm 1."""
    Z: Matrix
    """LX of the training points, (n, r)."""
    W: Matrix
    """MX of the training points, (n, d)."""
    y: Labels
    T: Matrix
    """LX of the test points, (m, r)."""
    k: int

    @classmethod
    def of(cls, L: Matrix, X_train: Matrix, y_train: Labels, X_test: Matrix, k: int) -> Field:
        if not 1 <= k <= len(X_train):
            raise ValueError(f"k={k} neighbours are wanted of {len(X_train)} training points.")
        scaled = np.asarray(L, dtype=np.float64) / (np.linalg.norm(L, 2) or 1.0)
        # Far from the origin squared distances would cancel.
        origin = X_train.mean(axis=0)
        Z = (X_train - origin) @ scaled.T
        return cls(scaled, Z, Z @ scaled, np.asarray(y_train), (X_test - origin) @ scaled.T, k)

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
