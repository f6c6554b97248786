"""One run: a dataset, a method, a trial. Everything is chosen inside the training part."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from ..aml import AML, AMLCV
from ..datasets import load_dataset
from ..learner import MetricLearner
from ..linalg import Matrix
from ..neighbors import knn_predict
from ..registry import Method

__all__ = ["Run", "Split", "run", "split"]

K = 5
"""Neighbours, as in the paper."""
WIDE = 100
"""Sets with more features are reduced to their leading 50 principal components."""


@dataclass(frozen=True)
class Split:
    """Training and test part of one trial, scaled by the training part's statistics."""

    X_train: Matrix
    y_train: NDArray[np.integer]
    X_test: Matrix
    y_test: NDArray[np.integer]


@dataclass(frozen=True)
class Run:
    """What one run found."""

    dataset: str
    method: str
    trial: int
    error: float
    seconds: float
    """Tuning and fitting."""
    params: dict[str, Any] = field(default_factory=dict)
    note: str = ""


def split(dataset: str, trial: int, *, seed: int = 0, max_rows: int | None = None) -> Split:
    """80/20 split of a dataset, standardised (and reduced, if wide) by its training part.

    ``max_rows`` draws a stratified subset first, for a quick look.
    """
    data = load_dataset(dataset)
    X, y = data.X, data.y
    state = np.random.RandomState([seed, trial])
    if max_rows is not None and len(X) > max_rows:
        X, _, y, _ = train_test_split(X, y, train_size=max_rows, stratify=y, random_state=state)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=state)
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    if X.shape[1] > WIDE:
        pca = PCA(50, random_state=0).fit(X_train)
        X_train, X_test = pca.transform(X_train), pca.transform(X_test)
    return Split(X_train, y_train, X_test, y_test)


def run(
    dataset: str,
    method: Method,
    trial: int,
    *,
    seed: int = 0,
    folds: int = 3,
    max_rows: int | None = None,
    max_pairs: int | None = None,
) -> Run:
    """Tune ``method`` inside the training part of one trial, fit it, and measure its 5-NN error.

    ``max_rows`` and ``max_pairs`` (for methods that draw pairs) cut the work down for a quick look.
    """
    parts = split(dataset, trial, seed=seed, max_rows=max_rows)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        learner, params = tuned(method, parts.X_train, parts.y_train, folds=folds, max_pairs=max_pairs)
    seconds = time.perf_counter() - started
    Z_train, Z_test = learner.transform(parts.X_train), learner.transform(parts.X_test)
    return Run(
        dataset,
        method.name,
        trial,
        error=float(np.mean(knn_predict(Z_train, parts.y_train, Z_test, K) != parts.y_test)),
        seconds=seconds,
        params=params,
        note="did not converge" if any(issubclass(w.category, ConvergenceWarning) for w in caught) else "",
    )


def tuned(
    method: Method,
    X: Matrix,
    y: NDArray[np.integer],
    *,
    folds: int = 3,
    max_pairs: int | None = None,
    random_state: int = 0,
) -> tuple[MetricLearner, dict[str, Any]]:
    """Fit ``method`` with the parameters of its grid that give the best cross-validated 5-NN accuracy."""
    cv = StratifiedKFold(folds, shuffle=True, random_state=random_state)
    if method.estimator is AML:
        grid = method.grid
        search = AMLCV(alphas=grid["alpha"], betas=grid["beta"], ts=grid["t"], cv=cv, n_neighbors=K).fit(X, y)
        return search.best_estimator_, {name: search.best_params_[name] for name in grid}

    def learner(params: dict[str, Any]) -> MetricLearner:
        made = method.estimator(**params)
        known = made.get_params()
        if "random_state" in known:
            made.set_params(random_state=random_state)
        if max_pairs is not None and known.get("pairs") == "random":
            c = len(np.unique(y))
            made.set_params(pairs=min(max_pairs, 1000 * c * (c - 1)))
        return made

    def accuracy(params: dict[str, Any]) -> float:
        correct = 0
        for train, test in cv.split(X, y):
            fitted = learner(params).fit(X[train], y[train])
            predicted = knn_predict(fitted.transform(X[train]), y[train], fitted.transform(X[test]), K)
            correct += int(np.sum(predicted == y[test]))
        return correct / len(y)

    candidates = [dict(zip(method.grid, values, strict=True)) for values in product(*method.grid.values())]
    best = max(candidates, key=accuracy) if len(candidates) > 1 else candidates[0]
    return learner(best).fit(X, y), best
