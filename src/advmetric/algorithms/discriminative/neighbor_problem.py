"""NeighborAML's problem: candidates under the current metric, refreshed a few times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advmetric.optimize.result import Monitor, Result
from advmetric.pairs.scatter import all_pairs_scatter
from advmetric.utils.typing import Matrix, Vector

from .candidates import Candidates, find_candidates
from .losses import Margin, Radius, Softmax
from .problem import Problem
from .solver import Factor, minimize
from .whitening import Whitened, whiten

__all__ = [
    "LOSSES",
    "Rounds",
    "loss_of",
    "mean_radius",
    "pose_neighbors",
    "solve_rounds",
    "start_of_points",
    "typical_neighbor",
]

LOSSES: dict[str, Callable[..., Any]] = {"margin": Margin, "softmax": Softmax, "radius": Radius}
SETTLED = 0.01
"""A refresh that replaces no more than this share of the candidates ends the search for new ones."""
_EARLY = 10.0
"""All rounds but the last stop at a slope larger by this factor."""


@dataclass
class Rounds:
    """What happened in the rounds of :func:`solve_rounds`."""

    solution: Result[Factor]
    objective: list[float] = field(default_factory=list)
    """F by iteration; never increasing within a round."""
    starts: list[int] = field(default_factory=list)
    """Where in ``objective`` each round starts."""
    changes: list[float] = field(default_factory=list)
    """Share of the candidates that each refresh replaced."""

    @property
    def settled(self) -> bool:
        """Whether the last refresh changed (almost) nothing."""
        return bool(self.changes) and self.changes[-1] <= SETTLED


def start_of_points(
    X: Matrix,
    y: NDArray[np.integer],
    anchors: NDArray[np.integer],
    n_neighbors: int,
    n_impostors: int,
    *,
    t: float,
    reg: float,
    prior: Matrix | None,
    n_components: int | str | None,
    subspace: str = "discriminant",
    n_features: int | None = None,
) -> tuple[Whitened, Candidates]:
    """Points whitened by GMML's metric over all their pairs, and their candidates under it.

    Squared distances are in units of the median of those to the nearest neighbour of the same class.
    """
    found: list[Candidates] = []

    def unit(Z: Matrix) -> float:
        graph = find_candidates(Z, y, anchors, n_neighbors, n_impostors)
        found.append(graph)
        has = graph.similar[:, 0] >= 0
        V = Z[graph.anchors[has]] - Z[graph.similar[has, 0]]
        return typical_neighbor(np.einsum("ij,ij->i", V, V))

    start = whiten(
        X,
        lambda rows: all_pairs_scatter(rows, y),
        unit,
        t=t,
        reg=reg,
        prior=prior,
        n_components=n_components,
        subspace=subspace,
        n_features=n_features,
    )
    return start, found[0]


def loss_of(loss: str, graph: Candidates, total: int | None = None, unit: float = 1.0) -> Any:
    """The loss of a name on these candidates; ``unit`` is that of radii."""
    make = partial(Radius, unit=unit) if loss == "radius" else LOSSES[loss]
    return make(graph.similar >= 0, graph.dissimilar >= 0, total)


def pose_neighbors(start: Whitened, graph: Candidates, loss: Any, alpha: float, beta: float, gamma: float) -> Problem:
    """The problem on these candidates."""
    across = None
    if isinstance(loss, Radius):
        across, places = graph.across()
        loss = replace(loss, places=places)
    return Problem(start, *graph.edges(), loss, alpha, beta, gamma, across)


def mean_radius(problem: Problem) -> float:
    """Mean size of the radii under the starting metric."""
    total, count = problem.total_radius()
    return float(total) / max(count, 1.0) or 1.0


def typical_neighbor(squares: Vector) -> float:
    """Median of squared distances to nearest neighbours; their mean where it is 0, and 1 where there are none."""
    if not len(squares):
        return 1.0
    return float(np.median(squares)) or float(squares.mean()) or 1.0


def solve_rounds(
    graph: Candidates,
    pose: Callable[[Candidates], Problem],
    search: Callable[[Matrix], Candidates],
    *,
    n_refresh: int,
    tol: float,
    max_iter: int,
    monitor: Monitor | None = None,
) -> Rounds:
    """Minimise on a candidate graph, look for candidates under the new metric, and repeat.

    Ends after ``n_refresh`` refreshes, or earlier after one that replaces at most 1 % of the candidates. ``max_iter``
    counts the iterations of all rounds.

    Parameters
    ----------
    graph : Candidates
        Candidates at the start.
    pose : callable
        Candidates ↦ the problem on them.
    search : callable
        L ↦ the candidates of the same anchors under N = LᵀL in whitened coordinates.
    """
    L: Matrix | None = None
    objective: list[float] = []
    starts: list[int] = []
    changes: list[float] = []
    settled = False
    for round_ in range(n_refresh + 1):
        last = settled or round_ == n_refresh
        problem = pose(graph)
        solution = minimize(
            problem,
            np.eye(len(problem.start.tau)) if L is None else L,
            tol=tol if last else _EARLY * tol,
            max_iter=max(1, max_iter - len(objective)),
            monitor=monitor,
        )
        L = solution.x[0]
        starts.append(len(objective))
        objective += solution.objective
        if last:
            break
        fresh = search(L)
        changes.append(graph.change(fresh))
        graph, settled = fresh, changes[-1] <= SETTLED
        if settled and solution.slope <= tol:
            break
    return Rounds(solution, objective, starts, changes)
