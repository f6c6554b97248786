"""Ablation: fewer training pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.engine.study import Section, Study
from advmetric.experiments.protocol import split_of

from .ladder import CHOICE, ladder_section, ladder_tasks, learn_from_pairs

__all__ = ["STUDY"]

STEPS = (1000, 40, 10, 3)


def tasks(plan: Plan) -> list[Task]:
    """Return a task per method, number of pairs, set and trial."""
    return ladder_tasks(plan, "few-pairs", STEPS)


def run(task: Task, data_home: Path | None) -> dict[str, Any]:
    """Return the error when each pair of classes has only a given number of training pairs."""
    name, count = task.method.split(" ")
    return learn_from_pairs(task, split_of(task, data_home), name, int(count), 0.0)


def section(records: Sequence[Record]) -> Section:
    """Return the section of the report."""
    caption = CHOICE + " on the pairs."
    return ladder_section(records, "Fewer pairs", [str(s) for s in STEPS], "training pairs, times c(c − 1)", caption)


STUDY = Study("few-pairs", "ablation", tasks, run, section)
