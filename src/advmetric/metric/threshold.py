"""From distances to decisions and probabilities: the best threshold, and log-odds linear in the distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from advmetric.utils.parameters import Real
from advmetric.utils.typing import Vector

__all__ = ["Calibration", "best_threshold", "fit_probability", "similar_probability"]

Calibration = tuple[float, float] | tuple[float, float, float]
"""(slope, intercept), or these and a power p: the log-odds of "same" are slope·dᵖ + intercept, p = 1 by default."""

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
        Real(0.0)("beta", beta)
        weight = beta**2
        # At beta = 0 this is the precision, which no pair called similar does not have.
        merit = (1 + weight) * true_positive / np.maximum(weight * n_similar + cuts, np.finfo(float).tiny)
    else:
        if min_rate is None:
            raise ValueError(f"strategy={strategy!r} needs min_rate in [0, 1], got None.")
        Real(0.0, 1.0)("min_rate", min_rate)
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
    slope, intercept = _fit_log_odds(distances / unit, (y == 1).astype(float))
    if slope > 0.0:
        similar = np.mean(y == 1)
        return 0.0, float(np.log(similar / (1.0 - similar)))
    return slope / unit, intercept


def _fit_log_odds(x: Vector, same: Vector) -> tuple[float, float]:
    """Fit a logistic regression on one feature by Newton's method: a few passes over the data."""
    penalty = 1e-3  # keeps the slope finite where the pairs are separable
    line = np.array([x, np.ones_like(x)])

    def loss(coefficients: Vector) -> float:
        scores = coefficients @ line
        return float(np.sum(np.logaddexp(0.0, scores) - same * scores)) + 0.5 * penalty * coefficients[0] ** 2

    coefficients = np.zeros(2)
    value = loss(coefficients)
    for _ in range(100):
        probability = expit(coefficients @ line)
        gradient = line @ (probability - same) + [penalty * coefficients[0], 0.0]
        hessian = (line * (probability * (1.0 - probability))) @ line.T + np.diag([penalty, 1e-12 * len(x)])
        step = np.linalg.solve(hessian, gradient)
        decrease, size = float(gradient @ step), 1.0
        while (trial := loss(coefficients - size * step)) > value - 0.25 * size * decrease and size > 1e-6:
            size *= 0.5
        if decrease <= 1e-12 * (1.0 + value) or trial >= value:
            break
        coefficients, value = coefficients - size * step, trial
    return float(coefficients[0]), float(coefficients[1])


def similar_probability(distances: Vector, calibration: Calibration) -> Vector:
    """Return the probability that pairs at these distances are the same: 1 / (1 + exp(-slope·dᵖ - intercept))."""
    slope, intercept, *power = calibration
    probabilities: Vector = expit(slope * np.asarray(distances) ** (power[0] if power else 1.0) + intercept)
    return probabilities
