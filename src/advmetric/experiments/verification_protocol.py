"""What studies on verification sets share: features, training samples, and tuning on held-out training pairs.

Features, scaling and PCA are fitted on the images of the training pairs. Parameters are chosen by AUC on folds held out
from the training pairs (LFW: on View 1). Nothing here looks at test pairs.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import has_fit_parameter

from advmetric.algorithms.registry import Method
from advmetric.datasets.verification import VerificationSet, load_verification
from advmetric.features import cached, dense_sift, sift_pipeline
from advmetric.learners.folds import Part
from advmetric.learners.tuning import PairScorer, best_params
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.pairs.data import LabelledPoints, Pairs, Samples
from advmetric.utils.typing import Indices, Matrix

from .protocol import WIDE, contenders

__all__ = [
    "OFFLINE",
    "PATCHES",
    "choose_params",
    "features",
    "learn",
    "make_learner",
    "pairs_of",
    "samples_of",
    "tuning_parts",
]

OFFLINE = ("letters-unseen", "digits-unseen")
PATCHES = ("mvs", "patches")
FACE_SIFT: dict[str, Any] = {"step": 10, "sizes": (12, 18, 24), "root": True, "mirror": True}
FACE_COMPONENTS = 150
"""Chosen on LFW's View 1."""
HELD_OUT = 3
"""Folds of the training pairs, each held out once to choose parameters: between single folds the AUC varies more than
between parameters."""
TUNE_POINTS = 1000
"""Parameters of methods that learn from points are chosen with at most this many; those of methods on pairs …"""
TUNE_PAIRS = 6000
"""… with at most this many pairs, unless the best parameters depend on their number."""


# --- features ---------------------------------------------------------------------------------------------


def features(data: VerificationSet, pairs: NDArray[np.integer], labels: NDArray[np.integer]) -> Matrix:
    """Features of all images, every step of which is fitted on the images of the given (training) pairs.

    Faces and patches are kept on disk: all methods of a fold share them.
    """
    rows = np.unique(pairs)
    if data.name in OFFLINE:
        raw = data.X.reshape(len(data.X), -1).astype(np.float64)
        steps: list[Any] = [StandardScaler()]
        if raw.shape[1] > WIDE:
            steps.append(PCA(50, svd_solver="randomized", random_state=0))
        return np.ascontiguousarray(make_pipeline(*steps).fit(raw[rows]).transform(raw))
    used: dict[str, Any] = {"pairs": _digest(pairs), "labels": _digest(labels), "network": "deep"}
    if data.name in PATCHES:
        found = cached(None, f"{data.name}-siamese", data.X, used, lambda: _siamese(data.X, pairs, labels))
    else:
        # Which pairs they are in does not matter for faces, only which images.
        used = {"rows": _digest(rows), "components": FACE_COMPONENTS} | FACE_SIFT
        found = cached(None, f"{data.name}-sift-pca", data.X, used, lambda: _faces(data.X, rows, data.name))
    return np.ascontiguousarray(found, dtype=np.float64)


def _faces(images: NDArray[np.uint8], rows: NDArray[np.integer], name: str) -> NDArray[np.floating]:
    """Dense SIFT, standardised, PCA, whitened, unit length."""
    raw = cached(None, f"{name}-sift", images, FACE_SIFT, lambda: dense_sift(images, **FACE_SIFT))
    projected: NDArray[np.floating] = sift_pipeline(FACE_COMPONENTS).fit(raw[rows]).transform(raw)
    return projected


def _siamese(
    images: NDArray[np.uint8], pairs: NDArray[np.integer], labels: NDArray[np.integer]
) -> NDArray[np.floating]:
    """The embedding of a network trained on the pairs; its Euclidean distance is the network's own."""
    from advmetric.deep import SiameseNet  # needs torch

    embedded: NDArray[np.floating] = SiameseNet(random_state=0).fit(images, pairs, labels).transform(images)
    return embedded


def _digest(values: NDArray[np.integer]) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, dtype=np.int64).tobytes()).hexdigest()


# --- samples ----------------------------------------------------------------------------------------------


def pairs_of(data: VerificationSet, F: Matrix, chosen: Indices) -> Pairs:
    """Return some of the pairs of a set, with these features."""
    return Pairs(F, data.pairs[chosen, 0], data.pairs[chosen, 1], data.labels[chosen])


