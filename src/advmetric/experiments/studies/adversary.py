"""Ablation: the adversary as derived, as printed, two-sided, and gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from advmetric.algorithms.aml import AML
from advmetric.algorithms.gmml import GMML
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.engine.study import Section, Study
from advmetric.experiments.protocol import knn_error, split_of
from advmetric.experiments.report.content import Paragraph, Table, mean_and_sd, values_of

__all__ = ["ADVERSARIES", "STUDY"]

DATASETS = ("breast-cancer", "vehicle", "german-credit", "image-segment")
ADVERSARIES: dict[str, Callable[[], Any]] = {
    "none (GMML)": GMML,
    "derived": AML,
    "printed": lambda: AML(adversary="printed"),
    "expanding": lambda: AML(adversary="expanding"),
}


def tasks(plan: Plan) -> list[Task]:
    """Return a task per adversary, set and trial."""
    return plan.tasks("adversary", DATASETS, list(ADVERSARIES), trials=10)


def run(task: Task, data_home: Path | None) -> dict[str, Any]:
    """Return the error at the paper's t = 1/2, alpha = beta = 1."""
    parts = split_of(task, data_home)
    return {"error": knn_error(ADVERSARIES[task.method]().fit(parts.X_train, parts.y_train), parts)}


def section(records: Sequence[Record]) -> Section:
    """Return a table of adversaries and sets."""
    datasets, trials = sorted({r.task.dataset for r in records}), len({r.task.trial for r in records})
    rows = [
        [name, *(mean_and_sd(values_of(records, "error", dataset=d, method=name), 4) for d in datasets)]
        for name in ADVERSARIES
    ]
    explanation = f"5-NN error at the paper's t = 1/2, alpha = beta = 1, mean ± sd over {trials} trials."
    return Section("Adversaries", [Paragraph(explanation), Table(["adversary", *datasets], rows)])


STUDY = Study("adversary", "ablation", tasks, run, section)
