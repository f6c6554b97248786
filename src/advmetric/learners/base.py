"""The base class of all estimators.

A method derives from :class:`MetricLearner`, states in ``supervision`` what it learns from, has a table
``_constraints`` of its parameters beside its constructor, and implements ``_learn``, which turns checked data into
components. Input is checked in :mod:`.input`, decisions on pairs are in :mod:`.decisions`, Dask in :mod:`.dask`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.sparse.linalg import spsolve
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import ClassifierTags, Tags
from sklearn.utils.validation import check_array

from advmetric.linalg.norms import squares_are_finite
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.optimize.result import Result
from advmetric.pairs.data import Pairs, Samples
from advmetric.utils.arrays import convert_like, is_array_api, is_lazy, namespace, to_numpy
from advmetric.utils.parameters import ANYTHING, Constraint, Real, Whole, check_parameters, check_seed, check_verbosity
from advmetric.utils.threads import blas_threads
from advmetric.utils.typing import Matrix, Vector
from advmetric.utils.validation import FLOATS, all_finite, as_floating, reject_non_numbers, reject_nonfinite
from advmetric.utils.warning import warn

from . import dask
from .decisions import PairDecisions
from .input import check_fitted, check_pairs, check_points, check_samples
from .scoring import Reference, pair_auc

__all__ = ["ITERATION_CONSTRAINTS", "IterativeLearner", "MetricLearner"]

ITERATION_CONSTRAINTS: dict[str, Constraint | Callable[..., None]] = {
    "max_iter": Whole(1),
    "tol": Real(0.0),
    "preprocessor": ANYTHING,
    "random_state": check_seed,
    "verbose": check_verbosity,
}
"""Constraints on the parameters that all iterative learners share."""


class MetricLearner(PairDecisions, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of all methods: a Mahalanobis distance learned from points with labels or from pairs.

    The shape of X decides: a 2-D X is points with class labels, a 3-D X of shape (N, 2, d) is pairs with labels -1 and
    +1, and with ``preprocessor`` set, a 2-D integer array of shape (N, 2) is pairs of its rows. Fitted on points the
    estimator is a transformer, fitted on pairs it is also a classifier of pairs.
    """

    supervision: ClassVar[tuple[str, ...]] = ("points", "pairs")
    """What the method learns from."""
    accepts_sparse: ClassVar[bool] = False
    """Whether points may be a SciPy sparse matrix, which never becomes dense as a whole."""
    accepts_array_api: ClassVar[bool] = False
    """Whether it computes with arrays of other libraries (PyTorch …); else it learns from a NumPy copy."""
    accepts_batches: ClassVar[bool] = False
    """Whether it learns from statistics that add up over batches."""
    _constraints: ClassVar[Mapping[str, Constraint | Callable[..., None]]]

    preprocessor: Any
    components_: Matrix
    objective_: Any

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
            The fitted estimator. If ``fit`` raises, the estimator is as it was before.
        """
        return self._fit(X, y)

    def _fit(self, X: Any, y: Any, **extra: Any) -> MetricLearner:
        if is_lazy(X) or is_lazy(y):
            return self._adopt(dask.fit(self, X, y))
        fresh = self._unfitted()
        fresh._check_params()
        fresh._settle(check_samples(fresh, X, y), **extra)
        return self._adopt(fresh)

    def _unfitted(self) -> Any:
        """Return a copy with the same parameters (not copied) and nothing learned."""
        fresh = copy.copy(self)
        for name in [name for name in vars(fresh) if name.endswith("_")]:
            delattr(fresh, name)
        return fresh

    def _adopt(self, fresh: Any) -> Any:
        """Take over the state of a fitted copy."""
        self.__dict__.clear()
        self.__dict__.update(fresh.__dict__)
        return self

    def _settle(self, data: Any, **extra: Any) -> None:
        """Learn from checked samples or statistics and set the fitted state: the only place that does."""
        for name in ("threshold_", "calibration_", "_reference_"):
            if hasattr(self, name):
                delattr(self, name)
        on_pairs = data.kind == "pairs"
        model = getattr(data, "X", None)
        if is_array_api(model) and not self.accepts_array_api:
            data = type(data)(to_numpy(model), *(getattr(data, name) for name in _OTHER_FIELDS[data.kind]))
        components = self._learn_finite(data, **extra)
        if is_array_api(model) and self.accepts_array_api:
            components = convert_like(components, model)
            if hasattr(self, "objective_"):
                self.objective_ = convert_like(self.objective_, model)
        self._set_metric(components, data if on_pairs else None)
        if isinstance(data, Samples):
            self._reference_ = Reference.of(self.get_metric(), data)

    def _set_metric(self, components: Matrix, pairs: Any = None) -> None:
        """Set the components and, for a metric learned from pairs, the threshold."""
        self.components_ = components
        self._on_pairs_ = pairs is not None
        if isinstance(pairs, Pairs):
            self._choose_threshold(pairs)
        elif pairs is not None:  # statistics of pairs have a sample
            sample = Pairs.from_differences(pairs.sample.differences, pairs.sample.labels)
            self._set_decisions(Mahalanobis(components).pair_distance(sample), sample.labels)

    def _check_params(self) -> None:
        """Raise TypeError or ValueError if a parameter is out of range."""
        check_parameters(self.get_params(deep=False), self._constraints)

    def _learn(self, data: Any, **extra: Any) -> Matrix:
        """Return the (r, d) components of the metric learned from checked data."""
        raise TypeError(f"{type(self).__name__} does not say how it learns: implement _learn.")

    def _learn_finite(self, data: Any, **extra: Any) -> Matrix:
        """Learn; where numbers overflow, raise one clear error instead of NumPy's warnings."""
        cause: Exception | None = None
        X, d = getattr(data, "X", None), self.n_features_in_
        threads = blas_threads(d if X is None else X.shape[0], d)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"), threads:
            try:
                components = self._learn(data, **extra)
                if all_finite(components) and squares_are_finite(components):
                    return components
            except (np.linalg.LinAlgError, ArithmeticError) as error:
                cause = error
        raise ValueError(
            f"{type(self).__name__} finds no finite metric: the features of X are too large, too small or too far from "
            "independent. Standardise them first, for example with sklearn.preprocessing.StandardScaler."
        ) from cause

    def _report(self, result: Result[Any]) -> None:
        """Record how an iterative solver ended; warn unless it converged."""
        self.objective_ = np.asarray(result.objective, dtype=float)
        self.n_iter_ = max(1, result.n_iter)
        self.converged_ = bool(result.converged)
        if not result.converged:
            warn(
                f"{type(self).__name__} did not converge in {self.n_iter_} iterations: {result.message}. "
                "Raise max_iter or tol, or change the solver's settings.",
                ConvergenceWarning,
            )

    def _check_fitted(self) -> None:
        check_fitted(self)

    # --- candidates of a search -------------------------------------------------------------------------

    def _candidate_groups(self, candidates: list[dict[str, Any]]) -> list[list[int]]:
        """Split candidates into groups that share work; by default each stands alone."""
        return [[index] for index in range(len(candidates))]

    def _candidate_metrics(self, candidates: list[dict[str, Any]], data: Samples) -> Iterator[tuple[Any, int]]:
        """Yield the metric learned with each candidate's parameters, and the number of iterations."""
        for params in candidates:
            learner = self._unfitted().set_params(**params)
            learner._check_params()
            learner.n_features_in_, learner.classes_ = data.n_features, np.unique(data.labels)
            learner._on_pairs_ = data.kind == "pairs"
            learner.components_ = learner._learn_finite(data)
            yield learner.get_metric(), getattr(learner, "n_iter_", 1)

    # --- the metric -------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def transform(self, X: ArrayLike) -> Matrix:
        """Map points to the space in which the learned distance is Euclidean.

        Parameters
        ----------
        X : array-like of shape (n, d), or (n,) integers with ``preprocessor``
            Points, or row numbers of the preprocessor.

        Returns
        -------
        Z : array of shape (n, r)
            Of the library, device and precision of X.
        """
        if is_lazy(X):
            lazy: Matrix = dask.transform(self, X)
            return lazy
        points = check_points(self, X)
        self._check_dispatch(X, "transform")
        return self._embed(points)

    def _embed(self, points: Matrix) -> Matrix:
        return self.get_metric().transform(points)

    def inverse_transform(self, Z: ArrayLike) -> Matrix:
        """Map embedded points back: the points of least norm that ``transform`` sends to Z (exact for r = d).

        Parameters
        ----------
        Z : array-like of shape (n, r)

        Returns
        -------
        X : array of shape (n, d)
        """
        self._check_fitted()
        reject_non_numbers(Z, "Z")
        options: Any = {"dtype": FLOATS, "ensure_2d": False, "allow_nd": True, "ensure_all_finite": False}
        embedded: Any = as_floating(Z, keep_gradient=True) if is_array_api(Z) else check_array(Z, **options)
        if embedded.ndim != 2 or embedded.shape[1] != self._n_features_out:
            raise ValueError(f"Z has shape {tuple(embedded.shape)}; (n, {self._n_features_out}) is needed.")
        reject_nonfinite(embedded, "Z")
        components: Any = self.components_
        if issparse(components):  # the identity of many features
            solved: Matrix = spsolve(components.tocsc(), embedded.T).T.astype(embedded.dtype)
            return solved.reshape(embedded.shape)
        inverse = np.linalg.pinv(self.get_metric().dense_components)
        inverse = namespace(embedded).astype(convert_like(inverse, embedded), embedded.dtype)
        back: Matrix = embedded @ inverse.T
        return back

    def _check_dispatch(self, X: Any, method: str) -> None:
        """With scikit-learn's array API dispatch on, apply its rule: everything follows the X of fit."""
        if (
            self.accepts_array_api
            and get_config()["array_api_dispatch"]
            and is_array_api(X) != is_array_api(self.components_)
        ):
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace and the same device as "
                "those passed to fit()."
            )

    def get_metric(self) -> Mahalanobis:
        """Return the learned metric: callable on two vectors, and saved to a file by its ``save``.

        It shares ``components_``, which ``fit`` replaces and does not change.
        """
        self._check_fitted()
        names = getattr(self, "feature_names_in_", None)
        return Mahalanobis(
            self.components_,
            getattr(self, "threshold_", None),
            None if names is None else tuple(names),
            getattr(self, "calibration_", None),
        )

    def get_mahalanobis_matrix(self) -> Matrix:
        """Return M = LᵀL, the (d, d) matrix of the squared distance."""
        return self.get_metric().matrix

    def pair_distance(self, pairs: ArrayLike | Pairs) -> Vector:
        """Return the learned distance (not squared) of each pair.

        Parameters
        ----------
        pairs : array-like of shape (N, 2, d), or (N, 2) integers with ``preprocessor``
        """
        if is_lazy(pairs):
            lazy: Vector = dask.pair_distance(self, pairs)
            return lazy
        return self.get_metric().pair_distance(check_pairs(self, pairs))

    def pair_score(self, pairs: ArrayLike | Pairs) -> Vector:
        """Return the similarity of each pair: minus its distance."""
        return -self.pair_distance(pairs)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the area under the ROC curve of the learned distance on labelled pairs.

        Given points with class labels instead of pairs, the score is over all pairs of points, or over 10⁶ pairs drawn
        evenly from both kinds for more than 1500 points. Where y has pairs of one kind only, as in a fold of data
        sorted by label, they are compared with training pairs of the other kind (a sample that ``fit`` keeps).
        """
        return pair_auc(self, X, y)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self.accepts_sparse
        tags.array_api_support = self.accepts_array_api
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        if getattr(self, "_on_pairs_", False):
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(multi_class=False)
            tags.input_tags.three_d_array = True
        return tags


class IterativeLearner(MetricLearner):
    """A method that iterates until ``tol`` is met: sets the parameters of ``ITERATION_CONSTRAINTS``."""

    def __init__(self, *, max_iter: int, tol: float, preprocessor: Any, random_state: Any, verbose: int) -> None:
        self.max_iter, self.tol = max_iter, tol
        self.preprocessor, self.random_state, self.verbose = preprocessor, random_state, verbose


_OTHER_FIELDS = {"points": ("y",), "pairs": ("left", "right", "y")}
