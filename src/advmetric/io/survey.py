"""What the columns of a table hold: numbers or categories, their means, and what looks like a mistake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from advmetric.utils.typing import Vector

from .columns import Column, is_date, is_number
from .preparation import Preparation, Rule, filled_note, most_frequent
from .tables import Table

__all__ = ["MAX_LEVELS", "Survey"]

MAX_LEVELS = 50
"""Most values of a category: each becomes a feature."""
_IDENTIFIERS = {"id", "ids", "idx", "index", "uuid", "guid", "key", "row", "rowid", "rownum", "row_number", "nr"}
_FEW = 8
"""Fewer rows in ascending order mean nothing."""


@dataclass
class _Facts:
    """What is known of one column so far."""

    rows: int = 0
    numbers: int = 0
    texts: int = 0
    empty: int = 0
    mean: float = 0.0
    low: float = np.inf
    high: float = -np.inf
    last: float = np.nan
    whole: bool = True
    rounded: bool = False
    rising: bool = True
    falling: bool = True
    levels: Counter[str] = field(default_factory=Counter)
    counted: int = 0
    """Rows that ``levels`` counts."""
    first_text: tuple[Table, int, str] | None = None
    """A table without columns (for the place), the row in it and the text."""
    sample: list[str] = field(default_factory=list)

    def update(self, column: Column, shell: Table, count_levels: bool) -> None:
        known = column.numbers[np.isfinite(column.numbers)]  # infinite ones are refused later, with their place
        self.rows += len(column)
        self.rounded = self.rounded or column.rounded
        if len(known):
            self._add_numbers(known)
        unread = np.isnan(column.numbers)
        places = np.flatnonzero(column.is_text)
        if column.text is not None and len(places):
            if not self.texts:
                self.first_text = (shell, int(places[0]), column.text[places[0]])
                self.sample = column.text[places[:20]].tolist()
            self.texts += len(places)
        self.empty += int(np.sum(unread if column.text is None else column.text[unread] == ""))
        if (len(places) or count_levels) and len(self.levels) <= MAX_LEVELS:
            self.levels.update(value for value in column.as_text().tolist() if value)
            self.counted += len(column)

    def _add_numbers(self, known: Vector) -> None:
        self.numbers += len(known)
        scale = max(float(np.abs(known).max()), 1.0)
        mean = float(np.mean(known / scale)) * scale
        self.mean += (mean - self.mean) * (len(known) / self.numbers)
        self.low, self.high = min(self.low, float(known.min())), max(self.high, float(known.max()))
        self.whole = self.whole and bool(np.all(known == np.floor(known)))
        steps = np.diff(known) if np.isnan(self.last) else np.diff(known, prepend=self.last)
        self.rising = self.rising and bool(np.all(steps > 0))
        self.falling = self.falling and bool(np.all(steps < 0))
        self.last = float(known[-1])


class Survey:
    """Facts about the features of a table that is seen once, whole or in parts.

    Parameters
    ----------
    categories : collection of str
        Columns that are categories even if they are written as numbers.
    """

    def __init__(self, categories: Collection[str] = ()) -> None:
        self._forced = set(categories)
        self._facts: dict[str, _Facts] = {}
        self._table: Table | None = None

    def update(self, table: Table) -> Survey:
        """Take a part of the table into account."""
        self._table = replace(table, features={}, others={})  # for places of errors; columns are not kept
        for name, column in table.features.items():
            self._facts.setdefault(name, _Facts()).update(column, self._table, name in self._forced)
        return self

    def categories(self) -> list[str]:
        """Return the columns to encode as categories; refuse text that is none.

        A column is a category if it was declared one, or if most of its values are text.
        """
        return [name for name, facts in self._facts.items() if self._is_category(name, facts)]

    def _is_category(self, name: str, facts: _Facts) -> bool:
        assert self._table is not None
        if not facts.texts and name not in self._forced:
            return False
        if facts.first_text is not None and name not in self._forced:
            table, row, text = facts.first_text
            decimal = table.decimal == "." and all("," in t and is_number(t, ",") for t in facts.sample)
            if decimal or facts.texts <= facts.numbers:
                cure = f"Correct it, leave the column out with --drop, or call it a category: --category {name}."
                cure = "Give --decimal , or write decimals with a point." if decimal else cure
                raise ValueError(f"{table.place(row, name)}: {text[:40]!r} is not a number. {cure}")
        where = f"{self._table.name}, column {name!r}"
        example = f" ({facts.sample[0][:40]!r})" if facts.sample else ""
        if facts.sample and all(map(is_date, facts.sample)):
            raise ValueError(
                f"{where} holds dates{example}, which are not numbers. Convert them (to days, say), or leave the "
                "column out with --drop."
            )
        values = facts.rows - facts.empty
        if len(facts.levels) > MAX_LEVELS or (len(facts.levels) == values and values > 2):
            many = "of which every one differs" if len(facts.levels) == values else f"of more than {MAX_LEVELS} kinds"
            raise ValueError(
                f"{where} holds text{example}, {many}: it is not a number and not a category. Leave it out with --drop."
            )
        return True

    def uncounted(self) -> list[str]:
        """Return the categories of which some rows were not counted, for they came before the first text."""
        return [name for name in self.categories() if self._facts[name].counted < self._facts[name].rows]

    def preparation(self, *, fill: bool = True) -> Preparation:
        """Return how to prepare the columns, by means and most frequent levels; ``fill=False``: nothing is filled."""
        chosen = set(self.categories())
        rules = []
        for name, facts in self._facts.items():
            if name in chosen:
                levels = tuple(sorted(facts.levels))
                common = most_frequent(levels, [facts.levels[level] for level in levels]) if levels else None
                rules.append(Rule(name, levels, common if fill else None))
            else:
                rules.append(Rule(name, None, (facts.mean if facts.numbers else 0.0) if fill else None))
        return Preparation(tuple(rules))

    @property
    def missing(self) -> dict[str, int]:
        """Return the number of missing values of each column that has some."""
        counts = {
            name: facts.empty if facts.texts or name in self._forced else facts.rows - facts.numbers
            for name, facts in self._facts.items()
        }
        return {name: count for name, count in counts.items() if count}

    def filled(self, table: str, preparation: Preparation) -> list[str]:
        """Return a sentence for each column with missing values: what these are filled with."""
        missing = self.missing
        return [
            filled_note(table, rule, missing[rule.name], self._facts[rule.name].rows)
            for rule in preparation.rules
            if rule.name in missing
        ]

    def suspicions(self) -> list[str]:
        """Return sentences about columns that should perhaps not be features."""
        said = []
        for name, facts in self._facts.items():
            if facts.texts or not facts.numbers or not facts.whole or (name in self._forced and not facts.rounded):
                continue
            ordered = (facts.rising or facts.falling) and facts.numbers >= _FEW
            called = name.lower().strip("_ #") in _IDENTIFIERS or name.lower().endswith(("_id", " id", "_uuid"))
            if facts.rounded or ((ordered or called) and facts.low < facts.high):
                why = "its whole numbers only rise or fall" if ordered else "by its name"
                why = "it has more digits than the 15 that are kept" if facts.rounded else why
                said.append(
                    f"column {name!r} looks like an identifier ({why}), but is used as a feature; --drop {name} leaves "
                    "it out."
                )
        alike = [name for name, f in self._facts.items() if f.numbers and not f.texts and f.low == f.high]
        constant = [name for name in alike if name not in self._forced and not self._facts[name].rounded]
        if constant:
            names = ", ".join(map(repr, constant[:10])) + (f" and {len(constant) - 10} more" if constant[10:] else "")
            plural = "columns have" if len(constant) > 1 else "column has"
            said.append(f"{len(constant)} {plural} the same value in every row, which is of no use: {names}.")
        return said
