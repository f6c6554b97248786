"""AMLCV over the paper's 7 x 7 grid of (alpha, beta) on Vehicle, against single fits and a grid search."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from harness import Row, interleaved
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from advmetric import AML, AMLCV, load_dataset

GRID = tuple(10.0**power for power in range(-3, 4))


def vehicle() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Standardised once, outside: every contestant gets the same points."""
    bunch = load_dataset("vehicle")
    return StandardScaler().fit_transform(bunch.X), bunch.y


def contestants(
    X: NDArray[np.float64], y: NDArray[np.int64], grid: tuple[float, ...] = GRID
) -> dict[str, Callable[[], Any]]:
    """The search, and what it is measured against, on the same folds."""
    folds = StratifiedKFold(5)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)

    def pipeline() -> Any:
        return make_pipeline(AML(), KNeighborsClassifier(5))

    return {
        "AMLCV": lambda: AMLCV(alphas=grid, betas=grid, ts=(0.5,), cv=folds).fit(X, y),
        "fit and score": lambda: pipeline().fit(X_train, y_train).score(X_test, y_test),
        "cross-validation": lambda: cross_val_score(pipeline(), X, y, cv=folds),
        "GridSearchCV": lambda: GridSearchCV(pipeline(), {"aml__alpha": grid, "aml__beta": grid}, cv=folds).fit(X, y),
    }


def rows(fast: bool = False) -> Iterator[Row]:
    """The search as a multiple of one fit + scoring, of one candidate's cross-validation, and of GridSearchCV."""
    grid = GRID[2:5] if fast else GRID
    size = f"{len(grid)}x{len(grid)}"
    functions = contestants(*vehicle(), grid)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seconds = interleaved(functions, repeats=2 if fast else 5)
        ours, theirs = functions["AMLCV"](), functions["GridSearchCV"]()
    search = seconds["AMLCV"]
    score_gap = float(np.abs(_by_params(ours) - _by_params(theirs)).max())
    yield Row(
        f"AMLCV {size} (alpha, beta), 5 folds, vehicle / one fit + scoring",
        search / seconds["fit and score"],
        at_most=15,
        note=f"{search * 1e3:.3g} ms / {seconds['fit and score'] * 1e3:.3g} ms on an 80/20 split",
    )
    yield Row(
        f"AMLCV {size} / cross_val_score of one candidate, same folds",
        search / seconds["cross-validation"],
        at_most=15,
        note=f"cross_val_score {seconds['cross-validation'] * 1e3:.3g} ms",
    )
    yield Row(
        f"GridSearchCV {size} / AMLCV {size}",
        seconds["GridSearchCV"] / search,
        note=f"GridSearchCV {seconds['GridSearchCV']:.3g} s; mean accuracies differ by at most {score_gap:.1g}",
    )


def _by_params(search: Any) -> NDArray[np.float64]:
    """Mean scores ordered by (alpha, beta)."""
    results = search.cv_results_
    prefix = "param_" if "param_alpha" in results else "param_aml__"
    order = np.lexsort((results[f"{prefix}beta"].astype(float), results[f"{prefix}alpha"].astype(float)))
    return np.asarray(results["mean_test_score"])[order]
