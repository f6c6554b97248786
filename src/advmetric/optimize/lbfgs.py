"""L-BFGS by SciPy, independent of the scale of the variables and of the objective."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from advmetric.utils.typing import Matrix

from .result import Monitor, Result

__all__ = ["Limit", "Measure", "Objective", "minimize_lbfgs"]

Objective = Callable[[Matrix], tuple[float, Matrix]]
Measure = Callable[[Matrix, float, Matrix], float]
Limit = Callable[[Matrix, Matrix], bool]


def minimize_lbfgs(
    function: Objective,
    x: Matrix,
    measure: Measure | None = None,
    *,
    tol: float,
    max_iter: int,
    memory: int = 30,
    first_step: float = 0.1,
    allowed: Limit | None = None,
    monitor: Monitor | None = None,
) -> Result[Matrix]:
    """Minimise ``function`` over arrays of any shape by SciPy's L-BFGS-B without bounds; values never increase.

    Parameters
    ----------
    function : callable
        x ↦ (value, gradient), the gradient of the shape of x.
    x : array
        Start.
    measure : callable, optional
        (x, value, gradient) ↦ a number that vanishes at a stationary point; the solver stops at ``tol``. Without it,
        the solver stops when an iteration lowers the value by less than tol times the value at the start.
    tol : float
    max_iter : int
        Iterations at most; each takes one or two evaluations.
    memory : int
        Number of past steps that model the curvature: O(memory · size of x) more in time and memory.
    first_step : float
        Length of the first step tried, relative to the norm of x: a barrier near the start is not stepped over.
    allowed : callable, optional
        (x, y) ↦ whether a step from x may end at y. One that may not is halved, without an evaluation.
    monitor : callable, optional

    Notes
    -----
    The value is divided by that at the start, because SciPy compares reductions with max(|value|, 1), and x is divided
    by ``first_step`` times its norm, because SciPy's first step has length 1.
    """
    shape = x.shape
    unit = first_step * float(np.linalg.norm(x)) or 1.0
    start = unit * (x / unit)  # the point that SciPy starts from, rounded as it will be
    last = (start, *function(start))
    scale = abs(last[1]) or 1.0
    objective = [float(last[1])]
    slope = measure(*last) if measure else np.inf
    known, reached = [last], last

    def scaled(y: Matrix) -> tuple[float, Matrix]:
        nonlocal last
        # SciPy evaluates the start first, which is known.
        point = unit * y.reshape(shape)
        if allowed and not known and not allowed(reached[0], point):
            # What a parabola with its minimum in the middle of the step has here: the line search tries that next.
            return reached[1] / scale, reached[2].ravel() * (-unit / scale)
        last = known.pop() if known else (point, *function(point))
        return last[1] / scale, last[2].ravel() * (unit / scale)

    def watch(intermediate_result: OptimizeResult) -> None:
        nonlocal slope, reached
        # SciPy calls this after the evaluation of the point it accepted.
        reached = last
        slope = measure(*last) if measure else abs(objective[-1] - last[1]) / scale
        objective.append(float(last[1]))
        if monitor:
            monitor(len(objective) - 1, objective[-1], slope)
        if measure and slope <= tol:
            raise StopIteration

    if slope <= tol:
        return Result(x, objective, True, "the start meets tol", slope)
    options = {
        "maxiter": max_iter,
        "maxfun": 20 * max_iter + 20,
        "maxcor": memory,
        "ftol": 0.0 if measure else tol,
        "gtol": 0.0,
    }
    found = minimize(scaled, x.ravel() / unit, jac=True, method="L-BFGS-B", callback=watch, options=options)
    exhausted = found.status == 1
    converged = slope <= tol if measure else found.status == 0
    if measure and not converged:
        message = f"the relative slope is {slope:.1e}, above tol={tol:g}"
        message += "" if exhausted else ", and no step decreases the objective further (rounding)"
    else:
        message = str(found.message)
    return Result(unit * np.asarray(found.x).reshape(shape), objective, converged, message, slope, exhausted)
