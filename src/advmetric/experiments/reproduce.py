"""The main job: plan the runs, make those that are missing, write the report."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from . import classification, verification
from .catalog import GROUPS, plan_tasks, work
from .protocol import Plan
from .report import write_report
from .runner import Display, run_tasks
from .store import Store

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
    workers are to make them; they must see the folder ``out``.
    """
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError('the report draws with matplotlib: pip install "advmetric[plots]"')
    run_tasks(
        plan_tasks(plan, groups), work, Store(out), jobs=jobs, retry_failed=retry_failed, display=display, dask=dask
    )
    return write_report(out, notes=missing_sets(plan, groups), command=command_line(plan, groups))


def missing_sets(plan: Plan, groups: Sequence[str]) -> list[str]:
    """A sentence for each of the paper's sets that a table goes without."""
    if plan.datasets:
        return []
    quick, found = plan.profile == "quick", []
    if "table1" in groups:
        _, missing = classification.available(bundled_only=quick)
        found += [f"{name} is not in Table 1: {why}" for name, why in missing.items()]
    if "roc" in groups and quick:
        found.append("Faces and patches are not bundled: the quick run verifies letters and digits of unseen classes.")
    elif "roc" in groups:
        _, missing = verification.available(verification.SETS)
        found += [f"{name} is not among the verification sets: {why}" for name, why in missing.items()]
    return found


def command_line(plan: Plan, groups: Sequence[str]) -> str:
    """The command that asks for this."""
    words = ["advmetric reproduce", *(groups if set(groups) != set(GROUPS) else ["all"])]
    if plan.profile == "quick":
        words.append("--quick")
    for option, values in (("--datasets", plan.datasets), ("--methods", plan.methods)):
        words += [f"{option} {value}" for value in values or ()]
    if plan.trials:
        words.append(f"--trials {plan.trials}")
    return " ".join([*words, f"--seed {plan.seed}"])
