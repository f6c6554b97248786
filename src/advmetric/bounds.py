"""Pairs with a bound on the squared distance of each: what ITML and FlatGeo learn from.

Similar pairs shall be closer than ``upper``, dissimilar ones farther apart than ``lower``; both come from
percentiles of the squared distances between points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.utils import check_random_state

from .differences import DifferenceMap
from .learner import LabelledPoints
from .linalg import Matrix, Vector
from .supervision import AllPairs, Indices, Pairs, make_sampler

__all__ = ["BoundedPairs", "bounded_pairs", "check_bounds", "percentile_bounds"]

_SAMPLE = 200_000
"""Distances looked at for the percentiles: the 5th is then met within 0.05 of a percent (one standard error)."""
_MAX_LISTED = 2000
"""Up to so many points, ``pairs="all"`` lists every pair."""
_CACHE_BYTES = 1 << 20
"""Differences held at once: about what a cache holds, twice as fast as large blocks."""
_NEGLIGIBLE = 1e-18
"""Squared distance, relative to the mean one, below which the points of a pair are the same."""


@dataclass(frozen=True)
class BoundedPairs:
    """N pairs of different points, each with a bound on its squared distance.

    Many pairs of few points are kept as indices into the points, few pairs of many points as their
    differences: the smaller of the two, so that every product below costs O(min(N, n)) dense rows and
    O(N) sparse ones. Matrices Y, Z have a row for every row of ``rows``: images of the points (or of the
    differences) under a linear map.
    """

    rows: Matrix
    """Points (n, d), centred, or differences (N, d); divided by ``scale``."""
    left: Indices | None
    right: Indices | None
    """Pair i is row left[i] minus row right[i]; no right if ``rows`` are differences, no left if pair i is row i."""
    sign: Vector
    """+1 for similar, -1 for dissimilar."""
    upper: float
    lower: float
    """Bounds, in units of scale²."""
    scale: float

    def __len__(self) -> int:
        return len(self.sign)

    @cached_property
    def bound(self) -> Vector:
        """Bound of each pair: ``upper`` for similar, ``lower`` for dissimilar ones."""
        return np.where(self.sign > 0, self.upper, self.lower)

    @property
    def original_bounds(self) -> tuple[float, float]:
        """(upper, lower) in the units of the data."""
        return self.upper * self.scale * self.scale, self.lower * self.scale * self.scale

    def take(self, chosen: Indices) -> BoundedPairs:
        """The pairs at the given positions; ``rows`` stay as they are."""
        left = chosen if self.left is None else self.left[chosen]
        right = None if self.right is None else self.right[chosen]
        return replace(self, left=left, right=right, sign=self.sign[chosen])

    def differences(self, Z: Matrix, block: slice) -> Matrix:
        """Differences of the rows of Z over the pairs of a block."""
        first = Z[block] if self.left is None else Z[self.left[block]]
        return first if self.right is None else first - Z[self.right[block]]

    def blocks(self, size: int) -> Iterator[slice]:
        """All pairs, ``size`` at a time."""
        for start in range(0, len(self), size):
            yield slice(start, min(start + size, len(self)))

    def inner(self, Y: Matrix, Z: Matrix) -> Vector:
        """⟨y, z⟩ of the differences y of Y and z of Z, for every pair: O(Nr)."""
        products = np.empty(len(self))
        for block in self.blocks(max(1, _CACHE_BYTES // (8 * Z.shape[1]))):
            z = self.differences(Z, block)
            y = z if Y is Z else self.differences(Y, block)
            products[block] = np.einsum("ij,ij->i", y, z)
        return products

    def moment(self, weights: Vector, Y: Matrix, Z: Matrix) -> Matrix:
        """Σ wᵢ yᵢ zᵢᵀ over the differences y of Y and z of Z.

        Yᵀ(D - W)Z with W the symmetric graph of the pairs, weighted, and D its degrees: O(Nr + nr²).
        """
        if self.right is None:
            degree = weights if self.left is None else np.bincount(self.left, weights, len(self.rows))
            return Y.T @ (degree[:, None] * Z)
        return Y.T @ self._map.laplacian(weights, Z)

    @cached_property
    def _map(self) -> DifferenceMap:
        return DifferenceMap(len(self.rows), self.left, self.right)


def bounded_pairs(
    data: LabelledPoints | Pairs,
    *,
    pairs: object = "random",
    bounds: tuple[float, float] | None = None,
    percentiles: tuple[float, float] = (5.0, 95.0),
    root: Matrix | None = None,
    random_state: Any = None,
) -> BoundedPairs:
    """Bring checked data into bounded pairs.

    Parameters
    ----------
    data : LabelledPoints or Pairs
    pairs : see :func:`~advmetric.supervision.make_sampler`
        For points: which pairs of them. "all" lists them and is refused beyond 2000 points.
    bounds : (upper, lower), optional
        On squared distances; from ``percentiles`` by default.
    percentiles : (low, high)
        Of the squared distances between points.
    root : (d, d) array, optional
        Distances, and all that is learned, are of points times ``root``.
    random_state : for the sampler, and for the sample of distances

    Notes
    -----
    Time O(N log N + Nd); memory: one copy of the points (or of the differences, if they are fewer) and
    about 40 bytes a pair.
    """
    rng = check_random_state(random_state)
    chosen = data if isinstance(data, Pairs) else _sample(data, pairs, rng)
    for label, kind in ((1, "similar"), (-1, "dissimilar")):
        if not np.any(chosen.labels == label):
            raise ValueError(f"there is no {kind} pair (label {label:+d}); pairs of both kinds are needed.")
    used, ends = np.unique(np.concatenate([chosen.left, chosen.right]), return_inverse=True)
    points = chosen.X[used].astype(np.float64, order="C")
    points -= points.mean(axis=0)
    # Dividing first keeps squares of huge and tiny features within range.
    scale = float(np.abs(points).max()) or 1.0
    points /= scale
    if root is not None:
        points = points @ root
    if bounds is None:
        upper, lower = percentile_bounds(points, percentiles, rng)
    else:
        upper, lower = bounds[0] / scale / scale, bounds[1] / scale / scale
    left, right = ends[: len(chosen)], ends[len(chosen) :]
    sign = chosen.labels.astype(np.float64)
    problem = BoundedPairs(points, left, right, sign, upper, lower, scale)
    return _distinct(problem)


def _sample(data: LabelledPoints, pairs: object, rng: np.random.RandomState) -> Pairs:
    sampler = make_sampler(pairs)
    if sampler is None:
        n = len(data.X)
        if n > _MAX_LISTED:
            raise ValueError(
                f'pairs="all" would list {n * (n - 1) // 2} pairs of {n} points; this method visits each pair, so use '
                '"random", "balanced", "neighbors" or a number of random pairs.'
            )
        sampler = AllPairs()
    return sampler.sample(data.X, data.y, rng)


def _distinct(problem: BoundedPairs) -> BoundedPairs:
    """Drop pairs of equal points, which no metric can move; keep differences where they are fewer than points."""
    squared = problem.inner(problem.rows, problem.rows)
    kept = np.flatnonzero(squared > _NEGLIGIBLE * squared.mean())
    assert problem.left is not None
    assert problem.right is not None
    left, right, sign = problem.left[kept], problem.right[kept], problem.sign[kept]
    if len(kept) <= len(problem.rows):
        return replace(problem, rows=problem.rows[left] - problem.rows[right], left=None, right=None, sign=sign)
    return replace(problem, left=left, right=right, sign=sign)


def percentile_bounds(
    X: Matrix, percentiles: tuple[float, float] = (5.0, 95.0), random_state: Any = None
) -> tuple[float, float]:
    """Two percentiles of the squared Euclidean distances between different rows of X.

    Over all pairs of rows if there are at most 200 000 of them, else over as many drawn at random:
    never an n×n matrix. Equal rows count once, so that a point which is in many pairs weighs no more than
    others and bounds are positive; if all rows are equal, both bounds are 1.

    Examples
    --------
    >>> import numpy as np
    >>> percentile_bounds(np.array([[0.0], [1.0], [3.0]]), (0, 100))
    (1.0, 9.0)
    """
    X = np.unique(X, axis=0)
    n = len(X)
    if n * (n - 1) // 2 <= _SAMPLE:
        squared = pdist(X, "sqeuclidean")
    else:
        rng = check_random_state(random_state)
        left = rng.randint(n, size=_SAMPLE)
        right = (left + rng.randint(1, n, size=_SAMPLE)) % n
        squared = np.concatenate([np.einsum("ij,ij->i", V, V) for _, V in Pairs(X, left, right).differences()])
    squared = squared[squared > _NEGLIGIBLE * squared.mean()] if len(squared) else squared
    if not len(squared):
        return 1.0, 1.0
    low, high = np.percentile(squared, percentiles)
    return float(low), float(high)


def check_bounds(bounds: Any, percentiles: Any) -> None:
    """Raise unless ``bounds`` is None or 0 < upper <= lower, and percentiles are 0 <= low <= high <= 100."""
    if bounds is not None:
        values = _two_numbers("bounds", bounds)
        if not 0.0 < values[0] <= values[1]:
            raise ValueError(
                f"bounds={bounds!r} must be (upper, lower) with 0 < upper <= lower: similar pairs shall have a squared "
                "distance below the first number, dissimilar ones above the second."
            )
    low, high = _two_numbers("percentiles", percentiles)
    if not 0.0 <= low <= high <= 100.0:
        raise ValueError(f"percentiles={percentiles!r} must be two numbers, 0 <= low <= high <= 100.")


def _two_numbers(name: str, value: Any) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be two numbers, got {value!r}.") from error
    if numbers.shape != (2,) or not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be two finite numbers, got {value!r}.")
    return numbers
