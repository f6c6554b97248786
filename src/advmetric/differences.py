"""Differences of pairs without forming them: sparse maps from points, for methods that weigh every pair."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .learner import LabelledPoints
from .linalg import Matrix, Vector, symmetrize
from .supervision import AllPairs, Pairs, make_sampler

__all__ = [
    "DifferenceMap",
    "balanced_weights",
    "pairs_of",
    "principal_axes",
    "root_mean_square",
    "unit_differences",
]

_BLOCK_BYTES = 1 << 25
_DENSE = 100
"""Up to so many points squared a pair, one matrix product by blocks beats gathering the rows of each pair."""


def pairs_of(data: LabelledPoints | Pairs, pairs: object, random_state: Any) -> Pairs:
    """The labelled pairs to learn from: those given, or a sample of pairs of the points."""
    if isinstance(data, LabelledPoints):
        if len(np.unique(data.y)) == len(data.y):
            raise ValueError("every class in y has only one member, so there is no similar pair to learn from.")
        data = (make_sampler(pairs) or AllPairs()).sample(data.X, data.y, random_state)
    for label, kind in ((1, "similar"), (-1, "dissimilar")):
        if not np.any(data.labels == label):
            raise ValueError(f"no {kind} pair was drawn; set pairs='balanced' or a larger number of pairs.")
    return data


@dataclass(frozen=True)
class DifferenceMap:
    """E: rows of points to differences of pairs, V = EX, without the (N, d) array V.

    Every cost is linear in the number of pairs and of columns. ``left=None`` is the identity: the rows
    are differences already.
    """

    n_points: int
    left: NDArray[np.integer] | None = None
    right: NDArray[np.integer] | None = None

    def quadratic(self, Z: Matrix, ZM: Matrix) -> Vector:
        """vᵀMv for the differences v of rows of Z, from Z and the product ZM (M symmetric).

        By ‖zᵢ‖² + ‖zⱼ‖² - 2zᵢᵀMzⱼ: right to rounding relative to the points' norms, so centre them.
        """
        norms: Vector = np.einsum("ij,ij->i", Z, ZM)
        if self.left is None or self.right is None:
            return norms
        values = norms[self.left] + norms[self.right]
        if self.n_points**2 <= _DENSE * len(values):
            order, starts, columns = self._rows
            step = max(1, _BLOCK_BYTES // (8 * self.n_points))
            for start in range(0, self.n_points, step):
                stop = min(start + step, self.n_points)
                chosen = slice(starts[start], starts[stop])
                products = Z[start:stop] @ ZM.T
                values[order[chosen]] -= 2.0 * products[self.left[order[chosen]] - start, columns[chosen]]
            return values
        step = max(1, _BLOCK_BYTES // (8 * max(1, Z.shape[1])))
        for start in range(0, len(values), step):
            block = slice(start, start + step)
            values[block] -= 2.0 * np.einsum("ij,ij->i", Z[self.left[block]], ZM[self.right[block]])
        return values

    def laplacian(self, weights: Vector, Z: Matrix) -> Matrix:
        """Eᵀ diag(weights) E Z: the weighted graph Laplacian of the pairs times Z."""
        if self.left is None or self.right is None:
            scaled: Matrix = weights[:, None] * Z
            return scaled
        degree = np.bincount(self.left, weights, self.n_points) + np.bincount(self.right, weights, self.n_points)
        order, starts, columns = self._rows
        # Built from sorted rows; a pair drawn twice stays two entries, which products add up.
        graph = csr_array((weights[order], columns, starts), shape=(self.n_points, self.n_points))
        result: Matrix = degree[:, None] * Z - graph @ Z
        result -= graph.T @ Z
        return result

    @cached_property
    def _rows(self) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]:
        assert self.left is not None
        assert self.right is not None
        order = np.argsort(self.left, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.left, minlength=self.n_points))])
        width = np.int32 if len(self.left) < np.iinfo(np.int32).max else np.int64
        return order, starts.astype(width), self.right[order].astype(width)


def unit_differences(pairs: Pairs, features: Matrix | None = None) -> tuple[Matrix, DifferenceMap, float]:
    """Rows F and a map E such that the differences EF have mean square norm 1, and the divisor used.

    F are the differences themselves where there are no more pairs than points, else the centred points.
    """
    # One memory order, so that a frame and an array give the same to the last bit.
    X = np.ascontiguousarray(pairs.X if features is None else features, dtype=np.float64)
    # Divided before anything is subtracted or squared, so that no scale overflows.
    size = float(np.abs(X).max()) or 1.0
    if len(pairs) <= len(X):
        F = X[pairs.left] / size - X[pairs.right] / size
        differences = DifferenceMap(len(F))
    else:
        F = X / size
        F -= F.mean(axis=0)
        differences = DifferenceMap(len(F), pairs.left, pairs.right)
    spread = float(np.abs(F).max()) or 1.0
    F /= spread
    norm = root_mean_square(F, differences)
    F /= norm
    return F, differences, size * spread * norm


def root_mean_square(F: Matrix, differences: DifferenceMap) -> float:
    """Root of the mean square norm of the differences; 1 if they all vanish."""
    mean_square = float(np.mean(differences.quadratic(F, F)))
    return float(np.sqrt(mean_square)) if mean_square > 0.0 else 1.0


def balanced_weights(labels: Vector) -> Vector:
    """Half of the weight to the similar pairs, half to the dissimilar ones, evenly."""
    similar = labels == 1
    n_similar = int(similar.sum())
    return np.where(similar, 0.5 / n_similar, 0.5 / (len(labels) - n_similar))


def principal_axes(F: Matrix, differences: DifferenceMap, n_components: int) -> Matrix:
    """Leading principal axes (d, n_components) of the differences EF. O(Nd + nd² + d³)."""
    ones = np.ones(len(F) if differences.left is None else len(differences.left))
    _, axes = np.linalg.eigh(symmetrize(F.T @ differences.laplacian(ones, F)))
    return axes[:, ::-1][:, :n_components].copy()
