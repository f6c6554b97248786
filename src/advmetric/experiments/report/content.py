"""The blocks that sections of the report are made of, independent of HTML and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advmetric.experiments.engine.store import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Bullets",
    "Cell",
    "Drawing",
    "Heading",
    "Paragraph",
    "Table",
    "mean_and_error",
    "mean_and_sd",
    "values_of",
]


@dataclass(frozen=True)
class Heading:
    """A heading below that of the section."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; a ``note`` is less prominent."""

    text: str
    note: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Cell:
    """A cell of a table: text, perhaps in bold (the best), with a mark and a smaller line below."""

    text: str
    best: bool = False
    mark: str = ""
    below: str = ""
    timing: bool = False
    """Whether the cell is a time, which differs from run to run."""


@dataclass(frozen=True)
class Table:
    """A table; rows are cells or plain text."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell | str]]


@dataclass(frozen=True)
class Drawing:
    """A figure, drawn when the page is written, and its caption."""

    draw: Callable[[], Figure]
    caption: str


def values_of(records: Iterable[Record], key: str, **wanted: str) -> NDArray[np.float64]:
    """Return the values of one key of the matching records by trial: (trials,) or (trials, length)."""
    chosen = [r for r in records if all(getattr(r.task, name) == value for name, value in wanted.items())]
    return np.array([r.result[key] for r in sorted(chosen, key=lambda r: r.task.trial)], dtype=float)


def mean_and_sd(values: NDArray[np.float64], digits: int = 3) -> str:
    """Return "mean ± standard deviation".

    >>> mean_and_sd(np.array([0.1, 0.3]))
    '0.200 ± 0.141'
    """
    if len(values) < 2:
        return f"{values[0]:.{digits}f}" if len(values) else "–"
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"


def mean_and_error(values: NDArray[np.float64], digits: int = 3) -> str:
    """Return "mean ± standard error of the mean"."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{values.mean():.{digits}f} ± {error:.{digits}f}"
