"""Triplets from labelled points: target neighbours, impostors, and the sparse graph of their differences.

A triplet (i, j, l) says that point i should be nearer to j, of its own class, than to l, of another.
Searches go through the points by blocks: an n×n matrix is never held.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from advmetric.utils.typing import Indices, Matrix, Vector

from .graph import PairGraph, laplacian_product

__all__ = [
    "Impostors",
    "Neighbors",
    "centred",
    "impostors_within",
    "nearest_impostors",
    "squared_norms",
    "target_neighbors",
]

BLOCK_BYTES = 1 << 23
"""Working memory of a block of distances."""


def centred(X: Matrix) -> tuple[Matrix, float]:
    """Points with mean 0 and entries up to 1 (so that no square over- or underflows), and what they were divided by.

    Raises
    ------
    OverflowError
        If points are farther from their mean than floating-point numbers go.
    """
    points = X.astype(np.float64, order="C")
    # Sums of the largest numbers overflow, so scale first; a power of two changes no digit.
    exponent = int(np.frexp(np.abs(points).max())[1]) - 1
    points = np.ldexp(points, -exponent)
    points -= points.mean(axis=0)
    spread = float(np.abs(points).max())
    if spread > 0.0:
        points /= spread
    return points, math.ldexp(spread, exponent)


def squared_norms(X: Matrix) -> Vector:
    """‖x‖² of each row."""
    norms: Vector = np.einsum("ij,ij->i", X, X)
    return norms


class Neighbors:
    """Some neighbours of each point, as pairs.

    Parameters
    ----------
    points : (n, k) integer array
        The neighbours of each point; -1 where there are fewer than k.
    """

    def __init__(self, points: Indices) -> None:
        self.points = points
        self.known: NDArray[np.bool_] = points >= 0
        self.counts: Indices = self.known.sum(axis=1)
        self.pairs = PairGraph(len(points), np.repeat(np.arange(len(points)), self.counts), points[self.known])

    def squared_distances(self, Z: Matrix, ZM: Matrix | None = None, missing: float = 0.0) -> Matrix:
        """Squared distances (n, k) to the neighbours, ``missing`` where there is none.

        With ``ZM`` = Z @ M they are those of M, which may have any sign.
        """
        distances = np.full(self.points.shape, missing)
        distances[self.known] = self.pairs.inner(Z if ZM is None else ZM, Z)
        return distances

    def laplacian(self, weights: Matrix, Z: Matrix) -> Matrix:
        """The Laplacian of the neighbours with (n, k) weights, times Z."""
        return self.pairs.laplacian(weights[self.known], Z)


def target_neighbors(X: Matrix, y: NDArray, k: int) -> Indices:
    """The k nearest points (Euclidean) of each point's own class, nearest first.

    Returns
    -------
    targets : (n, k) integer array
        k is at most the number of other members of the largest class. Where a class has fewer than k other members
        the row is filled up with -1; a point alone in its class has no target at all.

    Notes
    -----
    O(Σ n_c² d) for classes of n_c points; memory: the result and a block of distances.

    Raises
    ------
    ValueError
        If no class has two members.
    """
    k = min(k, max(1, int(np.unique(y, return_counts=True)[1].max()) - 1))
    targets = np.full((len(X), k), -1, dtype=np.intp)
    for members, _ in _classes(y):
        reach = min(k, len(members) - 1)
        if reach < 1:
            continue
        points = X[members]
        for rows, distances in _blocks(points, points):
            own = np.arange(rows.start, rows.stop)
            distances[own - rows.start, own] = np.inf
            targets[members[rows], :reach] = members[_smallest(distances, reach)]
    if not (targets >= 0).any():
        raise ValueError("every class in y has only one member; a class with at least two is needed for triplets.")
    return targets


def nearest_impostors(X: Matrix, y: NDArray, k: int, anchors: Indices | None = None) -> Indices:
    """The k nearest points (Euclidean) of other classes, nearest first, filled up with -1.

    Returns
    -------
    impostors : (m, k) integer array
        For each of the m ``anchors`` (by default all points).

    Notes
    -----
    O(mnd); memory: the result, a copy of the points and a block of distances.
    """
    wanted = np.arange(len(X)) if anchors is None else anchors
    impostors = np.full((len(wanted), k), -1, dtype=np.intp)
    for members, others in _classes(y):
        asked = np.flatnonzero(np.isin(wanted, members))
        reach = min(k, len(others))
        for rows, distances in _blocks(X[wanted[asked]], X[others]):
            impostors[asked[rows], :reach] = others[_smallest(distances, reach)]
    return impostors


@dataclass(frozen=True)
class Impostors:
    """Pairs (anchor, point of another class), in compressed rows: those of anchor i stand in
    ``points[start[i]:start[i + 1]]``, in ascending order.
    """

    start: Indices
    points: Indices

    @classmethod
    def of_pairs(cls, anchors: Indices, points: Indices, n: int) -> Impostors:
        """From pairs in any order, none of which occurs twice."""
        key = np.sort(anchors.astype(np.int64) * n + points)
        start = np.searchsorted(key, np.arange(n + 1, dtype=np.int64) * n)
        return cls(start, key % n)

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def anchors(self) -> Indices:
        """The anchor of each pair."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    @property
    def keys(self) -> Indices:
        """One number per pair, ascending: anchor · n + point."""
        return self.anchors * (len(self.start) - 1) + self.points

    def union(self, other: Impostors) -> Impostors:
        """Pairs of either."""
        new = other.without(self)
        anchors = np.concatenate([self.anchors, new.anchors])
        return Impostors.of_pairs(anchors, np.concatenate([self.points, new.points]), len(self.start) - 1)

    def without(self, other: Impostors) -> Impostors:
        """Pairs that are not in ``other``."""
        new = ~np.isin(self.keys, other.keys, assume_unique=True)
        return Impostors.of_pairs(self.anchors[new], self.points[new], len(self.start) - 1)

    def graph(self, weights: Vector) -> csr_array:
        """The pairs as edges of a sparse (n, n) graph, without those of weight 0."""
        n = len(self.start) - 1
        kept = weights != 0.0
        start = np.concatenate([[0], np.cumsum(kept)])[self.start]
        return csr_array((weights[kept], self.points[kept], start), shape=(n, n))

    def squared_distances(self, Z: Matrix) -> Vector:
        """Squared distance of each pair."""
        return PairGraph(len(Z), self.anchors, self.points).inner(Z, Z)

    def laplacian(self, weights: Vector, Z: Matrix) -> Matrix:
        """The Laplacian of the pairs with these weights, times Z."""
        return laplacian_product(self.graph(weights), Z)

    def sum_by_anchor(self, values: Matrix) -> Matrix:
        """Sum the rows of values, one per pair, over the pairs of each anchor: (n, …) from (N, …)."""
        n, size = len(self.start) - 1, len(self)
        totals: Matrix = csr_array((np.ones(size), np.arange(size), self.start), shape=(n, size)) @ values
        return totals


