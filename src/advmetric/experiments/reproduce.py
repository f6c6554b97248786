"""The main job: plan the runs, make those that are missing, write the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from advmetric.utils.errors import UsageError
from advmetric.utils.optional import require

from .catalogue import GROUPS, STUDIES, plan_tasks, run_task
from .engine.plan import Plan
from .engine.runner import Display, run_tasks
from .engine.store import Store
from .report.page import write_report

__all__ = ["command_line", "reproduce"]


def reproduce(
    out: Path,
    plan: Plan,
    groups: Sequence[str] = GROUPS,
    *,
    jobs: int = 1,
    retry_failed: bool = False,
    display: Display | None = None,
    dask: str | None = None,
) -> Path:
    """Make the runs that ``out`` does not have yet, and write the report there; return its path.

    Interrupt it in any way and call it again: finished runs are kept. ``dask`` is the address of a scheduler whose
    workers are to make them; they must see the folder ``out`` and the plan's data home.
    """
    for needed in ("matplotlib", "jinja2"):
        require(needed, "the report")
    tasks = plan_tasks(plan, groups)
    if not tasks and (known := {task.dataset for task in plan_tasks(replace(plan, datasets=None), groups)}):
        has, absent = ("have" if len(groups) > 1 else "has"), " or ".join(map(repr, plan.datasets or ()))
        raise UsageError(
            f"{' and '.join(groups)} {has} no dataset {absent}; there: {', '.join(sorted(known))}", "--datasets"
        )
    work = partial(run_task, data_home=None if plan.data_home is None else plan.data_home.resolve())
    run_tasks(tasks, work, Store(out), jobs=jobs, retry_failed=retry_failed, display=display, dask=dask)
    notes = [line for study in STUDIES.values() if study.group in groups for line in study.missing(plan)]
    return write_report(out, notes=notes, command=command_line(plan, groups))


def command_line(plan: Plan, groups: Sequence[str]) -> str:
    """Return the command that asks for this."""
    words = ["advmetric reproduce", *(groups if set(groups) != set(GROUPS) else ["all"])]
    if plan.profile == "quick":
        words.append("--quick")
    for option, values in (("--datasets", plan.datasets), ("--methods", plan.methods)):
        words += [f"{option} {value}" for value in values or ()]
    if plan.trials:
        words.append(f"--trials {plan.trials}")
    return " ".join([*words, f"--seed {plan.seed}"])
