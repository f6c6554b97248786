"""Learners that take the data batch by batch, exactly: ``partial_fit``, ``fit_batches``, ``fit_statistics``."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from .arrays import is_foreign, to_numpy
from .checks import refuse_nonfinite, refuse_text
from .learner import FLOATS, LabelledPoints, MetricLearner
from .linalg import Matrix
from .metric import Mahalanobis
from .streaming import PairStatistics, PointStatistics
from .supervision import Pairs
from .threshold import best_threshold

__all__ = ["IncrementalLearner", "Statistics", "uses_all_pairs"]

Statistics = PointStatistics | PairStatistics


def uses_all_pairs(learner: Any) -> bool:
    """True, or an AttributeError that says why parts of the data would not do."""
    pairs = getattr(learner, "pairs", "all")
    if isinstance(pairs, str) and pairs == "all":
        return True
    raise AttributeError(
        f"{type(learner).__name__} learns from batches with pairs='all' only: pairs={pairs!r} would draw pairs within "
        "each batch, which is not what fit does. (Batches of pairs are used as they are; leave pairs at 'all'.)"
    )


class IncrementalLearner(MetricLearner):
    """A learner that needs of the data only statistics that add up over batches.

    Any split into batches gives the metric that ``fit`` gives on all of them at once, to rounding.
    ``statistics_`` holds what was gathered; ``fit`` forgets it.
    """

    statistics_: Statistics
    _keeps_scatter = True
    """Whether the statistics need scatter matrices."""

    @available_if(uses_all_pairs)
    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> IncrementalLearner:
        """Learn from one more batch: the metric is then that of all batches so far.

        Parameters
        ----------
        X, y : as for ``fit``
            A batch of points with labels, of pairs, or of index pairs. It may lack classes or a kind of
            pair: until all batches together have what a metric needs, there is none (``NotFittedError``).
        classes : array-like, optional
            In the first call with points: all labels that will occur; others are then refused. Without
            it, ``classes_`` grows as labels appear.

        Notes
        -----
        Each call solves for the metric, O(d³): for many batches, ``fit_batches`` solves once at the end.
        Points leave one d×d matrix a class in ``statistics_``, pairs two and a sample of at most 10 000
        pairs, on which ``threshold_`` is chosen: as ``fit`` chooses it while all pairs fit in the sample.
        After ``fit``, which keeps no statistics, the stream starts anew, with a warning.
        """
        self._check_params()
        self._absorb(X, y, classes)
        if not self._missing(self.statistics_):
            self._settle()
        return self

    @available_if(uses_all_pairs)
    def fit_batches(
        self, batches: Iterable[tuple[ArrayLike, ArrayLike]], classes: ArrayLike | None = None
    ) -> IncrementalLearner:
        """Learn from an iterable of batches (X, y), read once and never held together; solves once.

        For arrays on disk, ``advmetric.streaming.slices(X, y)`` yields batches of a memory-mapped X.
        """
        fresh = self._unfitted()
        for X, y in batches:
            if not hasattr(fresh, "statistics_"):
                fresh._check_params()
            fresh._absorb(X, y, classes)
        if not hasattr(fresh, "statistics_"):
            raise ValueError("batches is empty; at least one (X, y) is needed.")
        return self._adopt(fresh)

    def fit_statistics(self, statistics: Statistics) -> IncrementalLearner:
        """Learn from statistics gathered elsewhere (``PointStatistics`` or ``PairStatistics``), perhaps merged."""
        fresh = self._unfitted()
        fresh._check_params()
        fresh.statistics_ = copy.deepcopy(statistics)  # partial_fit adds to it in place
        if isinstance(statistics, PointStatistics):
            fresh.classes_, fresh.n_features_in_ = statistics.classes, statistics.n_features
            fresh._classes_given_ = False
        else:
            fresh.classes_, fresh.n_features_in_ = np.array([-1, 1]), statistics.sample.differences.shape[1]
        return self._adopt(fresh)

    def _unfitted(self) -> IncrementalLearner:
        """A copy with the same parameters (not copied) and nothing learned: failures leave ``self`` alone."""
        fresh = copy.copy(self)
        for name in [name for name in vars(fresh) if name.endswith("_") or name == "_fitted_on_pairs"]:
            delattr(fresh, name)
        return fresh

    def _adopt(self, fresh: IncrementalLearner) -> IncrementalLearner:
        missing = fresh._missing(fresh.statistics_)
        if missing:
            raise ValueError(f"the batches do not have what a metric is learned from: {missing}.")
        fresh._settle()
        self.__dict__.clear()
        self.__dict__.update(fresh.__dict__)
        return self

    def _settle(self) -> None:
        """Learn from the statistics."""
        statistics = self.statistics_
        self._fitted_on_pairs = isinstance(statistics, PairStatistics)
        if hasattr(self, "threshold_"):
            del self.threshold_
        self.components_ = self._learn_finite(statistics)
        if isinstance(statistics, PairStatistics):
            sample = statistics.sample
            pairs = Pairs.from_differences(sample.differences, sample.labels)
            distances = Mahalanobis(self.components_).pair_distance(pairs)
            self.set_threshold(best_threshold(distances, sample.labels, "accuracy"))

    def _missing(self, statistics: Statistics) -> str | None:
        """What is still needed before there is a metric."""
        return statistics.missing

    def _check_fitted(self) -> None:
        if hasattr(self, "statistics_") and not hasattr(self, "components_"):
            raise NotFittedError(
                f"This {type(self).__name__} has no metric yet: the batches so far lack "
                f"{self._missing(self.statistics_)}. Call partial_fit with more of them."
            )
        super()._check_fitted()

    # --- one batch --------------------------------------------------------------------------------------

    def _absorb(self, X: Any, y: Any, classes: Any) -> None:
        """Check a batch and add it to the statistics."""
        # Statistics are NumPy's: a batch of another library's is small.
        X, y = (to_numpy(part) if is_foreign(part) else part for part in (X, y))
        first = not hasattr(self, "statistics_")
        if first and hasattr(self, "components_"):
            warnings.warn(
                f"fit keeps no statistics to go on from: this {type(self).__name__} starts anew with the batch and "
                "forgets what fit saw. Pass all data to partial_fit, or start with a clone.",
                UserWarning,
                stacklevel=3,
            )
        pairs = self._holds_pairs(X)
        if not first and pairs != isinstance(self.statistics_, PairStatistics):
            kinds = ("points with labels", "pairs")
            raise ValueError(f"X holds {kinds[pairs]}, but the batches before it held {kinds[not pairs]}.")
        if pairs:
            if classes is not None:
                raise ValueError("classes is for points with labels; pairs have the labels -1 and +1.")
            checked = self._check_pairs(X, y, reset=first, partial=True)
            with np.errstate(over="ignore", invalid="ignore"):
                batch = PairStatistics.of(checked, moments=self._keeps_scatter)
            self.classes_ = np.array([-1, 1])
            self.statistics_ = batch if first else self.statistics_.merge(batch)  # type: ignore[arg-type]
        else:
            self._absorb_points(X, y, classes, first)
        for name in ("components_", "threshold_") if first else ():
            if hasattr(self, name):
                delattr(self, name)

    def _absorb_points(self, X: Any, y: Any, classes: Any, first: bool) -> None:
        points = self._check_batch(X, y, first)
        rows: Matrix = points.X if self._keeps_scatter else np.empty((points.X.shape[0], 0))
        if first:
            self._classes_given_ = classes is not None
            labels = np.unique(points.y if classes is None else np.asarray(classes))
            statistics = PointStatistics.empty(rows.shape[1], labels)
        else:
            assert isinstance(self.statistics_, PointStatistics)
            statistics = self.statistics_
            if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
                raise ValueError("classes differs from that of the first call to partial_fit.")
        if self._classes_given_:
            unknown = np.setdiff1d(points.y, statistics.classes)
            if len(unknown):
                raise ValueError(f"y has the label {unknown.tolist()[0]!r}, which classes= of the first call lacks.")
        with np.errstate(over="ignore", invalid="ignore"):
            self.statistics_ = statistics.update(rows, points.y)
        self.classes_ = self.statistics_.classes

    def _check_batch(self, X: Any, y: Any, first: bool) -> LabelledPoints:
        """Checked points with their own labels (not codes); one row will do."""
        refuse_text(X, "X")
        points, y = validate_data(
            self, X, y, reset=first, dtype=FLOATS, ensure_all_finite=False, accept_sparse=self._sparse_format
        )
        refuse_nonfinite(points, "X", getattr(self, "feature_names_in_", None))
        labels: NDArray[Any] = np.asarray(y)
        if labels.dtype.kind not in "biuSU":  # nothing else can be continuous; the check sorts all labels
            check_classification_targets(labels)
        return LabelledPoints(points, labels)
