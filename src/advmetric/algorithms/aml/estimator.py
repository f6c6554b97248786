"""AML: the adversarial metric learner as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advmetric.learners.base import ITERATION_CONSTRAINTS
from advmetric.learners.input import check_pairs_for
from advmetric.learners.moments import MOMENT_CONSTRAINTS, MomentLearner, Moments
from advmetric.linalg.sparse import dense_rows
from advmetric.optimize.result import Result, make_monitor
from advmetric.pairs.data import Pairs
from advmetric.pairs.samplers import AllPairs, make_sampler
from advmetric.utils.arrays import convert_like, is_array_api, to_numpy
from advmetric.utils.parameters import Choice, Optional, Real
from advmetric.utils.typing import Matrix

from .adversary import Adversary, check_adversary, make_adversary
from .problem import rows_of_state, solve

__all__ = ["AML", "AML_GRID"]

AML_GRID: dict[str, Sequence[float]] = {
    "t": (0.1, 0.25, 0.5),
    "beta": (0.01, 0.1, 1.0),
    "alpha": (0.0, 1.0, 10.0, 100.0),
}
"""Values that AMLCV, the command line and the experiments try by default."""

_MAX_FORMED_BYTES = 1 << 32
_SEARCH_TOL = 1e-4
"""Enough to rank candidates: D is then within about 1e-8 of its minimum. The winner is solved to ``tol``."""


class AML(MomentLearner):
    """Adversarial Metric Learning.

    Minimises over positive definite M

        D(M) = tr(A f_S(M)) + tr(B f_D(M)),

    the geometric-mean loss tr(MA) + tr(M⁻¹B) of the similar and dissimilar training pairs plus
    ``alpha`` times the loss of the pairs that an adversary makes of them. For the paper's adversary
    ("derived") f_S(λ) = λ + αλu², u = βλ²/(2 + βλ²), and f_D(λ) = κ/λ, κ = 1 + αβ²/(2 + β)²: large
    eigenvalues of the metric pay more, so AML flattens the top of GMML's spectrum.

    Parameters
    ----------
    alpha : float >= 0, default=1.0
        Weight of the adversarial pairs; 0 gives GMML exactly. The larger, the more directions with
        large eigenvalues are shrunk towards the rest.
    beta : float > 0, default=1.0
        Price of moving away from the real pair. Eigenvalues well above √(2/beta) feel the adversary
        in full, those well below not at all. (For "expanding": eigenvalues stay below beta/2.)
    t : float in [0, 1], default=0.5
        Place on the geodesic from A⁻¹ (0) to B (1). 1/2 is the paper's model; smaller values follow
        the similar pairs more closely and often suit k-NN better (tune it: :class:`AMLCV`).
    prior : "identity" or (d, d) array, default="identity"
        Positive definite matrix M₀ that the metric falls back on where the pairs say nothing.
    reg : float >= 0, default=1e-3
        Strength of the prior: reg (tr A/d) M₀⁻¹ is added to A, reg (tr B/d) M₀ to B.
    n_components : int, optional
        Learn in the subspace of the leading generalised eigenvectors of (B, A); None keeps all d. (Fitted on fewer
        rows than features, and on more than 4000 of these, None keeps the directions that the data span, and warns.)
    rank : int, optional
        Approximate: learn from the data projected on their leading ``rank`` principal directions, found by a
        randomised SVD. For many features and many rows; None is exact.
    pairs : "all", "random", "balanced", "neighbors", int or sampler, default="all"
        With class labels, which pairs of points to learn from. "all" uses every pair exactly, from
        class statistics, without listing them; "random" draws 1000 c (c - 1), as the paper does,
        but at most 10⁶.
    average : bool, default=True
        Average A and B over their pairs, so that alpha and beta mean the same for any number of
        pairs; False keeps the paper's plain sums.
    solver : {"geodesic", "projected-gradient", "alternating"}, default="geodesic"
        Riemannian truncated Newton (exact, a few iterations); the paper's Algorithm 1; or the game
        of Eq. 5, whose fixed point is not a minimum of D.
    adversary : {"derived", "printed", "expanding"} or Adversary, default="derived"
        The paper's model solved exactly; its Eq. 12 as printed; or a two-sided adversary inside
        Euclidean neighbourhoods, which also pushes similar pairs apart. An object of a subclass of
        :class:`~advmetric.algorithms.aml.adversary.Adversary` brings its own alpha and beta.
    step_size : float, optional
        For "projected-gradient": the fixed step ρ (0.001 in the paper); None for backtracking.
    max_iter : int, default=1000
        Iterations at most. The geodesic solver rarely needs ten.
    tol : float, default=1e-5
        Stop when ‖M^{1/2}∇D M^{1/2}‖_F <= tol · D (for "alternating", when M moves by less than tol).
    preprocessor : (n, d) array, optional
        Points that index pairs refer to.
    random_state : int, RandomState or None
        For samplers that draw pairs.
    verbose : int, default=0
        1 logs each iteration.

    Attributes
    ----------
    components_ : (r, d) array
        L, with M = LᵀL. Rows from the largest eigenvalue to the smallest.
    n_features_in_, feature_names_in_ : number and, for DataFrames, names of the features
    classes_ : class labels, or [-1, 1] after pairs
    threshold_ : float
        After pairs: those no farther apart are called similar.
    n_iter_, converged_, objective_ : iterations, whether tol was met, D by iteration

    See Also
    --------
    AMLCV : Chooses among losses and parameters by cross-validation.
    GMML : The same without the adversary, in closed form.
    NeighborAML : The adversary with a loss on neighbours, for k-NN.
    PairAML : The adversary with a logistic loss on pairs.

    Notes
    -----
    Time O(nd²) or O(Nd + nd²) for the scatter and O(d³) per iteration, whatever the number of pairs;
    memory O(d²) beside the data. For n < d points (or pairs) all is done in the span of the data, exactly, in
    O(dn²) and O(n³) per iteration. Sparse points are never made dense as a whole. Batch by batch, see
    :meth:`partial_fit`. At t = 1/2 the metric does not change when all features are
    multiplied by one number. At other t it is multiplied by s^(4t-2) and beta acts as if multiplied
    by s^(8t-4) in f_S (for "derived"; for "expanding", M(sX, beta) = c M(X, beta/c), c = s^(4t-2)):
    standardise the features first.

    D is convex along geodesics where A and B commute, and on standardised data one optimum was found from
    every start tried; for ill-conditioned A and B far from commuting it can have several minima.

    References
    ----------
    S. Chen, C. Gong, J. Yang, X. Li, Y. Wei, J. Li. Adversarial Metric Learning. IJCAI 2018.
    The printed Eq. 12 and 14 have slips; docs/paper-notes.md says which and how that is tested.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), AML(), KNeighborsClassifier(5)).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _constraints = {
        **ITERATION_CONSTRAINTS,
        **MOMENT_CONSTRAINTS,
        "alpha": Real(0.0),
        "beta": Real(0.0, open_low=True),
        "solver": Choice("geodesic", "projected-gradient", "alternating"),
        "adversary": check_adversary,
        "step_size": Optional(Real(0.0, open_low=True)),
    }

    _solver_parameters = ("t", "alpha", "beta")

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
        t: float = 0.5,
        prior: str | ArrayLike = "identity",
        reg: float = 1e-3,
        n_components: int | None = None,
        rank: int | None = None,
        pairs: Any = "all",
        average: bool = True,
        solver: str = "geodesic",
        adversary: str | Adversary = "derived",
        step_size: float | None = None,
        max_iter: int = 1000,
        tol: float = 1e-5,
        preprocessor: ArrayLike | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            t=t,
            prior=prior,
            reg=reg,
            n_components=n_components,
            rank=rank,
            pairs=pairs,
            average=average,
            preprocessor=preprocessor,
            random_state=random_state,
        )
        self.alpha, self.beta, self.adversary = alpha, beta, adversary
        self.solver, self.step_size = solver, step_size
        self.max_iter, self.tol, self.verbose = max_iter, tol, verbose

    def _check_params(self) -> None:
        super()._check_params()
        if self.step_size is not None and self.solver != "projected-gradient":
            raise ValueError(f"step_size is for solver='projected-gradient'; solver={self.solver!r} does not use it.")

    def _solve(self, moments: Moments) -> Result[Matrix]:
        solution = solve(
            moments,
            make_adversary(self.adversary, self.alpha, self.beta),
            t=self.t,
            solver=self.solver,
            step_size=self.step_size,
            tol=self.tol,
            max_iter=self.max_iter,
            monitor=make_monitor(f"AML {self.solver}", self.verbose),
        )
        return solution.mapped(rows_of_state)

    def _solve_from(self, moments: Moments, state: Any) -> tuple[Result[Matrix], Any]:
        if self.solver != "geodesic":
            return self._solve(moments), None
        # A candidate at the same t starts from its neighbour's solution.
        t, start = state or (None, None)
        solution = solve(
            moments,
            make_adversary(self.adversary, self.alpha, self.beta),
            t=self.t,
            tol=max(self.tol, _SEARCH_TOL),
            max_iter=self.max_iter,
            start=start if t == self.t else None,
        )
        return solution.mapped(rows_of_state), (self.t, solution.x)

    def adversarial_pairs(self, X: ArrayLike | Pairs, y: ArrayLike) -> NDArray[np.float64]:
        """The confusing pairs that the learned metric had to tell apart, in closed form.

        Parameters
        ----------
        X, y : labelled pairs or labelled points, as for ``fit``
            For points, the pairs are those of ``pairs`` (every pair i < j for "all").

        Returns
        -------
        adversarial : ndarray of shape (N, 2, d)
            Pair i moved as the adversary would: same midpoint, its difference stretched along each
            eigenvector of M. Directions that the metric does not see are left alone.
        """
        sampler = make_sampler(self.pairs) or AllPairs()
        given = check_pairs_for(self, X, y, sampler, self.random_state)
        pairs = replace(given, X=to_numpy(given.X)) if is_array_api(given.X) else given
        adversary = make_adversary(self.adversary, self.alpha, self.beta)
        _, singular, Vt = np.linalg.svd(to_numpy(self.components_), full_matrices=False)
        lam = singular**2
        if 16 * len(pairs) * pairs.X.shape[1] > _MAX_FORMED_BYTES:
            raise ValueError(
                f"{len(pairs)} adversarial pairs would take over 4 GB; pass fewer pairs, or set pairs= to a number."
            )
        adversarial = np.empty((len(pairs), 2, pairs.X.shape[1]))
        for block, V in pairs.differences():
            similar = (pairs.labels[block] == 1)[:, None]
            stretch = np.where(similar, adversary.stretch_similar(lam), adversary.stretch_dissimilar(lam))
            half = 0.5 * (V + ((V @ Vt.T) * (stretch - 1.0)) @ Vt)
            midpoint = dense_rows(pairs.X, pairs.right[block]) + 0.5 * V
            adversarial[block, 0] = midpoint + half
            adversarial[block, 1] = midpoint - half
        kind: NDArray[np.float64] = convert_like(adversarial, given.X)
        return kind
