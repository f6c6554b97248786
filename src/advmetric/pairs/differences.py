"""Differences of pairs at unit scale, for methods that weigh every pair."""

from __future__ import annotations

import numpy as np

from advmetric.utils.typing import Matrix, Vector

from .data import Pairs
from .graph import PairGraph

__all__ = ["balanced_weights", "principal_axes", "root_mean_square", "unit_differences"]


def unit_differences(pairs: Pairs, features: Matrix | None = None) -> tuple[Matrix, PairGraph, float]:
    """Rows F and a map E such that the differences EF have mean square norm 1, and the divisor used.

    F are the differences themselves where there are no more pairs than points, else the centred points.
    """
    # One memory order, so that a frame and an array give the same to the last bit.
    X = np.ascontiguousarray(pairs.X if features is None else features, dtype=np.float64)
    # Divided before anything is subtracted or squared, so that no scale overflows.
    size = float(np.abs(X).max()) or 1.0
    if len(pairs) <= len(X):
        F = X[pairs.left] / size - X[pairs.right] / size
        differences = PairGraph(len(F))
    else:
        F = X / size
        F -= F.mean(axis=0)
        differences = PairGraph(len(F), pairs.left, pairs.right)
    spread = float(np.abs(F).max()) or 1.0
    F /= spread
    norm = root_mean_square(F, differences)
    F /= norm
    return F, differences, size * spread * norm


def root_mean_square(F: Matrix, differences: PairGraph) -> float:
    """Root of the mean square norm of the differences; 1 if they all vanish."""
    mean_square = float(np.mean(differences.quadratic(F, F)))
    return float(np.sqrt(mean_square)) if mean_square > 0.0 else 1.0


def balanced_weights(labels: Vector) -> Vector:
    """Half of the weight to the similar pairs, half to the dissimilar ones, evenly."""
    similar = labels == 1
    n_similar = int(similar.sum())
    return np.where(similar, 0.5 / n_similar, 0.5 / (len(labels) - n_similar))


def principal_axes(F: Matrix, differences: PairGraph, n_components: int) -> Matrix:
    """Leading principal axes (d, n_components) of the differences EF. O(Nd + nd² + d³)."""
    _, axes = np.linalg.eigh(differences.scatter(np.ones(len(differences)), F))
    return axes[:, ::-1][:, :n_components].copy()
