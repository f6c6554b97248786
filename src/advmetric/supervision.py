"""From labels or pairs to the two scatter matrices that every pair-based learner needs.

    A = mean of (x - x')(x - x')ᵀ over similar pairs,   B = the same over dissimilar pairs.

Pairs are an index view on the points (:class:`Pairs`): an (N, 2, d) array is never made. With class
labels the scatter of *all* pairs follows exactly from class statistics (:func:`all_pairs_scatter`),
without listing one; samplers (:class:`RandomPairs` …) are there for those who want fewer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from . import sparse
from .arrays import is_foreign, like, namespace
from .class_statistics import BLOCK_BYTES, PointStatistics, Scatter
from .linalg import Matrix
from .pair_graph import graph_sums

__all__ = [
    "AllPairs",
    "BalancedPairs",
    "NeighborPairs",
    "Pairs",
    "RandomPairs",
    "Scatter",
    "all_pairs_scatter",
    "make_sampler",
    "pair_sums",
    "pairs_scatter",
]

Indices = NDArray[np.integer]


@dataclass(frozen=True)
class Pairs:
    """Labelled pairs of rows of X, by index.

    Parameters
    ----------
    X : (n, d) array, dense or sparse (CSR)
        The points; shared, never copied.
    left, right : (N,) integer arrays
        Pair i is (X[left[i]], X[right[i]]).
    y : (N,) array of -1 and +1, or None
        +1 for similar, -1 for dissimilar.
    """

    X: Matrix
    left: Indices
    right: Indices
    y: NDArray[np.integer] | None = None

    @classmethod
    def formed(cls, pairs: Matrix, y: NDArray[np.integer] | None = None) -> Pairs:
        """View an (N, 2, d) array as pairs of rows of its (2N, d) reshape."""
        rows = np.arange(2 * pairs.shape[0], dtype=np.intp)
        return cls(namespace(pairs).reshape(pairs, (-1, pairs.shape[2])), rows[::2], rows[1::2], y)

    def __len__(self) -> int:
        return len(self.left)

    @property
    def labels(self) -> NDArray[np.integer]:
        """``y``, which must be there."""
        if self.y is None:
            raise ValueError("these pairs have no labels; pass y.")
        return self.y

    def take(self, chosen: NDArray) -> Pairs:
        """The pairs at the given positions (or under a mask), on the same points."""
        return Pairs(self.X, self.left[chosen], self.right[chosen], None if self.y is None else self.y[chosen])

    @classmethod
    def from_differences(cls, V: Matrix, y: NDArray[np.integer] | None = None) -> Pairs:
        """Pairs that differ by the rows of V: each row and the origin."""
        N, d = V.shape
        return cls(np.concatenate([V, np.zeros((1, d))]), np.arange(N), np.full(N, N), y)

    def differences(self, *, dense: bool = True) -> Iterator[tuple[slice, Matrix]]:
        """Yield (slice, X[left] - X[right]) block by block, about 32 MB at a time, in double precision.

        Those of sparse points stay sparse with ``dense=False``.
        """
        step = max(1, BLOCK_BYTES // (8 * self.X.shape[1]))
        for start in range(0, len(self), step):
            block = slice(start, start + step)
            if issparse(self.X):
                few: Any = self.X[self.left[block]].astype(np.float64) - self.X[self.right[block]]
                yield block, few.toarray() if dense else few
                continue
            if is_foreign(self.X):
                yield block, rows_of(self.X, self.left[block]) - rows_of(self.X, self.right[block])
                continue
            V = self.X[self.left[block]].astype(np.float64, copy=False)
            V -= self.X[self.right[block]]
            yield block, V


def rows_of(X: Any, rows: Indices) -> Any:
    """Rows of another library's array, in double precision."""
    xp = namespace(X)
    return xp.astype(xp.take(X, like(rows, X), axis=0), xp.float64)


