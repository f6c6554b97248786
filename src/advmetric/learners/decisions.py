"""Decisions on pairs: thresholds, predictions and probabilities from the learned distance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from advmetric.metric.threshold import Calibration, best_threshold, fit_probability, similar_probability
from advmetric.pairs.data import Pairs
from advmetric.pairs.sample import threshold_pairs
from advmetric.utils.arrays import convert_like, is_array_api, to_numpy
from advmetric.utils.parameters import Real
from advmetric.utils.typing import Vector

from .input import check_pairs

__all__ = ["PairDecisions", "decides_on_pairs"]


def decides_on_pairs(learner: Any) -> bool:
    """Return whether there is a threshold, or may be one after ``fit``. (Meta-estimators look before it.)"""
    if hasattr(learner, "threshold_") or not hasattr(learner, "components_"):
        return True
    raise AttributeError(
        f"this {type(learner).__name__} was not fitted on pairs, so it has no threshold to decide on them with. "
        "Choose one on labelled pairs: calibrate_threshold(pairs, y), or set it: set_threshold(distance)."
    )


class PairDecisions:
    """Mixin for learners: a threshold on the distance, chosen in ``fit`` on pairs or by ``calibrate_threshold``."""

    threshold_: float
    calibration_: Calibration

    def _choose_threshold(self, pairs: Pairs) -> None:
        """Choose threshold and calibration on checked training pairs, or on a sample of them."""
        few = threshold_pairs(pairs)
        distances = to_numpy(self.get_metric().pair_distance(few))  # type: ignore[attr-defined]
        self._set_decisions(distances, few.labels)

    def _set_decisions(self, distances: Vector, labels: NDArray[np.integer], **criterion: Any) -> None:
        if not np.isfinite(distances).all():
            raise ValueError(
                f"{type(self).__name__} finds no finite distances: some pairs are too far apart. Standardise the "
                "features first, for example with sklearn.preprocessing.StandardScaler."
            )
        self.set_threshold(best_threshold(distances, labels, **criterion))
        if len(np.unique(labels)) == 2:
            self.calibration_ = fit_probability(distances, labels)

    @available_if(decides_on_pairs)
    def decision_function(self, pairs: ArrayLike | Pairs) -> Vector:
        """Return ``threshold_`` minus the distance: not negative for pairs called similar."""
        distances: Vector = self.pair_distance(pairs)  # type: ignore[attr-defined]
        return self.threshold_ - distances

    @available_if(decides_on_pairs)
    def predict(self, pairs: ArrayLike | Pairs) -> NDArray[np.integer]:
        """Return +1 for pairs no farther apart than ``threshold_``, -1 for the others."""
        decision = self.decision_function(pairs)
        if is_array_api(decision):
            return convert_like(np.where(to_numpy(decision) >= 0.0, 1, -1), decision)
        return np.where(decision >= 0.0, 1, -1)

    @available_if(decides_on_pairs)
    def predict_proba(self, pairs: ArrayLike | Pairs) -> NDArray[np.float64]:
        """Return the probabilities of "dissimilar" and "similar", (N, 2), in the order of ``classes_``.

        The log-odds are linear in the distance (Platt's scaling), with coefficients fitted on the training pairs; these
        probabilities are too extreme where the metric fits its training pairs better than others.
        ``calibrate_threshold`` fits them anew on pairs that were held out.
        """
        similar = self._similar_probability(to_numpy(self.pair_distance(pairs)))  # type: ignore[attr-defined]
        return np.column_stack([1.0 - similar, similar])

    def _similar_probability(self, distances: Vector) -> Vector:
        if not hasattr(self, "calibration_"):
            raise ValueError("set_threshold gives no probabilities; fit them with calibrate_threshold(pairs, y).")
        return similar_probability(distances, self.calibration_)

    def set_threshold(self, threshold: float) -> Any:
        """Call pairs similar up to this distance."""
        self._check_fitted()  # type: ignore[attr-defined]
        Real()("threshold", threshold)
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
    ) -> Any:
        """Choose ``threshold_``, and the coefficients of ``predict_proba``, on labelled pairs.

        Better not on the training pairs.

        Parameters
        ----------
        pairs, y : labelled pairs, as for ``fit``
        strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}
            What to maximise: accuracy; the F-beta score of the similar class; the true positive rate while the true
            negative rate is at least ``min_rate``; or the reverse.
        min_rate : float in [0, 1]
            For "max_tpr" and "max_tnr".
        beta : float >= 0
            For "f_beta": weight of recall against precision.
        """
        checked = check_pairs(self, pairs, y)
        distances = to_numpy(self.get_metric().pair_distance(checked))  # type: ignore[attr-defined]
        self._set_decisions(distances, checked.labels, strategy=strategy, min_rate=min_rate, beta=beta)
        return self
