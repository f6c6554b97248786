"""``advmetric fit --chunk-rows``: a file is read once, in parts, and only statistics are kept of it.

What is learned is what ``fit`` learns in memory, to rounding: the statistics of standardised features are those of the
raw ones rescaled, so that one pass finds both them and the standard deviations.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from advmetric.algorithms.registry import Method, methods
from advmetric.io.contents import PairFile, PointFile, Reading, check_both_kinds
from advmetric.io.preparation import UnpreparedError
from advmetric.io.streams import Parts, open_parts, survey_parts
from advmetric.learners.incremental import IncrementalLearner
from advmetric.learners.input import uses_all_pairs
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.metric.threshold import fit_probability
from advmetric.pairs.data import Pairs
from advmetric.pairs.pair_statistics import PairStatistics, PointStatistics, Statistics
from advmetric.utils.errors import UsageError
from advmetric.utils.progress import redrawn
from advmetric.utils.typing import Vector
from advmetric.utils.warning import warn

from .fit import Fitted, check_classes, check_squares
from .parameters import make_learner

__all__ = ["check_streamable", "fit_stream"]

_FOLDS = 5
_QUIET = 2.0
"""Seconds before the first line of progress."""


def check_streamable(method: Method, params: dict[str, Any]) -> None:
    """Refuse, before a file is read, what cannot be learned from its parts."""
    if not method.estimator.accepts_batches:
        able = [other.name for other in methods() if other.estimator.accepts_batches]
        raise UsageError(
            f"{method.name} needs all rows at once; {', '.join(able)} can learn from parts", "--chunk-rows"
        )
    try:
        uses_all_pairs(method.estimator(**params))
    except AttributeError as error:
        raise UsageError(str(error), "--param") from None
    if params.get("rank") is not None:
        raise UsageError("rank needs all rows at once; leave it out, or --chunk-rows", "--param")


def fit_stream(
    method: Method,
    params: dict[str, Any],
    data: Path,
    kind: str,
    label: str | None,
    *,
    rows: int,
    standardize: bool,
    seed: int,
    how: Reading,
) -> Fitted:
    """Learn from a file of "points" or "pairs", a given number of rows at a time.

    A table with categories or missing values is read again: once to find the levels and means, then with these.
    """
    try:
        if how.categories:
            raise UnpreparedError("categories are declared, so levels must be found first")
        with open_parts(data, kind, label, rows, how) as parts:
            gathered, scale, names = _gathered(parts, standardize, seed)
            survey = parts.survey
    except UnpreparedError:
        assert label is not None
        survey = survey_parts(data, kind, label, rows, how)
        with open_parts(data, kind, label, rows, how, survey.preparation(fill=how.fill)) as parts:
            gathered, scale, names = _gathered(parts, standardize, seed)
    preparation = None if survey is None else survey.preparation(fill=how.fill)
    if survey is not None and preparation is not None:
        for sentence in survey.suspicions():
            warn(f"{data}: {sentence}")
        for sentence in survey.filled(str(data), preparation):
            warn(sentence)
    whole = reduce(_merged, gathered)
    if isinstance(whole, PointStatistics):
        n, classes = int(whole.counts.sum()), len(whole.classes)
        check_classes(data, whole.classes, n)
        judged = 0
    else:
        counts = (whole.n_similar, whole.n_dissimilar)
        check_both_kinds(str(data), np.repeat([1, -1], np.sign(counts)))
        n, classes, judged = sum(counts), 2, len(whole.sample.labels)
    check_squares(scale, names)
    metric = _learned(method, params, whole, scale, seed)
    if isinstance(whole, PairStatistics):
        metric = _calibrated(metric, method, params, gathered, scale, seed)
    few = judged if kind == "pairs" and judged < n else None
    facts = None if preparation is None else preparation.facts()
    metric = replace(metric, feature_names=names, preparation=facts)
    return Fitted(metric, params, "as given", classes, n, 0, n, judged=few)


def _merged(first: Any, second: Any) -> Any:
    return first.merge(second)


def _gathered(parts: Parts, standardize: bool, seed: int) -> tuple[list[Any], Vector, tuple[str, ...] | None]:
    """Statistics of points, or of pairs by folds, as they are in the file; standard deviations (or 1); names."""
    gathered: list[Any] = []
    scaler, random = StandardScaler(), np.random.default_rng(seed)
    for part in _watched(parts):
        X = part.X if isinstance(part, PointFile) else part.pairs.X
        if standardize and parts.points is None:
            scaler.partial_fit(X)
        with np.errstate(over="ignore", invalid="ignore"):  # the learner refuses what is not finite
            if isinstance(part, PointFile):
                gathered = gathered or [PointStatistics.empty(X.shape[1], part.labels[:0])]
                gathered[0].update(X, part.labels)
            else:
                # One number per pair, so that a pair is in the same fold however the file is cut.
                fold = (_FOLDS * random.random(len(part.pairs))).astype(np.intp)
                for k in range(_FOLDS):
                    found = PairStatistics.of(part.pairs.take(fold == k))
                    if k == len(gathered):
                        gathered.append(found)
                    else:
                        gathered[k] = gathered[k].merge(found)
        names = part.names
    if not standardize:
        return gathered, np.ones(X.shape[1]), names
    for points in parts.points() if parts.points else ():
        scaler.partial_fit(points)
    return gathered, scaler.scale_, names


def _learned(method: Method, params: dict[str, Any], statistics: Statistics, scale: Vector, seed: int) -> Mahalanobis:
    """The metric for raw features, learned from the statistics of standardised ones: L diag(1/sd)."""
    learner = make_learner(method, params, seed)
    assert isinstance(learner, IncrementalLearner)
    metric = learner.fit_statistics(statistics.scaled(1.0 / scale)).get_metric()
    return Mahalanobis(metric.components / scale, metric.threshold)


def _calibrated(
    metric: Mahalanobis,
    method: Method,
    params: dict[str, Any],
    folds: list[PairStatistics],
    scale: Vector,
    seed: int,
) -> Mahalanobis:
    """The metric with probabilities, as in memory: from pairs out of the fold they are judged by, a sample of each.

    Statistics merge, so those of all folds but one cost no further pass. Without probabilities where pairs are too few.
    """
    distances, labels = [], []
    for k, fold in enumerate(folds):
        others: PairStatistics = reduce(_merged, folds[:k] + folds[k + 1 :])
        if others.missing:
            return metric
        sample = Pairs.from_differences(fold.sample.differences, fold.sample.labels)
        distances.append(_learned(method, params, others, scale, seed).pair_distance(sample))
        labels.append(fold.sample.labels)
    y = np.concatenate(labels)
    if len(np.unique(y)) < 2:
        return metric
    return replace(metric, calibration=fit_probability(np.concatenate(distances), y))


def _watched(parts: Parts) -> Iterator[PointFile | PairFile]:
    """The parts; if they take long, how far the reading is: a line on stderr, redrawn on a terminal."""
    started, rows, terminal = time.monotonic(), 0, sys.stderr.isatty()
    said, pause = started + _QUIET, 0.0
    try:
        for part in parts.items:
            yield part
            rows += len(part.X) if isinstance(part, PointFile) else len(part.pairs)
            now = time.monotonic()
            if now < said + pause:
                continue
            said, pause = now, 0.2 if terminal else 15.0
            of = f" of {parts.total:,}" if parts.total else ""
            left = f", {(now - started) * (parts.total - rows) / rows:.0f} s left" if parts.total else ""
            line = f"Read {rows:,}{of} rows, {now - started:.0f} s{left}"
            print(redrawn(line) if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)
    finally:
        if terminal and pause:
            print(file=sys.stderr)
