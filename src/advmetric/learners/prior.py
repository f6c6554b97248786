"""The prior metric M₀ that learners fall back on where the data say nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from advmetric.linalg.centring import column_means, near_origin
from advmetric.linalg.norms import row_norms
from advmetric.linalg.sparse import dense_rows
from advmetric.linalg.spd import symmetrize
from advmetric.pairs.data import Samples
from advmetric.utils.arrays import to_numpy
from advmetric.utils.typing import Matrix

__all__ = ["check_prior", "covariance_root", "prior_matrix"]


def check_prior(name: str, prior: Any) -> None:
    """Raise if ``prior`` is an unknown name; a constraint for parameters. A matrix is checked against the features."""
    if isinstance(prior, str) and prior not in ("identity", "covariance"):
        raise ValueError(f"prior={prior!r} is not known; use 'identity', 'covariance' or a positive definite array.")


def prior_matrix(prior: Any, data: Any, d: int) -> Matrix | None:
    """Return M₀, or None for the identity.

    "covariance" is the inverse covariance Σ⁻¹ of the points of the samples, times tr(Σ)/d: learners add M₀ and its
    inverse to scatter matrices of the data's scale, so M₀ itself must not have one.
    """
    if isinstance(prior, str) and prior == "identity":
        return None
    if isinstance(prior, str) and prior == "covariance":
        if not isinstance(data, Samples):
            raise ValueError("prior='covariance' needs the points, which batches do not keep; pass a matrix instead.")
        root = covariance_root(data.points)
        # The columns of the root are axes of the points divided by their standard deviations.
        norms = row_norms(root.T)
        root = root / norms.min() * np.sqrt(np.mean((norms.min() / norms) ** 2))
        return symmetrize(root @ root.T)
    return _positive_definite(prior, d)


def covariance_root(X: Any) -> Matrix:
    """Return R with RRᵀ the inverse covariance of the rows of X.

    Directions without spread get the precision of the weakest one that can be told from rounding.
    """
    n, d = X.shape
    if issparse(X):
        unit = _largest(X)
        near = near_origin(X / unit)
        spread = _largest(near)
        near, scale = near / spread, unit * spread
        mean = column_means(near)
        covariance = np.asarray((near.T @ near).toarray(), dtype=float) / n - np.outer(mean, mean)
    else:
        rows = dense_rows(to_numpy(X), slice(None))
        centred = rows - rows.mean(axis=0)
        scale = float(np.abs(centred).max()) or 1.0
        covariance = (centred / scale).T @ (centred / scale) / n
    e, U = np.linalg.eigh(covariance)
    root: Matrix = U / np.sqrt(np.maximum(e, d * np.finfo(np.float32).eps * max(e[-1], 1.0 / d))) / scale
    return root


def _largest(X: Any) -> float:
    """Return the largest entry of a sparse X by size, 1 if there is none."""
    return float(np.abs(X.data).max(initial=0.0)) or 1.0


def _positive_definite(prior: Any, d: int) -> Matrix:
    """Return the prior as a matrix; raise unless it is symmetric, positive definite and (d, d)."""
    shape = f"({d}, {d})"
    if np.iscomplexobj(prior):
        raise ValueError(f"Complex data not supported: prior must be 'identity' or a real {shape} array.")
    try:
        matrix = np.asarray(prior, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"prior is not numeric ({error}); use 'identity' or a {shape} array.") from error
    if matrix.shape != (d, d):
        raise ValueError(f"prior has shape {matrix.shape}; a {shape} array is needed for {d} features.")
    if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T, rtol=1e-8, atol=1e-12 * np.abs(matrix).max()):
        raise ValueError("prior must be a finite symmetric matrix.")
    matrix = symmetrize(matrix)
    if np.linalg.eigvalsh(matrix)[0] <= 0.0:
        raise ValueError("prior must be positive definite.")
    return matrix
