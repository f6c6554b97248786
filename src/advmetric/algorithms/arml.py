"""ARML: the largest certified radius of triplets, for metrics that small moves of a point do not fool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from advmetric.learners.base import MetricLearner
from advmetric.optimize.result import Monitor, make_monitor
from advmetric.pairs.data import LabelledPoints
from advmetric.pairs.triplets import centred, nearest_impostors, target_neighbors
from advmetric.utils.parameters import ANYTHING, Choice, Real, Whole, check_seed, check_verbosity
from advmetric.utils.typing import Indices, Matrix, Vector

__all__ = ["ARML", "evaluate", "maximise_radii"]

_FLOOR = 1e-10
"""Least ‖M(x₊ - x₋)‖², relative to the largest: points of two classes may be equal."""
_DECAY, _SQUARED_DECAY = 0.9, 0.999
"""Adam's constants, as its authors recommend."""

Loss = Callable[[Vector], tuple[Vector, Vector]]
"""Radii ↦ losses and their derivatives."""


def _negative(radii: Vector) -> tuple[Vector, Vector]:
    return -radii, np.full_like(radii, -1.0)


def _logistic(radii: Vector) -> tuple[Vector, Vector]:
    small = np.exp(-np.abs(radii))
    return np.log1p(small) + np.maximum(-radii, 0.0), -np.where(radii > 0.0, small, 1.0) / (1.0 + small)


LOSSES: dict[str, Loss] = {"negative": _negative, "logistic": _logistic}


def evaluate(L: Matrix, near: Matrix, far: Matrix, loss: Loss = _negative, unit: float = 1.0) -> tuple[float, Matrix]:
    """Mean of ℓ(ε/unit) over triplets, and its gradient in L, M = LᵀL. O(Nd²).

        ε = (v₋ᵀMv₋ - v₊ᵀMv₊) / (2b),    b = ‖M(v₊ - v₋)‖

    is the Euclidean distance of x from the plane on which x₊ and x₋ are equally near, negative on the wrong side. With
    w the derivative of the mean by ε the gradient in M is

        Σ w/2b (v₋v₋ᵀ - v₊v₊ᵀ) - ½(CM + MC),    C = Σ w ε/b² (v₊ - v₋)(v₊ - v₋)ᵀ.

    Parameters
    ----------
    L : (r, d) array
    near, far : (N, d) arrays
        v₊ = x₊ - x and v₋ = x₋ - x.
    loss : callable
    unit : float
        Radius that the loss sees as 1.
    """
    M = L.T @ L
    gap = np.einsum("nd,nd->n", far @ M, far) - np.einsum("nd,nd->n", near @ M, near)
    across = near - far
    squares = np.einsum("nd,nd->n", across @ M, across @ M)
    floor = _FLOOR * float(squares.max(initial=0.0)) or 1.0
    b = np.sqrt(np.maximum(squares, floor))
    radii = 0.5 * gap / b
    losses, slopes = loss(radii / unit)
    slopes = slopes / (unit * max(1, len(near)))
    weights = (0.5 * slopes / b)[:, None]
    in_M = far.T @ (weights * far) - near.T @ (weights * near)
    # b does not change where it is at its floor.
    C = across.T @ (np.where(squares > floor, slopes * radii / b**2, 0.0)[:, None] * across)
    in_M -= 0.5 * (C @ M + M @ C)
    return float(losses.mean()), 2.0 * (L @ in_M)


