"""Scatter of many pairs of few points through their graph: Σ (x - x')(x - x')ᵀ = Xᵀ(D - W - Wᵀ)X.

W counts the pairs (left, right) and D how often each point occurs. In the product WX every pair fetches a row of X
from anywhere in memory, which costs far more than adding it. So the rows of W are cut into tiles whose part of WX stays
in the cache, and the pairs of a tile are taken in the order of their right points: X is then read once a tile, from its
first row to its last. That takes two counting sorts and beats a product with W in CSR format, were W there already.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from advmetric.utils.typing import Matrix

__all__ = ["tiled_pair_sums"]

TILE_BYTES = 1 << 23
"""Size of a tile of WX (of both kinds of pairs)."""
BLOCK_PAIRS = 1 << 20
"""So many pairs are sorted into tiles at a time."""
MOST_PAIRS = 1 << 26
"""So many sorted pairs are held at a time, at 8 bytes each."""


def tiled_pair_sums(X: Matrix, left: Any, right: Any, y: NDArray[np.integer]) -> tuple[Matrix, Matrix]:
    """Σ (x - x')(x - x')ᵀ over the pairs with y = +1 and over those with y = -1: O(Nd + nd²).

    X must be in C order and double precision; what lies far from the origin cancels. Working memory: 8 bytes per pair,
    at most 0.5 GB, and some tiles.
    """
    d = X.shape[1]
    half = np.zeros((d, 2, d))
    for start in range(0, len(left), MOST_PAIRS):
        held = slice(start, start + MOST_PAIRS)
        half += _half_sums(X, left[held], right[held], y[held])
    return half[:, 0] + half[:, 0].T, half[:, 1] + half[:, 1].T


def _half_sums(X: Matrix, left: Any, right: Any, y: NDArray[np.integer]) -> Matrix:
    """Xᵀ(D/2 - W)X of similar and of dissimilar pairs, (d, 2, d)."""
    n, d = X.shape
    # Not below d rows (within reason): a tile's product with X must be worth the (d, 2d) matrix it is added to.
    step = min(n, max(TILE_BYTES // (16 * d), min(d, 1024), 1))
    blocks, degree = [], np.zeros(2 * n)
    for start in range(0, len(left), BLOCK_PAIRS):
        block = slice(start, start + BLOCK_PAIRS)
        points, partners, dissimilar = left[block].astype(np.int64), right[block].astype(np.int64), y[block] == -1
        tile = points // step
        points -= tile * step
        # Row 2i of a tile is point i in similar pairs, row 2i + 1 in dissimilar ones. With the partner, one number.
        blocks.append(_counting_sort(tile, (2 * points + dissimilar) * n + partners, -(-n // step)))
        np.add.at(degree, 2 * partners + dissimilar, 1.0)
    half = np.zeros((d, 2 * d))
    for tile, start in enumerate(range(0, n, step)):
        Z = X[start : start + step]
        codes = np.concatenate([block[ends[tile] : ends[tile + 1]] for block, ends in blocks])
        nodes = codes // n
        codes -= nodes * n
        moved = _product(nodes, codes, 2 * len(Z), X).reshape(len(Z), 2, d)
        weight = degree[2 * start : 2 * (start + len(Z))] + np.bincount(nodes, minlength=2 * len(Z))
        for kind in (0, 1):
            moved[:, kind] -= (0.5 * weight[kind::2, None]) * Z
        half -= Z.T @ moved.reshape(len(Z), 2 * d)
    return half.reshape(d, 2, d)


def _product(rows: NDArray, columns: NDArray, n_rows: int, X: Matrix) -> Matrix:
    """WX, W the (n_rows, n) matrix that counts the (row, column) pairs."""
    n = len(X)
    ones = np.ones(len(rows))
    if len(rows) > n // 16:
        return csc_array((ones, *_counting_sort(columns, rows, n)), shape=(n_rows, n)) @ X
    # Too few to be worth a walk along all columns.
    return csr_array((ones, *_counting_sort(rows, columns, n_rows)), shape=(n_rows, n)) @ X


def _counting_sort(keys: NDArray, values: NDArray, n_keys: int) -> tuple[NDArray, NDArray]:
    """The values in the order of their keys 0 … n_keys - 1, and where those of each key begin (and the last end).

    A row that is turned into columns: O(N + n_keys), compiled, and entries in the same place are not added up.
    """
    row = csr_array((values, keys, np.array([0, len(keys)])), shape=(1, n_keys))
    columns = row.tocsc()
    return columns.data, columns.indptr
