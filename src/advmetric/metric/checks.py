"""Checks of the points and pairs that a metric is given; learners have their own, which also record what they saw."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from advmetric.pairs.checks import check_formed_pairs
from advmetric.pairs.data import Pairs
from advmetric.utils.arrays import to_numpy
from advmetric.utils.typing import Matrix, Vector
from advmetric.utils.validation import FLOATS, reject_non_numbers, reject_nonfinite

__all__ = ["as_vector", "check_pairs", "check_points", "check_width"]


def check_points(
    X: Any, name: str, n_features: int, feature_names: tuple[str, ...] | None = None, *, accept_sparse: bool = False
) -> Matrix:
    """Points with the features of a metric; a float array is not copied."""
    reject_non_numbers(X, name)
    columns = getattr(X, "columns", None)
    if columns is not None and feature_names is not None and tuple(map(str, columns)) != feature_names:
        raise ValueError(f"the columns of {name} are not the features that the metric was learned on, in their order.")
    accepted: Any = "csr" if accept_sparse else False
    points: Matrix = check_array(X, dtype=FLOATS, ensure_all_finite=False, input_name=name, accept_sparse=accepted)
    check_width(points, f"{name} has", n_features)
    reject_nonfinite(points, name, columns)
    return points


def check_pairs(pairs: Any, n_features: int) -> Pairs:
    """Bring formed pairs, of shape (N, 2, d), into the form of an index view; a view stays as it is."""
    view = pairs if isinstance(pairs, Pairs) else check_formed_pairs(pairs)
    check_width(view.X, "pairs have", n_features)
    return view


def check_width(points: Any, subject: str, n_features: int) -> None:
    """Raise unless points have the features of the metric; ``subject`` starts the message ("X has")."""
    if len(points.shape) != 2:
        raise ValueError(f"{subject} shape {tuple(points.shape)}; (n, {n_features}) is needed.")
    if points.shape[1] != n_features:
        raise ValueError(f"{subject} {points.shape[1]} features, but the metric is expecting {n_features} features.")


def as_vector(values: Any, name: str, d: int) -> Vector:
    """Return a vector of length d, given as an array or list of shape (d,) or (1, d)."""
    given = to_numpy(values)
    if np.iscomplexobj(given):
        raise ValueError(f"Complex data not supported: {name} must be real.")
    vector = given.astype(float)
    if vector.shape not in ((d,), (1, d)):
        raise ValueError(f"{name} must be a vector of length {d}, got shape {vector.shape}.")
    return vector.reshape(d)
