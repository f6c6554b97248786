"""The learned metric: d(x, x') = ‖L(x - x')‖, M = LᵀL. Everything follows from the components L."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse
from scipy.special import expit

from .archive import DAMAGE, damaged, read_archive, write_archive
from .arrays import is_foreign, like, namespace, to_numpy
from .linalg import Matrix, Vector, symmetrize
from .supervision import Pairs

__all__ = ["Mahalanobis"]


@dataclass(frozen=True, eq=False)
class Mahalanobis:
    """A Mahalanobis distance, callable on two vectors.

    Parameters
    ----------
    components : (r, d) array
        L; the rows span the embedding in which the distance is Euclidean.
    threshold : float, optional
        Pairs no farther apart than this are called similar.
    feature_names : sequence of str, optional
        Names of the d features, kept with a saved metric.
    calibration : (slope, intercept), optional
        Of the log-odds of "same" as a function of the distance: see :meth:`probability`.

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
    calibration: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        # The identity of tens of thousands of features is kept sparse (Euclidean): dense, it takes gigabytes.
        given = self.components
        components = (
            csr_array(given, dtype=np.float64) if issparse(given) else to_numpy(given).astype(np.float64, copy=False)
        )
        if components.ndim != 2 or not np.isfinite(components.data if issparse(given) else components).all():
            raise ValueError("components must be a finite (r, d) array.")
        object.__setattr__(self, "components", components)
        if self.threshold is not None:
            object.__setattr__(self, "threshold", float(self.threshold))
        if self.feature_names is not None:
            names = tuple(str(name) for name in self.feature_names)
            if len(names) != components.shape[1]:
                raise ValueError(f"feature_names has {len(names)} names for {components.shape[1]} features.")
            object.__setattr__(self, "feature_names", names)
        if self.calibration is not None:
            slope, intercept = (float(value) for value in self.calibration)
            object.__setattr__(self, "calibration", (slope, intercept))

    @property
    def matrix(self) -> Matrix:
        """M = LᵀL, symmetric and positive semi-definite."""
        M: Any = self.components.T @ self.components
        return symmetrize(M.toarray() if issparse(M) else M)

    def transform(self, X: Matrix) -> Matrix:
        """Map points to the space in which the distance is Euclidean: X Lᵀ, of the library and device of X."""
        if is_foreign(X):
            return X @ namespace(X).astype(like(self._dense(), X), X.dtype).T
        embedded: Any = X @ self.components.T
        return embedded.toarray() if issparse(embedded) else embedded

    def pair_distance(self, pairs: Pairs) -> Vector:
        """Distances of the pairs, by blocks; exactly 0 for a point and itself."""
        if is_foreign(pairs.X):
            xp, L = namespace(pairs.X), like(self._dense(), pairs.X)
            return xp.concat([xp.linalg.vector_norm(V @ L.T, axis=1) for _, V in pairs.differences()])
        distances = np.empty(len(pairs))
        for block, V in pairs.differences(dense=False):
            Z: Any = V @ self.components.T
            distances[block] = np.sqrt(Z.multiply(Z).sum(axis=1) if issparse(Z) else np.einsum("ij,ij->i", Z, Z))
        return distances

    def probability(self, distances: Vector) -> Vector:
        """Probability that pairs at these distances are the same: 1 / (1 + exp(-slope·d - intercept))."""
        if self.calibration is None:
            raise ValueError("this metric has no calibration; fit one with advmetric.threshold.fit_probability.")
        slope, intercept = self.calibration
        probabilities: Vector = expit(slope * np.asarray(distances) + intercept)
        return probabilities

    def __call__(self, u: ArrayLike, v: ArrayLike, squared: bool = False) -> float:
        """Distance of two vectors."""
        z = self.components @ (to_numpy(u).astype(float) - to_numpy(v).astype(float))
        square = float(z @ z)
        return square if squared else float(np.sqrt(square))

    # --- files ------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to a file, atomically: a reader sees the old file or the whole new one."""
        facts = {name: getattr(self, name) for name in ("threshold", "feature_names", "calibration")}
        write_archive(path, "a metric", facts, {"components": self._dense()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Mahalanobis:
        """Read a metric that :meth:`save` wrote.

        Raises
        ------
        ValueError
            If the file is not a metric of advmetric, was changed or cut short, or comes from a newer version.
        """
        facts, arrays = read_archive(path, "a metric")
        try:
            return cls(arrays["components"], facts["threshold"], facts["feature_names"], facts["calibration"])
        except DAMAGE as error:
            raise damaged(path, "a metric", error) from error

    def _dense(self) -> Matrix:
        components: Any = self.components
        dense: Matrix = components.toarray() if issparse(components) else components
        return dense
