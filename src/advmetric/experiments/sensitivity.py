"""The paper's Fig. 5: training and test error of AML on MNIST against alpha (beta = 1) and beta (alpha = 1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..aml import AML
from ..linalg import Matrix
from ..neighbors import knn_predict
from .protocol import K, Plan, Split, knn_error, split_of
from .store import Task

__all__ = ["VALUES", "run", "tasks"]

VALUES = tuple(float(10.0**k) for k in np.arange(-3.0, 3.5, 0.5))
DATASET = "mnist-4000"


def tasks(plan: Plan) -> list[Task]:
    """A run a trial and parameter: all values of one parameter share the data."""
    return plan.tasks("sensitivity", [DATASET], ["alpha", "beta"], trials=10)


def run(task: Task) -> dict[str, Any]:
    """Errors for all values of one parameter, the other being 1, at the paper's t = 1/2."""
    parts = split_of(task)
    train, test = [], []
    for value in VALUES:
        learner = AML().set_params(**{task.method: value}).fit(parts.X_train, parts.y_train)
        train.append(training_error(learner.transform(parts.X_train), parts))
        test.append(knn_error(learner, parts))
    return {"values": list(VALUES), "train": train, "test": test}


def training_error(Z: Matrix, parts: Split) -> float:
    """5-NN error on the training points, in ten parts, each judged by the other nine: none is its own neighbour."""
    wrong, place = 0, np.arange(len(Z)) % 10
    for part in range(10):
        out = place == part
        predicted = knn_predict(Z[~out], parts.y_train[~out], Z[out], K)
        wrong += int(np.sum(predicted != parts.y_train[out]))
    return wrong / len(Z)
