"""SPD algebra: pure functions of symmetric matrices.

Everything a metric learner needs and nothing else: the affine-invariant geodesic
between two SPD matrices, and spectral projections. They work on NumPy's arrays and, through the array API, on others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg import eigh as generalised_eigh

from advmetric.utils.arrays import is_array_api, namespace
from advmetric.utils.typing import Matrix, Vector

__all__ = [
    "Geodesic",
    "geometric_mean",
    "leading_generalised",
    "outer",
    "project_spd",
    "spd_factor",
    "symmetrize",
    "with_signs",
]


def symmetrize(M: Matrix) -> Matrix:
    """Return (M + Mᵀ) / 2."""
    return 0.5 * (M + M.T)


def outer(a: Vector, b: Vector) -> Matrix:
    """Return a bᵀ."""
    return a[:, None] * b[None, :]


def project_spd(M: Matrix, floor: float = 0.0, ceiling: float = np.inf) -> Matrix:
    """Nearest symmetric matrix (Frobenius) whose eigenvalues lie in [floor, ceiling].

    The paper's projection P_S is ``floor=0``; it leaves the open cone on which the loss is
    finite, so solvers call it with a positive floor.
    """
    xp = namespace(M)
    eigenvalues, U = xp.linalg.eigh(symmetrize(M))
    return symmetrize((U * xp.clip(eigenvalues, floor, ceiling)) @ U.T)


def spd_factor(M: Matrix) -> Matrix:
    """Components L with M = LᵀL, rows ordered from the largest eigenvalue of M to the smallest."""
    xp = namespace(M)
    eigenvalues, U = xp.linalg.eigh(M)
    components: Matrix = xp.flip((U * xp.sqrt(xp.clip(eigenvalues, 0.0, None))).T, axis=0)
    return xp.asarray(components, copy=True)


def with_signs(components: Matrix) -> Matrix:
    """Flip rows so that the largest entry of each is positive: LAPACK gives eigenvectors arbitrary signs."""
    xp = namespace(components)
    flipped = xp.max(components, axis=1) + xp.min(components, axis=1) < 0.0
    return xp.where(flipped[:, None], -components, components)


def leading_generalised(B: Matrix, A: Matrix, count: int) -> Matrix:
    """Vectors v with the largest λ of B v = λ A v, as ``count`` columns."""
    if not is_array_api(A):
        d = len(A)
        _, vectors = generalised_eigh(B, A, subset_by_index=(d - count, d - 1), check_finite=False)
        if vectors.shape[1] < count:  # LAPACK misses some, and says nothing, where eigenvalues agree to rounding
            vectors = generalised_eigh(B, A, check_finite=False)[1][:, -count:]
        return vectors
    K = _cholesky(A)
    _, V = namespace(A).linalg.eigh(symmetrize(_solve(K, _solve(K, B).T)))
    return _solve_transposed(K, V[:, -count:])


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
            W = _solve_transposed(K, U) / math.sqrt(a)
            V = (K @ U) * math.sqrt(a)
        else:
            # B = LLᵀ, LᵀK = U S Zᵀ, Σ = S², W = LUS⁻¹, V = L⁻ᵀUS.
            S, U = _left_singular(L.T @ K)
            W = (L @ U) / S / math.sqrt(a)
            V = _solve_transposed(L, U) * S * math.sqrt(a)
        return cls(W, V, 2.0 * namespace(S).log(S) + (math.log(a) + math.log(b)))

    def factor(self, t: float) -> Matrix:
        """Return F with A⁻¹ #_t B = F Fᵀ."""
        factor: Matrix = self.W * namespace(self.W).exp(0.5 * t * self.log_sigma)
        return factor

    def at(self, t: float) -> Matrix:
        """Return A⁻¹ #_t B."""
        F = self.factor(t)
        return F @ F.T

    def inverse_at(self, t: float) -> Matrix:
        """Return the inverse of A⁻¹ #_t B, that is A #_t B⁻¹."""
        F = self.V * namespace(self.V).exp(-0.5 * t * self.log_sigma)
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
    S, U = _left_singular(_solve(base, other))
    F = (base @ U) * S**s
    return math.exp((1.0 - t) * math.log(p) + t * math.log(q)) * (F @ F.T)


def _cholesky(M: Matrix) -> Matrix:
    if not is_array_api(M):
        K: Matrix = cholesky(M, lower=True, check_finite=False)
        return K
    try:
        K = namespace(M).linalg.cholesky(M)
    except RuntimeError as error:  # what PyTorch's LinAlgError is
        raise np.linalg.LinAlgError(str(error)) from error
    if not bool(namespace(K).isfinite(namespace(K).sum(K))):  # where others would raise, JAX and CuPy return NaN
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return K


def _solve(K: Matrix, R: Matrix) -> Matrix:
    """K⁻¹R for lower triangular K."""
    if is_array_api(K):  # the standard has no triangular solver
        return namespace(K).linalg.solve(K, R)
    return solve_triangular(K, R, lower=True, check_finite=False)


def _solve_transposed(K: Matrix, R: Matrix) -> Matrix:
    """K⁻ᵀR for lower triangular K."""
    if is_array_api(K):
        return namespace(K).linalg.solve(K.T, R)
    return solve_triangular(K, R, lower=True, trans="T", check_finite=False)


def _left_singular(C: Matrix) -> tuple[Vector, Matrix]:
    """Singular values and left singular vectors of C; no value is smaller than the least float.

    From CCᵀ, at half the cost of an SVD, unless squaring would leave the small values few digits.
    """
    xp = namespace(C)
    squares, U = xp.linalg.eigh(C @ C.T)
    if squares[0] > 1e-8 * squares[-1]:
        return xp.sqrt(squares), U
    U, values, _ = xp.linalg.svd(C)
    return xp.clip(values, float(np.finfo(float).tiny), None), U


def _condition(K: Matrix) -> float:
    """Estimate of a triangular factor's condition number, read off its diagonal."""
    xp = namespace(K)
    diagonal = xp.linalg.diagonal(K)
    return float(xp.max(diagonal) / xp.min(diagonal))


def _mean_eigenvalue(M: Matrix) -> float:
    mean = float(namespace(M).linalg.trace(M)) / M.shape[0]
    return mean if mean > 0.0 else 1.0
