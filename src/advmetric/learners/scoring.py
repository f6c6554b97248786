"""The default score of learners: ROC AUC of the learned distance on pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.pairs.data import Pairs, Samples
from advmetric.pairs.samplers import AllPairs, BalancedPairs, RandomPairs
from advmetric.utils.arrays import to_numpy
from advmetric.utils.typing import Vector

from .input import check_pairs_for

__all__ = ["Reference", "pair_auc"]

_MOST_LISTED = 1500
"""Up to this many points, all of their pairs are scored."""
_DRAWN = 10**6
_SAMPLE = 1000
"""Training pairs whose distances are kept."""


@dataclass(frozen=True)
class Reference:
    """Distances of some similar and dissimilar training pairs."""

    similar: Vector
    dissimilar: Vector

    @classmethod
    def of(cls, metric: Mahalanobis, data: Samples) -> Reference:
        """Return the distances of a sample of the pairs (always the same one)."""
        rng = np.random.RandomState(0)
        if data.kind == "points":
            counts = np.bincount(data.labels)
            pairs = data.as_pairs((BalancedPairs if counts.max() > 1 else RandomPairs)(_SAMPLE), rng)
        else:
            rows = rng.randint(len(data), size=_SAMPLE) if len(data) > _SAMPLE else np.arange(len(data))
            pairs = data.take(rows)  # type: ignore[assignment]
        with np.errstate(over="ignore", invalid="ignore"):
            distances = to_numpy(metric.pair_distance(pairs))
        return cls(distances[pairs.labels == 1], distances[pairs.labels == -1])


def pair_auc(learner: Any, X: Any, y: Any) -> float:
    """Return the area under the ROC curve of a learner on labelled pairs, or on pairs of labelled points."""
    pairs = check_pairs_for(learner, X, y, _ScoredPairs(), 0)
    if not len(pairs):
        raise ValueError("X has one point only; a score needs at least two.")
    distances = to_numpy(learner.pair_distance(pairs))
    labels: NDArray[np.integer] = pairs.labels
    kinds = np.unique(labels)
    if len(kinds) < 2:
        reference = getattr(learner, "_reference_", None)
        other = None if reference is None else reference.dissimilar if kinds[0] == 1 else reference.similar
        if other is None or not len(other):
            raise ValueError(
                "y has pairs of one kind only, and this estimator keeps no training pairs to compare them with; the "
                "ROC curve needs similar and dissimilar pairs. Use stratified folds, such as StratifiedKFold."
            )
        distances = np.concatenate([distances, other])
        labels = np.concatenate([labels, np.full(len(other), -kinds[0])])
    return float(roc_auc_score(labels, -distances))


class _ScoredPairs:
    """All pairs of few points; else as many of each kind as can be drawn."""

    def sample(self, X: Any, y: NDArray[Any], random_state: Any = None) -> Pairs:
        if X.shape[0] <= _MOST_LISTED:
            return AllPairs().sample(X, y)
        both_kinds = 1 < len(np.unique(y)) < len(y)
        sampler = BalancedPairs(_DRAWN) if both_kinds else RandomPairs(_DRAWN)
        return sampler.sample(X, y, random_state)
