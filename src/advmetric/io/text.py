"""Text tables by pyarrow's reader, and the line of an error by a second, slower look at the file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, TextIO

from advmetric.utils.errors import UsageError
from advmetric.utils.optional import require

from .columns import is_number
from .sources import Source

__all__ = ["TextFormat", "line_of_row", "read_header", "read_text"]

_BLOCK = 1 << 24
"""Bytes that are parsed at once when the whole file is read; a row must not be longer."""
_SMALL_BLOCK = 1 << 22
_SAMPLE = 1 << 16


@dataclass(frozen=True)
class TextFormat:
    """How a text table is written.

    Parameters
    ----------
    delimiter : str, optional
        A character, or "tab"; found from the first lines if None.
    decimal : str
        The sign before decimals.
    header : bool
        Whether the first line has the names of the columns; if not, their names are 1, 2, 3 …
    """

    delimiter: str | None = None
    decimal: str = "."
    header: bool = True

    def __post_init__(self) -> None:
        if self.delimiter is not None and len(self._given) != 1:
            raise UsageError(f"{self.delimiter!r} is not one character", "--delimiter")
        if self.decimal not in (".", ","):
            raise UsageError(f"{self.decimal!r} is neither . nor ,", "--decimal")
        if self.decimal == self.delimiter:
            raise UsageError("the same as --delimiter", "--decimal")

    @property
    def _given(self) -> str:
        return "\t" if self.delimiter in ("tab", "\\t") else self.delimiter or ""

    def found_in(self, sample: str) -> str:
        """Return the given delimiter, or the one that splits the first lines most evenly and most often."""
        if self.delimiter is not None:
            return self._given
        lines = [line for line in sample.splitlines(keepends=True) if line.strip()]
        lines = lines[:-1] if len(sample) == _SAMPLE and len(lines) > 1 else lines

        def merit(candidate: str) -> tuple[bool, int]:
            widths = [len(row) for row in csv.reader(lines[:50], delimiter=candidate)]
            return (len(set(widths)) == 1 and widths[0] > 1, widths[0] if widths else 0)

        return max([c for c in ",;\t|" if c != self.decimal], key=merit)


@dataclass(frozen=True)
class Header:
    """Names of the columns, the delimiter, and the number of lines before the first row."""

    names: list[str]
    delimiter: str
    lines: int


@contextmanager
def _text_of(source: Source) -> Iterator[TextIO]:
    with source.open() as content:
        stream = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
        try:
            yield stream
        except UnicodeDecodeError as error:
            raise _not_utf8(source) from error
        finally:
            stream.detach()


def read_header(source: Source, form: TextFormat) -> Header:
    """Read the names of the columns."""
    try:
        with _text_of(source) as stream:
            delimiter = form.found_in(stream.read(_SAMPLE))
        with _text_of(source) as stream:  # again, for not every stream can go back
            reader = csv.reader(stream, delimiter=delimiter)
            names = next(([cell.strip() for cell in row] for row in reader if any(cell.strip() for cell in row)), [])
            lines = reader.line_num
    except csv.Error as error:
        raise ValueError(f"{source.name} is not a CSV file: {error}.") from error
    if not names:
        raise ValueError(f"{source.name} is empty.")
    if not form.header:
        return Header([str(number) for number in range(1, len(names) + 1)], delimiter, 0)
    _check_names(source, names, form.decimal)
    return Header(names, delimiter, lines)


def _not_utf8(source: Source) -> ValueError:
    return ValueError(f"{source.name} is not UTF-8 text; save it as CSV in UTF-8.")


def _check_names(source: Source, names: list[str], decimal: str) -> None:
    """Raise if the first line is not a header: it holds data, or names that are empty or occur twice."""
    numbers = [name for name in names if is_number(name, decimal)]
    fractions = [name for name in numbers if not name.lstrip("+-").isdecimal()]
    if len(numbers) == len(names) or (fractions and 2 * len(numbers) >= len(names)):
        raise ValueError(
            f"{source.name} has no header: its first line is data ({', '.join(names[:3])} …). Give --no-header (the "
            "columns are then called 1, 2, 3 …), or put the names of the columns there."
        )
    for position, name in enumerate(names, start=1):
        if not name:
            raise ValueError(
                f"{source.name}: column {position} has no name in the header. Name it, or leave it out "
                "(pandas: index=False)."
            )
        if names.count(name) > 1:
            raise ValueError(f"{source.name} has two columns called {name!r}.")


class _QuoteCounter(io.RawIOBase):
    """A stream that counts quotes: if they are odd in number, one may not be closed."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.quotes = stream, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(size)
        self.quotes += content.count(b'"')
        return bytes(content)


