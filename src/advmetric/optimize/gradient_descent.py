"""Gradient descent with Armijo's rule and steps of Barzilai and Borwein."""

from __future__ import annotations

import numpy as np

from advmetric.utils.typing import Matrix

from .lbfgs import Measure, Objective
from .result import Monitor, Result

__all__ = ["armijo_descent"]

_DECREASE = 1e-4
"""Share of the decrease promised by the gradient that a step must bring."""
_MEMORY = 10
"""A step must decrease the value from the largest of this many last values."""


def armijo_descent(
    function: Objective,
    x: Matrix,
    measure: Measure,
    *,
    tol: float,
    max_iter: int,
    monitor: Monitor | None = None,
) -> Result[Matrix]:
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
    measure : callable
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
    slope = measure(x, value, gradient)
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
        change = moved - x
        curvature = float(np.sum(change * (moved_gradient - gradient)))
        step = float(np.sum(change**2)) / curvature if curvature > 0.0 else 2.0 * step
        x, value, gradient = moved, moved_value, moved_gradient
        slope = measure(x, value, gradient)
        objective.append(value)
        if value < best[0]:
            best = (value, x, slope)
        if monitor:
            monitor(iteration + 1, value, slope)
    if slope > tol:
        value, x, slope = best
    message = f"the relative slope is {slope:.1e}, above tol={tol:g}"
    message += ", and no step decreases the objective further (rounding)" if stalled else ""
    return Result(x, objective, slope <= tol, message, slope, not stalled and slope > tol)
