"""What ``fit`` does between reading and saving: methods by name, parameters from text, tuning, learning."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from ..aml import AML, AMLCV
from ..experiments.protocol import tuned
from ..learner import LabelledPoints, MetricLearner
from ..linalg import Matrix
from ..metric import Mahalanobis
from ..registry import Method, methods
from ..supervision import Pairs
from ..threshold import fit_probability
from .options import nearest, wrong
from .scoring import K

__all__ = [
    "Samples",
    "calibrated",
    "chosen_params",
    "find_method",
    "fixed_params",
    "kinds",
    "learn",
    "learner_of",
    "points_of",
    "refuse_no_classes",
    "take",
]

Samples = LabelledPoints | Pairs
Params = dict[str, Any]

FOLDS = 3
_NOT_FOR_USERS = ("preprocessor", "random_state", "verbose")
"""Parameters that the command line sets itself."""
_GRIDS = {
    "alpha": "alphas",
    "beta": "betas",
    "t": "ts",
    "reg": "regs",
    "prior": "priors",
    "n_components": "n_components",
}
"""What AMLCV calls its lists of values of AML's parameters."""


# --- the method and its parameters --------------------------------------------------------------------------


def find_method(name: str) -> Method:
    """The method of that name, whatever the case."""
    known = {method.name.lower(): method for method in methods()}
    if name.lower() not in known:
        names = [method.name for method in methods()]
        wrong(f"there is no method {name!r}.{nearest(name, names)} Known: {', '.join(names)}", "--method")
    return known[name.lower()]


