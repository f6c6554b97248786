"""What the adversary does to squared distances, for any loss.

Moving the difference v of a pair by δ costs c‖δ‖². With K = I + M/c the adversary's best moves have closed forms:

    dissimilar pairs (pulled together):             d₋² = min_δ (v+δ)ᵀM(v+δ) + c‖δ‖²  = vᵀ M K⁻¹ v,
    similar pairs (pushed apart, to first order):   d₊² = max_δ vᵀMv + 2vᵀMδ - c‖δ‖²  = vᵀ M K v.

Everything here is in the frame in which M = I: embedded differences y = Lv with M = LᵀL and L rotated so that the price
matrix H = LLᵀ/c = diag(h). There d² = Σ y_k², d₊² = Σ (1 + h_k) y_k² and d₋² = Σ y_k²/(1 + h_k), for L of any rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advmetric.linalg.spd import symmetrize
from advmetric.utils.typing import Matrix, Vector

__all__ = ["AdversarialFrame", "contracted", "expanded"]


def expanded(M: Matrix, c: float) -> Matrix:
    """M K = M + M²/c: the matrix of d₊². Operator convex in M."""
    return symmetrize(M + M @ M / c)


def contracted(M: Matrix, c: float) -> Matrix:
    """M K⁻¹ = c(I - K⁻¹): the matrix of d₋². Operator concave in M."""
    K = np.eye(len(M)) + M / c
    return symmetrize(np.asarray(np.linalg.solve(K, M), dtype=np.float64))


@dataclass(frozen=True)
class AdversarialFrame:
    """A factor L of N = LᵀL whose rows diagonalise the price matrix H = L C Lᵀ = diag(h).

    Coordinates may be any in which the metric is N and the price of a move is ‖δ‖² in the norm of C⁻¹; C = I/c in the
    coordinates of the data.

    Parameters
    ----------
    L : (r, p) array
    h : (r,) array
    C : (p, p) array
    """

    L: Matrix
    h: Vector
    C: Matrix

    @classmethod
    def of(cls, L: Matrix, C: Matrix) -> tuple[AdversarialFrame, Matrix]:
        """Rotate L to diagonalise H; also return the rotation V (r, r), with the new L = VᵀL. O(r²p + r³)."""
        h, V = np.linalg.eigh(symmetrize(L @ C @ L.T))
        return cls(V.T @ L, np.maximum(h, 0.0), C), V

    @property
    def near(self) -> Matrix:
        """(r, 2): weights of y_k² in d² and in d₊²."""
        return np.column_stack([np.ones_like(self.h), 1.0 + self.h])

    @property
    def far(self) -> Matrix:
        """(r, 2): weights of y_k² in d² and in d₋²."""
        return np.column_stack([np.ones_like(self.h), 1.0 / (1.0 + self.h)])

    def chain(self, near: Matrix, far: Matrix) -> Matrix:
        """What the dependence of h on L adds to the gradient.

        With near = Σ ∂F/∂d₊² yyᵀ and far = Σ ∂F/∂d₋² yyᵀ, (r, r) each, half the gradient by L of a function of
        squared distances is

            Σ ∂F/∂d² y vᵀ + (I + H) Σ ∂F/∂d₊² y vᵀ + (I + H)⁻¹ Σ ∂F/∂d₋² y vᵀ  +  [near - (I+H)⁻¹ far (I+H)⁻¹] L C.

        This is the last term. In M it says that the scatters S₊ and S₋ of pairs weighted by ∂F/∂d₊² and ∂F/∂d₋² give
        S₊ + (M S₊ + S₊ M)/c and K⁻¹ S₋ K⁻¹.
        """
        inverse = 1.0 / (1.0 + self.h)
        return (near - inverse[:, None] * far * inverse) @ (self.L @ self.C)
