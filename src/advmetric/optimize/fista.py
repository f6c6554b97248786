"""Accelerated proximal gradient (FISTA) with backtracking, restart and a monotone history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .result import Monitor, Result

__all__ = ["fista", "project_psd_ball"]

Array = NDArray[np.float64]
_GROWTH = 2.0
_SHRINK = 0.5
_MAX_HALVINGS = 60
_BLUR = 1e-10
"""Relative differences of values below this are taken for rounding."""


def fista(
    smooth: Callable[[Array], tuple[float, Array]],
    prox: Callable[[Array, float], Array],
    start: Array,
    *,
    penalty: Callable[[Array], float] | None = None,
    step: float = 1.0,
    tol: float = 1e-6,
    max_iter: int = 1000,
    monitor: Monitor | None = None,
) -> Result[Array]:
    """Minimise F(x) = f(x) + g(x), f smooth, g simple (a projection for constraints).

    Steps go from an extrapolated point y to z = prox(y - s∇f(y)); s is halved until f lies below its
    quadratic model at z and may double at the beginning and after restarts, so no Lipschitz constant is needed.
    Momentum is dropped when it points uphill, and a step that would raise F is replaced by a plain
    proximal step from the last iterate: the history is monotone, and on strongly convex problems the
    rate is linear without knowing the constant. O(1/k²) on convex ones.

    Parameters
    ----------
    smooth : callable
        x ↦ (f(x), ∇f(x)); a value that is not finite counts as infeasible and halves the step.
    prox : callable
        (x, s) ↦ argmin_z g(z) + ‖z - x‖²/(2s). For constraints the projection; s is then ignored.
    start : array of any shape
        Need not be feasible: it is sent through ``prox`` with s = 0 first.
    penalty : callable, optional
        g, where it is finite and not zero.
    step : float
        First step tried.
    tol : float
        Stop when ‖G‖·‖x‖ <= tol·|F|, with G = (y - z)/s the generalised gradient: a relative measure
        that no scaling of x or F changes.
    max_iter : int
    monitor : callable, optional
        Called with (iteration, F, relative residual).

    Notes
    -----
    About two evaluations of ``smooth`` and one of ``prox`` per iteration; memory: six arrays like x.

    References
    ----------
    A. Beck, M. Teboulle. A fast iterative shrinkage-thresholding algorithm. SIAM J. Imaging Sci. 2009.
    B. O'Donoghue, E. Candès. Adaptive restart for accelerated gradient schemes. FoCM 2015.
    K. Scheinberg, D. Goldfarb, X. Bai. Fast first-order methods with backtracking. FoCM 2014.

    Examples
    --------
    >>> import numpy as np
    >>> target = np.array([3.0, -1.0])
    >>> half_square = lambda x: (0.5 * np.sum((x - target) ** 2), x - target)
    >>> result = fista(half_square, lambda x, s: np.maximum(x, 0), np.zeros(2))
    >>> result.x.round(6).tolist(), result.converged
    ([3.0, 0.0], True)
    """
    g = penalty or (lambda x: 0.0)
    x = prox(np.asarray(start, dtype=float), 0.0)
    fx, gradient_x = smooth(x)
    if not np.isfinite(fx):
        raise ValueError("the objective is not finite at the start.")
    objective = [fx + g(x)]
    y, fy, gradient = x, fx, gradient_x
    momentum, growing = 1.0, True
    residual = np.inf
    message = f"tol={tol:g} was not met"
    for iteration in range(1, max_iter + 1):
        found = _proximal_step(smooth, prox, y, fy, gradient, step)
        # Below this a rise is rounding, and gradients still know the way.
        ceiling = objective[-1] + 16.0 * np.finfo(float).eps * abs(objective[-1])
        if found is not None and found.f + g(found.z) > ceiling and y is not x:
            # Momentum overshot: a plain step from the last iterate goes down.
            y, fy, gradient, momentum = x, fx, gradient_x, 1.0
            found = _proximal_step(smooth, prox, y, fy, gradient, step)
        if found is None:
            message = "no step lowers the objective any more (rounding)"
            break
        z, fz, gradient_z = found.z, found.f, found.gradient
        value = fz + g(z)
        shift = y - z
        residual = _relative(float(np.linalg.norm(shift)) / found.step, z, value)
        if value > ceiling:
            message = "no step lowers the objective any more (rounding)"
            break
        objective.append(min(value, objective[-1]))
        if monitor:
            monitor(iteration, objective[-1], residual)
        if residual <= tol:
            return Result(z, objective, True, "the residual is below tol", residual)
        move = z - x
        uphill = float(np.vdot(shift, move)) > 0.0
        if uphill:
            momentum = 1.0
        # Longer steps cost momentum, so they are tried until one proves too long, and again after a restart.
        growing = (growing and found.step == step) or uphill
        step = found.step * _GROWTH if growing else found.step
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2 * found.step / step))
        weight = (momentum - 1.0) / following
        momentum = following
        x, fx, gradient_x = z, fz, gradient_z
        if weight > 0.0:
            y = x + weight * move
            fy, gradient = smooth(y)
            if not np.isfinite(fy):
                y, fy, gradient, momentum = x, fx, gradient_x, 1.0
        else:
            y, fy, gradient = x, fx, gradient_x
    return Result(x, objective, False, message, residual, exhausted=len(objective) > max_iter)


@dataclass(frozen=True)
class _Step:
    z: Array
    f: float
    gradient: Array
    step: float


def _proximal_step(
    smooth: Callable[[Array], tuple[float, Array]],
    prox: Callable[[Array, float], Array],
    y: Array,
    fy: float,
    gradient: Array,
    step: float,
) -> _Step | None:
    """prox(y - s∇f(y)) for the first s that keeps f below its quadratic model; None if there is none."""
    for _ in range(_MAX_HALVINGS):
        z = prox(y - step * gradient, step)
        fz, gradient_z = smooth(z)
        if np.isfinite(fz):
            shift = z - y
            bound = float(np.vdot(shift, shift)) / (2.0 * step)
            if bound > _BLUR * abs(fy):
                excess = fz - fy - float(np.vdot(gradient, shift))
            else:
                # Values differ by rounding only; on so short a step gradients tell the curvature better.
                excess = 0.5 * float(np.vdot(gradient_z - gradient, shift))
            if excess <= bound:
                return _Step(z, fz, gradient_z, step)
        step *= _SHRINK
    return None


def _relative(norm: float, x: Array, value: float) -> float:
    """‖G‖·‖x‖/|F|: how far F could still fall along a move of length ‖x‖, relative to F."""
    if norm == 0.0:
        return 0.0
    return norm * float(np.linalg.norm(x)) / max(abs(value), float(np.finfo(float).tiny))


def project_psd_ball(M: Array, radius: float = np.inf) -> Array:
    """Nearest positive semi-definite matrix with ‖M‖_F <= radius. O(d³).

    The cone first, then the ball: for a cone and a ball about its apex that is the projection on
    both at once.
    """
    eigenvalues, U = np.linalg.eigh(0.5 * (M + M.T))
    kept = eigenvalues > 0.0
    root = U[:, kept] * np.sqrt(eigenvalues[kept])
    projected: Array = root @ root.T
    norm = float(np.linalg.norm(eigenvalues[kept]))
    return projected * (radius / norm) if norm > radius else projected
