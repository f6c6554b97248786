"""Ablation: each discriminative loss without the adversary, with it among the candidates, and stopped early instead."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from advmetric.algorithms.discriminative import NeighborAML, PairAML
from advmetric.evaluation.robustness import attack_knn
from advmetric.evaluation.significance import holm, paired_p_value
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.engine.study import Section, Study
from advmetric.experiments.protocol import FOLDS, K, knn_error, split_of
from advmetric.experiments.report.comparison import ENOUGH, LEVEL
from advmetric.experiments.report.content import Cell, Paragraph, Table, mean_and_sd
from advmetric.learners.tuning import NeighborScorer, Params, make_folds, score_candidates

from .table1 import available

__all__ = ["LOSSES", "STUDY", "VARIANTS", "candidates"]

DATASETS = ("vehicle", "image-segment", "breast-cancer", "german-credit")
LOSSES = ("pairs", "margin", "softmax")
VARIANTS = ("no adversary", "adversary", "early stopping")
RADIUS = 0.2
"""Every test point may move by so many standard deviations under attack."""
_START: dict[str, tuple[float, ...]] = {"pairs": (0.25, 0.5), "margin": (0.1, 0.25), "softmax": (0.1, 0.25)}
"""Values of t."""
_FINE: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Values of gamma without the adversary …"""
_COARSE: tuple[float, ...] = (0.01, 0.1)
"""… and with it, or with early stopping."""
_ADVERSARIES = ({"alpha": 0.0, "beta": 10.0}, {"alpha": 1.0, "beta": 10.0}, {"alpha": 1.0, "beta": 3.0})
_ITERATIONS = ({"max_iter": 1000}, {"max_iter": 10}, {"max_iter": 4})
_COMPARED = (("adversary", "no adversary"), ("early stopping", "no adversary"), ("adversary", "early stopping"))


def candidates(loss: str, variant: str, quick: bool = False) -> list[Params]:
    """Return the settings to choose among: as many in each variant, 12, or 3 in a quick run."""
    ts = _START[loss][:1] if quick else _START[loss]
    if variant == "no adversary":
        gammas = _FINE[1::2] if quick else _FINE
        return [{"t": t, "gamma": gamma, "alpha": 0.0} for t, gamma in product(ts, gammas)]
    extras = _ADVERSARIES if variant == "adversary" else tuple({"alpha": 0.0, **steps} for steps in _ITERATIONS)
    gammas = _COARSE[1:] if quick else _COARSE
    return [{"t": t, "gamma": gamma, **extra} for t, gamma, extra in product(ts, gammas, extras)]


def tasks(plan: Plan) -> list[Task]:
    """Return a task per loss, variant, set and trial."""
    methods = [f"{loss}, {variant}" for loss in LOSSES for variant in VARIANTS]
    if plan.profile == "quick":
        return plan.tasks("losses", DATASETS[:1], methods, trials=1)
    return plan.tasks("losses", available(DATASETS, data_home=plan.data_home)[0], methods, trials=10)


def run(task: Task, data_home: Path | None) -> dict[str, Any]:
    """Return the clean and the attacked error of the setting with the lowest clean error in cross-validation."""
    parts = split_of(task, data_home)
    loss, variant = task.method.split(", ")
    learner = PairAML() if loss == "pairs" else NeighborAML(loss=loss)
    learner.set_params(random_state=task.trial)
    settings = candidates(loss, variant, task.profile == "quick")
    folds = make_folds(parts.train, StratifiedKFold(FOLDS, shuffle=True, random_state=task.trial))
    chosen = score_candidates(learner, folds, settings, NeighborScorer(K)).best
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # to stop early is what one variant is about
        learner.set_params(**chosen).fit(parts.X_train, parts.y_train)
    fooled = attack_knn(learner.components_, parts.X_train, parts.y_train, parts.X_test, parts.y_test, RADIUS, K)
    return {"error": knn_error(learner, parts), "attacked_error": float(np.mean(fooled)), "params": chosen}


# --- report -----------------------------------------------------------------------------------------------


