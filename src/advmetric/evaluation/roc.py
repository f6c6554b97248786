"""Measures of a distance on labelled pairs: AUC, equal error rate, accuracy, and the ROC curve."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score, roc_curve

from advmetric.utils.typing import Vector

__all__ = ["RATES", "roc_measures"]

RATES = tuple(np.linspace(0.0, 1.0, 101).tolist())
"""False positive rates at which ROC curves are kept."""


def roc_measures(y: NDArray[np.integer], distance: Vector, threshold: float) -> dict[str, Any]:
    """AUC, equal error rate, accuracy at a threshold, false positives at 95 % recall, and the ROC curve."""
    false, true, _ = roc_curve(y, -distance, drop_intermediate=False)
    return {
        "auc": float(roc_auc_score(y, -distance)),
        "eer": _crossing(false, 1.0 - true),
        "accuracy": float(np.mean(np.where(distance <= threshold, 1, -1) == y)),
        "fpr95": float(false[np.argmax(true >= 0.95)]),
        "roc": np.interp(RATES, false, true).tolist(),
    }


def _crossing(rising: Vector, falling: Vector) -> float:
    """Common value of two curves where they cross, on the line between their points."""
    gap = rising - falling
    after = int(np.argmax(gap >= 0.0))
    if after == 0:
        return float(rising[0])
    share = -gap[after - 1] / (gap[after] - gap[after - 1])
    return float(rising[after - 1] + share * (rising[after] - rising[after - 1]))
