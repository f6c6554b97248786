"""What an experiment consists of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .plan import Plan
from .store import Record, Task

__all__ = ["Section", "Study"]


@dataclass(frozen=True)
class Section:
    """A part of the report.

    Parameters
    ----------
    title : str
    blocks : sequence
        Blocks of :mod:`advmetric.experiments.report.content`: paragraphs, tables, figures, lists.
    answers : sequence of str
        Sentences for the top of the report.
    files : dict
        Further files to write beside the report, by name.
    headline : str
        The answer in one sentence; the report opens with the first one.
    """

    title: str
    blocks: Sequence[Any]
    answers: Sequence[str] = ()
    files: dict[str, str] | None = None
    headline: str = ""


@dataclass(frozen=True)
class Study:
    """One experiment: its runs, how one of them is made, and what the report says about them."""

    name: str
    group: str
    """What the command line calls it, perhaps together with others."""
    tasks: Callable[[Plan], list[Task]]
    """Plan ↦ tasks."""
    run: Callable[[Task, Path | None], dict[str, Any]]
    """(task, data home) ↦ what the report needs, as JSON can hold it."""
    section: Callable[[Sequence[Record]], Section]
    """Records of finished runs ↦ section. Draws from the records only, and fits nothing."""
    missing: Callable[[Plan], list[str]] = lambda plan: []
    """Plan ↦ a sentence for each dataset that the study goes without."""
