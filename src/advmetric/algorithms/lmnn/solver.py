"""LMNN's solver: L-BFGS in rounds on a growing set of impostors, to a certified duality gap."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from advmetric.optimize.lbfgs import minimize_lbfgs
from advmetric.optimize.result import Monitor, Result
from advmetric.pairs.triplets import Neighbors, centred, target_neighbors
from advmetric.utils.typing import Matrix

from .problem import Problem, pull_scatter

__all__ = ["lmnn_objective", "solve"]

_SLACK = 0.3
"""Impostors up to this far beyond the margin are kept at first, because later steps may need them."""
_LEAST_SLACK = 0.05
"""The same distance once no impostor was missing in a step."""
_LONGEST = 100
"""Iterations between two searches, at most."""
_ROUNDING = 0.3
"""Width over which the hinge is rounded at first."""
_LAST_PRECISION = 1e-6
"""Steps that lower the objective by less than this part of tol are no longer worth taking."""


def lmnn_objective(
    L: ArrayLike, X: ArrayLike, y: ArrayLike, *, n_neighbors: int = 3, push: float = 0.5, targets: Any = None
) -> float:
    """LMNN's objective over *all* triplets, by blocks: to compare the metrics of different solvers.

    Parameters
    ----------
    L : (r, d) array
        Components of the metric.
    X, y : (n, d) points with their class labels
    n_neighbors, push : as for :class:`LMNN`
    targets : (n, k) integer array, optional
        Target neighbours, -1 for none; by default the nearest by the Euclidean distance.
    """
    points, scale = centred(np.asarray(X, dtype=np.float64))
    labels = np.unique(np.asarray(y), return_inverse=True)[1]
    if targets is None:
        targets = target_neighbors(points, labels, n_neighbors)
    problem = Problem(points, labels, Neighbors(np.asarray(targets)), push)
    factor = np.asarray(L, dtype=np.float64) * (scale or 1.0)
    problem.impostors = problem.find(factor, slack=1e-6)
    return problem.evaluate(points @ factor.T).hinge


def solve(
    problem: Problem,
    L: Matrix,
    *,
    max_iter: int,
    tol: float,
    certify: bool = True,
    monitor: Monitor | None = None,
) -> Result[Matrix]:
    """Minimise by L-BFGS on L in rounds, between which the impostors are searched anew.

    The hinge is rounded over a width that shrinks from round to round, so that L-BFGS has a gradient
    to follow. A run ends when the true objective, over all triplets, is within ``tol`` (relative) of a
    lower bound from the dual, or when rounding no longer matters and a hundred steps lower it by less
    than tol/50. ``certify=False`` leaves out the bound, which does not hold for L of low rank.

    X must be such that its :func:`pull_scatter` is diagonal.
    """
    pull = (1.0 - problem.push) * np.diagonal(pull_scatter(problem.X, problem.targets))
    problem.impostors = problem.find(L, _SLACK)
    state = problem.evaluate(problem.X @ L.T)
    first = best = state.hinge
    best_L, bound, gap = L, 0.0, np.inf
    rounding, precision, steps, slack = _ROUNDING, 1e-3, 10, _SLACK
    history, converged, message, astray = [first], False, "", 0
    while len(history) <= max_iter:
        seen: list[float] = []

        def function(L: Matrix, rounding: float = rounding, seen: list[float] = seen) -> tuple[float, Matrix]:
            Z = problem.X @ L.T
            state = problem.evaluate(Z, rounding)
            seen[:] = [state.hinge]
            return state.value, problem.gradient(Z, state)

        def record(iteration: int, value: float, decrease: float, seen: list[float] = seen) -> None:
            history.append(seen[0])

        left = max_iter + 1 - len(history)
        found = minimize_lbfgs(
            function, L, tol=precision * tol, max_iter=min(steps, left), memory=20, first_step=1.0, monitor=record
        )
        start_value, L = state.hinge, found.x
        # Cutting the set again and again could go in cycles.
        missing = problem.refresh(L, slack, cut=astray < 3)
        state = problem.evaluate(problem.X @ L.T, rounding)
        if len(history) > 1:
            history[-1] = state.hinge
        if certify:
            bound = max(bound, problem.lower_bound(state, pull))
        if state.hinge < best:
            best, best_L = state.hinge, L
        # An objective of 0 up to rounding is optimal, whatever the bound.
        gap = (best - bound) / best if best > 1e-12 * first else 0.0
        if monitor:
            monitor(len(history) - 1, state.hinge, gap)
        if gap <= tol:
            converged, message = True, f"the duality gap is {gap:.1e}"
            break
        coarse = state.rounding > 0.25 * tol * best
        settled = not found.exhausted
        if missing == 0 and not coarse:
            slow = len(found.objective) > _LONGEST and start_value - state.hinge <= 0.02 * tol * best
            if slow or (settled and precision <= _LAST_PRECISION):
                converged, message = True, "no step lowers the objective further"
                break
        if missing == 0:
            rounding *= 0.3 if coarse else 1.0
            precision *= 0.1 if settled and not coarse else 1.0
            steps, slack = min(2 * steps, _LONGEST), max(0.5 * slack, _LEAST_SLACK)
        elif state.hinge > best:
            # The known impostors led astray: back, with more of them.
            L, steps, slack, astray = best_L, 10, min(2.0 * slack, 4.0 * _SLACK), astray + 1
            problem.impostors = problem.impostors.union(problem.find(L, slack))
        elif missing > 0.01 * len(problem.impostors):
            steps = 10
    else:
        message = f"the duality gap is still {gap:.1e}" if certify else "the objective still falls"
    history[max(1, len(history) - 1) :] = [best]
    return Result(best_L, history, converged, message, gap if certify else np.nan, not converged)
