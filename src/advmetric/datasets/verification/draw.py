"""Balanced pairs of labelled things, in folds that share no class."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .sets import Indices, VerificationSet, signs


def draw_again(data: VerificationSet, seed: int) -> VerificationSet:
    """Return the set with other folds, which share no class, and other pairs: as many as before, of the same rows."""
    place = f"verification set {data.name!r}"
    if data.identities is None:
        raise ValueError(f"{place}: pairs cannot be drawn without identities")
    n_folds = len(np.unique(data.folds))
    pairs, labels, folds = disjoint_pairs(data.identities, n_folds, len(data.pairs) // n_folds, seed, place)
    note = f"Pairs and folds drawn again (seed {seed}): balanced, uniform of each kind, no class in two folds."
    return replace(data, pairs=pairs, labels=labels, folds=folds, disjoint=True, note=note)


def disjoint_pairs(
    classes: NDArray, n_folds: int, n_pairs: int, seed: int, place: str, fewest: int = 2
) -> tuple[Indices, Indices, Indices]:
    """Split the classes into folds at random and draw balanced pairs inside each fold.

    Parameters
    ----------
    classes : (n,) array
        The class of each row.
    n_folds : int
        Number of folds; each gets `fewest` classes or more.
    n_pairs : int
        Pairs a fold, half of them same.
    seed : int
    place : str
        What opens an error message.
    fewest : int, default=2
        Without a second class a fold has no different pair.

    Returns
    -------
    pairs : (N, 2) array of row numbers
    labels : (N,) array of +1 and -1
    folds : (N,) array
    """
    names, codes = np.unique(classes, return_inverse=True)
    check_count(n_folds, "n_folds", 2)
    if len(names) < fewest * n_folds:
        raise ValueError(
            f"{place}: {len(names)} classes (people, points) are too few for n_folds={n_folds}; "
            f"each fold needs {fewest}, so at most n_folds={len(names) // fewest}"
        )
    rng = np.random.default_rng(seed)
    fold_of = np.empty(len(names), dtype=np.int64)
    for fold, chosen in enumerate(np.array_split(rng.permutation(len(names)), n_folds)):
        fold_of[chosen] = fold
    parts = []
    for fold in range(n_folds):
        rows = np.flatnonzero(fold_of[codes] == fold)
        pairs, labels = balanced_pairs(codes[rows], n_pairs, rng, f"{place}, fold {fold}")
        parts.append((rows[pairs], labels, np.full(len(labels), fold, dtype=np.int64)))
    drawn, kinds, folds = (np.concatenate(part) for part in zip(*parts, strict=True))
    return drawn, kinds, folds


def balanced_pairs(classes: NDArray, n_pairs: int, rng: np.random.Generator, place: str) -> tuple[Indices, Indices]:
    """Draw same and different pairs, as many of each, uniformly and without repetition; in random order.

    Fewer than `n_pairs` if there are not as many of one kind. O(n log n + n_pairs), no list of all pairs.
    """
    check_count(n_pairs, "n_pairs", 2)
    n = len(classes)
    _, codes, sizes = np.unique(classes, return_inverse=True, return_counts=True)
    order = np.argsort(codes, kind="stable")
    end = np.cumsum(sizes)[codes[order]]
    after = np.arange(1, n + 1)
    # In this order the partners of a row, each pair counted once, are a range: the rest of its class, or all beyond it.
    n_same, n_different = int((end - after).sum()), int((n - end).sum())
    half = min(n_pairs // 2, n_same, n_different)
    if not half:
        kind = "same" if not n_same else "different"
        raise ValueError(f"{place}: there is no {kind} pair among {n} images of {len(sizes)} classes (people, points)")
    left, right = np.concatenate([_draw(after, end - after, half, rng), _draw(end, n - end, half, rng)], axis=1)
    shuffled = rng.permutation(2 * half)
    pairs = np.column_stack([order[left], order[right]])[shuffled]
    return pairs.astype(np.int64), signs(shuffled < half)


def _draw(first: Indices, count: Indices, k: int, rng: np.random.Generator) -> Indices:
    """Choose k of the pairs (i, first[i] + j), j < count[i]; return lefts and rights as two rows."""
    ends = np.cumsum(count)
    rank = rng.choice(int(ends[-1]), size=k, replace=False)
    left = np.searchsorted(ends, rank, side="right")
    return np.stack([left, first[left] + rank - (ends[left] - count[left])])


def check_count(value: int, name: str, least: int) -> None:
    """Refuse what is not an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
