"""Verification: same or different? ROC curves of all methods on pairs of people, patches or classes never seen.

A run is one test fold, learned by :mod:`..verification_protocol`; only then the test fold is looked at. Methods that
need class labels take part where the protocol gives identities.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advmetric.algorithms.registry import SEARCH, Method
from advmetric.datasets.verification import load_verification
from advmetric.evaluation.roc import RATES, roc_measures
from advmetric.evaluation.significance import p_values_against_best, spread
from advmetric.experiments.engine.plan import PROFILES, Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.engine.study import Section, Study
from advmetric.experiments.protocol import contenders, reason_missing
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
from advmetric.experiments.verification_protocol import (
    OFFLINE,
    PATCHES,
    choose_params,
    features,
    learn,
    make_learner,
    pairs_of,
    samples_of,
)
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.metric.threshold import best_threshold
from advmetric.plots.axes import COLORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SETS", "STUDY", "available"]

SETS = ("lfw", "pubfig", "mvs", "patches", *OFFLINE)
MAX_POINTS = 3000
"""Methods that learn from points with labels get at most this many of the training images (quick: 600)."""
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
    samples = samples_of(method, data, F, train, task.trial, min(MAX_POINTS, profile.tune_rows))
    metric = learn(make_learner(method, params, task.trial), samples, data.folds[train])
    seconds = time.perf_counter() - started
    Z = F @ metric.components.T  # every point is embedded once
    training, judged = (pairs_of(data, Z, part) for part in (train, test))
    identity = Mahalanobis(np.eye(Z.shape[1]))
    threshold = best_threshold(identity.pair_distance(training), training.labels)
    found = roc_measures(judged.labels, identity.pair_distance(judged), threshold)
    return found | {"params": params, "tune_and_fit_seconds": seconds, "n_train": len(train), "n_test": len(test)}


# --- the report -------------------------------------------------------------------------------------------


def section(records: Sequence[Record]) -> Section:
    """Return a table per set and the mean ROC curves."""
    blocks: list[Any] = [
        Paragraph(
            "Parameters by AUC on up to three held-out folds of the training pairs (LFW: on View 1; AMLCV: by "
            "cross-validation over up to five parts of the training folds); features fitted on the images of training "
            "pairs; thresholds from training pairs. Mean ± standard error over the folds that all methods finished. "
            "The values of gamma and beta in PairAML's grid were fixed after a look at folds 1 and 5 of pubfig and "
            "fold 1 of the unseen letters and digits, learned without fold 0: on these folds its result is slightly "
            "favoured. AMLCV searched over random fifths of the training pairs in an earlier version. Keeping folds "
            "apart raised its AUC by .03 on average on five other sets of unseen classes, so it is done here; on "
            "digits-unseen it lowers the AUC (.712 before)."
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
                low, high = (curves.mean(axis=0) + sign * spread(curves) for sign in (-1, 1))
                ax.fill_between(RATES, low, high, color=color, alpha=0.12, linewidth=0)
        ax.set(title=dataset, xlabel="false positives", ylabel="true positives", xlim=(0, 1), ylim=(0, 1.01))
        ax.legend(frameon=False, fontsize="x-small", loc="lower right")
    return figure


STUDY = Study("verification", "roc", tasks, run, section, missing)
