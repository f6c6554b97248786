"""The worst that can happen to the distance of a pair whose ends may both move by eps.

max or min of (v + δ)ᵀM(v + δ) over ‖δ‖ <= 2 eps: exact, a trust-region problem in the eigenbasis of M
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from advmetric.utils.typing import Matrix, Vector

__all__ = ["ROUNDING", "check_radius", "worst_pair_auc", "worst_pair_distances"]

Labels = NDArray[np.integer]

ROUNDING = 64.0 * float(np.finfo(np.float64).eps)
_FLOOR = 1e-40
"""Least root of a secular equation (λ_max = 1): below it distances change by 1e-20, far less than rounding."""


def worst_pair_auc(L: Matrix, V: Matrix, labels: Labels, eps: float) -> float:
    """P(d_S < d_D) + P(d_S = d_D)/2 over similar and dissimilar pairs, each at its own worst distance."""
    return float(roc_auc_score(np.asarray(labels) > 0, -worst_pair_distances(L, V, labels, eps)))


def worst_pair_distances(L: Matrix, V: Matrix, labels: Labels, eps: float) -> Vector:
    """max ‖L(v + δ)‖ for similar and min ‖L(v + δ)‖ for dissimilar pairs over ‖δ‖ <= r = 2 eps, exactly.

    In the eigenbasis of M, with a = Uᵀv, stationarity gives each coordinate of δ by one multiplier:

        max:  δ_i = λ_i a_i / (λ_max - λ_i + ν),    min:  δ_i = -λ_i a_i / (λ_i + ν),    ν >= 0,  ‖δ‖ = r,

    so that both need one root of the same scalar equation. Two exceptions: where ν = 0 leaves ‖δ‖ < r in the
    maximum (no component in the top eigenspace: the hard case), the rest of the length goes into that eigenspace;
    where a pair can be closed (‖a‖ <= r on the range of M), the minimum is 0.

    Parameters
    ----------
    L : (r, d) array
    V : (N, d) array
        Differences of the pairs; both ends may move by eps.
    labels : (N,) array
        Positive for similar pairs.

    Notes
    -----
    O(Nd min(r, d)), one SVD of L.

    References
    ----------
    Moré and Sorensen, *Computing a trust region step*, SIAM J. Sci. Stat. Comput. 4, 1983.
    """
    check_radius(eps)
    V, similar = np.asarray(V, dtype=np.float64), np.asarray(labels) > 0
    if eps == 0.0:
        plain: Vector = np.linalg.norm(V @ L.T, axis=1)
        return plain
    # Not from M: squaring would leave eigenvalues below 1e-16 λ_max without a digit.
    _, sigma, Ut = np.linalg.svd(L, full_matrices=False)
    rank = int(np.sum(sigma > sigma[0] * max(L.shape) * np.finfo(np.float64).eps))
    if rank == 0:
        return np.zeros(len(V))
    lam = (sigma[:rank] / sigma[0]) ** 2
    radius = 2.0 * eps
    a = np.abs(V @ Ut[:rank].T) / radius
    distances = np.empty(len(V))
    distances[similar] = _farthest(lam, a[similar])
    distances[~similar] = _nearest(lam, a[~similar])
    distances *= sigma[0] * radius
    return distances


def _farthest(lam: Vector, a: Matrix) -> Vector:
    """max of √Σ λ_i (a_i + δ_i)² over ‖δ‖ <= 1, for 1 = λ_1 >= λ_i > 0 and a >= 0."""
    gap = lam[0] - lam
    delta = lam * a
    delta /= _secular_root(delta, gap)[:, None] + gap
    delta /= np.maximum(np.linalg.norm(delta, axis=1), 1.0)[:, None]
    # The hard case; elsewhere this only puts rounding right.
    delta[:, 0] = np.sqrt(np.maximum(1.0 - np.sum(delta[:, 1:] ** 2, axis=1), 0.0))
    return np.sqrt((a + delta) ** 2 @ lam)


def _nearest(lam: Vector, a: Matrix) -> Vector:
    """min of √Σ λ_i (a_i - δ_i)² over ‖δ‖ <= 1, for λ_i > 0 and a >= 0."""
    nu = _secular_root(lam * a, lam)[:, None]
    # a - δ without cancellation.
    rest = a * (nu / (lam + nu))
    return np.where(np.linalg.norm(a, axis=1) <= 1.0, 0.0, np.sqrt(rest**2 @ lam))


def _secular_root(c: Matrix, gap: Vector, max_iter: int = 100) -> Vector:
    """Root ν of φ(ν) = √Σ (c_i / (ν + gap_i))² = 1 for every row of c; the floor where φ < 1 there already.

    1/φ is concave, so Newton's method on it climbs to the root from the left without passing it. A bisection of
    log ν beside it crosses the boundary layers of small c_i and gaps, where Newton's steps are short.
    """
    low = np.maximum(np.max(c - gap, axis=1, initial=0.0), _FLOOR)
    high = np.maximum(np.linalg.norm(c, axis=1) - gap.min(), low)
    for _ in range(max_iter):
        phi, slope = _phi(c, gap, low)
        # In the hard case φ(low) < 1 and the step would go down: stay.
        newton = np.clip(low + np.maximum(phi - 1.0, 0.0) * phi**2 / slope, low, high)
        middle = np.sqrt(newton) * np.sqrt(high)
        left = _phi(c, gap, middle)[0] > 1.0
        done = (newton - low <= ROUNDING / 16.0 * newton) | (high - newton <= ROUNDING / 16.0 * high)
        low, high = np.where(left, middle, newton), np.where(left, high, middle)
        if done.all():
            break
    return low


def _phi(c: Matrix, gap: Vector, nu: Vector) -> tuple[Vector, Vector]:
    """φ(ν) and Σ p_i² / (ν + gap_i) with p_i = c_i / (ν + gap_i), row by row."""
    shifted = nu[:, None] + gap
    squares = (c / shifted) ** 2
    return np.sqrt(squares.sum(axis=1)), np.maximum((squares / shifted).sum(axis=1), np.finfo(np.float64).tiny)


def check_radius(eps: float) -> None:
    if not 0.0 <= eps < np.inf:
        raise ValueError(f"eps={eps!r} is not a radius: it must be finite and not negative.")
