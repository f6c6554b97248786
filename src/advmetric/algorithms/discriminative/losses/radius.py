"""Loss of the distance by which a point must move to be nearer to a point of another class."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.typing import Vector

from .base import LossValue, NeighborLoss, gathered, softplus_sum, spread

__all__ = ["Radius"]

_FLOOR = 1e-10
"""Added to ‖M(x_j - x_l)‖²/c, which is about 1: points of two classes may be equal."""


@dataclass(frozen=True)
class Radius(NeighborLoss):
    """Mean over i, j ∈ S_i, l ∈ D_i of ℓ(1 - ρ_ijl/unit), ℓ(z) = log(1 + eᶻ), with

        ρ_ijl = (d_il² - d_ij²) / (2 ‖M(x_j - x_l)‖).

    ρ_ijl is the length of the smallest move of point i that makes l as near as j, negative where l is nearer already:
    an adversary who moves the point, instead of differences of pairs. It does not depend on the scale of M. ``total``
    counts triplets. O(m k_s k_d) time and memory for m points.

    Parameters
    ----------
    unit : float
        Radius that counts as a margin of 1.

    References
    ----------
    L. Wang, X. Liu, J. Yi, Y. Jiang, C.-J. Hsieh. Provably Robust Metric Learning. NeurIPS 2020 (with ℓ(-ρ/unit), or ρ
    itself, on triplets drawn at random).
    """

    unit: float = 1.0

    @property
    def count(self) -> int:
        """Number of triplets of these points."""
        return self.n_triplets

    @cached_property
    def _taken(self) -> NDArray[np.bool_]:
        """(m, k_s, k_d): which triplets there are."""
        taken: NDArray[np.bool_] = self.similar[:, :, None] & self.dissimilar[:, None, :]
        return taken

    def _gaps(self, near: Vector, far: Vector) -> NDArray[np.float64]:
        """Return d_il² - d_ij² of each triplet (i, j, l), and 0 where there is none."""
        to_near, to_far = spread(near, self.similar, 0.0), spread(far, self.dissimilar, 0.0)
        return np.asarray(to_far[:, None, :] - to_near[:, :, None])

    def radii(self, near: Vector, far: Vector, across: Vector) -> Vector:
        """Return ρ of each triplet, by i, then j, then l; ``across`` has ‖M(x_j - x_l)‖² in the same order."""
        return 0.5 * gathered(self._gaps(near, far), self._taken, len(across)) / np.sqrt(across + _FLOOR)

    def __call__(self, near: Vector, far: Vector, b: float = 0.0, across: Vector | None = None) -> LossValue:
        assert across is not None, "a loss of triplets of points"
        count = float(self.count if self.total is None else self.total) or 1.0
        inverse = spread(1.0 / (across + _FLOOR), self._taken, 0.0)
        scale = np.sqrt(inverse)
        scale *= 0.5 / self.unit
        ratios = self._gaps(near, far)
        ratios *= scale  # ρ/unit
        margins = 1.0 - ratios
        if len(across) < margins.size:
            margins[~self._taken] = -np.inf
        value, slope = softplus_sum(margins)
        slope /= count
        by_gap = np.multiply(slope, scale, out=scale)
        by_across = np.multiply(slope, ratios, out=ratios)
        by_across *= 0.5 * inverse
        return LossValue(
            value / count,
            gathered(by_gap.sum(axis=2), self.similar, len(near)),
            gathered(-by_gap.sum(axis=1), self.dissimilar, len(far)),
            across=gathered(by_across, self._taken, len(across)),
        )
