"""Scalar functions of eigenvalues, with exact first and second divided differences.

A spectral function f(M) = U f(Λ) Uᵀ enters AML's objective as tr(A f(M)). Its gradient is
U [f[λᵢ,λⱼ] ∘ UᵀAU] Uᵀ (Daleckii-Krein), its Hessian needs f[λᵢ,λⱼ,λₖ]. The functions here
are given so that neither divides by a gap between eigenvalues:

* values and first differences as sums of positive terms, free of cancellation;
* second differences through the poles of f: every f used is rational,
  f(λ) = cλ + Σ Re(c₁ r + c₂ r²) with r = 1/(λ - p), and r[i,j,k] = rᵢrⱼrₖ is separable,
  so that a Hessian product costs a few matrix products and no d³ tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from advmetric.linalg.spd import outer
from advmetric.utils.arrays import convert_like, namespace, real
from advmetric.utils.typing import Matrix, Vector

__all__ = ["Pole", "SpectralFunction", "contracted", "contraction", "expanded", "identity", "reciprocal", "shrunk"]


@dataclass(frozen=True)
class Pole:
    """The part Re(first · r + second · r²), r = 1/(λ - place), of a rational function."""

    place: complex
    first: complex
    second: complex = 0.0

    def scaled(self, c: float) -> Pole:
        return Pole(self.place, c * self.first, c * self.second)

    def resolvent(self, lam: Vector) -> Any:
        xp = namespace(lam)
        return 1.0 / ((xp.astype(lam, xp.complex128) if isinstance(self.place, complex) else lam) - self.place)

    def curvature(self, lam: Vector) -> Matrix:
        """Second differences f[λᵢ,λᵢ,λⱼ] as a matrix."""
        r = self.resolvent(lam)
        ri, rj = r[:, None], r[None, :]
        return real(ri**2 * rj * (self.first + self.second * (2.0 * ri + rj)))

    def hessian_product(self, lam: Vector, A: Matrix, V: Matrix) -> Matrix:
        """Entries Σₖ f[λᵢ,λⱼ,λₖ] (VᵢₖAₖⱼ + AᵢₖVₖⱼ), in the eigenbasis."""
        r = self.resolvent(lam)
        ri, rj = r[:, None], r[None, :]
        P = _sandwich(V, r, A)
        Q = P * self.first if self.second == 0 else _sandwich(V, self.first * r + self.second * r**2, A)
        total = Q + Q.T
        if self.second != 0:
            total = total + self.second * (ri + rj) * (P + P.T)
        return real(ri * rj * total)


def _sandwich(V: Matrix, r: Any, A: Matrix) -> Any:
    """V diag(r) A for real V, A; a complex r costs two real products, not a complex one."""
    xp = namespace(r)
    if not xp.isdtype(r.dtype, "complex floating"):
        return V @ (r[:, None] * A)
    imaginary = xp.astype(V @ (xp.imag(r)[:, None] * A), r.dtype)
    return V @ (xp.real(r)[:, None] * A) + 1j * imaginary


@dataclass(frozen=True)
class SpectralFunction:
    """A scalar function f, its exact first divided differences and its poles.

    Functions add and scale: ``identity() + alpha * contracted(beta)``.
    """

    value: Callable[[Vector], Vector]
    slope: Callable[[Vector], Vector]
    difference: Callable[[Vector], Matrix]
    poles: tuple[Pole, ...] = ()

    def __add__(self, other: SpectralFunction) -> SpectralFunction:
        return SpectralFunction(
            lambda lam: self.value(lam) + other.value(lam),
            lambda lam: self.slope(lam) + other.slope(lam),
            lambda lam: self.difference(lam) + other.difference(lam),
            self.poles + other.poles,
        )

    def __rmul__(self, c: float) -> SpectralFunction:
        return SpectralFunction(
            lambda lam: c * self.value(lam),
            lambda lam: c * self.slope(lam),
            lambda lam: c * self.difference(lam),
            tuple(pole.scaled(c) for pole in self.poles),
        )

    def second_derivative(self, lam: Vector) -> Vector:
        """f''(λ), elementwise."""
        second = namespace(lam).zeros_like(lam)
        for pole in self.poles:
            r = pole.resolvent(lam)
            second += real(r**3 * (2.0 * pole.first + 6.0 * pole.second * r))
        return second

    def curvature(self, lam: Vector) -> Matrix:
        """Second differences f[λᵢ,λᵢ,λⱼ] as a (d, d) matrix."""
        return sum((pole.curvature(lam) for pole in self.poles), namespace(lam).zeros_like(outer(lam, lam)))

    def hessian_product(self, lam: Vector, A: Matrix, V: Matrix) -> Matrix:
        """Derivative of the gradient of tr(A f(M)) along V; all in the eigenbasis of M."""
        return sum((pole.hessian_product(lam, A, V) for pole in self.poles), namespace(A).zeros_like(A))


def identity() -> SpectralFunction:
    """f(λ) = λ."""

    def ones(lam: Vector) -> Vector:
        found: Vector = namespace(lam).ones_like(lam)
        return found

    return SpectralFunction(lambda lam: lam, ones, lambda lam: outer(ones(lam), ones(lam)))


def reciprocal() -> SpectralFunction:
    """f(λ) = 1/λ, with f[λ,μ] = -1/(λμ)."""
    return SpectralFunction(
        lambda lam: 1.0 / lam,
        lambda lam: -1.0 / lam**2,
        lambda lam: -1.0 / outer(lam, lam),
        (Pole(0.0, 1.0),),
    )


# Weights of the products of sin⁴, sin³cos, sin²cos², sin cos³, cos⁴ in the first difference of g, below.
_CONTRACTED = [[1.0, 0, 2, 0, 1], [0, 2, 0, 1, 0], [2, 0, 1, 0, 0], [0, 1, 0, 0, 0], [1, 0, 0, 0, 0]]


def contraction(beta: float, lam: Vector) -> Vector:
    """u(λ) = βλ²/(2 + βλ²): what is left of the difference of a similar pair."""
    sine, _ = _angle(beta, lam)
    return sine**2


def _angle(beta: float, lam: Vector) -> tuple[Vector, Vector]:
    """Sine and cosine of the angle with u = sin², 1 - u = cos²: βλ² itself might overflow."""
    xp = namespace(lam)
    s = math.sqrt(0.5 * beta) * lam
    hypotenuse = xp.hypot(xp.ones_like(s), s)
    return s / hypotenuse, 1.0 / hypotenuse


def contracted(beta: float) -> SpectralFunction:
    """g(λ) = λ u(λ)², u = βλ²/(2 + βλ²): the loss of a contracted similar pair.

    The first difference is the ratio of polynomials

        β² [4(λ⁴+λ³μ+λ²μ²+λμ³+μ⁴) + 4βλ²μ²(λ²+λμ+μ²) + β²λ⁴μ⁴] / [(2+βλ²)²(2+βμ²)²]

    written in the sine and cosine with u = sin²: no overflow, and a product of rank five. On the
    diagonal it is u²(5 - 4u).
    """

    def value(lam: Vector) -> Vector:
        return lam * contraction(beta, lam) ** 2

    def slope(lam: Vector) -> Vector:
        u = contraction(beta, lam)
        return u**2 * (5.0 - 4.0 * u)

    def difference(lam: Vector) -> Matrix:
        sine, cosine = _angle(beta, lam)
        powers = namespace(lam).stack([sine ** (4 - k) * cosine**k for k in range(5)])
        found: Matrix = powers.T @ convert_like(_CONTRACTED, lam) @ powers
        return found

    z = math.sqrt(2.0 / beta)
    return SpectralFunction(value, slope, difference, (Pole(-1j * z, -2.0 * z**2, 0.5j * z**3),))


def expanded(q: float) -> SpectralFunction:
    """f(λ) = λ/(1 - λ/q)² on λ < q: the loss of an expanded similar pair."""

    def room(lam: Vector) -> Vector:
        # Not 1 - λ/q, whose rounding counts near the barrier.
        return (q - lam) / q

    def value(lam: Vector) -> Vector:
        return lam / room(lam) ** 2

    def slope(lam: Vector) -> Vector:
        return (1.0 + lam / q) / room(lam) ** 3

    def difference(lam: Vector) -> Matrix:
        y = room(lam)
        return (y[:, None] + outer(lam / q, y)) / outer(y**2, y**2)

    return SpectralFunction(value, slope, difference, (Pole(q, q**2, q**3),))


def shrunk(q: float) -> SpectralFunction:
    """f(λ) = 1/(λ (1 + λ/q)²): the loss of a contracted dissimilar pair."""

    def value(lam: Vector) -> Vector:
        return 1.0 / (lam * (1.0 + lam / q) ** 2)

    def slope(lam: Vector) -> Vector:
        return -(1.0 + 3.0 * lam / q) / (lam**2 * (1.0 + lam / q) ** 3)

    def difference(lam: Vector) -> Matrix:
        x = lam / q
        xi, xj = x[:, None], x[None, :]
        scale = lam * (1.0 + x) ** 2
        return -(1.0 + 2.0 * (xi + xj) + xi**2 + xi * xj + xj**2) / outer(scale, scale)

    return SpectralFunction(value, slope, difference, (Pole(0.0, 1.0), Pole(-q, -1.0, -q)))
