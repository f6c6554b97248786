"""L-BFGS over a factor of the metric and a threshold, from the start M₀, to a relative slope."""

from __future__ import annotations

import numpy as np

from advmetric.optimize.lbfgs import minimize_lbfgs
from advmetric.optimize.result import Monitor, Result
from advmetric.utils.typing import Matrix, Vector

from .losses import NeighborLoss, Radius
from .problem import Problem

__all__ = ["Factor", "minimize"]

Factor = tuple[Matrix, float]
"""L, with N = LᵀL in whitened coordinates, and the threshold b."""

_RESTARTS = 3
"""Maximum number of restarts without the curvature model, when no step along its direction decreases the objective."""


def minimize(
    problem: Problem, L: Matrix, b: float = 1.0, *, tol: float, max_iter: int, monitor: Monitor | None = None
) -> Result[Factor]:
    """Minimise F over (L, b) by L-BFGS; values never increase.

    Parameters
    ----------
    problem : Problem
    L : (p, p) array
        Start; I is M₀.
    b : float
        Start of the threshold, in units of the typical squared distance.
    tol : float
        Stop when the slope of F relative to F, in the affine-invariant norm, is at most this.
    max_iter : int
    monitor : callable, optional
        Called with iteration, value and slope.

    Notes
    -----
    For a loss that is convex in squared distances F has one optimum, and a full factor has no other stationary point in
    which N is positive definite (γ > 0 keeps it so). One or two evaluations per iteration.
    """
    shape, threshold = L.shape, problem.loss.has_threshold
    # In these units the curvature at the start is about the same in all entries of L. The estimate is of losses of all
    # pairs: with those of neighbours, which differ from pairs in general, it takes up to five times as many iterations.
    estimated = shape[0] == shape[1] and not isinstance(problem.loss, NeighborLoss)
    root = np.sqrt(problem.curvature()) if estimated else np.ones(shape)

    def unpack(x: Vector) -> tuple[Matrix, float]:
        return (x[:-1].reshape(shape), float(x[-1])) if threshold else (x.reshape(shape), 0.0)

    def pack(factor: Matrix, offset: float) -> Vector:
        return np.append(factor, offset) if threshold else factor.ravel()

    def function(x: Vector) -> tuple[float, Vector]:
        scaled, offset = unpack(x)
        value, gradient, slope = problem.evaluate(scaled / root, offset)
        return value, pack(gradient / root, slope)

    def stop(x: Vector, value: float, gradient: Vector) -> float:
        (factor, offset), (by_factor, by_offset) = unpack(x), unpack(gradient)
        return problem.slope(factor / root, by_factor * root, offset, by_offset, value)

    def allowed(before: Vector, after: Vector) -> bool:
        return _stays_invertible(unpack(before)[0] / root, unpack(after)[0] / root)

    x = pack(L * root, b)
    objective: list[float] = []
    for _ in range(_RESTARTS):
        found = minimize_lbfgs(
            function,
            x,
            stop,
            tol=tol,
            max_iter=max_iter - max(0, len(objective) - 1),
            # With the radii, which do not depend on the scale of M, steps are often far too long: on german-credit half
            # of the evaluations were spent on them.
            allowed=allowed if isinstance(problem.loss, Radius) else None,
            monitor=monitor,
        )
        objective += list(found.objective)[1 if objective else 0 :]
        lowered = found.objective[-1] < found.objective[0]
        x = found.x
        if found.converged or found.exhausted or not lowered or len(objective) > max_iter:
            break
    scaled, offset = unpack(x)
    converged = found.converged or (not found.exhausted and len(objective) <= max_iter)
    return Result((scaled / root, offset), objective, converged, found.message, found.slope, not converged)


def _stays_invertible(before: Matrix, after: Matrix) -> bool:
    """Return whether all matrices between two are invertible by a bound: ‖after · before⁻¹ - I‖₂ < 1."""
    try:
        change = np.linalg.solve(before.T, (after - before).T)
    except np.linalg.LinAlgError:
        return True
    return bool(np.linalg.norm(change, 2) < 1.0)
