"""Read and write npz files: atomic writes, one reader, and archives with a JSON header and a checksum. No pickle."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "DamagedFileError",
    "atomic_write",
    "check_digest",
    "damage_reported",
    "digest",
    "open_npz",
    "read_archive",
    "read_arrays",
    "take_checksum",
    "write_archive",
    "write_arrays",
]

Arrays = Mapping[str, NDArray[Any]]
_VERSION = 1
_DEFLATE_RATIO = 1032
"""Deflate cannot compress by a larger factor."""


class DamagedFileError(ValueError):
    """A file does not hold what it should: it is damaged, truncated, or of another format."""


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a stream whose content replaces the file at the end of the block.

    At every moment the path holds nothing, the old file or the complete new file.
    """
    target = Path(path)
    # Not mkstemp, whose files other users cannot read.
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    try:
        with unfinished.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(unfinished, target)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        if error.filename is None or str(error.filename) == str(unfinished):
            # "No space left on device" has no file name, and the temporary one would mean nothing to the user.
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


@contextmanager
def damage_reported(path: str | os.PathLike[str], kind: str = "an npz file of plain arrays") -> Iterator[None]:
    """Turn every error of parsing a file into a DamagedFileError that names the file.

    Zip directories, npy headers and JSON from a damaged file make the parsers raise nearly anything (SyntaxError,
    OverflowError, MemoryError, …), so all exceptions count. Only parse inside the block.
    """
    try:
        yield
    except (DamagedFileError, ImportError):
        raise
    except Exception as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        if "allow_pickle" in reason:
            reason = "it contains Python objects"
        raise DamagedFileError(f"{path} is not {kind}, or it is damaged ({reason}).") from error


@contextmanager
def open_npz(
    path: str | os.PathLike[str], kind: str = "an npz file of plain arrays", *, compressed: bool = True
) -> Iterator[Any]:
    """Open an npz file; yield numpy's NpzFile. Sizes that the file cannot hold are refused first.

    With ``compressed=False``, members that unpack to more bytes than they take in the file are refused as well.
    """
    with open(path, "rb") as stream, damage_reported(path, kind):
        if stream.read(2) != b"PK":
            raise ValueError("not a zip archive")
        stream.seek(0)
        _check_sizes(stream, _DEFLATE_RATIO if compressed else 1)
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as archive:
            yield archive


def _check_sizes(stream: IO[bytes], most: int) -> None:
    """Raise if a member claims to be larger than ``most`` times its compressed bytes, or all of them than the file."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    with ZipFile(stream) as directory:
        if sum(member.compress_size for member in directory.infolist()) > size:
            raise ValueError("its arrays overlap")
        for member in directory.infolist():
            factor = 1 if member.compress_type == ZIP_STORED else most
            if member.compress_size > size or member.file_size > factor * member.compress_size:
                raise ValueError(f"the array {member.filename} claims {member.file_size} bytes, more than it can hold")
            with directory.open(member) as content:
                if content.read(6) != b"\x93NUMPY":
                    raise ValueError(f"{member.filename} is not an array")
                content.seek(0)
                version = np.lib.format.read_magic(content)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(content)
                if dtype.hasobject:
                    raise ValueError(f"the array {member.filename} contains Python objects")
                count = 1
                for length in shape:
                    count *= int(length)
                if min(shape, default=0) < 0 or count * dtype.itemsize > member.file_size:
                    raise ValueError(f"the array {member.filename} claims the shape {shape}, more than it can hold")


def read_arrays(
    path: str | os.PathLike[str],
    names: Sequence[str] | None = None,
    kind: str = "an npz file of plain arrays",
    *,
    compressed: bool = True,
) -> dict[str, NDArray[Any]]:
    """Read the arrays of an npz file: those named, or all.

    Raises
    ------
    DamagedFileError
        If the file is damaged, is not an npz file, or lacks a named array.
    OSError
        If it cannot be opened.
    """
    with open_npz(path, kind, compressed=compressed) as archive:
        wanted = list(archive.files) if names is None else list(names)
        absent = [name for name in wanted if name not in archive.files]
        if absent:
            raise ValueError(f"it has no array {absent[0]!r}")
        return {name: archive[name] for name in wanted}


def write_arrays(path: str | os.PathLike[str], arrays: Arrays) -> None:
    """Write an npz file atomically."""
    contents: dict[str, Any] = dict(arrays)
    with atomic_write(path) as stream:
        np.savez(stream, **contents)


def write_archive(path: str | os.PathLike[str], kind: str, facts: Mapping[str, Any], arrays: Arrays) -> None:
    """Write an archive: facts (anything JSON can hold) and arrays of an object of some kind ("a metric")."""
    header = {"format": _format(kind), "version": _VERSION, **facts}
    header["sha256"] = _digest(header, arrays)
    write_arrays(path, {"header": np.array(json.dumps(header)), **arrays})


@contextmanager
def read_archive(path: str | os.PathLike[str], kind: str) -> Iterator[tuple[dict[str, Any], dict[str, NDArray[Any]]]]:
    """Read the facts and arrays that :func:`write_archive` wrote.

    A context manager: build the object inside the block, so that facts that make no sense are reported as damage too.

    Raises
    ------
    DamagedFileError
        If the file is of another kind, was changed or truncated, or comes from a newer version.
    """
    described = f"{kind} saved by advmetric"
    # write_archive does not compress: a member that expands is not ours, and may be meant to fill the memory.
    arrays = read_arrays(path, kind=described, compressed=False)
    with damage_reported(path, described):
        header = json.loads(str(arrays.pop("header")))
        checksum = take_checksum(path, header, _format(kind), _VERSION)
        check_digest(path, _digest(header, arrays), checksum)
        yield header, arrays


def _format(kind: str) -> str:
    return f"advmetric-{kind.split()[-1]}"


def _digest(header: Mapping[str, Any], arrays: Arrays) -> str:
    return digest(
        header,
        (
            (f"{name} {array.dtype.str} {array.shape}", np.ascontiguousarray(array).data)
            for name, array in sorted(arrays.items())
        ),
    )


# --- checksums, of these files and of others with a JSON header -----------------------------------------


def digest(header: Mapping[str, Any], parts: Iterable[tuple[str, Any]]) -> str:
    """SHA-256 of a header that JSON can hold, and of a description and a buffer for each part."""
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for described, buffer in parts:
        total.update(described.encode())
        total.update(buffer)
    return total.hexdigest()


def take_checksum(path: str | os.PathLike[str], header: dict[str, Any], form: str, version: int) -> str:
    """Remove the checksum from a header and return it; raise if the header is of another format or version."""
    if header["format"] != form:
        raise ValueError("another format")
    found, checksum = int(header["version"]), str(header.pop("sha256"))
    if found != version:
        raise DamagedFileError(f"{path} was saved by a newer advmetric (format {found}); please upgrade to read it.")
    return checksum


def check_digest(path: str | os.PathLike[str], found: str, checksum: str) -> None:
    """Raise DamagedFileError if what was read is not what was saved."""
    if found != checksum:
        raise DamagedFileError(f"{path} was changed after it was saved: its checksum does not match.")
