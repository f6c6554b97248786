"""From labelled pairs, triplets or labelled points to the problem that PairAML solves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from advmetric.linalg.spd import symmetrize
from advmetric.pairs.data import Pairs, Samples, Scatter
from advmetric.pairs.differences import unit_differences
from advmetric.pairs.graph import PairGraph
from advmetric.pairs.samplers import BalancedPairs, draw_pairs
from advmetric.pairs.scatter import pairs_scatter
from advmetric.utils.typing import Matrix

from .losses import Loss
from .problem import Problem, typical_square
from .whitening import whiten

__all__ = ["automatic_gamma", "drawn_pairs", "pair_problem"]

PAIRS_PER_POINT = 10
LEAST_PAIRS, MOST_PAIRS = 1000, 10**6


def drawn_pairs(data: Samples, pairs: object, random_state: Any) -> Pairs:
    """The pairs to learn from: those given, or a sample of pairs of labelled points.

    "balanced" draws 10 pairs per point (at least 1000, at most 10⁶), half of them similar; other values are as for
    :func:`~advmetric.pairs.samplers.make_sampler`.
    """
    if isinstance(pairs, str) and pairs == "balanced" and data.kind == "points":
        pairs = BalancedPairs(int(np.clip(PAIRS_PER_POINT * len(data.X), LEAST_PAIRS, MOST_PAIRS)))
    return draw_pairs(data, pairs, random_state)


def pair_problem(
    pairs: Pairs,
    loss: Loss,
    *,
    alpha: float,
    beta: float,
    gamma: float | None,
    t: float,
    reg: float,
    prior: Matrix | None,
    n_components: int | str | None,
    subspace: str = "discriminant",
    n_features: int | None = None,
) -> tuple[Problem, float]:
    """The problem in whitened coordinates, and what the features were divided by.

    Similar pairs are the loss's ``near`` (for triplets in their order), dissimilar ones its ``far``. Where there are
    more pairs than points, they are edges between the points; else their differences are the rows. Squared distances
    are in units of their median over all pairs under M₀.
    """
    # Similar pairs first; those of a point together, which is kinder to the cache, unless the loss counts on the order.
    dissimilar = pairs.labels == -1
    order = np.lexsort((pairs.left, dissimilar)) if loss.has_threshold else np.argsort(dissimilar, kind="stable")
    pairs = _points_in_use(pairs.take(order))
    n_near = int(np.sum(pairs.labels == 1))
    F, differences, divisor = unit_differences(pairs)
    if differences.left is None or differences.right is None:
        near, far = PairGraph(len(F), rows=slice(0, n_near)), PairGraph(len(F), rows=slice(n_near, len(F)))
    else:
        left, right = differences.left, differences.right
        near, far = PairGraph(len(F), left[:n_near], right[:n_near]), PairGraph(len(F), left[n_near:], right[n_near:])

    def scatter(rows: Matrix) -> Scatter:
        if near.left is not None:
            return pairs_scatter(replace(pairs, X=rows))
        A, B = (symmetrize(part.T @ part) / len(part) for part in (rows[near.rows], rows[far.rows]))
        return Scatter(A, B, len(near), len(far))

    start = whiten(
        F,
        scatter,
        lambda Z: typical_square((near, far), Z),
        t=t,
        reg=reg,
        prior=prior,
        n_components=n_components,
        subspace=subspace,
        n_features=n_features,
    )
    if gamma is None:
        gamma = automatic_gamma(start.Z.shape[1], len(pairs))
    return Problem(start, near, far, loss, alpha, beta, gamma), divisor


def automatic_gamma(p: int, N: int) -> float:
    """0.2 · p(p+1)/2 / N, the number of free entries of M per pair, between 0.01 and 1.

    Chosen on training parts of the bundled sets only.
    """
    return float(np.clip(0.1 * p * (p + 1) / N, 0.01, 1.0))


def _points_in_use(pairs: Pairs) -> Pairs:
    """The same pairs on the points that occur in them, where these are clearly fewer than all."""
    rows = np.concatenate([pairs.left, pairs.right])
    used = np.zeros(len(pairs.X), dtype=bool)
    used[rows] = True
    count = int(used.sum())
    if count > 0.8 * len(used):
        return pairs
    place = np.cumsum(used) - 1
    return Pairs(pairs.X[used], place[pairs.left], place[pairs.right], pairs.y)
