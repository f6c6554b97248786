"""Archives of plain arrays, written whole or not at all."""

from __future__ import annotations

import os
import secrets
import zlib
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

__all__ = ["DAMAGE", "write_arrays"]

DAMAGE = (OSError, EOFError, KeyError, TypeError, ValueError, RuntimeError, MemoryError, BadZipFile, zlib.error)
"""What NumPy and zipfile raise on bytes that are no archive, or one with flaws."""


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write an npz file so that ``path`` is at every moment absent, the old file or the whole new one."""
    # A name of its own for each writer, and not mkstemp's: its files are closed to other users.
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with unfinished.open("xb") as stream:
            np.savez(stream, **arrays)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
