"""The paper's Fig. 3: a clean training set, an overlapping test set, GMML against AML.

The paper says only that 200 + 200 points in 10 dimensions come from normal distributions, that the training
classes are clean and the test classes overlap. What is drawn here is a reconstruction: two normal classes
that differ in two directions, one of them strongly but only in the training set; eight directions are noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from advmetric.algorithms.aml import AML
from advmetric.algorithms.amlcv import AMLCV
from advmetric.algorithms.discriminative import NeighborAML, PairAML
from advmetric.algorithms.euclidean import Euclidean
from advmetric.algorithms.gmml import GMML
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.engine.study import Section, Study
from advmetric.experiments.protocol import Split, knn_error
from advmetric.experiments.report.content import Drawing, Paragraph, Table, mean_and_sd, values_of
from advmetric.experiments.report.drawing import subplots
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.pairs.samplers import AllPairs, BalancedPairs
from advmetric.plots import plot_embedding
from advmetric.utils.typing import Matrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LEARNERS", "STUDY", "draw", "leading_plane"]

LEARNERS: dict[str, Callable[[], Any]] = {
    "Euclidean": Euclidean,
    "GMML": GMML,
    "AML": AML,
    "GMML, tuned t": lambda: AMLCV(alphas=(0.0,), betas=(1.0,), ts=(0.1, 0.25, 0.5, 0.75, 0.9), cv=3),
    "AML, tuned": lambda: AMLCV(ts=(0.1, 0.25, 0.5, 0.75, 0.9), alphas=(0.1, 1.0, 10.0, 100.0), cv=3),
    "PairAML": lambda: PairAML(random_state=0),
    "NeighborAML": lambda: NeighborAML(random_state=0),
    "AMLCV": lambda: AMLCV(cv=3, random_state=0),
}
"""GMML and AML as in the paper (t = 1/2, alpha = beta = 1) and tuned on the clean training set; PairAML and NeighborAML
as they come; AMLCV, which chooses the loss too."""
DRAWN = ("Euclidean", "GMML", "AML")
"""Learners that the figure shows."""


def draw(trial: int, seed: int = 0) -> Split:
    """200 training and 200 test points in 10 dimensions, half of each class."""
    rng = np.random.default_rng([seed, trial, 3])
    y = np.repeat([0, 1], 100)
    sides = 2.0 * y - 1.0
    noise = np.concatenate([[1.0, 1.0], np.full(8, 1.5)])

    def points(strong: float, weak: float) -> Matrix:
        X = rng.normal(size=(200, 10)) * noise
        X[:, 0] += strong * sides
        X[:, 1] += weak * sides
        return X

    turn = np.linalg.qr(rng.normal(size=(10, 10)))[0]
    train, test = points(3.0, 1.5), points(1.0, 1.5)
    return Split(train @ turn, y, test @ turn, y)


def tasks(plan: Plan) -> list[Task]:
    """Return a task per learner and draw; AMLCV, which takes longest, in full runs only."""
    draws = plan.trials or plan.settings.draws
    names = [name for name in LEARNERS if plan.profile == "full" or name != "AMLCV"]
    return [
        Task("synthetic", "synthetic", name, trial, plan.profile, plan.seed) for trial in range(draws) for name in names
    ]


def run(task: Task, data_home: Path | None) -> dict[str, Any]:
    """Return the errors and AUC of one learner on one draw; for the first draw also what the figure shows."""
    parts = draw(task.trial, task.seed)
    learner = LEARNERS[task.method]().fit(parts.X_train, parts.y_train)
    metric = learner.get_metric()
    found: dict[str, Any] = {
        "error": knn_error(learner, parts),
        "auc": pair_auc(metric, parts.X_test, parts.y_test),
        "train_auc": pair_auc(metric, parts.X_train, parts.y_train),
    }
    if task.trial == 0 and task.method in DRAWN:
        view = leading_plane(metric.transform(parts.X_train)) @ metric.components
        found["train_plane"] = _rounded(parts.X_train @ view.T)
        found["test_plane"] = _rounded(parts.X_test @ view.T)
        if isinstance(learner, AML):
            pairs = BalancedPairs(30).sample(parts.X_train, parts.y_train, 0)
            moved = learner.adversarial_pairs(pairs, pairs.labels).reshape(-1, 10)
            found["adversarial"] = _rounded(moved @ leading_plane(parts.X_train).T)
    return found


def pair_auc(metric: Mahalanobis, X: Matrix, y: NDArray[np.integer]) -> float:
    """Return the ROC AUC of "same class" by distance, over all pairs of the points."""
    pairs = AllPairs().sample(X, y)
    return float(roc_auc_score(pairs.y, -metric.pair_distance(pairs)))


def leading_plane(X: Matrix) -> Matrix:
    """Return the two leading principal directions, (2, d)."""
    axes: Matrix = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:2]
    return axes


def _rounded(values: Matrix) -> list[list[float]]:
    rounded: list[list[float]] = np.round(values, 4).tolist()
    return rounded


def section(records: Sequence[Record]) -> Section:
    """Return the table of all learners and the figure of the first draw."""
    rows = [
        [name, *(mean_and_sd(values_of(records, key, method=name)) for key in ("error", "auc", "train_auc"))]
        for name in LEARNERS
        if any(r.task.method == name for r in records)
    ]
    answers = []
    found = {m: values_of(records, "error", method=m) for m in ("GMML", "AML")}
    if all(len(values) for values in found.values()):
        answers.append(
            f"Synthetic example: 5-NN error {mean_and_sd(found['GMML'])} with GMML, {mean_and_sd(found['AML'])} with "
            f"AML (trials: {len(found['AML'])})."
        )
    blocks: list[Any] = [
        Paragraph(
            "Two classes in 10 dimensions, clean in training, overlapping in the test set; a reconstruction, since the "
            "paper gives no parameters. All draws count, not one."
        ),
        Table(["", "5-NN error", "pair AUC, test", "pair AUC, training"], rows),
    ]
    first = {r.task.method: r.result for r in records if "train_plane" in r.result}
    if set(first) == set(DRAWN):
        caption = "The first draw, seen through the two leading directions of each space."
        blocks.append(Drawing(lambda: _figure(first), caption))
    return Section("Synthetic example (Fig. 3)", blocks, answers)


def _figure(first: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Return the paper's Fig. 3 for the first draw: training and test set before and after GMML and AML."""
    figure, axes = subplots(6, 3, (3.0, 2.6))
    names = np.repeat(["class 1", "class 2"], 100)
    for column, (method, title) in enumerate(zip(DRAWN, ("as drawn", "GMML", "AML"), strict=True)):
        for row, what in enumerate(("train", "test")):
            points = np.array(first[method][f"{what}_plane"])
            plot_embedding(points, names, ax=axes[3 * row + column], title=f"{title}, {what}")
    moved = np.array(first["AML"]["adversarial"])
    axes[0].scatter(moved[:, 0], moved[:, 1], marker="x", s=14, color="black", linewidths=0.7, label="adversarial")
    axes[0].legend(frameon=False, fontsize="x-small")
    return figure


STUDY = Study("synthetic", "synthetic", tasks, run, section)
