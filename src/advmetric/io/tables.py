"""Reading CSV and Parquet without pandas: chosen columns as numbers, the others as they are.

Missing values and text among the numbers are refused with their place. Rows are counted from 1, without the header.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.errors import UsageError
from advmetric.utils.optional import require
from advmetric.utils.typing import Matrix

__all__ = ["NPZ", "PARQUET", "TEXT", "Choose", "Table", "pyarrow", "read_table", "read_tables"]

TEXT = {".csv": ",", ".tsv": "\t", ".txt": ","}
"""Suffixes of text tables, with the delimiter they are written with."""
PARQUET = (".parquet", ".pq")
NPZ = (".npz",)
MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "-", "<na>"}
_BATCH = 20_000
_SAMPLE = 1 << 16

Choose = Callable[[list[str]], Sequence[str]]
"""From the names of all columns to those that are numbers."""


@dataclass(frozen=True)
class Table:
    """The columns of a file: ``numbers`` (n, k) under ``names``, and the others by name."""

    path: Path
    names: tuple[str, ...]
    numbers: Matrix
    others: dict[str, NDArray]
    lines: NDArray[np.integer] | None = None
    """For text files, the line on which each row ends."""
    first: int = 0
    """Rows of the file before these."""

    def place(self, row: int, column: str) -> str:
        """Where a value is, for an error message."""
        return _place(self.path, self.first + row, None if self.lines is None else int(self.lines[row]), column)


def read_table(path: Path, choose: Choose, delimiter: str | None = None) -> Table:
    """Read a CSV or Parquet file; ``choose`` says which of its columns are numbers."""
    parts = list(read_tables(path, choose, delimiter))
    whole = parts[0]
    if len(parts) == 1:
        return whole
    others = {name: np.concatenate([part.others[name] for part in parts]) for name in whole.others}
    lines = np.concatenate([part.lines for part in parts if part.lines is not None])
    return Table(path, whole.names, np.concatenate([part.numbers for part in parts]), others, lines)


def read_tables(
    path: Path,
    choose: Choose,
    delimiter: str | None = None,
    rows: int | None = None,
    keep: Sequence[str] | None = None,
) -> Iterator[Table]:
    """Read a CSV or Parquet file in parts of so many rows, one in memory at a time; of the others, ``keep`` only."""
    suffix = path.suffix.lower()
    if suffix in PARQUET:
        parts = _read_parquet(path, choose, rows, keep)
    elif suffix in TEXT:
        parts = _read_text(path, choose, delimiter, rows or _BATCH, keep)
    else:
        raise UsageError(f"{path} must end in {', '.join((*TEXT, *PARQUET, *NPZ))}", "DATA")
    for table in parts:
        flawed = np.argwhere(~np.isfinite(table.numbers))
        if len(flawed):
            row, column = flawed[0]
            value = "missing" if np.isnan(table.numbers[row, column]) else "infinite"
            place = table.place(int(row), table.names[column])
            raise ValueError(f"{place}: the value is {value}. Fill in or remove such values first.")
        yield table


def _rest(header: Sequence[str], names: Sequence[str], keep: Sequence[str] | None) -> list[str]:
    """The columns that are not numbers, or those of them to keep."""
    used = set(names)
    return [name for name in header if name not in used and (keep is None or name in keep)]


# --- text ---------------------------------------------------------------------------------------------------


def _read_text(
    path: Path, choose: Choose, delimiter: str | None, size: int, keep: Sequence[str] | None
) -> Iterator[Table]:
    with open(path, encoding="utf-8-sig", newline="") as stream:
        try:
            yield from _parsed(path, stream, choose, _delimiter(delimiter, stream), size, keep)
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text; save it as CSV in UTF-8.") from error
        except csv.Error as error:
            raise ValueError(f"{path} is not a CSV file: {error}.") from error


def _delimiter(given: str | None, stream: TextIO) -> str:
    """The given delimiter, or the one that splits the first lines most evenly and most often."""
    if given is not None:
        character = "\t" if given in ("tab", "\\t") else given
        if len(character) != 1:
            raise UsageError(f"{given!r} is not one character", "--delimiter")
        return character
    sample = stream.read(_SAMPLE)
    stream.seek(0)
    lines = [line for line in sample.splitlines(keepends=True) if line.strip()]
    lines = lines[:-1] if len(sample) == _SAMPLE and len(lines) > 1 else lines

    def merit(candidate: str) -> tuple[bool, int]:
        widths = [len(row) for row in csv.reader(lines[:50], delimiter=candidate)]
        return (len(set(widths)) == 1 and widths[0] > 1, widths[0] if widths else 0)

    return max(",;\t|", key=merit)


def _parsed(
    path: Path, stream: TextIO, choose: Choose, delimiter: str, size: int, keep: Sequence[str] | None
) -> Iterator[Table]:
    reader = csv.reader(stream, delimiter=delimiter)
    rows = ((reader.line_num, row) for row in reader if any(cell.strip() for cell in row))
    header = [name.strip() for name in next(rows, (0, []))[1]]
    if not header:
        raise ValueError(f"{path} is empty.")
    _check_header(path, header)
    names = tuple(choose(header))
    wanted = [header.index(name) for name in names]
    rest = {name: header.index(name) for name in _rest(header, names, keep)}
    first = 0
    while batch := list(islice(rows, size)):
        for line, row in batch:
            if len(row) != len(header):
                raise ValueError(f"{path}, line {line} has {len(row)} values, but the header has {len(header)} names.")
        cells = [[row[position] for position in wanted] for _, row in batch]
        try:
            numbers = np.array(cells, dtype=np.float64).reshape(len(cells), -1)
        except ValueError:
            at, column, flaw = _first_flaw(cells)
            place = _place(path, first + at, batch[at][0], names[column])
            raise ValueError(f"{place}: {flaw}") from None
        others = {
            name: np.array([row[position].strip() for _, row in batch], dtype=object) for name, position in rest.items()
        }
        yield Table(path, names, numbers, others, np.array([line for line, _ in batch], dtype=np.int64), first)
        first += len(batch)
    if not first:
        raise ValueError(f"{path} has a header but no rows.")


def _first_flaw(cells: list[list[str]]) -> tuple[int, int, str]:
    """Row, column and description of the first cell that is no number."""
    for row, values in enumerate(cells):
        for column, value in enumerate(values):
            if value.strip().lower() in MISSING:
                return row, column, "the value is missing. Fill in or remove such values first."
            if not _is_number(value):
                decimal = _is_number(value.replace(",", "."))
                cure = "Write decimals with a point." if decimal else "Leave a text column out with --drop."
                return row, column, f"{value[:40]!r} is not a number. {cure}"
    raise AssertionError("every cell is a number, yet NumPy refused one")


def _place(path: Path, row: int, line: int | None, column: str) -> str:
    """Where a value is, for an error message."""
    return f"{path}, row {row + 1}{'' if line is None else f' (line {line})'}, column {column!r}"


def _check_header(path: Path, header: list[str]) -> None:
    """Refuse what is no header: numbers (data without one), names that occur twice or are empty."""
    if all(_is_number(name) for name in header):
        raise ValueError(f"{path} has no header: its first line is all numbers. Put the names of the columns there.")
    for position, name in enumerate(header, start=1):
        if not name:
            raise ValueError(
                f"{path}: column {position} has no name in the header. Name it, or leave it out (pandas: index=False)."
            )
        if header.count(name) > 1:
            raise ValueError(f"{path} has two columns called {name!r}.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# --- Parquet ------------------------------------------------------------------------------------------------


def pyarrow() -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet."""
    return require("pyarrow", "a Parquet file"), require("pyarrow.parquet", "a Parquet file")


