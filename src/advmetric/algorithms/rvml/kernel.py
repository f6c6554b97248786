"""KernelRVML: regressive virtual metric learning with a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics.pairwise import pairwise_kernels

from advmetric.metric.checks import as_vector, check_pairs, check_points
from advmetric.pairs.data import LabelledPoints, Pairs
from advmetric.utils.parameters import Choice, Optional, Real
from advmetric.utils.typing import Matrix, Vector

from .estimator import RVML, solve_shifted
from .targets import BLOCK, centre_and_scale, mean_distance

__all__ = ["KernelMetric", "KernelRVML"]

KERNELS = ("rbf", "laplacian", "polynomial", "sigmoid", "linear", "cosine")
_MAX_KERNEL_POINTS = 20_000


def _check_kernel(name: str, value: Any) -> None:
    if not callable(value):
        Choice(*KERNELS)(name, value)


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

    def transform(self, X: ArrayLike) -> Matrix:
        """Map points to the space in which the distance is Euclidean, by blocks."""
        X = check_points(X, "X", self.points.shape[1])
        embedded = np.empty((len(X), len(self.components)))
        step = max(1, BLOCK // len(self.points))
        for start in range(0, len(X), step):
            block = slice(start, start + step)
            embedded[block] = self.kernel((X[block] - self.mean) / self.scale, self.points) @ self.components.T
        return embedded

    def pair_distance(self, pairs: ArrayLike | Pairs) -> Vector:
        """Distances of the pairs; exactly 0 for a point and itself."""
        pairs = check_pairs(pairs, self.points.shape[1])
        used, place = np.unique(np.concatenate([pairs.left, pairs.right]), return_inverse=True)
        embedded = self.transform(pairs.X[used])
        difference = embedded[place[: len(pairs)]] - embedded[place[len(pairs) :]]
        distances: Vector = np.sqrt(np.einsum("ij,ij->i", difference, difference))
        # Matrix products round equal rows differently.
        distances[np.all(pairs.X[pairs.left] == pairs.X[pairs.right], axis=1)] = 0.0
        return distances

    def __call__(self, u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
        """Return the distance of two vectors of length d, given as arrays or lists, also of shape (1, d)."""
        d = self.points.shape[1]
        embedded = self.transform(np.array([as_vector(u, "u", d), as_vector(v, "v", d)]))
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

    See Also
    --------
    RVML : The linear method.

    Notes
    -----
    Time O(n²d + n³), memory O(n²): Isolet (6 238 points) 7.5 s and 1 GB on one core. Up to 20 000 points; for more,
    put scikit-learn's ``Nystroem`` before :class:`RVML`.

    References
    ----------
    M. Perrot, A. Habrard. Regressive Virtual Metric Learning. NIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(100, factor=0.3, noise=0.05, random_state=0)
    >>> Z = KernelRVML(lam=1e-3).fit(X, y).transform(X)  # circles apart
    >>> bool(np.linalg.norm(Z[y == 0].mean(axis=0) - Z[y == 1].mean(axis=0)) > 2 * Z[y == 0].std())
    True
    """

    _constraints = {**RVML._constraints, "kernel": _check_kernel, "gamma": Optional(Real(0.0, open_low=True))}

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

    def _learn(self, data: LabelledPoints, **extra: Any) -> Matrix:
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
        return solve_shifted(K, self.lam * n, self._virtual_points(self.points_, data.y)).T

    def _choose_gamma(self, X: Matrix) -> float:
        if self.gamma is not None:
            return float(self.gamma)
        mean = mean_distance(X)
        return 0.5 / mean**2 if mean > 0.0 else 1.0

    def _kernel(self, X: Matrix, Z: Matrix) -> Matrix:
        if callable(self.kernel):
            given = np.asarray(self.kernel(X, Z), dtype=float)
            if given.shape != (len(X), len(Z)):
                raise ValueError(f"kernel returned shape {given.shape}; ({len(X)}, {len(Z)}) is needed.")
            return given
        takes_gamma = self.kernel not in ("linear", "cosine")
        values: Matrix = pairwise_kernels(X, Z, metric=self.kernel, **({"gamma": self.gamma_} if takes_gamma else {}))
        return values

    def _embed(self, points: Matrix) -> Matrix:
        return self.get_metric().transform(points).astype(points.dtype, copy=False)

    # A distance of kernel maps cannot keep the promises of Mahalanobis (a (d, d) matrix, save to a file).
    def get_metric(self) -> KernelMetric:  # type: ignore[override]
        """The learned metric, callable on two vectors."""
        self._check_fitted()
        return KernelMetric(self.components_, self.points_, self.mean_, self.scale_, self._kernel)

    @property
    def get_mahalanobis_matrix(self) -> Any:
        """Not there: the distance is not a quadratic form of the features."""
        raise AttributeError("KernelRVML has no Mahalanobis matrix: its distance is not a quadratic form of X.")

    @property
    def inverse_transform(self) -> Any:
        """Not available: a kernel map has no linear inverse."""
        raise AttributeError("KernelRVML has no inverse_transform: a kernel map has no linear inverse.")
