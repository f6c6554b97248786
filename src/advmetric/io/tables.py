"""Tables as columns: text, Parquet and Excel, whole or in parts. Rows are counted from 1, without the header.

Chosen columns are features, read as numbers or text; the others are carried as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.optional import require

from .columns import Column, column_of_array, column_of_text
from .sources import Source, open_source, pyarrow
from .text import TextFormat, line_of_row, read_header, read_text

__all__ = ["Choose", "Table", "read_table", "read_tables"]

Choose = Callable[[list[str]], Sequence[str]]
"""From the names of all columns to those of the features."""


@dataclass(frozen=True)
class Table:
    """The columns of a file, or of some of its rows: features by name, and the others by name."""

    name: str
    features: dict[str, Column]
    others: dict[str, NDArray]
    first: int = 0
    """Rows of the file before these."""
    line: Callable[[int], int | None] = field(default=lambda row: None, repr=False)
    """The line of a row of the file, for files that have lines; slow."""
    decimal: str = "."

    def __len__(self) -> int:
        columns: list[Any] = [*self.features.values(), *self.others.values()]
        return len(columns[0]) if columns else 0

    def place(self, row: int, column: str) -> str:
        """Where a value is, for an error message."""
        line = self.line(self.first + row)
        return f"{self.name}, row {self.first + row + 1}{'' if line is None else f' (line {line})'}, column {column!r}"


def read_table(path: Path, choose: Choose, form: TextFormat | None = None) -> Table:
    """Read a table at once; ``choose`` says which of its columns are features."""
    (whole,) = read_tables(path, choose, form)  # to its end, where a quote that is not closed is found
    return whole


def read_tables(
    path: Path,
    choose: Choose,
    form: TextFormat | None = None,
    rows: int | None = None,
    keep: Sequence[str] | None = None,
) -> Iterator[Table]:
    """Read a table in parts of ``rows`` rows, one in memory at a time; of the other columns, ``keep`` only."""
    source = open_source(path)
    if source.format == "parquet":
        return _read_parquet(source, choose, rows, keep)
    if source.format == "excel":
        return _read_excel(source, choose, form or TextFormat(), rows, keep)
    return _read_text(source, choose, form or TextFormat(), rows, keep)


def _rest(header: Sequence[str], names: Sequence[str], keep: Sequence[str] | None) -> list[str]:
    """The columns that are no features, or those of them to keep."""
    used = set(names)
    return [name for name in header if name not in used and (keep is None or name in keep)]


def _read_text(
    source: Source, choose: Choose, form: TextFormat, rows: int | None, keep: Sequence[str] | None
) -> Iterator[Table]:
    compute = require("pyarrow.compute", "a table")
    header = read_header(source, form)
    names = tuple(choose(header.names))
    rest = _rest(header.names, names, keep)
    first = 0
    for content in read_text(source, header, rows):
        if not content.num_rows:
            continue
        features = {name: column_of_text(content.column(name), form.decimal) for name in names}
        others = {
            name: np.array(compute.utf8_trim_whitespace(content.column(name)).to_pylist(), dtype=object)
            for name in rest
        }
        yield Table(source.name, features, others, first, lambda row: line_of_row(source, header, row), form.decimal)
        first += content.num_rows
    if not first:
        raise ValueError(f"{source.name} has a header but no rows.")


def _read_excel(
    source: Source, choose: Choose, form: TextFormat, rows: int | None, keep: Sequence[str] | None
) -> Iterator[Table]:
    """The first sheet; Excel files are small enough to be read whole, so parts are cut from memory."""
    pandas = require("pandas", "an Excel file")
    require("openpyxl", "an Excel file")
    with source.open() as stream:
        try:
            sheet = pandas.read_excel(
                stream, header=0 if form.header else None, dtype=object, engine="openpyxl", keep_default_na=False
            )
        except Exception as error:  # zip directories and XML of a damaged file raise nearly anything
            raise ValueError(f"{source.name} is not an Excel file, or it is damaged ({error}).") from error
    if not form.header:
        sheet.columns = range(1, sheet.shape[1] + 1)
    sheet.columns = [str(name).strip() for name in sheet.columns]
    for position, name in enumerate(sheet.columns, start=1):
        if name.startswith("Unnamed: "):
            raise ValueError(f"{source.name}: column {position} has no name in the first row of the sheet.")
        if re.fullmatch(r".+\.1", name) and name[:-2] in sheet.columns:
            raise ValueError(f"{source.name} has two columns called {name[:-2]!r}.")
    header = list(sheet.columns)
    if not header:
        raise ValueError(f"{source.name} is empty.")
    names = tuple(choose(header))
    rest = _rest(header, names, keep)
    if not len(sheet):
        raise ValueError(f"{source.name} has no rows.")
    above = 2 if form.header else 1
    for first in range(0, len(sheet), rows or len(sheet)):
        part = sheet.iloc[first : first + (rows or len(sheet))]
        features = {
            name: column_of_array(_object_array(part[name]), f"{source.name}, column {name!r}") for name in names
        }
        others = {name: _object_array(part[name]) for name in rest}
        yield Table(source.name, features, others, first, lambda row: row + above)


def _object_array(column: Any) -> NDArray[np.object_]:
    array: NDArray[np.object_] = column.to_numpy(dtype=object)
    return array


def _read_parquet(source: Source, choose: Choose, rows: int | None, keep: Sequence[str] | None) -> Iterator[Table]:
    arrow, parquet = pyarrow()
    with source.open() as stream:
        try:
            # In parts: neither row groups ahead, nor a whole one at once, which may be all of the file.
            whole = rows is None
            file = parquet.ParquetFile(stream, pre_buffer=whole, buffer_size=0 if whole else 1 << 16)
            # An index that pandas stored is not a column of the user.
            header = [name for name in file.schema_arrow.names if not re.fullmatch(r"__index_level_\d+__", name)]
            if len(set(header)) < len(header):
                raise ValueError(f"{source.name} has two columns of one name.")
            names = tuple(choose(header))
            rest = _rest(header, names, keep)
            if file.metadata.num_rows == 0:
                raise ValueError(f"{source.name} has no rows.")
            columns, first = [*names, *rest], 0
            if rows is None:
                parts: Iterable[Any] = [file.read(columns)]
            else:
                parts = (arrow.Table.from_batches([batch]) for batch in file.iter_batches(rows, columns=columns))
            for part in parts:
                arrays = {name: _array(part.column(name)) for name in columns}
                features = {name: column_of_array(arrays[name], f"{source.name}, column {name!r}") for name in names}
                yield Table(source.name, features, {name: arrays[name] for name in rest}, first)
                first += part.num_rows
        except (arrow.ArrowException, OSError) as error:
            raise ValueError(f"{source.name} is not a Parquet file, or it is damaged ({error}).") from error


def _array(column: Any) -> NDArray:
    """A column of Arrow as an array; categories are decoded, for a missing one would become another."""
    chunk = column.combine_chunks()
    values: NDArray = (chunk.dictionary_decode() if hasattr(chunk, "dictionary_decode") else chunk).to_numpy(
        zero_copy_only=False
    )
    return values
