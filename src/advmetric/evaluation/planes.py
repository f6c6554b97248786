"""Planes through embedded points on which their classes are best told apart, for pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, eigh
from sklearn.neighbors import NearestNeighbors

from advmetric.utils.typing import Matrix

__all__ = ["PLANES", "Plane", "best_plane"]

PLANES = ("discriminant", "components", "principal")
_SAMPLE = 1000
_NEIGHBORS = 5


@dataclass(frozen=True)
class Plane:
    """A plane of the embedding: points Z are seen as Z @ axes.T, so that distances never grow.

    ``error`` is the leave-one-out error of 5-NN on the plane, over at most 1000 of the points.
    """

    name: str
    axes: Matrix
    error: float


def best_plane(Z: Matrix, y: NDArray, kind: str = "best") -> Plane:
    """Return the plane of an embedding with the least 5-NN error.

    Parameters
    ----------
    Z : (n, r) array, r >= 2
        Embedded points.
    y : (n,) array
        Class labels.
    kind : {"best", "discriminant", "components", "principal"}
        "discriminant" spans the two leading directions of linear discriminant analysis, orthonormalised;
        "components" the first two coordinates, "principal" the two directions of largest variance. "best" is the one of
        these with the least error, the first of equals.

    Notes
    -----
    O(nr² + r³) for the directions, and a 5-NN search among at most 1000 points for each plane.
    """
    if kind not in ("best", *PLANES):
        raise ValueError(f"plane={kind!r} is not known; use 'best', 'discriminant', 'components' or 'principal'.")
    codes = np.unique(y, return_inverse=True)[1]
    planes = []
    for name in PLANES if kind == "best" else (kind,):
        axes = _AXES[name](Z, codes)
        planes.append(Plane(name, axes, _error(Z @ axes.T, codes)))
    return min(planes, key=lambda plane: plane.error)


def _components(Z: Matrix, codes: NDArray[np.integer]) -> Matrix:
    return np.eye(2, Z.shape[1])


def _principal(Z: Matrix, codes: NDArray[np.integer]) -> Matrix:
    axes: Matrix = np.linalg.eigh(np.atleast_2d(np.cov(Z.T)))[1][:, ::-1][:, :2].T
    return axes


def _discriminant(Z: Matrix, codes: NDArray[np.integer]) -> Matrix:
    sizes = np.bincount(codes)
    means = np.stack([Z[codes == code].mean(axis=0) for code in range(len(sizes))])
    rows, gaps = Z - means[codes], means - Z.mean(axis=0)
    within, between = rows.T @ rows, (gaps.T * sizes) @ gaps
    unit = float(np.trace(within + between)) or 1.0
    within[np.diag_indices_from(within)] += 1e-4 * unit / len(within)
    # Where there are two classes, one direction is left to the largest variance relative to the spread within.
    between += 1e-6 * (within + between)
    try:
        _, vectors = eigh(between + 1e-6 * np.cov(Z.T) * len(Z), within)
    except LinAlgError:
        return _principal(Z, codes)
    axes: Matrix = np.linalg.qr(vectors[:, ::-1][:, :2])[0].T
    return axes


_AXES = {"discriminant": _discriminant, "components": _components, "principal": _principal}


def _error(P: Matrix, codes: NDArray[np.integer]) -> float:
    """Leave-one-out error of 5-NN; ties go to the smaller class."""
    if len(P) > _SAMPLE:
        chosen = np.random.RandomState(0).choice(len(P), _SAMPLE, replace=False)
        P, codes = P[chosen], codes[chosen]
    k = min(_NEIGHBORS, len(P) - 1)
    if k < 1:
        return 0.0
    nearest = NearestNeighbors(n_neighbors=k).fit(P).kneighbors(return_distance=False)
    votes = np.stack([(codes[nearest] == code).sum(axis=1) for code in range(codes.max() + 1)], axis=1)
    return float(np.mean(votes.argmax(axis=1) != codes))
