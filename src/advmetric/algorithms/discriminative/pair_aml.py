"""PairAML: logistic metric learning from pairs or triplets against an adversary, a convex problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from advmetric.learners.base import ITERATION_CONSTRAINTS, IterativeLearner
from advmetric.learners.incremental import Gatherer
from advmetric.learners.moments import check_n_components
from advmetric.learners.prior import check_prior, prior_matrix
from advmetric.learners.tuning import group_candidates
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.optimize.result import make_monitor
from advmetric.pairs.data import Pairs, Samples
from advmetric.pairs.samplers import check_sampler
from advmetric.utils.arrays import is_lazy
from advmetric.utils.parameters import Choice, Real
from advmetric.utils.typing import Matrix

from .distributed import pose_pairs
from .losses import LogisticPairs, LogisticTriplets
from .pair_problem import automatic_gamma, drawn_pairs, pair_problem
from .problem import Problem
from .solver import minimize
from .triplet_input import Triplets, check_triplets, holds_triplets
from .whitening import SUBSPACES, check_dimensions

__all__ = ["PairAML"]

_SEARCH_TOL = 1e-3
"""Enough to rank candidates; the winner is solved to ``tol``."""


def _check_gamma(name: str, value: Any) -> None:
    if isinstance(value, str):
        Choice("auto")(name, value)
    else:
        Real(0.0)(name, value)


class PairAML(Gatherer, IterativeLearner):
    """Adversarial metric learning with a logistic loss on pairs: convex, with a threshold and probabilities.

    Minimises over positive definite M and a threshold b

        F(M, b) = 1/(1+α) Σ_i w_i [ℓ(y_i(d_i² - b)) + α ℓ(y_i(d̃_i² - b))] + γ (G_t(M)/G_t(M₀) - 1),

    where ℓ(z) = log(1 + eᶻ), d_i² = v_iᵀMv_i is the squared distance of pair i, w_i gives each kind of pair half of the
    weight, and d̃_i is what an adversary makes of it who may move v by δ at the price c‖δ‖², c = β tr(M₀)/r: with
    K = I + M/c, d̃² = vᵀMKv for similar and vᵀMK⁻¹v for dissimilar pairs. G_t(M) = tr(MA_t) + tr(M⁻¹B_t) is the
    geometric mean loss, whose minimiser M₀ = A⁻¹ #_t B is GMML's metric. All traces are over the r directions in which
    pairs differ; in others (constant features) M stays M₀. F is jointly convex in (M, b): there is one optimum.

    For triplets (a, p, n) the loss is the mean of ℓ(d²(a, p) - d²(a, n)), without b; it is convex, too.

    Parameters
    ----------
    alpha : float >= 0, default=1.0
        Weight of the adversarial pairs; 0 gives logistic metric learning, regularised by G_t.
    beta : float > 0, default=30.0
        Price of the adversary's moves. The smaller, the more directions in which M is large are shrunk.
    gamma : "auto" or float >= 0, default="auto"
        Weight of the geometric mean loss. Large values give GMML's metric at t, small ones follow the pairs only.
        "auto" is 0.1 r(r+1)/N for N pairs in r dimensions, between 0.01 and 1: a fifth of the number of free entries of
        M per pair.
    t : float in [0, 1], default=0.25
        Place of M₀ on the geodesic from A⁻¹ (0) to B (1).
    reg : float >= 0, default=1e-3
        Strength of the prior in A and B: reg (tr A/d) P⁻¹ is added to A, reg (tr B/d) P to B.
    prior : "identity", "covariance" or (d, d) array, default="identity"
        Positive definite matrix P. "covariance" is the inverse covariance of the points.
    n_components : int, None or "auto", default="auto"
        Learn in a subspace of so many dimensions, in which the problem stays convex; None for all. "auto" stands for
        all, or, where the pairs differ in more than 150 dimensions, for principal components: 150, or as many as hold
        90 % of the variance.
    subspace : {"discriminant", "principal"}, default="discriminant"
        With a number of components: the leading generalised eigenvectors of (B, A), or the principal components of the
        differences. The former tell similar from dissimilar pairs in few dimensions, but fit noise where there are
        many features for the number of pairs; then take the latter.
    pairs : "balanced", "random", "neighbors", "all", int or sampler, default="balanced"
        With class labels, which pairs of points to learn from. "balanced" draws 10 pairs per point (at least 1000, at
        most 10⁶), as many similar as dissimilar ones; "all" lists all n(n-1)/2.
    max_iter : int, default=1000
        Iterations at most.
    tol : float, default=1e-5
        Stop when ‖M^{1/2}∇F M^{1/2}‖_F and the size of b ∂F/∂b are at most tol · F, or when no step lowers F any more.
    preprocessor, random_state, verbose
        As for :class:`~advmetric.AML`; index triplets refer to ``preprocessor``, too.

    Attributes
    ----------
    components_ : (r, d) array
        L, with M = LᵀL, rows from the largest singular value down. Its unit is that of the loss: b - d² are the
        log-odds of "similar".
    threshold_ : float
        After pairs: √b. Pairs no farther apart are called similar, those with P(similar) >= 1/2.
    squared_threshold_ : float
        b, after pairs or labelled points.
    classes_ : class labels, or [-1, 1] after pairs; not set after triplets
    n_features_in_, feature_names_in_ : number and, for DataFrames, names of the features
    n_iter_, converged_, objective_ : iterations, whether the stopping rule was met, F by iteration
    gamma_ : float
        The weight that was used.
    slope_ : float
        The relative slope at the end.

    See Also
    --------
    NeighborAML : For k-NN with class labels.
    AMLCV : Chooses the loss.
    GMML : Its regulariser, in closed form.

    Notes
    -----
    An evaluation takes O(Nr + nr²) for N pairs of n points in r dimensions and O(r³); index pairs are never expanded to
    differences where there are more pairs than points. Memory: O(N) and a few copies of the points. For fewer rows than
    features (n < d) all is done in their span, exactly. Squared distances are in units of their median over the pairs
    under M₀, so that the parameters mean the same at any scale of the features; multiplying all features by a number
    divides ``components_`` by it and changes nothing else.

    References
    ----------
    S. Chen, C. Gong, J. Yang, X. Li, Y. Wei, J. Li. Adversarial Metric Learning. IJCAI 2018 (the framework).
    M. Guillaumin, J. Verbeek, C. Schmid. Is that you? Metric learning approaches for face identification. ICCV 2009
    (logistic loss). P. Zadeh, R. Hosseini, S. Sra. Geometric Mean Metric Learning. ICML 2016 (the regulariser).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> left, right = np.triu_indices(len(X), 1)
    >>> index_pairs, same = np.column_stack([left, right])[::50], np.where(y[left] == y[right], 1, -1)[::50]
    >>> learner = PairAML(preprocessor=X).fit(index_pairs, same)
    >>> probability = learner.predict_proba(index_pairs)[:, 1]
    >>> bool(np.mean((probability > 0.5) == (same == 1)) > 0.9)
    True
    """

    supervision = ("points", "pairs", "triplets")
    _constraints = {
        **ITERATION_CONSTRAINTS,
        "alpha": Real(0.0),
        "beta": Real(0.0, open_low=True),
        "gamma": _check_gamma,
        "t": Real(0.0, 1.0),
        "reg": Real(0.0),
        "prior": check_prior,
        "n_components": check_dimensions,
        "subspace": Choice(*SUBSPACES),
        "pairs": check_sampler,
    }

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        beta: float = 30.0,
        gamma: float | str = "auto",
        t: float = 0.25,
        reg: float = 1e-3,
        prior: str | ArrayLike = "identity",
        n_components: int | str | None = "auto",
        subspace: str = "discriminant",
        pairs: Any = "balanced",
        max_iter: int = 1000,
        tol: float = 1e-5,
        preprocessor: ArrayLike | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.alpha, self.beta, self.gamma = alpha, beta, gamma
        self.t, self.reg, self.prior = t, reg, prior
        self.n_components, self.subspace, self.pairs = n_components, subspace, pairs
        super().__init__(
            max_iter=max_iter, tol=tol, preprocessor=preprocessor, random_state=random_state, verbose=verbose
        )

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> PairAML:
        """Learn the metric.

        Parameters
        ----------
        X : array-like of shape (n, d), (N, 2, d), (N, 3, d), or (N, 2) or (N, 3) integers with ``preprocessor``
            Points, pairs or triplets of points, or pairs or triplets of row numbers of the preprocessor.
        y : array-like
            Class labels of points; +1 (similar) and -1 (dissimilar) for pairs; for triplets (a, p, n) None, or +1 where
            a is nearer to p and -1 where it is nearer to n.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if not is_lazy(X) and holds_triplets(X, self.preprocessor):
            return self._fit_triplets(check_triplets(X, y, self.preprocessor))
        self._fit(X, y)
        return self

    def _fit_triplets(self, triplets: Triplets) -> PairAML:
        fresh = self._unfitted()
        fresh._check_params()
        fresh.n_features_in_ = triplets.X.shape[1]
        fresh._set_metric(fresh._learn_finite(triplets))
        adopted: PairAML = self._adopt(fresh)
        return adopted

    def _pose(self, data: Samples | Triplets) -> tuple[Problem, float]:
        """Return the problem in whitened coordinates, and the divisor of the features."""
        d = self.n_features_in_
        check_n_components(self.n_components, d)
        samples = data.pairs() if isinstance(data, Triplets) else data
        return pair_problem(
            drawn_pairs(samples, self.pairs, self.random_state),
            LogisticTriplets() if isinstance(data, Triplets) else LogisticPairs(),
            alpha=float(self.alpha),
            beta=float(self.beta),
            gamma=None if isinstance(self.gamma, str) else float(self.gamma),
            t=float(self.t),
            reg=float(self.reg),
            prior=prior_matrix(self.prior, samples, d),
            n_components=self.n_components,
            subspace=self.subspace,
            n_features=d,
        )

    def _learn(self, data: Samples | Triplets | Problem, **extra: Any) -> Matrix:
        return self._solve(data, 1.0) if isinstance(data, Problem) else self._solve(*self._pose(data))

    def _fit_collections(self, X: Any, y: Any) -> PairAML:
        """Return a copy that has learned from Dask collections."""
        fresh, problem, pairs = pose_pairs(self, X, y)
        learned: PairAML = fresh
        learned._set_metric(learned._learn_finite(problem), pairs)
        if pairs is not None:
            learned.set_threshold(float(np.sqrt(learned.squared_threshold_)))
        return learned

    def _solve(self, problem: Problem, divisor: float) -> Matrix:
        start = np.eye(len(problem.start.tau))
        monitor = make_monitor("PairAML", self.verbose)
        solution = minimize(problem, start, tol=float(self.tol), max_iter=self.max_iter, monitor=monitor)
        L, b = solution.x
        if problem.loss.has_threshold:
            self.squared_threshold_ = max(b, 0.0)
        self.gamma_, self.slope_ = problem.gamma, solution.slope
        self._report(solution)
        return problem.start.components(L, divisor)

    def _candidate_groups(self, candidates: list[dict[str, Any]]) -> list[list[int]]:
        # Candidates that differ in alpha, beta and gamma only share the whitened problem.
        return group_candidates(candidates, free=("alpha", "beta", "gamma"))

    def _candidate_metrics(self, candidates: list[dict[str, Any]], data: Samples) -> Iterator[tuple[Any, int]]:
        posed: Problem | None = None
        start: tuple[Matrix, float] | None = None
        for params in candidates:
            learner = self._unfitted().set_params(**params)
            learner._check_params()
            learner.n_features_in_ = data.n_features
            if posed is None:
                posed, divisor = learner._pose(data)
            if start is None:
                start = np.eye(posed.start.Z.shape[1]), 1.0
            p, N = posed.start.Z.shape[1], len(posed.near) + len(posed.far)
            gamma = automatic_gamma(p, N) if isinstance(learner.gamma, str) else float(learner.gamma)
            problem = replace(posed, alpha=float(learner.alpha), beta=float(learner.beta), gamma=gamma)
            solution = minimize(problem, *start, tol=max(learner.tol, _SEARCH_TOL), max_iter=learner.max_iter)
            # The problem is convex: any start leads to the same metric, but not in a few iterations.
            start = solution.x if solution.converged else None
            yield Mahalanobis(problem.start.components(solution.x[0], divisor)), max(1, solution.n_iter)

    def _choose_threshold(self, pairs: Pairs) -> None:
        """Take √b, which the problem was solved for, instead of the most accurate threshold."""
        super()._choose_threshold(pairs)
        self.set_threshold(float(np.sqrt(self.squared_threshold_)))

    def set_threshold(self, threshold: float) -> PairAML:
        """Call pairs similar up to this distance √b; their log-odds are then b - d², as in the loss."""
        super().set_threshold(threshold)
        self.calibration_ = -1.0, self.threshold_ * abs(self.threshold_), 2.0
        return self

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Area under the ROC curve on pairs or labelled points; for triplets, the share of those in the right order."""
        if not holds_triplets(X, self.preprocessor):
            labels: Any = y
            return super().score(X, labels)
        self._check_fitted()
        triplets = check_triplets(X, y, self.preprocessor)
        if triplets.X.shape[1] != self.n_features_in_:
            d = self.n_features_in_
            raise ValueError(f"triplets have {triplets.X.shape[1]} features, but PairAML is expecting {d} features.")
        distances = self.get_metric().pair_distance(triplets.pairs())
        near, far = distances[: len(triplets)], distances[len(triplets) :]
        return float(np.mean(near < far))
