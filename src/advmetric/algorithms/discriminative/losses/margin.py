"""Smooth margin loss of neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.typing import Vector

from .base import LossValue, NeighborLoss, gathered, softplus_sum, spread

__all__ = ["Margin"]

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Margin(NeighborLoss):
    """Mean over i, j ∈ S_i, l ∈ D_i of ℓ(d_ij² - d_il² + 1), ℓ(z) = log(1 + eᶻ).

    Point i should be nearer to its candidates S_i of the same class than to its candidates D_i of other classes, by a
    margin of 1; ``total`` counts triplets. Convex in the squared distances. O(m k_s k_d) time for m
    points, by blocks; O(m (k_s + k_d)) memory.

    References
    ----------
    K. Weinberger, L. Saul. Distance Metric Learning for Large Margin Nearest Neighbor Classification. JMLR 2009
    (with a hinge and a second term that pulls S_i).
    """

    @property
    def count(self) -> int:
        """Number of triplets of these points."""
        return self.n_triplets

    def __call__(self, near: Vector, far: Vector, b: float = 0.0) -> LossValue:
        # ±inf in the empty places: ℓ and its derivative vanish there. The points are along the last axis: over a few
        # candidates, NumPy's loops cost several times as much.
        to_near = np.ascontiguousarray(spread(near, self.similar, -np.inf).T)
        to_far = np.ascontiguousarray(spread(far, self.dissimilar, np.inf).T)
        slope_near, slope_far = np.empty(to_near.shape), np.empty(to_far.shape)
        total = 0.0
        step = max(1, _BLOCK_BYTES // (8 * len(to_near) * len(to_far)))
        for start in range(0, len(self.similar), step):
            block = slice(start, start + step)
            margins: NDArray[np.float64] = (to_near[:, block] + 1.0)[:, None] - to_far[:, block][None]
            value, slope = softplus_sum(margins)
            total += value
            slope_near[:, block], slope_far[:, block] = slope.sum(axis=1), slope.sum(axis=0)
        count = float(self.count if self.total is None else self.total) or 1.0
        slope_near /= count
        slope_far /= -count
        return LossValue(
            total / count,
            gathered(slope_near.T, self.similar, len(near)),
            gathered(slope_far.T, self.dissimilar, len(far)),
        )
