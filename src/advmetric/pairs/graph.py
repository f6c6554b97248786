"""Pairs as edges of a sparse graph of the points: sums over pairs without the differences of pairs.

For edges (i, j) of weight w, Xᵀ(D - W - Wᵀ)X = Σ w (x_i - x_j)(x_i - x_j)ᵀ, W the weighted graph and D its degrees.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from advmetric.linalg.spd import symmetrize
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
    rows : slice, optional
        Where ``left`` and ``right`` are None: which rows are the differences.
    """

    n_points: int
    left: Indices | None = None
    right: Indices | None = None
    rows: slice = field(default_factory=lambda: slice(None))

    def __len__(self) -> int:
        return len(range(self.n_points)[self.rows]) if self.left is None else len(self.left)

    def differences(self, Z: Matrix, block: slice) -> Matrix:
        """Return the differences of the rows of Z over a block of pairs."""
        if self.left is None or self.right is None:
            return Z[self.rows][block]
        difference: Matrix = np.take(Z, self.left[block], axis=0)
        difference -= np.take(Z, self.right[block], axis=0)
        return difference

    def inner(self, Y: Matrix, Z: Matrix) -> Vector:
        """Return ⟨y, z⟩ of the differences y of Y and z of Z, for every pair, from the differences: O(Nr)."""
        products = np.empty(len(self))
        for block in self._blocks(Z.shape[1]):
            z = self.differences(Z, block)
            y = z if Y is Z else self.differences(Y, block)
            np.einsum("ij,ij->i", y, z, out=products[block])
        return products

    def squares(self, Z: Matrix, weights: Matrix) -> Matrix:
        """Return Σ_k w_k v_k² of each difference v, for each of q columns of ``weights`` (r, q): (N, q). O(Nr(1 + q)).

        From differences, so without cancellation: exactly 0 for equal rows.
        """
        result = np.empty((len(self), weights.shape[1]))
        for block in self._blocks(Z.shape[1]):
            result[block] = np.square(self.differences(Z, block)) @ weights
        return result

    def quadratic(self, Z: Matrix, ZM: Matrix) -> Vector:
        """Return (z - z')ᵀM(z - z') for every pair of rows of Z, from Z and the product ZM (M symmetric).

        By ‖zᵢ‖² + ‖zⱼ‖² - 2zᵢᵀMzⱼ: faster than :meth:`inner` where there are many pairs per point, but accurate
        relative to the norms of the points only, so centre them.
        """
        norms: Vector = np.einsum("ij,ij->i", Z, ZM)
        if self.left is None or self.right is None:
            return norms[self.rows]
        values = norms[self.left] + norms[self.right]
        if self.n_points**2 <= _DENSE * len(values):
            order, graph = self._unweighted
            starts, left, right = graph.indptr, self.left, graph.indices
            step = max(1, BLOCK_BYTES // (8 * self.n_points))
            for start in range(0, self.n_points, step):
                stop = min(start + step, self.n_points)
                chosen = slice(starts[start], starts[stop])
                places = chosen if order is None else order[chosen]
                values[places] -= 2.0 * (Z[start:stop] @ ZM.T)[left[places] - start, right[chosen]]
            return values
        for block in self._blocks(Z.shape[1], BLOCK_BYTES):
            values[block] -= 2.0 * np.einsum("ij,ij->i", Z[self.left[block]], ZM[self.right[block]])
        return values

    def laplacian(self, weights: Vector, Z: Matrix) -> Matrix:
        """Return Eᵀ diag(weights) E Z: the weighted Laplacian of the pairs times Z."""
        if self.left is None or self.right is None:
            product: Matrix = np.zeros_like(Z)
            product[self.rows] = weights[:, None] * Z[self.rows]
            return product
        return laplacian_product(self._weighted(weights), Z, self._degree(weights))

    def moment(self, weights: Vector, Y: Matrix, Z: Matrix) -> Matrix:
        """Return Σ wᵢ yᵢ zᵢᵀ over the differences y of Y and z of Z: O(Nr + nr²)."""
        return Y.T @ self.laplacian(weights, Z)

    def scatter(self, weights: Vector, Z: Matrix) -> Matrix:
        """Return Σ wᵢ zᵢ zᵢᵀ over the differences z of Z: O(Nr + nr²), or O(Nr²) for rows that are differences.

        With one product where :meth:`moment` has two: Zᵀ(D - W - Wᵀ)Z is the symmetric part of Zᵀ(D - 2W)Z.
        """
        if self.left is None or self.right is None:
            part = Z[self.rows]
            return symmetrize(part.T @ (weights[:, None] * part))
        moved = self._weighted(weights) @ Z
        moved *= -2.0
        moved += self._degree(weights)[:, None] * Z
        return symmetrize(Z.T @ moved)

    def _blocks(self, width: int, n_bytes: int | None = None) -> Iterator[slice]:
        step = max(1, (n_bytes or _CACHE_BYTES) // (8 * max(1, width)))
        return (slice(start, start + step) for start in range(0, len(self), step))

    def _degree(self, weights: Vector) -> Vector:
        """Return the sum of the weights of each point's pairs."""
        assert self.left is not None
        assert self.right is not None
        degree: Any = np.bincount(self.left, weights, self.n_points)
        degree += np.bincount(self.right, weights, self.n_points)
        return degree

    def _weighted(self, weights: Vector) -> csr_array:
        """Return the graph W of the pairs. A pair drawn twice stays two entries, which products add up."""
        order, graph = self._unweighted
        graph = copy.copy(graph)  # shares the indices; to make a graph anew takes longer than a small product
        graph.data = weights if order is None else weights[order]
        return graph

    @cached_property
    def _unweighted(self) -> tuple[Indices | None, csr_array]:
        """Return the order of the pairs by left point (None: as they are), and their graph, all weights 1."""
        assert self.left is not None
        assert self.right is not None
        n, N = self.n_points, len(self.left)
        width = np.int32 if max(N, n) < np.iinfo(np.int32).max else np.int64
        starts = np.zeros(n + 1, dtype=width)
        np.cumsum(np.bincount(self.left, minlength=n), out=starts[1:])
        order = None if np.all(self.left[1:] >= self.left[:-1]) else np.argsort(self.left, kind="stable")
        columns = (self.right if order is None else self.right[order]).astype(width)
        ones = np.broadcast_to(1.0, N)
        return order, csr_array((ones, columns, starts), shape=(n, n))
