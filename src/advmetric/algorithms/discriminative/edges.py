"""Similar and dissimilar pairs as edges between rows: squared distances and weighted Laplacians, by blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from advmetric.utils.typing import Matrix, Vector

__all__ = ["Edges"]

_BLOCK_BYTES = 1 << 20
"""Working memory of a block of differences: about a cache."""


@dataclass(frozen=True)
class Edges:
    """Pairs of rows of a matrix Z, or, without ``left`` and ``right``, rows that are differences already.

    Parameters
    ----------
    n : int
        Number of rows of Z.
    left, right : (N,) integer arrays, optional
        Pair i has the difference Z[left[i]] - Z[right[i]].
    rows : slice, optional
        Where ``left`` and ``right`` are missing: which rows are the differences.
    """

    n: int
    left: NDArray[np.integer] | None = None
    right: NDArray[np.integer] | None = None
    rows: slice = field(default_factory=lambda: slice(None))

    def __len__(self) -> int:
        return len(range(self.n)[self.rows]) if self.left is None else len(self.left)

    def squares(self, Z: Matrix, weights: Matrix) -> Matrix:
        """Σ_k w_k v_k² of each difference v, for each of q columns of ``weights`` (r, q): (N, q). O(Nr(1 + q)).

        From differences, so without cancellation: exactly 0 for equal rows.
        """
        result = np.empty((len(self), weights.shape[1]))
        step = max(1, _BLOCK_BYTES // (8 * max(1, Z.shape[1])))
        for start in range(0, len(self), step):
            block = slice(start, start + step)
            if self.left is None or self.right is None:
                V = np.square(Z[self.rows][block])
            else:
                V = np.take(Z, self.left[block], axis=0)
                V -= np.take(Z, self.right[block], axis=0)
                np.square(V, out=V)
            result[block] = V @ weights
        return result

    def add_laplacian(self, total: Matrix, weights: Vector, Z: Matrix) -> None:
        """Add Eᵀ diag(weights) E Z, the weighted Laplacian of the edges times Z, to ``total``. O(Nr + nr).

        Zᵀ times it is Σ w vvᵀ, without an outer product per pair.
        """
        if self.left is None or self.right is None:
            total[self.rows] += weights[:, None] * Z[self.rows]
            return
        entries, columns, starts = self._symmetric
        # Both directions of each edge in one sparse matrix; an edge drawn twice stays two entries, which add up.
        graph = csr_array((weights[entries], columns, starts), shape=(self.n, self.n))
        total += (graph @ np.ones(self.n))[:, None] * Z
        total -= graph @ Z

    def gram(self, weights: Vector, Z: Matrix) -> Matrix:
        """Σ w vvᵀ, (r, r). O(Nr + nr²), or O(Nr²) for rows that are differences."""
        if self.left is None:
            part = Z[self.rows]
            return part.T @ (weights[:, None] * part)
        moved = np.zeros_like(Z)
        self.add_laplacian(moved, weights, Z)
        return Z.T @ moved

    @cached_property
    def _symmetric(self) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]:
        """For each row: which edges touch it, and the rows at their other ends."""
        assert self.left is not None
        assert self.right is not None
        N = len(self.left)
        kind = np.int32 if max(2 * N, self.n) < np.iinfo(np.int32).max else np.int64
        ends = np.concatenate([self.left, self.right])
        order: NDArray[np.integer] = np.argsort(ends, kind="stable")
        starts: NDArray[np.integer] = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=self.n))])
        others: NDArray[np.integer] = np.concatenate([self.right, self.left])[order]
        return (order % N).astype(kind), others.astype(kind), starts.astype(kind)