def section(records: Sequence[Record]) -> Section:
    """Return a table of clean and attacked errors, the tests, and what they say."""
    found = _by_trial(records)
    datasets = sorted({dataset for dataset, _, _ in found})
    rows = []
    for dataset, loss in product(datasets, LOSSES):
        cells: list[Cell | str] = [f"{dataset}, {loss}"]
        for key in ("error", "attacked_error"):
            values = [_values(found, dataset, loss, variant, key) for variant in VARIANTS]
            least = min((v.mean() for v in values if len(v)), default=np.nan)
            cells += [Cell(mean_and_sd(v), bool(len(v)) and bool(v.mean() == least)) for v in values]
        chosen = [r.result["params"]["alpha"] > 0.0 for r in found.get((dataset, loss, "adversary"), {}).values()]
        rows.append([*cells, f"{sum(chosen)} of {len(chosen)}"])
    head = ["set, loss", *(f"{what}: {variant}" for what in ("clean", "attacked") for variant in VARIANTS), "chosen"]
    comparisons = _comparisons(found, datasets)
    sentences = [_sentence(first, second, comparisons) for first, second in _COMPARED]
    explanation = (
        "5-NN error, clean and when every test point may move by at most "
        f"{RADIUS:g} standard deviations (projected gradient). Each variant chooses among 12 settings (3 in a quick "
        "run) by 3-fold cross-validation of the clean error inside the training part: without the adversary among "
        "values of gamma and t; with the adversary in the grid among alpha = 0 and two adversaries at fewer values of "
        "gamma; without it but with the number of iterations chosen (early stopping). In bold the lowest mean; "
        '"chosen": in how many splits alpha > 0 was.'
    )
    tests = [
        [f"{dataset}, {loss}", f"{first} – {second}", *(cell for key in _KEYS for cell in _test_cells(entry[key]))]
        for (dataset, loss, first, second), entry in comparisons.items()
    ]
    return Section(
        "Losses with and without the adversary",
        [
            Paragraph(explanation),
            Table(head, rows),
            Paragraph(
                "Differences of mean errors, with p-values (paired Wilcoxon over the splits; Holm over the sets and "
                "losses of each comparison and error)."
            ),
            Table(["set, loss", "difference", "clean", "p", "attacked", "p"], tests),
            *(Paragraph(sentence) for sentence in sentences),
        ],
        sentences,
    )


_KEYS = ("error", "attacked_error")
_Found = dict[tuple[str, str, str], dict[int, Record]]
_Tested = dict[tuple[str, str, str, str], dict[str, tuple[float, float, int]]]
"""(set, loss, first, second) ↦ for each kind of error: mean difference, p-value, number of splits."""


def _by_trial(records: Sequence[Record]) -> _Found:
    found: _Found = {}
    for record in records:
        if not record.failure:
            loss, variant = record.task.method.split(", ")
            found.setdefault((record.task.dataset, loss, variant), {})[record.task.trial] = record
    return found


def _values(found: _Found, dataset: str, loss: str, variant: str, key: str) -> NDArray[np.float64]:
    """Return the errors by trial, of those trials that all variants of the loss have finished."""
    trials = [set(found.get((dataset, loss, other), {})) for other in VARIANTS]
    shared = sorted(set.intersection(*trials))
    return np.array([found[dataset, loss, variant][trial].result[key] for trial in shared])


def _comparisons(found: _Found, datasets: Sequence[str]) -> _Tested:
    tested: _Tested = {}
    for dataset, loss, (first, second) in product(datasets, LOSSES, _COMPARED):
        gaps = {
            key: _values(found, dataset, loss, first, key) - _values(found, dataset, loss, second, key) for key in _KEYS
        }
        if len(gaps["error"]):
            tested[dataset, loss, first, second] = {
                key: (float(gap.mean()), paired_p_value(gap), len(gap)) for key, gap in gaps.items()
            }
    for question, key in product(_COMPARED, _KEYS):
        entries = [entry for (*_, first, second), entry in tested.items() if (first, second) == question]
        adjusted = holm(np.array([entry[key][1] for entry in entries]))
        for entry, p in zip(entries, adjusted, strict=True):
            entry[key] = (entry[key][0], float(p), entry[key][2])
    return tested


def _test_cells(entry: tuple[float, float, int]) -> list[Cell | str]:
    gap, p, n = entry
    return [f"{gap:+.4f}", f"{p:.3f}" if n >= ENOUGH else "–"]


def _sentence(first: str, second: str, tested: _Tested) -> str:
    """Return where the first variant is significantly better or worse than the second, and where it is neither."""
    names = {"adversary": "With the adversary in the grid", "early stopping": "With early stopping"}
    against = {"no adversary": "without either", "early stopping": "with early stopping"}[second]
    words = []
    for key, what in zip(_KEYS, ("clean", "attacked"), strict=True):
        entries = {
            f"{dataset} ({loss})": entry[key]
            for (dataset, loss, one, other), entry in tested.items()
            if (one, other) == (first, second)
        }
        few = [place for place, (_, _, n) in entries.items() if n < ENOUGH]
        told = {place: entry for place, entry in entries.items() if place not in few}
        lower = [place for place, (gap, p, _) in told.items() if p < LEVEL and gap < 0.0]
        higher = [place for place, (gap, p, _) in told.items() if p < LEVEL and gap > 0.0]
        if not told:
            words = ["too few splits to tell"]  # both errors are of the same splits
            break
        mean = np.mean([gap for gap, _, _ in told.values()])
        rest = len(told) - len(lower) - len(higher)
        words.append(
            f"the {what} error is significantly lower on {', '.join(lower) or 'none'}, significantly higher on "
            f"{', '.join(higher) or 'none'} and not told apart on {rest} of {len(told)} (mean difference {mean:+.4f})"
        )
    return f"{names[first]}, compared with the same loss {against}: {'; '.join(words)}."


STUDY = Study("losses", "ablation", tasks, run, section)
