"""Decisions on pairs of points of any shape: the house's, with log-odds that are linear in the squared distance."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advmetric.learners.decisions import PairDecisions
from advmetric.metric.threshold import best_threshold, similar_probability
from advmetric.pairs.checks import check_pair_labels

from .fitting import fit_log_odds

__all__ = ["NetworkDecisions"]


class NetworkDecisions(PairDecisions):
    """What an estimator with ``pair_distance``, ``threshold_`` and ``calibration_`` says of pairs.

    ``calibration_`` is (slope, intercept) of the log-odds of "similar" as a function of the squared distance, as in the
    pair loss: there they are b - d².
    """

    def pair_distance(self, pairs: Any) -> NDArray[np.float64]:
        """Return the learned distance (not squared) of each pair."""
        raise TypeError(f"{type(self).__name__} does not say how far apart pairs are: implement pair_distance.")

    def pair_score(self, pairs: ArrayLike) -> NDArray[np.float64]:
        """Return the similarity of each pair: minus its distance."""
        return -self.pair_distance(pairs)

    def predict_proba(self, pairs: Any) -> NDArray[np.float64]:
        """Return the probabilities (N, 2) of "dissimilar" and "similar", where both kinds are equally frequent."""
        squares = self.pair_distance(pairs) ** 2
        similar = similar_probability(squares, self.calibration_)
        return np.column_stack([1.0 - similar, similar])

    def calibrate_threshold(
        self,
        pairs: Any,
        y: ArrayLike,
        strategy: str = "accuracy",
        *,
        min_rate: float | None = None,
        beta: float = 1.0,
    ) -> Self:
        """Choose ``threshold_``, and the coefficients of ``predict_proba``, on labelled pairs.

        The parameters are those of :meth:`advmetric.AML.calibrate_threshold`.
        """
        distances = self.pair_distance(pairs)
        labels = check_pair_labels(y, len(distances))
        self.threshold_ = best_threshold(distances, labels, strategy, min_rate=min_rate, beta=beta)
        self.calibration_ = fit_log_odds(distances, labels)
        return self
