"""Pairs as edges of a sparse graph of the points: sums over pairs without the differences of pairs.

For edges (i, j) of weight w, Xᵀ(D - W - Wᵀ)X = Σ w (x_i - x_j)(x_i - x_j)ᵀ, W the weighted graph and D its degrees.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from advmetric.utils.typing import Indices, Matrix, Vector

from .data import BLOCK_BYTES

__all__ = ["PairGraph", "laplacian_product"]

_DENSE = 100
"""Up to this many points squared per pair, one matrix product by blocks is faster than gathering rows."""
_CACHE_BYTES = 1 << 20
"""Differences held at once where each is used once: about what a cache holds."""


def laplacian_product(graph: csr_array, Z: Matrix, degree: Vector | None = None) -> Matrix:
    """Return (D - W - Wᵀ)Z for a weighted graph W with degrees D: O(edges · r)."""
    if degree is None:
        degree = graph.sum(axis=1) + graph.sum(axis=0)
    product: Matrix = degree[:, None] * Z
    product -= graph @ Z
    product -= graph.T @ Z
    return product


@dataclass(frozen=True)
class PairGraph:
    """The linear map E from rows of points to differences of pairs, V = EX, without the (N, d) array V.

    Parameters
    ----------
    n_points : int
        Number of rows of X.
    left, right : (N,) integer arrays, or None
        Pair i is row left[i] minus row right[i]. None: the rows are the differences themselves (E = I).
    """

    n_points: int
    left: Indices | None = None
    right: Indices | None = None

    def __len__(self) -> int:
        return self.n_points if self.left is None else len(self.left)

    def differences(self, Z: Matrix, block: slice) -> Matrix:
        """Return the differences of the rows of Z over a block of pairs."""
        if self.left is None or self.right is None:
            return Z[block]
        difference: Matrix = Z[self.left[block]] - Z[self.right[block]]
        return difference

    def inner(self, Y: Matrix, Z: Matrix) -> Vector:
        """Return ⟨y, z⟩ of the differences y of Y and z of Z, for every pair, from the differences: O(Nr)."""
        products = np.empty(len(self))
        step = max(1, _CACHE_BYTES // (8 * Z.shape[1]))
        for start in range(0, len(self), step):
            block = slice(start, start + step)
            z = self.differences(Z, block)
            y = z if Y is Z else self.differences(Y, block)
            products[block] = np.einsum("ij,ij->i", y, z)
        return products

    def quadratic(self, Z: Matrix, ZM: Matrix) -> Vector:
        """Return (z - z')ᵀM(z - z') for every pair of rows of Z, from Z and the product ZM (M symmetric).

        By ‖zᵢ‖² + ‖zⱼ‖² - 2zᵢᵀMzⱼ: faster than :meth:`inner` where there are many pairs per point, but accurate
        relative to the norms of the points only, so centre them.
        """
        norms: Vector = np.einsum("ij,ij->i", Z, ZM)
        if self.left is None or self.right is None:
            return norms
        values = norms[self.left] + norms[self.right]
        if self.n_points**2 <= _DENSE * len(values):
            order, starts, columns = self._rows
            step = max(1, BLOCK_BYTES // (8 * self.n_points))
            for start in range(0, self.n_points, step):
                stop = min(start + step, self.n_points)
                chosen = slice(starts[start], starts[stop])
                products = Z[start:stop] @ ZM.T
                values[order[chosen]] -= 2.0 * products[self.left[order[chosen]] - start, columns[chosen]]
            return values
        step = max(1, BLOCK_BYTES // (8 * max(1, Z.shape[1])))
        for start in range(0, len(values), step):
            block = slice(start, start + step)
            values[block] -= 2.0 * np.einsum("ij,ij->i", Z[self.left[block]], ZM[self.right[block]])
        return values

    def laplacian(self, weights: Vector, Z: Matrix) -> Matrix:
        """Return Eᵀ diag(weights) E Z: the weighted Laplacian of the pairs times Z."""
        if self.left is None or self.right is None:
            scaled: Matrix = weights[:, None] * Z
            return scaled
        order, starts, columns = self._rows
        # Built from sorted rows; a pair drawn twice stays two entries, which products add up.
        graph = csr_array((weights[order], columns, starts), shape=(self.n_points, self.n_points))
        degree: Any = np.bincount(self.left, weights, self.n_points)
        degree += np.bincount(self.right, weights, self.n_points)
        return laplacian_product(graph, Z, degree)

    def moment(self, weights: Vector, Y: Matrix, Z: Matrix) -> Matrix:
        """Return Σ wᵢ yᵢ zᵢᵀ over the differences y of Y and z of Z: O(Nr + nr²)."""
        return Y.T @ self.laplacian(weights, Z)

    @cached_property
    def _rows(self) -> tuple[Indices, Indices, Indices]:
        """Return the order of the pairs by left point, where each point's pairs begin, and the right points."""
        assert self.left is not None
        assert self.right is not None
        order = np.argsort(self.left, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.left, minlength=self.n_points))])
        width = np.int32 if len(self.left) < np.iinfo(np.int32).max else np.int64
        return order, starts.astype(width), self.right[order].astype(width)
