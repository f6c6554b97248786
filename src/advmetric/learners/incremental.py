"""Learners that take the data batch by batch, exactly: ``partial_fit``, ``fit_batches``, ``fit_statistics``."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from advmetric.pairs.pair_statistics import PairStatistics, PointStatistics, Statistics
from advmetric.utils.arrays import is_array_api, to_numpy
from advmetric.utils.typing import Matrix
from advmetric.utils.warning import warn

from .base import MetricLearner
from .input import PAIR_CLASSES, check_batch, check_finite, check_pairs, holds_pairs, uses_all_pairs

__all__ = ["Gatherer", "IncrementalLearner"]


class Gatherer(MetricLearner):
    """A learner that can gather statistics of its data chunk by chunk, to learn from or to start from."""

    statistics_: Statistics
    _keeps_scatter = True
    """Whether the statistics need scatter matrices."""

    def _absorb(self, X: Any, y: Any, classes: Any) -> None:
        """Check a batch and add it to the statistics."""
        # Statistics are NumPy's; a batch of another library is small.
        X, y = (to_numpy(part) if is_array_api(part) else part for part in (X, y))
        first = not hasattr(self, "statistics_")
        if first and hasattr(self, "components_"):
            warn(
                f"fit keeps no statistics to go on from: this {type(self).__name__} starts anew with the batch and "
                "forgets what fit saw. Pass all data to partial_fit, or start with a clone."
            )
            self._adopt(self._unfitted())
        pairs = holds_pairs(self, X)
        if not first and pairs != (self.statistics_.kind == "pairs"):
            kinds = ("points with labels", "pairs")
            raise ValueError(f"X holds {kinds[pairs]}, but the batches before it held {kinds[not pairs]}.")
        absorb = self._absorb_pairs if pairs else self._absorb_points
        with np.errstate(over="ignore", invalid="ignore"):
            absorb(X, y, classes, first)

    def _absorb_pairs(self, X: Any, y: Any, classes: Any, first: bool) -> None:
        if classes is not None:
            raise ValueError("classes is for points with labels; pairs have the labels -1 and +1.")
        batch = PairStatistics.of(check_pairs(self, X, y, reset=first, partial=True), moments=self._keeps_scatter)
        self.classes_ = PAIR_CLASSES.copy()
        self.statistics_ = batch if first else self.statistics_.merge(batch)  # type: ignore[arg-type]
        _check_sums(self.statistics_.similar, self.statistics_.dissimilar)  # type: ignore[union-attr]

    def _absorb_points(self, X: Any, y: Any, classes: Any, first: bool) -> None:
        points = check_batch(self, X, y, first=first)
        rows: Matrix = points.X
        if not self._keeps_scatter:
            check_finite(self, points.X)
            rows = np.empty((points.X.shape[0], 0))
        if first:
            self._classes_given_ = classes is not None
            known = np.unique(points.y if classes is None else np.asarray(classes))
        else:
            known = self.statistics_.classes  # type: ignore[union-attr]
            if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
                raise ValueError("classes differs from that of the first call to partial_fit.")
        if self._classes_given_:
            unknown = np.setdiff1d(points.y, known)
            if len(unknown):
                raise ValueError(f"y has the label {unknown.tolist()[0]!r}, which classes= of the first call lacks.")
        if first:
            self.statistics_ = PointStatistics.empty(rows.shape[1], known)
        statistics = self.statistics_.update(rows, points.y)  # type: ignore[union-attr]
        sums = statistics.means, np.einsum("cii->ci", statistics.scatters)
        if not all(np.isfinite(part).all() for part in sums):
            check_finite(self, points.X)
            _check_sums(*sums)
        self.classes_ = statistics.classes


class IncrementalLearner(Gatherer):
    """A learner that needs of the data only statistics that add up over batches.

    Any split into batches gives the metric that ``fit`` gives on all of them at once, to rounding.
    ``statistics_`` holds what was gathered; ``fit`` forgets it.
    """

    accepts_batches = True

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
        Points leave one d×d matrix per class in ``statistics_``, pairs two and a sample of at most 10 000
        pairs, on which ``threshold_`` is chosen: as ``fit`` chooses it while all pairs fit in the sample.
        After ``fit``, which keeps no statistics, the stream starts anew, with a warning.
        """
        self._check_params()
        fresh = copy.copy(self)
        if hasattr(self, "statistics_"):
            fresh.statistics_ = copy.deepcopy(self.statistics_)  # a batch that is refused must leave no trace
        fresh._absorb(X, y, classes)
        if not fresh._missing(fresh.statistics_):
            fresh._settle(fresh.statistics_)
        adopted: IncrementalLearner = self._adopt(fresh)
        return adopted

    @available_if(uses_all_pairs)
    def fit_batches(
        self, batches: Iterable[tuple[ArrayLike, ArrayLike]], classes: ArrayLike | None = None
    ) -> IncrementalLearner:
        """Learn from an iterable of batches (X, y), read once and never held together; solves once.

        For arrays on disk, ``advmetric.streaming.slices(X, y)`` yields batches of a memory-mapped X.
        """
        fresh = self._unfitted()
        for batch in batches:
            if not (isinstance(batch, tuple | list) and len(batch) == 2):
                raise TypeError(
                    f"batches must be an iterable of pairs (X, y), got an item of type {type(batch).__name__}; "
                    "advmetric.streaming.slices(X, y) yields batches of arrays."
                )
            if not hasattr(fresh, "statistics_"):
                fresh._check_params()
            fresh._absorb(*batch, classes)
        if not hasattr(fresh, "statistics_"):
            raise ValueError("batches is empty; at least one (X, y) is needed.")
        return self._adopt_settled(fresh)

    def fit_statistics(self, statistics: Statistics) -> IncrementalLearner:
        """Learn from statistics gathered elsewhere (``PointStatistics`` or ``PairStatistics``), perhaps merged."""
        fresh = self._unfitted()
        fresh._check_params()
        fresh._take_statistics(copy.deepcopy(statistics))  # partial_fit adds to them in place
        return self._adopt_settled(fresh)

    def _take_statistics(self, statistics: Statistics) -> None:
        if not isinstance(statistics, (PointStatistics, PairStatistics)):
            raise TypeError(f"statistics must be PointStatistics or PairStatistics, got {type(statistics).__name__}.")
        width = len(statistics.similar) if isinstance(statistics, PairStatistics) else statistics.n_features
        if self._keeps_scatter and not width:
            raise ValueError(
                f"these statistics were gathered without the scatter matrices that {type(self).__name__} needs."
            )
        self.statistics_, self._classes_given_ = statistics, False
        on_pairs = statistics.kind == "pairs"
        self.classes_ = PAIR_CLASSES.copy() if on_pairs else statistics.classes  # type: ignore[union-attr]
        self.n_features_in_ = statistics.n_features

    def _adopt_settled(self, fresh: IncrementalLearner) -> IncrementalLearner:
        missing = fresh._missing(fresh.statistics_)
        if missing:
            raise ValueError(f"the batches do not have what a metric is learned from: {missing}.")
        fresh._settle(fresh.statistics_)
        adopted: IncrementalLearner = self._adopt(fresh)
        return adopted

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


def _check_sums(*sums: Any) -> None:
    """Raise if sums of squares overflow."""
    if not all(np.isfinite(part).all() for part in sums):
        raise ValueError("The squares of some features of X overflow; rescale them, for example with StandardScaler.")
