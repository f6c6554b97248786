"""Parts of cross-validation, and random samples of rows."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv, train_test_split
from sklearn.utils import check_random_state, column_or_1d

from advmetric.pairs.data import Samples
from advmetric.utils.typing import Indices

__all__ = ["Part", "check_groups", "draw_rows", "is_usable", "make_folds", "seed_of", "split_rows"]

Part = tuple[Samples, Samples]
"""Samples to learn from, and samples to judge on."""


def make_folds(data: Samples, cv: Any, seed: int | None = None) -> list[Part]:
    """Return the parts of cross-validation: samples to learn from and to judge on (see :func:`split_rows`)."""
    return [(data.take(train), data.take(test)) for train, test in split_rows(data, cv, seed=seed)]


def split_rows(
    data: Samples, cv: Any, groups: Any = None, *, seed: int | None = None, among: Indices | None = None
) -> list[tuple[Indices, Indices]]:
    """Return the rows of each fold to learn from and to judge on, stratified by class or by kind of pair.

    Folds that cannot be learned from or judged on are left out (:func:`is_usable`).

    Parameters
    ----------
    data : Samples
    cv : int, splitter or iterable
        Of a number, small classes or few groups may allow fewer folds only.
    groups : (n,) array, optional
    seed : int, optional
        Where cv is a number: shuffle the samples first.
    among : (m,) array, optional
        Use these rows only, which are in order. A number of folds divides them; a splitter is given all rows, and the
        others are left out.
    """
    pairs, by_number = data.kind == "pairs", isinstance(cv, (int, np.integer))
    rows = np.arange(len(data)) if among is None or not by_number else among
    y, groups = data.labels[rows], None if groups is None else groups[rows]
    if by_number:
        cv = _stratified(y, int(cv), pairs, groups, seed)
    with warnings.catch_warnings():
        # Classes smaller than the number of folds are in order.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        folds = [(rows[a], rows[b]) for a, b in check_cv(cv, y, classifier=True).split(np.zeros(len(y)), y, groups)]
    if among is not None and not by_number:
        folds = [(np.intersect1d(train, among), np.intersect1d(test, among)) for train, test in folds]
    labels = data.labels
    folds = [(train, test) for train, test in folds if is_usable(labels[train], labels[test], pairs)]
    if not folds:
        what = f"{len(y)} pairs" if pairs else f"{len(y)} points in {len(np.unique(y))} classes"
        needed = "both kinds on both sides" if pairs else "two classes, and two points of one of them, to learn from"
        raise ValueError(
            f"{what} are too few for cross-validation: no fold has {needed}. Add data, change cv or groups, or learn "
            "without a search (AML instead of AMLCV, --no-tune in the shell)."
        )
    return folds


def _stratified(y: NDArray[np.integer], count: int, pairs: bool, groups: Any, seed: int | None) -> Any:
    """Return the splitter that a number of folds stands for, with as many as the classes and groups allow."""
    sizes = np.unique(y, return_counts=True)[1]
    # On pairs, each fold needs both kinds; on points, a class must be left to learn from.
    allowed = int(sizes.min() if pairs else sizes.max())
    if allowed < 2:
        raise ValueError(
            "cross-validation needs at least two pairs of each kind."
            if pairs
            else "cross-validation needs a class in y with at least two members."
        )
    count = min(count, allowed)
    if groups is not None:
        n_groups = len(np.unique(groups))
        if n_groups < 2:
            raise ValueError("cross-validation needs at least two groups.")
        return StratifiedGroupKFold(min(count, n_groups))
    return StratifiedKFold(count, shuffle=seed is not None, random_state=seed)


def is_usable(learned: NDArray[np.integer], judged: NDArray[np.integer], pairs: bool) -> bool:
    """Return whether a fold with these labels can be learned from and judged on.

    Points need two classes, and two members of one of them, to learn from; pairs need both kinds on both sides.
    """
    sizes = np.unique(learned, return_counts=True)[1]
    if pairs:
        return len(sizes) == 2 and len(np.unique(judged)) == 2
    return len(judged) > 0 and len(sizes) > 1 and int(sizes.max()) > 1


def draw_rows(y: NDArray[np.integer], most: int | None, seed: Any) -> Indices | None:
    """Return the rows of a random sample, in order, with the same shares of the classes where these are large enough.

    None if there are no more than ``most``.
    """
    n = len(y)
    if most is None or n <= most:
        return None
    sizes = np.unique(y, return_counts=True)[1]
    stratified = sizes.min() > 1 and min(most, n - most) >= len(sizes)
    rows, _ = train_test_split(np.arange(n), train_size=most, stratify=y if stratified else None, random_state=seed)
    return np.sort(rows)


def check_groups(groups: ArrayLike, n: int) -> NDArray[Any]:
    """Return the group of each row as a number; raise unless there is one for each."""
    found = np.asarray(column_or_1d(groups))
    if len(found) != n:
        raise ValueError(f"groups has {len(found)} entries for {n} rows; one for each is needed.")
    missing = [value is None or value != value for value in found.tolist()]
    if any(missing):
        raise ValueError(f"groups lacks the group of row {missing.index(True)}; leave the row out, or give it a group.")
    return np.unique(found, return_inverse=True)[1]


def seed_of(random_state: Any) -> int | None:
    """Return None or the number that was given, or a number that the given generator draws.

    A generator that candidates share would give each of them other pairs, and processes work on copies of it.
    """
    if random_state is None or isinstance(random_state, Integral):
        return random_state  # type: ignore[return-value]
    return int(check_random_state(random_state).randint(2**31 - 1))
