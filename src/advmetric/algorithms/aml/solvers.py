"""Three ways to minimise D(M) over SPD matrices.

:func:`geodesic` (ours, the default) is exact, monotone and needs a handful of iterations;
:func:`projected_gradient` is the paper's Algorithm 1 and :func:`alternating` the game of Eq. 5,
both kept for comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from advmetric.linalg.spd import Geodesic, geometric_mean, outer, project_spd, symmetrize
from advmetric.optimize.result import Monitor, Result
from advmetric.utils.arrays import identity_like, namespace, norm, vdot
from advmetric.utils.typing import Matrix

from .adversary import Adversary
from .objective import Evaluation, evaluate

__all__ = ["alternating", "geodesic", "projected_gradient", "starting_point"]

_NEGLIGIBLE = 1e-9
"""A relative slope at which D is within about 1e-18 of its minimum."""


def starting_point(mean: Evaluation, adversary: Adversary) -> Evaluation:
    """Scale the GMML metric A⁻¹ # B to where the adversary's optimum is expected; no decomposition."""
    return mean.against(adversary, adversary.start_weight() * mean.lam)


# --- geodesic: Riemannian truncated Newton --------------------------------------------------------------


def geodesic(
    start: Evaluation, *, tol: float = 1e-5, max_iter: int = 100, monitor: Monitor | None = None
) -> Result[Evaluation]:
    """Minimise D by truncated Newton steps along the SPD cone, from ``start``.

    Each iteration (1) sets the eigenvalues of M to their best for its eigenvectors, d scalar convex
    problems and practically free; (2) solves the Newton equation in the tangent space by conjugate
    gradients with exact Hessian products, preconditioned by the geometric-mean surrogate of D (see
    :func:`_preconditioner`); (3) moves along the curve M^{1/2}(I + sE + s²E²/2)M^{1/2}, which agrees
    with the geodesic to second order and never leaves the cone, with Armijo's rule. D decreases at
    every iteration. Stops when ‖M^{1/2}∇D M^{1/2}‖_F ≤ tol · |D|, or where rounding hides any decrease.

    D is geodesically convex where A and B commute. Where they are ill-conditioned (above 10³) and do
    not, it may have several minima; this finds one downhill from ``start``.

    Cost: two ``eigh`` and 15 to 40 matrix products per iteration; one to five iterations are usual.
    """
    state = _best_eigenvalues(start)
    objective = [state.value]
    for iteration in range(max_iter):
        if monitor:
            monitor(iteration, state.value, state.slope_norm)
        if state.slope_norm <= tol:
            return Result(state, objective, True, "the slope is below tol")
        E = _newton_direction(state)
        slope = vdot(E, state.slope)
        moved = _line_search(state, E, slope)
        # Far below rounding D falls by chance only, last digit by last digit: there the slope says when to stop.
        if moved is None or (state.slope_norm <= _NEGLIGIBLE and moved.slope_norm >= state.slope_norm):
            return Result(state, objective, _at_rounding(state, slope), "no step decreases the objective further")
        state = moved
        objective.append(state.value)
    return Result(state, objective, state.slope_norm <= tol, "max_iter was reached")


def _best_eigenvalues(state: Evaluation, n_steps: int = 6) -> Evaluation:
    """Minimise D over the eigenvalues alone: Newton in log λ on a f_S(λ) + b f_D(λ).

    a and b are the diagonals of A and B in the eigenbasis. Each scalar problem is convex in log λ;
    an eigenvalue that a step would not improve keeps its value. O(d) per step.
    """
    xp, a, b = namespace(state.lam), state.a, state.b
    adversary, lam = state.adversary, state.lam
    f_S, f_D = adversary.similar, adversary.dissimilar
    cost = a * f_S.value(lam) + b * f_D.value(lam)
    for _ in range(n_steps):
        slope = lam * (a * f_S.slope(lam) + b * f_D.slope(lam))
        curvature = slope + lam**2 * (a * f_S.second_derivative(lam) + b * f_D.second_derivative(lam))
        limit = xp.maximum(curvature, xp.abs(slope))
        step = xp.where(limit > 0.0, -slope / xp.where(limit > 0.0, limit, xp.ones_like(lam)), xp.zeros_like(lam))
        if float(xp.max(xp.abs(step))) < 1e-9:
            break
        trial = xp.minimum(lam * xp.exp(step), 0.5 * (lam + adversary.bound))
        trial_cost = a * f_S.value(trial) + b * f_D.value(trial)
        # Near the minimum rounding hides the decrease, while Newton's step is still right: without it, only half of an
        # eigenvalue's digits would be, and these would depend on the last digit of A and B.
        better = (trial_cost < cost) | (xp.abs(step) < 1e-4)
        if not bool(xp.any(better)):
            break
        lam, cost = xp.where(better, trial, lam), xp.where(better, trial_cost, cost)
    return state.against(adversary, lam)


