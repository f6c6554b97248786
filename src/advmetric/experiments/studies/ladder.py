"""What the studies of few pairs and of wrong labels share: GMML beside AML on drawn pairs, over a ladder of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from advmetric.algorithms.amlcv import AMLCV
from advmetric.algorithms.gmml import GMML
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.engine.study import Section
from advmetric.experiments.protocol import Split, knn_error
from advmetric.experiments.report.content import Drawing, Table, mean_and_sd, values_of
from advmetric.experiments.report.drawing import subplots
from advmetric.pairs.samplers import RandomPairs
from advmetric.plots.axes import COLORS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DATASETS", "METHODS", "ladder_section", "learn_from_pairs"]

DATASETS = ("vehicle", "image-segment")
METHODS = ("GMML", "AML")
ALPHAS, BETAS = (0.1, 1.0, 10.0, 100.0), (0.01, 0.1, 1.0)


def learn_from_pairs(task: Task, parts: Split, name: str, per_class_pair: int, wrong: float) -> dict[str, Any]:
    """Return the error after learning from c (c - 1) × this many pairs, a share of which is mislabelled.

    t = 1/2; AML's alpha and beta by cross-validation on the pairs.
    """
    c = parts.n_classes
    pairs = RandomPairs(per_class_pair * c * (c - 1)).sample(parts.X_train, parts.y_train, task.trial)
    labels = pairs.labels.copy()
    rng = np.random.default_rng([task.seed, task.trial, 5])
    labels[rng.permutation(len(labels))[: round(wrong * len(labels))]] *= -1
    learner: Any = GMML(preprocessor=parts.X_train)
    if name == "AML":
        cv = StratifiedKFold(3, shuffle=True, random_state=task.trial)
        learner = AMLCV(alphas=ALPHAS, betas=BETAS, ts=(0.5,), cv=cv, preprocessor=parts.X_train)
    learner.fit(pairs.indices, labels)
    params = {key: learner.best_params_[key] for key in ("alpha", "beta")} if name == "AML" else {}
    return {"error": knn_error(learner, parts), "params": params}


def ladder_section(records: Sequence[Record], title: str, steps: Sequence[str], label: str, caption: str) -> Section:
    """Return the errors of GMML and AML over the steps, as a figure and as a table."""
    datasets = sorted({r.task.dataset for r in records})
    rows = [
        [
            f"{d}, {step}",
            *(mean_and_sd(values_of(records, "error", dataset=d, method=f"{m} {step}")) for m in METHODS),
        ]
        for d in datasets
        for step in steps
    ]
    drawing = Drawing(lambda: _figure(records, steps, label), caption)
    return Section(title, [drawing, Table(["", *METHODS], rows)])


def _figure(records: Sequence[Record], steps: Sequence[str], label: str) -> Figure:
    datasets = sorted({r.task.dataset for r in records})
    figure, axes = subplots(len(datasets), 2, (4.3, 2.8))
    for ax, dataset in zip(axes, datasets, strict=True):
        for name, color in (("GMML", COLORS[1]), ("AML", COLORS[0])):
            found = [values_of(records, "error", dataset=dataset, method=f"{name} {step}") for step in steps]
            means = [v.mean() if len(v) else np.nan for v in found]
            spread = [v.std() if len(v) else np.nan for v in found]
            ax.errorbar(range(len(steps)), means, yerr=spread, marker="o", capsize=3, color=color, label=name)
        ax.set(title=dataset, xlabel=label, ylabel="5-NN error", xticks=range(len(steps)), xticklabels=list(steps))
        ax.legend(frameon=False)
    return figure
