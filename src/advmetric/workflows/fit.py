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
from sklearn.preprocessing import StandardScaler

from advmetric.algorithms.registry import SEARCH, Method
from advmetric.evaluation.scores import K
from advmetric.io.preparation import Preparation
from advmetric.learners.folds import draw_rows
from advmetric.learners.tuning import NeighborScorer, PairScorer, best_params
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.metric.threshold import fit_probability
from advmetric.pairs.data import Pairs, Samples
from advmetric.utils.errors import UsageError
from advmetric.utils.typing import Vector
from advmetric.utils.warning import warn

from .choice import choose_method
from .judge import Judgement, judge, rulers_beside
from .parameters import make_learner
from .splits import folds_of, hold_out
from .stages import Stage, stage

__all__ = ["Fitted", "calibrate", "check_classes", "check_squares", "fit_samples", "learn", "tune"]

FOLDS = 3
CALIBRATION_FOLDS = 5
TUNED = 10_000
"""Rows at most that parameters are tuned on."""

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
    sampled: int | None = None
    """How many of the held-out points the scores are of, if not of all."""
    judged: int | None = None
    """How many of the pairs the threshold was chosen on, if not all."""
    method: Method | None = None
    """The method that was chosen, if that was asked for."""


def fit_samples(
    method: Method,
    fixed: Params,
    samples: Samples,
    *,
    names: Sequence[str] | None = None,
    preparation: Preparation | None = None,
    groups: NDArray | None = None,
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
    preparation : Preparation, optional
        Of samples as they are in a table: levels and fills are learned from the part that is learned from, and kept
        with the metric.
    groups : (n,) array, optional
        Rows of one group are never on both sides of a split, nor of a fold.
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
    train, held_out = hold_out(samples.labels, share, seed, groups)
    training, used = _prepared(samples.take(train), preparation)
    with np.errstate(over="ignore"):
        check_squares(np.einsum("ij,ij->j", training.X, training.X), _names(names, used))
    params, how = fixed, "as given"
    inner = None if groups is None else groups[train]
    if method is SEARCH:
        if not tuned:
            raise UsageError("AMLCV chooses by cross-validation; leave out --no-tune, or name a method", "--method")
        with stage("Choosing the loss and its parameters"):
            method, params, how = choose_method(fixed, _standardized(training, standardize)[0], seed, inner)
    elif tuned:
        params, how = tune(method, fixed, training, standardize, seed, inner)
    with stage(f"Fitting {method.name} on {len(training):,} rows"):
        metric = learn(method, params, training, standardize, seed)
    found = Judgement({})
    if len(held_out):
        rulers = rulers_beside(method.name, metric, training.points, standardized=standardize)
        testing = samples.take(held_out)
        if used is not None and preparation is not None:
            testing = replace(testing, X=used.encode(testing.X, preparation.levels))
        found = judge(rulers, testing, training, seed=seed)
    whole = training
    if len(held_out) and (refit or isinstance(samples, Pairs)):
        whole, again = _prepared(samples, preparation)
        if refit:
            used = again
            with stage(f"Fitting {method.name} on all {len(samples):,} rows"):
                metric = learn(method, params, whole, standardize, seed)
    metric = Mahalanobis(metric.components, metric.threshold, _names(names, used), None, _facts(used))
    if isinstance(whole, Pairs):
        metric = calibrate(metric, method, params, whole, standardize, seed, groups)
    fitted_on = len(samples) if refit else len(train)
    classes = len(np.unique(samples.labels))
    counts = classes, len(train), len(held_out), fitted_on
    return Fitted(metric, params, how, *counts, found.scores, found.sampled, method=method)


def _prepared(samples: Samples, preparation: Preparation | None) -> tuple[Samples, Preparation | None]:
    """Return samples as features, by levels and fills learned from them."""
    if preparation is None:
        return samples, None
    learned = preparation.learn(samples.points)
    return replace(samples, X=learned.encode(samples.X, preparation.levels)), learned


def check_squares(squares: Vector, names: Sequence[str] | None) -> None:
    """Raise if sums of squares of features overflow: standard deviations would, and every learner needs them."""
    if not np.isfinite(squares).all():
        j = int(np.argmin(np.isfinite(squares)))
        column = j if names is None else repr(names[j])
        raise ValueError(
            f"the squares of the values of column {column} overflow. Rescale it (divide it by a power of ten, say), or "
            "leave it out."
        )


def _names(names: Sequence[str] | None, used: Preparation | None) -> tuple[str, ...] | None:
    if used is not None:
        return used.feature_names
    return None if names is None else tuple(names)


def _facts(used: Preparation | None) -> list[dict[str, Any]] | None:
    return None if used is None else used.facts()


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


def tune(
    method: Method, fixed: Params, samples: Samples, standardize: bool, seed: int, groups: NDArray | None = None
) -> tuple[Params, str]:
    """Return the parameters that are best in cross-validation, with the fixed ones, and a phrase that says so.

    More than 10 000 rows are sampled: parameters need not be known to a third digit.
    """
    free = {name: values for name, values in method.grid.items() if name not in fixed}
    n = int(np.prod([len(values) for values in free.values()]))
    if n == 1:
        return fixed, "nothing to tune"
    drawn = draw_rows(samples.labels, TUNED, seed)
    if drawn is not None:
        samples, groups = samples.take(drawn), None if groups is None else groups[drawn]
    folds = folds_of(samples, FOLDS, seed, groups)
    if not folds:
        what = (
            "pairs of both kinds on either side" if samples.kind == "pairs" else "two rows of one class to learn from"
        )
        few = f"no fold has {what}" + ("" if groups is None else ", as groups are kept together")
        raise ValueError(f"too few rows to tune: {few}. Add rows, or give --no-tune.")
    sampled = "" if drawn is None else f" of a random sample of {len(samples):,} rows"
    print(f"Tuning {method.name}: {n} settings, {len(folds)} folds{sampled}.", file=sys.stderr)
    scaled = _standardized(samples, standardize)[0]
    with warnings.catch_warnings(record=True) as caught, stage(f"Tuning {method.name}", n * len(folds)) as current:
        warnings.simplefilter("always", ConvergenceWarning)
        best = best_params(
            make_learner(method, fixed, seed),
            [(scaled.take(train), scaled.take(test)) for train, test in folds],
            free,
            fixed=fixed,
            score=_Counted(PairScorer() if samples.kind == "pairs" else NeighborScorer(K), current),
        )
    late = sum(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    if late:
        warn(f"{late} fits did not converge while {method.name} was tuned.", ConvergenceWarning)
    return best, f"best of {n} settings in {len(folds)}-fold cross-validation{sampled}"


@dataclass(frozen=True)
class _Counted:
    """A scorer that counts its calls as steps of a stage."""

    scorer: Any
    stage: Stage

    def __call__(self, metric: Any, learning: Samples, judging: Samples) -> float:
        score = float(self.scorer(metric, learning, judging))
        self.stage.advance()
        return score


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
    metric: Mahalanobis,
    method: Method,
    params: Params,
    pairs: Pairs,
    standardize: bool,
    seed: int,
    groups: NDArray | None = None,
) -> Mahalanobis:
    """Return the metric with probabilities, from distances of pairs by metrics that were not learned from them."""
    folds = folds_of(pairs, CALIBRATION_FOLDS, seed, groups)
    if not folds:
        return metric
    distances, labels = [], []
    with stage("Calibrating probabilities, folds", len(folds)) as current:
        for train, test in folds:
            fitted = learn(method, params, pairs.take(train), standardize, seed)
            distances.append(fitted.pair_distance(pairs.take(test)))
            labels.append(pairs.labels[test])
            current.advance()
    return replace(metric, calibration=fit_probability(np.concatenate(distances), np.concatenate(labels)))
