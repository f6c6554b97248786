"""Verification: same or different? ROC curves of all methods on pairs of people, patches or classes never seen.

A run is one test fold. Features, scaling and PCA are fitted on the images of the training pairs, parameters
are chosen by AUC on pairs held out from the training part (LFW: on View 1), and only then the test fold is
looked at. Methods that need class labels take part where the protocol gives identities.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..aml import AML, AMLCV
from ..baselines.gmml import GMML
from ..datasets.verification import VerificationSet, load_verification
from ..learner import MetricLearner
from ..linalg import Matrix, Vector
from ..metric import Mahalanobis
from ..registry import Method
from ..supervision import Pairs
from ..threshold import best_threshold
from .protocol import PROFILES, SUMS, WIDE, Plan, contenders
from .store import Task

__all__ = ["RATES", "SETS", "measures", "run", "tasks"]

LabelledIndexPairs = tuple[NDArray[np.integer], NDArray[np.integer]]

OFFLINE = ("letters-unseen", "digits-unseen")
SETS = ("lfw", "pubfig", "mvs", "patches", *OFFLINE)
RATES = tuple(np.linspace(0.0, 1.0, 101).tolist())
"""False positive rates at which ROC curves are kept."""
PATCHES = ("mvs", "patches")
FACE_SIFT: dict[str, Any] = {"step": 10, "sizes": (12, 18, 24), "root": True, "mirror": True}
FACE_COMPONENTS = 150
"""Chosen on LFW's View 1."""
MAX_POINTS = 3000
"""Methods that learn from points with labels get at most so many of the training images (quick: 600)."""
TUNE_POINTS = 1000
"""Their parameters are chosen with at most so many; those of methods that learn from pairs …"""
TUNE_PAIRS = 6000
"""… with at most so many pairs, unless a parameter weighs a sum over pairs."""
QUICK_PAIRS = 2000
QUICK_FOLDS = 3
_ABOUT = {
    "lfw": "LFW View 2, image-restricted: pairs only, no outside data; dense SIFT, PCA 150, whitened.",
    "pubfig": "PubFig, people of the test pairs unseen; dense SIFT, PCA 150, whitened.",
    "mvs": "Photo Tourism patches: trained on Liberty and Notre Dame, tested on Yosemite; Siamese CNN.",
    "patches": "Real patches; pairs made by known shifts, turns, scalings and light; test patches unseen; Siamese CNN.",
    "letters-unseen": "Letters of the test pairs are in no training pair; 16 features.",
    "digits-unseen": "Digits of the test pairs are in no training pair; pixels, PCA 50.",
}
RESTRICTED = ("lfw",)
"""Sets whose protocol gives training pairs only, not who is on them."""


def tasks(plan: Plan) -> list[Task]:
    """A run a method and test fold, on every set that can be had here; quick: those that anyone has."""
    names = plan.datasets or (OFFLINE if plan.profile == "quick" else available(SETS)[0])
    chosen = [name for name in names if name in SETS]
    found = []
    for name in chosen:
        folds = len(list(verification_set(name).splits()))
        if plan.profile == "quick":
            folds = min(folds, QUICK_FOLDS)
        if plan.trials:
            folds = min(folds, plan.trials)
        for fold in range(folds):
            for method in plan.methods or contenders():
                if applies(contenders()[method], name):
                    found.append(Task("verification", name, method, fold, plan.profile, plan.seed))
    return found


def about(name: str) -> str:
    """A sentence on the set and its protocol."""
    return _ABOUT.get(name, "")


