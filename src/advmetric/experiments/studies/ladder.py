"""What the studies of few pairs and of wrong labels share: four methods on drawn pairs, over a ladder of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from advmetric.algorithms.amlcv import AMLCV
from advmetric.algorithms.gmml import GMML
from advmetric.evaluation.significance import spread
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.engine.study import Section
from advmetric.experiments.protocol import Split, knn_error
from advmetric.experiments.report.content import Drawing, Paragraph, Table, mean_and_sd, values_of
from advmetric.experiments.report.drawing import subplots
from advmetric.pairs.samplers import RandomPairs
from advmetric.plots.axes import COLORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CHOICE", "METHODS", "ladder_section", "ladder_tasks", "learn_from_pairs"]

DATASETS = ("vehicle", "image-segment")
METHODS = ("GMML", "AML", "PairAML", "AMLCV")
"""Quick runs have the first two only. NeighborAML learns from labels, not from pairs."""
CHOICE = (
    "GMML and AML with t = 1/2; AML's alpha and beta, PairAML's parameters and AMLCV's loss are chosen by 3-fold "
    "cross-validation"
)
ALPHAS, BETAS = (0.1, 1.0, 10.0, 100.0), (0.01, 0.1, 1.0)


def ladder_tasks(plan: Plan, study: str, steps: Sequence[Any]) -> list[Task]:
    """Return a task per method, step, set and trial."""
    names = METHODS if plan.profile == "full" else METHODS[:2]
    return plan.tasks(study, DATASETS, [f"{name} {step}" for step in steps for name in names], trials=10)


def learn_from_pairs(task: Task, parts: Split, name: str, per_class_pair: int, wrong: float) -> dict[str, Any]:
    """Return the error after learning from c (c - 1) × this many pairs, a share of which is mislabelled.

    Parameters are chosen on these pairs.
    """
    c = parts.n_classes
    pairs = RandomPairs(per_class_pair * c * (c - 1)).sample(parts.X_train, parts.y_train, task.trial)
    labels = pairs.labels.copy()
    rng = np.random.default_rng([task.seed, task.trial, 5])
    labels[rng.permutation(len(labels))[: round(wrong * len(labels))]] *= -1
    shared = {
        "cv": StratifiedKFold(3, shuffle=True, random_state=task.trial),
        "preprocessor": parts.X_train,
        "random_state": task.trial,
    }
    learner: Any
    if name == "GMML":
        learner = GMML(preprocessor=parts.X_train)
    elif name == "AML":
        learner = AMLCV(alphas=ALPHAS, betas=BETAS, ts=(0.5,), **shared)
    else:
        learner = AMLCV(losses=("pairs",) if name == "PairAML" else None, **shared)
    learner.fit(pairs.indices, labels)
    params = {"loss": learner.best_loss_, **learner.best_params_} if name != "GMML" else {}
    return {"error": knn_error(learner, parts), "params": params}


def ladder_section(records: Sequence[Record], title: str, steps: Sequence[str], label: str, caption: str) -> Section:
    """Return the errors of the methods over the steps, as a figure and as a table."""
    datasets, methods = sorted({r.task.dataset for r in records}), _methods(records)
    rows = [
        [
            f"{d}, {step}",
            *(mean_and_sd(values_of(records, "error", dataset=d, method=f"{m} {step}")) for m in methods),
        ]
        for d in datasets
        for step in steps
    ]
    explanation = Paragraph(f"5-NN error, mean ± sd over {len({r.task.trial for r in records})} trials. {caption}")
    drawing = Drawing(lambda: _figure(records, steps, label), "Mean and standard deviation over the trials.")
    return Section(title, [explanation, drawing, Table(["", *methods], rows)])


def _methods(records: Sequence[Record]) -> list[str]:
    there = {r.task.method.split(" ")[0] for r in records}
    return [name for name in METHODS if name in there]


def _figure(records: Sequence[Record], steps: Sequence[str], label: str) -> Figure:
    datasets = sorted({r.task.dataset for r in records})
    figure, axes = subplots(len(datasets), 2, (4.3, 2.8))
    for ax, dataset in zip(axes, datasets, strict=True):
        for name, color in zip(_methods(records), (COLORS[1], COLORS[0], *COLORS[2:]), strict=False):
            found = [values_of(records, "error", dataset=dataset, method=f"{name} {step}") for step in steps]
            means = [v.mean() if len(v) else np.nan for v in found]
            deviations = [spread(v) if len(v) else np.nan for v in found]
            ax.errorbar(range(len(steps)), means, yerr=deviations, marker="o", capsize=3, color=color, label=name)
        ax.set(title=dataset, xlabel=label, ylabel="5-NN error", xticks=range(len(steps)), xticklabels=list(steps))
        ax.legend(frameon=False)
    return figure
