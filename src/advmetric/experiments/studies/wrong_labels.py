"""Ablation: training pairs with wrong labels."""

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

STEPS = tuple(f"{100 * share:g} %" for share in (0.0, 0.05, 0.1, 0.2))


def tasks(plan: Plan) -> list[Task]:
    """Return a task per method, share of wrong labels, set and trial."""
    return ladder_tasks(plan, "noise", STEPS)


def run(task: Task, data_home: Path | None) -> dict[str, Any]:
    """Return the error when a share of 40 c (c - 1) training pairs has the wrong label."""
    name, share, _ = task.method.split(" ")
    return learn_from_pairs(task, split_of(task, data_home), name, 40, float(share) / 100.0)


def section(records: Sequence[Record]) -> Section:
    """Return the section of the report."""
    caption = f"40 c(c − 1) pairs. {CHOICE} on the noisy pairs."
    return ladder_section(records, "Wrong labels", STEPS, "pairs with the wrong label", caption)


STUDY = Study("noise", "ablation", tasks, run, section)
