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

MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-", "<na>")
"""Values of a feature that mean "missing", in any case."""
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([T ].*)?|\d\d?[./]\d\d?[./]\d{2,4}( .*)?")


@dataclass(frozen=True)
class Column:
    """Values of a feature: ``numbers`` is NaN where a value is missing or text.

    ``text`` has the values as they are written, "" where missing; None if all values are numbers or missing.
    """

    numbers: Vector
    text: NDArray[np.object_] | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Return where values are missing."""
        missing: NDArray[np.bool_] = np.isnan(self.numbers)
        return missing if self.text is None else missing & (self.text == "")

    @property
    def is_text(self) -> NDArray[np.bool_]:
        """Return where values are text."""
        if self.text is None:
            return np.zeros(len(self), dtype=bool)
        return np.isnan(self.numbers) & (self.text != "")

    def as_text(self) -> NDArray[np.object_]:
        """Return all values as text, "" where missing; a number in one form however it is written (1, 1.0, 01)."""
        values, codes = np.unique(self.numbers, return_inverse=True)
        forms = [_written(value) for value in values.tolist()]
        found: NDArray[np.object_] = np.array([*forms, ""], dtype=object)[codes]
        return found if self.text is None else np.where(self.is_text, self.text, found)


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


def column_of_text(values: Any, decimal: str = ".") -> Column:
    """Read a column of Arrow strings: correctly rounded, spaces around a number ignored."""
    arrow, compute = require("pyarrow"), require("pyarrow.compute")
    trimmed = compute.utf8_trim_whitespace(values)
    absent = compute.is_in(compute.utf8_lower(trimmed), value_set=arrow.array(MISSING))
    present = compute.if_else(absent, arrow.scalar(None, arrow.string()), trimmed)
    if decimal == ".":
        try:
            return Column(_floats(compute.cast(present, arrow.float64())))
        except arrow.ArrowInvalid:
            pass  # text, or a way to write a number that Arrow does not know
    encoded = present.combine_chunks().dictionary_encode()
    written = np.array([*encoded.dictionary.to_pylist(), ""], dtype=object)  # the last one for what is missing
    parsed = [_number(text, decimal) for text in written[:-1]]
    codes = encoded.indices.fill_null(len(parsed)).to_numpy(zero_copy_only=False)
    numbers = np.array([*(np.nan if number is None else number for number in parsed), np.nan])[codes]
    return Column(numbers, written[codes] if any(number is None for number in parsed) else None)


def _floats(values: Any) -> Vector:
    floats: Vector = values.to_numpy(zero_copy_only=False) if not hasattr(values, "chunks") else values.to_numpy()
    return floats


def column_of_array(values: NDArray, place: str) -> Column:
    """Take a typed column (Parquet, Excel); ``place`` names it in the error about dates."""
    if values.dtype.kind in "mM" or (values.dtype == object and any(hasattr(v, "isoformat") for v in values.tolist())):
        raise ValueError(f"{place} holds dates, which are not numbers. Convert them (to days, say), or --drop it.")
    if values.dtype.kind in "biuf":
        return Column(values.astype(np.float64))
    numbers, text, some = np.full(len(values), np.nan), np.full(len(values), "", dtype=object), False
    for row, value in enumerate(values.tolist()):
        if value is None or value != value:
            continue
        written = str(value).strip()
        if isinstance(value, (str, bytes)):
            if written.lower() in MISSING:
                continue
            number = _number(written, ".")
        else:
            try:
                number = float(value)
            except (TypeError, ValueError):
                number = None
        text[row], some = written, some or number is None
        numbers[row] = np.nan if number is None else number
    return Column(numbers, text if some else None)


def is_date(text: str) -> bool:
    """Return whether a text looks like a date, with or without a time."""
    return _DATE.fullmatch(text) is not None