def maximise_radii(
    X: Matrix,
    y: NDArray[np.integer],
    loss: str = "negative",
    *,
    n_neighbors: int,
    n_steps: int,
    n_refresh: int,
    step_size: float,
    random_state: np.random.RandomState,
    monitor: Monitor | None = None,
) -> tuple[Matrix, list[float]]:
    """Adam on triplets drawn anew for each step, one per point, from L = I; return L and the mean loss by step.

    Neighbours are those under the metric so far, looked for ``n_refresh`` times in even intervals and at the start.
    Radii are in units of their mean size at the start, so that neither they nor the steps depend on the scale of X.
    """
    L = np.eye(X.shape[1])
    mean, square = np.zeros_like(L), np.zeros_like(L)
    objective: list[float] = []
    unit = 0.0
    every = -(-n_steps // (n_refresh + 1))
    for step in range(n_steps):
        if step % every == 0:
            Z = X @ L.T
            targets, impostors = target_neighbors(Z, y, n_neighbors), nearest_impostors(Z, y, n_neighbors)
            anchors = np.flatnonzero(targets[:, 0] >= 0)
        near = X[_drawn(targets[anchors], random_state)] - X[anchors]
        far = X[_drawn(impostors[anchors], random_state)] - X[anchors]
        if not unit:
            unit = evaluate(L, near, far, _absolute)[0] or 1.0
        value, gradient = evaluate(L, near, far, LOSSES[loss], unit)
        mean += (1.0 - _DECAY) * (gradient - mean)
        square += (1.0 - _SQUARED_DECAY) * (gradient**2 - square)
        root = np.sqrt(square / (1.0 - _SQUARED_DECAY ** (step + 1)))
        L -= (step_size / (1.0 - _DECAY ** (step + 1))) * mean / (root + 1e-8)
        objective.append(value)
        if monitor:
            monitor(step + 1, value, float(np.linalg.norm(gradient)))
    return L, objective


def _absolute(radii: Vector) -> tuple[Vector, Vector]:
    return np.abs(radii), np.sign(radii)


def _drawn(neighbors: Indices, random_state: np.random.RandomState) -> Indices:
    """One of the neighbours in each row of an array that may be filled up with -1."""
    count = np.sum(neighbors >= 0, axis=1)
    place = (random_state.random_sample(len(neighbors)) * count).astype(np.intp)
    drawn: Indices = neighbors[np.arange(len(neighbors)), place]
    return drawn


class ARML(MetricLearner):
    """Adversarially Robust Metric Learning: triplets whose order no small move of a point changes.

    Lowers over M ⪰ 0 the mean of ℓ(ε) over triplets of a point x, one x₊ of the nearest points of its class and one x₋
    of the nearest points of other classes, where

        ε = ((x - x₋)ᵀM(x - x₋) - (x - x₊)ᵀM(x - x₊)) / (2 ‖M(x₊ - x₋)‖)

    is the Euclidean length of the smallest move of x that brings x₋ as near as x₊. The smallest move that fools 1-NN is
    at least the minimum over x₋ of the maximum over x₊ of ε.

    Parameters
    ----------
    loss : {"negative", "logistic"}, default="negative"
        ℓ(ε) = -ε, as in the paper's experiments, or log(1 + exp(-ε/u)), u the mean size of ε for the Euclidean
        distance, which hardly rewards radii beyond u.
    n_neighbors : int, default=10
        Nearest points of the same class, and of other classes, that triplets are drawn from (fewer in small classes; a
        point alone in its class makes none).
    n_steps : int, default=1000
        Steps of Adam from the Euclidean distance, one triplet per point each. Part of the method: on vehicle, the
        minimum itself certifies fewer points.
    step_size : float > 0, default=1e-3
    n_refresh : int, default=20
        How often the nearest points are looked for anew, under the metric so far.
    preprocessor, random_state, verbose
        As for :class:`~advmetric.AML`; ``random_state`` is for the draws of triplets. ARML learns from points,
        so ``preprocessor`` is for ``pair_distance`` and the like.

    Attributes
    ----------
    components_ : (d, d) array
        L, with M = LᵀL. Rows from the largest eigenvalue to the smallest. ε does not fix the scale of M.
    classes_, n_features_in_, feature_names_in_ : class labels; number and, for DataFrames, names of the features
    n_iter_, objective_ : steps, and the mean of ℓ over the triplets of each, radii in units of u

    See Also
    --------
    NeighborAML : An adversary against pairs of points, with a margin or softmax loss.

    Notes
    -----
    Loss, draws and steps are those of the authors' code, which looks for neighbours before every step. A step takes
    O(nd²), a search O(n²d) by blocks. Moves are measured by the Euclidean distance in the features as given, so scale
    them first.

    References
    ----------
    L. Wang, X. Liu, J. Yi, Y. Jiang, C.-J. Hsieh. Provably Robust Metric Learning. NeurIPS 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_wine(return_X_y=True)
    >>> objective = ARML(n_steps=300, random_state=0).fit(scale(X), y).objective_
    >>> bool(objective[-1] < objective[0])  # the mean of ℓ has fallen, so the radii have grown
    True
    """

    supervision = ("points",)
    _constraints = {
        "loss": Choice(*LOSSES),
        "n_neighbors": Whole(1),
        "n_steps": Whole(1),
        "step_size": Real(0.0, open_low=True),
        "n_refresh": Whole(0),
        "preprocessor": ANYTHING,
        "random_state": check_seed,
        "verbose": check_verbosity,
    }

    def __init__(
        self,
        *,
        loss: str = "negative",
        n_neighbors: int = 10,
        n_steps: int = 1000,
        step_size: float = 1e-3,
        n_refresh: int = 20,
        preprocessor: ArrayLike | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.n_neighbors, self.n_refresh = n_neighbors, n_refresh
        self.n_steps, self.step_size = n_steps, step_size
        self.preprocessor, self.random_state, self.verbose = preprocessor, random_state, verbose

    def _learn(self, data: LabelledPoints, **extra: Any) -> Matrix:
        X, scale = centred(data.X)
        L, objective = maximise_radii(
            X,
            data.y,
            self.loss,
            n_neighbors=self.n_neighbors,
            n_steps=self.n_steps,
            n_refresh=self.n_refresh,
            step_size=float(self.step_size),
            random_state=check_random_state(self.random_state),
            monitor=make_monitor("ARML", self.verbose, "gradient"),
        )
        self.objective_, self.n_iter_ = np.array(objective), self.n_steps
        _, singular, Vt = np.linalg.svd(L)
        return (singular / (scale or 1.0))[:, None] * Vt
