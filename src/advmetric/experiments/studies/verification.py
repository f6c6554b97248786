"""Verification: same or different? ROC curves of all methods on pairs of people, patches or classes never seen.

A run is one test fold. Features, scaling and PCA are fitted on the images of the training pairs, parameters
are chosen by AUC on pairs held out from the training part (LFW: on View 1), and only then the test fold is
looked at. Methods that need class labels take part where the protocol gives identities.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from advmetric.algorithms.registry import SEARCH, Method
from advmetric.datasets.verification import VerificationSet, load_verification
from advmetric.evaluation.roc import RATES, roc_measures
from advmetric.evaluation.significance import p_values_against_best
from advmetric.experiments.engine.plan import PROFILES, Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.engine.study import Section, Study
from advmetric.experiments.protocol import WIDE, contenders, reason_missing
from advmetric.experiments.report.comparison import LEVEL
from advmetric.experiments.report.content import (
    Cell,
    Drawing,
    Heading,
    Paragraph,
    Table,
    mean_and_error,
    values_of,
)
from advmetric.experiments.report.drawing import subplots
from advmetric.features import cached, dense_sift, sift_pipeline
from advmetric.learners.tuning import PairScorer, best_params
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.metric.threshold import best_threshold
from advmetric.pairs.data import LabelledPoints, Pairs, Samples
from advmetric.plots.axes import COLORS
from advmetric.utils.typing import Indices, Matrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY", "choose_params", "features"]

OFFLINE = ("letters-unseen", "digits-unseen")
SETS = ("lfw", "pubfig", "mvs", "patches", *OFFLINE)
PATCHES = ("mvs", "patches")
FACE_SIFT: dict[str, Any] = {"step": 10, "sizes": (12, 18, 24), "root": True, "mirror": True}
FACE_COMPONENTS = 150
"""Chosen on LFW's View 1."""
MAX_POINTS = 3000
"""Methods that learn from points with labels get at most this many of the training images (quick: 600)."""
TUNE_POINTS = 1000
"""Their parameters are chosen with at most this many; those of methods that learn from pairs …"""
TUNE_PAIRS = 6000
"""… with at most this many pairs, unless a parameter weighs a sum over pairs."""
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
    """Return a task per method and test fold, on every set that can be had here; quick: those that anyone has."""
    names = plan.datasets or (OFFLINE if plan.profile == "quick" else available(SETS, plan.data_home)[0])
    chosen = [name for name in names if name in SETS]
    found = []
    for name in chosen:
        folds = len(list(load_verification(name, data_home=plan.data_home).splits()))
        if plan.profile == "quick":
            folds = min(folds, QUICK_FOLDS)
        if plan.trials:
            folds = min(folds, plan.trials)
        for fold in range(folds):
            # Choosing among all losses takes longer than everything else together: not in the quick profile.
            known = [m for m in contenders() if plan.profile != "quick" or m != SEARCH.name]
            for method in plan.methods or known:
                if applies(contenders()[method], name):
                    found.append(Task("verification", name, method, fold, plan.profile, plan.seed))
    return found


def missing(plan: Plan) -> list[str]:
    """Return a sentence for each set that the study goes without."""
    if plan.datasets:
        return []
    if plan.profile == "quick":
        return ["Faces and patches are not bundled: the quick run verifies letters and digits of unseen classes."]
    _, absent = available(SETS, plan.data_home)
    return [f"{name} is not among the verification sets: {why}" for name, why in absent.items()]


def available(names: Sequence[str], data_home: Path | None) -> tuple[list[str], dict[str, str]]:
    """Return the sets that can be loaded here, and why the others cannot."""
    reasons = {name: reason_missing(load_verification, name, data_home) for name in names}
    absent = {name: why for name, why in reasons.items() if why is not None}
    return [name for name in names if name not in absent], absent


def applies(method: Method, name: str) -> bool:
    """Whether a method can learn under the protocol of a set."""
    if "pairs" in method.supervision:
        return True
    return name not in RESTRICTED and name not in PATCHES


