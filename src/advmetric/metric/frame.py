"""Coordinates of points under a metric that keep their digits: centred, in units of their spread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from advmetric.utils.typing import Matrix, Vector

from .mahalanobis import Mahalanobis

__all__ = ["Frame", "embed", "linear_metric"]

_ROWS = 32
"""Rows of a product: a multiple of the widths in which kernels of BLAS compute."""


def linear_metric(metric: Any) -> Mahalanobis:
    """The metric of a fitted learner, or the metric itself."""
    found = metric.get_metric() if hasattr(metric, "get_metric") else metric
    if not isinstance(found, Mahalanobis):
        raise TypeError(
            f"metric must be a Mahalanobis or a fitted learner of one, got {type(found).__name__}. For other metrics, "
            "transform the points first and index them under Mahalanobis(numpy.eye(r))."
        )
    return found


def embed(metric: Mahalanobis, points: Matrix) -> Matrix:
    """Transform points such that equal rows have equal images, whatever else is in their batch.

    BLAS chooses the order of its sums by the shape of the product, so all products get the same shape: at most 15 %
    slower than one product of all rows.
    """
    if issparse(metric.components):
        return metric.transform(points)
    (n, d), L = points.shape, metric.components
    whole = n - n % _ROWS
    embedded = np.empty((n, len(L)))
    np.matmul(points[:whole].reshape(-1, _ROWS, d), L.T, out=embedded[:whole].reshape(-1, _ROWS, len(L)))
    rest = np.zeros((_ROWS, d))
    rest[: n - whole] = points[whole:]
    embedded[whole:] = (rest @ L.T)[: n - whole]
    return embedded


@dataclass(frozen=True)
class Frame:
    """x ↦ (x - centre) / scale: numbers near 1 in the embedding, wherever and however large the points are."""

    centre: Vector
    scale: float

    @classmethod
    def of(cls, points: Matrix, metric: Mahalanobis) -> Frame:
        """Centre and spread, the root mean square of ‖L(x - centre)‖, of a sample."""
        centre: Vector = points.mean(axis=0, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            embedded = metric.transform(points - centre)
        largest = float(np.abs(embedded).max())
        if not np.isfinite(largest):
            raise ValueError("the points of X are too large to be measured; standardise them and learn anew.")
        # Divided first: squares of large or tiny numbers would be lost.
        share = embedded / largest if largest else embedded
        return cls(centre, largest * float(np.sqrt(np.mean(share**2) * share.shape[1])) or 1.0)

    def __call__(self, points: Matrix) -> Matrix:
        """The points in these coordinates, in double precision."""
        return (points - self.centre) / self.scale

    def check_reach(self, points: Matrix, name: str, metric: Mahalanobis, limit: float) -> None:
        """Raise if a point may be farther from the centre than ``limit`` spreads; no copy is made."""
        with np.errstate(over="ignore", invalid="ignore"):
            box = np.abs(self(np.stack([points.min(axis=0), points.max(axis=0)]))).max(axis=0)
            reach = float((abs(metric.components) @ box).max())
        # Features that L is blind to must fit into single precision too.
        if not (reach < limit and box.max() < 1e19 * limit):
            raise ValueError(
                f"{name} has a point that is more than {limit:g} times as far from the centre as the points that the "
                "index was trained on; drop such outliers."
            )