def _newton_direction(state: Evaluation, max_products: int = 50) -> Matrix:
    """Solve Hess[E] = -slope by preconditioned conjugate gradients, as far as Newton's rate needs.

    Always a direction of descent: the iterates of CG are, and a direction of negative curvature
    ends it.
    """
    precondition = _preconditioner(state)
    residual = -state.slope
    E = namespace(residual).zeros_like(residual)
    z = precondition(residual)
    direction, rho = z, vdot(residual, z)
    target = norm(residual) * min(0.1, math.sqrt(state.slope_norm))
    for product in range(max_products):
        curved = state.hessian_product(direction)
        curvature = vdot(direction, curved)
        if curvature <= 0.0:
            return direction if product == 0 else E
        step = rho / curvature
        E = E + step * direction
        residual = residual - step * curved
        if norm(residual) <= target:
            break
        z = precondition(residual)
        rho, previous = vdot(residual, z), rho
        direction = z + (rho / previous) * direction
    return symmetrize(E)


def _preconditioner(state: Evaluation) -> Callable[[Matrix], Matrix]:
    """Inverse of an approximate Hessian: the surrogate's, corrected entry by entry.

    With G_S and G_D the two parts of the gradient, tr(M'G_S) - tr(M'⁻¹ M G_D M) has D's slope at M
    and the Hessian E ↦ (KE + EK)/2, K = M^{1/2}(G_S - G_D)M^{1/2}: a Lyapunov operator, exact for
    the parts λ and 1/λ of the objective and inverted by one ``eigh``. The curvature of the
    adversary's part is diagonal where A and B are; its ratio to the surrogate's scales the entries.
    The first is what counts near t = 1/2, the second at small t and large alpha.
    """
    K = symmetrize(state.scale(state.similar_gradient - state.dissimilar_gradient))
    xp = namespace(K)
    kappa, V = xp.linalg.eigh(K)
    kappa = xp.clip(kappa, 1e-3 * float(xp.max(xp.abs(kappa))), None)
    lyapunov = 0.5 * (kappa[:, None] + kappa)
    k = xp.clip(xp.linalg.diagonal(K), 1e-12 * float(kappa[-1]), None)
    surrogate = 0.5 * (k[:, None] + k)
    correction = xp.sqrt(surrogate / xp.maximum(state.hessian_entries, 0.05 * surrogate))

    def inverse(R: Matrix) -> Matrix:
        inner = V.T @ (correction * R) @ V
        return correction * (V @ (inner / lyapunov) @ V.T)

    return inverse


def _at_rounding(state: Evaluation, slope: float) -> bool:
    """Whether rounding hides what is left to gain, for the slope of D along Newton's direction.

    Newton's step lowers D by about half of that slope; with a relative slope s, D is within about s² of its minimum.
    """
    return abs(slope) <= 1e-12 * abs(state.value) or state.slope_norm <= _NEGLIGIBLE


def _line_search(state: Evaluation, E: Matrix, slope: float, armijo: float = 1e-4) -> Evaluation | None:
    """First step 1, 1/2, 1/4 … that decreases D enough; None if rounding hides every decrease."""
    half_square = 0.5 * (E @ E)
    eye = identity_like(E)
    for halving in range(40):
        step = 0.5**halving
        moved = state.rotated(state.scale(eye + step * E + step**2 * half_square))
        if not moved.feasible:
            continue
        moved = _best_eigenvalues(moved)
        if moved.value < state.value and moved.value <= state.value + armijo * step * slope:
            return moved
    return None


# --- the paper's own solvers ----------------------------------------------------------------------------


