"""Pairs with a bound on the squared distance of each: what ITML and FlatGeo learn from.

Similar pairs shall be closer than ``upper``, dissimilar ones farther apart than ``lower``; both come from
percentiles of the squared distances between points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.utils import check_random_state

from advmetric.utils.typing import Matrix, Vector

from .data import Pairs, Samples
from .graph import PairGraph
from .samplers import draw_pairs

__all__ = ["BoundedPairs", "bounded_pairs", "check_bounds", "check_percentiles", "percentile_bounds"]

_SAMPLE = 200_000
"""Distances looked at for the percentiles: the 5th is then met within 0.05 of a percent (one standard error)."""
_MAX_LISTED = 2000
"""Up to this many points, ``pairs="all"`` lists every pair."""
_NEGLIGIBLE = 1e-18
"""Squared distance, relative to the mean one, below which the points of a pair are the same."""


@dataclass(frozen=True)
class BoundedPairs:
    """N pairs of different points, each with a bound on its squared distance.

    Many pairs of few points are kept as a graph of the points, few pairs of many points as their differences: whichever
    is smaller, so that every sum over pairs costs O(min(N, n)) dense rows and O(N) sparse ones.
    """

    rows: Matrix
    """Points (n, d), centred, or differences (N, d); divided by ``scale``."""
    graph: PairGraph
    """From rows to differences of pairs."""
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
        """Return the bound of each pair: ``upper`` for similar, ``lower`` for dissimilar pairs."""
        return np.where(self.sign > 0, self.upper, self.lower)

    @property
    def original_bounds(self) -> tuple[float, float]:
        """Return (upper, lower) in the units of the data."""
        return self.upper * self.scale * self.scale, self.lower * self.scale * self.scale


def bounded_pairs(
    data: Samples,
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
    pairs : see :func:`~advmetric.pairs.samplers.make_sampler`
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
    about 40 bytes per pair.
    """
    rng = check_random_state(random_state)
    chosen = draw_pairs(data, pairs, rng, most_listed=_MAX_LISTED)
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
    problem = BoundedPairs(points, PairGraph(len(points), left, right), sign, upper, lower, scale)
    return _without_equal_points(problem)


def _without_equal_points(problem: BoundedPairs) -> BoundedPairs:
    """Drop pairs of equal points, which no metric can move; keep differences where they are fewer than points."""
    squared = problem.graph.inner(problem.rows, problem.rows)
    kept = np.flatnonzero(squared > _NEGLIGIBLE * squared.mean())
    assert problem.graph.left is not None
    assert problem.graph.right is not None
    left, right, sign = problem.graph.left[kept], problem.graph.right[kept], problem.sign[kept]
    if len(kept) <= len(problem.rows):
        rows = problem.rows[left] - problem.rows[right]
        return replace(problem, rows=rows, graph=PairGraph(len(rows)), sign=sign)
    return replace(problem, graph=PairGraph(len(problem.rows), left, right), sign=sign)


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


def check_bounds(name: str, bounds: Any) -> None:
    """Raise unless ``bounds`` is None or (upper, lower) with 0 < upper <= lower; a constraint for parameters."""
    if bounds is None:
        return
    upper, lower = _two_numbers(name, bounds)
    if not 0.0 < upper <= lower:
        raise ValueError(
            f"{name}={bounds!r} must be (upper, lower) with 0 < upper <= lower: similar pairs shall have a squared "
            "distance below the first number, dissimilar ones above the second."
        )


def check_percentiles(name: str, percentiles: Any) -> None:
    """Raise unless ``percentiles`` is (low, high) with 0 <= low <= high <= 100; a constraint for parameters."""
    low, high = _two_numbers(name, percentiles)
    if not 0.0 <= low <= high <= 100.0:
        raise ValueError(f"{name}={percentiles!r} must be two numbers, 0 <= low <= high <= 100.")


def _two_numbers(name: str, value: Any) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be two numbers, got {value!r}.") from error
    if numbers.shape != (2,) or not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be two finite numbers, got {value!r}.")
    return numbers
