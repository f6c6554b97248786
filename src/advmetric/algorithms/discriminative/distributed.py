"""PairAML and NeighborAML on Dask collections: rows stay on the workers, the client has L and adds up gradients.

PairAML: chunks of pairs are parts of the problem. Of points with labels, pairs are drawn as in memory, and the rows
that they need are brought together once. NeighborAML: the anchors go to every chunk, which answers with its nearest
points; then the rows of the anchors and of their candidates are brought together in parts, in every round. The same
serves an array of which few points are anchors, so that it may be memory-mapped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from advmetric.learners import dask
from advmetric.learners.input import needed_rows
from advmetric.learners.moments import check_n_components
from advmetric.learners.parts import LocalRows, Parts, RowParts
from advmetric.learners.prior import prior_matrix
from advmetric.pairs.checks import check_pair_labels
from advmetric.pairs.data import LabelledPoints, Pairs
from advmetric.pairs.graph import PairGraph
from advmetric.pairs.pair_statistics import PairStatistics, PointStatistics
from advmetric.pairs.samplers import NeighborPairs, make_sampler
from advmetric.utils.typing import Indices, Matrix

from .candidates import Candidates, choose_anchors, keep_nearest, nearest
from .losses import LogisticPairs
from .neighbor_problem import loss_of, pose_neighbors, typical_neighbor
from .pair_problem import automatic_gamma, drawn_pairs
from .parted import PartedProblem, median_of_squares, pair_part, rescaled
from .problem import Problem
from .whitening import Whitened, starting_metric

__all__ = ["NeighborParts", "pose_pairs"]

_MOST_PARTS = 16
"""Maximum number of parts in which rows are collected; each part may need rows of every chunk."""


def begin(learner: Any, X: Any, y: Any, *, scatter: bool) -> tuple[Any, Any]:
    """Check all chunks; return an unfitted copy that knows the features, and the statistics of the data."""
    fresh = learner._unfitted()
    fresh._keeps_scatter = scatter
    try:
        found = dask.statistics(fresh, X, y)
    finally:
        del fresh._keeps_scatter
    missing = "any rows" if found is None else found.missing
    if missing:
        raise ValueError(f"X and y do not have what a metric is learned from: {missing}.")
    dask.record_features(fresh, X, found)
    check_n_components(fresh.n_components, fresh.n_features_in_)
    return fresh, found


def _start(learner: Any, seen: Any) -> Whitened:
    start, _ = starting_metric(
        seen.scatter(),
        learner.n_features_in_,
        t=float(learner.t),
        reg=float(learner.reg),
        prior=prior_matrix(learner.prior, seen, learner.n_features_in_),
        n_components=learner.n_components,
        subspace=learner.subspace,
    )
    return start


# --- PairAML ----------------------------------------------------------------------------------------------


def pose_pairs(learner: Any, X: Any, y: Any) -> tuple[Any, Problem, PairStatistics | None]:
    """An unfitted copy of the learner, its problem, and the statistics of the pairs if pairs were given."""
    given = len(X.shape) == 3 or learner.preprocessor is not None
    fresh, found = begin(learner, X, y, scatter=given)
    if given:
        rows = RowParts.of(X, y)
        points = dask.points_on_workers(learner) if len(X.shape) == 2 else None
        kinds = check_pair_labels(rows.labels, int(rows.starts[-1]), both=False)
        own = [(kinds[first:end],) for first, end in pairwise(rows.starts)]
        some = [c for c, (part,) in enumerate(own) if len(part)]
        chunks = Parts([rows.chunks.values[c] for c in some])
        pieces = chunks.map_each(_pairs_of_chunk, [own[c] for c in some], points)
        fresh.classes_ = np.array([-1, 1])
    else:
        pieces = _drawn_parts(fresh, X, y).kept()
        found = pieces.map(PairStatistics.of).reduce(PairStatistics.merge)
    totals = found.n_similar, found.n_dissimilar
    start, weights = _start(fresh, found), (float(fresh.alpha), float(fresh.beta))
    parts = pieces.map(pair_part, start, totals, *weights).kept()
    size = median_of_squares(parts, sum(totals)) or 1.0
    parts = parts.map(rescaled, size).kept()
    start = start.with_rows(start.Z, size)
    gamma = automatic_gamma(len(start.tau), sum(totals)) if isinstance(fresh.gamma, str) else float(fresh.gamma)
    problem = PartedProblem(
        start, PairGraph(0), PairGraph(0), LogisticPairs(), *weights, gamma, parts=parts, totals=totals
    )
    return fresh, problem, found if given else None


def _pairs_of_chunk(X: Any, kinds: NDArray[np.integer], points: Any) -> Pairs:
    if X.ndim == 3:
        return replace(Pairs.formed(np.asarray(X, dtype=np.float64)), y=kinds)
    found = needed_rows(points, X)
    assert found is not None  # the chunk has been checked
    return replace(found, y=kinds)


def _drawn_parts(fresh: Any, X: Any, y: Any) -> Parts:
    """Pairs of labelled points, drawn by the client and brought together on the workers."""
    if isinstance(make_sampler(fresh.pairs), NeighborPairs):
        raise TypeError("pairs='neighbors' needs all points at once; use 'balanced', 'random' or a number of pairs.")
    rows = RowParts.of(X, y)
    fresh.classes_, codes = np.unique(rows.labels, return_inverse=True)
    drawn = drawn_pairs(LabelledPoints(np.empty((len(codes), 0)), codes), fresh.pairs, fresh.random_state)
    # Pairs of near rows go together, so that a part needs few rows of few chunks.
    order = np.argsort(drawn.left, kind="stable")
    wanted, local = [], []
    for part in np.array_split(order, min(len(rows.chunks), _MOST_PARTS)):
        needed, places = np.unique(np.concatenate([drawn.left[part], drawn.right[part]]), return_inverse=True)
        wanted.append(needed)
        local.append((places[: len(part)], places[len(part) :], drawn.labels[part]))
    return rows.take(wanted).map_each(Pairs, local)


# --- NeighborAML ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NeighborParts:
    """Labelled points on the workers, the anchors among them, and the starting metric."""

    rows: RowParts | LocalRows
    codes: NDArray[np.integer]
    anchors: Indices
    origin: Matrix
    start: Whitened
    """Before the unit of squared distances is known: divided by ``size``."""
    anchor_rows: Matrix
    """(m, p): the anchors in whitened coordinates."""
    sizes: tuple[int, int]
    """Number of candidates of the same class, and of other classes."""

    @classmethod
    def of(cls, learner: Any, X: Any, y: Any, sizes: tuple[int, int]) -> tuple[Any, NeighborParts]:
        """An unfitted copy of the learner, and its data, which are Dask collections."""
        fresh, found = begin(learner, X, y, scatter=True)
        rows = RowParts.of(X, y)
        fresh.classes_, codes = np.unique(rows.labels, return_inverse=True)
        anchors = choose_anchors(codes, fresh.n_anchors, check_random_state(fresh.random_state))
        return fresh, cls._prepared(fresh, found, rows, codes, anchors, sizes)

    @classmethod
    def of_array(cls, learner: Any, data: LabelledPoints, anchors: Indices, sizes: tuple[int, int]) -> NeighborParts:
        """Data in an array, which may be memory-mapped: besides it, only rows near the anchors are in memory."""
        found = PointStatistics.of(data.X, data.y)
        return cls._prepared(learner, found, LocalRows(data.X, data.y), data.y, anchors, sizes)

    @classmethod
    def _prepared(
        cls, learner: Any, found: Any, rows: Any, codes: NDArray[np.integer], anchors: Indices, sizes: tuple[int, int]
    ) -> NeighborParts:
        start, origin = _start(learner, found), found.origins[np.argmax(found.counts)]
        at_anchors = rows.take([anchors]).map(_whitened, origin, start.R).reduce(_never)
        return cls(rows, codes, anchors, origin, start, at_anchors, sizes)

    def search(self, L: Matrix) -> Candidates:
        """Candidates under N = LᵀL in whitened coordinates."""
        queries, labels = self.anchor_rows @ L.T, self.codes[self.anchors]
        factor = L @ self.start.R
        own = [(self.codes[first:end], int(first)) for first, end in pairwise(self.rows.starts)]
        asked = (self.anchors, queries, labels, self.origin, factor, self.sizes)
        answers = self.rows.chunks.map_each(_answer, own, asked)
        near, similar, far, dissimilar = answers.reduce(_nearer)
        similar, dissimilar = (np.where(np.isfinite(v), i, -1) for v, i in ((near, similar), (far, dissimilar)))
        return Candidates(len(self.codes), self.anchors, similar, dissimilar)

    def unit(self, graph: Candidates) -> float:
        """Typical squared distance to the nearest neighbour of the same class, before it is the unit."""
        has = graph.similar[:, 0] >= 0
        wanted, places = np.unique(graph.similar[has, 0], return_inverse=True)
        if not len(wanted):
            return 1.0
        rows = self.rows.take([wanted]).map(_whitened, self.origin, self.start.R).reduce(_never)
        V = self.anchor_rows[has] - rows[places]
        return typical_neighbor(np.einsum("ij,ij->i", V, V))

    def pose(
        self, start: Whitened, loss: str, weights: tuple[float, float, float], graph: Candidates, unit: float
    ) -> PartedProblem:
        """The problem on these candidates, a part of the anchors in each of its parts; start is in its unit."""
        alpha, beta, gamma = weights
        whole = loss_of(loss, graph, unit=unit)
        wanted, local = [], []
        for part in np.array_split(np.arange(len(self.anchors)), min(len(self.rows.chunks), _MOST_PARTS)):
            if not len(part):
                continue
            mine = graph.anchors[part], graph.similar[part], graph.dissimilar[part]
            used = np.unique(np.concatenate([indices[indices >= 0] for indices in mine]))
            places = [np.where(indices >= 0, np.searchsorted(used, indices), -1) for indices in mine]
            wanted.append(used)
            local.append((Candidates(len(used), *places),))
        blank = replace(start, Z=np.empty((0, len(start.tau))))
        parts = (
            self.rows.take(wanted)
            .map_each(_neighbor_part, local, self.origin, blank, loss, whole.count, unit, alpha, beta)
            .kept()
        )
        totals = int((graph.similar >= 0).sum()), int((graph.dissimilar >= 0).sum())
        return PartedProblem(start, PairGraph(0), PairGraph(0), whole, alpha, beta, gamma, parts=parts, totals=totals)


def _never(first: Any, second: Any) -> Any:
    raise AssertionError("there is one part")


def _whitened(rows: Matrix, origin: Matrix, factor: Matrix) -> Matrix:
    embedded: Matrix = (np.asarray(rows, dtype=np.float64) - origin) @ factor.T
    return embedded


def _answer(chunk: Any, codes: NDArray[np.integer], first: int, asked: tuple[Any, ...]) -> tuple[Any, ...]:
    """Nearest rows of a chunk: distances and row numbers, of the anchors' own classes and of the others."""
    anchors, queries, labels, origin, factor, sizes = asked
    Z = _whitened(chunk, origin, factor)
    found: list[Any] = []
    for k, same in zip(sizes, (True, False), strict=True):
        values = np.full((len(anchors), k), np.inf, dtype=np.float32)
        indices = np.full((len(anchors), k), -1, dtype=np.intp)
        for label in np.unique(labels):
            mine = np.flatnonzero(labels == label)
            pool = np.flatnonzero((codes == label) == same)
            values[mine], indices[mine] = nearest(queries[mine], anchors[mine], Z, pool, k, first)
        found += [values, indices]
    return tuple(found)


def _nearer(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    merged: list[Any] = []
    for i in (0, 2):
        k = first[i].shape[1]
        merged += keep_nearest(np.hstack([first[i], second[i]]), np.hstack([first[i + 1], second[i + 1]]), k)
    return tuple(merged)


def _neighbor_part(
    rows: Matrix,
    graph: Candidates,
    origin: Matrix,
    start: Whitened,
    loss: str,
    total: int,
    unit: float,
    alpha: float,
    beta: float,
) -> Problem:
    start = replace(start, Z=_whitened(rows, origin, start.R))
    return pose_neighbors(start, graph, loss_of(loss, graph, total, unit), alpha, beta, 0.0)
