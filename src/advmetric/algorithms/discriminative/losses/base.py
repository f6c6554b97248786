"""What every loss returns, and the softplus function that most of them use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.typing import Matrix, Vector

__all__ = ["Loss", "LossValue", "NeighborLoss", "gathered", "softplus", "softplus_sum", "spread"]

_MOST_FACTORS = 1000


class LossValue(NamedTuple):
    """Value of a loss and its derivatives."""

    value: float
    near: Vector
    """Derivative by the squared distance of each similar pair; never negative."""
    far: Vector
    """Derivative by the squared distance of each dissimilar pair; never positive."""
    threshold: float = 0.0
    """Derivative by the threshold b; 0 for losses without one."""
    across: Vector | None = None
    """Derivative by ‖M(x_j - x_l)‖² of each triplet, of the loss that sees these."""


class Loss(Protocol):
    """A function of squared distances: it rises with those of similar and falls with those of dissimilar pairs.

    The adversary relies on these two signs: it enlarges the former and reduces the latter.
    """

    has_threshold: ClassVar[bool]
    """Whether the loss depends on the threshold b."""

    def __call__(self, near: Vector, far: Vector, b: float = 0.0) -> LossValue:
        """Evaluate at squared distances ``near`` of similar and ``far`` of dissimilar pairs and at the threshold b."""
        ...


@dataclass(frozen=True)
class NeighborLoss:
    """What the losses of m points i share: candidates S_i of the same class and D_i of other classes.

    Parameters
    ----------
    similar : (m, k_s) boolean array
        Which of the places of S_i are taken; ``near`` has their squared distances, row by row.
    dissimilar : (m, k_d) boolean array
        The same for D_i and ``far``.
    total : int, optional
        What the mean is over, where the terms of these points are a part of it.
    """

    has_threshold: ClassVar[bool] = False
    similar: NDArray[np.bool_]
    dissimilar: NDArray[np.bool_]
    total: int | None = None

    @property
    def n_triplets(self) -> int:
        """Number of triplets i, j ∈ S_i, l ∈ D_i."""
        return int(self.similar.sum(axis=1) @ self.dissimilar.sum(axis=1))


def softplus(z: Vector) -> tuple[Vector, Vector]:
    """log(1 + eᶻ) and its derivative 1/(1 + e⁻ᶻ), elementwise and without overflow; z may be ±inf.

    Examples
    --------
    >>> value, slope = softplus(np.array([-np.inf, 0.0, 1000.0]))
    >>> value.round(4).tolist(), slope.tolist()
    ([0.0, 0.6931, 1000.0], [0.0, 0.5, 1.0])
    """
    small = np.exp(-np.abs(z))
    value = np.log1p(small)
    value += np.maximum(z, 0.0)
    slope = np.where(z > 0.0, 1.0, small)
    slope /= 1.0 + small
    return value, slope


def softplus_sum(z: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Σ log(1 + eᶻ) over all entries, and the derivative by each.

    Over the first axis, sums of logarithms are logarithms of products: these cost most. A factor is at most 2, so that
    up to 1000 factors cannot overflow.
    """
    value = float(np.maximum(z, 0.0).sum())
    negative, small = np.minimum(z, 0.0), np.abs(z)
    np.negative(small, out=small)
    np.exp(small, out=small)
    small += 1.0
    for first in range(0, len(z), _MOST_FACTORS):
        value += float(np.log(small[first : first + _MOST_FACTORS].prod(axis=0)).sum())
    slope = np.exp(negative, out=negative)
    slope /= small
    return value, slope


def spread(values: Vector, taken: NDArray[np.bool_], fill: float) -> Matrix:
    """Return the values in the places that are taken, row by row, and ``fill`` in the others."""
    if len(values) == taken.size:
        return values.reshape(taken.shape)
    places = np.full(taken.shape, fill)
    places[taken] = values
    return places


def gathered(places: Matrix, taken: NDArray[np.bool_], count: int) -> Vector:
    """Return the entries in the ``count`` places that are taken, row by row: the inverse of :func:`spread`."""
    return places.ravel() if count == taken.size else places[taken]
