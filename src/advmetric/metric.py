"""The learned metric: d(x, x') = ‖L(x - x')‖, M = LᵀL. Everything follows from the components L."""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from scipy.special import expit

from .arrays import is_foreign, like, namespace, to_numpy
from .linalg import Matrix, Vector, symmetrize
from .supervision import Pairs

__all__ = ["Mahalanobis"]

_FORMAT = "advmetric-metric"
_VERSION = 1
DAMAGE = (OSError, EOFError, KeyError, TypeError, ValueError, RuntimeError, MemoryError, BadZipFile, zlib.error)
"""What NumPy and zipfile raise on bytes that are no archive, or one with flaws."""


def write_archive(path: str | os.PathLike[str], header: dict[str, Any], **arrays: NDArray) -> None:
    """Write a zip of plain arrays and a JSON header, atomically: a reader sees the old file or the whole new one."""
    target = Path(path)
    # Opened, not mkstemp'd, so that the file gets the permissions that a new file of the user's has.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as stream:
            contents: dict[str, Any] = {"header": np.array(json.dumps(header)), **arrays}
            np.savez(stream, **contents)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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

    # --- files: a zip of plain arrays with a checksum; no pickle ---------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to a file, atomically: a reader sees the old file or the whole new one."""
        header = {
            "format": _FORMAT,
            "version": _VERSION,
            "threshold": self.threshold,
            "feature_names": self.feature_names,
            "calibration": self.calibration,
            "sha256": self._digest(),
        }
        write_archive(path, header, components=self._dense())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Mahalanobis:
        """Read a metric that :meth:`save` wrote.

        Raises
        ------
        ValueError
            If the file is not a metric of advmetric, was changed or cut short, or comes from a newer version.
        """
        content = Path(path).read_bytes()
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                header = json.loads(str(archive["header"]))
                if header["format"] != _FORMAT:
                    raise ValueError("another format")
                version = int(header["version"])
                if version == _VERSION:
                    components = archive["components"]
                    if components.dtype != np.float64:
                        raise ValueError(f"components of type {components.dtype}")
                    metric = cls(components, header["threshold"], header["feature_names"], header.get("calibration"))
                    unchanged = metric._digest() == header["sha256"]
        except DAMAGE as error:
            raise ValueError(f"{path} is not a metric saved by advmetric, or it is damaged ({error}).") from error
        if version != _VERSION:
            raise ValueError(f"{path} was saved by a newer advmetric (format {version}); please upgrade to read it.")
        if not unchanged:
            raise ValueError(f"{path} was changed after it was saved: its checksum does not match.")
        return metric

    def _digest(self) -> str:
        parts: list[object] = [self.components.shape, self.threshold, self.feature_names]
        if self.calibration is not None:
            parts.append(self.calibration)
        described = json.dumps(parts).encode()
        return hashlib.sha256(described + np.ascontiguousarray(self._dense(), dtype="<f8").tobytes()).hexdigest()

    def _dense(self) -> Matrix:
        components: Any = self.components
        dense: Matrix = components.toarray() if issparse(components) else components
        return dense
