"""What the experiments share: splits, pairs, tuning inside the training part, 5-NN error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from ..aml import AML, AMLCV
from ..baselines.gmml import GMML
from ..datasets import load_dataset
from ..linalg import Matrix
from ..neighbors import knn_predict
from ..registry import Method, methods
from .store import Task

__all__ = ["PROFILES", "Plan", "Profile", "Split", "contenders", "knn_error", "split", "tuned"]

K = 5
"""Neighbours, as in the paper."""
WIDE = 100
"""Sets with more features are reduced to their leading 50 principal components."""
SUMS = ("ITML",)
"""… but for methods whose parameter weighs a sum over pairs, not a mean: there the number must be that of the fit."""
NCA_ROWS = 3000
"""NCA holds n×n arrays: it learns from at most so many training points."""


@dataclass(frozen=True)
class Profile:
    """How thorough a run is."""

    trials: int
    draws: int
    """Of the synthetic experiment."""
    max_rows: int | None
    """A stratified subset of larger sets."""
    tune_rows: int
    """Parameters are chosen on at most so many training points (stratified)."""
    max_pairs: int | None
    """For the methods that draw pairs, instead of 1000 c (c - 1)."""
    tune_pairs: int
    """Parameters are chosen with at most so many of these pairs …"""
    thin: int
    """Every so many values of each grid are tried."""


PROFILES = {
    "quick": Profile(trials=3, draws=10, max_rows=1000, tune_rows=600, max_pairs=5000, tune_pairs=5000, thin=2),
    "full": Profile(trials=20, draws=30, max_rows=None, tune_rows=4000, max_pairs=None, tune_pairs=50_000, thin=1),
}


@dataclass(frozen=True)
class Plan:
    """What the user asked for."""

    profile: str = "full"
    seed: int = 0
    trials: int | None = None
    datasets: Sequence[str] | None = None
    methods: Sequence[str] | None = None

    @property
    def settings(self) -> Profile:
        return PROFILES[self.profile]

    def tasks(
        self, experiment: str, datasets: Sequence[str], methods: Sequence[str], trials: int | None = None
    ) -> list[Task]:
        """All runs of one experiment, a trial of everything before the next trial begins.

        ``trials`` caps their number, for experiments that need fewer.
        """
        count = self.trials or self.settings.trials
        count = count if trials is None else min(count, trials)
        return [
            Task(experiment, dataset, method, trial, self.profile, self.seed)
            for trial in range(count)
            for dataset in datasets
            for method in methods
        ]


# --- data -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """Training and test part of one trial, scaled by the training part's statistics."""

    X_train: Matrix
    y_train: NDArray[np.integer]
    X_test: Matrix
    y_test: NDArray[np.integer]

    @property
    def n_classes(self) -> int:
        return len(np.unique(self.y_train))


def split(dataset: str, trial: int, *, seed: int = 0, max_rows: int | None = None, wide: int = WIDE) -> Split:
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
    if X.shape[1] > wide:
        pca = PCA(50, random_state=0).fit(X_train)
        X_train, X_test = pca.transform(X_train), pca.transform(X_test)
    return Split(X_train, y_train, X_test, y_test)


def split_of(task: Task, wide: int = WIDE) -> Split:
    """The split of a task: the same for all methods."""
    return split(task.dataset, task.trial, seed=task.seed, max_rows=PROFILES[task.profile].max_rows, wide=wide)


def knn_error(learner: Any, parts: Split) -> float:
    """Share of the test points whose label the 5 nearest training points get wrong."""
    Z_train, Z_test = learner.transform(parts.X_train), learner.transform(parts.X_test)
    return float(np.mean(knn_predict(Z_train, parts.y_train, Z_test, K) != parts.y_test))


# --- methods ----------------------------------------------------------------------------------------------