def read_text(source: Source, header: Header, rows: int | None) -> Iterator[Any]:
    """Yield Arrow tables of strings: all rows at once, or ``rows`` at a time. Blank rows are left out."""
    arrow, reading = require("pyarrow", "a table"), require("pyarrow.csv", "a table")
    strings = {name: arrow.string() for name in header.names}
    blank = header.delimiter + " \t\r\n"

    def on_bad_row(row: Any) -> str:
        return "skip" if not row.text.strip(blank) else "error"

    with source.open() as content:
        counter = _QuoteCounter(content)
        try:
            reader = reading.open_csv(
                arrow.PythonFile(counter, "r"),
                reading.ReadOptions(
                    use_threads=False,
                    block_size=_BLOCK if rows is None else _SMALL_BLOCK,
                    column_names=header.names,
                    skip_rows=header.lines,
                ),
                reading.ParseOptions(
                    delimiter=header.delimiter, newlines_in_values=True, invalid_row_handler=on_bad_row
                ),
                reading.ConvertOptions(column_types=strings, strings_can_be_null=False),
            )
            batches = (_without_blank(arrow.Table.from_batches([batch])) for batch in reader)
            yield from _grouped(arrow, batches, rows, reader.schema)
        except arrow.ArrowInvalid as error:
            _diagnose(source, header)
            if "UTF8" in str(error):
                raise _not_utf8(source) from error
            if "straddling" in str(error):
                raise ValueError(f"{source.name} has a row of more than {_SMALL_BLOCK >> 20} MB.") from error
            raise ValueError(f"{source.name} is not a CSV file: {error}.") from error
        except arrow.ArrowException as error:
            raise ValueError(f"{source.name} cannot be read: {error}.") from error
    if counter.quotes % 2:
        _diagnose(source, header)


def _grouped(arrow: Any, batches: Iterator[Any], rows: int | None, schema: Any) -> Iterator[Any]:
    """Cut and join batches to tables of ``rows`` rows, or to one."""
    if rows is None:
        parts = list(batches)
        yield arrow.concat_tables(parts) if parts else schema.empty_table()
        return
    waiting: list[Any] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= rows:
            joined = arrow.concat_tables(waiting)
            whole = count - count % rows
            for start in range(0, whole, rows):
                yield joined.slice(start, rows)
            waiting, count = [joined.slice(whole)], count - whole
    if count:
        yield arrow.concat_tables(waiting)


def _without_blank(table: Any) -> Any:
    """Leave out rows of which every value is blank, as spreadsheets append them."""
    compute = require("pyarrow.compute")
    empty: Any = None
    for column in table.columns:
        blank = compute.equal(compute.utf8_trim_whitespace(column), "")
        empty = blank if empty is None else compute.and_(empty, blank)
        if not compute.any(empty).as_py():
            return table
    return table.filter(compute.invert(empty))


# --- places of errors ---------------------------------------------------------------------------------------


def _rows(source: Source, header: Header, *, strict: bool) -> Iterator[tuple[int, int, list[str]]]:
    """Rows that are not blank, with their first and last line."""
    with _text_of(source) as stream:
        reader = csv.reader(stream, delimiter=header.delimiter, strict=strict)
        started = 1
        try:
            for row in reader:
                if reader.line_num > header.lines and any(cell.strip() for cell in row):
                    yield started, reader.line_num, row
                started = reader.line_num + 1
        except csv.Error as error:
            # A value of more than 128 kB: nearly always the rest of the file after a quote that is not closed.
            unclosed = "end of data" in str(error) or "field limit" in str(error)
            what = "a quote is not closed" if unclosed else str(error)
            raise ValueError(f"{source.name}, line {started}: {what}.") from error


def _diagnose(source: Source, header: Header) -> None:
    """Raise an error with a line for the first row that is not as wide as the header, or not closed."""
    for _, line, row in _rows(source, header, strict=True):
        if len(row) != len(header.names):
            raise ValueError(
                f"{source.name}, line {line} has {len(row)} values, but the header has {len(header.names)} names."
                if header.lines
                else f"{source.name}, line {line} has {len(row)} values, but the first row has {len(header.names)}."
            )


def line_of_row(source: Source, header: Header, row: int) -> int | None:
    """Return the line on which a row (counted from 0) ends."""
    for number, (_, line, _) in enumerate(_rows(source, header, strict=False)):
        if number == row:
            return line
    return None
