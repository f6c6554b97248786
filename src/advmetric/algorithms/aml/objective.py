"""Distinguishment: AML's objective D(M) = tr(A f_S(M)) + tr(B f_D(M)), its gradient and Hessian.

N pairs enter only through the (d, d) scatter matrices A and B: nothing here depends on N.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from advmetric.linalg.spd import outer, symmetrize
from advmetric.utils.arrays import namespace, norm
from advmetric.utils.typing import Matrix, Vector

from .adversary import Adversary

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True)
class Evaluation:
    """D, its gradient and its Hessian at M = U diag(lam) Uᵀ.

    Matrices named ``*_hat`` are in the eigenbasis of M (X_hat = UᵀXU). Solvers move in the tangent
    space at M, E ↦ M^{1/2} exp(E) M^{1/2}, in the same basis; ``slope`` and ``hessian_product`` are
    the Riemannian gradient and Hessian there.
    """

    adversary: Adversary
    U: Matrix
    lam: Vector
    A_hat: Matrix
    B_hat: Matrix

    @cached_property
    def value(self) -> float:
        """D(M)."""
        return float(
            self.adversary.similar.value(self.lam) @ self.a + self.adversary.dissimilar.value(self.lam) @ self.b
        )

    @cached_property
    def a(self) -> Vector:
        """Diagonal of A_hat."""
        return namespace(self.A_hat).linalg.diagonal(self.A_hat)

    @cached_property
    def b(self) -> Vector:
        """Diagonal of B_hat."""
        return namespace(self.B_hat).linalg.diagonal(self.B_hat)

    @cached_property
    def similar_gradient(self) -> Matrix:
        """Gradient of tr(A f_S(M)), in the eigenbasis (Daleckii-Krein)."""
        return self.adversary.similar.difference(self.lam) * self.A_hat

    @cached_property
    def dissimilar_gradient(self) -> Matrix:
        """Gradient of tr(B f_D(M)), in the eigenbasis."""
        return self.adversary.dissimilar.difference(self.lam) * self.B_hat

    @cached_property
    def gradient_hat(self) -> Matrix:
        """∇D(M) in the eigenbasis."""
        return self.similar_gradient + self.dissimilar_gradient

    @property
    def gradient(self) -> Matrix:
        """∇D(M), the Euclidean gradient over symmetric matrices."""
        return symmetrize(self.U @ self.gradient_hat @ self.U.T)

    @property
    def matrix(self) -> Matrix:
        """M."""
        return symmetrize((self.U * self.lam) @ self.U.T)

    @cached_property
    def root(self) -> Vector:
        """Square roots of the eigenvalues."""
        return namespace(self.lam).sqrt(self.lam)

    @cached_property
    def slope(self) -> Matrix:
        """Tangent gradient M^{1/2} ∇D M^{1/2}."""
        return self.scale(self.gradient_hat)

    @cached_property
    def slope_norm(self) -> float:
        """‖M^{1/2} ∇D M^{1/2}‖_F / |D|: free of units and of the scale of M."""
        return norm(self.slope) / (abs(self.value) or 1.0)

    def scale(self, X_hat: Matrix) -> Matrix:
        """M^{1/2} X M^{1/2}, in the eigenbasis."""
        return self.root[:, None] * X_hat * self.root

    def hessian_product(self, E: Matrix) -> Matrix:
        """Riemannian Hessian along the tangent vector E; a few (d, d) matrix products."""
        V = self.scale(E)
        hessian = self.adversary.similar.hessian_product(self.lam, self.A_hat, V)
        hessian += self.adversary.dissimilar.hessian_product(self.lam, self.B_hat, V)
        # The second term is the curvature of the path E ↦ M^{1/2} exp(E) M^{1/2}.
        return self.scale(hessian) + symmetrize(self.slope @ E)

    @cached_property
    def hessian_entries(self) -> Matrix:
        """Diagonal of the Riemannian Hessian for diagonal A_hat and B_hat: a preconditioner."""
        similar = self.adversary.similar.curvature(self.lam) * self.a[:, None]
        dissimilar = self.adversary.dissimilar.curvature(self.lam) * self.b[:, None]
        cross = similar + dissimilar
        slope = namespace(self.slope).linalg.diagonal(self.slope)
        return outer(self.lam, self.lam) * (cross + cross.T) + 0.5 * (slope[:, None] + slope)

    def rotated(self, M_hat: Matrix) -> Evaluation:
        """Evaluate at the matrix that is ``M_hat`` in this eigenbasis. One ``eigh``, five products."""
        lam, V = namespace(M_hat).linalg.eigh(symmetrize(M_hat))
        return Evaluation(self.adversary, self.U @ V, lam, V.T @ self.A_hat @ V, V.T @ self.B_hat @ V)

    def against(self, adversary: Adversary, lam: Vector) -> Evaluation:
        """Evaluate against an adversary at the same eigenvectors and other eigenvalues: free.

        Eigenvalues are kept inside the adversary's bound and, against rounding, above zero.
        """
        xp = namespace(lam)
        largest = float(xp.max(lam))
        highest = 0.9 * adversary.bound if largest >= adversary.bound else None
        lam = xp.clip(lam, float(np.finfo(float).eps) * largest, highest)
        return Evaluation(adversary, self.U, lam, self.A_hat, self.B_hat)

    @property
    def feasible(self) -> bool:
        """Whether M is positive definite and inside the adversary's bound."""
        xp = namespace(self.lam)
        return bool(xp.min(self.lam) > 0.0 and xp.max(self.lam) < self.adversary.bound and math.isfinite(self.value))


def evaluate(M: Matrix, A: Matrix, B: Matrix, adversary: Adversary) -> Evaluation:
    """Evaluate D at an SPD matrix M. One ``eigh`` and four (d, d) products."""
    lam, U = namespace(M).linalg.eigh(symmetrize(M))
    return Evaluation(adversary, U, lam, U.T @ A @ U, U.T @ B @ U)
