"""The studies by name: what the command line runs and the report shows. A new study is one file and one row here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .engine.plan import Plan
from .engine.store import Task
from .engine.study import Study
from .studies import (
    adversary,
    deep,
    few_pairs,
    losses,
    mechanism,
    robustness,
    sensitivity,
    solvers,
    synthetic,
    table1,
    verification,
    wrong_labels,
)

__all__ = ["GROUPS", "STUDIES", "plan_tasks", "run_task"]

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        table1.STUDY,
        verification.STUDY,
        synthetic.STUDY,
        mechanism.STUDY,
        sensitivity.STUDY,
        few_pairs.STUDY,
        wrong_labels.STUDY,
        adversary.STUDY,
        losses.STUDY,
        solvers.STUDY,
        robustness.STUDY,
        deep.STUDY,
    )
}
"""In the order of the report."""
GROUPS = ("synthetic", "table1", "roc", "sensitivity", "ablation", "losses", "robustness", "deep")


def plan_tasks(plan: Plan, groups: Sequence[str] = GROUPS) -> list[Task]:
    """Return all runs of the groups asked for."""
    chosen = [study for group in GROUPS if group in groups for study in STUDIES.values() if study.group == group]
    return [task for study in chosen for task in study.tasks(plan)]


def run_task(task: Task, data_home: Path | None = None) -> dict[str, Any]:
    """Make one run."""
    return STUDIES[task.experiment].run(task, data_home)
