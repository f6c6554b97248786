"""The paper's Fig. 3: a clean training set, an overlapping test set, GMML against AML.

The paper says only that 200 + 200 points in 10 dimensions come from normal distributions, that the training
classes are clean and the test classes overlap. What is drawn here is a reconstruction: two normal classes
that differ in two directions, one of them strongly but only in the training set; eight directions are noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from ..aml import AML, AMLCV
from ..baselines.euclidean import Euclidean
from ..baselines.gmml import GMML
from ..linalg import Matrix
from ..metric import Mahalanobis
from ..supervision import AllPairs
from .protocol import Plan, Split, knn_error
from .store import Task

__all__ = ["LEARNERS", "draw", "run", "tasks"]

LEARNERS: dict[str, Callable[[], Any]] = {
    "Euclidean": Euclidean,
    "GMML": GMML,
    "AML": AML,
    "GMML, tuned t": lambda: AMLCV(alphas=(0.0,), betas=(1.0,), ts=(0.1, 0.25, 0.5, 0.75, 0.9), cv=3),
    "AML, tuned": lambda: AMLCV(ts=(0.1, 0.25, 0.5, 0.75, 0.9), alphas=(0.1, 1.0, 10.0, 100.0), cv=3),
}
"""GMML and AML as in the paper (t = 1/2, alpha = beta = 1), and tuned on the clean training set."""


def draw(trial: int, seed: int = 0) -> Split:
    """200 training and 200 test points in 10 dimensions, half of each class."""
    rng = np.random.default_rng([seed, trial, 3])
    y = np.repeat([0, 1], 100)
    sides = 2.0 * y - 1.0
    noise = np.concatenate([[1.0, 1.0], np.full(8, 1.5)])

    def points(strong: float, weak: float) -> Matrix:
        X = rng.normal(size=(200, 10)) * noise
        X[:, 0] += strong * sides
        X[:, 1] += weak * sides
        return X

    turn = np.linalg.qr(rng.normal(size=(10, 10)))[0]
    train, test = points(3.0, 1.5), points(1.0, 1.5)
    return Split(train @ turn, y, test @ turn, y)


def tasks(plan: Plan) -> list[Task]:
    """A run a learner and draw."""
    draws = plan.trials or plan.settings.draws
    return [
        Task("synthetic", "synthetic", name, trial, plan.profile, plan.seed)
        for trial in range(draws)
        for name in LEARNERS
    ]


def pair_auc(metric: Mahalanobis, X: Matrix, y: NDArray[np.integer]) -> float:
    """ROC AUC of "same class" by distance, over all pairs of the points."""
    pairs = AllPairs().sample(X, y)
    return float(roc_auc_score(pairs.y, -metric.pair_distance(pairs)))


def run(task: Task) -> dict[str, Any]:
    """Errors and AUC of one learner on one draw."""
    parts = draw(task.trial, task.seed)
    learner = LEARNERS[task.method]().fit(parts.X_train, parts.y_train)
    metric = learner.get_metric()
    return {
        "error": knn_error(learner, parts),
        "auc": pair_auc(metric, parts.X_test, parts.y_test),
        "train_auc": pair_auc(metric, parts.X_train, parts.y_train),
    }
