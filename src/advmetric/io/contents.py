"""What is asked of a file and what it holds: points or pairs, with labels, and the columns that are carried along."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from advmetric.pairs.data import Pairs
from advmetric.utils.typing import Matrix

from .preparation import Preparation
from .text import TextFormat

__all__ = ["Arrays", "PairFile", "PointFile", "Reading", "check_both_kinds"]

Arrays = dict[str, NDArray]


@dataclass(frozen=True)
class Reading:
    """How a table is read.

    Parameters
    ----------
    form : TextFormat
        Of text files.
    drop : sequence of str
        Columns to leave out.
    group : str, optional
        A column that is not a feature and is kept.
    categories : sequence of str
        Columns that are categories even if written as numbers; others are if most of their values are text.
    fill : bool
        Whether missing values are filled, or refused.
    """

    form: TextFormat = field(default_factory=TextFormat)
    drop: Sequence[str] = ()
    group: str | None = None
    categories: Sequence[str] = ()
    fill: bool = True

    @property
    def needed(self) -> list[str]:
        """Return the columns that must be there, whatever they are for."""
        return [*self.drop, *([self.group] if self.group else []), *self.categories]

    def is_feature(self, name: str, label: str | None) -> bool:
        """Return whether a column is neither label nor group nor dropped."""
        return name not in (label, self.group) and name not in self.drop


@dataclass(frozen=True)
class PointFile:
    """Points, their labels (as text) if asked for, and the other columns.

    With a ``preparation`` the points are as in the file: it turns them into features (see `Preparation.encode`).
    """

    X: Matrix
    y: NDArray[np.str_] | None
    names: tuple[str, ...] | None
    others: Arrays
    preparation: Preparation | None = None

    @property
    def labels(self) -> NDArray[np.str_]:
        """``y``, which must be there."""
        if self.y is None:
            raise ValueError("the file has no array y; name the one with the labels by --label.")
        return self.y


@dataclass(frozen=True)
class PairFile:
    """Pairs (with labels if asked for), and the other columns; ``preparation`` as for points."""

    pairs: Pairs
    names: tuple[str, ...] | None
    others: Arrays
    preparation: Preparation | None = None


def check_both_kinds(name: str, kinds: NDArray[np.integer]) -> None:
    """Raise unless the pairs of a file are of both kinds."""
    for label, kind in ((1, "same"), (-1, "different")):
        if not np.any(kinds == label):
            raise ValueError(
                f"{name}: no pair has the label {label:+d} ({kind}), but pairs of both kinds are needed. Add some, or "
                "name another column with --pairs."
            )
