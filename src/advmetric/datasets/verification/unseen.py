"""Verification on unseen classes of bundled data: what anyone can run offline."""

from pathlib import Path

import numpy as np

from advmetric.datasets.loader import load_dataset

from .draw import disjoint_pairs
from .sets import VerificationSet


def load_letters(home: Path | None, *, n_folds: int = 5, n_pairs: int = 2000, seed: int = 0) -> VerificationSet:
    """Letters, as 16 features."""
    return _unseen("letters-unseen", "letters", home, n_folds, n_pairs, seed)


def load_digits(home: Path | None, *, n_folds: int = 5, n_pairs: int = 2000, seed: int = 0) -> VerificationSet:
    """Digits, as images of 28 x 28."""
    return _unseen("digits-unseen", "mnist-4000", home, n_folds, n_pairs, seed)


def _unseen(name: str, dataset: str, home: Path | None, n_folds: int, n_pairs: int, seed: int) -> VerificationSet:
    data = load_dataset(dataset, data_home=home)
    pairs, labels, folds = disjoint_pairs(data.y, n_folds, n_pairs, seed, f"verification set {name!r}")
    groups = [
        "".join(data.target_names[code] for code in np.unique(data.y[pairs[folds == fold]])) for fold in range(n_folds)
    ]
    return VerificationSet(
        name=name,
        X=data.X.reshape(-1, 28, 28).astype(np.uint8) if dataset == "mnist-4000" else data.X,
        pairs=pairs,
        labels=labels,
        folds=folds,
        identities=data.y,
        development=None,
        disjoint=True,
        source=data.source,
        licence=data.licence,
        citation=data.citation,
        note=f"Generated pairs (seed {seed}) of {dataset}: balanced, uniform of each kind, none twice. The classes of "
        f"a fold are in no pair of another fold: {', '.join(groups)}.",
    )
