"""ERML: empirical risk minimisation for metric learning with privileged information (a reconstruction)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.utils.validation import check_array

from advmetric.learners.base import ITERATION_CONSTRAINTS, IterativeLearner
from advmetric.linalg.spd import spd_factor
from advmetric.optimize.fista import fista, project_psd_ball
from advmetric.optimize.lbfgs import minimize_lbfgs
from advmetric.optimize.result import Monitor, Result, make_monitor
from advmetric.pairs.data import Samples
from advmetric.pairs.differences import balanced_weights, principal_axes, root_mean_square, unit_differences
from advmetric.pairs.graph import PairGraph
from advmetric.pairs.samplers import check_sampler, draw_pairs
from advmetric.utils.parameters import Real
from advmetric.utils.typing import Matrix, Vector
from advmetric.utils.validation import reject_nonfinite

__all__ = ["ERML", "RelaxedThreshold"]


@dataclass(frozen=True)
class RelaxedThreshold:
    """The convex problem of ERML, on scaled differences v and privileged differences v*.

    F(M, P) = Σ wᵢ log(1 + exp(sᵢ(vᵢᵀMvᵢ - vᵢ*ᵀPvᵢ*))) + lam/2 ‖M - I‖² + gamma/2 ‖P - I‖² over M, P ⪰ 0 with
    ‖M‖_F <= radius·√d, ‖P‖_F <= radius·√d*, in one flat vector (M, P). The squares go with the constraints into the
    proximal map, so that no step has to be as short as the stiffer of the two asks for.
    """

    F: Matrix
    F_star: Matrix
    differences: PairGraph
    labels: Vector
    weights: Vector
    lam: float
    gamma: float
    radius: float = np.inf

    def loss(self, x: Vector) -> tuple[float, Vector]:
        """The logistic part and its gradient."""
        M, P = self.unpack(x)
        q = self.differences.quadratic(self.F, self.F @ M)
        q -= self.differences.quadratic(self.F_star, self.F_star @ P)
        q *= self.labels
        slopes = self.weights * self.labels * expit(q)
        by_M = self.differences.scatter(slopes, self.F)
        by_P = -self.differences.scatter(slopes, self.F_star)
        return float(self.weights @ np.logaddexp(0.0, q)), np.concatenate([by_M.ravel(), by_P.ravel()])

    def penalty(self, x: Vector) -> float:
        """lam/2 ‖M - I‖² + gamma/2 ‖P - I‖²."""
        M, P = self.unpack(x)
        squares = [float(np.sum((A - np.eye(len(A))) ** 2)) for A in (M, P)]
        return 0.5 * (self.lam * squares[0] + self.gamma * squares[1])

    def prox(self, x: Vector, step: float) -> Vector:
        """Proximal map of the penalty over the bounded cones.

        A mean of each matrix and the identity, projected: both squares are round, so nothing is lost.
        """
        moved = []
        for A, pull in zip(self.unpack(x), (self.lam * step, self.gamma * step), strict=True):
            mean = (A + pull * np.eye(len(A))) / (1.0 + pull)
            moved.append(project_psd_ball(mean, self.radius * np.sqrt(len(A))).ravel())
        return np.concatenate(moved)

    def unpack(self, x: Vector) -> tuple[Matrix, Matrix]:
        """M and P, as views on the vector."""
        d, d_star = self.F.shape[1], self.F_star.shape[1]
        return x[: d * d].reshape(d, d), x[d * d :].reshape(d_star, d_star)

    def solve(self, tol: float = 1e-5, max_iter: int = 2000, monitor: Monitor | None = None) -> Result[Vector]:
        """Minimise from M = P = I: by L-BFGS on factors, then by FISTA, whose measure certifies the optimum.

        FISTA alone needs two to seven times the iterations. Where the factors leave the balls it starts anew.
        """
        start = np.concatenate([np.eye(self.F.shape[1]).ravel(), np.eye(self.F_star.shape[1]).ravel()])
        found = self._descend(0.3 * tol, max_iter, monitor)
        objective: Sequence[float] = ()
        if all(np.linalg.norm(A) <= self.radius * np.sqrt(len(A)) for A in self.unpack(found.x)):
            start, objective = found.x, found.objective
        quartic = sum(float(self.weights @ self.differences.quadratic(F, F) ** 2) for F in (self.F, self.F_star))
        # The inverse of a loose bound of the curvature; where nothing varies any step will do.
        step = 4.0 / quartic if quartic > 0.0 else 1.0
        left = max_iter - max(0, len(objective) - 1)
        result = fista(
            self.loss, self.prox, start, penalty=self.penalty, step=step, tol=tol, max_iter=left, monitor=monitor
        )
        return replace(result, objective=[*objective, *result.objective[bool(objective) :]])

    def _descend(self, tol: float, max_iter: int, monitor: Monitor | None) -> Result[Vector]:
        """L-BFGS on factors of M and P, in coordinates that even out the curvature."""
        maps = [self._evened(F, pull) for F, pull in ((self.F, self.lam), (self.F_star, self.gamma))]
        sizes = [len(W) for W in maps]

        def product(x: Vector) -> tuple[list[Matrix], Vector]:
            blocks = np.split(x, [sizes[0] ** 2])
            factors = [W @ block.reshape(len(W), -1) for W, block in zip(maps, blocks, strict=True)]
            return factors, np.concatenate([(G @ G.T).ravel() for G in factors])

        def function(x: Vector) -> tuple[float, Vector]:
            factors, z = product(x)
            value, gradient = self.loss(z)
            slopes = []
            for W, G, A, by_A, pull in zip(
                maps, factors, self.unpack(z), self.unpack(gradient), (self.lam, self.gamma), strict=True
            ):
                slopes.append((2.0 * W.T @ ((by_A + pull * (A - np.eye(len(A)))) @ G)).ravel())
            return value + self.penalty(z), np.concatenate(slopes)

        def slope(x: Vector, value: float, gradient: Vector) -> float:
            return float(np.linalg.norm(gradient) * np.linalg.norm(x)) / abs(value)

        start = np.concatenate([np.linalg.inv(W).ravel() for W in maps])
        found = minimize_lbfgs(function, start, slope, tol=tol, max_iter=max_iter, monitor=monitor)
        return replace(found, x=product(found.x)[1])

    def _evened(self, F: Matrix, pull: float) -> Matrix:
        """(S/‖S‖ + 100 pull)^(-1/2), S the scatter of the differences: curvature comes from it and from the pull."""
        scatter, U = np.linalg.eigh(self.differences.scatter(np.ones(len(self.labels)), F))
        relative = np.maximum(scatter, 0.0) / (scatter[-1] if scatter[-1] > 0.0 else 1.0)
        evened: Matrix = (U / np.sqrt(relative + 100.0 * pull)) @ U.T
        return evened


class ERML(IterativeLearner):
    """Metric learning with privileged information as a pair-by-pair threshold. **A reconstruction.**

    Minimises over positive semi-definite M and P with ‖M‖_F <= radius·√d, ‖P‖_F <= radius·√d*

        Σ wᵢ log(1 + exp(sᵢ(vᵢᵀMvᵢ - vᵢ*ᵀPvᵢ*))) + lam/2 ‖M - I‖² + gamma/2 ‖P - I‖²,

    v and v* the differences of pair i in the features and in privileged features that only training has,
    sᵢ = +1 for similar pairs. The privileged distance stands where other methods have a fixed threshold:
    a pair that is far apart by the teacher's features may be far apart under M as well. M is the metric. Convex;
    solved to its one optimum,
    which accelerated projected gradient certifies.

    Parameters
    ----------
    lam : float > 0, default=1e-3
        Pull of M towards the (scaled) Euclidean metric; the smaller, the freer M.
    gamma : float > 0, default=0.01
        Pull of P. The larger, the more d_P is the plain Euclidean distance of the privileged features.
    radius : float > 0, default=100
        Bound of ‖M‖_F/√d and ‖P‖_F/√d*; 1 is the size of the start M = I.
    max_iter : int, default=2000
    tol : float, default=1e-5
        Stop when ‖G‖·‖(M, P)‖ <= tol·F, G the generalised gradient (see :func:`advmetric.optimize.fista.fista`).
    pairs, preprocessor, random_state, verbose
        As for :class:`~advmetric.AML`, with pairs="random" by default; "all" lists all n(n - 1)/2 pairs.

    Attributes
    ----------
    components_ : (d, d) array
        L, with M = LᵀL in the units of the features. Rows from the largest eigenvalue to the smallest.
    privileged_components_ : (d*, d*) array, or (d*, d) without privileged features
        The same of P, in the units of the privileged features.
    n_iter_, converged_, objective_ : iterations, whether tol was met, the objective by iteration (never rises)

    See Also
    --------
    PairAML : One threshold for all pairs.

    Notes
    -----
    Certainty: the paper's text could not be had. The problem above is a reconstruction from its abstract (two
    metrics learned jointly, the privileged distance as a locally adaptive threshold, empirical risk, accelerated
    proximal gradient). The logistic loss, the quadratic terms, the weights wᵢ (half to each kind of pairs) and
    the scaling of v and v* to unit mean square are choices of ours: the numbers of this class say little about
    the authors' program.

    Without ``privileged`` the leading half of the principal components of the pairs' differences stands in for it.

    An iteration takes O(N(d + d*) + nd² + d³) time where pairs outnumber points, O(Nd² + d³) otherwise; memory
    O(nd + N) or O(Nd), and some ten (d, d) arrays, and 60 for the memory of L-BFGS. Isolet (6 238 × 617, 650 000 pairs)
    met tol in 58 iterations, 190 s and 0.5 GB on two cores that others used as well.
    On one core, n = 4 000, d = 20: 0.2, 0.45, 1.3 and 7 s for 5 000, 20 000, 80 000 and 320 000 pairs; 0.6, 1.2, 1.5
    and 3 s for d = 20, 40, 80 and 160 at 20 000 pairs.

    References
    ----------
    X. Yang, M. Wang, L. Zhang, D. Tao. Empirical Risk Minimization for Metric Learning Using Privileged Information.
    IJCAI 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = ERML(pairs=500, random_state=0).fit(scale(X), y)
    >>> bool(learner.score(scale(X), y) > 0.8)
    True
    """

    _constraints = {
        **ITERATION_CONSTRAINTS,
        "lam": Real(0.0, open_low=True),
        "gamma": Real(0.0, open_low=True),
        "radius": Real(0.0, open_low=True),
        "pairs": check_sampler,
    }

    def __init__(
        self,
        *,
        lam: float = 1e-3,
        gamma: float = 0.01,
        radius: float = 100.0,
        pairs: Any = "random",
        max_iter: int = 2000,
        tol: float = 1e-5,
        preprocessor: ArrayLike | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.lam, self.gamma, self.radius = lam, gamma, radius
        self.pairs = pairs
        super().__init__(
            max_iter=max_iter, tol=tol, preprocessor=preprocessor, random_state=random_state, verbose=verbose
        )

    def fit(self, X: ArrayLike, y: ArrayLike, privileged: ArrayLike | None = None) -> ERML:
        """Learn the metric.

        Parameters
        ----------
        X, y : points with class labels, or pairs with -1 and +1
            As for all learners.
        privileged : array-like, optional
            Features that only training has: (n, d*) for points, (N, 2, d*) for formed pairs, and one row for each row
            of the preprocessor for index pairs. Without it: the leading half of the principal components.

        Returns
        -------
        self : object
        """
        self._fit(X, y, privileged=privileged)
        return self

    def _learn(self, data: Samples, **extra: Any) -> Matrix:
        privileged = extra.get("privileged")
        teacher = None if privileged is None else check_privileged(privileged, len(data.X))
        pairs = draw_pairs(data, self.pairs, self.random_state)
        F, differences, scale = unit_differences(pairs)
        if teacher is None:
            axes = principal_axes(F, differences, (F.shape[1] + 1) // 2)
            F_star = F @ axes
            shrunk = root_mean_square(F_star, differences)
            F_star /= shrunk
            embed = axes.T / (shrunk * scale)
        else:
            F_star, _, scale_star = unit_differences(pairs, teacher)
            embed = np.eye(F_star.shape[1]) / scale_star
        labels = pairs.labels.astype(float)
        weights = balanced_weights(labels)
        problem = RelaxedThreshold(F, F_star, differences, labels, weights, self.lam, self.gamma, self.radius)
        result = problem.solve(self.tol, self.max_iter, make_monitor("ERML", self.verbose, "relative residual"))
        self._report(result)
        M, P = problem.unpack(result.x)
        self.privileged_components_ = spd_factor(P) @ embed
        return spd_factor(M) / scale


def check_privileged(privileged: Any, n_rows: int) -> Matrix:
    """Privileged features, one row for each row of the points that pairs refer to."""
    rows = check_array(privileged, dtype=np.float64, allow_nd=True, ensure_all_finite=False, input_name="privileged")
    reject_nonfinite(rows, "privileged")
    if rows.ndim == 3 and rows.shape[1] == 2:
        rows = rows.reshape(-1, rows.shape[2])
    if rows.ndim != 2 or len(rows) != n_rows:
        raise ValueError(
            f"privileged has shape {np.shape(privileged)}, which does not go with {n_rows} points: pass one row a "
            "point, (n, d*); for formed pairs (N, 2, d*); for index pairs one row for each row of the preprocessor."
        )
    return rows
