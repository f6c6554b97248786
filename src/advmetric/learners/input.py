"""Checks of what estimators are given: points with labels, pairs, index pairs.

A 2-D X is points, a 3-D X of shape (N, 2, d) is pairs, and with ``preprocessor`` set, a 2-D integer array of shape
(N, 2) is pairs of its rows. The functions return :class:`LabelledPoints` or :class:`Pairs` and record the number and
names of features on the estimator, as scikit-learn's ``validate_data`` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from advmetric.pairs.checks import check_formed_pairs, check_index_pairs, check_pair_labels
from advmetric.pairs.data import LabelledPoints, Pairs, Samples
from advmetric.utils.arrays import is_array_api, to_numpy
from advmetric.utils.typing import Matrix
from advmetric.utils.validation import (
    FLOATS,
    as_floating,
    count_dimensions,
    reject_masked,
    reject_non_numbers,
    reject_nonfinite,
)
from advmetric.utils.warning import warn

__all__ = [
    "PAIR_CLASSES",
    "call_preprocessor",
    "check_batch",
    "check_finite",
    "check_fitted",
    "check_pairs",
    "check_pairs_for",
    "check_points",
    "check_preprocessor",
    "check_samples",
    "holds_pairs",
    "needed_rows",
    "uses_all_pairs",
]

PAIR_CLASSES = np.array([-1, 1])
"""``classes_`` of an estimator fitted on pairs."""


def holds_pairs(learner: Any, X: Any) -> bool:
    """Return whether X is pairs (formed, or of row numbers of the preprocessor) rather than points."""
    return isinstance(X, Pairs) or count_dimensions(X) == 3 or (learner.preprocessor is not None and _is_index_pairs(X))


def _is_index_pairs(X: Any) -> bool:
    return count_dimensions(X) == 2


def check_samples(learner: Any, X: Any, y: Any) -> Samples:
    """Check the input of ``fit``; set ``n_features_in_``, ``feature_names_in_`` and ``classes_``."""
    name = type(learner).__name__
    if holds_pairs(learner, X):
        if "pairs" not in learner.supervision:
            raise ValueError(f"{name} learns from points with class labels (X of shape (n, d)), not from pairs.")
        pairs = check_pairs(learner, X, y, reset=True)
        learner.classes_ = PAIR_CLASSES.copy()
        return pairs
    if "points" not in learner.supervision:
        raise ValueError(f"{name} learns from pairs (X of shape (N, 2, d), y of -1 and +1), not from points.")
    points, labels = _checked(learner, X, _check_labels(learner, y), reset=True, ensure_min_samples=2)
    learner.classes_, codes = np.unique(labels, return_inverse=True)
    if len(learner.classes_) < 2:
        raise ValueError(
            f"y has only one class ({learner.classes_.tolist()[0]!r}); at least two are needed to learn a metric."
        )
    _suspect_index_pairs(X, learner.classes_)
    return LabelledPoints(points, codes)


def _check_labels(learner: Any, y: Any) -> NDArray[Any]:
    """Check class labels: one column, none missing, not continuous."""
    if y is None:
        raise ValueError(f"{type(learner).__name__} requires y to be passed, but the target y is None.")
    reject_masked(y, "y")
    labels: NDArray[Any] = column_or_1d(to_numpy(y), warn=True)
    if labels.dtype.kind in "biuSU":  # neither missing nor continuous, and to look for either takes long
        return labels
    missing = np.flatnonzero([_is_missing(label) for label in labels] if labels.dtype.hasobject else labels != labels)
    if len(missing):
        raise ValueError(
            f"y has no label (None or NaN) at row {missing[0]} ({len(missing)} rows affected). Drop such rows."
        )
    assert_all_finite(labels, input_name="y")
    # Twice each: where most labels occur once, as those of identities may, scikit-learn warns of a regression.
    check_classification_targets(np.repeat(labels, 2))
    return labels


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # comparisons with pandas.NA have no truth value
        return True


def _suspect_index_pairs(X: Any, classes: NDArray[Any]) -> None:
    """Warn if points look like pairs of row numbers."""
    values = np.asarray(X) if not (issparse(X) or is_array_api(X)) else None
    if (
        values is not None
        and values.dtype.kind in "iu"
        and values.ndim == 2
        and values.shape[1] == 2
        and np.array_equal(classes, PAIR_CLASSES)
        and values.min() >= 0
    ):
        warn(
            "X has two columns of row numbers and y is -1 and +1, which looks like index pairs. Without preprocessor "
            "they are taken as points with two features; set preprocessor to the points that the numbers refer to."
        )


def check_batch(learner: Any, X: Any, y: Any, *, first: bool) -> LabelledPoints:
    """Check points of a batch, which may have one row; the labels are not coded.

    Whether the points are finite is left to the sums over them: looking at each would cost another pass.
    """
    return LabelledPoints(*_checked(learner, X, _check_labels(learner, y), reset=first, finite=False))


def check_points(learner: Any, X: Any) -> Matrix:
    """Check points for a fitted estimator; with a preprocessor, X may be a list of its row numbers."""
    learner._check_fitted()
    if learner.preprocessor is not None and count_dimensions(X) == 1:
        rows = to_numpy(X)
        if rows.dtype.kind in "iu" and len(rows):
            X = _look_up(learner, rows, "X")
    return _checked(learner, X, "no_validation", reset=False)


def _checked(learner: Any, X: Any, y: Any, *, reset: bool, finite: bool = True, **options: Any) -> Any:
    """Check points, and that there are as many labels, which were checked, unless y is "no_validation"."""
    reject_non_numbers(X, "X")
    if is_array_api(X):
        points = as_floating(X, keep_gradient=not reset)
        if points.ndim != 2 or 0 in points.shape:
            raise ValueError(f"Expected 2D array of points with at least 1 row and feature, got shape {points.shape}.")
        validate_data(learner, points, reset=reset, skip_check_array=True)  # the number of features
        found = points
        if not isinstance(y, str):
            check_consistent_length(points, y)
            found = points, y
    else:
        options |= {"dtype": FLOATS, "ensure_all_finite": False, "accept_sparse": _sparse_format(learner)}
        found = validate_data(learner, X, y, reset=reset, **options)
    points, *labels = found if isinstance(found, tuple) else (found,)
    points = csr_array(points) if issparse(points) else points
    if finite:
        check_finite(learner, points)
    return (points, *labels) if labels else points


def check_finite(learner: Any, points: Matrix) -> None:
    """Raise if checked points have NaN or inf, naming the place."""
    reject_nonfinite(points, "X", getattr(learner, "feature_names_in_", None))


def _sparse_format(learner: Any) -> Any:
    return "csr" if learner.accepts_sparse else False


# --- pairs ------------------------------------------------------------------------------------------------


def check_pairs(
    learner: Any, pairs: Any, y: Any = None, *, reset: bool = False, partial: bool = False, both: bool = True
) -> Pairs:
    """Bring formed pairs or index pairs into one form, an index view on their points.

    ``reset`` is for ``fit``: it records the number of features. A ``partial`` batch may have pairs of one kind only,
    as may all pairs with ``both=False``.
    """
    if not (reset or partial):
        learner._check_fitted()
    reject_masked(pairs, "pairs")
    reject_masked(y, "y")
    if isinstance(pairs, Pairs):
        view = pairs
    elif count_dimensions(pairs) == 2 and learner.preprocessor is not None:
        view = _index_view(learner, pairs, partial)
    else:
        view = check_formed_pairs(pairs)
    d = view.X.shape[1]
    if reset:
        learner.n_features_in_ = d
        if hasattr(learner, "feature_names_in_"):
            del learner.feature_names_in_
    elif d != learner.n_features_in_:
        raise ValueError(
            f"pairs have {d} features, but {type(learner).__name__} is expecting {learner.n_features_in_} features."
        )
    if (reset or partial) and y is None:
        raise ValueError(f"{type(learner).__name__} requires y to be passed, but the target y is None.")
    if y is None:
        return view
    return Pairs(view.X, view.left, view.right, check_pair_labels(to_numpy(y), len(view), both=both and not partial))


def check_pairs_for(learner: Any, X: Any, y: Any, sampler: Any, random_state: Any = None) -> Pairs:
    """Return labelled pairs for a fitted estimator: those given, or pairs of labelled points chosen by a sampler."""
    if holds_pairs(learner, X):
        return check_pairs(learner, X, y, both=False)
    points, labels = check_points(learner, X), _check_labels(learner, y)
    check_consistent_length(points, labels)
    pairs: Pairs = sampler.sample(points, labels, random_state)
    return pairs


def _index_view(learner: Any, pairs: Any, partial: bool) -> Pairs:
    preprocessor = learner.preprocessor
    if callable(preprocessor):
        left, right = check_index_pairs(pairs, None)
        needed, places = np.unique(np.concatenate([left, right]), return_inverse=True)
        return Pairs(_look_up(learner, needed, "pairs"), places[: len(left)], places[len(left) :])
    few = needed_rows(preprocessor, pairs) if partial else None
    if few is not None:
        return few
    points = check_preprocessor(learner)
    return Pairs(points, *check_index_pairs(pairs, points.shape[0]))


def _look_up(learner: Any, rows: NDArray[np.integer], name: str) -> Matrix:
    """Return the points that row numbers refer to."""
    if callable(learner.preprocessor):
        return call_preprocessor(learner.preprocessor, rows)
    points = check_preprocessor(learner)
    if rows.min() < 0 or rows.max() >= points.shape[0]:
        raise ValueError(f"{name} has row numbers out of range for a preprocessor of {points.shape[0]} rows.")
    looked_up: Matrix = points[rows]
    return looked_up


def call_preprocessor(preprocessor: Callable[..., Any], rows: NDArray[np.integer]) -> Matrix:
    """Return the points that a callable preprocessor gives for row numbers, checked."""
    given = preprocessor(rows)
    shape = np.shape(given)
    if len(shape) != 2 or shape[0] != len(rows):
        raise ValueError(
            f"preprocessor returned shape {shape} for {len(rows)} row numbers; ({len(rows)}, d) is needed."
        )
    reject_non_numbers(given, "preprocessor")
    points: Matrix = check_array(given, dtype=FLOATS, ensure_all_finite=False, input_name="preprocessor")
    reject_nonfinite(points, "preprocessor")
    return points


def check_preprocessor(learner: Any) -> Any:
    """Return the points of an array-like preprocessor, checked."""
    given = learner.preprocessor
    reject_non_numbers(given, "preprocessor")
    if is_array_api(given):
        points = as_floating(given)
    else:
        points = check_array(
            given,
            dtype=FLOATS,
            ensure_all_finite=False,
            input_name="preprocessor",
            accept_sparse=_sparse_format(learner),
        )
    points = csr_array(points) if issparse(points) else points
    reject_nonfinite(points, "preprocessor", getattr(given, "columns", None))
    return points


def needed_rows(preprocessor: Any, pairs: Any) -> Pairs | None:
    """Return a view on only those rows of an array that a batch of index pairs needs, so that it may be memory-mapped.

    None for other preprocessors, and where a needed row is not finite: checking everything then says where.
    """
    plain = isinstance(preprocessor, np.ndarray) and not isinstance(preprocessor, np.ma.MaskedArray)
    if not plain or preprocessor.ndim != 2 or preprocessor.dtype.kind not in "fiu":
        return None
    left, right = check_index_pairs(pairs, len(preprocessor))
    needed, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    rows = preprocessor[needed]
    rows = rows if rows.dtype in FLOATS else rows.astype(np.float64)
    return Pairs(rows, places[: len(left)], places[len(left) :]) if np.isfinite(rows).all() else None


def check_fitted(learner: Any) -> None:
    """Raise NotFittedError unless ``fit`` has been called."""
    check_is_fitted(learner, "components_")


def uses_all_pairs(learner: Any) -> bool:
    """True, or an AttributeError that says why parts of the data would not do."""
    pairs = getattr(learner, "pairs", "all")
    if isinstance(pairs, str) and pairs == "all":
        return True
    raise AttributeError(
        f"{type(learner).__name__} learns from batches with pairs='all' only: pairs={pairs!r} would draw pairs within "
        "each batch, which is not what fit does. (Batches of pairs are used as they are; leave pairs at 'all'.)"
    )