def available(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Sets that can be loaded here, and why the others cannot."""
    found, missing = [], {}
    for name in names:
        try:
            verification_set(name)
        except (OSError, ValueError, ImportError) as error:
            missing[name] = str(error).splitlines()[0]
        else:
            found.append(name)
    return found, missing


def applies(method: Method, name: str) -> bool:
    """Whether a method can learn under the protocol of a set."""
    if "pairs" in method.supervision:
        return True
    return name not in RESTRICTED and name not in PATCHES


def run(task: Task) -> dict[str, Any]:
    """Learn from the training pairs of one fold and judge the test pairs."""
    profile, method = PROFILES[task.profile], contenders()[task.method]
    data = verification_set(task.dataset)
    train, test = list(data.splits())[task.trial]
    if task.profile == "quick":
        rng = np.random.default_rng([task.seed, task.trial, 7])
        train, test = (np.sort(rng.permutation(part)[:QUICK_PAIRS]) for part in (train, test))
    started = time.perf_counter()
    points = min(MAX_POINTS, profile.tune_rows)
    params = _chosen(data, method, train, task.trial, profile.thin)
    F = features(data, data.pairs[train], data.labels[train])
    metric = learned(method, params, data, F, data.pairs[train], data.labels[train], task.trial, points)
    seconds = time.perf_counter() - started
    threshold = best_threshold(distances(metric, F, data.pairs[train]), data.labels[train])
    found = measures(data.labels[test], distances(metric, F, data.pairs[test]), threshold)
    return found | {"params": params, "tune_and_fit_seconds": seconds, "n_train": len(train), "n_test": len(test)}


def verification_set(name: str) -> VerificationSet:
    """A set under the protocol of its experiment."""
    return load_verification(name)


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
    from ..features import cached

    used: dict[str, Any] = {"pairs": _digest(pairs), "labels": _digest(labels)}
    if data.name in PATCHES:
        found = cached(None, f"{data.name}-siamese", data.X, used, lambda: _siamese(data.X, pairs, labels))
    else:
        # Which pairs they are in does not matter for faces, only which images.
        used = {"rows": _digest(rows), "components": FACE_COMPONENTS} | FACE_SIFT
        found = cached(None, f"{data.name}-sift-pca", data.X, used, lambda: _faces(data.X, rows, data.name))
    return np.ascontiguousarray(found, dtype=np.float64)


def _faces(images: NDArray[np.uint8], rows: NDArray[np.integer], name: str) -> NDArray[np.floating]:
    """Dense SIFT, standardised, PCA, whitened, unit length."""
    from ..features import cached, dense_sift, sift_pipeline

    raw = cached(None, f"{name}-sift", images, FACE_SIFT, lambda: dense_sift(images, **FACE_SIFT))
    projected: NDArray[np.floating] = sift_pipeline(FACE_COMPONENTS).fit(raw[rows]).transform(raw)
    return projected


def _siamese(
    images: NDArray[np.uint8], pairs: NDArray[np.integer], labels: NDArray[np.integer]
) -> NDArray[np.floating]:
    """The embedding of a network trained on the pairs; its Euclidean distance is the network's own."""
    from ..features import SiameseNet

    embedded: NDArray[np.floating] = SiameseNet(random_state=0).fit(images, pairs, labels).transform(images)
    return embedded


def _digest(values: NDArray[np.integer]) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, dtype=np.int64).tobytes()).hexdigest()


# --- learning ---------------------------------------------------------------------------------------------


def _chosen(data: VerificationSet, method: Method, train: NDArray[np.integer], fold: int, thin: int) -> dict[str, Any]:
    """Parameters with the best AUC on pairs held out from the training part, or on View 1 where there is one."""
    if data.development is not None:
        return dict(_chosen_on_view(data.name, method.name, thin))
    held = _held_out(data, train, fold)
    learning, judging = train[~held], train[held]
    return _best(
        data,
        method,
        (data.pairs[learning], data.labels[learning]),
        (data.pairs[judging], data.labels[judging]),
        fold,
        thin,
    )


@lru_cache(maxsize=64)
def _chosen_on_view(name: str, method: str, thin: int) -> dict[str, Any]:
    """The same for all test folds, so a process looks once."""
    data = verification_set(name)
    view = data.development
    assert view is not None
    learning, judging = (view.train_pairs, view.train_labels), (view.test_pairs, view.test_labels)
    return _best(data, contenders()[method], learning, judging, 0, thin)


