"""RVML: regressive virtual metric learning, in closed form, linear and with a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import euclidean_distances, pairwise_kernels
from sklearn.utils.validation import check_is_fitted

from ..checks import check_choice, check_number
from ..learner import LabelledPoints, MetricLearner
from ..linalg import Matrix, Vector
from ..supervision import Pairs

__all__ = ["RVML", "KernelMetric", "KernelRVML", "transport_targets"]

TARGETS = ("class", "transport")
KERNELS = ("rbf", "laplacian", "polynomial", "sigmoid", "linear", "cosine")
_MAX_KERNEL_POINTS = 20_000
_BLOCK = 1 << 22
"""Distances or kernel values held at once in blocked loops: 32 MB."""


# --- scaling --------------------------------------------------------------------------------------------


def centre_and_scale(X: Matrix) -> tuple[Vector, Vector]:
    """Mean and three standard deviations of each feature (1 where a feature is constant).

    The authors' preprocessing. Computed so that no square overflows or vanishes.
    """
    size = np.abs(X).max(axis=0)
    unit = np.where(size > 0.0, size, 1.0)
    scaled = X / unit
    mean = scaled.mean(axis=0)
    spread = np.abs(scaled - mean).max(axis=0)
    varies = spread > 16.0 * np.finfo(float).eps
    spread = np.where(varies, spread, 1.0)
    sigma = spread * np.sqrt(np.mean(((scaled - mean) / spread) ** 2, axis=0))
    return mean * unit, np.where(varies, 3.0 * sigma, 1.0) * np.where(varies, unit, 1.0)


# --- targets --------------------------------------------------------------------------------------------


def class_targets(y: NDArray[np.integer]) -> Matrix:
    """Each class its own unit vector: V (n, c)."""
    return np.eye(int(y.max()) + 1)[y]


def select_landmarks(X: Matrix, n_classes: int) -> NDArray[np.integer]:
    """Rows of X that serve as landmarks.

    The point of largest norm, then again and again the point farthest on average from those chosen,
    until there are at least ``n_classes`` and no point is farther from its nearest landmark than two
    points are on average. O(n²d) time for that average, by blocks; O(n) memory beside them.
    """
    n = len(X)
    radius = _mean_distance(X)
    chosen = [int(np.argmax(np.einsum("ij,ij->i", X, X)))]
    total = _distance_to(X, chosen[0])
    nearest = total.copy()
    free = np.ones(n, dtype=bool)
    free[chosen[0]] = False
    while len(chosen) < n and (len(chosen) < n_classes or nearest[free].max() > radius):
        following = int(np.argmax(np.where(free, total, -1.0)))
        chosen.append(following)
        free[following] = False
        distances = _distance_to(X, following)
        total += distances
        np.minimum(nearest, distances, out=nearest)
    return np.array(chosen, dtype=np.intp)


def transport_targets(
    X: Matrix, y: NDArray[np.integer], *, reg: float = 0.5, eta: float = 10.0, steps: int = 10
) -> Matrix:
    """Targets by optimal transport of the points to landmarks among them: V (n, d).

    The plan γ minimises ⟨γ, C⟩ + reg Σ γ log γ + eta Σ_{class, landmark} (mass of the class there)^{1/2}
    with uniform marginals and C the Euclidean distances: the last term sends different classes to
    different landmarks. It is concave, so it is replaced by its tangent ``steps`` times, each followed
    by at most 200 Sinkhorn iterations (the authors' numbers). A point's target is the mean of the
    landmarks by its row of the plan.

    Time O(n²d + steps·200·nm) and memory O(nm) for m landmarks.
    """
    ot = _import_ot()
    landmarks = X[select_landmarks(X, int(y.max()) + 1)]
    cost = cdist(X, landmarks)
    source, target = np.full(len(X), 1.0 / len(X)), np.full(len(landmarks), 1.0 / len(landmarks))
    membership = class_targets(y)
    tangent = np.zeros_like(cost)
    plan = np.zeros_like(cost)
    for _ in range(steps):
        plan = _sinkhorn(ot, source, target, cost + eta * tangent, reg)
        # Derivative of mass^{1/2}, kept finite at 0 as in the authors' code.
        tangent = membership @ (0.5 / np.sqrt(membership.T @ plan + 1e-3))
    plan /= plan.sum(axis=1, keepdims=True)
    targets: Matrix = plan @ landmarks
    return targets


def _sinkhorn(ot: Any, source: Vector, target: Vector, cost: Matrix, reg: float) -> Matrix:
    settings = {"numItermax": 200, "stopThr": 1e-9, "warn": False}
    # exp(-cost/reg) vanishes beyond this; the logarithmic form, ten times slower, does not.
    method = "sinkhorn" if cost.max() - cost.min() < 300.0 * reg else "sinkhorn_log"
    plan: Matrix = ot.sinkhorn(source, target, cost - cost.min(), reg, method=method, **settings)
    return plan


def _import_ot() -> Any:
    try:
        return import_module("ot")
    except ImportError as error:
        raise ImportError(
            'targets="transport" needs the package POT: pip install "advmetric[ot]" (or pip install POT).'
        ) from error


def _mean_distance(X: Matrix) -> float:
    """Mean over all n² ordered pairs, by blocks."""
    step = max(1, _BLOCK // len(X))
    # By matrix products: a mean does not need the last digits of small distances.
    total = sum(float(euclidean_distances(X[start : start + step], X).sum()) for start in range(0, len(X), step))
    return total / len(X) ** 2


def _distance_to(X: Matrix, row: int) -> Vector:
    distances: Vector = cdist(X, X[row : row + 1])[:, 0]
    return distances


# --- regression -----------------------------------------------------------------------------------------


def ridge(X: Matrix, V: Matrix, lam: float) -> Matrix:
    """L (d, c) that minimises ‖XL - V‖²/n + lam ‖L‖².

    (XᵀX + lam·n·I)⁻¹XᵀV, or Xᵀ(XXᵀ + lam·n·I)⁻¹V where d > n: O(nd·min(n, d)).
    """
    n, d = X.shape
    if d <= n:
        return _solve(X.T @ X, lam * n, X.T @ V)
    return X.T @ _solve(X @ X.T, lam * n, V)


def _solve(G: Matrix, shift: float, right: Matrix) -> Matrix:
    """(G + shift·I)⁻¹ right; G is overwritten."""
    G.flat[:: len(G) + 1] += shift
    solution: Matrix = cho_solve(cho_factor(G, lower=True, overwrite_a=True, check_finite=False), right)
    return solution


# --- estimators -----------------------------------------------------------------------------------------


class RVML(MetricLearner):
    """Regressive Virtual Metric Learning: ridge regression of each point on a virtual target.

    Minimises over L

        (1/n) Σ ‖Lᵀx̃ᵢ - vᵢ‖² + lam ‖L‖²,   x̃ the points centred and divided by 3σ,

    in closed form. The target vᵢ is the unit vector of the point's class, or the place where optimal
    transport, kept apart by classes, sends the point. Learns from points with class labels.

    Parameters
    ----------
    lam : float > 0, default=1e-3
        Ridge weight. The authors choose it from 10⁻⁵ … 10 by cross-validation. The larger, the more the
        directions of little variance are shrunk.
    targets : {"class", "transport"}, default="class"
        "class" gives a metric of rank at most c - 1 (c classes); "transport" one of rank up to d. The latter
        needs the package POT (the extra ``ot``).
    ot_reg, ot_eta : float, default=0.5 and 10
        For "transport": weight of the entropy, and of the term that keeps classes apart.
    preprocessor : None
        Leave it unset to fit; set to points after that, it lets ``pair_distance`` take pairs of row numbers.

    Attributes
    ----------
    components_ : (c, d) or (d, d) array
        Lᵀ with the scaling folded in, so that it acts on the features as they came.
    n_features_in_, feature_names_in_, classes_ : as for all learners

    Notes
    -----
    Time O(nd·min(n, d)), memory O(nd + d²). With "transport" add O(n²d) time for the mean distance and
    O(nm) memory for m landmarks. Measured on one core: 0.01, 0.06 and 0.7 s for 2 000, 20 000 and 200 000 points of
    50 features; Isolet (6 238 × 617) 1.3 s and 0.35 GB, with "transport" 10 s and 0.6 GB.
    The scaling makes the metric independent of the features' units. The transport plan is stopped after the authors'
    number of iterations, not at a tolerance: its rows are normalised, so only the landmarks' shares may be off.
    Certainty: formulas, scaling and settings follow the authors' published code.

    References
    ----------
    M. Perrot, A. Habrard. Regressive Virtual Metric Learning. NIPS 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> RVML().fit(X, y).transform(X).shape
    (178, 3)
    """

    supervision = ("points",)

    def __init__(
        self,
        *,
        lam: float = 1e-3,
        targets: str = "class",
        ot_reg: float = 0.5,
        ot_eta: float = 10.0,
        preprocessor: ArrayLike | None = None,
    ) -> None:
        self.lam = lam
        self.targets = targets
        self.ot_reg = ot_reg
        self.ot_eta = ot_eta
        self.preprocessor = preprocessor

    def _check_params(self) -> None:
        check_number("lam", self.lam, 0.0, open_low=True)
        check_choice("targets", self.targets, TARGETS)
        check_number("ot_reg", self.ot_reg, 0.0, open_low=True)
        check_number("ot_eta", self.ot_eta, 0.0)

    def _learn(self, data: LabelledPoints | Pairs, **extra: Any) -> Matrix:
        assert isinstance(data, LabelledPoints)
        # One memory order, so that a frame and an array give the same to the last bit.
        points = np.ascontiguousarray(data.X, dtype=np.float64)
        mean, scale = centre_and_scale(points)
        X = (points - mean) / scale
        return (ridge(X, self._virtual_points(X, data.y), self.lam) / scale[:, None]).T

    def _virtual_points(self, X: Matrix, y: NDArray[np.integer]) -> Matrix:
        if self.targets == "class":
            return class_targets(y)
        return transport_targets(X, y, reg=self.ot_reg, eta=self.ot_eta)


@dataclass(frozen=True)
class KernelMetric:
    """The distance ‖A(k(x) - k(x'))‖, with k(x) the kernel of x with stored points.

    Parameters
    ----------
    components : (r, m) array
        A.
    points : (m, d) array
        The stored points, centred and scaled.
    mean, scale : (d,) arrays
        What to take off a new point, and to divide it by.
    kernel : callable
        (X, X') ↦ matrix of kernel values.
    """

    components: Matrix
    points: Matrix
    mean: Vector
    scale: Vector
    kernel: Callable[[Matrix, Matrix], Matrix] = field(repr=False)

    def transform(self, X: Matrix) -> Matrix:
        """Map points to the space in which the distance is Euclidean, by blocks."""
        embedded = np.empty((len(X), len(self.components)))
        step = max(1, _BLOCK // len(self.points))
        for start in range(0, len(X), step):
            block = slice(start, start + step)
            embedded[block] = self.kernel((X[block] - self.mean) / self.scale, self.points) @ self.components.T
        return embedded

    def pair_distance(self, pairs: Pairs) -> Vector:
        """Distances of the pairs; exactly 0 for a point and itself."""
        used, place = np.unique(np.concatenate([pairs.left, pairs.right]), return_inverse=True)
        embedded = self.transform(pairs.X[used])
        difference = embedded[place[: len(pairs)]] - embedded[place[len(pairs) :]]
        distances: Vector = np.sqrt(np.einsum("ij,ij->i", difference, difference))
        # Matrix products round equal rows differently.
        distances[np.all(pairs.X[pairs.left] == pairs.X[pairs.right], axis=1)] = 0.0
        return distances

    def __call__(self, u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
        """Distance of two vectors."""
        embedded = self.transform(np.array([u, v], dtype=float))
        square = float(np.sum((embedded[0] - embedded[1]) ** 2))
        return square if squared else float(np.sqrt(square))


class KernelRVML(RVML):
    """RVML with a kernel: transform(z) = k(z, X)(K + lam·n·I)⁻¹V.

    Minimises (1/n) Σ ‖Lᵀφ(xᵢ) - vᵢ‖² + lam ‖L‖² over linear maps L of the kernel's feature space. The
    distance is not a Mahalanobis distance of the features: ``components_`` acts on the kernel map
    z ↦ k(z, X), ``transform``, ``pair_distance`` and ``get_metric`` apply that map first, and
    ``get_mahalanobis_matrix`` is not there.

    Parameters
    ----------
    lam, targets, ot_reg, ot_eta
        As for :class:`RVML`.
    kernel : {"rbf", "laplacian", "polynomial", "sigmoid", "linear", "cosine"} or callable, default="rbf"
        By scikit-learn's names, or a function of two arrays of points that returns the matrix of their
        kernel values. It sees points centred and divided by 3σ.
    gamma : float, optional
        Of "rbf", "laplacian", "polynomial" and "sigmoid". None is the authors' choice 1/(2m²), m the mean
        distance of two training points.
    preprocessor : None
        As for :class:`RVML`.

    Attributes
    ----------
    components_ : (c, n) or (d, n) array
        ((K + lam·n·I)⁻¹V)ᵀ.
    points_ : (n, d) array
        The training points, centred and scaled.
    mean_, scale_, gamma_ : the centring, the scaling and the gamma in use

    Notes
    -----
    Time O(n²d + n³), memory O(n²): Isolet (6 238 points) 7.5 s and 1 GB on one core. Up to 20 000 points; for more,
    put scikit-learn's ``Nystroem`` before :class:`RVML`.

    References
    ----------
    M. Perrot, A. Habrard. Regressive Virtual Metric Learning. NIPS 2015.
    """

    def __init__(
        self,
        *,
        lam: float = 1e-3,
        targets: str = "class",
        kernel: str | Callable[[Matrix, Matrix], Matrix] = "rbf",
        gamma: float | None = None,
        ot_reg: float = 0.5,
        ot_eta: float = 10.0,
        preprocessor: ArrayLike | None = None,
    ) -> None:
        super().__init__(lam=lam, targets=targets, ot_reg=ot_reg, ot_eta=ot_eta, preprocessor=preprocessor)
        self.kernel = kernel
        self.gamma = gamma

    def _check_params(self) -> None:
        super()._check_params()
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, KERNELS)
        if self.gamma is not None:
            check_number("gamma", self.gamma, 0.0, open_low=True)

    def _learn(self, data: LabelledPoints | Pairs, **extra: Any) -> Matrix:
        assert isinstance(data, LabelledPoints)
        n = len(data.X)
        if n > _MAX_KERNEL_POINTS:
            raise ValueError(
                f"X has {n} points; the {n} x {n} kernel matrix is not formed beyond {_MAX_KERNEL_POINTS}. "
                "Use make_pipeline(sklearn.kernel_approximation.Nystroem(), RVML()) instead."
            )
        points = np.ascontiguousarray(data.X, dtype=np.float64)
        self.mean_, self.scale_ = centre_and_scale(points)
        self.points_ = (points - self.mean_) / self.scale_
        self.gamma_ = self._choose_gamma(self.points_)
        K = np.array(self._kernel(self.points_, self.points_), dtype=float)
        return _solve(K, self.lam * n, self._virtual_points(self.points_, data.y)).T

    def _choose_gamma(self, X: Matrix) -> float:
        if self.gamma is not None:
            return float(self.gamma)
        mean = _mean_distance(X)
        return 0.5 / mean**2 if mean > 0.0 else 1.0

    def _kernel(self, X: Matrix, Z: Matrix) -> Matrix:
        if callable(self.kernel):
            return np.asarray(self.kernel(X, Z), dtype=float)
        takes_gamma = self.kernel not in ("linear", "cosine")
        values: Matrix = pairwise_kernels(X, Z, metric=self.kernel, **({"gamma": self.gamma_} if takes_gamma else {}))
        return values

    def transform(self, X: ArrayLike) -> Matrix:
        """Map points to the space in which the learned distance is Euclidean."""
        points = self._check_points(X)
        return self.get_metric().transform(points).astype(points.dtype, copy=False)

    # A distance of kernel maps cannot keep the promises of Mahalanobis (a (d, d) matrix, save to a file).
    def get_metric(self) -> KernelMetric:  # type: ignore[override]
        """The learned metric, callable on two vectors."""
        check_is_fitted(self, "components_")
        return KernelMetric(self.components_, self.points_, self.mean_, self.scale_, self._kernel)

    @property
    def get_mahalanobis_matrix(self) -> Any:
        """Not there: the distance is not a quadratic form of the features."""
        raise AttributeError("KernelRVML has no Mahalanobis matrix: its distance is not a quadratic form of X.")
