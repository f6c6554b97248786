"""From distances to decisions and probabilities: the best threshold, and log-odds linear in the distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from advmetric.utils.typing import Vector

__all__ = ["best_threshold", "fit_probability", "similar_probability"]

STRATEGIES = ("accuracy", "f_beta", "max_tpr", "max_tnr")


def best_threshold(
    distances: Vector,
    y: NDArray[np.integer],
    strategy: str = "accuracy",
    *,
    min_rate: float | None = None,
    beta: float = 1.0,
) -> float:
    """Threshold t for "similar if distance <= t" that maximises a criterion on labelled pairs.

    Candidates lie half-way between neighbouring distances, so that the choice does not sit on a
    training pair. Among equally good ones the smallest is taken. O(N log N).

    Parameters
    ----------
    distances : (N,) array
    y : (N,) array of -1 and +1
    strategy : {"accuracy", "f_beta", "max_tpr", "max_tnr"}
        "max_tpr" maximises the true positive rate among thresholds whose true negative rate is at
        least ``min_rate``; "max_tnr" the reverse.
    min_rate : float in [0, 1]
    beta : float >= 0
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy={strategy!r} is not known; use one of {', '.join(map(repr, STRATEGIES))}.")
    order = np.argsort(distances, kind="stable")
    ordered, similar = distances[order], (y[order] == 1)
    # Candidate k calls the k nearest pairs similar; only cuts between different distances count.
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(ordered)) + 1, [len(ordered)]])
    true_positive = np.concatenate([[0], np.cumsum(similar)])[cuts]
    false_positive = cuts - true_positive
    n_similar, n_dissimilar = true_positive[-1], false_positive[-1]
    if strategy == "accuracy":
        merit = true_positive + (n_dissimilar - false_positive)
    elif strategy == "f_beta":
        if not 0.0 <= beta < np.inf:
            raise ValueError(f"beta={beta!r} must be a finite number >= 0.")
        weight = beta**2
        # At beta = 0 this is the precision, which no pair called similar does not have.
        merit = (1 + weight) * true_positive / np.maximum(weight * n_similar + cuts, np.finfo(float).tiny)
    else:
        if min_rate is None or not 0.0 <= min_rate <= 1.0:
            raise ValueError(f"strategy={strategy!r} needs min_rate in [0, 1], got {min_rate!r}.")
        tpr = true_positive / max(n_similar, 1)
        tnr = 1.0 - false_positive / max(n_dissimilar, 1)
        wanted, kept = (tpr, tnr) if strategy == "max_tpr" else (tnr, tpr)
        # Ties go to the better kept rate, by less than any difference of wanted rates.
        merit = np.where(kept >= min_rate - 1e-12, wanted + kept / (2.0 * len(ordered)), -1.0)
    k = int(cuts[int(np.argmax(merit))])
    if k == 0:
        return float(0.5 * ordered[0]) if ordered[0] > 0 else float(-np.finfo(float).tiny)
    if k == len(ordered):
        return float(ordered[-1])
    middle = 0.5 * (ordered[k - 1] + ordered[k])
    # Between neighbouring floats there is no middle: it may round up to the pair that it should exclude.
    return float(middle if middle < ordered[k] else ordered[k - 1])


def fit_probability(distances: Vector, y: NDArray[np.integer]) -> tuple[float, float]:
    """Slope and intercept of the log-odds of "same" as a function of the distance (Platt's scaling).

    ``distances`` should be of pairs that the metric was not learned from: out of folds, say. The slope is at most 0:
    a greater distance never makes "same" more probable.

    Examples
    --------
    >>> slope, intercept = fit_probability(np.array([0.1, 0.2, 0.5, 0.4, 0.8, 0.9]), np.array([1, 1, 1, -1, -1, -1]))
    >>> bool(slope < 0.0 < intercept)
    True
    """
    unit = float(np.mean(distances)) or 1.0
    # A hint of a penalty keeps the slope finite where all pairs are told apart.
    model = LogisticRegression(C=1e3).fit((distances / unit)[:, None], y)
    slope = float(model.coef_[0, 0]) / unit
    if slope > 0.0:
        similar = np.mean(y == 1)
        return 0.0, float(np.log(similar / (1.0 - similar)))
    return slope, float(model.intercept_[0])


def similar_probability(distances: Vector, calibration: tuple[float, float]) -> Vector:
    """Return the probability that pairs at these distances are the same: 1 / (1 + exp(-slope·d - intercept))."""
    slope, intercept = calibration
    probabilities: Vector = expit(slope * np.asarray(distances) + intercept)
    return probabilities
