"""Where a table comes from: a file, compressed or not, or a stream that is copied so that it can be read again."""

from __future__ import annotations

import bz2
import gzip
import lzma
import select
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast
from weakref import WeakKeyDictionary, finalize

from advmetric.utils.errors import UsageError
from advmetric.utils.optional import require

__all__ = ["EXCEL", "NPZ", "PARQUET", "STDIN", "TEXT", "Source", "is_npz", "open_source", "pyarrow", "stem_of"]

TEXT = {".csv": ",", ".tsv": "\t", ".txt": ","}
"""Suffixes of text tables, with the delimiter they are written with."""
PARQUET = (".parquet", ".pq")
EXCEL = (".xlsx",)
NPZ = (".npz",)
STDIN = Path("-")
"""The name of standard input."""


def _open_zstd(path: Path) -> IO[bytes]:
    stream: IO[bytes] = require("pyarrow", "a .zst file").input_stream(str(path), compression="zstd")
    return stream


def _open_gzip(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path, "rb"))


def _open_bz2(path: Path) -> IO[bytes]:
    return bz2.open(path, "rb")


def _open_lzma(path: Path) -> IO[bytes]:
    return lzma.open(path, "rb")


COMPRESSED: dict[str, Callable[[Path], IO[bytes]]] = {
    ".gz": _open_gzip,
    ".bz2": _open_bz2,
    ".xz": _open_lzma,
    ".zst": _open_zstd,
}
"""Suffixes of compressed text tables."""


def pyarrow() -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet."""
    return require("pyarrow", "a Parquet file"), require("pyarrow.parquet", "a Parquet file")


def _suffixes(path: Path) -> tuple[str, str]:
    """The suffix that says the format, and that of the compression or ""."""
    last = path.suffix.lower()
    return (Path(path.stem).suffix.lower(), last) if last in COMPRESSED else (last, "")


def stem_of(path: Path) -> str:
    """The name of a file without its suffixes; "stdin" for standard input.

    >>> stem_of(Path("data/cars.csv.gz"))
    'cars'
    """
    if path == STDIN:
        return "stdin"
    return Path(path.stem).stem if _suffixes(path)[1] else path.stem


def is_npz(path: Path) -> bool:
    """Return whether a file is of arrays, not a table."""
    return path.suffix.lower() in NPZ


@dataclass(frozen=True)
class Source:
    """A table that can be read from its beginning, any number of times."""

    path: Path
    format: str
    """"text", "parquet" or "excel"."""
    _open: Callable[[], IO[bytes]] = field(repr=False)

    @property
    def name(self) -> str:
        """Name for messages."""
        return "standard input" if self.path == STDIN else str(self.path)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the content, decompressed; damage of the compression is a ValueError that names the file."""
        compression = _suffixes(self.path)[1]
        try:
            with self._open() as stream:
                yield stream
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
            raise ValueError(f"{self.name} is not a {compression} file, or it is damaged ({error}).") from error
        except OSError as error:
            if compression and error.errno is None:  # what bz2 and pyarrow raise for damage
                raise ValueError(f"{self.name} is not a {compression} file, or it is damaged ({error}).") from error
            raise


def open_source(path: Path) -> Source:
    """Return the table at a path; ``-`` is standard input, whose first bytes say what it is."""
    if path == STDIN:
        return _standard_input()
    suffix, compression = _suffixes(path)
    kind = "parquet" if suffix in PARQUET else "excel" if suffix in EXCEL else "text" if suffix in TEXT else ""
    if not kind or (compression and kind != "text"):
        known = ", ".join((*TEXT, *PARQUET, *EXCEL, *NPZ))
        raise UsageError(f"{path} must end in {known}; text also in .csv{', .csv'.join(COMPRESSED)}", "DATA")
    if path.exists() and not path.is_file() and not path.is_dir():  # a pipe is read once: keep a copy
        with open(path, "rb") as stream:
            copy = _copied(stream)
        source = Source(path, kind, lambda: _again(copy))
        finalize(source, copy.close)
        return source
    if compression:
        return Source(path, kind, lambda: _decompressed(path, compression))
    return Source(path, kind, lambda: open(path, "rb"))


def _decompressed(path: Path, compression: str) -> IO[bytes]:
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return COMPRESSED[compression](path)


_STDIN: WeakKeyDictionary[Any, IO[bytes]] = WeakKeyDictionary()
"""The copy of standard input, once it was read."""


def _standard_input() -> Source:
    if sys.stdin not in _STDIN:
        _STDIN[sys.stdin] = _copied(sys.stdin.buffer)
        finalize(sys.stdin, _STDIN[sys.stdin].close)
    copy = _STDIN[sys.stdin]
    with _again(copy) as stream:
        start = stream.read(4)
    kind = "excel" if start[:2] == b"PK" else "parquet" if start == b"PAR1" else "text"
    return Source(STDIN, kind, lambda: _again(copy))


def _copied(stream: IO[bytes]) -> IO[bytes]:
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as its source
    while block := _next_block(stream):
        copy.write(block)
    copy.flush()
    return copy


def _next_block(stream: Any) -> bytes:
    """Read what a pipe has; wait for it in short turns.

    Ctrl-C that comes just before a blocking read is noticed only when the read ends, which may be never.
    """
    try:
        while not select.select([stream], [], [], 0.5)[0]:
            pass
    except (OSError, ValueError, TypeError):  # not a file descriptor, or Windows, where only sockets can be waited for
        pass
    return bytes(stream.read1(1 << 20))


class _Again:
    """A shared file from its beginning, left open at the end."""

    def __init__(self, file: IO[bytes]) -> None:
        file.seek(0)
        self._file = file

    def __enter__(self) -> IO[bytes]:
        return self._file

    def __exit__(self, *_: object) -> None: ...


def _again(file: IO[bytes]) -> Any:
    return _Again(file)
