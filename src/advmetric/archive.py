"""Files of ours: a zip of plain arrays, a JSON header and a checksum over both. No pickle."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

__all__ = ["DAMAGE", "damaged", "read_archive", "whole_file", "write_archive", "write_arrays"]

Arrays = Mapping[str, NDArray[Any]]
_VERSION = 1
DAMAGE = (OSError, EOFError, KeyError, TypeError, ValueError, RuntimeError, MemoryError, BadZipFile, zlib.error)
"""What NumPy and zipfile raise on bytes that are no archive, or one with flaws."""


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A stream to a file that is at every moment absent, the old one or the whole new one."""
    target = Path(path)
    # A name of its own for each writer, and not mkstemp's: its files are closed to other users.
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    try:
        with unfinished.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(unfinished, target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_arrays(path: str | os.PathLike[str], arrays: Arrays) -> None:
    """Write an npz file, whole or not at all."""
    contents: dict[str, Any] = dict(arrays)
    with whole_file(path) as stream:
        np.savez(stream, **contents)


def write_archive(path: str | os.PathLike[str], kind: str, facts: Mapping[str, Any], arrays: Arrays) -> None:
    """Write the facts (what JSON can hold) and arrays that a thing of some kind ("a metric") consists of."""
    header = {"format": _format(kind), "version": _VERSION, **facts}
    header["sha256"] = _digest(header, arrays)
    write_arrays(path, {"header": np.array(json.dumps(header)), **arrays})


def read_archive(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The facts and arrays that :func:`write_archive` wrote.

    Raises
    ------
    ValueError
        If the file is none of that kind, was changed or cut short, or comes from a newer version.
    """
    with open(path, "rb") as stream:
        try:
            with np.load(stream, allow_pickle=False) as archive:
                header = json.loads(str(archive["header"]))
                if header["format"] != _format(kind):
                    raise ValueError("another format")
                version, checksum = int(header["version"]), header.pop("sha256")
                names = [name for name in archive.files if name != "header"] if version == _VERSION else []
                arrays = {name: archive[name] for name in names}
        except DAMAGE as error:
            raise damaged(path, kind, error) from error
    if version != _VERSION:
        raise ValueError(f"{path} was saved by a newer advmetric (format {version}); please upgrade to read it.")
    if checksum != _digest(header, arrays):
        raise ValueError(f"{path} was changed after it was saved: its checksum does not match.")
    return header, arrays


def damaged(path: str | os.PathLike[str], kind: str, error: Exception) -> ValueError:
    """What to raise about a file that makes no sense."""
    return ValueError(f"{path} is not {kind} saved by advmetric, or it is damaged ({error}).")


def _format(kind: str) -> str:
    return f"advmetric-{kind.split()[-1]}"


def _digest(header: Mapping[str, Any], arrays: Arrays) -> str:
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()