def fixed_params(method: Method, given: Sequence[str]) -> Params:
    """Parameters from NAME=VALUE; a value is read as Python's (1e-3, None, (5, 95)), else taken as text."""
    known = [name for name in method.estimator().get_params() if name not in _NOT_FOR_USERS]
    fixed: Params = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals:
            wrong(f"{item!r} is not NAME=VALUE, such as {known[0] if known else 'name'}=1", "--param")
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            wrong(f"{method.name} has no parameter {name!r}.{nearest(name, known)} ({takes})", "--param")
        try:
            fixed[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            fixed[name] = text
    try:
        method.estimator(**fixed)._check_params()
    except (ValueError, TypeError) as error:
        wrong(str(error), "--param")
    return fixed


def refuse_no_classes(data: Path, classes: NDArray[np.str_], n: int) -> None:
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


# --- samples: points with codes of classes, or pairs --------------------------------------------------------


def kinds(samples: Samples) -> NDArray[np.integer]:
    """What is to be told apart: classes of points, +1 and -1 of pairs."""
    return samples.labels if isinstance(samples, Pairs) else samples.y


def take(samples: Samples, rows: NDArray) -> Samples:
    """Some of the samples."""
    return samples.take(rows) if isinstance(samples, Pairs) else LabelledPoints(samples.X[rows], samples.y[rows])


def points_of(samples: Samples) -> Matrix:
    """The points that occur in the samples."""
    if isinstance(samples, Pairs):
        occurring: Matrix = samples.X[np.union1d(samples.left, samples.right)]
        return occurring
    return samples.X


def _scaled(samples: Samples, standardize: bool) -> tuple[Samples, NDArray[np.floating]]:
    """The samples with standardised features, and the standard deviations."""
    if not standardize:
        return samples, np.ones(samples.X.shape[1])
    scaler = StandardScaler().fit(points_of(samples))
    return replace(samples, X=scaler.transform(samples.X)), scaler.scale_


# --- learning -----------------------------------------------------------------------------------------------


def learn(method: Method, params: Params, samples: Samples, standardize: bool, seed: int) -> Mahalanobis:
    """Fit with given parameters; the metric is for raw features: L diag(1/sd)."""
    scaled, scale = _scaled(samples, standardize)
    metric = _fitted(method, params, scaled, seed).get_metric()
    return Mahalanobis(metric.components / scale, metric.threshold)


def learner_of(method: Method, params: Params, seed: int) -> MetricLearner:
    """The method's learner, not fitted yet."""
    learner = method.estimator(**params)
    if "random_state" in learner.get_params():
        learner.set_params(random_state=seed)
    return learner


def _fitted(method: Method, params: Params, samples: Samples, seed: int) -> MetricLearner:
    return _fit(learner_of(method, params, seed), samples)


def _fit(learner: MetricLearner, samples: Samples) -> MetricLearner:
    if isinstance(samples, Pairs):
        return learner.set_params(preprocessor=samples.X).fit(_indices(samples), samples.labels)
    return learner.fit(samples.X, samples.y)


def _indices(pairs: Pairs) -> NDArray[np.integer]:
    return np.column_stack([pairs.left, pairs.right])


def chosen_params(method: Method, fixed: Params, samples: Samples, standardize: bool, seed: int) -> tuple[Params, str]:
    """The parameters of the grid (but for the fixed ones) that are best in cross-validation, and a word on it."""
    grid: dict[str, Sequence[Any]] = {**method.grid, **{name: (value,) for name, value in fixed.items()}}
    n = int(np.prod([len(values) for values in grid.values()]))
    if n == 1:
        return fixed, "nothing to tune"
    sizes = np.unique(kinds(samples), return_counts=True)[1]
    folds = min(FOLDS, int(sizes.min() if isinstance(samples, Pairs) else sizes.max()))
    if folds < 2:
        raise ValueError("too few rows to tune: every class has one member only. Add rows, or give --no-tune.")
    scaled, _ = _scaled(samples, standardize)
    print(f"Tuning {method.name}: {n} settings, {folds} folds.", file=sys.stderr)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        if method.estimator is AML:
            best = _best_of_aml(grid, scaled, folds, seed)
        elif isinstance(scaled, Pairs):
            best = _best_on_pairs(method, grid, scaled, folds, seed)
        else:
            _, best = tuned(replace(method, grid=grid), scaled.X, scaled.y, folds=folds, random_state=seed)
    late = sum(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    if late:
        warnings.warn(f"{late} fits did not converge while {method.name} was tuned.", ConvergenceWarning, stacklevel=2)
    return best, f"best of {n} settings in {folds}-fold cross-validation"


def _best_of_aml(grid: Mapping[str, Sequence[Any]], samples: Samples, folds: int, seed: int) -> Params:
    """AMLCV shares the work of all settings; what it does not know (the solver) does not change the optimum."""
    lists: Params = {_GRIDS[name]: list(values) for name, values in grid.items() if name in _GRIDS}
    known = AMLCV().get_params()
    shared: Params = {name: values[0] for name, values in grid.items() if name not in _GRIDS and name in known}
    search = AMLCV(
        **lists,
        **shared,
        cv=StratifiedKFold(folds, shuffle=True, random_state=seed),
        n_neighbors=K,
        random_state=seed,
        verbose=int(sys.stderr.isatty()),
    )
    _fit(search, samples)
    return {name: search.best_params_.get(name, values[0]) for name, values in grid.items()}


def calibrated(
    metric: Mahalanobis, method: Method, params: Params, pairs: Pairs, scaled: bool, seed: int
) -> Mahalanobis:
    """The metric with probabilities, from the distances of pairs that were out of the fold they are judged by."""
    folds = min(5, int(np.unique(pairs.labels, return_counts=True)[1].min()))
    if folds < 2:
        return metric
    distances = np.empty(len(pairs))
    cv = StratifiedKFold(folds, shuffle=True, random_state=seed)
    for train, test in cv.split(distances, pairs.labels):
        fitted = learn(method, params, pairs.take(train), scaled, seed)
        distances[test] = fitted.pair_distance(pairs.take(test))
    return replace(metric, calibration=fit_probability(distances, pairs.labels))


def _best_on_pairs(method: Method, grid: Mapping[str, Sequence[Any]], pairs: Pairs, folds: int, seed: int) -> Params:
    """The setting with the best mean ROC AUC on held-out folds of the pairs."""
    cv = StratifiedKFold(folds, shuffle=True, random_state=seed)
    parts = list(cv.split(np.zeros(len(pairs)), pairs.labels))
    settings = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]

    def score(params: Params) -> float:
        total = 0.0
        for train, test in parts:
            judged = pairs.take(test)
            total += _fitted(method, params, pairs.take(train), seed).score(_indices(judged), judged.labels)
        return total

    return max(settings, key=score)
