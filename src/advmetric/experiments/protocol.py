"""What studies share: splits, methods to compare, tuning inside the training part, 5-NN error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from advmetric.algorithms.registry import SEARCH, Method, methods
from advmetric.datasets import list_datasets, load_dataset
from advmetric.learners.tuning import NeighborScorer, best_params
from advmetric.metric.knn import knn_predict
from advmetric.pairs.data import LabelledPoints
from advmetric.utils.typing import Matrix

from .engine.plan import PROFILES
from .engine.store import Task

__all__ = [
    "ALL",
    "NCA_ROWS",
    "WIDE",
    "K",
    "Split",
    "contenders",
    "fit_tuned",
    "knn_error",
    "make_learner",
    "reason_missing",
    "set_names",
    "split",
    "split_of",
]

K = 5
"""Neighbours, as in the paper."""
WIDE = 100
"""Sets with more features are reduced to their leading 50 principal components."""
ALL = "/all"
"""After the name of such a set: with all its features."""
NCA_ROWS = 3000
"""NCA holds n×n arrays: it learns from at most this many training points."""
FOLDS = 3


# --- data -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """Training and test part of one trial, scaled by the training part's statistics."""

    X_train: Matrix
    y_train: NDArray[np.integer]
    X_test: Matrix
    y_test: NDArray[np.integer]

    @property
    def train(self) -> LabelledPoints:
        """Return the training part."""
        return LabelledPoints(self.X_train, self.y_train)

    @property
    def n_classes(self) -> int:
        return len(np.unique(self.y_train))


def set_names() -> list[str]:
    """Names that :func:`split` knows: all datasets, and those with many features also with ``/all``."""
    known = list_datasets()
    return [*(info.name for info in known), *(f"{info.name}{ALL}" for info in known if info.d > WIDE)]


def split(
    dataset: str,
    trial: int,
    *,
    seed: int = 0,
    max_rows: int | None = None,
    wide: int = WIDE,
    data_home: Path | None = None,
) -> Split:
    """80/20 split of a dataset, standardised (and reduced, if wide) by its training part.

    ``max_rows`` draws a stratified subset first, for a quick look. With ``/all`` after its name, a set keeps all its
    features.
    """
    name = dataset.removesuffix(ALL)
    data = load_dataset(name, data_home=data_home)
    X, y = data.X, data.y
    state = np.random.RandomState([seed, trial])
    if max_rows is not None and len(X) > max_rows:
        X, _, y, _ = train_test_split(X, y, train_size=max_rows, stratify=y, random_state=state)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=state)
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    if X.shape[1] > wide and name == dataset:
        pca = PCA(50, random_state=0).fit(X_train)
        X_train, X_test = pca.transform(X_train), pca.transform(X_test)
    return Split(X_train, y_train, X_test, y_test)


def split_of(task: Task, data_home: Path | None, wide: int = WIDE) -> Split:
    """Return the split of a task: the same for all methods."""
    rows = PROFILES[task.profile].max_rows
    return split(task.dataset, task.trial, seed=task.seed, max_rows=rows, wide=wide, data_home=data_home)


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
    """Return the methods of the library, scikit-learn's NCA and AMLCV."""
    nca = Method("NCA", NCA, "Goldberger et al. Neighbourhood Components Analysis. NIPS 2004", "scikit-learn's")
    found = list(methods())
    place = [method.name for method in found].index("AML")
    return {method.name: method for method in (*found[:place], nca, *found[place:], SEARCH)}


def make_learner(method: Method, params: Mapping[str, Any], *, pairs: int | None, random_state: int) -> Any:
    """Return the estimator with its parameters; all methods that draw pairs draw the same ones."""
    learner = method.estimator(**params)
    known = learner.get_params()
    settings: dict[str, Any] = {"random_state": random_state} if "random_state" in known else {}
    if "pairs" in known and method.draws_paper_pairs:
        settings["pairs"] = "random" if pairs is None else pairs
    return learner.set_params(**settings)


def fit_tuned(method: Method, parts: Split, task: Task) -> tuple[Any, dict[str, Any]]:
    """Fit a method on the training part with the parameters that are best in cross-validation inside it.

    The choice is made on as many points, pairs and values as the task's profile says; ties go to the first candidate.
    """
    profile, c = PROFILES[task.profile], parts.n_classes
    drawn = 1000 * c * (c - 1)
    pairs = None if profile.max_pairs is None else min(profile.max_pairs, drawn)
    X, y = parts.X_train, parts.y_train
    if len(X) > profile.tune_rows:
        X, _, y, _ = train_test_split(X, y, train_size=profile.tune_rows, stratify=y, random_state=task.trial)
    fewer = pairs if method.tunes_on_all_pairs else min(profile.tune_pairs, pairs or drawn)
    params: dict[str, Any] = {}
    if method.name == SEARCH.name:  # it tunes by itself
        params = {"cv": profile.search_folds}
    if method.grid:
        params = best_params(
            make_learner(method, {}, pairs=fewer, random_state=task.trial),
            LabelledPoints(X, y),
            method.grid,
            cv=StratifiedKFold(FOLDS, shuffle=True, random_state=task.trial),
            score=NeighborScorer(K),
            thin=profile.thin,
        )
    learner = make_learner(method, params, pairs=pairs, random_state=task.trial).fit(parts.X_train, parts.y_train)
    if method.name == SEARCH.name:
        params = {"loss": learner.best_loss_}
    return learner, params


def reason_missing(load: Callable[..., Any], name: str, data_home: Path | None) -> str | None:
    """Return in one line why a set cannot be loaded here, or None if it can."""
    try:
        load(name, data_home=data_home)
    except (OSError, ValueError, ImportError) as error:
        return str(error).splitlines()[0]
    return None