def impostors_within(Z: Matrix, y: NDArray, radius: Vector) -> Impostors:
    """All points of other classes at a squared distance below ``radius[i]`` of point i.

    Anchors with a radius of 0 or less are passed over. O(n² r) by BLAS; memory: the pairs found, a copy of
    Z and a block of distances.
    """
    n = len(Z)
    anchors: list[Indices] = [np.empty(0, dtype=np.intp)]
    points: list[Indices] = [np.empty(0, dtype=np.intp)]
    for members, others in _classes(y):
        members = members[radius[members] > 0.0]
        # A negative offset of each anchor's distances makes the test one comparison with 0.
        for rows, beyond in _blocks(Z[members], Z[others], -radius[members]):
            found, near = np.divmod(np.flatnonzero(beyond.ravel() < 0.0), len(others))
            anchors.append(members[rows][found])
            points.append(others[near])
    return Impostors.of_pairs(np.concatenate(anchors), np.concatenate(points), n)


# --- blocks -----------------------------------------------------------------------------------------------


def _classes(y: NDArray) -> Iterator[tuple[Indices, Indices]]:
    """Rows of each class and the rows of all others."""
    for label in np.unique(y):
        yield np.flatnonzero(y == label), np.flatnonzero(y != label)


def _blocks(A: Matrix, B: Matrix, offset: Vector | float = 0.0) -> Iterator[tuple[slice, Matrix]]:
    """Yield (rows, squared distances of A[rows] to all of B, plus the offset of each row) block by block."""
    if not len(A) or not len(B):
        return
    # ‖a‖² + ‖b‖² - 2ab as one product of [-2a, ‖a‖², 1] and [b, 1, ‖b‖²]: no pass over the block but BLAS's.
    left = np.column_stack([-2.0 * A, squared_norms(A) + offset, np.ones(len(A))])
    right = np.vstack([B.T, np.ones(len(B)), squared_norms(B)])
    step = max(1, BLOCK_BYTES // (8 * len(B)))
    for start in range(0, len(A), step):
        rows = slice(start, min(start + step, len(A)))
        yield rows, left[rows] @ right


def _smallest(distances: Matrix, k: int) -> Indices:
    """Columns of the k smallest entries of each row, smallest first; ties by column."""
    if k < distances.shape[1]:
        chosen = np.sort(np.argpartition(distances, k - 1, axis=1)[:, :k], axis=1)
    else:
        chosen = np.broadcast_to(np.arange(k), (len(distances), k))
    order = np.argsort(np.take_along_axis(distances, chosen, axis=1), axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1)
