"""Parts to learn from and to judge on: stratified, and never with rows of one group on both sides."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, train_test_split

from advmetric.learners.folds import is_usable
from advmetric.pairs.data import Samples
from advmetric.utils.typing import Indices

__all__ = ["folds_of", "hold_out"]

Part = tuple[Indices, Indices]


def hold_out(y: NDArray[np.integer], share: float, seed: int, groups: NDArray | None = None) -> Part:
    """Return the rows to train on and the rows held out, stratified where there is enough of every class."""
    rows = np.arange(len(y))
    if share == 0.0:
        return rows, rows[:0]
    if groups is not None:
        train, held_out = _hold_out_groups(y, share, seed, groups)
    else:
        if len(y) < 3:
            raise ValueError(f"{len(y)} rows are too few to hold some out: give --test 0, or more rows.")
        sizes = np.unique(y, return_counts=True)[1]
        room = min(int(np.ceil(share * len(y))), len(y) - int(np.ceil(share * len(y))))
        stratified = sizes.min() >= 2 and room >= len(sizes)
        if room < 1:
            raise ValueError(f"--test {share} of {len(y)} rows leaves none to learn from: give a smaller share.")
        train, held_out = train_test_split(rows, test_size=share, stratify=y if stratified else None, random_state=seed)
    if len(np.unique(y[train])) < 2:
        what = "groups" if groups is not None else "rows"
        raise ValueError(
            f"too few {what} to hold some out: the {len(train)} rows that are left to learn from are all of one "
            "class. Give --test 0, or more rows."
        )
    return train, held_out


def _hold_out_groups(y: NDArray[np.integer], share: float, seed: int, groups: NDArray) -> Part:
    """Hold out complete groups with about the given share of the rows."""
    count = len(np.unique(groups))
    parts = max(2, round(1.0 / min(share, 1.0 - share)))
    if count < 2:
        raise ValueError(f"{count} group is too few to hold one out: give --test 0, or leave out --group.")
    cv = StratifiedGroupKFold(min(parts, count), shuffle=True, random_state=seed)
    larger, smaller = next(_split(cv, y, groups))
    return (larger, smaller) if share <= 0.5 else (smaller, larger)


def _split(cv: Any, y: NDArray[np.integer], groups: NDArray | None) -> Any:
    return cv.split(np.zeros(len(y)), y, groups)


def folds_of(samples: Samples, most: int, seed: int, groups: NDArray | None = None) -> list[Part]:
    """Return up to ``most`` folds (train, test), stratified; fewer where classes or groups are small, none if < 2.

    Folds that cannot be learned from or judged on are left out: on points, those without two classes, or without two
    rows of one class, to learn from; on pairs, those without both kinds on both sides.
    """
    y, pairs = samples.labels, samples.kind == "pairs"
    sizes = np.unique(y, return_counts=True)[1]
    # On pairs, each fold needs both kinds; on points, a class must be left to learn from.
    count = min(most, int(sizes.min() if pairs else sizes.max()))
    if groups is not None:
        count = min(count, len(np.unique(groups)))
    if count < 2:
        return []
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes smaller than the number of folds: they may be
        found = list(_split(kind(count, shuffle=True, random_state=seed), y, groups))
    return [(train, test) for train, test in found if is_usable(y[train], y[test], pairs)]
