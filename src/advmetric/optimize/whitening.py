"""Coordinates in which a problem over metrics is well scaled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from advmetric.utils.typing import Matrix

__all__ = ["WhitenedPoints"]

_FLOOR = 1e-6
"""Least eigenvalue, relative to the largest, by which a direction is whitened."""


@dataclass(frozen=True)
class WhitenedPoints:
    """Coordinates in which a scatter matrix of the points is the identity, as far as it can be.

    A problem that sees points only through a factor L, as Lx, does not change under a linear map of
    the points, but L-BFGS is fast only where all directions have the same scale. Directions in which the data do
    not vary are left out.
    """

    X: Matrix
    """The points, (n, p)."""
    to: Matrix
    """(d, p): L in these coordinates is L @ to."""
    back: Matrix
    """(p, d): L in the coordinates of the data is L @ back."""
    unseen: Matrix | None
    """Projection (d, d) on the directions that are left out, if any."""

    @classmethod
    def of(cls, X: Matrix, scatter: Callable[[Matrix], Matrix]) -> WhitenedPoints:
        """From points with mean 0 and a function that gives the scatter of their images. O(nd² + d³)."""
        spread = np.sqrt(np.mean(X**2, axis=0))
        spread[spread == 0.0] = 1.0
        scaled = X / spread
        variances, V = np.linalg.eigh(scaled.T @ scaled)
        V = V[:, variances > 1e-13 * variances[-1]]
        weights, U = np.linalg.eigh(scatter(scaled @ V))
        # The scatter may be 0 where X is not; then nothing needs to be rescaled.
        root = np.sqrt(np.maximum(weights, _FLOOR * weights[-1])) if weights[-1] > 0.0 else np.ones(len(weights))
        axes = V @ U
        back, unseen = (axes / root).T / spread, None
        if V.shape[1] < len(V):
            Q, _ = np.linalg.qr(spread[:, None] * V)
            back, unseen = (back @ Q) @ Q.T, np.eye(len(V)) - Q @ Q.T
        return cls(X @ back.T, spread[:, None] * (axes * root), back, unseen)
