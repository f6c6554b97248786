"""Features on disk, found again by the content of the images and the settings; damaged files are rebuilt."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.archive import DamagedFileError, read_arrays, write_arrays

__all__ = ["cache_folder", "cached"]

_VERSION = 1
"""Raise it when features of the same settings change: old files are then no longer found."""
_LEFTOVER = 3600.0
"""Seconds after which an unfinished file is taken for that of a process that was killed."""

_log = logging.getLogger("advmetric")


def cached(
    folder: str | os.PathLike[str] | None,
    name: str,
    images: NDArray[Any],
    settings: Mapping[str, Any],
    compute: Callable[[], NDArray[Any]],
) -> NDArray[Any]:
    """The features of images: read from ``folder`` if they are there, else computed and kept.

    A file is found by SHA-256 of the images (bytes, shape, dtype), the settings and a version number. It is written
    under another name and renamed when complete, so that concurrent or killed processes leave no damaged file; one
    that is cut short or changed is noticed (checksum), logged and rebuilt. If the folder cannot be written, the
    features are returned all the same, with a warning in the log.

    Parameters
    ----------
    folder : path or None
        Where files are kept; None for :func:`cache_folder`.
    name : str
        Start of the file's name: letters, digits, "-", "_" and ".".
    images : array
        What the features are computed from.
    settings : mapping
        All that changes the features, as values that JSON can hold.
    compute : callable
        Returns the features, a row per image; called only if they are not in the folder.

    See Also
    --------
    dense_sift : Features that are worth keeping.

    Examples
    --------
    >>> import tempfile
    >>> images = np.zeros((3, 8, 8), dtype=np.uint8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for _ in range(2):
    ...         means = cached(folder, "means", images, {}, lambda: print("computed") or images.mean(axis=(1, 2)))
    computed
    """
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name):
        raise ValueError(f"name={name!r} must be letters, digits, '-', '_' and '.', for it starts a file's name.")
    images = np.asarray(images)
    if images.ndim == 0 or images.size == 0:
        raise ValueError(f"images is empty: its shape is {images.shape}.")
    key = content_key(images, settings)
    path = (cache_folder() if folder is None else Path(folder)) / f"{name}-{key}.npz"
    found = _read(path, key, len(images))
    if found is not None:
        return found
    features = np.asarray(compute())
    if features.ndim == 0 or len(features) != len(images) or features.dtype.hasobject:
        raise ValueError(
            f"compute must return an array with a row per image ({len(images)}), "
            f"got shape {features.shape} and dtype {features.dtype}."
        )
    try:
        _write(path, key, features)
    except OSError as error:
        _log.warning("features not kept in %s (%s)", path.parent, error)
    return features


def cache_folder() -> Path:
    """``advmetric`` in the user's cache folder: that of XDG_CACHE_HOME, or ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification tells to ignore relative paths.
    return (Path(home) if home and Path(home).is_absolute() else Path.home() / ".cache") / "advmetric"


def content_key(images: NDArray[Any], settings: Mapping[str, Any]) -> str:
    """SHA-256 of images, settings and version, in hexadecimal."""
    if images.dtype.hasobject:
        raise TypeError("images must be an array of numbers, got dtype object.")
    try:
        described = json.dumps([_VERSION, images.shape, images.dtype.str, settings], sort_keys=True, default=_plain)
    except TypeError as error:
        raise TypeError(f"settings must hold what JSON can: numbers, text, lists ({error}).") from error
    digest = hashlib.sha256(described.encode())
    digest.update(b"\0")
    digest.update(np.ascontiguousarray(images).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is none of these")


def _read(path: Path, key: str, rows: int) -> NDArray[Any] | None:
    """The features in a file; None, with a line in the log, if it is absent or damaged."""
    try:
        # The archive's own CRC-32 is checked while the array is read.
        arrays = read_arrays(path, ("features", "key"))
        if str(arrays["key"]) != key or arrays["features"].shape[:1] != (rows,):
            raise DamagedFileError(f"{path} holds other features than its name says.")
    except FileNotFoundError:
        return None
    except (DamagedFileError, OSError) as error:
        _log.warning("cached features are damaged (%s): computing them again", error)
        return None
    return arrays["features"]


def _write(path: Path, key: str, features: NDArray[Any]) -> None:
    """Keep features in a file, and clear away what killed processes left of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f".{path.name}.*.part"):
        if leftover.stat().st_mtime < time.time() - _LEFTOVER:
            leftover.unlink(missing_ok=True)
    write_arrays(path, {"features": features, "key": np.array(key)})