def projected_gradient(
    A: Matrix,
    B: Matrix,
    adversary: Adversary,
    *,
    step_size: float | None = None,
    tol: float = 1e-5,
    max_iter: int = 1000,
    floor: float = 1e-8,
    monitor: Monitor | None = None,
) -> Result[Evaluation]:
    """Algorithm 1: M ← P_S(M - ρ∇D(M)) from M = I, with the exact gradient.

    ``step_size`` is the fixed ρ of the paper (0.001 there); None chooses it by backtracking. The
    paper truncates eigenvalues at 0, where the loss is infinite; here they stay above ``floor``. A
    fixed ρ that diverges is noticed and reported; the best M seen is returned. Where no step decreases
    D, the solver has converged if Newton's step would gain nothing either, as in :func:`geodesic`.
    """
    ceiling = (1.0 - 1e-6) * adversary.bound
    state = evaluate(identity_like(A) * min(1.0, 0.5 * adversary.bound), A, B, adversary)
    objective, best = [state.value], state
    rho = 1.0 if step_size is None else step_size
    for iteration in range(max_iter):
        if monitor:
            monitor(iteration, state.value, state.slope_norm)
        if state.slope_norm <= tol:
            return Result(state, objective, True, "the slope is below tol")
        M, gradient = state.matrix, state.gradient
        least = float(np.finfo(float).eps) * norm(M)
        while True:
            projected = project_spd(M - rho * gradient, floor, ceiling)
            moved = evaluate(projected, A, B, adversary)
            if step_size is not None or moved.value <= state.value - 1e-4 / rho * norm(projected - M) ** 2:
                break
            if not rho * norm(gradient) >= least:  # a smaller step would not change M
                at_rounding = _at_rounding(state, vdot(_newton_direction(state), state.slope))
                return Result(state, objective, at_rounding, "no step decreases the objective further")
            rho *= 0.5
        state = moved
        objective.append(state.value)
        if state.value < best.value:
            best = state
        elif not math.isfinite(state.value) or state.value > 1e6 * abs(objective[0]):
            return Result(best, objective, False, f"diverged: the fixed step_size={step_size} is too large")
        if step_size is None:
            rho *= 2.0
    return Result(best, objective, best.slope_norm <= tol, "max_iter was reached")


def alternating(
    start: Evaluation, *, tol: float = 1e-5, max_iter: int = 100, monitor: Monitor | None = None
) -> Result[Evaluation]:
    """Eq. 5: confusion and distinguishment in turn, each solved exactly.

    With the adversarial pairs fixed, the best metric is the geometric mean of the scatter of real
    and adversarial pairs together, A + α u(M)Au(M) and B + α w(M)Bw(M) with the adversary's
    stretches u and w. The game need not converge: a step is halved (along the geodesic) whenever
    the next move is not shorter than the last. Its fixed point is not a minimum of D, in which the
    metric foresees the adversary's answer; ``objective`` records D all the same.
    """
    state, adversary = start, start.adversary
    objective = [state.value]
    damping, last_move = 1.0, math.inf
    for iteration in range(max_iter):
        u, w = adversary.stretch_similar(state.lam), adversary.stretch_dissimilar(state.lam)
        A_union = state.A_hat * (1.0 + adversary.alpha * outer(u, u))
        B_union = state.B_hat * (1.0 + adversary.alpha * outer(w, w))
        answer = Geodesic.between(symmetrize(A_union), symmetrize(B_union)).at(0.5)
        # Affine-invariant distance from M to the answer, per direction.
        xp = namespace(answer)
        ratio = xp.linalg.eigvalsh(symmetrize(answer / outer(state.root, state.root)))
        move = norm(xp.log(ratio)) / math.sqrt(ratio.shape[0])
        if monitor:
            monitor(iteration, state.value, move)
        if move <= tol:
            return Result(state, objective, True, "the game came to rest")
        if move >= last_move:
            damping *= 0.5
        last_move = move
        while True:
            moved = state.rotated(geometric_mean(identity_like(answer) * state.lam, answer, damping))
            if moved.feasible:
                break
            damping *= 0.5
            if damping < 1e-12:
                return Result(state, objective, False, "the game leaves the adversary's bound")
        state = moved
        objective.append(state.value)
    return Result(state, objective, False, "max_iter was reached")