def run(task: Task, data_home: Path | None) -> dict[str, Any]:
    """Learn from the training pairs of one fold and judge the test pairs."""
    profile, method = PROFILES[task.profile], contenders()[task.method]
    data = load_verification(task.dataset, data_home=data_home)
    train, test = list(data.splits())[task.trial]
    if task.profile == "quick":
        rng = np.random.default_rng([task.seed, task.trial, 7])
        train, test = (np.sort(rng.permutation(part)[:QUICK_PAIRS]) for part in (train, test))
    started = time.perf_counter()
    params = choose_params(data, method, train, task.trial, profile.thin, data_home)
    F = features(data, data.pairs[train], data.labels[train])
    samples = _samples(method, data, F, train, task.trial, min(MAX_POINTS, profile.tune_rows))
    metric = _learn(make_learner(method, params, task.trial), samples)
    seconds = time.perf_counter() - started
    Z = F @ metric.components.T  # every point is embedded once
    training, judged = (Pairs(Z, data.pairs[part, 0], data.pairs[part, 1], data.labels[part]) for part in (train, test))
    identity = Mahalanobis(np.eye(Z.shape[1]))
    threshold = best_threshold(identity.pair_distance(training), training.labels)
    found = roc_measures(judged.labels, identity.pair_distance(judged), threshold)
    return found | {"params": params, "tune_and_fit_seconds": seconds, "n_train": len(train), "n_test": len(test)}


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


# --- learning ---------------------------------------------------------------------------------------------


def choose_params(
    data: VerificationSet, method: Method, train: Indices, fold: int, thin: int, data_home: Path | None
) -> dict[str, Any]:
    """Return the parameters with the best AUC on pairs held out from the training part, or on View 1."""
    if data.development is not None:
        return dict(_choose_on_view(data.name, method.name, thin, data_home))
    held = _held_out(data, train, fold)
    return _best(data, method, train[~held], train[held], fold, thin)


@lru_cache(maxsize=64)
def _choose_on_view(name: str, method: str, thin: int, data_home: Path | None) -> dict[str, Any]:
    """The same for all test folds, so that a process searches once."""
    data = load_verification(name, data_home=data_home)
    view = data.development
    assert view is not None
    n = len(view.train_pairs)
    both = replace(
        data,
        pairs=np.concatenate([view.train_pairs, view.test_pairs]),
        labels=np.concatenate([view.train_labels, view.test_labels]),
        folds=np.repeat([0, 1], [n, len(view.test_pairs)]),
    )
    return _best(both, contenders()[method], np.arange(n), np.arange(n, len(both.pairs)), 0, thin)


def _best(
    data: VerificationSet, method: Method, learning: Indices, judging: Indices, random_state: int, thin: int
) -> dict[str, Any]:
    """Return the candidate of a method's grid with the best AUC on other pairs than it learned from."""
    if not method.grid:
        return {}
    F = features(data, data.pairs[learning], data.labels[learning])
    fast = method.estimator.accepts_batches  # needs the scatter of the pairs only
    if len(learning) > TUNE_PAIRS and not (fast or method.weighs_pairs_in_sum) and "pairs" in method.supervision:
        learning = learning[np.random.default_rng(random_state).permutation(len(learning))[:TUNE_PAIRS]]
    samples = _samples(method, data, F, learning, random_state, TUNE_POINTS)
    judged = Pairs(F, data.pairs[judging, 0], data.pairs[judging, 1], data.labels[judging])
    learner = make_learner(method, {}, random_state)
    return best_params(learner, [(samples, judged)], method.grid, score=PairScorer(), thin=thin)


def _samples(
    method: Method, data: VerificationSet, F: Matrix, chosen: Indices, random_state: int, max_points: int
) -> Samples:
    """Return what a method learns from: pairs, or the images of those pairs with the people on them."""
    if "pairs" in method.supervision:
        return Pairs(F, data.pairs[chosen, 0], data.pairs[chosen, 1], data.labels[chosen])
    assert data.identities is not None
    rows = np.unique(data.pairs[chosen])
    if len(rows) > max_points:
        rows = np.sort(np.random.default_rng(random_state).permutation(rows)[:max_points])
    return LabelledPoints(F[rows], np.unique(data.identities[rows], return_inverse=True)[1])


def _held_out(data: VerificationSet, train: Indices, fold: int) -> NDArray[np.bool_]:
    """Return a further fold of the training pairs (people there are new, too), or a quarter where there is one fold."""
    folds = np.unique(data.folds[train])
    if len(folds) > 1:
        held: NDArray[np.bool_] = data.folds[train] == folds[fold % len(folds)]
        return held
    return np.arange(len(train)) % 4 == 0


def make_learner(method: Method, params: dict[str, Any], random_state: int) -> Any:
    """Return the estimator with its parameters and seed."""
    learner = method.estimator(**params)
    if "random_state" in learner.get_params():
        learner.set_params(random_state=random_state)
    return learner


def _learn(learner: Any, samples: Samples) -> Mahalanobis:
    if isinstance(samples, Pairs):
        learner.set_params(preprocessor=samples.X).fit(samples.indices, samples.labels)
    else:
        learner.fit(samples.X, samples.labels)
    return Mahalanobis(learner.components_)


