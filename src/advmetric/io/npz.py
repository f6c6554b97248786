"""Arrays inside npz files that are not loaded: read in blocks of rows, or mapped into memory."""

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

from advmetric.pairs.batches import slices
from advmetric.utils.archive import damage_reported

__all__ = ["Member", "members"]


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
        """Yield the rows, so many at a time; zipfile checks the sum of all bytes at the end."""
        if self._by_column and len(self.shape) > 1:  # the numbers of a row lie apart
            mapped = self.mapped()
            with damage_reported(self._path), self._open() as stream:
                while stream.read(1 << 22):
                    pass
            for block, _ in slices(mapped, range(len(mapped)), rows):
                yield np.ascontiguousarray(block)
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

    def mapped(self) -> NDArray:
        """The array on disk, for any row at any time; not of a compressed one."""
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
            return np.memmap(self._path, self.dtype, "r", offset, self.shape, "F" if self._by_column else "C")


@contextmanager
def members(path: Path) -> Iterator[dict[str, Member]]:
    """The arrays of an npz file by name, while the file is open."""
    with open(path, "rb") as stream:
        with damage_reported(path):
            archive = ZipFile(stream)
        with archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
            yield {name: Member(path, archive, name) for name in names}
