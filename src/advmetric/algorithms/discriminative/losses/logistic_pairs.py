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

    Parameters
    ----------
    totals : (int, int), optional
        Numbers of similar and dissimilar pairs that the means are over, where those given are a part of them: losses
        and derivatives of the parts add up.

    Examples
    --------
    >>> import numpy as np
    >>> loss = LogisticPairs()
    >>> round(loss(np.array([0.0]), np.array([2.0]), 1.0).value, 6) == round(float(np.log1p(np.exp(-1.0))), 6)
    True
    """

    has_threshold: ClassVar[bool] = True
    totals: tuple[int, int] | None = None

    def __call__(self, near: Vector, far: Vector, b: float = 0.0) -> LossValue:
        value_near, slope_near = softplus(near - b)
        value_far, slope_far = softplus(b - far)
        n_near, n_far = self.totals or (len(near), len(far))
        value = 0.5 * float(value_near.sum()) / n_near + 0.5 * float(value_far.sum()) / n_far
        slope_near *= 0.5 / n_near
        slope_far *= -0.5 / n_far
        return LossValue(value, slope_near, slope_far, -float(slope_near.sum()) - float(slope_far.sum()))
