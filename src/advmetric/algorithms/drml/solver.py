"""DRML's problem on Stiefel × SPD, and a Riemannian L-BFGS that solves it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit

from advmetric.linalg.spd import symmetrize
from advmetric.optimize.result import Monitor, Result
from advmetric.pairs.differences import principal_axes
from advmetric.pairs.graph import PairGraph
from advmetric.utils.typing import Matrix, Vector

__all__ = ["DRMLProblem", "Point", "Tangent", "minimise"]

_MEMORY = 20
_MAX_TRIALS = 40


# --- the manifold: W with orthonormal columns, M = RRᵀ positive definite ----------------------------------


@dataclass(frozen=True)
class Tangent:
    """A direction (ξ, RERᵀ) at (W, M = RRᵀ): ξ (d, p) tangent to the Stiefel manifold, E (p, p) symmetric.

    In the frame R the affine-invariant metric of M is tr(EE'), and parallel transport along a geodesic
    that moves the frame, R exp(E/2), leaves E as it is.
    """

    W: Matrix
    E: Matrix

    def __add__(self, other: Tangent) -> Tangent:
        return Tangent(self.W + other.W, self.E + other.E)

    def __mul__(self, factor: float) -> Tangent:
        return Tangent(factor * self.W, factor * self.E)

    def dot(self, other: Tangent) -> float:
        """2 tr(ξᵀξ') + tr(EE'), the paper's metric."""
        return 2.0 * float(np.vdot(self.W, other.W)) + float(np.vdot(self.E, other.E))


@dataclass(frozen=True)
class Point:
    """W (d, p) with orthonormal columns and a frame R (p, p) of M = RRᵀ."""

    W: Matrix
    R: Matrix

    def project(self, A: Matrix) -> Matrix:
        """Nearest tangent direction of the Stiefel manifold at W."""
        return A - self.W @ symmetrize(self.W.T @ A)

    def retract(self, step: Tangent) -> Point:
        """Move: the polar factor of W + ξ, and M along its geodesic."""
        moved = self.W + step.W
        # The Gram matrix is I + ξᵀξ up to rounding: its inverse root also mends lost orthogonality.
        gram, U = np.linalg.eigh(moved.T @ moved)
        eigenvalues, V = np.linalg.eigh(step.E)
        return Point(moved @ ((U / np.sqrt(gram)) @ U.T), self.R @ ((V * np.exp(0.5 * eigenvalues)) @ V.T))

    def transport(self, tangent: Tangent) -> Tangent:
        """Bring a tangent of a nearby point here."""
        return Tangent(self.project(tangent.W), tangent.E)


# --- the problem ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DRMLProblem:
    """f(W, M) = Σ wᵢ log(1 + exp(βsᵢ vᵢᵀWMWᵀvᵢ)) + lam (tr M - logdet M - p) on scaled differences v = EF."""

    F: Matrix
    differences: PairGraph
    labels: Vector
    weights: Vector
    lam: float
    beta: float

    def evaluate(self, point: Point) -> tuple[float, Tangent]:
        """Value and Riemannian gradient.

        Through Y = WR: with S = Σ βwᵢsᵢσ(βsᵢqᵢ)vᵢvᵢᵀ, the gradient of the loss is 2SYRᵀ by W and YᵀSY by E. Under the
        metric 2 tr(ξᵀξ) the Riemannian one of W is half the projected Euclidean one. O(Np + ndp + p³).
        """
        p = len(point.R)
        Y = point.W @ point.R
        Z = self.F @ Y
        q = self.differences.quadratic(Z, Z)
        q *= self.beta * self.labels
        slopes = self.beta * self.weights * self.labels * expit(q)
        SY = self.F.T @ self.differences.laplacian(slopes, Z)
        M_framed = point.R.T @ point.R
        logdet = 2.0 * float(np.linalg.slogdet(point.R)[1])
        value = float(self.weights @ np.logaddexp(0.0, q)) + self.lam * (float(np.trace(M_framed)) - logdet - p)
        by_E = symmetrize(Y.T @ SY) + self.lam * (M_framed - np.eye(p))
        return value, Tangent(point.project(SY @ point.R.T), by_E)

    def start(self, n_components: int) -> Point:
        """Leading principal axes of the differences, and M = I."""
        return Point(principal_axes(self.F, self.differences, n_components), np.eye(n_components))


# --- the solver -----------------------------------------------------------------------------------------


def minimise(
    problem: DRMLProblem, start: Point, *, tol: float = 1e-5, max_iter: int = 1000, monitor: Monitor | None = None
) -> Result[Point]:
    """Riemannian L-BFGS with a preconditioner and a weak-Wolfe line search; never increases the value.

    The first Hessian guess is ξ ↦ ξM⁻¹ (the curvature along W grows with M) and E ↦ E, each scaled by its own
    Barzilai-Borwein factor. Conjugate gradients on the same manifold take up to ten times the evaluations where M is
    ill-conditioned or lam large.
    """
    point = start
    value, gradient = problem.evaluate(point)
    objective = [value]
    memory: list[tuple[Tangent, Tangent, float]] = []
    norm = float(np.sqrt(gradient.dot(gradient)))
    scales = (1.0 / max(1.0, norm),) * 2
    message = f"tol={tol:g} was not met"
    converged = norm <= tol * abs(value)
    while not converged and len(objective) <= max_iter:
        direction = _two_loop(gradient, memory, point, scales)
        slope = gradient.dot(direction)
        if not slope < 0.0:
            memory, direction = [], gradient * (-1.0 / max(1.0, norm))
            slope = gradient.dot(direction)
        found = _line_search(problem, point, value, direction, slope)
        if found is None:
            if not memory:
                message = "no step lowers the objective any more (rounding)"
                break
            # The memory may be what is wrong: once more, from the gradient alone.
            memory = []
            continue
        step, following, value, new_gradient = found
        moved = following.transport(direction * step)
        change = new_gradient + following.transport(gradient) * -1.0
        memory = [(following.transport(s), following.transport(y), 0.0) for s, y, _ in memory[1 - _MEMORY :]]
        memory = _usable([*memory, (moved, change, 0.0)])
        scales = _block_scales(following, moved, change, scales)
        point, gradient = following, new_gradient
        norm = float(np.sqrt(gradient.dot(gradient)))
        objective.append(value)
        if monitor:
            monitor(len(objective) - 1, value, norm / abs(value))
        converged = norm <= tol * abs(value)
    return Result(point, objective, converged, message, norm / abs(value), len(objective) > max_iter)


def _two_loop(
    gradient: Tangent, memory: list[tuple[Tangent, Tangent, float]], point: Point, scales: tuple[float, float]
) -> Tangent:
    """Minus the quasi-Newton inverse Hessian times the gradient."""
    direction = gradient * -1.0
    coefficients = []
    for s, y, sy in reversed(memory):
        coefficients.append(s.dot(direction) / sy)
        direction = direction + y * -coefficients[-1]
    direction = Tangent(scales[0] * _precondition(point, direction.W), scales[1] * direction.E)
    for (s, y, sy), coefficient in zip(memory, reversed(coefficients), strict=True):
        direction = direction + s * (coefficient - y.dot(direction) / sy)
    return direction


def _precondition(point: Point, xi: Matrix) -> Matrix:
    """ξM⁻¹ back on the tangent space; M is kept from being singular."""
    M = point.R @ point.R.T
    M.flat[:: len(M) + 1] += 1e-6 * np.trace(M) / len(M)
    factor = cho_factor(M, lower=True, check_finite=False)
    return point.project(cho_solve(factor, xi.T, check_finite=False).T)


def _block_scales(point: Point, s: Tangent, y: Tangent, previous: tuple[float, float]) -> tuple[float, float]:
    """Barzilai-Borwein factors of the two blocks; a block of negative curvature keeps its old one."""
    pairs = ((s.W, y.W, _precondition(point, y.W)), (s.E, y.E, y.E))
    scales = []
    for (moved, change, conditioned), old in zip(pairs, previous, strict=True):
        curvature, size = float(np.vdot(moved, change)), float(np.vdot(change, conditioned))
        scales.append(curvature / size if curvature > 0.0 and size > 0.0 else old)
    return scales[0], scales[1]


def _usable(memory: list[tuple[Tangent, Tangent, float]]) -> list[tuple[Tangent, Tangent, float]]:
    """Pairs of clearly positive curvature, with that curvature."""
    kept = []
    for s, y, _ in memory:
        sy = s.dot(y)
        if sy > 1e-12 * np.sqrt(s.dot(s) * y.dot(y)):
            kept.append((s, y, sy))
    return kept


def _line_search(
    problem: DRMLProblem, point: Point, value: float, direction: Tangent, slope: float
) -> tuple[float, Point, float, Tangent] | None:
    """A step that lowers the value (Armijo) and flattens the slope (weak Wolfe), by bisection."""
    low, high, step = 0.0, np.inf, 1.0
    # An entry of E beyond this multiplies an eigenvalue of M by e^10: no model is right so far away.
    longest = 10.0 / max(float(np.abs(direction.E).max()), 1e-300)
    step = min(step, longest)
    best = None
    for _ in range(_MAX_TRIALS):
        trial = point.retract(direction * step)
        new_value, gradient = problem.evaluate(trial)
        if not (np.isfinite(new_value) and new_value <= value + 1e-4 * step * slope):
            high = step
        else:
            best = (step, trial, new_value, gradient)
            if gradient.dot(trial.transport(direction)) >= 0.9 * slope or step >= longest:
                return best
            low = step
        step = min(2.0 * step, longest) if high == np.inf else 0.5 * (low + high)
    return best


# --- the estimator --------------------------------------------------------------------------------------
