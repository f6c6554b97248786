"""NeighborAML: margins, probabilities or radii of neighbours against an adversary, for k-NN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from advmetric.learners.base import ITERATION_CONSTRAINTS, IterativeLearner
from advmetric.learners.incremental import Gatherer
from advmetric.learners.moments import check_n_components
from advmetric.learners.prior import check_prior, prior_matrix
from advmetric.learners.tuning import group_candidates
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.optimize.result import make_monitor
from advmetric.pairs.data import LabelledPoints
from advmetric.pairs.triplets import centred
from advmetric.utils.parameters import Choice, Optional, Real, Whole
from advmetric.utils.typing import Matrix

from .candidates import Candidates, choose_anchors, chooses_few, find_candidates
from .distributed import NeighborParts
from .neighbor_problem import LOSSES, Rounds, loss_of, mean_radius, pose_neighbors, solve_rounds, start_of_points
from .problem import Problem
from .whitening import SUBSPACES, Whitened, check_dimensions

__all__ = ["NeighborAML"]

_SEARCH_TOL, _SEARCH_REFRESHES = 2e-2, 1
"""Enough to rank candidates: of 12 settings on two sets, the accuracy in a fold changed by 0.002 on average."""
_SIZES = {"margin": (3, 5), "softmax": (10, 10), "radius": (10, 5)}
"""Default numbers of candidates of the same class and of other classes."""
_Posed = tuple[Whitened, Candidates, float]
"""Whitened points, their first candidates, and the divisor of the features."""


class NeighborAML(Gatherer, IterativeLearner):
    """Adversarial metric learning with a loss on neighbours, for k-NN classification.

    Minimises over positive definite M

        F(M) = [N(d²) + α N(d̃²)] / (1 + α) + γ (G_t(M)/G_t(M₀) - 1),

    where N is a loss of the squared distances of each point i to candidates S_i (the nearest points of its class) and
    D_i (the nearest of other classes),

        "margin":   N = mean over i, j ∈ S_i, l ∈ D_i of ℓ(d_ij² - d_il² + 1),  ℓ(z) = log(1 + eᶻ),
        "softmax":  N = -mean_i log( Σ_{j ∈ S_i} exp(-d_ij²) / Σ_{j ∈ S_i ∪ D_i} exp(-d_ij²) ),
        "radius":   N = mean over i, j ∈ S_i, l ∈ D_i of ℓ(1 - ρ_ijl/u),  ρ_ijl = (d_il² - d_ij²) / (2 ‖M(x_j - x_l)‖).

    ρ_ijl is the length of the smallest move of point i after which l is as near as j (negative where l is nearer), and
    u is ``radius`` times the mean size of ρ under M₀; N(d̃²) has d̃² in the numerator of ρ only.

    d̃ is what an adversary makes of the distances who may move a difference v by δ at the price c‖δ‖², c = β tr(M₀)/r:
    with K = I + M/c, d̃² = vᵀMKv within a class and vᵀMK⁻¹v between classes. G_t(M) = tr(MA_t) + tr(M⁻¹B_t) is the
    geometric mean loss over all pairs of points, whose minimiser M₀ = A⁻¹ #_t B is GMML's metric and the start. All
    traces are over the r directions in which points differ; in others (constant features) M stays M₀.
    Candidates are found under the current metric and refreshed ``n_refresh`` times. Between refreshes F never rises,
    and with the margin loss it is convex in M.

    Parameters
    ----------
    loss : {"softmax", "margin", "radius"}, default="softmax"
        NCA (with the logarithm) on a graph, a smooth LMNN without its pull term, or ARML with a margin. "radius" is for
        test points that may be moved.
    alpha : float >= 0, default=1.0
        Weight of the adversarial distances; 0 is the loss alone.
    beta : float > 0, default=10.0
        Price of the adversary's moves. The smaller, the more directions in which M is large are shrunk.
    gamma : float >= 0, default=0.1
        Weight of the geometric mean loss. Large values give GMML's metric at t.
    t : float in [0, 1], default=0.1
        Place of M₀ on the geodesic from A⁻¹ (0) to B (1).
    reg : float >= 0, default=1e-3
        Strength of the prior in A and B: reg (tr A/d) P⁻¹ is added to A, reg (tr B/d) P to B.
    prior : "identity" or (d, d) array, default="identity"
        Positive definite matrix P.
    n_components : int, None or "auto", default="auto"
        Learn in a subspace of so many dimensions; None for all. "auto" stands for all, or, where the points span more
        than 150 dimensions, for their principal components: 150, or as many as hold 90 % of the variance.
    subspace : {"discriminant", "principal"}, default="discriminant"
        With a number of components: the leading generalised eigenvectors of (B, A), or the principal components of the
        points. The former tell classes apart in few dimensions, but fit noise where there are many features for the
        number of points, as in images.
    n_neighbors : int, optional
        k_s, candidates of the same class per point; by default 3 for "margin" and 10 for "softmax" and "radius".
        Fewer in classes with fewer members; a point that is alone in its class has no term in the loss.
    n_impostors : int, optional
        k_d, candidates of other classes per point; by default 5 for "margin" and "radius" and 10 for "softmax".
    radius : float > 0, default=0.2
        Of the loss "radius": the radius that counts as a margin of 1, relative to the mean size of the radii under M₀.
        The larger, the more moves are resisted that are long for the points near the border of their class.
    n_refresh : int, default=2
        How often candidates are looked for anew, at most.
    n_anchors : int, optional
        Number of points whose neighbours are looked at, drawn with the shares of the classes; the neighbours come from
        all points. By default all points up to 44 721, and above as many as keep a search within 2·10⁹ distances, but
        at least 5000.
    max_iter : int, default=1000
        Iterations at most, in all.
    tol : float, default=1e-2
        Stop when ‖M^{1/2}∇F M^{1/2}‖_F <= tol · F, or when no step lowers F any more (10 tol before the last refresh).
    preprocessor, random_state, verbose
        As for :class:`~advmetric.AML`; ``random_state`` is for the choice of anchors where not all points are.
        NeighborAML learns from points, so ``preprocessor`` is for ``pair_distance`` and the like.

    Attributes
    ----------
    components_ : (r, d) array
        L, with M = LᵀL, rows from the largest singular value down. Its unit is that of the loss: a margin of 1 in
        squared distances.
    classes_, n_features_in_, feature_names_in_ : class labels; number and, for DataFrames, names of the features
    n_iter_, converged_ : iterations, and whether the last round met its stopping rule
    objective_ : array
        F by iteration; it never rises within a round, and starts anew with each round's candidates.
    round_starts_ : list of int
        Where in ``objective_`` the rounds start.
    candidate_changes_ : list of float
        Share of the candidates that each refresh replaced.
    settled_ : bool
        Whether the last refresh replaced at most 1 % of the candidates: another one would change nothing more.

    See Also
    --------
    PairAML : For pairs and triplets.
    AMLCV : Chooses the loss.
    LMNN : Large margins without an adversary.
    ARML : Radii of triplets drawn at random, without an adversary on pairs.

    Notes
    -----
    For m anchors among n points in r dimensions an evaluation takes O(m(k_s + k_d)r + m k_s k_d + nr²) and a search for
    candidates O(mnr) by BLAS; memory is O(m(k_s + k_d)) and a few copies of the points, never n×n. The radii cost
    O(m k_s k_d r) and O(m k_s k_d). For n < d all is done in the span of the points, exactly. Squared distances are in
    units of the median of those to the nearest neighbour of the same class under M₀, so that the parameters mean the
    same at any scale of the features; multiplying all features by a number divides ``components_`` by it and changes
    nothing else.

    References
    ----------
    S. Chen, C. Gong, J. Yang, X. Li, Y. Wei, J. Li. Adversarial Metric Learning. IJCAI 2018 (the framework).
    K. Weinberger, L. Saul. Distance Metric Learning for Large Margin Nearest Neighbor Classification. JMLR 2009.
    J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov. Neighbourhood Components Analysis. NIPS 2004.
    L. Wang, X. Liu, J. Yi, Y. Jiang, C.-J. Hsieh. Provably Robust Metric Learning. NeurIPS 2020 (radii of triplets).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), NeighborAML(), KNeighborsClassifier(5)).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    supervision = ("points",)
    _constraints = {
        **ITERATION_CONSTRAINTS,
        "loss": Choice(*LOSSES),
        "alpha": Real(0.0),
        "beta": Real(0.0, open_low=True),
        "gamma": Real(0.0),
        "t": Real(0.0, 1.0),
        "reg": Real(0.0),
        "prior": check_prior,
        "n_components": check_dimensions,
        "subspace": Choice(*SUBSPACES),
        "n_neighbors": Optional(Whole(1)),
        "n_impostors": Optional(Whole(1)),
        "radius": Real(0.0, open_low=True),
        "n_refresh": Whole(0),
        "n_anchors": Optional(Whole(1)),
    }

    def __init__(
        self,
        *,
        loss: str = "softmax",
        alpha: float = 1.0,
        beta: float = 10.0,
        gamma: float = 0.1,
        t: float = 0.1,
        reg: float = 1e-3,
        prior: str | ArrayLike = "identity",
        n_components: int | str | None = "auto",
        subspace: str = "discriminant",
        n_neighbors: int | None = None,
        n_impostors: int | None = None,
        radius: float = 0.2,
        n_refresh: int = 2,
        n_anchors: int | None = None,
        max_iter: int = 1000,
        tol: float = 1e-2,
        preprocessor: ArrayLike | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.alpha, self.beta, self.gamma = alpha, beta, gamma
        self.t, self.reg, self.prior = t, reg, prior
        self.n_components, self.subspace = n_components, subspace
        self.n_neighbors, self.n_impostors, self.radius = n_neighbors, n_impostors, radius
        self.n_refresh, self.n_anchors = n_refresh, n_anchors
        super().__init__(
            max_iter=max_iter, tol=tol, preprocessor=preprocessor, random_state=random_state, verbose=verbose
        )

    @property
    def _sizes(self) -> tuple[int, int]:
        """Number of candidates of the same class, and of other classes."""
        near, far = _SIZES[self.loss]
        return self.n_neighbors or near, self.n_impostors or far

    def _pose(self, data: LabelledPoints) -> _Posed:
        """Return the points in whitened coordinates and their first candidates."""
        d = self.n_features_in_
        check_n_components(self.n_components, d)
        X, scale = centred(data.X)
        start, graph = start_of_points(
            X,
            data.y,
            choose_anchors(data.y, self.n_anchors, check_random_state(self.random_state)),
            *self._sizes,
            t=float(self.t),
            reg=float(self.reg),
            prior=prior_matrix(self.prior, data, d),
            n_components=self.n_components,
            subspace=self.subspace,
            n_features=d,
        )
        return start, graph, scale or 1.0

    def _solve(self, posed: _Posed, data: LabelledPoints) -> Rounds:
        start, first, _ = posed
        weights = float(self.alpha), float(self.beta), float(self.gamma)

        def pose(graph: Candidates, unit: float) -> Problem:
            return pose_neighbors(start, graph, loss_of(self.loss, graph, unit=unit), *weights)

        def search(L: Matrix) -> Candidates:
            k, other = first.similar.shape[1], first.dissimilar.shape[1]
            return find_candidates(start.Z @ L.T, data.y, first.anchors, k, other)

        return self._rounds(first, pose, search)

    def _rounds(
        self, graph: Candidates, pose: Callable[[Candidates, float], Problem], search: Callable[[Matrix], Candidates]
    ) -> Rounds:
        unit = float(self.radius) * mean_radius(pose(graph, 1.0)) if self.loss == "radius" else 1.0
        return solve_rounds(
            graph,
            lambda candidates: pose(candidates, unit),
            search,
            n_refresh=self.n_refresh,
            tol=float(self.tol),
            max_iter=self.max_iter,
            monitor=make_monitor("NeighborAML", self.verbose),
        )

    def _learn(self, data: LabelledPoints | NeighborParts, **extra: Any) -> Matrix:
        if isinstance(data, NeighborParts):
            return self._learn_in_parts(data)
        parts = self._in_parts(data)
        if parts is not None:
            return self._learn_in_parts(parts)
        posed = self._pose(data)
        rounds = self._solve(posed, data)
        self._report_rounds(rounds)
        return self._components(posed, rounds)

    def _fit_collections(self, X: Any, y: Any) -> NeighborAML:
        """Return a copy that has learned from Dask collections."""
        self._check_params()
        fresh, data = NeighborParts.of(self, X, y, self._sizes)
        learned: NeighborAML = fresh
        learned._set_metric(learned._learn_finite(data))
        return learned

    def _in_parts(self, data: LabelledPoints) -> NeighborParts | None:
        """The points to be looked at a part at a time, where most of them are no anchors; else None."""
        n, d = data.X.shape
        check_n_components(self.n_components, d)
        named = isinstance(self.prior, str) and self.prior != "identity"
        if n < d or named or not chooses_few(n, self.n_anchors):
            return None
        anchors = choose_anchors(data.y, self.n_anchors, check_random_state(self.random_state))
        return NeighborParts.of_array(self, data, anchors, self._sizes)

    def _learn_in_parts(self, data: NeighborParts) -> Matrix:
        first = data.search(np.eye(len(data.start.tau)))
        start = data.start.with_rows(data.start.Z, data.unit(first))
        weights = float(self.alpha), float(self.beta), float(self.gamma)
        rounds = self._rounds(first, partial(data.pose, start, self.loss, weights), data.search)
        self._report_rounds(rounds)
        return start.components(rounds.solution.x[0], 1.0)

    def _report_rounds(self, rounds: Rounds) -> None:
        self.round_starts_, self.candidate_changes_ = rounds.starts, rounds.changes
        self.settled_ = rounds.settled
        self._report(replace(rounds.solution, objective=rounds.objective))

    def _components(self, posed: _Posed, rounds: Rounds) -> Matrix:
        start, _, scale = posed
        return start.components(rounds.solution.x[0], scale)

    def _candidate_groups(self, candidates: list[dict[str, Any]]) -> list[list[int]]:
        # Candidates that differ in these only share whitened points and their first candidates.
        return group_candidates(candidates, free=("alpha", "beta", "gamma", "radius"))

    def _candidate_metrics(self, candidates: list[dict[str, Any]], data: Any) -> Iterator[tuple[Any, int]]:
        posed: _Posed | None = None
        for params in candidates:
            learner = self._unfitted().set_params(**params)
            learner._check_params()
            learner.tol = max(learner.tol, _SEARCH_TOL)
            learner.n_refresh = min(learner.n_refresh, _SEARCH_REFRESHES)
            learner.n_features_in_ = data.n_features
            posed = posed or learner._pose(data)
            rounds = learner._solve(posed, data)
            yield Mahalanobis(learner._components(posed, rounds)), max(1, len(rounds.objective) - 1)
