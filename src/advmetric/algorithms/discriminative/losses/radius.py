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
    places : (m, k_s, k_d) integer array, optional
        Where ``across`` has ‖M(x_j - x_l)‖² of each triplet, -1 for none: near points share pairs (j, l). By default
        each triplet has a place of its own, by i, then j, then l.

    References
    ----------
    L. Wang, X. Liu, J. Yi, Y. Jiang, C.-J. Hsieh. Provably Robust Metric Learning. NeurIPS 2020 (with ℓ(-ρ/unit), or ρ
    itself, on triplets drawn at random).
    """

    unit: float = 1.0
    places: NDArray[np.integer] | None = None

    @property
    def count(self) -> int:
        """Number of triplets of these points."""
        return self.n_triplets

    @cached_property
    def _places(self) -> NDArray[np.integer]:
        """(k_s, k_d, m): one more than the place of each triplet in ``across``, 0 where there is none.

        The points are along the last axis: over a few candidates, NumPy's loops cost several times as much.
        """
        places = self.places
        if places is None:
            taken = self.similar[:, :, None] & self.dissimilar[:, None, :]
            places = np.where(taken, np.cumsum(taken).reshape(taken.shape) - 1, -1)
        return np.ascontiguousarray(np.moveaxis(places + 1, 0, -1))

    def _gaps(self, near: Vector, far: Vector) -> NDArray[np.float64]:
        """Return d_il² - d_ij² of each triplet, (k_s, k_d, m); something finite where there is none."""
        to_near, to_far = spread(near, self.similar, 0.0), spread(far, self.dissimilar, 0.0)
        gaps: NDArray[np.float64] = np.ascontiguousarray(to_far.T)[None] - np.ascontiguousarray(to_near.T)[:, None]
        return gaps

    def _of_triplets(self, values: Vector) -> NDArray[np.float64]:
        """Return the value at each triplet's place, (k_s, k_d, m), and 0 where there is no triplet."""
        return np.append(0.0, values)[self._places]

    def radii(self, near: Vector, far: Vector, across: Vector) -> NDArray[np.float64]:
        """Return ρ of each triplet (i, j, l), (k_s, k_d, m), and 0 where there is none."""
        return self._gaps(near, far) * self._of_triplets(0.5 / np.sqrt(across + _FLOOR))

    def __call__(self, near: Vector, far: Vector, b: float = 0.0, across: Vector | None = None) -> LossValue:
        assert across is not None, "a loss of triplets of points"
        count = float(self.count if self.total is None else self.total) or 1.0
        inverse = 1.0 / (across + _FLOOR)
        scale = self._of_triplets((0.5 / self.unit) * np.sqrt(inverse))
        ratios = self._gaps(near, far)
        ratios *= scale  # ρ/unit
        margins = 1.0 - ratios
        if self.n_triplets < margins.size:
            margins[self._places == 0] = -np.inf
        value, slope = softplus_sum(margins)
        slope /= count
        by_gap = np.multiply(slope, scale, out=scale)
        by_across = np.multiply(slope, ratios, out=ratios)
        summed = np.bincount(self._places.ravel(), by_across.ravel(), len(across) + 1)[1:]
        return LossValue(
            value / count,
            gathered(by_gap.sum(axis=1).T, self.similar, len(near)),
            gathered(-by_gap.sum(axis=0).T, self.dissimilar, len(far)),
            across=0.5 * inverse * summed,
        )
