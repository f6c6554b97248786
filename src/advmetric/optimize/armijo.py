"""Descent to a measure of the caller's choice: gradient steps with Armijo's rule, or L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from ..linalg import Matrix

__all__ = ["Descent", "armijo_descent", "lbfgs_descent"]

Objective = Callable[[Matrix], tuple[float, Matrix]]
Stop = Callable[[Matrix, float, Matrix], float]
Monitor = Callable[[int, float, float], None]

_DECREASE = 1e-4
"""Share of the decrease promised by the gradient that a step must bring."""
_MEMORY = 10
"""A step is measured against the worst of so many last values."""


@dataclass(frozen=True)
class Descent:
    """Where the descent ended: at the best point it saw."""

    x: Matrix
    objective: list[float]
    """Value at the start and after each step."""
    converged: bool
    slope: float
    """The measure of ``stop`` at x."""
    stalled: bool
    """Whether no step went down any more (rounding)."""

    def message(self, tol: float) -> str:
        """What to tell the user if it did not converge."""
        reason = " and no step goes down any more, by rounding" if self.stalled else ""
        return f"the relative slope is {self.slope:.1e}, above tol={tol:g}{reason}"


def armijo_descent(
    function: Objective,
    x: Matrix,
    stop: Stop,
    *,
    tol: float,
    max_iter: int,
    monitor: Monitor | None = None,
) -> Descent:
    """Minimise ``function`` by steps x - s∇f, s halved until Armijo's rule holds.

    The first s tried is that of Barzilai and Borwein, ⟨Δx, Δx⟩ / ⟨Δx, Δ∇f⟩: the inverse curvature along the
    last step, at no cost. Such steps are fast because now and then they go up a little, so the rule of
    Grippo, Lampariello and Lucidi asks for a decrease from the worst of the last ten values only.

    Parameters
    ----------
    function : callable
        x ↦ (value, gradient).
    x : array
        Start.
    stop : callable
        (x, value, gradient) ↦ a measure that vanishes at a stationary point; the descent ends at ``tol``.
    tol : float
    max_iter : int
    monitor : callable, optional
        Called with the iteration, the value and the measure.

    References
    ----------
    L. Grippo, F. Lampariello, S. Lucidi. A nonmonotone line search technique for Newton's method. SIAM
    J. Numer. Anal. 1986. M. Raydan. The Barzilai and Borwein gradient method for the large scale
    unconstrained minimization problem. SIAM J. Optim. 1997.

    Examples
    --------
    >>> import numpy as np
    >>> bowl = np.array([1.0, 10.0])
    >>> found = armijo_descent(
    ...     lambda x: (0.5 * float(x @ (bowl * x)), bowl * x),
    ...     np.ones(2),
    ...     lambda x, value, gradient: float(np.linalg.norm(gradient)),
    ...     tol=1e-8,
    ...     max_iter=100,
    ... )
    >>> found.converged, bool(np.abs(found.x).max() < 1e-8)
    (True, True)
    """
    value, gradient = function(x)
    objective = [value]
    slope = stop(x, value, gradient)
    best = (value, x, slope)
    # A first step that changes x by a tenth.
    step = 0.1 * float(np.linalg.norm(x)) / (float(np.linalg.norm(gradient)) or 1.0)
    stalled = False
    for iteration in range(max_iter):
        if slope <= tol:
            break
        reference, squared = max(objective[-_MEMORY:]), float(np.sum(gradient**2))
        for _ in range(60):
            moved = x - step * gradient
            moved_value, moved_gradient = function(moved)
            # Strictly below, or steps that rounding swallows would be taken for ever.
            if moved_value < reference and moved_value <= reference - _DECREASE * step * squared:
                break
            step *= 0.5
        else:
            stalled = True
            break
        change, bend = moved - x, moved_gradient - gradient
        curvature = float(np.sum(change * bend))
        step = float(np.sum(change**2)) / curvature if curvature > 0.0 else 2.0 * step
        x, value, gradient = moved, moved_value, moved_gradient
        slope = stop(x, value, gradient)
        objective.append(value)
        if value < best[0]:
            best = (value, x, slope)
        if monitor:
            monitor(iteration + 1, value, slope)
    if slope > tol:
        value, x, slope = best
    return Descent(x, objective, slope <= tol, slope, stalled)


def lbfgs_descent(
    function: Objective,
    x: Matrix,
    stop: Stop,
    *,
    tol: float,
    max_iter: int,
    memory: int = 30,
    monitor: Monitor | None = None,
) -> Descent:
    """The same by scipy's L-BFGS (parameters as for :func:`armijo_descent`): values never increase.

    ``memory`` past steps model the curvature, for O(memory · size of x) more in time and memory. The
    first step changes x by a tenth, whatever its scale: a barrier near the start is not jumped into.
    """
    shape, objective = x.shape, []
    # scipy's first step has length 1: in these units that changes x by a tenth, as above.
    unit = 0.1 * float(np.linalg.norm(x)) or 1.0
    last = (x, *function(x))
    slope, scale = stop(*last), abs(last[1]) or 1.0
    objective.append(last[1])

    def scaled(y: Matrix) -> tuple[float, Matrix]:
        nonlocal last
        point = unit * y.reshape(shape)
        last = (point, *function(point))
        return last[1] / scale, last[2].ravel() * (unit / scale)

    def watch(intermediate_result: OptimizeResult) -> None:
        nonlocal slope
        slope = stop(*last)
        objective.append(last[1])
        if monitor:
            monitor(len(objective) - 1, last[1], slope)
        if slope <= tol:
            raise StopIteration

    if slope <= tol:
        return Descent(x, objective, True, slope, False)
    options = {"maxiter": max_iter, "maxfun": 20 * max_iter + 20, "maxcor": memory, "ftol": 0.0, "gtol": 0.0}
    result = minimize(scaled, x.ravel() / unit, jac=True, method="L-BFGS-B", callback=watch, options=options)
    return Descent(unit * np.asarray(result.x).reshape(shape), objective, slope <= tol, slope, result.status != 1)
