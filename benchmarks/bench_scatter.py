"""Scatter matrices from index pairs: the pair graph against stacked differences, and class statistics."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from bench_fit import digits
from harness import Row, interleaved

from advmetric.pairs.data import Pairs, Scatter
from advmetric.pairs.samplers import AllPairs, BalancedPairs
from advmetric.pairs.scatter import all_pairs_scatter, pairs_scatter


def stacked_scatter(pairs: Pairs) -> Scatter:
    """What one would write first: an (N, d) array of differences for each kind, times its transpose."""
    matrices, counts = [], []
    for label in (1, -1):
        chosen = pairs.take(np.flatnonzero(pairs.labels == label))
        V = chosen.X[chosen.left] - chosen.X[chosen.right]
        matrices.append(V.T @ V / len(V))
        counts.append(len(V))
    return Scatter(matrices[0], matrices[1], counts[0], counts[1])


def relative_gap(one: Scatter, other: Scatter) -> float:
    """Largest relative difference (Frobenius) of the two matrices."""
    return max(float(np.linalg.norm(P - Q) / np.linalg.norm(Q)) for P, Q in ((one.A, other.A), (one.B, other.B)))


def rows(fast: bool = False) -> Iterator[Row]:
    """n = 3200, d = 784, N = 90 000; then all 5.1 million pairs of the same points."""
    n, d, n_pairs = (500, 50, 20_000) if fast else (3200, 784, 90_000)
    X, y = digits(d, n)
    pairs = BalancedPairs(n_pairs).sample(X, y, random_state=0)
    seconds = interleaved(
        {"stacked": lambda: stacked_scatter(pairs), "graph": lambda: pairs_scatter(pairs)}, repeats=3 if fast else 5
    )
    gap = relative_gap(pairs_scatter(pairs), stacked_scatter(pairs))
    yield Row(
        f"scatter, stacked differences / graph, n={n} d={d} N={n_pairs}",
        seconds["stacked"] / seconds["graph"],
        at_least=10,
        note=f"{seconds['stacked']:.3g} s / {seconds['graph']:.3g} s, equal to {gap:.0e}",
    )
    every = AllPairs().sample(X, y)
    seconds = interleaved(
        {"graph": lambda: pairs_scatter(every), "statistics": lambda: all_pairs_scatter(X, y)}, repeats=3
    )
    gap = relative_gap(all_pairs_scatter(X, y), pairs_scatter(every))
    yield Row(
        f"scatter of all {len(every)} pairs, graph / class statistics",
        seconds["graph"] / seconds["statistics"],
        note=f"{seconds['graph']:.3g} s / {seconds['statistics']:.3g} s, equal to {gap:.0e}",
    )
