"""Softmax loss of neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.typing import Matrix, Vector

from .base import LossValue, NeighborLoss, gathered, softplus, spread

__all__ = ["Softmax"]


@dataclass(frozen=True)
class Softmax(NeighborLoss):
    """-mean_i log( Σ_{j ∈ S_i} exp(-d_ij²) / Σ_{j ∈ S_i ∪ D_i} exp(-d_ij²) ).

    The probability that a random neighbour of point i, drawn from its candidates S_i (same class) and D_i (other
    classes) with probabilities that fall with the distance, is of its class. Points without S_i do not count;
    ``total`` counts points. Not convex in the squared distances. O(m (k_s + k_d)) time and memory for m points.

    References
    ----------
    J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov. Neighbourhood Components Analysis. NIPS 2004 (with all points
    as candidates, and the probability instead of its logarithm).
    """

    @property
    def count(self) -> int:
        """Number of these points that count."""
        return int(self.similar.any(axis=1).sum())

    def __call__(self, near: Vector, far: Vector, b: float = 0.0) -> LossValue:
        log_own, share_own = _log_sum(self.similar, near)
        log_others, share_others = _log_sum(self.dissimilar, far)
        counted = self.similar.any(axis=1)
        # -log(own / (own + others)) = ℓ(log others - log own).
        value, slope = softplus(np.where(counted, log_others - np.where(counted, log_own, 0.0), -np.inf))
        m = max(self.count if self.total is None else self.total, 1)
        slope = slope[:, None] / m
        share_own *= slope
        share_others *= -slope
        return LossValue(
            float(value.sum()) / m,
            gathered(share_own, self.similar, len(near)),
            gathered(share_others, self.dissimilar, len(far)),
        )


def _log_sum(taken: NDArray[np.bool_], squares: Vector) -> tuple[Vector, Matrix]:
    """log Σ_j exp(-d_ij²) of each row, and the share of each term in its sum; -inf and 0 for an empty row."""
    distances = spread(squares, taken, np.inf)
    least = distances.min(axis=1, initial=np.inf)
    least[np.isinf(least)] = 0.0  # an empty row
    terms: Matrix = np.exp(least[:, None] - distances)
    total = terms.sum(axis=1)
    empty = total == 0.0
    total[empty] = 1.0
    terms /= total[:, None]
    return np.where(empty, -np.inf, np.log(total) - least), terms
