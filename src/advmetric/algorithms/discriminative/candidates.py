"""Candidate neighbours of labelled points: the nearest of the same class and of other classes, by blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advmetric.pairs.graph import PairGraph
from advmetric.pairs.triplets import squared_norms
from advmetric.utils.typing import Matrix

__all__ = ["Candidates", "choose_anchors", "chooses_few", "find_candidates", "keep_nearest", "nearest"]

Indices = NDArray[np.integer]
MOST_COMPARED = 2 * 10**9
"""Default maximum number of distances per search; with more, only some points are anchors."""
LEAST_ANCHORS = 5000
"""Minimum number of anchors."""
_POOL = 1 << 14
"""Rows compared with at a time."""
_BLOCK_BYTES = 1 << 22
"""Working memory of a block of distances: about the size of a cache."""
_GROUP = 16


@dataclass(frozen=True)
class Candidates:
    """Neighbours of m anchors among n points: (m, k_s) of the same and (m, k_d) of other classes, -1 for none."""

    n: int
    anchors: Indices
    similar: Indices
    dissimilar: Indices

    def edges(self) -> tuple[PairGraph, PairGraph]:
        """From each anchor to its candidates of the same class, and of other classes, row by row."""
        near, far = (
            PairGraph(self.n, np.repeat(self.anchors, (found >= 0).sum(axis=1)), found[found >= 0])
            for found in (self.similar, self.dissimilar)
        )
        return near, far

    def across(self) -> tuple[PairGraph, Indices]:
        """Pairs of a candidate of the same class and one of other classes of some anchor, each pair once.

        Also return where the pairs of each anchor are, (m, k_s, k_d), -1 for none.
        """
        taken = (self.similar >= 0)[:, :, None] & (self.dissimilar >= 0)[:, None, :]
        pairs = self.similar[:, :, None].astype(np.int64) * self.n + self.dissimilar[:, None, :]
        # (j, l) and (l, j) have the same squared distance; anchors of the two classes name the pair in either order.
        turned = self.dissimilar[:, None, :].astype(np.int64) * self.n + self.similar[:, :, None]
        codes, inverse = np.unique(np.minimum(pairs, turned)[taken], return_inverse=True)
        places = np.full(taken.shape, -1, dtype=np.intp)
        places[taken] = inverse
        return PairGraph(self.n, *np.divmod(codes, self.n)), places

    def change(self, other: Candidates) -> float:
        """Share of the candidates of ``other`` (with the same anchors) that are not in this graph."""
        new = total = 0
        for mine, theirs in ((self.similar, other.similar), (self.dissimilar, other.dissimilar)):
            rows = np.arange(len(mine), dtype=np.int64)[:, None] * self.n
            known, found = (rows + mine)[mine >= 0], (rows + theirs)[theirs >= 0]
            new += int(np.sum(~np.isin(found, known, assume_unique=True)))
            total += len(found)
        return new / max(total, 1)


def choose_anchors(y: NDArray[np.integer], n_anchors: int | None, random_state: np.random.RandomState) -> Indices:
    """Points whose neighbours are looked at: all, or a random subset with the same shares of the classes.

    Parameters
    ----------
    y : (n,) array of class codes
    n_anchors : int, optional
        How many; by default as many as keep a search within 2·10⁹ distances (all up to 44 721 points, 5000 for
        400 000 points and more).
    """
    n = len(y)
    wanted = _wanted(n, n_anchors)
    if wanted >= n:
        return np.arange(n)
    # Evenly spaced places in a random order within the sorted classes: every class has its share, rounded.
    order = np.lexsort((random_state.random_sample(n), y))
    return np.sort(order[(np.arange(wanted) * n) // wanted])


def chooses_few(n: int, n_anchors: int | None) -> bool:
    """Return whether most of n points are no anchors."""
    return 2 * _wanted(n, n_anchors) < n


def _wanted(n: int, n_anchors: int | None) -> int:
    return max(LEAST_ANCHORS, MOST_COMPARED // n) if n_anchors is None else n_anchors


def find_candidates(
    Z: Matrix, y: NDArray[np.integer], anchors: Indices, n_similar: int, n_dissimilar: int
) -> Candidates:
    """Nearest rows of Z (n, r), Euclidean: ``n_similar`` of an anchor's class and ``n_dissimilar`` of the others.

    O(mnr) for m anchors, by BLAS; memory: the result and blocks of about 10 MB. Distances are rounded to single
    precision before they are compared, so that ties do not depend on how a product is summed.
    """
    similar = np.full((len(anchors), n_similar), -1, dtype=np.intp)
    dissimilar = np.full((len(anchors), n_dissimilar), -1, dtype=np.intp)
    labels = y[anchors]
    for label in np.unique(labels):
        asked = np.flatnonzero(labels == label)
        same, own = y == label, anchors[asked]
        similar[asked] = nearest(Z[own], own, Z, np.flatnonzero(same), n_similar)[1]
        dissimilar[asked] = nearest(Z[own], own, Z, np.flatnonzero(~same), n_dissimilar)[1]
    return Candidates(len(Z), anchors, similar, dissimilar)


def nearest(
    queries: Matrix, own: Indices, Z: Matrix, pool: Indices, k: int, first: int = 0
) -> tuple[NDArray[np.float32], Indices]:
    """Squared distances (m, k) from m queries to the nearest of the rows ``pool`` of Z, and the numbers of these.

    Rows of Z are numbered from ``first``; query i is not compared with the row numbered ``own[i]``. Ties go to smaller
    numbers; inf and -1 where there are fewer than k rows.
    """
    best = np.full((len(queries), k), np.inf, dtype=np.float32)
    found = np.full((len(queries), k), -1, dtype=np.intp)
    for start in range(0, len(pool), _POOL):
        part = pool[start : start + _POOL]
        points = Z[part]
        # ‖a‖² + ‖b‖² - 2ab as one product of [-2a, ‖a‖², 1] and [b, 1, ‖b‖²].
        right = np.vstack([points.T, np.ones(len(part)), squared_norms(points)])
        step = max(1, min(len(queries), _BLOCK_BYTES // (8 * len(part))))
        block = np.empty((step, len(part)))
        for begin in range(0, len(queries), step):
            rows = slice(begin, min(begin + step, len(queries)))
            asked, names = queries[rows], own[rows] - first
            left = np.column_stack([-2.0 * asked, squared_norms(asked), np.ones(len(asked))])
            distances = np.matmul(left, right, out=block[: len(asked)])
            place = np.searchsorted(part, names)
            itself = (place < len(part)) & (part[np.minimum(place, len(part) - 1)] == names)
            distances[itself, place[itself]] = np.inf
            values, columns = _smallest(distances, k)
            both = np.hstack([best[rows], values]), np.hstack([found[rows], part[columns] + first])
            best[rows], found[rows] = keep_nearest(*both, k)
    return best, np.where(np.isfinite(best), found, -1)


def keep_nearest(values: Matrix, indices: Indices, k: int) -> tuple[Any, Indices]:
    """Return the k smallest values of each row, of equal ones the first, and what stands at the same places."""
    chosen = np.argsort(values, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(values, chosen, axis=1), np.take_along_axis(indices, chosen, axis=1)


def _smallest(distances: Matrix, k: int) -> tuple[NDArray[np.float32], Indices]:
    """The k smallest entries of each row in single precision, and their columns; of equal ones the first."""
    m, n = distances.shape
    groups = n // _GROUP
    if groups > 2 * k:
        # The k-th smallest of the groups' minima is not below the k-th smallest entry: what is above it is left out.
        minima = distances[:, : groups * _GROUP].reshape(m, _GROUP, groups).min(axis=1)
        bound = np.partition(minima, k - 1, axis=1)[:, k - 1]
        bound += 1e-6 * np.abs(bound)
        places = np.flatnonzero((distances <= bound[:, None]).ravel())
        if len(places) <= 16 * k * m:
            rows, columns = np.divmod(places, n)
            values = distances.ravel()[places].astype(np.float32)
            order = np.lexsort((columns, values, rows))
            # All rows have at least k of them.
            first = np.searchsorted(rows, np.arange(m))
            chosen = order[first[:, None] + np.arange(k)]
            return values[chosen], columns[chosen]
    single = distances.astype(np.float32)
    if k < n:
        columns = np.sort(np.argpartition(single, k - 1, axis=1)[:, :k], axis=1)
    else:
        columns = np.broadcast_to(np.arange(n), (m, n))
    return np.take_along_axis(single, columns, axis=1), columns
