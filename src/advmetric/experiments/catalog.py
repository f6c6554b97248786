"""The experiments by name: what the command line runs and the report shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import ablation, classification, sensitivity, synthetic, verification
from .protocol import Plan
from .store import Task

__all__ = ["EXPERIMENTS", "GROUPS", "plan_tasks", "work"]


@dataclass(frozen=True)
class Experiment:
    """One experiment: its runs, and how one of them is made."""

    name: str
    group: str
    """What the command line calls it, perhaps together with others."""
    tasks: Callable[[Plan], list[Task]]
    run: Callable[[Task], dict[str, Any]]


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("synthetic", "synthetic", synthetic.tasks, synthetic.run),
        Experiment("table1", "table1", classification.tasks, classification.run),
        Experiment("verification", "roc", verification.tasks, verification.run),
        Experiment("sensitivity", "sensitivity", sensitivity.tasks, sensitivity.run),
        *(Experiment(name, "ablation", tasks, run) for name, (tasks, run) in ablation.EXPERIMENTS.items()),
    )
}
GROUPS = tuple(dict.fromkeys(experiment.group for experiment in EXPERIMENTS.values()))


def plan_tasks(plan: Plan, groups: Sequence[str] = GROUPS) -> list[Task]:
    """All runs of the groups asked for."""
    return [task for e in EXPERIMENTS.values() if e.group in groups for task in e.tasks(plan)]


def work(task: Task) -> dict[str, Any]:
    """Make one run."""
    return EXPERIMENTS[task.experiment].run(task)
