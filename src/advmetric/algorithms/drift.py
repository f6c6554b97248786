"""DRIFT: a metric learned together with the disturbances of the points (a reconstruction)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from advmetric.learners.base import ITERATION_CONSTRAINTS, IterativeLearner
from advmetric.optimize.lbfgs import minimize_lbfgs
from advmetric.optimize.result import Monitor, Result, make_monitor
from advmetric.pairs.data import LabelledPoints
from advmetric.pairs.triplets import Neighbors, centred, nearest_impostors, target_neighbors
from advmetric.utils.parameters import Real, Whole
from advmetric.utils.typing import Matrix

__all__ = ["DRIFT", "DriftProblem", "solve"]


@dataclass(frozen=True)
class DriftProblem:
    """mean of [1 - d_M(z_i - z_l) + d_M(z_i - z_j)]₊² + λ₁/2 ‖M - I‖² + λ₂/2n Σ‖δ_i‖², z = x + δ.

    The mean is over the triplets of each point i with its fixed targets j and impostors l.
    """

    X: Matrix
    targets: Neighbors
    impostors: Neighbors
    lambda1: float
    lambda2: float

    @cached_property
    def n_triplets(self) -> int:
        """Number of triplets."""
        return int(np.sum(self.targets.counts * self.impostors.counts))

    def evaluate(self, M: Matrix, delta: Matrix) -> tuple[float, Matrix, Matrix]:
        """Value and the gradients in M and in δ, through the Laplacian of the weighted triplet graph.

        With H the hinges, an edge to a target weighs Σ_l 2H and one to an impostor -Σ_j 2H. With the
        Laplacian K of that graph the gradients of the mean are ZᵀKZ and 2KZM.
        """
        Z = self.X + delta
        ZM = Z @ M
        hinge = 1.0 + self.targets.squared_distances(Z, ZM)[:, :, None]
        hinge = hinge - self.impostors.squared_distances(Z, ZM)[:, None, :]
        hinge *= self.targets.known[:, :, None] & self.impostors.known[:, None, :]
        np.maximum(hinge, 0.0, out=hinge)
        weights = hinge * (2.0 / self.n_triplets)
        product = self.targets.laplacian(weights.sum(axis=2), Z)
        product -= self.impostors.laplacian(weights.sum(axis=1), Z)
        shift, price = M - np.eye(len(M)), self.lambda2 / len(Z)
        value = float(np.einsum("ijl,ijl->", hinge, hinge)) / self.n_triplets
        value += 0.5 * self.lambda1 * float(np.vdot(shift, shift)) + 0.5 * price * float(np.vdot(delta, delta))
        in_M = Z.T @ product
        return value, 0.5 * (in_M + in_M.T) + self.lambda1 * shift, 2.0 * (product @ M) + price * delta


def solve(
    problem: DriftProblem, *, max_iter: int, tol: float, monitor: Monitor | None = None
) -> Result[tuple[Matrix, Matrix]]:
    """Minimise by L-BFGS over L, M = LᵀL, and δ at once, from M = I and δ = 0.

    The objective never rises. In M alone the problem is convex, with δ it is not: the end is a
    stationary point. Alternating projected gradient steps in M and gradient steps in δ end in the same
    one where moving is dear (λ₂ >= 10), perhaps in another where it is cheap, but took a hundred times
    as long (wine, λ₁ = 10⁻³).
    """
    n, d = problem.X.shape
    # δ is measured in a unit in which its curvature does not vanish as n grows.
    unit = float(np.sqrt(n / (8.0 + problem.lambda2)))

    def function(both: Matrix) -> tuple[float, Matrix]:
        L, delta = both[:d], unit * both[d:]
        value, in_M, in_delta = problem.evaluate(L.T @ L, delta)
        return value, np.vstack([2.0 * (L @ in_M), unit * in_delta])

    start = np.vstack([np.eye(d), np.zeros((n, d))])
    # A short memory: each step remembered is as large as the data.
    found = minimize_lbfgs(function, start, tol=tol, max_iter=max_iter, memory=10, first_step=1.0, monitor=monitor)
    metric_and_moves = found.x[:d], unit * found.x[d:]
    return Result(metric_and_moves, found.objective, not found.exhausted, found.message, found.slope, found.exhausted)


class DRIFT(IterativeLearner):
    """Distance Metric Learning Facilitated by Disturbances: a reconstruction from its abstract.

    Minimises over M ⪰ 0 and a disturbance δ_i of each point, z_i = x_i + δ_i,

        mean of [1 - d_M(z_i - z_l) + d_M(z_i - z_j)]₊² + λ₁/2 ‖M - I‖² + λ₂/2n Σ_i ‖δ_i‖²

    over triplets of a point i, a near one j of its class and a near one l of another, d_M(v) = vᵀMv.
    The metric is that of points moved to where noise may have taken them from. New points are
    measured by M alone.

    The paper's text could not be had: triplets, squared hinge and both penalties are our reading of
    its abstract, and results of this class are not the authors'.

    Parameters
    ----------
    n_targets : int, default=3
        Nearest points of the same class that make triplets with each point (fewer in small classes; a
        point alone in its class makes none).
    n_impostors : int, default=10
        Nearest points of other classes.
    lambda1 : float > 0, default=0.1
        Pull of M towards the identity. Tune over 10⁻³ … 10.
    lambda2 : float > 0, default=10.0
        Price of disturbances; the larger, the smaller they are. Tune over 0.1 … 100.
    max_iter : int, default=1000
        Iterations of L-BFGS at most.
    tol : float, default=1e-7
        Stop when an iteration lowers the objective by less than this part of its value at the start.
    preprocessor, random_state, verbose
        As for :class:`~advmetric.AML`. DRIFT learns from points, so ``preprocessor`` is for ``pair_distance`` and the
        like, and draws nothing, so ``random_state`` is ignored.

    Attributes
    ----------
    components_ : (d, d) array
        L, with M = LᵀL. Rows from the largest eigenvalue to the smallest.
    disturbances_ : (n, d) array
        δ, in the units of X.
    n_iter_, converged_, objective_ : iterations, whether tol was met, and the objective by iteration (never rising)

    See Also
    --------
    AML : An adversary instead of disturbances.

    Notes
    -----
    The points are first divided by the root mean square of their distances to their targets, so that
    neither λ₁ nor λ₂ nor the margin depend on the scale of X; the identity above is that of the
    divided points. Directions without spread keep it.

    An iteration takes O(n (k_t + k_i) d + nd² + d³), the search for neighbours O(n² d) by blocks.
    L-BFGS remembers ten steps: memory is about 30 times that of X. On one core: letters 0.5 s for
    4 000 points, 3 s and 110 MB for 16 000; 4 000 MNIST digits 0.8, 1.4 and 2.8 s at d = 50, 100 and
    200; Isolet (6 238 × 617) 32 s and 1.6 GB.

    References
    ----------
    H.-J. Ye, D.-C. Zhan, X.-M. Si, Y. Jiang. Learning Mahalanobis Distance Metric: Considering Instance
    Disturbance Helps. IJCAI 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> learner = DRIFT().fit(StandardScaler().fit_transform(X), y)
    >>> learner.converged_, learner.disturbances_.shape
    (True, (178, 13))
    """

    supervision = ("points",)

    _constraints = {
        **ITERATION_CONSTRAINTS,
        "n_targets": Whole(1),
        "n_impostors": Whole(1),
        "lambda1": Real(0.0, open_low=True),
        "lambda2": Real(0.0, open_low=True),
    }

    def __init__(
        self,
        *,
        n_targets: int = 3,
        n_impostors: int = 10,
        lambda1: float = 0.1,
        lambda2: float = 10.0,
        max_iter: int = 1000,
        tol: float = 1e-7,
        preprocessor: ArrayLike | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_targets, self.n_impostors = n_targets, n_impostors
        self.lambda1, self.lambda2 = lambda1, lambda2
        super().__init__(
            max_iter=max_iter, tol=tol, preprocessor=preprocessor, random_state=random_state, verbose=verbose
        )

    def _learn(self, data: LabelledPoints, **extra: Any) -> Matrix:
        X, scale = centred(data.X)
        targets = Neighbors(target_neighbors(X, data.y, self.n_targets))
        impostors = Neighbors(nearest_impostors(X, data.y, self.n_impostors))
        # Targets may all be duplicates, and so may all points.
        size = float(np.sqrt(targets.squared_distances(X).sum() / len(targets.pairs)))
        size = size or float(np.sqrt(impostors.squared_distances(X).sum() / len(impostors.pairs))) or 1.0
        problem = DriftProblem(X / size, targets, impostors, float(self.lambda1), float(self.lambda2))
        monitor = make_monitor("DRIFT", self.verbose, "relative decrease")
        solution = solve(problem, max_iter=self.max_iter, tol=self.tol, monitor=monitor)
        L, moves = solution.x
        self.disturbances_ = moves * (size * (scale or 1.0))
        self._report(solution)
        _, singular, Vt = np.linalg.svd(L)
        return (singular / (size * (scale or 1.0)))[:, None] * Vt
