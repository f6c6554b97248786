"""SPD algebra: pure functions of symmetric matrices.

Everything a metric learner needs and nothing else: the affine-invariant geodesic
between two SPD matrices, and spectral projections.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

__all__ = ["Geodesic", "geometric_mean", "project_spd", "spd_factor", "symmetrize"]


def symmetrize(M: Matrix) -> Matrix:
    """Return (M + Mᵀ) / 2."""
    return 0.5 * (M + M.T)


def project_spd(M: Matrix, floor: float = 0.0, ceiling: float = np.inf) -> Matrix:
    """Nearest symmetric matrix (Frobenius) whose eigenvalues lie in [floor, ceiling].

    The paper's projection P_S is ``floor=0``; it leaves the open cone on which the loss is
    finite, so solvers call it with a positive floor.
    """
    eigenvalues, U = np.linalg.eigh(symmetrize(M))
    return symmetrize((U * np.clip(eigenvalues, floor, ceiling)) @ U.T)


def spd_factor(M: Matrix) -> Matrix:
    """Components L with M = LᵀL, rows ordered from the largest eigenvalue of M to the smallest."""
    eigenvalues, U = np.linalg.eigh(M)
    return (U * np.sqrt(np.maximum(eigenvalues, 0.0))).T[::-1].copy()


@dataclass(frozen=True)
class Geodesic:
    """The geodesic t ↦ A⁻¹ #_t B from A⁻¹ (t = 0) to B (t = 1) on the SPD cone.

    Two Cholesky factorisations and one eigendecomposition serve every t:

        A⁻¹ #_t B = W Σᵗ Wᵀ,   W Wᵀ = A⁻¹,   W Σ Wᵀ = B,   Σ = eigenvalues of A B.

    Neither A nor B is inverted. Build it with :meth:`between`, which factors the better
    conditioned of the two.
    """

    W: Matrix
    """Joint factor, so that ``at(t) = W Σᵗ Wᵀ``."""
    V: Matrix
    """Dual factor W⁻ᵀ, so that ``inverse_at(t) = V Σ⁻ᵗ Vᵀ``."""
    log_sigma: Vector
    """Logarithm of the eigenvalues of A B (in logarithms, so that no scale overflows)."""

    @classmethod
    def between(cls, A: Matrix, B: Matrix) -> Geodesic:
        """Decompose the geodesic from A⁻¹ to B.

        Cost: O(d³), one ``eigh`` (and an SVD where the condition number of AB exceeds 10⁸).

        Raises
        ------
        numpy.linalg.LinAlgError
            If A or B is not positive definite.
        """
        a, b = _mean_eigenvalue(A), _mean_eigenvalue(B)
        K, L = _cholesky(A / a), _cholesky(B / b)
        if _condition(K) <= _condition(L):
            # A = KKᵀ, KᵀL = U S Zᵀ, Σ = S², W = K⁻ᵀU, V = KU.
            S, U = _left_singular(K.T @ L)
            W = solve_triangular(K, U, lower=True, trans="T", check_finite=False) / np.sqrt(a)
            V = (K @ U) * np.sqrt(a)
        else:
            # B = LLᵀ, LᵀK = U S Zᵀ, Σ = S², W = LUS⁻¹, V = L⁻ᵀUS.
            S, U = _left_singular(L.T @ K)
            W = (L @ U) / S / np.sqrt(a)
            V = solve_triangular(L, U, lower=True, trans="T", check_finite=False) * S * np.sqrt(a)
        return cls(W, V, 2.0 * np.log(S) + np.log(a) + np.log(b))

    def factor(self, t: float) -> Matrix:
        """Return F with A⁻¹ #_t B = F Fᵀ."""
        factor: Matrix = self.W * np.exp(0.5 * t * self.log_sigma)
        return factor

    def at(self, t: float) -> Matrix:
        """Return A⁻¹ #_t B."""
        F = self.factor(t)
        return F @ F.T

    def inverse_at(self, t: float) -> Matrix:
        """Return the inverse of A⁻¹ #_t B, that is A #_t B⁻¹."""
        F = self.V * np.exp(-0.5 * t * self.log_sigma)
        return F @ F.T


def geometric_mean(P: Matrix, Q: Matrix, t: float = 0.5) -> Matrix:
    """Weighted geometric mean P #_t Q = P^{1/2} (P^{-1/2} Q P^{-1/2})ᵗ P^{1/2}.

    Parameters
    ----------
    P, Q : (d, d) arrays
        Symmetric positive definite.
    t : float
        Place on the geodesic: 0 gives P, 1 gives Q, 1/2 the geometric mean.

    Notes
    -----
    With P = KKᵀ, Q = LLᵀ and K⁻¹L = U S Zᵀ the mean is (KUSᵗ)(KUSᵗ)ᵀ; the better conditioned of P
    and Q is taken as the base (P #_t Q = Q #_{1-t} P). O(d³), one ``eigh`` (and an SVD where the
    condition number of P⁻¹Q exceeds 10⁸).

    References
    ----------
    Bhatia, *Positive Definite Matrices*, Princeton 2007, chapters 4 and 6.
    """
    p, q = _mean_eigenvalue(P), _mean_eigenvalue(Q)
    K, L = _cholesky(P / p), _cholesky(Q / q)
    base, other, s = (K, L, t) if _condition(K) <= _condition(L) else (L, K, 1.0 - t)
    S, U = _left_singular(solve_triangular(base, other, lower=True, check_finite=False))
    F = (base @ U) * S**s
    return np.exp((1.0 - t) * np.log(p) + t * np.log(q)) * (F @ F.T)


def _cholesky(M: Matrix) -> Matrix:
    K: Matrix = cholesky(M, lower=True, check_finite=False)
    return K


def _left_singular(C: Matrix) -> tuple[Vector, Matrix]:
    """Singular values and left singular vectors of C; no value is smaller than the least float.

    From CCᵀ, at half the cost of an SVD, unless squaring would leave the small values few digits.
    """
    squares, U = np.linalg.eigh(C @ C.T)
    if squares[0] > 1e-8 * squares[-1]:
        return np.sqrt(squares), U
    U, values, _ = np.linalg.svd(C)
    return np.maximum(values, np.finfo(float).tiny), U


def _condition(K: Matrix) -> float:
    """Estimate of a triangular factor's condition number, read off its diagonal."""
    diagonal = np.diagonal(K)
    return float(diagonal.max() / diagonal.min())


def _mean_eigenvalue(M: Matrix) -> float:
    return float(np.trace(M)) / M.shape[0] or 1.0
