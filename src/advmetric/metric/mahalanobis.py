"""The learned metric: d(x, x') = ‖L(x - x')‖, M = LᵀL. Everything follows from the components L."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from advmetric.linalg.norms import row_norms
from advmetric.linalg.spd import symmetrize
from advmetric.pairs.data import Pairs
from advmetric.utils.archive import read_archive, write_archive
from advmetric.utils.arrays import convert_like, is_array_api, namespace, to_numpy
from advmetric.utils.parameters import Real
from advmetric.utils.typing import Matrix, Vector
from advmetric.utils.validation import FLOATS, all_finite, as_floating, reject_nonfinite

from .checks import as_vector, check_pairs, check_points, check_width
from .threshold import Calibration, similar_probability

__all__ = ["Mahalanobis"]

_UNDERFLOW = 1e-300
"""Entries of M below this may have lost digits to underflow."""


@dataclass(frozen=True, eq=False)
class Mahalanobis:
    """A Mahalanobis distance, callable on two vectors.

    Parameters
    ----------
    components : (r, d) array
        L; the rows span the embedding in which the distance is Euclidean. An array of float64 is not copied: what is
        written to it later changes the metric.
    threshold : float, optional
        Pairs no farther apart than this are called similar.
    feature_names : sequence of str, optional
        Names of the d features, kept with a saved metric.
    calibration : (slope, intercept) or (slope, intercept, power), optional
        Of the log-odds of "same" as a function of the distance, to the power 1 by default: see :meth:`probability`.
    preparation : list of dict, optional
        How the command line turns the columns of a table into the d features (categories, missing values): facts that
        JSON can hold, kept with a saved metric. The metric itself does not use them.

    See Also
    --------
    MetricIndex : Neighbours under a metric.

    Examples
    --------
    >>> import numpy as np
    >>> metric = Mahalanobis(np.diag([3.0, 4.0]))
    >>> float(metric([1, 1], [0, 0]))
    5.0
    """

    components: Matrix
    threshold: float | None = None
    feature_names: tuple[str, ...] | None = field(default=None)
    calibration: Calibration | None = None
    preparation: list[dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        # The identity of tens of thousands of features is kept sparse (Euclidean): dense, it takes gigabytes.
        given: Any = self.components if issparse(self.components) else to_numpy(self.components)
        if np.iscomplexobj(given):
            raise ValueError("components must be real numbers, not complex ones.")
        components = csr_array(given, dtype=np.float64) if issparse(given) else given.astype(np.float64, copy=False)
        if components.ndim != 2 or 0 in components.shape or not all_finite(components):
            raise ValueError("components must be a finite (r, d) array with r, d >= 1.")
        object.__setattr__(self, "components", components)
        if self.threshold is not None:
            Real()("threshold", self.threshold)
            object.__setattr__(self, "threshold", float(self.threshold))
        if self.feature_names is not None:
            names = tuple(str(name) for name in self.feature_names)
            if len(names) != components.shape[1]:
                raise ValueError(f"feature_names has {len(names)} names for {components.shape[1]} features.")
            object.__setattr__(self, "feature_names", names)
        if self.calibration is not None:
            numbers = tuple(float(value) for value in self.calibration)
            if len(numbers) not in (2, 3) or not np.isfinite(numbers).all():
                raise ValueError(f"calibration={self.calibration!r} must be two or three finite numbers.")
            object.__setattr__(self, "calibration", numbers)

    @property
    def matrix(self) -> Matrix:
        """M = LᵀL, symmetric and positive semi-definite."""
        product: Any = self.components.T @ self.components
        M = symmetrize(product.toarray() if issparse(product) else product)
        if 0.0 < np.max(np.abs(M)) < _UNDERFLOW:
            # Products are rounded to multiples of the smallest number; a larger diagonal makes up for that.
            M[np.diag_indices_from(M)] += self.components.shape[0] * len(M) * np.finfo(float).smallest_subnormal
        return M

    def transform(self, X: ArrayLike) -> Matrix:
        """Map points to the space in which the distance is Euclidean: X Lᵀ, of the library and device of X.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Array, list, DataFrame (with the columns ``feature_names``, if there are any) or sparse matrix.
        """
        points = self._points(X)
        if is_array_api(points):
            return points @ namespace(points).astype(convert_like(self.dense_components, points), points.dtype).T
        dtype = points.dtype if points.dtype == np.float32 else np.float64
        with np.errstate(over="ignore", invalid="ignore"):
            embedded: Any = points @ self.components.T.astype(dtype, copy=False)
            if not all_finite(embedded):  # intermediate products overflow before the result does
                embedded = _finite_product(points, self.components.T).astype(dtype)
        if not all_finite(embedded):
            reject_nonfinite(points, "X")
            raise ValueError(f"the embedding of X is out of the range of {np.dtype(dtype)}; rescale the features of X.")
        return embedded.toarray() if issparse(embedded) else embedded

    def _points(self, X: Any) -> Any:
        # What learners pass on was checked; whether it is finite shows in its embedding, which is looked at anyway.
        if is_array_api(X):
            X = as_floating(X, keep_gradient=True)
        if is_array_api(X) or (type(X) is np.ndarray and X.ndim == 2 and X.dtype in FLOATS):
            check_width(X, "X has", self.components.shape[1])
            return X
        return check_points(X, "X", self.components.shape[1], self.feature_names, accept_sparse=True)

    def pair_distance(self, pairs: ArrayLike | Pairs) -> Vector:
        """Distances of the pairs, by blocks; exactly 0 for a point and itself.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or Pairs

        Raises
        ------
        ValueError
            If a distance is larger than floating-point numbers go.
        """
        pairs = check_pairs(pairs, self.components.shape[1])
        if is_array_api(pairs.X):
            xp, L = namespace(pairs.X), convert_like(self.dense_components, pairs.X)
            return xp.concat([row_norms(V @ L.T) for _, V in pairs.differences()])
        distances = np.empty(len(pairs))
        with np.errstate(over="ignore", invalid="ignore"):
            for block, V in pairs.differences(dense=False):
                distances[block] = row_norms(V @ self.components.T)
        if not all_finite(distances):
            reject_nonfinite(pairs.X, "X")
            place = int(np.argmin(np.isfinite(distances)))
            raise ValueError(
                f"pair {place} is too far apart: its distance is out of the range of floating-point numbers. "
                "Rescale the features, for example with sklearn.preprocessing.StandardScaler."
            )
        return distances

    def probability(self, distances: Vector) -> Vector:
        """Probability that pairs at these distances are the same: 1 / (1 + exp(-slope·dᵖ - intercept)), p the power."""
        if self.calibration is None:
            raise ValueError("this metric has no calibration; fit one with advmetric.metric.threshold.fit_probability.")
        return similar_probability(distances, self.calibration)

    def __call__(self, u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
        """Return the distance of two vectors of length d, given as arrays or lists, also of shape (1, d)."""
        d = self.components.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):
            z = self.components @ (as_vector(u, "u", d) - as_vector(v, "v", d))
            distance = row_norms(z[None, :])[0]
            return float(distance**2 if squared else distance)

    # --- files ------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to a file, atomically: a reader sees the old file or the whole new one."""
        facts = {name: getattr(self, name) for name in ("threshold", "feature_names", "calibration", "preparation")}
        write_archive(path, "a metric", facts, {"components": self.dense_components})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Mahalanobis:
        """Read a metric that :meth:`save` wrote.

        Raises
        ------
        ValueError
            If the file is not a metric of advmetric, was changed or cut short, or comes from a newer version.
        """
        with read_archive(path, "a metric") as (facts, arrays):
            known = facts["threshold"], facts["feature_names"], facts["calibration"], facts.get("preparation")
            return cls(arrays["components"], *known)

    @property
    def dense_components(self) -> Matrix:
        """Return the components as a dense array."""
        components: Any = self.components
        dense: Matrix = components.toarray() if issparse(components) else components
        return dense


def _finite_product(X: Any, R: Any) -> Matrix:
    """Return X @ R in double precision, with both scaled so that no intermediate sum overflows."""
    left, right = (part.toarray() if issparse(part) else part for part in (X, R))
    left, right = left.astype(np.float64), right.astype(np.float64)
    unit, size = float(np.abs(left).max()) or 1.0, float(np.abs(right).max()) or 1.0
    product: Matrix = (left / unit) @ (right / size)
    # The factors one after the other: their own product may be out of range where the result is not.
    return product * unit * size