class NCA(NeighborhoodComponentsAnalysis):
    """scikit-learn's NCA, on a draw of the training points where there are many: it holds n×n arrays."""

    supervision = ("points",)

    def fit(self, X: Matrix, y: NDArray[np.integer]) -> NCA:
        if len(X) > NCA_ROWS:
            X, _, y, _ = train_test_split(X, y, train_size=NCA_ROWS, stratify=y, random_state=self.random_state)
        super().fit(X, y)
        return self


def contenders() -> dict[str, Method]:
    """The methods of the library, and scikit-learn's NCA beside them."""
    nca = Method("NCA", NCA, "Goldberger et al. Neighbourhood Components Analysis. NIPS 2004", "scikit-learn's")
    found = list(methods())
    return {method.name: method for method in (*found[:-1], nca, found[-1])}


def made(method: Method, params: Mapping[str, Any], *, pairs: int | None, random_state: int) -> Any:
    """The estimator with its parameters, and the same pairs as every other method that draws some."""
    learner = method.estimator(**params)
    known = learner.get_params()
    settings: dict[str, Any] = {"random_state": random_state} if "random_state" in known else {}
    if "pairs" in known and method.name != "Euclidean":
        settings["pairs"] = "random" if pairs is None else pairs
    return learner.set_params(**settings)


def tuned(
    method: Method,
    X: Matrix,
    y: NDArray[np.integer],
    *,
    folds: int = 3,
    pairs: int | None = None,
    tune_rows: int | None = None,
    tune_pairs: int | None = None,
    thin: int = 1,
    random_state: int = 0,
) -> tuple[Any, dict[str, Any]]:
    """Fit ``method`` with the parameters of its grid that give the best cross-validated 5-NN accuracy.

    ``pairs`` random pairs (None: 1000 c (c - 1)) for the methods that learn from pairs; the choice is made on at most
    ``tune_rows`` points, ``tune_pairs`` pairs and every ``thin``-th value of the grid. Ties go to the candidate that
    comes first.
    """
    grid = {name: list(values)[::thin] for name, values in method.grid.items()}
    candidates = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    if len(candidates) > 1:
        A, b = X, y
        if tune_rows is not None and len(X) > tune_rows:
            A, _, b, _ = train_test_split(X, y, train_size=tune_rows, stratify=y, random_state=random_state)
        cv = StratifiedKFold(folds, shuffle=True, random_state=random_state)
        fewer = pairs
        if tune_pairs is not None and method.name not in SUMS:
            c = len(np.unique(y))
            fewer = min(tune_pairs, pairs or 1000 * c * (c - 1))
        if method.estimator in (AML, GMML):
            best = _searched(grid, A, b, cv, fewer, random_state)
        else:
            best = max(candidates, key=lambda params: _accuracy(method, params, A, b, cv, fewer, random_state))
    else:
        best = candidates[0]
    return made(method, best, pairs=pairs, random_state=random_state).fit(X, y), best


def _searched(
    grid: Mapping[str, list[Any]],
    X: Matrix,
    y: NDArray[np.integer],
    cv: StratifiedKFold,
    pairs: int | None,
    random_state: int,
) -> dict[str, Any]:
    """AMLCV's choice, which shares scatter, eigenbases and starts; GMML is its alpha = 0."""
    search = AMLCV(
        alphas=grid.get("alpha", [0.0]),
        betas=grid.get("beta", [1.0]),
        ts=grid["t"],
        cv=cv,
        n_neighbors=K,
        pairs="random" if pairs is None else pairs,
        random_state=random_state,
    ).fit(X, y)
    return {name: search.best_params_[name] for name in grid}


def _accuracy(
    method: Method,
    params: Mapping[str, Any],
    X: Matrix,
    y: NDArray[np.integer],
    cv: StratifiedKFold,
    pairs: int | None,
    random_state: int,
) -> float:
    correct = 0
    for train, test in cv.split(X, y):
        fitted = made(method, params, pairs=pairs, random_state=random_state).fit(X[train], y[train])
        predicted = knn_predict(fitted.transform(X[train]), y[train], fitted.transform(X[test]), K)
        correct += int(np.sum(predicted == y[test]))
    return correct / len(y)
