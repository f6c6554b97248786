"""The Euclidean distance, as the learner that every other must beat."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import eye_array

from advmetric.learners.incremental import IncrementalLearner
from advmetric.pairs.data import Samples
from advmetric.pairs.pair_statistics import PointStatistics, Statistics
from advmetric.utils.parameters import ANYTHING
from advmetric.utils.typing import Matrix

__all__ = ["Euclidean"]


_MOST_DENSE = 4000


class Euclidean(IncrementalLearner):
    """M = I: nothing is learned but, on pairs, the threshold.

    Parameters
    ----------
    preprocessor : (n, d) array, optional
        Points that index pairs refer to.

    Attributes
    ----------
    components_ : (d, d) array
        The identity; a SciPy sparse array for more than 4000 features, where a dense one would take gigabytes.

    See Also
    --------
    GMML : The simplest metric that learns.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([0, 1])
    >>> Euclidean().fit(X, y).pair_distance(X[None]).tolist()
    [5.0]
    """

    accepts_sparse = True
    accepts_array_api = True
    _keeps_scatter = False
    _constraints = {"preprocessor": ANYTHING}

    def __init__(self, *, preprocessor: ArrayLike | None = None) -> None:
        self.preprocessor = preprocessor

    def _learn(self, data: Any, **extra: Any) -> Matrix:
        d = data.X.shape[1] if isinstance(data, Samples) else self.n_features_in_
        identity: Matrix = np.eye(d) if d <= _MOST_DENSE else eye_array(d, format="csr")
        return identity

    def _missing(self, statistics: Statistics) -> str | None:
        if isinstance(statistics, PointStatistics):  # classes of one member will do, as they do for fit
            return None if np.count_nonzero(statistics.counts) > 1 else "points of at least two classes"
        return statistics.missing
