"""Similar and dissimilar pairs as edges between rows: squared distances and weighted scatter."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from advmetric.linalg.spd import symmetrize
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

    def scatter(self, weights: Vector, Z: Matrix) -> Matrix:
        """Σ w vvᵀ, (r, r), without forming a difference: O(Nr + nr²), or O(Nr²) for rows that are differences.

        With W the sparse matrix of the weights and D the sums of the weights at each row,
        Σ w vvᵀ = Zᵀ(DZ - WZ) - (Zᵀ W Z)ᵀ.
        """
        if self.left is None or self.right is None:
            part = Z[self.rows]
            return symmetrize(part.T @ (weights[:, None] * part))
        order, columns, starts = self._by_left
        # A pair that occurs twice stays two entries, which add up.
        graph = csr_array((weights if order is None else weights[order], columns, starts), shape=(self.n, self.n))
        degree = graph @ np.ones(self.n)
        degree += np.bincount(self.right, weights, minlength=self.n)
        moved = graph @ Z
        moved *= -2.0
        moved += degree[:, None] * Z
        return symmetrize(Z.T @ moved)

    @cached_property
    def _by_left(self) -> tuple[NDArray[np.integer] | None, NDArray[np.integer], NDArray[np.integer]]:
        """Edges as the rows of a sparse matrix: their order (None: as they are), columns, and starts of the rows."""
        assert self.left is not None
        assert self.right is not None
        kind = np.int32 if max(len(self.left), self.n) < np.iinfo(np.int32).max else np.int64
        starts: NDArray[np.integer] = np.zeros(self.n + 1, dtype=kind)
        np.cumsum(np.bincount(self.left, minlength=self.n), out=starts[1:])
        if np.all(self.left[1:] >= self.left[:-1]):
            return None, self.right.astype(kind), starts
        order = np.argsort(self.left, kind="stable")
        return order, self.right[order].astype(kind), starts
