"""Output of commands: tables on stdout, and files that are written atomically."""

from __future__ import annotations

import csv
import io
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from advmetric.io.sources import NPZ, PARQUET, STDIN, TEXT, pyarrow, stem_of
from advmetric.utils.archive import atomic_write

from .options import wrong

__all__ = ["SUFFIXES", "check_output", "check_writable", "give_back", "merged", "new_output", "show", "show_json"]

SUFFIXES = (*TEXT, *PARQUET, *NPZ)
"""Of files of columns."""


def show(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: ruled and folded to the width of a terminal, plain and never cut elsewhere."""
    terminal = sys.stdout.isatty()
    # Without a terminal: wide enough that every row is one line, and no control characters whatever FORCE_COLOR says.
    console = Console(file=sys.stdout, width=None if terminal else 100_000, force_terminal=terminal)
    table = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False)
    for position, name in enumerate(header):
        numeric = all(isinstance(row[position], (int, float)) or row[position] == "-" for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(f"{cell:.4f}" if isinstance(cell, float) else str(cell)) for cell in row))
    with console.capture() as capture:
        console.print(table)
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def show_json(value: object) -> None:
    """Print JSON in ASCII, indented; what it cannot express is printed as text."""
    print(json.dumps(value, indent=2, default=str))


def check_output(path: Path | None, *, suffixes: Sequence[str], inputs: Sequence[Path | None], force: bool) -> None:
    """Refuse, before any work, an output that could not be written or would destroy a file; ``-`` is stdout.

    With ``force``, a file that is there already is replaced, but never an input.
    """
    if path is None or path == STDIN:
        return
    if path.suffix.lower() not in suffixes:
        wrong(f"{path} must end in {', '.join(suffixes)}", "--out")
    if path.suffix.lower() in PARQUET:
        pyarrow()
    if any(given is not None and given.exists() and path.exists() and path.samefile(given) for given in inputs):
        wrong(f"{path} is also an input", "--out")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"the folder of {path} does not exist.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file, so it cannot be replaced by the output.")
    if path.exists() and not force:
        raise ValueError(f"{path} is there already: give --force to replace it, or another name with --out.")
    check_writable(path)


def new_output(data: Path, out: Path | None, ending: str, *, action: str, suffixes: Sequence[str], force: bool) -> Path:
    """Return the file to write, by default the name of ``data`` with an ending; an existing one needs ``force``."""
    target = Path(f"{stem_of(data)}{ending}") if out is None else out
    if target == STDIN:
        wrong(f"{action} to a file", "--out")
    check_output(target, suffixes=suffixes, inputs=(data,), force=force)
    return target


def check_writable(path: Path) -> None:
    """Raise if no file can be made in the folder of ``path``; permissions alone would not tell (read-only disks)."""
    folder = path.absolute().parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}, so the output cannot be written", str(path)) from error


def merged(kept: Mapping[str, NDArray], added: Mapping[str, NDArray], source: Path) -> dict[str, NDArray]:
    """The columns of the input that are kept and those added; a name must not occur twice."""
    twice = sorted(set(kept) & set(added))
    if twice:
        raise ValueError(f"{source} already has a column {twice[0]!r}, which the output adds; rename it or --drop it.")
    return {**kept, **added}


def give_back(columns: Mapping[str, NDArray], out: Path | None, summary: str) -> None:
    """Write columns as CSV on stdout (no file, or ``-``), or to a file; the summary is printed for a file."""
    if out is None or out == STDIN:
        _write_csv(sys.stdout, columns)
    else:
        _write_columns(out, columns)
        print(f"Wrote {out}: {summary}")


def _write_columns(path: Path, columns: Mapping[str, NDArray]) -> None:
    """Write columns as CSV, Parquet or npz, by the suffix of ``path``."""
    suffix = path.suffix.lower()
    with atomic_write(path) as stream:
        if suffix == ".npz":
            plain = {name: _without_objects(values) for name, values in columns.items()}
            np.savez_compressed(stream, **plain)  # type: ignore[arg-type]
        elif suffix in PARQUET:
            arrow, parquet = pyarrow()
            parquet.write_table(arrow.table({name: arrow.array(values) for name, values in columns.items()}), stream)
        else:
            text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
            _write_csv(text, columns, TEXT[suffix])
            text.detach()


def _write_csv(stream: TextIO, columns: Mapping[str, NDArray], delimiter: str = ",") -> None:
    """Write columns as CSV; numbers in full, so that they are read back as they were."""
    writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))


def _without_objects(values: NDArray) -> NDArray[Any]:
    """Arrays of Python objects as text: an npz file holds them without pickle."""
    return values.astype(str) if values.dtype == object else values
