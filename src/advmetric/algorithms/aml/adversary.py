"""Confusion: the adversaries, and the pairs they make.

An adversary stretches the difference v = x - x' of a pair along each eigenvector of the metric
M = UΛUᵀ and keeps its midpoint. Put back into the loss, that gives AML's objective

    D(M) = tr(A f_S(M)) + tr(B f_D(M))

with two scalar functions of eigenvalues. An adversary is these two functions and the stretches;
objective, gradient and solvers are written once for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from advmetric.utils.arrays import namespace
from advmetric.utils.parameters import Choice
from advmetric.utils.typing import Vector

from .spectral import SpectralFunction, contracted, contraction, expanded, identity, reciprocal, shrunk

__all__ = [
    "ADVERSARIES",
    "Adversary",
    "DerivedAdversary",
    "ExpandingAdversary",
    "PrintedAdversary",
    "check_adversary",
    "make_adversary",
]


class Adversary(ABC):
    """What the confusion stage does to pairs.

    Parameters
    ----------
    alpha : float
        Weight of the adversarial pairs beside the real ones (0 switches the adversary off).
    beta : float
        Price of moving away from the real pair: the larger, the closer the adversary stays.
    """

    similar: SpectralFunction
    """f_S: what a similar pair and its adversarial twin cost, by eigenvalue."""
    dissimilar: SpectralFunction
    """f_D: the same for dissimilar pairs."""
    bound: float = np.inf
    """Eigenvalues of the metric must stay below this."""

    def __init__(self, alpha: float, beta: float) -> None:
        self.alpha = float(alpha)
        self.beta = float(beta)

    @abstractmethod
    def stretch_similar(self, lam: Vector) -> Vector:
        """Factor by which the difference of a similar pair is scaled along each eigenvector."""

    @abstractmethod
    def stretch_dissimilar(self, lam: Vector) -> Vector:
        """The same for dissimilar pairs."""

    def start_weight(self) -> float:
        """Scale c of the starting point c · (A⁻¹ # B)."""
        return 1.0


class DerivedAdversary(Adversary):
    """The paper's model, Eq. 3, solved exactly.

    The minimiser of C_M(Π) = L(M, Π, -y) + β Dist_M(X, Π) contracts the difference:

        y = +1:  π - π' = u(M) v,  u(λ) = βλ²/(2 + βλ²)
        y = -1:  π - π' = β/(2 + β) v

    so that f_S(λ) = λ + α λ u(λ)² and f_D(λ) = κ/λ, κ = 1 + αβ²/(2 + β)².
    """

    def __init__(self, alpha: float, beta: float) -> None:
        super().__init__(alpha, beta)
        self.kappa = 1.0 + alpha * (beta / (2.0 + beta)) ** 2
        self.similar = identity() + alpha * contracted(beta)
        self.dissimilar = self.kappa * reciprocal()

    def stretch_similar(self, lam: Vector) -> Vector:
        return contraction(self.beta, lam)

    def stretch_dissimilar(self, lam: Vector) -> Vector:
        return namespace(lam).full_like(lam, self.beta / (2.0 + self.beta))

    def start_weight(self) -> float:
        # The optimum when every u(λ) is 1, the other end (no adversary) being √κ.
        return float(np.sqrt(self.kappa / (1.0 + self.alpha)))


class PrintedAdversary(DerivedAdversary):
    """Eq. 12 as printed, for comparison with the derived one (docs/paper-notes.md, erratum 1).

    f_S(λ) = λ + αβ²λ⁵/(2 + β²λ²)², f_D(λ) = 1/λ + αβ²λ/(2 + β²)². The second term of f_D makes
    large distances between dissimilar points costly. The pairs themselves (Eq. 9) are printed right.
    """

    def __init__(self, alpha: float, beta: float) -> None:
        super().__init__(alpha, beta)
        self.similar = identity() + (alpha / beta**2) * contracted(beta**2)
        self.dissimilar = reciprocal() + (alpha * (beta / (2.0 + beta**2)) ** 2) * identity()

    def start_weight(self) -> float:
        return 1.0


class ExpandingAdversary(Adversary):
    """A two-sided adversary, which the paper's Fig. 2 promises (ours, not the paper's).

    Inside Euclidean neighbourhoods of price β it pushes similar pairs apart and pulls dissimilar
    ones together as the metric sees them,

        y = +1:  δ = (I - (2/β)M)⁻¹ v,    y = -1:  δ = (I + (2/β)M)⁻¹ v,

    so that f_S(λ) = λ + αλ/(1 - 2λ/β)² and f_D(λ) = 1/λ + α/(λ(1 + 2λ/β)²). The first is a barrier:
    the metric's eigenvalues stay below β/2.
    """

    def __init__(self, alpha: float, beta: float) -> None:
        super().__init__(alpha, beta)
        self.bound = beta / 2.0
        self.similar = identity() + alpha * expanded(self.bound)
        self.dissimilar = reciprocal() + alpha * shrunk(self.bound)

    def stretch_similar(self, lam: Vector) -> Vector:
        return self.bound / (self.bound - lam)

    def stretch_dissimilar(self, lam: Vector) -> Vector:
        return 1.0 / (1.0 + lam / self.bound)


ADVERSARIES: dict[str, type[Adversary]] = {
    "derived": DerivedAdversary,
    "printed": PrintedAdversary,
    "expanding": ExpandingAdversary,
}


def check_adversary(name: str, value: Any) -> None:
    """Raise unless ``value`` is the name of an adversary or an Adversary; a constraint for parameters."""
    if not isinstance(value, Adversary):
        Choice(*ADVERSARIES)(name, value)


def make_adversary(adversary: str | Adversary, alpha: float, beta: float) -> Adversary:
    """Return the adversary called "derived", "printed" or "expanding"; an Adversary is returned as it is."""
    check_adversary("adversary", adversary)
    return adversary if isinstance(adversary, Adversary) else ADVERSARIES[adversary](alpha, beta)