# --- the report -------------------------------------------------------------------------------------------


def section(records: Sequence[Record]) -> Section:
    """Return a table per set and the mean ROC curves."""
    blocks: list[Any] = [
        Paragraph(
            "Parameters by AUC on held-out training pairs (LFW: on View 1; AMLCV: by cross-validation over random "
            "fifths of the training pairs); features fitted on the images of training pairs; thresholds from training "
            "pairs. Mean ± standard error over the folds that all methods finished."
        )
    ]
    kept: list[Record] = []
    for dataset in dict.fromkeys(r.task.dataset for r in records):
        here = _paired([r for r in records if r.task.dataset == dataset])
        kept += here
        names = sorted({r.task.method for r in here}, key=lambda m: -values_of(here, "auc", method=m).mean())
        rows: list[list[Cell | str]] = [
            [
                name,
                *(mean_and_error(values_of(here, key, method=name)) for key in ("auc", "eer", "accuracy", "fpr95")),
                Cell(f"{values_of(here, 'tune_and_fit_seconds', method=name).mean():.1f}", timing=True),
            ]
            for name in names
        ]
        folds = len({r.task.trial for r in here})
        blocks += [
            Heading(f"{dataset} ({folds} folds)"),
            Paragraph(_ABOUT.get(dataset, ""), note=True),
            Table(["method", "AUC", "equal error", "accuracy", "false positives at 95 % recall", "seconds"], rows),
        ]
    caption = "Mean ROC over the folds, AUC in the legend; band: standard deviation."
    blocks.append(Drawing(lambda: _figure(kept), caption))
    return Section("Verification: same or different?", blocks, _sentences(records))


def _paired(records: Sequence[Record]) -> list[Record]:
    """Return the records of the folds that every method finished: comparisons are paired."""
    done = [{r.task.trial for r in records if r.task.method == m} for m in {r.task.method for r in records}]
    common = set.intersection(*done)
    return [r for r in records if r.task.trial in common]


def _sentences(records: Sequence[Record]) -> list[str]:
    """Return one sentence per set: where AML's AUC stands."""
    found = []
    for dataset in dict.fromkeys(r.task.dataset for r in records):
        here = _paired([r for r in records if r.task.dataset == dataset])
        lost = {m: 1.0 - values_of(here, "auc", method=m) for m in dict.fromkeys(r.task.method for r in here)}
        if "AML" not in lost or not len(lost["AML"]):
            continue
        mean = {m: 1.0 - float(values.mean()) for m, values in lost.items()}
        best = max(mean, key=lambda m: mean[m])
        text = f"Verification, {dataset}: AUC {mean['AML']:.3f} with AML"
        text += f", {mean['Euclidean']:.3f} with Euclidean" if "Euclidean" in mean else ""
        if best == "AML":
            text += "; the highest of all."
        else:
            worse = p_values_against_best(lost)["AML"] < LEVEL
            text += f"; the highest is {best}'s {mean[best]:.3f}, {'' if worse else 'not '}significantly above AML's."
        found.append(text)
    return found


def _figure(records: Sequence[Record]) -> Figure:
    """Return mean ROC curves over the folds, a panel per set, the best first; bands for AML and Euclidean."""
    datasets = list(dict.fromkeys(r.task.dataset for r in records))
    figure, axes = subplots(len(datasets), 2, (4.6, 3.9))
    for ax, dataset in zip(axes, datasets, strict=True):
        names = {r.task.method for r in records if r.task.dataset == dataset}
        auc = {name: values_of(records, "auc", dataset=dataset, method=name).mean() for name in names}
        for place, name in enumerate(sorted(auc, key=lambda name: (-auc[name], name))):
            curves = values_of(records, "roc", dataset=dataset, method=name)
            color = {"AML": COLORS[1], "Euclidean": "#000000"}.get(name, COLORS[(0, 2, 3, 4, 5, 6)[place % 6]])
            wide = name in ("AML", "Euclidean")
            label = f"{name} {auc[name]:.3f}"
            ax.plot(RATES, curves.mean(axis=0), color=color, linewidth=1.8 if wide else 0.9, label=label)
            if wide and len(curves) > 1:
                low, high = (curves.mean(axis=0) + sign * curves.std(axis=0) for sign in (-1, 1))
                ax.fill_between(RATES, low, high, color=color, alpha=0.12, linewidth=0)
        ax.set(title=dataset, xlabel="false positives", ylabel="true positives", xlim=(0, 1), ylim=(0, 1.01))
        ax.legend(frameon=False, fontsize="x-small", loc="lower right")
    return figure


STUDY = Study("verification", "roc", tasks, run, section, missing)
