"""Logistic loss of triplets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from advmetric.utils.typing import Vector

from .base import LossValue, softplus

__all__ = ["LogisticTriplets"]


@dataclass(frozen=True)
class LogisticTriplets:
    """Mean over triplets (a, p, n) of ℓ(d²(a, p) - d²(a, n)), ℓ(z) = log(1 + eᶻ).

    ``near`` and ``far`` have one entry per triplet. Convex in the squared distances. O(N) for N triplets.

    Examples
    --------
    >>> import numpy as np
    >>> loss = LogisticTriplets()
    >>> round(loss(np.array([1.0, 0.0]), np.array([1.0, 50.0])).value, 6) == round(0.5 * float(np.log(2.0)), 6)
    True
    """

    has_threshold: ClassVar[bool] = False

    def __call__(self, near: Vector, far: Vector, b: float = 0.0) -> LossValue:
        value, slope = softplus(near - far)
        slope /= len(near)
        return LossValue(float(value.mean()), slope, -slope)