def _best(
    data: VerificationSet,
    method: Method,
    learn_from: LabelledIndexPairs,
    judge_on: LabelledIndexPairs,
    random_state: int,
    thin: int,
) -> dict[str, Any]:
    """The candidate of a method's grid with the best AUC on other pairs than it learned from."""
    grid = {name: list(values)[::thin] for name, values in method.grid.items()}
    candidates = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    if len(candidates) == 1:
        return candidates[0]
    (learning, learning_labels), (judging, judging_labels) = learn_from, judge_on
    F = features(data, learning, learning_labels)
    if method.estimator in (AML, GMML):
        # One search shares scatter matrices, eigenbases and starts; GMML is its alpha = 0.
        fold_of = np.repeat([0, 1], [len(learning), len(judging)])
        search = AMLCV(
            alphas=grid.get("alpha", [0.0]),
            betas=grid.get("beta", [1.0]),
            ts=grid["t"],
            cv=[(np.flatnonzero(fold_of == 0), np.flatnonzero(fold_of == 1))],
            preprocessor=F,
        ).fit(np.concatenate([learning, judging]), np.concatenate([learning_labels, judging_labels]))
        return {name: search.best_params_[name] for name in grid}

    if method.name not in SUMS and "pairs" in method.supervision and len(learning) > TUNE_PAIRS:
        few = np.random.default_rng(random_state).permutation(len(learning))[:TUNE_PAIRS]
        learning, learning_labels = learning[few], learning_labels[few]

    def auc(params: dict[str, Any]) -> float:
        metric = learned(method, params, data, F, learning, learning_labels, random_state, TUNE_POINTS)
        return float(roc_auc_score(judging_labels, -distances(metric, F, judging)))

    return max(candidates, key=auc)


def _held_out(data: VerificationSet, train: NDArray[np.integer], fold: int) -> NDArray[np.bool_]:
    """One further fold of the training pairs (people there are new, too), or a quarter where there is one fold."""
    folds = np.unique(data.folds[train])
    if len(folds) > 1:
        held: NDArray[np.bool_] = data.folds[train] == folds[fold % len(folds)]
        return held
    return np.arange(len(train)) % 4 == 0


def learned(
    method: Method,
    params: dict[str, Any],
    data: VerificationSet,
    F: Matrix,
    pairs: NDArray[np.integer],
    labels: NDArray[np.integer],
    random_state: int,
    max_points: int,
) -> Mahalanobis:
    """The metric a method learns from index pairs on F, or from the images of those pairs with who is on them."""
    learner = method.estimator(**params)
    if "random_state" in learner.get_params():
        learner.set_params(random_state=random_state)
    if "pairs" in method.supervision:
        return learner.set_params(preprocessor=F).fit(pairs, labels).get_metric()
    assert data.identities is not None
    rows = np.unique(pairs)
    if len(rows) > max_points:
        rows = np.sort(np.random.default_rng(random_state).permutation(rows)[:max_points])
    learner.fit(F[rows], data.identities[rows])
    return learner.get_metric() if isinstance(learner, MetricLearner) else Mahalanobis(learner.components_)


def distances(metric: Mahalanobis, F: Matrix, pairs: NDArray[np.integer]) -> Vector:
    """Distances of index pairs: every point is embedded once, pairs are compared by blocks."""
    found = np.empty(len(pairs))
    for block, V in Pairs(F @ metric.components.T, pairs[:, 0], pairs[:, 1]).differences():
        found[block] = np.sqrt(np.einsum("ij,ij->i", V, V))
    return found


# --- measures ---------------------------------------------------------------------------------------------


def measures(y: NDArray[np.integer], distance: Vector, threshold: float) -> dict[str, Any]:
    """AUC, equal error rate, accuracy at a threshold, false positives at 95 % recall, and the ROC curve."""
    false, true, _ = roc_curve(y, -distance, drop_intermediate=False)
    return {
        "auc": float(roc_auc_score(y, -distance)),
        "eer": _crossing(false, 1.0 - true),
        "accuracy": float(np.mean(np.where(distance <= threshold, 1, -1) == y)),
        "fpr95": float(false[np.argmax(true >= 0.95)]),
        "roc": np.interp(RATES, false, true).tolist(),
    }


def _crossing(rising: Vector, falling: Vector) -> float:
    """Common value of two curves where they cross, on the line between their points."""
    gap = rising - falling
    after = int(np.argmax(gap >= 0.0))
    if after == 0:
        return float(rising[0])
    share = -gap[after - 1] / (gap[after] - gap[after - 1])
    return float(rising[after - 1] + share * (rising[after] - rising[after - 1]))
