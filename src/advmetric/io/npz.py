"""Arrays inside npz files that are not loaded: read in blocks of rows, or rows in any order.

Nothing is mapped into memory: a file that is truncated while it is mapped kills the process (SIGBUS), a read of it is
an error that can be reported.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from advmetric.utils.archive import DamagedFileError, damage_reported

__all__ = ["Member", "OnDisk", "members"]

_GAP_BYTES = 1 << 14
"""Rows that are farther apart than this are read one by one."""


class Member:
    """An array of an npz file, by its header: ``shape`` and ``dtype``. Its numbers stay in the file."""

    def __init__(self, path: Path, archive: ZipFile, name: str) -> None:
        self._path, self._archive, self._name = path, archive, name
        with damage_reported(path), self._open() as stream:
            self._start = stream.tell()

    def _open(self) -> IO[bytes]:
        """A stream at the first number."""
        stream = self._archive.open(f"{self._name}.npy")
        read = npy.read_array_header_1_0 if npy.read_magic(stream) == (1, 0) else npy.read_array_header_2_0
        self.shape, self._by_column, self.dtype = read(stream)
        return stream

    def blocks(self, rows: int) -> Iterator[NDArray]:
        """Yield the array in blocks of ``rows`` rows; zipfile checks the sum of all bytes at the end."""
        if self._by_column and len(self.shape) > 1:  # the numbers of a row lie apart
            on_disk = self.on_disk()
            with damage_reported(self._path), self._open() as stream:
                while stream.read(1 << 22):
                    pass
            for start in range(0, len(on_disk), rows):
                yield on_disk[start : start + rows]
            return
        with damage_reported(self._path):
            if self.dtype.hasobject:
                raise ValueError("an array of Python objects")
            stream = self._open()
        width = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        with stream:
            for start in range(0, self.shape[0], rows):
                n = min(rows, self.shape[0] - start)
                with damage_reported(self._path):
                    content = stream.read(n * width)
                    block = np.frombuffer(content, self.dtype).reshape(n, *self.shape[1:])
                yield block

    def tolist(self) -> list[Any]:
        """All of it, as lists."""
        return [value for block in self.blocks(1 << 16) for value in block.tolist()]

    def on_disk(self) -> OnDisk:
        """The rows of the array in any order, read when they are asked for; not of a compressed array."""
        info = self._archive.getinfo(f"{self._name}.npy")
        if info.compress_type != ZIP_STORED:
            raise ValueError(
                f"{self._path}: the array {self._name} is compressed, so its rows cannot be had in any order. "
                "Write it with np.savez, not np.savez_compressed, or leave out --chunk-rows."
            )
        with damage_reported(self._path), open(self._path, "rb") as stream:
            stream.seek(info.header_offset)
            lengths = struct.unpack("<26x2H", stream.read(30))  # of name and extra field, after which the member begins
            offset = info.header_offset + 30 + sum(lengths) + self._start
            if self.dtype.hasobject:
                raise ValueError("an array of Python objects")
            return OnDisk(self._path, self.shape, self.dtype, offset, self._by_column)


class OnDisk:
    """An array in a file: slices and arrays of row numbers are read when they are asked for.

    Parameters
    ----------
    path : Path
    shape, dtype : of the array
    offset : int
        Position of the first number in the file.
    by_column : bool
        Whether the numbers of a column follow each other, rather than those of a row.

    Raises
    ------
    DamagedFileError
        By every access, if the file has become shorter.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int, by_column: bool) -> None:
        self.shape, self.dtype, self.ndim = tuple(shape), dtype, len(shape)
        self._path, self._offset, self._by_column = path, offset, by_column and len(shape) > 1

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> NDArray[Any]:
        with open(self._path, "rb", buffering=0) as stream:
            if isinstance(rows, slice):
                start, stop, step = rows.indices(len(self))
                return np.ascontiguousarray(self._span(stream, start, max(start, stop))[::step])
            wanted = np.asarray(rows)
            order = np.argsort(wanted, kind="stable")
            found = np.empty((len(wanted), *self.shape[1:]), self.dtype)
            # Rows that are close together are cheaper to read with what is between them.
            near = max(1, _GAP_BYTES // max(1, self._width))
            for part in np.split(order, np.flatnonzero(np.diff(wanted[order]) > near) + 1):
                if len(part):
                    first = int(wanted[part[0]])
                    found[part] = self._span(stream, first, int(wanted[part[-1]]) + 1)[wanted[part] - first]
            return found

    @property
    def _width(self) -> int:
        """Bytes of a row."""
        return int(self.dtype.itemsize * np.prod(self.shape[1:], dtype=np.int64))

    def _span(self, stream: IO[bytes], start: int, stop: int) -> NDArray[Any]:
        """Rows from start to stop."""
        count, size = stop - start, self.dtype.itemsize
        if not self._by_column:
            content = self._read(stream, start * self._width, count * self._width)
            return np.frombuffer(content, self.dtype).reshape(count, *self.shape[1:])
        columns = int(np.prod(self.shape[1:], dtype=np.int64))
        parts = [self._read(stream, (j * len(self) + start) * size, count * size) for j in range(columns)]
        block = np.frombuffer(b"".join(parts), self.dtype).reshape(columns, count)
        return block.T.reshape((count, *self.shape[1:]), order="F")

    def _read(self, stream: IO[bytes], position: int, size: int) -> bytes:
        stream.seek(self._offset + position)
        parts = []
        while size > 0:
            part = stream.read(size)
            if not part:
                raise DamagedFileError(f"{self._path} is shorter than its arrays: it was truncated while in use.")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


@contextmanager
def members(path: Path) -> Iterator[dict[str, Member]]:
    """The arrays of an npz file by name, while the file is open."""
    with open(path, "rb") as stream:
        with damage_reported(path):
            archive = ZipFile(stream)
        with archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
            yield {name: Member(path, archive, name) for name in names}
