"""The estimator contract that every method shares: input, transform, pair distances, decisions.

A method derives from :class:`MetricLearner`, says in ``supervision`` what it can learn from, and
implements ``_learn``, which turns checked data into components. All else is here.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.utils import ClassifierTags, Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from .arrays import is_foreign, like, namespace, to_numpy
from .checks import (
    all_finite,
    check_number,
    dimensions,
    floating,
    index_pairs,
    is_lazy,
    pair_labels,
    refuse_nonfinite,
    refuse_text,
)
from .linalg import Matrix, Vector
from .metric import Mahalanobis
from .pair_sample import threshold_pairs
from .supervision import AllPairs, BalancedPairs, Pairs
from .threshold import best_threshold

__all__ = ["FLOATS", "LabelledPoints", "MetricLearner", "rows_of_batch"]

FLOATS = (np.float64, np.float32)
"""Types of points that are kept as they are; others become the first."""
_MAX_LISTED = 1500
"""Up to so many points, ``score`` looks at all of their pairs."""


@dataclass(frozen=True)
class LabelledPoints:
    """Checked points with class labels; ``y`` holds codes 0 … c-1."""

    X: Matrix
    y: NDArray[np.integer]


def _plain(points: Any) -> Any:
    """Checked points: sparse ones as an array, whose operators mean what those of NumPy's mean."""
    return csr_array(points) if issparse(points) else points


def rows_of_batch(preprocessor: Any, pairs: Any) -> Pairs | None:
    """A view on only those rows of an array that a batch of index pairs needs, so that it may be memory-mapped.

    None for other preprocessors, and for rows with flaws: looking at everything then says where.
    """
    if not isinstance(preprocessor, np.ndarray) or preprocessor.ndim != 2 or preprocessor.dtype.kind not in "fiu":
        return None
    left, right = index_pairs(pairs, len(preprocessor))
    needed, places = np.unique(np.concatenate([left, right]), return_inverse=True)
    rows = preprocessor[needed]
    rows = rows if rows.dtype in FLOATS else rows.astype(np.float64)
    return Pairs(rows, places[: len(left)], places[len(left) :]) if np.isfinite(rows).all() else None


def _on_dask() -> Any:
    """What takes over for Dask collections; not imported above, since it comes after this module and few need it."""
    return import_module("advmetric.distributed")


def _decides_on_pairs(learner: Any) -> bool:
    """Whether there is a threshold, or may be one after ``fit`` (scikit-learn's meta-estimators look before it)."""
    return hasattr(learner, "threshold_") or not hasattr(learner, "components_")


class MetricLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of all methods: a Mahalanobis distance learned from points with labels or from pairs.

    What ``fit`` gets decides: a 2-D X is points with class labels, a 3-D X of shape (N, 2, d) is
    pairs with labels -1 and +1, and with ``preprocessor`` set, a 2-D integer array of shape (N, 2)
    is pairs of its rows. Fitted on points the estimator is a transformer, fitted on pairs it is
    also a classifier of pairs.
    """

    supervision: ClassVar[tuple[str, ...]] = ("points", "pairs")
    """What the method learns from."""
    accepts_sparse: ClassVar[bool] = False
    """Whether points may be a SciPy sparse matrix, which is never made dense as a whole."""
    accepts_foreign: ClassVar[bool] = False
    """Whether it learns on arrays of other libraries (PyTorch …) where they are; else from a copy in NumPy's."""

    preprocessor: ArrayLike | None
    components_: Matrix
    threshold_: float

    # --- fitting ----------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike) -> MetricLearner:
        """Learn the metric.

        Parameters
        ----------
        X : array-like of shape (n, d), (N, 2, d), or (N, 2) with ``preprocessor``
            Points, pairs of points, or pairs of row numbers of the preprocessor.
        y : array-like
            Class labels of the points, or +1 (similar) and -1 (dissimilar) for pairs.
            ``threshold_`` is the most accurate one on the pairs, or on 10⁶ spread over them if there are more.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        return self._fit(X, y)

    def _fit(self, X: Any, y: Any, **extra: Any) -> MetricLearner:
        if is_lazy(X) or is_lazy(y):
            fitted: MetricLearner = _on_dask().fit(self, X, y)
            return fitted
        self._check_params()
        data = self._check_data(X, to_numpy(y) if is_foreign(y) else y)
        if is_foreign(data.X) and not self.accepts_foreign:
            data = replace(data, X=to_numpy(data.X))
        for learned in ("threshold_", "statistics_"):
            if hasattr(self, learned):
                delattr(self, learned)
        self._fitted_on_pairs = isinstance(data, Pairs)
        self.components_ = self._learn_finite(data, **extra)
        if is_foreign(data.X):
            for learned in ("components_", "objective_"):
                if hasattr(self, learned):
                    setattr(self, learned, like(getattr(self, learned), data.X))
        if isinstance(data, Pairs):
            self._choose_threshold(data)
        return self

    def _choose_threshold(self, pairs: Pairs) -> None:
        """The most accurate threshold on checked training pairs, or on a sample of them."""
        few = threshold_pairs(pairs)
        self.set_threshold(best_threshold(to_numpy(self.get_metric().pair_distance(few)), few.labels))

    def _check_params(self) -> None:
        """Raise a ValueError that names any parameter out of range."""

    def _learn(self, data: Any, **extra: Any) -> Matrix:
        """Return the (r, d) components of the metric learned from checked data."""
        raise TypeError(f"{type(self).__name__} does not say how it learns: implement _learn.")

    def _learn_finite(self, data: Any, **extra: Any) -> Matrix:
        """Learn; where numbers overflow, raise one clear error instead of NumPy's warnings."""
        flaw: Exception | None = None
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            try:
                components = self._learn(data, **extra)
                if all_finite(components):
                    return components
            except np.linalg.LinAlgError as error:
                flaw = error
        raise ValueError(
            f"{type(self).__name__} finds no finite metric: the features of X are too large, too small or too far from "
            "independent. Standardise them first, for example with sklearn.preprocessing.StandardScaler."
        ) from flaw

    def _report(self, objective: Sequence[float], converged: bool, message: str) -> None:
        """Record how an iterative solver ended; warn unless it converged."""
        self.objective_ = np.asarray(objective, dtype=float)
        self.n_iter_ = max(1, len(objective) - 1)
        self.converged_ = bool(converged)
        if not converged:
            warnings.warn(
                f"{type(self).__name__} did not converge in {self.n_iter_} iterations: {message}. "
                "Raise max_iter or tol, or change the solver's settings.",
                ConvergenceWarning,
                stacklevel=6,
            )

    # --- checking input ---------------------------------------------------------------------------------

    def _check_data(self, X: Any, y: Any) -> LabelledPoints | Pairs:
        if self._holds_pairs(X):
            if "pairs" not in self.supervision:
                raise ValueError(
                    f"{type(self).__name__} learns from points with class labels (X of shape (n, d)), not from pairs."
                )
            pairs = self._check_pairs(X, y, reset=True)
            self.classes_ = np.array([-1, 1])
            return pairs
        if "points" not in self.supervision:
            raise ValueError(
                f"{type(self).__name__} learns from pairs (X of shape (N, 2, d), y of -1 and +1), not from points."
            )
        refuse_text(X, "X")
        if is_foreign(X):
            if y is None:
                raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
            points, labels = self._check_foreign(X, reset=True), column_or_1d(y, warn=True)
            check_consistent_length(points, labels)
        else:
            points, labels = validate_data(
                self,
                X,
                y,
                dtype=FLOATS,
                ensure_all_finite=False,
                ensure_min_samples=2,
                accept_sparse=self._sparse_format,
            )
        points = _plain(points)
        refuse_nonfinite(points, "X", getattr(self, "feature_names_in_", None))
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has only one class ({self.classes_.tolist()[0]!r}); at least two are needed to learn a metric."
            )
        return LabelledPoints(points, codes)

    def _holds_pairs(self, X: Any) -> bool:
        """Whether X is pairs (formed, or of row numbers of the preprocessor) rather than points."""
        return isinstance(X, Pairs) or dimensions(X) == 3 or (self.preprocessor is not None and dimensions(X) == 2)

    @property
    def _sparse_format(self) -> Any:
        return "csr" if self.accepts_sparse else False

    def _check_fitted(self) -> None:
        check_is_fitted(self, "components_")

    def _check_foreign(self, X: Any, *, reset: bool) -> Any:
        """Points in an array of another library, as floating-point numbers."""
        points = floating(X, keep_gradient=not reset)
        if points.ndim != 2 or 0 in points.shape:
            raise ValueError(f"Expected 2D array of points with at least 1 row and feature, got shape {points.shape}.")
        validate_data(self, points, reset=reset, skip_check_array=True)  # the number of features
        return points

    def _check_points(self, X: Any) -> Matrix:
        self._check_fitted()
        refuse_text(X, "X")
        points: Matrix
        if is_foreign(X):
            points = self._check_foreign(X, reset=False)
        else:
            points = _plain(
                validate_data(
                    self, X, reset=False, dtype=FLOATS, ensure_all_finite=False, accept_sparse=self._sparse_format
                )
            )
        refuse_nonfinite(points, "X", getattr(self, "feature_names_in_", None))
        return points

    def _check_pairs(self, pairs: Any, y: Any = None, *, reset: bool = False, partial: bool = False) -> Pairs:
        """Bring formed pairs or index pairs into one form, a view on their points.

        A ``partial`` batch may have pairs of one kind only.
        """
        if not (reset or partial):
            self._check_fitted()
        if isinstance(pairs, Pairs):
            view = pairs
        elif dimensions(pairs) == 2 and self.preprocessor is not None:
            refuse_text(self.preprocessor, "preprocessor")
            needed = rows_of_batch(self.preprocessor, pairs) if partial else None
            if needed is not None:
                view = needed
            else:
                points = _plain(
                    floating(self.preprocessor)
                    if is_foreign(self.preprocessor)
                    else check_array(
                        self.preprocessor,
                        dtype=FLOATS,
                        ensure_all_finite=False,
                        input_name="preprocessor",
                        accept_sparse=self._sparse_format,
                    )
                )
                refuse_nonfinite(points, "preprocessor", getattr(self.preprocessor, "columns", None))
                view = Pairs(points, *index_pairs(pairs, points.shape[0]))
        else:
            formed = floating(pairs) if is_foreign(pairs) else np.asarray(pairs)
            if formed.ndim != 3 or formed.shape[1] != 2 or 0 in formed.shape:
                raise ValueError(
                    f"pairs must have shape (N, 2, d) with N, d >= 1, got {formed.shape}. "
                    "For pairs of row numbers, shape (N, 2), set preprocessor to the points."
                )
            refuse_text(formed, "pairs")
            if not is_foreign(formed):
                formed = check_array(formed, dtype=FLOATS, allow_nd=True, ensure_2d=False, ensure_all_finite=False)
            refuse_nonfinite(formed, "pairs")
            view = Pairs.formed(formed)
        d = view.X.shape[1]
        if reset:
            self.n_features_in_ = d
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        elif d != self.n_features_in_:
            raise ValueError(
                f"pairs have {d} features, but {type(self).__name__} is expecting {self.n_features_in_} features."
            )
        if (reset or partial) and y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if y is None:
            return view
        return Pairs(view.X, view.left, view.right, pair_labels(to_numpy(y), len(view), both=not partial))

    # --- the metric -------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def transform(self, X: ArrayLike) -> Matrix:
        """Map points to the space in which the learned distance is Euclidean.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        Z : array of shape (n, r)
            Of the library, device and precision of X.
        """
        if is_lazy(X):
            lazy: Matrix = _on_dask().transform(self, X)
            return lazy
        points = self._check_points(X)
        self._follow_fit(X, "transform")
        if is_foreign(points) or is_foreign(self.components_):
            L = like(self.components_, points)
            transformed: Matrix = points @ namespace(points).astype(L, points.dtype).T
            return transformed
        embedded: Any = points @ self.components_.T.astype(points.dtype, copy=False)
        return embedded.toarray() if issparse(embedded) else embedded

    def _follow_fit(self, X: Any, method: str) -> None:
        """With scikit-learn's array API dispatch on, its rule: everything follows the X of fit.

        Without, the metric goes where X is.
        """
        if (
            self.accepts_foreign
            and get_config()["array_api_dispatch"]
            and is_foreign(X) != is_foreign(self.components_)
        ):
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace and the same device as "
                "those passed to fit()."
            )

    def get_metric(self) -> Mahalanobis:
        """The learned metric: callable on two vectors, and saved to a file by its ``save``."""
        self._check_fitted()
        names = getattr(self, "feature_names_in_", None)
        return Mahalanobis(self.components_, getattr(self, "threshold_", None), None if names is None else tuple(names))

    def get_mahalanobis_matrix(self) -> Matrix:
        """M = LᵀL, the (d, d) matrix of the squared distance."""
        return self.get_metric().matrix

    def pair_distance(self, pairs: ArrayLike | Pairs) -> Vector:
        """Learned distance (not squared) of each pair.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) integers with ``preprocessor``
        """
        if is_lazy(pairs):
            lazy: Vector = _on_dask().pair_distance(self, pairs)
            return lazy
        checked = self._check_pairs(pairs)
        return self.get_metric().pair_distance(checked)

    def pair_score(self, pairs: ArrayLike | Pairs) -> Vector:
        """Similarity of each pair: minus its distance."""
        return -self.pair_distance(pairs)

    # --- decisions on pairs -----------------------------------------------------------------------------

    @available_if(_decides_on_pairs)
    def decision_function(self, pairs: ArrayLike | Pairs) -> Vector:
        """``threshold_`` minus the distance: not negative for pairs called similar."""
        distances = self.pair_distance(pairs)
        return self.threshold_ - distances

    @available_if(_decides_on_pairs)
    def predict(self, pairs: ArrayLike | Pairs) -> NDArray[np.integer]:
        """+1 for pairs no farther apart than ``threshold_``, -1 for the others."""
        decision = self.decision_function(pairs)
        if is_foreign(decision):
            return like(np.where(to_numpy(decision) >= 0.0, 1, -1), decision)
        return np.where(decision >= 0.0, 1, -1)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Area under the ROC curve of the learned distance on labelled pairs.

        Given points with class labels instead of pairs, the score is over all pairs of points, or
        over 10⁶ pairs drawn evenly from both kinds for more than 1500 points.
        """
        if self._holds_pairs(X):
            pairs = self._check_pairs(X, y)
        else:
            points, labels = self._check_points(X), column_or_1d(to_numpy(y))
            check_consistent_length(points, labels)
            sampler = AllPairs() if points.shape[0] <= _MAX_LISTED else BalancedPairs(10**6)
            pairs = sampler.sample(points, labels, 0)
        if len(np.unique(pairs.labels)) < 2:
            raise ValueError("y has pairs of one kind only; the ROC curve needs similar and dissimilar pairs.")
        return float(roc_auc_score(pairs.labels, -to_numpy(self.pair_distance(pairs))))

    def set_threshold(self, threshold: float) -> MetricLearner:
        """Call pairs similar up to this distance."""
        self._check_fitted()
        check_number("threshold", threshold, -np.inf)
        self.threshold_ = float(threshold)
        return self

    def calibrate_threshold(
        self,
        pairs: ArrayLike | Pairs,
        y: ArrayLike,
        strategy: str = "accuracy",
        *,
        min_rate: float | None = None,
        beta: float = 1.0,
    ) -> MetricLearner:
        """Choose ``threshold_`` on labelled pairs (better not the training pairs).

        Parameters
        ----------
        pairs, y : labelled pairs, as for ``fit``
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}
            What to maximise: accuracy; the F-beta score of the similar class; the true positive rate
            while the true negative rate is at least ``min_rate``; or the reverse.
        min_rate : float in [0, 1]
            For "max_tpr" and "max_tnr".
        beta : float
            For "f_beta": weight of recall against precision.
        """
        checked = self._check_pairs(pairs, y)
        distances = to_numpy(self.get_metric().pair_distance(checked))
        return self.set_threshold(best_threshold(distances, checked.labels, strategy, min_rate=min_rate, beta=beta))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self.accepts_sparse
        tags.array_api_support = self.accepts_foreign
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        if getattr(self, "_fitted_on_pairs", False):
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(multi_class=False)
            tags.input_tags.three_d_array = True
        return tags
