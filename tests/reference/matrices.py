"""Random SPD matrices, and functions of them to sixty digits."""

import mpmath as mp
import numpy as np

DIGITS = 60


def random_spd(rng, d, condition=10.0, scale=1.0):
    """SPD matrix of random eigenvectors and log-spaced eigenvalues, the largest being ``scale``."""
    Q, _ = np.linalg.qr(rng.standard_normal((d, d)))
    M = (Q * (scale * np.logspace(-np.log10(condition), 0.0, d))) @ Q.T
    return (M + M.T) / 2


def exact(M):
    """The same matrix in mpmath."""
    return mp.matrix(M.tolist())


def rounded(M):
    """An mpmath matrix in double precision."""
    return np.array(M.tolist(), dtype=float)


def spectral(M, f):
    """U f(Λ) Uᵀ in mpmath."""
    eigenvalues, U = mp.eigsy(M)
    return U * mp.diag([f(value) for value in eigenvalues]) * U.T


def exact_geometric_mean(P, Q, t):
    """P^{1/2} (P^{-1/2} Q P^{-1/2})ᵗ P^{1/2} of two mpmath matrices, by definition."""
    root = spectral(P, mp.sqrt)
    root_inverse = spectral(P, lambda value: 1 / mp.sqrt(value))
    return root * spectral(root_inverse * Q * root_inverse, lambda value: value ** mp.mpf(t)) * root


def affine_error(found, expected):
    """max |log eigenvalue| of expected^{-1/2} found expected^{-1/2}: relative error in every direction."""
    root_inverse = spectral(expected, lambda value: 1 / mp.sqrt(value))
    eigenvalues = mp.eigsy(root_inverse * exact(found) * root_inverse, eigvals_only=True)
    return float(max(abs(mp.log(abs(value))) for value in eigenvalues))


def norm_error(found, expected):
    """‖found - expected‖_F / ‖expected‖_F."""
    return float(mp.norm(exact(found) - expected) / mp.norm(expected))
