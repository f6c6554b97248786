"""The file of an index: a zip of plain arrays, a JSON header and a checksum over both; no pickle."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .metric import DAMAGE, write_archive

__all__ = ["read_index", "write_index"]

_FORMAT = "advmetric-index"
_VERSION = 1


def write_index(path: str | os.PathLike[str], facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write what an index consists of, atomically."""
    header = {"format": _FORMAT, "version": _VERSION, **facts}
    write_archive(path, header | {"sha256": _digest(header, arrays)}, **arrays)


def read_index(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The facts and arrays that :func:`write_index` wrote; ValueError if they are not what was written."""
    with open(path, "rb") as stream:
        try:
            with np.load(stream, allow_pickle=False) as archive:
                header = json.loads(str(archive["header"]))
                if header["format"] != _FORMAT:
                    raise ValueError("another format")
                version = int(header["version"])
                checksum = header.pop("sha256")
                arrays = {name: archive[name] for name in archive.files if name != "header"}
        except DAMAGE as error:
            raise ValueError(f"{path} is not an index saved by advmetric, or it is damaged ({error}).") from error
    if version != _VERSION:
        raise ValueError(f"{path} was saved by a newer advmetric (format {version}); please upgrade to read it.")
    if checksum != _digest(header, arrays):
        raise ValueError(f"{path} was changed after it was saved: its checksum does not match.")
    return header, arrays


def _digest(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()