def pairs_scatter(pairs: Pairs) -> Scatter:
    """Scatter of labelled pairs.

    Through the graph of the pairs where there are more than two for each point, O(Nd + nd²); from blocks of
    differences otherwise, O(Nd²). Working memory: for the graph 8 bytes a pair, at most 0.5 GB, and, where the points
    are in single precision or far from the origin, one copy of them.
    """
    similar, dissimilar, n_similar, n_dissimilar = pair_sums(pairs)
    for count, label, kind in ((n_similar, +1, "similar"), (n_dissimilar, -1, "dissimilar")):
        if not count:
            raise ValueError(f"y has no {kind} pair (label {label:+d}); a metric needs pairs of both kinds.")
    return Scatter(similar / n_similar, dissimilar / n_dissimilar, n_similar, n_dissimilar)


def pair_sums(pairs: Pairs) -> tuple[Matrix, Matrix, int, int]:
    """Σ (x - x')(x - x')ᵀ over the similar and over the dissimilar pairs, and how many there are of each."""
    n = pairs.X.shape[0]
    if len(pairs) > 2 * n and not (issparse(pairs.X) or is_foreign(pairs.X)):  # the standard has no sparse product
        n_similar = int(np.count_nonzero(pairs.labels == 1))
        sums = graph_sums(_near_origin(pairs.X), pairs.left, pairs.right, pairs.labels)
        return *sums, n_similar, len(pairs) - n_similar
    if len(pairs) > n and issparse(pairs.X):
        pairs = replace(pairs, X=sparse.near_origin(pairs.X))
    chosen = [np.flatnonzero(pairs.labels == label) for label in (1, -1)]
    similar, dissimilar = (_summed_scatter(pairs.take(rows)) for rows in chosen)
    return similar, dissimilar, len(chosen[0]), len(chosen[1])


def _summed_scatter(pairs: Pairs) -> Matrix:
    """Σ (x - x')(x - x')ᵀ, from blocks of differences or sparse products."""
    if issparse(pairs.X):
        return sparse.pair_sum(pairs.X, pairs.left, pairs.right, BLOCK_BYTES)
    d = pairs.X.shape[1]
    return sum((V.T @ V for _, V in pairs.differences()), like(np.zeros((d, d)), pairs.X))


def _near_origin(X: Matrix) -> Matrix:
    """X in C order and double precision, centred if its mean is far from the origin (differences would cancel)."""
    mean = X.mean(axis=0, dtype=np.float64)
    # Where this cancels, the mean is far away indeed. No copy of X is made to find out.
    variance = np.einsum("ij,ij->j", X, X, dtype=np.float64) / len(X) - mean**2
    near = np.all(mean**2 <= 16.0 * np.maximum(variance, 0.0))
    return np.ascontiguousarray(X if near else X - mean, dtype=np.float64)