def _read_parquet(path: Path, choose: Choose, rows: int | None, keep: Sequence[str] | None) -> Iterator[Table]:
    arrow, parquet = pyarrow()
    with open(path, "rb") as stream:
        try:
            # In parts: neither row groups ahead, nor a whole one at once, which may be all of the file.
            whole = rows is None
            file = parquet.ParquetFile(stream, pre_buffer=whole, buffer_size=0 if whole else 1 << 16)
            # What pandas keeps of an index is no column of the user's.
            header = [name for name in file.schema_arrow.names if not re.fullmatch(r"__index_level_\d+__", name)]
            if len(set(header)) < len(header):
                raise ValueError(f"{path} has two columns of one name.")
            names = tuple(choose(header))
            rest = _rest(header, names, keep)
            if file.metadata.num_rows == 0:
                raise ValueError(f"{path} has no rows.")
            columns, first = [*names, *rest], 0
            if rows is None:
                parts: Iterable[Any] = [file.read(columns)]
            else:
                parts = (arrow.Table.from_batches([batch]) for batch in file.iter_batches(rows, columns=columns))
            for part in parts:
                yield _of_arrow(path, part, names, rest, first)
                first += part.num_rows
        except (arrow.ArrowException, OSError) as error:
            raise ValueError(f"{path} is not a Parquet file, or it is damaged ({error}).") from error


def _of_arrow(path: Path, content: Any, names: tuple[str, ...], rest: Sequence[str], first: int) -> Table:
    columns = {name: _array(content.column(name)) for name in (*names, *rest)}
    for name in names:
        if columns[name].dtype.kind not in "biuf":
            raise ValueError(f"{path}, column {name!r} is not of numbers. Leave it out with --drop.")
    numbers = np.empty((content.num_rows, len(names)))
    for position, name in enumerate(names):
        numbers[:, position] = columns[name]
    return Table(path, names, numbers, {name: columns[name] for name in rest}, first=first)


def _array(column: Any) -> NDArray:
    """A column of Arrow as an array; categories are decoded, for a missing one would become another."""
    chunk = column.combine_chunks()
    values: NDArray = (chunk.dictionary_decode() if hasattr(chunk, "dictionary_decode") else chunk).to_numpy(
        zero_copy_only=False
    )
    return values
