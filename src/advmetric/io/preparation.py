"""From the columns of a table to features: categories one-hot, missing values filled, as learned in training.

A category of two levels becomes one feature (1 for the second level), one of more levels a feature for each. A level
that was not there in training has 0 in all of them. A missing number is filled with the mean, a missing category with
the most frequent level. All of it is facts that JSON can hold, kept with the metric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.typing import Matrix

from .tables import Table

__all__ = ["Preparation", "Rule", "UnpreparedError", "filled_note", "most_frequent", "raw_matrix"]

Levels = tuple[str, ...]


class UnpreparedError(ValueError):
    """A column holds text or missing values that its rule does not provide for."""


def filled_note(table: str, rule: Rule, count: int, rows: int) -> str:
    """Say what missing values are filled with."""
    if count == rows and rule.fill == 0.0:  # no mean, then, but what a column without values is given
        return f"{table}, column {rule.name!r}: all values are missing; they are filled with 0."
    shown = f"{rule.fill:.6g}, the mean" if rule.levels is None else f"{rule.fill!r}, the most frequent value"
    values = "1 missing value is" if count == 1 else f"{count} missing values are"
    return f"{table}, column {rule.name!r}: {values} filled with {shown} in training."


def most_frequent(levels: Sequence[str], counts: Sequence[int]) -> str:
    """Return the level with the highest count; the first of equal ones."""
    return levels[int(np.argmax(counts))]


@dataclass(frozen=True)
class Rule:
    """How one column becomes features.

    Parameters
    ----------
    name : str
    levels : tuple of str, optional
        Of a category; None for numbers.
    fill : float or str, optional
        What a missing value is replaced by; None if missing values are refused.
    """

    name: str
    levels: Levels | None = None
    fill: float | str | None = None

    def __post_init__(self) -> None:
        if self.levels is None:
            if isinstance(self.fill, str) or (self.fill is not None and not math.isfinite(self.fill)):
                raise ValueError(f"the column {self.name!r} cannot be filled with {self.fill!r}")
        elif len(set(self.levels)) < len(self.levels) or (self.fill is not None and self.fill not in self.levels):
            raise ValueError(f"the levels of column {self.name!r} make no sense")

    @property
    def feature_names(self) -> list[str]:
        """Return the names of the features: the column, or column=level."""
        if self.levels is None:
            return [self.name]
        return [f"{self.name}={level}" for level in (self.levels[1:] if len(self.levels) == 2 else self.levels)]

    def encode(self, raw: NDArray[np.float64], levels: Levels | None) -> Matrix:
        """Return the features (n, k) of a column of :func:`raw_matrix` with the given levels."""
        if self.levels is None:
            missing = np.isnan(raw)
            return np.where(missing, float(self.fill or 0.0), raw)[:, None] if missing.any() else raw[:, None]
        # From codes of the file to codes of training; the last entries are for unknown and for missing values.
        own = {level: code for code, level in enumerate(self.levels)}
        missing_code = own.get(str(self.fill), -1)
        table = np.array([*(own.get(level, -1) for level in levels or ()), -1, missing_code])
        codes = table[np.where(np.isnan(raw), len(table) - 1, np.nan_to_num(raw)).astype(np.intp)]
        hot = np.zeros((len(raw), len(self.levels) + 1))
        hot[np.arange(len(raw)), codes] = 1.0
        return hot[:, 1:2] if len(self.levels) == 2 else hot[:, :-1]


@dataclass(frozen=True)
class Preparation:
    """The rules of all columns, in the order of the features."""

    rules: tuple[Rule, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns that are needed."""
        return tuple(rule.name for rule in self.rules)

    @property
    def levels(self) -> tuple[Levels | None, ...]:
        """Return the levels of each column."""
        return tuple(rule.levels for rule in self.rules)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Return the names of the features."""
        return tuple(name for rule in self.rules for name in rule.feature_names)

    def learn(self, raw: Matrix) -> Preparation:
        """Return the same columns with levels and fills of these rows, coded with the present levels."""
        return Preparation(tuple(self._learned(rule, raw[:, j]) for j, rule in enumerate(self.rules)))

    @staticmethod
    def _learned(rule: Rule, raw: NDArray[np.float64]) -> Rule:
        known = raw[~np.isnan(raw)]
        if rule.levels is None:
            if rule.fill is None or not len(known):
                return rule
            scale = max(float(np.abs(known).max()), 1.0)
            return Rule(rule.name, None, float(np.mean(known / scale)) * scale)
        counts = np.bincount(known.astype(np.intp), minlength=len(rule.levels))
        levels = tuple(level for level, count in zip(rule.levels, counts, strict=True) if count)
        if not levels:
            return rule
        fill = most_frequent(levels, counts[counts > 0].tolist()) if rule.fill is not None else None
        return Rule(rule.name, levels, fill)

    def encode(self, raw: Matrix, levels: tuple[Levels | None, ...] | None = None) -> Matrix:
        """Return the features of rows of :func:`raw_matrix`, coded with given levels (or else with its own)."""
        coded = self.levels if levels is None else levels
        if all(rule.levels is None for rule in self.rules) and not np.isnan(raw).any():
            return raw
        return np.hstack([rule.encode(raw[:, j], coded[j]) for j, rule in enumerate(self.rules)])

    def facts(self) -> list[dict[str, Any]]:
        """Return the rules as JSON can hold them."""
        return [
            {"name": rule.name, "levels": None if rule.levels is None else list(rule.levels), "fill": rule.fill}
            for rule in self.rules
        ]

    @classmethod
    def of_facts(cls, facts: Any) -> Preparation:
        """Return the rules from :meth:`facts`; ValueError if these are none."""
        try:
            return cls(
                tuple(
                    Rule(
                        str(fact["name"]),
                        None if fact["levels"] is None else tuple(str(level) for level in fact["levels"]),
                        fact["fill"] if fact["fill"] is None or isinstance(fact["fill"], str) else float(fact["fill"]),
                    )
                    for fact in facts
                )
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"the preparation of columns makes no sense ({error!r})") from error


def raw_matrix(table: Table, preparation: Preparation) -> tuple[Matrix, list[str]]:
    """Return the columns as numbers: NaN where missing, categories as codes, and notes on what is odd.

    The code of a level is its position among the rule's levels; a level that is not there has the code after the last.
    Text where a number belongs, infinite numbers and missing values without a fill are refused with their place.
    """
    raw = np.empty((len(table), len(preparation.rules)), order="C")
    notes = []
    for j, rule in enumerate(preparation.rules):
        column = table.features[rule.name]
        if rule.levels is None:
            if column.text is not None and (found := np.flatnonzero(column.is_text)).size:
                row = int(found[0])
                text = column.text[row][:40]
                raise UnpreparedError(f"{table.place(row, rule.name)}: {text!r} is not a number.")
            raw[:, j] = column.numbers
            if (found := np.flatnonzero(np.isinf(column.numbers))).size:
                place = table.place(int(found[0]), rule.name)
                raise ValueError(f"{place}: the value is infinite. Correct or remove such values first.")
            missing = np.isnan(column.numbers)
        else:
            codes = {level: float(code) for code, level in enumerate(rule.levels)} | {"": np.nan}
            text = column.as_text()
            raw[:, j] = [codes.get(value, len(rule.levels)) for value in text.tolist()]
            unknown = raw[:, j] == len(rule.levels)
            if unknown.any():
                first = text[int(np.argmax(unknown))]
                notes.append(
                    f"{table.name}, column {rule.name!r}: {int(unknown.sum())} rows have a level that was not "
                    f"there in training ({first[:40]!r}); they are encoded as none of those known."
                )
            missing = text == ""
        if missing.any():
            if rule.fill is None:
                place = table.place(int(np.argmax(missing)), rule.name)
                raise UnpreparedError(f"{place}: the value is missing. Fill in or remove such values first.")
            notes.append(filled_note(table.name, rule, int(missing.sum()), len(table)))
    return raw, notes
