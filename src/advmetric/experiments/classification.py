"""Table 1: all methods on seven sets, 5-NN error over random 80/20 splits."""

from __future__ import annotations

import time
import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from ..datasets import list_datasets, load_dataset
from .protocol import PROFILES, Plan, contenders, knn_error, split_of, tuned
from .store import Task

__all__ = ["DATASETS", "run", "tasks"]

DATASETS = ("breast-cancer", "vehicle", "german-credit", "image-segment", "isolet", "letters", "mnist-4000")
"""The paper's seven sets. German credit in its numeric form (24 columns, as the paper's) where it can be had."""


def available(names: tuple[str, ...] = DATASETS, *, bundled_only: bool = False) -> tuple[list[str], dict[str, str]]:
    """Names that can be loaded here, and why the others cannot."""
    bundled = {info.name for info in list_datasets() if info.bundled}
    found, missing = [], {}
    for name in names:
        candidates = ["german-credit-numeric", name] if name == "german-credit" and not bundled_only else [name]
        for candidate in candidates:
            if candidate in bundled:
                found.append(candidate)
                break
            if bundled_only:
                missing[name] = "not bundled: left out of the quick run"
                break
            try:
                load_dataset(candidate)
            except (FileNotFoundError, ValueError, OSError) as error:
                missing[name] = str(error).splitlines()[0]
            else:
                found.append(candidate)
                break
    return found, {name: why for name, why in missing.items() if name not in found}


def tasks(plan: Plan) -> list[Task]:
    """Every method on every set."""
    known = {info.name for info in list_datasets()}
    chosen = None if plan.datasets is None else [name for name in plan.datasets if name in known]
    datasets = available(bundled_only=plan.profile == "quick")[0] if chosen is None else chosen
    return plan.tasks("table1", datasets, plan.methods or list(contenders()))


def run(task: Task) -> dict[str, Any]:
    """Tune and fit one method on one split."""
    profile, method = PROFILES[task.profile], contenders()[task.method]
    parts = split_of(task)
    c = parts.n_classes
    pairs = None if profile.max_pairs is None else min(profile.max_pairs, 1000 * c * (c - 1))
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        learner, params = tuned(
            method,
            parts.X_train,
            parts.y_train,
            pairs=pairs,
            tune_rows=profile.tune_rows,
            tune_pairs=profile.tune_pairs,
            thin=profile.thin,
            random_state=task.trial,
        )
    seconds = time.perf_counter() - started
    return {
        "error": knn_error(learner, parts),
        "params": params,
        "tune_and_fit_seconds": seconds,
        "unconverged": sum(issubclass(w.category, ConvergenceWarning) for w in caught),
        "n_train": len(parts.X_train),
        "d": parts.X_train.shape[1],
    }
