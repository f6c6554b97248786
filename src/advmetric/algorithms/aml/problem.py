"""AML's problem for given moments: units, starting point and choice of solver."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from advmetric.learners.moments import Moments
from advmetric.optimize.result import Monitor, Result
from advmetric.utils.arrays import namespace
from advmetric.utils.typing import Matrix

from .adversary import Adversary
from .objective import Evaluation, evaluate
from .solvers import alternating, geodesic, projected_gradient, starting_point

__all__ = ["rows_of_state", "solve"]


def solve(
    moments: Moments,
    adversary: Adversary,
    *,
    t: float,
    solver: str = "geodesic",
    step_size: float | None = None,
    tol: float = 1e-5,
    max_iter: int = 1000,
    start: Evaluation | None = None,
    monitor: Monitor | None = None,
) -> Result[Evaluation]:
    """Minimise D for given moments; ``start``, the state of a solution at the same t, warm-starts it.

    The solution, ``x``, is in the units that the solver worked in, its ``objective`` in those of the data.
    """
    A, B = moments.weighted(t)
    # D is linear in (A, B). Where it is about 1, its squares do not overflow, whatever the scale of the data; a power
    # of two rounds nothing. A fixed step size is in the data's own units.
    unit = 1.0 if step_size is not None else _power_of_two(_mean_size(A, B))
    A, B = A / unit, B / unit

    def in_units(iteration: int, value: float, slope: float) -> None:
        if monitor:
            monitor(iteration, unit * value, slope)

    if solver == "projected-gradient":
        found = projected_gradient(A, B, adversary, step_size=step_size, tol=tol, max_iter=max_iter, monitor=in_units)
    else:
        if start is None:
            start = starting_point(evaluate(moments.geodesic.at(t), A, B, adversary), adversary)
        else:
            start = start.against(adversary, start.lam)
        method = geodesic if solver == "geodesic" else alternating
        found = method(start, tol=tol, max_iter=max_iter, monitor=in_units)
    return replace(found, objective=[unit * value for value in found.objective])


def _mean_size(A: Matrix, B: Matrix) -> float:
    """√(tr A · tr B), of which the product might overflow."""
    xp = namespace(A, B)
    return math.sqrt(float(xp.linalg.trace(A))) * math.sqrt(float(xp.linalg.trace(B)))


def _power_of_two(size: float) -> float:
    """The power of two next above ``size`` (1 for 0)."""
    return float(np.ldexp(1.0, np.frexp(size)[1]))


def rows_of_state(state: Evaluation) -> Matrix:
    """Return the components of a metric in the solver's space, from the largest eigenvalue to the smallest."""
    xp = namespace(state.lam)
    order = xp.flip(xp.argsort(state.lam))
    rows: Matrix = xp.take((state.U * state.root).T, order, axis=0)
    return rows
