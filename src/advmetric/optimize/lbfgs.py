"""L-BFGS over the factor L of a metric M = LᵀL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from ..linalg import Matrix

__all__ = ["FactorSolution", "minimize_factor"]

Monitor = Callable[[int, float], None]
Objective = Callable[[Matrix], tuple[float, Matrix]]


@dataclass(frozen=True)
class FactorSolution:
    """Where L-BFGS ended."""

    L: Matrix
    objective: list[float]
    """Values at the start and after each iteration: never increasing."""
    converged: bool
    """Whether ``tol`` or ``gtol`` was met."""
    exhausted: bool
    """Whether it stopped at ``max_iter``; neither this nor ``converged`` means that no step went down."""
    message: str


def minimize_factor(
    function: Objective,
    L: Matrix,
    *,
    max_iter: int,
    tol: float,
    gtol: float = 0.0,
    memory: int = 20,
    monitor: Monitor | None = None,
) -> FactorSolution:
    """Minimise ``function`` over factors L of any shape by scipy's L-BFGS-B without bounds.

    Parameters
    ----------
    function : callable
        L ↦ (value, gradient), the gradient in the shape of L.
    L : array
        Start.
    max_iter : int
        Iterations at most; each takes one or two evaluations.
    tol : float
        Stop when an iteration lowers the value by less than tol times the value at the start.
    gtol : float
        Stop when no entry of the gradient, times the norm of the start, exceeds gtol times its value.
    memory : int
        Number of past steps that model the curvature.
    monitor : callable, optional
        Called with the iteration's number and value.

    Notes
    -----
    Beside the evaluations, O(memory · size of L) in time an iteration and in memory.
    The value is divided by that at the start and L by its norm: scipy compares reductions with
    max(|value|, 1), and its first step has length 1, so both would depend on the scale.
    """
    shape = L.shape
    start = function(L)
    scale = abs(start[0]) or 1.0
    size = float(np.linalg.norm(L)) or 1.0
    history = [float(start[0])]
    first = [start]

    def scaled(x: Matrix) -> tuple[float, Matrix]:
        # scipy asks for the start first, which is known.
        value, gradient = first.pop() if first else function(size * x.reshape(shape))
        return value / scale, gradient.ravel() * (size / scale)

    def record(intermediate_result: OptimizeResult) -> None:
        history.append(float(intermediate_result.fun) * scale)
        if monitor:
            monitor(len(history) - 1, history[-1])

    result = minimize(
        scaled,
        L.ravel() / size,
        jac=True,
        method="L-BFGS-B",
        callback=record,
        options={"maxiter": max_iter, "maxfun": 20 * max_iter + 20, "maxcor": memory, "ftol": tol, "gtol": gtol},
    )
    exhausted = result.status == 1
    return FactorSolution(
        size * np.asarray(result.x).reshape(shape),
        history,
        converged=result.status == 0,
        exhausted=exhausted,
        message=str(result.message),
    )
