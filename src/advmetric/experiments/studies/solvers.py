"""Ablation: the solvers of AML on the same problem."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from advmetric.algorithms.aml import AML
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.engine.study import Section, Study
from advmetric.experiments.protocol import knn_error, split_of
from advmetric.experiments.report.content import Cell, Paragraph, Table, mean_and_sd, values_of

__all__ = ["STUDY"]

SOLVERS = ("geodesic", "projected-gradient", "alternating")


def tasks(plan: Plan) -> list[Task]:
    """Return a task per solver and trial."""
    return plan.tasks("solvers", ("vehicle",), SOLVERS, trials=5)


def run(task: Task, data_home: Path | None) -> dict[str, Any]:
    """Return the error, objective, iterations and time of one solver."""
    parts = split_of(task, data_home)
    learner = AML(solver=task.method, pairs=2000, random_state=task.trial)
    started = time.perf_counter()
    learner.fit(parts.X_train, parts.y_train)
    seconds = time.perf_counter() - started
    return {
        "error": knn_error(learner, parts),
        "objective": float(learner.objective_[-1]),
        "n_iter": int(learner.n_iter_),
        "converged": bool(learner.converged_),
        "fit_seconds": seconds,
    }


def section(records: Sequence[Record]) -> Section:
    """Return a table of solvers."""
    rows: list[list[Cell | str]] = []
    for name in SOLVERS:
        converged = values_of(records, "converged", method=name)
        if not len(converged):
            continue
        rows.append(
            [
                name,
                mean_and_sd(values_of(records, "error", method=name)),
                mean_and_sd(values_of(records, "objective", method=name), 6),
                f"{values_of(records, 'n_iter', method=name).mean():.0f}",
                Cell(f"{values_of(records, 'fit_seconds', method=name).mean():.3f}", timing=True),
                f"{int(converged.sum())}/{len(converged)}",
            ]
        )
    return Section(
        "Solvers",
        [
            Paragraph(
                "Vehicle, 2000 pairs. “projected-gradient” is the paper's Algorithm 1, “alternating” plays the game of "
                "Eq. 5 in turns; it has no common objective to minimise, so the last number is shown."
            ),
            Table(["solver", "5-NN error", "objective", "iterations", "seconds", "converged"], rows),
        ],
    )


STUDY = Study("solvers", "ablation", tasks, run, section)