def all_pairs_scatter(X: Matrix, y: NDArray) -> Scatter:
    """Scatter of all pairs of labelled points, exactly, without listing one: O(nd²).

    With S_c the scatter of class c about its mean μ_c, n_c its size and μ the overall mean,

        Σ_similar = Σ_c n_c S_c,   Σ_dissimilar = Σ_c (n - n_c) S_c + n Σ_c n_c (μ_c - μ)(μ_c - μ)ᵀ,

    each a sum of positive terms.
    """
    classes, code, sizes = np.unique(y, return_inverse=True, return_counts=True)
    n = X.shape[0]
    n_similar = int(np.sum(sizes * (sizes - 1)) // 2)
    n_dissimilar = n * (n - 1) // 2 - n_similar
    if len(classes) < 2:
        raise ValueError(
            f"y has only one class ({classes[0]!r}), so there is no dissimilar pair; at least two classes are needed."
        )
    if n_similar == 0:
        raise ValueError("every class in y has only one member, so there is no similar pair to learn from.")
    if issparse(X):
        similar, dissimilar = sparse.class_sums(X, code, sizes, BLOCK_BYTES)
        return Scatter(similar / n_similar, dissimilar / n_dissimilar, n_similar, n_dissimilar)
    # Faster and without a copy of X, where a (d, d) matrix a class is not the larger of the two.
    if not is_foreign(X) and 8 * len(classes) * X.shape[1] ** 2 <= X.nbytes:
        return PointStatistics.of(X, code).scatter()
    shifted = _centred(X)
    means = _class_sums(shifted, code, sizes) / like(sizes.astype(float), X)[:, None]
    within = shifted - namespace(X).take(means, like(code, X), axis=0)
    similar = _weighted_gram(within, sizes[code])
    balanced = bool(np.all(sizes == sizes[0]))
    mixed = similar * float((n - sizes[0]) / sizes[0]) if balanced else _weighted_gram(within, n - sizes[code])
    centre = like(sizes.astype(float), X) @ means / n
    dissimilar = mixed + n * _weighted_gram(means - centre, sizes)
    return Scatter(similar / n_similar, dissimilar / n_dissimilar, n_similar, n_dissimilar)


def _centred(X: Any) -> Any:
    """Points about their mean, in double precision."""
    if is_foreign(X):
        xp = namespace(X)
        doubles = xp.astype(X, xp.float64)
        return doubles - xp.mean(doubles, axis=0)
    return X - X.mean(axis=0, dtype=np.float64)


def _class_sums(X: Any, code: Indices, sizes: Indices) -> Any:
    """Sum of the rows of each class."""
    n, c = X.shape[0], len(sizes)
    if not is_foreign(X):
        return csr_array((np.ones(n), (code, np.arange(n))), shape=(c, n)) @ X
    xp, ends = namespace(X), np.cumsum(sizes)
    ordered = xp.take(X, like(np.argsort(code, kind="stable"), X), axis=0)
    spans = np.stack([ends - sizes, ends], axis=1).tolist()
    return xp.stack([xp.sum(ordered[start:end, :], axis=0) for start, end in spans])


def _weighted_gram(Z: Matrix, weight: NDArray) -> Matrix:
    scaled = Z * like(np.sqrt(weight), Z)[:, None]
    return scaled.T @ scaled


# --- samplers -------------------------------------------------------------------------------------------


class PairSampler(Protocol):
    """Anything that picks pairs of labelled points."""

    def sample(self, X: Matrix, y: NDArray, random_state: object = None) -> Pairs: ...


@dataclass(frozen=True)
class AllPairs:
    """Every pair of points (i < j). For small n: O(n²) pairs are listed.

    The estimators' default ``pairs="all"`` has the same effect at the cost of O(nd²), exactly.
    """

    def sample(self, X: Matrix, y: NDArray, random_state: object = None) -> Pairs:
        left, right = np.triu_indices(X.shape[0], k=1)
        return _labelled(X, y, left, right)


@dataclass(frozen=True)
class RandomPairs:
    """Pairs of distinct points drawn uniformly, as in the paper.

    Parameters
    ----------
    n_pairs : int, optional
        How many; 1000 c (c - 1) for c classes by default (the paper's choice, after GMML). Drawn
        with replacement. With many classes most of them are dissimilar: see :class:`BalancedPairs`.
    """

    n_pairs: int | None = None

    def sample(self, X: Matrix, y: NDArray, random_state: object = None) -> Pairs:
        rng = check_random_state(random_state)
        n = X.shape[0]
        left = rng.randint(n, size=_default_count(self.n_pairs, y))
        right = (left + rng.randint(1, n, size=len(left))) % n
        return _labelled(X, y, left, right)


@dataclass(frozen=True)
class BalancedPairs:
    """As many similar as dissimilar pairs, both drawn uniformly (with replacement) from all of their kind.

    Parameters
    ----------
    n_pairs : int, optional
        How many in all; 1000 c (c - 1) by default.
    """

    n_pairs: int | None = None

    def sample(self, X: Matrix, y: NDArray, random_state: object = None) -> Pairs:
        rng = check_random_state(random_state)
        n_pairs = _default_count(self.n_pairs, y)
        _, code, sizes = np.unique(y, return_inverse=True, return_counts=True)
        order = np.argsort(code, kind="stable")
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        n, half = X.shape[0], n_pairs // 2

        # Similar: the left point by its number of partners, the right one from the rest of its class.
        weight = (sizes - 1.0)[code]
        if not weight.any():
            raise ValueError("every class in y has only one member, so there is no similar pair to draw.")
        position = np.empty(n, dtype=np.intp)
        position[order] = np.arange(n)
        left = rng.choice(n, size=n_pairs - half, p=weight / weight.sum())
        size, start = sizes[code[left]], first[code[left]]
        shift = 1 + np.floor(rng.random_sample(len(left)) * (size - 1)).astype(np.intp)
        right = order[start + (position[left] - start + shift) % size]

        # Dissimilar: the right point from all points outside the block of the left one's class.
        weight = (n - sizes).astype(float)[code]
        if not weight.any():
            raise ValueError("y has only one class, so there is no dissimilar pair to draw.")
        other = rng.choice(n, size=half, p=weight / weight.sum())
        size, start = sizes[code[other]], first[code[other]]
        outside = np.floor(rng.random_sample(half) * (n - size)).astype(np.intp)
        partner = order[(start + size + outside) % n]
        return _labelled(X, y, np.concatenate([left, other]), np.concatenate([right, partner]))


@dataclass(frozen=True)
class NeighborPairs:
    """Each point with its nearest points of the same class and of other classes.

    Parameters
    ----------
    n_similar, n_dissimilar : int
        Neighbours of each kind for every point (fewer where a class is smaller).
    """

    n_similar: int = 3
    n_dissimilar: int = 3

    def sample(self, X: Matrix, y: NDArray, random_state: object = None) -> Pairs:
        left, right = [], []
        for label in np.unique(y):
            inside, outside = np.flatnonzero(y == label), np.flatnonzero(y != label)
            for pool, k in ((inside, min(self.n_similar, len(inside) - 1)), (outside, self.n_dissimilar)):
                if k < 1 or not len(pool):
                    continue
                search = NearestNeighbors(n_neighbors=min(k, len(pool))).fit(X[pool])
                found = search.kneighbors(None if pool is inside else X[inside], return_distance=False)
                left.append(np.repeat(inside, found.shape[1]))
                right.append(pool[found.ravel()])
        if not left:
            raise ValueError("y leaves no pair of neighbours to draw: one class with one member each.")
        return _labelled(X, y, np.concatenate(left), np.concatenate(right))


def make_sampler(pairs: object) -> PairSampler | None:
    """Sampler for an estimator's ``pairs=``; None stands for all pairs, exactly.

    Accepts "all", "random", "balanced", "neighbors", a number of random pairs, or any object with a
    ``sample(X, y, random_state)`` method.
    """
    named: dict[str, PairSampler | None] = {
        "all": None,
        "random": RandomPairs(),
        "balanced": BalancedPairs(),
        "neighbors": NeighborPairs(),
    }
    if isinstance(pairs, str) and pairs in named:
        return named[pairs]
    if isinstance(pairs, (int, np.integer)) and not isinstance(pairs, bool) and pairs > 0:
        return RandomPairs(int(pairs))
    if hasattr(pairs, "sample") and not isinstance(pairs, type):
        sampler: PairSampler = pairs
        return sampler
    raise ValueError(
        f"pairs={pairs!r} is not understood; use {', '.join(map(repr, named))}, a positive number of random pairs, "
        "or an object with a sample(X, y, random_state) method."
    )


def _default_count(n_pairs: int | None, y: NDArray) -> int:
    if n_pairs is not None:
        return n_pairs
    c = len(np.unique(y))
    return 1000 * c * (c - 1)


def _labelled(X: Matrix, y: NDArray, left: Indices, right: Indices) -> Pairs:
    return Pairs(X, left, right, np.where(np.asarray(y)[left] == np.asarray(y)[right], 1, -1))
