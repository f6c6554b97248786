"""The same problem with its pairs in parts that lie elsewhere: an evaluation is one reduction over the parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from advmetric.pairs.data import Pairs
from advmetric.pairs.graph import PairGraph
from advmetric.utils.typing import Matrix, Vector

from .losses import LogisticPairs
from .problem import Problem
from .whitening import Whitened

__all__ = ["PartedProblem", "Parts", "median_of_squares", "pair_part", "rescaled"]

_DIGIT = 16
"""Bits of a number that a pass of the search for the median settles."""


class Parts(Protocol):
    """Problems elsewhere (:class:`advmetric.learners.parts.Parts`)."""

    def map(self, function: Callable[..., Any], *arguments: Any) -> Parts: ...

    def reduce(self, merge: Callable[[Any, Any], Any]) -> Any: ...


@dataclass(frozen=True)
class PartedProblem(Problem):
    """A problem whose edges are in parts; its own are empty.

    Parameters
    ----------
    parts : Parts
        Problems with γ = 0 and a loss that knows the totals, so that their values and gradients add up.
    totals : (int, int)
        Number of similar and of dissimilar pairs in all parts.
    """

    parts: Any = None
    totals: tuple[int, int] = (0, 0)

    def evaluate(self, L: Matrix, b: float) -> tuple[float, Matrix, float]:
        """F, its gradient by L and its derivative by b: one reduction of p² + 2 numbers."""
        value, gradient, slope = self.parts.map(_evaluated, L, b).reduce(_added)
        if self.gamma > 0.0:
            prior_value, prior_gradient = self.mean_loss(L)
            value += self.gamma * prior_value
            gradient = gradient + self.gamma * prior_gradient
        return value, gradient, slope

    def mean_squares(self, n_near: int, n_far: int) -> Vector:
        """As for a problem in one place, with the totals."""
        found: Vector = self.parts.map(_mean_squares, *self.totals).reduce(np.add)
        return found

    def total_radius(self) -> Vector:
        """As for a problem in one place: the sum over the parts."""
        found: Vector = self.parts.map(_total_radius).reduce(np.add)
        return found


def _total_radius(problem: Problem) -> Vector:
    return problem.total_radius()


def _evaluated(problem: Problem, L: Matrix, b: float) -> tuple[float, Matrix, float]:
    return problem.evaluate(L, b)


def _added(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a + b for a, b in zip(first, second, strict=True))


def _mean_squares(problem: Problem, n_near: int, n_far: int) -> Vector:
    return problem.mean_squares(n_near, n_far)


# --- pairs ------------------------------------------------------------------------------------------------


def pair_part(pairs: Pairs, start: Whitened, totals: tuple[int, int], alpha: float, beta: float) -> Problem:
    """Part of PairAML's problem: the given pairs, in whitened coordinates before their unit is known.

    Edges between the points where there are more pairs than points, else differences.
    """
    pairs = pairs.take(np.argsort(pairs.labels == -1, kind="stable"))
    k, N = int(np.sum(pairs.labels == 1)), len(pairs)
    X = np.asarray(pairs.X, dtype=np.float64)
    if len(X) >= N:
        rows = X[pairs.left] - X[pairs.right]
        near, far = PairGraph(N, rows=slice(0, k)), PairGraph(N, rows=slice(k, N))
    else:
        rows = X - X.mean(axis=0)
        near, far = (PairGraph(len(X), pairs.left[part], pairs.right[part]) for part in (slice(0, k), slice(k, N)))
    return Problem(replace(start, Z=rows @ start.R.T), near, far, LogisticPairs(totals), alpha, beta, 0.0)


def rescaled(problem: Problem, size: float) -> Problem:
    """The part with its rows divided by the root of the unit of squared distances."""
    return replace(problem, start=replace(problem.start, Z=problem.start.Z / np.sqrt(size)))


def median_of_squares(parts: Parts, N: int) -> float:
    """Median squared distance over all N pairs of the parts; the mean where it is 0.

    Exact, in four passes: floating-point numbers that are not negative are in the order of their bits, 16 of which
    each pass settles by counting.
    """
    ranks = np.array([(N - 1) // 2, N // 2])
    prefixes = np.zeros(2, dtype=np.uint64)
    for shift in range(64 - _DIGIT, -1, -_DIGIT):
        counts = parts.map(_digit_counts, prefixes, shift).reduce(np.add)
        for i in range(2):
            ends = np.cumsum(counts[i])
            digit = int(np.searchsorted(ends, ranks[i], side="right"))
            ranks[i] -= int(ends[digit - 1]) if digit else 0
            prefixes[i] |= np.uint64(digit) << np.uint64(shift)
    median = float(prefixes.view(np.float64).mean())
    return median or float(parts.map(_sum_of_squares).reduce(np.add)) / N


def _squares(problem: Problem) -> Vector:
    ones = np.ones((problem.start.Z.shape[1], 1))
    return np.concatenate([edges.squares(problem.start.Z, ones)[:, 0] for edges in (problem.near, problem.far)])


def _sum_of_squares(problem: Problem) -> float:
    return float(_squares(problem).sum())


def _digit_counts(problem: Problem, prefixes: NDArray[np.uint64], shift: int) -> NDArray[np.int64]:
    """How often each value of the digit at ``shift`` follows on each prefix, (2, 2¹⁶)."""
    bits = (_squares(problem) + 0.0).view(np.uint64)
    above = np.uint64(shift + _DIGIT)
    counts = []
    for prefix in prefixes:
        mine = bits if shift + _DIGIT == 64 else bits[bits >> above == prefix >> above]
        digits = (mine >> np.uint64(shift)) & np.uint64((1 << _DIGIT) - 1)
        counts.append(np.bincount(digits.astype(np.intp), minlength=1 << _DIGIT))
    return np.stack(counts)