def samples_of(
    method: Method, data: VerificationSet, F: Matrix, chosen: Indices, random_state: int, max_points: int
) -> Samples:
    """Return what a method learns from: pairs, or the images of those pairs with the people on them."""
    if "pairs" in method.supervision:
        return pairs_of(data, F, chosen)
    assert data.identities is not None
    rows = np.unique(data.pairs[chosen])
    if len(rows) > max_points:
        rows = np.sort(np.random.default_rng(random_state).permutation(rows)[:max_points])
    return LabelledPoints(F[rows], np.unique(data.identities[rows], return_inverse=True)[1])


def make_learner(method: Method, params: dict[str, Any], random_state: int) -> Any:
    """Return the estimator with its parameters and seed."""
    learner = method.estimator(**params)
    if "random_state" in learner.get_params():
        learner.set_params(random_state=random_state)
    return learner


def learn(learner: Any, samples: Samples, folds: NDArray[np.integer] | None = None) -> Mahalanobis:
    """Return the metric that a learner finds; if it searches itself, pairs of a fold are never on both sides."""
    if isinstance(samples, Pairs):
        known = folds is not None and len(np.unique(folds)) > 1 and has_fit_parameter(learner, "groups")
        groups = {"groups": folds} if known else {}
        learner.set_params(preprocessor=samples.X).fit(samples.indices, samples.labels, **groups)
    else:
        learner.fit(samples.X, samples.labels)
    return Mahalanobis(learner.components_)


# --- choice of parameters ---------------------------------------------------------------------------------


def tuning_parts(data: VerificationSet, method: Method, train: Indices, fold: int) -> list[Part]:
    """Return samples to learn from and pairs to judge on, all from the training part (LFW: from View 1).

    Up to three folds of the training pairs are held out in turn (people there are new, too), or a quarter where there
    is one fold only.
    """
    splits: list[tuple[Indices, Indices]]
    if data.development is not None:
        data, learning = _with_view(data)
        splits = [(learning, np.arange(len(learning), len(data.pairs)))]
    else:
        splits = [(train[~held], train[held]) for held in _held_out(data.folds[train], fold)]
    return [_part(data, method, *part, fold) for part in splits]


def choose_params(
    data: VerificationSet, method: Method, train: Indices, fold: int, thin: int, data_home: Path | None
) -> dict[str, Any]:
    """Return the parameters of a method's grid with the best mean AUC on held-out pairs."""
    if not method.grid:
        return {}
    if data.development is not None:
        return dict(_choose_on_view(data.name, method.name, thin, data_home))
    return _best(method, tuning_parts(data, method, train, fold), fold, thin)


@lru_cache(maxsize=64)
def _choose_on_view(name: str, method: str, thin: int, data_home: Path | None) -> dict[str, Any]:
    """The same for all test folds, so that a process searches once."""
    data, known = load_verification(name, data_home=data_home), contenders()[method]
    return _best(known, tuning_parts(data, known, np.arange(0), 0), 0, thin)


def _best(method: Method, parts: list[Part], random_state: int, thin: int) -> dict[str, Any]:
    return best_params(make_learner(method, {}, random_state), parts, method.grid, score=PairScorer(), thin=thin)


def _part(data: VerificationSet, method: Method, learning: Indices, judging: Indices, random_state: int) -> Part:
    F = features(data, data.pairs[learning], data.labels[learning])
    fast = method.estimator.accepts_batches  # needs the scatter of the pairs only
    if len(learning) > TUNE_PAIRS and not (fast or method.tunes_on_all_pairs) and "pairs" in method.supervision:
        learning = learning[np.random.default_rng(random_state).permutation(len(learning))[:TUNE_PAIRS]]
    return samples_of(method, data, F, learning, random_state, TUNE_POINTS), pairs_of(data, F, judging)


def _with_view(data: VerificationSet) -> tuple[VerificationSet, Indices]:
    """Return the set with the pairs of View 1 instead of its own, and which of them are for training."""
    view = data.development
    assert view is not None
    n = len(view.train_pairs)
    both = replace(
        data,
        pairs=np.concatenate([view.train_pairs, view.test_pairs]),
        labels=np.concatenate([view.train_labels, view.test_labels]),
        folds=np.repeat([0, 1], [n, len(view.test_pairs)]),
    )
    return both, np.arange(n)


def _held_out(folds: NDArray[np.integer], fold: int) -> list[NDArray[np.bool_]]:
    """Return which training pairs are held out, for each part.

    >>> [np.flatnonzero(held).tolist() for held in _held_out(np.array([1, 2, 3, 4]), 0)]
    [[0], [1], [2]]
    """
    names = np.unique(folds)
    if len(names) < 2:
        return [np.arange(len(folds)) % 4 == 0]
    count = min(HELD_OUT, len(names))
    return [folds == names[(fold + place * len(names) // count) % len(names)] for place in range(count)]
