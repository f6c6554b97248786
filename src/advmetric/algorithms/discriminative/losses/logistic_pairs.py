"""Logistic loss of labelled pairs with a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from advmetric.utils.typing import Vector

from .base import LossValue, softplus

__all__ = ["LogisticPairs"]


@dataclass(frozen=True)
class LogisticPairs:
    """½ mean over similar pairs of ℓ(d² - b) + ½ mean over dissimilar pairs of ℓ(b - d²), ℓ(z) = log(1 + eᶻ).

    Minus the log-likelihood of P(similar) = 1/(1 + exp(d² - b)), each kind of pair having half of the weight. Jointly
    convex in the squared distances and b. O(N) for N pairs.

    Examples
    --------
    >>> import numpy as np
    >>> loss = LogisticPairs()
    >>> round(loss(np.array([0.0]), np.array([2.0]), 1.0).value, 6) == round(float(np.log1p(np.exp(-1.0))), 6)
    True
    """

    has_threshold: ClassVar[bool] = True

    def __call__(self, near: Vector, far: Vector, b: float = 0.0) -> LossValue:
        value_near, slope_near = softplus(near - b)
        value_far, slope_far = softplus(b - far)
        value = 0.5 * float(value_near.mean()) + 0.5 * float(value_far.mean())
        slope_near *= 0.5 / len(near)
        slope_far *= -0.5 / len(far)
        return LossValue(value, slope_near, slope_far, -float(slope_near.sum()) - float(slope_far.sum()))
