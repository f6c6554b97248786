"""Two solvers of ITML's problem: L-BFGS on the equivalent problem without constraints, and the authors' projections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import log

import numpy as np
from scipy.linalg.blas import dger

from advmetric.linalg.spd import symmetrize
from advmetric.optimize.lbfgs import minimize_lbfgs
from advmetric.optimize.result import Monitor, Result
from advmetric.pairs.bounds import BoundedPairs
from advmetric.utils.optional import is_installed, require
from advmetric.utils.typing import Matrix, Vector

__all__ = ["SOLVERS", "Evaluation", "evaluate", "minimise", "projections"]

_BLOCK = 64
"""Pairs that share one rank-k update in the uncompiled sweep."""
_COMPILED_UP_TO = 100
"""Features beyond which BLAS on blocks of pairs beats a compiled loop over single pairs."""


@dataclass(frozen=True)
class Evaluation:
    """F at M = GGᵀ."""

    G: Matrix
    value: float
    gradient: Matrix
    """Gᵀ ∇F(M) G: the gradient where M is the identity."""

    @property
    def gap(self) -> float:
        """Duality gap: F(M) is at most that far above the minimum, and so is LogDet(M, M*).

        The multipliers λ that M suggests give M₀⁻¹ + Σ ±λvvᵀ = M⁻¹ + ∇F(M), hence the gap
        LogDet(I + Gᵀ∇F(M)G, I); infinite while that matrix is not positive definite.
        """
        e = np.linalg.eigvalsh(self.gradient)
        return float(np.sum(e - np.log1p(e))) if e[0] > -1.0 else np.inf


def evaluate(problem: BoundedPairs, G: Matrix, gamma: float) -> Evaluation:
    """F(M) = LogDet(M, I) + γ Σ φ(vᵀMv / b), φ(x) = x - log x - 1 where the bound b is broken, else 0.

    The slack that costs least is ξ = vᵀMv for pairs that break their bound and ξ = b for the others: put
    in, ITML's constrained problem is this convex one without constraints, with a continuous gradient.
    O(nd² + Nd).
    """
    d = len(G)
    Z = problem.rows @ G
    x = problem.graph.inner(Z, Z) / problem.bound
    broken = problem.sign * (x - 1.0) > 0.0
    x = np.where(broken, x, 1.0)
    _, log_det = np.linalg.slogdet(G)
    value = np.sum(G**2) - 2.0 * log_det - d + gamma * np.sum(x - 1.0 - np.log(x))
    # γφ'(x)/b = γ(1/b - 1/ξ): λ for similar pairs, -λ for dissimilar ones.
    multipliers = gamma * (1.0 - 1.0 / x) / problem.bound
    gradient = G.T @ G - np.eye(d) + problem.graph.scatter(multipliers, Z)
    return Evaluation(G, float(value), gradient)


def minimise(
    problem: BoundedPairs, gamma: float, *, tol: float = 1e-3, max_iter: int = 1000, monitor: Monitor | None = None
) -> Result[Matrix]:
    """Minimise F by L-BFGS over G: directly to the optimum that the projections approach slowly.

    Stops when ‖Gᵀ∇F(M)G‖_F <= tol · F(M).
    """

    def function(G: Matrix) -> tuple[float, Matrix]:
        state = evaluate(problem, G, gamma)
        return state.value, np.asarray(2.0 * np.linalg.solve(G.T, state.gradient), dtype=np.float64)

    def slope(G: Matrix, value: float, gradient: Matrix) -> float:
        return float(np.linalg.norm(0.5 * G.T @ gradient)) / max(value, np.finfo(float).eps * len(G))

    start = np.eye(problem.rows.shape[1])
    return minimize_lbfgs(function, start, slope, tol=tol, max_iter=max_iter, monitor=monitor)


# --- the authors' algorithm -----------------------------------------------------------------------------


def projections(
    problem: BoundedPairs, gamma: float, *, tol: float = 1e-3, max_iter: int = 1000, monitor: Monitor | None = None
) -> Result[Matrix]:
    """The authors' algorithm: cyclic Bregman projections onto one bound after another.

    Each projection is an exact step of coordinate ascent on the dual

        logdet(I + Σ ±λvvᵀ) + γ Σ log(b/ξ),   1/ξ = 1/b ∓ λ/γ,   λ >= 0,

    whose value by sweep is ``objective``. Stops when λ changes over a sweep by less than tol, relatively.
    With numba and up to 100 features the loop is compiled, O(d²) per pair; else 64 pairs at a time share
    matrix products, at the same result.
    """
    d = problem.rows.shape[1]
    M, lam, inverse_slack = np.eye(d), np.zeros(len(problem)), 1.0 / problem.bound
    visit = (_compiled_visit() if d <= _COMPILED_UP_TO else None) or _visit_by_blocks
    size = max(_BLOCK, (1 << 22) // (8 * d) // _BLOCK * _BLOCK)
    objective, change = [0.0], np.inf
    for sweep in range(max_iter):
        before, gain = lam.copy(), 0.0
        for start in range(0, len(problem), size):
            block = slice(start, start + size)
            V = np.ascontiguousarray(problem.graph.differences(problem.rows, block))
            gain += visit(V, problem.sign[block], M, lam[block], inverse_slack[block], gamma)
        objective.append(objective[-1] + gain)
        norms = np.linalg.norm(lam) + np.linalg.norm(before)
        change = float(np.abs(lam - before).sum() / norms) if norms else 0.0
        if monitor:
            monitor(sweep + 1, objective[-1], change)
        if change < tol:
            break
    message = f"the multipliers still change by {change:.1e} in a sweep, more than {tol:g}"
    return Result(_from_dual(problem, lam, M), objective, change < tol, message, change, change >= tol)


def _from_dual(problem: BoundedPairs, lam: Vector, M: Matrix) -> Matrix:
    """G with GGᵀ = (I + Σ ±λvvᵀ)⁻¹, which is M but for the rounding that its updates gathered."""
    K = np.eye(len(M)) + problem.graph.scatter(problem.sign * lam, problem.rows)
    e, U = np.linalg.eigh(symmetrize(K))
    if e[0] > 0.0:
        return U / np.sqrt(e)
    e, U = np.linalg.eigh(symmetrize(M))
    return U * np.sqrt(np.maximum(e, np.finfo(float).eps * e[-1]))


def _visit(V: Matrix, sign: Vector, M: Matrix, lam: Vector, inverse_slack: Vector, gamma: float) -> float:
    """Project onto the bounds of the pairs with differences V, one after another, in place; return the dual's gain.

    Plain loops, for the compiler.
    """
    d = V.shape[1]
    u = np.empty(d)
    share, gain = gamma / (gamma + 1.0), 0.0
    for i in range(V.shape[0]):
        p = 0.0
        for j in range(d):
            total = 0.0
            for k in range(d):
                total += M[j, k] * V[i, k]
            u[j] = total
            p += total * V[i, j]
        if not p > 0.0:  # by rounding, once M is nearly singular
            continue
        a = share * sign[i] * (1.0 / p - inverse_slack[i])
        if a > lam[i]:
            a = lam[i]
        if a != 0.0:
            b = sign[i] * a
            gain += np.log(1.0 - b * p) + gamma * np.log(1.0 + b / (gamma * inverse_slack[i]))
            lam[i] -= a
            inverse_slack[i] += b / gamma
            tau = b / (1.0 - b * p)
            for j in range(d):
                for k in range(d):
                    M[j, k] += tau * u[j] * u[k]
    return gain


@cache
def _compiled_visit() -> Callable[..., float] | None:
    """Return ``_visit`` compiled, or None without numba."""
    if not is_installed("numba"):
        return None
    compile_with = require("numba").njit(cache=True, fastmath={"reassoc", "contract"}, error_model="numpy")
    compiled: Callable[..., float] = compile_with(_visit)
    return compiled


def _visit_by_blocks(V: Matrix, sign: Vector, M: Matrix, lam: Vector, inverse_slack: Vector, gamma: float) -> float:
    """The same as ``_visit`` by matrix products: the loop sees only the k×k Gram matrix VMVᵀ of k pairs."""
    share, gain = gamma / (gamma + 1.0), 0.0
    for start in range(0, len(V), _BLOCK):
        block = slice(start, start + _BLOCK)
        v = V[block]
        U = v @ M
        G = np.asfortranarray(U @ v.T)
        gram = G.copy()
        signs, lams, inverses = sign[block].tolist(), lam[block].tolist(), inverse_slack[block].tolist()
        steps = np.zeros(len(v))
        for i, s in enumerate(signs):
            p = G.item(i, i)
            if not p > 0.0:
                continue
            a = share * s * (1.0 / p - inverses[i])
            if a > lams[i]:
                a = lams[i]
            if a != 0.0:
                b = s * a
                gain += log(1.0 - b * p) + gamma * log(1.0 + b / (gamma * inverses[i]))
                lams[i] -= a
                inverses[i] += b / gamma
                steps[i] = b
                column = G[:, i].copy()
                dger(b / (1.0 - b * p), column, column, a=G, overwrite_a=1)
        lam[block], inverse_slack[block] = lams, inverses
        # (M⁻¹ - vᵀ diag(b) v)⁻¹ = M + Uᵀ (I - diag(b) vMvᵀ)⁻¹ diag(b) U
        system = np.eye(len(v)) - steps[:, None] * gram
        M += symmetrize(U.T @ np.linalg.solve(system, steps[:, None] * U))
    return gain


SOLVERS = {"lbfgs": minimise, "projections": projections}
"""Solvers by the name that the estimator knows them by."""
