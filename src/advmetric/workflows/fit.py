"""Tune, fit, judge and refit: from samples to a metric with its score on held-out data."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from advmetric.algorithms.registry import Method
from advmetric.evaluation.scores import K, euclidean, neighbor_error, pair_quality, scale_of
from advmetric.learners.tuning import NeighborScorer, PairScorer, best_params
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.metric.threshold import fit_probability
from advmetric.pairs.data import Pairs, Samples
from advmetric.utils.typing import Vector
from advmetric.utils.warning import warn

from .parameters import make_learner

__all__ = ["Fitted", "calibrate", "check_classes", "fit_samples", "judge", "learn", "tune"]

FOLDS = 3
CALIBRATION_FOLDS = 5

Params = dict[str, Any]


@dataclass(frozen=True)
class Fitted:
    """A metric, what it was learned from, and how it does on held-out samples."""

    metric: Mahalanobis
    params: Params
    how: str
    """Where the parameters come from."""
    classes: int
    train: int
    test: int
    fitted_on: int
    scores: dict[str, Any] = field(default_factory=dict)
    judged: int | None = None
    """How many of the pairs the threshold was chosen on, if not all."""


def fit_samples(
    method: Method,
    fixed: Params,
    samples: Samples,
    *,
    names: Sequence[str] | None = None,
    tuned: bool = True,
    share: float = 0.2,
    standardize: bool = True,
    refit: bool = True,
    seed: int = 0,
) -> Fitted:
    """Tune and learn on a part of the samples, judge on the rest, and learn again on all.

    Parameters
    ----------
    method : Method
    fixed : dict
        Parameters that are given; the others of the method's grid are tuned.
    samples : LabelledPoints or Pairs
        With raw features.
    names : sequence of str, optional
        Names of the features, kept with the metric.
    tuned : bool
        Whether to tune.
    share : float in [0, 1)
        Share of the samples to hold out; 0 for none.
    standardize : bool
        Divide features by their standard deviations; these are folded into the metric, which is for raw features.
    refit : bool
        Whether the metric is learned again on all samples in the end.
    seed : int
        Of splits and random pairs.
    """
    train, held_out = _split(samples.labels, share, seed)
    training = samples.take(train)
    params, how = tune(method, fixed, training, standardize, seed) if tuned else (fixed, "as given")
    metric = learn(method, params, training, standardize, seed)
    scores = {}
    if len(held_out):
        scores = judge(method, metric, training, samples.take(held_out), standardize)
    if refit and len(held_out):
        metric = learn(method, params, samples, standardize, seed)
    metric = Mahalanobis(metric.components, metric.threshold, None if names is None else tuple(names))
    if isinstance(samples, Pairs):
        metric = calibrate(metric, method, params, samples, standardize, seed)
    fitted_on = len(samples) if refit else len(train)
    classes = len(np.unique(samples.labels))
    return Fitted(metric, params, how, classes, len(train), len(held_out), fitted_on, scores)


def check_classes(data: object, classes: NDArray[np.str_], n: int) -> None:
    """Raise if the labels of n points are not classes to learn from: a quantity, a name of each row, or only one."""
    if len(classes) == n > 2 or (len(classes) > n / 2 and _fractions(classes)):
        raise ValueError(f"{data}: the label has {len(classes)} different values in {n} rows, so these are no classes.")
    if len(classes) < 2:
        raise ValueError(f"{data} has only one class ({classes[0]}); at least two are needed to learn a metric.")


def _fractions(classes: NDArray[np.str_]) -> bool:
    """Whether labels are numbers that are not whole: a quantity, not a class."""
    try:
        return bool(np.any(classes.astype(float) % 1 != 0))
    except ValueError:
        return False


def tune(method: Method, fixed: Params, samples: Samples, standardize: bool, seed: int) -> tuple[Params, str]:
    """Return the parameters that are best in cross-validation, with the fixed ones, and a phrase that says so."""
    free = {name: values for name, values in method.grid.items() if name not in fixed}
    n = int(np.prod([len(values) for values in free.values()]))
    if n == 1:
        return fixed, "nothing to tune"
    sizes = np.unique(samples.labels, return_counts=True)[1]
    pairs = samples.kind == "pairs"
    folds = min(FOLDS, int(sizes.min() if pairs else sizes.max()))
    if folds < 2:
        raise ValueError("too few rows to tune: every class has one member only. Add rows, or give --no-tune.")
    print(f"Tuning {method.name}: {n} settings, {folds} folds.", file=sys.stderr)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        best = best_params(
            make_learner(method, fixed, seed),
            _standardized(samples, standardize)[0],
            free,
            fixed=fixed,
            cv=StratifiedKFold(folds, shuffle=True, random_state=seed),
            score=PairScorer() if pairs else NeighborScorer(K),
            title=method.name if sys.stderr.isatty() else "",
        )
    late = sum(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    if late:
        warn(f"{late} fits did not converge while {method.name} was tuned.", ConvergenceWarning)
    return best, f"best of {n} settings in {folds}-fold cross-validation"


def _standardized(samples: Samples, standardize: bool) -> tuple[Samples, Vector]:
    """Return the samples with standardised features, and the standard deviations."""
    if not standardize:
        return samples, np.ones(samples.X.shape[1])
    scaler = StandardScaler().fit(samples.points)
    return replace(samples, X=scaler.transform(samples.X)), scaler.scale_


def learn(method: Method, params: Params, samples: Samples, standardize: bool, seed: int) -> Mahalanobis:
    """Fit with given parameters; the metric is for raw features: L diag(1/sd)."""
    scaled, scale = _standardized(samples, standardize)
    learner = make_learner(method, params, seed)
    if isinstance(scaled, Pairs):
        learner.set_params(preprocessor=scaled.X).fit(scaled.indices, scaled.labels)
    else:
        learner.fit(scaled.X, scaled.labels)
    metric = learner.get_metric()
    return Mahalanobis(metric.components / scale, metric.threshold)


def calibrate(
    metric: Mahalanobis, method: Method, params: Params, pairs: Pairs, standardize: bool, seed: int
) -> Mahalanobis:
    """Return the metric with probabilities, from distances of pairs by metrics that were not learned from them."""
    folds = min(CALIBRATION_FOLDS, int(np.unique(pairs.labels, return_counts=True)[1].min()))
    if folds < 2:
        return metric
    distances = np.empty(len(pairs))
    cv = StratifiedKFold(folds, shuffle=True, random_state=seed)
    for train, test in cv.split(distances, pairs.labels):
        fitted = learn(method, params, pairs.take(train), standardize, seed)
        distances[test] = fitted.pair_distance(pairs.take(test))
    return replace(metric, calibration=fit_probability(distances, pairs.labels))


def judge(
    method: Method, metric: Mahalanobis, train: Samples, test: Samples, standardize: bool
) -> dict[str, dict[str, Any]]:
    """Return the scores of the learned distance and of Euclidean ones, on held-out samples."""
    scale = scale_of(train.points)
    distances = {method.name: metric}
    if standardize:
        distances["Euclidean, standardised"] = euclidean(scale)
    distances["Euclidean, raw"] = euclidean(np.ones_like(scale))
    if isinstance(train, Pairs) and isinstance(test, Pairs):
        return {name: pair_quality(distance, test, train) for name, distance in distances.items()}
    return {
        name: {"error": neighbor_error(distance, train.X, train.labels, test.X, test.labels)}
        for name, distance in distances.items()
    }


def _split(y: NDArray[np.integer], test: float, seed: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return the rows of the training and of the held-out part, stratified where there is enough of every class."""
    rows = np.arange(len(y))
    if test == 0.0:
        return rows, rows[:0]
    sizes = np.unique(y, return_counts=True)[1]
    room = min(int(np.ceil(test * len(y))), len(y) - int(np.ceil(test * len(y))))
    stratified = sizes.min() >= 2 and room >= len(sizes)
    train, held_out = train_test_split(rows, test_size=test, stratify=y if stratified else None, random_state=seed)
    return train, held_out
