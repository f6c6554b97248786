"""The paper's Fig. 5: training and test error on MNIST against alpha (beta = 1) and beta (alpha = 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advmetric.algorithms.aml import AML
from advmetric.algorithms.discriminative import NeighborAML, PairAML
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.engine.study import Section, Study
from advmetric.experiments.protocol import K, Split, knn_error, split_of
from advmetric.experiments.report.content import Drawing, Paragraph, Table, mean_and_sd, values_of
from advmetric.experiments.report.drawing import subplots
from advmetric.metric.knn import knn_predict
from advmetric.plots import plot_bands
from advmetric.utils.typing import Matrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDY", "VALUES"]

VALUES = tuple(float(10.0**k) for k in np.arange(-3.0, 3.5, 0.5))
DATASET = "mnist-4000"
LEARNERS: dict[str, Callable[[], Any]] = {
    "AML": AML,
    "PairAML": lambda: PairAML(alpha=1.0, beta=1.0, random_state=0),
    "NeighborAML": lambda: NeighborAML(alpha=1.0, beta=1.0, random_state=0),
}
"""AML, and in full runs the others."""
CURVES = tuple(f"{learner} {parameter}" for learner in LEARNERS for parameter in ("alpha", "beta"))


def tasks(plan: Plan) -> list[Task]:
    """Return a task per trial and parameter: all values of one parameter share the data."""
    return plan.tasks("sensitivity", [DATASET], CURVES if plan.profile == "full" else CURVES[:2], trials=10)


def run(task: Task, data_home: Path | None) -> dict[str, Any]:
    """Return the errors for all values of one parameter, the other being 1; AML at the paper's t = 1/2."""
    parts = split_of(task, data_home)
    name, parameter = task.method.split(" ")
    train, test = [], []
    for value in VALUES:
        learner = LEARNERS[name]().set_params(**{parameter: value}).fit(parts.X_train, parts.y_train)
        train.append(training_error(learner.transform(parts.X_train), parts))
        test.append(knn_error(learner, parts))
    return {"values": list(VALUES), "train": train, "test": test}


def training_error(Z: Matrix, parts: Split) -> float:
    """5-NN error on the training points, in ten parts, each judged by the other nine: none is its own neighbour."""
    wrong, place = 0, np.arange(len(Z)) % 10
    for part in range(10):
        out = place == part
        predicted = knn_predict(Z[~out], parts.y_train[~out], Z[out], K)
        wrong += int(np.sum(predicted != parts.y_train[out]))
    return wrong / len(Z)


def section(records: Sequence[Record]) -> Section:
    """Return the figure and the range of the error."""
    curves = _drawn(records)
    lines, columns = [], []
    for curve in curves:
        test, values = values_of(records, "test", method=curve), values_of(records, "values", method=curve)
        means = test.mean(axis=0)
        lines.append(
            f"{curve}: the test error is {means.min():.4f} at all values."
            if means.min() == means.max()
            else f"{curve}: the test error goes from {means.min():.4f} (at {values[0][means.argmin()]:g}) to "
            f"{means.max():.4f} (at {values[0][means.argmax()]:g})."
        )
        columns.append({value: mean_and_sd(test[:, i], 4) for i, value in enumerate(values[0])})
    shown = list(columns[0])[::2] if columns else []
    rows = [[f"{value:g}", *(column.get(value, "–") for column in columns)] for value in shown]
    return Section(
        "Sensitivity on MNIST (Fig. 5)",
        [
            Drawing(lambda: _figure(records), "Mean and standard deviation over the trials."),
            Paragraph(f"{' '.join(lines)} The paper finds an optimum of AML near alpha = 1 and beta = 0.8."),
            Paragraph(
                f"5-NN error on the test part for some values of each parameter, mean ± sd over "
                f"{len({r.task.trial for r in records})} trials:"
            ),
            Table(["value", *curves], rows),
        ],
    )


def _drawn(records: Sequence[Record]) -> list[str]:
    return [curve for curve in CURVES if any(r.task.method == curve for r in records)]


def _figure(records: Sequence[Record]) -> Figure:
    drawn = _drawn(records)
    figure, axes = subplots(len(drawn), 2, (4.3, 3.0))
    for ax, curve in zip(axes, drawn, strict=True):
        values = values_of(records, "values", method=curve)
        curves = {kind: values_of(records, kind, method=curve) for kind in ("train", "test")}
        plot_bands(values[0].tolist(), curves, ax=ax, log=True, title=f"MNIST: {curve}, the other being 1")
        ax.set(xlabel=curve.split(" ")[1], ylabel="5-NN error")
    return figure


STUDY = Study("sensitivity", "sensitivity", tasks, run, section)
