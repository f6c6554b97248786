"""The Euclidean distance, as the learner that every other must beat."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..learner import LabelledPoints, MetricLearner
from ..linalg import Matrix
from ..supervision import Pairs

__all__ = ["Euclidean"]


class Euclidean(MetricLearner):
    """M = I: nothing is learned but, on pairs, the threshold.

    Parameters
    ----------
    preprocessor : (n, d) array, optional
        Points that index pairs refer to.

    Attributes
    ----------
    components_ : (d, d) array
        The identity.
    """

    def __init__(self, *, preprocessor: ArrayLike | None = None) -> None:
        self.preprocessor = preprocessor

    def _learn(self, data: LabelledPoints | Pairs, **extra: Any) -> Matrix:
        return np.eye(self.n_features_in_)
