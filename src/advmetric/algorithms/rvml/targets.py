"""Virtual points of RVML: where each training point should be mapped to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import euclidean_distances

from advmetric.utils.optional import require
from advmetric.utils.typing import Matrix, Vector

__all__ = ["BLOCK", "centre_and_scale", "class_targets", "mean_distance", "select_landmarks", "transport_targets"]

BLOCK = 1 << 22
"""Distances or kernel values held at once in blocked loops: 32 MB."""


# --- scaling --------------------------------------------------------------------------------------------


def centre_and_scale(X: Matrix) -> tuple[Vector, Vector]:
    """Mean and three standard deviations of each feature (1 where a feature is constant).

    The authors' preprocessing. Computed so that no square overflows or vanishes.
    """
    size = np.abs(X).max(axis=0)
    unit = np.where(size > 0.0, size, 1.0)
    scaled = X / unit
    mean = scaled.mean(axis=0)
    spread = np.abs(scaled - mean).max(axis=0)
    varies = spread > 16.0 * np.finfo(float).eps
    spread = np.where(varies, spread, 1.0)
    sigma = spread * np.sqrt(np.mean(((scaled - mean) / spread) ** 2, axis=0))
    return mean * unit, np.where(varies, 3.0 * sigma, 1.0) * np.where(varies, unit, 1.0)


# --- targets --------------------------------------------------------------------------------------------


def class_targets(y: NDArray[np.integer]) -> Matrix:
    """Each class its own unit vector: V (n, c)."""
    return np.eye(int(y.max()) + 1)[y]


def select_landmarks(X: Matrix, n_classes: int) -> NDArray[np.integer]:
    """Rows of X that serve as landmarks.

    The point of largest norm, then again and again the point farthest on average from those chosen,
    until there are at least ``n_classes`` and no point is farther from its nearest landmark than two
    points are on average. O(n²d) time for that average, by blocks; O(n) memory beside them.
    """
    n = len(X)
    radius = mean_distance(X)
    chosen = [int(np.argmax(np.einsum("ij,ij->i", X, X)))]
    total = _distance_to(X, chosen[0])
    nearest = total.copy()
    free = np.ones(n, dtype=bool)
    free[chosen[0]] = False
    while len(chosen) < n and (len(chosen) < n_classes or nearest[free].max() > radius):
        following = int(np.argmax(np.where(free, total, -1.0)))
        chosen.append(following)
        free[following] = False
        distances = _distance_to(X, following)
        total += distances
        np.minimum(nearest, distances, out=nearest)
    return np.array(chosen, dtype=np.intp)


def transport_targets(
    X: Matrix, y: NDArray[np.integer], *, reg: float = 0.5, eta: float = 10.0, steps: int = 10
) -> Matrix:
    """Targets by optimal transport of the points to landmarks among them: V (n, d).

    The plan γ minimises ⟨γ, C⟩ + reg Σ γ log γ + eta Σ_{class, landmark} (mass of the class there)^{1/2}
    with uniform marginals and C the Euclidean distances: the last term sends different classes to
    different landmarks. It is concave, so it is replaced by its tangent ``steps`` times, each followed
    by at most 200 Sinkhorn iterations (the authors' numbers). A point's target is the mean of the
    landmarks by its row of the plan.

    Time O(n²d + steps·200·nm) and memory O(nm) for m landmarks.
    """
    ot = require("ot", 'targets="transport"')
    landmarks = X[select_landmarks(X, int(y.max()) + 1)]
    cost = cdist(X, landmarks)
    source, target = np.full(len(X), 1.0 / len(X)), np.full(len(landmarks), 1.0 / len(landmarks))
    membership = class_targets(y)
    tangent = np.zeros_like(cost)
    plan = np.zeros_like(cost)
    for _ in range(steps):
        plan = _sinkhorn(ot, source, target, cost + eta * tangent, reg)
        # Derivative of mass^{1/2}, kept finite at 0 as in the authors' code.
        tangent = membership @ (0.5 / np.sqrt(membership.T @ plan + 1e-3))
    plan /= plan.sum(axis=1, keepdims=True)
    targets: Matrix = plan @ landmarks
    return targets


def _sinkhorn(ot: Any, source: Vector, target: Vector, cost: Matrix, reg: float) -> Matrix:
    settings = {"numItermax": 200, "stopThr": 1e-9, "warn": False}
    # exp(-cost/reg) vanishes beyond this; the logarithmic form, ten times slower, does not.
    method = "sinkhorn" if cost.max() - cost.min() < 300.0 * reg else "sinkhorn_log"
    plan: Matrix = ot.sinkhorn(source, target, cost - cost.min(), reg, method=method, **settings)
    return plan


def mean_distance(X: Matrix) -> float:
    """Mean over all n² ordered pairs, by blocks."""
    step = max(1, BLOCK // len(X))
    # By matrix products: a mean does not need the last digits of small distances.
    total = sum(float(euclidean_distances(X[start : start + step], X).sum()) for start in range(0, len(X), step))
    return total / len(X) ** 2


def _distance_to(X: Matrix, row: int) -> Vector:
    distances: Vector = cdist(X, X[row : row + 1])[:, 0]
    return distances
