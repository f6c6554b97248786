"""`advmetric reproduce` and `advmetric report`: the paper's experiments, and the page about them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from advmetric.datasets import list_verification
from advmetric.experiments.catalogue import GROUPS
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.runner import Display
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.protocol import contenders, set_names
from advmetric.experiments.report.page import write_report
from advmetric.experiments.reproduce import reproduce as reproduce_experiments
from advmetric.utils.suggestions import did_you_mean

__all__ = ["report", "reproduce"]


def reproduce(
    experiments: Annotated[
        list[str] | None, typer.Argument(help=f"{', '.join(GROUPS)} or all (the default).", show_default=False)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Subsets, few trials, thinned grids: a few minutes.")] = False,
    datasets: Annotated[
        list[str] | None, typer.Option(help="For Table 1, ROC, losses, robustness, deep; repeat it or use commas.")
    ] = None,
    methods: Annotated[
        list[str] | None, typer.Option(help="For Table 1 and ROC; repeat it or separate by commas.")
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Random splits (default: 20, quick 3).")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, each with one BLAS thread.")] = os.cpu_count() or 1,
    seed: Annotated[int, typer.Option(min=0, help="Decides splits, pairs and draws.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder of results.jsonl and report.html.")] = Path("results"),
    data_home: Annotated[Path | None, typer.Option(help="Folder with further datasets, as isolet.npz.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Make failed runs again.")] = False,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Run on the workers of this Dask scheduler, which must see the folder; not on JOBS."
        ),
    ] = None,
) -> None:
    """Re-run the paper's experiments and write a report.

    Interrupt it in any way and give the same command again: finished runs are kept, and several commands may work on
    one folder at the same time. A run that fails is recorded and named in the report, and the others go on; the exit
    code is then 1.
    """
    groups = _chosen(experiments, (*GROUPS, "all"), "experiment")
    groups = list(GROUPS) if not groups or "all" in groups else groups
    plan = Plan(
        profile="quick" if quick else "full",
        seed=seed,
        trials=trials,
        datasets=_chosen(datasets, [*set_names(), *list_verification()], "dataset"),
        methods=_chosen(methods, list(contenders()), "method"),
        data_home=data_home,
    )
    with Shown(sys.stderr.isatty()) as display:
        page = reproduce_experiments(
            out, plan, groups, jobs=jobs, retry_failed=retry_failed, display=display, dask=dask
        )
    typer.echo(str(page))
    if display.failures:
        failed = "1 run failed" if display.failures == 1 else f"{display.failures} runs failed"
        typer.echo(f"{failed}: see the end of the report", err=True)
        raise typer.Exit(1)


def report(
    folder: Annotated[Path, typer.Argument(help="Folder that `advmetric reproduce` wrote to.")] = Path("results"),
) -> None:
    """Write the report anew from the results that are there, finished or not."""
    typer.echo(str(write_report(folder, command=f"advmetric report {folder}")))


def _chosen(given: Sequence[str] | None, known: Sequence[str], what: str) -> list[str] | None:
    """The names asked for, checked; None for all."""
    if not given:
        return None
    by_lower = {name.lower(): name for name in known}
    found = []
    for name in (part.strip() for item in given for part in item.split(",")):
        if name.lower() not in by_lower:
            hint = did_you_mean(name, known)
            raise typer.BadParameter(f"there is no {what} {name!r}.{hint} Known: {', '.join(known)}.")
        found.append(by_lower[name.lower()])
    return list(dict.fromkeys(found))


# --- progress ---------------------------------------------------------------------------------------------


class Shown(Display):
    """Progress on stderr: a live line on a terminal, else a plain line now and then."""

    def __init__(self, live: bool) -> None:
        self.failures = 0
        self._last = -1.0
        self._bar = (
            Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                console=Console(stderr=True),
            )
            if live
            else None
        )
        self._row = self._bar.add_task("runs", total=None, left="") if self._bar else None

    def __enter__(self) -> Shown:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def update(self, done: int, total: int, running: Iterable[Task], seconds_left: float | None) -> None:
        left = "" if seconds_left is None or done == total else f"about {_duration(seconds_left)} left"
        now = ", ".join(f"{task.method}/{task.dataset}" for task in running)
        if self._bar and self._row is not None:
            self._bar.update(self._row, completed=done, total=total, left=left, description=now[:60] or "runs")
        elif done == total or time.monotonic() - self._last > 15.0:
            self._last = time.monotonic()
            line = f"{done}/{total} runs" + (f", {left}" if left else "") + (f", now {now}" if now else "")
            print(line, file=sys.stderr, flush=True)

    def failed(self, record: Record) -> None:
        self.failures += 1
        line = f"failed: {record.task}: {record.failure}"
        if self._bar:
            self._bar.console.print(line, markup=False, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60.0)
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"
