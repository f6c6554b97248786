"""`VerificationSet`: images or features, labelled pairs of them, and who may be trained on when what is tested."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
LabelledFolds = tuple[Indices, Indices, Indices]
"""Pairs, their labels and their folds."""


@dataclass(frozen=True, eq=False)
class Development:
    """Pairs for choosing a model, apart from those that report on it (LFW: View 1).

    Parameters
    ----------
    train_pairs, test_pairs : (N, 2) int64 arrays
        Row numbers into the `X` of the set.
    train_labels, test_labels : (N,) int64 arrays
        +1 same, -1 different.
    """

    train_pairs: Indices
    train_labels: Indices
    test_pairs: Indices
    test_labels: Indices


@dataclass(frozen=True, eq=False)
class VerificationSet:
    """Labelled pairs of images, or of feature vectors, in folds. Checked when made.

    Parameters
    ----------
    name : str
    X : (n, h, w) uint8 array of grey images, or (n, d) float64 array of features
    pairs : (N, 2) int64 array
        Row numbers into X.
    labels : (N,) int64 array
        +1 same, -1 different.
    folds : (N,) int64 array
        The fold of each pair.
    identities : (n,) array or None
        Who or what is on each image, as numbers or names; None if that is not told.
    development : Development or None
        Pairs for tuning, where the protocol has them.
    disjoint : bool
        Whether folds share no identity: what is tested was never trained on.
    source : {"bundled", "data home", "folder", "array", "openml"}
        Where the data was found.
    licence, citation, note : str
        Terms of use; what to cite; what to know about the pairs.
    test_fold : int or None
        The one fold that is tested in sets with a fixed split; None if each fold has its turn.
    """

    name: str
    X: NDArray
    pairs: Indices
    labels: Indices
    folds: Indices
    identities: NDArray | None
    development: Development | None
    disjoint: bool
    source: str
    licence: str
    citation: str
    note: str
    test_fold: int | None = None

    def __post_init__(self) -> None:
        n, place = len(self.X), f"verification set {self.name!r}"
        check_pairs(self.pairs, self.labels, n, self.identities, place)
        if self.folds.shape != self.labels.shape:
            raise ValueError(f"{place}: {len(self.labels)} pairs have folds of shape {self.folds.shape}")
        check_folds(self.labels, self.folds, place)
        if self.development is not None:
            view = self.development
            check_pairs(view.train_pairs, view.train_labels, n, self.identities, f"{place}, development training")
            check_pairs(view.test_pairs, view.test_labels, n, self.identities, f"{place}, development test")

    @classmethod
    def of_identities(
        cls, name: str, X: NDArray, identities: NDArray, labelled: LabelledFolds, **others: Any
    ) -> VerificationSet:
        """Return a set of (pairs, labels, folds) that is ``disjoint`` if the identities say so."""
        pairs, labels, folds = labelled
        disjoint = share_nothing(identities, pairs, folds)
        return cls(name, X, pairs, labels, folds, identities, disjoint=disjoint, **others)

    @property
    def is_images(self) -> bool:
        """Whether X holds images (and not features)."""
        return self.X.ndim == 3

    def splits(self) -> Iterator[tuple[Indices, Indices]]:
        """Yield (training, test) positions of pairs: one for each fold, or the one of a fixed split."""
        tested = np.unique(self.folds) if self.test_fold is None else [self.test_fold]
        for fold in tested:
            yield np.flatnonzero(self.folds != fold), np.flatnonzero(self.folds == fold)


def signs(same: NDArray) -> Indices:
    """+1 where true or positive, -1 elsewhere."""
    return np.where(np.asarray(same) > 0, 1, -1).astype(np.int64)


def share_nothing(identities: NDArray, pairs: Indices, folds: Indices) -> bool:
    """Whether no identity is in the pairs of two folds."""
    _, codes = np.unique(identities, return_inverse=True)
    seen = np.unique(np.column_stack([codes[pairs].ravel(), np.repeat(folds, 2)]), axis=0)
    return len(np.unique(seen[:, 0])) == len(seen)


def check_pairs(pairs: NDArray, labels: NDArray, n: int, identities: NDArray | None, place: str) -> None:
    """Raise a ValueError that names the first pair that is out of range or labelled against the identities."""
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        raise ValueError(f"{place}: pairs must be an (N, 2) array with N > 0, got shape {pairs.shape}")
    if labels.shape != (len(pairs),):
        raise ValueError(f"{place}: {len(pairs)} pairs have labels of shape {labels.shape}")
    if not np.isin(labels, (-1, 1)).all():
        at = int(np.flatnonzero(~np.isin(labels, (-1, 1)))[0])
        raise ValueError(f"{place}: pair {at} has the label {labels[at]}; labels are +1 (same) and -1 (different)")
    outside = ((pairs < 0) | (pairs >= n)).any(axis=1)
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        raise ValueError(f"{place}: pair {at} = {tuple(pairs[at].tolist())} is out of range: there are {n} images")
    if identities is None:
        return
    if identities.shape != (n,):
        raise ValueError(f"{place}: {n} images have identities of shape {identities.shape}")
    wrong = (identities[pairs[:, 0]] == identities[pairs[:, 1]]) != (labels > 0)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        left, right = identities[pairs[at]].tolist()
        raise ValueError(
            f"{place}: pair {at} = {tuple(pairs[at].tolist())} has the label {labels[at]:+d}, "
            f"but its images show {left!r} and {right!r}"
        )


def check_folds(labels: Indices, folds: Indices, place: str) -> None:
    """Refuse a single fold, and a fold whose pairs are all of one kind."""
    found = np.unique(folds)
    if len(found) < 2:
        raise ValueError(f"{place}: all pairs are in one fold, so there is nothing to train on when it is tested")
    for fold in found:
        kinds = np.unique(labels[folds == fold])
        if len(kinds) < 2:
            kind = "same" if kinds[0] > 0 else "different"
            raise ValueError(f"{place}: all pairs of fold {fold} are of one kind ({kind}); a fold needs both")
