"""ITML: information-theoretic metric learning, the LogDet-nearest metric that meets bounds on pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from math import log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import dger

from ..bounds import BoundedPairs, bounded_pairs, check_bounds
from ..checks import check_choice, check_number
from ..learner import LabelledPoints, MetricLearner
from ..linalg import Matrix, Vector, symmetrize
from ..moments import check_prior
from ..optimize.armijo import lbfgs_descent
from ..progress import progress_logger
from ..supervision import Pairs, make_sampler

__all__ = ["ITML", "Evaluation", "Solution", "evaluate", "minimise", "projections"]

Monitor = Callable[[int, float, float], None]

SOLVERS = ("lbfgs", "projections")
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


@dataclass(frozen=True)
class Solution:
    """Where a solver ended: M = GGᵀ."""

    G: Matrix
    objective: list[float]
    converged: bool
    message: str


def evaluate(problem: BoundedPairs, G: Matrix, gamma: float) -> Evaluation:
    """F(M) = LogDet(M, I) + γ Σ φ(vᵀMv / b), φ(x) = x - log x - 1 where the bound b is broken, else 0.

    The slack that costs least is ξ = vᵀMv for pairs that break their bound and ξ = b for the others: put
    in, ITML's constrained problem is this convex one without constraints, with a continuous gradient.
    O(nd² + Nd).
    """
    d = len(G)
    Z = problem.rows @ G
    x = problem.inner(Z, Z) / problem.bound
    broken = problem.sign * (x - 1.0) > 0.0
    x = np.where(broken, x, 1.0)
    _, log_det = np.linalg.slogdet(G)
    value = np.sum(G**2) - 2.0 * log_det - d + gamma * np.sum(x - 1.0 - np.log(x))
    # γφ'(x)/b = γ(1/b - 1/ξ): λ for similar pairs, -λ for dissimilar ones.
    multipliers = gamma * (1.0 - 1.0 / x) / problem.bound
    gradient = symmetrize(G.T @ G - np.eye(d) + problem.moment(multipliers, Z, Z))
    return Evaluation(G, float(value), gradient)


def minimise(
    problem: BoundedPairs,
    gamma: float,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    monitor: Monitor | None = None,
) -> Solution:
    """Minimise F by L-BFGS over G: straight to the optimum that the projections creep towards.

    Stops when ‖Gᵀ∇F(M)G‖_F <= tol · F(M).
    """

    def function(G: Matrix) -> tuple[float, Matrix]:
        state = evaluate(problem, G, gamma)
        return state.value, np.asarray(2.0 * np.linalg.solve(G.T, state.gradient), dtype=np.float64)

    def slope(G: Matrix, value: float, gradient: Matrix) -> float:
        return float(np.linalg.norm(0.5 * G.T @ gradient)) / max(value, np.finfo(float).eps * len(G))

    found = lbfgs_descent(function, np.eye(problem.rows.shape[1]), slope, tol=tol, max_iter=max_iter, monitor=monitor)
    return Solution(found.x, found.objective, found.converged, found.message(tol))


# --- the authors' algorithm -----------------------------------------------------------------------------


def projections(
    problem: BoundedPairs,
    gamma: float,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    monitor: Monitor | None = None,
) -> Solution:
    """The authors' algorithm: cyclic Bregman projections onto one bound after another.

    Each projection is an exact step of coordinate ascent on the dual

        logdet(I + Σ ±λvvᵀ) + γ Σ log(b/ξ),   1/ξ = 1/b ∓ λ/γ,   λ >= 0,

    whose value by sweep is ``objective``. Stops when λ changes over a sweep by less than tol, relatively.
    With numba and up to 100 features the loop is compiled, O(d²) a pair; else 64 pairs at a time share
    matrix products, at the same result.
    """
    d = problem.rows.shape[1]
    M, lam, inverse_slack = np.eye(d), np.zeros(len(problem)), 1.0 / problem.bound
    visit = (_compiled_visit() if d <= _COMPILED_UP_TO else None) or _visit_by_blocks
    size = max(_BLOCK, (1 << 22) // (8 * d) // _BLOCK * _BLOCK)
    objective, change = [0.0], np.inf
    for sweep in range(max_iter):
        before, gain = lam.copy(), 0.0
        for block in problem.blocks(size):
            V = np.ascontiguousarray(problem.differences(problem.rows, block))
            gain += visit(V, problem.sign[block], M, lam[block], inverse_slack[block], gamma)
        objective.append(objective[-1] + gain)
        norms = np.linalg.norm(lam) + np.linalg.norm(before)
        change = float(np.abs(lam - before).sum() / norms) if norms else 0.0
        if monitor:
            monitor(sweep + 1, objective[-1], change)
        if change < tol:
            break
    message = f"the multipliers still change by {change:.1e} in a sweep, more than {tol:g}"
    return Solution(_from_dual(problem, lam, M), objective, change < tol, message)


def _from_dual(problem: BoundedPairs, lam: Vector, M: Matrix) -> Matrix:
    """G with GGᵀ = (I + Σ ±λvvᵀ)⁻¹, which is M but for the rounding that its updates gathered."""
    K = np.eye(len(M)) + problem.moment(problem.sign * lam, problem.rows, problem.rows)
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
    """``_visit``, compiled; None without numba."""
    try:
        njit = import_module("numba").njit
    except ImportError:
        return None
    compiled: Callable[..., float] = njit(cache=True, fastmath={"reassoc", "contract"}, error_model="numpy")(_visit)
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


# --- the estimator --------------------------------------------------------------------------------------


class ITML(MetricLearner):
    """Information-Theoretic Metric Learning.

    Minimises over positive definite M and slacks ξ

        LogDet(M, M₀) + γ Σ LogDet(ξ, b),   vᵀMv <= ξ (similar pairs),   vᵀMv >= ξ (dissimilar pairs),

    LogDet(P, Q) = tr(PQ⁻¹) - log det(PQ⁻¹) - d: the metric nearest to the prior M₀ that brings the
    squared distances of similar pairs below an upper bound b and those of dissimilar pairs above a lower
    one, where broken bounds cost γ.

    Parameters
    ----------
    gamma : float > 0, default=1.0
        Price of broken bounds, pair by pair. The more pairs, the smaller it should be: what counts
        against the prior is the sum over all pairs. The authors tune it over 10⁻⁴ … 10⁴.
    prior : "identity", "covariance" or (d, d) array, default="identity"
        M₀. "covariance" is the inverse covariance of the points.
    bounds : (upper, lower), optional
        Bounds on *squared* distances; by default from ``percentiles``.
    percentiles : (low, high), default=(5, 95)
        The upper bound is the low percentile of the squared distances under M₀ between the points, the
        lower bound the high one. (metric-learn takes them of distances that are not squared, a slip.)
    solver : {"lbfgs", "projections"}, default="lbfgs"
        "lbfgs" goes straight to the optimum; "projections" are the authors' cyclic Bregman projections,
        which approach it slowly when gamma times the number of pairs is large (a thousand sweeps are
        often not enough) or when the pairs, visited in the order given, come sorted by kind. They are
        compiled if numba is installed.
    max_iter : int, default=1000
        Iterations or sweeps at most.
    tol : float, default=1e-3
        For "lbfgs", stop when ‖M^{1/2}∇F M^{1/2}‖_F <= tol · F, F the objective; for "projections", when
        the multipliers change by less than tol in a sweep, relatively (the authors' rule).
    pairs : "random", "balanced", "neighbors", "all", int or sampler, default="random"
        With class labels, which pairs of points to learn from; "random" draws 1000 c (c - 1). "all"
        lists every pair and is refused beyond 2000 points.
    preprocessor : (n, d) array, optional
        Points that index pairs refer to.
    random_state : int, RandomState or None
        For drawing pairs, and for the sample of distances behind the percentiles.
    verbose : int, default=0
        1 logs each iteration.

    Attributes
    ----------
    components_ : (d, d) array
        L, with M = LᵀL. Rows from the largest eigenvalue (relative to the prior) to the smallest.
    bounds_ : (upper, lower)
        Bounds on squared distances that were used.
    n_iter_, converged_ : iterations or sweeps, whether tol was met
    objective_ : array
        By iteration: the objective above with the best slacks (never increasing) for "lbfgs"; the dual
        objective (never decreasing, with the same optimum) for "projections".
    duality_gap_ : float
        The objective is at most that far above its minimum; infinite if M is too far from the optimum
        to tell.

    Notes
    -----
    "lbfgs": O(nd² + Nd + d³) an iteration for N pairs of n points, because pairs act through the sparse
    graph of the points; measured on one core, 0.1 s at N = 650 000, n = 20 000, d = 16 and 1.9 s at
    n = 5000, d = 617. "projections": O(Nd²) a sweep; at d = 16, 0.25 µs a pair with numba and 2 µs without.
    Memory: one copy of the points, O(d²), and about 100 bytes a pair. Isolet (6 238 × 617, 650 000 pairs) by
    "lbfgs": 78 iterations, 190 s and 0.35 GB on two cores that others used as well. Pairs of equal points are
    skipped.

    Certainty: the projections are those of the authors' code as read; its bounds are the centres of two
    bins of a histogram over 100 random distances, here they are percentiles, as in the paper.

    References
    ----------
    J. Davis, B. Kulis, P. Jain, S. Sra, I. Dhillon. Information-Theoretic Metric Learning. ICML 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), ITML(gamma=0.01, random_state=0), KNeighborsClassifier(5))
    >>> bool(model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.95)
    True
    """

    def __init__(
        self,
        *,
        gamma: float = 1.0,
        prior: str | ArrayLike = "identity",
        bounds: tuple[float, float] | None = None,
        percentiles: tuple[float, float] = (5, 95),
        solver: str = "lbfgs",
        max_iter: int = 1000,
        tol: float = 1e-3,
        pairs: Any = "random",
        preprocessor: ArrayLike | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.gamma = gamma
        self.prior = prior
        self.bounds = bounds
        self.percentiles = percentiles
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.pairs = pairs
        self.preprocessor = preprocessor
        self.random_state = random_state
        self.verbose = verbose

    def _check_params(self) -> None:
        check_number("gamma", self.gamma, 0.0, open_low=True)
        check_number("tol", self.tol, 0.0)
        check_number("max_iter", self.max_iter, 1)
        check_choice("solver", self.solver, SOLVERS)
        check_bounds(self.bounds, self.percentiles)
        make_sampler(self.pairs)

    def _learn(self, data: LabelledPoints | Pairs, **extra: Any) -> Matrix:
        root = prior_root(self.prior, data.X)
        problem = bounded_pairs(
            data,
            pairs=self.pairs,
            bounds=self.bounds,
            percentiles=self.percentiles,
            root=root,
            random_state=self.random_state,
        )
        self.bounds_ = problem.original_bounds
        log = progress_logger(self.verbose)

        def monitor(iteration: int, value: float, slope: float) -> None:
            if log:
                log(f"ITML {self.solver} iteration {iteration}: objective = {value:.10g}, to tol: {slope:.2e}")

        solve = minimise if self.solver == "lbfgs" else projections
        solution = solve(problem, float(self.gamma), tol=self.tol, max_iter=int(self.max_iter), monitor=monitor)
        self.duality_gap_ = evaluate(problem, solution.G, float(self.gamma)).gap
        self._report(solution.objective, solution.converged, solution.message)
        U, singular, _ = np.linalg.svd(solution.G)
        components: Matrix = (U * singular).T
        return components if root is None else components @ root.T


def prior_root(prior: Any, X: Matrix) -> Matrix | None:
    """R with RRᵀ = M₀, or None for the identity."""
    d = X.shape[1]
    if isinstance(prior, str) and prior == "covariance":
        centred = X - X.mean(axis=0, dtype=np.float64)
        scale = float(np.abs(centred).max()) or 1.0
        e, U = np.linalg.eigh((centred / scale).T @ (centred / scale) / len(X))
        # Directions without spread get the precision of the weakest one that can be told from rounding.
        return U / np.sqrt(np.maximum(e, d * np.finfo(np.float32).eps * max(e[-1], 1.0 / d))) / scale
    if isinstance(prior, str) and prior != "identity":
        raise ValueError(f"prior={prior!r} is not known; use 'identity', 'covariance' or a positive definite array.")
    matrix = check_prior(prior, d)
    return None if matrix is None else np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
