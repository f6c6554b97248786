"""Samplers: which pairs of labelled points to learn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, column_or_1d

from advmetric.utils.arrays import representation, to_numpy
from advmetric.utils.parameters import Optional, Whole
from advmetric.utils.typing import Indices, Matrix

from .data import Pairs, PairSampler, Samples

__all__ = [
    "AllPairs",
    "BalancedPairs",
    "NeighborPairs",
    "RandomPairs",
    "check_sampler",
    "draw_pairs",
    "make_sampler",
]

_MOST_BY_DEFAULT = 10**6
"""Pairs drawn at most where no number is given."""


@dataclass(frozen=True)
class AllPairs:
    """Every pair of points (i < j). For small n: O(n²) pairs are listed.

    The estimators' default ``pairs="all"`` has the same effect at the cost of O(nd²), exactly.

    See Also
    --------
    RandomPairs, BalancedPairs, NeighborPairs : Fewer pairs.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = AllPairs().sample(np.eye(3), np.array([0, 0, 1]))
    >>> pairs.indices.tolist(), pairs.y.tolist()
    ([[0, 1], [0, 2], [1, 2]], [1, -1, -1])
    """

    def sample(self, X: Matrix, y: NDArray, random_state: object = None) -> Pairs:
        X, y = _arrays(X, y)
        left, right = np.triu_indices(X.shape[0], k=1)
        return _labelled(X, y, left, right)


@dataclass(frozen=True)
class RandomPairs:
    """Pairs of distinct points drawn uniformly, as in the paper.

    Parameters
    ----------
    n_pairs : int, optional
        How many; 1000 c (c - 1) for c classes by default (the paper's choice, after GMML), but at most 10⁶, which
        bounds the memory: reached above 32 classes. Drawn with replacement. With many classes most of them are
        dissimilar: see :class:`BalancedPairs`.

    See Also
    --------
    BalancedPairs : As many similar as dissimilar pairs.

    Examples
    --------
    >>> import numpy as np
    >>> len(RandomPairs(50).sample(np.eye(4), np.array([0, 0, 1, 1]), random_state=0))
    50
    """

    n_pairs: int | None = None

    def __post_init__(self) -> None:
        Optional(Whole(1))("n_pairs", self.n_pairs)

    def sample(self, X: Matrix, y: NDArray, random_state: object = None) -> Pairs:
        X, y = _arrays(X, y)
        rng = check_random_state(random_state)
        n = X.shape[0]
        if n < 2:
            raise ValueError("X has one point only; a pair needs two.")
        left = rng.randint(n, size=_default_count(self.n_pairs, y))
        right = (left + rng.randint(1, n, size=len(left))) % n
        return _labelled(X, y, left, right)


@dataclass(frozen=True)
class BalancedPairs:
    """As many similar as dissimilar pairs, both drawn uniformly (with replacement) from all of their kind.

    Parameters
    ----------
    n_pairs : int, optional
        How many in all; 1000 c (c - 1) by default, at most 10⁶.

    See Also
    --------
    RandomPairs : Pairs as they come.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = BalancedPairs(50).sample(np.eye(4), np.array([0, 0, 1, 1]), random_state=0)
    >>> int(np.sum(pairs.y == 1))
    25
    """

    n_pairs: int | None = None

    def __post_init__(self) -> None:
        Optional(Whole(1))("n_pairs", self.n_pairs)

    def sample(self, X: Matrix, y: NDArray, random_state: object = None) -> Pairs:
        X, y = _arrays(X, y)
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

    See Also
    --------
    BalancedPairs : Random pairs.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = NeighborPairs(1, 1).sample(np.arange(4.0)[:, None], np.array([0, 0, 1, 1]))
    >>> pairs.indices[pairs.y == 1].tolist()
    [[0, 1], [1, 0], [2, 3], [3, 2]]
    """

    n_similar: int = 3
    n_dissimilar: int = 3

    def __post_init__(self) -> None:
        Whole(0)("n_similar", self.n_similar)
        Whole(0)("n_dissimilar", self.n_dissimilar)

    def sample(self, X: Matrix, y: NDArray, random_state: object = None) -> Pairs:
        X, y = _arrays(X, y)
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
            raise ValueError(
                "no pair of neighbours to draw: y has one class with one member, or no neighbours are asked for."
            )
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


def draw_pairs(data: Samples, pairs: object, random_state: Any = None, *, most_listed: int | None = None) -> Pairs:
    """Return the labelled pairs to learn from: those given, or a sample of the pairs of labelled points.

    Parameters
    ----------
    data : LabelledPoints or Pairs
    pairs : see :func:`make_sampler`
        "all" lists every pair.
    random_state : for the sampler
    most_listed : int, optional
        Refuse to list the pairs of more points than this.
    """
    sampler = make_sampler(pairs)
    if sampler is None:
        n = len(data)
        if data.kind == "points" and most_listed is not None and n > most_listed:
            raise ValueError(
                f'pairs="all" would list {n * (n - 1) // 2} pairs of {n} points; this method visits each pair, so use '
                '"random", "balanced", "neighbors" or a number of random pairs.'
            )
        sampler = AllPairs()
    if data.kind == "points" and len(np.unique(data.labels)) == len(data):
        raise ValueError("every class in y has only one member, so there is no similar pair to learn from.")
    drawn = data.as_pairs(sampler, random_state)
    for label, kind in ((1, "similar"), (-1, "dissimilar")):
        if not np.any(drawn.labels == label):
            raise ValueError(
                f"no {kind} pair (label {label:+d}) was drawn; set pairs='balanced' or a larger number of pairs."
            )
    return drawn


def check_sampler(name: str, value: object) -> None:
    """Raise unless ``value`` can be an estimator's ``pairs``; a constraint for tables of parameters."""
    make_sampler(value)


def _default_count(n_pairs: int | None, y: NDArray) -> int:
    if n_pairs is not None:
        return n_pairs
    c = len(np.unique(y))
    return min(1000 * c * (c - 1), _MOST_BY_DEFAULT)


def _arrays(X: Any, y: Any) -> tuple[Matrix, NDArray]:
    """Points and labels as arrays, one label per point."""
    points = np.asarray(X) if representation(X) == "dense" else X
    labels: NDArray = column_or_1d(to_numpy(y))
    check_consistent_length(points, labels)
    return points, labels


def _labelled(X: Matrix, y: NDArray, left: Indices, right: Indices) -> Pairs:
    return Pairs(X, left, right, np.where(y[left] == y[right], 1, -1))
