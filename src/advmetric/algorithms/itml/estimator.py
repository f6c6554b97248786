"""ITML: information-theoretic metric learning, the LogDet-nearest metric that meets bounds on pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from advmetric.learners.base import ITERATION_CONSTRAINTS, IterativeLearner
from advmetric.learners.prior import check_prior, covariance_root, prior_matrix
from advmetric.optimize.result import make_monitor
from advmetric.pairs.bounds import bounded_pairs, check_bounds, check_percentiles
from advmetric.pairs.data import Samples
from advmetric.pairs.samplers import check_sampler
from advmetric.utils.parameters import Choice, Real
from advmetric.utils.typing import Matrix

from .solvers import SOLVERS, evaluate

__all__ = ["ITML"]


class ITML(IterativeLearner):
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
    pairs, preprocessor, random_state, verbose
        As for :class:`~advmetric.AML`, with pairs="random" by default; "all" lists every pair and is refused beyond
        2000 points. The sample of distances behind the percentiles is drawn with ``random_state``, too.

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

    See Also
    --------
    PairAML : Logistic loss instead of bounds.
    FlatGeo : Bounds with metrics of fixed rank.

    Notes
    -----
    "lbfgs": O(nd² + Nd + d³) per iteration for N pairs of n points, because pairs act through the sparse
    graph of the points; measured on one core, 0.1 s at N = 650 000, n = 20 000, d = 16 and 1.9 s at
    n = 5000, d = 617. "projections": O(Nd²) per sweep; at d = 16, 0.25 µs per pair with numba and 2 µs without.
    Memory: one copy of the points, O(d²), and about 100 bytes per pair. Isolet (6 238 × 617, 650 000 pairs) by
    "lbfgs": 78 iterations, 190 s and 0.35 GB on two cores that others used as well. Pairs of equal points are
    skipped.

    Certainty: the projections are those of the authors' code as read; its bounds are the centres of two
    bins of a histogram over 100 random distances, here they are percentiles, as in the paper.

    References
    ----------
    J. Davis, B. Kulis, P. Jain, S. Sra, I. Dhillon. Information-Theoretic Metric Learning. ICML 2007.

    Examples
    --------
    >>> pairs = np.array([[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])  # a similar and a dissimilar pair
    >>> learner = ITML(gamma=1e4, bounds=(0.5, 2.0)).fit(pairs, [1, -1])
    >>> (learner.pair_distance(pairs) ** 2).round(2).tolist()
    [0.5, 2.0]
    """

    _constraints = {
        **ITERATION_CONSTRAINTS,
        "gamma": Real(0.0, open_low=True),
        "prior": check_prior,
        "bounds": check_bounds,
        "percentiles": check_percentiles,
        "solver": Choice(*SOLVERS),
        "pairs": check_sampler,
    }

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
        self.gamma, self.prior = gamma, prior
        self.bounds, self.percentiles, self.pairs = bounds, percentiles, pairs
        self.solver = solver
        super().__init__(
            max_iter=max_iter, tol=tol, preprocessor=preprocessor, random_state=random_state, verbose=verbose
        )

    def _learn(self, data: Samples, **extra: Any) -> Matrix:
        root = prior_root(self.prior, data)
        problem = bounded_pairs(
            data,
            pairs=self.pairs,
            bounds=self.bounds,
            percentiles=self.percentiles,
            root=root,
            random_state=self.random_state,
        )
        self.bounds_ = problem.original_bounds
        monitor = make_monitor(f"ITML {self.solver}", self.verbose, "distance to tol")
        found = SOLVERS[self.solver](problem, self.gamma, tol=self.tol, max_iter=self.max_iter, monitor=monitor)
        self.duality_gap_ = evaluate(problem, found.x, self.gamma).gap
        self._report(found)
        U, singular, _ = np.linalg.svd(found.x)
        components: Matrix = (U * singular).T
        return components if root is None else components @ root.T


def prior_root(prior: Any, data: Samples) -> Matrix | None:
    """Return R with RRᵀ = M₀, or None for the identity."""
    if isinstance(prior, str) and prior == "covariance":
        return covariance_root(data.X)
    matrix = prior_matrix(prior, data, data.X.shape[1])
    return None if matrix is None else np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
