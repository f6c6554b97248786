"""A column of a table as numbers and text: what is missing, what is not a number, what the text says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.optional import require
from advmetric.utils.typing import Vector

__all__ = ["MISSING", "Column", "column_of_array", "column_of_text", "is_date", "is_number"]

MISSING = ("", "na", "n/a", "nan", "-nan", "null", "none", "?", "-", "<na>")
"""Texts that mean "missing", in any case, in a column of numbers; in a column of text only the empty one does."""
_WHOLE = 2.0**53
"""Smaller whole numbers are exact in double precision."""
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([T ].*)?|\d\d?[./]\d\d?[./]\d{2,4}( .*)?")


@dataclass(frozen=True)
class Column:
    """Values of a feature: ``numbers`` is NaN where a value is not a number.

    ``text`` has what is written there, "" where a cell is empty or null; None if that is so of all. Also "NA" and the
    like are kept: whether they are gaps or a category depends on the rest of the column.
    """

    numbers: Vector
    text: NDArray[np.object_] | None = None
    rounded: bool = False
    """Whether a whole number has digits that double precision does not hold."""

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def is_text(self) -> NDArray[np.bool_]:
        """Return where values are text that means no missing number."""
        found: NDArray[np.bool_] = np.isnan(self.numbers)
        if self.text is None:
            return np.zeros(len(self), dtype=bool)
        found[found] = [value.lower() not in MISSING for value in self.text[found].tolist()]
        return found

    def as_text(self) -> NDArray[np.object_]:
        """Return all values as text, "" where empty; a number in one form however it is written (1, 1.0, 01)."""
        values, codes = np.unique(self.numbers, return_inverse=True)
        forms = [_written(value) for value in values.tolist()]
        found: NDArray[np.object_] = np.array([*forms, ""], dtype=object)[codes]
        return found if self.text is None else np.where(np.isnan(self.numbers), self.text, found)


def _written(value: float) -> str:
    if value != value:
        return ""
    return f"{value:.0f}" if value.is_integer() else repr(value)


def is_number(text: str, decimal: str = ".") -> bool:
    """Return whether a text is a number, with the given sign before decimals."""
    return _number(text, decimal) is not None


def _number(text: str, decimal: str) -> float | None:
    if "_" in text or (decimal != "." and "." in text):
        return None
    try:
        return float(text.replace(decimal, "."))
    except ValueError:
        return None


def _is_rounded(written: str, number: float) -> bool:
    """Return whether a whole number as it is written has digits that the float does not have."""
    return _WHOLE <= abs(number) < np.inf and written.lstrip("+-").isdecimal() and int(written) != int(number)


def column_of_text(values: Any, decimal: str = ".") -> Column:
    """Read a column of Arrow strings: correctly rounded, spaces around a number ignored."""
    arrow, compute = require("pyarrow"), require("pyarrow.compute")
    trimmed = compute.utf8_trim_whitespace(values)
    numbers = _cast(trimmed) if decimal == "." else None  # nothing but numbers: most columns
    if numbers is None and decimal == ".":
        absent = compute.is_in(compute.utf8_lower(trimmed), value_set=arrow.array(MISSING))
        numbers = _cast(compute.if_else(absent, arrow.scalar(None, arrow.string()), trimmed))
    if numbers is None:  # text, or a way to write a number that Arrow does not know
        different, codes = _encoded(trimmed)
        parsed = (_number(text, decimal) for text in different.tolist())
        numbers = np.array([np.nan if number is None else number for number in parsed])[codes]
    large = np.abs(numbers) >= _WHOLE
    pairs = zip(trimmed.filter(arrow.array(large)).to_pylist(), numbers[large].tolist(), strict=True)
    rounded = any(_is_rounded(text, number) for text, number in pairs)
    unread = np.isnan(numbers)
    if not unread.any():
        return Column(numbers, None, rounded)
    different, codes = _encoded(compute.if_else(arrow.array(unread), trimmed, ""))
    return Column(numbers, different[codes] if any(different) else None, rounded)


def _encoded(strings: Any) -> tuple[NDArray[np.object_], NDArray[np.integer]]:
    """The different strings, and which of them each is."""
    encoded = strings.combine_chunks().dictionary_encode()
    return np.array(encoded.dictionary.to_pylist(), dtype=object), encoded.indices.to_numpy()


def _cast(values: Any) -> Vector | None:
    """Strings as numbers, NaN where null; None if one of them is not a number."""
    arrow, compute = require("pyarrow"), require("pyarrow.compute")
    try:
        numbers: Vector = compute.cast(values, arrow.float64()).to_numpy(zero_copy_only=False)
    except arrow.ArrowInvalid:
        return None
    # A written "nan" is a text like "NA".
    return None if np.count_nonzero(np.isnan(numbers)) > values.null_count else numbers


def column_of_array(values: NDArray, place: str) -> Column:
    """Take a typed column (Parquet, Excel); ``place`` names it in the error about dates."""
    if values.dtype.kind in "mM" or (values.dtype == object and any(hasattr(v, "isoformat") for v in values.tolist())):
        raise ValueError(f"{place} holds dates, which are not numbers. Convert them (to days, say), or --drop it.")
    if values.dtype.kind in "biuf":
        numbers = values.astype(np.float64)
        large = np.abs(numbers) >= _WHOLE if values.dtype.kind in "iu" else np.zeros(len(values), dtype=bool)
        return Column(numbers, None, any(_is_rounded(str(value), float(value)) for value in values[large].tolist()))
    numbers, text, rounded = np.full(len(values), np.nan), np.full(len(values), "", dtype=object), False
    for row, value in enumerate(values.tolist()):
        if value is None or value != value:
            continue
        written = str(value).strip()
        try:
            number = _number(written, ".") if isinstance(value, (str, bytes)) else float(value)
        except (TypeError, ValueError):
            number = None
        if number is None or np.isnan(number):
            text[row] = written
        else:
            numbers[row], rounded = number, rounded or _is_rounded(written, number)
    return Column(numbers, text if any(text) else None, rounded)


def is_date(text: str) -> bool:
    """Return whether a text looks like a date, with or without a time."""
    return _DATE.fullmatch(text) is not None
