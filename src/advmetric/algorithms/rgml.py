"""RGML: the covariance of each class, shrunk towards a common centre, whose inverse is the metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.special import wrightomega
from sklearn.utils import check_random_state

from advmetric.learners.base import ITERATION_CONSTRAINTS, IterativeLearner
from advmetric.linalg.spd import symmetrize
from advmetric.optimize.result import Monitor, Result, make_monitor
from advmetric.pairs.class_statistics import PointStatistics
from advmetric.pairs.data import LabelledPoints
from advmetric.pairs.triplets import centred
from advmetric.utils.parameters import Choice, Real, Whole
from advmetric.utils.typing import Matrix, Vector

__all__ = ["RGML", "Shrunk", "minimise", "shrunk_logarithms"]

_SUFFICIENT = 1e-4
"""Part of the decrease that the slope promises, with which a step is content."""
_ROUNDING = 4.0 * float(np.finfo(float).eps)

Weighting = Callable[[Sequence[Matrix]], tuple[list[Matrix], Vector]]
"""Factors B_k of the inverses A_k⁻¹ = B_kᵀB_k ↦ second moments S_k of weighted differences, and the losses ℓ_k. The
weights are such that tr(A_k⁻¹S_k) plus a constant is at least ℓ_k, and equal to it at these A_k."""


def shrunk_logarithms(t: Vector, lam: float) -> Vector:
    """The u that minimises t exp(-u) + u + lam u², for t >= 0.

    There t exp(-u) = 1 + 2 lam u, whose solution is Wright's omega function: u = ω(log(t/2lam) + 1/2lam) - 1/2lam.
    """
    half = 0.5 / lam
    with np.errstate(divide="ignore"):
        v: Vector = np.asarray(wrightomega(np.log(t) + np.log(half) + half))
    # ω and 1/2lam are almost equal where lam is small: there log t is more accurate, since exp(-u) t = 1 + 2 lam u.
    u = v - half
    with np.errstate(divide="ignore", invalid="ignore"):
        other = np.log(t) - np.log(2.0 * lam * v)
    return np.where(np.isfinite(other) & (half > 1.0), other, u)


@dataclass(frozen=True)
class Shrunk:
    """The best covariance A_k of each class for a given centre A = GGᵀ.

    For the second moment S of a class, U diag(t) Uᵀ = G⁻¹SG⁻ᵀ, the A_k that minimises

        tr(A_k⁻¹S) + log det A_k + lam δ²(A, A_k),   δ the affine-invariant Riemannian distance,

    is GU exp(diag(u)) UᵀGᵀ with u of :func:`shrunk_logarithms`: by von Neumann's inequality for traces it has the same
    axes, so each of them is a problem in one variable.
    """

    G: Matrix
    axes: list[Matrix]
    """U of each class."""
    logs: list[Vector]
    """u of each class."""
    traces: Vector
    """tr(A_k⁻¹S_k)."""

    @classmethod
    def at(cls, G: Matrix, moments: Sequence[Matrix], lam: float) -> Shrunk:
        """The covariances for the centre GGᵀ; G is lower triangular."""
        axes, logs, traces = [], [], []
        for S in moments:
            half = solve_triangular(G, S, lower=True, check_finite=False)
            t, U = np.linalg.eigh(symmetrize(solve_triangular(G, half.T, lower=True, check_finite=False)))
            t = np.maximum(t, 0.0)
            u = shrunk_logarithms(t, lam)
            axes.append(U)
            logs.append(u)
            traces.append(float(np.sum(1.0 + 2.0 * lam * u)))  # Σ t exp(-u)
        return cls(G, axes, logs, np.array(traces))

    def same_volume(self) -> Shrunk:
        """Return the covariances scaled to the determinant of A."""
        return replace(self, logs=[u - u.mean() for u in self.logs])

    @property
    def log_det(self) -> float:
        """log det A."""
        return 2.0 * float(np.sum(np.log(np.diagonal(self.G))))

    def regular_part(self, lam: float) -> Vector:
        """log det A_k + lam δ²(A, A_k) of each class."""
        return np.array([self.log_det + np.sum(u) + lam * np.sum(u**2) for u in self.logs])

    def direction(self, shares: Vector) -> Matrix:
        """H = Σ share_k log(G⁻¹A_kG⁻ᵀ): to the mean of the A_k; -2 lam H is the gradient by A, in units of A."""
        total: Matrix = sum(share * (U * u) @ U.T for share, U, u in zip(shares, self.axes, self.logs, strict=True))
        return total

    def inverses(self) -> list[Matrix]:
        """B_k with A_k⁻¹ = B_kᵀB_k."""
        return [
            np.exp(-0.5 * u)[:, None] * solve_triangular(self.G, U, trans="T", lower=True, check_finite=False).T
            for U, u in zip(self.axes, self.logs, strict=True)
        ]

    def moved(self, H: Matrix, step: float) -> tuple[Matrix, Matrix]:
        """The factor of G exp(step H) Gᵀ, lower triangular, and the direction H at the end of that geodesic."""
        h, V = np.linalg.eigh(H)
        Q, R = np.linalg.qr(V @ (np.exp(0.5 * step * h)[:, None] * (self.G @ V).T))
        signs = np.where(np.diagonal(R) < 0.0, -1.0, 1.0)
        Q *= signs
        return (R * signs[:, None]).T, Q.T @ H @ Q


def minimise(
    weigh: Weighting,
    start: Matrix,
    shares: Vector,
    lam: float,
    *,
    scale_free: bool = False,
    tol: float,
    max_iter: int,
    monitor: Monitor | None = None,
) -> Result[Shrunk]:
    """Minimise Σ share_k [loss_k(A_k) + log det A_k + lam δ²(A, A_k)] over A and A_k.

    For a centre A the A_k are known in closed form, which leaves a geodesically convex function of A whose gradient is
    -2 lam H. The first step goes to A exp((1 + 2 lam) H), which is Newton's where the A_k are as the data say; the
    lengths of the others are those of Barzilai and Borwein; steps that do not lower the objective are halved. For
    losses other than the Gaussian one the weights of differences are renewed between steps; they bound the loss from
    above, so that the objective still falls. Where the losses plus log det A_k do not depend on the scale of A_k
    (``scale_free``), det A_k = det A is best, and set. The slope is the norm of the gradient by all matrices, divided
    by √d and, for A, by the curvature 2 lam/(1 + 2 lam).
    """
    d = len(start)
    G = np.linalg.cholesky(start).astype(np.float64, copy=False)
    inverse = solve_triangular(G, np.eye(d), lower=True, check_finite=False)
    used, _ = weigh([inverse] * len(shares))
    current = Shrunk.at(G, used, lam)
    objective: list[float] = []
    slope, length = np.inf, 1.0 + 2.0 * lam
    message = f"max_iter={max_iter} was reached before tol={tol:g}"
    for iteration in range(max_iter + 1):
        factors = current.inverses()
        weighted, losses = weigh(factors)
        objective.append(float(shares @ (losses + current.regular_part(lam))))
        H = current.direction(shares)
        # The gradient by A_k, in the axes of A_k: 0 if the weights have not changed.
        by_class = [
            share * np.linalg.norm(np.diag(1.0 + 2.0 * lam * u) - B @ S @ B.T)
            for share, u, B, S in zip(shares, current.logs, factors, weighted, strict=True)
        ]
        slope = float(np.hypot((1.0 + 2.0 * lam) * np.linalg.norm(H), np.linalg.norm(by_class))) / np.sqrt(d)
        if monitor:
            monitor(iteration, objective[-1], slope)
        if slope <= tol:
            return Result(current, objective, True, f"the slope is at most tol={tol:g}", slope)
        if len(objective) > 1 and objective[-2] - objective[-1] <= _ROUNDING * max(1.0, abs(objective[-1])):
            return Result(current, objective, True, "rounding hides any further decrease", slope)
        if iteration == max_iter:
            break
        now = current if weighted is used else Shrunk.at(current.G, weighted, lam)
        used, H = weighted, now.direction(shares)
        value, square = float(shares @ (now.traces + now.regular_part(lam))), float(np.vdot(H, H))
        step, least = length, _ROUNDING * max(1.0, abs(value)) / (2.0 * lam * square or 1.0)
        while True:
            G, ahead = now.moved(H, step)
            new = Shrunk.at(G, weighted, lam)
            reached = float(shares @ (new.traces + new.regular_part(lam)))
            if reached <= value - _SUFFICIENT * step * 2.0 * lam * square:
                bend = square - float(np.vdot(new.direction(shares), ahead))
                length = float(np.clip(step * square / bend, 0.1 * step, 10.0 * step)) if bend > 0.0 else 10.0 * step
                break
            step *= 0.5
            if step <= least:
                new = now
                break
        current = new.same_volume() if scale_free else new
    return Result(current, objective, False, message, slope, exhausted=True)


def _gaussian(statistics: PointStatistics, chosen: NDArray[np.intp], reg: float) -> Weighting:
    """tr(A_k⁻¹S_k), S_k the mean of vvᵀ over all pairs of the class: twice its covariance."""
    S = [2.0 * statistics.scatters[k] / (statistics.counts[k] - 1) for k in chosen]
    d = len(S[0])
    kept = [M + (reg * np.trace(M) / d) * np.eye(d) for M in S]

    def weigh(factors: Sequence[Matrix]) -> tuple[list[Matrix], Vector]:
        return kept, np.array([np.vdot(B @ M, B) for B, M in zip(factors, kept, strict=True)])

    return weigh


def _tyler(differences: Sequence[Matrix], reg: float) -> Weighting:
    """d · mean of log q, q = vᵀA_k⁻¹v, bounded by d · mean of log q₀ + q/q₀ - 1; with a little noise in each v."""
    spreads = [(reg / V.shape[1]) * np.einsum("ij,ij->i", V, V) for V in differences]

    def weigh(factors: Sequence[Matrix]) -> tuple[list[Matrix], Vector]:
        weighted, losses = [], []
        for B, V, spread in zip(factors, differences, spreads, strict=True):
            n, d = V.shape
            q = np.einsum("ij,ij->i", V @ B.T, V @ B.T) + spread * np.vdot(B, B)
            weights = (d / n) / q
            weighted.append(V.T @ (weights[:, None] * V) + float(weights @ spread) * np.eye(d))
            losses.append(d * float(np.mean(np.log(q))))
        return weighted, np.array(losses)

    return weigh


class RGML(IterativeLearner):
    """Robust Geometric Metric Learning: a covariance for each class, shrunk towards their common centre.

    Minimises over positive definite A and A_k, one for each class k with its share π_k of the points,

        Σ_k π_k [ℓ_k(A_k) + log det A_k + lam δ²(A, A_k)],

    δ the affine-invariant Riemannian distance. The metric is M = A⁻¹. With v the differences of pairs of class k, ℓ_k
    is the mean of vᵀA_k⁻¹v ("gaussian": the likelihood of a normal distribution) or d times the mean of log vᵀA_k⁻¹v
    ("tyler": Tyler's estimator, for which the length of a difference does not matter, so that outliers and points with
    wrong labels have little weight).

    Parameters
    ----------
    cost : {"gaussian", "tyler"}, default="gaussian"
    lam : float > 0, default=0.05
        Weight of the distance to the centre. The larger, the more alike the A_k: towards their pooled covariance; the
        smaller, the more A is the Riemannian mean of the covariances as they are. The authors use 0.05.
    reg : float > 0, default=1e-3
        Each difference gets noise in all directions, of this part of its squared length: without it there is no minimum
        where features are constant or linearly dependent.
    n_pairs : int, default=1000
        For "tyler": pairs drawn in each class. "gaussian" learns from all pairs, through the covariance.
    max_iter : int, default=500
        Maximum number of iterations.
    tol : float, default=1e-5
        Stop when the slope is at most this.
    preprocessor, random_state, verbose
        As for :class:`~advmetric.AML`; ``random_state`` is for the draw of pairs. RGML learns from points, so
        ``preprocessor`` is for ``pair_distance`` and the like.

    Attributes
    ----------
    components_ : (d, d) array
        L, with M = LᵀL. Rows from the largest eigenvalue to the smallest. With "tyler" det M = 1.
    classes_, n_features_in_, feature_names_in_ : class labels; number and, for DataFrames, names of the features
    n_iter_, converged_, objective_ : iterations, whether tol was met, and the objective by iteration (never rising)

    See Also
    --------
    GMML : One covariance of all similar pairs, and one of the dissimilar ones.
    RVML : Another method that learns from points with labels.

    Notes
    -----
    The authors minimise over all matrices at once by conjugate gradients. Here the A_k are eliminated: for a given
    centre they are known in closed form (Wright's omega function), and the objective is a geodesically convex function
    of A. An iteration takes O(c d³), and O(N d²) for N drawn pairs. A class with one member has no pairs and no share.

    References
    ----------
    A. Collas, A. Breloy, G. Ginolhac, C. Ren, J.-P. Ovarlez. Robust Geometric Metric Learning. EUSIPCO 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = RGML(cost="tyler", random_state=0).fit(X, y)
    >>> learner.converged_, learner.components_.shape
    (True, (13, 13))
    """

    supervision = ("points",)
    _constraints = {
        **ITERATION_CONSTRAINTS,
        "cost": Choice("gaussian", "tyler"),
        "lam": Real(0.0, open_low=True),
        "reg": Real(0.0, open_low=True),
        "n_pairs": Whole(1),
    }

    def __init__(
        self,
        *,
        cost: str = "gaussian",
        lam: float = 0.05,
        reg: float = 1e-3,
        n_pairs: int = 1000,
        max_iter: int = 500,
        tol: float = 1e-5,
        preprocessor: ArrayLike | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.cost, self.lam, self.reg, self.n_pairs = cost, lam, reg, n_pairs
        super().__init__(
            max_iter=max_iter, tol=tol, preprocessor=preprocessor, random_state=random_state, verbose=verbose
        )

    def _learn(self, data: LabelledPoints, **extra: Any) -> Matrix:
        X, scale = centred(data.X)
        statistics = PointStatistics.of(X, data.y)
        chosen = np.flatnonzero(statistics.counts > 1)
        if not len(chosen):
            raise ValueError("every class in y has only one member; a class with at least two is needed for pairs.")
        # A class whose points are all equal says nothing about the shape of a class.
        spread = np.array([np.trace(statistics.scatters[k]) for k in chosen])
        chosen = chosen[spread > 0.0]
        if not len(chosen):
            self._report(Result(None, [0.0], True, "all points of a class are equal"))
            return np.eye(X.shape[1]) / (scale or 1.0)
        shares = statistics.counts[chosen] / statistics.counts[chosen].sum()
        reg, lam = float(self.reg), float(self.lam)
        gaussian = _gaussian(statistics, chosen, reg)
        start = sum(share * S for share, S in zip(shares, gaussian([np.eye(X.shape[1])] * len(chosen))[0], strict=True))
        weigh = gaussian
        if self.cost == "tyler":
            random_state = check_random_state(self.random_state)
            members = [X[data.y == statistics.classes[k]] for k in chosen]
            weigh = _tyler([_differences(points, self.n_pairs, random_state) for points in members], reg)
        solution = minimise(
            weigh,
            start,
            shares,
            lam,
            scale_free=self.cost == "tyler",
            tol=self.tol,
            max_iter=self.max_iter,
            monitor=make_monitor("RGML", self.verbose),
        )
        self._report(solution)
        w, V = np.linalg.eigh(solution.x.G @ solution.x.G.T)
        if self.cost == "tyler":
            return (np.sqrt(np.exp(np.mean(np.log(w))) / w))[:, None] * V.T
        return (1.0 / (np.sqrt(w) * scale))[:, None] * V.T


def _differences(points: Matrix, n_pairs: int, random_state: np.random.RandomState) -> Matrix:
    """Differences of pairs of different points, drawn at random; equal points make none."""
    n = len(points)
    left = random_state.randint(n, size=n_pairs)
    V = points[left] - points[(left + random_state.randint(1, n, size=n_pairs)) % n]
    kept = V.any(axis=1)
    return V[kept] if kept.any() else (points - points.mean(axis=0))[(points != points.mean(axis=0)).any(axis=1)]
